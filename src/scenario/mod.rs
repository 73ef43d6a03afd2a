//! The scenario: workload, arrivals, device and policies of an experiment, read from a TOML file. Every error names the
//! file, the line, the key and the permitted values.

mod check;
pub mod costs;
pub mod gpu;
mod resolved;
mod section;
mod source;
#[cfg(test)]
mod tests;

use std::fmt;
use std::fs;
use std::ops::Deref;
use std::path::{Path, PathBuf};

use crate::cost::table::Overhead;
use crate::error::{Error, Result};
use crate::gpu_settings::Settings as GpuSettings;
use crate::plot;
use crate::policy::registry::{Configured, Registry};
use crate::units::{Nanos, Rate};
use crate::workload::arrivals::{Process, Think};
use crate::workload::model::Model;
use crate::workload::operator::Sizes;

/// A checked scenario, ready to run.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Names the folder of its results.
    pub name: String,
    pub seed: u64,
    pub file: PathBuf,
    pub workload: Workload,
    pub device: Device,
    /// The default overhead of tasks besides their cells.
    pub overhead: Overhead,
    pub metrics: Metrics,
    pub output: Output,
    /// At least one.
    pub policies: Vec<PolicyEntry>,
}

/// The model, and the source of its requests.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    pub model: Model,
    /// The width of the layers. Only real backends use this and the next three.
    pub hidden: u32,
    pub embedding: u32,
    pub vocabulary: u32,
    /// A safetensors file; without it, weights are drawn from the seed.
    pub weights: Option<Input>,
    pub load: Load,
}

impl Workload {
    pub fn sizes(&self) -> Sizes {
        Sizes { hidden: self.hidden, embedding: self.embedding, vocabulary: self.vocabulary }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum Load {
    Drawn {
        /// A file of shapes, or a generator such as `constant:24`.
        dataset: Input,
        requests: u32,
        /// Longer shapes are skipped.
        max_length: Option<u32>,
        arrivals: ArrivalSpec,
    },
    /// A trace gives shapes and arrivals.
    Trace {
        trace: Input,
        /// A factor on each arrival time: 0.5 doubles the load.
        time_scale: f64,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub enum ArrivalSpec {
    Open {
        process: Process,
        /// Empty for a process that sets its own rate.
        rates: Vec<Rate>,
    },
    /// Clients that send a request, wait for the answer, think, and repeat.
    Closed {
        clients: Vec<u32>,
        /// The time between an answer and the next request.
        think: Think,
    },
}

/// Its text names the folder of results.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LoadPoint {
    /// Requests at this rate: `1000`.
    Rate(Rate),
    Trace,
    /// Rates that change step by step: `stepping`.
    Stepping,
    /// All requests at the start: `offline`.
    Offline,
    Clients(u32),
}

impl LoadPoint {
    pub fn rate(self) -> Option<Rate> {
        match self {
            LoadPoint::Rate(rate) => Some(rate),
            _ => None,
        }
    }
}

impl fmt::Display for LoadPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadPoint::Rate(rate) => write!(f, "{rate}"),
            LoadPoint::Trace => f.write_str("trace"),
            LoadPoint::Stepping => f.write_str("stepping"),
            LoadPoint::Offline => f.write_str("offline"),
            LoadPoint::Clients(count) => write!(f, "clients-{count}"),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Device {
    pub workers: usize,
    /// The simulator's cost table; real runs need none.
    pub costs: Option<Input>,
    /// A data sheet, for cells without rows in the table.
    pub roofline: Option<Input>,
    /// The device model of GRNN's persistent kernels.
    pub grnn: Option<Input>,
    /// The most requests in the system; further ones are rejected. `None`: no limit in simulations, a default in real
    /// runs.
    pub max_waiting: Option<u32>,
    pub gpu: GpuSettings,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metrics {
    /// The latency objective.
    pub slo: Option<Nanos>,
    /// The quantile of requests that must meet it.
    pub quantile: Quantile,
    /// The requests at the start that do not count.
    pub warmup: Warmup,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quantile {
    name: &'static str,
    share: f64,
}

impl Quantile {
    pub const ALL: [Quantile; 5] = [
        Quantile { name: "p50", share: 0.5 },
        Quantile { name: "p90", share: 0.9 },
        Quantile { name: "p95", share: 0.95 },
        Quantile { name: "p99", share: 0.99 },
        Quantile { name: "p999", share: 0.999 },
    ];

    /// The prefix of its columns: `p99`, `p999`.
    pub fn name(self) -> &'static str {
        self.name
    }

    pub fn share(self) -> f64 {
        self.share
    }
}

impl Default for Quantile {
    /// p99, the most common quantile of service-level objectives.
    fn default() -> Self {
        Quantile::ALL[3]
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Warmup {
    /// MSER-5 if the load has a steady state, else none.
    #[default]
    Auto,
    None,
    /// The truncation point by the rule MSER-5.
    Mser5,
    /// Of the requests, from 0 to below 1.
    Share(f64),
    Requests(u32),
}

impl fmt::Display for Warmup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Warmup::Auto => f.write_str("auto"),
            Warmup::None => f.write_str("none"),
            Warmup::Mser5 => f.write_str("mser5"),
            // 0.07 prints as 7%, not as 7.000000000000001%.
            Warmup::Share(share) => write!(f, "{}%", (share * 1e11).round() / 1e9),
            Warmup::Requests(count) => write!(f, "{count}"),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Output {
    pub requests: bool,
    pub tasks: bool,
    /// A timeline for trace viewers.
    pub timeline: bool,
    pub plots: Vec<plot::Kind>,
    /// The point (see [`Scenario::points`]) of figures that show only one.
    pub plot_point: Option<String>,
    pub title: Option<String>,
}

impl Default for Output {
    fn default() -> Self {
        Output { requests: true, tasks: true, timeline: false, plots: Vec::new(), plot_point: None, title: None }
    }
}

#[derive(Clone, Debug)]
pub struct PolicyEntry {
    /// Unique; names its line in figures and, through `folder_name`, its folder.
    pub label: String,
    /// The keys of its kind.
    pub settings: Configured,
    /// Its own overhead, with the scenario's as defaults.
    pub overhead: Overhead,
    /// Its own cost table, else the device's.
    pub costs: Option<Input>,
}

/// A file or generator; dereferences to its path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    given: String,
    found: PathBuf,
}

impl Input {
    /// As written in the scenario.
    pub fn given(&self) -> &str {
        &self.given
    }

    /// Where it was found; for a generator, its name.
    pub fn path(&self) -> &Path {
        &self.found
    }
}

impl Deref for Input {
    type Target = Path;
    fn deref(&self) -> &Path {
        &self.found
    }
}

impl From<&str> for Input {
    fn from(name: &str) -> Self {
        Input { given: name.into(), found: name.into() }
    }
}

impl Scenario {
    /// Reads and checks a scenario, and builds each policy once to see that it fits the model.
    ///
    /// Each override is `key.path=value`, as for `--set`: `device.workers=2`, or by index, label or kind
    /// `policy.BatchMaker.max_batch=64`. Quote labels with dots or equals signs. Missing keys are created, and the last
    /// override wins. Errors read `FILE:LINE: key: problem; permitted values`.
    pub fn load(path: &Path, overrides: &[String], registry: &Registry) -> Result<Scenario> {
        let text = fs::read_to_string(path).map_err(|cause| Error::unreadable(path, &cause))?;
        Scenario::parse(text, path, overrides, registry)
    }

    /// Messages show `file`; files that the scenario names may lie beside it.
    pub fn parse(text: String, file: &Path, overrides: &[String], registry: &Registry) -> Result<Scenario> {
        check::scenario(&source::Source::new(file, text, overrides)?, registry)
    }

    /// Files are looked for in the current folder and beside `file`, the original scenario; `kept_in` keeps the JSON.
    pub fn restore(resolved: &serde_json::Value, file: &Path, kept_in: &Path, registry: &Registry) -> Result<Scenario> {
        resolved::restore(resolved, file, kept_in, registry)
    }

    /// `None` if a trace gives the arrivals.
    pub fn arrivals(&self) -> Option<&ArrivalSpec> {
        match &self.workload.load {
            Load::Drawn { arrivals, .. } => Some(arrivals),
            Load::Trace { .. } => None,
        }
    }

    /// In order.
    pub fn points(&self) -> Vec<LoadPoint> {
        self.workload.load.points()
    }

    /// Every key with its effective value, defaults included. Paths are as given.
    pub fn resolved_json(&self) -> serde_json::Value {
        resolved::to_json(self)
    }
}

impl Load {
    pub fn points(&self) -> Vec<LoadPoint> {
        match self {
            Load::Trace { .. } => vec![LoadPoint::Trace],
            Load::Drawn { arrivals, .. } => match arrivals {
                ArrivalSpec::Open { process: Process::Stepping { .. }, .. } => vec![LoadPoint::Stepping],
                ArrivalSpec::Open { process: Process::Offline, .. } => vec![LoadPoint::Offline],
                ArrivalSpec::Open { rates, .. } => rates.iter().copied().map(LoadPoint::Rate).collect(),
                ArrivalSpec::Closed { clients, .. } => clients.iter().copied().map(LoadPoint::Clients).collect(),
            },
        }
    }
}
