//! Random policies for the tests of real backends.

use rand::RngExt as _;

use crate::base::units::Nanos;
use crate::core::policy::cellular::Cellular;
use crate::core::policy::dvabatch::{Diversity, DvaBatch, Lazy, StageRule, Stages};
use crate::core::policy::fold::Fold;
use crate::core::policy::ideal::Ideal;
use crate::core::policy::jit::{Granularity, Jit};
use crate::core::policy::late::Late;
use crate::core::policy::merged::Merged;
use crate::core::policy::padded::{PadTo, Padded, Turn};
use crate::core::policy::registry::Settings;
use crate::core::policy::unbatched::Unbatched;
use crate::core::policy::values::{BatchSizes, PerCell};
use crate::core::workload::random::RandomSequence;

/// A random policy with chunks of up to this length. A policy that pads takes only sequences.
pub fn random(sequences: bool, longest_chunk: u32, rng: &mut RandomSequence) -> Box<dyn Settings> {
    let max_batch = *[1, 2, 5, 16]
        .get(rng.random_range(0..4))
        .expect("one of four");
    match rng.random_range(0..if sequences { 11 } else { 9 }) {
        0..=2 => Box::new(Cellular {
            max_tasks: rng.random_range(1..6),
            max_batch: PerCell::All(max_batch),
            min_batch: PerCell::All(rng.random_range(1..=max_batch)),
            batch_sizes: random_sizes(max_batch, rng),
            chunk: rng.random_range(1..=longest_chunk),
            ahead: rng.random_range(0..=2),
        }),
        3..=4 => Box::new(Late {
            max_batch: PerCell::All(max_batch),
            min_batch: PerCell::All(rng.random_range(1..=max_batch)),
            batch_sizes: random_sizes(max_batch, rng),
            lookahead: rng.random_range(0..=3),
        }),
        5 => Box::new(Merged {
            max_batch,
            ..Merged::default()
        }),
        6 => Box::new(Unbatched {}),
        7 => Box::new(Fold {
            max_batch,
            construct_ns: Nanos(rng.random_range(0..5_000)),
            overlap: rng.random(),
            copies: rng.random_bool(0.5),
        }),
        8 => Box::new(Ideal { max_batch }),
        _ => Box::new(Padded {
            bucket_width: rng.random_range(1..6),
            max_batch,
            pad_to: if rng.random_bool(0.5) {
                PadTo::Bucket
            } else {
                PadTo::Longest
            },
            turn: [Turn::Bucket, Turn::Batch, Turn::Oldest, Turn::Fullest][rng.random_range(0..4)],
            window: Nanos(rng.random_range(0..50_000)),
            ahead: rng.random_range(0..3),
            version: None,
        }),
    }
}

/// Like `random`, but sometimes just-in-time batching, which takes only the graphs of a model.
pub fn of_model(
    sequences: bool,
    longest_chunk: u32,
    rng: &mut RandomSequence,
) -> Box<dyn Settings> {
    if rng.random_ratio(9, 10) {
        return random(sequences, longest_chunk, rng);
    }
    let granularity = if rng.random_bool(0.5) {
        Granularity::Cell
    } else {
        Granularity::Graph
    };
    Box::new(Jit {
        granularity,
        max_batch: [1, 2, 5, 16][rng.random_range(0..4)],
        ..Jit::default()
    })
}

/// A random policy of stages. Only listed networks have costs by operator.
pub fn staged(listed: bool, rng: &mut RandomSequence) -> Box<dyn Settings> {
    let max_batch = rng.random_range(1..=5);
    if rng.random_bool(0.25) {
        return Box::new(Lazy {
            max_batch,
            comp_wait: Nanos(rng.random_range(0..3_000_000)),
        });
    }
    let last = if listed {
        Diversity::OperatorLoad
    } else {
        Diversity::Auto
    };
    let policies = [Diversity::Auto, Diversity::Input, Diversity::Load, last];
    let stages = if rng.random_bool(0.7) {
        Stages::Count(rng.random_range(1..=4))
    } else {
        Stages::By(StageRule::Operators)
    };
    Box::new(DvaBatch {
        policy: policies[rng.random_range(0..policies.len())],
        stages,
        steps: rng.random_range(1..=3),
        max_batch,
        window: Some(Nanos(rng.random_range(0..50_000))),
        comp_wait: Some(Nanos(rng.random_range(0..3_000_000))),
        buffer_pairs: rng.random_range(1..=3),
        ..DvaBatch::default()
    })
}

/// No batch sizes in half of the cases; otherwise some below the largest batch, and one above it.
fn random_sizes(max_batch: u32, rng: &mut RandomSequence) -> BatchSizes {
    let some = (1..max_batch)
        .filter(|_| rng.random_bool(0.3))
        .chain([max_batch + 2])
        .collect();
    BatchSizes(rng.random_bool(0.5).then_some(some))
}
