//! The order of a profile. Each repeat visits all parts and batch sizes in a random order, in blocks of a few sizes, so
//! that a disturbance of a second meets other sizes in each repeat. Each block of a part visits the part's reference
//! size, too. Sizes whose times remain doubtful are visited again.

use std::collections::BTreeSet;

use rand::seq::SliceRandom as _;

use super::samples::{TASKS, TaskKind};
use super::steady;
use super::targets::ProfileTarget;
use super::{NetworkProfile, ProfileSettings, ProfileSubject, service, starts, streams, whole};
use crate::base::error::Result;
use crate::base::units::Nanos;
use crate::core::workload::random::{self, RandomSequence};

/// The sizes of a block, without the reference size.
const SIZES: usize = 8;

/// The most additional visits of a doubtful size.
const AGAIN: u32 = 3;

/// Sizes that are visited one after the other.
#[derive(Debug)]
pub struct SizeBlock {
    /// The index of the part among those of the network.
    part: usize,
    sizes: Vec<u32>,
}

/// A part of a network's measurement.
struct ProfilePart {
    /// The sizes to visit, ascending.
    sizes: Vec<u32>,
    /// The kinds of tasks whose sizes may be doubtful.
    kinds: &'static [TaskKind],
    /// The function that visits sizes and counts each as a step.
    measure: MeasureSizes,
}

type MeasureSizes = Box<dyn Fn(&mut ProfileSubject<'_>, &[u32], &mut NetworkProfile) -> Result<()>>;

/// A function that visits sizes one by one.
fn one_by_one(
    measure: fn(&mut ProfileSubject<'_>, u32, &mut NetworkProfile) -> Result<()>,
) -> MeasureSizes {
    Box::new(move |subject, sizes, profile| {
        sizes.iter().try_for_each(|size| {
            measure(subject, *size, profile)?;
            subject.steps.count()
        })
    })
}

/// The parts of a network's measurement. Launches are last, because on GPUs the times of cells are subtracted from
/// theirs.
fn parts(wanted: &ProfileTarget, settings: &ProfileSettings) -> Vec<ProfilePart> {
    let mut parts = Vec::new();
    let mut add = |kinds: &'static [TaskKind], sizes: &[u32], measure: MeasureSizes| {
        parts.push(ProfilePart {
            sizes: sizes.to_vec(),
            kinds,
            measure,
        });
    };
    let batches = &settings.batches;
    if wanted.model.network().is_some() {
        add(&[], batches, one_by_one(whole::measure_listed));
        return parts;
    }
    if wanted.model.takes_trees() {
        add(&TASKS, batches, one_by_one(service::measure_trees));
    }
    for bench in steady::benches(wanted) {
        let measure: MeasureSizes = Box::new(move |subject, sizes, profile| {
            steady::measure(&bench, subject, sizes, profile)
        });
        add(&TASKS, batches, measure);
    }
    if settings.persistent.is_some() {
        for cell in wanted.cells.clone() {
            let measure: MeasureSizes = Box::new(move |subject, sizes, profile| {
                steady::measure_persistent(&cell, subject, sizes, profile)
            });
            add(&[], batches, measure);
        }
    } else if settings.executor.abilities().shares_streams {
        // Parts of chains in persistent kernels would need the whole device.
        for bench in steady::benches(wanted) {
            if bench.chain().is_some() {
                let measure: MeasureSizes = Box::new(move |subject, sizes, profile| {
                    streams::measure(&bench, subject, sizes, profile)
                });
                add(&streams::KINDS, batches, measure);
            }
        }
    }
    let sizes = whole::sizes(wanted, settings);
    add(&[TaskKind::Whole], &sizes, one_by_one(whole::measure));
    let sizes = service::launch_batches(settings);
    add(&[], &sizes, one_by_one(service::measure_launch));
    parts
}

/// The blocks of one visit of the chosen sizes of each part. The blocks of the last part are at the end.
fn shuffle_blocks(
    parts: &[ProfilePart],
    chosen: Vec<Vec<u32>>,
    mut random: RandomSequence,
) -> Vec<SizeBlock> {
    let mut blocks = Vec::new();
    for (place, (part, mut order)) in parts.iter().zip(chosen).enumerate() {
        let reference = part.sizes.get(part.sizes.len() / 2);
        order.shuffle(&mut random);
        for chunk in order.chunks(SIZES) {
            let reference = reference.filter(|size| !chunk.contains(size));
            blocks.push(SizeBlock {
                part: place,
                sizes: reference.into_iter().chain(chunk).copied().collect(),
            });
        }
    }
    blocks.shuffle(&mut random);
    blocks.sort_by_key(|block| block.part + 1 == parts.len());
    blocks
}

/// All sizes of each part.
fn all_sizes(parts: &[ProfilePart]) -> Vec<Vec<u32>> {
    parts.iter().map(|part| part.sizes.clone()).collect()
}

/// The number of times that the measurement of a network calls `progress` before it visits doubtful sizes again.
pub fn steps(wanted: &ProfileTarget, settings: &ProfileSettings) -> usize {
    let parts = parts(wanted, settings);
    let blocks = shuffle_blocks(&parts, all_sizes(&parts), random::sequence(0, 0, "profile"));
    settings.repeats as usize * blocks.iter().map(|block| block.sizes.len()).sum::<usize>()
}

/// Measures one network. Fails if the user interrupts it.
pub fn measure(subject: &mut ProfileSubject<'_>, profile: &mut NetworkProfile) -> Result<()> {
    let parts = parts(subject.wanted, subject.settings);
    for repeat in 0..subject.settings.repeats {
        let blocks = shuffle_blocks(
            &parts,
            all_sizes(&parts),
            random::sequence(0, repeat, "profile"),
        );
        blocks
            .iter()
            .try_for_each(|block| visit(subject, &parts, block, profile))?;
    }
    subject.steps.progress = &|| ();
    for time in 0..AGAIN {
        profile.level();
        let doubtful: Vec<Vec<u32>> = parts.iter().map(|part| part.doubtful(profile)).collect();
        profile.again.extend(doubtful.iter().flatten());
        let blocks = shuffle_blocks(&parts, doubtful, random::sequence(0, time, "profile again"));
        blocks
            .iter()
            .try_for_each(|block| visit(subject, &parts, block, profile))?;
    }
    Ok(())
}

/// Measures a network further for at least this time, with a piece of another repeat.
pub fn measure_piece(
    subject: &mut ProfileSubject<'_>,
    time: Nanos,
    profile: &mut NetworkProfile,
) -> Result<()> {
    let parts = parts(subject.wanted, subject.settings);
    let end = subject.now.time.get() + time;
    while subject.now.time.get() < end {
        let (blocks, repeat) = &mut profile.left;
        if blocks.is_empty() {
            *blocks = shuffle_blocks(
                &parts,
                all_sizes(&parts),
                random::sequence(0, *repeat, "profile pieces"),
            );
            *repeat += 1;
        }
        let block = blocks.pop().expect("a network has a part with sizes");
        visit(subject, &parts, &block, profile)?;
    }
    Ok(())
}

/// Measures the sizes of a block, then watches starts.
fn visit(
    subject: &mut ProfileSubject<'_>,
    parts: &[ProfilePart],
    block: &SizeBlock,
    profile: &mut NetworkProfile,
) -> Result<()> {
    subject.now.block.set(subject.now.block.get() + 1);
    let begin = subject.now.time.get();
    (parts[block.part].measure)(subject, &block.sizes, profile)?;
    let took = subject.now.time.get().saturating_since(begin);
    starts::watch(subject, took, profile)
}

impl ProfilePart {
    /// The sizes whose times are doubtful.
    fn doubtful(&self, profile: &NetworkProfile) -> Vec<u32> {
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
