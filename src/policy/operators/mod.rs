//! Requests as graphs of operators, for policies that batch below cells. A [batch] counts nodes by
//! [class](classes) and depth, so no operator of a single node is visited; [launches](Launch) become the steps of a
//! task.

pub mod batch;
pub mod classes;
#[cfg(test)]
#[path = "tests/naive.rs"]
pub(crate) mod naive;

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use self::batch::{Batch, Structure};
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
    // Looked up, never iterated.
    known: HashMap<Structure, Arc<Evaluated>>,
    kept: usize,
}

/// A batch as launches.
#[derive(Debug)]
pub struct Evaluated {
    pub operators: u64,
    pub launches: usize,
    steps: Vec<Step>,
}

/// Nodes and steps of the batches that are remembered, some hundred megabytes. With more, all are forgotten.
const MOST_KEPT: usize = 1 << 24;

impl<K: Hash + Eq> Evaluation<K> {
    pub fn new(lists: &[List], key_of: KeyOf<K>) -> Self {
        let classes = Classes::new(lists, key_of);
        Evaluation { classes, batch: Batch::default(), launches: Vec::new(), known: HashMap::new(), kept: 0 }
    }

    pub fn evaluate(&mut self, graphs: impl IntoIterator<Item = CellGraph>, order: Order<K>) -> Arc<Evaluated> {
        self.collect(graphs);
        Arc::new(self.ordered(order))
    }

    /// As [`Evaluation::evaluate`], but a graph of a batch that was met before is not put in order again. Returns
    /// whether it was met.
    pub fn recall(&mut self, graphs: impl IntoIterator<Item = CellGraph>, order: Order<K>) -> (Arc<Evaluated>, bool) {
        self.collect(graphs);
        if let Some(known) = self.known.get(self.batch.structure()) {
            return (Arc::clone(known), true);
        }
        let evaluated = Arc::new(self.ordered(order));
        self.kept += self.batch.nodes() as usize + evaluated.steps.len();
        if self.kept > MOST_KEPT {
            self.known.clear();
            self.kept = 0;
        }
        self.known.insert(self.batch.structure().clone(), Arc::clone(&evaluated));
        (evaluated, false)
    }

    fn collect(&mut self, graphs: impl IntoIterator<Item = CellGraph>) {
        self.batch.clear();
        graphs.into_iter().for_each(|graph| self.batch.add(&graph, &mut self.classes));
    }

    fn ordered(&mut self, order: Order<K>) -> Evaluated {
        let operators = order(&self.batch, &self.classes, &mut self.launches);
        let mut of_launches = Vec::new();
        steps(&self.launches, self.classes.keyed(), &mut of_launches);
        Evaluated { operators, launches: self.launches.len(), steps: of_launches }
    }

    /// The task of the batch that was evaluated last, with the host's work for it.
    pub fn task<'a>(&self, taken: Taken<'a>, evaluated: &'a Evaluated, during: Nanos) -> Task<'a> {
        let host = HostOverhead { ahead: Nanos::ZERO, during };
        Task { host, ..Task::whole_requests(taken.worker, &evaluated.steps, taken.requests, self.batch.cells()) }
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
