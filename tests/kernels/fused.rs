//! Steps in one kernel, of which each computes its product itself.

use batchlab::network::Spec;
use batchlab::workload::random::{self, RandomSequence};
use proptest::prelude::*;
use rand::RngExt;
use rand::seq::SliceRandom;

use super::device::{Cut, Device, Row};
use super::host_cuda::Element;
use super::layer::Kind;
use super::{checked, sizes};

/// The slots of children, before those of the rows.
const CHILDREN: u32 = 5;

/// Rows with slots of their own: of chains, some at their first node, or of nodes with up to two children.
fn rows(kind: Kind, count: usize, rng: &mut RandomSequence) -> (Vec<Row>, Vec<u32>) {
    let mut slots: Vec<u32> = (CHILDREN..CHILDREN + count as u32).collect();
    slots.shuffle(rng);
    let mut inputs = Vec::new();
    let mut rows = Vec::new();
    for (at, state) in slots.into_iter().enumerate() {
        let node = rng.random_range(0..40);
        let mut last = node;
        match kind {
            Kind::Leaf | Kind::SumLeaf => {}
            Kind::Pair => {
                let children = rng.random_range(0..3);
                inputs.extend((0..children).map(|_| rng.random_range(0..CHILDREN)));
            }
            _ => {
                last += rng.random_range(0..4);
                if rng.random_range(0..3) > 0 {
                    inputs.push(state);
                }
            }
        }
        rows.push(Row {
            request: rng.random(),
            node,
            last,
            state,
            words: at as u32,
            tokens: 0,
            inputs_end: inputs.len() as u32,
        });
    }
    (rows, inputs)
}

fn gated_kind() -> impl Strategy<Value = Kind> {
    let all = Kind::CHAINS.into_iter().chain(Kind::TREES);
    prop::sample::select(all.filter(|kind| kind.is_gated()).collect::<Vec<_>>())
}

/// A hidden width and that of the embedding, for operands of some blocks of 32 inputs.
fn widths(kind: Kind, hidden: u32, blocks: u32) -> (u32, u32) {
    match kind {
        Kind::Leaf | Kind::SumLeaf => (hidden, 32 * blocks),
        Kind::Pair => (hidden.next_multiple_of(16), 7),
        _ => (hidden, 32 * (hidden / 32 + blocks) - hidden),
    }
}

/// Fewer rows than a tile has, whole tiles, and more rows than a block computes at a time.
fn batches() -> impl Strategy<Value = usize> {
    prop_oneof![4 => 1..=7usize, 2 => 8..=33usize, 1 => 60..=70usize, 1 => Just(130usize)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn fused_steps_are_right_for_all_sizes(
        kind in gated_kind(),
        element in sizes::element(),
        hidden in 1..70u32,
        blocks in 1..6u32,
        vocabulary in sizes::vocabulary(),
        slack in 0..5usize,
        cut in (1..=3u32, 0..50u64).prop_map(|(rows, seed)| Cut { units: 1, rows, seed }),
        size in batches(),
        seed in any::<u64>(),
    ) {
        let (hidden, embedding) = widths(kind, hidden, blocks);
        let spec = Spec { hidden, embedding, vocabulary, seed, weights: None };
        let slots = CHILDREN as usize + size;
        let Some(mut device) = Device::new(&kind.model(), &spec, element, slots, slack, cut) else { return Ok(()) };
        let rng = &mut random::sequence(seed, 0, "rows");
        let mut station = device.station(kind, size, 0);
        station.fuse(&spec, element);
        for _ in 0..2 {
            let (rows, inputs) = rows(kind, rng.random_range(1..=size), rng);
            checked::gather(&mut device, &mut station, &rows, &inputs);
            for _ in 0..rng.random_range(1..=3) {
                checked::step(&mut device, &mut station, rng.random());
            }
        }
    }
}

/// The sizes of the H100's measurements: three products of TF32 have the precision of float32 in sums of 2048 numbers.
#[test]
fn a_wide_fused_step_is_as_exact_as_float32() {
    let spec = Spec {
        hidden: 1024,
        embedding: 1024,
        vocabulary: 3001,
        seed: 8,
        weights: None,
    };
    let cut = Cut {
        units: 1,
        rows: 1,
        seed: 0,
    };
    let (size, slots) = (16, CHILDREN as usize + 16);
    let Some(mut device) = Device::new(&Kind::Lstm.model(), &spec, Element::F32, slots, 0, cut)
    else {
        return;
    };
    let mut station = device.station(Kind::Lstm, size, 0);
    station.fuse(&spec, Element::F32);
    let (rows, inputs) = rows(Kind::Lstm, size, &mut random::sequence(1, 0, "rows"));
    checked::gather(&mut device, &mut station, &rows, &inputs);
    checked::step(&mut device, &mut station, true);
}
