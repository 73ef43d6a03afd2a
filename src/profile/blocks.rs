//! The order of a profile. Each repeat visits all parts and batch sizes in a random order, in blocks of a few sizes, so
//! that a disturbance of a second meets other sizes in each repeat. Each block of a part visits the part's reference
//! size, too. Sizes whose times remain doubtful are visited again.

use std::collections::BTreeSet;

use rand::seq::SliceRandom as _;

use super::samples::ByBatch;
use super::steady::{self, Bench};
use super::wanted::Wanted;
use super::{Profile, Settings, Subject, served, whole};
use crate::error::Result;
use crate::units::Nanos;
use crate::workload::random::{Stream, stream};

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

#[derive(Debug)]
enum Part {
    Trees,
    Listed,
    Bench(Bench),
    Persistent,
    Whole,
    Launches,
}

/// The parts of a network with their batch sizes.
fn parts(wanted: &Wanted, settings: &Settings) -> Vec<(Part, Vec<u32>)> {
    let batches = || settings.batches.clone();
    if wanted.model.network().is_some() {
        return vec![(Part::Listed, batches())];
    }
    let trees = wanted.model.takes_trees().then(|| (Part::Trees, batches()));
    let benches = steady::benches(wanted).into_iter().map(|bench| (Part::Bench(bench), batches()));
    let persistent = settings.persistent.is_some().then(|| (Part::Persistent, batches()));
    let whole = (Part::Whole, whole::sizes(wanted, settings));
    let launches = (Part::Launches, served::launch_batches(settings));
    trees.into_iter().chain(benches).chain(persistent).chain([whole, launches]).collect()
}

fn all(parts: &[(Part, Vec<u32>)]) -> Vec<Vec<u32>> {
    parts.iter().map(|(_, sizes)| sizes.clone()).collect()
}

/// One visit of the chosen sizes of each part. Launches are last, because GPUs subtract the times of cells from theirs.
fn shuffled(parts: &[(Part, Vec<u32>)], chosen: Vec<Vec<u32>>, mut random: Stream) -> Vec<Block> {
    let mut blocks = Vec::new();
    for (part, ((_, sizes), mut order)) in parts.iter().zip(chosen).enumerate() {
        let reference = sizes.get(sizes.len() / 2);
        order.shuffle(&mut random);
        for chunk in order.chunks(SIZES) {
            let reference = reference.filter(|size| !chunk.contains(size));
            blocks.push(Block { part, sizes: reference.into_iter().chain(chunk).copied().collect() });
        }
    }
    blocks.shuffle(&mut random);
    blocks.sort_by_key(|block| matches!(parts[block.part].0, Part::Launches));
    blocks
}

/// How often the measurement of a network calls `progress`, until it visits doubtful sizes again.
pub fn steps(wanted: &Wanted, settings: &Settings) -> usize {
    let parts = parts(wanted, settings);
    let blocks = shuffled(&parts, all(&parts), stream(0, 0, "profile"));
    let each = |part: usize| match parts[part].0 {
        Part::Listed => wanted.input_sizes().len(),
        Part::Persistent => wanted.cells.len(),
        _ => 1,
    };
    settings.repeats as usize * blocks.iter().map(|block| block.sizes.len() * each(block.part)).sum::<usize>()
}

/// Measures one network, or until it is interrupted.
pub fn measure(subject: &mut Subject<'_>, profile: &mut Profile) -> Result<()> {
    let parts = parts(subject.wanted, subject.settings);
    for repeat in 0..subject.settings.repeats {
        visit(subject, &parts, &shuffled(&parts, all(&parts), stream(0, repeat, "profile")), profile)?;
    }
    subject.steps.progress = &|| ();
    for time in 0..AGAIN {
        profile.level();
        let doubtful = |(part, sizes): &(Part, Vec<u32>)| {
            let found = part.doubtful(profile);
            sizes.iter().filter(|size| found.contains(size)).copied().collect::<Vec<u32>>()
        };
        let doubtful: Vec<Vec<u32>> = parts.iter().map(doubtful).collect();
        profile.again.extend(doubtful.iter().flatten());
        visit(subject, &parts, &shuffled(&parts, doubtful, stream(0, time, "profile again")), profile)?;
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
            *blocks = shuffled(&parts, all(&parts), stream(0, *repeat, "profile pieces"));
            *repeat += 1;
        }
        let block = blocks.pop().expect("a network has a part with sizes");
        visit(subject, &parts, &[block], profile)?;
    }
    Ok(())
}

fn visit(subject: &mut Subject<'_>, parts: &[(Part, Vec<u32>)], blocks: &[Block], profile: &mut Profile) -> Result<()> {
    for Block { part, sizes } in blocks {
        subject.now.block.set(subject.now.block.get() + 1);
        match &parts[*part].0 {
            Part::Trees => served::measure_trees(subject, sizes, profile)?,
            Part::Listed => whole::measure_listed(subject, sizes, profile)?,
            Part::Bench(bench) => steady::measure(bench, subject, sizes, profile)?,
            Part::Persistent => steady::measure_persistent(subject, sizes, profile)?,
            Part::Whole => sizes.iter().try_for_each(|size| {
                whole::measure(subject, *size, &mut profile.whole)?;
                subject.steps.done()
            })?,
            Part::Launches => sizes.iter().try_for_each(|size| {
                served::measure_launch(subject, *size, profile)?;
                subject.steps.done()
            })?,
        }
    }
    Ok(())
}

impl Part {
    fn doubtful(&self, profile: &Profile) -> BTreeSet<u32> {
        let measured: Vec<&ByBatch> = match self {
            Part::Trees => profile.cells.values().collect(),
            Part::Bench(_) => profile.cells.values().chain(profile.turns.values()).collect(),
            Part::Whole => profile.whole.steps.values().collect(),
            Part::Listed | Part::Persistent | Part::Launches => Vec::new(),
        };
        measured.into_iter().flat_map(|sizes| profile.slowness.doubtful(sizes)).collect()
    }
}
