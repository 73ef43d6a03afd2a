//! Objectives of searches on the command line, and their answers as tables.

use std::path::PathBuf;

use serde_json::{Map, Value, json};

use super::Common;
use crate::base::error::{Error, Result};
use crate::base::units::{Nanos, Rate};
use crate::lab::results::columns::{Column, MetricUnit, decimals, swept_columns, to_object};
use crate::lab::results::table::{align, significant};
use crate::lab::results::write::write_columns;
use crate::lab::scenario::{PolicyEntry, Quantile, Scenario, parse_name};
use crate::lab::search::objective::{Objective, ObjectiveTime, RequestLimit};
use crate::lab::search::rate::{Knee, RateSearch};
use crate::lab::search::workers::{FewerWorkers, WorkerCount, WorkerSearch, count_workers};
use crate::lab::search::{Finding, Search};

/// A scenario and its objective.
#[derive(clap::Args, Clone, Debug)]
pub(super) struct ObjectiveArgs {
    /// Scenario, a file or a name that batchlab scenarios lists; its arrivals must have a rate
    #[arg(value_name = "SCENARIO")]
    pub(super) scenario: PathBuf,

    /// Latency objective for all requests, with its unit, such as 100ms [default: the slo of each `[[class]]`, and the
    /// scenario's metrics.slo for classes without one]
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
    /// The words that give the same objective.
    pub(super) fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        for (option, time) in [("slo", self.slo), ("ttft", self.ttft), ("tbt", self.tbt)] {
            words.extend(time.map(|time| format!("--{option}={time}")));
        }
        words.extend(
            self.quantile
                .map(|quantile| format!("--quantile={quantile}")),
        );
        words
    }

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
        let limits = match self.ttft.or(self.slo) {
            Some(slo) => vec![RequestLimit { class: None, slo }],
            None => RequestLimit::read(scenario, example)?,
        };
        let limited = if self.ttft.is_some() {
            ObjectiveTime::FirstToken { max_gap: self.tbt }
        } else {
            ObjectiveTime::Latency
        };
        Ok(Objective {
            limits,
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
    /// Whether `tune` chose these settings.
    pub is_chosen: bool,
}

impl<A: Finding> AnswerRow<A> {
    /// The class that limits the answer, if it is one of several with objectives.
    fn limiting_class(&self) -> Option<&str> {
        let class = self.answer.limiting_class();
        class.filter(|_| self.objective.limits.len() > 1)
    }

    /// The limiting class in words, or nothing.
    fn describe_limiting(&self) -> String {
        let class = self.limiting_class();
        class.map_or(String::new(), |class| format!("limited by class {class}"))
    }
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

    /// Lines below the table, or nothing.
    fn note(&self, rows: &[AnswerRow<Self::Answer>]) -> String;
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
            Column::number(
                "lowest_rps",
                MetricUnit::PerSecond,
                |row: &AnswerRow<Knee>| Some(row.answer.lowest_mean()?.0),
            ),
            Column::number(
                "lowest_rps_ci",
                MetricUnit::PerSecond,
                |row: &AnswerRow<Knee>| row.answer.lowest_half_width(),
            ),
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
        let answer = &row.answer;
        let Some(rate) = answer.mean() else {
            return vec!["holds at no rate".into()];
        };
        let highest = describe_rate(rate, answer.half_width());
        let lowest = answer.lowest_mean().map_or(String::new(), |lowest| {
            let lowest = describe_rate(lowest, answer.lowest_half_width());
            format!("from {lowest}")
        });
        vec![highest + mark, lowest, row.describe_limiting()]
    }

    fn note(&self, rows: &[AnswerRow<Knee>]) -> String {
        let mut note = String::new();
        if rows.iter().any(|row| row.answer.half_width().is_some()) {
            note += "± half the width of the 95 % interval over the replications\n";
        }
        if rows.iter().any(|row| row.answer.lowest_mean().is_some()) {
            note += "from: below this rate the objective is missed too, because requests wait for others\n";
        }
        note
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
            Column::number(
                "fewer_latency_ms",
                MetricUnit::Millis,
                |row: &AnswerRow<WorkerCount>| {
                    let fewer = row.answer.fewer.as_ref()?;
                    fewer.latency.map(Nanos::as_millis_f64)
                },
            ),
            Column::optional("fewer_miss", |row: &AnswerRow<WorkerCount>| {
                Some(row.answer.fewer.as_ref()?.miss.clone())
            }),
            Column::count("requests", |row: &AnswerRow<WorkerCount>| {
                row.answer.requests as usize
            }),
        ]
    }

    fn detail_json(&self, _: &WorkerCount, _: &mut Map<String, Value>) {}

    fn cells(&self, row: &AnswerRow<WorkerCount>, mark: &str) -> Vec<String> {
        let answer = &row.answer;
        let Some(workers) = answer.workers else {
            let most = count_workers(self.most);
            return vec![format!("holds with no number up to {most}")];
        };
        let quantile = row.objective.quantile;
        let slo = row.objective.slo(answer.limiting_class());
        let spare = match (answer.latency, slo) {
            (Some(latency), Some(slo)) => {
                let part = latency.as_secs_f64() / slo.as_secs_f64();
                format!(
                    "{quantile} {} ms, {:.0} % below the objective",
                    significant(latency.as_millis_f64()),
                    100.0 * (1.0 - part)
                )
            }
            _ => String::new(),
        };
        let fewer = answer.fewer.as_ref().map_or(String::new(), |fewer| {
            let count = count_workers(workers - 1);
            match fewer {
                FewerWorkers {
                    is_saturated: true, ..
                } => format!("{count}: the queue grows"),
                FewerWorkers {
                    latency: Some(latency),
                    ..
                } => {
                    let latency = significant(latency.as_millis_f64());
                    format!("{count}: {quantile} {latency} ms")
                }
                FewerWorkers { miss, .. } => format!("{count}: {miss}"),
            }
        });
        let count = count_workers(workers) + mark;
        vec![count, spare, fewer, row.describe_limiting()]
    }

    fn note(&self, _: &[AnswerRow<WorkerCount>]) -> String {
        String::new()
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
            let slo = row.objective.slo(row.answer.limiting_class())?;
            Some(slo.as_millis_f64().to_string())
        }));
        columns.push(Column::text("quantile", |row: &AnswerRow<S::Answer>| {
            row.objective.quantile.to_string()
        }));
        if self.is_tuning {
            columns.push(Column::truth("chosen", |row: &AnswerRow<S::Answer>| {
                Some(row.is_chosen)
            }));
            columns.push(Column::count("round", |row: &AnswerRow<S::Answer>| {
                row.round as usize
            }));
        }
        columns.extend(self.search.answer_columns());
        if !self.is_tuning {
            columns.extend(self.search.detail_columns());
        }
        columns.push(Column::optional(
            "limiting_class",
            |row: &AnswerRow<S::Answer>| row.limiting_class().map(str::to_owned),
        ));
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
            if row.is_chosen {
                line.push("chosen".into());
            }
            lines.push(line);
        }
        remove_empty_columns(&mut lines);
        format!(
            "{}: {} with {}, to {} %\n{}{note}{caveats}",
            self.name,
            self.search.title(),
            self.objective,
            self.tolerance * 100.0,
            align(&lines),
        )
    }

    /// The answer of a row as a sentence, such as `The highest rate with p99 at most 100ms: 542 ± 27 req/s.`
    pub fn sentence(&self, row: &AnswerRow<S::Answer>) -> String {
        let mut cells = self.search.cells(row, "");
        cells.retain(|cell| !cell.is_empty());
        let title = self.search.title();
        let (first, rest) = title.split_at(1);
        format!(
            "{}{rest} with {}: {}.",
            first.to_uppercase(),
            self.objective,
            cells.join(", ")
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
        let by_class: Map<String, Value> = self
            .objective
            .limits
            .iter()
            .filter_map(|limit| Some((limit.class.clone()?, json!(limit.slo.as_millis_f64()))))
            .collect();
        json!({
            "scenario": self.name,
            "objective": self.objective.to_string(),
            "slo_ms": self.objective.slo(None).map(Nanos::as_millis_f64),
            "slo_ms_by_class": by_class,
            "quantile": self.objective.quantile,
            "tolerance": self.tolerance,
            "rows": objects,
        })
    }
}

/// Removes the columns of a table that are empty in all lines.
fn remove_empty_columns(lines: &mut [Vec<String>]) {
    let count = lines.iter().map(Vec::len).max().unwrap_or(0);
    for column in (0..count).rev() {
        let mut cells = lines.iter().filter_map(|line| line.get(column));
        if cells.all(String::is_empty) {
            for line in lines.iter_mut().filter(|line| line.len() > column) {
                line.remove(column);
            }
        }
    }
}

/// A rate with three digits, however low.
pub(super) fn describe_rate(Rate(rate): Rate, half_width: Option<f64>) -> String {
    let digits = decimals(rate, 3);
    match half_width {
        Some(half_width) => format!("{rate:.digits$} ± {half_width:.digits$} req/s"),
        None => format!("{rate:.digits$} req/s"),
    }
}
