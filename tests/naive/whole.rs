//! Policies that run whole requests: padded, merged and immediate. None of them pays for gathering.

use super::graph::Graph;
use super::{Batch, Case, Scheduler};

/// All nodes of these requests.
fn all_nodes(requests: &[usize], graphs: &[Graph]) -> Vec<(usize, usize)> {
    let mut nodes = Vec::new();
    for &request in requests {
        for node in 0..graphs[request].cells.len() {
            nodes.push((request, node));
        }
    }
    nodes
}

/// Takes up to `most` requests from the head of a list.
fn take(waiting: &mut Vec<usize>, most: usize) -> Vec<usize> {
    waiting.drain(..most.min(waiting.len())).collect()
}

pub struct Padded<'a> {
    pub case: &'a Case,
    pub graphs: &'a [Graph],
    pub width: usize,
    pub max_batch: usize,
    pub pad_to_longest: bool,
    pub window: u64,
    /// All that wait, in the order of their arrival.
    pub waiting: Vec<usize>,
    /// The bucket at which the next search begins.
    pub pointer: usize,
}

impl Padded<'_> {
    /// Bucket i takes lengths in (i·w, (i+1)·w].
    fn bucket(&self, request: usize) -> usize {
        (0..).find(|i| self.graphs[request].length <= (i + 1) * self.width).expect("each length has a bucket")
    }

    fn members(&self, bucket: usize) -> Vec<usize> {
        self.waiting.iter().copied().filter(|request| self.bucket(*request) == bucket).collect()
    }

    /// A bucket that is not empty, and, with a window, is full or whose oldest request has waited for the window.
    fn ready(&self, bucket: usize, now: u64) -> bool {
        let members = self.members(bucket);
        match members.first() {
            None => false,
            Some(oldest) => members.len() >= self.max_batch || now - self.case.trace[*oldest].0 >= self.window,
        }
    }
}

impl Scheduler for Padded<'_> {
    fn arrive(&mut self, request: usize) {
        self.waiting.push(request);
    }

    fn complete(&mut self, _: &[(usize, usize)]) {}

    fn offer(&mut self, _: usize, now: u64) -> Vec<Batch> {
        // Choice: one pointer serves all workers. From it on, and then once more from the first bucket.
        let buckets = self.waiting.iter().map(|request| self.bucket(*request) + 1).max().unwrap_or(0);
        let Some(bucket) = (self.pointer..buckets).chain(0..buckets).find(|bucket| self.ready(*bucket, now)) else {
            return vec![];
        };
        self.pointer = bucket + 1;
        let mut members = self.members(bucket);
        members.truncate(self.max_batch);
        self.waiting.retain(|request| !members.contains(request));

        let size = members.len();
        let longest = members.iter().map(|request| self.graphs[*request].length).max().expect("not empty");
        let steps = if self.pad_to_longest { longest } else { (bucket + 1) * self.width };
        let targets = members.iter().map(|request| self.graphs[*request].target).max().expect("not empty");
        let costs = &self.case.costs;
        // Of a request with a target, the source is encoded and the target decoded; any other is a chain.
        let (cells, cost) = if targets > 0 {
            let encode = steps as u64 * costs.time("encoder", size);
            let decode = targets as u64 * costs.time("decoder", size);
            (vec!["encoder".to_string(), "decoder".to_string()], encode + decode)
        } else {
            (vec!["lstm".to_string()], steps as u64 * costs.time("lstm", size))
        };
        let nodes = all_nodes(&members, self.graphs);
        vec![Batch { cells, size, nodes, duration: cost + self.case.overhead("task", size) }]
    }

    fn wake_ups(&self) -> Vec<u64> {
        self.waiting.iter().map(|request| self.case.trace[*request].0 + self.window).collect()
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

    fn offer(&mut self, _: usize, _: u64) -> Vec<Batch> {
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
        let cost: u64 = groups.iter().map(|((_, cell), size)| self.case.costs.time(cell, *size)).sum();
        vec![Batch {
            cells: groups.into_iter().map(|((_, cell), _)| cell).collect(),
            size: members.len(),
            nodes: all_nodes(&members, self.graphs),
            duration: cost + self.case.overhead("task", members.len()),
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

    fn offer(&mut self, _: usize, _: u64) -> Vec<Batch> {
        let members = take(&mut self.waiting, 1);
        let Some(&request) = members.first() else { return vec![] };
        let cells = self.graphs[request].cells.clone();
        let cost: u64 = cells.iter().map(|cell| self.case.costs.time(cell, 1)).sum();
        let nodes = all_nodes(&members, self.graphs);
        vec![Batch { cells, size: 1, nodes, duration: cost + self.case.overhead("task", 1) }]
    }

    fn wake_ups(&self) -> Vec<u64> {
        vec![]
    }
}
