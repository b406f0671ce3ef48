//! Settings that are understood and cannot be met yet.

use super::super::failure::Failure;
use super::super::settings::Settings;

/// Refuses what cannot be met yet.
pub(super) fn check(settings: &Settings) -> Result<(), Failure> {
    let _ = settings;
    Ok(())
}
