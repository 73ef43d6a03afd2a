//! `batchlab tune` and `find-window`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use serde_json::{Value, json};

use super::knee::{Asked, Row, Study, rate, table};
use super::{Common, number_in};
use crate::base::error::{Error, Result, refuse_if};
use crate::base::files::{can_write, folder_name, write_whole};
use crate::base::shipped::Shipped;
use crate::base::units::{Nanos, Rate};
use crate::core::policy::registry::Registry;
use crate::lab::figures;
use crate::lab::plot::FigureKind;
use crate::lab::results::table::aligned;
use crate::lab::run::control::{self, Optimum};
use crate::lab::run::executor::SelectedBackend;
use crate::lab::run::goal::Goal;
use crate::lab::run::knee::{Effort, over_rates};
use crate::lab::run::tune::{self, Tried};
use crate::lab::run::{self, RunOptions};
use crate::lab::scenario::{PolicyEntry, Scenario};

/// Find the settings with which a policy holds a latency objective at the highest rate, or with the fewest workers
///
/// Tries all combinations of the values of --over by successive halving: each round is more precise than the one before, and
/// settings go out that are worse than the best for the same requests. Writes DIR/NAME/tune.csv, the scenario with the best
/// settings (tuned.toml), and a picture of throughput and p99 of those that were left.
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    #[command(flatten)]
    asked: Asked,

    /// The label of the policy
    #[arg(long, value_name = "LABEL")]
    policy: String,

    /// Values to try (repeatable): a key of the policy, or any key of the scenario, such as device.workers=1,2 [default: keys
    /// for the size of batches, the delay and the instances]
    #[arg(long, value_name = "KEY=V1,V2,…")]
    over: Vec<String>,

    /// Compute the best wait_for of a control-limit policy at each of the scenario's rates, by value iteration instead of
    /// runs: for Poisson arrivals of equal requests, and one worker
    #[arg(long, conflicts_with_all = ["over", "rate"])]
    optimal: bool,

    /// With --optimal: what a worker that is always busy is worth, as latency; the mean latency plus this weight times the busy
    /// share is minimized
    #[arg(long, value_name = "TIME", default_value = "0ms", requires = "optimal", value_parser = Nanos::parse)]
    busy_weight: Nanos,

    /// Look for the fewest workers at this rate instead, in requests per second
    #[arg(long, value_parser = number_in(1e-3..=1e9))]
    rate: Option<f64>,

    /// The largest number of workers to try with --rate
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..=65_535))]
    max_workers: u32,

    /// Precision of the last round, as a fraction of the rate
    #[arg(long, default_value_t = 0.01, value_parser = number_in(0.0001..=0.5))]
    tolerance: f64,

    /// Searches of a setting in the last round, each with its own random sequences
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    replications: u32,

    /// The longest run, in requests; results that it limits are marked
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    max_requests: u32,

    #[command(flatten)]
    common: Common,
}

/// Find the batch window with which a policy holds a latency objective at the highest rate
///
/// As `tune --over window=…` without its first rounds: each window is searched once, as `find-knee` does. Among windows whose
/// rates the search can't tell apart, the shortest is the best.
#[derive(clap::Args, Clone, Debug)]
pub struct WindowArgs {
    #[command(flatten)]
    asked: Asked,

    /// The label of the policy, which must have the key `window`
    #[arg(long, value_name = "LABEL")]
    policy: String,

    /// The windows to try, with their units
    #[arg(long, value_name = "TIMES", value_delimiter = ',', value_parser = Nanos::parse,
          default_values_t = [1, 2, 5, 10, 20, 50, 100].map(|ms| Nanos(ms * 1_000_000)))]
    windows: Vec<Nanos>,

    /// Precision of the search, as a fraction of the rate
    #[arg(long, default_value_t = 0.01, value_parser = number_in(0.0001..=0.5))]
    tolerance: f64,

    #[command(flatten)]
    common: Common,
}

/// Longer runs do not separate windows better.
const WINDOW_REQUESTS: u32 = 1_000_000;

/// Keys that are tried if none are named, where the policy has them.
const KEYS: [(&str, &str); 5] = [
    ("max_batch", "1,2,4,8,16,32,64,128,256"),
    ("max_queue_delay", "0ms,1ms,2ms,5ms,10ms"),
    ("window", "0ms,1ms,2ms,5ms,10ms"),
    ("wait_for", "1,2,4"),
    ("instances", "1,2,4"),
];

/// Of the rate of the best, where the picture has points.
const SHARES: [f64; 8] = [0.1, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0];
/// More lines can't be told apart.
const DRAWN: usize = 6;

pub fn run(args: &Args, registry: &Registry) -> Result<()> {
    let Args {
        common,
        asked,
        policy,
        ..
    } = args;
    let scenario = read(asked, common, registry)?;
    let entry = entry(&scenario, policy)?;
    if args.optimal {
        return args.solve(&scenario, entry);
    }
    let objective = asked.objective(&scenario, 0.0, "50ms")?;
    let candidates = candidates(
        common,
        &scenario.file,
        policy,
        &args.over(entry, registry)?,
        registry,
    )?;
    let goal = args.rate.map_or(Goal::HighestRate, |rate| {
        Goal::FewestWorkers(Rate(rate), args.max_workers)
    });
    let Args {
        tolerance,
        replications,
        max_requests,
        ..
    } = *args;
    let effort = Effort {
        tolerance,
        replications,
        max_requests,
        near: None,
    };
    over_rates(&scenario)?;
    let (count, out) = (candidates.len(), common.out("tune"));
    let folder = out.join(folder_name(&scenario.name));
    can_write(&folder.join("tune.csv"))?;
    let tried = common.run_with_progress(count, &scenario.name, |stop, done| {
        tune::find(
            candidates,
            &tune::ROUNDS,
            goal,
            &objective,
            &effort,
            stop,
            done,
        )
    })?;
    let row = |found: &Tried| {
        let (entry, answer) = (found.scenario.policies[0].clone(), found.answer.clone());
        Row {
            entry,
            objective,
            answer,
            round: Some(found.round),
        }
    };
    let rows: Vec<Row> = tried.iter().map(row).collect();
    let left = tried.iter().filter(|one| one.is_finalist()).count();
    let note = format!("{left} of {count} settings are left after the last round\n");
    let study = Study {
        name: scenario.name.clone(),
        goal,
        objective,
        tolerance,
        file: folder.join("tune.csv"),
    };
    study.tell(common, &rows, left, &note)?;
    if !tried[0].answer.is_some() {
        return Ok(());
    }
    let settings = rows[0]
        .entry
        .swept
        .iter()
        .map(|(key, value)| format!("{key}={value}"));
    let text = scenario.text_with(&[without_sweep(common), settings.collect()].concat())?;
    let head = format!(
        "# {}, with the settings that batchlab tune found best.\n\n",
        scenario.file.display()
    );
    write_whole(&folder.join("tuned.toml"), |out| {
        out.write_all((head + &text).as_bytes())
    })?;
    args.draw(&tried, out)
}

pub fn find_window(args: &WindowArgs, registry: &Registry) -> Result<()> {
    let WindowArgs {
        common,
        asked,
        policy,
        tolerance,
        ..
    } = args;
    let scenario = read(asked, common, registry)?;
    let kind = entry(&scenario, policy)?.kind;
    let has_window = |kind: &str| {
        registry
            .keys(kind)
            .is_some_and(|keys| keys.contains(&"window"))
    };
    refuse_if(!has_window(kind), || {
        let known: Vec<&str> = registry.kinds().filter(|kind| has_window(kind)).collect();
        let (file, known) = (scenario.file.display(), known.join(", "));
        Error::input(format!(
            "{file}: --policy: {kind} has no batch window; policies with one: {known}"
        ))
    })?;
    let objective = asked.objective(&scenario, 0.0, "200ms")?;
    // Of equal settings, the first is the best.
    let windows: Vec<Nanos> = args
        .windows
        .iter()
        .copied()
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect();
    let values: Vec<String> = windows
        .iter()
        .map(|window| format!("{}ns", window.0))
        .collect();
    let over = [format!("window={}", values.join(","))];
    let candidates = candidates(common, &scenario.file, policy, &over, registry)?;
    let effort = Effort {
        tolerance: *tolerance,
        replications: 1,
        max_requests: WINDOW_REQUESTS,
        near: None,
    };
    let mut tried = common.run_with_progress(windows.len(), &scenario.name, |stop, done| {
        tune::find(
            candidates,
            &[],
            Goal::HighestRate,
            &objective,
            &effort,
            stop,
            done,
        )
    })?;
    let best = tried[0].answer.is_some().then_some(windows[tried[0].place]);
    tried.sort_by_key(|one| one.place);
    let rows: Vec<(Nanos, Option<Rate>)> = windows
        .into_iter()
        .zip(tried.iter().map(|one| one.answer.mean()))
        .collect();
    let row = |(window, knee): &(Nanos, Option<Rate>)| json!({ "window_ms": window.as_millis_f64(), "knee_rps": knee });
    let json = || {
        json!({
            "scenario": scenario.name,
            "policy": policy,
            "slo_ms": objective.slo.as_millis_f64(),
            "quantile": objective.quantile,
            "tolerance": tolerance,
            "best_ms": best.map(Nanos::as_millis_f64),
            "rows": rows.iter().map(row).collect::<Vec<_>>(),
        })
    };
    let text = || {
        let line = |(window, knee): &(Nanos, Option<Rate>)| {
            let mark = if Some(*window) == best {
                "<- the shortest of the best"
            } else {
                ""
            };
            vec![format!("  window {window}"), rate(*knee, None), mark.into()]
        };
        let what = format!("{}: the highest rate of {policy}", scenario.name);
        table(
            &what,
            &objective,
            *tolerance,
            &rows.iter().map(line).collect::<Vec<_>>(),
        )
    };
    common.shown.show(text, json)
}

/// Without the scenario's own sweep.
fn read(asked: &Asked, common: &Common, registry: &Registry) -> Result<Scenario> {
    Scenario::load(
        &Shipped::Scenario.find(&asked.scenario)?,
        &without_sweep(common),
        registry,
    )
}

fn entry<'s>(scenario: &'s Scenario, policy: &str) -> Result<&'s PolicyEntry> {
    scenario
        .policies
        .iter()
        .find(|entry| entry.label == policy)
        .ok_or_else(|| {
            let known: Vec<&str> = scenario
                .policies
                .iter()
                .map(|entry| entry.label.as_str())
                .collect();
            let (file, known) = (scenario.file.display(), known.join(", "));
            Error::input(format!(
                "{file}: --policy: no policy is labelled \"{policy}\"; there are {known}"
            ))
        })
}

/// A scenario with one policy for each combination of values, without the scenario's own sweep.
fn candidates(
    common: &Common,
    file: &Path,
    policy: &str,
    over: &[String],
    registry: &Registry,
) -> Result<Vec<Scenario>> {
    // Keys of the scenario have a dot, but for its seed.
    let own = |over: &String| match over
        .split_once('=')
        .is_some_and(|(key, _)| key.contains('.') || key == "seed")
    {
        true => over.clone(),
        false => format!("policy.\"{policy}\".{over}"),
    };
    let sweeps: Vec<String> = over.iter().map(own).collect();
    let common = Common {
        overrides: without_sweep(common),
        ..common.clone()
    };
    let alone = |variant: Scenario| {
        let own = variant
            .policies
            .iter()
            .filter(|entry| entry.label == policy)
            .cloned();
        own.map(|entry| Scenario {
            policies: vec![entry],
            ..variant.clone()
        })
        .collect::<Vec<_>>()
    };
    Ok(common
        .sweep(file, &sweeps, registry)?
        .into_iter()
        .flat_map(alone)
        .collect())
}

fn without_sweep(common: &Common) -> Vec<String> {
    [&common.overrides[..], &["sweep={}".into()]].concat()
}

impl Args {
    /// The best control limit at each rate.
    fn solve(&self, scenario: &Scenario, entry: &PolicyEntry) -> Result<()> {
        let (kind, file) = (entry.kind, scenario.file.display());
        let most = entry
            .settings
            .value("max_batch")
            .and_then(Value::as_u64)
            .filter(|_| kind == "control-limit");
        let most = most.ok_or_else(|| {
            Error::input(format!(
                "{file}: --optimal: {kind} has no limit; use a policy of the kind control-limit"
            ))
        })?;
        let alone = Scenario {
            policies: vec![entry.clone()],
            ..scenario.clone()
        };
        let (service, rates) = control::service(&alone, most as u32)?;
        let solve = |rate: &Rate| Ok((*rate, control::optimum(*rate, &service, self.busy_weight)?));
        let found = self
            .common
            .on_threads(|| rates.par_iter().map(solve).collect::<Result<Vec<_>>>())?;
        let row = |(rate, found): &(Rate, Optimum)| json!({ "rate_rps": rate, "wait_for": found.wait_for, "cost_ms": found.cost * 1e3 });
        let json = || {
            json!({
                "scenario": scenario.name,
                "policy": self.policy,
                "busy_weight_ms": self.busy_weight.as_millis_f64(),
                "rows": found.iter().map(row).collect::<Vec<_>>(),
            })
        };
        let text = || {
            let line = |(rate, found): &(Rate, Optimum)| {
                vec![
                    format!("  {rate} req/s"),
                    format!("wait_for = {}", found.wait_for),
                    format!("{:.4} ms", found.cost * 1e3),
                ]
            };
            let weighed = match self.busy_weight {
                Nanos::ZERO => "least mean latency".to_string(),
                weight => format!("least sum of mean latency and {weight} times the busy share"),
            };
            let lines: Vec<Vec<String>> = found.iter().map(line).collect();
            format!(
                "{}: the limit of {} with the {weighed}\n{}",
                scenario.name,
                self.policy,
                aligned(&lines)
            )
        };
        self.common.shown.show(text, json)
    }

    /// What to try: as given, or the keys that policies usually have.
    fn over(&self, entry: &PolicyEntry, registry: &Registry) -> Result<Vec<String>> {
        let keys = registry.keys(entry.kind).unwrap_or_default();
        let default = KEYS
            .iter()
            .filter(|(key, _)| keys.contains(key))
            .map(|(key, values)| format!("{key}={values}"));
        let over: Vec<String> = if self.over.is_empty() {
            default.collect()
        } else {
            self.over.clone()
        };
        refuse_if(over.is_empty(), || {
            let (file, kind, keys) = (self.asked.scenario.display(), entry.kind, keys.join(", "));
            Error::input(format!(
                "{file}: --over: name keys of {kind} with their values; there are {keys}"
            ))
        })?;
        Ok(over)
    }

    /// Runs the best settings at shares of the best one's load.
    fn draw(&self, tried: &[Tried], out: PathBuf) -> Result<()> {
        let most = self
            .rate
            .or(tried[0].answer.mean().map(|rate| rate.0))
            .unwrap_or_default();
        let rates = SHARES.map(|share| Rate(share * most));
        let point = |tried: &Tried| {
            let mut scenario = tried.scenario.clone();
            scenario.arrivals = scenario.arrivals.map(|arrivals| arrivals.at(&rates));
            scenario.output.plots = vec![FigureKind::P99Throughput];
            scenario.output.plot_point = None;
            // Names of policies that are not tuned.
            scenario.output.figure.order.clear();
            scenario.output.figure.label.clear();
            scenario.output.title = Some(format!("{}: settings of {}", scenario.name, self.policy));
            scenario.device.workers = tried
                .answer
                .workers
                .map_or(scenario.device.workers, |workers| workers as usize);
            scenario
        };
        let scenarios: Vec<Scenario> = tried
            .iter()
            .filter(|one| one.is_finalist())
            .take(DRAWN)
            .map(point)
            .collect();
        let options = RunOptions {
            backend: SelectedBackend::SIM,
            out,
            replications: 1,
            resume: false,
            shard: None,
        };
        let (name, runs) = (&scenarios[0].name, scenarios.len() * rates.len());
        let report = self.common.run_with_progress(runs, name, |stop, done| {
            run::run_sweep(&scenarios, &options, stop, done)
        })?;
        if report.is_interrupted() {
            return Err(Error::Interrupted);
        }
        figures::draw(&scenarios[0], &report.folder.path, &[]).map(drop)
    }
}
