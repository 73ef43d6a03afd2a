//! Late Batching (*Low Latency Model Serving with Late Batching*, AISys'17).

use super::{Claim, Exhibit, Kind, Series, Verdict};
use crate::results::columns::Metric;

/// The figures of the appendix. Figures 1 and 2 are drawings.
pub const EXHIBITS: &[Exhibit] = &[
    Exhibit::scenario(
        "fig3",
        "Figure 3",
        "Median latency against throughput: LSTM on Europarl sentences, one GTX Titan X",
    ),
    Exhibit::scenario("fig4", "Figure 4", "The 99th percentile of the same"),
    Exhibit::scenario("fig5", "Figure 5", "Throughput against the load that is offered, on the same sentences"),
    Exhibit::scenario("fig6", "Figure 6", "Median latency against throughput where every sequence has length 20"),
    Exhibit::scenario("fig7", "Figure 7", "The 99th percentile of the same"),
];

/// The claims, in the paper's order.
pub const CLAIMS: &[Claim] = &[
    Claim {
        id: "late-gain",
        kind: Kind::Sim,
        place: "3",
        what: "gain in throughput over MXNet when the system is fully loaded",
        paper: "25 to 33 %",
        exhibits: &["fig5"],
        check: |found| {
            let peaks = (found.series("fig5", "Late Batching")?.peak(), found.series("fig5", "MXNet")?.peak());
            let gain = 100.0 * (peaks.0 / peaks.1 - 1.0);
            Ok(Verdict::inside(gain, (25.0, 33.0), "%", gain > 0.0))
        },
        reason: "",
    },
    Claim {
        id: "late-fixed",
        kind: Kind::Sim,
        place: "3",
        what: "cut of the latency (p50 and p99) against MXNet at fixed length 20, up to half of the peak",
        paper: "25 to 40 %",
        exhibits: &["fig6", "fig7"],
        check: |found| {
            let (mut least, mut most) = (f64::INFINITY, f64::NEG_INFINITY);
            for (figure, percentile) in [("fig6", Metric::P50), ("fig7", Metric::P99)] {
                let (ours, mxnet): (Series<'_>, Series<'_>) =
                    (found.series(figure, "Late Batching")?, found.series(figure, "MXNet")?);
                let cuts = ours.cuts(percentile, std::slice::from_ref(&mxnet), ours.peak() / 2.0);
                (least, most) = (least.min(cuts.least), most.max(cuts.most));
            }
            Ok(Verdict::range((least, most), (25.0, 40.0), "%", least > 0.0))
        },
        reason: "The p99 is cut by 26 to 41 %, the median by 14 to 24 %. A request starts 3.7 ms earlier (0.7 ms of queueing to 4.4), but its 20 steps take \
            9.3 to 10.5 ms where MXNet's take 8.8, since new members join at every step and each such step pays scheduling and \
            gathering, 58 to 84 µs to 440. These are BatchMaker's; what Late Batching pays is not stated",
    },
];
