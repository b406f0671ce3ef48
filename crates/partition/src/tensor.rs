//! Tensor parallelism: which dim of a module's parameters the mesh axis [`TENSOR_AXIS`] splits, and what that makes
//! of the module's output.
//!
//! Over the tensor axis all devices see the same examples, and each computes a part of every layer. Weights are
//! stored `[out, in]`. Where a module is split by its outputs and the next one by its inputs, as an MLP's up and down
//! projections are, what lies in between stays split, and only the sum that the second one gives travels:
//!
//! ```text
//!              x whole          h split               y summed over tensor
//!  [batch, hidden] ── colwise ── [batch, inner/n] ── rowwise ── [batch, hidden]
//!                   up [inner/n, hidden]         down [hidden, inner/n]
//! ```
//!
//! A plan is data, in the words of Hugging Face's `base_model_tp_plan`: a model states its own, and a configuration may
//! give another.

use std::fmt;

use shardwright_mesh::{AbstractMesh, AxisName, DimSharding, PartitionSpec};

use crate::ModulePattern;

/// The mesh axis over which modules are split, and batches are not.
pub const TENSOR_AXIS: &str = "tensor";

/// How the parameters of a module are split over the tensor axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TensorSplit {
    /// By outputs: dim 0 of weights and biases. The module's output stays split, on its last dim.
    Colwise,
    /// Dim 0 of weights and biases, and the output is whole: an embedding table by its rows, or an output layer whose
    /// results are wanted together.
    ColwiseGathered,
    /// By inputs: dim 1 of weights; biases are whole. The output, a sum over the axis, is whole.
    Rowwise,
    /// Not at all.
    Replicated,
}

/// Rules from modules to how they are split. The first that covers a module counts. One that none covers is whole,
/// and where what it hands on lies is left to the compiler.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TensorPlan {
    /// The rules, in the order in which they are tried.
    pub rules: Vec<TensorRule>,
}

/// One rule of a [`TensorPlan`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorRule {
    /// The modules.
    pub modules: ModulePattern,
    /// How they are split.
    pub split: TensorSplit,
}

impl TensorSplit {
    /// Each split with its words, the first of which is printed. The rest are other words of Hugging Face.
    const WORDS: [(TensorSplit, &[&str]); 4] = [
        (TensorSplit::Colwise, &["colwise"]),
        (TensorSplit::ColwiseGathered, &["colwise_rep", "colwise_gather_output", "embedding_rowwise"]),
        (TensorSplit::Rowwise, &["rowwise"]),
        (TensorSplit::Replicated, &["replicated"]),
    ];

    /// The split of this name.
    pub fn from_word(word: &str) -> Option<TensorSplit> {
        Self::WORDS.into_iter().find(|(_, words)| words.contains(&word)).map(|(split, _)| split)
    }

    /// All names, as a list for messages.
    pub fn words() -> String {
        Self::WORDS.iter().flat_map(|(_, words)| *words).copied().collect::<Vec<_>>().join(", ")
    }

    /// The dim of a parameter of this rank that is split.
    fn dim(self, rank: usize) -> Option<usize> {
        let dim = match self {
            TensorSplit::Colwise | TensorSplit::ColwiseGathered => 0,
            TensorSplit::Rowwise => 1,
            TensorSplit::Replicated => return None,
        };
        (dim < rank).then_some(dim)
    }
}

impl fmt::Display for TensorSplit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = Self::WORDS.into_iter().find(|(split, _)| split == self);
        f.write_str(words.map_or("", |(_, words)| words[0]))
    }
}

impl TensorPlan {
    /// How the module at `path`, or the one that the parameter of that name belongs to, is split, if a rule says so.
    pub fn split(&self, path: &str) -> Option<TensorSplit> {
        self.rules.iter().find(|rule| rule.modules.covers(path)).map(|rule| rule.split)
    }

    /// The dim of a parameter that the mesh's tensor axis splits, where it has one of more than one device.
    pub(crate) fn parameter_dim(&self, name: &str, rank: usize, mesh: &AbstractMesh) -> Option<usize> {
        tensor_size(mesh).and(self.split(name)).and_then(|split| split.dim(rank))
    }

    /// Where the output of the module at `path` lies, if a rule says so, on a mesh with a tensor axis. `batch` is where
    /// it would without that.
    pub(crate) fn output_spec(
        &self,
        path: &str,
        dims: &[usize],
        batch: PartitionSpec,
        mesh: &AbstractMesh,
    ) -> Option<PartitionSpec> {
        let n = tensor_size(mesh)?;
        let split = self.split(path)?;
        match dims {
            [_, .., last] if split == TensorSplit::Colwise && last.is_multiple_of(n) => {
                Some(split_further(&batch, dims.len() - 1, tensor_axes(mesh).cloned()))
            }
            _ => Some(batch),
        }
    }
}

/// Whether an axis is the tensor axis, or one of a torus that this is made of.
pub(crate) fn is_tensor_axis(axis: &str) -> bool {
    axis.strip_prefix(TENSOR_AXIS).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

fn tensor_axes(mesh: &AbstractMesh) -> impl Iterator<Item = &AxisName> {
    mesh.axis_names().filter(|axis| is_tensor_axis(axis.as_str()))
}

/// The size of the tensor axis, if the mesh has one of more than one device.
pub(crate) fn tensor_size(mesh: &AbstractMesh) -> Option<usize> {
    let sizes = tensor_axes(mesh).filter_map(|axis| mesh.axis_size(axis));
    Some(sizes.product()).filter(|n| *n > 1)
}

/// The spec with more axes, the most minor ones, on `dim`.
pub(crate) fn split_further(
    spec: &PartitionSpec,
    dim: usize,
    axes: impl IntoIterator<Item = AxisName>,
) -> PartitionSpec {
    let mut dims = spec.dims().to_vec();
    dims[dim].axes.extend(axes);
    PartitionSpec::new(dims)
}

/// The spec without these axes.
pub(crate) fn without_axes(spec: &PartitionSpec, axes: &[AxisName]) -> PartitionSpec {
    let kept = |dim: &DimSharding| {
        let kept = dim.axes.iter().filter(|axis| !axes.contains(axis));
        kept.cloned().collect::<Vec<_>>()
    };
    PartitionSpec::new(spec.dims().iter().map(kept))
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use shardwright_hlo::{ArgumentKind, Module};
    use shardwright_tensor::{DType, TensorType};

    use crate::{PlanOptions, ShardingPlan, Strategy};

    use super::*;

    fn rules(rules: &[(&str, &str)]) -> TensorPlan {
        let rule = |(modules, word): &(&str, &str)| TensorRule {
            modules: modules.parse().unwrap(),
            split: TensorSplit::from_word(word).unwrap(),
        };
        TensorPlan { rules: rules.iter().map(rule).collect() }
    }

    fn mlp() -> PlanOptions {
        let tensor = rules(&[("up", "colwise"), ("down", "rowwise"), ("head", "colwise_gather_output")]);
        PlanOptions { tensor: Some(tensor), ..PlanOptions::default() }
    }

    /// The specs of an MLP's parameters, then of an output layer's and a norm's.
    fn specs(mesh: &str, options: &PlanOptions) -> Result<String, String> {
        let mut m = Module::new("step");
        let parameters: [(&str, &[usize]); 6] = [
            ("mlp.up.weight", &[32, 16]),
            ("mlp.up.bias", &[32]),
            ("mlp.down.weight", &[16, 32]),
            ("mlp.down.bias", &[16]),
            ("head.weight", &[64, 16]),
            ("norm.weight", &[16]),
        ];
        for (name, dims) in parameters {
            let ty = TensorType::new(DType::F32, dims).unwrap();
            m.add_argument_of_kind(name, ty, ArgumentKind::Parameter);
        }
        let plan = ShardingPlan::new(&m, &AbstractMesh::parse(mesh).unwrap(), options);
        let plan = plan.map_err(|error| error.to_string())?;
        let line = |(index, a): (usize, &crate::PlannedArgument)| {
            format!("{} {} used {}", a.name, a.sharding.spec(), plan.gathered(index).spec())
        };
        Ok(plan.arguments().iter().enumerate().map(line).collect::<Vec<_>>().join("\n"))
    }

    #[track_caller]
    fn check(mesh: &str, options: &PlanOptions, expect: Expect) {
        expect.assert_eq(&specs(mesh, options).unwrap_or_else(|error| error));
    }

    #[test]
    fn modules_are_split_over_tensor_and_what_is_left_over_fsdp() {
        check(
            "fsdp=4, tensor=2",
            &mlp(),
            expect![[r#"
            mlp.up.weight (tensor, fsdp) used (tensor, -)
            mlp.up.bias ((tensor,fsdp)) used (tensor)
            mlp.down.weight (fsdp, tensor) used (-, tensor)
            mlp.down.bias (fsdp) used (-)
            head.weight (tensor, fsdp) used (tensor, -)
            norm.weight (fsdp) used (-)"#]],
        );
        let options = PlanOptions { strategy: Strategy::NoShard, ..mlp() };
        check(
            "data=4, tensor=2",
            &options,
            expect![[r#"
            mlp.up.weight (tensor, -) used (tensor, -)
            mlp.up.bias (tensor) used (tensor)
            mlp.down.weight (-, tensor) used (-, tensor)
            mlp.down.bias (-) used (-)
            head.weight (tensor, -) used (tensor, -)
            norm.weight (-) used (-)"#]],
        );
    }

    #[test]
    fn without_a_tensor_axis_or_a_plan_modules_are_whole() {
        let whole = specs("fsdp=4", &PlanOptions::default());
        assert_eq!(specs("fsdp=4", &mlp()), whole);
        assert_eq!(specs("fsdp=4, tensor=1", &mlp()), whole);
        assert_eq!(specs("fsdp=4, tensor=2", &PlanOptions::default()), whole);
    }

    #[test]
    fn meshes_that_do_not_fit_are_errors() {
        check(
            "fsdp=2, tensor=3",
            &mlp(),
            expect![[
                "parameter mlp.up.weight: dim 0 of size 32 does not divide into 3 parts (mesh axis tensor); choose another size of the axis, or a tensor_plan in which this module is replicated"
            ]],
        );
        let axis = TENSOR_AXIS.to_owned();
        check(
            "tensor=8",
            &PlanOptions { axis, ..mlp() },
            expect![[
                "parameters cannot be sharded over the axis tensor, over which all devices see the same examples; choose another axis"
            ]],
        );
    }

    #[test]
    fn the_first_rule_that_covers_a_module_counts() {
        let plan = rules(&[("mlp.up", "replicated"), ("mlp", "rowwise")]);
        assert_eq!(plan.split("layers.0.mlp.up.weight"), Some(TensorSplit::Replicated));
        assert_eq!(plan.split("layers.0.mlp.down"), Some(TensorSplit::Rowwise));
        assert_eq!(plan.split("norm"), None);
    }

    #[test]
    fn outputs_of_what_is_split_by_outputs_stay_split() {
        let mesh = AbstractMesh::parse("fsdp=4, tensor=2").unwrap();
        let mut m = Module::new("step");
        m.add_argument("x", TensorType::new(DType::F32, [4]).unwrap());
        let plan = ShardingPlan::new(&m, &mesh, &mlp()).unwrap();
        let spec = |path: &str, dims: &[usize]| plan.module_output(path, dims).map(|s| s.spec().to_string());
        assert_eq!(spec("mlp.up", &[4, 8, 32]).unwrap(), "(fsdp, -, tensor)");
        assert_eq!(spec("mlp.up", &[4, 8, 31]).unwrap(), "(fsdp, -, -)");
        assert_eq!(spec("mlp.down", &[4, 8, 32]).unwrap(), "(fsdp, -, -)");
        assert_eq!(spec("head", &[4, 8, 32]).unwrap(), "(fsdp, -, -)");
        assert_eq!(spec("norm", &[4, 8, 32]), None);
    }
}
