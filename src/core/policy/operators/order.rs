//! The two orders of a batch's operators, exactly, without visiting single operators.
//!
//! The order by agenda (Neubig, Goldberg and Dyer, 2017, section 3.2) repeats these steps until nothing is left:
//! 1. A ready operator that cannot be batched runs by itself.
//! 2. Otherwise the signature runs whose operators have the lowest mean depth over the whole evaluation. On a tie,
//!    the first seen runs, unless it is not elementwise and another is.
//! 3. All its ready operators run as one, without a limit.
//!
//! The order by depth (DyNet, and JIT's table) runs all ready operators, one launch for each key. Then they make others
//! ready.
//!
//! Nodes of one class whose last input state came at one time are a **wave**. They behave alike, so a wave has one
//! counter for all its nodes. An operator on the state of one input cell is in the wave of that state. Launches take
//! all ready operators, so those of earlier states never lag behind, and an operator on all states only waits for the
//! last state.

use std::hash::Hash;

use super::batch::GraphBatch;
use super::classes::{InputNeeds, NodeClasses, OperatorKey};
use super::{OperatorLaunch, OperatorSchedule};
use crate::core::task::{self, LaunchUnit};

/// The order by agenda.
pub fn agenda_order<K: Hash + Eq>(
    batch: &GraphBatch,
    classes: &NodeClasses<K>,
) -> OperatorSchedule {
    let mut totals = key_totals(batch, classes);
    // The sort is stable, so the first seen stays first. Means are compared as exact fractions.
    totals.sort_by(|one, other| {
        let mean_of_one = u128::from(one.depths) * u128::from(other.operators);
        let mean_of_other = u128::from(other.depths) * u128::from(one.operators);
        let operator = &classes.keyed_operators()[one.key.index()];
        let other = &classes.keyed_operators()[other.key.index()];
        let alone_first = other.alone.cmp(&operator.alone);
        alone_first
            .then(mean_of_one.cmp(&mean_of_other))
            .then(other.elementwise.cmp(&operator.elementwise))
    });
    launch_all(&totals, 1, batch, classes)
}

/// The order by depth. Keys of a depth are in the order of first sight.
pub fn depth_order<K: Hash + Eq>(batch: &GraphBatch, classes: &NodeClasses<K>) -> OperatorSchedule {
    let totals = key_totals(batch, classes);
    launch_all(&totals, totals.len(), batch, classes)
}

/// The operators of a key.
struct KeyTotal {
    key: OperatorKey,
    operators: u64,
    /// The sum of the operators' depths.
    depths: u64,
}

/// All keys in the order of first sight.
fn key_totals<K: Hash + Eq>(batch: &GraphBatch, classes: &NodeClasses<K>) -> Vec<KeyTotal> {
    let mut place = vec![NONE; classes.keyed_operators().len()];
    let mut totals: Vec<KeyTotal> = Vec::new();
    batch.visit_operators(classes, |key, depth, operators| {
        let place = &mut place[key.index()];
        if *place == NONE {
            *place = totals.len() as u32;
            totals.push(KeyTotal {
                key,
                operators: 0,
                depths: 0,
            });
        }
        let of_key = &mut totals[*place as usize];
        of_key.operators += operators;
        of_key.depths += operators * u64::from(depth);
    });
    totals
}

/// Launches the first keys with ready operators, `at_once` of them before others become ready.
fn launch_all<K: Hash + Eq>(
    order: &[KeyTotal],
    at_once: usize,
    batch: &GraphBatch,
    classes: &NodeClasses<K>,
) -> OperatorSchedule {
    let mut schedule = OperatorSchedule {
        operators: order.iter().map(|total| total.operators).sum(),
        ..OperatorSchedule::default()
    };
    let mut agenda = Agenda {
        batch,
        classes,
        missing: batch.inputs.clone(),
        waves: Vec::new(),
        wave_of: vec![[NONE; 3]; classes.all().len()],
        ready: vec![Vec::new(); classes.keyed_operators().len()],
    };
    agenda.begin();
    let mut launched: Vec<LaunchUnit> = Vec::new();
    loop {
        let mut keys = 0;
        for KeyTotal { key, .. } in order {
            if keys == at_once {
                break;
            }
            let units = &agenda.ready[key.index()];
            let Some(first) = units.first() else { continue };
            // Units of a key have one input size, because it is part of the signature.
            let class = agenda.waves[first.wave as usize].class;
            let mut launch = OperatorLaunch {
                key: *key,
                operators: 0,
                rows: 0,
                input: classes.all()[class as usize].input,
            };
            for unit in units {
                let (operators, rows) = agenda.size(*unit);
                launch.operators += operators;
                launch.rows += rows;
            }
            schedule.push(launch, units);
            launched.extend_from_slice(units);
            agenda.ready[key.index()].clear();
            keys += 1;
        }
        if launched.is_empty() {
            break;
        }
        agenda.complete(&launched);
        launched.clear();
    }
    let waves = agenda.waves.into_iter();
    schedule.lists.waves = waves.map(|wave| wave.members).collect();
    schedule
}

/// The place of a wave or a key that does not exist.
const NONE: u32 = u32::MAX;

/// A wave of nodes.
struct ReadyWave {
    class: u32,
    /// The needs of the operators that the wave runs.
    needs: InputNeeds,
    /// The nodes, or with [`InputNeeds::OneState`] the input cells whose states came with one launch.
    members: task::Wave,
    /// The wave of the nodes' last input states.
    edges: u32,
    /// The number of results that each operator still waits for.
    missing: Vec<u16>,
    /// Whether each operator has run.
    done: Vec<bool>,
    /// The waves that wait for operators of this one.
    followers: Vec<u32>,
}

/// The operators of a batch that have not run.
struct Agenda<'a, K> {
    batch: &'a GraphBatch,
    classes: &'a NodeClasses<K>,
    /// The number of states that each node still waits for.
    missing: Vec<u32>,
    waves: Vec<ReadyWave>,
    /// The waves of each class by their needs: the wave of all nodes for words, and the present launch's waves of edges
    /// and of nodes.
    wave_of: Vec<[u32; 3]>,
    /// The ready operators of each key.
    ready: Vec<Vec<LaunchUnit>>,
}

impl<K: Hash + Eq> Agenda<'_, K> {
    /// Opens the waves of words and of nodes without input cells.
    fn begin(&mut self) {
        let batch = self.batch;
        for node in &batch.order {
            self.enqueue(*node, InputNeeds::Word, None);
        }
        for wave in &mut self.waves {
            wave.members.nodes.sort_unstable();
        }
        for node in 0..batch.nodes() {
            if batch.inputs[node as usize] == 0 {
                self.enqueue(node, InputNeeds::OneState, Some(0));
                self.enqueue(node, InputNeeds::AllStates, None);
            }
        }
        self.open(0);
    }

    /// Puts a node, or one of its input cells, into the present launch's wave.
    fn enqueue(&mut self, node: u32, needs: InputNeeds, input: Option<u16>) {
        let class = self.batch.class(node);
        let of_class = &mut self.wave_of[class as usize];
        if of_class[needs as usize] == NONE {
            of_class[needs as usize] = self.waves.len() as u32;
            let operators = self.classes.cell(class).list.operators.len();
            self.waves.push(ReadyWave {
                class,
                needs,
                members: task::Wave::default(),
                edges: of_class[InputNeeds::OneState as usize],
                missing: vec![0; operators],
                done: vec![false; operators],
                followers: Vec::new(),
            });
        }
        let members = &mut self.waves[of_class[needs as usize] as usize].members;
        members.nodes.push(node);
        members.inputs.extend(input);
    }

    /// Opens the waves from this one on. Waves of edges come before the waves of nodes that need them.
    fn open(&mut self, first: usize) {
        let classes = self.classes;
        for number in first..self.waves.len() {
            let ReadyWave {
                class,
                needs,
                edges,
                ..
            } = self.waves[number];
            let cell = classes.cell(class);
            let keys = &classes.all()[class as usize].keys;
            let [words, of_launch @ ..] = &mut self.wave_of[class as usize];
            of_launch.fill(NONE);
            for (place, waits_for) in cell
                .waits_for
                .iter()
                .enumerate()
                .filter(|(place, _)| cell.needs[*place] == needs)
            {
                let is_missing = |earlier: &&u16| {
                    let earlier = usize::from(**earlier);
                    let wave = if cell.needs[earlier] == InputNeeds::Word {
                        *words
                    } else {
                        edges
                    };
                    cell.needs[earlier] == needs || !self.waves[wave as usize].done[earlier]
                };
                let missing = waits_for.iter().filter(is_missing).count();
                self.waves[number].missing[place] = missing as u16;
                if missing == 0 {
                    self.ready[keys[place].index()].push(LaunchUnit {
                        wave: number as u32,
                        place: place as u16,
                    });
                }
            }
            for wave in [*words, edges] {
                if wave != NONE && wave != number as u32 {
                    self.waves[wave as usize].followers.push(number as u32);
                }
            }
        }
    }

    /// The number of a unit's operators, and the number of their batch entries.
    fn size(&self, unit: LaunchUnit) -> (u64, u64) {
        let wave = &self.waves[unit.wave as usize];
        let before = self.classes.all()[wave.class as usize].before;
        let operator = &self.classes.cell(wave.class).list.operators[unit.place as usize];
        let copies = if wave.needs == InputNeeds::OneState {
            1
        } else {
            operator.copies(before)
        };
        let operators = wave.members.nodes.len() as u64 * u64::from(copies);
        (operators, operators * u64::from(operator.rows(before)))
    }

    /// Makes the operators ready that waited for the units of a launch.
    fn complete(&mut self, units: &[LaunchUnit]) {
        let classes = self.classes;
        let first = self.waves.len();
        for unit in units {
            let wave = &mut self.waves[unit.wave as usize];
            let cell = classes.cell(wave.class);
            wave.done[unit.place as usize] = true;
            let followers = std::mem::take(&mut wave.followers);
            for wave in [unit.wave].into_iter().chain(followers.iter().copied()) {
                for taker in &cell.takers[unit.place as usize] {
                    self.satisfy(wave, *taker);
                }
            }
            self.waves[unit.wave as usize].followers = followers;
            if unit.place as usize + 1 == cell.list.operators.len() {
                self.pass_on(unit.wave);
            }
        }
        self.open(first);
    }

    /// Counts a result for which an operator of a wave has waited.
    fn satisfy(&mut self, wave: u32, place: u16) {
        let ReadyWave {
            class,
            needs,
            missing,
            ..
        } = &mut self.waves[wave as usize];
        if self.classes.cell(*class).needs[place as usize] != *needs {
            return;
        }
        missing[place as usize] -= 1;
        if missing[place as usize] == 0 {
            let key = self.classes.all()[*class as usize].keys[place as usize];
            self.ready[key.index()].push(LaunchUnit { wave, place });
        }
    }

    /// Passes the states of a wave's nodes to the nodes that take them.
    fn pass_on(&mut self, wave: u32) {
        let batch = self.batch;
        let nodes = std::mem::take(&mut self.waves[wave as usize].members.nodes);
        for &(taker, place) in nodes.iter().flat_map(|node| batch.takers(*node)) {
            self.enqueue(taker, InputNeeds::OneState, Some(place));
            self.missing[taker as usize] -= 1;
            if self.missing[taker as usize] == 0 {
                self.enqueue(taker, InputNeeds::AllStates, None);
            }
        }
        self.waves[wave as usize].members.nodes = nodes;
    }
}
