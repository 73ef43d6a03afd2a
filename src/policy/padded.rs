//! Graph batching by padding: requests of similar length run as one batch from start to end (TensorFlow, MXNet).
//!
//! An idle worker takes a batch from the next non-empty bucket, in turn, and runs it to the bucket's length or its
//! longest member's (BatchMaker, section 7.1).

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

use super::registry::{Batches, PolicyKind, Settings, Setup};
use super::values::at_least_1;
use super::whole::PaddedBatch;
use super::{Outcomes, Policy};
use crate::task::{Dispatch, Reason, Step};
use crate::units::{CellId, Nanos, RequestId, WorkerId};
use crate::workload::cell_graph::CellGraph;
use crate::workload::dnn::Dnn;
use crate::workload::model::Model;
use crate::workload::trace::Request;

/// `kind = "padded"`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Padded {
    /// Bucket *i* takes lengths `i · width + 1` to `(i + 1) · width`.
    pub bucket_width: u32,
    /// Requests in a batch.
    pub max_batch: u32,
    pub pad_to: PadTo,
    /// How long a bucket's oldest request may wait for a full batch.
    #[serde(with = "super::values::time_with_unit")]
    pub window: Nanos,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PadTo {
    /// The bucket's longest, whose graph is built in advance.
    Bucket,
    Longest,
}

impl Default for Padded {
    fn default() -> Self {
        Padded { bucket_width: 10, max_batch: 512, pad_to: PadTo::Bucket, window: Nanos::ZERO }
    }
}

impl Settings for Padded {
    fn describe(&self) -> PolicyKind {
        PolicyKind::new("padded", "whole sequences, padded to one length and batched by buckets (TensorFlow, MXNet)")
    }

    fn build(&self, setup: &Setup<'_>) -> Result<Box<dyn Policy>, String> {
        setup.require_sequences("padded batching")?;
        at_least_1([("bucket_width", self.bucket_width), ("max_batch", self.max_batch)])?;
        let pad_to = if self.pays_for_inputs(setup) { self.pad_to } else { PadTo::Longest };
        Ok(Box::new(PaddedPolicy {
            settings: Padded { pad_to, ..self.clone() },
            sized: setup.cells.iter().any(|cell| cell.sized),
            longest: setup.model.network().and_then(Dnn::most_tokens).unwrap_or(u32::MAX),
            buckets: BTreeMap::new(),
            spare: Vec::new(),
            pointer: 0,
            now: Nanos::ZERO,
            batch: PaddedBatch::default(),
        }))
    }

    fn largest_batches(&self, _: &Setup<'_>) -> Option<Batches> {
        Some(Batches::Requests(self.max_batch))
    }
}

impl Padded {
    /// False if a cost table without input sizes gives all sizes the same time: nothing is then padded to a bucket.
    fn pays_for_inputs(&self, setup: &Setup<'_>) -> bool {
        let (Model::Dnn(_), Some(costs)) = (setup.model, setup.costs) else { return true };
        let time = |batch, input| costs.cell(&Step { cell: CellId(0), batch, times: 1, input });
        [1, self.max_batch].iter().any(|&batch| time(batch, 1) != time(batch, u32::MAX))
    }
}

struct PaddedPolicy {
    settings: Padded,
    sized: bool,
    longest: u32,
    /// Without empty ones.
    buckets: BTreeMap<u32, VecDeque<Waiting>>,
    /// The memory of buckets that became empty.
    spare: Vec<VecDeque<Waiting>>,
    pointer: u32,
    now: Nanos,
    batch: PaddedBatch,
}

struct Waiting {
    request: RequestId,
    arrival: Nanos,
    graph: CellGraph,
}

impl PaddedPolicy {
    fn next_bucket(&self) -> Option<u32> {
        let mut in_turn = self.buckets.range(self.pointer..).chain(self.buckets.range(..self.pointer));
        in_turn.find(|(_, waiting)| self.may_send(waiting)).map(|(bucket, _)| *bucket)
    }

    fn may_send(&self, waiting: &VecDeque<Waiting>) -> bool {
        waiting.len() >= self.settings.max_batch as usize || self.deadline(waiting) <= self.now
    }

    fn deadline(&self, waiting: &VecDeque<Waiting>) -> Nanos {
        waiting[0].arrival.saturating_add(self.settings.window)
    }

    fn send(&mut self, bucket: u32, worker: WorkerId, dispatch: &mut Dispatch<'_>) {
        let waiting = self.buckets.get_mut(&bucket).expect("requests wait in the bucket");
        let size = waiting.len().min(self.settings.max_batch as usize);
        self.batch.clear();
        for member in waiting.drain(..size) {
            self.batch.add(member.request, &member.graph);
        }
        let left = waiting.len();
        if left == 0 {
            self.spare.extend(self.buckets.remove(&bucket));
        }
        if self.settings.pad_to == PadTo::Bucket {
            // The last bucket may reach beyond the largest number.
            let bound = (bucket + 1).saturating_mul(self.settings.bucket_width).min(self.longest);
            let steps = &mut self.batch.steps;
            if self.sized {
                steps.iter_mut().filter(|step| step.input > 0).for_each(|step| step.input = bound);
            } else {
                steps[0].times = bound;
            }
        }
        let PaddedPolicy { settings, pointer, .. } = self;
        let window = settings.window;
        dispatch.submit_because(&self.batch.task(worker), || Reason {
            what: format!(
                "bucket {bucket} (lengths {} to {}): of those that may send, the first from bucket {pointer} on, going round",
                u64::from(bucket) * u64::from(settings.bucket_width) + 1,
                u64::from(bucket + 1) * u64::from(settings.bucket_width)
            ),
            size: match left {
                0 => format!("all {size} that wait in the bucket"),
                _ => format!("max_batch ({}) of {} that wait in the bucket", settings.max_batch, size + left),
            },
            when: match (size == settings.max_batch as usize, window) {
                (_, Nanos::ZERO) => format!("worker {worker} had nothing to do"),
                (true, _) => format!("the bucket has a full batch, and worker {worker} had nothing to do"),
                (false, _) => {
                    format!("the bucket's oldest request has waited for the window ({window}), and worker {worker} had nothing to do")
                }
            },
        });
        self.pointer = bucket + 1;
    }
}

impl Policy for PaddedPolicy {
    fn arrive(&mut self, request: &Request<'_>, _: &mut Outcomes) {
        let bucket = (request.shape.length() - 1) / self.settings.bucket_width;
        let PaddedPolicy { buckets, spare, .. } = self;
        buckets.entry(bucket).or_insert_with(|| spare.pop().unwrap_or_default()).push_back(Waiting {
            request: request.id,
            arrival: request.arrival,
            graph: request.graph.clone(),
        });
    }

    fn schedule(&mut self, dispatch: &mut Dispatch<'_>) {
        self.now = dispatch.now();
        for worker in dispatch.workers() {
            if !dispatch.is_idle(worker) {
                continue;
            }
            let Some(bucket) = self.next_bucket() else { return };
            self.send(bucket, worker, dispatch);
        }
    }

    fn wake_at(&self) -> Option<Nanos> {
        if self.settings.window == Nanos::ZERO {
            return None;
        }
        // A bucket whose window has ended waits for a worker, not for the clock.
        self.buckets.values().map(|waiting| self.deadline(waiting)).filter(|at| *at > self.now).min()
    }
}
