//! The claims about the TreeLSTM (section 7.5).

use crate::figures::{Claim, Kind, Verdict};
use crate::metrics::figure::Figure;

pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        id: "bm-tree-1k",
        kind: Kind::Sim,
        place: "7.5",
        what: "BatchMaker: p90 latency at 1,000 req/s",
        paper: "6.8 ms",
        exhibits: &["fig14"],
        check: |found| {
            let p90 = |policy| found.series("fig14", policy)?.at("1000", Figure::P90);
            Ok(Verdict::near(p90("BatchMaker")?, 6.8, "ms", p90("BatchMaker")? < p90("DyNet")?))
        },
        reason: "",
    },
    Claim {
        id: "bm-tree-1k-dynet",
        kind: Kind::Sim,
        place: "7.5",
        what: "DyNet: p90 latency at 1,000 req/s",
        paper: "9.5 ms",
        exhibits: &["fig14"],
        check: |found| {
            let p90 = |policy| found.series("fig14", policy)?.at("1000", Figure::P90);
            Ok(Verdict::near(p90("DyNet")?, 9.5, "ms", p90("BatchMaker")? < p90("DyNet")?))
        },
        reason: "",
    },
    Claim {
        id: "bm-tree-peak",
        kind: Kind::Sim,
        place: "7.5",
        what: "BatchMaker: peak throughput",
        paper: "3,100 req/s",
        exhibits: &["fig14"],
        check: |found| {
            let peak = |policy| Ok(found.series("fig14", policy)?.peak());
            let (ours, dynet): (f64, f64) = (peak("BatchMaker")?, peak("DyNet")?);
            Ok(Verdict::near(ours, 3_100.0, "req/s", ours > dynet))
        },
        reason: "",
    },
    Claim {
        id: "bm-tree-peak-dynet",
        kind: Kind::Sim,
        place: "7.5",
        what: "DyNet: peak throughput",
        paper: "2,100 req/s",
        exhibits: &["fig14"],
        check: |found| {
            let peak = |policy| Ok(found.series("fig14", policy)?.peak());
            let (ours, dynet, fold): (f64, f64, f64) = (peak("BatchMaker")?, peak("DyNet")?, peak("Fold")?);
            Ok(Verdict::near(dynet, 2_100.0, "req/s", fold < dynet && dynet < ours))
        },
        reason: "",
    },
    Claim {
        id: "bm-tree-fold",
        kind: Kind::Sim,
        place: "7",
        what: "BatchMaker: peak throughput over that of TensorFlow Fold",
        paper: "4 x",
        exhibits: &["fig14"],
        check: |found| {
            let (ours, fold) = (found.series("fig14", "BatchMaker")?, found.series("fig14", "Fold")?);
            let gain = ours.peak() / fold.peak();
            let cut = 100.0 * (1.0 - ours.at("500", Figure::P90)? / fold.at("500", Figure::P90)?);
            Ok(Verdict::near(gain, 4.0, "x", gain > 1.0)
                .with(&format!("; p90 latency cut by {cut:.0} % at 500 req/s (paper 87 %)")))
        },
        reason: "",
    },
    Claim {
        id: "bm-fig15",
        kind: Kind::Sim,
        place: "7.5",
        what: "complete trees of 16 leaves: BatchMaker's peak below that of the ideal, whose latency is above BatchMaker's and DyNet's",
        paper: "30 %",
        exhibits: &["fig15"],
        check: |found| {
            let series = |policy| found.series("fig15", policy);
            let below = 100.0 * (1.0 - series("BatchMaker")?.peak() / series("Ideal")?.peak());
            let p90 = |policy| series(policy)?.at("500", Figure::P90);
            let slower = p90("Ideal")? > p90("BatchMaker")? && p90("Ideal")? > p90("DyNet")?;
            Ok(Verdict::near(below, 30.0, "%", below > 0.0 && slower))
        },
        reason: "",
    },
];
