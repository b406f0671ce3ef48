//! The wire format of protocol buffers, field by field: read without a copy, and changed so that everything else stays
//! byte for byte.
//!
//! Messages are not parsed into structs and written again, because that would lose the fields that are not declared
//! here. Nothing recurses, and nothing is copied but numbers, so memory stays within a small multiple of the input.

use thiserror::Error;

/// Why bytes are no message.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WireError {
    /// At this byte begins no field.
    #[error("at byte {at} there is no field of a protocol buffer")]
    NoField {
        /// The byte, counted from the start of the message.
        at: usize,
    },
    /// The field that begins at this byte goes beyond the end.
    #[error("it has {bytes} bytes, and the field that begins at byte {at} goes beyond them")]
    CutOff {
        /// The byte, counted from the start of the message.
        at: usize,
        /// The length of the message.
        bytes: usize,
    },
    /// A field has another type than its number has.
    #[error("its field {number} is not {expected}")]
    Type {
        /// The number of the field.
        number: u64,
        /// What it should be.
        expected: &'static str,
    },
}

/// One field of a message.
#[derive(Clone, Copy)]
pub(super) struct Field<'a> {
    pub(super) number: u64,
    value: Value<'a>,
    /// The field as it stands, with its number.
    bytes: &'a [u8],
}

#[derive(Clone, Copy)]
enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    Fixed,
}

/// The fields of a message, in order. Ends after the first error.
pub(super) struct Fields<'a> {
    message: &'a [u8],
    at: usize,
}

impl<'a> Fields<'a> {
    pub(super) fn of(message: &'a [u8]) -> Fields<'a> {
        Fields { message, at: 0 }
    }

    fn field(&mut self) -> Result<Field<'a>, WireError> {
        let at = self.at;
        let cut_off = || WireError::CutOff { at, bytes: self.message.len() };
        let mut rest = &self.message[at..];
        let tag = varint(&mut rest).ok_or(WireError::NoField { at })?;
        let (number, wire_type) = (tag >> 3, tag & 7);
        if number == 0 {
            return Err(WireError::NoField { at });
        }
        let take = |length: u64, rest: &mut &'a [u8]| {
            let length = usize::try_from(length).unwrap_or(usize::MAX);
            let (content, behind) = rest.split_at_checked(length).ok_or_else(cut_off)?;
            *rest = behind;
            Ok(content)
        };
        let value = match wire_type {
            0 => Value::Number(varint(&mut rest).ok_or_else(cut_off)?),
            1 => take(8, &mut rest).map(|_| Value::Fixed)?,
            2 => {
                let length = varint(&mut rest).ok_or_else(cut_off)?;
                Value::Bytes(take(length, &mut rest)?)
            }
            5 => take(4, &mut rest).map(|_| Value::Fixed)?,
            // Groups, which nest without end, are in no message of XLA.
            _ => return Err(WireError::NoField { at }),
        };
        let end = self.message.len() - rest.len();
        self.at = end;
        Ok(Field { number, value, bytes: &self.message[at..end] })
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<Field<'a>, WireError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.message.len() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.at = self.message.len();
        }
        Some(field)
    }
}

impl<'a> Field<'a> {
    /// The content of a message or of bytes.
    pub(super) fn bytes(&self) -> Result<&'a [u8], WireError> {
        match self.value {
            Value::Bytes(bytes) => Ok(bytes),
            _ => Err(self.is_not("bytes")),
        }
    }

    pub(super) fn text(&self) -> Result<&'a str, WireError> {
        std::str::from_utf8(self.bytes()?).map_err(|_| self.is_not("UTF-8 text"))
    }

    pub(super) fn number(&self) -> Result<u64, WireError> {
        match self.value {
            Value::Number(number) => Ok(number),
            _ => Err(self.is_not("a number")),
        }
    }

    /// Appends the numbers of a repeated field, which may stand together or one by one.
    pub(super) fn numbers(&self, numbers: &mut Vec<u64>) -> Result<(), WireError> {
        let mut rest = match self.value {
            Value::Number(number) => {
                numbers.push(number);
                return Ok(());
            }
            Value::Bytes(bytes) => bytes,
            Value::Fixed => return Err(self.is_not("a list of numbers")),
        };
        while !rest.is_empty() {
            numbers.push(varint(&mut rest).ok_or_else(|| self.is_not("a list of numbers"))?);
        }
        Ok(())
    }

    fn is_not(&self, expected: &'static str) -> WireError {
        WireError::Type { number: self.number, expected }
    }
}

/// The number at the beginning, of which what lies beyond 64 bits is dropped, as everywhere.
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

/// A message, written field by field.
#[derive(Default)]
pub(super) struct Writer(Vec<u8>);

impl Writer {
    pub(super) fn number(&mut self, number: u64, value: u64) -> &mut Writer {
        self.varint(number << 3).varint(value)
    }

    pub(super) fn bytes(&mut self, number: u64, content: &[u8]) -> &mut Writer {
        self.varint(number << 3 | 2).varint(content.len() as u64);
        self.0.extend_from_slice(content);
        self
    }

    /// A repeated field, its numbers together.
    pub(super) fn numbers(&mut self, number: u64, values: impl IntoIterator<Item = u64>) -> &mut Writer {
        self.bytes(number, &Writer::packed(values))
    }

    /// The content of a repeated field whose numbers stand together.
    pub(super) fn packed(values: impl IntoIterator<Item = u64>) -> Vec<u8> {
        let mut packed = Writer::default();
        for value in values {
            packed.varint(value);
        }
        packed.finish()
    }

    /// A field as it stands elsewhere.
    pub(super) fn field(&mut self, field: &Field<'_>) -> &mut Writer {
        self.0.extend_from_slice(field.bytes);
        self
    }

    pub(super) fn finish(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.0)
    }

    fn varint(&mut self, mut value: u64) -> &mut Writer {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
        self
    }
}

/// The message with this content in a field that occurs once: where that stands already, or at the end.
pub(super) fn with_field(message: &[u8], number: u64, content: &[u8]) -> Result<Vec<u8>, WireError> {
    let mut writer = Writer::default();
    let mut is_there = false;
    for field in Fields::of(message) {
        let field = field?;
        match (field.number == number, is_there) {
            (false, _) => {
                writer.field(&field);
            }
            (true, false) => {
                writer.bytes(number, content);
                is_there = true;
            }
            // Readers would merge a second one into the first.
            (true, true) => {}
        }
    }
    if !is_there {
        writer.bytes(number, content);
    }
    Ok(writer.finish())
}

/// The message with what `change` makes of the items of a repeated field, told which one each is; `None` leaves an
/// item as it is.
pub(super) fn with_items(
    message: &[u8],
    number: u64,
    mut change: impl FnMut(usize, &[u8]) -> Result<Option<Vec<u8>>, WireError>,
) -> Result<Vec<u8>, WireError> {
    let mut writer = Writer::default();
    let mut index = 0;
    for field in Fields::of(message) {
        let field = field?;
        let mut changed = None;
        if field.number == number {
            changed = change(index, field.bytes()?)?;
            index += 1;
        }
        match changed {
            Some(content) => writer.bytes(number, &content),
            None => writer.field(&field),
        };
    }
    Ok(writer.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_as_they_are_written() {
        let message = Writer::default().number(1, 300).bytes(2, b"ab").numbers(3, [1, 200]).finish();
        let fields: Vec<Field<'_>> = Fields::of(&message).map(Result::unwrap).collect();
        assert_eq!(fields[0].number(), Ok(300));
        assert_eq!(fields[1].text(), Ok("ab"));
        let mut numbers = Vec::new();
        fields[2].numbers(&mut numbers).unwrap();
        fields[0].numbers(&mut numbers).unwrap();
        assert_eq!(numbers, [1, 200, 300]);
        assert_eq!(fields[0].text().unwrap_err().to_string(), "its field 1 is not bytes");
    }

    #[test]
    fn what_is_no_message_says_where() {
        let error = |bytes: &[u8]| Fields::of(bytes).find_map(Result::err).map(|e| e.to_string());
        assert_eq!(error(&[8, 1]), None);
        let cut_off = "it has 4 bytes, and the field that begins at byte 2 goes beyond them";
        assert_eq!(error(&[8, 1, 0x12, 9]).as_deref(), Some(cut_off));
        assert_eq!(error(&[8, 1, 8, 0xff]).as_deref(), Some(cut_off));
        let no_field = "at byte 0 there is no field of a protocol buffer";
        // The number 0, a group, and a tag that does not end.
        for bytes in [&[0, 1][..], &[0x0b, 0x0c], &[0xff; 11]] {
            assert_eq!(error(bytes).as_deref(), Some(no_field));
        }
        let huge = [0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        assert!(error(&huge).is_some_and(|error| error.contains("goes beyond")));
    }

    #[test]
    fn one_field_changes_and_the_others_stay() {
        // A field of a number that nobody knows, a length that is written longer than it need be, and a fixed one.
        let odd = [0xfa, 0x3f, 0x81, 0x00, 7, 0x0d, 1, 2, 3, 4];
        let message = [&odd[..], &[0x12, 1, 5], &odd].concat();
        assert_eq!(with_field(&message, 2, &[5]).unwrap(), message);
        assert_eq!(with_field(&message, 2, &[6, 6]).unwrap(), [&odd[..], &[0x12, 2, 6, 6], &odd].concat());
        assert_eq!(with_field(&message, 3, &[]).unwrap(), [&message[..], &[0x1a, 0]].concat());
        assert_eq!(with_items(&message, 2, |_, _| Ok(None)).unwrap(), message);
    }
}
