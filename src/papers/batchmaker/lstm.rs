//! The claims about the LSTM (sections 7.2 and 7.3).

use crate::error::Result;
use crate::papers::{Claim, Findings, Kind, Series, Verdict};
use crate::results::columns::Metric;

const SAME_MODEL: &str = "The paper measures no step time between batches 64 and 512, and its p90 includes queueing in a real \
    server; ours has the table's straight line between them and no other delay";
const ROUND_ROBIN: &str = "By the rules of section 7.1 every bucket that is not empty sends when its turn comes, and a batch below 64 \
    takes as long as one of 64. A round over the 15 buckets of these lengths is then up to 1,200 steps, 0.22 s, however few \
    requests wait in the long ones, and the most frequent bucket sends 512 a round at most. The paper's baselines do better \
    than these rules allow";

pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        id: "bm-lstm-lat-flat",
        kind: Kind::Sim,
        place: "7.2",
        what: "BatchMaker: p90 latency, unchanged below 8,000 req/s",
        paper: "12 ms",
        exhibits: &["fig7a"],
        check: |found| {
            let (lowest, highest) = flat_p90(found)?;
            Ok(Verdict::near(highest, 12.0, "ms", highest < 1.25 * lowest))
        },
        reason: SAME_MODEL,
    },
    Claim {
        id: "bm-lstm-lat-base",
        kind: Kind::Sim,
        place: "7.2",
        what: "MXNet and TensorFlow: smallest p90 latency",
        paper: "25 ms",
        exhibits: &["fig7a"],
        check: |found| {
            let p90 = baselines(found)?.into_iter().flat_map(|series| series.figure(Metric::P90));
            let smallest = p90.map(|(_, p90)| p90).fold(f64::INFINITY, f64::min);
            Ok(Verdict::near(smallest, 25.0, "ms", smallest > flat_p90(found)?.1))
        },
        reason: "The smallest is that of the lowest load, and the paper does not say what its lowest was; ours is 1,000 req/s. At \
            250 req/s it is 25 ms (TensorFlow; MXNet 30), and a request alone needs 9 ms, so the claim fixes nothing in the model",
    },
    Claim {
        id: "bm-lstm-peak",
        kind: Kind::Sim,
        place: "7.2",
        what: "BatchMaker: peak throughput",
        paper: "20,000 req/s",
        exhibits: &["fig7a"],
        check: |found| {
            let (ours, theirs) = (found.series("fig7a", "BatchMaker")?.peak(), best_peak(found)?);
            Ok(Verdict::near(ours, 20_000.0, "req/s", ours > theirs))
        },
        reason: "At batch 512 a step is 784 + 117 µs, so 512 / 901 µs / 24.6 words is 23,100 req/s. The paper's own step times \
            leave room for 23,700 at its mean of 24; what its server loses beyond scheduling and gathering is not stated",
    },
    Claim {
        id: "bm-lstm-peak-base",
        kind: Kind::Sim,
        place: "7.2",
        what: "MXNet and TensorFlow: load at which the p90 latency passes 500 ms",
        paper: "16,000 req/s",
        exhibits: &["fig7a"],
        check: |found| {
            let passes = |policy: &str| Ok(found.series("fig7a", policy)?.rate_at_p90(500.0).unwrap_or(f64::INFINITY));
            let (theirs, ours) = (passes("MXNet")?, passes("BatchMaker")?);
            Ok(Verdict::near(theirs, 16_000.0, "req/s", theirs < ours))
        },
        reason: ROUND_ROBIN,
    },
    Claim {
        id: "bm-lstm-gain",
        kind: Kind::Sim,
        place: "7",
        what: "BatchMaker: peak throughput over that of MXNet and TensorFlow",
        paper: "1.25 x",
        exhibits: &["fig7a"],
        check: |found| {
            let ours = found.series("fig7a", "BatchMaker")?;
            let gain = ours.peak() / best_peak(found)?;
            let mut within: f64 = 0.0;
            for series in baselines(found)? {
                within = within.max(series.peak_within(500.0));
            }
            let at_500 = ours.peak_within(500.0) / within;
            Ok(Verdict::near(gain, 1.25, "x", gain > 1.0).with(&format!(" ({at_500:.2} x at a p90 of at most 500 ms)")))
        },
        reason: "The baselines saturate earlier here (see bm-lstm-peak-base), so that the gain is larger",
    },
    Claim {
        id: "bm-lstm-cut",
        kind: Kind::Sim,
        place: "7",
        what: "BatchMaker: cut of the p90 latency below half of the baselines' peak",
        paper: "37.5 to 90.5 %",
        exhibits: &["fig7a"],
        check: |found| {
            let cuts =
                found.series("fig7a", "BatchMaker")?.cuts(Metric::P90, &baselines(found)?, best_peak(found)? / 2.0);
            Ok(Verdict::range(cuts.range(), (37.5, 90.5), "%", cuts.least > 0.0))
        },
        reason: "The upper end agrees. The lower end is higher here because the baselines' latency at low load is higher (see \
            bm-lstm-lat-base): at 1,000 req/s a request already finds 7 or 8 others in its batch and waits for other buckets' batches",
    },
    Claim {
        id: "bm-bmax",
        kind: Kind::Sim,
        place: "7.2",
        what: "maximum batch 512 against 64: same latency at low and moderate load, much higher peak",
        paper: "true",
        exhibits: &["fig7b", "fig7a"],
        check: |found| {
            let (large, small) = (found.series("fig7a", "BatchMaker")?, found.series("fig7b", "BatchMaker")?);
            let (mut worst, mut compared) = (0.0f64, 0);
            for point in ["1000", "2000", "3000", "4000", "5000", "6000", "8000"] {
                let ratio = large.at(point, Metric::P90)? / small.at(point, Metric::P90)?;
                worst = worst.max((ratio - 1.0).abs());
                compared += 1;
            }
            let peaks = (large.peak(), small.peak());
            Ok(Verdict::order(
                worst < 0.05 && peaks.0 > 1.5 * peaks.1,
                format!(
                    "p90 within {:.1} % at {compared} rates; peak {:.0} and {:.0} req/s",
                    worst * 100.0,
                    peaks.0,
                    peaks.1
                ),
            ))
        },
        reason: "",
    },
    Claim {
        id: "bm-fig8",
        kind: Kind::Sim,
        place: "Fig. 8",
        what: "bucket width 40: lower latency at low load, lower peak; width 1: highest peak, higher latency; 10 in between",
        paper: "true",
        exhibits: &["fig8"],
        check: |found| {
            let mut low = Vec::new();
            let mut peak = Vec::new();
            for width in ["MXNet bw-1", "MXNet bw-10", "MXNet bw-40"] {
                let series = found.series("fig8", width)?;
                low.push(series.at("1000", Metric::P90)?);
                peak.push(series.peak());
            }
            Ok(Verdict::order(
                low.is_sorted_by(|a, b| a > b) && peak.is_sorted_by(|a, b| a > b),
                format!(
                    "widths 1, 10, 40: p90 {:.0}, {:.0}, {:.0} ms at 1,000 req/s; peak {:.0}, {:.0}, {:.0} req/s",
                    low[0], low[1], low[2], peak[0], peak[1], peak[2]
                ),
            ))
        },
        reason: "",
    },
    Claim {
        id: "bm-queue99",
        kind: Kind::Sim,
        place: "7.3",
        what: "BatchMaker: p99 queueing time at 5,000 req/s",
        paper: "1.38 ms",
        exhibits: &["fig9"],
        check: |found| {
            let ours = found.series("fig9", "BatchMaker")?.at("5000", Metric::QueueP99)?;
            Ok(Verdict::near(ours, 1.38, "ms", ours < least_queue(found)?))
        },
        reason: SAME_MODEL,
    },
    Claim {
        id: "bm-queue99-base",
        kind: Kind::Sim,
        place: "7.3",
        what: "MXNet and TensorFlow: p99 queueing time at 5,000 req/s",
        paper: "above 100 ms",
        exhibits: &["fig9"],
        check: |found| Ok(Verdict::above(least_queue(found)?, 100.0, "ms")),
        reason: "",
    },
    Claim {
        id: "bm-fixed-ideal",
        kind: Kind::Sim,
        place: "7.3",
        what: "throughput of graph batching at fixed length 24, without padding",
        paper: "27,136 req/s",
        exhibits: &["fig11a"],
        check: |found| {
            let theirs = found.series("fig11a", "TensorFlow")?.peak();
            Ok(Verdict::near(theirs, 27_136.0, "req/s", theirs > found.series("fig11a", "BatchMaker")?.peak()))
        },
        reason: "",
    },
    Claim {
        id: "bm-fixed",
        kind: Kind::Sim,
        place: "7.3",
        what: "BatchMaker at fixed length 24 over the ideal",
        paper: "0.87",
        exhibits: &["fig11a"],
        check: |found| {
            let share = found.series("fig11a", "BatchMaker")?.peak() / 27_136.0;
            Ok(Verdict::near(share, 0.87, "", share < 1.0).derived())
        },
        reason: "The cost of scheduling and gathering at batch 512 was made from this figure, so it confirms nothing. It comes out \
            higher, since a task pays only when its members change (section 4.3): in deep overload requests of one length enter and \
            leave together, so that some tasks need no gathering",
    },
    Claim {
        id: "bm-fig11",
        kind: Kind::Sim,
        place: "Fig. 11",
        what: "as the lengths vary more (24; up to 50; up to 100) the baselines lose latency and throughput; BatchMaker keeps its latency",
        paper: "true",
        exhibits: &["fig11c", "fig11a", "fig11b"],
        check: |found| {
            let mut latency = Vec::new();
            let mut throughput = Vec::new();
            let mut ours = Vec::new();
            for figure in ["fig11a", "fig11b", "fig11c"] {
                let mxnet = found.series(figure, "MXNet")?;
                latency.push(mxnet.at("8000", Metric::P90)?);
                throughput.push(mxnet.peak_within(500.0));
                ours.push(found.series(figure, "BatchMaker")?.at("8000", Metric::P90)?);
            }
            Ok(Verdict::order(
                latency.is_sorted_by(|a, b| a < b)
                    && throughput.is_sorted_by(|a, b| a > b)
                    && ours[2] < 1.25 * ours[1]
                    && ours[2] < 12.0,
                format!(
                    "MXNet: p90 {:.0}, {:.0}, {:.0} ms at 8,000 req/s, {:.0}, {:.0}, {:.0} req/s within 500 ms; BatchMaker: p90 \
                     {:.1}, {:.1}, {:.1} ms",
                    latency[0],
                    latency[1],
                    latency[2],
                    throughput[0],
                    throughput[1],
                    throughput[2],
                    ours[0],
                    ours[1],
                    ours[2]
                ),
            ))
        },
        reason: "",
    },
];

/// The baselines of Figure 7a.
fn baselines(found: &Findings) -> Result<[Series<'_>; 2]> {
    Ok([found.series("fig7a", "MXNet")?, found.series("fig7a", "TensorFlow")?])
}

/// The highest throughput of either baseline of Figure 7a at any load.
fn best_peak(found: &Findings) -> Result<f64> {
    Ok(baselines(found)?.iter().map(Series::peak).fold(0.0, f64::max))
}

/// BatchMaker's lowest and highest 90th percentile up to 8,000 req/s.
fn flat_p90(found: &Findings) -> Result<(f64, f64)> {
    let p90 = found.series("fig7a", "BatchMaker")?.figure(Metric::P90);
    let below = p90.filter(|(rate, _)| *rate <= 8_000.0).map(|(_, p90)| p90);
    Ok(below.fold((f64::INFINITY, 0.0), |(low, high), p90| (low.min(p90), high.max(p90))))
}

/// The shorter of the baselines' 99th percentiles of queueing at 5,000 req/s.
fn least_queue(found: &Findings) -> Result<f64> {
    let queue = |policy| found.series("fig9", policy)?.at("5000", Metric::QueueP99);
    Ok(queue("MXNet")?.min(queue("TensorFlow")?))
}
