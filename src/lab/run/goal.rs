//! What a search looks for under an objective, and what it finds for a policy.

use serde::{Deserialize, Serialize};

use super::knee::Effort;
use super::search::{Question, Searched};
use super::{capacity, knee};
use crate::base::error::Result;
use crate::base::units::{Nanos, Rate};
use crate::core::summary::stats::{Interval, interval};
use crate::lab::scenario::Scenario;

#[derive(Clone, Copy, Debug)]
pub enum Goal {
    HighestRate,
    /// At a rate, up to a number of workers.
    FewestWorkers(Rate, u32),
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// The highest by replication. Empty if none holds the objective.
    #[serde(skip)]
    pub rates: Vec<Rate>,
    /// Of each rate: half the width of the bracket that the search ended with, relative to the rate.
    #[serde(skip)]
    pub resolution: f64,
    /// The fewest; `None` if no number up to the limit holds the objective.
    pub workers: Option<u32>,
    /// The objective's quantile of the latency with these workers, the highest of all replications.
    pub latency: Option<Nanos>,
    /// Of each run.
    pub requests: u32,
    /// Why the result may be wrong by more than the tolerance, or why nothing holds the objective.
    pub caveat: Option<String>,
}

impl Answer {
    /// The rates in requests per second.
    pub fn numbers(&self) -> Vec<f64> {
        self.rates.iter().map(|rate| rate.0).collect()
    }

    pub fn mean(&self) -> Option<Rate> {
        let sum: f64 = self.numbers().iter().sum();
        (!self.rates.is_empty()).then(|| Rate(sum / self.rates.len() as f64))
    }

    /// Of the 95 % confidence interval over the replications and the search's resolution. `None` for fewer than two
    /// replications.
    pub fn half_width(&self) -> Option<f64> {
        interval(&self.numbers())
            .map(|Interval { mean, half_width }| half_width + mean * self.resolution)
    }

    /// Whether anything holds the objective.
    pub fn is_some(&self) -> bool {
        self.workers.is_some() || !self.rates.is_empty()
    }
}

impl Goal {
    /// The name of its files, and what decides its results beside the options of every search.
    pub fn name(self) -> (&'static str, String) {
        match self {
            Goal::HighestRate => ("knee", String::new()),
            Goal::FewestWorkers(rate, most) => ("workers", format!("{rate} {most}")),
        }
    }

    /// The answer for each policy.
    pub fn find(self, question: &Question<'_>) -> Result<Vec<Searched<Answer>>> {
        match self {
            Goal::HighestRate => knee::find(question),
            Goal::FewestWorkers(rate, most) => capacity::find(question, rate, most),
        }
    }

    /// The parts of the search for a policy: those of workers decide on each step together.
    pub fn parts(self, effort: &Effort, scenario: &Scenario) -> u32 {
        match self {
            Goal::HighestRate => effort.replications(scenario),
            Goal::FewestWorkers(..) => 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kept_answer_of_workers_lacks_nothing() {
        let answer = Answer {
            workers: Some(3),
            latency: Some(Nanos(5)),
            requests: 100,
            ..Answer::default()
        };
        let kept = serde_json::to_value(&answer).unwrap();
        assert_eq!(serde_json::from_value::<Answer>(kept).unwrap(), answer);
        assert!(
            serde_json::from_str::<Answer>("{}").is_err(),
            "a damaged file holds no result"
        );
    }
}
