//! Steps of chains: the LSTM, the encoder, the decoder and the GRU.

use batchlab::network::Spec;
use batchlab::workload::random::{self, RandomSequence};
use proptest::prelude::*;
use rand::RngExt;

use super::device::{Change, Cut, Device, NOWHERE, Row};
use super::host_cuda::Element;
use super::layer::Kind;
use super::{checked, sizes};

const SLOTS: u32 = 14;

/// Rows of chains in slots of their own out of a range, some of them at their first node; and their inputs.
fn rows(count: usize, from: u32, rng: &mut RandomSequence) -> (Vec<Row>, Vec<u32>) {
    let mut free: Vec<u32> = (from..from + SLOTS / 2).collect();
    let mut inputs = Vec::new();
    let draw = |at: usize| {
        let state = free.swap_remove(rng.random_range(0..free.len()));
        if rng.random_range(0..3) > 0 {
            inputs.push(state);
        }
        let node = rng.random_range(0..40);
        let last = node + rng.random_range(0..4);
        let words = (from as usize + at) as u32 * 50;
        Row {
            request: rng.random(),
            node,
            last,
            state,
            words,
            tokens: 0,
            inputs_end: inputs.len() as u32,
        }
    };
    ((0..count).map(draw).collect(), inputs)
}

fn cuts() -> impl Strategy<Value = Cut> {
    (1..=3u32, 1..=7u32, 0..50u64).prop_map(|(units, rows, seed)| Cut { units, rows, seed })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn rows_pass_from_node_to_node(
        kind in prop::sample::select(Kind::CHAINS.to_vec()),
        element in sizes::element(),
        (hidden, embedding) in sizes::widths(),
        vocabulary in sizes::vocabulary(),
        slack in 0..5usize,
        cut in cuts(),
        size in 1..=7usize,
        seed in any::<u64>(),
    ) {
        let spec = Spec { hidden, embedding, vocabulary, seed, weights: None };
        let Some(mut device) = Device::new(&kind.model(), &spec, element, SLOTS as usize, slack, cut) else { return Ok(()) };
        let rng = &mut random::sequence(seed, 0, "rows");
        let mut station = device.station(kind, size, 0);
        for _ in 0..2 {
            let (rows, inputs) = rows(rng.random_range(1..=size), 0, rng);
            checked::gather(&mut device, &mut station, &rows, &inputs);
            for _ in 0..rng.random_range(1..=4) {
                checked::step(&mut device, &mut station, rng.random());
            }
        }
    }

    #[test]
    fn single_rows_change_and_others_stay(
        kind in prop::sample::select(Kind::CHAINS.to_vec()),
        element in sizes::element(),
        (hidden, embedding) in sizes::widths(),
        vocabulary in sizes::vocabulary(),
        cut in cuts(),
        size in 1..=7usize,
        seed in any::<u64>(),
    ) {
        let spec = Spec { hidden, embedding, vocabulary, seed, weights: None };
        let Some(mut device) = Device::new(&kind.model(), &spec, element, SLOTS as usize, 0, cut) else { return Ok(()) };
        let rng = &mut random::sequence(seed, 0, "rows");
        let mut station = device.station(kind, size, 0);
        let (rows, inputs) = rows(rng.random_range(1..=size), 0, rng);
        checked::gather(&mut device, &mut station, &rows, &inputs);
        for _ in 0..4 {
            let mut changes = Vec::new();
            for at in (0..size as u32).filter(|_| rng.random_bool(0.4)).collect::<Vec<_>>() {
                // Each row has a second slot of its own.
                changes.push(match rng.random_range(0..4) {
                    0 => Change { at, node: 1, state: NOWHERE, ..Change::default() },
                    first => {
                        let node = if first == 1 { 0 } else { rng.random_range(0..40) };
                        Change {
                            at,
                            request: rng.random(),
                            node,
                            last: node + rng.random_range(0..4),
                            state: SLOTS / 2 + at,
                            words: (at + 7) * 50,
                        }
                    }
                });
            }
            checked::change(&mut device, &mut station, &changes);
            for _ in 0..rng.random_range(0..=3) {
                checked::step(&mut device, &mut station, rng.random());
            }
        }
    }

    #[test]
    fn two_cells_take_turns_on_one_lane(
        element in sizes::element(),
        (hidden, embedding) in (1..70u32, 1..70u32),
        vocabulary in sizes::vocabulary(),
        cut in cuts(),
        seed in any::<u64>(),
    ) {
        let spec = Spec { hidden, embedding, vocabulary, seed, weights: None };
        let model = Kind::Encoder.model();
        let Some(mut device) = Device::new(&model, &spec, element, SLOTS as usize, 0, cut) else { return Ok(()) };
        let rng = &mut random::sequence(seed, 0, "rows");
        let mut stations = [Kind::Encoder, Kind::Decoder].map(|kind| device.station(kind, 4, 0));
        let mut gathered = [false; 2];
        for _ in 0..8 {
            let which = rng.random_range(0..2);
            let station = &mut stations[which];
            if !gathered[which] || rng.random_range(0..3) == 0 {
                // Each has the slots of its own half.
                let (rows, inputs) = rows(rng.random_range(1..=4), which as u32 * SLOTS / 2, rng);
                checked::gather(&mut device, station, &rows, &inputs);
                gathered[which] = true;
            }
            checked::step(&mut device, station, rng.random());
        }
    }
}

#[test]
fn wide_steps_are_as_right_as_narrow_ones() {
    for (kind, element) in
        Kind::CHAINS
            .into_iter()
            .zip([Element::F32, Element::Bf16, Element::F32, Element::F16])
    {
        let spec = Spec {
            hidden: 1024,
            embedding: 512,
            vocabulary: 3001,
            seed: 8,
            weights: None,
        };
        let cut = Cut {
            units: 1,
            rows: 1,
            seed: 3,
        };
        let Some(mut device) = Device::new(&kind.model(), &spec, element, SLOTS as usize, 3, cut)
        else {
            return;
        };
        let mut station = device.station(kind, 2, 0);
        let (rows, inputs) = rows(2, 0, &mut random::sequence(1, 0, "rows"));
        checked::gather(&mut device, &mut station, &rows, &inputs);
        for units in [1, 2, 4, 5] {
            device.cut.units = units;
            checked::step(&mut device, &mut station, true);
        }
    }
}
