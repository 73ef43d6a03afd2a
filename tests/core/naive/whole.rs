//! Policies that run whole requests: padded, merged, unbatched, ideal and jit. None of them pays for gathering.

use super::graph::Graph;
use super::{Batch, Case, Scheduler};

pub fn all_nodes(requests: &[usize], graphs: &[Graph]) -> Vec<(usize, usize)> {
    let mut nodes = Vec::new();
    for &request in requests {
        for node in 0..graphs[request].cells.len() {
            nodes.push((request, node));
        }
    }
    nodes
}

/// Takes up to `most` requests from the head of a list.
pub fn take(waiting: &mut Vec<usize>, most: usize) -> Vec<usize> {
    waiting.drain(..most.min(waiting.len())).collect()
}

pub struct Padded<'a> {
    pub case: &'a Case,
    pub graphs: &'a [Graph],
    pub width: usize,
    pub max_batch: usize,
    pub pad_to_longest: bool,
    pub turn: &'a str,
    pub window: u64,
    /// Batches behind a worker's running one.
    pub ahead: usize,
    /// Batches are closed when they are formed; two wait for each worker.
    pub closes: bool,
    /// In the order of arrival, without the covered and the closed ones.
    pub waiting: Vec<usize>,
    /// The requests of the turn under way that have not been sent; none if no turn is.
    pub covered: Vec<usize>,
    /// The members of each closed batch.
    pub closed: Vec<Vec<usize>>,
    /// The bucket at which the next search begins.
    pub pointer: usize,
}

impl Padded<'_> {
    /// Bucket i takes lengths in (i·w, (i+1)·w].
    fn bucket(&self, request: usize) -> usize {
        (0..)
            .find(|i| self.graphs[request].length <= (i + 1) * self.width)
            .expect("each length has a bucket")
    }

    fn members(&self, bucket: usize) -> Vec<usize> {
        self.waiting
            .iter()
            .copied()
            .filter(|request| self.bucket(*request) == bucket)
            .collect()
    }

    /// The bucket of the next turn. Choice: one pointer serves all workers; "from the pointer on" goes to the last bucket,
    /// then from the first. With a window only buckets that may send are compared, and in those the requests that wait.
    fn next(&self, now: u64) -> Option<usize> {
        let buckets = self
            .waiting
            .iter()
            .map(|request| self.bucket(*request) + 1)
            .max()
            .unwrap_or(0);
        let ready: Vec<usize> = (0..buckets)
            .filter(|bucket| self.ready(*bucket, now))
            .collect();
        let lowest_of_best = |measure: &dyn Fn(usize) -> u64| {
            let best = ready.iter().map(|bucket| measure(*bucket)).min()?;
            ready
                .iter()
                .copied()
                .find(|bucket| measure(*bucket) == best)
        };
        match self.turn {
            "oldest" => lowest_of_best(&|bucket| self.case.trace[self.members(bucket)[0]].0),
            "fullest" => {
                lowest_of_best(&|bucket| (self.waiting.len() - self.members(bucket).len()) as u64)
            }
            _ => ready
                .iter()
                .copied()
                .find(|bucket| *bucket >= self.pointer)
                .or(ready.first().copied()),
        }
    }

    /// A bucket is ready if it is not empty and, with a window, is full or its oldest request has waited for the
    /// window.
    fn ready(&self, bucket: usize, now: u64) -> bool {
        let members = self.members(bucket);
        match members.first() {
            None => false,
            Some(oldest) => {
                members.len() >= self.max_batch || now - self.case.trace[*oldest].0 >= self.window
            }
        }
    }
}

impl Padded<'_> {
    /// Closes batches until two wait for each worker or none may be formed.
    fn close(&mut self, now: u64) {
        while self.closed.len() < 2 * self.case.workers && self.ready(0, now) {
            self.closed.push(take(&mut self.waiting, self.max_batch));
        }
    }

    /// The first closed batch. With a window, the following ones join one after another, as long as a member of each is
    /// older than the window and there is room for all of its members. Choice: to be as old as the window is not enough.
    fn merge(&mut self, now: u64) -> Vec<usize> {
        let mut members = if self.closed.is_empty() {
            vec![]
        } else {
            self.closed.remove(0)
        };
        while let Some(next) = self.closed.first() {
            let old = next
                .iter()
                .any(|request| now - self.case.trace[*request].0 > self.window);
            if self.window == 0 || !old || members.len() + next.len() > self.max_batch {
                break;
            }
            members.extend(self.closed.remove(0));
        }
        members
    }

    /// The members of the next batch.
    fn next_members(&mut self, now: u64) -> Vec<usize> {
        if self.closes {
            self.close(now);
            return self.merge(now);
        }
        if self.covered.is_empty() {
            let Some(bucket) = self.next(now) else {
                return vec![];
            };
            self.covered = self.members(bucket);
            if self.turn != "bucket" {
                self.covered.truncate(self.max_batch);
            }
            self.waiting
                .retain(|request| !self.covered.contains(request));
        }
        take(&mut self.covered, self.max_batch)
    }
}

impl Scheduler for Padded<'_> {
    fn arrive(&mut self, request: usize) {
        self.waiting.push(request);
    }

    fn complete(&mut self, _: &[(usize, usize)]) {}

    fn offer(&mut self, _: usize, now: u64, _: u64) -> Vec<Batch> {
        let members = self.next_members(now);
        if members.is_empty() {
            return vec![];
        }
        let bucket = self.bucket(members[0]);
        // Choice: nothing looks at the pointer before the turn is over, so that it may move at once.
        self.pointer = bucket + 1;

        let size = members.len();
        let longest = |of: &mut dyn Iterator<Item = usize>| of.max().expect("not empty");
        let steps = if self.pad_to_longest {
            longest(&mut members.iter().map(|request| self.graphs[*request].length))
        } else {
            longest(&mut self.graphs.iter().map(|graph| graph.length))
                .min((bucket + 1) * self.width)
        };
        let targets = members
            .iter()
            .map(|request| self.graphs[*request].target)
            .max()
            .expect("not empty");
        let costs = &self.case.costs;
        // A request with a target encodes its source and decodes its target; any other is a chain.
        let (cells, cost) = if targets > 0 {
            let encode = steps as u64 * costs.time("encoder", size);
            let decode = targets as u64 * costs.time("decoder", size);
            (
                vec!["encoder".to_string(), "decoder".to_string()],
                encode + decode,
            )
        } else {
            (
                vec!["lstm".to_string()],
                steps as u64 * costs.time("lstm", size),
            )
        };
        let nodes = all_nodes(&members, self.graphs);
        vec![Batch {
            cells,
            size,
            nodes,
            duration: cost + self.case.overhead("task", size),
            ahead: 0,
        }]
    }

    fn wake_ups(&self) -> Vec<u64> {
        self.waiting
            .iter()
            .map(|request| self.case.trace[*request].0 + self.window)
            .collect()
    }

    fn settle(&mut self, now: u64) {
        if self.closes {
            self.close(now);
        }
    }

    fn lookahead(&self) -> usize {
        self.ahead
    }
}

pub struct Merged<'a> {
    pub case: &'a Case,
    pub graphs: &'a [Graph],
    pub max_batch: usize,
    pub waiting: Vec<usize>,
}

impl Scheduler for Merged<'_> {
    fn arrive(&mut self, request: usize) {
        self.waiting.push(request);
    }

    fn complete(&mut self, _: &[(usize, usize)]) {}

    fn offer(&mut self, _: usize, _: u64, _: u64) -> Vec<Batch> {
        let members = take(&mut self.waiting, self.max_batch);
        if members.is_empty() {
            return vec![];
        }
        // Each (depth, cell type) with the number of its cells.
        let mut groups: Vec<((usize, String), usize)> = Vec::new();
        for &request in &members {
            let graph = &self.graphs[request];
            for (depth, cell) in graph.depths().into_iter().zip(&graph.cells) {
                let key = (depth, cell.clone());
                match groups.iter_mut().find(|group| group.0 == key) {
                    Some(group) => group.1 += 1,
                    None => groups.push((key, 1)),
                }
            }
        }
        let cost: u64 = groups
            .iter()
            .map(|((_, cell), size)| self.case.costs.time(cell, *size))
            .sum();
        vec![Batch {
            cells: groups.into_iter().map(|((_, cell), _)| cell).collect(),
            size: members.len(),
            nodes: all_nodes(&members, self.graphs),
            duration: cost + self.case.overhead("task", members.len()),
            ahead: 0,
        }]
    }

    fn wake_ups(&self) -> Vec<u64> {
        vec![]
    }
}

pub struct Immediate<'a> {
    pub case: &'a Case,
    pub graphs: &'a [Graph],
    pub waiting: Vec<usize>,
}

impl Scheduler for Immediate<'_> {
    fn arrive(&mut self, request: usize) {
        self.waiting.push(request);
    }

    fn complete(&mut self, _: &[(usize, usize)]) {}

    fn offer(&mut self, _: usize, _: u64, _: u64) -> Vec<Batch> {
        let members = take(&mut self.waiting, 1);
        let Some(&request) = members.first() else {
            return vec![];
        };
        vec![cell_after_cell(&[request], self.graphs, self.case, 0)]
    }

    fn wake_ups(&self) -> Vec<u64> {
        vec![]
    }
}

/// A graph built by hand for a shape: all requests of that shape, and each of its cells once.
pub struct Ideal<'a> {
    pub case: &'a Case,
    pub graphs: &'a [Graph],
    pub max_batch: usize,
    pub waiting: Vec<usize>,
}

impl Scheduler for Ideal<'_> {
    fn arrive(&mut self, request: usize) {
        self.waiting.push(request);
    }

    fn complete(&mut self, _: &[(usize, usize)]) {}

    fn offer(&mut self, _: usize, _: u64, _: u64) -> Vec<Batch> {
        let Some(oldest) = self.waiting.first().copied() else {
            return vec![];
        };
        // Choice: a shape is its graph, node by node, so `chain:3` and `tokens:3` are the same.
        let alike = |request: &usize| self.graphs[*request].looks_like(&self.graphs[oldest]);
        let mut members: Vec<usize> = self.waiting.iter().copied().filter(alike).collect();
        members.truncate(self.max_batch);
        self.waiting.retain(|request| !members.contains(request));
        vec![cell_after_cell(&members, self.graphs, self.case, 0)]
    }

    fn wake_ups(&self) -> Vec<u64> {
        vec![]
    }
}

/// Just-in-time batching of a scope of requests.
pub struct Jit<'a> {
    pub case: &'a Case,
    pub graphs: &'a [Graph],
    pub max_batch: usize,
    /// Whole requests are looked up, not their cells.
    pub by_graph: bool,
    /// The host's time for a look-up, during which the worker idles.
    pub analysis: u64,
    /// Whether tables are kept, and the scopes whose tables are.
    pub cache: bool,
    pub known: Vec<Vec<CellsAndNeeds>>,
    pub waiting: Vec<usize>,
}

pub type CellsAndNeeds = (Vec<String>, Vec<Vec<usize>>);

impl Jit<'_> {
    /// A task for each shape, by the first request that has it.
    fn shapes(&self, members: &[usize]) -> Vec<Batch> {
        let shape = |request: usize| &self.case.trace[request].1;
        let mut left = members.to_vec();
        let mut tasks = Vec::new();
        while let Some(first) = left.first().copied() {
            let alike: Vec<usize> = left
                .iter()
                .copied()
                .filter(|request| shape(*request) == shape(first))
                .collect();
            left.retain(|request| !alike.contains(request));
            tasks.push(cell_after_cell(
                &alike,
                self.graphs,
                self.case,
                self.analysis * alike.len() as u64,
            ));
        }
        tasks
    }

    /// One task: cells of one depth, type and number of inputs run together.
    fn table(&mut self, members: &[usize]) -> Batch {
        let scope: Vec<_> = members
            .iter()
            .map(|request| &self.graphs[*request])
            .collect();
        let scope: Vec<_> = scope
            .iter()
            .map(|graph| (graph.cells.clone(), graph.needs.clone()))
            .collect();
        let known = self.cache && self.known.contains(&scope);
        self.known.push(scope);
        let mut slots: Vec<((usize, usize, String), usize)> = Vec::new();
        for &request in members {
            let graph = &self.graphs[request];
            for (node, depth) in graph.depths().into_iter().enumerate() {
                let key = (depth, graph.needs[node].len(), graph.cells[node].clone());
                match slots.iter_mut().find(|slot| slot.0 == key) {
                    Some(slot) => slot.1 += 1,
                    None => slots.push((key, 1)),
                }
            }
        }
        let cost: u64 = slots
            .iter()
            .map(|((.., cell), size)| self.case.costs.time(cell, *size))
            .sum();
        let nodes = all_nodes(members, self.graphs);
        let look_ups = if known { members.len() } else { nodes.len() };
        Batch {
            cells: slots.into_iter().map(|((.., cell), _)| cell).collect(),
            size: members.len(),
            duration: cost
                + self.analysis * look_ups as u64
                + self.case.overhead("task", members.len()),
            nodes,
            ahead: 0,
        }
    }
}

impl Scheduler for Jit<'_> {
    fn arrive(&mut self, request: usize) {
        self.waiting.push(request);
    }

    fn complete(&mut self, _: &[(usize, usize)]) {}

    fn offer(&mut self, _: usize, _: u64, _: u64) -> Vec<Batch> {
        let members = take(&mut self.waiting, self.max_batch);
        match (members.is_empty(), self.by_graph) {
            (true, _) => vec![],
            (false, true) => self.shapes(&members),
            (false, false) => vec![self.table(&members)],
        }
    }

    fn wake_ups(&self) -> Vec<u64> {
        vec![]
    }
}

/// Requests of one graph, whose cells run one after another, each for all of them; with the host's work.
fn cell_after_cell(members: &[usize], graphs: &[Graph], case: &Case, host: u64) -> Batch {
    let cells = graphs[members[0]].cells.clone();
    let cost: u64 = cells
        .iter()
        .map(|cell| case.costs.time(cell, members.len()))
        .sum();
    let duration = cost + host + case.overhead("task", members.len());
    Batch {
        cells,
        size: members.len(),
        nodes: all_nodes(members, graphs),
        duration,
        ahead: 0,
    }
}
