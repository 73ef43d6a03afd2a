//! Completion: each task is counted once, by whichever block comes last.

use batchlab::network::Spec;

use super::device::{Cut, Device, Row};
use super::host_cuda::Element;
use super::layer::Kind;

#[test]
fn the_last_block_signals_whichever_it_is() {
    for kind in Kind::CHAINS.into_iter().chain(Kind::TREES) {
        let spec = Spec {
            hidden: 9,
            embedding: 3,
            vocabulary: 6,
            seed: 3,
            weights: None,
        };
        let cut = Cut {
            units: 3,
            rows: 3,
            seed: 0,
        };
        let Some(mut device) = Device::new(&kind.model(), &spec, Element::F16, 3, 0, cut) else {
            return;
        };
        let mut station = device.station(kind, 3, 0);
        let row = |at: u32| Row {
            request: at,
            node: 1,
            last: 99,
            state: at,
            words: 0,
            tokens: 0,
            inputs_end: 0,
        };
        device.gather(&mut station, &[0, 1, 2].map(row), &[]);
        let mut signalled = device.counted[0];
        for launch in 0..24 {
            device.cut.seed = u64::from(launch);
            let signals = launch % 3 != 1;
            device.step(&mut station, signals);
            signalled += u64::from(signals);
            assert_eq!(
                [device.counted[0], device.host[0]],
                [signalled; 2],
                "{kind:?}, launch {launch}"
            );
            assert_eq!(
                (device.arrived[0], station.age[0]),
                (0, launch + 1),
                "{kind:?}"
            );
        }
    }
}

#[test]
fn a_signal_of_its_own_counts_on() {
    let spec = Spec {
        hidden: 2,
        embedding: 2,
        vocabulary: 2,
        seed: 3,
        weights: None,
    };
    let cut = Cut {
        units: 1,
        rows: 1,
        seed: 0,
    };
    let Some(mut device) = Device::new(&Kind::Lstm.model(), &spec, Element::F32, 1, 0, cut) else {
        return;
    };
    for signalled in 6..10 {
        device.signal();
        assert_eq!([device.counted[0], device.host[0]], [signalled; 2]);
    }
}
