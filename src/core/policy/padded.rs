//! Graph batching by padding: requests of similar length run as one batch from start to end (TensorFlow, MXNet).
//!
//! Buckets take turns, and a batch runs to its bucket's length or its longest member's (BatchMaker, section 7.1). A
//! turn sends all requests that wait in the bucket when it begins: "round-robin scheduling across buckets" (7.1), in
//! which under load "a request must wait for more buckets to finish execution and each bucket also executes a larger
//! batch of requests at a time" (7.2). [`Turn`] has the alternatives.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};

use super::closed_batches::{self, ClosedBatches, Version};
use super::prelude::*;
use super::whole::{PaddedBatch, Waiting};
use crate::base::error::refuse_if;
use crate::core::workload::model::Model;

/// `kind = "padded"`.
#[derive(Clone, Debug, Serialize, Deserialize, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct Padded {
    /// The width of a bucket: bucket *i* takes lengths `i · width + 1` to `(i + 1) · width`.
    #[default = 10]
    pub bucket_width: u32,
    /// The largest number of requests in a batch.
    #[default = 512]
    pub max_batch: u32,
    /// The length to which batches are padded. The last bucket ends at the longest request of the trace or of the
    /// dataset.
    #[default(PadTo::Bucket)]
    pub pad_to: PadTo,
    #[default(Turn::Bucket)]
    pub turn: Turn,
    /// The time that a bucket's oldest request may wait for a full batch.
    #[serde(with = "super::values::time_with_unit")]
    pub window: Nanos,
    /// The number of a worker's batches that wait behind the running one, with fixed members. Triton with TensorRT has
    /// 1, because its instance takes the next batch when the running one has read its inputs (`ready_for_input_` in
    /// `tensorrt_backend`).
    pub ahead: u32,
    /// The release of Triton whose batcher is used, with `window` as its delay. Both `None` and `"22.03"` form a batch
    /// when a worker takes it.
    pub version: Option<Version>,
}

/// The length to which a batch is padded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PadTo {
    /// The longest length of the bucket, whose graph is built in advance.
    Bucket,
    /// The length of the longest member.
    Longest,
}

/// The bucket that is next, and what it sends. Requests that arrive during their bucket's turn wait for its next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Turn {
    /// The next bucket in a circle sends all requests that wait in it.
    Bucket,
    /// The next bucket in a circle sends one batch.
    Batch,
    /// The bucket whose first request arrived earliest sends one batch.
    Oldest,
    /// The bucket in which most requests wait sends one batch.
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
        require_positive([
            ("bucket_width", self.bucket_width),
            ("max_batch", self.max_batch),
        ])?;
        self.check_version(setup)?;
        let pad_to = if self.pays_for_inputs(setup) {
            self.pad_to
        } else {
            PadTo::Longest
        };
        let longest_request = setup.longest.unwrap_or(u32::MAX);
        let network = setup.model.network();
        let most_tokens = network.and_then(|network| network.most_tokens);
        Ok(Box::new(PaddedPolicy {
            settings: Padded {
                pad_to,
                ..self.clone()
            },
            operators: matches!(setup.model, Model::Dnn(_) | Model::Network(_)),
            longest: longest_request.min(most_tokens.unwrap_or(u32::MAX)),
            buckets: BTreeMap::new(),
            spare: Vec::new(),
            closed: ClosedBatches::new(self.version, setup.workers, self.max_batch, self.window),
            turn: None,
            pointer: 0,
            now: Nanos::ZERO,
            batch: PaddedBatch::default(),
        }))
    }

    fn largest_batches(&self, _: &Setup<'_>) -> Option<Batches> {
        Some(Batches::Requests(self.max_batch))
    }

    fn full_batch(&self) -> Option<u32> {
        (self.window > Nanos::ZERO).then_some(self.max_batch)
    }
}

impl Padded {
    /// Refuses settings that do not fit Triton's batcher, which has one queue and sends one batch after another.
    fn check_version(&self, setup: &Setup<'_>) -> Result<(), String> {
        if self.version != Some(Version::Closed) {
            return Ok(());
        }
        refuse_if(self.turn != Turn::Batch, || {
            "version: \"21.10\" needs turn = \"batch\"".to_string()
        })?;
        let width = self.bucket_width;
        let longest = setup.longest.unwrap_or(1);
        refuse_if(width < longest, || {
            format!(
                "version: \"21.10\" has one bucket; bucket_width ({width}) must be at least the longest request ({longest})"
            )
        })
    }

    /// Whether longer inputs take more time. Without input sizes in the cost table they do not, and nothing is then
    /// padded to a bucket.
    fn pays_for_inputs(&self, setup: &Setup<'_>) -> bool {
        let (Model::Dnn(_), Some(costs)) = (setup.model, setup.costs) else {
            return true;
        };
        [1, self.max_batch].into_iter().any(|batch| {
            let shortest = Step {
                cell: CellId(0),
                batch,
                times: 1,
                input: 1,
            };
            let longest = Step {
                input: u32::MAX,
                ..shortest
            };
            costs.cell(&shortest) != costs.cell(&longest)
        })
    }
}

struct PaddedPolicy {
    settings: Padded,
    /// Whether the steps are a network's operators, which take the request's input, and not one cell for each token.
    operators: bool,
    /// The longest request.
    longest: u32,
    /// The buckets in which requests wait.
    buckets: BTreeMap<u32, VecDeque<Waiting>>,
    /// The memory of buckets that became empty.
    spare: Vec<VecDeque<Waiting>>,
    closed: Option<ClosedBatches>,
    /// The bucket whose turn it is, and the number of its requests that the turn still covers.
    turn: Option<(u32, usize)>,
    /// The first bucket of the next round.
    pointer: u32,
    now: Nanos,
    batch: PaddedBatch,
}

impl PaddedPolicy {
    /// The bucket whose turn is next, and the number of requests that the turn covers.
    fn next_turn(&self) -> Option<(u32, usize)> {
        // `min_by_key` takes the first of equal buckets, which is the lower one.
        let (bucket, waiting) = match self.settings.turn {
            Turn::Bucket | Turn::Batch => self
                .ready_buckets(self.pointer)
                .chain(self.ready_buckets(0))
                .next(),
            Turn::Oldest => self
                .ready_buckets(0)
                .min_by_key(|(_, waiting)| waiting[0].arrival),
            Turn::Fullest => self
                .ready_buckets(0)
                .min_by_key(|(_, waiting)| Reverse(waiting.len())),
        }?;
        let covered = match self.settings.turn {
            Turn::Bucket => waiting.len(),
            _ => self.batch_of(waiting.len()),
        };
        Some((*bucket, covered))
    }

    /// The buckets from `first` on that may send.
    #[inline]
    fn ready_buckets(&self, first: u32) -> impl Iterator<Item = (&u32, &VecDeque<Waiting>)> {
        let buckets = self.buckets.range(first..);
        buckets.filter(move |(_, waiting)| self.may_send(waiting))
    }

    /// The size of the next batch if this number of requests waits.
    fn batch_of(&self, waiting: usize) -> usize {
        waiting.min(self.settings.max_batch as usize)
    }

    fn may_send(&self, waiting: &VecDeque<Waiting>) -> bool {
        waiting.len() >= self.settings.max_batch as usize || self.deadline(waiting) <= self.now
    }

    /// The end of a bucket's window.
    fn deadline(&self, waiting: &VecDeque<Waiting>) -> Nanos {
        waiting[0].arrival.saturating_add(self.settings.window)
    }

    /// The longest length of a bucket.
    fn bound(&self, bucket: u32) -> u32 {
        (bucket + 1)
            .saturating_mul(self.settings.bucket_width)
            .min(self.longest)
    }

    /// Moves the first requests of a bucket into a closed batch, or else into the batch that is sent. Returns the
    /// number of requests that are left in the bucket.
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

    /// Pads the batch to the longest length of the bucket, if the settings say so.
    fn pad(&mut self, bucket: u32) {
        if self.settings.pad_to == PadTo::Longest {
            return;
        }
        let bound = self.bound(bucket);
        let steps = &mut self.batch.steps;
        if !self.operators {
            steps[0].times = bound;
            return;
        }
        for step in steps {
            if step.input > 0 {
                step.input = bound;
            }
        }
    }

    /// Closes batches while there is room for them.
    fn close(&mut self) {
        while self.closed.as_ref().is_some_and(ClosedBatches::has_place)
            && let Some((bucket, size)) = self.next_turn()
        {
            self.draw(bucket, size);
        }
    }

    /// Sends the next batch to a worker. Returns false if no batch may be sent.
    fn send_next(&mut self, worker: WorkerId, dispatch: &mut Dispatch<'_>) -> bool {
        self.close();
        if let Some(closed) = &mut self.closed {
            let merged = closed.take(self.now, &mut self.batch);
            if merged > 0 {
                self.send_closed(merged, worker, dispatch);
            }
            return merged > 0;
        }
        let Some((bucket, covered)) = self.turn.or_else(|| self.next_turn()) else {
            return false;
        };
        self.send(bucket, covered, worker, dispatch);
        true
    }

    fn send_closed(&mut self, merged: usize, worker: WorkerId, dispatch: &mut Dispatch<'_>) {
        self.pad(0);
        let unfinished = dispatch.unfinished_tasks(worker);
        let size = self.batch.requests.len();
        dispatch.submit_because(&self.batch.task(worker), || Reason {
            what: "the requests that have waited longest".into(),
            size: closed_batches::reason(size, merged, self.settings.window),
            when: self.why_ready(worker, unfinished),
        });
    }

    /// Why a worker gets a batch.
    fn why_ready(&self, worker: WorkerId, unfinished: usize) -> String {
        if unfinished == 0 {
            return format!("worker {worker} had nothing to do");
        }
        format!(
            "worker {worker} may have {} behind the running batch (ahead)",
            self.settings.ahead
        )
    }

    /// Sends a batch of a bucket, whose turn covers this number of requests.
    fn send(&mut self, bucket: u32, covered: usize, worker: WorkerId, dispatch: &mut Dispatch<'_>) {
        let size = self.batch_of(covered);
        let left = self.draw(bucket, size);
        self.pad(bucket);
        let unfinished = dispatch.unfinished_tasks(worker);
        dispatch.submit_because(&self.batch.task(worker), || {
            let ready = self.why_ready(worker, unfinished);
            self.reason(bucket, covered, size, left, ready)
        });
        if covered > size {
            self.turn = Some((bucket, covered - size));
        } else {
            self.turn = None;
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
        let max_batch = self.settings.max_batch;
        let window = self.settings.window;
        let from = u64::from(bucket) * u64::from(self.settings.bucket_width) + 1;
        let which = match self.settings.turn {
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
            when: if self.turn.is_some() || window == Nanos::ZERO {
                ready
            } else if size == max_batch as usize {
                format!("the bucket has a full batch, and {ready}")
            } else {
                format!(
                    "the bucket's oldest request has waited for the window ({window}), and {ready}"
                )
            },
        }
    }
}

impl Policy for PaddedPolicy {
    fn arrive(&mut self, request: &Request<'_>, _: &mut Outcomes) {
        let bucket = (request.shape.length() - 1) / self.settings.bucket_width;
        let spare = &mut self.spare;
        let waiting = self
            .buckets
            .entry(bucket)
            .or_insert_with(|| spare.pop().unwrap_or_default());
        waiting.push_back(Waiting::new(request, Nanos::MAX));
    }

    fn schedule(&mut self, dispatch: &mut Dispatch<'_>) {
        self.now = dispatch.now();
        for unfinished in 0..=self.settings.ahead as usize {
            if unfinished > dispatch.most_unfinished_tasks() {
                break;
            }
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

    fn decides_when_idle(&self) -> bool {
        !self.works_ahead()
    }

    fn wake_at(&self) -> Option<Nanos> {
        if self.settings.window == Nanos::ZERO {
            return None;
        }
        // A bucket whose window has ended waits for a worker, not for the clock.
        let ends = self.buckets.values().map(|waiting| self.deadline(waiting));
        ends.filter(|end| *end > self.now).min()
    }
}
