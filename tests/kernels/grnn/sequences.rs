//! Sequences have the results that they have alone, for mappings of all kinds and in any order of the blocks' threads.

use batchlab::cost::grnn::Rnn;

use batchlab::cuda::gpu::grnn::Configuration;

use super::bench::{Bench, configuration, near};

/// For a network: the width of the state, the batch, the mapping.
type Case = (u32, u32, [u32; 4]);

/// Orders in which blocks and threads come to run.
const SEEDS: [u64; 3] = [0, 1, 2];

/// Groups that hold all gates of an element and groups that hold one gate, tiles that do not divide the state, tiles that do not
/// divide the batch, states that can be read four, two and one at a time, one block a row, one thread a group.
const LSTM: [Case; 11] = [
    (16, 1, [4, 1, 4, 8]),
    (20, 4, [4, 2, 4, 8]),
    (17, 5, [4, 2, 16, 2]),
    (9, 3, [5, 2, 5, 32]),
    (24, 7, [7, 3, 14, 8]),
    (6, 2, [6, 1, 24, 1]),
    (33, 2, [8, 1, 8, 16]),
    (40, 6, [3, 4, 6, 16]),
    (5, 1, [8, 1, 8, 4]),
    (64, 3, [32, 1, 32, 4]),
    (64, 5, [64, 2, 128, 8]),
];

/// The same for GRUs, and outputs of a group that are odd in number: alone, in pairs of groups, in groups of a whole warp.
const GRU: [Case; 11] = [
    (16, 1, [4, 1, 4, 8]),
    (20, 4, [4, 2, 4, 8]),
    (17, 5, [4, 2, 8, 2]),
    (9, 3, [5, 2, 10, 32]),
    (24, 7, [6, 2, 4, 8]),
    (6, 2, [6, 1, 12, 1]),
    (33, 2, [3, 1, 2, 16]),
    (40, 6, [3, 4, 2, 32]),
    (5, 1, [8, 1, 8, 4]),
    (70, 3, [9, 1, 6, 4]),
    (64, 5, [64, 2, 64, 16]),
];

fn lengths(batch: u32) -> Vec<u32> {
    (0..batch)
        .map(|sequence| 1 + (5 * sequence + 4) % 6)
        .collect()
}

/// The kernels that run on any GPU.
fn any(rnn: Rnn, cases: &[Case]) -> Vec<Configuration> {
    let kernels = cases
        .iter()
        .map(|(hidden, batch, mapping)| configuration(rnn, *hidden, *batch, *mapping));
    kernels.collect()
}

/// The mappings whose rows can be clusters, with states exchanged in the cluster.
fn clusters(rnn: Rnn, cases: &[Case]) -> Vec<Configuration> {
    let kernels = any(rnn, cases)
        .into_iter()
        .filter_map(Configuration::cluster);
    kernels.collect()
}

fn check(kernels: &[Configuration]) {
    for kernel in kernels {
        let Some(mut bench) = Bench::new(*kernel) else {
            return;
        };
        let batch = &kernel.sizes().batch;
        for seed in SEEDS {
            // Launches of different lengths in sequence, the shortest in between.
            for lengths in [
                lengths(*batch),
                vec![1; *batch as usize],
                vec![3; *batch as usize],
            ] {
                let right = bench.check(&lengths, seed);
                right.unwrap_or_else(|wrong| {
                    panic!("{kernel:?}, {lengths:?}, seed {seed}: {wrong}")
                });
            }
        }
    }
}

#[test]
fn lstm() {
    check(&any(Rnn::Lstm, &LSTM));
}

#[test]
fn gru_with_two_synchronisations() {
    check(&any(Rnn::GruDouble, &GRU));
}

#[test]
fn gru_with_one_synchronisation() {
    check(&any(Rnn::GruSingle, &GRU));
}

#[test]
fn lstm_in_clusters() {
    let kernels = clusters(Rnn::Lstm, &LSTM);
    assert_eq!(kernels.len(), 7);
    check(&kernels);
}

#[test]
fn gru_in_clusters() {
    let kernels = clusters(Rnn::GruDouble, &GRU);
    assert_eq!(kernels.len(), 6);
    check(&kernels);
    // In memory one synchronisation is saved, in a cluster none.
    assert!(clusters(Rnn::GruSingle, &GRU).is_empty());
}

/// A kernel of each kind in each way of exchange.
fn small() -> Vec<Configuration> {
    let mut kernels = Vec::new();
    for rnn in [Rnn::Lstm, Rnn::GruDouble, Rnn::GruSingle] {
        let several = configuration(rnn, 20, 4, [4, 2, 4, 8]);
        kernels.push(several);
        kernels.push(configuration(rnn, 20, 4, [20, 2, 40, 4]));
        kernels.extend(several.cluster());
    }
    kernels
}

#[test]
fn sequences_go_on_in_chunks() {
    for kernel in small() {
        let Some(mut bench) = Bench::new(kernel) else {
            return;
        };
        let lengths = [7u32, 2, 5, 4];
        let mut states = bench.zeros(lengths.len());
        for from in [0, 3, 6] {
            let left: Vec<u32> = lengths
                .iter()
                .map(|length| length.saturating_sub(from).min(3))
                .collect();
            (_, states) = bench.run(&states, from, &left, u64::from(from)).unwrap();
        }
        for (sequence, length) in lengths.into_iter().enumerate() {
            let expected = bench.alone(sequence, length);
            near(&states.h[20 * sequence..][..20], &expected.h).unwrap();
            if kernel.sizes().rnn == Rnn::Lstm {
                near(&states.c[20 * sequence..][..20], &expected.c).unwrap();
            }
        }
    }
}

#[test]
fn a_batch_may_be_smaller_than_the_grid_was_made_for() {
    for kernel in small() {
        let Some(mut bench) = Bench::new(kernel) else {
            return;
        };
        for batch in [4, 3, 1, 2] {
            bench.check(&lengths(batch), 5).unwrap();
        }
    }
}
