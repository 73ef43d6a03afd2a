//! The two orders of a batch's operators, exactly, without visiting single operators.
//!
//! By agenda (Neubig, Goldberg and Dyer, 2017, section 3.2), until nothing is left:
//! 1. A ready operator that cannot be batched runs by itself.
//! 2. Otherwise the signature runs whose operators have the lowest mean depth over the whole evaluation. Of equal ones
//!    the first seen runs, unless it is not elementwise and another is.
//! 3. All its ready operators run as one, without a limit.
//!
//! By depth (DyNet, and JIT's table), all ready operators run, one launch for each key. Then they make others ready.
//!
//! Nodes of one class whose last input state came at one time are a **wave**: they behave alike, so one counter stands
//! for all. An operator on the state of one input cell is in the wave of that state. Launches take all ready operators,
//! so those of earlier states never lag behind: an operator on all states only waits for the last.

use std::hash::Hash;

use super::batch::Batch;
use super::classes::{Classes, Key, Needs};
use super::{Launch, Ordered};
use crate::core::task::{self, Unit};

pub fn by_agenda<K: Hash + Eq>(batch: &Batch, classes: &Classes<K>) -> Ordered {
    let mut seen = seen(batch, classes);
    // Stable: the first seen stays first. Means are compared as exact fractions.
    seen.sort_by(|one, other| {
        let mean = (u128::from(one.depths) * u128::from(other.operators))
            .cmp(&(u128::from(other.depths) * u128::from(one.operators)));
        let (a, b) = (
            &classes.keyed()[one.key.index()],
            &classes.keyed()[other.key.index()],
        );
        b.alone
            .cmp(&a.alone)
            .then(mean)
            .then(b.elementwise.cmp(&a.elementwise))
    });
    ordered(&seen, 1, batch, classes)
}

/// Those of a depth in the order of first sight.
pub fn by_depth<K: Hash + Eq>(batch: &Batch, classes: &Classes<K>) -> Ordered {
    let seen = seen(batch, classes);
    ordered(&seen, seen.len(), batch, classes)
}

/// The operators of a key.
struct Seen {
    key: Key,
    operators: u64,
    /// Their sum.
    depths: u64,
}

/// In the order of first sight.
fn seen<K: Hash + Eq>(batch: &Batch, classes: &Classes<K>) -> Vec<Seen> {
    let mut place = vec![NONE; classes.keyed().len()];
    let mut seen: Vec<Seen> = Vec::new();
    batch.each(classes, |key, depth, operators| {
        let place = &mut place[key.index()];
        if *place == NONE {
            *place = seen.len() as u32;
            seen.push(Seen {
                key,
                operators: 0,
                depths: 0,
            });
        }
        let of_key = &mut seen[*place as usize];
        of_key.operators += operators;
        of_key.depths += operators * u64::from(depth);
    });
    seen
}

/// Launches the first keys with ready operators, `at_once` of them before others become ready.
fn ordered<K: Hash + Eq>(
    order: &[Seen],
    at_once: usize,
    batch: &Batch,
    classes: &Classes<K>,
) -> Ordered {
    let mut ordered = Ordered {
        operators: order.iter().map(|seen| seen.operators).sum(),
        ..Ordered::default()
    };
    let mut agenda = Agenda {
        batch,
        classes,
        missing: batch.inputs.clone(),
        waves: Vec::new(),
        wave_of: vec![[NONE; 3]; classes.all().len()],
        ready: vec![Vec::new(); classes.keyed().len()],
    };
    agenda.begin();
    let mut launched: Vec<Unit> = Vec::new();
    loop {
        let mut keys = 0;
        for Seen { key, .. } in order {
            if keys == at_once {
                break;
            }
            let units = &agenda.ready[key.index()];
            let Some(first) = units.first() else { continue };
            // Units of a key have one input size: it is part of the signature.
            let input = classes.all()[agenda.waves[first.wave as usize].class as usize].input;
            let sizes = units.iter().map(|unit| agenda.size(*unit));
            let (operators, rows) =
                sizes.fold((0, 0), |sum, size| (sum.0 + size.0, sum.1 + size.1));
            ordered.push(
                Launch {
                    key: *key,
                    operators,
                    rows,
                    input,
                },
                units,
            );
            launched.extend_from_slice(units);
            agenda.ready[key.index()].clear();
            keys += 1;
        }
        if launched.is_empty() {
            break;
        }
        agenda.done(&launched);
        launched.clear();
    }
    ordered.lists.waves = agenda.waves.into_iter().map(|wave| wave.members).collect();
    ordered
}

const NONE: u32 = u32::MAX;

struct Wave {
    class: u32,
    /// Of the operators that it runs.
    needs: Needs,
    /// Nodes; with [`Needs::OneState`], input cells whose state came with one launch.
    members: task::Wave,
    /// The wave of the nodes' last input states.
    edges: u32,
    missing: Vec<u16>,
    done: Vec<bool>,
    followers: Vec<u32>,
}

struct Agenda<'a, K> {
    batch: &'a Batch,
    classes: &'a Classes<K>,
    missing: Vec<u32>,
    waves: Vec<Wave>,
    /// By class and needs: the wave of all nodes for words, and the present launch's waves of edges and nodes.
    wave_of: Vec<[u32; 3]>,
    ready: Vec<Vec<Unit>>,
}

impl<K: Hash + Eq> Agenda<'_, K> {
    fn begin(&mut self) {
        let batch = self.batch;
        batch
            .order
            .iter()
            .for_each(|node| self.present(*node, Needs::Word, None));
        self.waves
            .iter_mut()
            .for_each(|wave| wave.members.nodes.sort_unstable());
        for node in (0..batch.nodes()).filter(|node| batch.inputs[*node as usize] == 0) {
            self.present(node, Needs::OneState, Some(0));
            self.present(node, Needs::AllStates, None);
        }
        self.open(0);
    }

    /// Puts a node, or one of its input cells, into the present launch's wave.
    fn present(&mut self, node: u32, needs: Needs, input: Option<u16>) {
        let class = self.batch.class(node);
        let of_class = &mut self.wave_of[class as usize];
        if of_class[needs as usize] == NONE {
            of_class[needs as usize] = self.waves.len() as u32;
            let operators = self.classes.cell(class).list.operators.len();
            self.waves.push(Wave {
                class,
                needs,
                members: task::Wave::default(),
                edges: of_class[Needs::OneState as usize],
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
            let Wave {
                class,
                needs,
                edges,
                ..
            } = self.waves[number];
            let (cell, keys) = (classes.cell(class), &classes.all()[class as usize].keys);
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
                    let wave = if cell.needs[earlier] == Needs::Word {
                        *words
                    } else {
                        edges
                    };
                    cell.needs[earlier] == needs || !self.waves[wave as usize].done[earlier]
                };
                let missing = waits_for.iter().filter(is_missing).count();
                self.waves[number].missing[place] = missing as u16;
                if missing == 0 {
                    self.ready[keys[place].index()].push(Unit {
                        wave: number as u32,
                        place: place as u16,
                    });
                }
            }
            let others = [*words, edges]
                .into_iter()
                .filter(|wave| ![NONE, number as u32].contains(wave));
            others.for_each(|wave| self.waves[wave as usize].followers.push(number as u32));
        }
    }

    fn size(&self, unit: Unit) -> (u64, u64) {
        let wave = &self.waves[unit.wave as usize];
        let before = self.classes.all()[wave.class as usize].before;
        let operator = &self.classes.cell(wave.class).list.operators[unit.place as usize];
        let copies = if wave.needs == Needs::OneState {
            1
        } else {
            operator.copies(before)
        };
        let operators = wave.members.nodes.len() as u64 * u64::from(copies);
        (operators, operators * u64::from(operator.rows(before)))
    }

    fn done(&mut self, units: &[Unit]) {
        let (classes, first) = (self.classes, self.waves.len());
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

    fn satisfy(&mut self, wave: u32, place: u16) {
        let Wave {
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
            self.ready[key.index()].push(Unit { wave, place });
        }
    }

    fn pass_on(&mut self, wave: u32) {
        let batch = self.batch;
        let nodes = std::mem::take(&mut self.waves[wave as usize].members.nodes);
        for &(taker, place) in nodes.iter().flat_map(|node| batch.takers(*node)) {
            self.present(taker, Needs::OneState, Some(place));
            self.missing[taker as usize] -= 1;
            if self.missing[taker as usize] == 0 {
                self.present(taker, Needs::AllStates, None);
            }
        }
        self.waves[wave as usize].members.nodes = nodes;
    }
}
