//! The block of figures at the end of a run, as Hugging Face's Trainer prints it.

/// A figure, by what decides how it is printed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Figure {
    /// A number of things.
    Count(u64),
    /// Any other number.
    Number(f64),
    /// A stretch of time in seconds.
    Seconds(f64),
    /// A number of floating-point operations.
    Flops(f64),
}

/// `***** train metrics *****` and the figures, sorted by name, names and values aligned.
pub(super) fn block(split: &str, figures: &[(&str, Figure)]) -> String {
    let mut rows: Vec<(&str, String)> = figures.iter().map(|(name, figure)| (*name, figure.text())).collect();
    rows.sort();
    let widest = |lengths: &mut dyn Iterator<Item = usize>| lengths.max().unwrap_or(0);
    let name_width = widest(&mut rows.iter().map(|(name, _)| name.len()));
    let value_width = widest(&mut rows.iter().map(|(_, value)| value.len()));
    let rows = rows.iter().map(|(name, value)| format!("\n  {name:name_width$} = {value:>value_width$}"));
    format!("***** {split} metrics *****{}", rows.collect::<String>())
}

impl Figure {
    fn text(self) -> String {
        match self {
            Figure::Count(count) => count.to_string(),
            // `{:?}` is the shortest text of a number, with at least one place.
            Figure::Number(number) => format!("{:?}", (number * 1e4).round() / 1e4),
            Figure::Seconds(seconds) => clock(seconds),
            Figure::Flops(flops) => format!("{}GF", (flops / (1 << 30) as f64).floor()),
        }
    }
}

/// `h:mm:ss.ss`, the last places cut and not rounded.
fn clock(seconds: f64) -> String {
    let hundredths = (seconds.max(0.0) * 100.0) as u64;
    let (whole, hundredths) = (hundredths / 100, hundredths % 100);
    format!("{}:{:02}:{:02}.{hundredths:02}", whole / 3600, whole / 60 % 60, whole % 60)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn the_block_is_sorted_and_aligned() {
        let figures = [
            ("train_runtime", Figure::Seconds(83.456)),
            ("epoch", Figure::Number(3.0)),
            ("train_loss", Figure::Number(2.34567)),
            ("total_flos", Figure::Flops(94.7 * (1u64 << 30) as f64)),
            ("train_samples", Figure::Count(1234)),
            ("train_steps_per_second", Figure::Number(0.00001)),
        ];
        expect![[r#"
            ***** train metrics *****
              epoch                  =        3.0
              total_flos             =       94GF
              train_loss             =     2.3457
              train_runtime          = 0:01:23.45
              train_samples          =       1234
              train_steps_per_second =        0.0"#]]
        .assert_eq(&block("train", &figures));
    }

    #[test]
    fn long_runs_count_hours() {
        assert_eq!(clock(100_000.999), "27:46:40.99");
        assert_eq!(clock(0.0), "0:00:00.00");
    }
}
