//! The best settings of a policy for an objective, by successive halving: each round searches more precisely, and only
//! for the settings that may still be the best.
//!
//! Settings are compared in pairs: replication *i* of each has the same requests. Of the settings that may be the best
//! in the end, because they are within the tolerance or can't be told apart, the best is the one with the highest score
//! whose answer has no caveat.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use rayon::prelude::*;

use super::objective::{Effort, Objective};
use super::parts::SearchRecord;
use super::sweep::open_folders;
use super::{Finding, Question, Search, Searched, find};
use crate::base::error::Result;
use crate::core::summary::stats::{Interval, paired_difference};
use crate::lab::run::lock::Lock;
use crate::lab::scenario::Scenario;

/// A setting, and the answer of its last search.
#[derive(Clone, Debug)]
pub struct TriedSetting<A> {
    /// The scenario with one policy.
    pub scenario: Scenario,
    /// The place among the candidates.
    pub place: usize,
    pub answer: A,
    /// The number of the last round with this setting, from 1.
    pub round: u32,
}

/// The precision of the rounds before the last, relative to the rate, and their replications.
const ROUNDS: [(f64, u32); 2] = [(0.1, 3), (0.03, 5)];
/// The names under which the findings of each round are kept.
const ROUND_NAMES: [&str; 3] = ["tune-1", "tune-2", "tune-3"];

impl<A> TriedSetting<A> {
    /// Whether the last round searched with this setting.
    pub fn is_finalist(&self) -> bool {
        self.round as usize > ROUNDS.len()
    }
}

/// The mean score of an answer and its second score. Higher is better.
fn rank(answer: &impl Finding) -> (f64, f64) {
    let scores = answer.scores();
    let mean = if scores.is_empty() {
        f64::NEG_INFINITY
    } else {
        scores.iter().sum::<f64>() / scores.len() as f64
    };
    (mean, answer.second_score())
}

/// Whether a setting with this answer can't be the best any more: it is worse by more than the searches may be off,
/// with 95 % confidence; or it is in the worse half and worse by more than the tolerance in all replications.
fn is_eliminated<A: Finding>(answer: &A, best: &A, tolerance: f64, in_worse_half: bool) -> bool {
    let own = answer.scores();
    let others = best.scores();
    if own.is_empty() || others.is_empty() {
        return own.len() < others.len();
    }
    let resolution = answer.resolution() + best.resolution();
    match paired_difference(&own, &others) {
        Some(Interval { mean, half_width }) => {
            let off = resolution * rank(best).0.abs();
            mean + half_width + off < 0.0 || (in_worse_half && are_worse(&own, &others, tolerance))
        }
        None => are_worse(&own, &others, resolution),
    }
}

/// Whether each score is below the other one by more than `share` of the latter.
fn are_worse(own: &[f64], others: &[f64], share: f64) -> bool {
    own.iter()
        .zip(others)
        .all(|(own, other)| *own < other - share * other.abs())
}

/// The search for the best settings.
pub struct Tuning<'a, S> {
    pub search: &'a S,
    pub objective: &'a Objective,
    /// The effort of the last round.
    pub effort: &'a Effort,
    /// The folder with the results of scenarios, where findings are kept.
    pub out: &'a Path,
    pub stop: &'a AtomicBool,
    /// The function that is called for each search.
    pub progress: &'a (dyn Fn() + Sync),
}

impl<S: Search> Tuning<'_, S> {
    /// Locks the folder of the candidates, and clears it of findings unless they are kept.
    ///
    /// # Errors
    /// Fails if another process writes to the folder, or if it can't be written.
    pub fn open(&self, candidates: &[Scenario], resume: bool) -> Result<Lock> {
        let first = [(&candidates[0], self.objective)];
        let folder = &open_folders(self.search, &first, self.effort, self.out)?[0];
        let lock = Lock::take(&folder.path, None)?;
        if !resume {
            for name in ROUND_NAMES {
                folder.clear_searches(name);
            }
        }
        Ok(lock)
    }

    /// All settings, the best first. Each candidate is a scenario with one policy.
    pub fn find(&self, candidates: Vec<Scenario>) -> Result<Vec<TriedSetting<S::Answer>>> {
        let mut left = Vec::new();
        for (place, scenario) in candidates.into_iter().enumerate() {
            left.push(TriedSetting {
                scenario,
                place,
                answer: S::Answer::default(),
                round: 0,
            });
        }
        let mut eliminated = Vec::new();
        for (tolerance, replications) in ROUNDS {
            let tolerance = tolerance.max(self.effort.tolerance);
            let replications = replications.min(self.effort.replications);
            left = self.search_all(left, tolerance, replications)?;
            let best = left[0].answer.clone();
            let half = left.len().div_ceil(2);
            let mut kept = Vec::new();
            let mut lost = Vec::new();
            for (place, one) in left.into_iter().enumerate() {
                if is_eliminated(&one.answer, &best, tolerance, place >= half) {
                    lost.push(one);
                } else {
                    kept.push(one);
                }
            }
            left = kept;
            // Settings that were eliminated later are better.
            eliminated.splice(..0, lost);
        }
        left = self.search_all(left, self.effort.tolerance, self.effort.replications)?;
        let best = choose(&left, self.effort.tolerance);
        left[..=best].rotate_right(1);
        left.append(&mut eliminated);
        Ok(left)
    }

    /// Searches with each setting, and sorts them, the best first.
    fn search_all(
        &self,
        settings: Vec<TriedSetting<S::Answer>>,
        tolerance: f64,
        replications: u32,
    ) -> Result<Vec<TriedSetting<S::Answer>>> {
        let mut tried = settings
            .into_par_iter()
            .with_max_len(1)
            .map(|setting| self.search_one(setting, tolerance, replications))
            .collect::<Result<Vec<_>>>()?;
        tried.sort_by(|a, b| {
            rank(&b.answer)
                .partial_cmp(&rank(&a.answer))
                .expect("numbers")
        });
        Ok(tried)
    }

    fn search_one(
        &self,
        setting: TriedSetting<S::Answer>,
        tolerance: f64,
        replications: u32,
    ) -> Result<TriedSetting<S::Answer>> {
        let effort = Effort {
            tolerance,
            replications,
            near: setting.answer.expected_rate(),
            ..*self.effort
        };
        let asked = [(&setting.scenario, self.objective)];
        let mut folders = open_folders(self.search, &asked, &effort, self.out)?;
        let record = SearchRecord {
            folder: folders
                .pop()
                .map(|folder| (folder, ROUND_NAMES[setting.round as usize])),
            own: None,
        };
        let question = Question {
            scenario: &setting.scenario,
            objective: self.objective,
            effort: &effort,
            record: &record,
            stop: self.stop,
            progress: &|| (),
        };
        let searched = find(self.search, &question)?.into_iter().next();
        // One process carries out all parts of a search.
        let answer = searched
            .and_then(Searched::answer)
            .expect("the answer for one policy");
        (self.progress)();
        Ok(TriedSetting {
            answer,
            round: setting.round + 1,
            ..setting
        })
    }
}

/// The index of the best setting. The settings are sorted, the highest score first. Of those that may be the best, one
/// without a caveat is preferred. Of these, the first that was named is taken among the highest scores that the searches
/// can't separate.
fn choose<A: Finding>(settings: &[TriedSetting<A>], tolerance: f64) -> usize {
    let best = &settings[0].answer;
    let best_score = rank(best).0;
    let within = best_score - tolerance * best_score.abs();
    let may_be_best =
        |answer: &A| rank(answer).0 >= within || !is_eliminated(answer, best, tolerance, false);
    let mut left: Vec<usize> = (0..settings.len())
        .filter(|index| may_be_best(&settings[*index].answer))
        .collect();
    let is_told_apart = |index: &usize| settings[*index].answer.caveat().is_none();
    if left.iter().any(is_told_apart) {
        left.retain(is_told_apart);
    }
    let highest = &settings[left[0]].answer;
    let equals = left
        .into_iter()
        .filter(|index| are_equal(&settings[*index].answer, highest));
    let first = equals.min_by_key(|index| settings[*index].place);
    first.expect("a setting equals itself")
}

/// Whether the searches can't separate two answers.
fn are_equal<A: Finding>(a: &A, b: &A) -> bool {
    let resolution = a.resolution() + b.resolution();
    let [(a, second_a), (b, second_b)] = [rank(a), rank(b)];
    a == b && second_a == second_b || (a - b).abs() <= resolution * b.abs() && resolution > 0.0
}

#[cfg(test)]
mod tests {
    use super::super::rate::Knee;
    use super::*;
    use crate::base::units::Rate;

    fn knee(rates: &[f64]) -> Knee {
        let rates = rates.iter().copied().map(Rate).collect();
        Knee {
            rates,
            resolution: 0.001,
            requests: 1,
            ..Knee::default()
        }
    }

    fn setting(place: usize, answer: Knee) -> TriedSetting<Knee> {
        let file = std::path::Path::new("scenarios/quickstart.toml");
        let registry = crate::core::policy::registry::Registry::standard();
        TriedSetting {
            scenario: Scenario::load(file, &[], &registry).unwrap(),
            place,
            answer,
            round: 3,
        }
    }

    #[test]
    fn the_best_setting_is_the_highest_that_is_told_apart() {
        let limited = |rates: &[f64]| Knee {
            caveat: Some("limited".into()),
            ..knee(rates)
        };
        let choose = |answers: [Knee; 3]| {
            let places = [2, 0, 1];
            let settings = places.into_iter().zip(answers);
            let settings: Vec<_> = settings.map(|(place, one)| setting(place, one)).collect();
            choose(&settings, 0.1)
        };
        let good = knee(&[542.0, 545.0, 539.0]);
        let lower = knee(&[537.0, 539.0, 533.0]);
        let wide = limited(&[503.0, 650.0, 480.0]);
        assert_eq!(choose([good.clone(), lower.clone(), wide.clone()]), 0);
        assert_eq!(choose([wide.clone(), good.clone(), lower.clone()]), 1);
        assert_eq!(
            choose([wide.clone(), limited(&[500.0, 510.0, 490.0]), lower]),
            2
        );
        let limits = [wide.clone(), limited(&[500.0; 3]), limited(&[490.0; 3])];
        assert_eq!(choose(limits), 0, "all have a caveat");
        assert_eq!(
            choose([good.clone(), good.clone(), good]),
            1,
            "the first of equals"
        );
    }

    #[test]
    fn a_setting_goes_out_when_it_is_worse_for_the_same_requests() {
        let best = knee(&[100.0, 200.0, 300.0]);
        // The rates of replications differ much more than those of the settings.
        assert!(is_eliminated(
            &knee(&[98.0, 198.0, 298.1]),
            &best,
            0.1,
            false
        ));
        // The differences are within the brackets of both searches.
        assert!(!is_eliminated(
            &knee(&[99.7, 199.7, 299.8]),
            &best,
            0.1,
            false
        ));
        assert!(!is_eliminated(
            &knee(&[95.0, 100.0, 290.0]),
            &best,
            0.1,
            false
        ));
        // A difference above the tolerance is enough in the worse half.
        assert!(is_eliminated(
            &knee(&[95.0, 100.0, 290.0]),
            &best,
            0.03,
            true
        ));
        assert!(!is_eliminated(
            &knee(&[95.0, 100.0, 290.0]),
            &best,
            0.1,
            true
        ));
        assert!(!is_eliminated(
            &knee(&[101.0, 100.0, 200.0]),
            &best,
            0.03,
            true
        ));
        assert!(!is_eliminated(&best, &best, 0.03, true));
        let none = knee(&[]);
        assert!(
            rank(&none) < rank(&best)
                && is_eliminated(&none, &best, 0.1, false)
                && !is_eliminated(&none, &none, 0.1, true)
        );
    }
}
