//! Nodes of trees: leaves, nodes with two children, nodes with any number.

use batchlab::network::Spec;
use batchlab::workload::random::{self, RandomSequence};
use proptest::prelude::*;
use rand::RngExt;

use super::device::{Cut, Device, Row};
use super::host_cuda::Element;
use super::layer::Kind;
use super::{checked, sizes};

/// Slots that nodes take, and as many behind them where theirs go.
const TAKEN: u32 = 9;

/// Rows of nodes with the given numbers of children, which are anywhere in the pool.
fn rows(children: &[usize], rng: &mut RandomSequence) -> (Vec<Row>, Vec<u32>) {
    let mut inputs = Vec::new();
    let mut draw = |(at, children): (usize, &usize)| {
        inputs.extend((0..*children).map(|_| rng.random_range(0..TAKEN)));
        let node = rng.random_range(0..1000);
        let state = TAKEN + at as u32;
        Row {
            request: rng.random(),
            node,
            last: node,
            state,
            words: 0,
            tokens: 0,
            inputs_end: inputs.len() as u32,
        }
    };
    let rows = children.iter().enumerate().map(&mut draw).collect();
    (rows, inputs)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn nodes_take_their_children(
        kind in prop::sample::select(Kind::TREES.to_vec()),
        element in sizes::element(),
        (hidden, embedding) in sizes::widths(),
        slack in 0..5usize,
        cut in (1..=3u32, 1..=7u32, 0..50u64).prop_map(|(units, rows, seed)| Cut { units, rows, seed }),
        size in 1..=7usize,
        seed in any::<u64>(),
    ) {
        let spec = Spec { hidden, embedding, vocabulary: 50, seed, weights: None };
        let slots = 2 * TAKEN as usize;
        let Some(mut device) = Device::new(&kind.model(), &spec, element, slots, slack, cut) else { return Ok(()) };
        let rng = &mut random::sequence(seed, 0, "rows");
        let most = match kind {
            Kind::Pair => 2,
            Kind::Sum => 5,
            _ => 0,
        };
        let room = if kind == Kind::Sum { 6 * size } else { 0 };
        let mut station = device.station(kind, size, room);
        for _ in 0..2 {
            let count = rng.random_range(1..=size);
            let children: Vec<usize> = (0..count).map(|_| rng.random_range(0..=most)).collect();
            let (rows, inputs) = rows(&children, rng);
            checked::gather(&mut device, &mut station, &rows, &inputs);
            checked::step(&mut device, &mut station, rng.random());
            // All of them have come to their end.
            checked::step(&mut device, &mut station, true);
        }
    }
}

#[test]
fn a_node_may_have_more_children_than_a_block_has_threads() {
    for (units, hidden) in [(1, 260), (2, 30), (1, 515)] {
        let spec = Spec {
            hidden,
            embedding: 8,
            vocabulary: 50,
            seed: 4,
            weights: None,
        };
        let cut = Cut {
            units,
            rows: 2,
            seed: 7,
        };
        let slots = 2 * TAKEN as usize;
        let model = Kind::Sum.model();
        let Some(mut device) = Device::new(&model, &spec, Element::Bf16, slots, 0, cut) else {
            return;
        };
        let (rows, inputs) = rows(&[1, 700, 0, 256], &mut random::sequence(2, 0, "rows"));
        let mut station = device.station(Kind::Sum, 5, inputs.len() + 9);
        checked::gather(&mut device, &mut station, &rows, &inputs);
        checked::step(&mut device, &mut station, true);
    }
}
