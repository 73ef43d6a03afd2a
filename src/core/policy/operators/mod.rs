//! Requests as graphs of operators, for policies that batch below cells. A [batch] counts nodes by
//! [class](classes) and depth, so no operator of a single node is visited; [launches](Launch) become the steps of a
//! task.

pub mod batch;
pub mod classes;
#[cfg(test)]
#[path = "tests/naive.rs"]
pub(crate) mod naive;
pub mod order;

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use self::batch::Batch;
use self::classes::{Classes, Key, KeyOf, Keyed};
pub use self::order::{by_agenda, by_depth};
use super::prelude::*;
use super::whole::Taken;
use crate::core::task::{ExtraTime, Launches, Members, Unit};
use crate::core::workload::operator::catalogue::OperatorList;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    pub key: Key,
    pub operators: u64,
    pub rows: u64,
    pub input: u32,
}

/// Puts a batch's operators in order.
pub type Order<K> = fn(&Batch, &Classes<K>) -> Ordered;

#[derive(Debug, Default)]
pub struct Ordered {
    /// Their number.
    pub operators: u64,
    pub launches: Vec<Launch>,
    /// What each launch runs, for backends that compute.
    pub lists: Launches,
}

impl Ordered {
    fn push(&mut self, launch: Launch, units: &[Unit]) {
        self.launches.push(launch);
        self.lists.units.extend_from_slice(units);
        self.lists.ends.push(self.lists.units.len() as u32);
    }
}

/// Batches of requests as launches, one batch after another.
pub struct Evaluation<K> {
    classes: Classes<K>,
    /// What tasks list for backends that compute.
    lists: Lists,
    // Looked up, never iterated.
    known: HashMap<Vec<CellGraph>, Arc<Evaluated>>,
    kept: usize,
}

/// The level of an [`Evaluation`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lists {
    /// Whole cells: a backend finds their nodes by itself.
    Cells,
    Operators,
    Kernels,
}

/// A batch as launches.
#[derive(Debug)]
pub struct Evaluated {
    pub operators: u64,
    pub launches: usize,
    steps: Vec<Step>,
    cells: u64,
    level: Lists,
    lists: Arc<Launches>,
}

/// Nodes and steps of the batches that are remembered, some hundred megabytes. With more, all are forgotten.
const MOST_KEPT: usize = 1 << 24;

impl<K: Hash + Eq> Evaluation<K> {
    pub fn new(of_cells: &[OperatorList], key_of: KeyOf<K>, lists: Lists) -> Self {
        Evaluation {
            classes: Classes::new(of_cells, key_of),
            lists,
            known: HashMap::new(),
            kept: 0,
        }
    }

    pub fn evaluate<G: Borrow<CellGraph>>(
        &mut self,
        graphs: impl IntoIterator<Item = G>,
        order: Order<K>,
    ) -> Arc<Evaluated> {
        let Evaluation {
            classes,
            lists: level,
            ..
        } = self;
        let mut batch = Batch::default();
        graphs
            .into_iter()
            .for_each(|graph| batch.add(graph.borrow(), classes));
        let Ordered {
            operators,
            launches,
            mut lists,
        } = order(&batch, classes);
        lists.kernels = *level == Lists::Kernels;
        let mut of_launches = Vec::new();
        steps(&launches, classes.keyed(), &mut of_launches);
        let (launches, steps, cells, lists) =
            (launches.len(), of_launches, batch.cells, Arc::new(lists));
        Arc::new(Evaluated {
            operators,
            launches,
            steps,
            cells,
            level: *level,
            lists,
        })
    }

    /// As [`Evaluation::evaluate`], but a batch that was met before is not put in order again. Returns whether it was
    /// met.
    pub fn recall(&mut self, graphs: Vec<CellGraph>, order: Order<K>) -> (Arc<Evaluated>, bool) {
        if let Some(known) = self.known.get(&graphs) {
            return (Arc::clone(known), true);
        }
        let evaluated = self.evaluate(&graphs, order);
        let nodes = graphs.iter().map(CellGraph::nodes).sum::<u64>() as usize;
        self.kept += nodes + evaluated.steps.len() + evaluated.lists.units.len();
        if self.kept > MOST_KEPT {
            self.known.clear();
            self.kept = 0;
        }
        self.known.insert(graphs, Arc::clone(&evaluated));
        (evaluated, false)
    }
}

impl Evaluated {
    /// The task that evaluates the requests, for which the host works for `host_during`.
    pub fn task<'a>(&'a self, taken: Taken<'a>, host_during: Nanos) -> Task<'a> {
        let members = match self.level {
            Lists::Cells => Members::Requests,
            Lists::Operators | Lists::Kernels => Members::Operators(&self.lists),
        };
        Task {
            extra: ExtraTime {
                host_during,
                ..ExtraTime::default()
            },
            members,
            ..Task::whole_requests(taken.worker, &self.steps, taken.requests, self.cells)
        }
    }
}

/// Operators that run by themselves are steps; equal neighbours become one step.
pub fn steps(launches: &[Launch], keyed: &[Keyed], steps: &mut Vec<Step>) {
    steps.clear();
    for launch in launches {
        let Keyed {
            operator, alone, ..
        } = keyed[launch.key.index()];
        let times = if alone { launch.operators } else { 1 };
        let (batch, times) = ((launch.rows / times) as u32, times as u32);
        match steps.last_mut() {
            Some(last)
                if (last.cell, last.batch, last.input) == (operator, batch, launch.input) =>
            {
                last.times += times
            }
            _ => steps.push(Step {
                cell: operator,
                batch,
                times,
                input: launch.input,
            }),
        }
    }
}
