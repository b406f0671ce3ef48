//! One fact with a verdict, and how a list of them is shown.

use std::fmt::Display;

use serde::Serialize;

/// A fact about this machine, and whether it stands in the way of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Check {
    /// What it is about: `plugin`, `devices`, `cache`, `machine`, `environment`.
    pub(super) section: &'static str,
    pub(super) name: String,
    pub(super) status: Status,
    pub(super) text: String,
    /// What to do about it.
    pub(super) next: Option<String>,
}

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Status {
    /// As it should be, or a mere fact.
    Ok,
    /// A run may work.
    Warning,
    /// No run can work.
    Problem,
}

impl Check {
    pub(super) fn ok(section: &'static str, name: impl Into<String>, text: impl Display) -> Check {
        Check { section, name: name.into(), status: Status::Ok, text: text.to_string(), next: None }
    }

    /// `next` is empty where the text says it already.
    pub(super) fn warning(section: &'static str, name: &str, text: &str, next: &str) -> Check {
        let next = Some(next.to_owned()).filter(|next| !next.is_empty());
        Check { status: Status::Warning, next, ..Check::ok(section, name, text) }
    }

    /// `next` is empty where the text says it already.
    pub(super) fn problem(section: &'static str, name: &str, text: &str, next: &str) -> Check {
        Check { status: Status::Problem, ..Check::warning(section, name, text, next) }
    }
}

impl Check {
    /// Verdict, name and text in columns, the name's of this width, and below the text what to do.
    fn lines(&self, width: usize, in_colour: bool) -> Vec<String> {
        let word = format!("{:7}", self.status.word());
        let indent = " ".repeat(2 + word.len() + 2 + width + 2);
        let word = if in_colour { format!("{}{word}\x1b[0m", self.status.colour()) } else { word };
        let mut texts = self.text.lines();
        let mut lines = vec![format!("  {word}  {:width$}  {}", self.name, texts.next().unwrap_or_default())];
        lines.extend(texts.map(|text| format!("{indent}{text}")));
        lines.extend(self.next.iter().map(|next| format!("{indent}next: {next}")));
        lines
    }
}

impl Status {
    fn word(self) -> &'static str {
        match self {
            Status::Ok => "ok",
            Status::Warning => "warning",
            Status::Problem => "problem",
        }
    }

    /// Green, yellow and red, as terminals want them.
    fn colour(self) -> &'static str {
        match self {
            Status::Ok => "\x1b[32m",
            Status::Warning => "\x1b[33m",
            Status::Problem => "\x1b[1;31m",
        }
    }
}

/// The checks below the names of their sections, in columns, and a verdict as the last line.
pub(super) fn lines(checks: &[Check], in_colour: bool) -> Vec<String> {
    let mut lines = Vec::new();
    for section in checks.chunk_by(|a, b| a.section == b.section) {
        let width = section.iter().map(|check| check.name.chars().count()).max().unwrap_or(0);
        lines.push(section[0].section.to_owned());
        section.iter().for_each(|check| lines.extend(check.lines(width, in_colour)));
    }
    lines.push(verdict(checks));
    lines
}

fn verdict(checks: &[Check]) -> String {
    let count = |status: Status| checks.iter().filter(|check| check.status == status).count();
    let some = |count: usize, word: &str| format!("{count} {word}{}", if count == 1 { "" } else { "s" });
    match (count(Status::Problem), count(Status::Warning)) {
        (0, 0) => "healthy".to_owned(),
        (0, warnings) => format!("healthy, with {}", some(warnings, "warning")),
        (problems, warnings) => format!("{}, {}", some(problems, "problem"), some(warnings, "warning")),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn checks_stand_in_columns_below_their_sections() {
        let checks = [
            Check::ok("plugin", "file", "/p.so"),
            Check::problem("plugin", "loading", "it crashed\n  last words", "take another"),
            Check::problem("plugin", "api", "no", ""),
            Check::warning("machine", "cores", "2", "buy more"),
        ];
        expect![[r#"
            plugin
              ok       file     /p.so
              problem  loading  it crashed
                                  last words
                                next: take another
              problem  api      no
            machine
              warning  cores  2
                              next: buy more
            2 problems, 1 warning"#]]
        .assert_eq(&lines(&checks, false).join("\n"));
        assert_eq!(lines(&checks[..1], false).last().unwrap(), "healthy");
        assert_eq!(lines(&checks[3..], false).last().unwrap(), "healthy, with 1 warning");
        assert!(lines(&checks, true)[1].contains("\x1b[32mok     \x1b[0m  file"));
    }
}
