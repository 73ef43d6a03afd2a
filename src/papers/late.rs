//! Checks of Late Batching's claims (*Low Latency Model Serving with Late Batching*, AISys 2017).

use super::{Check, Verdict};
use crate::results::columns::Metric;

pub const CHECKS: &[(&str, Check)] = &[
    ("late-gain", |found| {
        let gain = |figure| Ok(100.0 * (found.peak(figure, "Late Batching")? / found.peak(figure, "MXNet")? - 1.0));
        let (counted, tail): (f64, f64) = (gain("fig3")?, gain("fig5-tail")?);
        let verdict = Verdict::inside(counted, (25.0, 33.0), "%", counted > 0.0);
        Ok(verdict.with(&format!(" ({tail:.1} % with lengths up to 330)")))
    }),
    ("late-fixed", |found| {
        let (ours, mxnet) = (found.series("fig6", "Late Batching")?, [found.series("fig6", "MXNet")?]);
        let [median, tail] = [Metric::P50, Metric::P99].map(|metric| ours.cuts(metric, &mxnet, ours.peak() / 2.0));
        let cuts = (median.0.min(tail.0), median.1.max(tail.1));
        Ok(Verdict::range(cuts, (25.0, 40.0), "%", cuts.0 > 0.0))
    }),
];
