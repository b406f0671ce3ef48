//! What the text of a program from elsewhere says beside its module: meshes, and where values lie on them.

use std::collections::BTreeMap;

use shardwright_mesh::Mesh;

use crate::{Module, Signature, StatedSharding, ValueId};

/// A program that was read from text.
#[derive(Clone, Debug, PartialEq)]
pub struct Parsed {
    /// The program itself, which no one verified yet.
    pub module: Module,
    /// The meshes and shardings that its text states.
    pub stated: Stated,
}

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
    /// Where outputs lie, by index into [`Module::outputs`].
    pub outputs: BTreeMap<usize, StatedSharding>,
}

/// Of a program that says nothing: one partition.
impl Default for Stated {
    fn default() -> Self {
        Stated { num_partitions: 1, meshes: Vec::new(), values: BTreeMap::new(), outputs: BTreeMap::new() }
    }
}

impl Stated {
    /// The mesh that shardings call `name`.
    pub fn mesh(&self, name: &str) -> Option<&Mesh> {
        self.meshes.iter().find(|(n, _)| n == name).map(|(_, mesh)| mesh)
    }
}

impl Parsed {
    /// What the program takes and gives, and where it says that this lies.
    ///
    /// # Panics
    /// If an argument or output is no array, which a verified module rules out.
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
