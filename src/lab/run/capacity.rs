//! The smallest number of workers with which a policy holds a latency objective at a rate.

use std::mem::replace;

use rayon::prelude::*;

use super::executor::SelectedBackend;
use super::goal::Answer;
use super::job::Run;
use super::knee::attain;
use super::search::{Question, Rounds, Searched, of_each_policy};
use super::target::prepare_until;
use crate::base::error::Result;
use crate::base::units::{Nanos, Rate};
use crate::core::summary::attainment::Attainment;
use crate::core::summary::stats::{Interval, interval};
use crate::lab::scenario::LoadPoint;

/// The fewest workers of each policy, up to `most`, at a rate.
pub fn find(question: &Question<'_>, rate: Rate, most: u32) -> Result<Vec<Searched<Answer>>> {
    let search = |policy, mut rounds: Rounds<'_, Answer>| {
        let found = rounds.next(
            || Ok(()),
            |(), _| {
                Search {
                    question,
                    policy,
                    rate,
                }
                .find(most)
            },
        )?;
        Ok(found.map(|found| found[0].clone()))
    };
    // The replications decide on each step together, so that they are one part of the search.
    of_each_policy(question, 1, search)
}

struct Search<'a> {
    question: &'a Question<'a>,
    policy: usize,
    rate: Rate,
}

/// The replications of one number of workers.
struct Tried {
    workers: u32,
    attained: Vec<Attainment>,
    requests: u32,
}

/// Runs that leave it open whether the objective holds are repeated with this many times the requests.
const GROWTH: u32 = 4;

impl Search<'_> {
    fn find(&self, most: u32) -> Result<Answer> {
        let Question {
            scenario,
            objective,
            effort,
            ..
        } = *self.question;
        let longest = effort.longest(scenario);
        // An overload of the tolerance has to show before the run ends.
        let visible = objective.slo.as_secs_f64() * self.rate.0 / effort.tolerance;
        let mut requests = objective
            .shortest(scenario)
            .max((visible as u32).min(longest));
        let mut start = self.fewest(requests)?;
        loop {
            let (enough, fewer) = self.smallest(start, most, requests)?;
            let undecided = fewer.as_ref().map_or(0, |fewer| self.holding(fewer));
            let narrow = self.narrowly(&enough);
            if (undecided > 0 || narrow.is_some()) && requests < longest {
                start = enough.workers.saturating_sub(1).max(1);
                requests = requests.saturating_mul(GROWTH).min(longest);
                continue;
            }
            let holds = self.holds(&enough);
            let Tried {
                workers,
                attained,
                requests,
            } = enough;
            let caveat = if !holds {
                let miss = attained.iter().find(|attained| !objective.holds(attained));
                miss.map(|miss| objective.miss(miss, format_args!("{workers} workers")))
            } else if undecided > 0 {
                let (fewer, all) = (workers - 1, attained.len());
                Some(format!(
                    "{fewer} hold it in {undecided} of {all} replications of {requests} requests"
                ))
            } else if let Some(Interval { mean, half_width }) = narrow {
                let quantile = objective.quantile;
                Some(format!(
                    "{quantile} is {mean:.2} ± {half_width:.2} ms in runs of {requests} requests"
                ))
            } else {
                (visible > f64::from(requests)).then(|| {
                    format!("{requests} requests a run may be too few to show an overload")
                })
            };
            let latency = attained
                .iter()
                .map(|attained| attained.latency)
                .max()
                .flatten();
            return Ok(Answer {
                workers: holds.then_some(workers),
                latency,
                requests,
                caveat,
                ..Answer::default()
            });
        }
    }

    /// No policy does with fewer: the ceiling of one worker, as in `bounds.json`.
    fn fewest(&self, requests: u32) -> Result<u32> {
        let scenario = self.question.effort.sized(self.question.scenario, requests);
        let (inputs, device) = prepare_until(&scenario, SelectedBackend::SIM, self.question.stop)?;
        let ceiling = device
            .bounds(&inputs)?
            .and_then(|bounds| bounds.ceiling_rps);
        let of_one = ceiling.map_or(f64::INFINITY, |ceiling| ceiling / inputs.workers() as f64);
        Ok(((self.rate.0 / of_one).ceil() as u32).max(1))
    }

    /// The smallest number from `start` that holds the objective, otherwise the largest; and one less, if it was tried.
    fn smallest(&self, start: u32, most: u32, requests: u32) -> Result<(Tried, Option<Tried>)> {
        let (mut tried, mut fails) = (self.run(start.min(most), requests)?, None::<Tried>);
        while !self.holds(&tried) && tried.workers < most {
            let more = self.run((2 * tried.workers + 1 - start).min(most), requests)?;
            fails = Some(replace(&mut tried, more));
        }
        if !self.holds(&tried) {
            return Ok((tried, None));
        }
        while let Some(below) = fails
            .as_ref()
            .map(|fails| fails.workers)
            .filter(|below| tried.workers - below > 1)
        {
            let middle = self.run(below + (tried.workers - below) / 2, requests)?;
            let place = if self.holds(&middle) {
                &mut tried
            } else {
                fails.as_mut().expect("a number fails")
            };
            *place = middle;
        }
        Ok((tried, fails))
    }

    fn run(&self, workers: u32, requests: u32) -> Result<Tried> {
        let mut scenario = self.question.effort.sized(self.question.scenario, requests);
        scenario.device.workers = workers as usize;
        let (inputs, device) = prepare_until(&scenario, SelectedBackend::SIM, self.question.stop)?;
        let one = |replication: u32| {
            let run = Run {
                policy: self.policy,
                load: LoadPoint::Rate(self.rate),
                replication,
            };
            Ok(attain(&inputs, &device, &run, self.question, None)?
                .expect("a run without a limit ends"))
        };
        let replications = 0..self.question.effort.replications(self.question.scenario);
        let attained = replications
            .into_par_iter()
            .with_max_len(1)
            .map(one)
            .collect::<Result<_>>()?;
        Ok(Tried {
            workers,
            attained,
            requests: inputs.requests(0)?.len() as u32,
        })
    }

    /// The interval of the latency, if the objective lies in it: further replications may miss it. It is twice as wide as
    /// that of 95 %, because a search decides several times and latencies under bursts are skewed.
    fn narrowly(&self, tried: &Tried) -> Option<Interval> {
        let latencies: Option<Vec<f64>> = tried
            .attained
            .iter()
            .map(|attained| attained.latency.map(Nanos::as_millis_f64))
            .collect();
        let Interval { mean, half_width } = interval(&latencies?)?;
        let wide = Interval {
            mean,
            half_width: 2.0 * half_width,
        };
        wide.contains(self.question.objective.slo.as_millis_f64())
            .then_some(wide)
    }

    fn holding(&self, tried: &Tried) -> usize {
        tried
            .attained
            .iter()
            .filter(|attained| self.question.objective.holds(attained))
            .count()
    }

    fn holds(&self, tried: &Tried) -> bool {
        self.holding(tried) == tried.attained.len()
    }
}
