//! `batchlab find-knee` and `batchlab find-window`.

use std::path::PathBuf;

use serde_json::json;

use super::{Common, number_in};
use crate::error::{Error, Result};
use crate::experiment::executor::Target;
use crate::experiment::knee::{self, Knee, Objective, Tried, WINDOWS};
use crate::files::folder_name;
use crate::policy::registry::Registry;
use crate::results::columns::{Column, Unit};
use crate::results::table::aligned;
use crate::results::write::write_columns;
use crate::scenario::{Load, Quantile, Scenario, named};
use crate::units::{Nanos, Rate};

/// Find the highest rate at which each policy of a scenario holds a latency objective
///
/// Each replication brackets and bisects the rate with its own requests; the interval is the 95 % confidence interval over
/// the replications. Writes DIR/NAME/knee.csv, where NAME is the scenario's name.
#[derive(clap::Args, Clone, Debug)]
pub struct KneeArgs {
    #[command(flatten)]
    goal: Goal,

    /// Precision of the search, as a fraction of the rate
    #[arg(long, default_value_t = 0.005, value_parser = number_in(0.0001..=0.5))]
    tolerance: f64,

    /// Searches, each with its own random streams
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    replications: u32,

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
    fn objective(&self, scenario: &Scenario, tolerance: f64, replications: u32, example: &str) -> Result<Objective> {
        let slo = self.slo.or(scenario.metrics.slo).ok_or_else(|| {
            Error::input(format!("{}: metrics.slo: missing; add it or give --slo {example}", scenario.file.display()))
        })?;
        let quantile = self.quantile.unwrap_or(scenario.metrics.quantile);
        Ok(Objective { slo, quantile, tolerance, replications })
    }
}

pub fn find_knee(args: &KneeArgs, registry: &Registry) -> Result<()> {
    let common = &args.common;
    let scenario = common.scenario(&args.goal.scenario, registry)?;
    let objective = args.goal.objective(&scenario, args.tolerance, args.replications, "100ms")?;
    let searches = scenario.policies.len() * args.replications as usize;
    let knees =
        common.carry_out(searches, &scenario.name, |stop, done| knee::find(&scenario, &objective, stop, done))?;

    let file = common.out(Target::SIM.name()).join(folder_name(&scenario.name)).join("knee.csv");
    let half_width = |knee: &Knee| knee.interval().map(|interval| interval.half_width);
    let columns = [
        Column::text("policy", |knee: &Knee| knee.policy.clone()),
        Column::text("slo_ms", |_: &Knee| objective.slo.as_millis_f64().to_string()),
        Column::text("quantile", |_: &Knee| objective.quantile.to_string()),
        Column::number("knee_rps", Unit::PerSecond, |knee: &Knee| knee.mean().map(|rate| rate.0)),
        Column::number("knee_rps_ci", Unit::PerSecond, half_width),
        Column::count("replications", |knee: &Knee| knee.rates.len()),
    ];
    write_columns(&file, &columns, &knees)?;
    let row = |knee: &Knee| {
        json!({
            "policy": knee.policy,
            "knee_rps": knee.mean(),
            "knee_rps_ci": half_width(knee),
            "replications": knee.rates,
        })
    };
    let json = || {
        json!({
            "scenario": scenario.name,
            "slo_ms": objective.slo.as_millis_f64(),
            "quantile": objective.quantile,
            "tolerance": objective.tolerance,
            "rows": knees.iter().map(row).collect::<Vec<_>>(),
        })
    };
    let text = || {
        let line = |knee: &Knee| vec![format!("  {}", knee.policy), rate(knee.mean(), half_width(knee))];
        let what = format!("{}: the highest rate", scenario.name);
        let text = table(&what, &objective, &knees.iter().map(line).collect::<Vec<_>>());
        let has_intervals = knees.iter().any(|knee| knee.interval().is_some());
        let note = "± half the width of the 95 % confidence interval over the replications\n";
        if has_intervals { text + note } else { text }
    };
    common.shown.show(text, json)?;
    if let Some(warning) = too_short(&scenario, &objective, &knees) {
        common.note(warning);
    }
    common.note(format!("results in {}", file.display()));
    Ok(())
}

/// Warns of runs that end before an overload shows: overloaded by a fraction x, a system falls behind by x seconds
/// per second, so its queue takes SLO / x to break the objective.
fn too_short(scenario: &Scenario, objective: &Objective, knees: &[Knee]) -> Option<String> {
    let Load::Drawn { requests, .. } = &scenario.workload.load else { return None };
    let highest = knees.iter().filter_map(Knee::mean).map(|rate| rate.0).fold(0.0, f64::max);
    let needed = (objective.slo.as_secs_f64() / objective.tolerance * highest).ceil();
    let unseen = 100.0 * objective.slo.as_secs_f64() * highest / f64::from(*requests);
    (f64::from(*requests) < needed).then(|| {
        format!(
            "note: {requests} requests at {highest:.0} req/s end so soon that an overload below {unseen:.1} % may still hold \
             the objective; --set workload.requests={needed} shows it"
        )
    })
}

/// What was searched for, then a line for each policy or window.
fn table(what: &str, objective: &Objective, lines: &[Vec<String>]) -> String {
    let Objective { slo, quantile, tolerance, .. } = objective;
    let percent = tolerance * 100.0;
    format!("{what} with {quantile} at most {slo}, to {percent} %\n{}", aligned(lines))
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
    let objective = args.goal.objective(&scenario, args.tolerance, 1, "200ms")?;
    let load = |set: &str| common.scenario_with(&args.goal.scenario, &[set.to_string()], registry);
    let tried = common.carry_out(args.windows.len(), &scenario.name, |stop, done| {
        knee::find_window(&load, policy, &args.windows, &objective, stop, done)
    })?;
    let best = knee::best_window(&tried, args.tolerance).map(|one| one.window);
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
        table(&what, &objective, &tried.iter().map(line).collect::<Vec<_>>())
    };
    common.shown.show(text, json)
}
