//! Persistent kernels as the host compiles and launches them.

use std::sync::Arc;

use batchlab::cost::grnn::{Mapping, RecurrentCell, Rnn, RnnSizes};
use batchlab::cuda::gpu::grnn::{
    Configuration, GpuHost, Layer, PersistentKernel, SequenceStates, measure,
};
use batchlab::network::weights::Weights;
use batchlab::network::{Network, Spec};
use batchlab::precision::Precision;
use batchlab::units::{CellId, RequestId};
use batchlab::workload::cell_graph::CellGraph;
use batchlab::workload::model::Model;

use crate::bench::inside;

const TOLERANCE: f32 = 2e-5;

/// A network on the GPU and on the CPU.
struct Both {
    host: GpuHost,
    layer: Arc<Layer>,
    network: Network,
    /// The row of each word.
    table: Vec<f32>,
    spec: Spec,
}

impl Both {
    fn new(cell: RecurrentCell, hidden: u32) -> Both {
        let model = if cell == RecurrentCell::Lstm {
            Model::Lstm
        } else {
            Model::Gru
        };
        let spec = Spec {
            hidden,
            embedding: 7,
            vocabulary: 40,
            seed: 5,
            weights: None,
        };
        let host = GpuHost::open().expect("a GPU");
        let weights = Weights::open(&model, &spec).expect("weights from a seed");
        let layer = Arc::new(
            Layer::new(&host, cell, &weights, &spec, Precision::F32).expect("weights on the GPU"),
        );
        let network = Network::new(&model, &spec).expect("a network");
        Both {
            host,
            layer,
            network,
            table: weights.take("embedding.weight"),
            spec,
        }
    }

    fn kernel(
        &self,
        rnn: Rnn,
        batch: u32,
        [tile_width, tile_height, groups, group_size]: [u32; 4],
    ) -> PersistentKernel {
        let mapping = Mapping {
            tile_width,
            tile_height,
            groups,
            group_size,
        };
        let sizes = RnnSizes {
            rnn,
            hidden: self.spec.hidden,
            batch,
        };
        PersistentKernel::new(
            &self.host,
            &self.layer,
            Configuration::new(sizes, mapping).expect("a mapping"),
        )
        .expect("a kernel")
    }

    /// The vectors of steps from one on: the words of sequence n are those of request n.
    fn inputs(&self, batch: usize, from: u32, steps: u32) -> Vec<f32> {
        let width = self.spec.embedding as usize;
        let places = (from..from + steps)
            .flat_map(|step| (0..batch as u32).map(move |sequence| (sequence, step)));
        let words = places
            .map(|(sequence, step)| self.network.token(RequestId(sequence.into()), step) as usize);
        words
            .flat_map(|word| self.table[word * width..][..width].to_vec())
            .collect()
    }

    fn zeros(&self, rnn: Rnn, batch: usize) -> SequenceStates {
        let zeros = vec![0.0; batch * self.spec.hidden as usize];
        SequenceStates {
            h: zeros.clone(),
            c: if rnn == Rnn::Lstm { zeros } else { Vec::new() },
        }
    }

    /// Compares the states of sequences with the CPU's.
    fn compare(&self, lengths: &[u32], left: &SequenceStates) {
        let hidden = self.spec.hidden as usize;
        for (sequence, length) in lengths.iter().enumerate() {
            let graph = CellGraph::chain(CellId(0), *length);
            let alone = self.network.alone(RequestId(sequence as u64), &graph).state;
            let found = [&left.h, &left.c]
                .into_iter()
                .filter(|states| !states.is_empty());
            let found = found.flat_map(|states| &states[sequence * hidden..][..hidden]);
            for (at, (found, expected)) in found.zip(&alone).enumerate() {
                assert!(
                    (found - expected).abs() <= TOLERANCE,
                    "{sequence}, {at}: {found}, not {expected}"
                );
            }
        }
    }
}

#[test]
fn sequences_have_the_results_of_runs_by_themselves() {
    // Capability 9.0 has clusters.
    for settings in [
        &[("SEED", "0")][..],
        &[("SEED", "7")],
        &[("SEED", "7"), ("CAPABILITY", "90")],
    ] {
        if inside(
            "persistent::sequences_have_the_results_of_runs_by_themselves",
            settings,
        ) {
            for (cell, rnn) in [
                (RecurrentCell::Lstm, Rnn::Lstm),
                (RecurrentCell::Gru, Rnn::GruDouble),
                (RecurrentCell::Gru, Rnn::GruSingle),
            ] {
                let both = Both::new(cell, 18);
                // Rows of four blocks, and of one.
                for mapping in [[5, 2, 10, 8], [18, 2, 36, 8]] {
                    let mut kernel = both.kernel(rnn, 3, mapping);
                    for lengths in [&[4, 7, 2][..], &[1], &[3, 3]] {
                        let steps = *lengths.iter().max().unwrap();
                        let inputs = both.inputs(lengths.len(), 0, steps);
                        let left = kernel
                            .run(lengths, &both.zeros(rnn, lengths.len()), &inputs)
                            .expect("a run");
                        both.compare(lengths, &left);
                    }
                }
            }
        }
    }
}

#[test]
fn sequences_go_on_in_chunks() {
    if inside("persistent::sequences_go_on_in_chunks", &[]) {
        for (cell, rnn) in [
            (RecurrentCell::Lstm, Rnn::Lstm),
            (RecurrentCell::Gru, Rnn::GruDouble),
            (RecurrentCell::Gru, Rnn::GruSingle),
        ] {
            let both = Both::new(cell, 18);
            let mut kernel = both.kernel(rnn, 3, [5, 1, 10, 4]);
            let lengths = [5u32, 9, 2];
            let mut states = both.zeros(rnn, 3);
            for from in [0, 4, 8] {
                let left = lengths.map(|length| length.saturating_sub(from).min(4));
                let inputs = both.inputs(3, from, *left.iter().max().unwrap());
                states = kernel.run(&left, &states, &inputs).expect("a run");
            }
            both.compare(&lengths, &states);
            assert_eq!(
                kernel.run(&[0, 0, 0], &states, &[]).expect("nothing to do"),
                states
            );
        }
    }
}

#[test]
fn micro_benchmarks_have_a_time_for_every_point() {
    for settings in [&[][..], &[("CAPABILITY", "90")]] {
        if !inside(
            "persistent::micro_benchmarks_have_a_time_for_every_point",
            settings,
        ) {
            continue;
        }
        let host = GpuHost::open().expect("a GPU");
        let measured = measure(&host, 4, 1).expect("all kernels run");
        let points = measured.products.iter().map(|point| point.cycles);
        let mut points = points.chain(measured.reductions.iter().map(|point| point.cycles));
        assert!(points.all(|cycles| cycles > 0.0), "{measured:?}");
        let [fma, shuffle, barrier] = [measured.fma, measured.shuffle, measured.barrier];
        assert!(
            [fma, shuffle, barrier, measured.l2[0], measured.l2[1]]
                .iter()
                .all(|of| *of > 0.0),
            "{measured:?}"
        );
        // As many as the fits need.
        assert!(
            measured
                .data_sheet(&host.report("mine").expect("what the driver says"))
                .is_ok(),
            "{measured:?}"
        );
    }
}

#[test]
fn what_a_kernel_is_not_for_is_refused() {
    if inside(
        "persistent::what_a_kernel_is_not_for_is_refused",
        &[("DEVICES", "1")],
    ) {
        let both = Both::new(RecurrentCell::Lstm, 18);
        let mut kernel = both.kernel(Rnn::Lstm, 2, [6, 1, 12, 8]);
        let refusal =
            |outcome: batchlab::error::Result<SequenceStates>| outcome.unwrap_err().to_string();
        let zeros = both.zeros(Rnn::Lstm, 3);
        assert_eq!(
            refusal(kernel.run(&[1, 1, 1], &zeros, &[])),
            "1 steps of 3 sequences for a kernel of up to 2"
        );
        let short = refusal(kernel.run(&[1, 1], &both.zeros(Rnn::Lstm, 2), &[0.0; 13]));
        assert_eq!(
            short,
            "36 numbers of h, 36 of c and 13 of inputs for 36 numbers of h, 36 of c and 14 of inputs"
        );

        let configuration = |rnn, batch, mapping| {
            Configuration::new(
                RnnSizes {
                    rnn,
                    hidden: 18,
                    batch,
                },
                mapping,
            )
            .unwrap()
        };
        let one = Mapping {
            tile_width: 1,
            tile_height: 1,
            groups: 2,
            group_size: 8,
        };
        let other = PersistentKernel::new(
            &both.host,
            &both.layer,
            configuration(Rnn::GruSingle, 2, one),
        )
        .unwrap_err();
        assert_eq!(
            other.to_string(),
            "a kernel gru-single of 18 for the weights of lstm of 18"
        );
        // 4 multiprocessors, each with room for 3 such blocks.
        let wide = Mapping {
            tile_width: 9,
            tile_height: 1,
            groups: 36,
            group_size: 16,
        };
        let many =
            PersistentKernel::new(&both.host, &both.layer, configuration(Rnn::Lstm, 7, wide))
                .unwrap_err()
                .to_string();
        assert!(many.starts_with("14 blocks of "), "{many}");
        assert!(
            many.ends_with("have to be on GPU 0 (Host CUDA) at once, which has room for 12"),
            "{many}"
        );
    }
}
