//! Losses and gradient norms of steps, left on the devices until somebody asks, and then read many at a time.

use std::collections::VecDeque;

use shardwright_graph::Graph;
use shardwright_hlo::{ArgumentKind, verify};
use shardwright_mesh::Mesh;
use shardwright_partition::ShardedModule;
use shardwright_runtime::{Argument, Executable, ExecutableValue, Runtime, ShardedArray};

use crate::{PendingMetrics, TrainError};

/// Steps that may be under way while the next one is prepared. Each holds its batch; with more, the devices gain nothing.
pub(crate) const RUN_AHEAD: usize = 2;

/// Steps whose metrics one copy brings to the host.
const ROWS: usize = 64;

/// A step that was started and not yet read.
pub(crate) struct Started {
    /// Its number, from 1.
    pub(crate) step: usize,
    /// The learning rate of its update.
    pub(crate) learning_rate: f64,
    /// On the devices.
    pub(crate) metrics: PendingMetrics,
}

/// What a step came to.
pub(crate) struct Reading {
    /// The step.
    pub(crate) started: Started,
    /// Its loss.
    pub(crate) loss: f64,
    /// The norm of its gradients.
    pub(crate) grad_norm: f64,
}

/// The steps that were started and not yet read, oldest first: at most [`ROWS`] and those under way.
pub(crate) struct Readings<'a> {
    rows: &'a MetricRows,
    pending: VecDeque<Started>,
}

/// The program that lays the metrics of some steps one below the other.
pub(crate) struct MetricRows(Executable);

impl MetricRows {
    /// Compiles it for metrics of this type.
    pub(crate) fn compile(
        runtime: &Runtime,
        mesh: &Mesh,
        metrics: &ExecutableValue,
    ) -> Result<MetricRows, TrainError> {
        let g = Graph::new("metric_rows");
        let row = [&[1][..], metrics.ty.dims()].concat();
        let argument = |n| g.argument(format!("step.{n}"), metrics.ty.clone(), ArgumentKind::Other);
        let rows = (0..ROWS).map(|n| g.reshape(argument(n), &row)).collect::<Result<Vec<_>, _>>()?;
        g.output("rows", g.concatenate(&rows, 0)?);
        let whole = shardwright_mesh::NamedSharding::replicated(mesh.shape(), row.len());
        let arguments = vec![metrics.sharding.clone(); ROWS];
        let sharded = ShardedModule::new(verify(g.finish())?, mesh.shape(), arguments, vec![whole])?;
        Ok(MetricRows(runtime.compile(&sharded, mesh)?))
    }

    /// Loss and gradient norm of up to [`ROWS`] steps, in one copy. Waits for the last of them.
    fn read(&self, steps: &[Started]) -> Result<Vec<[f64; 2]>, TrainError> {
        let Some(last) = steps.last() else { return Ok(Vec::new()) };
        let arrays = steps.iter().map(|step| step.metrics.values());
        // What is missing to a full program is the last one again.
        let filled = arrays.chain(std::iter::repeat(last.metrics.values())).take(ROWS);
        let rows = self.rows_on_device(filled)?.to_host()?.to_f64();
        let width = rows.len() / ROWS;
        Ok(rows.chunks(width).take(steps.len()).map(|row| [row[0], row[1]]).collect())
    }

    fn rows_on_device<'a>(
        &self,
        arrays: impl Iterator<Item = &'a ShardedArray>,
    ) -> Result<ShardedArray, TrainError> {
        let mut outputs = self.0.execute(arrays.map(Argument::Borrow))?.outputs;
        Ok(outputs.pop().expect("the program has one output"))
    }
}

impl<'a> Readings<'a> {
    /// No steps yet.
    pub(crate) fn new(rows: &'a MetricRows) -> Readings<'a> {
        Readings { rows, pending: VecDeque::with_capacity(ROWS + RUN_AHEAD) }
    }

    /// Waits until another step may be started; copies nothing.
    pub(crate) fn wait_for_room(&self) -> Result<(), TrainError> {
        let newest_first = self.pending.iter().rev();
        newest_first.skip(RUN_AHEAD - 1).take(1).try_for_each(|started| started.metrics.wait())
    }

    /// A step was started.
    pub(crate) fn push(&mut self, started: Started) {
        self.pending.push_back(started);
    }

    /// Steps that are to be read before there are more of them than one copy takes.
    pub(crate) fn overdue(&self) -> usize {
        if self.pending.len() < ROWS + RUN_AHEAD { 0 } else { ROWS }
    }

    /// Steps that are over, so that reading them keeps no device waiting.
    pub(crate) fn settled(&self) -> usize {
        self.pending.len().saturating_sub(RUN_AHEAD)
    }

    /// All of them.
    pub(crate) fn all(&self) -> usize {
        self.pending.len()
    }

    /// Reads so many, oldest first.
    pub(crate) fn read(&mut self, count: usize) -> Result<Vec<Reading>, TrainError> {
        let started: Vec<Started> = self.pending.drain(..count.min(self.pending.len())).collect();
        let mut metrics = Vec::with_capacity(started.len());
        for some in started.chunks(ROWS) {
            metrics.extend(self.rows.read(some)?);
        }
        let reading =
            |(started, [loss, grad_norm]): (Started, [f64; 2])| Reading { started, loss, grad_norm };
        Ok(started.into_iter().zip(metrics).map(reading).collect())
    }
}
