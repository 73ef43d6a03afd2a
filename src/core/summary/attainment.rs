//! Whether a run met a latency objective.

use std::collections::HashSet;

use super::order::OrderedRecord;
use super::rejections::count_reasons;
use super::saturation::{is_saturated, presence};
use super::stats::Quantile;
use super::times::histogram_quantile;
use super::tokens::time_to_first;
use super::warmup::Warmup;
use crate::base::units::Nanos;
use crate::core::record::Outcome;
use crate::core::record::full::FullRecord;

/// How a run met an objective.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attainment {
    /// The requests that have to meet it together: all of them, or those of each class.
    pub groups: Vec<GroupAttainment>,
    /// Whether the system did not keep up, or `None` if the run is too short to tell.
    pub saturated: Option<bool>,
    /// The objective's quantile of the times between tokens, for an objective for the first token and with enough gaps.
    pub gap: Option<Nanos>,
}

/// The number of measured requests that met an objective. A request that was not served missed it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupAttainment {
    pub measured: u64,
    /// The number of requests that were served within the objective.
    pub within: u64,
    /// The objective's quantile of the latency, or `None` if too large a share of the requests was not served.
    pub latency: Option<Nanos>,
    pub rejected: u64,
    /// How often the policy gave each reason for these rejections, the most frequent first.
    pub rejection_reasons: Vec<(String, u64)>,
    /// The number of requests that were neither served nor rejected.
    pub failed: u64,
}

/// The time that an objective limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitedTime {
    Latency,
    /// The time to the first token of a language model.
    FirstToken,
}

impl Attainment {
    /// Compares a run with an objective: one limit for all requests, or one for each class of the record.
    ///
    /// # Panics
    /// If the record has no tokens, and the objective limits the time to the first one; or if there are several limits,
    /// and the record has no classes.
    pub fn new(
        record: &FullRecord,
        warmup: Warmup,
        slos: &[Nanos],
        quantile: Quantile,
        time: LimitedTime,
    ) -> Attainment {
        let run = OrderedRecord::new(record);
        let warmup = run.warmup(warmup).0;
        let tokens = match time {
            LimitedTime::Latency => None,
            LimitedTime::FirstToken => {
                let tokens = record.tokens.as_ref();
                Some(tokens.expect("only language models have such objectives"))
            }
        };
        let latency = |request| {
            let spans = run.spans(request)?;
            Some(match tokens {
                Some(tokens) => time_to_first(tokens, &run, request),
                None => spans.latency,
            })
        };
        let groups = match slos {
            [slo] => vec![GroupAttainment::new(
                &run,
                &run.order[warmup..],
                *slo,
                quantile,
                latency,
            )],
            _ => {
                let classes = record.classes.as_ref();
                let classes = classes.expect("only classes have several objectives");
                let members = run.members(classes, warmup);
                let groups = members.iter().zip(slos).map(|(members, slo)| {
                    let measured = &members.requests[members.warmup..];
                    GroupAttainment::new(&run, measured, *slo, quantile, latency)
                });
                groups.collect()
            }
        };
        Attainment {
            groups,
            saturated: presence(&run).and_then(|presence| is_saturated(&presence)),
            gap: tokens.and_then(|tokens| histogram_quantile(&tokens.gaps, quantile)),
        }
    }

    /// Whether the system kept up, requests were measured, and each group [holds](GroupAttainment::holds) the
    /// objective.
    pub fn holds(&self, quantile: Quantile, max_rejected: f64) -> bool {
        let mut groups = self.groups.iter();
        self.saturated != Some(true)
            && groups.clone().any(|group| group.measured > 0)
            && groups.all(|group| group.holds(quantile, max_rejected))
    }
}

impl GroupAttainment {
    /// Counts the requests of a group. `latency` gives the time that is limited, or `None` for a request that was not
    /// served.
    fn new(
        run: &OrderedRecord<'_>,
        measured: &[u32],
        slo: Nanos,
        quantile: Quantile,
        latency: impl Fn(u32) -> Option<u64>,
    ) -> GroupAttainment {
        let mut times = Vec::with_capacity(measured.len());
        let mut rejected = 0;
        for &request in measured {
            match run.departures.get(request as usize).1 {
                Outcome::Rejected | Outcome::Expired => rejected += 1,
                _ => {}
            }
            times.extend(latency(request));
        }
        let within = times.iter().filter(|time| **time <= slo.0).count() as u64;
        let failed = (measured.len() - times.len()) as u64 - rejected;
        let rank = quantile.rank(measured.len());
        let latency = if rank <= times.len() {
            Some(Nanos(*times.select_nth_unstable(rank - 1).1))
        } else {
            None
        };
        GroupAttainment {
            measured: measured.len() as u64,
            within,
            latency,
            rejected,
            rejection_reasons: explain_rejections(run, measured),
            failed,
        }
    }

    /// The number of requests that were served later than the objective allows.
    pub fn late(&self) -> u64 {
        self.measured - self.within - self.rejected - self.failed
    }

    /// Whether at least the quantile's share of the requests met the objective. Rejected requests are left out if they
    /// are at most the share `max_rejected` of the measured ones. A group without a request holds it.
    pub fn holds(&self, quantile: Quantile, max_rejected: f64) -> bool {
        let tolerated = self.rejected as f64 <= max_rejected * self.measured as f64;
        self.measured == 0
            || self.is_enough(quantile, self.measured)
            || tolerated && self.is_enough(quantile, self.measured - self.rejected)
    }

    /// Whether the requests within the objective are at least the quantile's share of `requests`.
    fn is_enough(&self, quantile: Quantile, requests: u64) -> bool {
        requests > 0 && self.within >= quantile.rank(requests as usize) as u64
    }
}

/// Counts the reasons for the rejections of these requests.
fn explain_rejections(run: &OrderedRecord<'_>, requests: &[u32]) -> Vec<(String, u64)> {
    let explained = &run.record.explained_rejections;
    if explained.is_empty() {
        return Vec::new();
    }
    let members: HashSet<u32> = requests.iter().copied().collect();
    let own = explained
        .iter()
        .filter(|(request, ..)| members.contains(&(request.0 as u32)));
    count_reasons(own)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::units::RequestId;
    use crate::core::record::tests::record;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_request_that_was_not_served_missed_the_objective() {
        let of = |within, rejected, failed| GroupAttainment {
            measured: 100,
            within,
            rejected,
            failed,
            ..GroupAttainment::default()
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
        let run = |saturated, groups: &[GroupAttainment]| Attainment {
            groups: groups.to_vec(),
            saturated,
            gap: None,
        };
        assert!(run(None, &[of(100, 0, 0), of(90, 0, 0)]).holds(p90, 0.0));
        assert!(!run(None, &[of(100, 0, 0), of(89, 0, 0)]).holds(p90, 0.0));
        assert!(!run(Some(true), &[of(100, 0, 0)]).holds(p90, 1.0));
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
            let attained = Attainment::new(
                &run,
                warmup,
                &[Nanos(slo)],
                Quantile::P50,
                LimitedTime::Latency,
            );
            let GroupAttainment {
                measured,
                within,
                rejected,
                failed,
                ..
            } = attained.groups[0];
            (measured, within, rejected, failed)
        };
        assert_eq!(counts(Warmup::None, 5 * MS), (4, 3, 1, 0));
        assert_eq!(counts(Warmup::Requests(2), 5 * MS), (2, 1, 1, 0));
        assert_eq!(counts(Warmup::None, 5 * MS - 1), (4, 0, 1, 0));
        let latency = |quantile| {
            Attainment::new(
                &run,
                Warmup::None,
                &[Nanos(MS)],
                quantile,
                LimitedTime::Latency,
            )
            .groups[0]
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
                &[Nanos(MS)],
                quantile,
                LimitedTime::Latency,
            )
            .groups[0]
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
