//! The tokens of language models: when each sequence gets one, and which one is its last. Policies learn an output's length
//! only by its end.
//!
//! All sequences that decode on a worker get their tokens at the same instants. So a task costs as much as it has sequences
//! that begin, end or are preempted.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::mem;

use serde::{Deserialize, Serialize};

use super::recorder::Recorder;
use super::stream::Spans;
use super::summary::{RunRecord, Times};
use crate::base::units::{Nanos, Rate, RequestId, WorkerId};
use crate::core::task::{Completion, Iteration, OpenTask};

#[derive(Debug, Default)]
pub struct Tokens {
    /// By request.
    pub sequences: Vec<Sequence>,
    workers: Vec<Worker>,
    /// Between a sequence's tokens, over the whole run.
    pub(super) gaps: Spans,
    /// Over all requests.
    pub generated: u64,
    pub preemptions: u64,
    /// Of the capacity: in use while tasks ran, in block-nanoseconds; all of it; and the most at once.
    pub blocks: (u128, u128, u32),
    pub capacity: u32,
    /// The sequences that the last task has ended.
    ended: Vec<RequestId>,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Sequence {
    pub output: u32,
    /// [`Nanos::MAX`] before it.
    pub first: Nanos,
    /// Of the last token; while the sequence decodes, of the one that it began with.
    last: Nanos,
    pub worst_gap: Nanos,
    pub preemptions: u32,
    /// Tokens that are still to come; while it decodes, since it began.
    left: u32,
    decodes: Option<(WorkerId, u64)>,
}

#[derive(Debug, Default)]
struct Worker {
    /// Tasks in which sequences decoded.
    ticks: u64,
    /// The last of them.
    at: Nanos,
    decoding: u64,
    /// Sequences by the tick of their last token. Those that were preempted leave theirs behind.
    ends: BinaryHeap<Reverse<(u64, RequestId)>>,
    /// Decoding, without a tick so far.
    fresh: Vec<RequestId>,
    /// Gaps by the tick at their end, without those that a later one exceeds: both descend.
    worst: Vec<(u64, Nanos)>,
}

impl Tokens {
    pub(super) fn arrived(&mut self, request: RequestId, output: u32) {
        let new = Sequence {
            output,
            first: Nanos::MAX,
            left: output,
            ..Sequence::default()
        };
        let known = self.sequences.len().max(request.index() + 1);
        self.sequences.resize(known, new);
        self.sequences[request.index()] = new;
    }

    /// The sequences that end with the task, the first request first.
    pub(super) fn iterated(
        &mut self,
        iteration: Iteration,
        task: &OpenTask,
        completion: &Completion,
    ) -> &[RequestId] {
        let Iteration {
            prefilled,
            decodes,
            blocks,
            capacity,
        } = iteration;
        let OpenTask {
            worker,
            ref requests,
            ..
        } = *task;
        assert!(
            blocks <= capacity,
            "{blocks} blocks of {capacity} are in use"
        );
        let time = u128::from((completion.finish - completion.start).0);
        let (used, all, most) = &mut self.blocks;
        (*used, *all, *most) = (
            *used + time * u128::from(blocks),
            *all + time * u128::from(capacity),
            blocks.max(*most),
        );
        self.capacity = capacity;
        if self.workers.len() <= worker.index() {
            self.workers
                .resize_with(worker.index() + 1, Worker::default);
        }
        let mut ended = mem::take(&mut self.ended);
        ended.clear();
        if decodes {
            self.tick(worker, completion.finish, &mut ended);
        }
        for request in &requests[..prefilled as usize] {
            self.begins(*request, worker, completion.finish, &mut ended);
        }
        ended.sort_unstable();
        self.ended = ended;
        &self.ended
    }

    fn tick(&mut self, on: WorkerId, now: Nanos, ended: &mut Vec<RequestId>) {
        let worker = &mut self.workers[on.index()];
        worker.ticks += 1;
        self.generated += worker.decoding;
        let older = worker.decoding - worker.fresh.len() as u64;
        if older > 0 {
            let gap = now - worker.at;
            let lesser = worker
                .worst
                .iter()
                .rposition(|(_, other)| *other > gap)
                .map_or(0, |last| last + 1);
            worker.worst.truncate(lesser);
            worker.worst.push((worker.ticks, gap));
            self.gaps.add(gap.0, older);
        }
        worker.at = now;
        let mut fresh = mem::take(&mut worker.fresh);
        for request in fresh.drain(..) {
            let gap = now - self.sequences[request.index()].last;
            let worst = &mut self.sequences[request.index()].worst_gap;
            *worst = gap.max(*worst);
            self.gaps.add(gap.0, 1);
        }
        self.workers[on.index()].fresh = fresh;
        while let Some(Reverse((tick, request))) = self.workers[on.index()].ends.peek().copied()
            && tick <= self.workers[on.index()].ticks
        {
            self.workers[on.index()].ends.pop();
            if self.sequences[request.index()].ends_at() == Some((on, tick)) {
                self.stops(request);
                ended.push(request);
            }
        }
    }

    /// Its prompt is there, and with it the next token.
    fn begins(&mut self, request: RequestId, on: WorkerId, now: Nanos, ended: &mut Vec<RequestId>) {
        let sequence = &mut self.sequences[request.index()];
        let before = mem::replace(&mut sequence.last, now);
        let again = sequence.first != Nanos::MAX;
        sequence.first = sequence.first.min(now);
        sequence.left -= 1;
        self.generated += 1;
        if again {
            sequence.worst_gap = sequence.worst_gap.max(now - before);
            self.gaps.add((now - before).0, 1);
        }
        let sequence = &mut self.sequences[request.index()];
        if sequence.left == 0 {
            ended.push(request);
            return;
        }
        let worker = &mut self.workers[on.index()];
        sequence.decodes = Some((on, worker.ticks));
        worker.decoding += 1;
        worker.fresh.push(request);
        worker
            .ends
            .push(Reverse((worker.ticks + u64::from(sequence.left), request)));
    }

    /// Decodes no longer.
    fn stops(&mut self, request: RequestId) {
        let sequence = &mut self.sequences[request.index()];
        let Some((on, since)) = sequence.decodes.take() else {
            return;
        };
        let worker = &mut self.workers[on.index()];
        worker.decoding -= 1;
        if worker.ticks == since {
            worker.fresh.retain(|other| *other != request);
            return;
        }
        sequence.left -= (worker.ticks - since) as u32;
        sequence.last = worker.at;
        // The gap to its first tick is counted already.
        let first = worker.worst.partition_point(|(tick, _)| *tick <= since + 1);
        sequence.worst_gap = worker
            .worst
            .get(first)
            .map_or(Nanos::ZERO, |(_, gap)| *gap)
            .max(sequence.worst_gap);
    }

    pub(super) fn preempted(&mut self, request: RequestId) {
        self.stops(request);
        self.sequences[request.index()].preemptions += 1;
        self.preemptions += 1;
    }

    pub(super) fn rejected(&mut self, request: RequestId) {
        self.stops(request);
    }
}

/// The token metrics of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TokenSummary {
    /// From arrival to the first token, of the measured requests.
    pub ttft: Times,
    /// Between tokens, over all gaps of the run. Quantiles are wrong by at most 0.1 %.
    pub tbt: Times,
    /// Of the measured requests: the mean of latency / output tokens (Orca, section 6; vLLM, section 6.1).
    pub normalised_ms: Option<f64>,
    /// Tokens per second from the first arrival on.
    pub throughput: Option<Rate>,
    /// Shares of the blocks: the mean while tasks ran, and the most at once.
    pub kv_mean: Option<f64>,
    pub kv_peak: Option<f64>,
    pub preemptions: u64,
}

impl Tokens {
    /// From a request's arrival to its first token, in nanoseconds.
    pub(super) fn to_first(&self, record: &Recorder, request: u32) -> u64 {
        self.sequences[request as usize]
            .first
            .saturating_since(record.arrival[request as usize])
            .0
    }

    /// `measured`: requests, of which those that were served count.
    pub(super) fn summary(&self, run: &RunRecord<'_>, measured: &[u32]) -> TokenSummary {
        let record = run.record;
        let served = || {
            measured
                .iter()
                .filter_map(|request| Some((*request, run.spans(*request)?[0])))
        };
        let mut first: Vec<u64> = served()
            .map(|(request, _)| self.to_first(record, request))
            .collect();
        let output = |request: u32| f64::from(self.sequences[request as usize].output);
        let normalised = served().map(|(request, latency)| latency as f64 / output(request));
        let began = record.arrival.iter().min().copied().unwrap_or_default();
        let seconds = record.end.saturating_since(began).as_secs_f64();
        let of = |part: f64, whole: f64| (whole > 0.0).then_some(part / whole);
        TokenSummary {
            tbt: self.gaps.times(),
            normalised_ms: of(normalised.sum::<f64>() / 1e6, first.len() as f64),
            throughput: of(self.generated as f64, seconds).map(Rate),
            kv_mean: of(self.blocks.0 as f64, self.blocks.1 as f64),
            kv_peak: of(self.blocks.2.into(), self.capacity.into()),
            preemptions: self.preemptions,
            ttft: Times::of(&mut first),
        }
    }
}

impl Sequence {
    /// The worker and its tick.
    fn ends_at(&self) -> Option<(WorkerId, u64)> {
        self.decodes
            .map(|(on, since)| (on, since + u64::from(self.left)))
    }
}
