//! Optimizers, schedules, the train step and its loop.
