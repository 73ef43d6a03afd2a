//! The objective of a search, and the effort that the search may take.

use std::fmt::{self, Display};

use crate::base::error::{Error, Result};
use crate::base::units::{Nanos, Rate};
use crate::core::record::{Limit, RecordOptions, Recorder as _};
use crate::core::summary::attainment::{Attainment, LimitedTime};
use crate::lab::run::Run;
use crate::lab::run::inputs::RunInputs;
use crate::lab::run::target::Target;
use crate::lab::scenario::{Load, LoadPoint, Quantile, Scenario, Warmup};

use super::Question;

/// The latency objective that a run has to meet.
#[derive(Clone, Copy, Debug)]
pub struct Objective {
    pub slo: Nanos,
    pub quantile: Quantile,
    /// The share of rejected requests that count neither as met nor as missed. Further rejections count as missed.
    pub max_rejected: f64,
    pub limited: ObjectiveTime,
}

/// The time that an objective limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectiveTime {
    Latency,
    /// The time to the first token of a language model, and perhaps the times between tokens.
    FirstToken {
        max_gap: Option<Nanos>,
    },
}

/// Shows an objective, such as `p99 at most 100ms`.
impl fmt::Display for Objective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slo = self.slo;
        let quantile = self.quantile;
        match self.limited {
            ObjectiveTime::Latency => write!(f, "{quantile} at most {slo}"),
            ObjectiveTime::FirstToken { max_gap } => {
                write!(f, "{quantile} of the time to the first token at most {slo}")?;
                if let Some(gap) = max_gap {
                    write!(f, ", of the times between tokens at most {gap}")?;
                }
                Ok(())
            }
        }
    }
}

impl Objective {
    /// The text of the objective in the fingerprint of a search. If it changed, the findings of earlier versions would
    /// be refused.
    pub(super) fn fingerprint_text(&self) -> String {
        let Objective {
            slo,
            quantile,
            max_rejected,
            limited,
        } = self;
        let tokens = match limited {
            ObjectiveTime::Latency => None,
            ObjectiveTime::FirstToken { max_gap } => Some(max_gap),
        };
        format!(
            "Objective {{ slo: {slo:?}, quantile: {quantile:?}, max_rejected: {max_rejected:?}, tokens: {tokens:?} }}"
        )
    }

    /// The number of requests of the first runs: as many as the scenario has, or enough for the quantile after a
    /// warm-up of half the run.
    pub fn shortest_run(&self, scenario: &Scenario) -> u32 {
        let given = scenario.workload.load.drawn().unwrap_or(0);
        given.max(2 * self.quantile.samples_needed() as u32)
    }

    /// The limit at which a run can end early: with more late requests in its second half, which no automatic warm-up
    /// leaves out, it cannot meet the objective. `None` if a warm-up may be longer, also because of rejections, or if
    /// requests are not in the order of arrival.
    pub(super) fn early_end(&self, inputs: &RunInputs<'_>) -> Option<Limit> {
        let scenario = inputs.scenario;
        let has_short_warmup = matches!(
            scenario.metrics.warmup,
            Warmup::Auto | Warmup::None | Warmup::Mser5
        );
        let serves_all = scenario.device.max_waiting.is_none() && scenario.classes.is_empty();
        if !has_short_warmup || !serves_all || self.limited != ObjectiveTime::Latency {
            return None;
        }
        let requests = scenario.workload.load.drawn()?;
        let within = self.quantile.rank(requests as usize) as u32;
        Some(Limit {
            slo: self.slo,
            from: u64::from(requests.div_ceil(2)),
            late: requests - within,
        })
    }

    pub fn is_met(&self, attained: &Attainment) -> bool {
        attained.holds(self.quantile, self.max_rejected) && !self.gaps_are_too_long(attained)
    }

    fn gaps_are_too_long(&self, attained: &Attainment) -> bool {
        match (self.limited, attained.gap) {
            (
                ObjectiveTime::FirstToken {
                    max_gap: Some(most),
                },
                Some(gap),
            ) => gap > most,
            _ => false,
        }
    }

    /// Why a run did not meet the objective. `load` describes the load of the run.
    pub fn describe_miss(&self, attained: &Attainment, load: impl Display) -> String {
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
        } else if self.gaps_are_too_long(attained) {
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

/// The precision of a search, and the effort that it may take.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// The half-width of the answer's interval, relative to the rate.
    pub tolerance: f64,
    pub replications: u32,
    /// The longest run, in requests.
    pub max_requests: u32,
    /// The rate at which the knee is expected. The search begins there, not at the scenario's first rate, and with a
    /// small step.
    pub near: Option<Rate>,
}

impl Effort {
    /// The scenario with runs of this many requests. A trace keeps its own number.
    pub(super) fn with_requests(&self, scenario: &Scenario, requests: u32) -> Scenario {
        let mut scenario = scenario.clone();
        if let Load::Drawn {
            requests: drawn, ..
        } = &mut scenario.workload.load
        {
            *drawn = requests.into();
        }
        scenario
    }

    /// The number of requests of the longest run; 0 for a trace, which cannot grow.
    pub(super) fn longest_run(&self, scenario: &Scenario) -> u32 {
        match scenario.workload.load.drawn() {
            Some(given) => given.max(self.max_requests),
            None => 0,
        }
    }

    /// The number of replications. All replications of a trace are the same.
    pub fn replications(&self, scenario: &Scenario) -> u32 {
        match scenario.workload.load.drawn() {
            Some(_) => self.replications,
            None => 1,
        }
    }
}

/// The first of the scenario's rates.
///
/// # Errors
/// Fails if the scenario's load has no rates.
pub fn first_rate(scenario: &Scenario) -> Result<Rate> {
    match scenario.points().first() {
        Some(LoadPoint::Rate(first)) => Ok(*first),
        _ => Err(Error::input(format!(
            "{}: arrivals: a knee is looked for over rates; use the process poisson, uniform, gamma, mmpp or periodic, or \
             give a trace `rates`",
            scenario.file.display()
        ))),
    }
}

/// Runs a point; `None` if the run reached the limit.
pub(super) fn attain(
    inputs: &RunInputs<'_>,
    device: &Target,
    run: &Run,
    question: &Question<'_>,
    limit: Option<Limit>,
) -> Result<Option<Attainment>> {
    let keep = RecordOptions {
        limit,
        ..RecordOptions::default()
    };
    let output = device.execute(inputs, run, keep, question.stop)?;
    if output.interrupted && output.record.has_missed() {
        return Ok(None);
    }
    if output.interrupted {
        return Err(Error::Interrupted);
    }
    let objective = question.objective;
    let time = match objective.limited {
        ObjectiveTime::Latency => LimitedTime::Latency,
        ObjectiveTime::FirstToken { .. } => LimitedTime::FirstToken,
    };
    Ok(Some(Attainment::new(
        &output.record,
        inputs.measure(run.load).warmup,
        objective.slo,
        objective.quantile,
        time,
    )))
}
