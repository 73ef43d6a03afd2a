//! TensorFlow Fold: merged graphs in a loop over levels, with copies of results that are needed at higher levels, calls
//! without rows, and a host that builds a batch before it runs.

use super::graph::Graph;
use super::whole::{all_nodes, take};
use super::{Batch, Case, Scheduler};

pub struct Fold<'a> {
    pub case: &'a Case,
    pub graphs: &'a [Graph],
    pub max_batch: usize,
    /// The host's time for a node, and the quarters of it that may overlap with the previous batch.
    pub construct: u64,
    pub quarters: u64,
    pub copies: bool,
    pub waiting: Vec<usize>,
    /// For each worker, when the host finishes all work that it has begun for it.
    pub host: Vec<u64>,
}

impl Fold<'_> {
    /// One iteration of the loop: each cell type once, even without rows, and the copying once.
    fn turn(&self, level: usize, levels: usize, members: &[usize]) -> u64 {
        let costs = &self.case.costs;
        let mut time = 0;
        for cell in &self.case.cells {
            let here = |r: &usize| {
                let graph = &self.graphs[*r];
                graph
                    .depths()
                    .iter()
                    .zip(&graph.cells)
                    .filter(|(depth, c)| **depth + 1 == level && *c == cell)
                    .count()
            };
            let size: usize = members.iter().map(here).sum();
            time += match size {
                0 if costs.knows("empty") => costs.time("empty", 1),
                0 => 0,
                _ => costs.time(cell, size),
            };
        }
        if self.copies && costs.knows("copy") {
            let size = members
                .iter()
                .map(|request| handed_on(&self.graphs[*request], level, levels))
                .sum();
            time += costs.time("copy", size);
        }
        time
    }
}

/// The results of a graph that pass a level: computed below it and needed above it, or at the end of the loop.
fn handed_on(graph: &Graph, level: usize, levels: usize) -> usize {
    let depths = graph.depths();
    let mut results = 0;
    for node in 0..depths.len() {
        let takers = (0..depths.len()).filter(|taker| graph.needs[*taker].contains(&node));
        let needed = takers
            .map(|taker| depths[taker] + 1)
            .max()
            .unwrap_or(levels + 1);
        if depths[node] + 1 < level && level < needed {
            results += 1;
        }
    }
    results
}

impl Scheduler for Fold<'_> {
    fn arrive(&mut self, request: usize) {
        self.waiting.push(request);
    }

    fn complete(&mut self, _: &[(usize, usize)]) {}

    fn offer(&mut self, worker: usize, now: u64, free: u64) -> Vec<Batch> {
        if self.host[worker] > now {
            return vec![];
        }
        let members = take(&mut self.waiting, self.max_batch);
        if members.is_empty() {
            return vec![];
        }
        let depths = |request: &usize| self.graphs[*request].depths().into_iter();
        let levels = members
            .iter()
            .flat_map(depths)
            .max()
            .expect("a request has a node")
            + 1;
        let cost: u64 = (1..=levels)
            .map(|level| self.turn(level, levels, &members))
            .sum();
        let nodes = all_nodes(&members, self.graphs);

        // A part of a share is rounded to the nearest nanosecond.
        let build = self.construct * nodes.len() as u64;
        let ahead = (build * self.quarters + 2) / 4;
        let during = build - ahead;
        // The rest is built when the worker reaches this batch.
        self.host[worker] = free.max(now + ahead) + during;
        vec![Batch {
            cells: nodes
                .iter()
                .map(|(request, node)| self.graphs[*request].cells[*node].clone())
                .collect(),
            size: members.len(),
            duration: cost + during + self.case.overhead("task", members.len()),
            nodes,
            ahead,
        }]
    }

    fn wake_ups(&self) -> Vec<u64> {
        self.host.clone()
    }

    fn lookahead(&self) -> usize {
        // If nothing can be built ahead, the host waits for the worker.
        usize::from(self.construct > 0 && self.quarters > 0)
    }
}
