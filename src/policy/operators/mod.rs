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
use crate::task::{HostOverhead, Launches, Members, Step, Task, Unit, Wave};
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
    pub fn push(&mut self, launch: Launch, units: impl IntoIterator<Item = Unit>) {
        self.launches.push(launch);
        self.lists.units.extend(units);
        self.lists.ends.push(self.lists.units.len() as u32);
    }
}

/// Batches of requests as launches, one batch after another.
pub struct Evaluation<K> {
    classes: Classes<K>,
    batch: Batch,
    /// What tasks list for backends that compute.
    lists: Lists,
    // Looked up, never iterated.
    known: HashMap<Structure, Arc<Evaluated>>,
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
    lists: Arc<Launches>,
}

/// Nodes and steps of the batches that are remembered, some hundred megabytes. With more, all are forgotten.
const MOST_KEPT: usize = 1 << 24;

impl<K: Hash + Eq> Evaluation<K> {
    pub fn new(of_cells: &[List], key_of: KeyOf<K>, lists: Lists) -> Self {
        let classes = Classes::new(of_cells, key_of);
        Evaluation { classes, batch: Batch::default(), lists, known: HashMap::new(), kept: 0 }
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
        self.kept += self.batch.nodes() as usize + evaluated.steps.len() + evaluated.lists.units.len();
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
        let Ordered { operators, launches, mut lists } = order(&self.batch, &self.classes);
        lists.kernels = self.lists == Lists::Kernels;
        let mut of_launches = Vec::new();
        steps(&launches, self.classes.keyed(), &mut of_launches);
        Evaluated { operators, launches: launches.len(), steps: of_launches, lists: Arc::new(lists) }
    }

    /// The task of the batch that was evaluated last, with the host's work for it.
    pub fn task<'a>(&self, taken: Taken<'a>, evaluated: &'a Evaluated, during: Nanos) -> Task<'a> {
        let host = HostOverhead { ahead: Nanos::ZERO, during };
        let members = match self.lists {
            Lists::Cells => Members::Requests,
            Lists::Operators | Lists::Kernels => Members::Operators(&evaluated.lists),
        };
        Task {
            host,
            members,
            ..Task::whole_requests(taken.worker, &evaluated.steps, taken.requests, self.batch.cells())
        }
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
pub fn by_depth<K: Hash + Eq>(batch: &Batch, classes: &Classes<K>) -> Ordered {
    let groups = batch.groups(classes);
    const UNSEEN: u32 = u32::MAX;
    let mut ordered = Ordered::default();
    let mut rank = vec![UNSEEN; classes.keyed().len()];
    let mut keys: Vec<(Key, u32)> = Vec::new();
    let mut slots: Vec<Vec<Slot>> = Vec::new();
    let mut waves = Waves { of: vec![Vec::new(); 2 * classes.all().len()], waves: Vec::new() };
    groups.each(batch, classes, |entry| {
        ordered.operators += entry.nodes;
        let class = &classes.all()[entry.class as usize];
        let key = class.keys[entry.place as usize];
        let rank = &mut rank[key.index()];
        if *rank == UNSEEN {
            *rank = keys.len() as u32;
            keys.push((key, class.input));
        }
        let depth = entry.depth as usize;
        if slots.len() <= depth {
            slots.resize_with(depth + 1, Vec::new);
        }
        let at_depth = &mut slots[depth];
        if at_depth.len() <= *rank as usize {
            at_depth.resize_with(*rank as usize + 1, Slot::default);
        }
        let slot = &mut at_depth[*rank as usize];
        slot.operators += entry.nodes;
        slot.rows += entry.rows;
        slot.units.push(Unit { wave: waves.of(entry.class, entry.by_edge, entry.states), place: entry.place });
    });
    for at_depth in slots {
        let some = keys.iter().zip(at_depth).filter(|(_, slot)| slot.operators > 0);
        for ((key, input), Slot { operators, rows, units }) in some {
            ordered.push(Launch { key: *key, operators, rows, input: *input }, units);
        }
    }
    ordered.lists.waves = waves.filled(batch, classes, &groups.states);
    ordered
}

#[derive(Debug, Default)]
struct Slot {
    operators: u64,
    rows: u64,
    units: Vec<Unit>,
}

/// Nodes of a class whose deepest input has one depth, and input cells whose state has.
struct Waves {
    /// By class, of nodes and of input cells, by depth.
    of: Vec<Vec<u32>>,
    waves: Vec<Wave>,
}

impl Waves {
    const NONE: u32 = u32::MAX;

    fn of(&mut self, class: u32, by_edge: bool, states: u32) -> u32 {
        let of = &mut self.of[2 * class as usize + usize::from(by_edge)];
        if of.len() <= states as usize {
            of.resize(states as usize + 1, Waves::NONE);
        }
        if of[states as usize] == Waves::NONE {
            of[states as usize] = self.waves.len() as u32;
            self.waves.push(Wave::default());
        }
        of[states as usize]
    }

    fn add(&mut self, class: u32, input: Option<u16>, states: u32, node: u32) {
        let of = &self.of[2 * class as usize + usize::from(input.is_some())];
        if let Some(wave) = of.get(states as usize).filter(|wave| **wave != Waves::NONE) {
            let wave = &mut self.waves[*wave as usize];
            wave.nodes.push(node);
            wave.inputs.extend(input);
        }
    }

    fn filled<K: Hash + Eq>(mut self, batch: &Batch, classes: &Classes<K>, states: &[u32]) -> Vec<Wave> {
        for (node, before) in (0..).zip(states) {
            let class = batch.class(node);
            self.add(class, None, *before, node);
            if batch.inputs()[node as usize] == 0 {
                self.add(class, Some(0), 0, node);
            }
            let state = 1 + classes.cell(class).depths.state(before.checked_sub(1));
            for (taker, place) in batch.edges(node) {
                self.add(batch.class(taker), Some(place), state, taker);
            }
        }
        self.waves
    }
}
