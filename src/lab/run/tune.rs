//! The best settings of a policy for an objective, by successive halving: each round searches more precisely, and only for
//! the settings that may still be the best.
//!
//! Settings are compared in pairs: replication *i* of each has the same requests. Of those that are within the tolerance in
//! the end, or can't be told apart, the first is the best.

use std::sync::atomic::AtomicBool;

use rayon::prelude::*;

use super::goal::{Answer, Goal};
use super::knee::{Effort, Objective};
use super::search::{Kept, Question};
use crate::base::error::Result;
use crate::core::summary::stats::{Interval, paired_difference};
use crate::lab::scenario::Scenario;

/// What became of a setting.
#[derive(Clone, Debug)]
pub struct Tried {
    /// The scenario with one policy.
    pub scenario: Scenario,
    /// Among the candidates.
    pub place: usize,
    /// Of its last round.
    pub answer: Answer,
    /// From 1.
    pub round: u32,
}

/// The precision of the rounds of `tune` before the last, relative to the rate, and their replications.
pub const ROUNDS: [(f64, u32); 2] = [(0.1, 3), (0.03, 5)];

impl Answer {
    /// By replication, if there are several; higher is better.
    fn scores(&self) -> Vec<f64> {
        match self.rates.is_empty() {
            true => self
                .workers
                .map(|workers| -f64::from(workers))
                .into_iter()
                .collect(),
            false => self.numbers(),
        }
    }

    fn rank(&self) -> (f64, f64) {
        let scores = self.scores();
        let mean = scores.iter().sum::<f64>() / scores.len() as f64;
        let mean = if mean.is_nan() {
            f64::NEG_INFINITY
        } else {
            mean
        };
        (
            mean,
            self.latency.map_or(0.0, |latency| -latency.as_secs_f64()),
        )
    }

    /// Whether a setting that gave this can't be the best any more: it is worse by more than the searches may be off, with
    /// 95 % confidence; or it is in the worse half and worse by more than the tolerance in all replications.
    fn is_out(&self, best: &Answer, tolerance: f64, in_worse_half: bool) -> bool {
        let (own, others) = (&self.scores(), &best.scores());
        if own.is_empty() || others.is_empty() {
            return own.len() < others.len();
        }
        let all_worse = |by: f64| {
            own.iter()
                .zip(others)
                .all(|(own, other)| *own < other - by * other.abs())
        };
        let off = (self.resolution + best.resolution) * best.rank().0.abs();
        match paired_difference(own, others) {
            Some(Interval { mean, half_width }) => {
                mean + half_width + off < 0.0 || (in_worse_half && all_worse(tolerance))
            }
            None => all_worse(self.resolution + best.resolution),
        }
    }
}

impl Tried {
    pub fn is_finalist(&self) -> bool {
        self.round as usize > ROUNDS.len()
    }
}

/// All settings, the best first: after `rounds`, those that are left are searched with the effort. `progress` is called for
/// each search.
pub fn find(
    candidates: Vec<Scenario>,
    rounds: &[(f64, u32)],
    goal: Goal,
    objective: &Objective,
    effort: &Effort,
    stop: &AtomicBool,
    progress: &(dyn Fn() + Sync),
) -> Result<Vec<Tried>> {
    let round = |left: Vec<Tried>, (tolerance, replications): (f64, u32)| -> Result<Vec<Tried>> {
        let one = |Tried {
                       scenario,
                       place,
                       answer,
                       round,
                   }| {
            let effort = &Effort {
                tolerance,
                replications,
                near: answer.mean(),
                ..*effort
            };
            let kept = &Kept::default();
            let question = Question {
                scenario: &scenario,
                objective,
                effort,
                kept,
                stop,
                progress: &|| (),
            };
            // Without a folder of results, all of a search is carried out.
            let answer = goal
                .find(&question)?
                .into_iter()
                .flatten()
                .next()
                .expect("the answer for one policy");
            progress();
            Ok(Tried {
                scenario,
                place,
                answer,
                round: round + 1,
            })
        };
        let mut tried = left
            .into_par_iter()
            .with_max_len(1)
            .map(one)
            .collect::<Result<Vec<Tried>>>()?;
        tried.sort_by(|a, b| {
            b.answer
                .rank()
                .partial_cmp(&a.answer.rank())
                .expect("numbers")
        });
        Ok(tried)
    };
    let new = |(place, scenario)| Tried {
        scenario,
        place,
        answer: Answer::default(),
        round: 0,
    };
    let mut left: Vec<Tried> = candidates.into_iter().enumerate().map(new).collect();
    let mut out = Vec::new();
    for (tolerance, replications) in rounds {
        let tolerance = tolerance.max(effort.tolerance);
        left = round(left, (tolerance, *replications.min(&effort.replications)))?;
        let (best, half, mut places) = (left[0].answer.clone(), left.len().div_ceil(2), 0..);
        let goes_out = |one: &mut Tried| {
            one.answer
                .is_out(&best, tolerance, places.next() >= Some(half))
        };
        let lost: Vec<Tried> = left.extract_if(.., goes_out).collect();
        // Those of later rounds stand before those of earlier ones.
        out.splice(..0, lost);
    }
    left = round(left, (effort.tolerance, effort.replications))?;
    let best = &left[0].answer;
    let within = best.rank().0 - effort.tolerance * best.rank().0.abs();
    let is_equal =
        |one: &Answer| one.rank().0 >= within || !one.is_out(best, effort.tolerance, false);
    let equal = left
        .iter()
        .enumerate()
        .filter(|(_, one)| is_equal(&one.answer));
    let first = equal
        .min_by_key(|(_, one)| one.place)
        .map_or(0, |(first, _)| first);
    left[..=first].rotate_right(1);
    left.append(&mut out);
    Ok(left)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::units::Rate;

    fn knee(rates: &[f64]) -> Answer {
        let rates = rates.iter().copied().map(Rate).collect();
        Answer {
            rates,
            resolution: 0.001,
            requests: 1,
            ..Answer::default()
        }
    }

    #[test]
    fn a_setting_goes_out_when_it_is_worse_for_the_same_requests() {
        let best = knee(&[100.0, 200.0, 300.0]);
        // The rates of replications differ much more than those of the settings.
        assert!(knee(&[98.0, 198.0, 298.1]).is_out(&best, 0.1, false));
        // The brackets of both searches are that wide.
        assert!(!knee(&[99.7, 199.7, 299.8]).is_out(&best, 0.1, false));
        assert!(!knee(&[95.0, 100.0, 290.0]).is_out(&best, 0.1, false));
        // In the worse half, as much as the tolerance is enough.
        assert!(knee(&[95.0, 100.0, 290.0]).is_out(&best, 0.03, true));
        assert!(!knee(&[95.0, 100.0, 290.0]).is_out(&best, 0.1, true));
        assert!(!knee(&[101.0, 100.0, 200.0]).is_out(&best, 0.03, true));
        assert!(!best.is_out(&best, 0.03, true));
        let none = knee(&[]);
        assert!(
            none.rank() < best.rank()
                && none.is_out(&best, 0.1, false)
                && !none.is_out(&none, 0.1, true)
        );
    }
}
