//! How requests arrive: the table `[arrivals]`, and the options of `trace gen`.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::LoadPoint;
use super::section::{Owner, needed_value};
use super::tables::choice;
use crate::base::units::{Nanos, Rate};
use crate::core::policy::values::time_with_unit;
use crate::core::workload::arrivals::{Process, Think, check_rate};

/// The keys that each process has in addition to `process`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum ArrivalSpec {
    Poisson {
        rates: Vec<Rate>,
    },
    Uniform {
        rates: Vec<Rate>,
    },
    Gamma {
        cv: f64,
        rates: Vec<Rate>,
    },
    Mmpp {
        ratio: f64,
        #[serde(with = "time_with_unit")]
        low: Nanos,
        #[serde(with = "time_with_unit")]
        high: Nanos,
        rates: Vec<Rate>,
    },
    Periodic {
        #[serde(with = "time_with_unit")]
        period: Nanos,
        pattern: Vec<f64>,
        rates: Vec<Rate>,
    },
    Stepping {
        from: Rate,
        to: Rate,
        steps: u32,
    },
    Offline {},
    /// The times of a trace, scaled to each of these mean rates.
    Trace {
        rates: Vec<Rate>,
    },
    /// Clients that send a request, wait for the answer, think, and repeat.
    Closed {
        clients: Vec<u32>,
        /// The mean time between an answer and the next request.
        #[serde(default, with = "time_with_unit")]
        think: Nanos,
        #[serde(default, deserialize_with = "choice")]
        think_dist: Distribution,
    },
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Distribution {
    #[default]
    Constant,
    Exponential,
}

impl ArrivalSpec {
    /// Reads a process from its keys. An error begins with the key, unless a time can't be read.
    pub fn new(process: &str, keys: Map<String, Value>) -> Result<ArrivalSpec, String> {
        let tagged = Map::from_iter([(process.to_string(), keys.into())]);
        let read = ArrivalSpec::deserialize(Value::from(tagged));
        let spec = read.map_err(|error| owner(process).reword(&error.to_string(), "", ""))?;
        spec.check()?;
        Ok(spec)
    }

    pub fn check(&self) -> Result<(), String> {
        match self {
            ArrivalSpec::Closed { clients, .. } => set("clients", clients, |count| match count {
                0 => Err("0 is too small; at least 1".into()),
                _ => Ok(()),
            })?,
            ArrivalSpec::Stepping { .. } | ArrivalSpec::Offline {} => {}
            _ => set("rates", self.rates(), |rate| check_rate(*rate))?,
        }
        self.process().map_or(Ok(()), |process| process.check())
    }

    /// The same process at other rates, if it has rates.
    #[must_use]
    pub fn with_rates(&self, rates: &[Rate]) -> ArrivalSpec {
        let mut spec = self.clone();
        if let ArrivalSpec::Poisson { rates: own }
        | ArrivalSpec::Uniform { rates: own }
        | ArrivalSpec::Gamma { rates: own, .. }
        | ArrivalSpec::Mmpp { rates: own, .. }
        | ArrivalSpec::Periodic { rates: own, .. }
        | ArrivalSpec::Trace { rates: own } = &mut spec
        {
            *own = rates.to_vec();
        }
        spec
    }

    /// The process that draws arrival times, or `None` for a closed loop and a trace.
    pub fn process(&self) -> Option<Process> {
        match *self {
            ArrivalSpec::Poisson { .. } => Some(Process::Poisson),
            ArrivalSpec::Uniform { .. } => Some(Process::Uniform),
            ArrivalSpec::Gamma { cv, .. } => Some(Process::Gamma { cv }),
            ArrivalSpec::Mmpp {
                ratio, low, high, ..
            } => Some(Process::Mmpp { ratio, low, high }),
            ArrivalSpec::Periodic {
                period,
                ref pattern,
                ..
            } => Some(Process::Periodic {
                period,
                pattern: pattern.clone(),
            }),
            ArrivalSpec::Stepping { from, to, steps } => {
                Some(Process::Stepping { from, to, steps })
            }
            ArrivalSpec::Offline {} => Some(Process::Offline),
            ArrivalSpec::Closed { .. } | ArrivalSpec::Trace { .. } => None,
        }
    }

    /// The time between an answer and the client's next request, or `None` without a closed loop.
    pub fn think(&self) -> Option<Think> {
        match *self {
            ArrivalSpec::Closed {
                think,
                think_dist: Distribution::Constant,
                ..
            } => Some(Think::Constant(think)),
            ArrivalSpec::Closed {
                think,
                think_dist: Distribution::Exponential,
                ..
            } => Some(Think::Exponential(think)),
            _ => None,
        }
    }

    /// The rates; empty for a process that sets its own rate, and for a closed loop.
    pub fn rates(&self) -> &[Rate] {
        match self {
            ArrivalSpec::Poisson { rates }
            | ArrivalSpec::Uniform { rates }
            | ArrivalSpec::Trace { rates } => rates,
            ArrivalSpec::Gamma { rates, .. } | ArrivalSpec::Mmpp { rates, .. } => rates,
            ArrivalSpec::Periodic { rates, .. } => rates,
            _ => &[],
        }
    }

    pub(super) fn points(&self) -> Vec<LoadPoint> {
        match self {
            ArrivalSpec::Stepping { .. } => vec![LoadPoint::Stepping],
            ArrivalSpec::Offline {} => vec![LoadPoint::Offline],
            ArrivalSpec::Closed { clients, .. } => {
                clients.iter().copied().map(LoadPoint::Clients).collect()
            }
            _ => self.rates().iter().copied().map(LoadPoint::Rate).collect(),
        }
    }
}

/// The owner of the keys of a process.
pub(super) fn owner(process: &str) -> Owner {
    Owner {
        prefix: "arrivals.".into(),
        of: format!(" of the process \"{process}\""),
        shared: &["process"],
    }
}

/// Checks that there is at least one value and no duplicate, since each value names a folder of results.
pub(super) fn set<T: PartialEq + std::fmt::Display>(
    key: &str,
    values: &[T],
    check: impl Fn(&T) -> Result<(), String>,
) -> Result<(), String> {
    if values.is_empty() {
        let needed = needed_value(&format!("arrivals.{key}")).or_else(|| needed_value(key));
        return Err(format!(
            "{key}: empty; must be {}",
            needed.unwrap_or_default()
        ));
    }
    for (index, value) in values.iter().enumerate() {
        let is_there = values[..index].contains(value);
        let checked = if is_there {
            Err(format!("{value} stands twice"))
        } else {
            check(value)
        };
        checked.map_err(|problem| format!("{key}[{index}]: {problem}"))?;
    }
    Ok(())
}
