//! Parts of policies for language models: sequences that wait, are fed and decode, and the memory of their keys and values.
//!
//! The sequences that decode on a worker grow together. So an iteration costs as much as it has sequences that begin, end
//! or are preempted, not as it has members.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::mem;

use smallvec::SmallVec;

use super::prelude::*;
use super::values::share;
use crate::core::task::Iteration;

/// A policy that plans one iteration after another, each for a worker with nothing to do. Requests are served in the
/// order of arrival.
pub struct Continuous<P> {
    plan: P,
    max_batch: usize,
    /// Blocks that admissions leave free for sequences that grow.
    watermark: u32,
    waiting: VecDeque<Prompt>,
    workers: Vec<Running>,
}

/// A request's tokens that are fed before it decodes: its prompt, after a preemption also what it has generated.
#[derive(Clone, Copy, Debug)]
struct Prompt {
    request: RequestId,
    tokens: u32,
    fed: u32,
}

/// The sequences of a worker. One that decodes holds `base + ticks` tokens.
#[derive(Clone)]
struct Running {
    memory: Memory,
    /// The bases, in the order of arrival.
    decoding: BTreeMap<RequestId, i64>,
    ticks: i64,
    bases: i64,
    /// A prompt of which a part is fed.
    partial: Option<Prompt>,
    /// Those of the next or current iteration; a part comes last.
    feeding: Vec<Prompt>,
    decodes: bool,
    /// Of that iteration.
    tokens: u64,
    context: u64,
}

/// A worker's memory for keys and values.
#[derive(Clone)]
pub struct Memory {
    /// In tokens.
    block: u32,
    pub capacity: u32,
    pub used: u32,
    /// The tokens that each sequence has memory for from its admission on; otherwise it gets blocks as it grows.
    reserve: Option<u32>,
    /// How many sequences have a base that leaves this remainder: those that need a block at the same ticks.
    growing: Vec<u32>,
    /// When sequences have used up their reservation, by tick. Those that left are among them.
    full: BinaryHeap<Reverse<(i64, RequestId)>>,
}

impl Memory {
    pub fn new(
        who: &str,
        setup: &Setup<'_>,
        block: u32,
        reserve: Option<u32>,
    ) -> Result<Memory, String> {
        at_least_1([("block", block), ("max_length", reserve.unwrap_or(1))])?;
        let tokens = setup.costs.and_then(|costs| costs.kv_tokens()).ok_or_else(|| {
            format!(
                "{who} must know how many tokens' keys and values a worker holds; give device.kv_tokens, or the data sheet of a \
                 device with memory_mb (device.roofline) and the model's shape (llm:FILE)"
            )
        })?;
        // So that no sequence has more tokens than 32 bits hold.
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
        Ok(Memory {
            block,
            capacity,
            used: 0,
            reserve,
            growing,
            full: BinaryHeap::new(),
        })
    }

    /// The longest sequence that fits.
    fn longest(&self) -> u64 {
        self.reserve
            .map_or(u64::from(self.capacity) * u64::from(self.block), u64::from)
    }

    /// Rejects a prompt that never fits, and tells its tokens otherwise.
    pub fn accept(&self, request: &Request<'_>, outcomes: &mut Outcomes) -> Option<u32> {
        let (tokens, longest) = (request.shape.length(), self.longest());
        if u64::from(tokens) <= longest {
            return Some(tokens);
        }
        outcomes.reject_because(
            request.id,
            format!("its prompt has {tokens} tokens, and a sequence has {longest} at most"),
        );
        None
    }

    pub fn outgrown(&self) -> String {
        format!(
            "its prompt and output exceed {} tokens, the most that a sequence has",
            self.longest()
        )
    }

    /// Of a sequence with this number of tokens.
    pub fn blocks(&self, tokens: u32) -> u32 {
        self.reserve.unwrap_or(tokens).div_ceil(self.block)
    }

    fn class(&self, base: i64) -> usize {
        base.rem_euclid(i64::from(self.block)) as usize
    }

    /// The blocks that sequences need for their next tokens.
    fn growth(&self, ticks: i64) -> u32 {
        self.growing.get(self.class(-ticks)).copied().unwrap_or(0)
    }
}

impl<P: Fn(&mut Plan<'_, '_>)> Continuous<P> {
    /// `watermark`: the share of the memory that admissions leave free.
    pub fn new(
        setup: &Setup<'_>,
        max_batch: u32,
        watermark: f64,
        memory: Result<Memory, String>,
        plan: P,
    ) -> Result<Self, String> {
        at_least_1([("max_batch", max_batch)])?;
        share("watermark", watermark)?;
        let memory = memory?;
        let watermark = (watermark * f64::from(memory.capacity)) as u32;
        let running = Running {
            memory,
            decoding: BTreeMap::new(),
            ticks: 0,
            bases: 0,
            partial: None,
            feeding: Vec::new(),
            decodes: false,
            tokens: 0,
            context: 0,
        };
        let (waiting, workers) = (VecDeque::new(), vec![running; setup.workers]);
        Ok(Continuous {
            plan,
            max_batch: max_batch as usize,
            watermark,
            waiting,
            workers,
        })
    }
}

impl<P: Fn(&mut Plan<'_, '_>)> Policy for Continuous<P> {
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
        running.ticks += i64::from(mem::take(&mut running.decodes));
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
        let Continuous {
            plan,
            max_batch,
            watermark,
            waiting,
            workers,
        } = self;
        let mut idle = dispatch.idle();
        while let Some(worker) = idle.next(dispatch) {
            let running = &mut workers[worker.index()];
            (running.tokens, running.context) = (0, 0);
            let (max_batch, watermark) = (*max_batch, *watermark);
            let mut next = Plan {
                max_batch,
                watermark,
                waiting,
                running,
                worker,
                dispatch,
            };
            plan(&mut next);
            if next.tokens() == 0 && next.running.members() == 0 {
                plan(&mut next); // The last sequence may have outgrown the memory.
            }
            next.submit();
        }
    }
}

impl Running {
    fn members(&self) -> usize {
        self.decoding.len() + self.feeding.len() + usize::from(self.partial.is_some())
    }

    fn begin_to_decode(
        &mut self,
        Prompt {
            request, tokens, ..
        }: Prompt,
    ) {
        let base = i64::from(tokens) - self.ticks;
        self.decoding.insert(request, base);
        self.bases += base;
        match self.memory.reserve {
            Some(length) => self
                .memory
                .full
                .push(Reverse((i64::from(length) - base, request))),
            None => {
                let class = self.memory.class(base);
                self.memory.growing[class] += 1;
            }
        }
    }

    /// Ends the decoding and frees the memory; returns the tokens.
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

/// The next iteration of a worker.
pub struct Plan<'p, 'd> {
    max_batch: usize,
    watermark: u32,
    waiting: &'p mut VecDeque<Prompt>,
    running: &'p mut Running,
    worker: WorkerId,
    dispatch: &'p mut Dispatch<'d>,
}

impl Plan<'_, '_> {
    /// Those that it feeds so far.
    pub fn tokens(&self) -> u64 {
        self.running.tokens
    }

    /// Of the first prompt that waits.
    pub fn next_prompt(&self) -> Option<u64> {
        self.waiting.front().map(|prompt| u64::from(prompt.tokens))
    }

    fn submit(self) {
        let Plan {
            worker,
            running,
            dispatch,
            ..
        } = self;
        let Running {
            memory,
            decoding,
            feeding,
            decodes,
            tokens,
            context,
            ..
        } = running;
        let waiting = self.waiting.len();
        if *tokens == 0 {
            return;
        }
        let short = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
        let decoding = if *decodes { decoding.len() } else { 0 };
        let requests: SmallVec<[RequestId; 8]> =
            feeding.iter().map(|prompt| prompt.request).collect();
        let prefilled = feeding
            .iter()
            .filter(|prompt| prompt.fed == prompt.tokens)
            .count() as u32;
        let steps = [Step {
            cell: CellId(0),
            batch: short(*tokens),
            times: 1,
            input: short(*context),
        }];
        let Memory {
            used: blocks,
            capacity,
            ..
        } = *memory;
        let task = Task {
            batch: (decoding + feeding.len()) as u32,
            iteration: Some(Iteration {
                prefilled,
                decodes: *decodes,
                blocks,
                capacity,
            }),
            ..Task::new(worker, &steps, &requests, *tokens)
        };
        dispatch.submit_because(&task, || Reason {
            what: format!("sequences that decode: {decoding}; prompts that are fed: {}", requests.len()),
            size: format!("tokens: {tokens}; blocks in use: {blocks} of {capacity}; requests that wait: {waiting}"),
            when: format!("worker {worker} had nothing to do"),
        });
    }

    /// Feeds the last token of each sequence that decodes. Without memory for all of them, the latest arrivals are preempted:
    /// they free their memory, and are fed again later (recomputation).
    pub fn decode(&mut self) {
        self.reject_full();
        loop {
            let Running { memory, ticks, .. } = &mut *self.running;
            let growth = memory.growth(*ticks);
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
        running.context += (running.bases + count as i64 * (running.ticks + 1)) as u64;
    }

    /// Feeds up to `most` tokens of the prompt that is partly fed, or else admits the next. Fails if no prompt waits, or if there
    /// is no room.
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

    fn admit(&mut self) -> Option<Prompt> {
        let Plan {
            max_batch,
            watermark,
            waiting,
            running,
            ..
        } = self;
        let needed = running.memory.blocks(waiting.front()?.tokens);
        let spare = if running.members() == 0 {
            0
        } else {
            *watermark
        };
        if running.members() >= *max_batch
            || needed.saturating_add(spare) > running.memory.capacity - running.memory.used
        {
            return None;
        }
        running.memory.used += needed;
        waiting.pop_front()
    }

    fn preempt_latest(&mut self) {
        let running = &mut *self.running;
        let last = running
            .decoding
            .last_key_value()
            .map(|(request, _)| *request);
        let alone = running.members() == 1;
        let prompt = match running
            .partial
            .take_if(|partial| last < Some(partial.request))
        {
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
            let reason = running.memory.outgrown();
            return self.dispatch.reject_because(prompt.request, reason);
        }
        self.dispatch.preempt(prompt.request);
        let place = self
            .waiting
            .partition_point(|other| other.request < prompt.request);
        self.waiting.insert(place, prompt);
    }

    /// Rejects sequences that have used up their reservation.
    fn reject_full(&mut self) {
        while let running = &mut *self.running
            && let Some(Reverse((tick, request))) = running.memory.full.peek().copied()
            && tick <= running.ticks
        {
            running.memory.full.pop();
            if running.decoding.contains_key(&request) {
                running.release(request);
                let reason = running.memory.outgrown();
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

    /// 200 requests whose keys and values take several times the memory, with outputs that outgrow it. That no task has more
    /// blocks than there are, the recorder asserts.
    #[test]
    fn all_memory_is_free_at_the_end() {
        let model = Model::Llm(None);
        let shape = |id: u32| Shape::Llm {
            prompt: 1 + id * 7 % 50,
            output: 1 + id * 13 % 60,
        };
        let requests = Requests::unfold((0..200).map(shape).collect(), &model).unwrap();
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
            let memory = Memory::new("a test", &setup, block, reserve);
            let plan = |iteration: &mut Plan<'_, '_>| {
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
            assert!(policy.waiting.is_empty());
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
