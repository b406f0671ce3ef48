use std::fmt;

/// Segments that wrappers put into the names of what they wrap, at any depth.
const WRAPPERS: [&str; 4] =
    ["_orig_module", "_fsdp_wrapped_module", "_checkpoint_wrapped_module", "_orig_mod"];

/// The name a tensor has without wrappers, where that is another one.
///
/// `module` is only a wrapper's at the front (`DataParallel`); further in it may be the model's own.
pub(crate) fn unwrapped(name: &str) -> Option<String> {
    let kept: Vec<&str> = name
        .split('.')
        .filter(|segment| !WRAPPERS.contains(segment))
        .skip_while(|segment| *segment == "module")
        .collect();
    let kept = kept.join(".");
    (!kept.is_empty() && kept != name).then_some(kept)
}

/// The first few of some names, and how many more there are.
pub(crate) struct Few<'a, T>(pub(crate) &'a [T]);

impl<T: fmt::Display> fmt::Display for Few<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 5;
        for (i, name) in self.0.iter().take(SHOWN).enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            write!(f, "{comma}{name}")?;
        }
        match self.0.len().checked_sub(SHOWN) {
            Some(more @ 1..) => write!(f, " and {more} more"),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrappers_go_at_every_level_and_module_only_at_the_front() {
        let cases = [
            (
                "_orig_module.model.layers.0._orig_module.mlp.up_proj.weight",
                Some("model.layers.0.mlp.up_proj.weight"),
            ),
            ("module.module._fsdp_wrapped_module.lm_head.weight", Some("lm_head.weight")),
            ("model.module.weight", None),
            ("model.norm.weight", None),
            ("_orig_module", None),
        ];
        for (name, expected) in cases {
            assert_eq!(unwrapped(name).as_deref(), expected, "{name}");
        }
    }
}
