//! Checks of Late Batching's claims (*Low Latency Model Serving with Late Batching*, AISys 2017).

use super::{Check, Verdict};
use crate::results::columns::Metric;

pub const CHECKS: &[(&str, Check)] = &[
    ("late-gain", |found| {
        let gain = 100.0 * (found.peak("fig5", "Late Batching")? / found.peak("fig5", "MXNet")? - 1.0);
        Ok(Verdict::inside(gain, (25.0, 33.0), "%", gain > 0.0))
    }),
    ("late-fixed", |found| {
        let cuts = |figure, percentile| {
            let ours = found.series(figure, "Late Batching")?;
            Ok(ours.cuts(percentile, &[found.series(figure, "MXNet")?], ours.peak() / 2.0))
        };
        let (median, tail): ((f64, f64), (f64, f64)) = (cuts("fig6", Metric::P50)?, cuts("fig7", Metric::P99)?);
        let cuts = (median.0.min(tail.0), median.1.max(tail.1));
        Ok(Verdict::range(cuts, (25.0, 40.0), "%", cuts.0 > 0.0))
    }),
];
