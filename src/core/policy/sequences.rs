//! Parts of policies for language models: sequences that wait, are fed and decode, and the memory of their keys and
//! values.
//!
//! The sequences that decode on a worker grow together. So the cost of planning an iteration is proportional to the
//! sequences that begin, end or are preempted, and not to its members.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::mem;

use smallvec::SmallVec;

use super::prelude::*;
use super::values::share;
use crate::core::task::{Iteration, NextDecode};

/// A policy that plans one iteration after another, each for a worker with nothing to do. Requests are served in the
/// order of arrival.
pub struct Continuous<P> {
    plan: P,
    max_batch: usize,
    /// The number of blocks that admissions leave free for sequences that grow.
    watermark: u32,
    waiting: PromptQueue,
    workers: Vec<WorkerSequences>,
}

/// The prompts that wait, in the order of arrival.
#[derive(Default)]
struct PromptQueue {
    prompts: VecDeque<Prompt>,
    /// The number of prompts that have come or gone.
    changes: u64,
}

impl PromptQueue {
    fn push_back(&mut self, prompt: Prompt) {
        self.changes += 1;
        self.prompts.push_back(prompt);
    }

    /// Inserts a prompt before those of later requests.
    fn insert(&mut self, prompt: Prompt) {
        self.changes += 1;
        let place = self
            .prompts
            .partition_point(|other| other.request < prompt.request);
        self.prompts.insert(place, prompt);
    }

    fn pop_front(&mut self) -> Option<Prompt> {
        self.changes += 1;
        self.prompts.pop_front()
    }
}

/// The tokens of a request that are fed before it decodes: its prompt, and after a preemption also the tokens that it
/// has generated.
#[derive(Clone, Copy, Debug)]
struct Prompt {
    request: RequestId,
    tokens: u32,
    /// The number of tokens that have been fed.
    fed: u32,
}

/// The sequences of a worker. A sequence that decodes holds `base + ticks` tokens.
#[derive(Clone)]
struct WorkerSequences {
    memory: KvMemory,
    /// The bases of the sequences that decode, in the order of arrival.
    decoding: BTreeMap<RequestId, i64>,
    /// The number of iterations in which they have decoded.
    ticks: i64,
    /// The sum of the bases.
    bases: i64,
    /// A prompt of which a part has been fed.
    partial: Option<Prompt>,
    /// The prompts of the next or current iteration. A part of a prompt comes last.
    feeding: Vec<Prompt>,
    /// Whether sequences decode in that iteration.
    decodes: bool,
    /// The number of tokens that the iteration feeds.
    tokens: u64,
    /// The number of tokens that it reads.
    context: u64,
    /// The [changes](PromptQueue::changes) of the queue before the iteration was planned.
    changes_before: u64,
}

/// A worker's memory for keys and values.
#[derive(Clone)]
pub struct KvMemory {
    /// The size of a block in tokens.
    block: u32,
    /// The number of blocks.
    pub capacity: u32,
    /// The number of blocks in use.
    pub used: u32,
    /// The number of tokens that each sequence has memory for from its admission on. If it is `None`, a sequence gets
    /// blocks as it grows.
    reserve: Option<u32>,
    /// The number of sequences whose base leaves each remainder. They need a block at the same ticks.
    growing: Vec<u32>,
    /// The place in `growing` of the sequences that need a block for their next token: the negative number of ticks
    /// modulo `block`. It is kept so that no iteration divides.
    due: usize,
    /// The ticks at which sequences have used up their reservation. Entries of sequences that have left remain.
    full: BinaryHeap<Reverse<(i64, RequestId)>>,
}

impl KvMemory {
    /// The memory of a worker for the policy `who`.
    pub fn new(
        who: &str,
        setup: &Setup<'_>,
        block: u32,
        reserve: Option<u32>,
    ) -> Result<KvMemory, String> {
        require_positive([("block", block), ("max_length", reserve.unwrap_or(1))])?;
        let tokens = setup.costs.and_then(|costs| costs.kv_tokens()).ok_or_else(|| {
            format!(
                "{who} must know how many tokens' keys and values a worker holds; give device.kv_tokens, or the data sheet of a \
                 device with memory_mb (device.roofline) and the model's shape (llm:FILE)"
            )
        })?;
        // The limit keeps the tokens of a sequence within 32 bits.
        let tokens = tokens.min(u64::from(u32::MAX) - 1);
        let capacity = (tokens / u64::from(block)) as u32;
        if let Some(length) = reserve.filter(|length| *length > capacity) {
            return Err(format!(
                "max_length: {length} tokens never fit; a worker holds {tokens} (device.kv_tokens)"
            ));
        }
        if capacity == 0 {
            return Err(format!(
                "block: {block} tokens never fit; a worker holds {tokens} (device.kv_tokens)"
            ));
        }
        let growing = vec![0; if reserve.is_some() { 0 } else { block as usize }];
        Ok(KvMemory {
            block,
            capacity,
            used: 0,
            reserve,
            growing,
            due: 0,
            full: BinaryHeap::new(),
        })
    }

    /// The longest sequence that fits.
    fn longest(&self) -> u64 {
        match self.reserve {
            Some(tokens) => tokens.into(),
            None => u64::from(self.capacity) * u64::from(self.block),
        }
    }

    /// Returns the number of tokens of a prompt, or rejects it if it never fits.
    pub fn accept(&self, request: &Request<'_>, outcomes: &mut Outcomes) -> Option<u32> {
        let tokens = request.shape.length();
        let longest = self.longest();
        if u64::from(tokens) <= longest {
            return Some(tokens);
        }
        outcomes.reject_because(
            request.id,
            format!("{}: it has {tokens}", self.excess("prompt")),
        );
        None
    }

    /// Why a sequence is rejected that has outgrown its memory.
    pub fn rejection_reason(&self) -> String {
        self.excess("prompt and output")
    }

    /// The phrase that a part of a sequence is longer than the longest sequence, with the key that limits it.
    fn excess(&self, part: &str) -> String {
        let longest = self.longest();
        let key = match self.reserve {
            Some(_) => "max_length",
            None => "device.kv_tokens",
        };
        format!("{part} above {longest} tokens ({key})")
    }

    /// The number of blocks of a sequence with this number of tokens.
    pub fn blocks(&self, tokens: u32) -> u32 {
        self.reserve.unwrap_or(tokens).div_ceil(self.block)
    }

    /// The place of a base in `growing`.
    fn class(&self, base: i64) -> usize {
        base.rem_euclid(i64::from(self.block)) as usize
    }

    /// Whether a sequence has used up its reservation, unless it has left.
    fn some_full(&self, ticks: i64) -> bool {
        let first = self.full.peek();
        first.is_some_and(|Reverse((tick, _))| *tick <= ticks)
    }

    /// The number of blocks that the sequences at this place in `growing` need.
    fn growth(&self, due: usize) -> u32 {
        self.growing.get(due).copied().unwrap_or(0)
    }

    /// The place in `growing` of the sequences that need a block for the token after the next one.
    fn due_after_next(&self) -> usize {
        match self.due {
            0 => self.block as usize - 1,
            due => due - 1,
        }
    }
}

impl<P: Fn(&mut IterationPlan<'_, '_>)> Continuous<P> {
    /// A policy that plans iterations with `plan`. Admissions leave the share `watermark` of the memory free.
    pub fn new(
        setup: &Setup<'_>,
        max_batch: u32,
        watermark: f64,
        memory: Result<KvMemory, String>,
        plan: P,
    ) -> Result<Self, String> {
        require_positive([("max_batch", max_batch)])?;
        share("watermark", watermark)?;
        let memory = memory?;
        let watermark = (watermark * f64::from(memory.capacity)) as u32;
        let running = WorkerSequences {
            memory,
            decoding: BTreeMap::new(),
            ticks: 0,
            bases: 0,
            partial: None,
            feeding: Vec::new(),
            decodes: false,
            tokens: 0,
            context: 0,
            changes_before: 0,
        };
        Ok(Continuous {
            plan,
            max_batch: max_batch as usize,
            watermark,
            waiting: PromptQueue::default(),
            workers: vec![running; setup.workers],
        })
    }
}

impl<P: Fn(&mut IterationPlan<'_, '_>)> Policy for Continuous<P> {
    /// Rejects prompts that never fit.
    fn arrive(&mut self, request: &Request<'_>, outcomes: &mut Outcomes) {
        if let Some(tokens) = self.workers[0].memory.accept(request, outcomes) {
            self.waiting.push_back(Prompt {
                request: request.id,
                tokens,
                fed: 0,
            });
        }
    }

    /// Frees the memory of sequences that have ended.
    fn complete(&mut self, completed: &Completed<'_>, outcomes: &mut Outcomes) {
        let running = &mut self.workers[completed.worker.index()];
        if mem::take(&mut running.decodes) {
            running.ticks += 1;
            running.memory.due = running.memory.due_after_next();
        }
        let mut fed = mem::take(&mut running.feeding);
        for prompt in fed.drain(..) {
            if prompt.fed < prompt.tokens {
                running.partial = Some(prompt);
            } else {
                running.begin_to_decode(prompt);
            }
        }
        running.feeding = fed;
        for request in completed.ended {
            running.release(*request);
            outcomes.finish(*request);
        }
    }

    /// Plans an iteration for each idle worker, and submits it if it feeds a token.
    fn schedule(&mut self, dispatch: &mut Dispatch<'_>) {
        let mut idle = dispatch.idle();
        while let Some(worker) = idle.next(dispatch) {
            let running = &mut self.workers[worker.index()];
            running.tokens = 0;
            running.context = 0;
            // A preemption counts as a change after the plan, since it frees memory that the plan has not used.
            running.changes_before = self.waiting.changes;
            let mut next = IterationPlan {
                max_batch: self.max_batch,
                watermark: self.watermark,
                waiting: &mut self.waiting,
                running,
                worker,
                dispatch,
            };
            (self.plan)(&mut next);
            if next.tokens() == 0 && next.running.members() == 0 {
                // The last sequence may have outgrown the memory.
                (self.plan)(&mut next);
            }
            next.submit();
        }
    }

    /// A plan that has fed and preempted nothing feeds nothing after the iteration either: no memory has become free.
    fn repeat(&mut self, worker: WorkerId) -> Option<NextDecode> {
        let running = &mut self.workers[worker.index()];
        let is_alike = running.decodes
            && running.feeding.is_empty()
            && running.changes_before == self.waiting.changes;
        let ticks = running.ticks + 1;
        let memory = &mut running.memory;
        let due = memory.due_after_next();
        let growth = memory.growth(due);
        if !is_alike || memory.some_full(ticks) || growth > memory.capacity - memory.used {
            return None;
        }
        memory.due = due;
        memory.used += growth;
        let blocks = memory.used;
        running.ticks = ticks;
        running.context = running.decoding_context();
        Some(NextDecode {
            context: saturate(running.context),
            blocks,
        })
    }

    fn decides_when_idle(&self) -> bool {
        true
    }
}

impl WorkerSequences {
    /// The number of sequences that decode or are fed.
    fn members(&self) -> usize {
        self.decoding.len() + self.feeding.len() + usize::from(self.partial.is_some())
    }

    /// The number of tokens that the sequences that decode read in the next iteration.
    fn decoding_context(&self) -> u64 {
        (self.bases + self.decoding.len() as i64 * (self.ticks + 1)) as u64
    }

    fn begin_to_decode(&mut self, prompt: Prompt) {
        let base = i64::from(prompt.tokens) - self.ticks;
        self.decoding.insert(prompt.request, base);
        self.bases += base;
        match self.memory.reserve {
            Some(length) => {
                let last_tick = i64::from(length) - base;
                self.memory.full.push(Reverse((last_tick, prompt.request)));
            }
            None => {
                let class = self.memory.class(base);
                self.memory.growing[class] += 1;
            }
        }
    }

    /// Ends the decoding of a sequence and frees its memory. Returns the number of its tokens.
    fn release(&mut self, request: RequestId) -> u32 {
        let base = self
            .decoding
            .remove(&request)
            .expect("the sequence decodes");
        self.bases -= base;
        let tokens = (base + self.ticks) as u32;
        if self.memory.reserve.is_none() {
            let class = self.memory.class(base);
            self.memory.growing[class] -= 1;
        }
        self.memory.used -= self.memory.blocks(tokens);
        tokens
    }
}

/// The largest 32-bit number for numbers above it.
fn saturate(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// The next iteration of a worker.
pub struct IterationPlan<'p, 'd> {
    max_batch: usize,
    watermark: u32,
    waiting: &'p mut PromptQueue,
    running: &'p mut WorkerSequences,
    worker: WorkerId,
    dispatch: &'p mut Dispatch<'d>,
}

impl IterationPlan<'_, '_> {
    /// The number of tokens that the iteration feeds so far.
    pub fn tokens(&self) -> u64 {
        self.running.tokens
    }

    /// The number of tokens of the first prompt that waits.
    pub fn next_prompt(&self) -> Option<u64> {
        self.waiting
            .prompts
            .front()
            .map(|prompt| u64::from(prompt.tokens))
    }

    /// Submits the iteration, unless it feeds no token.
    fn submit(self) {
        let worker = self.worker;
        let waiting = self.waiting.prompts.len();
        let running = self.running;
        let tokens = running.tokens;
        if tokens == 0 {
            return;
        }
        let feeding = &running.feeding;
        let decoding = if running.decodes {
            running.decoding.len()
        } else {
            0
        };
        let requests: SmallVec<[RequestId; 8]> =
            feeding.iter().map(|prompt| prompt.request).collect();
        let completely_fed = feeding.iter().filter(|prompt| prompt.fed == prompt.tokens);
        let steps = [Step {
            cell: CellId(0),
            batch: saturate(tokens),
            times: 1,
            input: saturate(running.context),
        }];
        let blocks = running.memory.used;
        let capacity = running.memory.capacity;
        let task = Task {
            batch: (decoding + feeding.len()) as u32,
            iteration: Some(Iteration {
                prefilled: completely_fed.count() as u32,
                decodes: running.decodes,
                blocks,
                capacity,
            }),
            ..Task::new(worker, &steps, &requests, tokens)
        };
        self.dispatch.submit_because(&task, || Reason {
            what: format!("sequences that decode: {decoding}; prompts that are fed: {}", requests.len()),
            size: format!("tokens: {tokens}; blocks in use: {blocks} of {capacity}; requests that wait: {waiting}"),
            when: format!("worker {worker} had nothing to do"),
        });
    }

    /// Feeds the last token of each sequence that decodes. Without memory for all of them, the latest arrivals are
    /// preempted: they free their memory, and are fed again later (recomputation).
    pub fn decode(&mut self) {
        self.reject_full();
        loop {
            let memory = &mut self.running.memory;
            let growth = memory.growth(memory.due);
            if growth <= memory.capacity - memory.used {
                memory.used += growth;
                break;
            }
            self.preempt_latest();
        }
        let running = &mut *self.running;
        let count = running.decoding.len();
        running.decodes = count > 0;
        running.tokens += count as u64;
        running.context += running.decoding_context();
    }

    /// Feeds up to `most` tokens of the prompt that is partly fed, or else of the next one, which it admits. Returns
    /// false if no prompt waits, or if there is no room.
    pub fn feed(&mut self, most: u64) -> bool {
        if most == 0 {
            return false;
        }
        let partial = self.running.partial.take();
        let Some(mut prompt) = partial.or_else(|| self.admit()) else {
            return false;
        };
        let part = u64::from(prompt.tokens - prompt.fed).min(most);
        prompt.fed += part as u32;
        let running = &mut *self.running;
        running.tokens += part;
        running.context += u64::from(prompt.fed);
        running.feeding.push(prompt);
        true
    }

    /// Admits the prompt that has waited longest, if there is room for it.
    fn admit(&mut self) -> Option<Prompt> {
        let first = self.waiting.prompts.front()?;
        let members = self.running.members();
        let memory = &mut self.running.memory;
        let needed = memory.blocks(first.tokens);
        let spare = if members == 0 { 0 } else { self.watermark };
        let free = memory.capacity - memory.used;
        if members >= self.max_batch || needed.saturating_add(spare) > free {
            return None;
        }
        memory.used += needed;
        self.waiting.pop_front()
    }

    /// Preempts the sequence that arrived last. If it is alone on its worker, it has outgrown the memory and is
    /// rejected.
    fn preempt_latest(&mut self) {
        let running = &mut *self.running;
        let alone = running.members() == 1;
        let last = running.decoding.last_key_value();
        let last = last.map(|(request, _)| *request);
        let partial = &mut running.partial;
        let prompt = match partial.take_if(|partial| last < Some(partial.request)) {
            Some(partial) => {
                running.memory.used -= running.memory.blocks(partial.tokens);
                Prompt { fed: 0, ..partial }
            }
            None => {
                let request = last.expect("only sequences that decode need more blocks");
                let tokens = running.release(request) + 1;
                Prompt {
                    request,
                    tokens,
                    fed: 0,
                }
            }
        };
        if alone {
            let reason = running.memory.rejection_reason();
            return self.dispatch.reject_because(prompt.request, reason);
        }
        self.dispatch.preempt(prompt.request);
        self.waiting.insert(prompt);
    }

    /// Rejects sequences that have used up their reservation.
    fn reject_full(&mut self) {
        while let running = &mut *self.running
            && running.memory.some_full(running.ticks)
            && let Some(Reverse((_, request))) = running.memory.full.peek().copied()
        {
            running.memory.full.pop();
            if running.decoding.contains_key(&request) {
                running.release(request);
                let reason = running.memory.rejection_reason();
                self.dispatch.reject_because(request, reason);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::base::units::Nanos;
    use crate::core::cost::CostModel;
    use crate::core::cost::table::{CostTable, Overhead};
    use crate::core::engine;
    use crate::core::record::RecordOptions;
    use crate::core::record::full::FullRecord;
    use crate::core::sim::Sim;
    use crate::core::workload::arrivals::OpenLoop;
    use crate::core::workload::model::Model;
    use crate::core::workload::shape::Shape;
    use crate::core::workload::trace::Requests;

    /// The keys and values of these 200 requests take several times the memory, and some outputs outgrow it. The
    /// recorder asserts that no task has more blocks than there are.
    #[test]
    fn all_memory_is_free_at_the_end() {
        let model = Model::Llm(None);
        let shapes = (0..200).map(|id| Shape::Llm {
            prompt: 1 + id * 7 % 50,
            output: 1 + id * 13 % 60,
        });
        let requests = Requests::unfold(shapes.collect(), &model).unwrap();
        let arrivals: Vec<Nanos> = (0..200).map(|id| Nanos(id * 40)).collect();
        let cells = model.cell_types();
        let table = CostTable::parse(
            "cell,tokens,context,ns\niteration,1,0,10\niteration,2,0,11\n",
            "costs",
        )
        .unwrap();
        let device = table
            .with_kv_tokens(Some(80))
            .costs_for(&cells, Overhead::default())
            .unwrap();
        let costs: Arc<dyn CostModel> = Arc::new(device.clone());
        let setup = Setup {
            model: &model,
            cells: &cells,
            workers: 1,
            costs: Some(&costs),
            longest: None,
        };
        for (block, reserve) in [(1, Some(60)), (1, None), (7, None), (16, None)] {
            let memory = KvMemory::new("a test", &setup, block, reserve);
            let plan = |iteration: &mut IterationPlan<'_, '_>| {
                iteration.decode();
                while iteration.feed(64 - iteration.tokens()) {}
            };
            let mut policy = Continuous::new(&setup, 64, 0.01, memory, plan).unwrap();
            let mut backend = Sim::new(1, device.clone());
            let mut record =
                FullRecord::new(requests.len(), 1, cells.len(), RecordOptions::default());
            let mut source = OpenLoop::new(&requests, &arrivals);
            engine::run(
                &mut source,
                &mut policy,
                &mut backend,
                &mut record,
                1,
                &AtomicBool::new(false),
            )
            .unwrap();
            let running = &policy.workers[0];
            assert_eq!(
                (running.memory.used, running.bases, running.members()),
                (0, 0, 0)
            );
            assert!(
                running
                    .memory
                    .growing
                    .iter()
                    .all(|sequences| *sequences == 0)
            );
            assert!(policy.waiting.prompts.is_empty());
            let tokens = record.tokens.unwrap();
            assert_eq!(tokens.preemptions > 0, reserve.is_none());
            assert!(record.failures.is_empty() && !record.rejections.is_empty());
            assert_eq!(
                tokens.most_blocks * 10 > tokens.capacity * 9,
                reserve.is_none()
            );
        }
    }
}
