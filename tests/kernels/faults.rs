//! NaNs and infinities are flagged where they are stored, and nowhere else.

use batchlab::network::Spec;

use super::device::{Cut, Device, Row};
use super::host_cuda::Element;
use super::layer::Kind;

#[test]
fn a_slot_with_nan_or_infinity_is_marked() {
    for kind in Kind::CHAINS.into_iter().chain(Kind::TREES) {
        for (hidden, units) in [(5, 2), (260, 1)] {
            for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                let spec = Spec {
                    hidden,
                    embedding: 4,
                    vocabulary: 9,
                    seed: 3,
                    weights: None,
                };
                let cut = Cut {
                    units,
                    rows: 3,
                    seed: 2,
                };
                let Some(mut device) = Device::new(&kind.model(), &spec, Element::F32, 8, 0, cut)
                else {
                    return;
                };
                let mut station = device.station(kind, 5, 8);
                // Slots 0 to 3 are taken, by chains for themselves, by nodes of trees for slots 4 to 7. Row 3 has come to
                // its end.
                let state = |at: u32| if kind.is_chain() { at } else { 4 + at };
                let row = |at: u32| Row {
                    request: at,
                    node: 1,
                    last: if at == 3 { 0 } else { 1 },
                    state: state(at),
                    words: 0,
                    tokens: 0,
                    inputs_end: if kind.is_leaf() { 0 } else { at + 1 },
                };
                // The last unit of what row 1 has beside its operand, or all of it where there is nothing else.
                let last = device.width + hidden as usize - 1;
                match kind {
                    Kind::Gru => device.pool[last] = bad,
                    Kind::Leaf | Kind::SumLeaf => {
                        station.layer.biases[0][2 * hidden as usize] = bad
                    }
                    _ => device.pool[last + hidden as usize] = bad,
                }
                let inputs: &[u32] = if kind.is_leaf() { &[] } else { &[0, 1, 2, 3] };
                device.gather(&mut station, &[0, 1, 2, 3].map(row), inputs);
                device.step(&mut station, true);
                // Every leaf has the bias. A gate of theirs that is infinite is open or shut, which gives a number.
                let is_marked = |at| {
                    if kind.is_leaf() {
                        bad.is_nan() && at < 3
                    } else {
                        at == 1
                    }
                };
                let mut marked = vec![0; 8];
                (0..4)
                    .filter(|at| is_marked(*at))
                    .for_each(|at| marked[state(at) as usize] = 1);
                assert_eq!(*device.broken, *marked, "{kind:?}, H = {hidden}, {bad}");
                assert_eq!(device.counted[0], 6, "it signals all the same");
            }
        }
    }
}
