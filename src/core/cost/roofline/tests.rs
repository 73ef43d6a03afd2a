use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::base::precision::Precision;
use crate::base::units::{CellId, Nanos, Share};
use crate::core::cost::CostModel;
use crate::core::cost::curve::{Best, LARGEST, preferred_batch};
use crate::core::cost::table::{CostTable, Overhead, TableCosts};
use crate::core::task::Step;
use crate::core::workload::dnn::{Dnn, Form, FormKind, QueryWork, SizeByTokens};
use crate::core::workload::model::Model;
use crate::core::workload::operator::Sizes;

const TITAN_RTX: &str = include_str!("../../../../scenarios/devices/titan-rtx.toml");

/// Two multiprocessors, one tile shape, 8 operations and 4 bytes per ns.
const SMALL: &str = "name = \"small\"\nmultiprocessors = 2\nbandwidth_mb_s = 4000\nlaunch_ns = 100\nlatency_ns = 10\n\
                     [f32]\npeak_gflops = 8\nbytes = 4\ntiles = [{ rows = 4, columns = 4, efficiency = 50 }]\n";

fn titan_rtx() -> Roofline {
    Roofline::parse(TITAN_RTX, "titan-rtx.toml", Precision::F32).unwrap()
}

fn small() -> Roofline {
    Roofline::parse(SMALL, "small.toml", Precision::F32).unwrap()
}

fn product(rows: u64, inner: u64, columns: u64) -> QueryWork {
    QueryWork {
        kind: FormKind::Matmul,
        count: 1,
        rows,
        inner,
        columns,
        elements: rows * (inner + columns),
    }
}

#[test]
fn the_products_of_figure_5_prefer_1_and_8() {
    let device = titan_rtx();
    let [a, b] = [product(3136, 576, 64), product(49, 576, 512)];
    let time = |work: &QueryWork, batch| device.busy(work, batch).0;
    assert_eq!(preferred_batch(|batch| device.busy(&a, batch)), 1);
    assert_eq!(preferred_batch(|batch| device.busy(&b, batch)), 8);
    // "Using a batch size smaller than 8 is not able to fully utilize a GPU."
    assert!(
        [1, 2, 4]
            .iter()
            .all(|batch| 2 * time(&b, 2 * batch) < 3 * time(&b, *batch))
    );
    assert!(4 * time(&b, 16) >= 7 * time(&b, 8));
    // "Batching only increases its latency": by nearly as much as the batch.
    assert!(
        4 * time(&a, 2) >= 7 * time(&a, 1),
        "{} {}",
        time(&a, 1),
        time(&a, 2)
    );
}

#[test]
fn time_is_waves_of_tiles_or_what_is_moved() {
    let device = small();
    // 160 operations in 4 x 4 tiles; 2 per ns and multiprocessor.
    let work = QueryWork {
        elements: 1,
        ..product(4, 5, 8)
    };
    assert_eq!(
        device.busy(&work, 1),
        Nanos(80),
        "two tiles on two multiprocessors: one wave"
    );
    assert_eq!(device.busy(&work, 2), Nanos(160));
    assert_eq!(
        device.busy(&QueryWork { rows: 5, ..work }, 1),
        Nanos(160),
        "four tiles, two of them nearly empty"
    );
    let own = QueryWork {
        kind: FormKind::BatchedMatmul,
        rows: 1,
        columns: 1,
        count: 3,
        ..work
    };
    assert_eq!(
        [1, 2, 3].map(|batch| device.busy(&own, batch).0),
        [160, 240, 400],
        "3, 6 and 9 tiles"
    );
    let wide = QueryWork {
        elements: 100,
        ..work
    };
    assert_eq!([1, 2].map(|batch| device.busy(&wide, batch).0), [140, 240]);
    let memory = QueryWork {
        kind: FormKind::Memory,
        count: 0,
        rows: 0,
        inner: 0,
        columns: 0,
        elements: 3,
    };
    assert_eq!(
        [1, 10].map(|batch| device.busy(&memory, batch).0),
        [10, 30],
        "at least the latency"
    );
}

#[test]
fn a_long_inner_dimension_is_divided_between_blocks() {
    let with = |slice: &str| {
        let text = SMALL.replace("bytes = 4\n", &format!("bytes = 4\n{slice}\n"));
        Roofline::parse(&text, "small.toml", Precision::F32)
            .unwrap()
            .busy(&product(1, 4000, 4), 1)
    };
    // One tile on one of two multiprocessors.
    assert_eq!(with(""), Nanos(64_000));
    assert_eq!(with("slice = 2001"), Nanos(64_000));
    // Two slices on both; then a launch, and 3 times 4 numbers to add up.
    assert_eq!(with("slice = 2000"), Nanos(32_000 + 100 + 12));
    assert_eq!(
        with("slice = 1"),
        Nanos(32_000 + 100 + 12),
        "more slices than multiprocessors gain nothing"
    );
}

#[test]
fn a_table_replaces_the_roofline_for_its_cells() {
    let text = "shape,tokens,64\nname,kind,rows,inner,columns,elements\na,matmul,tokens,4,4,8*tokens\nb,memory,,,,100\n";
    let network = Dnn::parse("n.csv", Path::new("n.csv"), text).unwrap();
    let model = Model::Network(Arc::new(network));
    let device = Arc::new(small());
    let of = |table: CostTable| {
        let table = table
            .or_computed(&device, &model, &Sizes::square(1))
            .unwrap();
        table
            .costs_for(&model.cell_types(), Overhead::default())
            .unwrap()
    };
    let time = |costs: &TableCosts, cell, batch, input| {
        costs.cell(&Step {
            cell: CellId(cell),
            batch,
            times: 1,
            input,
        })
    };
    let computed = of(CostTable::empty());
    // 16 operations per row of the tile's 4, or 32 bytes per token and 64 of weights.
    assert_eq!(time(&computed, 0, 1, 8), Nanos(100 + 80));
    assert_eq!(time(&computed, 1, 3, 0), Nanos(100 + 300));
    assert_eq!(computed.measured_batches(CellId(0)), 1..=u32::MAX);
    let measured = of(CostTable::parse("cell,batch,ns\nb,1,7\nb,2,8\n", "t").unwrap());
    assert_eq!(time(&measured, 0, 1, 8), Nanos(180));
    assert_eq!(time(&measured, 1, 2, 0), Nanos(8));
    assert_eq!(time(&computed, 0, 1, 8), Nanos(180));
    let bounds = computed.best(CellId(0), 8, 1_000);
    let least = (1..=1_000)
        .map(|batch| time(&computed, 0, batch, 8).0 as f64 / f64::from(batch))
        .fold(f64::MAX, f64::min);
    assert!(
        bounds.time == Nanos(180) && bounds.share_ns <= least,
        "{bounds:?} {least}"
    );
}

#[test]
fn cells_with_known_operators_need_no_table() {
    let device = Arc::new(titan_rtx());
    for name in ["lstm", "gru", "seq2seq", "tree-lstm", "childsum-tree-lstm"] {
        let model = Model::parse(name).unwrap();
        let table = CostTable::empty()
            .or_computed(&device, &model, &Sizes::square(1024))
            .unwrap();
        table
            .costs_for(&model.cell_types(), Overhead::default())
            .unwrap();
    }
    // An LSTM's gates: [batch, 2048] x [2048, 4096], then the elementwise kernel.
    let table = CostTable::empty()
        .or_computed(&device, &Model::Lstm, &Sizes::square(1024))
        .unwrap();
    let lstm = table
        .costs_for(&Model::Lstm.cell_types(), Overhead::default())
        .unwrap();
    let gates = QueryWork {
        elements: 2048 + 4096,
        ..product(1, 2048, 4096)
    };
    let time = lstm.cell(&Step {
        cell: CellId(0),
        batch: 512,
        times: 1,
        input: 0,
    });
    assert!(
        time > device.busy(&gates, 512) + device.launch * 2,
        "{time}"
    );
    let error = CostTable::empty()
        .or_computed(&device, &Model::Dnn("net".into()), &Sizes::square(1))
        .unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("the operators of the cell \"net\" of dnn:net are unknown"),
        "{error}"
    );
}

#[test]
fn demand_is_the_share_of_the_preferred_batch() {
    let rows = "cell,batch,ns\nlstm,1,10\nlstm,4,10\nlstm,8,20\n";
    let table = CostTable::parse(rows, "t")
        .unwrap()
        .costs_for(&Model::Lstm.cell_types(), Overhead::default())
        .unwrap();
    assert_eq!(table.preferred_batch(CellId(0), 0), Some(4));
    let demand = |batch| {
        table.demand(&Step {
            cell: CellId(0),
            batch,
            times: 1,
            input: 0,
        })
    };
    assert_eq!(
        [1, 3, 4, 9].map(demand),
        [1 << 30, 3 << 30, 1 << 32, 1 << 32].map(Share)
    );
    assert_eq!(
        preferred_batch(|_| Nanos(5)),
        LARGEST,
        "a device that is never full"
    );
}

#[test]
fn a_device_file_is_checked() {
    for (right, wrong, problem) in [
        (
            "multiprocessors = 2",
            "multiprocessors = 0",
            "d.toml: multiprocessors: 0 is out of range; a whole number from 1 to ",
        ),
        (
            "peak_gflops = 8",
            "peak_gflops = 0",
            "d.toml: f32.peak_gflops: 0 is out of range",
        ),
        (
            "efficiency = 50",
            "efficiency = 101",
            "d.toml: f32.tiles[0].efficiency: 101 is out of range; a whole number from 1 to 100",
        ),
        (
            "rows = 4",
            "rows = 65537",
            "d.toml: f32.tiles[0].rows: 65537 is out of range; a whole number from 1 to 65536",
        ),
        (
            "launch_ns = 100",
            "launch = 100",
            "d.toml:4: unknown field `launch`",
        ),
        (
            "bytes = 4",
            "bytes = \"4\"",
            "d.toml:8: invalid type: string \"4\"",
        ),
        (
            "bytes = 4",
            "bytes = 4\nslice = 0",
            "d.toml: f32.slice: 0 is out of range",
        ),
        (
            "[f32]",
            "[f16]",
            "d.toml: no table [f32], so the times in that precision are unknown",
        ),
        (
            "[{ rows = 4, columns = 4, efficiency = 50 }]",
            "[]",
            "d.toml: f32.tiles: empty; ",
        ),
    ] {
        let text = SMALL.replace(right, wrong);
        let error = Roofline::parse(&text, "d.toml", Precision::F32)
            .unwrap_err()
            .to_string();
        assert!(error.starts_with(problem), "{error}");
    }
}

#[test]
fn a_gpu_is_known_by_the_words_of_its_name() {
    let file = |gpu| Roofline::find_for_gpu(gpu).map(|(file, _)| file);
    assert_eq!(file("NVIDIA TITAN V"), Some("titan-v"));
    assert_eq!(file("Tesla V100-SXM2-16GB"), Some("v100"));
    assert_eq!(file("NVIDIA TITAN RTX"), Some("titan-rtx"));
    assert_eq!(file("NVIDIA GH200 480GB"), None);
    let (file, sheet) = Roofline::find_for_gpu("NVIDIA H200").unwrap();
    assert_eq!(
        (file, sheet.unit.peak_gflops, sheet.multiprocessors),
        ("h200", 66_908, 132)
    );
}

fn works() -> impl Strategy<Value = Form> {
    let kinds = prop_oneof![
        Just(FormKind::Matmul),
        Just(FormKind::BatchedMatmul),
        Just(FormKind::Memory)
    ];
    (
        kinds,
        1u64..20,
        1u64..5_000,
        1u64..50_000,
        1u64..5_000,
        0u64..1 << 24,
    )
        .prop_map(|(kind, count, rows, inner, columns, elements)| {
            let product = if kind == FormKind::Memory {
                [0; 4]
            } else {
                [count, rows, inner, columns]
            };
            let [count, rows, inner, columns] = product.map(SizeByTokens::constant);
            Form {
                kind,
                count,
                rows,
                inner,
                columns,
                elements: SizeByTokens::constant(elements),
            }
        })
}

proptest! {
    #[test]
    fn no_time_is_below_the_data_sheet_and_none_falls_with_the_batch(form in works(), batch in 1u32..300) {
        let (device, work) = (titan_rtx(), form.work(0));
        let time = device.busy(&work, batch);
        prop_assert!(time >= device.floor(&work, batch));
        prop_assert!(time <= device.busy(&work, batch + 1));
        prop_assert!(time.0 as f64 / f64::from(batch) >= device.share_ns(&work) * (1.0 - 1e-9));
        let kernels = RooflineKernels::new(Arc::new(device.clone()), vec![form]);
        prop_assert_eq!(kernels.time(batch, 0), device.launch + time);
        prop_assert_eq!(kernels.time(batch, 0), device.launch + time);
        prop_assert_eq!(kernels.preferred_batch(0), preferred_batch(|batch| device.busy(&work, batch)));
        let shares = (1..=batch.min(256)).map(|batch| Best::new(batch, kernels.time(batch, 0)).share_ns);
        let mut least = shares.fold(f64::INFINITY, f64::min);
        if batch > 256 {
            least = least.min(device.share_ns(&work));
        }
        for _ in 0..2 {
            prop_assert_eq!(kernels.best(0, batch), Best { time: kernels.time(1, 0), share_ns: least });
            kernels.best(0, 1);
        }
    }
}

impl Roofline {
    /// A lower bound: operations at the peak, traffic at the bandwidth.
    fn floor(&self, work: &QueryWork, batch: u32) -> Nanos {
        let computing = div_ceil(work.flops(batch), u128::from(self.unit.peak_gflops));
        let bytes = work.traffic(batch) * u128::from(self.unit.bytes);
        nanos(computing.max(div_ceil(bytes * 1000, u128::from(self.bandwidth_mb_s))))
    }
}
