//! GRNN's published ranking: against reference lists, the paper's tables, and a second implementation that shares no
//! code with the crate. Also its use in the simulator.

use std::path::PathBuf;
use std::sync::Arc;

use crate::grnn_naive::{Configuration, naive, naive_layer};
use crate::lab::policy;
use batchlab::cost::grnn::{
    Cost, DataSheet, KernelLaunches, Mapping, PersistentTimes, RankedMapping, RecurrentCell, Rnn,
    RnnSizes, Space, csv, rank,
};
use batchlab::cost::persistent::PersistentKernels as Times;
use batchlab::cost::table::{CostTable, Overhead};
use batchlab::record::RecordOptions;
use batchlab::record::full::FullRecord;
use batchlab::units::Nanos;
use batchlab::workload::model::Model;
use batchlab::workload::random;
use batchlab::workload::shape::Shape;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

fn titan_v() -> DataSheet {
    DataSheet::open("titan-v").unwrap()
}

fn ranked(cell: RecurrentCell, hidden: u32, batch: u32, uneven: bool) -> Vec<RankedMapping> {
    rank(
        cell,
        hidden,
        batch,
        &titan_v(),
        &Space {
            uneven,
            ..Space::default()
        },
    )
}

/// The reference lists are not part of the repository; their digests are: of the first hundred rows and, for LSTM, of
/// all valid rows.
#[test]
fn the_published_order_comes_out() {
    let first = |text: String, rows: usize| {
        text.lines()
            .take(1 + rows)
            .map(|line| format!("{line}\n"))
            .collect::<String>()
    };
    let lstm = csv(
        RecurrentCell::Lstm,
        256,
        20,
        &ranked(RecurrentCell::Lstm, 256, 20, false),
    );
    assert_eq!(lstm.lines().count(), 151);
    assert_eq!(digest(&lstm), LSTM_DIGEST);
    let gru = csv(
        RecurrentCell::Gru,
        256,
        10,
        &ranked(RecurrentCell::Gru, 256, 10, false),
    );
    assert_eq!(digest(&first(gru, 100)), GRU_DIGEST);
}

/// Of `lstm_h256_b20_mod128.csv` and `gru_h256_b10_mod128.csv`.
const LSTM_DIGEST: u64 = 0x46d1_83bd_d4a4_4456;
const GRU_DIGEST: u64 = 0x1511_2584_27b6_2dc0;

/// FNV-1a in 64 bits.
fn digest(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Kernels that keep states on chip pay for each wait and nothing for L2 where a row is one block or one cluster.
#[test]
fn states_on_chip_change_what_waits_cost_and_nothing_else() {
    let paper = titan_v();
    let mut own = paper.clone();
    own.constants.states_on_chip = true;
    own.constants.cluster_synchronisation = Some(70);
    let second = f64::from(paper.constants.second_synchronisation);
    let mut ways = [0; 3];
    for rnn in [Rnn::Lstm, Rnn::GruSingle, Rnn::GruDouble] {
        for hidden in [24, 64, 128, 256] {
            let sizes = RnnSizes {
                rnn,
                hidden,
                batch: 4,
            };
            let waits = f64::from(rnn.synchronisations());
            Space::default().each_valid(&sizes, &paper, |mapping| {
                let before = Cost::estimate(&mapping, &sizes, &paper);
                let after = Cost::estimate(&mapping, &sizes, &own);
                let (way, memory, wait) = match mapping.columns(&sizes) {
                    _ if rnn == Rnn::GruSingle => (0, before.memory, second),
                    1 => (1, 0.0, 0.0),
                    2..=8 => (2, 0.0, 70.0),
                    _ => (0, before.memory, second),
                };
                ways[way] += 1;
                let expected = Cost {
                    memory,
                    synchronisation: waits * wait,
                    ..before
                };
                assert_eq!(after, expected, "{rnn} of {hidden}, {mapping}");
            });
        }
    }
    assert!(ways.iter().all(|count| *count > 0), "{ways:?}");
}

/// On a GPU whose kernels keep states on chip, a row of an LSTM of 64 is one block, one of 256 a cluster if there are any.
#[test]
fn the_ranking_keeps_states_on_chip_where_it_can() {
    for (device, hidden, columns) in [
        ("h100", 64, 1..=1),
        ("a100", 64, 1..=1),
        ("h100", 256, 5..=8),
        ("titan-v", 64, 2..=64),
    ] {
        let device = DataSheet::open(device).unwrap();
        for batch in [1, 10, 20] {
            let ranked = rank(
                RecurrentCell::Lstm,
                hidden,
                batch,
                &device,
                &Space::default(),
            );
            let first = ranked[0];
            let sizes = RnnSizes {
                rnn: first.rnn,
                hidden,
                batch,
            };
            assert!(
                columns.contains(&first.mapping.columns(&sizes)),
                "{}, {hidden} by {batch}: {}",
                device.name,
                first.mapping
            );
        }
    }
}

/// All available reference lists: the variable names a folder with `grnn/ranked/CELL_hHIDDEN_bBATCH_RULE.csv`.
#[test]
fn reference_lists_come_out_byte_for_byte() {
    let Some(folder) = std::env::var_os("BATCHLAB_DATA").map(PathBuf::from) else {
        println!("skipped: BATCHLAB_DATA is not set");
        return;
    };
    let mut compared = 0;
    for entry in std::fs::read_dir(folder.join("grnn/ranked")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let [cell, hidden, batch, rule] = name.split('_').collect::<Vec<_>>()[..] else {
            panic!("{name}")
        };
        let cell = if cell == "lstm" {
            RecurrentCell::Lstm
        } else {
            RecurrentCell::Gru
        };
        let (hidden, batch) = (hidden[1..].parse().unwrap(), batch[1..].parse().unwrap());
        let ours = csv(
            cell,
            hidden,
            batch,
            &ranked(cell, hidden, batch, rule == "head"),
        );
        let reference = std::fs::read_to_string(&path).unwrap();
        assert!(ours.starts_with(&reference), "{name}");
        compared += 1;
    }
    assert!(compared > 0);
}

/// The cell, its sizes, the number of mappings, then for each rule the number of valid ones and the best with its cost.
type Row = (
    RecurrentCell,
    u32,
    u32,
    u64,
    (usize, Option<Best>),
    (usize, Option<Best>),
);
/// Tile width and height, work groups, group size, synchronisations, cost.
type Best = ([u32; 5], f64);

#[test]
fn sizes_of_spaces_and_their_best_mappings_are_the_published_ones() {
    let rows: [Row; 7] = [
        (
            RecurrentCell::Lstm,
            64,
            1,
            3_612,
            (1_224, Some(([2, 1, 8, 8, 1], 37.84))),
            (267, Some(([4, 1, 16, 8, 1], 37.84))),
        ),
        (
            RecurrentCell::Lstm,
            256,
            20,
            21_672,
            (456, Some(([32, 2, 32, 8, 1], 252.432_750))),
            (150, Some(([32, 2, 32, 8, 1], 252.432_750))),
        ),
        (
            RecurrentCell::Lstm,
            1024,
            1,
            3_612,
            (1, Some(([14, 1, 8, 32, 1], 346.926_445))),
            (1, Some(([14, 1, 8, 32, 1], 346.926_445))),
        ),
        (RecurrentCell::Lstm, 1024, 10, 14_448, (0, None), (0, None)),
        (
            RecurrentCell::Gru,
            256,
            10,
            21_168,
            (2_088, Some(([48, 1, 32, 8, 1], 251.326_929))),
            (425, Some(([48, 1, 32, 8, 1], 251.326_929))),
        ),
        (
            RecurrentCell::Gru,
            1024,
            1,
            5_292,
            (43, Some(([14, 1, 7, 32, 2], 488.523_906))),
            (10, Some(([16, 1, 8, 32, 2], 488.523_906))),
        ),
        (RecurrentCell::Gru, 1024, 20, 31_752, (0, None), (0, None)),
    ];
    for (cell, hidden, batch, size, loose, strict) in rows {
        let space: u64 = cell
            .kernels()
            .iter()
            .map(|rnn| Space::default().size(*rnn, batch))
            .sum();
        assert_eq!(space, size, "{cell:?} {hidden} {batch}");
        for (uneven, (valid, best)) in [(true, loose), (false, strict)] {
            let all = ranked(cell, hidden, batch, uneven);
            assert_eq!(all.len(), valid, "{cell:?} {hidden} {batch} {uneven}");
            let ours = all.first().map(|one| {
                let Mapping {
                    tile_width,
                    tile_height,
                    groups,
                    group_size,
                } = one.mapping;
                let sync = one.rnn.synchronisations();
                (
                    [tile_width, tile_height, groups, group_size, sync],
                    (one.cost.total() * 1e6).round() / 1e6,
                )
            });
            assert_eq!(ours, best, "{cell:?} {hidden} {batch} {uneven}");
        }
    }
    // The paper's "over 100,000" mappings include tiles of up to 256.
    assert_eq!(
        Space {
            widest: 256,
            uneven: false
        }
        .size(Rnn::Lstm, 20),
        111_888
    );
}

/// Work groups, group size, the paper's cost and rank; the rank without the rule that threads are a multiple of 128.
#[test]
fn table_2_comes_out() {
    let (strict, loose) = (
        ranked(RecurrentCell::Lstm, 256, 20, false),
        ranked(RecurrentCell::Lstm, 256, 20, true),
    );
    for (groups, group_size, cost, rank, rank_loose) in [
        (128, 2, 449, 17, 40),
        (64, 4, 322, 3, 3),
        (32, 8, 252, 1, 1),
        (16, 16, 443, 14, 37),
        (8, 32, 561, 35, 123),
    ] {
        let mapping = Mapping {
            tile_width: 32,
            tile_height: 2,
            groups,
            group_size,
        };
        let place =
            |all: &[RankedMapping]| 1 + all.iter().position(|one| one.mapping == mapping).unwrap();
        assert_eq!(
            (place(&strict), place(&loose)),
            (rank, rank_loose),
            "{mapping:?}"
        );
        // The paper's digits are truncated.
        assert_eq!(strict[rank - 1].cost.total() as u32, cost);
    }
}

#[test]
fn one_synchronisation_is_chosen_as_in_table_3() {
    for (hidden, kernel) in [
        (64, Rnn::GruSingle),
        (256, Rnn::GruSingle),
        (1024, Rnn::GruDouble),
    ] {
        let launches =
            KernelLaunches::new(RecurrentCell::Gru, hidden, &titan_v(), &Space::default());
        for batch in [1, 10, 20] {
            assert!(
                launches.kernels(batch).all(|(_, best)| best.rnn == kernel),
                "{hidden} {batch}"
            );
        }
        // Latencies of 1024 with batch 20 are exactly twice those with batch 10.
        let parts: Vec<u32> = launches.kernels(20).map(|(batch, _)| *batch).collect();
        assert_eq!(
            parts,
            if hidden == 1024 {
                vec![10, 10]
            } else {
                vec![20]
            }
        );
    }
}

#[test]
fn a_batch_runs_as_the_cheapest_larger_one_or_as_several() {
    let device = titan_v();
    let launches = KernelLaunches::new(RecurrentCell::Lstm, 256, &device, &Space::default());
    let largest = launches.largest().unwrap();
    let best = |batch| {
        ranked(RecurrentCell::Lstm, 256, batch, false)
            .first()
            .map(|one| one.cost.total())
    };
    let mut before = 0.0;
    for batch in 1..=largest {
        let parts: Vec<&(u32, RankedMapping)> = launches.kernels(batch).collect();
        let [(runs_as, one)] = parts[..] else {
            panic!("one launch for {batch}")
        };
        assert!(*runs_as >= batch);
        assert_eq!(best(*runs_as), Some(one.cost.total()));
        assert!(
            best(batch).is_none_or(|own| one.cost.total() <= own) && one.cost.total() >= before,
            "{batch}"
        );
        before = one.cost.total();
    }
    assert_eq!(best(largest + 1), None);
    let sizes = |batch| launches.kernels(batch).count();
    assert_eq!(
        [sizes(largest), sizes(largest + 1), sizes(3 * largest)],
        [1, 2, 3]
    );
    assert_eq!(
        KernelLaunches::new(RecurrentCell::Lstm, 4096, &device, &Space::default())
            .kernels(1)
            .count(),
        0
    );
}

fn persistent(cell: RecurrentCell, hidden: u32) -> PersistentTimes {
    let device = titan_v();
    PersistentTimes::new(
        KernelLaunches::new(cell, hidden, &device, &Space::default()),
        &device,
    )
    .unwrap()
}

#[test]
fn times_are_on_the_published_lines() {
    // A sequence of 100 steps, each rounded to a nanosecond; milliseconds as a constant and per unit of cost.
    for (cell, hidden, batch, constant, factor) in [
        (RecurrentCell::Lstm, 256, 20, 0.184, 0.001_277),
        (RecurrentCell::Lstm, 64, 1, 0.184, 0.001_277),
        (RecurrentCell::Gru, 256, 10, 0.090, 0.001_055),
        (RecurrentCell::Gru, 1024, 10, 0.054, 0.001_017),
    ] {
        let cost = ranked(cell, hidden, batch, false)[0].cost.total();
        let line = (constant + factor * cost) * 1e6;
        let ours = persistent(cell, hidden).runs(batch, 100).0 as f64;
        assert!(
            (ours - line).abs() <= 50.0,
            "{cell:?} {hidden} {batch}: {ours} {line}"
        );
    }
    // Larger batches take further launches.
    let gru = persistent(RecurrentCell::Gru, 1024);
    assert_eq!(gru.runs(20, 100), gru.runs(10, 100) * 2);
    assert_eq!(gru.runs(19, 7), gru.runs(10, 7) + gru.runs(9, 7));
    // A launch takes 54 µs, whatever its number of steps.
    assert_eq!(
        gru.runs(3, 9) - gru.runs(3, 8),
        gru.runs(3, 1) - Nanos(54_000)
    );
}

#[test]
fn several_layers_in_one_launch_take_the_naive_models_steps() {
    for (hidden, layers) in [(64, 2), (128, 3), (96, 5)] {
        let stack = PersistentTimes::from_layers(hidden, layers, &titan_v()).unwrap();
        let costs = |batch| {
            naive_layer(hidden.into(), batch, layers.into())
                .into_iter()
                .map(|one| one.cost)
        };
        // A batch may run padded to a larger one.
        let best: Vec<Option<f64>> = (1..=40)
            .map(|batch| costs(batch).reduce(f64::min))
            .collect();
        for batch in 1..=6 {
            let step = stack.runs(batch, 2) - stack.runs(batch, 1);
            let least = best[batch as usize - 1..]
                .iter()
                .flatten()
                .copied()
                .reduce(f64::min)
                .unwrap();
            assert!(
                (step.0 as f64 - 1_300.0 - 12.77 * least).abs() <= 1.0,
                "{hidden} {layers} {batch}: {step}"
            );
            // A launch ends when the last layer has done the last step.
            let waves = 100 + layers - 1;
            assert_eq!(
                stack.runs(batch, 100),
                Nanos(54_000) + Nanos(step.0 * u64::from(waves))
            );
        }
    }
    let (one, alone) = (
        PersistentTimes::from_layers(256, 1, &titan_v()).unwrap(),
        persistent(RecurrentCell::Lstm, 256),
    );
    assert_eq!(
        [1, 7, 20].map(|batch| one.runs(batch, 9)),
        [1, 7, 20].map(|batch| alone.runs(batch, 9))
    );
}

/// A device with only persistent kernels, or also with a cost table of single steps.
fn device(rows: Option<&str>, workers: usize) -> crate::lab::Device {
    let (model, cells) = (Model::Lstm, Model::Lstm.cell_types());
    let table = match rows {
        Some(rows) => CostTable::parse(rows, "costs").unwrap(),
        None => {
            let kernels = Times::Modelled(persistent(RecurrentCell::Lstm, 256));
            CostTable::empty().with_persistent(Arc::new(kernels), "lstm")
        }
    };
    let costs = table.costs_for(&cells, Overhead::default()).unwrap();
    crate::lab::Device {
        model,
        cells,
        workers,
        costs,
    }
}

fn served(
    device: &crate::lab::Device,
    text: &str,
    lengths: &[u32],
    arrivals: &[Nanos],
) -> FullRecord {
    let requests = device.requests(lengths.iter().map(|n| Shape::Chain(*n)));
    device.run(
        &*policy(text),
        &requests,
        arrivals,
        RecordOptions::default(),
    )
}

#[test]
fn where_a_launch_is_one_step_chunks_are_single_steps() {
    let rng = &mut random::sequence(3, 0, "chunks");
    let kernels = persistent(RecurrentCell::Lstm, 256);
    let rows: String = (1..=16)
        .map(|batch| format!("lstm,{batch},{}\n", kernels.runs(batch, 1).0))
        .collect();
    let lengths: Vec<u32> = (0..400).map(|_| rng.random_range(1..9)).collect();
    let ones = vec![1; 400];
    let mut arrivals: Vec<Nanos> = (0..400)
        .map(|_| Nanos(rng.random_range(0..20_000_000)))
        .collect();
    arrivals.sort();
    let times = |record: FullRecord| (record.start, record.finish, record.execution.busy);
    for workers in [1, 3] {
        let (by_table, by_model) = (
            device(Some(&format!("cell,batch,ns\n{rows}")), workers),
            device(None, workers),
        );
        let run = |device: &crate::lab::Device, chunk: u32, lengths: &[u32]| {
            times(served(
                device,
                &format!("kind = 'cellular'\nmax_batch = 16\nchunk = {chunk}"),
                lengths,
                &arrivals,
            ))
        };
        // Single steps cost the same in both, and requests of one step are a chunk of any length.
        assert_eq!(run(&by_model, 1, &lengths), run(&by_table, 1, &lengths));
        assert_eq!(run(&by_model, 9, &ones), run(&by_table, 1, &ones));
    }
}

#[test]
fn whole_sequences_are_one_launch() {
    let kernels = persistent(RecurrentCell::Lstm, 256);
    let device = device(None, 1);
    let lengths = [7, 3, 5];
    let at_once = [Nanos::ZERO; 3];
    let end = |text: &str| served(&device, text, &lengths, &at_once).execution.end;
    let padded = "kind = 'padded'\nbucket_width = 10\nmax_batch = 8\npad_to = ";
    assert_eq!(end(&format!("{padded}'longest'")), kernels.runs(3, 7));
    let buckets = served(
        &device,
        &format!("{padded}'bucket'"),
        &[7, 3, 5, 12],
        &[Nanos::ZERO; 4],
    );
    assert_eq!(
        buckets.execution.end,
        kernels.runs(3, 10) + kernels.runs(1, 12)
    );
    assert_eq!(
        end("kind = 'cellular'\nmax_batch = 8\nchunk = 100"),
        kernels.runs(3, 7)
    );
    // Two launches of three steps and one of a single step; after each, one more request has left.
    let chunks = kernels.runs(3, 3) + kernels.runs(2, 3) + kernels.runs(1, 1);
    assert_eq!(end("kind = 'cellular'\nmax_batch = 8\nchunk = 3"), chunks);
}

#[test]
fn a_stage_is_one_launch_and_so_is_the_window_of_the_first() {
    let (kernels, device) = (persistent(RecurrentCell::Lstm, 256), device(None, 1));
    let staged = "kind = 'dvabatch'\nmax_batch = 8\nsteps = 4\nwindow = ";
    let end = |window: &str| {
        served(&device, &format!("{staged}{window}"), &[7], &[Nanos::ZERO])
            .execution
            .end
    };
    let stages = kernels.runs(1, 4) + kernels.runs(1, 3);
    assert_eq!(end("'0ns'"), stages);
    assert_eq!(end("'first-stage'"), kernels.runs(8, 4) + stages);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, rng_seed: RngSeed::Fixed(1), failure_persistence: None, ..ProptestConfig::default() })]

    /// For all sizes the same mappings are valid, cost the same up to rounding of the last bits, and are sorted by
    /// cost.
    #[test]
    fn a_second_implementation_agrees(
        lstm in any::<bool>(), hidden in 1u32..1100, batch in 1u32..48, widest in 1u32..100, uneven in any::<bool>()
    ) {
        let cell = if lstm { RecurrentCell::Lstm } else { RecurrentCell::Gru };
        let space = Space { widest, uneven };
        let ours = rank(cell, hidden, batch, &titan_v(), &space);
        let mut theirs = naive(lstm, u64::from(hidden), u64::from(batch), u64::from(widest), uneven);
        prop_assert_eq!(ours.len(), theirs.len());
        // The same mappings at the same costs, by name.
        let key = |one: &Configuration| (one.width, one.height, one.groups, one.size, one.barriers);
        theirs.sort_by_key(key);
        let mut named: Vec<&RankedMapping> = ours.iter().collect();
        named.sort_by_key(|one| (one.mapping, one.rnn.synchronisations()));
        for (ours, theirs) in named.iter().zip(&theirs) {
            let Mapping { tile_width, tile_height, groups, group_size } = ours.mapping;
            let mapping = [tile_width, tile_height, groups, group_size, ours.rnn.synchronisations()].map(u64::from);
            prop_assert_eq!(mapping, [theirs.width, theirs.height, theirs.groups, theirs.size, theirs.barriers]);
            let sizes = RnnSizes { rnn: ours.rnn, hidden, batch };
            prop_assert_eq!(u64::from(ours.mapping.blocks(&sizes)), theirs.blocks);
            // A hundredth for each of the two terms that were rounded differently.
            let cost = ours.cost.total();
            prop_assert!((cost - theirs.cost).abs() < 0.020_001, "{} {}", cost, theirs.cost);
        }
        for pair in ours.windows(2) {
            let place = |one: &RankedMapping| (one.mapping, one.rnn.synchronisations());
            let costs = [pair[0].cost.total(), pair[1].cost.total()];
            prop_assert!(costs[0] < costs[1] || (costs[0] == costs[1] && place(&pair[0]) < place(&pair[1])));
        }
    }
}
