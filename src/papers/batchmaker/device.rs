//! The claims about the example of Figure 5 and about single steps on a V100.

use std::fs;

use crate::error::{Error, Result};
use crate::papers::{Claim, Findings, Kind, Verdict};
use crate::results::columns::Metric;

pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        id: "bm-fig5-graph",
        kind: Kind::Exact,
        place: "Fig. 5",
        what: "finish of the first and of the second graph batch",
        paper: "5; 12 steps",
        exhibits: &["fig5"],
        check: |found| {
            let mut ends = finish_steps(found, "Graph batching")?;
            ends.dedup();
            Ok(Verdict::exact(&ends, &[5.0, 12.0], "steps"))
        },
        reason: "",
    },
    Claim {
        id: "bm-fig5-cell",
        kind: Kind::Exact,
        place: "Fig. 5",
        what: "the first three requests to leave under cellular batching",
        paper: "2; 3; 3 steps",
        exhibits: &["fig5"],
        check: |found| {
            let finish = finish_steps(found, "Cellular batching")?;
            Ok(Verdict::exact(&finish[..3.min(finish.len())], &[2.0, 3.0, 3.0], "steps"))
        },
        reason: "",
    },
    Claim {
        id: "bm-v100-64",
        kind: Kind::Input,
        place: "7.3",
        what: "an LSTM step at batch 64; smaller batches take about as long",
        paper: "185 µs",
        exhibits: &["fig3"],
        check: |found| {
            let flat = step_us(found, "One step", 2)? == step_us(found, "One step", 64)?;
            Ok(Verdict::near(step_us(found, "One step", 64)?, 185.0, "µs", flat))
        },
        reason: "",
    },
    Claim {
        id: "bm-v100-512",
        kind: Kind::Input,
        place: "7.3",
        what: "an LSTM step at batch 512; above it the time doubles with the batch",
        paper: "784 µs",
        exhibits: &["fig3"],
        check: |found| {
            let step = |batch| step_us(found, "One step", batch);
            let doubles =
                (step(2048)? / step(1024)? - 2.0).abs() < 0.02 && (step(1024)? / step(512)? - 2.0).abs() < 0.02;
            Ok(Verdict::near(step(512)?, 784.0, "µs", doubles))
        },
        reason: "",
    },
    Claim {
        id: "bm-v100-64-real",
        kind: Kind::Input,
        place: "7.3",
        what: "an LSTM step at batch 64 with scheduling and gathering",
        paper: "250 µs",
        exhibits: &["fig3"],
        check: |found| Ok(Verdict::near(step_us(found, "BatchMaker", 64)?, 250.0, "µs", true)),
        reason: "",
    },
];

/// The time of one step at a batch size, in microseconds: the median latency of so many clients in a closed loop.
fn step_us(found: &Findings, policy: &str, batch: u32) -> Result<f64> {
    Ok(1e3 * found.series("fig3", policy)?.at(&format!("clients-{batch}"), Metric::P50)?)
}

/// When the requests of figure 5 finish, in steps of a millisecond, ascending.
fn finish_steps(found: &Findings, policy: &str) -> Result<Vec<f64>> {
    let path = found.folder("fig5")?.join(policy).join("trace").join("requests.csv");
    let text = fs::read_to_string(&path).map_err(|cause| Error::unreadable(&path, &cause))?;
    let mut steps: Vec<f64> = text
        .lines()
        .skip(1)
        .filter_map(|line| line.rsplit(',').next()?.parse::<u64>().ok())
        .map(|ns| ns as f64 / 1e6)
        .collect();
    steps.sort_by(f64::total_cmp);
    Ok(steps)
}
