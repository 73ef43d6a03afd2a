use serde::{Deserialize, Serialize};

use super::stats::{Quantile, mean, quantiles};
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
    /// The distribution of times in nanoseconds, which are reordered.
    pub(super) fn from_spans(spans: &mut [u64]) -> Times {
        let mean = mean(spans);
        let max = spans.iter().max().copied();
        let quantiles = quantiles(spans, Quantile::ALL);
        Times::new(spans.len() as u64, mean, max, quantiles)
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
