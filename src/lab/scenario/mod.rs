//! The scenario: workload, arrivals, device and policies of an experiment, read from a TOML file. Every error names the
//! file, the line, the key and the permitted values.

mod arrivals;
mod check;
pub mod costs;
mod json;
pub mod reference;
pub mod schema;
mod section;
mod source;
mod sweep;
mod tables;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use clap::ValueEnum as _;
use serde::de::{DeserializeOwned, IgnoredAny, IntoDeserializer, value};
use serde::{Deserialize, Serialize, Serializer};
use smart_default::SmartDefault;

pub use self::arrivals::ArrivalSpec;
use self::costs::{CostFiles, PolicyCosts};
pub use self::section::unknown_name;
use crate::base::error::{Error, Result};
use crate::base::precision::Precision;
use crate::base::shipped;
use crate::base::step_kernels::StepKernels;
use crate::base::units::{Nanos, Rate};
use crate::core::cost::table::{CostTable, Overhead};
use crate::core::policy::registry::{ConfiguredPolicy, Registry};
use crate::core::summary::is_default;
pub use crate::core::summary::stats::Quantile;
pub use crate::core::summary::warmup::Warmup;
use crate::core::workload::class::Class;
use crate::core::workload::model::Model;
use crate::core::workload::operator::Sizes;
use crate::core::workload::trace::TraceFile;
use crate::lab::plot;
use crate::lab::results::sweep_keys::{self, Swept};

/// A checked scenario, ready to run. As JSON it has every key with its effective value. The type parameters differ
/// before the check.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario<W = WorkloadSection, A = ArrivalSpec, P = PolicyEntry> {
    /// The name of the scenario, and of the folder of its results.
    pub name: String,
    #[serde(default = "tables::one")]
    pub seed: u64,
    #[serde(skip)]
    pub file: PathBuf,
    pub workload: W,
    /// How requests arrive, or `None` if a trace gives the arrivals and their rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arrivals: Option<A>,
    #[serde(default, rename = "class", skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<ClassEntry>,
    #[serde(default)]
    pub device: DeviceSection,
    /// The default overhead of tasks, in addition to their cells.
    #[serde(default)]
    pub overhead: Overhead,
    #[serde(default)]
    pub metrics: MetricsSection,
    #[serde(default)]
    pub output: OutputSection,
    /// The policies, of which there is at least one.
    #[serde(rename = "policy")]
    pub policies: Vec<P>,
    /// The key is known here, but the sweep was read and removed before.
    #[serde(rename = "sweep", skip_serializing)]
    pub(crate) _sweep: Option<IgnoredAny>,
}

/// The model, and the source of its requests.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WorkloadSection {
    #[serde(serialize_with = "model_name")]
    pub model: Model,
    /// The width of the layers. Only real backends use this and the next three.
    pub hidden: u32,
    pub embedding: u32,
    pub vocabulary: u32,
    /// A safetensors file. Without a file, weights are drawn from the seed.
    pub weights: Option<Input>,
    #[serde(flatten)]
    pub load: Load,
}

fn model_name<S: Serializer>(model: &Model, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&model.name())
}

impl WorkloadSection {
    pub fn sizes(&self) -> Sizes {
        Sizes {
            hidden: self.hidden,
            embedding: self.embedding,
            vocabulary: self.vocabulary,
        }
    }

    /// The data set or trace of its requests.
    pub fn source(&self) -> &Input {
        match &self.load {
            Load::Drawn { dataset, .. } => dataset,
            Load::Trace { trace, .. } => trace,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Load {
    Drawn {
        /// A file of shapes, or a generator such as `constant:24`.
        dataset: Input,
        requests: u64,
        /// The longest shape that is used; longer shapes are skipped.
        max_length: Option<u32>,
    },
    /// The shapes and arrivals of a trace.
    Trace {
        trace: TraceInput,
        /// The factors by which arrival times are multiplied: 0.5 doubles the load.
        #[serde(serialize_with = "tables::one_or_list::serialize")]
        time_scale: Vec<f64>,
    },
}

impl Load {
    /// The number of requests that are drawn, at most that of a full record; `None` for a trace.
    pub fn drawn(&self) -> Option<u32> {
        match self {
            Load::Drawn { requests, .. } => Some((*requests).min(tables::MOST_KEPT) as u32),
            Load::Trace { .. } => None,
        }
    }
}

/// A load under which each policy runs. Its text names the folder of results.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LoadPoint {
    /// Requests at this rate: `1000`.
    Rate(Rate),
    Trace,
    /// A trace whose arrival times are multiplied: `trace-0.5`.
    Scaled(f64),
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
            LoadPoint::Scaled(factor) => write!(f, "trace-{factor}"),
            LoadPoint::Stepping => f.write_str("stepping"),
            LoadPoint::Offline => f.write_str("offline"),
            LoadPoint::Clients(count) => write!(f, "clients-{count}"),
        }
    }
}

#[derive(Clone, Debug, PartialEq, SmartDefault, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DeviceSection {
    #[default = 1]
    #[serde(deserialize_with = "tables::whole::<_, _, { tables::MAX_WORKERS }>")]
    pub workers: usize,
    /// The simulator's cost table; real runs need none.
    pub costs: Option<Input>,
    /// A data sheet, for cells without rows in the table.
    pub roofline: Option<Input>,
    /// The device model of GRNN's persistent kernels.
    pub grnn: Option<Input>,
    /// A record of a real device's noise, for simulations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub noise: Option<Input>,
    /// The most requests in the system; further ones are rejected. `None` means no limit in simulations, and a default
    /// limit in real runs.
    #[serde(deserialize_with = "tables::whole::<_, _, { u32::MAX }>")]
    pub max_waiting: Option<u32>,
    /// The number of tokens whose keys and values fit on a worker, for language models. `None` if the data sheet
    /// decides.
    #[serde(
        deserialize_with = "tables::whole::<_, _, { u32::MAX }>",
        skip_serializing_if = "Option::is_none"
    )]
    pub kv_tokens: Option<u32>,
    #[serde(deserialize_with = "tables::choice")]
    pub precision: Precision,
    /// The kernels of steps on a GPU.
    #[serde(
        deserialize_with = "tables::choice",
        skip_serializing_if = "is_default"
    )]
    pub step_kernels: StepKernels,
    /// The longest time of a task on a GPU; `None` for the backend's limit.
    #[serde(
        with = "tables::positive_time",
        skip_serializing_if = "Option::is_none"
    )]
    pub task_limit: Option<Nanos>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MetricsSection {
    /// The latency objective.
    #[serde(with = "tables::positive_time")]
    pub slo: Option<Nanos>,
    /// The quantile of latency that must meet the objective.
    #[serde(deserialize_with = "tables::choice")]
    pub quantile: Quantile,
    /// The warm-up: the requests at the start that do not count.
    pub warmup: Warmup,
}

impl fmt::Display for Quantile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
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

#[derive(Clone, Debug, PartialEq, SmartDefault, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OutputSection {
    #[serde(
        deserialize_with = "tables::choice",
        skip_serializing_if = "is_default"
    )]
    pub record: Record,
    /// The interval of logged requests of a streamed record: requests whose number is a multiple of the interval are
    /// logged.
    #[serde(
        deserialize_with = "tables::count",
        skip_serializing_if = "Option::is_none"
    )]
    pub log_every: Option<u64>,
    #[default = true]
    pub requests: bool,
    #[default = true]
    pub tasks: bool,
    /// A timeline for trace viewers.
    pub timeline: bool,
    pub plots: Vec<plot::FigureKind>,
    /// The point (see [`Scenario::points`]) of figures that show only one. Another rate means the nearest one.
    #[serde(deserialize_with = "tables::point")]
    pub plot_point: Option<String>,
    pub title: Option<String>,
    /// How figures look.
    #[serde(skip_serializing_if = "is_default")]
    pub figure: plot::Look,
}

/// The names of all files of figures that a scenario can ask for.
pub fn figure_files() -> impl Iterator<Item = String> {
    plot::FigureKind::value_variants()
        .iter()
        .flat_map(|kind| ["svg", "png", "pdf"].map(|ending| format!("{kind}.{ending}")))
}

/// What a simulated run keeps of its requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Record {
    /// All times of all requests.
    #[default]
    Full,
    /// Counts, sums and histograms; requests are drawn when they arrive and forgotten after they have left.
    Stream,
}

/// A class of requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClassEntry {
    pub name: String,
    /// The share of the class, relative to the other shares. It is used if requests are drawn, or where the trace gives
    /// no class.
    #[serde(default = "tables::one")]
    pub share: f64,
    /// The latency objective, instead of [`MetricsSection::slo`].
    #[serde(default, with = "tables::positive_time")]
    pub slo: Option<Nanos>,
    /// The priority for policies: a higher one is more urgent.
    #[serde(default)]
    pub priority: i32,
    /// The deadline for policies, counted from the arrival.
    #[serde(default, with = "tables::positive_time")]
    pub deadline: Option<Nanos>,
    /// The dataset of the class's shapes, instead of the workload's dataset.
    pub dataset: Option<Input>,
}

impl ClassEntry {
    pub fn class(&self) -> Class {
        let ClassEntry {
            name,
            slo,
            priority,
            deadline,
            ..
        } = self;
        Class {
            name: name.as_str().into(),
            slo: *slo,
            priority: *priority,
            deadline: *deadline,
        }
    }
}

#[derive(Clone, Debug, Serialize)]
pub struct PolicyEntry {
    /// The kind as the scenario names it, maybe by an alias.
    pub kind: &'static str,
    /// The unique label, which names the policy's line in figures and, through `folder_name`, its folder.
    pub label: String,
    /// The swept keys that concern the policy, with their values. They distinguish policies of the same label. The
    /// scenario's keys come first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub swept: Vec<Swept>,
    /// The costs from the policy's own table, or from the device's. [`Scenario::set_costs`] replaces them.
    pub costs: PolicyCosts,
    /// The policy's overhead, which is the scenario's by default.
    pub overhead: Overhead,
    /// The settings of the policy's kind.
    #[serde(flatten)]
    pub settings: ConfiguredPolicy,
}

impl PolicyEntry {
    /// The label and the swept keys.
    pub fn name(&self) -> String {
        sweep_keys::label(&self.label, &self.swept)
    }
}

/// A file or generator; dereferences to its path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Input {
    /// The text in the scenario.
    pub given: String,
    /// The path where it was found, if it is a file.
    #[serde(skip)]
    found: Option<PathBuf>,
}

impl Deref for Input {
    type Target = Path;
    fn deref(&self) -> &Path {
        self.found.as_deref().unwrap_or(Path::new(&self.given))
    }
}

impl From<String> for Input {
    fn from(given: String) -> Self {
        Input { given, found: None }
    }
}

/// A trace that a scenario names; dereferences to its path. It is read once for all clones.
#[derive(Clone, Serialize)]
#[serde(transparent)]
pub struct TraceInput {
    input: Input,
    #[serde(skip)]
    file: Arc<Mutex<Option<Arc<TraceFile>>>>,
}

impl TraceInput {
    /// The trace, which is read unless it is known.
    ///
    /// # Errors
    /// The file cannot be read, or is no trace; the message names it.
    pub fn read(&self) -> Result<Arc<TraceFile>> {
        let mut file = self.file.lock().expect("reading a trace does not panic");
        if let Some(known) = &*file {
            return Ok(Arc::clone(known));
        }
        let read = Arc::new(TraceFile::read(self)?);
        *file = Some(Arc::clone(&read));
        Ok(read)
    }
}

impl From<Input> for TraceInput {
    fn from(input: Input) -> TraceInput {
        TraceInput {
            input,
            file: Arc::default(),
        }
    }
}

impl Deref for TraceInput {
    type Target = Input;
    fn deref(&self) -> &Input {
        &self.input
    }
}

impl PartialEq for TraceInput {
    fn eq(&self, other: &TraceInput) -> bool {
        self.input == other.input
    }
}

impl fmt::Debug for TraceInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.input.fmt(f)
    }
}

/// Values of swept keys, as options of the command line give them.
#[derive(Clone, Copy, Debug)]
pub struct SweepOptions<'a> {
    /// The name of the option.
    pub option: &'static str,
    /// The text of each option, such as `device.workers=1,2,4`.
    pub values: &'a [String],
    /// The label of the policy to which keys without a dot belong. If there is none, they are keys of the scenario.
    pub policy: Option<&'a str>,
}

impl<'a> SweepOptions<'a> {
    /// The values of `--sweep`.
    pub fn new(values: &'a [String]) -> Self {
        SweepOptions {
            option: "--sweep",
            values,
            policy: None,
        }
    }
}

/// The value that has this name in a scenario.
pub fn parse_name<T: DeserializeOwned>(name: &str) -> Result<T, String> {
    T::deserialize(name.into_deserializer())
        .map_err(|error: value::Error| section::Owner::default().reword(&error.to_string(), "", ""))
}

impl Scenario {
    /// Whether simulated runs need the [lists of trees](crate::core::policy::registry::Settings::lists_trees), for a
    /// policy or for costs that price transfers.
    pub(crate) fn lists_trees(&self) -> bool {
        self.policies.iter().any(|entry| {
            let table = entry.costs.table().ok().flatten();
            entry.settings.lists_trees() || table.is_some_and(CostTable::prices_transfers)
        })
    }

    /// Reads and checks a scenario, and builds each policy once to see that it fits the model.
    ///
    /// Each override is `key.path=value`, as for `--set`: `device.workers=2`, or by index, label or kind
    /// `policy.BatchMaker.max_batch=64`. Quote labels with dots or equals signs. Missing keys are created, and the last
    /// override wins. Errors read `FILE:LINE: key: problem; permitted values`.
    pub fn load(path: &Path, overrides: &[String], registry: &Registry) -> Result<Scenario> {
        let text = shipped::text(path)?;
        Scenario::parse(text, path, overrides, registry)
    }

    /// Loads scenarios as [`Scenario::load`] does, with the table `[sweep]` and sweeps such as `device.workers=1,2,4`.
    /// Each combination of keys outside of policies is a scenario of its own. A policy is in it once for each
    /// combination of its own keys.
    pub fn expand(
        path: &Path,
        overrides: &[String],
        sweeps: &[String],
        registry: &Registry,
    ) -> Result<Vec<Scenario>> {
        Scenario::expand_options(path, overrides, SweepOptions::new(sweeps), registry)
    }

    /// Loads scenarios as [`Scenario::expand`] does, with the values of another option than `--sweep`.
    pub fn expand_options(
        path: &Path,
        overrides: &[String],
        sweeps: SweepOptions<'_>,
        registry: &Registry,
    ) -> Result<Vec<Scenario>> {
        let text = shipped::text(path)?;
        check::scenarios(
            &source::Source::new(path, text, overrides, sweeps)?,
            registry,
        )
    }

    /// Lets scenarios that name the same trace share what is read of it.
    pub(in crate::lab) fn share_traces(scenarios: &mut [Scenario]) {
        let mut files = BTreeMap::new();
        for scenario in scenarios {
            if let Load::Trace { trace, .. } = &mut scenario.workload.load {
                let path = trace.to_path_buf();
                let file = files.entry(path).or_insert_with(|| Arc::clone(&trace.file));
                trace.file = Arc::clone(file);
            }
        }
    }

    /// Replaces the cost table of every policy.
    pub fn set_costs(&mut self, file: &Input) {
        let mut files = CostFiles::default();
        for policy in &mut self.policies {
            policy.costs = PolicyCosts::read(
                &mut files,
                Some(file.clone()),
                &self.device,
                &*policy.settings,
                &self.workload,
            );
        }
    }

    /// The text of the scenario's file with overrides, but without comments and sweep. It can be written to another
    /// folder, because inputs are named by where they were found.
    pub fn text_with(&self, overrides: &[String]) -> Result<String> {
        let source = source::Source::new(
            &self.file,
            shipped::text(&self.file)?,
            overrides,
            SweepOptions::new(&[]),
        )?;
        let table = toml::Spanned::new(0..0, source.parse()?);
        let mut table = toml::Table::deserialize(toml::de::Deserializer::from(table))
            .map_err(Error::failure)?;
        table.remove("sweep");
        let mut values: Vec<&mut toml::Value> = table.iter_mut().map(|(_, value)| value).collect();
        while let Some(value) = values.pop() {
            match value {
                toml::Value::String(text) => {
                    // The text may be `costs.csv` or `dnn:network.csv`.
                    let kind = |given: &str| {
                        text.strip_suffix(given)
                            .filter(|kind| kind.is_empty() || kind.ends_with(':'))
                    };
                    let mut inputs = self
                        .inputs()
                        .filter(|(_, path)| !shipped::is_built_in(path));
                    if let Some((kind, path)) =
                        inputs.find_map(|(given, path)| Some((kind(given)?, path)))
                    {
                        *text = format!("{kind}{}", path.display());
                    }
                }
                toml::Value::Array(items) => values.extend(items),
                toml::Value::Table(below) => {
                    values.extend(below.iter_mut().map(|(_, value)| value))
                }
                _ => {}
            }
        }
        Ok(table.to_string())
    }

    /// Reads and checks the text of a scenario. Messages show `file`, and files that the scenario names may be next to
    /// it.
    pub fn parse(
        text: String,
        file: &Path,
        overrides: &[String],
        registry: &Registry,
    ) -> Result<Scenario> {
        let source = source::Source::new(file, text, overrides, SweepOptions::new(&[]))?;
        check::scenario_alone(&source, registry)
    }

    /// The loads, in the order of the file.
    pub fn points(&self) -> Vec<LoadPoint> {
        match (&self.arrivals, &self.workload.load) {
            (Some(arrivals), _) => arrivals.points(),
            (None, Load::Trace { time_scale, .. }) if time_scale.len() > 1 => {
                time_scale.iter().copied().map(LoadPoint::Scaled).collect()
            }
            (None, _) => vec![LoadPoint::Trace],
        }
    }

    /// The rows of the cost tables that policies name, by the name as written.
    pub fn cost_tables(&self) -> BTreeMap<&str, &CostTable> {
        let mut tables = BTreeMap::new();
        for PolicyEntry { costs, .. } in &self.policies {
            if let Some((file, rows)) = costs.file().zip(costs.rows()) {
                tables.insert(&*file.given, rows);
            }
        }
        tables
    }

    /// The files that the scenario names, as written and where they were found.
    pub fn inputs(&self) -> impl Iterator<Item = (&str, &Path)> {
        let DeviceSection {
            roofline,
            grnn,
            noise,
            ..
        } = &self.device;
        let named = std::iter::once(self.workload.source())
            .chain(&self.workload.weights)
            .chain(roofline)
            .chain(grnn)
            .chain(noise)
            .chain(
                self.policies
                    .iter()
                    .filter_map(|policy| policy.costs.file()),
            )
            .chain(
                self.classes
                    .iter()
                    .filter_map(|class| class.dataset.as_ref()),
            );
        let named = named.map(|input| (&*input.given, &**input));
        named
            .chain(self.workload.model.file())
            .filter(|(_, path)| shipped::is_file(path))
    }
}
