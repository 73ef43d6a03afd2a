//! DyNet's batching by agenda (Neubig, Goldberg and Dyer, 2017, section 3.2), exactly, without visiting single
//! operators.
//!
//! Until nothing is left:
//! 1. A ready operator that cannot be batched runs by itself.
//! 2. Otherwise the signature runs whose operators have the lowest mean depth over the whole evaluation. Of equal ones
//!    the first seen runs, unless it is not elementwise and another is.
//! 3. All its ready operators run as one, without a limit.
//!
//! Nodes of one class whose last input state came with one launch are a **wave**: they behave alike, so one counter
//! stands for all. An operator on the state of one input cell is in the wave of that state. Launches take all ready
//! operators, so those of earlier states never lag behind: an operator on all states only waits for the last.

use std::hash::Hash;

use crate::policy::operators::batch::{Batch, Groups};
use crate::policy::operators::classes::{Classes, Key, Needs};
use crate::policy::operators::{Launch, Ordered};
use crate::task::{self, Unit};
use crate::workload::operator::Source;

pub fn by_agenda<K: Hash + Eq>(batch: &Batch, classes: &Classes<K>) -> Ordered {
    let mut ordered = Ordered::default();
    let (order, operators) = order(&batch.groups(classes), batch, classes);
    let mut agenda = Agenda {
        batch,
        classes,
        missing: batch.inputs().to_vec(),
        waves: Vec::new(),
        static_wave: vec![0; classes.all().len()],
        wave_of: vec![NONE; 2 * classes.all().len()],
        ready: vec![Vec::new(); classes.keyed().len()],
    };
    agenda.begin();
    while let Some(&key) = order.iter().find(|key| !agenda.ready[key.index()].is_empty()) {
        let units = std::mem::take(&mut agenda.ready[key.index()]);
        // Units of a key have one input size: it is part of the signature.
        let input =
            units.first().map_or(0, |unit| classes.all()[agenda.waves[unit.wave as usize].class as usize].input);
        let sizes = units.iter().map(|unit| agenda.size(*unit));
        let (operators, rows) = sizes.fold((0, 0), |sum, size| (sum.0 + size.0, sum.1 + size.1));
        ordered.push(Launch { key, operators, rows, input }, units.iter().copied());
        agenda.done(&units);
    }
    ordered.operators = operators;
    ordered.lists.waves = agenda.waves.into_iter().map(|wave| wave.members).collect();
    ordered
}

/// The signatures, the next to run first, and the number of operators.
fn order<K: Hash + Eq>(groups: &Groups, batch: &Batch, classes: &Classes<K>) -> (Vec<Key>, u64) {
    let keyed = classes.keyed();
    // By key in the order of sight: operators, sum of depths.
    let mut place = vec![NONE; keyed.len()];
    let mut seen: Vec<(Key, u64, u64)> = Vec::new();
    let mut operators = 0;
    groups.each(batch, classes, |entry| {
        operators += entry.nodes;
        let key = classes.all()[entry.class as usize].keys[entry.place as usize];
        if place[key.index()] == NONE {
            place[key.index()] = seen.len() as u32;
            seen.push((key, 0, 0));
        }
        let (_, count, depths) = &mut seen[place[key.index()] as usize];
        *count += entry.nodes;
        *depths += entry.nodes * u64::from(entry.depth);
    });
    // Stable: the first seen stays first. Means are compared as exact fractions.
    seen.sort_by(|(a, a_count, a_depths), (b, b_count, b_depths)| {
        let mean = (u128::from(*a_depths) * u128::from(*b_count)).cmp(&(u128::from(*b_depths) * u128::from(*a_count)));
        let (a, b) = (&keyed[a.index()], &keyed[b.index()]);
        b.alone.cmp(&a.alone).then(mean).then(b.elementwise.cmp(&a.elementwise))
    });
    (seen.into_iter().map(|(key, ..)| key).collect(), operators)
}

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Words,
    /// Input cells whose state came with one launch.
    Edges,
    Nodes,
}

struct Wave {
    class: u32,
    what: What,
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
    /// By class, its wave [`What::Words`].
    static_wave: Vec<u32>,
    /// By class, the present launch's waves of edges and nodes.
    wave_of: Vec<u32>,
    ready: Vec<Vec<Unit>>,
}

impl<K: Hash + Eq> Agenda<'_, K> {
    fn begin(&mut self) {
        for &class in self.batch.seen() {
            self.static_wave[class as usize] = self.wave(class, What::Words);
        }
        for node in 0..self.batch.nodes() {
            let wave = self.static_wave[self.batch.class(node) as usize];
            self.waves[wave as usize].members.nodes.push(node);
        }
        let mut made = Vec::new();
        for node in 0..self.batch.nodes() {
            if self.missing[node as usize] == 0 {
                let class = self.batch.class(node);
                self.present(class, node, Some(0), &mut made);
                self.present(class, node, None, &mut made);
            }
        }
        self.open(self.batch.seen().iter().map(|class| self.static_wave[*class as usize]).collect());
        self.open_made(made);
    }

    fn wave(&mut self, class: u32, what: What) -> u32 {
        self.waves.push(Wave {
            class,
            what,
            members: task::Wave::default(),
            edges: NONE,
            missing: Vec::new(),
            done: Vec::new(),
            followers: Vec::new(),
        });
        self.waves.len() as u32 - 1
    }

    /// Puts a node, or one of its input cells, into the present launch's wave.
    fn present(&mut self, class: u32, node: u32, input: Option<u16>, made: &mut Vec<u32>) {
        let what = if input.is_some() { What::Edges } else { What::Nodes };
        let of_edges = 2 * class as usize;
        let place = of_edges + usize::from(what == What::Nodes);
        if self.wave_of[place] == NONE {
            let edges = self.wave_of[of_edges];
            self.wave_of[place] = self.wave(class, what);
            self.waves[self.wave_of[place] as usize].edges = edges;
            made.push(self.wave_of[place]);
        }
        let members = &mut self.waves[self.wave_of[place] as usize].members;
        members.nodes.push(node);
        members.inputs.extend(input);
    }

    fn open_made(&mut self, made: Vec<u32>) {
        for wave in &made {
            let class = self.waves[*wave as usize].class as usize;
            self.wave_of[2 * class..2 * class + 2].fill(NONE);
        }
        self.open(made);
    }

    /// Waves of edges come before the waves of nodes that need them.
    fn open(&mut self, waves: Vec<u32>) {
        let classes = self.classes;
        for number in waves {
            let Wave { class, what, edges, .. } = self.waves[number as usize];
            let cell = classes.cell(class);
            let keys = &classes.all()[class as usize].keys;
            let words = self.static_wave[class as usize];
            let before = [words, edges].map(|wave| self.waves.get(wave as usize).map(|_| wave));
            let mut missing = vec![0u16; keys.len()];
            for (place, operator) in
                cell.list.operators.iter().enumerate().filter(|(place, _)| what.has(cell.needs[*place]))
            {
                let mut waits_for: Vec<u16> = operator
                    .inputs
                    .iter()
                    .filter_map(|source| match source {
                        Source::Operator(earlier) => Some(*earlier),
                        Source::Word | Source::State => None,
                    })
                    .filter(|earlier| {
                        let need = cell.needs[*earlier as usize];
                        what.has(need) || !self.is_done(need, *earlier, words, edges)
                    })
                    .collect();
                waits_for.sort_unstable();
                waits_for.dedup();
                missing[place] = waits_for.len() as u16;
                if waits_for.is_empty() {
                    self.ready[keys[place].index()].push(Unit { wave: number, place: place as u16 });
                }
            }
            for earlier in before.into_iter().flatten().filter(|earlier| *earlier != number) {
                self.waves[earlier as usize].followers.push(number);
            }
            let wave = &mut self.waves[number as usize];
            wave.missing = missing;
            wave.done = vec![false; keys.len()];
        }
    }

    fn is_done(&self, need: Needs, place: u16, words: u32, edges: u32) -> bool {
        let wave = if need == Needs::Word { words } else { edges };
        self.waves[wave as usize].done[place as usize]
    }

    fn size(&self, unit: Unit) -> (u64, u64) {
        let wave = &self.waves[unit.wave as usize];
        let before = self.classes.all()[wave.class as usize].before;
        let operator = &self.classes.cell(wave.class).list.operators[unit.place as usize];
        let copies = if wave.what == What::Edges { 1 } else { operator.copies(before) };
        let operators = wave.members.nodes.len() as u64 * u64::from(copies);
        (operators, operators * u64::from(operator.rows(before)))
    }

    fn done(&mut self, units: &[Unit]) {
        let classes = self.classes;
        let mut made = Vec::new();
        for unit in units {
            let Wave { class, .. } = self.waves[unit.wave as usize];
            let cell = classes.cell(class);
            self.waves[unit.wave as usize].done[unit.place as usize] = true;
            let followers = std::mem::take(&mut self.waves[unit.wave as usize].followers);
            for wave in [unit.wave].into_iter().chain(followers.iter().copied()) {
                for taker in &cell.takers[unit.place as usize] {
                    self.satisfy(wave, *taker);
                }
            }
            self.waves[unit.wave as usize].followers = followers;
            if unit.place as usize + 1 == cell.list.operators.len() {
                self.pass_on(unit.wave, &mut made);
            }
        }
        self.open_made(made);
    }

    fn satisfy(&mut self, wave: u32, place: u16) {
        let class = self.waves[wave as usize].class;
        let needs = self.classes.cell(class).needs[place as usize];
        let key = self.classes.all()[class as usize].keys[place as usize];
        let of_wave = &mut self.waves[wave as usize];
        if !of_wave.what.has(needs) {
            return;
        }
        of_wave.missing[place as usize] -= 1;
        if of_wave.missing[place as usize] == 0 {
            self.ready[key.index()].push(Unit { wave, place });
        }
    }

    fn pass_on(&mut self, wave: u32, made: &mut Vec<u32>) {
        let batch = self.batch;
        let nodes = std::mem::take(&mut self.waves[wave as usize].members.nodes);
        for (taker, place) in nodes.iter().flat_map(|node| batch.edges(*node)) {
            let class = batch.class(taker);
            self.present(class, taker, Some(place), made);
            self.missing[taker as usize] -= 1;
            if self.missing[taker as usize] == 0 {
                self.present(class, taker, None, made);
            }
        }
        self.waves[wave as usize].members.nodes = nodes;
    }
}

impl What {
    fn has(self, needs: Needs) -> bool {
        match self {
            What::Words => needs == Needs::Word,
            What::Edges => needs == Needs::OneState,
            What::Nodes => needs == Needs::AllStates,
        }
    }
}
