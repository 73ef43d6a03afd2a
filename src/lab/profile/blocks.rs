//! The order of a profile. Each repeat visits all parts and batch sizes in a random order, in blocks of a few sizes, so
//! that a disturbance of a second meets other sizes in each repeat. Each block of a part visits the part's reference
//! size, too. Sizes whose times remain doubtful are visited again.

use std::collections::BTreeSet;

use rand::seq::SliceRandom as _;

use super::samples::{TASKS, TaskKind};
use super::stairs::{Miss, TableSizes, prune, search};
use super::targets::ProfileTarget;
use super::{
    NetworkProfile, ProfileProgress, ProfileSettings, ProfileSubject, decisions, levels, service,
    starts, steady, streams, whole,
};
use crate::base::error::Result;
use crate::base::units::Nanos;
use crate::core::workload::random::{self, RandomSequence};
use crate::lab::run::time_budget::TimeBudget;

/// The sizes of a block, without the reference size.
pub const SIZES: usize = 8;

/// The most additional visits of a doubtful size.
pub const AGAIN: u32 = 3;

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
fn parts(
    wanted: &ProfileTarget,
    settings: &ProfileSettings,
    table: &TableSizes,
) -> Vec<ProfilePart> {
    let mut parts = Vec::new();
    let mut add = |kinds: &'static [TaskKind], sizes: &[u32], measure: MeasureSizes| {
        parts.push(ProfilePart {
            sizes: sizes.to_vec(),
            kinds,
            measure,
        });
    };
    let batches = &table.batches;
    let with_checks = table.all_sizes();
    if wanted.model.network().is_some() {
        add(&[], &with_checks, one_by_one(whole::measure_listed));
        return parts;
    }
    if wanted.model.takes_trees() {
        add(&TASKS, &with_checks, one_by_one(service::measure_trees));
    }
    for bench in steady::benches(wanted) {
        let kinds = bench.kinds();
        let measure: MeasureSizes = Box::new(move |subject, sizes, profile| {
            steady::measure(&bench, subject, sizes, profile)
        });
        add(kinds, &with_checks, measure);
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
    let sizes = whole::sizes(wanted, settings, batches);
    add(&[TaskKind::Whole], &sizes, one_by_one(whole::measure));
    let sizes = service::launch_batches(batches);
    if levels::are_measured(wanted, settings) {
        add(&[], &sizes, one_by_one(levels::measure));
    }
    if decisions::are_measured(wanted, settings) {
        add(&[], &sizes, one_by_one(decisions::measure));
    }
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

/// The number of steps of a measurement before it visits doubtful sizes again.
fn steps(parts: &[ProfilePart], repeats: u32) -> usize {
    let blocks = shuffle_blocks(parts, all_sizes(parts), random::sequence(0, 0, "profile"));
    repeats as usize * blocks.iter().map(|block| block.sizes.len()).sum::<usize>()
}

/// Measures one network. Fails if the user interrupts it.
pub fn measure(subject: &mut ProfileSubject<'_>, profile: &mut NetworkProfile) -> Result<()> {
    let budget = TimeBudget::new(subject.settings.seconds);
    profile.sizes = table_sizes(subject, profile)?;
    if subject.settings.seconds.is_finite() {
        // Rows come before checks of the lines between them.
        profile.sizes.held_out.clear();
    }
    let parts = parts(subject.wanted, subject.settings, &profile.sizes);
    let repeats = subject.settings.repeats;
    (subject.steps.progress)(ProfileProgress::Planned(steps(&parts, repeats)));
    for repeat in 0..repeats {
        let blocks = shuffle_blocks(
            &parts,
            all_sizes(&parts),
            random::sequence(0, repeat, "profile"),
        );
        blocks
            .iter()
            .try_for_each(|block| visit(subject, &parts, block, profile))?;
    }
    subject.steps.progress = &|_| ();
    for time in 0..AGAIN {
        if budget.remaining_seconds() == 0.0 {
            break;
        }
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

/// The sizes of the table: those that are given, those that the scenario makes cells for, or those of the stairs.
fn table_sizes(
    subject: &mut ProfileSubject<'_>,
    profile: &mut NetworkProfile,
) -> Result<TableSizes> {
    let mut random = random::sequence(0, 0, "profile sizes");
    let wanted = subject.wanted;
    if let Some(given) = &subject.settings.batches {
        return Ok(TableSizes::with_checks(given.clone(), &mut random));
    }
    if !wanted.supported.is_empty() {
        return Ok(TableSizes {
            batches: wanted.supported.clone(),
            held_out: Vec::new(),
        });
    }
    if wanted.model.network().is_some() {
        // Their times are nearly straight lines, and their batches take seconds.
        let doubled = (0..).map(|power| 1 << power);
        let batches = doubled.take_while(|size| size / 2 < wanted.largest);
        return Ok(TableSizes::with_checks(batches.collect(), &mut random));
    }
    let progress = std::mem::replace(&mut subject.steps.progress, &|_| ());
    let first = TableSizes {
        batches: vec![wanted.largest],
        held_out: Vec::new(),
    };
    let mut parts = parts(wanted, subject.settings, &first);
    parts.retain(|part| part.kinds.contains(&TaskKind::Task));
    let budget = TimeBudget::new(SEARCH * subject.settings.seconds);
    let mut measure = |probes: &[[u32; 3]]| misses(subject, &parts, probes, &budget, profile);
    let sizes = search(wanted.largest, &mut random, &mut measure)?;
    subject.steps.progress = progress;
    profile.level();
    let curves = profile.curves(false);
    let curves: Vec<_> = curves.into_iter().map(|(_, times)| times).collect();
    let batches = prune(&sizes, &curves);
    // The other sizes are no rows, and the checks are to be independent of the search.
    for samples in profile.times.0.values_mut() {
        samples.retain(|size, _| batches.contains(size));
    }
    profile.between.retain(|size, _| batches.contains(size));
    Ok(TableSizes::with_checks(batches, &mut random))
}

/// The intervals of a block of the search. Their ends are visited with them, so that a slow second slows all three
/// sizes.
const PROBES: usize = 4;

/// The share of the seconds of a profile after which its search ends. A repeat visits what it found once more, and other
/// parts beside.
const SEARCH: f64 = 1.0 / 3.0;

/// The misses at the middles of intervals, each the largest of all parts, or `None` if time has run out.
fn misses(
    subject: &mut ProfileSubject<'_>,
    parts: &[ProfilePart],
    probes: &[[u32; 3]],
    budget: &TimeBudget,
    profile: &mut NetworkProfile,
) -> Result<Option<Vec<Miss>>> {
    let mut misses = vec![Miss::default(); probes.len()];
    for part in 0..parts.len() {
        let found = misses.chunks_mut(PROBES);
        for (chunk, found) in probes.chunks(PROBES).zip(found) {
            if budget.remaining_seconds() == 0.0 {
                return Ok(None);
            }
            let sizes: BTreeSet<u32> = chunk.iter().flatten().copied().collect();
            let sizes = sizes.into_iter().collect();
            measure_block(subject, parts, &SizeBlock { part, sizes }, profile)?;
            let block = subject.now.block.get();
            for (probe, miss) in chunk.iter().zip(found) {
                *miss = miss.or(profile.miss_in(block, *probe));
            }
        }
    }
    Ok(Some(misses))
}

/// Measures a network further for at least this time, with a piece of another repeat.
pub fn measure_piece(
    subject: &mut ProfileSubject<'_>,
    time: Nanos,
    profile: &mut NetworkProfile,
) -> Result<()> {
    let parts = parts(subject.wanted, subject.settings, &profile.sizes);
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
    let begin = subject.now.time.get();
    measure_block(subject, parts, block, profile)?;
    let took = subject.now.time.get().saturating_since(begin);
    starts::watch(subject, took, profile)
}

/// Measures the sizes of a block.
fn measure_block(
    subject: &mut ProfileSubject<'_>,
    parts: &[ProfilePart],
    block: &SizeBlock,
    profile: &mut NetworkProfile,
) -> Result<()> {
    subject.now.block.set(subject.now.block.get() + 1);
    (parts[block.part].measure)(subject, &block.sizes, profile)
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
