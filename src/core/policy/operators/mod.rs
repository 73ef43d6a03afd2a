//! Requests as graphs of operators, for policies that batch below cells. A [batch] counts nodes by [class](classes) and
//! depth, so no operator of a single node is visited. The [launches](OperatorLaunch) become the steps of a task.

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

use self::batch::GraphBatch;
use self::classes::{KeyFunction, KeyedOperator, NodeClasses, OperatorKey};
pub use self::order::{agenda_order, depth_order};
use super::prelude::*;
use super::whole::Taken;
use crate::core::task::{ExtraTime, LaunchUnit, Launches, Members};
use crate::core::workload::operator::catalogue::OperatorList;

/// Operators of one key that run as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperatorLaunch {
    pub key: OperatorKey,
    /// The number of operators.
    pub operators: u64,
    /// The number of their batch entries.
    pub rows: u64,
    pub input: u32,
}

/// A function that puts a batch's operators in order.
pub type OperatorOrder<K> = fn(&GraphBatch, &NodeClasses<K>) -> OperatorSchedule;

/// The operators of a batch in order.
#[derive(Debug, Default)]
pub struct OperatorSchedule {
    /// The number of operators.
    pub operators: u64,
    pub launches: Vec<OperatorLaunch>,
    /// The units of each launch, for backends that compute.
    pub lists: Launches,
}

impl OperatorSchedule {
    fn push(&mut self, launch: OperatorLaunch, units: &[LaunchUnit]) {
        self.launches.push(launch);
        self.lists.units.extend_from_slice(units);
        self.lists.ends.push(self.lists.units.len() as u32);
    }
}

/// The evaluation of batches of requests, one batch after another.
pub struct Evaluation<K> {
    classes: NodeClasses<K>,
    /// The level of the lists that tasks have for backends that compute.
    level: ListLevel,
    /// The batches that are remembered. They are looked up, and never iterated over.
    known: HashMap<Vec<CellGraph>, Arc<EvaluatedBatch>>,
    /// The number of nodes, steps and units of the remembered batches.
    kept: usize,
}

/// The level of an [`Evaluation`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListLevel {
    /// Whole cells, whose nodes a backend finds by itself.
    Cells,
    Operators,
    Kernels,
}

/// A batch as launches.
#[derive(Debug)]
pub struct EvaluatedBatch {
    pub operators: u64,
    pub launches: usize,
    steps: Vec<Step>,
    cells: u64,
    level: ListLevel,
    lists: Arc<Launches>,
}

/// The largest number of nodes, steps and units of the remembered batches, which take a few hundred megabytes. Above
/// this number, all batches are forgotten.
const MOST_KEPT: usize = 1 << 24;

impl<K: Hash + Eq> Evaluation<K> {
    pub fn new(operators: &[OperatorList], key_of: KeyFunction<K>, level: ListLevel) -> Self {
        Evaluation {
            classes: NodeClasses::new(operators, key_of),
            level,
            known: HashMap::new(),
            kept: 0,
        }
    }

    /// Puts the operators of a batch in order.
    pub fn evaluate<G: Borrow<CellGraph>>(
        &mut self,
        graphs: impl IntoIterator<Item = G>,
        order: OperatorOrder<K>,
    ) -> Arc<EvaluatedBatch> {
        let mut batch = GraphBatch::default();
        for graph in graphs {
            batch.add(graph.borrow(), &mut self.classes);
        }
        let mut schedule = order(&batch, &self.classes);
        schedule.lists.kernels = self.level == ListLevel::Kernels;
        Arc::new(EvaluatedBatch {
            operators: schedule.operators,
            launches: schedule.launches.len(),
            steps: steps_of(&schedule.launches, self.classes.keyed_operators()),
            cells: batch.cells,
            level: self.level,
            lists: Arc::new(schedule.lists),
        })
    }

    /// Works like [`Evaluation::evaluate`], but does not put a known batch in order again. Returns whether it was
    /// known.
    pub fn recall(
        &mut self,
        graphs: Vec<CellGraph>,
        order: OperatorOrder<K>,
    ) -> (Arc<EvaluatedBatch>, bool) {
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

impl EvaluatedBatch {
    /// The task that evaluates the requests, for which the host works for `host_during`.
    pub fn task<'a>(&'a self, taken: Taken<'a>, host_during: Nanos) -> Task<'a> {
        let members = match self.level {
            ListLevel::Cells => Members::Requests,
            ListLevel::Operators | ListLevel::Kernels => Members::Operators(&self.lists),
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

/// The steps of launches. Operators that run by themselves are steps of their own, and equal neighbours become one
/// step.
pub fn steps_of(launches: &[OperatorLaunch], keyed: &[KeyedOperator]) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for launch in launches {
        let KeyedOperator {
            operator, alone, ..
        } = keyed[launch.key.index()];
        let times = if alone { launch.operators } else { 1 };
        let batch = (launch.rows / times) as u32;
        let times = times as u32;
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
    steps
}
