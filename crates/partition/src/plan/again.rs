//! Plans of further programs over parameters that lie somewhere already.

use shardwright_hlo::{Argument, ArgumentKind, Module};
use shardwright_mesh::PartitionSpec;

use super::by_kind::planned_output;
use super::{Decision, KindSource, PlanError, PlannedArgument, ShardingPlan, batch_spec_of};

impl ShardingPlan {
    /// A plan for another program on the same mesh. Arguments that this plan has by name, such as parameters, lie where
    /// they lie here, so that both programs take the same arrays; batches are split over the data axes; all else is whole.
    ///
    /// # Errors
    /// When a batch cannot be cut into equal parts, or an argument of a known name has another rank.
    pub fn for_program(&self, module: &Module) -> Result<ShardingPlan, PlanError> {
        let planned = |argument: &Argument| {
            let ty = module.ty(argument.value);
            let known = self.arguments.iter().find(|known| known.name == argument.name);
            let (spec, decision) = match (argument.kind, known) {
                (ArgumentKind::Batch, _) => (batch_spec_of(&self.mesh, &argument.name, ty)?, Decision::Batch),
                (_, Some(known)) => (known.sharding.spec().clone(), known.decision.clone()),
                (_, None) => (PartitionSpec::replicated(ty.rank()), Decision::Whole),
            };
            let kind = (argument.kind, KindSource::Program);
            PlannedArgument::new(&argument.name, ty, kind, &self.mesh, spec, decision)
        };
        let arguments = module.arguments.iter().map(planned).collect::<Result<Vec<_>, PlanError>>()?;
        let outputs = module.outputs.iter();
        let outputs = outputs.map(|output| planned_output(module, output, &self.mesh, &arguments)).collect();
        Ok(ShardingPlan { arguments, outputs, notes: Vec::new(), ..self.clone() })
    }
}
