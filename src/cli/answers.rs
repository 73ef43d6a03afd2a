//! Objectives of searches on the command line, and their answers as tables.

use std::path::PathBuf;

use serde_json::{Map, Value, json};

use super::Common;
use crate::base::error::{Error, Result};
use crate::base::units::{Nanos, Rate};
use crate::lab::results::columns::{Column, MetricUnit, swept_columns, to_object};
use crate::lab::results::table::align;
use crate::lab::results::write::write_columns;
use crate::lab::scenario::{PolicyEntry, Quantile, Scenario, parse_name};
use crate::lab::search::objective::{Objective, ObjectiveTime};
use crate::lab::search::rate::{Knee, RateSearch};
use crate::lab::search::workers::{WorkerCount, WorkerSearch};
use crate::lab::search::{Finding, Search};

/// A scenario and its objective.
#[derive(clap::Args, Clone, Debug)]
pub(super) struct ObjectiveArgs {
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
          value_parser = parse_name::<Quantile>)]
    quantile: Option<Quantile>,
}

impl ObjectiveArgs {
    pub(super) fn objective(
        &self,
        scenario: &Scenario,
        max_rejected: f64,
        example: &str,
    ) -> Result<Objective> {
        let file = scenario.file.display();
        if self.ttft.is_some() && !scenario.workload.model.is_llm() {
            let model = scenario.workload.model.name();
            return Err(Error::input(format!(
                "{file}: --ttft: {model} generates no tokens; give --slo"
            )));
        }
        let slo = self.ttft.or(self.slo).or(scenario.metrics.slo);
        let Some(slo) = slo else {
            return Err(Error::input(format!(
                "{file}: metrics.slo: missing; add it or give --slo {example}"
            )));
        };
        let limited = if self.ttft.is_some() {
            ObjectiveTime::FirstToken { max_gap: self.tbt }
        } else {
            ObjectiveTime::Latency
        };
        Ok(Objective {
            slo,
            quantile: self.quantile.unwrap_or(scenario.metrics.quantile),
            max_rejected,
            limited,
        })
    }
}

/// The answer of a search for a policy, in one combination of a sweep.
pub(super) struct AnswerRow<A> {
    pub entry: PolicyEntry,
    pub objective: Objective,
    pub answer: A,
    /// The last round of `tune` that searched for it; 1 in a single search.
    pub round: u32,
}

pub(super) type AnswerColumn<A> = Column<'static, AnswerRow<A>>;

/// A search whose answers can be shown.
pub(super) trait ShowSearch: Search {
    /// What is searched for, such as `the highest rate`.
    fn title(&self) -> String;

    /// The column of the condition under which a single search was made, in addition to the objective.
    fn condition_column(&self) -> Option<AnswerColumn<Self::Answer>>;

    /// The columns of the answer.
    fn answer_columns(&self) -> Vec<AnswerColumn<Self::Answer>>;

    /// The columns of details, which only a single search shows.
    fn detail_columns(&self) -> Vec<AnswerColumn<Self::Answer>>;

    /// Replaces values of the columns that JSON has in more detail.
    fn detail_json(&self, answer: &Self::Answer, object: &mut Map<String, Value>);

    /// The cells of a table after the name of the policy. `mark` follows a value with a caveat.
    fn cells(&self, row: &AnswerRow<Self::Answer>, mark: &str) -> Vec<String>;

    /// A line below the table of a single search, or nothing.
    fn note(&self, rows: &[AnswerRow<Self::Answer>]) -> &'static str;
}

impl ShowSearch for RateSearch {
    fn title(&self) -> String {
        "the highest rate".into()
    }

    fn condition_column(&self) -> Option<AnswerColumn<Knee>> {
        None
    }

    fn answer_columns(&self) -> Vec<AnswerColumn<Knee>> {
        vec![
            Column::number(
                "knee_rps",
                MetricUnit::PerSecond,
                |row: &AnswerRow<Knee>| Some(row.answer.mean()?.0),
            ),
            Column::number(
                "knee_rps_ci",
                MetricUnit::PerSecond,
                |row: &AnswerRow<Knee>| row.answer.half_width(),
            ),
        ]
    }

    fn detail_columns(&self) -> Vec<AnswerColumn<Knee>> {
        vec![
            Column::count("replications", |row: &AnswerRow<Knee>| {
                row.answer.rates.len()
            }),
            Column::count("requests", |row: &AnswerRow<Knee>| {
                row.answer.requests as usize
            }),
        ]
    }

    fn detail_json(&self, answer: &Knee, object: &mut Map<String, Value>) {
        if let Some(replications) = object.get_mut("replications") {
            *replications = json!(answer.rates);
        }
    }

    fn cells(&self, row: &AnswerRow<Knee>, mark: &str) -> Vec<String> {
        let rate = describe_rate(row.answer.mean(), row.answer.half_width());
        vec![rate + mark]
    }

    fn note(&self, rows: &[AnswerRow<Knee>]) -> &'static str {
        if rows.iter().any(|row| row.answer.half_width().is_some()) {
            "± half the width of the 95 % interval over the replications, the bracket of the search included\n"
        } else {
            ""
        }
    }
}

impl ShowSearch for WorkerSearch {
    fn title(&self) -> String {
        format!("the smallest number of workers for {} req/s", self.rate)
    }

    fn condition_column(&self) -> Option<AnswerColumn<WorkerCount>> {
        let rate = self.rate;
        Some(Column::optional(
            "rate_rps",
            move |_: &AnswerRow<WorkerCount>| Some(rate.to_string()),
        ))
    }

    fn answer_columns(&self) -> Vec<AnswerColumn<WorkerCount>> {
        vec![Column::count("workers", |row: &AnswerRow<WorkerCount>| {
            row.answer.workers.map(|workers| workers as usize)
        })]
    }

    fn detail_columns(&self) -> Vec<AnswerColumn<WorkerCount>> {
        vec![
            Column::number(
                "latency_ms",
                MetricUnit::Millis,
                |row: &AnswerRow<WorkerCount>| row.answer.latency.map(Nanos::as_millis_f64),
            ),
            Column::count("requests", |row: &AnswerRow<WorkerCount>| {
                row.answer.requests as usize
            }),
        ]
    }

    fn detail_json(&self, _: &WorkerCount, _: &mut Map<String, Value>) {}

    fn cells(&self, row: &AnswerRow<WorkerCount>, mark: &str) -> Vec<String> {
        let Some(workers) = row.answer.workers else {
            return vec![format!("more than {}", count_workers(self.most))];
        };
        let spare = match row.answer.latency {
            Some(latency) => {
                let part = latency.as_secs_f64() / row.objective.slo.as_secs_f64();
                format!(
                    "{} {:.2} ms, {:.0} % below the objective",
                    row.objective.quantile,
                    latency.as_millis_f64(),
                    100.0 * (1.0 - part)
                )
            }
            None => String::new(),
        };
        vec![format!("{}{mark}", count_workers(workers)), spare]
    }

    fn note(&self, _: &[AnswerRow<WorkerCount>]) -> &'static str {
        ""
    }
}

/// What was searched for, and where the answers are written.
pub(super) struct SearchReport<'a, S: Search> {
    /// The name of the scenario.
    pub name: String,
    pub search: &'a S,
    pub objective: Objective,
    pub tolerance: f64,
    /// The file of the table.
    pub file: PathBuf,
    /// Whether the answers are those of `tune`, which reports rounds instead of the details of a single search.
    pub is_tuning: bool,
}

impl<S: ShowSearch> SearchReport<'_, S> {
    /// Writes the answers, and shows the first `shown` of them with a note.
    pub fn write_and_show(
        &self,
        common: &Common,
        rows: &[AnswerRow<S::Answer>],
        shown: usize,
        note: &str,
    ) -> Result<()> {
        let columns = self.columns(rows);
        write_columns(&self.file, &columns, rows)?;
        common.shown.show(
            || self.table(&rows[..shown], note),
            || self.json(&columns, rows),
        )?;
        common.note(format!("results in {}", self.file.display()));
        Ok(())
    }

    fn columns(&self, rows: &[AnswerRow<S::Answer>]) -> Vec<AnswerColumn<S::Answer>> {
        let mut columns = vec![Column::text("policy", |row: &AnswerRow<S::Answer>| {
            row.entry.label.clone()
        })];
        if !self.is_tuning {
            columns.extend(self.search.condition_column());
        }
        columns.push(Column::optional("slo_ms", |row: &AnswerRow<S::Answer>| {
            Some(row.objective.slo.as_millis_f64().to_string())
        }));
        columns.push(Column::text("quantile", |row: &AnswerRow<S::Answer>| {
            row.objective.quantile.to_string()
        }));
        if self.is_tuning {
            columns.push(Column::count("round", |row: &AnswerRow<S::Answer>| {
                row.round as usize
            }));
        }
        columns.extend(self.search.answer_columns());
        if !self.is_tuning {
            columns.extend(self.search.detail_columns());
        }
        columns.push(Column::optional("caveat", |row: &AnswerRow<S::Answer>| {
            row.answer.caveat().map(str::to_owned)
        }));
        columns.extend(swept_columns(rows, |row| &row.entry.swept));
        columns
    }

    fn table(&self, rows: &[AnswerRow<S::Answer>], note: &str) -> String {
        let mut lines = Vec::new();
        // Part of the result, so never notes that `--quiet` drops.
        let mut caveats = String::new();
        for row in rows {
            let name = row.entry.name();
            let mut mark = "";
            if let Some(caveat) = row.answer.caveat() {
                caveats += &format!("? {name}: {caveat}\n");
                if row.answer.meets_objective() {
                    mark = " ?";
                }
            }
            let mut line = vec![format!("  {name}")];
            line.extend(self.search.cells(row, mark));
            lines.push(line);
        }
        format!(
            "{}: {} with {}, to {} %\n{}{note}{caveats}",
            self.name,
            self.search.title(),
            self.objective,
            self.tolerance * 100.0,
            align(&lines),
        )
    }

    fn json(&self, columns: &[AnswerColumn<S::Answer>], rows: &[AnswerRow<S::Answer>]) -> Value {
        let mut objects = Vec::new();
        for row in rows {
            let mut object = to_object(columns, row);
            if let Some(object) = object.as_object_mut() {
                self.search.detail_json(&row.answer, object);
            }
            objects.push(object);
        }
        json!({
            "scenario": self.name,
            "objective": self.objective.to_string(),
            "slo_ms": self.objective.slo.as_millis_f64(),
            "quantile": self.objective.quantile,
            "tolerance": self.tolerance,
            "rows": objects,
        })
    }
}

fn count_workers(workers: u32) -> String {
    format!("{workers} worker{}", if workers == 1 { "" } else { "s" })
}

fn describe_rate(rate: Option<Rate>, half_width: Option<f64>) -> String {
    let Some(Rate(rate)) = rate else {
        return "holds at no rate".into();
    };
    // Low rates have three digits too.
    let digits = if rate < 10.0 {
        2
    } else if rate < 100.0 {
        1
    } else {
        0
    };
    match half_width {
        Some(half_width) => format!("{rate:.digits$} ± {half_width:.digits$} req/s"),
        None => format!("{rate:.digits$} req/s"),
    }
}
