//! The search for the knee: the highest rate at which a policy meets a latency objective. docs/METRICS.md describes the
//! method.

use std::ops::ControlFlow;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::objective::{Effort, attain, first_rate};
use super::{Finding, Question, Search};
use crate::base::error::Result;
use crate::base::units::Rate;
use crate::core::summary::stats::{Interval, interval};
use crate::lab::run::Run;
use crate::lab::run::executor::SelectedBackend;
use crate::lab::run::inputs::RunInputs;
use crate::lab::run::target::{Target, prepare_until};
use crate::lab::scenario::{LoadPoint, Scenario};

/// The lowest rate that is tried, in requests per second.
const LOWEST: f64 = 1e-3;
/// The highest rate that is tried, in requests per second.
const HIGHEST: f64 = 1e9;
/// The share of the tolerance that the bracket of the last round may take up.
const RESOLUTION: f64 = 0.2;
/// The bracket of the first round, relative to the rate: its result only sizes the next runs.
const COARSE: f64 = 0.02;
/// The first step from the rate at which the knee is expected, relative to that rate.
const NEAR: f64 = 0.05;
/// Runs grow by at most this factor at once: the interval that they are sized by is itself an estimate.
const GROWTH: f64 = 16.0;
/// Runs are this much longer than the interval asks for, so that one more round is seldom needed.
const MARGIN: f64 = 1.5;

/// A search by brackets and bisection, whose runs grow until the answer is as precise as the tolerance.
#[derive(Clone, Copy, Debug)]
pub struct RateSearch;

/// The highest rates that meet the objective.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Knee {
    /// The highest rate of each replication. Empty if no rate meets the objective.
    pub rates: Vec<Rate>,
    /// Half the width of the bracket that the search of a rate ended with, relative to the rate.
    pub resolution: f64,
    /// The number of requests of each run.
    pub requests: u32,
    /// Why the answer may be wrong by more than the tolerance, or why no rate meets the objective.
    pub caveat: Option<String>,
}

impl Knee {
    fn from_replications(found: &[ReplicationResult], resolution: f64) -> Knee {
        let rates: Result<Vec<Rate>, &String> =
            found.iter().map(|one| one.outcome.rate()).collect();
        Knee {
            // The middle of the bracket is off by half its width at most.
            resolution: resolution / 2.0,
            requests: found[0].requests,
            caveat: rates.as_ref().err().map(ToString::to_string),
            rates: rates.unwrap_or_default(),
        }
    }

    pub fn mean(&self) -> Option<Rate> {
        if self.rates.is_empty() {
            return None;
        }
        let sum: f64 = self.scores().iter().sum();
        Some(Rate(sum / self.rates.len() as f64))
    }

    /// The half-width of the 95 % confidence interval over the replications, with the search's resolution. `None` for
    /// fewer than two replications.
    pub fn half_width(&self) -> Option<f64> {
        let Interval { mean, half_width } = interval(&self.scores())?;
        Some(half_width + mean * self.resolution)
    }
}

impl Finding for Knee {
    /// The rates in requests per second.
    fn scores(&self) -> Vec<f64> {
        self.rates.iter().map(|rate| rate.0).collect()
    }

    fn second_score(&self) -> f64 {
        0.0
    }

    fn resolution(&self) -> f64 {
        self.resolution
    }

    fn expected_rate(&self) -> Option<Rate> {
        self.mean()
    }

    fn workers(&self) -> Option<u32> {
        None
    }

    fn caveat(&self) -> Option<&str> {
        self.caveat.as_deref()
    }
}

/// Where a replication's search begins.
#[derive(Clone, Copy, Debug)]
struct SearchStart {
    rate: f64,
    /// The first step of the bracket, relative to the rate. The steps grow.
    step: f64,
}

/// The task of every replication in a round.
#[derive(Debug)]
pub struct RateRound {
    /// The number of requests of each run. A trace has its own number.
    requests: u32,
    resolution: f64,
    starts: Vec<SearchStart>,
}

/// The finding of a replication in a round.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ReplicationResult {
    #[serde(rename = "found")]
    outcome: BracketOutcome,
    /// The number of requests of each run.
    requests: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum BracketOutcome {
    /// The rate in the middle of the last bracket.
    Knee(f64),
    /// The highest rate that the search may try, which still meets the objective.
    Bound(f64),
    /// Why the lowest rate does not meet the objective.
    Nowhere(String),
}

impl BracketOutcome {
    /// The rate that was found, or why there is none.
    fn rate(&self) -> Result<Rate, &String> {
        match self {
            BracketOutcome::Knee(rate) | BracketOutcome::Bound(rate) => Ok(Rate(*rate)),
            BracketOutcome::Nowhere(reason) => Err(reason),
        }
    }
}

impl Search for RateSearch {
    const NAME: &'static str = "knee";

    type Round = RateRound;
    type Found = ReplicationResult;
    type Answer = Knee;

    fn settings(&self) -> String {
        String::new()
    }

    fn parts(&self, effort: &Effort, scenario: &Scenario) -> u32 {
        effort.replications(scenario)
    }

    fn first(&self, question: &Question<'_>) -> Result<RateRound> {
        let Question {
            scenario, effort, ..
        } = *question;
        let first = first_rate(scenario)?;
        let start = match effort.near {
            Some(near) => SearchStart {
                rate: near.0,
                step: NEAR,
            },
            None => SearchStart {
                rate: first.0,
                step: 1.0,
            },
        };
        let requests = question.objective.shortest_run(scenario);
        let fine = fine_resolution(effort);
        // A coarse result serves to size longer runs.
        let is_last = requests >= effort.longest_run(scenario);
        Ok(RateRound {
            requests,
            resolution: if is_last { fine } else { COARSE.max(fine) },
            starts: vec![start; effort.replications(scenario) as usize],
        })
    }

    fn run(
        &self,
        question: &Question<'_>,
        policy: usize,
        round: &RateRound,
        parts: &[u32],
        keep: &(dyn Fn(u32, &ReplicationResult) -> Result<()> + Sync),
    ) -> Result<Vec<ReplicationResult>> {
        let scenario = question
            .effort
            .with_requests(question.scenario, round.requests);
        let (inputs, device) = prepare_until(&scenario, SelectedBackend::SIM, question.stop)?;
        let bounds = device.bounds(&inputs)?;
        let ceiling = bounds
            .and_then(|bounds| bounds.ceiling_rps)
            .unwrap_or(HIGHEST);
        let requests = inputs.requests(0)?.len() as u32;
        let trials = Trials {
            question,
            policy,
            inputs: &inputs,
            device: &device,
        };
        parts
            .par_iter()
            .with_max_len(1)
            .map(|replication| {
                let outcome = bracket(
                    |rate| trials.miss(rate, *replication),
                    round.starts[*replication as usize],
                    round.resolution,
                    ceiling.min(HIGHEST),
                )?;
                let found = ReplicationResult { outcome, requests };
                keep(*replication, &found)?;
                Ok(found)
            })
            .collect()
    }

    /// Repeats the search with longer runs until the result is as precise as the tolerance.
    fn judge(
        &self,
        question: &Question<'_>,
        round: &RateRound,
        found: &[ReplicationResult],
    ) -> ControlFlow<Knee, RateRound> {
        let effort = question.effort;
        let tolerance = effort.tolerance;
        let fine = fine_resolution(effort);
        let longest = effort.longest_run(question.scenario);
        let requests = found[0].requests;
        let knee = Knee::from_replications(found, round.resolution);
        let Some(Rate(mean)) = knee.mean() else {
            return ControlFlow::Break(knee);
        };
        let half_width = match knee.half_width() {
            Some(half_width) => half_width / mean,
            None => round.resolution,
        };
        // Overloaded by a fraction x, a system falls behind by x seconds per second, so that its queue takes SLO / x
        // to break the objective.
        let visible = question.objective.slo.as_secs_f64() * mean / tolerance;
        let is_bound = found
            .iter()
            .any(|one| matches!(one.outcome, BracketOutcome::Bound(_)));
        if round.resolution == fine {
            if half_width <= tolerance && f64::from(requests) >= visible && !is_bound {
                return ControlFlow::Break(knee);
            }
            if requests >= longest {
                let caveat = describe_limit(question, requests, half_width, mean);
                return ControlFlow::Break(Knee {
                    caveat: Some(caveat),
                    ..knee
                });
            }
        }
        // The brackets of the first round are wide, but those of the next are not.
        let noise = half_width - round.resolution / 2.0;
        let missing = if is_bound {
            GROWTH
        } else {
            (noise / (tolerance - fine)).powi(2) * MARGIN
        };
        let factor = missing
            .max(visible / f64::from(round.requests))
            .clamp(1.0, GROWTH);
        let step = (2.0 * half_width).clamp(fine, 1.0);
        let starts = knee
            .rates
            .iter()
            .map(|rate| SearchStart { rate: rate.0, step });
        ControlFlow::Continue(RateRound {
            requests: ((f64::from(round.requests) * factor) as u32).min(longest),
            resolution: fine,
            starts: starts.collect(),
        })
    }
}

/// The bracket of the last round, relative to the rate.
fn fine_resolution(effort: &Effort) -> f64 {
    effort.tolerance * RESOLUTION
}

/// Why the answer may be wrong because of the length of the runs.
fn describe_limit(question: &Question<'_>, requests: u32, half_width: f64, rate: f64) -> String {
    let tolerance = question.effort.tolerance;
    let overload = question.objective.slo.as_secs_f64() * rate / f64::from(requests);
    let open = if overload > tolerance {
        format!(
            "an overload below {:.1} % may meet the objective to the end of the run",
            100.0 * overload
        )
    } else if half_width > tolerance {
        format!("the interval is ±{:.2} %", 100.0 * half_width)
    } else {
        "the objective still holds at the highest rate that can be served".into()
    };
    let more = match question.scenario.workload.load.drawn() {
        Some(_) => "--max-requests allows longer ones",
        None => "only a longer trace shows more",
    };
    format!("limited by runs of {requests} requests: {open}; {more}")
}

/// The runs of a round for one policy.
struct Trials<'a> {
    question: &'a Question<'a>,
    policy: usize,
    inputs: &'a RunInputs<'a>,
    device: &'a Target,
}

impl Trials<'_> {
    /// Why a rate does not meet the objective, or `None` if it does.
    fn miss(&self, rate: f64, replication: u32) -> Result<Option<String>> {
        let objective = self.question.objective;
        let rate = Rate(rate);
        let run = Run {
            policy: self.policy,
            load: LoadPoint::Rate(rate),
            replication,
        };
        // The reason is reported for the lowest rate only.
        let limit = if rate.0 > LOWEST {
            objective.early_end(self.inputs)
        } else {
            None
        };
        Ok(
            match attain(self.inputs, self.device, &run, self.question, limit)? {
                None => Some(String::new()),
                Some(attained) if objective.is_met(&attained) => None,
                Some(attained) => {
                    Some(objective.describe_miss(&attained, format_args!("{rate} req/s")))
                }
            },
        )
    }
}

/// Brackets the knee by growing steps, then bisects on a logarithmic scale until the bracket is as narrow as
/// `resolution`, relative to the rate. `miss` returns why a rate does not meet the objective, or `None` if it does.
fn bracket(
    mut miss: impl FnMut(f64) -> Result<Option<String>>,
    start: SearchStart,
    resolution: f64,
    highest: f64,
) -> Result<BracketOutcome> {
    let first = start.rate.clamp(LOWEST, highest);
    let mut low = first;
    let mut high = first;
    let mut factor = 1.0 + start.step;
    if miss(first)?.is_none() {
        loop {
            if high >= highest {
                return Ok(BracketOutcome::Bound(highest));
            }
            low = high;
            high = (high * factor).min(highest);
            if miss(high)?.is_some() {
                break;
            }
            factor = (factor * factor).min(2.0);
        }
    } else {
        loop {
            high = low;
            low = (low / factor).max(LOWEST);
            let Some(reason) = miss(low)? else { break };
            if low <= LOWEST {
                return Ok(BracketOutcome::Nowhere(reason));
            }
            factor = (factor * factor).min(2.0);
        }
    }
    while high / low > 1.0 + resolution {
        let middle = (low * high).sqrt();
        if miss(middle)?.is_none() {
            low = middle;
        } else {
            high = middle;
        }
    }
    Ok(BracketOutcome::Knee((low * high).sqrt()))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::super::objective::{Objective, ObjectiveTime};
    use super::super::parts::SearchRecord;
    use super::*;
    use crate::core::policy::registry::Registry;
    use crate::lab::run::prepare;
    use crate::lab::scenario::Quantile;

    fn search_for(knee: f64, rate: f64, step: f64, highest: f64) -> BracketOutcome {
        let miss = |tried: f64| {
            assert!((LOWEST..=highest).contains(&tried), "{tried}");
            Ok((tried > knee).then(|| format!("too high: {tried}")))
        };
        bracket(miss, SearchStart { rate, step }, 0.001, highest).unwrap()
    }

    #[test]
    fn a_run_ends_early_only_if_it_misses_the_objective() {
        let file = std::path::Path::new("scenarios/dvabatch/vgg19.toml");
        let scenario = Scenario::load(
            file,
            &["workload.requests=2001".into()],
            &Registry::standard(),
        )
        .unwrap();
        let (inputs, device) = prepare(&scenario, SelectedBackend::SIM).unwrap();
        let objective = Objective {
            slo: scenario.metrics.slo.unwrap(),
            quantile: Quantile::P99,
            max_rejected: 0.0,
            limited: ObjectiveTime::Latency,
        };
        let effort = Effort {
            tolerance: 0.01,
            replications: 1,
            max_requests: 0,
            near: None,
        };
        let question = Question {
            scenario: &scenario,
            objective: &objective,
            effort: &effort,
            record: &SearchRecord::default(),
            stop: &AtomicBool::new(false),
            progress: &|| (),
        };
        let mut ended = 0;
        for (policy, rate) in
            (0..scenario.policies.len()).flat_map(|policy| (1..9).map(move |i| (policy, i * 100)))
        {
            let run = Run {
                policy,
                load: LoadPoint::Rate(Rate(rate.into())),
                replication: 0,
            };
            let attain = |limit| attain(&inputs, &device, &run, &question, limit).unwrap();
            let whole = objective.is_met(&attain(None).unwrap());
            match attain(objective.early_end(&inputs)) {
                Some(early) => assert_eq!(objective.is_met(&early), whole, "{rate}"),
                None => assert!(!whole, "{rate}"),
            }
            ended += u32::from(attain(objective.early_end(&inputs)).is_none());
        }
        assert!((3..22).contains(&ended), "some of 24 do: {ended}");
    }

    #[test]
    fn the_search_closes_in_from_either_side() {
        for knee in [0.02, 7.0, 1_000.0, 123_456.0] {
            for first in [1.0, 1_000.0, 1e6] {
                for step in [0.001, 0.1, 1.0] {
                    let BracketOutcome::Knee(found) = search_for(knee, first, step, HIGHEST) else {
                        panic!("{knee} from {first}")
                    };
                    assert!(
                        (found / knee - 1.0).abs() <= 0.0005,
                        "{found} for {knee} from {first}"
                    );
                }
            }
        }
    }

    #[test]
    fn the_search_ends_where_there_is_no_knee() {
        for first in [1e-3, 100.0, 6e8, 1e9] {
            assert_eq!(
                search_for(0.0, first, 1.0, HIGHEST),
                BracketOutcome::Nowhere("too high: 0.001".into())
            );
            assert_eq!(
                search_for(2.0 * HIGHEST, first, 1.0, HIGHEST),
                BracketOutcome::Bound(HIGHEST)
            );
            assert_eq!(
                search_for(700.0, first, 1.0, 500.0),
                BracketOutcome::Bound(500.0),
                "not above the ceiling"
            );
        }
    }
}
