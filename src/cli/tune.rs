//! `batchlab tune`.

use std::path::{Path, PathBuf};

use rayon::prelude::*;
use serde_json::{Value, json};

use super::answers::{AnswerRow, ObjectiveArgs, SearchReport, ShowSearch};
use super::find::note_interruption;
use super::sim::note_missing_locks;
use super::{Common, number_in, stop_on_ctrl_c};
use crate::base::error::{Error, Result, refuse_if};
use crate::base::files::{can_write, folder_name, write_whole};
use crate::base::shipped::Shipped;
use crate::base::units::{Nanos, Rate};
use crate::core::policy::registry::Registry;
use crate::lab::figures;
use crate::lab::plot::FigureKind;
use crate::lab::results::sweep_keys::is_of_policy;
use crate::lab::results::table::align;
use crate::lab::run::executor::SelectedBackend;
use crate::lab::run::{RunOptions, run_sweep};
use crate::lab::scenario::{PolicyEntry, Scenario, SweepOptions};
use crate::lab::search::Finding;
use crate::lab::search::control::{self, Optimum};
use crate::lab::search::objective::{Effort, first_rate};
use crate::lab::search::rate::RateSearch;
use crate::lab::search::tune::{TriedSetting, Tuning};
use crate::lab::search::workers::WorkerSearch;

/// Find the settings with which a policy meets a latency objective at the highest rate, or with the smallest number of workers
///
/// Tries all combinations of the values of --over by successive halving: each round is more precise than the one
/// before, and drops settings that are worse than the best on the same requests. Of those that may be the best, it
/// prefers answers without a caveat, and then the highest. Writes DIR/NAME/tune.csv, the scenario with the chosen settings
/// (tuned.toml), and a picture of throughput and p99 of those that were left.
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    #[command(flatten)]
    asked: ObjectiveArgs,

    /// The label of the policy
    #[arg(long, value_name = "LABEL")]
    policy: String,

    /// Values to try (repeatable): a key of the policy, or any key of the scenario, such as device.workers=1,2
    /// [default: keys for the size of batches, the delay and the instances]
    #[arg(long, value_name = "KEY=V1,V2,…")]
    over: Vec<String>,

    /// Compute the best wait_for of a control-limit policy at each of the scenario's rates, by value iteration instead
    /// of runs: for Poisson arrivals of equal requests, and one worker
    #[arg(long, conflicts_with_all = ["over", "rate"])]
    optimal: bool,

    /// What a worker that is always busy is worth, as latency: --optimal minimizes the mean latency plus this weight
    /// times the busy share
    #[arg(long, value_name = "TIME", default_value = "0ms", requires = "optimal", value_parser = Nanos::parse)]
    busy_weight: Nanos,

    /// Look for the smallest number of workers at this rate instead, in requests per second
    #[arg(long, value_parser = number_in(1e-6..=1e9))]
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

    /// Keep what an interrupted search with these settings has found, and go on; values may have been added
    #[arg(long, conflicts_with = "optimal")]
    resume: bool,

    #[command(flatten)]
    common: Common,
}

/// Keys that are tried if none are named, where the policy has them.
const KEYS: [(&str, &str); 5] = [
    ("max_batch", "1,2,4,8,16,32,64,128,256"),
    ("max_queue_delay", "0ms,1ms,2ms,5ms,10ms"),
    ("window", "0ms,1ms,2ms,5ms,10ms"),
    ("wait_for", "1,2,4"),
    ("instances", "1,2,4"),
];

/// The shares of the best rate at which the picture has points.
const SHARES: [f64; 8] = [0.1, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0];
/// The largest number of lines in the picture; more can't be told apart.
const DRAWN: usize = 6;

pub fn run(args: &Args, registry: &Registry) -> Result<()> {
    let scenario = read_scenario(&args.asked, &args.common, registry)?;
    let entry = find_entry(&scenario, &args.policy)?;
    if args.optimal {
        return args.solve(&scenario, entry);
    }
    match args.rate {
        None => args.tune(&RateSearch, &scenario, entry, registry),
        Some(rate) => {
            let search = WorkerSearch {
                rate: Rate(rate),
                most: args.max_workers,
            };
            args.tune(&search, &scenario, entry, registry)
        }
    }
}

/// Reads the scenario without its own sweep.
fn read_scenario(asked: &ObjectiveArgs, common: &Common, registry: &Registry) -> Result<Scenario> {
    Scenario::load(
        &Shipped::Scenario.find(&asked.scenario)?,
        &without_sweep(common),
        registry,
    )
}

fn find_entry<'s>(scenario: &'s Scenario, policy: &str) -> Result<&'s PolicyEntry> {
    let mut entries = scenario.policies.iter();
    if let Some(entry) = entries.find(|entry| entry.label == policy) {
        return Ok(entry);
    }
    let labels: Vec<&str> = scenario
        .policies
        .iter()
        .map(|entry| entry.label.as_str())
        .collect();
    Err(Error::input(format!(
        "{}: --policy: no policy is labelled \"{policy}\"; there are {}",
        scenario.file.display(),
        labels.join(", ")
    )))
}

/// Why a key is not a setting to choose, or `None` if it may be one.
fn describe_no_setting(key: &str, rate: Option<f64>) -> Option<&'static str> {
    let parts: Vec<&str> = key.split('.').collect();
    match parts[..] {
        ["seed"] => {
            Some("the seed draws the requests; --replications compares settings with several seeds")
        }
        ["arrivals" | "class" | "metrics", ..]
        | [
            "workload",
            "dataset" | "requests" | "time_scale" | "trace",
            ..,
        ] => Some(
            "the load and the objective are what the settings are compared for; give --rate, --slo or --set, or call \
             find-knee with --sweep",
        ),
        ["label"] | ["output", ..] | ["policy", _, "label"] => {
            Some("names or describes results; name a key that changes them")
        }
        ["device", "workers"] if rate.is_some() => {
            Some("--rate looks for the number of workers; leave one of the two out")
        }
        _ => None,
    }
}

/// The user's overrides, and one that removes the scenario's sweep.
fn without_sweep(common: &Common) -> Vec<String> {
    [&common.overrides[..], &["sweep={}".into()]].concat()
}

impl Args {
    fn tune<S: ShowSearch>(
        &self,
        search: &S,
        scenario: &Scenario,
        entry: &PolicyEntry,
        registry: &Registry,
    ) -> Result<()> {
        let common = &self.common;
        let objective = self.asked.objective(scenario, 0.0, "50ms")?;
        let over = self.values_to_try(entry, registry)?;
        let candidates = self.candidates(&scenario.file, &over, registry)?;
        let count = candidates.len();
        let effort = Effort {
            tolerance: self.tolerance,
            replications: self.replications,
            max_requests: self.max_requests,
            near: None,
        };
        first_rate(scenario)?;
        let out = common.out("tune");
        let folder = out.join(folder_name(&scenario.name));
        let file = folder.join("tune.csv");
        can_write(&file)?;
        let stop = stop_on_ctrl_c()?;
        let tuning = Tuning {
            search,
            objective: &objective,
            effort: &effort,
            out: &out,
            stop,
            progress: &|| (),
        };
        let lock = tuning.open(&candidates, self.resume)?;
        note_missing_locks(common, lock.held);
        let tried = common.run_with_progress(count, &scenario.name, |_, done| {
            let tuning = Tuning {
                progress: done,
                ..tuning
            };
            tuning.find(candidates)
        });
        let tried = note_interruption(common, &folder, tried)?;
        lock.complete();
        let finalists = tried.iter().filter(|one| one.is_finalist()).count();
        let mut rows: Vec<AnswerRow<S::Answer>> = tried
            .iter()
            .map(|tried| AnswerRow {
                entry: tried.scenario.policies[0].clone(),
                objective: objective.clone(),
                answer: tried.answer.clone(),
                round: tried.round,
                is_chosen: false,
            })
            .collect();
        rows[0].is_chosen = tried[0].answer.meets_objective();
        let report = SearchReport {
            name: scenario.name.clone(),
            search,
            objective,
            tolerance: self.tolerance,
            file,
            is_tuning: true,
        };
        let mut note = format!("{finalists} of {count} settings are left after the last round\n");
        let has_caveat = |row: &AnswerRow<S::Answer>| row.answer.caveat().is_some();
        if rows[0].is_chosen && rows[..finalists].iter().any(has_caveat) {
            note += if has_caveat(&rows[0]) {
                "chosen: the best, although its answer has a caveat (?), as all have that may be the best\n"
            } else {
                "chosen: the best whose answer has no caveat (?)\n"
            };
        }
        note += &search.note(&rows);
        report.write_and_show(common, &rows, finalists, &note)?;
        if !tried[0].answer.meets_objective() {
            return Ok(());
        }
        self.write_tuned(scenario, &report, &rows[0], &folder.join("tuned.toml"))?;
        // The runs lock the folder themselves.
        drop(lock);
        self.run_finalists(&tried, out)
    }

    /// Writes the scenario with the chosen settings, and their answer with its caveat.
    fn write_tuned<S: ShowSearch>(
        &self,
        scenario: &Scenario,
        report: &SearchReport<'_, S>,
        chosen: &AnswerRow<S::Answer>,
        file: &Path,
    ) -> Result<()> {
        let mut overrides = without_sweep(&self.common);
        for (key, value) in &chosen.entry.swept {
            overrides.push(format!("{key}={value}"));
        }
        if let Some(workers) = chosen.answer.workers() {
            overrides.push(format!("device.workers={workers}"));
        }
        let text = scenario.text_with(&overrides)?;
        let mut head = format!(
            "# {}, with the settings that batchlab tune chose.\n# {}\n",
            scenario.file.display(),
            report.sentence(chosen)
        );
        if let Some(caveat) = chosen.answer.caveat() {
            head += &format!("# Caveat: {}\n", caveat.replace('\n', " "));
        }
        head.push('\n');
        write_whole(file, |out| out.write_all((head + &text).as_bytes()))
    }

    /// The values of keys to try: as given, or of the keys that policies usually have.
    fn values_to_try(&self, entry: &PolicyEntry, registry: &Registry) -> Result<Vec<String>> {
        if !self.over.is_empty() {
            return Ok(self.over.clone());
        }
        let keys = registry.keys(entry.kind).unwrap_or_default();
        let mut over = Vec::new();
        for (key, values) in KEYS {
            if keys.contains(&key) {
                over.push(format!("{key}={values}"));
            }
        }
        refuse_if(over.is_empty(), || {
            Error::input(format!(
                "{}: --over: name keys of {} with their values; there are {}",
                self.asked.scenario.display(),
                entry.kind,
                keys.join(", ")
            ))
        })?;
        Ok(over)
    }

    /// A scenario with one policy for each combination of values, without the scenario's own sweep.
    fn candidates(
        &self,
        file: &Path,
        over: &[String],
        registry: &Registry,
    ) -> Result<Vec<Scenario>> {
        for values in over {
            let key = values.split_once('=').map_or("", |(key, _)| key).trim();
            if let Some(problem) = describe_no_setting(key, self.rate) {
                return Err(Error::mistake(
                    file,
                    format_args!("--over {key}: {problem}"),
                ));
            }
        }
        let common = Common {
            overrides: without_sweep(&self.common),
            ..self.common.clone()
        };
        let sweeps = SweepOptions {
            option: "--over",
            values: over,
            policy: Some(&self.policy),
        };
        let mut candidates = Vec::new();
        for variant in common.sweep_options(file, sweeps, registry)? {
            for entry in &variant.policies {
                self.refuse_keys_of_others(file, entry)?;
                if entry.label == self.policy {
                    candidates.push(Scenario {
                        policies: vec![entry.clone()],
                        ..variant.clone()
                    });
                }
            }
        }
        Ok(candidates)
    }

    /// Refuses values for a key of another policy, which make no difference to the one that is tuned.
    fn refuse_keys_of_others(&self, file: &Path, entry: &PolicyEntry) -> Result<()> {
        let mut swept = entry.swept.iter();
        let Some((key, _)) = swept.find(|(key, _)| is_of_policy(key)) else {
            return Ok(());
        };
        refuse_if(entry.label != self.policy, || {
            let other = &entry.label;
            let tuned = &self.policy;
            Error::mistake(
                file,
                format_args!(
                    "--over {key}: is a key of {other}, but the settings of {tuned} are compared; name a key of {tuned} or of \
                     the device, or give --policy \"{other}\""
                ),
            )
        })
    }

    /// Computes the best control limit at each rate.
    fn solve(&self, scenario: &Scenario, entry: &PolicyEntry) -> Result<()> {
        let kind = entry.kind;
        let max_batch = entry.settings.value("max_batch").and_then(Value::as_u64);
        let Some(max_batch) = max_batch.filter(|_| kind == "control-limit") else {
            return Err(Error::input(format!(
                "{}: --optimal: {kind} has no limit; use a policy of the kind control-limit",
                scenario.file.display()
            )));
        };
        let alone = Scenario {
            policies: vec![entry.clone()],
            ..scenario.clone()
        };
        let (service, rates) = control::service(&alone, max_batch as u32)?;
        let found = self.common.run_on_threads(|| {
            rates
                .par_iter()
                .map(|rate| Ok((*rate, control::optimum(*rate, &service, self.busy_weight)?)))
                .collect::<Result<Vec<_>>>()
        })?;
        self.common.shown.show(
            || self.limits_table(scenario, &found),
            || self.limits_json(scenario, &found),
        )
    }

    fn limits_table(&self, scenario: &Scenario, found: &[(Rate, Optimum)]) -> String {
        let minimized = match self.busy_weight {
            Nanos::ZERO => "least mean latency".to_string(),
            weight => format!("least sum of mean latency and {weight} times the busy share"),
        };
        let mut lines = Vec::new();
        for (rate, optimum) in found {
            lines.push(vec![
                format!("  {rate} req/s"),
                format!("wait_for = {}", optimum.wait_for),
                format!("{:.4} ms", optimum.cost * 1e3),
            ]);
        }
        format!(
            "{}: the limit of {} with the {minimized}\n{}",
            scenario.name,
            self.policy,
            align(&lines)
        )
    }

    fn limits_json(&self, scenario: &Scenario, found: &[(Rate, Optimum)]) -> Value {
        let mut rows = Vec::new();
        for (rate, optimum) in found {
            rows.push(json!({
                "rate_rps": rate,
                "wait_for": optimum.wait_for,
                "cost_ms": optimum.cost * 1e3,
            }));
        }
        json!({
            "scenario": scenario.name,
            "policy": self.policy,
            "busy_weight_ms": self.busy_weight.as_millis_f64(),
            "rows": rows,
        })
    }

    /// Runs the best settings at shares of the best one's load, with a picture.
    fn run_finalists<A: Finding>(&self, tried: &[TriedSetting<A>], out: PathBuf) -> Result<()> {
        let best = tried[0].answer.expected_rate().map(|rate| rate.0);
        let most = self.rate.or(best).unwrap_or_default();
        let rates = SHARES.map(|share| Rate(share * most));
        let mut scenarios = Vec::new();
        for setting in tried.iter().filter(|one| one.is_finalist()).take(DRAWN) {
            scenarios.push(self.scenario_of_picture(setting, &rates));
        }
        let options = RunOptions {
            backend: SelectedBackend::SIM,
            out,
            replications: 1,
            resume: self.resume,
            shard: None,
        };
        let runs = scenarios.len() * rates.len();
        let report = self
            .common
            .run_with_progress(runs, &scenarios[0].name, |stop, done| {
                run_sweep(&scenarios, &options, stop, done)
            })?;
        if report.is_interrupted() {
            return Err(Error::Interrupted);
        }
        figures::draw(&scenarios[0], &report.folder.path, &[])?;
        Ok(())
    }

    fn scenario_of_picture<A: Finding>(
        &self,
        setting: &TriedSetting<A>,
        rates: &[Rate],
    ) -> Scenario {
        let mut scenario = setting.scenario.clone();
        scenario.arrivals = scenario.arrivals.map(|arrivals| arrivals.with_rates(rates));
        scenario.output.plots = vec![FigureKind::P99Throughput];
        scenario.output.plot_point = None;
        // The order and the labels name policies that are not tuned.
        scenario.output.figure.order.clear();
        scenario.output.figure.label.clear();
        scenario.output.title = Some(format!("{}: settings of {}", scenario.name, self.policy));
        if let Some(workers) = setting.answer.workers() {
            scenario.device.workers = workers as usize;
        }
        scenario
    }
}
