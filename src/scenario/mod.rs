//! The scenario: workload, arrivals, device and policies of an experiment, read from a TOML file.
//!
//! What the user wrote (`source`, `section`) and what is ready to run ([`Scenario`]) are apart; `check` leads from the
//! one to the other, and every error on that way names the file, the line, the key and what is allowed.

mod check;
pub mod costs;
pub mod gpu;
mod resolved;
mod restored;
mod section;
mod source;
#[cfg(test)]
mod tests;
mod wording;

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
    /// The seed of every random choice.
    pub seed: u64,
    /// The file that it was read from.
    pub file: PathBuf,
    /// What is asked of the system.
    pub workload: Workload,
    /// Who answers.
    pub device: Device,
    /// What a task costs besides its cells, for policies that do not say otherwise.
    pub overhead: Overhead,
    /// How results are summed up.
    pub metrics: Metrics,
    /// What is written.
    pub output: Output,
    /// The policies that are compared; at least one.
    pub policies: Vec<PolicyEntry>,
}

/// The model, and where its requests come from.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// The network that all requests run through.
    pub model: Model,
    /// The width of its layers; only real backends use it, like the three below.
    pub hidden: u32,
    /// The width of the rows that stand for words.
    pub embedding: u32,
    /// How many words there are.
    pub vocabulary: u32,
    /// The weights, a safetensors file; without one they are drawn from the seed.
    pub weights: Option<Input>,
    /// The requests.
    pub load: Load,
}

impl Workload {
    /// The sizes of the network.
    pub fn sizes(&self) -> Sizes {
        Sizes { hidden: self.hidden, embedding: self.embedding, vocabulary: self.vocabulary }
    }
}

/// Where requests come from.
#[derive(Clone, Debug, PartialEq)]
pub enum Load {
    /// Shapes are drawn from a dataset and arrive as a process has it.
    Drawn {
        /// A file of shapes, or the name of a generator such as `constant:24`.
        dataset: Input,
        /// How many requests are drawn.
        requests: u32,
        /// Shapes that are longer are left out.
        max_length: Option<u32>,
        /// When they arrive.
        arrivals: ArrivalSpec,
    },
    /// A trace file gives shapes and arrivals.
    Trace {
        /// The trace.
        trace: Input,
        /// Each arrival time is multiplied by this: 0.5 doubles the load.
        time_scale: f64,
    },
}

/// How drawn requests arrive.
#[derive(Clone, Debug, PartialEq)]
pub enum ArrivalSpec {
    /// Whatever the system does.
    Open {
        /// The process.
        process: Process,
        /// The rates to run at; empty for a process that has its own.
        rates: Vec<Rate>,
    },
    /// From clients that send a request, wait for its answer, think, and send the next.
    Closed {
        /// The numbers of clients to run with.
        clients: Vec<u32>,
        /// How long a client thinks.
        think: Think,
    },
}

/// One of the loads that every policy runs under. Its text names the folder of results.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LoadPoint {
    /// Requests at this rate: `1000`.
    Rate(Rate),
    /// The arrivals of a trace: `trace`.
    Trace,
    /// Rates that change step by step: `stepping`.
    Stepping,
    /// All requests at once: `offline`.
    Offline,
    /// So many clients: `clients-8`.
    Clients(u32),
}

impl LoadPoint {
    /// The rate, if it is one of a sweep.
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

/// The device that tasks run on.
#[derive(Clone, Debug, PartialEq)]
pub struct Device {
    /// The number of workers, 1 to 1024.
    pub workers: usize,
    /// The cost table that the simulator takes times from; a real device needs none.
    pub costs: Option<Input>,
    /// The device, by its data sheet, that the simulator takes the times of cells without rows from.
    pub roofline: Option<Input>,
    /// The device, by its file, whose persistent kernels tasks of several steps run in; those of single steps take what the two above say.
    pub grnn: Option<Input>,
    /// How many requests may be in the system; those that arrive beyond are turned away. `None` leaves it to the backend.
    pub max_waiting: Option<u32>,
    /// How GPUs compute; only they use it.
    pub gpu: GpuSettings,
}

/// How results are summed up.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metrics {
    /// The latency that requests should keep.
    pub slo: Option<Nanos>,
    /// The share of requests that should keep it.
    pub quantile: Quantile,
    /// The requests at the start that do not count.
    pub warmup: Warmup,
}

/// One of the quantiles that summaries have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quantile {
    name: &'static str,
    share: f64,
}

impl Quantile {
    /// Those that summaries have.
    pub const ALL: [Quantile; 5] = [
        Quantile { name: "p50", share: 0.5 },
        Quantile { name: "p90", share: 0.9 },
        Quantile { name: "p95", share: 0.95 },
        Quantile { name: "p99", share: 0.99 },
        Quantile { name: "p999", share: 0.999 },
    ];

    /// As the columns of a summary begin: `p99`, `p999`.
    pub fn name(self) -> &'static str {
        self.name
    }

    /// The share of requests at or below it, 0 to 1.
    pub fn share(self) -> f64 {
        self.share
    }
}

impl Default for Quantile {
    /// p99, about which service-level objectives usually are.
    fn default() -> Self {
        Quantile::ALL[3]
    }
}

/// The requests at the start of a run that do not count.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Warmup {
    /// As the arrivals ask for.
    #[default]
    Auto,
    /// All count.
    None,
    /// The truncation point by the rule MSER-5.
    Mser5,
    /// This share of the requests, from 0 up to but not including 1.
    Share(f64),
    /// So many requests.
    Requests(u32),
}

impl fmt::Display for Warmup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Warmup::Auto => f.write_str("auto"),
            Warmup::None => f.write_str("none"),
            Warmup::Mser5 => f.write_str("mser5"),
            // Through a number of few digits, so that 0.07 prints as 7% and not as 7.000000000000001%.
            Warmup::Share(share) => write!(f, "{}%", (share * 1e11).round() / 1e9),
            Warmup::Requests(count) => write!(f, "{count}"),
        }
    }
}

/// What is written besides the summary.
#[derive(Clone, Debug, PartialEq)]
pub struct Output {
    /// The request log.
    pub requests: bool,
    /// The task log.
    pub tasks: bool,
    /// A timeline for trace viewers.
    pub timeline: bool,
    /// The figures to draw.
    pub plots: Vec<plot::Kind>,
    /// The point (see [`Scenario::points`]) that figures of a single one show.
    pub plot_point: Option<String>,
    /// The title of the figures.
    pub title: Option<String>,
}

impl Default for Output {
    /// The logs, no timeline, no figures.
    fn default() -> Self {
        Output { requests: true, tasks: true, timeline: false, plots: Vec::new(), plot_point: None, title: None }
    }
}

/// One `[[policy]]`.
#[derive(Clone, Debug)]
pub struct PolicyEntry {
    /// Names its line in figures and, through [`folder_name`](crate::files::folder_name), its folder of results. No two are the same.
    pub label: String,
    /// The policy's own settings, from which it is built for each run.
    pub settings: Configured,
    /// What its tasks cost besides their cells: its own figures, else the scenario's.
    pub overhead: Overhead,
    /// The cost table for its tasks: its own, else the device's, if there is one.
    pub costs: Option<Input>,
}

/// A file or generator that a scenario names. Stands for its path wherever a path is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    given: String,
    found: PathBuf,
}

impl Input {
    /// As the scenario has it.
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
    /// Each override is `key.path=value`, as after `--set`: `device.workers=2`, `policy.0.max_batch=64`, or by label
    /// or kind `policy.BatchMaker.max_batch=64`, in quotes if the label has a dot or an equals sign. Tables and keys
    /// that are not there are made; a value that is no TOML is taken as a text. Of two for one key, the last holds.
    ///
    /// # Errors
    /// Whatever is wrong with the file, as `FILE:LINE: key: what; what is allowed`, or with an override, which is
    /// then named in the place of the line.
    pub fn load(path: &Path, overrides: &[String], registry: &Registry) -> Result<Scenario> {
        let text = fs::read_to_string(path).map_err(|cause| Error::unreadable(path, &cause))?;
        Scenario::parse(text, path, overrides, registry)
    }

    /// Checks a scenario's text; `file` stands in messages, and files that the scenario names may lie beside it.
    ///
    /// # Errors
    /// As [`Scenario::load`].
    pub fn parse(text: String, file: &Path, overrides: &[String], registry: &Registry) -> Result<Scenario> {
        check::scenario(&source::Source::new(file, text, overrides)?, registry)
    }

    /// The scenario whose [`Scenario::resolved_json`] a results folder keeps in `kept_in`. Files that it names are looked for
    /// in the current folder and beside `file`, where the scenario was read from.
    ///
    /// # Errors
    /// As [`Scenario::load`], without lines.
    pub fn restore(resolved: &serde_json::Value, file: &Path, kept_in: &Path, registry: &Registry) -> Result<Scenario> {
        restored::scenario(resolved, file, kept_in, registry)
    }

    /// The arrival process, unless a trace gives the arrivals.
    pub fn arrivals(&self) -> Option<&ArrivalSpec> {
        match &self.workload.load {
            Load::Drawn { arrivals, .. } => Some(arrivals),
            Load::Trace { .. } => None,
        }
    }

    /// The loads that every policy runs under, in order.
    pub fn points(&self) -> Vec<LoadPoint> {
        self.workload.load.points()
    }

    /// Every key with its effective value, defaults included and paths as given, in the order of the reference.
    pub fn resolved_json(&self) -> serde_json::Value {
        resolved::scenario(self)
    }
}

impl Load {
    /// The loads that every policy runs under, in order.
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
