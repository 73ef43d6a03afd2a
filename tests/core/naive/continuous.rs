//! The policies of language models, token by token.

use std::collections::BTreeSet;

#[derive(Clone, Debug)]
pub enum Policy {
    Static {
        max_batch: usize,
        max_length: u64,
    },
    Orca {
        max_batch: usize,
        max_length: u64,
    },
    Vllm {
        max_batched_tokens: u64,
        max_batch: usize,
        block: u64,
        watermark: f64,
    },
    Sarathi {
        token_budget: u64,
        max_batch: usize,
        block: u64,
        watermark: f64,
    },
}

#[derive(Clone, Debug)]
pub struct Case {
    /// Arrival, prompt and output, in the order of arrival.
    pub trace: Vec<(u64, u64, u64)>,
    pub workers: usize,
    pub kv_tokens: u64,
    /// Of an iteration, of a token that is fed, of a token that is read.
    pub costs: [u64; 3],
    pub policy: Policy,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    pub worker: usize,
    pub batch: usize,
    pub start: u64,
    pub finish: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fate {
    pub finish: Option<u64>,
    pub rejected: Option<u64>,
    pub first: Option<u64>,
    pub worst_gap: u64,
    pub preemptions: u64,
}

/// A sequence in the system.
#[derive(Clone, Debug)]
struct Sequence {
    id: usize,
    prompt: u64,
    output: u64,
    generated: u64,
    /// The instant of its last token.
    last: u64,
    /// Tokens whose keys and values are there, and how many have to be before it decodes.
    held: u64,
    goal: u64,
    decodes: bool,
    /// It waits for the rest of its batch.
    over: bool,
    cut: bool,
}

struct Running {
    task: usize,
    worker: usize,
    finish: u64,
    /// Requests that get a token, and requests that are fed these numbers of prompt tokens.
    decode: Vec<usize>,
    feed: Vec<(usize, u64)>,
}

pub struct Lab<'c> {
    case: &'c Case,
    waiting: Vec<Sequence>,
    /// By worker, in the order of arrival.
    members: Vec<Vec<Sequence>>,
    running: Vec<Running>,
    pub tasks: Vec<Task>,
    pub fates: Vec<Fate>,
}

pub fn run(case: &Case) -> (Vec<Task>, Vec<Fate>) {
    let mut lab = Lab {
        case,
        waiting: Vec::new(),
        members: vec![Vec::new(); case.workers],
        running: Vec::new(),
        tasks: Vec::new(),
        fates: vec![Fate::default(); case.trace.len()],
    };
    let instants = || case.trace.iter().map(|request| request.0);
    let mut pending: BTreeSet<u64> = instants().collect();
    while let Some(now) = pending.pop_first() {
        while let Some(place) = (0..lab.running.len())
            .filter(|i| lab.running[*i].finish == now)
            .min_by_key(|i| lab.running[*i].task)
        {
            let done = lab.running.remove(place);
            lab.complete(done, now);
        }
        for (id, &(_, prompt, output)) in case
            .trace
            .iter()
            .enumerate()
            .filter(|(_, request)| request.0 == now)
        {
            lab.arrive(id, prompt, output, now);
        }
        for worker in 0..case.workers {
            if lab.running.iter().all(|running| running.worker != worker) {
                lab.plan(worker, now);
            }
        }
        pending.extend(lab.running.iter().map(|running| running.finish));
    }
    (lab.tasks, lab.fates)
}

impl Lab<'_> {
    fn block(&self) -> u64 {
        match self.case.policy {
            Policy::Vllm { block, .. } | Policy::Sarathi { block, .. } => block,
            _ => 1,
        }
    }

    fn reserve(&self) -> Option<u64> {
        match self.case.policy {
            Policy::Static { max_length, .. } | Policy::Orca { max_length, .. } => Some(max_length),
            _ => None,
        }
    }

    fn capacity(&self) -> u64 {
        self.case.kv_tokens / self.block()
    }

    fn blocks(&self, tokens: u64) -> u64 {
        self.reserve().unwrap_or(tokens).div_ceil(self.block())
    }

    fn longest(&self) -> u64 {
        self.reserve().unwrap_or(self.capacity() * self.block())
    }

    /// After each sequence that decodes has got this many more tokens. A prompt that is partly fed has all of its blocks.
    fn used(&self, worker: usize, more: u64) -> u64 {
        let tokens = |one: &Sequence| {
            if one.decodes {
                one.held + more
            } else {
                one.goal
            }
        };
        self.members[worker]
            .iter()
            .map(|one| self.blocks(tokens(one)))
            .sum()
    }

    fn arrive(&mut self, id: usize, prompt: u64, output: u64, now: u64) {
        if prompt > self.longest() {
            self.fates[id].rejected = Some(now);
            return;
        }
        let (decodes, over, cut) = (false, false, false);
        self.waiting.push(Sequence {
            id,
            prompt,
            output,
            generated: 0,
            last: 0,
            held: 0,
            goal: prompt,
            decodes,
            over,
            cut,
        });
    }

    fn token(&mut self, worker: usize, id: usize, now: u64) {
        let one = self.members[worker]
            .iter_mut()
            .find(|one| one.id == id)
            .unwrap();
        let fate = &mut self.fates[id];
        if one.generated == 0 {
            fate.first = Some(now);
        } else {
            fate.worst_gap = fate.worst_gap.max(now - one.last);
        }
        (one.generated, one.last, one.decodes) = (one.generated + 1, now, true);
        one.over = one.generated == one.output;
    }

    fn complete(&mut self, done: Running, now: u64) {
        let worker = done.worker;
        for id in &done.decode {
            let one = self.members[worker]
                .iter_mut()
                .find(|one| one.id == *id)
                .unwrap();
            if !one.over {
                one.held += 1;
                self.token(worker, *id, now);
            }
        }
        for (id, part) in &done.feed {
            let one = self.members[worker]
                .iter_mut()
                .find(|one| one.id == *id)
                .unwrap();
            one.held += part;
            if one.held == one.goal {
                self.token(worker, *id, now);
            }
        }
        if let Policy::Static { max_length, .. } = self.case.policy {
            for one in self.members[worker].iter_mut().filter(|one| !one.over) {
                if one.prompt + one.generated > max_length {
                    (one.over, one.cut) = (true, true);
                    self.fates[one.id].rejected = Some(now);
                }
            }
            if self.members[worker].iter().all(|one| one.over) {
                for one in self.members[worker].drain(..).filter(|one| !one.cut) {
                    self.fates[one.id].finish = Some(now);
                }
            }
            return;
        }
        let (over, rest) = self.members[worker]
            .drain(..)
            .partition(|one: &Sequence| one.over);
        self.members[worker] = rest;
        for one in over {
            self.fates[one.id].finish = Some(now);
        }
    }

    fn plan(&mut self, worker: usize, now: u64) {
        for _ in 0..2 {
            let (mut decode, mut feed) = (Vec::new(), Vec::new());
            match self.case.policy {
                Policy::Static {
                    max_batch,
                    max_length,
                } => {
                    if !self.members[worker].is_empty() {
                        decode = self.members[worker].iter().map(|one| one.id).collect();
                    } else {
                        let most = max_batch
                            .min((self.case.kv_tokens / max_length) as usize)
                            .min(self.waiting.len());
                        self.members[worker] = self.waiting.drain(..most).collect();
                        feed = self.members[worker]
                            .iter()
                            .map(|one| (one.id, one.prompt))
                            .collect();
                    }
                }
                Policy::Orca { max_batch, .. } => {
                    decode = self.decode(worker, now);
                    while self.admit(worker, max_batch, 0.0, 1) {
                        let new = self.members[worker].last().unwrap();
                        feed.push((new.id, new.goal));
                        self.sort(worker);
                    }
                }
                Policy::Vllm {
                    max_batched_tokens,
                    max_batch,
                    watermark,
                    ..
                } => {
                    let mut sum = 0;
                    while let Some(first) = self.waiting.first()
                        && (sum == 0 || sum + first.goal <= max_batched_tokens)
                        && self.admit(worker, max_batch, watermark, 0)
                    {
                        let new = self.members[worker].last().unwrap();
                        sum += new.goal;
                        feed.push((new.id, new.goal));
                        self.sort(worker);
                    }
                    if feed.is_empty() {
                        decode = self.decode(worker, now);
                    }
                }
                Policy::Sarathi {
                    token_budget,
                    max_batch,
                    watermark,
                    ..
                } => {
                    decode = self.decode(worker, now);
                    let mut left = token_budget - decode.len() as u64;
                    if let Some(part) = self.members[worker]
                        .iter()
                        .find(|one| !one.decodes)
                        .filter(|_| left > 0)
                    {
                        let chunk = left.min(part.goal - part.held);
                        left -= chunk;
                        feed.push((part.id, chunk));
                    }
                    while left > 0 && self.admit(worker, max_batch, watermark, 1) {
                        let new = self.members[worker].last().unwrap();
                        let chunk = left.min(new.goal);
                        left -= chunk;
                        feed.push((new.id, chunk));
                        self.sort(worker);
                    }
                }
            }
            if !decode.is_empty() || !feed.is_empty() {
                return self.submit(worker, now, decode, feed);
            }
        }
    }

    fn sort(&mut self, worker: usize) {
        self.members[worker].sort_by_key(|one| one.id);
    }

    fn admit(&mut self, worker: usize, max_batch: usize, watermark: f64, more: u64) -> bool {
        let Some(first) = self.waiting.first() else {
            return false;
        };
        let spare = if self.members[worker].is_empty() {
            0
        } else {
            (watermark * self.capacity() as f64) as u64
        };
        let fits = self.used(worker, more) + self.blocks(first.goal) + spare <= self.capacity();
        if self.members[worker].len() >= max_batch || !fits {
            return false;
        }
        let first = self.waiting.remove(0);
        self.members[worker].push(first);
        true
    }

    /// Those that decode, after sequences were rejected or preempted for which there is no memory.
    fn decode(&mut self, worker: usize, now: u64) -> Vec<usize> {
        if let Some(length) = self.reserve() {
            let full: Vec<usize> = self.members[worker]
                .iter()
                .filter(|one| one.decodes && one.held + 1 > length)
                .map(|one| one.id)
                .collect();
            full.iter()
                .for_each(|id| self.fates[*id].rejected = Some(now));
            self.members[worker].retain(|one| !full.contains(&one.id));
        }
        loop {
            let needed = self.used(worker, 1);
            if needed <= self.capacity() {
                break;
            }
            let mut last = self.members[worker].pop().unwrap();
            if self.members[worker].is_empty() {
                self.fates[last.id].rejected = Some(now);
                break;
            }
            self.fates[last.id].preemptions += 1;
            last.goal = if last.decodes {
                last.held + 1
            } else {
                last.goal
            };
            (last.held, last.decodes) = (0, false);
            self.waiting.push(last);
            self.waiting.sort_by_key(|one| one.id);
        }
        self.members[worker]
            .iter()
            .filter(|one| one.decodes)
            .map(|one| one.id)
            .collect()
    }

    fn submit(&mut self, worker: usize, now: u64, decode: Vec<usize>, feed: Vec<(usize, u64)>) {
        let one = |id: usize| {
            self.members[worker]
                .iter()
                .find(|one| one.id == id)
                .unwrap()
        };
        let batch = decode.len() + feed.len();
        let (tokens, context) = if let Policy::Static { .. } = self.case.policy {
            let longest = self.members[worker]
                .iter()
                .map(|one| one.prompt)
                .max()
                .unwrap();
            let steps = self.members[worker]
                .iter()
                .map(|one| one.generated)
                .max()
                .unwrap();
            let rows = self.members[worker].len() as u64;
            (
                if feed.is_empty() {
                    rows
                } else {
                    rows * longest
                },
                rows * (longest + steps),
            )
        } else {
            let fed: u64 = feed.iter().map(|(_, part)| part).sum();
            let read: u64 = feed.iter().map(|(id, part)| one(*id).held + part).sum();
            let decoded: u64 = decode.iter().map(|id| one(*id).held + 1).sum();
            (fed + decode.len() as u64, read + decoded)
        };
        let [fixed, of_token, of_context] = self.case.costs;
        let finish = now + fixed + of_token * tokens + of_context * context;
        let task = self.tasks.len();
        self.tasks.push(Task {
            worker,
            batch,
            start: now,
            finish,
        });
        self.running.push(Running {
            task,
            worker,
            finish,
            decode,
            feed,
        });
    }
}
