//! Requests as graphs of operators, for policies that batch below cells. A [batch] counts nodes by
//! [class](classes) and depth, so no operator of a single node is visited; [launches](Launch) become the steps of a
//! task.

pub mod batch;
pub mod classes;
#[cfg(test)]
#[path = "tests/naive.rs"]
pub(crate) mod naive;

use std::hash::Hash;

use self::batch::Batch;
use self::classes::{Classes, Key, KeyOf, Keyed};
use super::whole::Taken;
use crate::task::{HostOverhead, Step, Task};
use crate::units::Nanos;
use crate::workload::cell_graph::CellGraph;
use crate::workload::operator::catalogue::List;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    pub key: Key,
    pub operators: u64,
    pub rows: u64,
    pub input: u32,
}

/// Puts a batch's operators in order and appends the launches; returns the number of operators.
pub type Order<K> = fn(&Batch, &Classes<K>, &mut Vec<Launch>) -> u64;

/// Batches of requests as launches, one batch after another.
pub struct Evaluation<K> {
    classes: Classes<K>,
    batch: Batch,
    launches: Vec<Launch>,
    steps: Vec<Step>,
}

impl<K: Hash + Eq> Evaluation<K> {
    pub fn new(lists: &[List], key_of: KeyOf<K>) -> Self {
        let classes = Classes::new(lists, key_of);
        Evaluation { classes, batch: Batch::default(), launches: Vec::new(), steps: Vec::new() }
    }

    /// The numbers of operators and of launches.
    pub fn evaluate(&mut self, graphs: impl IntoIterator<Item = CellGraph>, order: Order<K>) -> (u64, usize) {
        self.batch.clear();
        graphs.into_iter().for_each(|graph| self.batch.add(&graph, &mut self.classes));
        (order(&self.batch, &self.classes, &mut self.launches), self.launches.len())
    }

    /// The task of the batch that was evaluated last, with the host's work for it.
    pub fn task<'a>(&'a mut self, taken: Taken<'a>, during: Nanos) -> Task<'a> {
        steps(&self.launches, self.classes.keyed(), &mut self.steps);
        let host = HostOverhead { ahead: Nanos::ZERO, during };
        Task { host, ..Task::whole_requests(taken.worker, &self.steps, taken.requests, self.batch.cells()) }
    }
}

/// Operators that run by themselves are steps; equal neighbours become one step.
pub fn steps(launches: &[Launch], keyed: &[Keyed], steps: &mut Vec<Step>) {
    steps.clear();
    for launch in launches {
        let Keyed { operator, alone, .. } = keyed[launch.key.index()];
        let times = if alone { launch.operators } else { 1 };
        let (batch, times) = ((launch.rows / times) as u32, times as u32);
        match steps.last_mut() {
            Some(last) if (last.cell, last.batch, last.input) == (operator, batch, launch.input) => last.times += times,
            _ => steps.push(Step { cell: operator, batch, times, input: launch.input }),
        }
    }
}

/// One launch for each depth and key (DyNet's batching by depth, JIT's table), by depth and then by first sight.
/// Returns the number of operators.
pub fn by_depth<K: Hash + Eq>(batch: &Batch, classes: &Classes<K>, launches: &mut Vec<Launch>) -> u64 {
    launches.clear();
    let groups = batch.groups(classes);
    const UNSEEN: u32 = u32::MAX;
    let mut rank = vec![UNSEEN; classes.keyed().len()];
    let mut keys: Vec<(Key, u32)> = Vec::new();
    let mut counts: Vec<Vec<(u64, u64)>> = Vec::new();
    let mut operators = 0;
    groups.each(batch, classes, |entry| {
        operators += entry.nodes;
        let class = &classes.all()[entry.class as usize];
        let key = class.keys[entry.place as usize];
        let rank = &mut rank[key.index()];
        if *rank == UNSEEN {
            *rank = keys.len() as u32;
            keys.push((key, class.input));
        }
        let depth = entry.depth as usize;
        if counts.len() <= depth {
            counts.resize(depth + 1, Vec::new());
        }
        let at_depth = &mut counts[depth];
        if at_depth.len() <= *rank as usize {
            at_depth.resize(*rank as usize + 1, (0, 0));
        }
        let (operators, rows) = &mut at_depth[*rank as usize];
        *operators += entry.nodes;
        *rows += entry.rows;
    });
    for at_depth in counts {
        let some = keys.iter().zip(at_depth).filter(|(_, (operators, _))| *operators > 0);
        launches.extend(some.map(|((key, input), (operators, rows))| Launch {
            key: *key,
            operators,
            rows,
            input: *input,
        }));
    }
    operators
}
