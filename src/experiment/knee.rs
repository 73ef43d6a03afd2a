//! The knee: the highest rate at which a policy holds a latency objective. Also the batch window with the highest knee
//! (DVABatch's "DelayBatch").

use std::sync::atomic::AtomicBool;

use rayon::prelude::*;

use super::Run;
use super::device::{Device, prepare};
use super::executor::Target;
use super::inputs::Inputs;
use crate::error::{Error, Result};
use crate::metrics::recorder::Keep;
use crate::metrics::stats::{Interval, interval};
use crate::metrics::summary::{Measure, summarize};
use crate::scenario::{LoadPoint, Quantile, Scenario};
use crate::units::{Nanos, Rate};

#[derive(Clone, Copy, Debug)]
pub struct Objective {
    pub slo: Nanos,
    pub quantile: Quantile,
    /// The largest relative difference between the rate that holds and the rate that does not.
    pub tolerance: f64,
    pub replications: u32,
}

#[derive(Clone, Debug)]
pub struct Knee {
    pub policy: String,
    /// Per replication; `None` if it holds no rate.
    pub rates: Vec<Option<Rate>>,
}

impl Knee {
    /// `None` unless all replications hold some rate.
    pub fn mean(&self) -> Option<Rate> {
        let rates = self.values()?;
        Some(Rate(rates.iter().sum::<f64>() / rates.len() as f64))
    }

    /// The 95 % interval; `None` for fewer than two replications.
    pub fn interval(&self) -> Option<Interval> {
        interval(&self.values()?)
    }

    fn values(&self) -> Option<Vec<f64>> {
        self.rates.iter().map(|rate| rate.map(|r| r.0)).collect()
    }
}

/// In requests per second.
const LOWEST: f64 = 1e-3;
const HIGHEST: f64 = 1e9;

/// Each replication brackets its knee by doubling and halving from the scenario's first rate, then bisects on a
/// logarithmic scale, with the same requests and relative gaps at every rate. A rate at which the system falls behind
/// does not hold.
pub fn find(
    scenario: &Scenario,
    objective: &Objective,
    stop: &AtomicBool,
    progress: &(dyn Fn() + Sync),
) -> Result<Vec<Knee>> {
    let (inputs, device) = prepare(scenario, Target::SIM)?;
    let Some(LoadPoint::Rate(first)) = scenario.points().first().copied() else {
        return Err(Error::input(format!(
            "{}: arrivals: a knee is looked for over rates; use the process poisson, uniform, gamma or mmpp",
            scenario.file.display()
        )));
    };
    let searches: Vec<(usize, u32)> =
        (0..scenario.policies.len()).flat_map(|policy| (0..objective.replications).map(move |r| (policy, r))).collect();
    let rates = searches
        .par_iter()
        .with_max_len(1)
        .map(|&(policy, replication)| {
            let holds = |rate: f64| {
                let run = Run { policy, load: LoadPoint::Rate(Rate(rate)), replication };
                holds(&inputs, &device, &run, objective, stop)
            };
            let found = search(holds, first.0, objective.tolerance)?;
            progress();
            match found {
                Found::Knee(rate) => Ok(Some(Rate(rate))),
                Found::HoldsNowhere => Ok(None),
                Found::HoldsEverywhere => Err(holds_everywhere(scenario, policy, objective)),
            }
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

/// Too few requests: the objective holds even if all arrive at once.
fn holds_everywhere(scenario: &Scenario, policy: usize, objective: &Objective) -> Error {
    Error::input(format!(
        "{}: workload.requests: \"{}\" keeps {} within {} even when all of them arrive at once; draw more, or lower the \
         objective",
        scenario.file.display(),
        scenario.policies[policy].label,
        objective.quantile,
        objective.slo,
    ))
}

fn holds(inputs: &Inputs<'_>, device: &Device, run: &Run, objective: &Objective, stop: &AtomicBool) -> Result<bool> {
    let ran = device.run(inputs, run, Keep::default(), stop)?;
    if ran.interrupted {
        return Err(Error::Interrupted);
    }
    let summary = summarize(&ran.record, &Measure { slo: Some(objective.slo), ..inputs.measure(run.load) });
    let times = &summary.latency;
    let value = match objective.quantile {
        Quantile::P50 => times.p50_ms,
        Quantile::P90 => times.p90_ms,
        Quantile::P95 => times.p95_ms,
        Quantile::P99 => times.p99_ms,
        Quantile::P999 => times.p999_ms,
    };
    let value = value.ok_or_else(|| {
        let needed = (10.0 / (1.0 - objective.quantile.share())).round();
        Error::input(format!(
            "{}: workload.requests: {} are too few for {}; at least {needed} beside the warm-up",
            inputs.scenario().file.display(),
            times.samples,
            objective.quantile,
        ))
    })?;
    Ok(value <= objective.slo.as_millis_f64() && summary.saturated != Some(true))
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Found {
    /// The highest rate that holds, within the tolerance.
    Knee(f64),
    HoldsNowhere,
    HoldsEverywhere,
}

fn search(mut holds: impl FnMut(f64) -> Result<bool>, first: f64, tolerance: f64) -> Result<Found> {
    let (mut low, mut high) = (first, first);
    if holds(first)? {
        loop {
            if high >= HIGHEST {
                return Ok(Found::HoldsEverywhere);
            }
            (low, high) = (high, (high * 2.0).min(HIGHEST));
            if !holds(high)? {
                break;
            }
        }
    } else {
        loop {
            if low <= LOWEST {
                return Ok(Found::HoldsNowhere);
            }
            (low, high) = ((low / 2.0).max(LOWEST), low);
            if holds(low)? {
                break;
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
    Ok(Found::Knee(low))
}

pub const WINDOWS: [Nanos; 7] = [
    Nanos(1_000_000),
    Nanos(2_000_000),
    Nanos(5_000_000),
    Nanos(10_000_000),
    Nanos(20_000_000),
    Nanos(50_000_000),
    Nanos(100_000_000),
];

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tried {
    pub window: Nanos,
    /// The highest rate that meets the objective, if any.
    pub rate: Option<Rate>,
}

/// Finds the knee with each window. `load` reads the scenario with one override.
pub fn find_window(
    load: &dyn Fn(&str) -> Result<Scenario>,
    policy: &str,
    windows: &[Nanos],
    objective: &Objective,
    stop: &AtomicBool,
    progress: &(dyn Fn() + Sync),
) -> Result<Vec<Tried>> {
    let mut tried = Vec::new();
    for window in windows {
        let mut scenario = load(&format!("policy.{policy}.window={}ns", window.0))?;
        scenario.policies.retain(|entry| entry.label == policy);
        if scenario.policies.is_empty() {
            // The override accepts an index or a kind, too.
            return Err(Error::input(format!("{}: no policy is labelled \"{policy}\"", scenario.file.display())));
        }
        let knees = find(&scenario, objective, stop, progress)?;
        tried.push(Tried { window: *window, rate: knees.first().and_then(Knee::mean) });
    }
    Ok(tried)
}

/// The window with the highest rate; within the tolerance, the shortest.
pub fn best_window(tried: &[Tried], tolerance: f64) -> Option<Tried> {
    let rate = |one: &Tried| one.rate.map_or(0.0, |rate| rate.0);
    let highest = tried.iter().map(rate).fold(0.0, f64::max);
    let good = tried.iter().filter(|one| highest > 0.0 && rate(one) * (1.0 + tolerance) >= highest);
    good.min_by_key(|one| one.window).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_search_closes_in_from_either_side() {
        for knee in [0.02, 7.0, 1_000.0, 123_456.0] {
            for first in [1.0, 1_000.0, 1e6] {
                let found = search(|rate| Ok(rate <= knee), first, 0.001).unwrap();
                let Found::Knee(found) = found else { panic!("{found:?} for {knee} from {first}") };
                assert!(found <= knee && found * 1.001 >= knee, "{found} for {knee} from {first}");
            }
        }
    }

    #[test]
    fn the_search_ends_where_there_is_no_knee() {
        for first in [1e-3, 100.0, 6e8, 1e9] {
            let tried = |rate: f64| assert!((LOWEST..=HIGHEST).contains(&rate), "{rate}");
            let nowhere = search(|rate| (tried(rate), Ok(false)).1, first, 0.01).unwrap();
            let everywhere = search(|rate| (tried(rate), Ok(true)).1, first, 0.01).unwrap();
            assert_eq!((nowhere, everywhere), (Found::HoldsNowhere, Found::HoldsEverywhere));
        }
    }

    #[test]
    fn the_shortest_of_the_best_windows_is_chosen() {
        let tried = |rates: &[Option<f64>]| -> Vec<Tried> {
            let one = |(window, rate): (&Nanos, &Option<f64>)| Tried { window: *window, rate: rate.map(Rate) };
            WINDOWS.iter().zip(rates).map(one).collect()
        };
        let best = |rates: &[Option<f64>]| best_window(&tried(rates), 0.01).map(|one| one.window.0 / 1_000_000);
        assert_eq!(best(&[Some(90.0), Some(99.5), Some(100.0), None]), Some(2));
        assert_eq!(best(&[Some(100.0), Some(110.0), Some(90.0)]), Some(2));
        assert_eq!(best(&[None, None]), None);
    }
}
