//! The outermost fields of a serialized `HloModuleProto`: enough to see that it is one and that it is whole.

use std::fmt;

/// `HloModuleProto.name`, a text.
const NAME: u64 = 1;
/// `HloModuleProto.computations`.
const COMPUTATIONS: u64 = 3;
/// `HloProto.hlo_module`, which is how XLA dumps modules.
const WRAPPED: u64 = 1;

/// Why bytes are no module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Malformed {
    /// At this byte begins no field.
    NoField { at: usize },
    /// The field that begins at this byte goes beyond the end.
    CutOff { at: usize, bytes: usize },
    /// The fields are right, and not those of a module.
    OtherMessage,
}

/// A field with a length, or one without content of interest.
struct Field<'a> {
    number: u64,
    content: Option<&'a [u8]>,
}

/// The module in these bytes: all of them, or the one that an `HloProto` wraps.
pub(super) fn hlo_module(bytes: &[u8]) -> Result<&[u8], Malformed> {
    let fields = fields(bytes)?;
    if is_module(&fields) {
        return Ok(bytes);
    }
    let wrapped = fields.iter().find(|field| field.number == WRAPPED).and_then(|field| field.content);
    let wrapped = wrapped.filter(|inner| self::fields(inner).is_ok_and(|fields| is_module(&fields)));
    wrapped.ok_or(Malformed::OtherMessage)
}

/// What a module calls itself.
pub(super) fn name(module: &[u8]) -> Option<&str> {
    let name = fields(module).ok()?.into_iter().find(|field| field.number == NAME)?.content?;
    std::str::from_utf8(name).ok()
}

fn is_module(fields: &[Field<'_>]) -> bool {
    let has = |number, is_right: fn(&[u8]) -> bool| {
        fields.iter().any(|field| field.number == number && field.content.is_some_and(is_right))
    };
    has(NAME, |name| std::str::from_utf8(name).is_ok())
        && has(COMPUTATIONS, |content| self::fields(content).is_ok())
}

fn fields(bytes: &[u8]) -> Result<Vec<Field<'_>>, Malformed> {
    let mut fields = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let at = bytes.len() - rest.len();
        let cut_off = Malformed::CutOff { at, bytes: bytes.len() };
        let tag = varint(&mut rest).ok_or(Malformed::NoField { at })?;
        let (number, wire_type) = (tag >> 3, tag & 7);
        if number == 0 {
            return Err(Malformed::NoField { at });
        }
        let length = match wire_type {
            0 => {
                varint(&mut rest).ok_or(cut_off.clone())?;
                0
            }
            1 => 8,
            2 => varint(&mut rest).ok_or(cut_off.clone())?,
            5 => 4,
            _ => return Err(Malformed::NoField { at }),
        };
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let (content, behind) = rest.split_at_checked(length).ok_or(cut_off)?;
        fields.push(Field { number, content: (wire_type == 2).then_some(content) });
        rest = behind;
    }
    Ok(fields)
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for (index, &byte) in rest.iter().enumerate().take(10) {
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte < 0x80 {
            *rest = &rest[index + 1..];
            return Some(value);
        }
    }
    None
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Malformed::NoField { at } => write!(f, "at byte {at} there is no field of a protocol buffer"),
            Malformed::CutOff { at, bytes } => {
                write!(f, "it has {bytes} bytes, and the field that begins at byte {at} goes beyond them")
            }
            Malformed::OtherMessage => f.write_str("it is a protocol buffer of something else"),
        }
    }
}
