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
use crate::task::{self, Unit};

pub fn by_agenda<K: Hash + Eq>(batch: &Batch, classes: &Classes<K>) -> Ordered {
    let mut seen = seen(batch, classes);
    // Stable: the first seen stays first. Means are compared as exact fractions.
    seen.sort_by(|one, other| {
        let mean = (u128::from(one.depths) * u128::from(other.operators))
            .cmp(&(u128::from(other.depths) * u128::from(one.operators)));
        let (a, b) = (&classes.keyed()[one.key.index()], &classes.keyed()[other.key.index()]);
        b.alone.cmp(&a.alone).then(mean).then(b.elementwise.cmp(&a.elementwise))
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
    batch.groups(classes).each(batch, classes, |key, depth, operators| {
        let place = &mut place[key.index()];
        if *place == NONE {
            *place = seen.len() as u32;
            seen.push(Seen { key, operators: 0, depths: 0 });
        }
        let of_key = &mut seen[*place as usize];
        of_key.operators += operators;
        of_key.depths += operators * u64::from(depth);
    });
    seen
}

/// Launches the first keys with ready operators, `at_once` of them before others become ready.
fn ordered<K: Hash + Eq>(order: &[Seen], at_once: usize, batch: &Batch, classes: &Classes<K>) -> Ordered {
    let mut ordered = Ordered { operators: order.iter().map(|seen| seen.operators).sum(), ..Ordered::default() };
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
            let (operators, rows) = sizes.fold((0, 0), |sum, size| (sum.0 + size.0, sum.1 + size.1));
            ordered.push(Launch { key: *key, operators, rows, input }, units);
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
            self.static_wave[class as usize] = self.wave(class, What::Words, NONE);
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

    fn wave(&mut self, class: u32, what: What, edges: u32) -> u32 {
        let operators = self.classes.cell(class).list.operators.len();
        self.waves.push(Wave {
            class,
            what,
            members: task::Wave::default(),
            edges,
            missing: vec![0; operators],
            done: vec![false; operators],
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
            self.wave_of[place] = self.wave(class, what, self.wave_of[of_edges]);
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
            for (place, waits_for) in
                cell.waits_for.iter().enumerate().filter(|(place, _)| what.has(cell.needs[*place]))
            {
                let is_missing = |earlier: &&u16| {
                    let need = cell.needs[**earlier as usize];
                    what.has(need) || !self.is_done(need, **earlier, words, edges)
                };
                let missing = waits_for.iter().filter(is_missing).count();
                self.waves[number as usize].missing[place] = missing as u16;
                if missing == 0 {
                    self.ready[keys[place].index()].push(Unit { wave: number, place: place as u16 });
                }
            }
            for earlier in [words, edges].into_iter().filter(|earlier| *earlier != NONE && *earlier != number) {
                self.waves[earlier as usize].followers.push(number);
            }
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
