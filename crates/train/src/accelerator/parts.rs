//! What is prepared.

use std::sync::Arc;

use shardwright_data::Batches;

use super::{Accelerator, PrepareError};
use crate::{GroupConfig, Model, Optimizer, ParameterGroups, Schedule, TrainError};

/// What [`Accelerator::prepare`] takes: `Arc<impl Model>`, [`GroupedOptimizer`], [`Schedule`], [`Batches`], and tuples
/// of these.
///
/// Batches are the same on all processes: each places the rows of its own devices. Batches of any other make need no
/// preparation.
pub trait Prepare: Sized {
    /// Gives the part to an accelerator, and back.
    ///
    /// # Errors
    /// As [`Accelerator::prepare`].
    fn prepare(self, accelerator: &mut Accelerator<'_>) -> Result<Self, TrainError>;
}

/// An optimizer, and the constants that it has for groups of parameters. It may be made before the model that it is for.
///
/// ```
/// use shardwright_train::{AdamW, GroupConfig, GroupRule, GroupedOptimizer};
///
/// let frozen = GroupRule {
///     pattern: "embed_tokens".parse()?,
///     learning_rate: None,
///     weight_decay: None,
///     trained: false,
/// };
/// let groups = GroupConfig { learning_rate: 1e-3, weight_decay: 0.1, rules: vec![frozen] };
/// let optimizer = GroupedOptimizer::new(AdamW::default(), groups);
/// assert_eq!(optimizer.groups.rules.len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct GroupedOptimizer {
    /// How parameters are updated.
    pub optimizer: Arc<dyn Optimizer>,
    /// Which are, and with which constants.
    pub groups: GroupConfig,
}

impl GroupedOptimizer {
    /// An optimizer with its groups.
    pub fn new(optimizer: impl Optimizer + 'static, groups: GroupConfig) -> GroupedOptimizer {
        GroupedOptimizer { optimizer: Arc::new(optimizer), groups }
    }

    fn is(&self, other: &GroupedOptimizer) -> bool {
        Arc::ptr_eq(&self.optimizer, &other.optimizer) && self.groups == other.groups
    }
}

impl<M: Model + 'static> Prepare for Arc<M> {
    fn prepare(self, accelerator: &mut Accelerator<'_>) -> Result<Self, TrainError> {
        let model: Arc<dyn Model> = self.clone();
        match &accelerator.model {
            // The data pointers alone: one type may have several tables of methods.
            Some(known) if !std::ptr::addr_eq(Arc::as_ptr(known), Arc::as_ptr(&model)) => {
                return Err(PrepareError::Another { part: "model" }.into());
            }
            Some(_) => return Ok(self),
            None => {}
        }
        accelerator.wrapped(&*model)?;
        accelerator.config.clipping.check(&model.parameters())?;
        if let Some(optimizer) = &accelerator.optimizer {
            ParameterGroups::new(&optimizer.groups, &*model)?;
        }
        accelerator.model = Some(model);
        Ok(self)
    }
}

impl Prepare for GroupedOptimizer {
    fn prepare(self, accelerator: &mut Accelerator<'_>) -> Result<Self, TrainError> {
        if accelerator.optimizer.as_ref().is_some_and(|known| !known.is(&self)) {
            return Err(PrepareError::Another { part: "optimizer" }.into());
        }
        if let Some(model) = &accelerator.model {
            ParameterGroups::new(&self.groups, &**model)?;
        }
        accelerator.optimizer = Some(self.clone());
        Ok(self)
    }
}

impl Prepare for Schedule {
    fn prepare(self, accelerator: &mut Accelerator<'_>) -> Result<Self, TrainError> {
        if accelerator.schedule.is_some_and(|known| known != self) {
            return Err(PrepareError::Another { part: "schedule" }.into());
        }
        accelerator.schedule = Some(self);
        Ok(self)
    }
}

impl Prepare for Batches {
    fn prepare(self, accelerator: &mut Accelerator<'_>) -> Result<Self, TrainError> {
        let (given, expected) = (self.plan().accumulation, accelerator.config.gradient_accumulation_steps);
        // Batches that are not cut may be for evaluation.
        if given != 1 && given != expected {
            return Err(PrepareError::Accumulation { given, expected }.into());
        }
        Ok(self)
    }
}

macro_rules! tuples {
    ($(($($part:ident),+))+) => {$(
        impl<$($part: Prepare),+> Prepare for ($($part,)+) {
            #[expect(non_snake_case, reason = "parts are called as their types are")]
            fn prepare(self, accelerator: &mut Accelerator<'_>) -> Result<Self, TrainError> {
                let ($($part,)+) = self;
                Ok(($($part.prepare(accelerator)?,)+))
            }
        }
    )+};
}

tuples! {
    (A)
    (A, B)
    (A, B, C)
    (A, B, C, D)
    (A, B, C, D, E)
}
