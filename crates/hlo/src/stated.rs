//! What the text of a program from elsewhere says beside its module: meshes, and where values lie on them.

use std::collections::BTreeMap;

use shardwright_mesh::Mesh;

use crate::{Position, Signature, StatedSharding, ValueId, VerifiedModule};

/// A program that was read from text.
///
/// Two are equal if they say the same, wherever their texts say it.
#[derive(Clone, Debug)]
pub struct Parsed {
    /// The program itself.
    pub module: VerifiedModule,
    /// The meshes and shardings that its text states.
    pub stated: Stated,
    /// Where its text defines values.
    pub positions: Positions,
}

/// Where the text of a program defines values, for messages about instructions that say nothing of their origin.
#[derive(Clone, Debug, Default)]
pub struct Positions(pub(crate) Vec<Position>);

/// The meshes and shardings that a program came with. They lie beside its module, as all shardings do.
#[derive(Clone, Debug, PartialEq)]
pub struct Stated {
    /// For how many partitions the program was written.
    pub num_partitions: usize,
    /// The meshes by the names that shardings call them by, without `@`, in the text's order.
    pub meshes: Vec<(String, Mesh)>,
    /// Where values lie: arguments of the program and of functions, results of instructions. A constraint that the
    /// text puts on a value is one on the result of a [boundary](crate::Role::Constraint).
    pub values: BTreeMap<ValueId, StatedSharding>,
    /// Where outputs lie, by index into [`Module::outputs`](crate::Module::outputs).
    pub outputs: BTreeMap<usize, StatedSharding>,
}

/// Of a program that says nothing: one partition.
impl Default for Stated {
    fn default() -> Self {
        Stated { num_partitions: 1, meshes: Vec::new(), values: BTreeMap::new(), outputs: BTreeMap::new() }
    }
}

impl Positions {
    /// Where a value is defined, if the text defines it.
    pub fn of(&self, value: ValueId) -> Option<Position> {
        self.0.get(value.index()).copied()
    }
}

impl PartialEq for Parsed {
    fn eq(&self, other: &Parsed) -> bool {
        self.module == other.module && self.stated == other.stated
    }
}

impl Parsed {
    /// What the program takes and gives, and where it says that this lies.
    pub fn signature(&self) -> Signature {
        let mut signature = self.module.signature();
        for (argument, info) in self.module.arguments.iter().zip(&mut signature.arguments) {
            info.stated = self.stated.values.get(&argument.value).cloned();
        }
        for (index, info) in signature.outputs.iter_mut().enumerate() {
            info.stated = self.stated.outputs.get(&index).cloned();
        }
        signature
    }
}
