//! Settings of the steps of a run.

use shardwright_train::LossDenominator;

use super::super::failure::Failure;
use super::super::value::{AtLeast, Positive, StepLimit, Value};
use super::{Layer, Setting, Spec, default, optional, settings};

settings! {
    /// Which steps are taken.
    TrainingSettings "Training" {
        /// Train [default: yes, unless do_eval stands alone]
        do_train: bool;
        /// Examples that one device sees at a time
        per_device_train_batch_size | per_gpu_train_batch_size: AtLeast<1> = "8";
        /// Batches whose gradients make one step
        gradient_accumulation_steps: AtLeast<1> = "1";
        /// Examples of one step, over all devices and accumulated batches; in place of per_device_train_batch_size
        global_batch_size: AtLeast<1>;
        /// Passes over the data; a fraction is fine
        num_train_epochs: Positive = "3.0";
        /// Steps to take, in place of num_train_epochs; -1 for no limit
        max_steps: StepLimit = "-1";
        /// What the loss of a step is divided by: labels, as Hugging Face's Trainer does, or targets for the plain mean
        loss_denominator: LossDenominator = "labels";
        /// Compute the activations of wrapped layers again in backward, to save memory
        gradient_checkpointing: bool = "no";
        /// Stop at the first loss or gradient that is not finite
        nan_stop: bool = "yes";
        /// Decides the initial weights, and the order of the data
        seed: u64 = "42";
        /// Decides the order of the data [default: seed]
        data_seed: u64;
        /// Read everything, plan and compile, tell memory and program size, and train nothing
        dry_run: bool = "no";
    }
}
