//! Names that were mistyped.

/// How alike two names are at least when one is taken for the other.
const ALIKE: f64 = 0.85;

/// What is wrong with a setting of `command` called `name`, of which `known` has none, and what to write instead.
/// `dashes` go before the name of another setting.
pub(super) fn explain_unknown(name: &str, dashes: &str, known: &[&str], command: &str) -> String {
    match nearest(name, known) {
        Some(nearest) => format!("is unknown; did you mean {dashes}{nearest}?"),
        None => format!("is unknown; `shardwright {command} --help` lists the settings"),
    }
}

/// The name most like `given`, unless none is like it.
pub(super) fn nearest<'a>(given: &str, known: &[&'a str]) -> Option<&'a str> {
    let given = given.to_lowercase();
    // `batch_size` is much of `per_device_train_batch_size`, which edit distances do not see.
    let is_part = |name: &str| given.len() >= 4 && name.contains(&given);
    let likeness =
        |name: &str| strsim::jaro_winkler(&given, name).max(if is_part(name) { ALIKE } else { 0.0 });
    // Of equals, the first: that is the last from behind.
    let scored = known.iter().rev().map(|&name| (likeness(name), name));
    let (score, best) = scored.max_by(|(a, _), (b, _)| a.total_cmp(b))?;
    (score >= ALIKE).then_some(best)
}

#[cfg(test)]
mod tests {
    use super::super::settings;
    use super::*;

    #[test]
    fn near_names_are_offered_and_far_ones_are_not() {
        let check = |given, expect| assert_eq!(nearest(given, &settings::names()), expect, "{given}");
        check("learning_rat", Some("learning_rate"));
        check("per_device_batch_size", Some("per_device_train_batch_size"));
        check("batch_size", Some("per_device_train_batch_size"));
        check("epochs", Some("num_train_epochs"));
        check("Mesh", Some("mesh"));
        check("quux", None);
        check("", None);
    }
}
