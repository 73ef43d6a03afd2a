//! Whether a run met a latency objective.

use super::recorder::{Outcome, Recorder};
use super::stats::Quantile;
use super::summary::RunRecord;
use super::validity::{Warmup, saturated};
use crate::base::units::Nanos;

/// How many of the measured requests met an objective. A request that was not served missed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attainment {
    pub measured: u64,
    /// Served within the objective.
    pub within: u64,
    /// The objective's quantile of the latency; `None` if so large a share was not served.
    pub latency: Option<Nanos>,
    pub rejected: u64,
    /// Neither served nor rejected.
    pub failed: u64,
    /// `None` where the run is too short to tell.
    pub saturated: Option<bool>,
    /// The objective's quantile of the times between tokens, if they were asked for and are enough.
    pub gap: Option<Nanos>,
}

/// What an objective limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Time {
    Latency,
    /// Of a language model.
    FirstToken,
}

impl Attainment {
    /// # Panics
    /// The record has no tokens, and `time` is that of the first.
    pub fn of(
        record: &Recorder,
        warmup: Warmup,
        slo: Nanos,
        quantile: Quantile,
        time: Time,
    ) -> Attainment {
        let run = RunRecord::new(record);
        let measured = &run.order[run.warmup(warmup).0..];
        let tokens = match time {
            Time::Latency => None,
            Time::FirstToken => Some(
                record
                    .tokens
                    .as_ref()
                    .expect("only language models have such objectives"),
            ),
        };
        let time = |request: &u32| {
            let [latency, ..] = run.spans(*request)?;
            Some(tokens.map_or(latency, |tokens| tokens.to_first(record, *request)))
        };
        let mut latencies: Vec<u64> = measured.iter().filter_map(time).collect();
        let rank = quantile.rank(measured.len());
        let outcomes = measured
            .iter()
            .map(|request| run.departures[*request as usize].1);
        let rejected = outcomes
            .filter(|how| matches!(how, Outcome::Rejected | Outcome::Expired))
            .count() as u64;
        Attainment {
            measured: measured.len() as u64,
            within: latencies
                .iter()
                .filter(|latency| **latency <= slo.0)
                .count() as u64,
            rejected,
            failed: (measured.len() - latencies.len()) as u64 - rejected,
            latency: (rank <= latencies.len())
                .then(|| Nanos(*latencies.select_nth_unstable(rank - 1).1)),
            saturated: saturated(&run),
            gap: tokens.and_then(|tokens| tokens.gaps.quantile(quantile)),
        }
    }

    /// Whether at least the quantile's share of the requests met the objective, and the system kept up. Up to
    /// `max_rejected`, a share of the requests, rejected ones count neither way.
    pub fn holds(&self, quantile: Quantile, max_rejected: f64) -> bool {
        let enough = |of: u64| of > 0 && self.within >= quantile.rank(of as usize) as u64;
        let tolerated = self.rejected as f64 <= max_rejected * self.measured as f64;
        self.saturated != Some(true)
            && (enough(self.measured) || tolerated && enough(self.measured - self.rejected))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::record;
    use super::*;
    use crate::base::units::RequestId;

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
        run.rejected = 1;
        let counts = |warmup, slo| {
            let Attainment {
                measured,
                within,
                rejected,
                failed,
                ..
            } = Attainment::of(&run, warmup, Nanos(slo), Quantile::P50, Time::Latency);
            (measured, within, rejected, failed)
        };
        assert_eq!(counts(Warmup::None, 5 * MS), (4, 3, 1, 0));
        assert_eq!(counts(Warmup::Requests(2), 5 * MS), (2, 1, 1, 0));
        assert_eq!(counts(Warmup::None, 5 * MS - 1), (4, 0, 1, 0));
        let latency = |quantile| {
            Attainment::of(&run, Warmup::None, Nanos(MS), quantile, Time::Latency).latency
        };
        assert_eq!(latency(Quantile::P50), Some(Nanos(5 * MS)));
        assert_eq!(latency(Quantile::P90), None, "a quarter was not served");
        let most: Vec<_> = (0..9)
            .map(served)
            .chain([(9 * MS, u64::MAX, u64::MAX)])
            .collect();
        let latency = |quantile| {
            Attainment::of(
                &record(&most),
                Warmup::None,
                Nanos(MS),
                quantile,
                Time::Latency,
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
