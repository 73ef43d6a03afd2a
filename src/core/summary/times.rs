use serde::{Deserialize, Serialize};

use super::stats::{Quantile, QuantileFinder};
use crate::base::units::Nanos;
use crate::core::record::histogram::DurationHistogram;

/// The distribution of a time over the measured requests that finished.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Times {
    pub samples: u64,
    pub mean_ms: Option<f64>,
    pub p50_ms: Option<f64>,
    pub p90_ms: Option<f64>,
    pub p95_ms: Option<f64>,
    pub p99_ms: Option<f64>,
    pub p999_ms: Option<f64>,
    pub max_ms: Option<f64>,
}

fn to_millis(ns: u64) -> f64 {
    Nanos(ns).as_millis_f64()
}

impl Times {
    /// The distributions of several times in nanoseconds, of which each row has one value.
    pub(super) fn from_rows<const N: usize>(
        rows: impl Iterator<Item = [u64; N]> + Clone,
    ) -> [Times; N] {
        let mut histograms = [(); N].map(|()| DurationHistogram::default());
        for row in rows.clone() {
            for (histogram, span) in histograms.iter_mut().zip(row) {
                histogram.add(span, 1);
            }
        }
        let mut finders = histograms
            .each_ref()
            .map(|histogram| QuantileFinder::new(histogram, Quantile::ALL));
        for row in rows {
            for (finder, span) in finders.iter_mut().zip(row) {
                finder.add(span);
            }
        }
        let mut times = [Times::default(); N];
        for (times, (histogram, finder)) in times.iter_mut().zip(histograms.iter().zip(finders)) {
            let quantiles = finder.finish();
            *times = Times::new(
                histogram.len(),
                histogram.mean(),
                histogram.max(),
                quantiles,
            );
        }
        times
    }

    pub(super) fn from_histogram(histogram: &DurationHistogram) -> Times {
        let quantiles = Quantile::ALL.map(|quantile| histogram_quantile(histogram, quantile));
        Times::new(
            histogram.len(),
            histogram.mean(),
            histogram.max(),
            quantiles.map(|time| time.map(|time| time.0)),
        )
    }

    /// The distribution with these values in nanoseconds; the quantiles are [`Quantile::ALL`].
    fn new(
        samples: u64,
        mean: Option<f64>,
        max: Option<u64>,
        quantiles: [Option<u64>; 5],
    ) -> Times {
        let [p50_ms, p90_ms, p95_ms, p99_ms, p999_ms] =
            quantiles.map(|quantile| quantile.map(to_millis));
        Times {
            samples,
            mean_ms: mean.map(|ns| ns / 1e6),
            p50_ms,
            p90_ms,
            p95_ms,
            p99_ms,
            p999_ms,
            max_ms: max.map(to_millis),
        }
    }
}

/// A quantile of a histogram, or `None` with fewer than [`Quantile::samples_needed`].
pub(super) fn histogram_quantile(
    histogram: &DurationHistogram,
    quantile: Quantile,
) -> Option<Nanos> {
    let max = histogram.max()?;
    if histogram.len() < quantile.samples_needed() as u64 {
        return None;
    }
    Some(Nanos(histogram.value_at(quantile.share()).min(max)))
}
