//! Checks of Late Batching's claims (*Low Latency Model Serving with Late Batching*, AISys 2017).

use super::{Check, Verdict};
use crate::results::columns::Metric;

pub const CHECKS: &[(&str, Check)] = &[
    ("late-gain", |found| {
        let gain = 100.0 * (found.peak("fig5", "Late Batching")? / found.peak("fig5", "MXNet")? - 1.0);
        Ok(Verdict::inside(gain, (25.0, 33.0), "%", gain > 0.0))
    }),
    ("late-fixed", |found| {
        let (mut least, mut most) = (f64::INFINITY, f64::NEG_INFINITY);
        for (figure, percentile) in [("fig6", Metric::P50), ("fig7", Metric::P99)] {
            let ours = found.series(figure, "Late Batching")?;
            let cuts = ours.cuts(percentile, &[found.series(figure, "MXNet")?], ours.peak() / 2.0);
            (least, most) = (least.min(cuts.0), most.max(cuts.1));
        }
        Ok(Verdict::range((least, most), (25.0, 40.0), "%", least > 0.0))
    }),
];
