//! `batchlab find-knee`, `find-workers` and `find-window`.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::{Common, number_in};
use crate::error::{Error, Result};
use crate::experiment::capacity::{self, Capacity};
use crate::experiment::executor::Target;
use crate::experiment::knee::{self, Effort, Knee, Objective};
use crate::experiment::window::{self, Tried, WINDOWS};
use crate::files::folder_name;
use crate::policy::registry::Registry;
use crate::results::columns::{Column, Unit};
use crate::results::table::aligned;
use crate::results::write::write_columns;
use crate::scenario::{Quantile, Scenario, named};
use crate::units::{Nanos, Rate};

/// Find the highest rate at which each policy of a scenario holds a latency objective
///
/// Each replication brackets and bisects the rate with its own requests, in runs that grow until the 95 % interval over the
/// replications is as narrow as the tolerance. Requests that are rejected or fail have missed the objective. Writes
/// DIR/NAME/knee.csv, where NAME is the scenario's name.
#[derive(clap::Args, Clone, Debug)]
pub struct KneeArgs {
    #[command(flatten)]
    goal: Goal,

    /// Half the width of the interval, as a fraction of the rate
    #[arg(long, default_value_t = 0.005, value_parser = number_in(0.0001..=0.5))]
    tolerance: f64,

    #[command(flatten)]
    search: Search,

    #[command(flatten)]
    common: Common,
}

/// Find the smallest number of workers with which each policy holds a latency objective at a rate
///
/// A number of workers holds the objective if it does in every replication. Writes DIR/NAME/workers.csv, where NAME is the
/// scenario's name.
#[derive(clap::Args, Clone, Debug)]
pub struct WorkersArgs {
    #[command(flatten)]
    goal: Goal,

    /// Requests per second
    #[arg(long, value_parser = number_in(1e-3..=1e9))]
    rate: f64,

    /// The largest number of workers to try
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..=4096))]
    max_workers: u32,

    /// The smallest overload that a run must show, as a fraction of the rate
    #[arg(long, default_value_t = 0.005, value_parser = number_in(0.0001..=0.5))]
    tolerance: f64,

    #[command(flatten)]
    search: Search,

    #[command(flatten)]
    common: Common,
}

/// How much a search simulates.
#[derive(clap::Args, Clone, Debug)]
struct Search {
    /// Searches, each with its own random streams
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    replications: u32,

    /// The longest run, in requests; results that it limits are marked
    #[arg(long, value_name = "N", default_value_t = 2_000_000)]
    max_requests: u32,

    /// The share of requests that may be rejected without missing the objective, from 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, value_parser = number_in(0.0..=1.0))]
    max_rejected: f64,
}

impl Search {
    fn effort(&self, tolerance: f64) -> Effort {
        let Search { replications, max_requests, .. } = *self;
        Effort { tolerance, replications, max_requests }
    }
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

/// Longer runs show the difference between windows no better.
const WINDOW_REQUESTS: u32 = 1_000_000;

/// A scenario and its objective.
#[derive(clap::Args, Clone, Debug)]
struct Goal {
    /// Scenario file; its arrivals must have a rate
    #[arg(value_name = "SCENARIO")]
    scenario: PathBuf,

    /// Latency objective, with its unit, such as 100ms [default: the scenario's metrics.slo]
    #[arg(long, value_parser = Nanos::parse)]
    slo: Option<Nanos>,

    /// The quantile that must hold it: p50, p90, p95, p99 or p999 [default: the scenario's metrics.quantile]
    #[arg(long, value_parser = named::<Quantile>)]
    quantile: Option<Quantile>,
}

impl Goal {
    fn objective(&self, scenario: &Scenario, max_rejected: f64, example: &str) -> Result<Objective> {
        let slo = self.slo.or(scenario.metrics.slo).ok_or_else(|| {
            Error::input(format!("{}: metrics.slo: missing; add it or give --slo {example}", scenario.file.display()))
        })?;
        let quantile = self.quantile.unwrap_or(scenario.metrics.quantile);
        Ok(Objective { slo, quantile, max_rejected })
    }
}

pub fn find_knee(args: &KneeArgs, registry: &Registry) -> Result<()> {
    let (common, search) = (&args.common, &args.search);
    let scenario = common.scenario(&args.goal.scenario, registry)?;
    let objective = args.goal.objective(&scenario, search.max_rejected, "100ms")?;
    let effort = search.effort(args.tolerance);
    let knees = common.carry_out(scenario.policies.len(), &scenario.name, |stop, done| {
        knee::find(&scenario, &objective, &effort, stop, done)
    })?;

    let file = common.out(Target::SIM.name()).join(folder_name(&scenario.name)).join("knee.csv");
    let columns = [
        Column::text("policy", |knee: &Knee| knee.policy.clone()),
        Column::text("slo_ms", |_: &Knee| objective.slo.as_millis_f64().to_string()),
        Column::text("quantile", |_: &Knee| objective.quantile.to_string()),
        Column::number("knee_rps", Unit::PerSecond, |knee: &Knee| knee.mean().map(|rate| rate.0)),
        Column::number("knee_rps_ci", Unit::PerSecond, Knee::half_width),
        Column::count("replications", |knee: &Knee| knee.rates.len()),
        Column::count("requests", |knee: &Knee| knee.requests as usize),
        Column::text("caveat", |knee: &Knee| knee.caveat.clone().unwrap_or_default()),
    ];
    write_columns(&file, &columns, &knees)?;
    let row = |knee: &Knee| {
        json!({
            "policy": knee.policy,
            "knee_rps": knee.mean(),
            "knee_rps_ci": knee.half_width(),
            "replications": knee.rates,
            "requests": knee.requests,
            "caveat": knee.caveat,
        })
    };
    let json = || answer(&scenario, &objective, args.tolerance, knees.iter().map(row).collect());
    let text = || {
        let line = |knee: &Knee| {
            let mark = if knee.caveat.is_some() && knee.mean().is_some() { " ?" } else { "" };
            vec![format!("  {}", knee.policy), rate(knee.mean(), knee.half_width()) + mark]
        };
        let what = format!("{}: the highest rate", scenario.name);
        let mut text = table(&what, &objective, args.tolerance, &knees.iter().map(line).collect::<Vec<_>>());
        if knees.iter().any(|knee| knee.half_width().is_some()) {
            text += "± half the width of the 95 % interval over the replications, the bracket of the search included\n";
        }
        text + &caveats(knees.iter().map(|knee| (&*knee.policy, &knee.caveat)))
    };
    common.shown.show(text, json)?;
    common.note(format!("results in {}", file.display()));
    Ok(())
}

pub fn find_workers(args: &WorkersArgs, registry: &Registry) -> Result<()> {
    let (common, search) = (&args.common, &args.search);
    let scenario = common.scenario(&args.goal.scenario, registry)?;
    let objective = args.goal.objective(&scenario, search.max_rejected, "100ms")?;
    let (effort, rate) = (search.effort(args.tolerance), Rate(args.rate));
    let found = common.carry_out(scenario.policies.len(), &scenario.name, |stop, done| {
        capacity::find(&scenario, rate, args.max_workers, &objective, &effort, stop, done)
    })?;

    let file = common.out(Target::SIM.name()).join(folder_name(&scenario.name)).join("workers.csv");
    let latency = |one: &Capacity| one.latency.map(Nanos::as_millis_f64);
    let columns = [
        Column::text("policy", |one: &Capacity| one.policy.clone()),
        Column::text("rate_rps", |_: &Capacity| rate.to_string()),
        Column::text("slo_ms", |_: &Capacity| objective.slo.as_millis_f64().to_string()),
        Column::text("quantile", |_: &Capacity| objective.quantile.to_string()),
        Column::text("workers", |one: &Capacity| one.workers.map_or(String::new(), |workers| workers.to_string())),
        Column::number("latency_ms", Unit::Millis, latency),
        Column::count("requests", |one: &Capacity| one.requests as usize),
        Column::text("caveat", |one: &Capacity| one.caveat.clone().unwrap_or_default()),
    ];
    write_columns(&file, &columns, &found)?;
    let row = |one: &Capacity| {
        json!({
            "policy": one.policy,
            "rate_rps": rate,
            "workers": one.workers,
            "latency_ms": latency(one),
            "requests": one.requests,
            "caveat": one.caveat,
        })
    };
    let json = || answer(&scenario, &objective, args.tolerance, found.iter().map(row).collect());
    let text = || {
        let line = |one: &Capacity| {
            let mark = if one.caveat.is_some() { " ?" } else { "" };
            let Some(workers) = one.workers else {
                return vec![format!("  {}", one.policy), format!("more than {} workers", args.max_workers)];
            };
            let spare = one.latency.map_or(String::new(), |latency| {
                let share = 100.0 * (1.0 - latency.as_secs_f64() / objective.slo.as_secs_f64());
                format!("{} {}, {share:.0} % below the objective", objective.quantile, milliseconds(latency))
            });
            vec![format!("  {}", one.policy), format!("{workers} workers{mark}"), spare]
        };
        let what = format!("{}: the fewest workers for {rate} req/s", scenario.name);
        let text = table(&what, &objective, args.tolerance, &found.iter().map(line).collect::<Vec<_>>());
        text + &caveats(found.iter().map(|one| (&*one.policy, &one.caveat)))
    };
    common.shown.show(text, json)?;
    common.note(format!("results in {}", file.display()));
    Ok(())
}

fn milliseconds(time: Nanos) -> String {
    format!("{:.2} ms", time.as_millis_f64())
}

fn answer(scenario: &Scenario, objective: &Objective, tolerance: f64, rows: Vec<Value>) -> Value {
    json!({
        "scenario": scenario.name,
        "slo_ms": objective.slo.as_millis_f64(),
        "quantile": objective.quantile,
        "tolerance": tolerance,
        "rows": rows,
    })
}

/// Part of the result, so never a note that `--quiet` drops.
fn caveats<'a>(rows: impl Iterator<Item = (&'a str, &'a Option<String>)>) -> String {
    rows.filter_map(|(policy, caveat)| Some(format!("? {policy}: {}\n", caveat.as_ref()?))).collect()
}

/// What was searched for, then a line for each policy or window.
fn table(what: &str, objective: &Objective, tolerance: f64, lines: &[Vec<String>]) -> String {
    let Objective { slo, quantile, .. } = objective;
    format!("{what} with {quantile} at most {slo}, to {} %\n{}", tolerance * 100.0, aligned(lines))
}

fn rate(rate: Option<Rate>, half_width: Option<f64>) -> String {
    match (rate, half_width) {
        (Some(rate), Some(half_width)) => format!("{:.0} ± {half_width:.0} req/s", rate.0),
        (Some(rate), None) => format!("{:.0} req/s", rate.0),
        (None, _) => "holds at no rate".into(),
    }
}

pub fn find_window(args: &WindowArgs, registry: &Registry) -> Result<()> {
    let (common, policy) = (&args.common, &args.policy);
    let scenario = common.scenario(&args.goal.scenario, registry)?;
    if !scenario.policies.iter().any(|entry| entry.label == *policy) {
        let known: Vec<&str> = scenario.policies.iter().map(|entry| entry.label.as_str()).collect();
        let (file, known) = (scenario.file.display(), known.join(", "));
        return Err(Error::input(format!("{file}: --policy: no policy is labelled \"{policy}\"; there are {known}")));
    }
    let has_window = |kind: &str| registry.keys(kind).is_some_and(|keys| keys.contains(&"window"));
    if let Some(entry) = scenario.policies.iter().find(|entry| entry.label == *policy && !has_window(entry.kind)) {
        let known: Vec<&str> = registry.kinds().filter(|kind| has_window(kind)).collect();
        return Err(Error::input(format!(
            "{}: --policy: {} has no batch window; policies with one: {}",
            scenario.file.display(),
            entry.kind,
            known.join(", ")
        )));
    }
    let objective = args.goal.objective(&scenario, 0.0, "200ms")?;
    let effort = Effort { tolerance: args.tolerance, replications: 1, max_requests: WINDOW_REQUESTS };
    let load = |set: &str| common.scenario_with(&args.goal.scenario, &[set.to_string()], registry);
    let tried = common.carry_out(args.windows.len(), &scenario.name, |stop, done| {
        window::find(&load, policy, &args.windows, &objective, &effort, stop, done)
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
