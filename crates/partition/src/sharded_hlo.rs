//! An HLO proto with its shardings: what a runtime compiles of a program that is no [`Module`](shardwright_hlo::Module).

use shardwright_hlo::Signature;
use shardwright_hlo::proto::{HloAnnotations, HloInstructionId, HloProgram, Partitioner};
use shardwright_mesh::{AbstractMesh, NamedSharding};

use crate::ShardError;
use crate::shard::{check, check_donors};

/// A program that is an HLO proto, all of whose arguments and outputs are pinned to equal shards of one mesh.
///
/// It is to a proto what a [`ShardedModule`](crate::ShardedModule) is to a module, but for two things: what is in the
/// message and not about shardings is as it was, byte for byte; and no array is stored padded, so dims that do not
/// divide are errors.
#[derive(Clone, Debug, PartialEq)]
pub struct ShardedHlo {
    annotated: HloProgram,
    mesh: AbstractMesh,
    arguments: Vec<NamedSharding>,
    outputs: Vec<NamedSharding>,
}

impl ShardedHlo {
    /// Pins the arguments and outputs of a program, and the results of some of its instructions; the rest is left to
    /// the compiler.
    ///
    /// # Errors
    /// When there is not one sharding of the right rank, over this mesh, for each argument and each output; one differs
    /// from its donor's or cuts a dim into unequal parts; or the program cannot be annotated.
    pub fn new(
        program: &HloProgram,
        mesh: &AbstractMesh,
        arguments: Vec<NamedSharding>,
        outputs: Vec<NamedSharding>,
        constraints: &[(HloInstructionId, NamedSharding)],
    ) -> Result<ShardedHlo, ShardError> {
        let signature = program.signature();
        let argument_types = signature.arguments.iter().map(|a| (a.name.as_str(), a.ty.dims()));
        let output_types = signature.outputs.iter().map(|o| (o.name.as_str(), o.ty.dims()));
        check(&signature.name, mesh, "arguments", argument_types.clone(), &arguments)?;
        check(&signature.name, mesh, "outputs", output_types.clone(), &outputs)?;
        let donors = signature.outputs.iter().map(|o| (o.name.as_str(), o.donor));
        check_donors(donors, &arguments, &outputs)?;
        check_even("argument", argument_types, &arguments)?;
        check_even("output", output_types, &outputs)?;
        let annotations = HloAnnotations { mesh, arguments: &arguments, outputs: &outputs, constraints };
        let annotated = program.annotate(&annotations).map_err(Box::new)?;
        let annotated = HloProgram::read(&annotated).map_err(|error| Box::new(error.into()))?;
        Ok(ShardedHlo { annotated, mesh: mesh.clone(), arguments, outputs })
    }

    /// The program, annotated.
    pub fn program(&self) -> &HloProgram {
        &self.annotated
    }

    /// What it takes and gives.
    pub fn signature(&self) -> &Signature {
        self.annotated.signature()
    }

    /// The partitioner that it is written for.
    pub fn partitioner(&self) -> Partitioner {
        self.annotated.partitioner()
    }

    /// The mesh that it is sharded over.
    pub fn mesh(&self) -> &AbstractMesh {
        &self.mesh
    }

    /// Where each argument lies.
    pub fn argument_shardings(&self) -> &[NamedSharding] {
        &self.arguments
    }

    /// Where each output lies.
    pub fn output_shardings(&self) -> &[NamedSharding] {
        &self.outputs
    }
}

/// Compilers make what is cut unevenly whole on every device, and say nothing.
fn check_even<'a>(
    what: &'static str,
    values: impl Iterator<Item = (&'a str, &'a [usize])>,
    shardings: &[NamedSharding],
) -> Result<(), ShardError> {
    for ((name, dims), sharding) in values.zip(shardings) {
        let shards = sharding.shards_per_dim();
        let uneven = dims.iter().zip(&shards).position(|(size, &count)| !size.is_multiple_of(count));
        let Some(dim) = uneven else { continue };
        let axes: Vec<String> = sharding.spec().dims()[dim].axes.iter().map(ToString::to_string).collect();
        return Err(ShardError::Uneven {
            what,
            name: name.to_owned(),
            dim,
            size: dims[dim],
            shards: shards[dim],
            axes: axes.join(","),
        });
    }
    Ok(())
}
