//! Graph batching by padding: requests of similar length run as one batch from start to end (TensorFlow, MXNet).
//!
//! Requests wait in buckets by length. An idle worker goes round the buckets, takes a batch from the next that is not
//! empty and runs it to the bucket's length, or to its longest member's (BatchMaker, section 7.1).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;

use serde::{Deserialize, Serialize};

use super::registry::{Batches, Settings, Setup};
use super::{Outcomes, Policy};
use crate::task::{Dispatch, Reason};
use crate::task::{Step, Task};
use crate::units::{Nanos, RequestId, WorkerId};
use crate::workload::cell_graph::{CellGraph, Run};
use crate::workload::dnn::Dnn;
use crate::workload::trace::Request;

/// `kind = "padded"`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Padded {
    /// The range of lengths that share a bucket: bucket *i* takes lengths from `i · width + 1` to `(i + 1) · width`.
    pub bucket_width: u32,
    /// The most requests in a batch.
    pub max_batch: u32,
    /// What a batch is padded to.
    pub pad_to: PadTo,
    /// How long the oldest request of a bucket may wait for its batch to fill; 0 sends what there is when a worker is idle.
    #[serde(with = "super::values::time_with_unit")]
    pub window: Nanos,
}

/// What a batch is padded to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PadTo {
    /// The bucket's longest length: one graph for each bucket is made once, before the first request.
    Bucket,
    /// The batch's longest member.
    Longest,
}

impl Default for Padded {
    fn default() -> Self {
        Padded { bucket_width: 10, max_batch: 512, pad_to: PadTo::Bucket, window: Nanos::ZERO }
    }
}

impl Settings for Padded {
    const KIND: &'static str = "padded";
    const ABOUT: &'static str = "whole sequences, padded to one length and batched by buckets (TensorFlow, MXNet)";

    fn build(&self, setup: &Setup<'_>) -> Result<Box<dyn Policy>, String> {
        if let Some(graph) = setup.model.graph_model().filter(|graph| !graph.is_sequence()) {
            return Err(format!(
                "padded batching takes sequences only: chains of cells, one type after another, the first of them as long as \
                 the request. Those of graph:{} are none; use cellular or merged",
                graph.given()
            ));
        }
        if setup.model.takes_trees() {
            return Err(format!(
                "padded batching takes sequences only, and the model {} has trees; use cellular or merged",
                setup.model.name()
            ));
        }
        for (key, value) in [("bucket_width", self.bucket_width), ("max_batch", self.max_batch)] {
            if value == 0 {
                return Err(format!("{key}: 0 is too small; at least 1"));
            }
        }
        Ok(Box::new(PaddedPolicy {
            settings: self.clone(),
            sized: setup.cells.iter().any(|cell| cell.sized),
            longest: setup.model.network().and_then(Dnn::most_tokens).unwrap_or(u32::MAX),
            buckets: BTreeMap::new(),
            occupied: BTreeSet::new(),
            pointer: 0,
            now: Nanos::ZERO,
            requests: Vec::new(),
            steps: Vec::new(),
        }))
    }

    fn largest_batches(&self, _: &Setup<'_>) -> Option<Batches> {
        Some(Batches::Requests(self.max_batch))
    }
}

struct PaddedPolicy {
    settings: Padded,
    /// The length of a request is the size of its cells' inputs, not a number of steps.
    sized: bool,
    /// The longest request that the model takes: no batch is padded beyond.
    longest: u32,
    buckets: BTreeMap<u32, VecDeque<Waiting>>,
    /// The buckets that hold a request.
    occupied: BTreeSet<u32>,
    /// The bucket at which the next search begins.
    pointer: u32,
    now: Nanos,
    requests: Vec<RequestId>,
    steps: Vec<Step>,
}

struct Waiting {
    request: RequestId,
    arrival: Nanos,
    graph: CellGraph,
}

impl PaddedPolicy {
    /// The next bucket from the pointer on, going round, that may send a batch.
    fn next_bucket(&self) -> Option<u32> {
        let behind = self.occupied.range((Bound::Included(self.pointer), Bound::Unbounded));
        let before = self.occupied.range((Bound::Unbounded, Bound::Excluded(self.pointer)));
        behind.chain(before).copied().find(|bucket| self.may_send(*bucket))
    }

    /// A bucket sends when it has a full batch, or when its oldest request has waited for the window.
    fn may_send(&self, bucket: u32) -> bool {
        let waiting = &self.buckets[&bucket];
        waiting.len() >= self.settings.max_batch as usize || self.deadline(waiting).is_some_and(|at| at <= self.now)
    }

    fn deadline(&self, waiting: &VecDeque<Waiting>) -> Option<Nanos> {
        waiting.front().map(|oldest| oldest.arrival.saturating_add(self.settings.window))
    }

    fn send(&mut self, bucket: u32, worker: WorkerId, dispatch: &mut Dispatch<'_>) {
        let waiting = self.buckets.get_mut(&bucket).expect("an occupied bucket exists");
        let size = waiting.len().min(self.settings.max_batch as usize);
        self.requests.clear();
        self.steps.clear();
        let mut useful = 0;
        for member in waiting.drain(..size) {
            self.requests.push(member.request);
            useful += lengthen(&mut self.steps, &member.graph);
        }
        if waiting.is_empty() {
            self.occupied.remove(&bucket);
        }
        if self.settings.pad_to == PadTo::Bucket {
            // The last bucket may reach beyond the largest number; nothing is as long as that.
            let bound = (bucket + 1).saturating_mul(self.settings.bucket_width).min(self.longest);
            match self.sized {
                false => self.steps[0].times = bound,
                true => self.steps.iter_mut().filter(|step| step.input > 0).for_each(|step| step.input = bound),
            }
        }
        let PaddedPolicy { settings, requests, pointer, .. } = self;
        let (left, window) = (waiting.len(), settings.window);
        dispatch.submit_because(&Task::whole_requests(worker, &self.steps, requests, useful), || Reason {
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
        self.buckets.entry(bucket).or_default().push_back(Waiting {
            request: request.id,
            arrival: request.arrival,
            graph: request.graph.clone(),
        });
        self.occupied.insert(bucket);
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
        // A bucket whose time has come waits for a worker, not for the clock.
        let deadlines = self.occupied.iter().filter_map(|bucket| self.deadline(&self.buckets[bucket]));
        deadlines.filter(|at| *at > self.now).min()
    }
}

/// Makes a padded batch's steps hold one more request, each as long as that of its longest member; gives the number of
/// cells that are the request's own. A batch begins without steps.
///
/// # Panics
/// On a graph that is no sequence: a policy that pads refuses models that have such.
pub fn lengthen(steps: &mut Vec<Step>, graph: &CellGraph) -> u64 {
    let CellGraph::Chains(runs) = graph else { panic!("a graph that is no sequence can't be padded") };
    for (i, Run { cell, length, input }) in runs.iter().copied().enumerate() {
        match steps.get_mut(i) {
            Some(step) => {
                step.batch += 1;
                step.times = length.max(step.times);
                step.input = input.max(step.input);
            }
            None => steps.push(Step { cell, batch: 1, times: length, input }),
        }
    }
    runs.iter().map(|run| u64::from(run.length) * u64::from(run.input.max(1))).sum()
}
