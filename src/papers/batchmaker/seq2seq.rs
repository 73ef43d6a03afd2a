//! The claims about Seq2Seq on several GPUs (section 7.4).

use crate::cost::CostModel as _;
use crate::cost::table::{CostTable, Overhead};
use crate::error::{Error, Result};
use crate::files::folder_name;
use crate::papers::{Claim, Findings, Kind, Series, Verdict};
use crate::results::columns::Metric;
use crate::results::read::CsvFile;
use crate::task::Step;
use crate::units::CellId;

/// The figures on 2 and on 4 GPUs.
const BOTH: [&str; 2] = ["fig13a", "fig13b"];
/// 512 encoder and 256 decoder cells in a batch, and 256 of both.
const WIDE: &str = "BatchMaker-512,256";
const EVEN: &str = "BatchMaker-256,256";

const SHORTER_WAITS: &str = "The upper end agrees. The lower end is that of the lowest loads: there the paper's baselines \
    are hardly slower than BatchMaker, while by the rules of section 7.1 a request waits for batches of the other buckets, each as \
    long as its longest sentence (see bm-lstm-peak-base)";

pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        id: "bm-s2s-2gpu",
        kind: Kind::Sim,
        place: "7.4",
        what: "BatchMaker: peak throughput on 2 GPUs",
        paper: "8,500 req/s",
        exhibits: &["fig13a"],
        check: |found| {
            let ours = found.series("fig13a", WIDE)?.peak();
            Ok(Verdict::near(ours, 8_500.0, "req/s", ours > best_peak(found, "fig13a")?))
        },
        reason: "",
    },
    Claim {
        id: "bm-s2s-4gpu",
        kind: Kind::Sim,
        place: "7.4",
        what: "BatchMaker: peak throughput on 4 GPUs, twice that on 2",
        paper: "17,000 req/s",
        exhibits: &["fig13b", "fig13a"],
        check: |found| {
            let (two, four) = (found.series("fig13a", WIDE)?.peak(), found.series("fig13b", WIDE)?.peak());
            Ok(Verdict::near(four, 17_000.0, "req/s", four > 1.9 * two && four > best_peak(found, "fig13b")?))
        },
        reason: "",
    },
    Claim {
        id: "bm-s2s-gain",
        kind: Kind::Sim,
        place: "7",
        what: "BatchMaker: peak throughput over that of MXNet and TensorFlow (2 and 4 GPUs)",
        paper: "1.60 x",
        exhibits: &["fig13a", "fig13b"],
        check: |found| {
            let gain = |figure| Ok(found.series(figure, WIDE)?.peak() / best_peak(found, figure)?);
            let (two, four): (f64, f64) = (gain("fig13a")?, gain("fig13b")?);
            Ok(Verdict::near((two + four) / 2.0, 1.6, "x", two.min(four) > 1.0)
                .with(&format!(" (mean of {two:.2} x and {four:.2} x)")))
        },
        reason: "The baselines pad sources and targets, and saturate earlier than the paper's (see bm-lstm-peak-base)",
    },
    Claim {
        id: "bm-s2s-cut",
        kind: Kind::Sim,
        place: "7",
        what: "BatchMaker: cut of the p90 latency below half of the baselines' peak (2 and 4 GPUs)",
        paper: "17.5 to 82.6 %",
        exhibits: &["fig13a", "fig13b"],
        check: |found| {
            let (mut least, mut most) = (f64::INFINITY, f64::NEG_INFINITY);
            for figure in BOTH {
                let half = best_peak(found, figure)? / 2.0;
                let cuts = found.series(figure, WIDE)?.cuts(Metric::P90, &baselines(found, figure)?, half);
                (least, most) = (least.min(cuts.least), most.max(cuts.most));
            }
            Ok(Verdict::range((least, most), (17.5, 82.6), "%", least > 0.0))
        },
        reason: SHORTER_WAITS,
    },
    Claim {
        id: "bm-s2s-512-256",
        kind: Kind::Sim,
        place: "7.4",
        what: "gain of 512 for encoders and 256 for decoders over 256 for both (mean of 2 and 4 GPUs)",
        paper: "3.5 to 6 %",
        exhibits: &["fig13b", "fig13a"],
        check: |found| {
            let gain = |figure| Ok(found.series(figure, WIDE)?.peak() / found.series(figure, EVEN)?.peak());
            let gains: [f64; 2] = [gain("fig13a")?, gain("fig13b")?];
            let mean = 100.0 * ((gains[0] + gains[1]) / 2.0 - 1.0);
            Ok(Verdict::inside(mean, (3.5, 6.0), "%", gains[0].min(gains[1]) > 1.0))
        },
        reason: "",
    },
    Claim {
        id: "bm-s2s-share",
        kind: Kind::Input,
        place: "7.4",
        what: "share of the decoding phase in the computation",
        paper: "75 %",
        exhibits: &["fig13a"],
        check: |found| {
            let share = 100.0 * decoding_share(found, "fig13a", EVEN, "9000")?;
            Ok(Verdict::near(share, 75.0, "%", share > 50.0))
        },
        reason: "",
    },
];

fn baselines<'a>(found: &'a Findings, figure: &str) -> Result<[Series<'a>; 2]> {
    Ok([found.series(figure, "MXNet")?, found.series(figure, "TensorFlow")?])
}

/// The highest throughput of either baseline at any load.
fn best_peak(found: &Findings, figure: &str) -> Result<f64> {
    Ok(baselines(found, figure)?.iter().map(Series::peak).fold(0.0, f64::max))
}

/// The share of decoder cells in the time of all cells that a run executed, by the cost table.
fn decoding_share(found: &Findings, figure: &str, policy: &str, point: &str) -> Result<f64> {
    let scenario = found.scenario(figure)?;
    let table = scenario.device.costs.as_ref().ok_or_else(|| Error::input(format!("{figure}: no cost table")))?;
    let cells = scenario.workload.model.cell_types();
    let device = CostTable::read(table)?.device(&cells, Overhead::default())?;
    let path = found.folder(figure)?.join(folder_name(policy)).join(point).join("batches.csv");
    let mut rows = CsvFile::open(&path)?;
    let (name, batch, tasks) = (rows.column("cell")?, rows.column("batch")?, rows.column("tasks")?);
    let (mut decoding, mut all) = (0.0, 0.0);
    while let Some(row) = rows.read()? {
        let known = cells.iter().position(|cell| cell.name == row.text(name));
        let cell = CellId(known.ok_or_else(|| row.error(name, "is no cell of the model"))? as u16);
        let step = Step { cell, batch: row.needed(batch)? as u32, times: 1, input: 0 };
        let time = device.cell(&step).0 as f64 * row.needed(tasks)? as f64;
        all += time;
        if row.text(name) == "decoder" {
            decoding += time;
        }
    }
    Ok(decoding / all)
}
