//! From the text of a scenario to a checked [`Scenario`].

use std::collections::BTreeMap;
use std::path::PathBuf;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::costs::CostEstimates;
use super::gpu::{LAUNCHES, SIGNALS, precisions};
use super::section::{Field, Section, did_you_mean, reworded};
use super::source::{Source, Span};
use super::{ArrivalSpec, Device, Input, Load, Metrics, Output, PolicyEntry, Quantile, Scenario, Warmup, Workload};
use crate::cost::table::Overhead;
use crate::error::Result;
use crate::files::folder_name;
use crate::gpu_settings::Settings as GpuSettings;
use crate::policy::registry::{Registry, Setup};
use crate::units::{Nanos, Rate};
use crate::workload::arrivals::{Process, Think};
use crate::workload::model::{KNOWN, Model};
use crate::workload::operator::Sizes;

/// `scenarios/reference.toml` shows all keys.
pub(super) const ROOT: &[&str] =
    &["name", "seed", "workload", "arrivals", "device", "overhead", "metrics", "output", "policy"];
pub(super) const WORKLOAD: &[&str] = &[
    "model",
    "hidden",
    "embedding",
    "vocabulary",
    "weights",
    "dataset",
    "requests",
    "max_length",
    "trace",
    "time_scale",
];
pub(super) const DEVICE: &[&str] =
    &["workers", "costs", "roofline", "grnn", "max_waiting", "precision", "signal", "launch"];
pub(super) const OVERHEAD: &[&str] = &["task_ns", "gather_ns", "launch_ns"];
pub(super) const METRICS: &[&str] = &["slo", "quantile", "warmup"];
pub(super) const OUTPUT: &[&str] = &["requests", "tasks", "timeline", "plots", "plot_point", "title"];
pub(super) const POLICY: &[&str] = &["kind", "label", "costs", "overhead"];
pub(super) const PROCESSES: &[(&str, &[&str])] = &[
    ("poisson", &["process", "rates"]),
    ("uniform", &["process", "rates"]),
    ("gamma", &["process", "rates", "cv"]),
    ("mmpp", &["process", "rates", "ratio", "low", "high"]),
    ("stepping", &["process", "from", "to", "steps"]),
    ("offline", &["process"]),
    ("closed", &["process", "clients", "think", "think_dist"]),
];

/// The prefixes of datasets that are not files.
const GENERATORS: &[&str] = &["constant:", "generator:", "complete-tree:"];
/// About a hundred bytes each in memory.
const MAX_REQUESTS: u64 = 200_000_000;
/// Above it, gaps would be shorter than a nanosecond.
const MAX_RATE: f64 = 1e9;
/// One request in eleven days. At lower rates a run would exceed the clock.
const MIN_RATE: f64 = 1e-6;
/// File systems limit names to 255 bytes; some are left for suffixes.
const MAX_NAME: usize = 200;
/// Wider layers have more weights than any machine's memory.
const MAX_WIDTH: u64 = 1 << 16;
/// A decoder keeps its word as a float32, which is exact up to this number.
const MAX_VOCABULARY: u64 = 1 << 24;
/// A larger number is probably a typing error.
const MAX_WORKERS: u64 = 1024;

pub(super) fn scenario(source: &Source, registry: &Registry) -> Result<Scenario> {
    let mut root = Section::new(source, String::new(), 0..0, source.parse()?);
    root.only("", ROOT)?;
    let name = root.require("name", "a name for the folder of the results")?;
    let workload = workload(&mut root)?;
    let device = device(root.section("device")?)?;
    let overhead = overhead(root.section("overhead")?, Overhead::default())?;
    Ok(Scenario {
        name: folder_safe(&name)?,
        seed: root.take("seed").map_or(Ok(1), |seed| seed.whole(0..=u64::MAX))?,
        file: source.file().to_path_buf(),
        metrics: metrics(root.section("metrics")?)?,
        output: output(
            root.section("output")?,
            &workload.load.points().iter().map(ToString::to_string).collect::<Vec<_>>(),
        )?,
        policies: policies(&mut root, registry, &workload, &device, overhead)?,
        workload,
        device,
        overhead,
    })
}

fn folder_safe(field: &Field<'_>) -> Result<String> {
    let text = field.text()?;
    if text.contains(['/', '\\']) || text == "." || text == ".." {
        return Err(field.refuse(format!("\"{text}\" cannot name a folder of results; leave out slashes")));
    }
    match folder_name(&text).len() {
        0..=MAX_NAME => Ok(text),
        bytes => Err(field.refuse(format!("names a folder of results in {bytes} letters; at most {MAX_NAME}"))),
    }
}

/// A text that can name a folder beside the result files, which have extensions.
fn label(field: &Field<'_>) -> Result<String> {
    let text = folder_safe(field)?;
    let folder = folder_name(&text).to_lowercase();
    match [".csv", ".json", ".svg", ".png"].iter().any(|ending| folder.ends_with(ending)) {
        true => Err(field.refuse(format!("\"{text}\" could be a file of results; leave out the ending"))),
        false => Ok(text),
    }
}

fn workload(root: &mut Section<'_>) -> Result<Workload> {
    let mut table = root.section("workload")?;
    table.only("", WORKLOAD)?;
    let model = table.require("model", &format!("one of {}", KNOWN))?;
    let mut size = |key, default, most| {
        table.take(key).map_or(Ok(default), |field| field.whole(1..=most).map(|number| number as u32))
    };
    let hidden = size("hidden", 1024, MAX_WIDTH)?;
    Ok(Workload {
        model: Model::open(&model.text()?, &|given| find(given, model.source()))
            .map_err(|problem| model.refuse(problem))?,
        hidden,
        embedding: size("embedding", hidden, MAX_WIDTH)?,
        vocabulary: size("vocabulary", 30_000, MAX_VOCABULARY)?,
        weights: table.take("weights").map(|weights| file(&weights, "")).transpose()?,
        load: if table.has("trace") { traced(&mut table, root)? } else { drawn(&mut table, root)? },
    })
}

fn traced(table: &mut Section<'_>, root: &Section<'_>) -> Result<Load> {
    if table.has("dataset") {
        let way_out = "there is a dataset too; remove trace to draw requests from the dataset, or remove dataset, \
                       requests, max_length and [arrivals] to replay the trace";
        return Err(table.refuse("trace", way_out));
    }
    for key in ["requests", "max_length"] {
        if table.has(key) {
            return Err(table.refuse(key, "goes with a dataset, and the trace has its requests; remove it"));
        }
    }
    if root.has("arrivals") {
        return Err(root.refuse("arrivals", "the trace has its arrivals; remove [arrivals], or workload.trace"));
    }
    let trace = table.require("trace", "a trace file")?;
    let above_zero = |scale: &Field<'_>| scale.number("a number above 0", |n| n > 0.0);
    Ok(Load::Trace {
        trace: file(&trace, "")?,
        time_scale: table.take("time_scale").map_or(Ok(1.0), |scale| above_zero(&scale))?,
    })
}

fn drawn(table: &mut Section<'_>, root: &mut Section<'_>) -> Result<Load> {
    if table.has("time_scale") {
        return Err(table.refuse("time_scale", "goes with a trace, and there is none; remove it"));
    }
    let dataset = table.require("dataset", "a dataset to draw requests from, or else a trace to replay")?;
    let name = dataset.text()?;
    Ok(Load::Drawn {
        dataset: match GENERATORS.iter().any(|generator| name.starts_with(generator)) {
            true => Input::from(name.as_str()),
            false => file(&dataset, "; a dataset is a file, constant:SIZE, complete-tree:LEAVES or generator:NAME")?,
        },
        requests: table.take("requests").map_or(Ok(100_000), |n| n.whole(1..=MAX_REQUESTS).map(|n| n as u32))?,
        max_length: table.take("max_length").map(|length| length.count()).transpose()?,
        arrivals: arrivals(root.section("arrivals")?)?,
    })
}

const SOJOURN: &str = "a time of at least 1us, such as \"100ms\"";

fn arrivals(mut table: Section<'_>) -> Result<ArrivalSpec> {
    let names: Vec<&str> = PROCESSES.iter().map(|(name, _)| *name).collect();
    let process = match table.take("process") {
        Some(process) => process.choice(&names.iter().map(|name| (*name, *name)).collect::<Vec<_>>())?,
        None => return Err(table.refuse("process", format!("missing; one of {}", names.join(", ")))),
    };
    let keys = PROCESSES.iter().find(|(name, _)| *name == process).map_or(&[][..], |(_, keys)| *keys);
    table.only(&format!(" of the process \"{process}\""), keys)?;

    const RATES: &str = "a list of requests per second, such as [1000, 2000]";
    if process == "closed" {
        const CLIENTS: &str = "a list of numbers of clients, such as [1, 8]";
        let distributions = [("constant", Think::Constant as fn(Nanos) -> Think), ("exponential", Think::Exponential)];
        let clients = table.require("clients", CLIENTS)?.set(CLIENTS, Field::count)?;
        let mean = table.take("think").map_or(Ok(Nanos::ZERO), |think| think.time())?;
        let think = table.take("think_dist").map_or(Ok(distributions[0].1), |d| d.choice(&distributions))?;
        return Ok(ArrivalSpec::Closed { clients, think: think(mean) });
    }
    let process = match process {
        "poisson" => Process::Poisson,
        "uniform" => Process::Uniform,
        "gamma" => {
            let what = "the coefficient of variation of the gaps, a number from 0.001 to 1000";
            Process::Gamma { cv: table.require("cv", what)?.number(what, |cv| (0.001..=1000.0).contains(&cv))? }
        }
        "mmpp" => {
            let what = "the high rate over the low one, a number from 1 to 1e6";
            Process::Mmpp {
                ratio: table.require("ratio", what)?.number(what, |ratio| (1.0..=1e6).contains(&ratio))?,
                low: sojourn(&table.require("low", SOJOURN)?)?,
                high: sojourn(&table.require("high", SOJOURN)?)?,
            }
        }
        "stepping" => Process::Stepping {
            from: rate(&table.require("from", "the first rate, in requests per second")?)?,
            to: rate(&table.require("to", "the last rate, in requests per second")?)?,
            steps: table.require("steps", "the number of steps")?.whole(2..=u64::from(u32::MAX))? as u32,
        },
        "offline" => Process::Offline,
        other => unreachable!("{other} is none of the processes"),
    };
    let rates = match process.takes_rate() {
        true => table.require("rates", RATES)?.set(RATES, rate)?,
        false => Vec::new(),
    };
    Ok(ArrivalSpec::Open { process, rates })
}

fn sojourn(field: &Field<'_>) -> Result<Nanos> {
    match field.time()? {
        time if time >= Nanos(1_000) => Ok(time),
        _ => Err(field.refuse(format!("must be {SOJOURN}"))),
    }
}

fn rate(field: &Field<'_>) -> Result<Rate> {
    let what = "a number of requests per second from 1e-6 to 1e9";
    field.number(what, |n| (MIN_RATE..=MAX_RATE).contains(&n)).map(Rate)
}

fn positive_time(field: &Field<'_>) -> Result<Nanos> {
    match field.time()? {
        Nanos::ZERO => Err(field.refuse("must be longer than 0")),
        time => Ok(time),
    }
}

fn device(mut table: Section<'_>) -> Result<Device> {
    table.only("", DEVICE)?;
    Ok(Device {
        workers: table.take("workers").map_or(Ok(1), |workers| workers.whole(1..=MAX_WORKERS))? as usize,
        costs: table.take("costs").map(|costs| file(&costs, "")).transpose()?,
        roofline: table.take("roofline").map(|device| file(&device, "")).transpose()?,
        grnn: table.take("grnn").map(|device| file(&device, "")).transpose()?,
        max_waiting: table.take("max_waiting").map(|bound| bound.count()).transpose()?,
        gpu: GpuSettings {
            precision: choice(&mut table, "precision", &precisions())?,
            signal: choice(&mut table, "signal", &SIGNALS)?,
            launch: choice(&mut table, "launch", &LAUNCHES)?,
        },
    })
}

/// Without the key, the first.
fn choice<T: Copy>(table: &mut Section<'_>, key: &str, choices: &[(&'static str, T)]) -> Result<T> {
    table.take(key).map_or(Ok(choices[0].1), |field| field.choice(choices))
}

fn overhead(mut table: Section<'_>, default: Overhead) -> Result<Overhead> {
    table.only("", OVERHEAD)?;
    let mut nanos = |key| table.take(key).map(|field| field.whole(0..=u64::MAX).map(Nanos)).transpose();
    let given = Overhead { task: nanos("task_ns")?, gather: nanos("gather_ns")?, launch: nanos("launch_ns")? };
    Ok(given.or(default))
}

fn metrics(mut table: Section<'_>) -> Result<Metrics> {
    table.only("", METRICS)?;
    let quantiles = Quantile::ALL.map(|quantile| (quantile.name(), quantile));
    Ok(Metrics {
        slo: table.take("slo").map(|slo| positive_time(&slo)).transpose()?,
        quantile: table.take("quantile").map_or(Ok(Quantile::default()), |q| q.choice(&quantiles))?,
        warmup: table.take("warmup").map_or(Ok(Warmup::default()), |rule| warmup(&rule))?,
    })
}

fn warmup(field: &Field<'_>) -> Result<Warmup> {
    if field.value().is_integer() {
        return field.whole(0..=u64::from(u32::MAX)).map(|count| Warmup::Requests(count as u32));
    }
    let text = field.value().as_str().unwrap_or_default();
    let share = text.strip_suffix('%').and_then(|percent| percent.trim().parse::<f64>().ok());
    match (text, share) {
        ("auto", _) => Ok(Warmup::Auto),
        ("none", _) => Ok(Warmup::None),
        ("mser5", _) => Ok(Warmup::Mser5),
        (_, Some(percent)) if (0.0..100.0).contains(&percent) => Ok(Warmup::Share(percent / 100.0)),
        _ => {
            let what = "\"auto\", \"none\", \"mser5\", a share below 100% such as \"10%\", or a number of requests";
            Err(field.must_be(what))
        }
    }
}

fn output(mut table: Section<'_>, points: &[String]) -> Result<Output> {
    table.only("", OUTPUT)?;
    let default = Output::default();
    let mut flag = |key, default| table.take(key).map_or(Ok(default), |field| field.flag());
    let (requests, tasks) = (flag("requests", default.requests)?, flag("tasks", default.tasks)?);
    let timeline = flag("timeline", default.timeline)?;
    let plots = match table.take("plots") {
        Some(plots) => {
            let kinds = plots.list("a list of kinds of figures, such as [\"latency-throughput\"]")?;
            kinds.iter().map(|kind| kind.text()?.parse().map_err(|e: String| kind.refuse(e))).collect::<Result<_>>()?
        }
        None => default.plots,
    };
    let plot_point = table.take("plot_point").map(|point| plot_point(&point, points)).transpose()?;
    let title = table.take("title").map(|title| title.text()).transpose()?;
    Ok(Output { requests, tasks, timeline, plots, plot_point, title })
}

fn plot_point(field: &Field<'_>, points: &[String]) -> Result<String> {
    let name = match field.value() {
        DeValue::String(name) => name.to_string(),
        _ => rate(field)?.to_string(),
    };
    match points.contains(&name) {
        true => Ok(name),
        false => Err(field.refuse(format!("no point of this scenario is \"{name}\"; known: {}", points.join(", ")))),
    }
}

/// Searches the current folder, then the scenario's. `or_else` ends the error message.
fn file(field: &Field<'_>, or_else: &str) -> Result<Input> {
    let given = field.text()?;
    let found = find(&given, field.source()).map_err(|problem| field.refuse(format!("{problem}{or_else}")))?;
    Ok(Input { given, found })
}

fn find(given: &str, source: &Source) -> Result<PathBuf, String> {
    let beside = source.file().parent().map(|folder| folder.join(given));
    let mut places = vec![PathBuf::from(given)];
    places.extend(beside.filter(|path| *path != places[0]));
    if let Some(found) = places.iter().find(|path| path.exists() && !path.is_dir()) {
        return Ok(found.clone());
    }
    let tried: Vec<String> = places
        .iter()
        .map(|path| format!("{}{}", path.display(), if path.is_dir() { " (a folder)" } else { "" }))
        .collect();
    Err(format!("no such file: {}", tried.join(", nor ")))
}

fn policies(
    root: &mut Section<'_>,
    registry: &Registry,
    workload: &Workload,
    device: &Device,
    overhead: Overhead,
) -> Result<Vec<PolicyEntry>> {
    const WHAT: &str = "at least one [[policy]] table";
    let list = root.require("policy", WHAT)?;
    let whole = list.clone();
    let cells = workload.model.cell_types();
    let setup = Setup { model: &workload.model, cells: &cells, workers: device.workers, costs: None };
    let sizes = workload.sizes();
    let mut reader = PolicyReader { registry, setup, sizes, device, overhead, folders: BTreeMap::new() };
    let tables = list.list(WHAT)?.into_iter().enumerate();
    let entries = tables.map(|(index, item)| reader.read(index, item.table()?)).collect::<Result<Vec<_>>>()?;
    if entries.is_empty() { Err(whole.refuse(format!("there is none; {WHAT} is needed"))) } else { Ok(entries) }
}

struct PolicyReader<'a> {
    registry: &'a Registry,
    setup: Setup<'a>,
    sizes: Sizes,
    device: &'a Device,
    overhead: Overhead,
    folders: BTreeMap<String, usize>,
}

impl PolicyReader<'_> {
    fn read(&mut self, index: usize, mut table: Section<'_>) -> Result<PolicyEntry> {
        let known: Vec<&str> = self.registry.kinds().collect();
        let kind_field = table.require("kind", &format!("one of {}", known.join(", ")))?;
        let kind = kind_field.text()?;
        let name = format!("policy[{index}] ({kind})");
        let Some(own) = self.registry.keys(&kind) else {
            let hint = did_you_mean(&kind, &known);
            return Err(kind_field.refuse(format!("unknown policy \"{kind}\"{hint}; known: {}", known.join(", "))));
        };
        let source = table.source();
        let mut table = Section::new(source, format!("{name}: "), table.span, table.entries);
        table.only("", &[POLICY, &own].concat())?;

        let label_field = table.take("label");
        let label = label_field.as_ref().map_or_else(|| Ok(kind.clone()), label)?;
        // Some file systems ignore case.
        if let Some(other) = self.folders.insert(folder_name(&label).to_lowercase(), index) {
            let problem =
                format!("\"{label}\" names the same folder as the label of policy[{other}]; add a `label` of its own");
            return Err(label_field.map_or_else(|| table.refuse("label", &problem), |field| field.refuse(&problem)));
        }
        let costs = match table.take("costs") {
            Some(costs) => Some(file(&costs, "")?),
            None => self.device.costs.clone(),
        };
        let overhead = overhead(table.section("overhead")?, self.overhead)?;

        // The other keys belong to the kind. Its errors have a span or begin with a key; both give the line.
        let rest = table.entries;
        let parsed = self.registry.parse(&kind, Spanned::new(table.span.clone(), rest.clone()));
        let settings = parsed.map_err(|error| {
            let span = error.span().unwrap_or(table.span.clone());
            let key = key_at(&rest, &span).map_or(String::new(), |key| format!("{key}: "));
            source.error(span, &name, format!("{key}{}", reworded(error.message())))
        })?;
        let estimates = CostEstimates::read(costs.as_deref(), self.device, &*settings, self.setup.model, &self.sizes);
        estimates.build(&*settings, self.setup).map_err(|problem| {
            let key = problem.split_once(": ").map_or("", |(key, _)| key);
            source.error(span_of(&rest, key).unwrap_or(table.span.clone()), &name, problem)
        })?;
        Ok(PolicyEntry { label, settings, overhead, costs })
    }
}

fn key_at(table: &DeTable<'_>, place: &Span) -> Option<String> {
    table.iter().find_map(|(key, value)| {
        let name = key.get_ref();
        let deeper = value.get_ref().as_table().and_then(|inner| key_at(inner, place));
        let here = || value.span().start <= place.start && place.end <= value.span().end;
        deeper.map(|deeper| format!("{name}.{deeper}")).or_else(|| here().then(|| name.to_string()))
    })
}

fn span_of(table: &DeTable<'_>, key: &str) -> Option<Span> {
    let (first, deeper) = key.split_once('.').map_or((key, None), |(first, deeper)| (first, Some(deeper)));
    let value = table.get(first)?;
    let inner = deeper.zip(value.get_ref().as_table()).and_then(|(key, inner)| span_of(inner, key));
    Some(inner.unwrap_or(value.span()))
}
