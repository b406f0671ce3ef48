//! From a plan to a program: shardings of arguments and outputs, of what rules say between them, and of what the
//! program itself says.

use std::collections::{BTreeMap, BTreeSet};

use shardwright_hlo::proto::{DonationProblem, HloInstructionId, HloProgram};
use shardwright_hlo::{
    Instruction, Module, Op, Parsed, Positions, Role, SourceId, Stated, StatedSharding, ValueId,
    VerifyErrors, verify,
};
use shardwright_mesh::{AbstractMesh, HloSharding, NamedSharding, ShardingError};
use shardwright_tensor::TensorType;
use thiserror::Error;

use super::DimChoice;
use super::error::{did_you_mean, nearest};
use super::fsdp::{self, PinCounts, Pins};
use crate::rules::{Rule, Says, Target, Which, op_names, source_names};
use crate::{ShardError, ShardRules, ShardedHlo, ShardedModule, ShardingPlan};

/// A program that a plan and rules cannot be written on.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum PinError {
    /// A rule about ops that none of the program is called.
    #[error("rule {rule} matches none of the {ops} ops{}", did_you_mean(nearest))]
    NoMatch {
        /// The rule.
        rule: String,
        /// How many ops there are.
        ops: usize,
        /// Names of ops that are like the pattern.
        nearest: Vec<String>,
    },
    /// A rule that does not fit the mesh, or what it matches.
    #[error("rule {rule}: {op}: {source}")]
    Sharding {
        /// The rule.
        rule: String,
        /// The op, with what is known of its origin.
        op: String,
        /// What is wrong.
        source: ShardingError,
    },
    /// A sharding inside the program that is of no use on the mesh.
    #[error("{op}: the program says that it is sharded {stated}, which is of no use here: {reason}")]
    Unusable {
        /// The op, with what is known of its origin.
        op: String,
        /// What the program says.
        stated: String,
        /// What is wrong.
        reason: String,
    },
    /// A mesh whose devices are not counted up.
    #[error(
        "the program's mesh @{name} lists its devices in an order of its own; export it over devices that count up"
    )]
    DeviceOrder {
        /// The name of the mesh.
        name: String,
    },
    /// A donation that the program cannot have.
    #[error("output {output} cannot take over the memory of argument {argument}: {problem}")]
    Donation {
        /// The output.
        output: String,
        /// The argument.
        argument: String,
        /// Why not.
        problem: DonationProblem,
    },
    /// The program is none.
    #[error(transparent)]
    Program(#[from] VerifyErrors),
    /// Shardings that do not fit the program.
    #[error(transparent)]
    Shard(#[from] ShardError),
}

impl ShardedModule {
    /// A program that was read from text, pinned as a plan and rules about ops say. What it says itself of values
    /// between its arguments and outputs stays.
    ///
    /// Where parameters are split as FSDP does, [`Pins::Fsdp`] pins weights where they are used, and gradients.
    ///
    /// # Errors
    /// When the plan is of another program, the program is not sound, a rule about ops matches none or does not fit, or
    /// the program says things of its inside that no sharding over this mesh is.
    pub fn from_parsed(
        parsed: Parsed,
        plan: &ShardingPlan,
        rules: &ShardRules,
    ) -> Result<ShardedModule, PinError> {
        let Parsed { module, stated, positions } = parsed;
        let mut module = module.into_inner();
        for (output, planned) in module.outputs.iter_mut().zip(plan.outputs()) {
            output.donor = planned.donor;
            if let Some(argument) = planned.donor.and_then(|donor| module.arguments.get_mut(donor)) {
                argument.donated = false;
            }
        }
        let (kept, mut values) = keep_stated(&module, stated, &positions, plan.mesh())?;
        let mut ops = OpRules::new(rules, plan);
        values.extend(ops.pin_module(&mut module, &positions)?);
        ops.check_all_used()?;
        let mut counts = PinCounts::default();
        if rules.pins() == Pins::Fsdp {
            let fixed = values.keys().chain(kept.values.keys()).copied().collect();
            let (pinned, found) = fsdp::pin(&mut module, plan, rules, &fixed);
            values.extend(pinned);
            counts = found;
        }
        let (arguments, outputs) = plan.shardings();
        let sharded = ShardedModule::new(verify(module)?, plan.mesh(), arguments, outputs)?;
        Ok(sharded.with_pinned(values, kept, counts))
    }
}

impl ShardedHlo {
    /// A program that is an HLO proto, pinned as a plan and rules about ops say.
    ///
    /// # Errors
    /// When the plan is of another program, a rule about ops matches none or does not fit, a dim does not divide, or
    /// the program cannot be annotated.
    pub fn from_plan(
        program: &HloProgram,
        plan: &ShardingPlan,
        rules: &ShardRules,
    ) -> Result<ShardedHlo, PinError> {
        let mut program = program.clone();
        for (output, planned) in plan.outputs().iter().enumerate() {
            let Some(donor) = planned.donor else { continue };
            if program.signature().outputs.get(output).is_some_and(|o| o.donor.is_none()) {
                program.donate(output, donor).map_err(|problem| PinError::Donation {
                    output: planned.name.clone(),
                    argument: plan.arguments()[donor].name.clone(),
                    problem,
                })?;
            }
        }
        let mut ops = OpRules::new(rules, plan);
        let constraints = ops.constraints(&program)?;
        ops.check_all_used()?;
        let (arguments, outputs) = plan.shardings();
        Ok(ShardedHlo::new(&program, plan.mesh(), arguments, outputs, &constraints)?)
    }
}

/// What a program says of values that are neither arguments nor outputs, over the mesh of the plan: what is kept as it
/// is written, and what is written anew.
fn keep_stated(
    module: &Module,
    stated: Stated,
    positions: &Positions,
    mesh: &AbstractMesh,
) -> Result<(Stated, BTreeMap<ValueId, NamedSharding>), PinError> {
    let own = stated.meshes.iter().find(|(_, own)| own.shape() == mesh && !own.is_iota());
    if let Some((name, _)) = own {
        return Err(PinError::DeviceOrder { name: name.clone() });
    }
    let arguments: BTreeSet<ValueId> = module.arguments.iter().map(|argument| argument.value).collect();
    let mut kept = Stated { num_partitions: mesh.size(), ..Stated::default() };
    // Meshes of one axis are the plan's or an error; those of none stand for single devices.
    kept.meshes = stated.meshes.into_iter().filter(|(_, mesh)| mesh.shape().axes().is_empty()).collect();
    let mut values = BTreeMap::new();
    for (value, stated) in stated.values.into_iter().filter(|(value, _)| !arguments.contains(value)) {
        let rank = module.values[value.index()].tensor().map_or(0, |ty| ty.rank());
        let unusable = |text: String, reason: String| PinError::Unusable {
            op: describe_value(module, value, positions),
            stated: text,
            reason,
        };
        match stated {
            StatedSharding::Sdy { mesh: own, sharding } if own == *mesh => {
                if let Some(closed) = sharding.clone().closed() {
                    closed.to_named(mesh).map_err(|e| unusable(sharding.to_string(), e.to_string()))?;
                }
                let sharding = sharding.with_mesh_name("mesh");
                kept.values.insert(value, StatedSharding::Sdy { mesh: own, sharding });
            }
            StatedSharding::Sdy { .. } => {
                kept.values.insert(value, stated);
            }
            StatedSharding::Hlo(sharding) if *sharding == HloSharding::Unknown => {}
            StatedSharding::Hlo(sharding) => {
                let named = sharding.to_named(mesh, rank);
                let named = named.map_err(|e| unusable(sharding.to_string(), e.to_string()))?;
                values.insert(value, named);
            }
        }
    }
    Ok((kept, values))
}

/// The rules about ops, and which of them were of use.
struct OpRules<'a> {
    plan: &'a ShardingPlan,
    rules: Vec<(&'a Rule, bool)>,
    /// For each origin that ops have had so far, which of the rules match a name in it: many ops may share a long one.
    of_sources: BTreeMap<SourceId, Vec<bool>>,
    /// What ops are called, for those who mistype it.
    seen: BTreeSet<String>,
    ops: usize,
}

impl<'a> OpRules<'a> {
    fn new(rules: &'a ShardRules, plan: &'a ShardingPlan) -> OpRules<'a> {
        let rules = rules.rules.iter().filter(|rule| rule.pattern.target == Target::Op);
        let rules = rules.map(|rule| (rule, false)).collect();
        OpRules { plan, rules, of_sources: BTreeMap::new(), seen: BTreeSet::new(), ops: 0 }
    }

    /// Which of the rules match one of these names.
    fn matching(&self, names: &[String]) -> Vec<bool> {
        let matches = |(rule, _): &(&Rule, bool)| match &rule.pattern.which {
            Which::Name(glob) => names.iter().any(|name| glob.matches(name)),
            _ => false,
        };
        self.rules.iter().map(matches).collect()
    }

    /// Where the result of an op lies that goes by these names and by those of its origin, as the last rule that matches
    /// says.
    fn sharding(
        &mut self,
        names: &[String],
        source: Option<(SourceId, &str)>,
        ty: &TensorType,
        op: impl FnOnce() -> String,
    ) -> Result<Option<NamedSharding>, PinError> {
        self.ops += 1;
        self.seen.extend(names.first().cloned());
        let mut matching = self.matching(names);
        if let Some((id, text)) = source {
            if !self.of_sources.contains_key(&id) {
                self.of_sources.insert(id, self.matching(&source_names(text)));
            }
            matching.iter_mut().zip(&self.of_sources[&id]).for_each(|(own, by_source)| *own |= by_source);
        }
        let mut found = None;
        for ((rule, used), _) in self.rules.iter_mut().zip(matching).filter(|(_, matches)| *matches) {
            *used = true;
            found = Some(*rule);
        }
        let Some(Rule { text, says: Says::Lies(placement), .. }) = found else { return Ok(None) };
        let sharding = placement.sharding(ty, self.plan.mesh(), DimChoice::default());
        let wrong = |source| PinError::Sharding { rule: text.clone(), op: op(), source };
        sharding.map(Some).map_err(wrong)
    }

    fn check_all_used(&self) -> Result<(), PinError> {
        let Some((rule, _)) = self.rules.iter().find(|(_, used)| !used) else { return Ok(()) };
        let names: Vec<&str> = self.seen.iter().map(String::as_str).collect();
        let pattern = rule.pattern.text.trim_start_matches("op:");
        Err(PinError::NoMatch { rule: rule.text.clone(), ops: self.ops, nearest: nearest(pattern, &names) })
    }

    /// Puts a boundary behind each op that a rule matches, wherever it is in the program.
    fn pin_module(
        &mut self,
        module: &mut Module,
        positions: &Positions,
    ) -> Result<BTreeMap<ValueId, NamedSharding>, PinError> {
        let mut pinned = BTreeMap::new();
        if self.rules.is_empty() {
            return Ok(pinned);
        }
        let mut functions = std::mem::take(&mut module.functions);
        let mut instructions = std::mem::take(&mut module.instructions);
        self.pin_body(&mut instructions, module, positions, &mut pinned)?;
        for function in &mut functions {
            self.pin_body(&mut function.body.instructions, module, positions, &mut pinned)?;
        }
        (module.functions, module.instructions) = (functions, instructions);
        Ok(pinned)
    }

    fn pin_body(
        &mut self,
        body: &mut Vec<Instruction>,
        module: &mut Module,
        positions: &Positions,
        pinned: &mut BTreeMap<ValueId, NamedSharding>,
    ) -> Result<(), PinError> {
        for mut instruction in std::mem::take(body) {
            for region in &mut instruction.regions {
                self.pin_body(&mut region.instructions, module, positions, pinned)?;
            }
            let mut boundaries = Vec::new();
            if !matches!(instruction.op, Op::Boundary(_)) {
                let (names, mut results) = (names_of(&instruction), instruction.results.clone());
                for result in &mut results {
                    let whole = *result;
                    let Some(ty) = module.values[whole.index()].tensor().cloned() else { continue };
                    let source = source_of(&instruction, module);
                    let describe = || format!("{} of type {ty}", describe(&instruction, module, positions));
                    let Some(sharding) = self.sharding(&names, source, &ty, describe)? else { continue };
                    // The boundary gives what the op gave, so that nothing else has to change.
                    *result = module.new_value(ty.into());
                    let location = instruction.location;
                    boundaries.push(Instruction::boundary(Role::Constraint, *result, whole, location));
                    pinned.insert(whole, sharding);
                }
                instruction.results = results;
            }
            body.push(instruction);
            body.extend(boundaries);
        }
        Ok(())
    }

    fn constraints(
        &mut self,
        program: &HloProgram,
    ) -> Result<Vec<(HloInstructionId, NamedSharding)>, PinError> {
        let mut constraints = Vec::new();
        if self.rules.is_empty() {
            return Ok(constraints);
        }
        for instruction in program.instructions() {
            let names = [instruction.opcode.clone(), instruction.name.clone(), instruction.op_name.clone()];
            let describe = || format!("instruction {} of type {}", instruction.name, instruction.ty);
            if let Some(sharding) = self.sharding(&names, None, &instruction.ty, describe)? {
                constraints.push((instruction.id, sharding));
            }
        }
        Ok(constraints)
    }
}

/// What an op can be called in a pattern, whatever its origin is.
fn names_of(instruction: &Instruction) -> Vec<String> {
    let name = match instruction.op {
        Op::Boundary(_) => "sharding_constraint",
        ref op => op.name(),
    };
    let mut names = op_names(name);
    if !name.contains('.') && !matches!(instruction.op, Op::Boundary(_)) {
        names.push(format!("stablehlo.{name}"));
    }
    names
}

/// What the text says of an op's origin.
fn source_of<'m>(instruction: &Instruction, module: &'m Module) -> Option<(SourceId, &'m str)> {
    let id = instruction.location.source?;
    Some((id, module.sources.get(id.0 as usize)?))
}

/// Where the text has an op that says nothing of its origin.
fn place_of(instruction: &Instruction, positions: &Positions) -> String {
    let position = instruction.results.first().and_then(|&result| positions.of(result));
    let position = position.filter(|_| instruction.location.source.is_none());
    position.map_or_else(String::new, |position| format!(" at {position}"))
}

/// An op, with what is known of its origin.
fn describe(instruction: &Instruction, module: &Module, positions: &Positions) -> String {
    let mut names = names_of(instruction);
    let of_source = source_of(instruction, module).map(|(_, text)| source_names(text)).unwrap_or_default();
    // Other ways to call the op come last.
    names.splice(1..1, of_source);
    let mut seen = BTreeSet::new();
    names.retain(|name| seen.insert(name.clone()));
    format!("op {}{}", names.join(", "), place_of(instruction, positions))
}

/// The op that gives a value, with what is known of its origin.
fn describe_value(module: &Module, value: ValueId, positions: &Positions) -> String {
    let mut bodies = vec![&module.instructions];
    bodies.extend(module.functions.iter().map(|function| &function.body.instructions));
    while let Some(body) = bodies.pop() {
        for instruction in body {
            if instruction.results.contains(&value) {
                return describe(instruction, module, positions);
            }
            bodies.extend(instruction.regions.iter().map(|region| &region.instructions));
        }
    }
    format!("value {value}")
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;
    use crate::{RuleOptions, choose_mesh};

    const PROGRAM: &str = r#"
module @step attributes {mhlo.num_partitions = 4 : i32} {
  sdy.mesh @own = <["x"=2, "y"=2]>
  func.func public @main(%arg0: tensor<5x4xf32> {tf.aliasing_output = 0 : i32} loc("w")) -> (tensor<5x4xf32>, tensor<f32>) {
    %0 = stablehlo.add %arg0, %arg0 : tensor<5x4xf32> loc("jit(step)/add"("model.py":3:4))
    %1 = sdy.sharding_constraint %0 <@own, [{?}, {"y", ?}]> : tensor<5x4xf32>
    %2 = func.call @square(%1) : (tensor<5x4xf32>) -> tensor<5x4xf32>
    %cst = stablehlo.constant dense<0.0> : tensor<f32>
    return %2, %cst : tensor<5x4xf32>, tensor<f32>
  }
  func.func private @square(%arg0: tensor<5x4xf32>) -> tensor<5x4xf32> {
    %0 = stablehlo.multiply %arg0, %arg0 : tensor<5x4xf32>
    return %0 : tensor<5x4xf32>
  }
}
"#;

    /// The lines of the program that are about shardings, or what is wrong.
    #[track_caller]
    fn check(program: &str, rules: &[&str], expect: Expect) {
        let parsed = shardwright_hlo::parse(program).unwrap();
        let mut parsed_rules = ShardRules::default();
        rules.iter().for_each(|rule| parsed_rules.push(rule).unwrap());
        let signature = parsed.signature();
        let meshes: Vec<AbstractMesh> = parsed.stated.meshes.iter().map(|(_, m)| m.shape().clone()).collect();
        let mesh = choose_mesh(&signature, &meshes, None).unwrap();
        let plan = ShardingPlan::by_rules(&signature, &mesh, &parsed_rules, &RuleOptions::default()).unwrap();
        let text = match ShardedModule::from_parsed(parsed, &plan, &parsed_rules) {
            Ok(sharded) => {
                let text = sharded.stablehlo_text();
                // What is printed can be read, and is a program still.
                shardwright_hlo::parse(&text).unwrap();
                let lines =
                    text.lines().filter(|line| line.contains("sdy.") || line.contains("num_partitions"));
                lines.map(|line| line.trim_start().to_owned() + "\n").collect()
            }
            Err(error) => format!("error: {error}"),
        };
        expect.assert_eq(&text);
    }

    #[test]
    fn what_the_program_says_of_its_inside_stays() {
        check(
            PROGRAM,
            &["w=(x)"],
            expect![[r#"
            module @step attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
            sdy.mesh @mesh = <["x"=2, "y"=2]>
            func.func public @main(%arg0: tensor<6x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>, tf.aliasing_output = 0 : i32} loc("w")) -> (tensor<6x4xf32> {jax.result_info = "out0", sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}, tensor<f32> {jax.result_info = "out1", sdy.sharding = #sdy.sharding<@mesh, []>}) {
            %1 = sdy.sharding_constraint %0 <@mesh, [{"x"}, {}]> : tensor<5x4xf32>
            %3 = sdy.sharding_constraint %2 <@mesh, [{?}, {"y", ?}]> : tensor<5x4xf32>
            %6 = sdy.sharding_constraint %4 <@mesh, [{"x"}, {}]> : tensor<5x4xf32>
        "#]],
        );
    }

    #[test]
    fn results_of_ops_are_pinned_wherever_they_are() {
        check(
            PROGRAM,
            &["op:add=(x)", "op:model.py:3=(y, -)", "op:stablehlo.mul*=y"],
            expect![[r#"
            module @step attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
            sdy.mesh @mesh = <["x"=2, "y"=2]>
            func.func public @main(%arg0: tensor<5x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>, tf.aliasing_output = 0 : i32} loc("w")) -> (tensor<5x4xf32> {jax.result_info = "out0", sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, tensor<f32> {jax.result_info = "out1", sdy.sharding = #sdy.sharding<@mesh, []>}) {
            %1 = sdy.sharding_constraint %0 <@mesh, [{"y"}, {}]> : tensor<5x4xf32> loc("jit(step)/add"("model.py":3:4))
            %2 = sdy.sharding_constraint %1 <@mesh, [{?}, {"y", ?}]> : tensor<5x4xf32>
            %6 = sdy.sharding_constraint %5 <@mesh, [{}, {"y"}]> : tensor<5x4xf32>
        "#]],
        );
        check(
            PROGRAM,
            &["op:addd=(x)"],
            expect![
                "error: rule op:addd=(x) matches none of the 4 ops; nearest to it are add, call, constant"
            ],
        );
        check(
            PROGRAM,
            &["op:jit(step)/add=(-, -, x)"],
            expect![
                "error: rule op:jit(step)/add=(-, -, x): op add, jit(step)/add, model.py:3, stablehlo.add of type f32[5,4]: spec (-, -, x) is for rank 3, but shape [5, 4] has rank 2; a spec has one entry per dim, - where it is not split"
            ],
        );
    }

    #[test]
    fn devices_in_another_order_are_refused() {
        let program = PROGRAM.replace(r#""y"=2]>"#, r#""y"=2], device_ids=[0, 2, 1, 3]>"#);
        check(
            &program,
            &[],
            expect![
                "error: the program's mesh @own lists its devices in an order of its own; export it over devices that count up"
            ],
        );
    }

    #[test]
    fn shardings_in_hlos_form_are_found_on_the_mesh() {
        let pinned = r#"stablehlo.custom_call @Sharding(%0) {mhlo.sharding = "{devices=[1,2,2]<=[4] last_tile_dim_replicate}"} : (tensor<5x4xf32>) -> tensor<5x4xf32>"#;
        let constraint = r#"sdy.sharding_constraint %0 <@own, [{?}, {"y", ?}]> : tensor<5x4xf32>"#;
        check(
            &PROGRAM.replace(constraint, pinned),
            &[],
            expect![[r#"
            module @step attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
            sdy.mesh @mesh = <["x"=2, "y"=2]>
            func.func public @main(%arg0: tensor<5x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>, tf.aliasing_output = 0 : i32} loc("w")) -> (tensor<5x4xf32> {jax.result_info = "out0", sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, tensor<f32> {jax.result_info = "out1", sdy.sharding = #sdy.sharding<@mesh, []>}) {
            %1 = sdy.sharding_constraint %0 <@mesh, [{}, {"x"}]> : tensor<5x4xf32>
        "#]],
        );
        let of_three = pinned
            .replace("[1,2,2]<=[4]", "[1,4]<=[4]")
            .replace(" last_tile_dim_replicate", "")
            .replace("[1,4]", "[4,1]");
        check(
            &PROGRAM.replace(constraint, &of_three),
            &[],
            expect![[r#"
            module @step attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
            sdy.mesh @mesh = <["x"=2, "y"=2]>
            func.func public @main(%arg0: tensor<5x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>, tf.aliasing_output = 0 : i32} loc("w")) -> (tensor<5x4xf32> {jax.result_info = "out0", sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, tensor<f32> {jax.result_info = "out1", sdy.sharding = #sdy.sharding<@mesh, []>}) {
            %1 = sdy.sharding_constraint %0 <@mesh, [{"x", "y"}, {}]> : tensor<5x4xf32>
        "#]],
        );
        check(
            &PROGRAM.replace(constraint, &pinned.replace("[1,2,2]<=[4]", "[1,3,1]<=[3]")),
            &[],
            expect![
                "error: op sharding_constraint at line 6, column 5: the program says that it is sharded {devices=[1,3,1]<=[3] last_tile_dim_replicate}, which is of no use here: the text is about 3 devices, but mesh x=2, y=2 has 4"
            ],
        );
    }
}
