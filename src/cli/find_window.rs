//! `batchlab find-window`: the batch window with which a policy serves the highest rate.

use std::fmt::Write as _;
use std::path::PathBuf;

use serde_json::json;

use super::find_knee::{quantile, tolerance};
use super::{Common, Format, print, print_json, stop_on_ctrl_c};
use crate::error::{Error, Result};
use crate::experiment::knee::Objective;
use crate::experiment::window::{self, Tried, WINDOWS};
use crate::policy::registry::Registry;
use crate::scenario::Quantile;
use crate::units::Nanos;

/// Find the batch window with which a policy holds a latency objective at the highest rate
///
/// Each window is tried by the search of `find-knee`. Of windows whose rates the search can't tell apart, the shortest is the best.
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    /// Scenario file; its arrivals must have a rate
    #[arg(value_name = "SCENARIO")]
    pub scenario: PathBuf,

    /// The label of the policy, which must have the key `window`
    #[arg(long, value_name = "LABEL")]
    pub policy: String,

    /// The windows that are tried, with their units [default: 1, 2, 5, 10, 20, 50 and 100ms]
    #[arg(long, value_name = "TIMES", value_delimiter = ',', value_parser = Nanos::parse)]
    pub windows: Vec<Nanos>,

    /// The latency to hold, with its unit, such as 200ms [default: the scenario's metrics.slo]
    #[arg(long, value_parser = Nanos::parse)]
    pub slo: Option<Nanos>,

    /// The quantile that has to hold it: p50, p90, p95, p99 or p999 [default: the scenario's metrics.quantile]
    #[arg(long, value_parser = quantile)]
    pub quantile: Option<Quantile>,

    /// How close the search goes, as a share of the rate
    #[arg(long, default_value_t = 0.01, value_parser = tolerance)]
    pub tolerance: f64,

    #[command(flatten)]
    pub common: Common,
}

/// Tries the windows and prints them.
///
/// # Errors
/// A scenario with a mistake or without the policy, a rate or an objective; Ctrl-C.
pub fn run(args: &Args, registry: &Registry) -> Result<()> {
    let common = &args.common;
    let scenario = common.scenario(&args.scenario, registry)?;
    if !scenario.policies.iter().any(|entry| entry.label == args.policy) {
        let known: Vec<&str> = scenario.policies.iter().map(|entry| entry.label.as_str()).collect();
        let (file, known) = (scenario.file.display(), known.join(", "));
        return Err(Error::input(format!(
            "{file}: --policy: no policy is labelled \"{}\"; there are {known}",
            args.policy
        )));
    }
    let slo = args.slo.or(scenario.metrics.slo).ok_or_else(|| {
        Error::input(format!("{}: metrics.slo: missing; add it or give --slo 200ms", scenario.file.display()))
    })?;
    let quantile = args.quantile.unwrap_or(scenario.metrics.quantile);
    let objective = Objective { slo, quantile, tolerance: args.tolerance, replications: 1 };
    let windows = if args.windows.is_empty() { WINDOWS.to_vec() } else { args.windows.clone() };
    let stop = stop_on_ctrl_c()?;
    let bar = common.progress(windows.len(), &scenario.name);
    let load = |set: &str| common.scenario_with(&args.scenario, &[set.to_string()], registry);
    let tried = common.on_threads(|| window::find(&load, &args.policy, &windows, &objective, stop, &|| bar.inc(1)))?;
    bar.finish_and_clear();
    let best = window::best(&tried, args.tolerance).map(|one| one.window);
    match common.format {
        Format::Table => print(&table(&scenario.name, &args.policy, &objective, &tried, best)),
        Format::Json => print_json(vec![json!({
            "scenario": scenario.name,
            "policy": args.policy,
            "slo_ms": slo.as_millis_f64(),
            "quantile": quantile.name(),
            "tolerance": args.tolerance,
            "best_ms": best.map(Nanos::as_millis_f64),
            "rows": tried.iter().map(|one| json!({
                "window_ms": one.window.as_millis_f64(),
                "knee_rps": one.rate,
            })).collect::<Vec<_>>(),
        })]),
    }
}

fn table(scenario: &str, policy: &str, objective: &Objective, tried: &[Tried], best: Option<Nanos>) -> String {
    let mut text = format!(
        "{scenario}: the highest rate of {policy} with {} at most {}, to {} %\n",
        objective.quantile.name(),
        objective.slo,
        objective.tolerance * 100.0
    );
    for one in tried {
        let rate = one.rate.map_or("holds at no rate".into(), |rate| format!("{:.0} req/s", rate.0));
        let mark = if Some(one.window) == best { "  <- the shortest of the best" } else { "" };
        let _ = writeln!(text, "  window {:<8}{rate}{mark}", one.window.to_string());
    }
    text
}
