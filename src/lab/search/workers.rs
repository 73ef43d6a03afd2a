//! The search for the smallest number of workers with which a policy meets a latency objective at a rate.

use std::mem;
use std::ops::ControlFlow;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::objective::{Effort, RequestLimit, attain, tightest};
use super::{Finding, Question, Search};
use crate::base::error::{Result, plural};
use crate::base::units::{Nanos, Rate};
use crate::core::summary::attainment::Attainment;
use crate::core::summary::stats::{Interval, interval};
use crate::lab::run::Run;
use crate::lab::run::executor::SelectedBackend;
use crate::lab::run::target::prepare_until;
use crate::lab::scenario::{LoadPoint, Scenario};

/// A search at a rate, for up to `most` workers. The replications decide on each step together, so that they are one
/// part of the search.
#[derive(Clone, Copy, Debug)]
pub struct WorkerSearch {
    pub rate: Rate,
    pub most: u32,
}

/// The smallest number of workers that meets the objective.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkerCount {
    /// `None` if no number up to the largest meets the objective.
    pub workers: Option<u32>,
    /// The objective's quantile of the latency with these workers, the highest of all replications. With objectives by
    /// class, that of the class that is nearest to its own.
    pub latency: Option<Nanos>,
    /// The class that is nearest to its objective, if objectives are those of classes.
    pub limiting_class: Option<String>,
    /// What one worker less gives. `None` if one worker is enough, or if nothing meets the objective.
    pub fewer: Option<FewerWorkers>,
    /// The number of requests of each run.
    pub requests: u32,
    /// Why the answer may be wrong, or why nothing meets the objective.
    pub caveat: Option<String>,
}

/// The runs with one worker less than needed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FewerWorkers {
    /// The objective's quantile of the latency, the highest of all replications, as in [`WorkerCount::latency`]. `None`
    /// if too large a share of the requests was not served.
    pub latency: Option<Nanos>,
    /// Whether the queue grows to the end of a run, so that the latency depends on the length of the run.
    pub is_saturated: bool,
    /// Why the first replication that misses the objective does.
    pub miss: String,
}

impl Finding for WorkerCount {
    fn scores(&self) -> Vec<f64> {
        self.workers
            .map(|workers| -f64::from(workers))
            .into_iter()
            .collect()
    }

    fn second_score(&self) -> f64 {
        match self.latency {
            Some(latency) => -latency.as_secs_f64(),
            None => 0.0,
        }
    }

    fn resolution(&self) -> f64 {
        0.0
    }

    fn expected_rate(&self) -> Option<Rate> {
        None
    }

    fn workers(&self) -> Option<u32> {
        self.workers
    }

    fn limiting_class(&self) -> Option<&str> {
        self.limiting_class.as_deref()
    }

    fn caveat(&self) -> Option<&str> {
        self.caveat.as_deref()
    }
}

impl Search for WorkerSearch {
    const NAME: &'static str = "workers";

    type Round = ();
    type Found = WorkerCount;
    type Answer = WorkerCount;

    fn settings(&self) -> String {
        format!("{} {}", self.rate, self.most)
    }

    fn parts(&self, _: &Effort, _: &Scenario) -> u32 {
        1
    }

    fn first(&self, _: &Question<'_>) -> Result<()> {
        Ok(())
    }

    fn run(
        &self,
        question: &Question<'_>,
        policy: usize,
        (): &(),
        parts: &[u32],
        keep: &(dyn Fn(u32, &WorkerCount) -> Result<()> + Sync),
    ) -> Result<Vec<WorkerCount>> {
        let search = PolicySearch {
            question,
            policy,
            rate: self.rate,
            most: self.most,
        };
        let found = search.find()?;
        keep(parts[0], &found)?;
        Ok(vec![found])
    }

    fn judge(&self, _: &Question<'_>, (): &(), found: &[WorkerCount]) -> ControlFlow<WorkerCount> {
        ControlFlow::Break(found[0].clone())
    }
}

/// The search for one policy.
struct PolicySearch<'a> {
    question: &'a Question<'a>,
    policy: usize,
    rate: Rate,
    most: u32,
}

/// The replications with one number of workers.
struct Trial {
    workers: u32,
    attained: Vec<Attainment>,
    requests: u32,
}

/// Runs that leave it open whether the objective is met are repeated with this many times the requests.
const GROWTH: u32 = 4;

impl PolicySearch<'_> {
    fn find(&self) -> Result<WorkerCount> {
        let scenario = self.question.scenario;
        let longest = self.question.effort.longest_run(scenario);
        // An overload of the tolerance has to show before the run ends.
        let Question {
            objective, effort, ..
        } = *self.question;
        let visible = objective.longest_slo().as_secs_f64() * self.rate.0 / effort.tolerance;
        let mut requests = effort
            .first_run(scenario, objective)
            .max((visible as u32).min(longest));
        let mut start = self.least_possible(requests)?;
        loop {
            let (enough, fewer) = self.smallest(start, requests)?;
            let undecided = match &fewer {
                Some(fewer) => self.count_met(fewer),
                None => 0,
            };
            let narrow = self.narrow_interval(&enough);
            let is_open = undecided > 0 || narrow.is_some();
            if !is_open || requests >= longest {
                let caveat = self.caveat(&enough, undecided, narrow, visible);
                let (limit, latency) = self.worst(&enough);
                return Ok(WorkerCount {
                    workers: self.is_met(&enough).then_some(enough.workers),
                    latency,
                    limiting_class: limit.class.clone(),
                    fewer: fewer.and_then(|fewer| self.describe_fewer(&fewer)),
                    requests: enough.requests,
                    caveat,
                });
            }
            start = enough.workers.saturating_sub(1).max(1);
            requests = requests.saturating_mul(GROWTH).min(longest);
        }
    }

    /// What one worker less than enough gives.
    fn describe_fewer(&self, fewer: &Trial) -> Option<FewerWorkers> {
        let objective = self.question.objective;
        let mut attained = fewer.attained.iter();
        let missing = attained.find(|attained| !objective.is_met(attained))?;
        let mut attained = fewer.attained.iter();
        Some(FewerWorkers {
            latency: self.worst(fewer).1,
            is_saturated: attained.any(|attained| attained.saturated == Some(true)),
            miss: objective.miss(missing, count_workers(fewer.workers)).reason,
        })
    }

    /// The limit that a replication is nearest to, and the time there; `None` if too large a share of the requests was
    /// not served.
    fn worst<'t>(&'t self, trial: &'t Trial) -> (&'t RequestLimit, Option<Nanos>) {
        let objective = self.question.objective;
        let replications = trial.attained.iter().map(|one| objective.tightest(one));
        let (limit, group) = tightest(replications).expect("there is a replication");
        (limit, group.latency)
    }

    /// Why the answer may be wrong, or why nothing meets the objective. `undecided` is the number of replications in
    /// which one worker less meets the objective, `visible` the length of a run that shows an overload of the
    /// tolerance.
    fn caveat(
        &self,
        trial: &Trial,
        undecided: usize,
        narrow: Option<Interval>,
        visible: f64,
    ) -> Option<String> {
        let objective = self.question.objective;
        let requests = trial.requests;
        let mut attained = trial.attained.iter();
        if let Some(miss) = attained.find(|attained| !objective.is_met(attained)) {
            return Some(objective.miss(miss, count_workers(trial.workers)).reason);
        }
        if undecided > 0 {
            let fewer = trial.workers - 1;
            let all = trial.attained.len();
            return Some(format!(
                "{fewer} hold it in {undecided} of {all} replications of {requests} requests"
            ));
        }
        if let Some(Interval { mean, half_width }) = narrow {
            let quantile = objective.quantile;
            return Some(format!(
                "{quantile} is {mean:.2} ± {half_width:.2} ms in runs of {requests} requests"
            ));
        }
        if visible > f64::from(requests) {
            return Some(format!(
                "{requests} requests a run may be too few to show an overload"
            ));
        }
        None
    }

    /// The number of workers that every policy needs at least, from the ceiling of one worker, as in `bounds.json`.
    fn least_possible(&self, requests: u32) -> Result<u32> {
        let scenario = self
            .question
            .effort
            .with_requests(self.question.scenario, requests);
        let (inputs, device) = prepare_until(&scenario, SelectedBackend::SIM, self.question.stop)?;
        let bounds = device.bounds(&inputs)?;
        let ceiling = bounds
            .and_then(|bounds| bounds.ceiling_rps)
            .map_or(f64::INFINITY, |ceiling| ceiling / inputs.workers() as f64);
        Ok(((self.rate.0 / ceiling).ceil() as u32).max(1))
    }

    /// The trial with the smallest number from `start` that meets the objective, or else with the largest number; and
    /// the trial with one worker less. There is none if one worker is enough, or if no number meets the objective.
    fn smallest(&self, start: u32, requests: u32) -> Result<(Trial, Option<Trial>)> {
        let mut trial = self.run(start.min(self.most), requests)?;
        let mut failing: Option<Trial> = None;
        while !self.is_met(&trial) && trial.workers < self.most {
            let more = (2 * trial.workers + 1 - start).min(self.most);
            let larger = self.run(more, requests)?;
            failing = Some(mem::replace(&mut trial, larger));
        }
        if !self.is_met(&trial) {
            return Ok((trial, None));
        }
        while let Some(below) = &mut failing
            && trial.workers - below.workers > 1
        {
            let middle = below.workers + (trial.workers - below.workers) / 2;
            let middle = self.run(middle, requests)?;
            if self.is_met(&middle) {
                trial = middle;
            } else {
                *below = middle;
            }
        }
        while failing.is_none() && trial.workers > 1 {
            let fewer = self.run(trial.workers - 1, requests)?;
            if self.is_met(&fewer) {
                trial = fewer;
            } else {
                failing = Some(fewer);
            }
        }
        Ok((trial, failing))
    }

    fn run(&self, workers: u32, requests: u32) -> Result<Trial> {
        let effort = self.question.effort;
        let mut scenario = effort.with_requests(self.question.scenario, requests);
        scenario.device.workers = workers as usize;
        let (inputs, device) = prepare_until(&scenario, SelectedBackend::SIM, self.question.stop)?;
        let attained = (0..effort.replications(self.question.scenario))
            .into_par_iter()
            .with_max_len(1)
            .map(|replication| {
                let run = Run {
                    policy: self.policy,
                    load: LoadPoint::Rate(self.rate),
                    replication,
                };
                let attained = attain(&inputs, &device, &run, self.question, None)?;
                Ok(attained.expect("a run without a limit ends"))
            })
            .collect::<Result<_>>()?;
        Ok(Trial {
            workers,
            attained,
            requests: inputs.requests(0)?.len() as u32,
        })
    }

    /// The interval of the latency, if the objective lies in it: further replications may miss the objective. It is
    /// twice as wide as that of 95 %, because a search decides several times and latencies under bursts are skewed.
    fn narrow_interval(&self, trial: &Trial) -> Option<Interval> {
        let limits = &self.question.objective.limits;
        (0..limits.len()).find_map(|group| {
            let latencies: Option<Vec<f64>> = trial
                .attained
                .iter()
                .map(|attained| attained.groups[group].latency.map(Nanos::as_millis_f64))
                .collect();
            let Interval { mean, half_width } = interval(&latencies?)?;
            let wide = Interval {
                mean,
                half_width: 2.0 * half_width,
            };
            wide.contains(limits[group].slo.as_millis_f64())
                .then_some(wide)
        })
    }

    fn count_met(&self, trial: &Trial) -> usize {
        let attained = trial.attained.iter();
        attained
            .filter(|attained| self.question.objective.is_met(attained))
            .count()
    }

    fn is_met(&self, trial: &Trial) -> bool {
        self.count_met(trial) == trial.attained.len()
    }
}

/// A number of workers in words.
pub fn count_workers(workers: u32) -> String {
    plural(workers as usize, "worker")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kept_answer_lacks_nothing() {
        let answer = WorkerCount {
            workers: Some(3),
            latency: Some(Nanos(5)),
            requests: 100,
            ..WorkerCount::default()
        };
        let kept = serde_json::to_value(&answer).unwrap();
        assert_eq!(serde_json::from_value::<WorkerCount>(kept).unwrap(), answer);
        assert!(
            serde_json::from_str::<WorkerCount>("{}").is_err(),
            "a damaged file holds no result"
        );
    }
}
