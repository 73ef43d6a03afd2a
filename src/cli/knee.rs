//! `batchlab find-knee` and `find-workers`.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use serde_json::json;

use super::parts::Parts;
use super::sim::note_missing_locks;
use super::{Common, Sweeps, number_in};
use crate::base::error::{Error, Result};
use crate::base::units::{Nanos, Rate};
use crate::core::policy::registry::Registry;
use crate::lab::results::columns::{Column, MetricUnit, swept_columns, to_object};
use crate::lab::results::table::aligned;
use crate::lab::results::write::write_columns;
use crate::lab::run::executor::SelectedBackend;
use crate::lab::run::goal::{Answer, Goal};
use crate::lab::run::knee::{Effort, Objective};
use crate::lab::run::search::Searches;
use crate::lab::scenario::{PolicyEntry, Quantile, Scenario, named};

/// Find the highest rate at which each policy of a scenario holds a latency objective
///
/// Each replication brackets and bisects the rate with its own requests, in runs that grow until the 95 % interval over the
/// replications is as narrow as the tolerance. Requests that are rejected or fail have missed the objective. Writes
/// DIR/NAME/knee.csv, where NAME is the scenario's name, and its settings as knee.json.
#[derive(clap::Args, Clone, Debug)]
pub struct KneeArgs {
    #[command(flatten)]
    asked: Asked,

    /// As a fraction of the rate: half the width of the interval, and the smallest overload that a run must show
    #[arg(long, default_value_t = 0.005, value_parser = number_in(0.0001..=0.5))]
    tolerance: f64,

    /// Searches, each with its own random sequences
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
    search: KneeArgs,
}

/// A scenario and its objective.
#[derive(clap::Args, Clone, Debug)]
pub(super) struct Asked {
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

impl Asked {
    pub(super) fn objective(
        &self,
        scenario: &Scenario,
        max_rejected: f64,
        example: &str,
    ) -> Result<Objective> {
        if self.ttft.is_some() && !scenario.workload.model.is_llm() {
            let (file, model) = (scenario.file.display(), scenario.workload.model.name());
            return Err(Error::input(format!(
                "{file}: --ttft: {model} generates no tokens; give --slo"
            )));
        }
        let slo = self
            .ttft
            .or(self.slo)
            .or(scenario.metrics.slo)
            .ok_or_else(|| {
                Error::input(format!(
                    "{}: metrics.slo: missing; add it or give --slo {example}",
                    scenario.file.display()
                ))
            })?;
        let quantile = self.quantile.unwrap_or(scenario.metrics.quantile);
        Ok(Objective {
            slo,
            quantile,
            max_rejected,
            tokens: self.ttft.map(|_| self.tbt),
        })
    }
}

/// What a search found for a policy, in one combination of a sweep.
pub(super) struct Row {
    pub entry: PolicyEntry,
    pub objective: Objective,
    pub answer: Answer,
    /// The last in which `tune` tried it.
    pub round: Option<u32>,
}

/// What was searched for, as its answers begin.
pub(super) struct Study {
    pub name: String,
    pub goal: Goal,
    pub objective: Objective,
    pub tolerance: f64,
    /// Where the table is written.
    pub file: PathBuf,
}

pub fn find_knee(args: &KneeArgs, registry: &Registry) -> Result<()> {
    args.run(Goal::HighestRate, registry)
}

pub fn find_workers(args: &WorkersArgs, registry: &Registry) -> Result<()> {
    args.search.run(
        Goal::FewestWorkers(Rate(args.rate), args.max_workers),
        registry,
    )
}

impl KneeArgs {
    fn run(&self, goal: Goal, registry: &Registry) -> Result<()> {
        let KneeArgs {
            asked,
            sweeps,
            common,
            parts,
            ..
        } = self;
        let (tolerance, replications, max_requests) =
            (self.tolerance, self.replications, self.max_requests);
        let scenarios = common
            .sweep(&asked.scenario, &sweeps.sweeps, registry)?
            .into_iter();
        let scenarios = scenarios.map(|scenario| {
            let objective = asked.objective(&scenario, self.max_rejected, "100ms")?;
            Ok((scenario, objective))
        });
        let scenarios = scenarios.collect::<Result<Vec<(Scenario, Objective)>>>()?;
        let effort = Effort {
            tolerance,
            replications,
            max_requests,
            near: None,
        };
        let searches = Searches::new(
            goal,
            &scenarios,
            effort,
            &common.out(SelectedBackend::SIM.name()),
        )?;
        let (mut points, folder) = (searches.points(), &searches.folder().path);
        if parts.plan || parts.merge_only {
            let found = searches.find(
                Some(&vec![false; points.len()]),
                &AtomicBool::new(false),
                &|| (),
            )?;
            searches.mark_finished(&mut points, &found);
            if parts.plan {
                return parts.show(&points, common.shown);
            }
            Parts::refuse_missing(&points, std::slice::from_ref(folder))?;
        }
        let own = parts.own(&points);
        let runs = own.as_ref().map_or(points.len(), |(_, own)| {
            own.iter().filter(|own| **own).count()
        });
        let lock = searches.open(parts.keeps(), parts.shard)?;
        note_missing_locks(common, lock.held);
        let name = &scenarios[0].0.name;
        let found = common.run_with_progress(runs, name, |stop, done| {
            searches.find(own.as_ref().map(|(_, own)| &own[..]), stop, done)
        })?;
        if let Some((shard, own)) = own {
            searches.mark_finished(&mut points, &found);
            let finished = points
                .iter()
                .zip(&own)
                .filter(|(point, own)| point.finished && **own)
                .count();
            let folder = folder.display();
            common.note(format!(
                "shard {shard}: {finished} of {runs} points are finished in {folder}"
            ));
            return common.shown.several().end();
        }
        searches.write_settings()?;
        lock.complete();
        let rows = scenarios
            .iter()
            .zip(found)
            .flat_map(|((scenario, objective), found)| {
                let answers = found.into_iter().flatten().zip(&scenario.policies);
                answers.map(|(answer, entry)| Row {
                    entry: entry.clone(),
                    objective: *objective,
                    answer,
                    round: None,
                })
            });
        let rows: Vec<Row> = rows.collect();
        let note = match rows.iter().any(|row| row.answer.half_width().is_some()) {
            true => {
                "± half the width of the 95 % interval over the replications, the bracket of the search included\n"
            }
            false => "",
        };
        let file = folder.join(format!("{}.csv", goal.name().0));
        let study = Study {
            name: name.clone(),
            goal,
            objective: scenarios[0].1,
            tolerance,
            file,
        };
        study.tell(common, &rows, rows.len(), note)
    }
}

impl Study {
    /// Writes the answers, and shows the first `shown` of them with a note.
    pub fn tell(&self, common: &Common, rows: &[Row], shown: usize, note: &str) -> Result<()> {
        let columns = self.columns(rows);
        write_columns(&self.file, &columns, rows)?;
        let json = |row: &Row| {
            let mut object = to_object(&columns, row);
            if let Some(replications) = object.get_mut("replications") {
                *replications = json!(row.answer.rates);
            }
            object
        };
        let text = || {
            let line =
                |row: &Row| [vec![format!("  {}", row.entry.name())], self.line(row)].concat();
            let lines: Vec<Vec<String>> = rows[..shown].iter().map(line).collect();
            // Part of the result, so never a note that `--quiet` drops.
            let caveat = |row: &Row| {
                Some(format!(
                    "? {}: {}\n",
                    row.entry.name(),
                    row.answer.caveat.as_ref()?
                ))
            };
            let what = match self.goal {
                Goal::HighestRate => format!("{}: the highest rate", self.name),
                Goal::FewestWorkers(rate, _) => {
                    format!("{}: the fewest workers for {rate} req/s", self.name)
                }
            };
            let caveats: String = rows[..shown].iter().filter_map(caveat).collect();
            table(&what, &self.objective, self.tolerance, &lines) + note + &caveats
        };
        let json = || {
            json!({
                "scenario": self.name,
                "objective": self.objective.to_string(),
                "slo_ms": self.objective.slo.as_millis_f64(),
                "quantile": self.objective.quantile,
                "tolerance": self.tolerance,
                "rows": rows.iter().map(json).collect::<Vec<_>>(),
            })
        };
        common.shown.show(text, json)?;
        common.note(format!("results in {}", self.file.display()));
        Ok(())
    }

    fn columns(&self, rows: &[Row]) -> Vec<Column<'static, Row>> {
        // `tune` tells rounds instead of what a single search took.
        let single = rows.iter().all(|row| row.round.is_none());
        let rate = match self.goal {
            Goal::HighestRate => None,
            Goal::FewestWorkers(rate, _) => Some(rate),
        };
        let columns = [
            Some(Column::text("policy", |row: &Row| row.entry.label.clone())),
            rate.filter(|_| single)
                .map(|rate| Column::given("rate_rps", move |_: &Row| Some(rate.to_string()))),
            Some(Column::given("slo_ms", |row: &Row| {
                Some(row.objective.slo.as_millis_f64().to_string())
            })),
            Some(Column::text("quantile", |row: &Row| {
                row.objective.quantile.to_string()
            })),
            (!single)
                .then(|| Column::count("round", |row: &Row| row.round.map(|round| round as usize))),
            rate.is_none().then(|| {
                Column::number("knee_rps", MetricUnit::PerSecond, |row: &Row| {
                    Some(row.answer.mean()?.0)
                })
            }),
            rate.is_none().then(|| {
                Column::number("knee_rps_ci", MetricUnit::PerSecond, |row: &Row| {
                    row.answer.half_width()
                })
            }),
            (single && rate.is_none())
                .then(|| Column::count("replications", |row: &Row| row.answer.rates.len())),
            rate.map(|_| {
                Column::count("workers", |row: &Row| {
                    row.answer.workers.map(|workers| workers as usize)
                })
            }),
            rate.filter(|_| single).map(|_| {
                Column::number("latency_ms", MetricUnit::Millis, |row: &Row| {
                    row.answer.latency.map(Nanos::as_millis_f64)
                })
            }),
            single.then(|| Column::count("requests", |row: &Row| row.answer.requests as usize)),
            Some(Column::given("caveat", |row: &Row| {
                row.answer.caveat.clone()
            })),
        ];
        columns
            .into_iter()
            .flatten()
            .chain(swept_columns(rows, |row| &row.entry.swept))
            .collect()
    }

    /// What the table shows of a row beside its name.
    fn line(&self, row: &Row) -> Vec<String> {
        let Answer {
            workers,
            latency,
            caveat,
            ..
        } = &row.answer;
        let mark = if caveat.is_some() && row.answer.is_some() {
            " ?"
        } else {
            ""
        };
        match (self.goal, workers) {
            (Goal::HighestRate, _) => vec![rate(row.answer.mean(), row.answer.half_width()) + mark],
            (Goal::FewestWorkers(_, most), None) => vec![format!("more than {}", count(most))],
            (Goal::FewestWorkers(..), Some(workers)) => {
                let spare = latency.map_or(String::new(), |latency| {
                    let share =
                        100.0 * (1.0 - latency.as_secs_f64() / row.objective.slo.as_secs_f64());
                    let latency = latency.as_millis_f64();
                    format!(
                        "{} {latency:.2} ms, {share:.0} % below the objective",
                        row.objective.quantile
                    )
                });
                vec![format!("{}{mark}", count(*workers)), spare]
            }
        }
    }
}

fn count(workers: u32) -> String {
    format!("{workers} worker{}", if workers == 1 { "" } else { "s" })
}

/// What was searched for, then a line for each policy or window.
pub(super) fn table(
    what: &str,
    objective: &Objective,
    tolerance: f64,
    lines: &[Vec<String>],
) -> String {
    format!(
        "{what} with {objective}, to {} %\n{}",
        tolerance * 100.0,
        aligned(lines)
    )
}

pub(super) fn rate(rate: Option<Rate>, half_width: Option<f64>) -> String {
    // Three digits of low rates too.
    let digits = |Rate(rate)| {
        if rate < 10.0 {
            2
        } else {
            usize::from(rate < 100.0)
        }
    };
    match (rate, half_width) {
        (Some(rate), Some(half_width)) => {
            format!("{:.1$} ± {half_width:.1$} req/s", rate.0, digits(rate))
        }
        (Some(rate), None) => format!("{:.1$} req/s", rate.0, digits(rate)),
        (None, _) => "holds at no rate".into(),
    }
}
