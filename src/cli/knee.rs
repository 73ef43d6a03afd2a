//! `batchlab find-knee`, `find-workers` and `find-window`.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use serde_json::json;

use super::parts::Parts;
use super::sim::tell_of_locks;
use super::{Common, Sweeps, number_in, tune};
use crate::error::{Error, Result};
use crate::experiment::capacity::{self, Capacity};
use crate::experiment::executor::Target;
use crate::experiment::knee::{self, Effort, Knee, Objective};
use crate::experiment::search::{Kept, Searched, Searches};
use crate::experiment::window::{self, Tried, WINDOWS};
use crate::policy::registry::Registry;
use crate::results::columns::{Column, Unit, swept_columns, to_object};
use crate::results::swept::{self, Swept};
use crate::results::table::aligned;
use crate::results::write::write_columns;
use crate::scenario::{Quantile, Scenario, named};
use crate::units::{Nanos, Rate};

/// Find the highest rate at which each policy of a scenario holds a latency objective
///
/// Each replication brackets and bisects the rate with its own requests, in runs that grow until the 95 % interval over the
/// replications is as narrow as the tolerance. Requests that are rejected or fail have missed the objective. Writes
/// DIR/NAME/knee.csv, where NAME is the scenario's name, and its settings as knee.json.
#[derive(clap::Args, Clone, Debug)]
pub struct KneeArgs {
    #[command(flatten)]
    search: Search,
}

/// Find the smallest number of workers with which each policy holds a latency objective at a rate
///
/// A number of workers holds the objective if it does in every replication. Writes DIR/NAME/workers.csv, where NAME is the
/// scenario's name, and its settings as workers.json.
#[derive(clap::Args, Clone, Debug)]
pub struct WorkersArgs {
    /// Requests per second
    #[arg(long, value_parser = number_in(1e-3..=1e9))]
    rate: f64,

    /// The largest number of workers to try
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..=1024))]
    max_workers: u32,

    #[command(flatten)]
    search: Search,
}

/// A search in every combination of a sweep, as precise as asked for.
#[derive(clap::Args, Clone, Debug)]
struct Search {
    #[command(flatten)]
    goal: Goal,

    /// As a fraction of the rate: half the width of the interval, and the smallest overload that a run must show
    #[arg(long, default_value_t = 0.005, value_parser = number_in(0.0001..=0.5))]
    tolerance: f64,

    /// Searches, each with its own random streams
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    replications: u32,

    /// The longest run, in requests; results that it limits are marked
    #[arg(long, value_name = "N", default_value_t = 2_000_000)]
    max_requests: u32,

    /// The share of requests that may be rejected without missing the objective, from 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, value_parser = number_in(0.0..=1.0))]
    max_rejected: f64,

    #[command(flatten)]
    parts: Parts,

    #[command(flatten)]
    sweeps: Sweeps,

    #[command(flatten)]
    common: Common,
}

/// Find the batch window with which a policy holds a latency objective at the highest rate
///
/// Tries each window with the search of `find-knee`. Among windows whose rates the search can't tell apart, the shortest
/// is the best.
#[derive(clap::Args, Clone, Debug)]
pub struct WindowArgs {
    #[command(flatten)]
    goal: Goal,

    /// The label of the policy, which must have the key `window`
    #[arg(long, value_name = "LABEL")]
    policy: String,

    /// The windows to try, with their units
    #[arg(long, value_name = "TIMES", value_delimiter = ',', default_values_t = WINDOWS, value_parser = Nanos::parse)]
    windows: Vec<Nanos>,

    /// Precision of the search, as a fraction of the rate
    #[arg(long, default_value_t = 0.01, value_parser = number_in(0.0001..=0.5))]
    tolerance: f64,

    #[command(flatten)]
    common: Common,
}

/// Longer runs do not separate windows better.
const WINDOW_REQUESTS: u32 = 1_000_000;

/// A scenario and its objective.
#[derive(clap::Args, Clone, Debug)]
pub(super) struct Goal {
    /// Scenario, a file or a name that batchlab scenarios lists; its arrivals must have a rate
    #[arg(value_name = "SCENARIO")]
    pub(super) scenario: PathBuf,

    /// Latency objective, with its unit, such as 100ms [default: the scenario's metrics.slo]
    #[arg(long, value_parser = Nanos::parse)]
    slo: Option<Nanos>,

    /// For language models: objective for the time to the first token, instead of the latency
    #[arg(long, value_name = "TIME", value_parser = Nanos::parse, conflicts_with = "slo")]
    ttft: Option<Nanos>,

    /// Objective for the time between tokens, beside --ttft
    #[arg(long, value_name = "TIME", value_parser = Nanos::parse, requires = "ttft")]
    tbt: Option<Nanos>,

    #[arg(long, help = format!("The quantile that must hold it: {} [default: the scenario's metrics.quantile]",
                               Quantile::ALL.map(|quantile| quantile.to_string()).join(", ")),
          value_parser = named::<Quantile>)]
    quantile: Option<Quantile>,
}

impl Goal {
    pub(super) fn objective(&self, scenario: &Scenario, max_rejected: f64, example: &str) -> Result<Objective> {
        if self.ttft.is_some() && !scenario.workload.model.is_llm() {
            let (file, model) = (scenario.file.display(), scenario.workload.model.name());
            return Err(Error::input(format!("{file}: --ttft: {model} generates no tokens; give --slo")));
        }
        let slo = self.ttft.or(self.slo).or(scenario.metrics.slo).ok_or_else(|| {
            Error::input(format!("{}: metrics.slo: missing; add it or give --slo {example}", scenario.file.display()))
        })?;
        let quantile = self.quantile.unwrap_or(scenario.metrics.quantile);
        Ok(Objective { slo, quantile, max_rejected, tokens: self.ttft.map(|_| self.tbt) })
    }
}

/// What a search found for a policy, in one combination of a sweep.
pub(super) struct Row<T> {
    pub policy: String,
    pub swept: Vec<Swept>,
    pub objective: Objective,
    pub found: T,
}

impl<T> Row<T> {
    fn name(&self) -> String {
        swept::label(&self.policy, &self.swept)
    }

    pub fn objective_columns() -> [Column<'static, Row<T>>; 2] {
        [
            Column::given("slo_ms", |row: &Row<T>| Some(row.objective.slo.as_millis_f64().to_string())),
            Column::text("quantile", |row: &Row<T>| row.objective.quantile.to_string()),
        ]
    }
}

/// What was searched for, as its answers begin.
pub(super) struct Study {
    pub name: String,
    pub objective: Objective,
    pub tolerance: f64,
    /// Where the table is written.
    pub file: PathBuf,
}

/// The searches for the policies of a scenario, as carried out by `find-knee` or `find-workers`.
type Find<'f, T> = dyn Fn(&Scenario, &Objective, &Effort, &Kept, &AtomicBool, &(dyn Fn() + Sync)) -> Result<Vec<Searched<T>>>
    + Sync
    + 'f;

impl Search {
    /// `None` if no answer is wanted. `what` names the search, `settings` what decides the results beside these options.
    fn run<T: Send>(
        &self,
        registry: &Registry,
        (what, settings): (&'static str, &str),
        find: &Find<'_, T>,
    ) -> Result<Option<(Study, Vec<Row<T>>)>> {
        let Search { goal, tolerance, replications, max_requests, max_rejected, sweeps, common, parts } = self;
        let effort =
            Effort { tolerance: *tolerance, replications: *replications, max_requests: *max_requests, near: None };
        let scenarios = common.sweep(&goal.scenario, &sweeps.sweeps, registry)?;
        let objective = |scenario: &Scenario| goal.objective(scenario, *max_rejected, "100ms");
        let objectives = scenarios.iter().map(objective).collect::<Result<Vec<Objective>>>()?;
        let (name, out) = (&scenarios[0].name, common.out(Target::SIM.name()));
        let scenarios: Vec<&Scenario> = scenarios.iter().collect();
        let settings: Vec<String> =
            objectives.iter().map(|objective| format!("{settings} {objective:?} {effort:?}")).collect();
        // Those of find-workers decide on each step together.
        let one = if what == "workers" { Some(1) } else { None };
        let all = scenarios.iter().map(|scenario| one.unwrap_or(effort.replications(scenario))).collect();
        let searches = Searches::new(&scenarios, &out, what, &settings, all)?;
        let each = |kept: &[Kept], stop: &AtomicBool, done: &(dyn Fn() + Sync)| {
            let one = |((scenario, objective), kept): ((&&Scenario, &Objective), &Kept)| {
                find(scenario, objective, &effort, kept, stop, done)
            };
            scenarios.iter().zip(&objectives).zip(kept).map(one).collect::<Result<Vec<_>>>()
        };
        let mut points =
            searches.points(&scenarios, |variant| u64::from(objectives[variant].shortest(scenarios[variant])).max(1));
        let count = points.len();
        if parts.plan || parts.merge_only {
            searches.mark_finished(
                &mut points,
                &each(&searches.kept(Some(&vec![false; count])), &AtomicBool::new(false), &|| ())?,
            );
            if parts.plan {
                return parts.show(&points, common.shown).map(|()| None);
            }
            Parts::refuse_missing(&points, &[searches.folder().path.clone()])?;
        }
        let own = parts.own(&points);
        let kept = searches.kept(own.as_ref().map(|(_, own)| &own[..]));
        let runs = own.as_ref().map_or(points.len(), |(_, own)| own.iter().filter(|own| **own).count());
        let lock = searches.open(parts.keeps(), parts.shard)?;
        tell_of_locks(common, lock.held);
        let found = common.carry_out(runs, name, |stop, done| each(&kept, stop, done))?;
        if let Some((shard, own)) = own {
            searches.mark_finished(&mut points, &found);
            let finished = points.iter().zip(&own).filter(|(point, own)| point.finished && **own).count();
            let folder = searches.folder().path.display();
            common.note(format!("shard {shard}: {finished} of {runs} points are finished in {folder}"));
            return common.shown.several().end().map(|()| None);
        }
        searches.write_settings(&scenarios, effort.replications)?;
        lock.complete();
        let entries = scenarios.iter().zip(&objectives).zip(found);
        let rows = entries.flat_map(|((scenario, objective), found)| {
            found.into_iter().flatten().zip(&scenario.policies).map(|(found, entry)| Row {
                policy: entry.label.clone(),
                swept: entry.swept.clone(),
                objective: *objective,
                found,
            })
        });
        let file = searches.folder().path.join(format!("{what}.csv"));
        let study = Study { name: name.clone(), objective: objectives[0], tolerance: *tolerance, file };
        Ok(Some((study, rows.collect())))
    }
}

pub fn find_knee(args: &KneeArgs, registry: &Registry) -> Result<()> {
    let Some((study, rows)) = args.search.run(registry, ("knee", ""), &knee::find)? else { return Ok(()) };
    let [slo, quantile] = Row::objective_columns();
    let columns = vec![
        slo,
        quantile,
        Column::number("knee_rps", Unit::PerSecond, |row: &Row<Knee>| row.found.mean().map(|rate| rate.0)),
        Column::number("knee_rps_ci", Unit::PerSecond, |row: &Row<Knee>| row.found.half_width()),
        Column::count("replications", |row: &Row<Knee>| row.found.rates.len()),
        Column::count("requests", |row: &Row<Knee>| row.found.requests as usize),
    ];
    let line = |row: &Row<Knee>| {
        let mark = if row.found.caveat.is_some() && row.found.mean().is_some() { " ?" } else { "" };
        Some(vec![rate(row.found.mean(), row.found.half_width()) + mark])
    };
    let note = match rows.iter().any(|row| row.found.half_width().is_some()) {
        true => "± half the width of the 95 % interval over the replications, the bracket of the search included\n",
        false => "",
    };
    let caveat = |row: &Row<Knee>| row.found.caveat.clone();
    let answers =
        Answers { what: "the highest rate", note, columns, line: &line, caveat, rates: |row| Some(&row.found.rates) };
    answers.tell(&args.search.common, &study, &rows)
}

pub fn find_workers(args: &WorkersArgs, registry: &Registry) -> Result<()> {
    let rate = Rate(args.rate);
    let settings = format!("{rate} {}", args.max_workers);
    let found =
        args.search.run(registry, ("workers", &settings), &|scenario, objective, effort, kept, stop, done| {
            capacity::find(scenario, rate, args.max_workers, objective, effort, kept, stop, done)
        })?;
    let Some((study, rows)) = found else { return Ok(()) };
    let [slo, quantile] = Row::objective_columns();
    let columns = vec![
        Column::given("rate_rps", |_: &Row<Capacity>| Some(rate.to_string())),
        slo,
        quantile,
        Column::count("workers", |row: &Row<Capacity>| row.found.workers.map(|workers| workers as usize)),
        Column::number("latency_ms", Unit::Millis, |row: &Row<Capacity>| row.found.latency.map(Nanos::as_millis_f64)),
        Column::count("requests", |row: &Row<Capacity>| row.found.requests as usize),
    ];
    let line = |row: &Row<Capacity>| {
        let Row { objective, found, .. } = row;
        let Some(workers) = found.workers else { return Some(vec![format!("more than {}", count(args.max_workers))]) };
        let mark = if found.caveat.is_some() { " ?" } else { "" };
        let spare = found.latency.map_or(String::new(), |latency| {
            let share = 100.0 * (1.0 - latency.as_secs_f64() / objective.slo.as_secs_f64());
            let latency = latency.as_millis_f64();
            format!("{} {latency:.2} ms, {share:.0} % below the objective", objective.quantile)
        });
        Some(vec![format!("{}{mark}", count(workers)), spare])
    };
    let what = &format!("the fewest workers for {rate} req/s");
    let caveat = |row: &Row<Capacity>| row.found.caveat.clone();
    let answers = Answers { what, note: "", columns, line: &line, caveat, rates: |_| None };
    answers.tell(&args.search.common, &study, &rows)
}

/// How the answers of a search are written and shown.
pub(super) struct Answers<'a, T> {
    pub what: &'a str,
    /// Below the table.
    pub note: &'a str,
    /// Those of its own.
    pub columns: Vec<Column<'a, Row<T>>>,
    /// What the table shows of a row beside its name; `None` if it does not show the row.
    pub line: &'a dyn Fn(&Row<T>) -> Option<Vec<String>>,
    pub caveat: fn(&Row<T>) -> Option<String>,
    /// Of the replications, in JSON instead of their number.
    pub rates: fn(&Row<T>) -> Option<&[Rate]>,
}

impl<T> Answers<'_, T> {
    pub fn tell(self, common: &Common, study: &Study, rows: &[Row<T>]) -> Result<()> {
        let Answers { what, note, columns: own, line, caveat, rates } = self;
        let mut columns: Vec<Column<'_, Row<T>>> = vec![Column::text("policy", |row: &Row<T>| row.policy.clone())];
        columns.extend(own);
        columns.push(Column::given("caveat", caveat));
        columns.extend(swept_columns(rows, |row| &row.swept));
        write_columns(&study.file, &columns, rows)?;
        let json = |row: &Row<T>| {
            let mut object = to_object(&columns, row);
            rates(row).into_iter().for_each(|rates| object["replications"] = json!(rates));
            object
        };
        let text = || {
            let named = |row: &Row<T>| Some([vec![format!("  {}", row.name())], line(row)?].concat());
            let lines: Vec<Vec<String>> = rows.iter().filter_map(named).collect();
            // Part of the result, so never a note that `--quiet` drops.
            let shown = rows.iter().filter(|row| line(row).is_some());
            let caveats = shown.filter_map(|row| Some(format!("? {}: {}\n", row.name(), caveat(row)?)));
            let what = format!("{}: {what}", study.name);
            table(&what, &study.objective, study.tolerance, &lines) + note + &caveats.collect::<String>()
        };
        let json = || {
            json!({
                "scenario": study.name,
                "objective": study.objective.to_string(),
                "slo_ms": study.objective.slo.as_millis_f64(),
                "quantile": study.objective.quantile,
                "tolerance": study.tolerance,
                "rows": rows.iter().map(json).collect::<Vec<_>>(),
            })
        };
        common.shown.show(text, json)?;
        common.note(format!("results in {}", study.file.display()));
        Ok(())
    }
}

pub(super) fn count(workers: u32) -> String {
    format!("{workers} worker{}", if workers == 1 { "" } else { "s" })
}

/// What was searched for, then a line for each policy or window.
fn table(what: &str, objective: &Objective, tolerance: f64, lines: &[Vec<String>]) -> String {
    format!("{what} with {objective}, to {} %\n{}", tolerance * 100.0, aligned(lines))
}

pub(super) fn rate(rate: Option<Rate>, half_width: Option<f64>) -> String {
    // Three digits of low rates too.
    let digits = |Rate(rate)| if rate < 10.0 { 2 } else { usize::from(rate < 100.0) };
    match (rate, half_width) {
        (Some(rate), Some(half_width)) => format!("{:.1$} ± {half_width:.1$} req/s", rate.0, digits(rate)),
        (Some(rate), None) => format!("{:.1$} req/s", rate.0, digits(rate)),
        (None, _) => "holds at no rate".into(),
    }
}

pub fn find_window(args: &WindowArgs, registry: &Registry) -> Result<()> {
    let (common, policy) = (&args.common, &args.policy);
    let scenario = common.scenario(&args.goal.scenario, registry)?;
    let entry = tune::entry(&scenario, policy)?;
    let has_window = |kind: &str| registry.keys(kind).is_some_and(|keys| keys.contains(&"window"));
    if !has_window(entry.kind) {
        let known: Vec<&str> = registry.kinds().filter(|kind| has_window(kind)).collect();
        return Err(Error::input(format!(
            "{}: --policy: {} has no batch window; policies with one: {}",
            scenario.file.display(),
            entry.kind,
            known.join(", ")
        )));
    }
    let objective = args.goal.objective(&scenario, 0.0, "200ms")?;
    let effort = |near| Effort { tolerance: args.tolerance, replications: 1, max_requests: WINDOW_REQUESTS, near };
    let load = |set: &str| common.scenario_with(&args.goal.scenario, &[set.to_string()], registry);
    let tried = common.carry_out(args.windows.len(), &scenario.name, |stop, done| {
        let knees = |scenario: &Scenario, near| knee::find_all(scenario, &objective, &effort(near), stop, done);
        window::find(&load, policy, &args.windows, &knees)
    })?;
    let best = window::best(&tried, args.tolerance).map(|one| one.window);
    let row = |one: &Tried| json!({ "window_ms": one.window.as_millis_f64(), "knee_rps": one.rate });
    let json = || {
        json!({
            "scenario": scenario.name,
            "policy": policy,
            "slo_ms": objective.slo.as_millis_f64(),
            "quantile": objective.quantile,
            "tolerance": args.tolerance,
            "best_ms": best.map(Nanos::as_millis_f64),
            "rows": tried.iter().map(row).collect::<Vec<_>>(),
        })
    };
    let text = || {
        let mark = |one: &Tried| if Some(one.window) == best { "<- the shortest of the best" } else { "" };
        let line = |one: &Tried| vec![format!("  window {}", one.window), rate(one.rate, None), mark(one).into()];
        let what = format!("{}: the highest rate of {policy}", scenario.name);
        table(&what, &objective, args.tolerance, &tried.iter().map(line).collect::<Vec<_>>())
    };
    common.shown.show(text, json)
}
