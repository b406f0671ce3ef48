//! Calls, loops and branches.

use shardwright_tensor::{DType, TensorType};

use super::InferError;
use crate::{FunctionId, Module, Op, Region, ValueId, ValueType};

/// An instruction whose results are those of a function or of its regions.
pub(super) struct Control<'a> {
    pub(super) module: &'a Module,
    pub(super) op: &'a Op,
    pub(super) operands: &'a [ValueId],
    pub(super) regions: &'a [Region],
}

impl Control<'_> {
    pub(super) fn infer(&self) -> Result<Vec<ValueType>, InferError> {
        match self.op {
            Op::Call(function) => self.call(*function),
            Op::While => self.while_loop(),
            Op::If => self.branches(DType::Pred, "two regions", |n| n == 2),
            _ => self.branches(DType::S32, "at least one region", |n| n > 0),
        }
    }

    fn call(&self, id: FunctionId) -> Result<Vec<ValueType>, InferError> {
        let function = self.module.functions.get(id.0 as usize);
        let function = function.ok_or(InferError::NoFunction { function: id })?;
        self.regions("no regions", |n| n == 0)?;
        let takes = self.types(&function.body.arguments);
        self.require(|| format!("what @{} is given", function.name), takes, self.types(self.operands))?;
        Ok(self.types(&function.body.results))
    }

    fn while_loop(&self) -> Result<Vec<ValueType>, InferError> {
        self.regions("two regions", |n| n == 2)?;
        let (condition, body) = (&self.regions[0], &self.regions[1]);
        let carried = self.types(self.operands);
        let require = |what: &str, expected: &[ValueType], found: &[ValueId]| {
            self.require(|| what.to_owned(), expected.to_vec(), self.types(found))
        };
        require("what the condition takes", &carried, &condition.arguments)?;
        require("what the condition gives", &[scalar(DType::Pred)], &condition.results)?;
        require("what the body takes", &carried, &body.arguments)?;
        require("what the body gives", &carried, &body.results)?;
        Ok(carried)
    }

    fn branches(
        &self,
        selector: DType,
        expected: &'static str,
        count: impl Fn(usize) -> bool,
    ) -> Result<Vec<ValueType>, InferError> {
        self.regions(expected, count)?;
        self.require(|| "its operand".into(), vec![scalar(selector)], self.types(self.operands))?;
        let gives = self.types(&self.regions[0].results);
        for (index, region) in self.regions.iter().enumerate() {
            let what = |verb: &str| format!("what region {index} {verb}");
            self.require(|| what("takes"), Vec::new(), self.types(&region.arguments))?;
            self.require(|| what("gives"), gives.clone(), self.types(&region.results))?;
        }
        Ok(gives)
    }

    fn regions(&self, expected: &'static str, count: impl Fn(usize) -> bool) -> Result<(), InferError> {
        let found = self.regions.len();
        if count(found) {
            return Ok(());
        }
        Err(InferError::RegionCount { op: self.op.name().to_owned(), expected, found })
    }

    fn require(
        &self,
        what: impl FnOnce() -> String,
        expected: Vec<ValueType>,
        found: Vec<ValueType>,
    ) -> Result<(), InferError> {
        if expected == found {
            return Ok(());
        }
        Err(InferError::Types { op: self.op.name().to_owned(), what: what(), expected, found })
    }

    fn types(&self, values: &[ValueId]) -> Vec<ValueType> {
        // A value that there is not is reported where it should be defined.
        values.iter().filter_map(|v| self.module.values.get(v.index()).cloned()).collect()
    }
}

fn scalar(dtype: DType) -> ValueType {
    TensorType::scalar(dtype).into()
}
