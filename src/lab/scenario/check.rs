//! From the text of a scenario to a checked [`Scenario`]. Serde reads the tables; what it cannot check is checked here,
//! with problems that begin with the key.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::arrivals;
use super::costs::{CostFiles, PolicyCosts};
use super::section::{Owner, Section, unknown_name};
use super::source::Source;
use super::sweep::{self, Choice, SweptKey};
use super::tables::{self, Given, MOST_KEPT};
use super::{
    ArrivalSpec, ClassEntry, Input, Load, OutputSection, PolicyEntry, Record, Scenario, Warmup,
    WorkloadSection,
};
use crate::base::error::{Error, Result};
use crate::base::files::folder_name;
use crate::base::shipped;
use crate::core::policy::registry::{ConfiguredPolicy, Registry, Setup};
use crate::core::workload::arrivals::PROCESSES;
use crate::core::workload::dataset::Dataset;
use crate::core::workload::model::Model;
use crate::core::workload::trace::class_name;
use crate::lab::plot::face::{self, Face};
use crate::lab::plot::{FigureKind, PictureFormat, names};
use crate::lab::results::sweep_keys::{self, distinct};

/// The prefixes of datasets that are not files.
const GENERATORS: &[&str] = &["constant:", "generator:", "complete-tree:"];
/// The most combinations of swept keys, each with a policy. A scenario takes about 3 kB for each of them.
const MOST_COMBINATIONS: u64 = 100_000;
/// The keys of `[device]` that name files.
const DEVICE_INPUTS: [&str; 4] = ["costs", "roofline", "grnn", "noise"];
/// The longest name of a folder, in bytes, that file systems allow.
const MAX_FOLDER: usize = 255;
/// The longest name of a policy or scenario, which leaves some bytes for suffixes.
const MAX_NAME: usize = 200;

/// The scenarios of a file, one for each combination of the swept keys outside of policies.
pub(super) fn scenarios(source: &Source, registry: &Registry) -> Result<Vec<Scenario>> {
    let mut root = source.parse()?;
    let axes = sweep::axes(source, &mut root)?;
    let policies = policy_items(&root).len();
    let combinations = sweep::count_combinations(&axes, policies);
    if let Some(first) = axes.first()
        && combinations > MOST_COMBINATIONS
    {
        return Err(first.refuse(
            source,
            &format!(
                "all swept keys together have {combinations} combinations, and at most {MOST_COMBINATIONS} are allowed; \
                 take fewer values, or divide them over several calls"
            ),
        ));
    }
    let mut cost_files = CostFiles::default();
    let mut scenarios = Vec::new();
    for choices in sweep::product(&axes, None) {
        let mut table = Spanned::new(0..0, DeValue::Table(root.clone()));
        sweep::apply(source, &mut table, &choices)?;
        let root = Section::new(source, "", table, Owner::default())?;
        scenarios.push(scenario(&root, registry, &axes, &choices, &mut cost_files)?);
    }
    Scenario::share_traces(&mut scenarios);
    Ok(scenarios)
}

/// The only scenario of a file, for commands that run no sweeps.
pub(super) fn scenario_alone(source: &Source, registry: &Registry) -> Result<Scenario> {
    match sweep::axes(source, &mut source.parse()?)?.first() {
        Some(axis) => Err(axis.refuse(
            source,
            "this command takes one value of each key; give it as --set KEY=VALUE, and leave the sweep out with --set \
             sweep={}",
        )),
        None => Ok(scenarios(source, registry)?.remove(0)),
    }
}

fn scenario(
    root: &Section<'_>,
    registry: &Registry,
    axes: &[SweptKey<'_>],
    choices: &[Choice<'_, '_>],
    cost_files: &mut CostFiles,
) -> Result<Scenario> {
    let checked = match (root.read(root.table.clone()), arrival_spec(root)) {
        (Ok(given), Ok(arrivals)) => check_scenario(given, arrivals, &root.source.file)
            .map_err(|problem| root.refuse(&problem)),
        (given, arrivals) => Err(Error::all(
            given.err().into_iter().chain(arrivals.err()).collect(),
        )),
    };
    let mut scenario = checked.map_err(|mistake| {
        let mut mistakes = further_mistakes(root, registry, axes);
        if mistakes.is_empty() {
            return mistake;
        }
        mistakes.insert(0, mistake);
        Error::all(mistakes)
    })?;
    scenario.policies = policies(root, registry, &scenario, axes, choices, cost_files)?;
    points_have_folders(&scenario).map_err(|problem| root.refuse(&problem))?;
    look(&scenario).map_err(|problem| root.refuse(&problem))?;
    Ok(scenario)
}

/// The mistakes that can be seen in a scenario whose tables are wrong elsewhere: in its model, its inputs and its
/// policies.
fn further_mistakes(root: &Section<'_>, registry: &Registry, axes: &[SweptKey<'_>]) -> Vec<Error> {
    let file = &root.source.file;
    let text = |table: &str, key: &str| {
        let table = root.table.get_ref().get(table)?.get_ref();
        table.get(key)?.get_ref().as_str()
    };
    let input = |table: &str, key: &str| text(table, key).map(|text| Input::from(text.to_string()));
    let mut problems = Vec::new();
    let mut dataset = input("workload", "dataset");
    let found = find_dataset("workload.dataset", &mut dataset, file);
    match text("workload", "model").map(|name| Model::open(name, &|name| find(name, file))) {
        Some(Err(problem)) => problems.push(format!("workload.model: {problem}")),
        Some(Ok(model)) if found.is_ok() => {
            let opened = dataset.map(|dataset| {
                Dataset::open(&dataset.to_string_lossy(), &model, &|path| {
                    PathBuf::from(path)
                })
            });
            if let Some(Err(problem)) = opened {
                problems.push(format!("workload.dataset: {problem}"));
            }
        }
        _ => {}
    }
    problems.extend(found.err());
    for key in DEVICE_INPUTS {
        let mut found = input("device", key);
        problems.extend(find_input(&format!("device.{key}"), &mut found, file).err());
    }
    let mut mistakes: Vec<Error> = problems
        .iter()
        .map(|problem| root.refuse(problem))
        .collect();
    for (index, item) in policy_items(root.table.get_ref()).iter().enumerate() {
        for own in sweep::product(axes, Some(index)) {
            let read = policy_section(root, index, item, &own)
                .and_then(|mut section| read_policy(&mut section, registry).map(drop));
            mistakes.extend(read.err());
        }
    }
    mistakes
}

/// Refuses unknown policies and fonts now, which would otherwise be refused only when figures are drawn.
fn look(scenario: &Scenario) -> Result<(), String> {
    let look = &scenario.output.figure;
    let labels = distinct(scenario.policies.iter().map(|policy| policy.label.as_str()));
    let known = labels
        .iter()
        .map(ToString::to_string)
        .chain(scenario.policies.iter().map(PolicyEntry::name));
    let known = distinct(known.chain([scenario.name.clone()]));
    let of = |key: &str, error: Error| {
        format!(
            "output.figure.{key}: {}",
            error.to_string().trim_start_matches(&format!("--{key}: "))
        )
    };
    names::order(&look.order, &labels).map_err(|error| of("order", error))?;
    look.with_labels(&known)
        .map_err(|error| of("label", error))?;
    let face = look
        .font
        .as_deref()
        .map_or(Ok(Face::default()), Face::find)
        .map_err(|error| of("font", error))?;
    let mut others = PictureFormat::all(&look.format)
        .into_iter()
        .filter(|format| *format != PictureFormat::Svg);
    others
        .try_for_each(|format| face.font_bytes(format).map(drop))
        .map_err(|error| of("font", error))
}

/// Refuses names of folders that are too long, because long sweeps make long names.
fn points_have_folders(scenario: &Scenario) -> Result<(), String> {
    for load in scenario.points() {
        for PolicyEntry { label, swept, .. } in &scenario.policies {
            let name = sweep_keys::point_folder(&load.to_string(), swept);
            let letters = name.len();
            if letters > MAX_FOLDER {
                return Err(format!(
                    "sweep: the folder of a point of \"{label}\" would have a name of {letters} letters; at most {MAX_FOLDER}; \
                     sweep fewer keys at once: {name}"
                ));
            }
        }
    }
    Ok(())
}

/// Checks all of a scenario except its policies.
fn check_scenario(
    given: Given,
    arrivals: Option<ArrivalSpec>,
    file: &Path,
) -> Result<Scenario, String> {
    let Given {
        name,
        seed,
        mut workload,
        mut classes,
        mut device,
        overhead,
        metrics,
        mut output,
        ..
    } = given;
    folder_safe("name", &name)?;
    let of_classes: Option<Vec<&Input>> =
        classes.iter().map(|class| class.dataset.as_ref()).collect();
    if let (None, None, Some([first, ..])) =
        (&workload.dataset, &workload.trace, of_classes.as_deref())
    {
        // No request uses this dataset, because each class has its own.
        workload.dataset = Some((*first).clone());
    }
    let workload = self::workload(workload, arrivals.as_ref(), file)?;
    self::classes(&mut classes, &workload, file)?;
    let super::DeviceSection {
        costs,
        roofline,
        grnn,
        noise,
        ..
    } = &mut device;
    for (key, input) in DEVICE_INPUTS
        .into_iter()
        .zip([costs, roofline, grnn, noise])
    {
        find_input(&format!("device.{key}"), input, file)?;
    }
    output
        .title
        .as_deref()
        .map_or(Ok(()), |title| require_printable("output.title", title))?;
    let kinds = output
        .figure
        .titles
        .iter()
        .map(|(kind, _)| kind.parse::<FigureKind>().map(drop));
    kinds
        .collect::<Result<(), _>>()
        .map_err(|unknown| format!("output.figure.titles: {unknown}"))?;
    if let Some(font) = output
        .figure
        .font
        .as_mut()
        .filter(|font| face::is_file(font))
    {
        let found = find(font, file).map_err(|problem| format!("output.figure.font: {problem}"))?;
        *font = found.display().to_string();
    }
    record(&output, &workload, metrics.warmup)?;
    let policies = Vec::new();
    let file = file.to_path_buf();
    let _sweep = None;
    let mut scenario = Scenario {
        name,
        seed,
        file,
        workload,
        arrivals,
        classes,
        device,
        overhead,
        metrics,
        output,
        policies,
        _sweep,
    };
    let points: Vec<String> = scenario.points().iter().map(ToString::to_string).collect();
    if let Some(point) = &scenario.output.plot_point
        && !points.contains(point)
    {
        scenario.output.plot_point = Some(nearest(point, &points).ok_or_else(|| {
            let known = points.join(", ");
            format!("output.plot_point: no point of this scenario is \"{point}\"; known: {known}")
        })?);
    }
    Ok(scenario)
}

/// The rate that is nearest to another, the lower one of two, or `None` if the points are not rates.
fn nearest(rate: &str, points: &[String]) -> Option<String> {
    let rate: f64 = rate.parse().ok()?;
    let distance = |point: &String| point.parse().ok().map(|one: f64| (one - rate).abs());
    let by_distance = points
        .iter()
        .filter_map(|point| Some((distance(point)?, point)));
    by_distance
        .min_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, point)| point.clone())
}

/// Refuses settings that do not go with the kind of record.
fn record(
    output: &OutputSection,
    workload: &WorkloadSection,
    warmup: Warmup,
) -> Result<(), String> {
    let problem = match (output.record, &workload.load) {
        (Record::Full, _) if output.log_every.is_some() => {
            "output.log_every: goes with record = \"stream\"; a full record logs every request, so remove it"
        }
        (Record::Full, Load::Drawn { requests, .. }) if *requests > MOST_KEPT => {
            return Err(format!(
                "workload.requests: {requests} is too many for a full record, which has up to {MOST_KEPT}; draw fewer, or \
                 set output.record = \"stream\""
            ));
        }
        (Record::Full, _) => return Ok(()),
        _ if workload.model.is_llm() => {
            "output.record: a stream keeps no times of tokens; set record = \"full\""
        }
        (_, Load::Trace { .. }) => {
            "output.record: a stream draws its requests, and a trace has them; set record = \"full\""
        }
        _ if output.tasks => "output.tasks: a stream logs no tasks; set tasks = false",
        _ if output.timeline => "output.timeline: a stream logs no tasks; set timeline = false",
        _ if warmup == Warmup::Mser5 => {
            "metrics.warmup: mser5 examines all requests, which a stream does not keep; set a share or a number"
        }
        _ => return Ok(()),
    };
    Err(problem.into())
}

/// Refuses texts that are blank, and control characters, which a terminal would obey.
fn require_printable(key: &str, text: &str) -> Result<(), String> {
    match text {
        _ if text.trim().is_empty() => Err(format!("{key}: must not be empty")),
        _ if text.contains(char::is_control) => Err(format!(
            "{key}: {text:?} has a control character; leave it out"
        )),
        _ => Ok(()),
    }
}

fn folder_safe(key: &str, text: &str) -> Result<(), String> {
    require_printable(key, text)?;
    if text.contains(['/', '\\']) || text == "." || text == ".." {
        return Err(format!(
            "{key}: \"{text}\" cannot name a folder of results; leave out slashes"
        ));
    }
    if text.starts_with('.') {
        return Err(format!(
            "{key}: \"{text}\" begins with a dot, as the files of a run that is under way do; leave the dot out"
        ));
    }
    match folder_name(text).len() {
        0..=MAX_NAME => Ok(()),
        bytes => Err(format!(
            "{key}: names a folder of results in {bytes} letters; at most {MAX_NAME}"
        )),
    }
}

fn workload(
    given: tables::WorkloadTable,
    arrivals: Option<&ArrivalSpec>,
    file: &Path,
) -> Result<WorkloadSection, String> {
    let open = |name: &str| Model::open(name, &|file_name| find(file_name, file));
    let model = open(&given.model).map_err(|problem| format!("workload.model: {problem}"))?;
    let hidden = given.hidden.unwrap_or(1024);
    let embedding = given.embedding.unwrap_or(hidden);
    let vocabulary = given.vocabulary.unwrap_or(30_000);
    let mut weights = given.weights.clone();
    find_input("workload.weights", &mut weights, file)?;
    Ok(WorkloadSection {
        model,
        hidden,
        embedding,
        vocabulary,
        weights,
        load: load(given, arrivals, file)?,
    })
}

fn load(
    given: tables::WorkloadTable,
    arrivals: Option<&ArrivalSpec>,
    file: &Path,
) -> Result<Load, String> {
    let tables::WorkloadTable {
        mut dataset,
        requests,
        max_length,
        mut trace,
        time_scale,
        ..
    } = given;
    find_input("workload.trace", &mut trace, file)?;
    find_dataset("workload.dataset", &mut dataset, file)?;
    let problem = match (dataset, trace) {
        (Some(_), Some(_)) => {
            "workload.trace: there is a dataset too; remove trace to draw requests from the dataset, or remove dataset, \
             requests, max_length and [arrivals] to replay the trace"
        }
        (None, None) => {
            "workload.dataset: missing; a dataset to draw requests from (or one for each class), or else a trace to replay"
        }
        (Some(_), _) if time_scale.is_some() => {
            "workload.time_scale: goes with a trace, and there is none; remove it"
        }
        (Some(_), _) if matches!(arrivals, None | Some(ArrivalSpec::Trace { .. })) => {
            return Err(format!("arrivals.{}", missing_process()));
        }
        (Some(dataset), _) => {
            return Ok(Load::Drawn {
                dataset,
                requests: requests.unwrap_or(100_000),
                max_length,
            });
        }
        (_, Some(_)) if requests.is_some() => {
            "workload.requests: goes with a dataset, and the trace has its requests; remove it"
        }
        (_, Some(_)) if max_length.is_some() => {
            "workload.max_length: goes with a dataset, and the trace has its requests; remove it"
        }
        (_, Some(_)) if !matches!(arrivals, None | Some(ArrivalSpec::Trace { .. })) => {
            "arrivals: the trace has its arrivals; remove [arrivals] but for rates, or workload.trace"
        }
        (_, Some(_)) if arrivals.is_some() && time_scale.is_some() => {
            "workload.time_scale: arrivals.rates scale the trace too; remove one of them"
        }
        (_, Some(trace)) => {
            let time_scale = time_scale.unwrap_or_else(|| vec![1.0]);
            let check = |scale: &f64| match scale {
                scale if *scale > 0.0 && scale.is_finite() => Ok(()),
                scale => Err(format!("must be a number above 0, not {scale}")),
            };
            match &*time_scale {
                [one] => check(one).map_err(|problem| format!("workload.time_scale: {problem}"))?,
                several => arrivals::set("workload.time_scale", several, check)?,
            }
            let trace = trace.into();
            return Ok(Load::Trace { trace, time_scale });
        }
    };
    Err(problem.into())
}

fn classes(
    classes: &mut [ClassEntry],
    workload: &WorkloadSection,
    file: &Path,
) -> Result<(), String> {
    let mut names = BTreeMap::new();
    for (index, class) in classes.iter_mut().enumerate() {
        let key = |key: &str| format!("class[{index}].{key}");
        class_name(&class.name).map_err(|problem| format!("{}: {problem}", key("name")))?;
        if let Some(other) = names.insert(class.name.clone(), index) {
            return Err(format!(
                "{}: \"{}\" is the name of class[{other}] too",
                key("name"),
                class.name
            ));
        }
        if !(class.share >= 0.0 && class.share.is_finite()) {
            return Err(format!(
                "{}: must be a number, at least 0, not {}",
                key("share"),
                class.share
            ));
        }
        match &workload.load {
            Load::Trace { .. } if class.dataset.is_some() => {
                return Err(format!(
                    "{}: the trace has its requests; remove it",
                    key("dataset")
                ));
            }
            _ => find_dataset(&key("dataset"), &mut class.dataset, file)?,
        }
    }
    let sum: f64 = classes.iter().map(|class| class.share).sum();
    match classes.is_empty() || (sum > 0.0 && sum.is_finite()) {
        true => Ok(()),
        false => Err("class[0].share: the shares add up to 0; at least one is above 0".into()),
    }
}

/// Finds the file of a dataset, unless it is a generator.
fn find_dataset(key: &str, dataset: &mut Option<Input>, file: &Path) -> Result<(), String> {
    if dataset.as_ref().is_some_and(|given| {
        GENERATORS
            .iter()
            .any(|generator| given.given.starts_with(generator))
    }) {
        return Ok(());
    }
    find_input(key, dataset, file).map_err(|problem| {
        format!(
            "{problem}; a dataset is a file, constant:SIZE (constant:fixed for requests without lengths), \
             complete-tree:LEAVES or generator:NAME"
        )
    })
}

fn missing_process() -> String {
    format!("process: missing; one of {}, closed", PROCESSES.join(", "))
}

fn arrival_spec(root: &Section<'_>) -> Result<Option<ArrivalSpec>> {
    let Some(value) = root.table.get_ref().get("arrivals") else {
        return Ok(None);
    };
    let has_trace = |workload: &Spanned<DeValue<'_>>| workload.get_ref().get("trace").is_some();
    let mut section = Section::new(root.source, "arrivals", value.clone(), arrivals::owner(""))?;
    let (span, name) = match section.table.get_ref().get("process") {
        Some(process) => (process.span(), sweep::value_text(process.get_ref())),
        None if root.table.get_ref().get("workload").is_some_and(has_trace) => {
            (value.span(), "trace".into())
        }
        None => return Err(section.refuse(&missing_process())),
    };
    section.owner = arrivals::owner(&name);
    // Serde reads { gamma = { cv = 2 } }, and knows the places of all keys and values in it.
    let mut keys = section.table.get_ref().clone();
    let mut tagged = DeTable::new();
    keys.remove("process");
    tagged.insert(
        Spanned::new(span, name.into()),
        Spanned::new(section.table.span(), DeValue::Table(keys)),
    );
    let tagged = Spanned::new(section.table.span(), tagged);
    let spec: ArrivalSpec = section.read(tagged)?;
    spec.check().map_err(|problem| section.refuse(&problem))?;
    Ok(Some(spec))
}

fn find_input(key: &str, input: &mut Option<Input>, scenario: &Path) -> Result<(), String> {
    if let Some(input) = input {
        input.found =
            Some(find(&input.given, scenario).map_err(|problem| format!("{key}: {problem}"))?);
    }
    Ok(())
}

/// Searches the current folder, the scenario's folder, the folder above its `scenarios/`, and then the built-in files.
fn find(given: &str, scenario: &Path) -> Result<PathBuf, String> {
    let folders = || scenario.ancestors().skip(1);
    let above = folders()
        .find(|folder| folder.ends_with("scenarios"))
        .and_then(Path::parent);
    let mut places = vec![PathBuf::from(given)];
    for folder in folders().take(1).chain(above) {
        let place = folder.join(given);
        if !places.contains(&place) {
            places.push(place);
        }
    }
    let on_disk = |path: &&PathBuf| path.exists() && !path.is_dir();
    if let Some(found) = places
        .iter()
        .find(on_disk)
        .or_else(|| places.iter().find(|path| shipped::is_file(path)))
    {
        return Ok(found.clone());
    }
    let tried = |path: &PathBuf| {
        format!(
            "{}{}",
            path.display(),
            if path.is_dir() { " (a folder)" } else { "" }
        )
    };
    let tried: Vec<String> = places.iter().map(tried).collect();
    let built_in = if Path::new(given).is_relative() {
        ", nor built in"
    } else {
        ""
    };
    Err(format!("no such file: {}{built_in}", tried.join(", nor ")))
}

/// The tables of policies; none if the key has another value.
fn policy_items<'r, 's>(root: &'r DeTable<'s>) -> &'r [Spanned<DeValue<'s>>] {
    let list = root.get("policy");
    list.and_then(|list| list.get_ref().as_array())
        .map_or(&[][..], |items| items)
}

/// The table of a policy with the values of its swept keys.
fn policy_section<'s>(
    root: &Section<'s>,
    index: usize,
    item: &Spanned<DeValue<'s>>,
    own: &[Choice<'_, 's>],
) -> Result<Section<'s>> {
    let key = format!("policy[{index}]");
    let mut item = item.clone();
    sweep::apply(root.source, &mut item, own)?;
    let owner = Owner {
        prefix: format!("{key}."),
        ..Owner::default()
    };
    Section::new(root.source, &key, item, owner)
}

/// Reads the policies, each once for each combination of its swept keys.
fn policies(
    root: &Section<'_>,
    registry: &Registry,
    scenario: &Scenario,
    axes: &[SweptKey<'_>],
    choices: &[Choice<'_, '_>],
    cost_files: &mut CostFiles,
) -> Result<Vec<PolicyEntry>> {
    let items = policy_items(root.table.get_ref());
    if items.is_empty() {
        return Err(root.refuse("policy: there is none; at least one [[policy]] table is needed"));
    }
    let mut folders = BTreeMap::new();
    let mut read = |index: usize, item: &Spanned<DeValue<'_>>, own: &[Choice<'_, '_>]| {
        let mut section = policy_section(root, index, item, own)?;
        let mut entry = policy(&mut section, registry, scenario, cost_files)?;
        entry.swept = sweep::swept(choices.iter().chain(own));
        // Folders are compared in lower case, because some file systems ignore case.
        match folders.insert(folder_name(&entry.label).to_lowercase(), index) {
            Some(other) if other != index && root.source.kept_in.is_none() => Err(section.refuse(&format!(
                "label: \"{}\" names the same folder as the label of policy[{other}]; add a `label` of its own",
                entry.label
            ))),
            _ => Ok(entry),
        }
    };
    let mut entries = Vec::new();
    let mut mistakes = Vec::new();
    for (index, item) in items.iter().enumerate() {
        for own in sweep::product(axes, Some(index)) {
            match read(index, item, &own) {
                Ok(entry) => entries.push(entry),
                Err(mistake) => mistakes.push(mistake),
            }
        }
    }
    if mistakes.is_empty() {
        Ok(entries)
    } else {
        Err(Error::all(mistakes))
    }
}

/// Reads a policy's own keys and those that all policies have, apart from the scenario.
fn read_policy<'s>(
    section: &mut Section<'s>,
    registry: &Registry,
) -> Result<(String, ConfiguredPolicy, tables::PolicyTable)> {
    section.owner.shared = tables::POLICY;
    let span = section.table.span();
    let keys = section.table.get_ref().clone().into_iter();
    let (shared, own): (DeTable<'s>, DeTable<'s>) =
        keys.partition(|(key, _)| tables::POLICY.contains(&key.get_ref().as_ref()));
    let known: Vec<&str> = registry.kinds().collect();
    let Some(kind) = shared.get("kind") else {
        return Err(section.refuse(&format!("kind: missing; one of {}", known.join(", "))));
    };
    let kind = sweep::value_text(kind.get_ref());
    if registry.keys(&kind).is_none() {
        return Err(section.refuse(&unknown_name(
            &format!("kind: unknown policy \"{kind}\""),
            &kind,
            &known,
        )));
    }
    section.owner.prefix = format!("{} ({kind}): ", section.owner.prefix.trim_end_matches('.'));
    let settings = section.parse(Spanned::new(span.clone(), own), |own| {
        registry.parse(&kind, own)
    })?;
    let shared = section.read(Spanned::new(span, shared))?;
    Ok((kind, settings, shared))
}

fn policy(
    section: &mut Section<'_>,
    registry: &Registry,
    scenario: &Scenario,
    cost_files: &mut CostFiles,
) -> Result<PolicyEntry> {
    let (kind, settings, shared) = read_policy(section, registry)?;
    let tables::PolicyTable {
        label,
        mut costs,
        overhead,
        ..
    } = shared;
    let refuse = |problem: String| section.refuse(&problem);
    let label = label.unwrap_or(kind);
    folder_safe("label", &label).map_err(refuse)?;
    // The folder is next to result files, so it must not be named like one.
    let folder = folder_name(&label).to_lowercase();
    if [".csv", ".json", ".svg", ".png"]
        .iter()
        .any(|ending| folder.ends_with(ending))
    {
        return Err(refuse(format!(
            "label: \"{label}\" could be a file of results; leave out the ending"
        )));
    }
    find_input("costs", &mut costs, &scenario.file).map_err(refuse)?;
    let Scenario {
        workload, device, ..
    } = scenario;
    let costs = costs.or_else(|| device.costs.clone());
    let costs = PolicyCosts::read(cost_files, costs, device, &*settings, workload);
    let model = &workload.model;
    let cells = &model.cell_types();
    let setup = Setup {
        model,
        cells,
        workers: device.workers,
        costs: None,
        longest: None,
    };
    if let Err(problem) = costs.build(&*settings, setup) {
        return Err(match costs.reason_for(&*settings, setup) {
            Some(broken) => Error::mistake(&scenario.file, broken),
            None => refuse(problem),
        });
    }
    let overhead = overhead.or(scenario.overhead);
    Ok(PolicyEntry {
        kind: settings.kind(),
        label,
        swept: Vec::new(),
        costs,
        overhead,
        settings,
    })
}
