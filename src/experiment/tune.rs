//! The best settings of a policy for an objective, by successive halving: each round searches more precisely, and only for
//! the settings that may still be the best.
//!
//! Settings are compared in pairs: replication *i* of each has the same requests. One goes out when it is worse than the best
//! with 95 % confidence, or when it is in the worse half and does worse in all replications. Of those that can't be told
//! apart in the end, the first is the best.

use std::sync::atomic::AtomicBool;

use rayon::prelude::*;

use super::capacity::{self, Capacity};
use super::knee::{self, Effort, Knee, Objective};
use super::search::Kept;
use crate::error::Result;
use crate::metrics::stats::paired_difference;
use crate::scenario::Scenario;
use crate::units::{Nanos, Rate};

/// What is to be found under the objective.
#[derive(Clone, Copy, Debug)]
pub enum Goal {
    HighestRate,
    /// At a rate, up to a number of workers.
    FewestWorkers(Rate, u32),
}

/// The answer for one setting.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The rate in requests per second, or the number of workers; `None` if none holds the objective.
    pub best: Option<f64>,
    /// Of a rate.
    pub half_width: Option<f64>,
    /// With these workers; of equal numbers, the lowest is best.
    pub latency: Option<Nanos>,
    pub caveat: Option<String>,
    /// By replication, if there are several; higher is better.
    scores: Vec<f64>,
}

impl From<Knee> for Answer {
    fn from(knee: Knee) -> Answer {
        let scores = knee.rates.iter().map(|rate| rate.0).collect();
        let (best, half_width) = (knee.mean().map(|rate| rate.0), knee.half_width());
        Answer { best, half_width, latency: None, caveat: knee.caveat, scores }
    }
}

impl From<Capacity> for Answer {
    fn from(capacity: Capacity) -> Answer {
        let best = capacity.workers.map(f64::from);
        let scores = best.iter().map(|workers| -workers).collect();
        Answer { best, half_width: None, latency: capacity.latency, caveat: capacity.caveat, scores }
    }
}

/// What became of a setting.
#[derive(Clone, Debug)]
pub struct Tried {
    /// The scenario with one policy.
    pub scenario: Scenario,
    place: usize,
    /// Of its last round.
    pub answer: Answer,
    /// From 1.
    pub round: u32,
}

/// The precision of the rounds before the last, relative to the rate, and their replications.
const ROUNDS: [(f64, u32); 2] = [(0.1, 3), (0.03, 5)];

impl Answer {
    fn rank(&self) -> (f64, f64) {
        let mean = self.scores.iter().sum::<f64>() / self.scores.len() as f64;
        let mean = if mean.is_nan() { f64::NEG_INFINITY } else { mean };
        (mean, self.latency.map_or(0.0, |latency| -latency.as_secs_f64()))
    }

    /// Whether a setting that gave this can't be the best any more.
    fn is_out(&self, best: &Answer, in_worse_half: bool) -> bool {
        let (own, others) = (&self.scores, &best.scores);
        if own.is_empty() || others.is_empty() {
            return own.len() < others.len();
        }
        let worse = own.iter().zip(others).all(|(own, other)| own < other);
        match paired_difference(own, others) {
            Some(difference) => difference.mean + difference.half_width < 0.0 || (in_worse_half && worse),
            None => worse,
        }
    }
}

impl Tried {
    pub fn is_finalist(&self) -> bool {
        self.round as usize > ROUNDS.len()
    }
}

/// All settings, the best first. `progress` is called for each search.
pub fn find(
    candidates: Vec<Scenario>,
    goal: Goal,
    objective: &Objective,
    effort: &Effort,
    stop: &AtomicBool,
    progress: &(dyn Fn() + Sync),
) -> Result<Vec<Tried>> {
    let search = |scenario: &Scenario, effort: &Effort| {
        let kept = Kept::default();
        // Without a folder of results, all of a search is carried out.
        let found: Option<Answer> = match goal {
            Goal::HighestRate => {
                let found = knee::find(scenario, objective, effort, &kept, stop, &|| ())?;
                found.into_iter().flatten().next().map(Answer::from)
            }
            Goal::FewestWorkers(rate, most) => {
                let found = capacity::find(scenario, rate, most, objective, effort, &kept, stop, &|| ())?;
                found.into_iter().flatten().next().map(Answer::from)
            }
        };
        Ok(found.expect("the answer for one policy"))
    };
    let last = (effort.tolerance, effort.replications);
    let rounds = ROUNDS.map(|(tolerance, replications)| (tolerance.max(last.0), replications.min(last.1)));
    let mut left: Vec<(usize, Scenario, Option<Rate>)> =
        candidates.into_iter().enumerate().map(|(place, scenario)| (place, scenario, None)).collect();
    let mut out = Vec::new();
    for ((tolerance, replications), round) in rounds.into_iter().chain([last]).zip(1..) {
        let one = |(place, scenario, near): (usize, Scenario, Option<Rate>)| {
            let answer = search(&scenario, &Effort { tolerance, replications, near, ..*effort })?;
            progress();
            Ok(Tried { scenario, place, answer, round })
        };
        let mut tried = left.into_par_iter().with_max_len(1).map(one).collect::<Result<Vec<Tried>>>()?;
        tried.sort_by(|a, b| b.answer.rank().partial_cmp(&a.answer.rank()).expect("numbers"));
        let is_last = round as usize > ROUNDS.len();
        let half = tried.len().div_ceil(2);
        let best = tried[0].answer.clone();
        let goes_out = |place: usize, one: &Tried| !is_last && one.answer.is_out(&best, place >= half);
        let (mut lost, mut kept) = (Vec::new(), Vec::new());
        for (place, one) in tried.into_iter().enumerate() {
            if goes_out(place, &one) { lost.push(one) } else { kept.push(one) }
        }
        // Those of later rounds stand before those of earlier ones.
        out.splice(..0, lost);
        if is_last {
            let equal = kept.iter().enumerate().filter(|(_, one)| !one.answer.is_out(&best, false));
            let first = equal.min_by_key(|(_, one)| one.place).map_or(0, |(first, _)| first);
            kept[..=first].rotate_right(1);
            out.splice(..0, kept);
            break;
        }
        left = kept.into_iter().map(|one| (one.place, one.scenario, one.answer.best.map(Rate))).collect();
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn knee(rates: &[f64]) -> Answer {
        let rates = rates.iter().copied().map(Rate).collect();
        Answer::from(Knee { rates, resolution: 0.01, requests: 1, caveat: None })
    }

    #[test]
    fn a_setting_goes_out_when_it_is_worse_for_the_same_requests() {
        let best = knee(&[100.0, 200.0, 300.0]);
        // The rates of replications differ much more than those of the settings.
        assert!(knee(&[98.0, 198.0, 298.1]).is_out(&best, false));
        assert!(!knee(&[99.0, 150.0, 299.0]).is_out(&best, false));
        assert!(knee(&[99.0, 150.0, 299.0]).is_out(&best, true));
        assert!(!knee(&[101.0, 150.0, 299.0]).is_out(&best, true));
        assert!(!best.is_out(&best, true));
        assert!(
            knee(&[]).rank() < best.rank() && knee(&[]).is_out(&best, false) && !knee(&[]).is_out(&knee(&[]), true)
        );
    }
}
