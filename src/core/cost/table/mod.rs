//! The profiled cost table: a CSV file of `cell,batch,ns`, with optional `input` and `stddev_ns`.

mod model;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use self::model::TableModel;
use self::model::{CellCosts, OperatorCosts, PARTS, Rows, StepCosts};
use super::Extra;
use super::curve::Curve;
use super::decoder::Decoder;
use super::operators;
use super::persistent::Persistent;
use super::roofline::{Kernels, Roofline};
use super::traffic::Traffic;
use crate::base::error::{Error, Result};
use crate::base::precision::Precision;
use crate::base::shipped;
use crate::base::units::{Nanos, nanos_or_time};
use crate::core::workload::dnn::Form;
use crate::core::workload::input::{self, Columns};
use crate::core::workload::model::{CellType, Model};
use crate::core::workload::operator::Sizes;
use crate::core::workload::operator::catalogue::Catalogue;
use crate::core::workload::row_names::{
    BANDWIDTH, DEMAND, GATHER, ITERATION, KERNEL, LAUNCH, PERSISTENT, POLICY_ROWS, SWITCH, TASK,
    TRANSFER, WHOLE,
};

/// [`Curve::best`] tries all batches up to it.
pub const MAX_BATCH: u32 = 1 << 20;

const COLUMNS: [&str; 5] = ["cell", "batch", "ns", "input", "stddev_ns"];
/// Of a language model's iterations, instead of batch and input. Times are interpolated over the context, not padded to
/// the next input.
const ITERATIONS: [&str; 5] = ["cell", "tokens", "ns", "context", "stddev_ns"];
const FORMAT: &str = "a cost table has the columns cell,batch,ns and may have input,stddev_ns, or for \
                      iterations of a language model cell,tokens,context,ns";

#[derive(Clone, Debug)]
pub struct CostTable {
    name: String,
    cells: BTreeMap<String, CellCosts>,
    persistent: Option<Arc<Persistent>>,
    traditional: Option<String>,
    kv_tokens: Option<u64>,
    bandwidth_mb_s: Option<u64>,
    /// What the steps of each cell move, if the table names the device's bandwidth.
    traffic: BTreeMap<String, Arc<Traffic>>,
}

/// A scenario's overheads per task. `None`: the table's rows of that name, or 0 without rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Overhead {
    #[serde(rename = "task_ns", deserialize_with = "nanos_or_time")]
    pub task: Option<Nanos>,
    /// Of a task with new members.
    #[serde(rename = "gather_ns", deserialize_with = "nanos_or_time")]
    pub gather: Option<Nanos>,
    /// From the submission to the earliest start.
    #[serde(rename = "launch_ns", deserialize_with = "nanos_or_time")]
    pub launch: Option<Nanos>,
}

impl Overhead {
    #[must_use]
    pub fn or(self, default: Overhead) -> Overhead {
        Overhead {
            task: self.task.or(default.task),
            gather: self.gather.or(default.gather),
            launch: self.launch.or(default.launch),
        }
    }
}

impl CostTable {
    pub fn read(path: &Path) -> Result<CostTable> {
        let text = shipped::text(path)?;
        CostTable::parse(&text, &path.display().to_string())
    }

    /// `name` is for messages. Lines that begin with `#` are comments.
    pub fn parse(text: &str, name: &str) -> Result<CostTable> {
        let mut lines = input::lines(text);
        let (line, header) = lines.next().unwrap_or((1, ""));
        let is_context = |name: &str| name.trim().trim_matches('"') == ITERATIONS[3];
        let has_context = header.split(',').any(is_context);
        let columns = if has_context { ITERATIONS } else { COLUMNS };
        let refuse = |line: usize| move |problem| Error::input(format!("{name}:{line}: {problem}"));
        let header = Columns::parse(header, columns, 3, FORMAT).map_err(refuse(line))?;
        // By cell, input and batch.
        let mut points: BTreeMap<String, BTreeMap<u32, BTreeMap<u32, u64>>> = BTreeMap::new();
        for (line, text) in lines {
            let (cell, input, batch, ns) = header
                .row(text)
                .and_then(|row| point(row, &columns))
                .map_err(refuse(line))?;
            in_range(&cell, input, batch, ns).map_err(refuse(line))?;
            let curves = points.entry(cell.clone()).or_default();
            if curves.entry(input).or_default().insert(batch, ns).is_some() {
                let twice = format!(
                    "a second row for the cell \"{cell}\" at batch {batch}; each batch has one row"
                );
                return Err(refuse(line)(twice));
            }
        }
        if points.is_empty() {
            return Err(Error::input(format!(
                "{name}: no rows; a cost table has at least one line cell,batch,ns"
            )));
        }
        let costs = |inputs: BTreeMap<u32, BTreeMap<u32, u64>>| {
            let curve = |points| Curve::new(points).expect("rows have batches from 1 on");
            let rows = Rows {
                by_input: inputs
                    .into_iter()
                    .map(|(input, points)| (input, curve(points)))
                    .collect(),
            };
            let is_grid = has_context && rows.by_input.len() > 1;
            if is_grid {
                CellCosts::Grid(rows)
            } else {
                CellCosts::Rows(rows)
            }
        };
        let bandwidth_mb_s = points.remove(BANDWIDTH).map(|rows| rows[&0][&1]);
        let cells = points
            .into_iter()
            .map(|(cell, inputs)| (cell, costs(inputs)))
            .collect();
        Ok(CostTable {
            name: name.to_string(),
            cells,
            bandwidth_mb_s,
            ..CostTable::empty()
        })
    }

    pub fn empty() -> CostTable {
        CostTable {
            name: "the cost table".into(),
            cells: BTreeMap::new(),
            persistent: None,
            traditional: None,
            kv_tokens: None,
            bandwidth_mb_s: None,
            traffic: BTreeMap::new(),
        }
    }

    /// Adds what the steps of a model's cells move, if the table names the device's bandwidth.
    #[must_use]
    pub fn with_traffic(mut self, model: &Model, sizes: &Sizes, precision: Precision) -> CostTable {
        let Some(bandwidth) = self.bandwidth_mb_s else {
            return self;
        };
        let operators = model.operators(sizes);
        for (place, cell) in model.cell_types().into_iter().enumerate() {
            let traffic = match model.network() {
                Some(network) => Some(Traffic::of_listed(
                    &network.distinct()[place].form,
                    precision,
                    bandwidth,
                )),
                None => Traffic::of_cell(&operators[place], cell.chain, precision, bandwidth),
            };
            self.traffic
                .extend(traffic.map(|traffic| (cell.name, Arc::new(traffic))));
        }
        self
    }

    /// Adds times by the roofline for cells without rows.
    pub fn or_computed(
        mut self,
        device: &Arc<Roofline>,
        model: &Model,
        sizes: &Sizes,
    ) -> Result<CostTable> {
        let mut known: BTreeMap<&Form, Arc<Kernels>> = BTreeMap::new();
        let operators = model.operators(sizes);
        for (place, cell) in model.cell_types().into_iter().enumerate() {
            if self.rows(&cell.name, "").is_some() {
                continue;
            }
            let kernels = match model.network() {
                Some(network) => {
                    let form = &network.distinct()[place].form;
                    let new = || Arc::new(Kernels::new(Arc::clone(device), vec![form.clone()]));
                    Arc::clone(known.entry(form).or_insert_with(new))
                }
                None => Arc::new(Kernels::of_cell(device, &operators[place], cell.chain).ok_or_else(|| {
                    Error::input(format!(
                        "the operators of the cell \"{}\" of {} are unknown, so the roofline of {} gives no times for it; add rows \
                         to a cost table (device.costs), or take a model that lists its operators (dnn:FILE.csv)",
                        cell.name,
                        model.name(),
                        device.name
                    ))
                })?),
            };
            self.cells.insert(cell.name, CellCosts::Computed(kernels));
        }
        Ok(self)
    }

    /// Adds the iterations of a language model by the roofline, unless there are rows for them.
    #[must_use]
    pub fn or_decoder(mut self, decoder: Decoder) -> CostTable {
        let iteration = self.cells.entry(ITERATION.into());
        iteration.or_insert_with(|| CellCosts::Decoder(Arc::new(decoder)));
        self
    }

    /// Adds the tokens whose keys and values a worker holds.
    #[must_use]
    pub fn with_kv_tokens(self, kv_tokens: Option<u64>) -> CostTable {
        CostTable { kv_tokens, ..self }
    }

    /// Adds persistent kernels for the only cell, which run tasks of whole requests and of parts. A cell without costs
    /// runs single steps in them, too.
    #[must_use]
    pub fn with_persistent(mut self, kernels: Arc<Persistent>, cell: &str) -> CostTable {
        if self.rows(cell, "").is_none() {
            self.cells.insert(
                cell.to_string(),
                CellCosts::Persistent(Arc::clone(&kernels)),
            );
        }
        self.persistent = Some(kernels);
        self
    }

    /// Notes why persistent kernels, which were asked for, do not run.
    #[must_use]
    pub fn in_traditional_kernels(self, because: String) -> CostTable {
        CostTable {
            traditional: Some(because),
            ..self
        }
    }

    /// Why cells run in traditional kernels although persistent ones were asked for.
    pub fn traditional(&self) -> Option<&str> {
        self.traditional.as_deref()
    }

    pub fn persistent(&self, cell: &str) -> Result<Option<Persistent>> {
        let [step, launch] = [
            format!("{cell}.{PERSISTENT}"),
            format!("{cell}.{PERSISTENT}.{LAUNCH}"),
        ];
        let missing = |there: &str, missing: &str| {
            Error::input(format!(
                "{}: rows for \"{there}\" but none for \"{missing}\"; a launch is the sum of both, and batchlab profile --grnn measures both",
                self.name
            ))
        };
        match (self.curve(&step), self.curve(&launch)) {
            (Some(step), Some(launch)) => Ok(Some(Persistent::Measured {
                step: step.clone(),
                launch: launch.clone(),
            })),
            (Some(_), None) => Err(missing(&step, &launch)),
            (None, Some(_)) => Err(missing(&launch, &step)),
            (None, None) => Ok(None),
        }
    }

    /// A larger batch that takes less time is more often a mistake of the table than a property of a device.
    pub fn falling(&self) -> Vec<String> {
        let note = |(cell, costs): (&String, &CellCosts)| {
            let CellCosts::Rows(rows) = costs else {
                return None;
            };
            if is_demand(cell) {
                return None;
            }
            let (from, to) = rows.by_input.iter().find_map(|(_, curve)| curve.falls())?;
            Some(format!(
                "{}: the time of {cell} falls from batch {from} to {to}",
                self.name
            ))
        };
        self.cells.iter().filter_map(note).collect()
    }

    fn curve(&self, name: &str) -> Option<&Curve> {
        match self.cells.get(name)? {
            CellCosts::Rows(rows) => Some(&rows.by_input[0].1),
            _ => None,
        }
    }

    /// The rows `NAME{part}`. A name that ends in a number falls back to the name without it: `internal` for
    /// `internal1`.
    fn rows(&self, cell: &str, part: &str) -> Option<&CellCosts> {
        let any = cell.trim_end_matches(|letter: char| letter.is_ascii_digit());
        [cell, any]
            .into_iter()
            .find_map(|name| self.cells.get(&format!("{name}{part}")))
    }

    pub fn has(&self, cell: &str) -> bool {
        self.rows(cell, "").is_some()
    }

    /// The costs of a cell's steps in tasks of any kind, or of an operator.
    fn step(&self, cell: &str, run: CellCosts) -> StepCosts {
        let demand = match self.rows(cell, &format!(".{DEMAND}")) {
            Some(CellCosts::Rows(rows) | CellCosts::Grid(rows)) => Some(rows.clone()),
            _ => None,
        };
        // Times of a data sheet keep the rule by the preferred batch.
        let traffic = matches!(run, CellCosts::Rows(_))
            .then(|| self.traffic.get(cell).cloned())
            .flatten();
        StepCosts {
            run,
            switch: self.rows(cell, &format!(".{SWITCH}")).cloned(),
            demand,
            traffic,
        }
    }

    pub fn device(&self, cells: &[CellType], overhead: Overhead) -> Result<TableModel> {
        let (mut steps, mut whole_steps) = (Vec::new(), Vec::new());
        for cell in cells {
            let rows = |part: &str| self.rows(&cell.name, part).cloned();
            let unknown = || {
                let known: Vec<&str> = self.cells.keys().map(String::as_str).collect();
                Error::input(format!(
                    "{}: no rows for the cell \"{}\", which the model needs; the table has: {}",
                    self.name,
                    cell.name,
                    known.join(", ")
                ))
            };
            let anywhere = self.step(&cell.name, rows("").ok_or_else(unknown)?);
            let in_whole = match (
                rows(&format!(".{WHOLE}")),
                rows(&format!(".{WHOLE}.{SWITCH}")),
            ) {
                (Some(run), switch) => StepCosts {
                    run,
                    switch,
                    ..anywhere.clone()
                },
                (None, None) => anywhere.clone(),
                (None, Some(_)) => {
                    return Err(Error::input(format!(
                        "{}: rows for \"{cell}.{WHOLE}.{SWITCH}\" but none for \"{cell}.{WHOLE}\"; they are added to those",
                        self.name,
                        cell = cell.name
                    )));
                }
            };
            steps.push(anywhere);
            whole_steps.push(in_whole);
        }
        let extra = |name| {
            let given = match name {
                TASK => overhead.task,
                GATHER => overhead.gather,
                LAUNCH => overhead.launch,
                _ => None,
            };
            given
                .map(Curve::constant)
                .or_else(|| self.curve(name).cloned())
        };
        Ok(TableModel {
            batches: cells.iter().map(|cell| cell.batches.clone()).collect(),
            steps,
            whole_steps,
            extras: Extra::ROWS.map(extra),
            policy_rows: POLICY_ROWS.map(|name| self.curve(name).cloned()),
            transfer: self.curve(TRANSFER).cloned(),
            operators: Vec::new(),
            kernel: self.curve(KERNEL).cloned(),
            persistent: self.persistent.clone(),
            kv_tokens: self.kv_tokens,
        })
    }

    /// As [`CostTable::device`], for steps that may be operators.
    pub fn device_with(
        &self,
        cells: &[CellType],
        operators: &Catalogue,
        overhead: Overhead,
    ) -> Result<TableModel> {
        let costs = operators
            .entries
            .iter()
            .map(|entry| match self.cells.get(&entry.name) {
                Some(rows) => OperatorCosts::Own(Box::new(self.step(&entry.name, rows.clone()))),
                None => {
                    let place = entry.cell.index();
                    let (list, chain) = (&operators.operators[place].operators, cells[place].chain);
                    OperatorCosts::Share(operators::Share::of(
                        &entry.operator,
                        entry.cell,
                        list,
                        chain,
                    ))
                }
            });
        Ok(TableModel {
            operators: costs.collect(),
            ..self.device(cells, overhead)?
        })
    }

    /// `None` if the time is computed or does not depend on the input.
    pub fn largest_input(&self, cell: &str) -> Option<u32> {
        let CellCosts::Rows(rows) = self.rows(cell, "")? else {
            return None;
        };
        rows.by_input
            .last()
            .map(|(input, _)| *input)
            .filter(|input| *input > 0)
    }
}

/// The cell, the input, the batch and the time of a row.
fn point(
    [cell, batch, ns, input, spread]: [String; 5],
    columns: &[&str; 5],
) -> Result<(String, u32, u32, u64), String> {
    let refuse = |column: usize, text: &str, what: &str| {
        format!("{}: \"{text}\" is not {what}", columns[column])
    };
    if cell.is_empty() {
        return Err(refuse(0, &cell, "the name of a cell"));
    }
    // Checked but not used.
    if !spread.is_empty() && !spread.parse().is_ok_and(|spread: f64| spread >= 0.0) {
        return Err(refuse(4, &spread, "a number of nanoseconds, 0 or more"));
    }
    let allowed = batch
        .parse()
        .ok()
        .filter(|batch| (1..=MAX_BATCH).contains(batch));
    let allowed = allowed
        .ok_or_else(|| refuse(1, &batch, &format!("a whole number from 1 to {MAX_BATCH}")))?;
    let time = ns
        .parse()
        .map_err(|_| refuse(2, &ns, "a whole number of nanoseconds, 0 or more"))?;
    let size = if input.is_empty() { "0" } else { &*input };
    Ok((
        cell,
        size.parse()
            .map_err(|_| refuse(3, size, "a whole number, 0 or more"))?,
        allowed,
        time,
    ))
}

fn is_demand(name: &str) -> bool {
    name.strip_suffix(DEMAND)
        .is_some_and(|cell| cell.ends_with('.'))
}

/// Refuses a value that is out of range, in rows that hold no times.
fn in_range(name: &str, input: u32, batch: u32, value: u64) -> Result<(), String> {
    if is_demand(name) && value > PARTS.into() {
        return Err(format!(
            "ns: {value} parts per million; a demand is at most {PARTS}, the whole device (CELL.{DEMAND} is the share of it \
             that a step uses)"
        ));
    }
    if name == BANDWIDTH && ((input, batch) != (0, 1) || value == 0) {
        return Err(format!(
            "\"{BANDWIDTH}\" with batch {batch} and {value}; the bandwidth of the device's memory is one row \
             {BANDWIDTH},1,N, with N in 10^6 bytes per second, 1 or more"
        ));
    }
    Ok(())
}
