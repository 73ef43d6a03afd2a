//! Graph batching by padding: requests of similar length run as one batch from start to end (TensorFlow, MXNet).
//!
//! Buckets take turns, and a batch runs to its bucket's length or its longest member's (BatchMaker, section 7.1). A turn
//! sends all requests that wait in the bucket when it begins: "round-robin scheduling across buckets" (7.1), in which
//! under load "a request must wait for more buckets to finish execution and each bucket also executes a larger batch of
//! requests at a time" (7.2). [`Turn`] has the alternatives.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};

use super::closed::{self, ClosedBatches, Version};
use super::prelude::*;
use super::whole::{PaddedBatch, Waiting};
use crate::base::error::refuse_if;
use crate::core::workload::model::Model;

/// `kind = "padded"`.
#[derive(Clone, Debug, Serialize, Deserialize, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct Padded {
    /// Bucket *i* takes lengths `i · width + 1` to `(i + 1) · width`.
    #[default = 10]
    pub bucket_width: u32,
    /// Requests in a batch.
    #[default = 512]
    pub max_batch: u32,
    /// The last bucket ends at the longest request of the trace or of the dataset.
    #[default(PadTo::Bucket)]
    pub pad_to: PadTo,
    #[default(Turn::Bucket)]
    pub turn: Turn,
    /// How long a bucket's oldest request may wait for a full batch.
    #[serde(with = "super::values::time_with_unit")]
    pub window: Nanos,
    /// Batches of a worker that wait behind the running one, with fixed members. Triton with TensorRT has 1: its
    /// instance takes the next batch when the running one has read its inputs (`ready_for_input_` in
    /// `tensorrt_backend`).
    pub ahead: u32,
    /// Triton's batcher in this release; its delay is `window`. Both `None` and `"22.03"` form a batch when a worker takes
    /// it.
    pub version: Option<Version>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PadTo {
    /// The bucket's longest, whose graph is built in advance.
    Bucket,
    Longest,
}

/// Which bucket is next, and what it sends. Requests that arrive during their bucket's turn wait for its next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Turn {
    /// In a circle; all that wait in the bucket.
    Bucket,
    /// In a circle; one batch.
    Batch,
    /// The bucket whose first request arrived earliest; one batch.
    Oldest,
    /// The bucket in which most requests wait; one batch.
    Fullest,
}

impl Settings for Padded {
    fn describe(&self) -> PolicyKind {
        PolicyKind::new(
            "padded",
            "whole sequences, padded to one length and batched by buckets (TensorFlow, MXNet)",
        )
    }

    fn build(&self, setup: &Setup<'_>) -> Result<Box<dyn Policy>, String> {
        setup.require_sequences("padded batching")?;
        at_least_1([
            ("bucket_width", self.bucket_width),
            ("max_batch", self.max_batch),
        ])?;
        self.check_version(setup)?;
        let pad_to = if self.pays_for_inputs(setup) {
            self.pad_to
        } else {
            PadTo::Longest
        };
        let longest = setup.longest.unwrap_or(u32::MAX);
        Ok(Box::new(PaddedPolicy {
            settings: Padded {
                pad_to,
                ..self.clone()
            },
            operators: matches!(setup.model, Model::Dnn(_) | Model::Network(_)),
            longest: longest.min(
                setup
                    .model
                    .network()
                    .and_then(|network| network.most_tokens)
                    .unwrap_or(u32::MAX),
            ),
            buckets: BTreeMap::new(),
            spare: Vec::new(),
            closed: ClosedBatches::of(self.version, setup.workers, self.max_batch, self.window),
            turn: None,
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
    /// Triton has one queue, from which it sends one batch after another.
    fn check_version(&self, setup: &Setup<'_>) -> Result<(), String> {
        if self.version != Some(Version::Closed) {
            return Ok(());
        }
        refuse_if(self.turn != Turn::Batch, || {
            "version: \"21.10\" needs turn = \"batch\"".to_string()
        })?;
        let (width, longest) = (self.bucket_width, setup.longest.unwrap_or(1));
        refuse_if(width < longest, || {
            format!(
                "version: \"21.10\" has one bucket; bucket_width ({width}) must be at least the longest request ({longest})"
            )
        })
    }

    /// False if a cost table without input sizes gives all sizes the same time: nothing is then padded to a bucket.
    fn pays_for_inputs(&self, setup: &Setup<'_>) -> bool {
        let (Model::Dnn(_), Some(costs)) = (setup.model, setup.costs) else {
            return true;
        };
        let time = |batch, input| {
            costs.cell(&Step {
                cell: CellId(0),
                batch,
                times: 1,
                input,
            })
        };
        [1, self.max_batch]
            .iter()
            .any(|&batch| time(batch, 1) != time(batch, u32::MAX))
    }
}

struct PaddedPolicy {
    settings: Padded,
    /// The steps are a network's operators, which take the request's input, and not one cell for each token.
    operators: bool,
    longest: u32,
    /// Without empty ones.
    buckets: BTreeMap<u32, VecDeque<Waiting>>,
    /// The memory of buckets that became empty.
    spare: Vec<VecDeque<Waiting>>,
    closed: Option<ClosedBatches>,
    /// The bucket whose turn it is, and how many of its requests the turn still covers.
    turn: Option<(u32, usize)>,
    pointer: u32,
    now: Nanos,
    batch: PaddedBatch,
}

impl PaddedPolicy {
    fn next_turn(&self) -> Option<(u32, usize)> {
        let from = |first: u32| {
            self.buckets
                .range(first..)
                .filter(|(_, waiting)| self.may_send(waiting))
        };
        // Of several, `min_by_key` takes the first: the lower bucket.
        let (bucket, waiting) = match self.settings.turn {
            Turn::Bucket | Turn::Batch => from(self.pointer).chain(from(0)).next(),
            Turn::Oldest => from(0).min_by_key(|(_, waiting)| waiting[0].arrival),
            Turn::Fullest => from(0).min_by_key(|(_, waiting)| Reverse(waiting.len())),
        }?;
        Some((
            *bucket,
            if self.settings.turn == Turn::Bucket {
                waiting.len()
            } else {
                self.full(waiting.len())
            },
        ))
    }

    fn full(&self, waiting: usize) -> usize {
        waiting.min(self.settings.max_batch as usize)
    }

    fn may_send(&self, waiting: &VecDeque<Waiting>) -> bool {
        waiting.len() >= self.settings.max_batch as usize || self.deadline(waiting) <= self.now
    }

    fn deadline(&self, waiting: &VecDeque<Waiting>) -> Nanos {
        waiting[0].arrival.saturating_add(self.settings.window)
    }

    /// The longest request of a bucket.
    fn bound(&self, bucket: u32) -> u32 {
        (bucket + 1)
            .saturating_mul(self.settings.bucket_width)
            .min(self.longest)
    }

    /// Moves the first requests of a bucket into a closed batch, or else into the one that is sent. Returns how many are
    /// left.
    fn draw(&mut self, bucket: u32, size: usize) -> usize {
        let waiting = self
            .buckets
            .get_mut(&bucket)
            .expect("requests wait in the bucket");
        match &mut self.closed {
            Some(closed) => closed.close(waiting.drain(..size)),
            None => self.batch.fill(waiting.drain(..size)),
        }
        let left = waiting.len();
        if left == 0 {
            self.spare.extend(self.buckets.remove(&bucket));
        }
        left
    }

    /// To the longest request of the bucket, if the settings say so.
    fn pad(&mut self, bucket: u32) {
        let bound = self.bound(bucket);
        if self.settings.pad_to == PadTo::Bucket {
            let steps = &mut self.batch.steps;
            if self.operators {
                steps
                    .iter_mut()
                    .filter(|step| step.input > 0)
                    .for_each(|step| step.input = bound);
            } else {
                steps[0].times = bound;
            }
        }
    }

    /// Closes batches while there is a place.
    fn close(&mut self) {
        while self.closed.as_ref().is_some_and(ClosedBatches::has_place)
            && let Some((bucket, size)) = self.next_turn()
        {
            self.draw(bucket, size);
        }
    }

    /// False if no batch may be sent.
    fn send_next(&mut self, worker: WorkerId, dispatch: &mut Dispatch<'_>) -> bool {
        self.close();
        if let Some(closed) = &mut self.closed {
            let merged = closed.take(self.now, &mut self.batch);
            if merged > 0 {
                self.send_closed(merged, worker, dispatch);
            }
            return merged > 0;
        }
        let turn = self.turn.or_else(|| self.next_turn());
        turn.into_iter()
            .for_each(|turn| self.send(turn, worker, dispatch));
        turn.is_some()
    }

    fn send_closed(&mut self, merged: usize, worker: WorkerId, dispatch: &mut Dispatch<'_>) {
        self.pad(0);
        let (unfinished, size) = (dispatch.unfinished(worker), self.batch.requests.len());
        dispatch.submit_because(&self.batch.task(worker), || Reason {
            what: "the requests that have waited longest".into(),
            size: closed::reason(size, merged, self.settings.window),
            when: self.ready(worker, unfinished),
        });
    }

    fn ready(&self, worker: WorkerId, unfinished: usize) -> String {
        match unfinished {
            0 => format!("worker {worker} had nothing to do"),
            _ => format!(
                "worker {worker} may have {} behind the running batch (ahead)",
                self.settings.ahead
            ),
        }
    }

    fn send(
        &mut self,
        (bucket, covered): (u32, usize),
        worker: WorkerId,
        dispatch: &mut Dispatch<'_>,
    ) {
        let size = self.full(covered);
        let left = self.draw(bucket, size);
        self.pad(bucket);
        let unfinished = dispatch.unfinished(worker);
        let reason = || self.reason(bucket, covered, size, left, self.ready(worker, unfinished));
        dispatch.submit_because(&self.batch.task(worker), reason);
        self.turn = (covered > size).then_some((bucket, covered - size));
        if self.turn.is_none() {
            self.pointer = bucket + 1;
        }
    }

    fn reason(
        &self,
        bucket: u32,
        covered: usize,
        size: usize,
        left: usize,
        ready: String,
    ) -> Reason {
        let Padded {
            bucket_width,
            max_batch,
            window,
            turn,
            ..
        } = self.settings;
        let from = u64::from(bucket) * u64::from(bucket_width) + 1;
        let which = match turn {
            _ if self.turn.is_some() => "its turn goes on".into(),
            Turn::Oldest => {
                "of those that may send, the one whose first request arrived earliest".into()
            }
            Turn::Fullest => "of those that may send, the one in which most requests wait".into(),
            _ => format!(
                "of those that may send, the first from bucket {} on, going round",
                self.pointer
            ),
        };
        Reason {
            what: format!(
                "bucket {bucket} (lengths {from} to {}): {which}",
                self.bound(bucket)
            ),
            size: match (covered - size, left) {
                (_, 0) => format!("all {size} that wait in the bucket"),
                (0, _) if size < max_batch as usize => {
                    format!(
                        "the last {size} of the turn; {left} arrived during it and wait for the next one"
                    )
                }
                _ => format!(
                    "max_batch ({max_batch}) of {} that wait in the bucket",
                    size + left
                ),
            },
            when: match (size == max_batch as usize, window) {
                _ if self.turn.is_some() => ready,
                (_, Nanos::ZERO) => ready,
                (true, _) => format!("the bucket has a full batch, and {ready}"),
                (false, _) => format!(
                    "the bucket's oldest request has waited for the window ({window}), and {ready}"
                ),
            },
        }
    }
}

impl Policy for PaddedPolicy {
    fn arrive(&mut self, request: &Request<'_>, _: &mut Outcomes) {
        let bucket = (request.shape.length() - 1) / self.settings.bucket_width;
        let PaddedPolicy { buckets, spare, .. } = self;
        let waiting = buckets
            .entry(bucket)
            .or_insert_with(|| spare.pop().unwrap_or_default());
        waiting.push_back(Waiting::new(request, Nanos::MAX));
    }

    fn schedule(&mut self, dispatch: &mut Dispatch<'_>) {
        self.now = dispatch.now();
        for unfinished in 0..=self.settings.ahead as usize {
            let mut workers = dispatch.with_unfinished(unfinished);
            while let Some(worker) = workers.next(dispatch) {
                if !self.send_next(worker, dispatch) {
                    return;
                }
            }
        }
        self.close();
    }

    fn works_ahead(&self) -> bool {
        self.settings.ahead > 0 || self.closed.is_some()
    }

    fn wake_at(&self) -> Option<Nanos> {
        if self.settings.window == Nanos::ZERO {
            return None;
        }
        // A bucket whose window has ended waits for a worker, not for the clock.
        self.buckets
            .values()
            .map(|waiting| self.deadline(waiting))
            .filter(|at| *at > self.now)
            .min()
    }
}
