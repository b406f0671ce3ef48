//! Patterns over the modules of a model.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// Names modules by words between dots, as in `layers.*.self_attn.q_proj`.
///
/// A `*` in a word stands for any letters, so one alone stands for any word. A pattern may leave out the words before
/// its first and covers whatever lies inside what it names: `mlp` covers `model.layers.3.mlp`, its
/// `up_proj`, and that one's `weight`.
///
/// ```
/// use shardwright_partition::ModulePattern;
///
/// let pattern: ModulePattern = "layers.*.mlp".parse()?;
/// assert!(pattern.covers("model.layers.12.mlp.up_proj.weight"));
/// assert!(!pattern.covers("model.layers.12.self_attn"));
/// # Ok::<(), shardwright_partition::PatternError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ModulePattern {
    words: Vec<String>,
}

/// Text that is no pattern.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("pattern {text:?} has an empty word; a pattern is words between dots, such as layers.*.mlp")]
pub struct PatternError {
    text: String,
}

impl ModulePattern {
    /// Whether the pattern names the module or parameter at `path`, or one that it lies in.
    pub fn covers(&self, path: &str) -> bool {
        let path: Vec<&str> = path.split('.').collect();
        let matches = |part: &[&str]| self.words.iter().zip(part).all(|(word, name)| glob(word, name));
        path.windows(self.words.len()).any(matches)
    }
}

/// Whether `text` is `pattern` with each `*` replaced by some text. Takes time in proportion to the product of the
/// lengths at most.
pub fn glob(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut p, mut t) = (0, 0);
    // What follows the last `*`, and where in the text that was tried.
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        if pattern.get(p) == Some(&b'*') {
            star = Some((p + 1, t));
            p += 1;
        } else if pattern.get(p) == Some(&text[t]) {
            (p, t) = (p + 1, t + 1);
        } else if let Some((after, tried)) = star {
            star = Some((after, tried + 1));
            (p, t) = (after, tried + 1);
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|&c| c == b'*')
}

impl FromStr for ModulePattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<ModulePattern, PatternError> {
        let words: Vec<String> = text.trim().split('.').map(str::to_owned).collect();
        if words.iter().any(String::is_empty) {
            return Err(PatternError { text: text.to_owned() });
        }
        Ok(ModulePattern { words })
    }
}

impl fmt::Display for ModulePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words.join("."))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &str, covered: &[&str], others: &[&str]) {
        let parsed: ModulePattern = pattern.parse().unwrap();
        assert_eq!(parsed.to_string(), pattern);
        for path in covered {
            assert!(parsed.covers(path), "{pattern} should cover {path}");
        }
        for path in others {
            assert!(!parsed.covers(path), "{pattern} should not cover {path}");
        }
    }

    #[test]
    fn patterns_cover_modules_and_what_lies_inside() {
        check("lm_head", &["lm_head", "lm_head.weight", "model.lm_head"], &["lm_heads", "model", ""]);
        check(
            "layers.*.mlp",
            &["model.layers.10.mlp", "layers.0.mlp.up_proj.bias"],
            &["model.layers.mlp", "layers.0.self_attn.mlp", "layers.0"],
        );
        check("*", &["", "a", "a.b"], &[]);
        check("*_proj", &["mlp.up_proj", "_proj.weight"], &["up_proj_2", "proj"]);
        check("a*b*c", &["abc", "axxbyyc", "abbcc"], &["ac", "abcd", "xabc"]);
        check("a*a", &["aa", "axa"], &["a"]);
    }

    #[test]
    fn a_star_is_any_text() {
        let check = |pattern, text, expected| assert_eq!(glob(pattern, text), expected, "{pattern} {text}");
        check("a", "a", true);
        check("a", "ab", false);
        check("*", "", true);
        check("a*c", "abc", true);
        check("a*c", "ac", true);
        check("ab*b", "ab", false);
        check("params[*]['w']", "params[0]['w']", true);
        check("params[*]['w']", "params[0]['b']", false);
        check("*x*y*", "axbyc", true);
        check("*x*y*", "aybxc", false);
    }

    #[test]
    fn words_are_not_empty() {
        for text in ["", ".*head", "a..b", "layers."] {
            let error = text.parse::<ModulePattern>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("pattern {text:?} has an empty word")), "{error}");
        }
    }
}
