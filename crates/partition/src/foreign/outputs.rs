//! Outputs: whose memory they take over, and where they lie.

use std::collections::{HashMap, VecDeque};

use shardwright_mesh::NamedSharding;
use shardwright_tensor::TensorType;

use super::{DimChoice, Place, Planner, RuleProblem};
use crate::plan::PlannedOutput;
use crate::rules::{Placement, Says, Target};
use crate::{Decision, PlannedArgument};

impl<'a> Planner<'a> {
    /// For each output the argument whose memory it takes over, as the program says and as donations say.
    pub(super) fn donors(&mut self) -> Vec<Option<usize>> {
        let (arguments, outputs) = (&self.signature.arguments, &self.signature.outputs);
        let mut donors: Vec<Option<usize>> = outputs.iter().map(|o| o.donor).collect();
        let mut is_donated = vec![false; arguments.len()];
        donors.iter().flatten().for_each(|&index| is_donated[index] = true);
        let mut free: HashMap<&TensorType, VecDeque<usize>> = HashMap::new();
        for (index, output) in outputs.iter().enumerate().filter(|(index, _)| donors[*index].is_none()) {
            free.entry(&output.ty).or_default().push_back(index);
        }
        for pattern in &self.rules.donated {
            let mut has_matched = false;
            for (index, argument) in arguments.iter().enumerate() {
                if !pattern.matches(index, &argument.name, &argument.ty) {
                    continue;
                }
                has_matched = true;
                if std::mem::replace(&mut is_donated[index], true) {
                    continue;
                }
                match free.get_mut(&argument.ty).and_then(VecDeque::pop_front) {
                    Some(output) => donors[output] = Some(index),
                    None => {
                        let (argument, ty) = (argument.name.clone(), argument.ty.clone());
                        self.problems.push(RuleProblem::NoOutput { argument, ty });
                    }
                }
            }
            if !has_matched {
                let problem = self.no_match(&format!("--donate {}", pattern.text), &pattern.text, false);
                self.problems.push(problem);
            }
        }
        donors
    }

    /// Where each output lies.
    pub(super) fn outputs(
        &mut self,
        arguments: &[Option<PlannedArgument>],
        donors: &[Option<usize>],
        stated: Vec<Option<NamedSharding>>,
    ) -> Vec<Option<PlannedOutput>> {
        let signature = self.signature;
        let mut outputs = Vec::with_capacity(signature.outputs.len());
        for (index, (output, stated)) in signature.outputs.iter().zip(stated).enumerate() {
            let said = match self.output_placement(index) {
                Some(rule) => match self.by_rule(
                    "output",
                    &output.name,
                    &output.ty,
                    rule,
                    self.choice_of_output(donors[index]),
                    stated,
                ) {
                    None => {
                        outputs.push(None);
                        continue;
                    }
                    said => said,
                },
                None => stated.map(|stated| (stated, Decision::Stated)),
            };
            let place = match donors[index] {
                Some(donor) => self.beside_donor(index, donor, arguments[donor].as_ref(), said),
                None => Some(said.unwrap_or_else(|| {
                    (NamedSharding::replicated(self.mesh, output.ty.rank()), Decision::Whole)
                })),
            };
            outputs.push(place.map(|(sharding, decision)| PlannedOutput {
                name: output.name.clone(),
                ty: output.ty.clone(),
                donor: donors[index],
                sharding,
                decision,
            }));
        }
        outputs
    }

    /// How the dim of an output is chosen: as that of the argument whose memory it takes over.
    fn choice_of_output(&self, donor: Option<usize>) -> DimChoice {
        donor.map_or(DimChoice { rule: self.options.dim_rule, sliced: None }, |donor| self.choice(donor))
    }

    fn output_placement(&mut self, index: usize) -> Option<(usize, &'a Placement)> {
        let output = &self.signature.outputs[index];
        self.last_rule(Says::placement, |pattern| {
            pattern.target == Target::Output && pattern.matches(index, &output.name, &output.ty)
        })
    }

    /// Where an output lies that takes over an argument's memory: there, whatever else is said of it.
    fn beside_donor(
        &mut self,
        index: usize,
        donor: usize,
        argument: Option<&PlannedArgument>,
        said: Option<Place>,
    ) -> Option<Place> {
        let argument = argument?;
        match said {
            Some((sharding, decision)) if sharding != argument.sharding => {
                let by = match decision {
                    Decision::Rule(rule) => format!("rule {rule}"),
                    _ => "the program itself".to_owned(),
                };
                self.problems.push(RuleProblem::Donor {
                    output: self.signature.outputs[index].name.clone(),
                    by,
                    found: sharding.spec().clone(),
                    argument: argument.name.clone(),
                    expected: argument.sharding.spec().clone(),
                });
                None
            }
            Some(place) => Some(place),
            None => Some((argument.sharding.clone(), Decision::Follows(donor))),
        }
    }
}
