//! Changes to the instructions of a computation, collected first and written in one pass.

use std::collections::BTreeMap;

use super::read::computation;
use super::wire::{Fields, WireError, Writer, with_field};

/// What changes in a computation.
#[derive(Default)]
pub(super) struct Changes {
    /// New content of fields, by the instruction's position.
    fields: BTreeMap<usize, Vec<(u64, Vec<u8>)>>,
    /// New instructions, by the position of the one that they are put in front of; the number of instructions is the
    /// end.
    before: BTreeMap<usize, Vec<Vec<u8>>>,
    /// The id of another root.
    root: Option<u64>,
}

impl Changes {
    /// Gives a field of the instruction at a position this content.
    pub(super) fn set(&mut self, position: usize, number: u64, content: Vec<u8>) {
        self.fields.entry(position).or_default().push((number, content));
    }

    /// Whether that was done to the field.
    pub(super) fn sets(&self, position: usize, number: u64) -> bool {
        self.fields.get(&position).is_some_and(|fields| fields.iter().any(|(field, _)| *field == number))
    }

    /// Puts an instruction in front of the one at a position.
    pub(super) fn insert(&mut self, position: usize, instruction: Vec<u8>) {
        self.before.entry(position).or_default().push(instruction);
    }

    /// Makes the instruction with this id the root.
    pub(super) fn set_root(&mut self, id: u64) {
        self.root = Some(id);
    }

    /// The `HloComputationProto` with these changes.
    pub(super) fn apply(mut self, message: &[u8]) -> Result<Vec<u8>, WireError> {
        let mut writer = Writer::default();
        let mut position = 0;
        for field in Fields::of(message) {
            let field = field?;
            match field.number {
                computation::INSTRUCTIONS => {
                    self.write_inserted(position, &mut writer);
                    match self.fields.remove(&position) {
                        Some(fields) => {
                            let changed = with_fields(field.bytes()?, fields)?;
                            writer.bytes(computation::INSTRUCTIONS, &changed)
                        }
                        None => writer.field(&field),
                    };
                    position += 1;
                }
                computation::ROOT if self.root.is_some() => {}
                _ => {
                    writer.field(&field);
                }
            }
        }
        self.write_inserted(position, &mut writer);
        if let Some(root) = self.root {
            writer.number(computation::ROOT, root);
        }
        Ok(writer.finish())
    }

    fn write_inserted(&mut self, position: usize, writer: &mut Writer) {
        for added in self.before.remove(&position).unwrap_or_default() {
            writer.bytes(computation::INSTRUCTIONS, &added);
        }
    }
}

fn with_fields(message: &[u8], fields: Vec<(u64, Vec<u8>)>) -> Result<Vec<u8>, WireError> {
    let with = |message: Vec<u8>, (number, content): (u64, Vec<u8>)| with_field(&message, number, &content);
    fields.into_iter().try_fold(message.to_vec(), with)
}
