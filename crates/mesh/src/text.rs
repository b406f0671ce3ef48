//! What the grammars of Shardy and HLO have in common: a scanner that says where a text goes wrong.

use crate::axis::hint;
use crate::{AbstractMesh, AxisName, MeshError};

/// Of at most so many devices lists are made: a few characters can count more than memory holds.
pub(crate) const MAX_LISTED: usize = 1 << 20;

/// Around names in HLO, where they may also stand without.
pub(crate) const HLO_QUOTE: char = '\'';
/// Around names in Shardy.
pub(crate) const SDY_QUOTE: char = '"';

/// How much of a text an error shows on either side of the place.
const EXCERPT: usize = 40;

/// Text that is not what its grammar asks for, or that contradicts itself.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TextError {
    /// Something else has to stand at this place.
    #[error("{grammar} {excerpt:?}: expected {expected} at byte {offset}, found {found}")]
    Unexpected {
        /// What the text should have been.
        grammar: &'static str,
        /// The text around the place.
        excerpt: String,
        /// The place, in bytes from the start.
        offset: usize,
        /// What may stand there.
        expected: &'static str,
        /// What stands there.
        found: String,
    },
    /// The text has a mesh that can't be.
    #[error(transparent)]
    Mesh(#[from] MeshError),
    /// The text speaks of more devices than are read.
    #[error("the text speaks of more than {max} devices")]
    TooManyDevices {
        /// How many a text may have.
        max: usize,
    },
    /// Two parts of the text differ in the number of devices.
    #[error("the tiles or groups take {expected} devices, but {found} are listed or counted")]
    DeviceCount {
        /// The product of the tile or group sizes.
        expected: usize,
        /// The devices of the list, or of the counted array.
        found: usize,
    },
    /// A device is listed twice.
    #[error("device {device} is listed twice")]
    DuplicateDevice {
        /// The device.
        device: usize,
    },
    /// A size is zero.
    #[error("sizes [{}]: a size is at least 1", clip(&join(sizes)))]
    ZeroSize {
        /// The sizes in which it is.
        sizes: Vec<usize>,
    },
    /// The numbers behind `T` are not the dims before it.
    #[error("T({}) does not name each of the {n_dims} dims before it once", clip(&join(permutation)))]
    Permutation {
        /// The numbers.
        permutation: Vec<usize>,
        /// How many dims there are to permute.
        n_dims: usize,
    },
    /// An axis is named that the mesh of the text lacks.
    #[error("axis {} is not in mesh {mesh}{}", clip(axis), hint(axis, mesh))]
    UnknownAxis {
        /// The axis.
        axis: AxisName,
        /// The mesh of the text.
        mesh: AbstractMesh,
    },
    /// Part of an axis is named that it does not have.
    #[error(
        "{sub_axis} is no sub-axis: (m)k needs m at least 1, k at least 2, and an axis size that m·k divides"
    )]
    SubAxis {
        /// The sub-axis as it is written.
        sub_axis: String,
    },
    /// Two uses of an axis overlap, or no axis has both as parts.
    #[error("axis {axis} is used twice, in parts that overlap or do not fit side by side")]
    Overlap {
        /// The axis.
        axis: AxisName,
    },
}

/// Reads a text from left to right. Blanks before a token are skipped.
#[derive(Clone, Copy)]
pub(crate) struct Scanner<'t> {
    grammar: &'static str,
    quote: char,
    text: &'t str,
    offset: usize,
}

impl<'t> Scanner<'t> {
    /// At the start of `text`, which an error calls a `grammar`. Names are in quotes of this kind.
    pub(crate) fn new(grammar: &'static str, quote: char, text: &'t str) -> Self {
        Self { grammar, quote, text, offset: 0 }
    }

    fn rest(&mut self) -> &'t str {
        let rest = self.text[self.offset..].trim_start();
        self.offset = self.text.len() - rest.len();
        rest
    }

    /// Whether `token` comes next; it stays.
    pub(crate) fn sees(&mut self, token: &str) -> bool {
        self.rest().starts_with(token)
    }

    /// Takes `token` if it comes next.
    pub(crate) fn eats(&mut self, token: &str) -> bool {
        let sees = self.sees(token);
        self.offset += if sees { token.len() } else { 0 };
        sees
    }

    /// Takes `token`; `expected` is what an error calls it.
    pub(crate) fn expect(&mut self, token: &str, expected: &'static str) -> Result<(), TextError> {
        if self.eats(token) { Ok(()) } else { Err(self.unexpected(expected)) }
    }

    /// Takes what is left, which has to be nothing.
    pub(crate) fn end(mut self) -> Result<(), TextError> {
        if self.rest().is_empty() { Ok(()) } else { Err(self.unexpected("the end")) }
    }

    /// Takes the longest run of characters that `is_part`.
    pub(crate) fn run(&mut self, is_part: impl Fn(char) -> bool) -> &'t str {
        let rest = self.rest();
        let run = &rest[..rest.find(|c| !is_part(c)).unwrap_or(rest.len())];
        self.offset += run.len();
        run
    }

    /// Takes a decimal number.
    pub(crate) fn number(&mut self) -> Result<usize, TextError> {
        self.rest();
        let start = self.offset;
        let digits = self.run(|c| c.is_ascii_digit());
        digits.parse().map_err(|_| {
            self.offset = start;
            self.unexpected(if digits.is_empty() { "a number" } else { "a number that is not so large" })
        })
    }

    /// Takes what stands between quotes, if a quote comes next. Blanks in it count.
    pub(crate) fn quoted(&mut self) -> Result<Option<&'t str>, TextError> {
        if !self.eats(self.quote.encode_utf8(&mut [0; 4])) {
            return Ok(None);
        }
        let rest = &self.text[self.offset..];
        let Some(len) = rest.find(self.quote) else { return Err(self.unexpected("a closing quote")) };
        self.offset += len + 1;
        Ok(Some(&rest[..len]))
    }

    /// Takes what is left of a string of double quotes, in which a backslash escapes.
    pub(crate) fn string_end(&mut self) -> Result<(), TextError> {
        let mut is_escaped = false;
        for (idx, c) in self.text[self.offset..].char_indices() {
            match c {
                '"' if !is_escaped => {
                    self.offset += idx + 1;
                    return Ok(());
                }
                _ => is_escaped = c == '\\' && !is_escaped,
            }
        }
        self.offset = self.text.len();
        Err(self.unexpected("a closing quote"))
    }

    /// Takes the name of an axis, in quotes or, in HLO, without.
    pub(crate) fn axis_name(&mut self) -> Result<AxisName, TextError> {
        let name = match self.quoted()? {
            Some(name) => name,
            None if self.quote == HLO_QUOTE => self.run(|c| c.is_ascii_alphanumeric() || "_-.".contains(c)),
            None => "",
        };
        let axis = AxisName::from(name);
        match name {
            "" => Err(self.unexpected("the name of an axis")),
            _ if axis.is_valid() => Ok(axis),
            _ => Err(MeshError::InvalidAxisName { name: axis }.into()),
        }
    }

    /// Takes items with commas between them up to `close`, which is taken too. There may be none.
    pub(crate) fn list<T>(
        &mut self,
        close: &'static str,
        mut item: impl FnMut(&mut Self) -> Result<T, TextError>,
    ) -> Result<Vec<T>, TextError> {
        let mut items = Vec::new();
        if self.eats(close) {
            return Ok(items);
        }
        loop {
            items.push(item(self)?);
            if self.eats(close) {
                return Ok(items);
            }
            self.expect(",", comma_or(close))?;
        }
    }

    /// The error that something else than `expected` comes next.
    pub(crate) fn unexpected(&mut self, expected: &'static str) -> TextError {
        let found = self.rest().chars().next().map_or("the end".into(), |c| format!("{c:?}"));
        let (grammar, offset) = (self.grammar, self.offset);
        TextError::Unexpected { grammar, excerpt: excerpt(self.text, offset), offset, expected, found }
    }
}

fn comma_or(close: &str) -> &'static str {
    match close {
        "]" => "',' or ']'",
        "}" => "',' or '}'",
        _ => "',' or ')'",
    }
}

/// The start of a text that may be long: a sharding of thousands of devices.
pub(crate) fn clip(text: &impl ToString) -> String {
    let text = text.to_string();
    match text.char_indices().nth(4 * EXCERPT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// The text around a place, with dots for what is left out.
fn excerpt(text: &str, offset: usize) -> String {
    let boundary = |at: usize| (0..=at).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
    let start = boundary(offset.saturating_sub(EXCERPT));
    let end = boundary((offset + EXCERPT).min(text.len()));
    let dots = |are_needed| if are_needed { "…" } else { "" };
    format!("{}{}{}", dots(start > 0), &text[start..end], dots(end < text.len()))
}

/// Whether a text is a number without a sign.
pub(crate) fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The product of sizes as a number of devices.
pub(crate) fn device_count(sizes: &[usize]) -> Result<usize, TextError> {
    if sizes.contains(&0) {
        return Err(TextError::ZeroSize { sizes: sizes.to_vec() });
    }
    let product = sizes.iter().try_fold(1_usize, |product, &size| product.checked_mul(size));
    product.ok_or(TextError::TooManyDevices { max: usize::MAX })
}

/// Checks that a list of so many devices can be made.
pub(crate) fn check_listed(count: usize) -> Result<(), TextError> {
    if count <= MAX_LISTED { Ok(()) } else { Err(TextError::TooManyDevices { max: MAX_LISTED }) }
}

/// Numbers with commas between them.
pub(crate) fn join(numbers: &[usize]) -> String {
    numbers.iter().map(usize::to_string).collect::<Vec<_>>().join(",")
}
