//! Whether a run met a latency objective.

use super::order::OrderedRecord;
use super::saturation::is_saturated;
use super::stats::Quantile;
use super::times::histogram_quantile;
use super::tokens::time_to_first;
use super::warmup::Warmup;
use crate::base::units::Nanos;
use crate::core::record::Outcome;
use crate::core::record::full::FullRecord;

/// The number of measured requests that met an objective. A request that was not served missed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attainment {
    pub measured: u64,
    /// The number of requests that were served within the objective.
    pub within: u64,
    /// The objective's quantile of the latency, or `None` if too large a share of the requests was not served.
    pub latency: Option<Nanos>,
    pub rejected: u64,
    /// The number of requests that were neither served nor rejected.
    pub failed: u64,
    /// Whether the system did not keep up, or `None` if the run is too short to tell.
    pub saturated: Option<bool>,
    /// The objective's quantile of the times between tokens, for an objective for the first token and with enough gaps.
    pub gap: Option<Nanos>,
}

/// The time that an objective limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitedTime {
    Latency,
    /// The time to the first token of a language model.
    FirstToken,
}

impl Attainment {
    /// Compares a run with an objective.
    ///
    /// # Panics
    /// If the record has no tokens, and the objective limits the time to the first one.
    pub fn new(
        record: &FullRecord,
        warmup: Warmup,
        slo: Nanos,
        quantile: Quantile,
        time: LimitedTime,
    ) -> Attainment {
        let run = OrderedRecord::new(record);
        let measured = &run.order[run.warmup(warmup).0..];
        let tokens = match time {
            LimitedTime::Latency => None,
            LimitedTime::FirstToken => {
                let tokens = record.tokens.as_ref();
                Some(tokens.expect("only language models have such objectives"))
            }
        };
        let mut times = Vec::with_capacity(measured.len());
        let mut rejected = 0;
        for &request in measured {
            match run.departures[request as usize].1 {
                Outcome::Rejected | Outcome::Expired => rejected += 1,
                _ => {}
            }
            if let Some(spans) = run.spans(request) {
                times.push(match tokens {
                    Some(tokens) => time_to_first(tokens, &run, request),
                    None => spans.latency,
                });
            }
        }
        let within = times.iter().filter(|time| **time <= slo.0).count() as u64;
        let failed = (measured.len() - times.len()) as u64 - rejected;
        let rank = quantile.rank(measured.len());
        let latency = if rank <= times.len() {
            Some(Nanos(*times.select_nth_unstable(rank - 1).1))
        } else {
            None
        };
        Attainment {
            measured: measured.len() as u64,
            within,
            latency,
            rejected,
            failed,
            saturated: is_saturated(&run),
            gap: tokens.and_then(|tokens| histogram_quantile(&tokens.gaps, quantile)),
        }
    }

    /// Whether at least the quantile's share of the requests met the objective, and the system kept up. Rejected
    /// requests are left out if they are at most the share `max_rejected` of the measured ones.
    pub fn holds(&self, quantile: Quantile, max_rejected: f64) -> bool {
        if self.saturated == Some(true) {
            return false;
        }
        let tolerated = self.rejected as f64 <= max_rejected * self.measured as f64;
        self.is_enough(quantile, self.measured)
            || tolerated && self.is_enough(quantile, self.measured - self.rejected)
    }

    /// Whether the requests within the objective are at least the quantile's share of `requests`.
    fn is_enough(&self, quantile: Quantile, requests: u64) -> bool {
        requests > 0 && self.within >= quantile.rank(requests as usize) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::units::RequestId;
    use crate::core::record::tests::record;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_request_that_was_not_served_missed_the_objective() {
        let of = |within, rejected, failed| Attainment {
            measured: 100,
            within,
            rejected,
            failed,
            latency: None,
            saturated: Some(false),
            gap: None,
        };
        let p90 = Quantile::P90;
        assert!(of(90, 0, 0).holds(p90, 0.0));
        assert!(!of(89, 0, 0).holds(p90, 0.0));
        assert!(of(90, 10, 0).holds(p90, 0.0), "a tenth may miss it");
        assert!(!of(80, 20, 0).holds(p90, 0.0) && !of(80, 0, 20).holds(p90, 0.2));
        assert!(
            of(80, 20, 0).holds(p90, 0.2) && !of(71, 20, 0).holds(p90, 0.2),
            "of 80 served"
        );
        assert!(!of(80, 20, 0).holds(p90, 0.19));
        assert!(
            !Attainment {
                saturated: Some(true),
                ..of(100, 0, 0)
            }
            .holds(p90, 1.0)
        );
    }

    #[test]
    fn requests_are_counted_without_the_warm_up() {
        let served = |at: u64| (at * MS, at * MS, (at + 5) * MS);
        let mut run = record(&[
            served(0),
            served(10),
            served(20),
            (30 * MS, u64::MAX, u64::MAX),
        ]);
        run.rejections.push((RequestId(3), Nanos(30 * MS)));
        let counts = |warmup, slo| {
            let Attainment {
                measured,
                within,
                rejected,
                failed,
                ..
            } = Attainment::new(
                &run,
                warmup,
                Nanos(slo),
                Quantile::P50,
                LimitedTime::Latency,
            );
            (measured, within, rejected, failed)
        };
        assert_eq!(counts(Warmup::None, 5 * MS), (4, 3, 1, 0));
        assert_eq!(counts(Warmup::Requests(2), 5 * MS), (2, 1, 1, 0));
        assert_eq!(counts(Warmup::None, 5 * MS - 1), (4, 0, 1, 0));
        let latency = |quantile| {
            Attainment::new(
                &run,
                Warmup::None,
                Nanos(MS),
                quantile,
                LimitedTime::Latency,
            )
            .latency
        };
        assert_eq!(latency(Quantile::P50), Some(Nanos(5 * MS)));
        assert_eq!(latency(Quantile::P90), None, "a quarter was not served");
        let most: Vec<_> = (0..9)
            .map(served)
            .chain([(9 * MS, u64::MAX, u64::MAX)])
            .collect();
        let latency = |quantile| {
            Attainment::new(
                &record(&most),
                Warmup::None,
                Nanos(MS),
                quantile,
                LimitedTime::Latency,
            )
            .latency
        };
        assert_eq!(
            latency(Quantile::P90),
            Some(Nanos(5 * MS)),
            "nine of ten were served"
        );
        assert_eq!(latency(Quantile::P95), None);
    }
}
