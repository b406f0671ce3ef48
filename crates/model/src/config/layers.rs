//! Which layers look at a window, and at how large a one.

use super::meaning::size;
use super::raw::RawConfig;
use super::{ConfigProblem, LayerKind};
use crate::family::{DEFAULT_MAX_WINDOW_LAYERS, DEFAULT_SLIDING_WINDOW, Traits, Windows};

/// The largest window, and the longest pattern.
const LARGEST: usize = 1 << 31;

/// The kind of each layer, and the window, if there is one in use.
pub(super) fn layers(
    raw: &RawConfig,
    traits: &Traits,
    count: usize,
) -> Result<(Vec<LayerKind>, Option<usize>), ConfigProblem> {
    let window = sliding_window(raw, traits)?;
    let usual = usual_kinds(raw, traits, window.is_some(), count)?;
    let kinds = match &raw.layer_types {
        Some(names) => named_kinds(names, traits, &usual)?,
        None => usual,
    };
    if window.is_none() && kinds.contains(&LayerKind::Sliding) {
        return Err(no_window(raw, traits));
    }
    Ok((kinds, window))
}

fn sliding_window(raw: &RawConfig, traits: &Traits) -> Result<Option<usize>, ConfigProblem> {
    let is_in_use = match traits.windows {
        Windows::Never => false,
        Windows::Always | Windows::AllButEvery(_) => true,
        Windows::Later => raw.use_sliding_window == Some(true),
    };
    let window = raw.sliding_window.or(Some(DEFAULT_SLIDING_WINDOW)).filter(|_| is_in_use);
    window.map(|window| size("sliding_window", window, LARGEST)).transpose()
}

/// The kinds where the configuration does not list them.
fn usual_kinds(
    raw: &RawConfig,
    traits: &Traits,
    has_window: bool,
    count: usize,
) -> Result<Vec<LayerKind>, ConfigProblem> {
    if let Some(pattern) = raw.sliding_window_pattern {
        size("sliding_window_pattern", pattern, LARGEST)?;
    }
    let slides = |index: usize| match traits.windows {
        Windows::Never => false,
        Windows::Always => has_window,
        Windows::Later => has_window && index >= raw.max_window_layers.unwrap_or(DEFAULT_MAX_WINDOW_LAYERS),
        Windows::AllButEvery(n) => !(index + 1).is_multiple_of(raw.sliding_window_pattern.unwrap_or(n)),
    };
    let kind = |index| if slides(index) { LayerKind::Sliding } else { LayerKind::Full };
    Ok((0..count).map(kind).collect())
}

/// The kinds in `layer_types`, which only some families can choose.
fn named_kinds(
    names: &[String],
    traits: &Traits,
    usual: &[LayerKind],
) -> Result<Vec<LayerKind>, ConfigProblem> {
    let unsupported = |found, supported: String| ConfigProblem::unsupported("layer_types", found, supported);
    let kind = |name: &String| {
        let known = LayerKind::ALL.into_iter().find(|kind| kind.name() == name);
        known.ok_or_else(|| {
            unsupported(format!("{name:?} for a layer"), LayerKind::ALL.map(LayerKind::name).join(", "))
        })
    };
    let kinds: Vec<LayerKind> = names.iter().map(kind).collect::<Result<_, _>>()?;
    if kinds.len() != usual.len() {
        let supported = format!("as many as num_hidden_layers, which is {}", usual.len());
        return Err(unsupported(format!("a list of {}", kinds.len()), supported));
    }
    let can_choose = matches!(traits.windows, Windows::Later | Windows::AllButEvery(_));
    if can_choose || kinds == usual {
        return Ok(kinds);
    }
    let all = usual[0].name();
    let supported = format!("{all} for all layers in a model of type {}", traits.model_type);
    Err(unsupported(format!("{names:?}"), supported))
}

/// That layers are to look at a window, and there is none.
fn no_window(raw: &RawConfig, traits: &Traits) -> ConfigProblem {
    let needs = |what| format!("{what}, since there are layers of {}", LayerKind::Sliding.name());
    match traits.windows {
        Windows::Later if raw.use_sliding_window != Some(true) => {
            ConfigProblem::unsupported("use_sliding_window", false, needs("true"))
        }
        _ => ConfigProblem::unsupported("sliding_window", "null", needs("a number of positions")),
    }
}
