//! The search for the knee: the highest rate at which a policy meets a latency objective. docs/METRICS.md describes the
//! method.

use std::f64::consts::SQRT_2;
use std::ops::ControlFlow;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::objective::{Effort, MissedObjective, attain, first_rate};
use super::{Finding, Question, Search};
use crate::base::error::Result;
use crate::base::units::{Nanos, Rate};
use crate::core::summary::stats::{Interval, interval};
use crate::lab::run::Run;
use crate::lab::run::executor::SelectedBackend;
use crate::lab::run::inputs::RunInputs;
use crate::lab::run::target::{Target, prepare_until};
use crate::lab::scenario::{LoadPoint, Scenario};

/// At the lowest rate that is tried, the mean gap between requests is between a tenth of this many times the objective
/// and this many times: each request is alone, and lower rates are no different.
const ALONE: f64 = 1e4;
/// The longest time that a run at the lowest rate may simulate, in seconds: the clock ends after 292 years.
const LONGEST_RUN: f64 = 1e9;
/// The highest rate that is tried, in requests per second.
const HIGHEST: f64 = 1e9;
/// The bracket of the last round, as a share of the tolerance.
const RESOLUTION: f64 = 0.2;
/// The bracket of the first round, relative to the rate: its result only sizes the next runs.
const COARSE: f64 = 0.02;
/// The first step from the rate at which the knee is expected, relative to that rate.
const NEAR: f64 = 0.05;
/// Runs grow by at most this factor at once: the interval that they are sized by is itself an estimate.
const GROWTH: f64 = 16.0;
/// Runs are this many times as long as an overload of the tolerance needs to show, if they can be. Near its capacity a
/// system is slow to reach its steady state, so shorter runs find rates that are too high.
const PATIENCE: f64 = 4.0;
/// Runs are this much longer than the interval asks for, so that one more round is seldom needed.
const MARGIN: f64 = 1.5;

/// A search by brackets and bisection, whose runs grow until the answer is as precise as the tolerance.
#[derive(Clone, Copy, Debug)]
pub struct RateSearch;

/// The rates that meet the objective.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Knee {
    /// The highest rate of each replication. Empty if no rate meets the objective.
    pub rates: Vec<Rate>,
    /// The lowest rate of each replication, below which requests wait too long for others. Empty if the objective is met
    /// down to the lowest rate that was tried.
    pub lowest: Vec<Rate>,
    /// The class that misses its objective just above the highest rate, in most replications. `None` if the objective is
    /// that of all requests together.
    pub limiting_class: Option<String>,
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
        let lowest: Option<Vec<Rate>> = found.iter().map(|one| one.lowest.map(Rate)).collect();
        Knee {
            // The middle of the bracket is off by half its width at most.
            resolution: resolution / 2.0,
            requests: found[0].requests,
            lowest: lowest.unwrap_or_default(),
            limiting_class: most_frequent(found.iter().filter_map(|one| one.class.as_deref())),
            caveat: rates.as_ref().err().map(ToString::to_string),
            rates: rates.unwrap_or_default(),
        }
    }

    /// The highest rate, as the mean over the replications.
    pub fn mean(&self) -> Option<Rate> {
        mean(&self.rates)
    }

    /// Half the width of the highest rate's 95 % confidence interval. `None` for fewer than two replications.
    pub fn half_width(&self) -> Option<f64> {
        half_width(&self.rates, self.resolution)
    }

    /// The lowest rate, as the mean over the replications.
    pub fn lowest_mean(&self) -> Option<Rate> {
        mean(&self.lowest)
    }

    /// Half the width of the lowest rate's 95 % confidence interval. `None` for fewer than two replications.
    pub fn lowest_half_width(&self) -> Option<f64> {
        half_width(&self.lowest, self.resolution)
    }
}

/// The text that occurs most often, the first one of several.
fn most_frequent<'t>(texts: impl Iterator<Item = &'t str> + Clone) -> Option<String> {
    let count = |text: &str| texts.clone().filter(|other| *other == text).count();
    let all: Vec<&str> = texts.clone().collect();
    // The last of several maxima is taken.
    let most = all.into_iter().rev().max_by_key(|text| count(text));
    most.map(String::from)
}

fn mean(rates: &[Rate]) -> Option<Rate> {
    if rates.is_empty() {
        return None;
    }
    let sum: f64 = rates.iter().map(|rate| rate.0).sum();
    Some(Rate(sum / rates.len() as f64))
}

/// The half-width of the 95 % confidence interval over the replications. Their deviation contains the errors of their
/// brackets, which are independent; only if it is less than half a bracket may all have erred in the same direction.
fn half_width(rates: &[Rate], resolution: f64) -> Option<f64> {
    let rates: Vec<f64> = rates.iter().map(|rate| rate.0).collect();
    let Interval { mean, half_width } = interval(&rates)?;
    Some(half_width.max(mean * resolution))
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

    fn limiting_class(&self) -> Option<&str> {
        self.limiting_class.as_deref()
    }

    fn caveat(&self) -> Option<&str> {
        self.caveat.as_deref()
    }
}

/// Where a replication's search begins.
#[derive(Clone, Copy, Debug)]
struct SearchStart {
    rate: f64,
    /// The first step of the bracket, relative to the rate, if the knee is expected nearby. The steps grow. `None` to
    /// try all rates.
    step: Option<f64>,
    lowest: LowestStart,
}

/// Where the search for the lowest rate begins.
#[derive(Clone, Copy, Debug)]
enum LowestStart {
    /// Nothing is known about it.
    Unknown,
    /// Nothing is looked for: all low rates meet the objective, or the lowest rate is of no interest.
    Nowhere,
    Near(f64),
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReplicationResult {
    #[serde(rename = "found")]
    outcome: BracketOutcome,
    /// The lowest rate that meets the objective, if there is one.
    lowest: Option<f64>,
    /// The class that misses its objective just above the highest rate.
    class: Option<String>,
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
                step: Some(NEAR),
                lowest: LowestStart::Nowhere,
            },
            None => SearchStart {
                rate: first.0,
                step: None,
                lowest: LowestStart::Unknown,
            },
        };
        let requests = effort.first_run(scenario, question.objective);
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
        let highest = ceiling.min(HIGHEST);
        let lowest = lowest_rate(question.objective.longest_slo(), requests, highest);
        parts
            .par_iter()
            .with_max_len(1)
            .map(|replication| {
                let bracket = Bracket {
                    trial: |rate, whole| trials.miss(rate, *replication, whole),
                    lowest,
                    highest,
                    resolution: round.resolution,
                };
                let found = bracket.find(round.starts[*replication as usize], requests)?;
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
        let visible = question.objective.longest_slo().as_secs_f64() * mean / tolerance;
        let is_bound = found
            .iter()
            .any(|one| matches!(one.outcome, BracketOutcome::Bound(_)));
        if round.resolution == fine {
            let is_precise = half_width <= tolerance && !is_bound;
            let is_longest = requests >= longest;
            let shown = f64::from(requests) / visible;
            if is_precise && (shown >= PATIENCE || is_longest && shown >= 1.0) {
                return ControlFlow::Break(knee);
            }
            if is_longest {
                let caveat = describe_limit(question, requests, half_width, mean);
                return ControlFlow::Break(Knee {
                    caveat: Some(caveat),
                    ..knee
                });
            }
        }
        let missing = if is_bound {
            GROWTH
        } else {
            (half_width / tolerance).powi(2) * MARGIN
        };
        let factor = missing
            .max(1.1 * PATIENCE * visible / f64::from(round.requests))
            .clamp(1.0, GROWTH);
        let step = (2.0 * half_width).clamp(fine, 1.0);
        let starts = knee
            .rates
            .iter()
            .zip(found)
            .map(|(rate, found)| SearchStart {
                rate: rate.0,
                step: Some(step),
                lowest: found.lowest.map_or(LowestStart::Nowhere, LowestStart::Near),
            });
        ControlFlow::Continue(RateRound {
            // The next runs are longer in any case, so that the search ends.
            requests: ((f64::from(round.requests) * factor) as u32)
                .max(round.requests.saturating_add(1))
                .min(longest),
            resolution: fine,
            starts: starts.collect(),
        })
    }
}

/// The lowest rate that is tried, given the highest one. It is a power of ten, unless the clock does not allow that.
fn lowest_rate(longest_slo: Nanos, requests: u32, highest: f64) -> f64 {
    let alone = (1.0 / longest_slo.as_secs_f64()).min(highest) / ALONE;
    let lowest = 10_f64.powi(alone.log10().ceil() as i32);
    lowest
        .max(f64::from(requests) / LONGEST_RUN)
        .min(highest / 2.0)
}

/// The bracket of the last round, relative to the rate.
fn fine_resolution(effort: &Effort) -> f64 {
    effort.tolerance * RESOLUTION
}

/// Why the answer may be wrong because of the length of the runs.
fn describe_limit(question: &Question<'_>, requests: u32, half_width: f64, rate: f64) -> String {
    let tolerance = question.effort.tolerance;
    let overload = question.objective.longest_slo().as_secs_f64() * rate / f64::from(requests);
    let open = if overload >= 1.0 {
        "they are too short to show any overload".into()
    } else if overload > tolerance {
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
    /// Why a rate does not meet the objective, or `None` if it does. A run that is not `whole` may end before its reason
    /// is known.
    fn miss(&self, rate: f64, replication: u32, whole: bool) -> Result<Option<MissedObjective>> {
        let objective = self.question.objective;
        let rate = Rate(rate);
        let run = Run {
            policy: self.policy,
            load: LoadPoint::Rate(rate),
            replication,
        };
        let limit = if whole {
            None
        } else {
            objective.early_end(self.inputs)
        };
        Ok(
            match attain(self.inputs, self.device, &run, self.question, limit)? {
                None => Some(MissedObjective {
                    reason: String::new(),
                    class: None,
                    saturated: false,
                }),
                Some(attained) if objective.is_met(&attained) => None,
                Some(attained) => Some(objective.miss(&attained, format_args!("{rate} req/s"))),
            },
        )
    }
}

/// Two rates between which the highest rate lies, or why there are none.
enum Ends {
    Between {
        low: f64,
        high: f64,
        /// The class that misses its objective at the higher rate.
        class: Option<String>,
    },
    /// All rates from `low` up to the highest that the search may try meet the objective.
    Bound {
        low: f64,
    },
    Nowhere(String),
}

/// The search of a replication for the rates that meet the objective.
struct Bracket<T> {
    /// Why a rate does not meet the objective, or `None` if it does. The argument after the rate says whether the whole
    /// run is needed.
    trial: T,
    lowest: f64,
    highest: f64,
    /// The width of the last bracket, relative to the rate.
    resolution: f64,
}

impl<T: FnMut(f64, bool) -> Result<Option<MissedObjective>>> Bracket<T> {
    /// Looks for the highest rate, and for the lowest one if that is asked for.
    fn find(mut self, start: SearchStart, requests: u32) -> Result<ReplicationResult> {
        let first = start.rate.clamp(self.lowest, self.highest);
        let nearby = match start.step {
            Some(step) => Some(self.search_nearby(first, 1.0 + step)?),
            None => None,
        };
        let ends = match nearby {
            None | Some(Ends::Nowhere(_)) => self.search_all(first)?,
            Some(ends) => ends,
        };
        let outcome;
        let mut lowest = None;
        let mut limiting = None;
        match ends {
            Ends::Between { low, high, class } => {
                lowest = self.find_lowest(start, low)?;
                let (knee, class) = self.bisect(low, high, class)?;
                outcome = BracketOutcome::Knee(knee);
                limiting = class;
            }
            Ends::Bound { low } => {
                lowest = self.find_lowest(start, low)?;
                outcome = BracketOutcome::Bound(self.highest);
            }
            Ends::Nowhere(reason) => outcome = BracketOutcome::Nowhere(reason),
        }
        Ok(ReplicationResult {
            outcome,
            lowest,
            class: limiting,
            requests,
        })
    }

    /// Brackets the highest rate by growing steps from a rate that is near to it.
    fn search_nearby(&mut self, first: f64, mut factor: f64) -> Result<Ends> {
        if let Some(miss) = (self.trial)(first, false)? {
            return self.search_downwards(first, factor, miss);
        }
        let mut low = first;
        let mut high = first;
        loop {
            if high >= self.highest {
                return Ok(Ends::Bound { low });
            }
            low = high;
            high = (high * factor).min(self.highest);
            if let Some(MissedObjective { class, .. }) = (self.trial)(high, false)? {
                return Ok(Ends::Between { low, high, class });
            }
            factor = grow(factor);
        }
    }

    /// Tries rates downwards by growing steps from one that does not meet the objective.
    fn search_downwards(
        &mut self,
        first: f64,
        mut factor: f64,
        mut miss: MissedObjective,
    ) -> Result<Ends> {
        let mut low = first;
        while low > self.lowest {
            let high = low;
            low = (low / factor).max(self.lowest);
            let is_lowest = low <= self.lowest;
            let Some(lower) = (self.trial)(low, is_lowest)? else {
                let class = miss.class;
                return Ok(Ends::Between { low, high, class });
            };
            miss = lower;
            factor = grow(factor);
        }
        Ok(Ends::Nowhere(miss.reason))
    }

    /// Tries rates in steps of a factor of two, then those between them if none meets the objective.
    fn search_all(&mut self, first: f64) -> Result<Ends> {
        match self.search_by_doubling(first)? {
            Ends::Nowhere(reason) => {
                let between = (first * SQRT_2).min(self.highest);
                let ends = self.search_by_doubling(between)?;
                Ok(match ends {
                    Ends::Nowhere(_) => Ends::Nowhere(reason),
                    ends => ends,
                })
            }
            ends => Ok(ends),
        }
    }

    /// Tries rates upwards to one at which the queue grows, or else to the highest, because a policy that waits for
    /// requests may meet the objective at higher rates only. If none of them meets it, tries rates downwards.
    fn search_by_doubling(&mut self, first: f64) -> Result<Ends> {
        let mut holding = None;
        // The lowest of the rates above the last one that meets the objective.
        let mut missing: Option<(f64, MissedObjective)> = None;
        let mut rate = first;
        loop {
            match (self.trial)(rate, true)? {
                None => {
                    holding = Some(rate);
                    missing = None;
                }
                Some(miss) => {
                    let saturated = miss.saturated;
                    missing.get_or_insert((rate, miss));
                    if saturated {
                        break;
                    }
                }
            }
            if rate >= self.highest {
                break;
            }
            rate = (2.0 * rate).min(self.highest);
        }
        match (holding, missing) {
            (Some(low), Some((high, MissedObjective { class, .. }))) => {
                Ok(Ends::Between { low, high, class })
            }
            (Some(low), None) => Ok(Ends::Bound { low }),
            (None, Some((_, miss))) => self.search_downwards(first, 2.0, miss),
            (None, None) => unreachable!("a rate was tried"),
        }
    }

    /// Bisects on a logarithmic scale between a rate that meets the objective and a lower or higher one that does not,
    /// and returns the middle of the last bracket, with the class that misses its objective at the latter end.
    fn bisect(
        &mut self,
        mut holding: f64,
        mut missing: f64,
        mut class: Option<String>,
    ) -> Result<(f64, Option<String>)> {
        while (missing / holding).max(holding / missing) > 1.0 + self.resolution {
            let middle = (missing * holding).sqrt();
            match (self.trial)(middle, false)? {
                None => holding = middle,
                Some(miss) => {
                    missing = middle;
                    class = miss.class;
                }
            }
        }
        Ok(((missing * holding).sqrt(), class))
    }

    /// Looks for the lowest rate that meets the objective, below one that does. `None` if the lowest rate that the
    /// search may try meets it, or if nothing is asked for.
    fn find_lowest(&mut self, start: SearchStart, holding: f64) -> Result<Option<f64>> {
        let mut holding = holding;
        let mut missing = self.lowest;
        match start.lowest {
            LowestStart::Nowhere => return Ok(None),
            LowestStart::Unknown => {
                if holding <= self.lowest || (self.trial)(self.lowest, false)?.is_none() {
                    return Ok(None);
                }
            }
            LowestStart::Near(near) => {
                let mut factor = 1.0 + start.step.unwrap_or(1.0);
                let mut rate = near.clamp(self.lowest, holding);
                if rate < holding && (self.trial)(rate, false)?.is_some() {
                    missing = rate;
                    loop {
                        rate = (rate * factor).min(holding);
                        if rate >= holding || (self.trial)(rate, false)?.is_none() {
                            break;
                        }
                        missing = rate;
                        factor = grow(factor);
                    }
                    holding = rate;
                } else {
                    holding = rate;
                    loop {
                        if rate <= self.lowest {
                            return Ok(None);
                        }
                        rate = (rate / factor).max(self.lowest);
                        if (self.trial)(rate, false)?.is_some() {
                            break;
                        }
                        holding = rate;
                        factor = grow(factor);
                    }
                    missing = rate;
                }
            }
        }
        let (lowest, _) = self.bisect(holding, missing, None)?;
        Ok(Some(lowest))
    }
}

/// The factor between the next two rates of a bracket that grows.
fn grow(factor: f64) -> f64 {
    (factor * factor).min(2.0)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;
    use rand_distr::{Distribution as _, Open01, StandardNormal};

    use super::super::objective::Objective;
    use super::super::parts::SearchRecord;
    use super::*;
    use crate::core::policy::registry::Registry;
    use crate::lab::run::prepare;
    use crate::lab::scenario::Quantile;

    const LOWEST: f64 = 1e-3;

    fn miss(reason: impl Into<String>, saturated: bool) -> Option<MissedObjective> {
        Some(MissedObjective {
            reason: reason.into(),
            class: None,
            saturated,
        })
    }

    fn question<'a>(
        scenario: &'a Scenario,
        objective: &'a Objective,
        effort: &'a Effort,
        record: &'a SearchRecord,
    ) -> Question<'a> {
        static STOP: AtomicBool = AtomicBool::new(false);
        Question {
            scenario,
            objective,
            effort,
            record,
            stop: &STOP,
            progress: &|| (),
        }
    }

    fn find(
        trial: impl FnMut(f64, bool) -> Result<Option<MissedObjective>>,
        start: SearchStart,
        highest: f64,
    ) -> ReplicationResult {
        let bracket = Bracket {
            trial,
            lowest: LOWEST,
            highest,
            resolution: 0.001,
        };
        bracket.find(start, 1).unwrap()
    }

    fn search_for(knee: f64, rate: f64, step: Option<f64>, highest: f64) -> BracketOutcome {
        let trial = |tried: f64, _| {
            assert!((LOWEST..=highest).contains(&tried), "{tried}");
            Ok(miss(format!("too high: {tried}"), true).filter(|_| tried > knee))
        };
        let start = SearchStart {
            rate,
            step,
            lowest: LowestStart::Unknown,
        };
        let found = find(trial, start, highest);
        assert_eq!(found.lowest, None);
        found.outcome
    }

    /// Rates from one to another hold; below, requests wait for others, and above, they wait for the worker.
    fn search_for_interval(
        ends: &[(f64, f64)],
        rate: f64,
        step: Option<f64>,
        lowest: LowestStart,
    ) -> ReplicationResult {
        let trial = |tried: f64, _| {
            let holds = ends
                .iter()
                .any(|(low, high)| (*low..=*high).contains(&tried));
            let grows = tried > 2.0 * ends.last().unwrap().1;
            Ok(miss(tried.to_string(), grows).filter(|_| !holds))
        };
        find(trial, SearchStart { rate, step, lowest }, HIGHEST)
    }

    #[track_caller]
    fn is_near(found: Option<f64>, expected: f64) {
        let found = found.unwrap();
        assert!(
            (found / expected - 1.0).abs() <= 0.0005,
            "{found} for {expected}"
        );
    }

    #[test]
    fn the_highest_and_the_lowest_rate_of_an_interval_are_found_from_any_side() {
        let ends = [(350.0, 8_155.0)];
        for first in [LOWEST, 1.0, 100.0, 349.0, 1_000.0, 9_000.0, 1e6] {
            let found = search_for_interval(&ends, first, None, LowestStart::Unknown);
            is_near(found.outcome.rate().ok().map(|rate| rate.0), 8_155.0);
            is_near(found.lowest, 350.0);
        }
        for near in [200.0, 340.0, 350.0, 360.0, 3_000.0, 1e5] {
            let found = search_for_interval(&ends, 8_000.0, Some(0.01), LowestStart::Near(near));
            is_near(found.outcome.rate().ok().map(|rate| rate.0), 8_155.0);
            is_near(found.lowest, 350.0);
        }
        // An interval that doubled rates jump over.
        let found = search_for_interval(&[(270.0, 390.0)], 100.0, None, LowestStart::Unknown);
        is_near(found.outcome.rate().ok().map(|rate| rate.0), 390.0);
        // Of several intervals, the highest.
        let several = [(0.0, 10.0), (700.0, 2_000.0)];
        let found = search_for_interval(&several, 1.0, None, LowestStart::Unknown);
        is_near(found.outcome.rate().ok().map(|rate| rate.0), 2_000.0);
        assert_eq!(found.lowest, None, "low rates hold too");
        // The longer runs of a later round may leave nothing where the shorter ones had found it.
        let found = search_for_interval(&ends, 100.0, Some(0.01), LowestStart::Nowhere);
        is_near(found.outcome.rate().ok().map(|rate| rate.0), 8_155.0);
    }

    /// Replications that find normal rates around a known knee. As in M/D/1 within 10 ms, their deviation is 2.1 % with
    /// 20,000 requests, and falls with the root of the length.
    #[test]
    fn nineteen_of_twenty_searches_hold_the_knee() {
        let file = std::path::Path::new("scenarios/quickstart.toml");
        let set = ["workload.requests=20000".into()];
        let scenario = Scenario::load(file, &set, &Registry::standard()).unwrap();
        let objective = Objective::new(Nanos(10_000_000), Quantile::P99);
        let effort = Effort {
            tolerance: 0.005,
            replications: 10,
            max_requests: 2_000_000,
            near: None,
        };
        let record = SearchRecord::default();
        let question = question(&scenario, &objective, &effort, &record);
        let exact = 773.5;
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let mut search = || {
            let mut round = RateSearch.first(&question).unwrap();
            loop {
                let deviation = 0.021 * (20_000.0 / f64::from(round.requests)).sqrt();
                let found: Vec<ReplicationResult> = (0..10)
                    .map(|_| {
                        let noise: f64 = StandardNormal.sample(&mut random);
                        let place: f64 = Open01.sample(&mut random);
                        let in_bracket = 1.0 + round.resolution * (place - 0.5);
                        ReplicationResult {
                            outcome: BracketOutcome::Knee(
                                exact * (1.0 + deviation * noise) * in_bracket,
                            ),
                            lowest: None,
                            class: None,
                            requests: round.requests,
                        }
                    })
                    .collect();
                match RateSearch.judge(&question, &round, &found) {
                    ControlFlow::Continue(next) => round = next,
                    ControlFlow::Break(knee) => return knee,
                }
            }
        };
        let mut covered = 0;
        for _ in 0..2000 {
            let knee = search();
            let half_width = knee.half_width().unwrap();
            assert!(half_width <= 0.005 * knee.mean().unwrap().0 && knee.caveat.is_none());
            covered += u32::from((knee.mean().unwrap().0 - exact).abs() <= half_width);
        }
        // 92.5 to 97 %.
        assert!((1850..=1940).contains(&covered), "{covered} of 2000");
    }

    #[test]
    fn at_the_lowest_rate_each_request_is_alone() {
        let second = 1_000_000_000;
        assert_eq!(lowest_rate(Nanos(second / 20), 20_000, 1e4), 0.01);
        assert_eq!(lowest_rate(Nanos(1), 20_000, 1_818.0), 1.0);
        // Runs at a lower rate would last longer than the clock.
        assert_eq!(lowest_rate(Nanos(1_000 * second), 1_000, 0.003), 1e-6);
        assert_eq!(lowest_rate(Nanos(1_000 * second), 2_000_000, 0.003), 0.0015);
    }

    #[test]
    fn the_interval_is_not_narrower_than_half_a_bracket() {
        let rates = [100.0, 100.0, 100.0].map(Rate);
        assert_eq!(half_width(&rates, 0.01), Some(1.0));
        let rates = [90.0, 100.0, 110.0].map(Rate);
        let alone = half_width(&rates, 0.0);
        assert_eq!(half_width(&rates, 0.01), alone);
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
        let objective = Objective::new(scenario.metrics.slo.unwrap(), Quantile::P99);
        let effort = Effort {
            tolerance: 0.01,
            replications: 1,
            max_requests: 0,
            near: None,
        };
        let record = SearchRecord::default();
        let question = question(&scenario, &objective, &effort, &record);
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
                for step in [Some(0.001), Some(0.1), None] {
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
    fn no_rate_is_tried_twice() {
        for first in [1.0, 100.0, 1e4, HIGHEST] {
            for step in [Some(0.01), None] {
                let mut tried = Vec::new();
                let trial = |rate: f64, _| {
                    assert!(!tried.contains(&rate), "{rate} from {first}");
                    tried.push(rate);
                    Ok(miss("too high", true).filter(|_| rate > 1_000.0))
                };
                let start = SearchStart {
                    rate: first,
                    step,
                    lowest: LowestStart::Unknown,
                };
                find(trial, start, HIGHEST);
            }
        }
        let mut tried = Vec::new();
        let trial = |rate: f64, _| {
            tried.push(rate);
            Ok(miss("never", true))
        };
        let start = SearchStart {
            rate: LOWEST,
            step: None,
            lowest: LowestStart::Unknown,
        };
        find(trial, start, HIGHEST);
        assert_eq!(tried, [LOWEST, LOWEST * SQRT_2, LOWEST]);
    }

    #[test]
    fn the_search_ends_where_there_is_no_knee() {
        for first in [1e-3, 100.0, 6e8, 1e9] {
            assert_eq!(
                search_for(0.0, first, None, HIGHEST),
                BracketOutcome::Nowhere("too high: 0.001".into())
            );
            assert_eq!(
                search_for(2.0 * HIGHEST, first, None, HIGHEST),
                BracketOutcome::Bound(HIGHEST)
            );
            assert_eq!(
                search_for(700.0, first, None, 500.0),
                BracketOutcome::Bound(500.0),
                "not above the ceiling"
            );
        }
    }
}
