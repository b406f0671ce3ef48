//! What a program takes and gives, whatever form it is in: what a sharding plan needs to know of it.

use std::sync::Arc;

use shardwright_mesh::{AbstractMesh, HloSharding, SdySharding};
use shardwright_tensor::TensorType;

use crate::{ArgumentKind, Module};

/// The arguments and outputs of a program.
#[derive(Clone, Debug, PartialEq)]
pub struct Signature {
    /// Name of the program.
    pub name: String,
    /// What it takes, in order.
    pub arguments: Vec<ArgumentInfo>,
    /// What it gives back, in order.
    pub outputs: Vec<OutputInfo>,
}

/// One input of a program.
#[derive(Clone, Debug, PartialEq)]
pub struct ArgumentInfo {
    /// A name for people and files.
    pub name: String,
    /// Its global type.
    pub ty: TensorType,
    /// What is passed here.
    pub kind: ArgumentKind,
    /// Whether the caller gives its memory up to no output in particular. Not set for the [donor](OutputInfo::donor) of
    /// an output.
    pub donated: bool,
    /// Where the program itself says that it lies.
    pub stated: Option<StatedSharding>,
}

/// One result of a program.
#[derive(Clone, Debug, PartialEq)]
pub struct OutputInfo {
    /// A name for people and files.
    pub name: String,
    /// Its global type.
    pub ty: TensorType,
    /// The argument whose memory it takes over.
    pub donor: Option<usize>,
    /// Where the program itself says that it lies.
    pub stated: Option<StatedSharding>,
}

/// A sharding that a program from elsewhere came with.
#[derive(Clone, Debug, PartialEq)]
pub enum StatedSharding {
    /// Shardy's form, and the mesh that it is over.
    Sdy {
        /// The mesh that the program calls by the sharding's mesh name.
        mesh: AbstractMesh,
        /// The sharding.
        sharding: SdySharding,
    },
    /// HLO's form. Outputs share it, since one may stand for them all and list many devices.
    Hlo(Arc<HloSharding>),
}

impl Module {
    /// What the program takes and gives. Shardings lie beside a module, so none are stated.
    ///
    /// # Panics
    /// If an argument or output is no array, which a verified module rules out.
    pub fn signature(&self) -> Signature {
        let argument = |a: &crate::Argument| ArgumentInfo {
            name: a.name.clone(),
            ty: self.ty(a.value).clone(),
            kind: a.kind,
            donated: a.donated,
            stated: None,
        };
        let output = |o: &crate::Output| OutputInfo {
            name: o.name.clone(),
            ty: self.ty(o.value).clone(),
            donor: o.donor,
            stated: None,
        };
        Signature {
            name: self.name.clone(),
            arguments: self.arguments.iter().map(argument).collect(),
            outputs: self.outputs.iter().map(output).collect(),
        }
    }
}
