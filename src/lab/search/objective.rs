//! The objective of a search, and the effort that the search may take.

use std::fmt::{self, Display};

use crate::base::error::{Error, Result};
use crate::base::units::{Nanos, Rate};
use crate::core::record::{Limit, RecordOptions, Recorder as _};
use crate::core::summary::attainment::{Attainment, GroupAttainment, LimitedTime};
use crate::core::summary::rejections::main_reason;
use crate::lab::run::Run;
use crate::lab::run::inputs::RunInputs;
use crate::lab::run::target::Target;
use crate::lab::scenario::{ClassEntry, Load, LoadPoint, Quantile, Scenario, Warmup};

use super::Question;

/// The latency objective that a run has to meet.
#[derive(Clone, Debug)]
pub struct Objective {
    /// The limits: one for all requests together, or one for each class of the scenario.
    pub limits: Vec<RequestLimit>,
    pub quantile: Quantile,
    /// The share of rejected requests that count neither as met nor as missed. Further rejections count as missed.
    pub max_rejected: f64,
    pub limited: ObjectiveTime,
}

/// The time that the quantile of some requests must not exceed.
#[derive(Clone, Debug)]
pub struct RequestLimit {
    /// The class of the requests, or `None` for all requests.
    pub class: Option<String>,
    pub slo: Nanos,
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

/// Why a run did not meet an objective.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MissedObjective {
    pub reason: String,
    /// The class whose requests missed their limit furthest, if limits are those of classes.
    pub class: Option<String>,
    /// Whether the queue grew, so that it grows at higher rates too.
    pub saturated: bool,
}

/// Shows an objective, such as `p99 at most 100ms`.
impl fmt::Display for Objective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quantile = self.quantile;
        let (time, max_gap) = match self.limited {
            ObjectiveTime::Latency => ("", None),
            ObjectiveTime::FirstToken { max_gap } => (" of the time to the first token", max_gap),
        };
        for (index, RequestLimit { class, slo }) in self.limits.iter().enumerate() {
            let class = class.as_deref().map_or("".into(), class_phrase);
            if index == 0 {
                write!(f, "{quantile}{time}{class} at most {slo}")?;
            } else {
                write!(f, ",{class} at most {slo}")?;
            }
        }
        if let Some(gap) = max_gap {
            write!(f, ", of the times between tokens at most {gap}")?;
        }
        Ok(())
    }
}

fn class_phrase(class: &str) -> String {
    format!(" of class {class}")
}

impl RequestLimit {
    /// The limits of a scenario: those of its classes if one has an objective of its own, or else that of all requests.
    /// A class without one has that of all requests. `example` is an objective that the user may give.
    ///
    /// # Errors
    /// Fails if requests have no objective.
    pub fn read(scenario: &Scenario, example: &str) -> Result<Vec<RequestLimit>> {
        let missing = |key: &str| {
            Error::mistake(
                &scenario.file,
                format_args!("{key}: missing; add it or give --slo {example}"),
            )
        };
        let common = scenario.metrics.slo;
        let classes = &scenario.classes;
        if classes.iter().all(|class| class.slo.is_none()) {
            let slo = common.ok_or_else(|| missing("metrics.slo"))?;
            return Ok(vec![RequestLimit { class: None, slo }]);
        }
        let limit = |(index, class): (usize, &ClassEntry)| {
            let slo = class.slo.or(common);
            Ok(RequestLimit {
                class: Some(class.name.clone()),
                slo: slo.ok_or_else(|| missing(&format!("class[{index}].slo or metrics.slo")))?,
            })
        };
        classes.iter().enumerate().map(limit).collect()
    }
}

impl Objective {
    /// An objective for the latency of all requests together, none of which may be rejected.
    pub fn new(slo: Nanos, quantile: Quantile) -> Objective {
        Objective {
            limits: vec![RequestLimit { class: None, slo }],
            quantile,
            max_rejected: 0.0,
            limited: ObjectiveTime::Latency,
        }
    }

    /// Whether the limits are those of classes.
    pub fn is_by_class(&self) -> bool {
        self.limits.iter().any(|limit| limit.class.is_some())
    }

    /// The limit of a class, or that of all requests.
    pub fn slo(&self, class: Option<&str>) -> Option<Nanos> {
        let mut limits = self.limits.iter();
        let limit = limits.find(|limit| limit.class.as_deref() == class);
        limit.map(|limit| limit.slo)
    }

    /// The longest limit: the one that an overload breaks last.
    pub(super) fn longest_slo(&self) -> Nanos {
        let slos = self.limits.iter().map(|limit| limit.slo);
        slos.max().unwrap_or_default()
    }

    /// The text of the objective in the fingerprint of a search. If it changed, the findings of earlier versions would
    /// be refused.
    pub(super) fn fingerprint_text(&self) -> String {
        let Objective {
            limits,
            quantile,
            max_rejected,
            limited,
        } = self;
        let slo = match &limits[..] {
            [RequestLimit { class: None, slo }] => format!("{slo:?}"),
            by_class => format!("{by_class:?}"),
        };
        let tokens = match limited {
            ObjectiveTime::Latency => None,
            ObjectiveTime::FirstToken { max_gap } => Some(max_gap),
        };
        format!(
            "Objective {{ slo: {slo}, quantile: {quantile:?}, max_rejected: {max_rejected:?}, tokens: {tokens:?} }}"
        )
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
            slo: self.longest_slo(),
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

    /// The group of requests that is nearest to its limit, or furthest beyond it: its limit, and what it attained.
    pub(super) fn tightest<'a>(
        &'a self,
        attained: &'a Attainment,
    ) -> (&'a RequestLimit, &'a GroupAttainment) {
        let groups = self.limits.iter().zip(&attained.groups);
        tightest(groups).expect("an objective has a limit")
    }

    /// Why a run did not meet the objective. `load` describes the load of the run.
    pub(super) fn miss(&self, attained: &Attainment, load: impl Display) -> MissedObjective {
        let holds = |group: &GroupAttainment| group.holds(self.quantile, self.max_rejected);
        let missed_share = |group: &GroupAttainment| {
            (group.measured - group.within) as f64 / (group.measured as f64).max(1.0)
        };
        let groups = self.limits.iter().zip(&attained.groups);
        let (limit, group) = groups
            .filter(|(_, group)| !holds(group))
            .max_by(|(_, a), (_, b)| missed_share(a).total_cmp(&missed_share(b)))
            .unwrap_or_else(|| self.tightest(attained));
        let saturated = attained.saturated == Some(true);
        let class = limit.class.clone();
        let requests = format!(
            "{} requests{}",
            group.measured,
            class.as_deref().map_or(String::new(), class_phrase)
        );
        let GroupAttainment {
            rejected, failed, ..
        } = *group;
        let main_reason = main_reason(&group.rejection_reasons);
        let late = group.late();
        let reason = if rejected > 0 && rejected >= late {
            format!("{rejected} of {requests} were rejected at {load}{main_reason}")
        } else if failed > late {
            format!("{failed} of {requests} failed at {load}")
        } else if saturated {
            format!("the queue grows to the end of the run at {load}")
        } else if self.gaps_are_too_long(attained) {
            format!(
                "the {} of the times between tokens is {} at {load}",
                self.quantile,
                attained.gap.unwrap_or_default()
            )
        } else {
            format!(
                "{late} of {requests} took longer than {} at {load}",
                limit.slo
            )
        };
        MissedObjective {
            reason,
            class,
            saturated,
        }
    }
}

/// The group of requests that is nearest to its limit, or furthest beyond it, the last of several. A group without
/// requests is far from it, and one of which too large a share was not served is beyond any limit.
pub(super) fn tightest<'a>(
    groups: impl Iterator<Item = (&'a RequestLimit, &'a GroupAttainment)>,
) -> Option<(&'a RequestLimit, &'a GroupAttainment)> {
    let part = |(limit, group): &(&RequestLimit, &GroupAttainment)| match group.latency {
        _ if group.measured == 0 => 0.0,
        Some(latency) => latency.as_secs_f64() / limit.slo.as_secs_f64(),
        None => f64::INFINITY,
    };
    groups.max_by(|a, b| part(a).total_cmp(&part(b)))
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

    /// The number of requests of the first runs: as many as the scenario has, or enough for the quantile of each class
    /// after a warm-up of half the run. A rare class does not make them longer than the longest run.
    pub(super) fn first_run(&self, scenario: &Scenario, objective: &Objective) -> u32 {
        let given = scenario.workload.load.drawn().unwrap_or(0);
        let needed = 2 * objective.quantile.samples_needed() as u32;
        let mut least = 1.0_f64;
        if objective.is_by_class() {
            let all: f64 = scenario.classes.iter().map(|class| class.share).sum();
            for class in &scenario.classes {
                if class.share > 0.0 {
                    least = least.min(class.share / all);
                }
            }
        }
        let of_classes = (f64::from(needed) / least) as u32;
        let longest = self.longest_run(scenario).max(needed);
        given.max(of_classes.min(longest))
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
    let slos: Vec<Nanos> = objective.limits.iter().map(|limit| limit.slo).collect();
    let time = match objective.limited {
        ObjectiveTime::Latency => LimitedTime::Latency,
        ObjectiveTime::FirstToken { .. } => LimitedTime::FirstToken,
    };
    Ok(Some(Attainment::new(
        &output.record,
        inputs.measure(run.load).warmup,
        &slos,
        objective.quantile,
        time,
    )))
}
