//! The knee: the highest rate at which a policy holds a latency objective.

use std::sync::atomic::AtomicBool;

use rayon::prelude::*;

use super::Run;
use super::prepared::Prepared;
use crate::error::{Error, Result};
use crate::metrics::recorder::Keep;
use crate::metrics::stats::{Interval, interval};
use crate::metrics::summary::{Measure, summarize};
use crate::scenario::{ArrivalSpec, LoadPoint, Quantile, Scenario};
use crate::units::{Nanos, Rate};

/// What is asked of the search.
#[derive(Clone, Copy, Debug)]
pub struct Objective {
    /// The latency to hold.
    pub slo: Nanos,
    /// The quantile that has to hold it.
    pub quantile: Quantile,
    /// How close the search goes: the rate that holds and the rate that does not differ by at most this share.
    pub tolerance: f64,
    /// Searches of each policy, each with its own random streams.
    pub replications: u32,
}

/// The knee of one policy.
#[derive(Clone, Debug)]
pub struct Knee {
    /// The policy's label.
    pub policy: String,
    /// The highest rate that each replication holds; `None` where it holds none at all.
    pub rates: Vec<Option<Rate>>,
}

impl Knee {
    /// The mean over the replications; `None` unless all of them hold some rate.
    pub fn mean(&self) -> Option<Rate> {
        let rates = self.values()?;
        Some(Rate(rates.iter().sum::<f64>() / rates.len() as f64))
    }

    /// The 95 % interval over the replications; `None` with fewer than two.
    pub fn interval(&self) -> Option<Interval> {
        interval(&self.values()?)
    }

    fn values(&self) -> Option<Vec<f64>> {
        self.rates.iter().map(|rate| rate.map(|r| r.0)).collect()
    }
}

/// The lowest rate that is tried, in requests per second.
const LOWEST: f64 = 1e-3;
/// The highest.
const HIGHEST: f64 = 1e9;

/// Finds the knee of every policy of a scenario.
///
/// Each replication brackets its knee by doubling and halving from the scenario's first rate, then bisects the rate in
/// proportion. The requests and the gaps between them are the same at every rate but for their scale.
///
/// # Errors
/// A scenario whose arrivals have no rate, or with too few requests for the quantile; [`Error::Interrupted`].
pub fn find(
    scenario: &Scenario,
    objective: &Objective,
    stop: &AtomicBool,
    progress: &(dyn Fn() + Sync),
) -> Result<Vec<Knee>> {
    let prepared = Prepared::new(scenario)?;
    let first = match scenario.arrivals() {
        Some(ArrivalSpec::Open { process, rates }) if process.takes_rate() => rates[0],
        _ => {
            return Err(Error::input(format!(
                "{}: arrivals: a knee is looked for over rates; use the process poisson, uniform, gamma or mmpp",
                scenario.file.display()
            )));
        }
    };
    let searches: Vec<(usize, u32)> =
        (0..scenario.policies.len()).flat_map(|policy| (0..objective.replications).map(move |r| (policy, r))).collect();
    let rates = searches
        .par_iter()
        .with_max_len(1)
        .map(|&(policy, replication)| {
            let holds = |rate: f64| {
                let run = Run { policy, load: LoadPoint::Rate(Rate(rate)), replication };
                holds(&prepared, &run, objective, scenario, stop)
            };
            let rate = search(holds, first.0, objective.tolerance)?;
            progress();
            Ok(rate.map(Rate))
        })
        .collect::<Result<Vec<Option<Rate>>>>()?;
    let per_policy = objective.replications as usize;
    Ok(scenario
        .policies
        .iter()
        .zip(rates.chunks(per_policy))
        .map(|(policy, rates)| Knee { policy: policy.label.clone(), rates: rates.to_vec() })
        .collect())
}

fn holds(
    prepared: &Prepared<'_>,
    run: &Run,
    objective: &Objective,
    scenario: &Scenario,
    stop: &AtomicBool,
) -> Result<bool> {
    let record = prepared.simulate(run, Keep::default(), stop)?;
    let summary = summarize(&record, &Measure { slo: Some(objective.slo), ..prepared.measure(run.load) });
    let times = &summary.latency;
    let value = match objective.quantile.name() {
        "p50" => times.p50_ms,
        "p90" => times.p90_ms,
        "p95" => times.p95_ms,
        "p99" => times.p99_ms,
        _ => times.p999_ms,
    };
    let value = value.ok_or_else(|| {
        let needed = (10.0 / (1.0 - objective.quantile.share())).round();
        Error::input(format!(
            "{}: workload.requests: {} are too few for {}; at least {needed} beside the warm-up",
            scenario.file.display(),
            times.samples,
            objective.quantile.name(),
        ))
    })?;
    Ok(value <= objective.slo.as_millis_f64())
}

/// The highest rate that holds, as far as the tolerance goes; `None` when not even the lowest does.
fn search(mut holds: impl FnMut(f64) -> Result<bool>, first: f64, tolerance: f64) -> Result<Option<f64>> {
    let (mut low, mut high);
    if holds(first)? {
        (low, high) = (first, first * 2.0);
        while high < HIGHEST && holds(high)? {
            (low, high) = (high, high * 2.0);
        }
    } else {
        (low, high) = (first / 2.0, first);
        while !holds(low)? {
            (low, high) = (low / 2.0, low);
            if low < LOWEST {
                return Ok(None);
            }
        }
    }
    while high / low > 1.0 + tolerance {
        let middle = (low * high).sqrt();
        if holds(middle)? {
            low = middle;
        } else {
            high = middle;
        }
    }
    Ok(Some(low))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_search_closes_in_from_either_side() {
        for knee in [0.02, 7.0, 1_000.0, 123_456.0] {
            for first in [1.0, 1_000.0, 1e6] {
                let found = search(|rate| Ok(rate <= knee), first, 0.001).unwrap().unwrap();
                assert!(found <= knee && found * 1.001 >= knee, "{found} for {knee} from {first}");
            }
        }
    }

    #[test]
    fn a_policy_that_never_holds_has_no_knee() {
        assert_eq!(search(|_| Ok(false), 100.0, 0.01).unwrap(), None);
    }
}
