//! `batchlab find-knee`: the highest rate that holds a latency objective.

use std::fmt::Write as _;
use std::path::PathBuf;

use serde_json::json;

use super::{Common, Format, print, print_json, stop_on_ctrl_c};
use crate::error::{Error, Result};
use crate::experiment::executor::Target;
use crate::experiment::knee::{self, Knee, Objective};
use crate::files::{folder_name, write_whole};
use crate::policy::registry::Registry;
use crate::scenario::{Load, Quantile, Scenario};
use crate::units::Nanos;

/// Find the highest rate at which each policy of a scenario holds a latency objective
///
/// Each replication brackets and bisects the rate with requests of its own; the interval is the 95 % confidence interval
/// over the replications. Writes DIR/NAME/knee.csv, with the scenario's name.
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    /// Scenario file; its arrivals must have a rate
    #[arg(value_name = "SCENARIO")]
    pub scenario: PathBuf,

    /// The latency to hold, with its unit, such as 100ms [default: the scenario's metrics.slo]
    #[arg(long, value_parser = Nanos::parse)]
    pub slo: Option<Nanos>,

    /// The quantile that has to hold it: p50, p90, p95, p99 or p999 [default: the scenario's metrics.quantile]
    #[arg(long, value_parser = quantile)]
    pub quantile: Option<Quantile>,

    /// How close the search goes, as a share of the rate
    #[arg(long, default_value_t = 0.005, value_parser = tolerance)]
    pub tolerance: f64,

    /// Searches, each with its own random streams
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub replications: u32,

    #[command(flatten)]
    pub common: Common,
}

/// Finds the knees and prints them.
///
/// # Errors
/// A scenario with a mistake or without a rate or an objective; a file that can't be written; Ctrl-C.
pub fn run(args: &Args, registry: &Registry) -> Result<()> {
    let common = &args.common;
    let scenario = common.scenario(&args.scenario, registry)?;
    let slo = args.slo.or(scenario.metrics.slo).ok_or_else(|| {
        Error::input(format!("{}: metrics.slo: missing; add it or give --slo 100ms", scenario.file.display()))
    })?;
    let objective = Objective {
        slo,
        quantile: args.quantile.unwrap_or(scenario.metrics.quantile),
        tolerance: args.tolerance,
        replications: args.replications,
    };
    let stop = stop_on_ctrl_c()?;
    let bar = common.progress(scenario.policies.len() * args.replications as usize, &scenario.name);
    let knees = common.on_threads(|| knee::find(&scenario, &objective, stop, &|| bar.inc(1)))?;
    bar.finish_and_clear();

    let file = common.out(Target::SIM.name()).join(folder_name(&scenario.name)).join("knee.csv");
    write_whole(&file, |out| {
        writeln!(out, "policy,slo_ms,quantile,knee_rps,knee_rps_ci,replications")?;
        for knee in &knees {
            let mut row = csv::Writer::from_writer(&mut *out);
            row.write_record([
                knee.policy.clone(),
                slo.as_millis_f64().to_string(),
                objective.quantile.name().to_string(),
                knee.mean().map_or(String::new(), |rate| format!("{:.3}", rate.0)),
                knee.interval().map_or(String::new(), |interval| format!("{:.3}", interval.half_width)),
                knee.rates.len().to_string(),
            ])?;
            row.flush()?;
        }
        Ok(())
    })?;
    match common.format {
        Format::Table => print(&table(&scenario.name, &objective, &knees))?,
        Format::Json => print_json(vec![json!({
            "scenario": scenario.name,
            "slo_ms": slo.as_millis_f64(),
            "quantile": objective.quantile.name(),
            "tolerance": objective.tolerance,
            "rows": knees.iter().map(|knee| json!({
                "policy": knee.policy,
                "knee_rps": knee.mean(),
                "knee_rps_ci": knee.interval().map(|interval| interval.half_width),
                "replications": knee.rates,
            })).collect::<Vec<_>>(),
        })])?,
    }
    if let Some(warning) = too_short(&scenario, &objective, &knees) {
        common.note(warning);
    }
    common.note(format!("results in {}", file.display()));
    Ok(())
}

/// A system that is overloaded by a share x falls behind by x seconds a second, and needs a run of SLO / x to show it.
fn too_short(scenario: &Scenario, objective: &Objective, knees: &[Knee]) -> Option<String> {
    let Load::Drawn { requests, .. } = &scenario.workload.load else { return None };
    let highest = knees.iter().filter_map(Knee::mean).map(|rate| rate.0).fold(0.0, f64::max);
    let needed = (objective.slo.as_secs_f64() / objective.tolerance * highest).ceil();
    let unseen = 100.0 * objective.slo.as_secs_f64() * highest / f64::from(*requests);
    (f64::from(*requests) < needed).then(|| {
        format!(
            "note: {requests} requests are over so soon at {highest:.0} req/s that an overload below {unseen:.1} % may hold the \
             objective to their end; --set workload.requests={needed} shows it"
        )
    })
}

fn table(scenario: &str, objective: &Objective, knees: &[Knee]) -> String {
    let width = knees.iter().map(|knee| knee.policy.chars().count()).max().unwrap_or(0);
    let mut text = format!(
        "{scenario}: the highest rate with {} at most {}, to {} %\n",
        objective.quantile.name(),
        objective.slo,
        objective.tolerance * 100.0
    );
    for knee in knees {
        let rate = match (knee.mean(), knee.interval()) {
            (Some(rate), Some(interval)) => format!("{:.0} ± {:.0} req/s", rate.0, interval.half_width),
            (Some(rate), None) => format!("{:.0} req/s", rate.0),
            (None, _) => "holds at no rate".to_string(),
        };
        let _ = writeln!(text, "  {:<width$}  {rate}", knee.policy);
    }
    if knees.iter().any(|knee| knee.interval().is_some()) {
        text.push_str("± half the width of the 95 % confidence interval over the replications\n");
    }
    text
}

pub(super) fn quantile(name: &str) -> Result<Quantile, String> {
    Quantile::ALL.into_iter().find(|quantile| quantile.name() == name).ok_or_else(|| {
        let known = Quantile::ALL.map(Quantile::name).join(", ");
        format!("unknown quantile; known: {known}")
    })
}

pub(super) fn tolerance(text: &str) -> Result<f64, String> {
    let allowed = "a number from 0.0001 to 0.5";
    let value: f64 = text.parse().map_err(|_| format!("not a number; {allowed}"))?;
    if (0.0001..=0.5).contains(&value) { Ok(value) } else { Err(format!("out of range; {allowed}")) }
}
