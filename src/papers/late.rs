//! Checks of Late Batching's claims (*Low Latency Model Serving with Late Batching*, AISys 2017).

use super::{Check, Series, Verdict};
use crate::lab::results::columns::Metric;

pub const CHECKS: &[(&str, Check)] = &[
    ("late-fig1", |found| {
        let steps = |policy| found.steps("fig1", policy);
        let (dataflow, late) = (steps("Dataflow batching")?, steps("Late Batching")?);
        let [from, to]: [Vec<f64>; 2] =
            [0, 1].map(|end| dataflow.iter().skip(10).map(|ends| ends[end]).collect());
        let together = |times: &[f64]| times.iter().all(|time| *time == times[0]);
        let batch = if together(&from) && together(&to) {
            vec![from[0], to[0]]
        } else {
            [from, to].concat()
        };
        Ok(Verdict::exact(
            &[&batch[..], &late[10]].concat(),
            &[105.0, 112.0, 102.0, 105.0],
            "steps",
        ))
    }),
    ("late-gain", |found| {
        // In overload MXNet's throughput varies with the requests that were drawn; a maximum would favour it.
        let gain = |figure| {
            let (ours, mxnet) = (
                found.series(figure, "Late Batching")?,
                found.series(figure, "MXNet")?,
            );
            let both = ours
                .points(Metric::Throughput)
                .zip(mxnet.points(Metric::Throughput));
            let overloaded = both.filter(|((offered, _), _)| *offered > ours.peak());
            let gains: Vec<f64> = overloaded
                .map(|((_, ours), (_, mxnet))| 100.0 * (ours / mxnet - 1.0))
                .collect();
            Ok(gains.iter().sum::<f64>() / gains.len().max(1) as f64)
        };
        let (counted, tail): (f64, f64) = (gain("fig3")?, gain("fig5-tail")?);
        let verdict = Verdict::inside(counted, (25.0, 33.0), "%", counted > 0.0);
        Ok(verdict.with(&format!(" ({tail:.1} % with lengths up to 330)")))
    }),
    ("late-fixed", |found| {
        let (ours, mxnet) = (
            found.series("fig6", "Late Batching")?,
            [found.series("fig6", "MXNet")?],
        );
        let [median, tail] =
            [Metric::P50, Metric::P99].map(|metric| ours.cuts(metric, &mxnet, ours.peak() / 2.0));
        let cuts = (median.0.min(tail.0), median.1.max(tail.1));
        Ok(Verdict::range(cuts, (25.0, 40.0), "%", cuts.0 > 0.0))
    }),
    ("late-fold", |found| {
        let mut texts = Vec::new();
        let mut holds = true;
        for (figure, of) in [("fig3", "Europarl"), ("fig6", "length 20")] {
            let (fold, mxnet) = (
                found.series(figure, "Fold")?,
                found.series(figure, "MXNet")?,
            );
            // Beyond Fold's peak its latency only says for how long the run was.
            let below = || {
                let both = fold.points(Metric::P50).zip(mxnet.points(Metric::P50));
                both.filter(|((rate, _), _)| *rate <= fold.peak())
                    .map(|((_, ours), (_, theirs))| ours < theirs)
            };
            let (lower, all) = (below().filter(|lower| *lower).count(), below().count());
            let [peak, mxnet] = [&fold, &mxnet].map(Series::peak);
            holds &= peak < mxnet && lower == 0;
            texts.push(format!(
                "{of}: peak {peak:.0} req/s against {mxnet:.0}, p50 lower at {lower} of {all} loads below it"
            ));
        }
        Ok(Verdict::order(holds, texts.join("; ")))
    }),
];
