//! The order of a profile. Each repeat visits all parts and batch sizes in a random order, in blocks of a few sizes, so
//! that a disturbance of a second meets other sizes in each repeat. Each block of a part visits the part's reference
//! size, too. Sizes whose times remain doubtful are visited again.

use std::collections::BTreeSet;

use rand::seq::SliceRandom as _;

use super::samples::{Kind, TASKS};
use super::steady::{self, Bench};
use super::wanted::Wanted;
use super::{Profile, Settings, Subject, served, streams, whole};
use crate::base::error::Result;
use crate::base::units::Nanos;
use crate::core::workload::random::{self, RandomSequence};

/// A reference size more, if a part has several blocks.
const SIZES: usize = 8;

/// The most additional visits of a doubtful size.
const AGAIN: u32 = 3;

/// Sizes that are visited one after the other.
#[derive(Debug)]
pub struct Block {
    /// Its place among the parts of the network.
    part: usize,
    sizes: Vec<u32>,
}

struct Part {
    /// Ascending.
    sizes: Vec<u32>,
    /// Those that may have doubtful sizes.
    kinds: &'static [Kind],
    /// Visits sizes, and reports each as a step.
    measure: Measure,
}

type Measure = Box<dyn Fn(&mut Subject<'_>, &[u32], &mut Profile) -> Result<()>>;

fn one_by_one(measure: fn(&mut Subject<'_>, u32, &mut Profile) -> Result<()>) -> Measure {
    Box::new(move |subject, sizes, profile| {
        sizes.iter().try_for_each(|size| {
            measure(subject, *size, profile)?;
            subject.steps.done()
        })
    })
}

/// Launches are last, because GPUs subtract the times of cells from theirs.
fn parts(wanted: &Wanted, settings: &Settings) -> Vec<Part> {
    let part = |kinds, measure| Part {
        sizes: settings.batches.clone(),
        kinds,
        measure,
    };
    if wanted.model.network().is_some() {
        return vec![part(&[], one_by_one(whole::measure_listed))];
    }
    let trees = wanted
        .model
        .takes_trees()
        .then(|| part(&TASKS, one_by_one(served::measure_trees)));
    let of_bench = |bench: Bench| {
        let measure: Measure = Box::new(move |subject, sizes, profile| {
            steady::measure(&bench, subject, sizes, profile)
        });
        part(&TASKS, measure)
    };
    let of_kernel = |cell: String| {
        let measure: Measure = Box::new(move |subject, sizes, profile| {
            steady::measure_persistent(&cell, subject, sizes, profile)
        });
        part(&[], measure)
    };
    let of_chain = |bench: Bench| {
        bench.chain()?;
        let measure: Measure = Box::new(move |subject, sizes, profile| {
            streams::measure(&bench, subject, sizes, profile)
        });
        Some(part(&streams::KINDS, measure))
    };
    // Parts of chains in persistent kernels need the whole device.
    let shares_streams =
        settings.executor.abilities().shares_streams && settings.persistent.is_none();
    let side_by_side = if shares_streams {
        steady::benches(wanted)
    } else {
        Vec::new()
    };
    let in_kernels = if settings.persistent.is_some() {
        &wanted.cells[..]
    } else {
        &[]
    };
    let whole = Part {
        sizes: whole::sizes(wanted, settings),
        ..part(&[Kind::Whole], one_by_one(whole::measure))
    };
    let launches = Part {
        sizes: served::launch_batches(settings),
        ..part(&[], one_by_one(served::measure_launch))
    };
    let steady = steady::benches(wanted)
        .into_iter()
        .map(of_bench)
        .chain(in_kernels.iter().cloned().map(of_kernel));
    let side_by_side = side_by_side.into_iter().filter_map(of_chain);
    trees
        .into_iter()
        .chain(steady)
        .chain(side_by_side)
        .chain([whole, launches])
        .collect()
}

/// One visit of the chosen sizes of each part; of the last part at the end.
fn shuffled(parts: &[Part], chosen: Vec<Vec<u32>>, mut random: RandomSequence) -> Vec<Block> {
    let mut blocks = Vec::new();
    for (place, (part, mut order)) in parts.iter().zip(chosen).enumerate() {
        let reference = part.sizes.get(part.sizes.len() / 2);
        order.shuffle(&mut random);
        for chunk in order.chunks(SIZES) {
            let reference = reference.filter(|size| !chunk.contains(size));
            blocks.push(Block {
                part: place,
                sizes: reference.into_iter().chain(chunk).copied().collect(),
            });
        }
    }
    blocks.shuffle(&mut random);
    blocks.sort_by_key(|block| block.part + 1 == parts.len());
    blocks
}

fn all(parts: &[Part]) -> Vec<Vec<u32>> {
    parts.iter().map(|part| part.sizes.clone()).collect()
}

/// How often the measurement of a network calls `progress`, until it visits doubtful sizes again.
pub fn steps(wanted: &Wanted, settings: &Settings) -> usize {
    let parts = parts(wanted, settings);
    let blocks = shuffled(&parts, all(&parts), random::sequence(0, 0, "profile"));
    settings.repeats as usize * blocks.iter().map(|block| block.sizes.len()).sum::<usize>()
}

/// Measures one network, or until it is interrupted.
pub fn measure(subject: &mut Subject<'_>, profile: &mut Profile) -> Result<()> {
    let parts = parts(subject.wanted, subject.settings);
    for repeat in 0..subject.settings.repeats {
        let blocks = shuffled(&parts, all(&parts), random::sequence(0, repeat, "profile"));
        blocks
            .iter()
            .try_for_each(|block| visit(subject, &parts, block, profile))?;
    }
    subject.steps.progress = &|| ();
    for time in 0..AGAIN {
        profile.level();
        let doubtful: Vec<Vec<u32>> = parts.iter().map(|part| part.doubtful(profile)).collect();
        profile.again.extend(doubtful.iter().flatten());
        let blocks = shuffled(&parts, doubtful, random::sequence(0, time, "profile again"));
        blocks
            .iter()
            .try_for_each(|block| visit(subject, &parts, block, profile))?;
    }
    Ok(())
}

/// How long a piece lasts, at least.
const PIECE: Nanos = Nanos(1_000_000_000);

/// Goes on with a measured network for a while: a piece of another repeat.
pub fn piece(subject: &mut Subject<'_>, profile: &mut Profile) -> Result<()> {
    let parts = parts(subject.wanted, subject.settings);
    let end = subject.now.time.get() + PIECE;
    while subject.now.time.get() < end {
        let (blocks, repeat) = &mut profile.left;
        if blocks.is_empty() {
            *blocks = shuffled(
                &parts,
                all(&parts),
                random::sequence(0, *repeat, "profile pieces"),
            );
            *repeat += 1;
        }
        let block = blocks.pop().expect("a network has a part with sizes");
        visit(subject, &parts, &block, profile)?;
    }
    Ok(())
}

fn visit(
    subject: &mut Subject<'_>,
    parts: &[Part],
    block: &Block,
    profile: &mut Profile,
) -> Result<()> {
    subject.now.block.set(subject.now.block.get() + 1);
    (parts[block.part].measure)(subject, &block.sizes, profile)
}

impl Part {
    fn doubtful(&self, profile: &Profile) -> Vec<u32> {
        let measured = profile
            .times
            .0
            .iter()
            .filter(|((kind, ..), _)| self.kinds.contains(kind));
        let found: BTreeSet<u32> = measured
            .flat_map(|(_, sizes)| profile.slowness.doubtful(sizes))
            .collect();
        self.sizes
            .iter()
            .filter(|size| found.contains(size))
            .copied()
            .collect()
    }
}
