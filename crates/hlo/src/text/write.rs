//! Parts of a tree as text.

use std::fmt::Write;

use super::tree::Named;

/// `{name = value, name}`.
pub(super) fn dictionary(entries: &[Named]) -> String {
    let mut out = String::from("{");
    for (i, Named { name, value, .. }) in entries.iter().enumerate() {
        out.push_str(if i == 0 { "" } else { ", " });
        let word = |byte: u8| byte.is_ascii_alphanumeric() || b"_$.".contains(&byte);
        match name.bytes().all(word) {
            true => out.push_str(name),
            false => {
                let _ = write!(out, "\"{name}\"");
            }
        }
        if value != "unit" {
            let _ = write!(out, " = {value}");
        }
    }
    out.push('}');
    out
}
