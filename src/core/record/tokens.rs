//! The tokens of language models: when each sequence gets one, and which one is its last. Policies learn the length of
//! an output only when it ends.
//!
//! All sequences that decode on a worker get their tokens at the same instants. So the work for a task is proportional
//! to the number of sequences that begin, end or are preempted with it, not to the number that decode.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::mem;

use super::histogram::DurationHistogram;
use crate::base::grow::grow;
use crate::base::units::{Nanos, RequestId, WorkerId};
use crate::core::task::{Completion, Iteration, OpenTask};

/// The tokens of a run.
#[derive(Debug, Default)]
pub struct Tokens {
    /// The sequence of each request.
    pub sequences: Vec<Sequence>,
    workers: Vec<DecodingWorker>,
    /// The times between tokens of a sequence, over the whole run.
    pub(crate) gaps: DurationHistogram,
    /// The number of tokens of all requests.
    pub generated: u64,
    pub preemptions: u64,
    /// The blocks in use while tasks ran, in block-nanoseconds.
    pub used_blocks: u128,
    /// The capacity while tasks ran, in block-nanoseconds.
    pub all_blocks: u128,
    /// The largest number of blocks in use at once.
    pub most_blocks: u32,
    pub capacity: u32,
    /// The sequences that ended with the last task.
    ended: Vec<RequestId>,
}

/// The output of a request.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sequence {
    /// The length of the output.
    pub output: u32,
    /// The instant of the first token, or [`Nanos::MAX`] before it.
    pub first: Nanos,
    /// The instant of the last token. While the sequence decodes, it is the instant of the token with which decoding
    /// began.
    last: Nanos,
    /// The longest time between two tokens.
    pub worst_gap: Nanos,
    /// The instant of the token after it, or after the last of several that are as long.
    pub worst_gap_end: Nanos,
    pub preemptions: u32,
    /// The number of tokens that are still to come. While the sequence decodes, it is the number when decoding began.
    missing: u32,
    /// The worker on which the sequence decodes, and the worker's tick when it began to.
    decodes: Option<(WorkerId, u64)>,
}

/// The sequences that decode on a worker.
#[derive(Debug, Default)]
struct DecodingWorker {
    /// The number of tasks in which sequences decoded.
    ticks: u64,
    /// The end of the last such task.
    at: Nanos,
    /// The number of sequences that decode.
    decoding: u64,
    /// The tick of each sequence's last token, the next one first. Entries of preempted sequences stay, and are
    /// ignored.
    ends: BinaryHeap<Reverse<(u64, RequestId)>>,
    /// The sequences that decode and have had no tick so far.
    fresh: Vec<RequestId>,
    /// The gaps, except those that a later one exceeds. Ticks ascend, gaps descend.
    worst: Vec<TickGap>,
}

/// The time between two ticks of a worker.
#[derive(Clone, Copy, Debug)]
struct TickGap {
    /// The later tick.
    tick: u64,
    /// The instant of that tick.
    end: Nanos,
    gap: Nanos,
}

impl Tokens {
    pub(super) fn add_sequence(&mut self, request: RequestId, output: u32) {
        let new = Sequence {
            output,
            first: Nanos::MAX,
            missing: output,
            ..Sequence::default()
        };
        let known = self.sequences.len().max(request.index() + 1);
        self.sequences.resize(known, new);
        self.sequences[request.index()] = new;
    }

    /// Records the tokens of a task. Returns the sequences that end with it, in the order of their requests.
    pub(super) fn complete_iteration(
        &mut self,
        iteration: Iteration,
        task: &OpenTask,
        completion: &Completion,
    ) -> &[RequestId] {
        let OpenTask {
            worker,
            ref requests,
            ..
        } = *task;
        self.count_blocks(iteration, completion);
        self.ended.clear();
        if iteration.decodes {
            self.tick(worker, completion.finish);
            if self.workers[worker.index()].has_ends() {
                self.end_sequences(worker);
            }
        }
        for request in &requests[..iteration.prefilled as usize] {
            self.begin(*request, worker, completion.finish);
        }
        if self.ended.len() > 1 {
            self.ended.sort_unstable();
        }
        &self.ended
    }

    /// Records the tokens of an iteration in which sequences only decoded. None of them has ended.
    #[inline]
    pub(super) fn repeat_iteration(
        &mut self,
        iteration: Iteration,
        worker: WorkerId,
        completion: &Completion,
    ) {
        self.count_blocks(iteration, completion);
        self.tick(worker, completion.finish);
    }

    /// Counts the blocks in use while a task ran.
    #[inline]
    fn count_blocks(&mut self, iteration: Iteration, completion: &Completion) {
        let Iteration {
            blocks, capacity, ..
        } = iteration;
        assert!(
            blocks <= capacity,
            "{blocks} blocks of {capacity} are in use"
        );
        let time = u128::from((completion.finish - completion.start).0);
        self.used_blocks += time * u128::from(blocks);
        self.all_blocks += time * u128::from(capacity);
        self.most_blocks = self.most_blocks.max(blocks);
        self.capacity = capacity;
    }

    /// The number of iterations of a worker before the next end of a sequence. Preempted sequences may make it too low.
    pub(super) fn quiet_iterations(&self, on: WorkerId) -> u64 {
        let Some(worker) = self.workers.get(on.index()) else {
            return 0;
        };
        match worker.ends.peek() {
            Some(Reverse((tick, _))) => tick.saturating_sub(worker.ticks + 1),
            None => 0,
        }
    }

    /// Gives a token to all sequences that decode on a worker.
    #[inline]
    fn tick(&mut self, on: WorkerId, now: Nanos) {
        let worker = grow(&mut self.workers, on.index());
        worker.ticks += 1;
        self.generated += worker.decoding;
        let older = worker.decoding - worker.fresh.len() as u64;
        if older > 0 {
            let gap = now - worker.at;
            worker.note_gap(gap, now);
            self.gaps.add(gap.0, older);
        }
        worker.at = now;
        if !worker.fresh.is_empty() {
            self.tick_fresh(on, now);
        }
    }

    /// Counts the gaps of the sequences that get their first token from this tick.
    fn tick_fresh(&mut self, on: WorkerId, now: Nanos) {
        for request in self.workers[on.index()].fresh.drain(..) {
            let sequence = &mut self.sequences[request.index()];
            let gap = now - sequence.last;
            sequence.note_gap(gap, now);
            self.gaps.add(gap.0, 1);
        }
    }

    /// Ends the sequences that have received their last token on a worker.
    fn end_sequences(&mut self, on: WorkerId) {
        while let worker = &mut self.workers[on.index()]
            && worker.has_ends()
            && let Some(Reverse((tick, request))) = worker.ends.pop()
        {
            if self.sequences[request.index()].ends_at() == Some((on, tick)) {
                self.stop(request);
                self.ended.push(request);
            }
        }
    }

    /// Records that a task has computed a request's prompt, and with it the next token.
    fn begin(&mut self, request: RequestId, on: WorkerId, now: Nanos) {
        let sequence = &mut self.sequences[request.index()];
        let before = mem::replace(&mut sequence.last, now);
        let again = sequence.first != Nanos::MAX;
        sequence.first = sequence.first.min(now);
        sequence.missing -= 1;
        self.generated += 1;
        if again {
            sequence.note_gap(now - before, now);
            self.gaps.add((now - before).0, 1);
        }
        let sequence = &mut self.sequences[request.index()];
        if sequence.missing == 0 {
            self.ended.push(request);
            return;
        }
        let worker = grow(&mut self.workers, on.index());
        sequence.decodes = Some((on, worker.ticks));
        worker.decoding += 1;
        worker.fresh.push(request);
        worker.ends.push(Reverse((
            worker.ticks + u64::from(sequence.missing),
            request,
        )));
    }

    /// Records that a sequence no longer decodes.
    pub(super) fn stop(&mut self, request: RequestId) {
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
        sequence.missing -= (worker.ticks - since) as u32;
        sequence.last = worker.at;
        // The gap to the sequence's first tick is counted already.
        let first = worker.worst.partition_point(|gap| gap.tick <= since + 1);
        if let Some(worst) = worker.worst.get(first) {
            sequence.note_gap(worst.gap, worst.end);
        }
    }

    pub(super) fn preempt(&mut self, request: RequestId) {
        self.stop(request);
        self.sequences[request.index()].preemptions += 1;
        self.preemptions += 1;
    }
}

impl DecodingWorker {
    /// Takes note of the gap before the present tick. Earlier ones that are no longer than it do not matter any more.
    #[inline]
    fn note_gap(&mut self, gap: Nanos, end: Nanos) {
        while self.worst.pop_if(|other| other.gap <= gap).is_some() {}
        self.worst.push(TickGap {
            tick: self.ticks,
            end,
            gap,
        });
    }

    /// Whether a sequence has received its last token with the last tick, unless it was preempted before.
    fn has_ends(&self) -> bool {
        let first = self.ends.peek();
        first.is_some_and(|Reverse((tick, _))| *tick <= self.ticks)
    }
}

impl Sequence {
    /// Takes note of a time between two tokens that ended at an instant.
    fn note_gap(&mut self, gap: Nanos, end: Nanos) {
        if gap >= self.worst_gap {
            self.worst_gap = gap;
            self.worst_gap_end = end;
        }
    }

    /// The worker on which the sequence decodes, and the worker's tick at which it gets its last token.
    fn ends_at(&self) -> Option<(WorkerId, u64)> {
        self.decodes
            .map(|(on, since)| (on, since + u64::from(self.missing)))
    }
}
