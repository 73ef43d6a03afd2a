//! BatchMaker (*Low Latency RNN Inference with Cellular Batching*, EuroSys'18): the claims about the LSTM.

use std::fs;

use super::{Claim, Findings, Verdict};
use crate::error::{Error, Result};
use crate::metrics::figure::Figure;

const SAME_MODEL: &str = "The paper measures no step time between batches 64 and 512, and its p90 includes queueing in a real \
    server; ours has the table's straight line between them and no other delay";
const ROUND_ROBIN: &str = "By the rules of section 7.1 every bucket that is not empty sends when its turn comes, and a batch below 64 \
    takes as long as one of 64. A round over the 15 buckets of these lengths is then up to 1,200 steps, 0.22 s, however few \
    requests wait in the long ones, and the most frequent bucket sends 512 a round at most. The paper's baselines do better \
    than these rules allow";

/// The claims, in the paper's order.
pub const CLAIMS: &[Claim] = &[
    Claim {
        id: "bm-fig5-graph",
        place: "Fig. 5",
        what: "finish of the first and of the second graph batch",
        paper: "5; 12 steps",
        scenarios: &["fig5"],
        check: |found| {
            let finish = finish_steps(found, "Graph batching")?;
            let mut ends = finish.clone();
            ends.dedup();
            Ok(Verdict::exact(&ends, &[5.0, 12.0], "steps"))
        },
        reason: "",
    },
    Claim {
        id: "bm-fig5-cell",
        place: "Fig. 5",
        what: "the first three requests to leave under cellular batching",
        paper: "2; 3; 3 steps",
        scenarios: &["fig5"],
        check: |found| {
            let finish = finish_steps(found, "Cellular batching")?;
            Ok(Verdict::exact(&finish[..3.min(finish.len())], &[2.0, 3.0, 3.0], "steps"))
        },
        reason: "",
    },
    Claim {
        id: "bm-lstm-lat-flat",
        place: "7.2",
        what: "BatchMaker: p90 latency below 8,000 req/s",
        paper: "12 ms",
        scenarios: &["fig7a"],
        check: |found| {
            let p90 = found.series("fig7a", "BatchMaker")?.figure(Figure::P90);
            let highest = p90.filter(|(rate, _)| *rate <= 8_000.0).map(|(_, p90)| p90).fold(0.0, f64::max);
            Ok(Verdict::near(highest, 12.0, "ms"))
        },
        reason: SAME_MODEL,
    },
    Claim {
        id: "bm-lstm-lat-base",
        place: "7.2",
        what: "MXNet and TensorFlow: smallest p90 latency",
        paper: "25 ms",
        scenarios: &["fig7a"],
        check: |found| {
            let mut smallest = f64::INFINITY;
            for baseline in ["MXNet", "TensorFlow"] {
                let p90 = found.series("fig7a", baseline)?.figure(Figure::P90);
                smallest = p90.map(|(_, p90)| p90).fold(smallest, f64::min);
            }
            Ok(Verdict::near(smallest, 25.0, "ms"))
        },
        reason: "The smallest is that of the lowest load, and the paper does not say what its lowest was; ours is 1,000 req/s. At \
            250 req/s it is 25 ms (TensorFlow; MXNet 30), and a request alone needs 9 ms, so the claim fixes nothing in the model",
    },
    Claim {
        id: "bm-lstm-peak",
        place: "7.2",
        what: "BatchMaker: peak throughput",
        paper: "20,000 req/s",
        scenarios: &["fig7a"],
        check: |found| Ok(Verdict::near(found.series("fig7a", "BatchMaker")?.peak(), 20_000.0, "req/s")),
        reason: "At batch 512 a step is 784 + 117 µs, so 512 / 901 µs / 24.6 words is 23,100 req/s. The paper's own step times \
            leave room for 23,700 at its mean of 24; what its server loses beyond scheduling and gathering is not stated",
    },
    Claim {
        id: "bm-lstm-peak-base",
        place: "7.2",
        what: "MXNet and TensorFlow: load at which the p90 latency passes 500 ms",
        paper: "16,000 req/s",
        scenarios: &["fig7a"],
        check: |found| {
            let rate = found.series("fig7a", "MXNet")?.rate_at_p90(500.0).unwrap_or(f64::INFINITY);
            Ok(Verdict::near(rate, 16_000.0, "req/s"))
        },
        reason: ROUND_ROBIN,
    },
    Claim {
        id: "bm-lstm-gain",
        place: "7",
        what: "BatchMaker: throughput over MXNet and TensorFlow",
        paper: "1.25 x",
        scenarios: &["fig7a"],
        check: |found| {
            let best = baseline_peak(found, "fig7a")?;
            Ok(Verdict::near(found.series("fig7a", "BatchMaker")?.peak_within(500.0) / best, 1.25, "x"))
        },
        reason: "Peaks are those with a p90 latency of at most 500 ms. The baselines saturate earlier here (see \
            bm-lstm-peak-base), so that the gain is larger",
    },
    Claim {
        id: "bm-lstm-cut",
        place: "7",
        what: "BatchMaker: cut of the p90 latency below half of the baselines' peak",
        paper: "37.5 to 90.5 %",
        scenarios: &["fig7a"],
        check: |found| {
            let half = baseline_peak(found, "fig7a")? / 2.0;
            let ours: Vec<(f64, f64)> = found.series("fig7a", "BatchMaker")?.figure(Figure::P90).collect();
            let mut cuts: Vec<f64> = Vec::new();
            for baseline in ["MXNet", "TensorFlow"] {
                let theirs = found.series("fig7a", baseline)?.figure(Figure::P90);
                let pairs = ours.iter().zip(theirs).filter(|((rate, _), _)| *rate <= half);
                cuts.extend(pairs.map(|((_, ours), (_, theirs))| 100.0 * (1.0 - ours / theirs)));
            }
            let range = cuts.iter().fold((f64::INFINITY, 0.0f64), |(low, high), cut| (low.min(*cut), high.max(*cut)));
            Ok(Verdict::range(range, (37.5, 90.5), "%"))
        },
        reason: "The upper end agrees. The lower end is higher here because the baselines' latency at low load is higher (see \
            bm-lstm-lat-base)",
    },
    Claim {
        id: "bm-bmax",
        place: "7.2",
        what: "maximum batch 512 against 64: same latency at low and moderate load, much higher peak",
        paper: "true",
        scenarios: &["fig7a", "fig7b"],
        check: |found| {
            let (large, small) = (found.series("fig7a", "BatchMaker")?, found.series("fig7b", "BatchMaker")?);
            let (mut worst, mut compared) = (0.0f64, 0);
            for point in ["1000", "2000", "3000", "4000", "5000", "6000", "8000"] {
                let ratio = large.at(point, Figure::P90)? / small.at(point, Figure::P90)?;
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
        place: "Fig. 8",
        what: "bucket width 40: lower latency at low load, lower peak; width 1: highest peak, higher latency; 10 in between",
        paper: "true",
        scenarios: &["fig8"],
        check: |found| {
            let mut low = Vec::new();
            let mut peak = Vec::new();
            for width in ["MXNet bw-1", "MXNet bw-10", "MXNet bw-40"] {
                let series = found.series("fig8", width)?;
                low.push(series.at("1000", Figure::P90)?);
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
        place: "7.3",
        what: "BatchMaker: p99 queueing time at 5,000 req/s",
        paper: "1.38 ms",
        scenarios: &["fig9"],
        check: |found| Ok(Verdict::near(found.series("fig9", "BatchMaker")?.at("5000", Figure::QueueP99)?, 1.38, "ms")),
        reason: SAME_MODEL,
    },
    Claim {
        id: "bm-queue99-base",
        place: "7.3",
        what: "MXNet and TensorFlow: p99 queueing time at 5,000 req/s",
        paper: "above 100 ms",
        scenarios: &["fig9"],
        check: |found| {
            let (mxnet, tensorflow) = (found.series("fig9", "MXNet")?, found.series("fig9", "TensorFlow")?);
            let smaller = mxnet.at("5000", Figure::QueueP99)?.min(tensorflow.at("5000", Figure::QueueP99)?);
            Ok(Verdict::above(smaller, 100.0, "ms"))
        },
        reason: "",
    },
    Claim {
        id: "bm-fixed-ideal",
        place: "7.3",
        what: "throughput of graph batching at fixed length 24, without padding",
        paper: "27,136 req/s",
        scenarios: &["fig11a"],
        check: |found| Ok(Verdict::near(found.series("fig11a", "TensorFlow")?.peak(), 27_136.0, "req/s")),
        reason: "",
    },
    Claim {
        id: "bm-fixed",
        place: "7.3",
        what: "BatchMaker at fixed length 24 over the ideal",
        paper: "0.87",
        scenarios: &["fig11a"],
        check: |found| Ok(Verdict::near(found.series("fig11a", "BatchMaker")?.peak() / 27_136.0, 0.87, "")),
        reason: "Gathering is paid when a task's members change (section 4.3). In deep overload requests of one length enter and \
            leave together, so that some tasks need none",
    },
    Claim {
        id: "bm-fig11",
        place: "Fig. 11",
        what: "as the lengths vary more (24; up to 50; up to 100) the baselines lose latency and throughput; BatchMaker keeps its latency",
        paper: "true",
        scenarios: &["fig11a", "fig11b", "fig11c"],
        check: |found| {
            let mut latency = Vec::new();
            let mut throughput = Vec::new();
            let mut ours = Vec::new();
            for scenario in ["fig11a", "fig11b", "fig11c"] {
                let mxnet = found.series(scenario, "MXNet")?;
                latency.push(mxnet.at("8000", Figure::P90)?);
                throughput.push(mxnet.peak_within(500.0));
                ours.push(found.series(scenario, "BatchMaker")?.at("8000", Figure::P90)?);
            }
            Ok(Verdict::order(
                latency.is_sorted_by(|a, b| a < b)
                    && throughput.is_sorted_by(|a, b| a > b)
                    && ours[2] < 1.25 * ours[1]
                    && ours[2] < 12.0,
                format!(
                    "MXNet: p90 {:.0}, {:.0}, {:.0} ms at 8,000 req/s, peak {:.0}, {:.0}, {:.0} req/s; BatchMaker: p90 {:.1}, {:.1}, {:.1} ms",
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

/// The highest throughput of either baseline with a p90 latency of at most 500 ms, where the paper's plots end.
fn baseline_peak(found: &Findings, scenario: &str) -> Result<f64> {
    let mxnet = found.series(scenario, "MXNet")?.peak_within(500.0);
    Ok(mxnet.max(found.series(scenario, "TensorFlow")?.peak_within(500.0)))
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
