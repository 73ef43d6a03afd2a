//! The knee: the highest rate at which a policy holds a latency objective. docs/METRICS.md describes the method.

use std::fmt::{self, Display};
use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};

use super::executor::SelectedBackend;
use super::goal::Answer;
use super::inputs::RunInputs;
use super::job::Run;
use super::search::{Question, Rounds, Searched, of_each_policy};
use super::target::{Target, prepare_until};
use crate::base::error::{Error, Result};
use crate::base::units::{Nanos, Rate};
use crate::core::record::Recorder;
use crate::core::record::{Limit, RecordOptions};
use crate::core::summary::attainment::{Attainment, LimitedTime};
use crate::lab::scenario::{Load, LoadPoint, Quantile, Scenario, Warmup};

#[derive(Clone, Copy, Debug)]
pub struct Objective {
    pub slo: Nanos,
    pub quantile: Quantile,
    /// The share of rejected requests that count neither as met nor as missed; others count as missed.
    pub max_rejected: f64,
    /// Of language models: `slo` is that of the time to the first token, and this of the times between tokens, if any.
    pub tokens: Option<Option<Nanos>>,
}

/// Such as `p99 at most 100ms`.
impl fmt::Display for Objective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Objective {
            slo,
            quantile,
            tokens,
            ..
        } = self;
        match tokens {
            None => write!(f, "{quantile} at most {slo}"),
            Some(gap) => {
                write!(f, "{quantile} of the time to the first token at most {slo}")?;
                gap.map_or(Ok(()), |gap| {
                    write!(f, ", of the times between tokens at most {gap}")
                })
            }
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// The half-width of the result, relative to the rate.
    pub tolerance: f64,
    pub replications: u32,
    /// The longest run, in requests.
    pub max_requests: u32,
    /// Where the knee is expected. The search begins there, not at the scenario's first rate, and with a small step.
    pub near: Option<Rate>,
}

impl Effort {
    /// The scenario with runs of this many requests. A trace keeps its own number.
    pub(super) fn sized(&self, scenario: &Scenario, requests: u32) -> Scenario {
        let mut scenario = scenario.clone();
        if let Load::Drawn {
            requests: drawn, ..
        } = &mut scenario.workload.load
        {
            *drawn = requests.into();
        }
        scenario
    }

    /// The longest run; 0 for a trace, which cannot grow.
    pub(super) fn longest(&self, scenario: &Scenario) -> u32 {
        scenario
            .workload
            .load
            .drawn()
            .map_or(0, |given| given.max(self.max_requests))
    }

    /// All replications of a trace are the same.
    pub fn replications(&self, scenario: &Scenario) -> u32 {
        scenario
            .workload
            .load
            .drawn()
            .map_or(1, |_| self.replications)
    }
}

/// In requests per second.
const LOWEST: f64 = 1e-3;
const HIGHEST: f64 = 1e9;
/// The share of the tolerance that the bracket of the last search may take up.
const RESOLUTION: f64 = 0.2;
/// The bracket of the first search, relative to the rate: its result only sizes the next runs.
const COARSE: f64 = 0.02;
/// The first step from where the knee is expected, relative to the rate.
const NEAR: f64 = 0.05;
/// Runs grow by at most this factor at once: the interval that they are sized by is itself an estimate.
const GROWTH: f64 = 16.0;
/// Runs are this much longer than the interval asks for, so that one more round is seldom needed.
const MARGIN: f64 = 1.5;

/// The knee of each policy.
pub fn find(question: &Question<'_>) -> Result<Vec<Searched<Answer>>> {
    let first = over_rates(question.scenario)?.0;
    let start = question.effort.near.map_or(
        Start {
            rate: first,
            step: 1.0,
        },
        |Rate(rate)| Start { rate, step: NEAR },
    );
    let search = |policy, rounds: Rounds<'_, _>| {
        KneeSearch {
            question,
            policy,
            start,
        }
        .carry_out(rounds)
    };
    of_each_policy(
        question,
        question.effort.replications(question.scenario),
        search,
    )
}

/// The first of the scenario's rates. Fails if its load has none.
pub fn over_rates(scenario: &Scenario) -> Result<Rate> {
    match scenario.points().first() {
        Some(LoadPoint::Rate(first)) => Ok(*first),
        _ => Err(Error::input(format!(
            "{}: arrivals: a knee is looked for over rates; use the process poisson, uniform, gamma, mmpp or periodic, or \
             give a trace `rates`",
            scenario.file.display()
        ))),
    }
}

struct KneeSearch<'a> {
    question: &'a Question<'a>,
    policy: usize,
    start: Start,
}

/// Where a replication's search begins.
#[derive(Clone, Copy, Debug)]
struct Start {
    rate: f64,
    /// The first step of the bracket, relative to the rate; it doubles.
    step: f64,
}

/// What every replication is to do.
struct Round {
    /// Of each run; a trace has its own number.
    requests: u32,
    resolution: f64,
    starts: Vec<Start>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct FoundRate {
    found: Found,
    /// Of each run.
    requests: u32,
}

impl KneeSearch<'_> {
    fn carry_out(&self, mut rounds: Rounds<'_, FoundRate>) -> Result<Searched<Answer>> {
        let mut round = self.first();
        loop {
            let scenario = self
                .question
                .effort
                .sized(self.question.scenario, round.requests);
            let prepared = || {
                let (inputs, device) =
                    prepare_until(&scenario, SelectedBackend::SIM, self.question.stop)?;
                let ceiling = device
                    .bounds(&inputs)?
                    .and_then(|bounds| bounds.ceiling_rps)
                    .unwrap_or(HIGHEST);
                let requests = inputs.requests(0)?.len() as u32;
                Ok((inputs, device, ceiling.min(HIGHEST), requests))
            };
            let one = |(inputs, device, ceiling, requests): &(RunInputs<'_>, Target, f64, u32),
                       replication: u32| {
                let miss = |rate| self.miss(inputs, device, rate, replication);
                let found = search(
                    miss,
                    round.starts[replication as usize],
                    round.resolution,
                    *ceiling,
                )?;
                Ok(FoundRate {
                    found,
                    requests: *requests,
                })
            };
            match rounds
                .next(prepared, one)?
                .map(|found| self.judge(&round, &found))
            {
                Ok(ControlFlow::Continue(next)) => round = next,
                Ok(ControlFlow::Break(knee)) => return Ok(Ok(knee)),
                Err(missing) => return Ok(Err(missing)),
            }
        }
    }

    fn first(&self) -> Round {
        let Question {
            scenario,
            objective,
            effort,
            ..
        } = *self.question;
        let requests = objective.shortest(scenario);
        // A coarse result serves to size longer runs.
        let last = requests >= effort.longest(scenario);
        let resolution = if last {
            self.fine()
        } else {
            COARSE.max(self.fine())
        };
        Round {
            requests,
            resolution,
            starts: vec![self.start; effort.replications(scenario) as usize],
        }
    }

    /// Why a rate does not hold the objective, if it does not.
    fn miss(
        &self,
        inputs: &RunInputs<'_>,
        device: &Target,
        rate: f64,
        replication: u32,
    ) -> Result<Option<String>> {
        let (objective, rate) = (self.question.objective, Rate(rate));
        let run = Run {
            policy: self.policy,
            load: LoadPoint::Rate(rate),
            replication,
        };
        // Only at the lowest rate is the reason told.
        let limit = if rate.0 > LOWEST {
            objective.limit(inputs)
        } else {
            None
        };
        Ok(match attain(inputs, device, &run, self.question, limit)? {
            None => Some(String::new()),
            Some(attained) if objective.holds(&attained) => None,
            Some(attained) => Some(objective.miss(&attained, format_args!("{rate} req/s"))),
        })
    }

    /// Repeats the search with longer runs until the result is as precise as the tolerance.
    fn judge(&self, round: &Round, found: &[FoundRate]) -> ControlFlow<Answer, Round> {
        let Question {
            scenario,
            objective,
            effort,
            ..
        } = *self.question;
        let (tolerance, fine, longest) = (effort.tolerance, self.fine(), effort.longest(scenario));
        let requests = found[0].requests;
        let knee = knee(found, round.resolution);
        let Some(Rate(mean)) = knee.mean() else {
            return ControlFlow::Break(knee);
        };
        let half_width = knee
            .half_width()
            .map_or(round.resolution, |half_width| half_width / mean);
        // Overloaded by a fraction x, a system falls behind by x seconds per second, so that its queue takes SLO / x
        // to break the objective.
        let visible = objective.slo.as_secs_f64() * mean / tolerance;
        let bound = found.iter().any(|one| matches!(one.found, Found::Bound(_)));
        if round.resolution == fine {
            if half_width <= tolerance && f64::from(requests) >= visible && !bound {
                return ControlFlow::Break(knee);
            }
            if requests >= longest {
                return ControlFlow::Break(Answer {
                    caveat: Some(self.limit(requests, half_width, mean)),
                    ..knee
                });
            }
        }
        // The brackets of the first round are wide, but those of the next are not.
        let noise = half_width - round.resolution / 2.0;
        let missing = if bound {
            GROWTH
        } else {
            (noise / (tolerance - fine)).powi(2) * MARGIN
        };
        let factor = missing
            .max(visible / f64::from(round.requests))
            .clamp(1.0, GROWTH);
        let step = (2.0 * half_width).clamp(fine, 1.0);
        ControlFlow::Continue(Round {
            requests: ((f64::from(round.requests) * factor) as u32).min(longest),
            resolution: fine,
            starts: knee
                .rates
                .iter()
                .map(|Rate(rate)| Start { rate: *rate, step })
                .collect(),
        })
    }

    fn fine(&self) -> f64 {
        self.question.effort.tolerance * RESOLUTION
    }

    /// What the length of the runs leaves open.
    fn limit(&self, requests: u32, half_width: f64, rate: f64) -> String {
        let overload = self.question.objective.slo.as_secs_f64() * rate / f64::from(requests);
        let open = if overload > self.question.effort.tolerance {
            format!(
                "an overload below {:.1} % may hold the objective to the end of the run",
                100.0 * overload
            )
        } else if half_width > self.question.effort.tolerance {
            format!("the interval is ±{:.2} %", 100.0 * half_width)
        } else {
            "the objective still holds at the highest rate that can be served".into()
        };
        let more = match self.question.scenario.workload.load.drawn() {
            Some(_) => "--max-requests allows longer ones",
            None => "only a longer trace shows more",
        };
        format!("limited by runs of {requests} requests: {open}; {more}")
    }
}

fn knee(found: &[FoundRate], resolution: f64) -> Answer {
    let rates: Result<Vec<Rate>, &String> = found.iter().map(|one| one.found.rate()).collect();
    let caveat = rates.as_ref().err().map(ToString::to_string);
    // The middle of the bracket is off by half its width at most.
    let (rates, resolution) = (rates.unwrap_or_default(), resolution / 2.0);
    Answer {
        rates,
        resolution,
        requests: found[0].requests,
        caveat,
        ..Answer::default()
    }
}

/// `None` if the run reached the limit.
pub(super) fn attain(
    inputs: &RunInputs<'_>,
    device: &Target,
    run: &Run,
    Question {
        objective, stop, ..
    }: &Question<'_>,
    limit: Option<Limit>,
) -> Result<Option<Attainment>> {
    let ran = device.execute(
        inputs,
        run,
        RecordOptions {
            limit,
            ..RecordOptions::default()
        },
        stop,
    )?;
    if ran.interrupted {
        return if ran.record.has_missed() {
            Ok(None)
        } else {
            Err(Error::Interrupted)
        };
    }
    let warmup = inputs.measure(run.load).warmup;
    let Objective {
        slo,
        quantile,
        tokens,
        ..
    } = **objective;
    let time = if tokens.is_some() {
        LimitedTime::FirstToken
    } else {
        LimitedTime::Latency
    };
    Ok(Some(Attainment::new(
        &ran.record,
        warmup,
        slo,
        quantile,
        time,
    )))
}

impl Objective {
    /// The length of the first runs: as long as the scenario has them, or enough for the quantile after a warm-up of half
    /// the run.
    pub fn shortest(&self, scenario: &Scenario) -> u32 {
        scenario
            .workload
            .load
            .drawn()
            .unwrap_or(0)
            .max(2 * self.quantile.samples_needed() as u32)
    }

    /// With more late requests in the second half, which no automatic warm-up leaves out, a run cannot hold the
    /// objective. `None` where a warm-up may be longer, also because of rejections, or requests are not in the order of
    /// arrival.
    fn limit(&self, inputs: &RunInputs<'_>) -> Option<Limit> {
        let Scenario {
            workload,
            metrics,
            device,
            classes,
            ..
        } = inputs.scenario;
        let short = matches!(metrics.warmup, Warmup::Auto | Warmup::None | Warmup::Mser5);
        let all_served =
            device.max_waiting.is_none() && classes.is_empty() && self.tokens.is_none();
        let requests = workload.load.drawn().filter(|_| short && all_served)?;
        let late = requests - self.quantile.rank(requests as usize) as u32;
        Some(Limit {
            slo: self.slo,
            from: u64::from(requests.div_ceil(2)),
            late,
        })
    }

    pub fn holds(&self, attained: &Attainment) -> bool {
        attained.holds(self.quantile, self.max_rejected) && !self.gaps_miss(attained)
    }

    fn gaps_miss(&self, attained: &Attainment) -> bool {
        self.tokens
            .flatten()
            .zip(attained.gap)
            .is_some_and(|(most, gap)| gap > most)
    }

    /// Why a run did not hold it.
    pub fn miss(&self, attained: &Attainment, load: impl Display) -> String {
        let Attainment {
            measured,
            within,
            rejected,
            failed,
            saturated,
            ..
        } = *attained;
        let late = measured - within - rejected - failed;
        if rejected > 0 && rejected >= late {
            format!("{rejected} of {measured} requests were rejected at {load}")
        } else if failed > late {
            format!("{failed} of {measured} requests failed at {load}")
        } else if saturated == Some(true) {
            format!("the queue grows to the end of the run at {load}")
        } else if self.gaps_miss(attained) {
            format!(
                "the {} of the times between tokens is {} at {load}",
                self.quantile,
                attained.gap.unwrap_or_default()
            )
        } else {
            format!(
                "{late} of {measured} requests took longer than {} at {load}",
                self.slo
            )
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Found {
    /// The middle of the last bracket.
    Knee(f64),
    /// The highest rate that was allowed still holds.
    Bound(f64),
    /// Why the lowest does not.
    Nowhere(String),
}

impl Found {
    fn rate(&self) -> Result<Rate, &String> {
        match self {
            Found::Knee(rate) | Found::Bound(rate) => Ok(Rate(*rate)),
            Found::Nowhere(reason) => Err(reason),
        }
    }
}

/// Brackets the knee by growing steps, then bisects on a logarithmic scale until the bracket is as narrow as
/// `resolution`, relative to the rate. `miss` says why a rate does not hold, if it does not.
fn search(
    mut miss: impl FnMut(f64) -> Result<Option<String>>,
    start: Start,
    resolution: f64,
    highest: f64,
) -> Result<Found> {
    let first = start.rate.clamp(LOWEST, highest);
    let (mut low, mut high) = (first, first);
    let mut factor = 1.0 + start.step;
    if miss(first)?.is_none() {
        loop {
            if high >= highest {
                return Ok(Found::Bound(highest));
            }
            (low, high) = (high, (high * factor).min(highest));
            if miss(high)?.is_some() {
                break;
            }
            factor = (factor * factor).min(2.0);
        }
    } else {
        loop {
            (low, high) = ((low / factor).max(LOWEST), low);
            let Some(reason) = miss(low)? else { break };
            if low <= LOWEST {
                return Ok(Found::Nowhere(reason));
            }
            factor = (factor * factor).min(2.0);
        }
    }
    while high / low > 1.0 + resolution {
        let middle = (low * high).sqrt();
        match miss(middle)? {
            None => low = middle,
            Some(_) => high = middle,
        }
    }
    Ok(Found::Knee((low * high).sqrt()))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::super::search::Kept;
    use super::*;
    use crate::core::policy::registry::Registry;

    fn search_for(knee: f64, rate: f64, step: f64, highest: f64) -> Found {
        let miss = |tried: f64| {
            assert!((LOWEST..=highest).contains(&tried), "{tried}");
            Ok((tried > knee).then(|| format!("too high: {tried}")))
        };
        search(miss, Start { rate, step }, 0.001, highest).unwrap()
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
        let (inputs, device) = super::super::prepare(&scenario, SelectedBackend::SIM).unwrap();
        let objective = Objective {
            slo: scenario.metrics.slo.unwrap(),
            quantile: Quantile::P99,
            max_rejected: 0.0,
            tokens: None,
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
            kept: &Kept::default(),
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
            let whole = objective.holds(&attain(None).unwrap());
            match attain(objective.limit(&inputs)) {
                Some(early) => assert_eq!(objective.holds(&early), whole, "{rate}"),
                None => assert!(!whole, "{rate}"),
            }
            ended += u32::from(attain(objective.limit(&inputs)).is_none());
        }
        assert!((3..22).contains(&ended), "some of 24 do: {ended}");
    }

    #[test]
    fn the_search_closes_in_from_either_side() {
        for knee in [0.02, 7.0, 1_000.0, 123_456.0] {
            for first in [1.0, 1_000.0, 1e6] {
                for step in [0.001, 0.1, 1.0] {
                    let Found::Knee(found) = search_for(knee, first, step, HIGHEST) else {
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
                Found::Nowhere("too high: 0.001".into())
            );
            assert_eq!(
                search_for(2.0 * HIGHEST, first, 1.0, HIGHEST),
                Found::Bound(HIGHEST)
            );
            assert_eq!(
                search_for(700.0, first, 1.0, 500.0),
                Found::Bound(500.0),
                "not above the ceiling"
            );
        }
    }
}
