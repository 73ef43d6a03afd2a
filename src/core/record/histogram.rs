use hdrhistogram::Histogram;

/// Three decimal digits: a quantile is wrong by at most 0.1 %.
const DIGITS: u8 = 3;

/// Durations in nanoseconds, with their exact sum and maximum.
#[derive(Debug)]
pub struct DurationHistogram {
    sum: u128,
    max: u64,
    histogram: Histogram<u64>,
}

impl Default for DurationHistogram {
    fn default() -> DurationHistogram {
        DurationHistogram {
            sum: 0,
            max: 0,
            histogram: Histogram::new(DIGITS).expect("the digits are from 0 to 5"),
        }
    }
}

impl DurationHistogram {
    /// Adds a duration that occurred `times` times, at least once.
    pub fn add(&mut self, duration: u64, times: u64) {
        self.sum += u128::from(duration) * u128::from(times);
        self.max = self.max.max(duration);
        self.histogram
            .record_n(duration, times)
            .expect("the histogram grows");
    }

    pub fn len(&self) -> u64 {
        self.histogram.len()
    }

    /// The mean, or `None` without durations.
    pub fn mean(&self) -> Option<f64> {
        if self.len() == 0 {
            return None;
        }
        Some(self.sum as f64 / self.len() as f64)
    }

    /// The longest duration, or `None` without durations.
    pub fn max(&self) -> Option<u64> {
        if self.len() == 0 {
            return None;
        }
        Some(self.max)
    }

    /// The value of the histogram at a share of the durations. It may exceed the maximum by 0.1 %.
    pub fn value_at(&self, share: f64) -> u64 {
        self.histogram.value_at_quantile(share)
    }
}
