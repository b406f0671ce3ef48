//! Event files as TensorBoard reads them: one scalar per record and tag.
//!
//! A file is a row of frames, each with one `Event` message of TensorFlow's protocol. A frame is the message's length
//! (u64), that length's checksum, the message, and its checksum (u32), all little-endian. Checksums are CRC-32C, masked
//! as frames want it.

use std::io::{self, Write};

use prost::Message;

/// What the first event of a file says.
const FILE_VERSION: &str = "brain.Event:2";

/// Writes frames to a file, or to anything else.
pub(super) struct EventWriter<W>(W);

#[derive(Clone, PartialEq, Message)]
struct Event {
    /// Seconds since 1970.
    #[prost(double, tag = "1")]
    wall_time: f64,
    #[prost(int64, tag = "2")]
    step: i64,
    #[prost(string, optional, tag = "3")]
    file_version: Option<String>,
    #[prost(message, optional, tag = "5")]
    summary: Option<Summary>,
}

#[derive(Clone, PartialEq, Message)]
struct Summary {
    #[prost(message, repeated, tag = "1")]
    value: Vec<Value>,
}

#[derive(Clone, PartialEq, Message)]
struct Value {
    #[prost(string, tag = "1")]
    tag: String,
    // Kept where it is zero: readers tell by its presence that the value is a scalar.
    #[prost(float, optional, tag = "2")]
    simple_value: Option<f32>,
}

impl<W: Write> EventWriter<W> {
    /// Begins a file; `wall_time` is in seconds since 1970.
    pub(super) fn new(file: W, wall_time: f64) -> io::Result<EventWriter<W>> {
        let mut writer = EventWriter(file);
        let event = Event { wall_time, file_version: Some(FILE_VERSION.to_owned()), ..Event::default() };
        writer.frame(&event.encode_to_vec())?;
        Ok(writer)
    }

    /// Writes what some tags are at a step.
    pub(super) fn scalars(
        &mut self,
        wall_time: f64,
        step: usize,
        scalars: &[(String, f64)],
    ) -> io::Result<()> {
        let value =
            |(tag, number): &(String, f64)| Value { tag: tag.clone(), simple_value: Some(*number as f32) };
        let summary = Some(Summary { value: scalars.iter().map(value).collect() });
        let event = Event { wall_time, step: step as i64, summary, ..Event::default() };
        self.frame(&event.encode_to_vec())
    }

    /// Writes a frame at once, so that whoever watches the file sees whole ones.
    fn frame(&mut self, message: &[u8]) -> io::Result<()> {
        let length = (message.len() as u64).to_le_bytes();
        let checksum = |bytes: &[u8]| masked(crc32c(bytes)).to_le_bytes();
        let frame = [&length[..], &checksum(&length), message, &checksum(message)].concat();
        self.0.write_all(&frame)?;
        self.0.flush()
    }
}

/// A checksum as a frame has it, so that checksums of frames in frames do not come out alike.
fn masked(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}

/// CRC-32C, a bit at a time: frames are short and few.
fn crc32c(bytes: &[u8]) -> u32 {
    /// Castagnoli's polynomial, low bit first.
    const POLYNOMIAL: u32 = 0x82f6_3b78;
    let shifted = |crc: u32, _| (crc >> 1) ^ (POLYNOMIAL & (crc & 1).wrapping_neg());
    !bytes.iter().fold(!0, |crc, &byte| (0..8).fold(crc ^ u32::from(byte), shifted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_those_of_the_standard() {
        // The check value of CRC-32C, and 32 zeros from RFC 3720.
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
    }

    /// `read_events.py` beside the sample reads it with TensorBoard's own reader.
    #[test]
    fn a_file_is_the_one_that_tensorboard_was_seen_to_read() {
        let mut writer = EventWriter::new(Vec::new(), 1.5e9).unwrap();
        let first = [
            ("train/loss", 4.25),
            ("train/grad_norm", 0.0),
            ("train/learning_rate", 5e-5),
            ("train/epoch", 0.5),
        ];
        let tagged = |scalars: &[(&str, f64)]| -> Vec<(String, f64)> {
            scalars.iter().map(|(tag, number)| ((*tag).to_owned(), *number)).collect()
        };
        writer.scalars(1.5e9 + 1.0, 10, &tagged(&first)).unwrap();
        writer.scalars(1.5e9 + 2.5, 12, &tagged(&[("eval/loss", f64::NAN)])).unwrap();
        let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/sample.tfevents");
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            std::fs::write(sample, &writer.0).unwrap();
        }
        assert!(writer.0 == std::fs::read(sample).unwrap(), "UPDATE_EXPECT=1 writes the file anew");
    }
}
