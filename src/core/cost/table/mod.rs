//! The profiled cost table: a CSV file of `cell,batch,ns`, with optional `input` and `stddev_ns`.

mod cell_time;
mod costs;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use self::cell_time::{CellTime, CurvesByInput};
pub use self::costs::TableCosts;
use self::costs::{LaunchCosts, OperatorCosts, PARTS, RowChangeCosts, StepCosts};
use super::Extra;
use super::curve::Curve;
use super::decoder::DecoderRoofline;
use super::operators;
use super::persistent::PersistentKernels;
use super::roofline::{Roofline, RooflineKernels};
use super::traffic::Traffic;
use crate::base::error::{Error, Result};
use crate::base::precision::Precision;
use crate::base::shipped;
use crate::base::units::{Nanos, nanos_or_time, scale_decimal};
use crate::core::workload::dnn::Form;
use crate::core::workload::input::{self, Columns};
use crate::core::workload::model::{CellType, ITERATION, Model};
use crate::core::workload::operator::Sizes;
use crate::core::workload::operator::catalogue::Catalogue;
use crate::core::workload::row_names::{
    BANDWIDTH, CHANGE, DEMAND, FURTHER_LAUNCH, GATHER, GATHER_LAUNCH, GROW, HOST, KERNEL, LAUNCH,
    PERSISTENT, POLICY_ROWS, SHRINK, SWITCH, TASK, TRANSFER, WHOLE,
};

/// The largest batch of a row: [`Curve::best`] tries all batches up to it.
pub const MAX_BATCH: u32 = 1 << 20;

/// The time that the slowest row of a table has at least: starting a kernel alone takes a microsecond or more.
const LEAST_PLAUSIBLE: Nanos = Nanos(1_000);

/// The beginning of the comment in which a profile says why its table cannot be used.
pub const NOT_USABLE: &str = "# not usable: ";

const COLUMNS: [&str; 5] = ["cell", "batch", "ns", "input", "stddev_ns"];
/// The columns for a language model's iterations: tokens and context instead of batch and input. Times are interpolated
/// over the context, not padded to the next input.
const ITERATION_COLUMNS: [&str; 5] = ["cell", "tokens", "ns", "context", "stddev_ns"];
const FORMAT: &str = "a cost table has the columns cell,batch,ns and may have input,stddev_ns, or for \
                      iterations of a language model cell,tokens,context,ns";

/// What a cost table's file says, and what is added for the cells that have no rows. [`CostTable::costs_for`] makes a
/// model's costs of it.
#[derive(Clone, Debug)]
pub struct CostTable {
    /// The name of the file, for messages.
    name: String,
    /// The times by the name in the column `cell`.
    cells: BTreeMap<String, CellTime>,
    /// The rows with a deviation, in the order of the file.
    measured: Vec<MeasuredRow>,
    /// Why the file says that it cannot be used.
    remark: Option<String>,
    persistent: Option<Arc<PersistentKernels>>,
    /// Why persistent kernels, which were asked for, do not run.
    traditional: Option<String>,
    kv_tokens: Option<u64>,
    bandwidth_mb_s: Option<u64>,
    /// What the steps of each cell move, if the table names the device's bandwidth.
    traffic: BTreeMap<String, Arc<Traffic>>,
}

/// A row of a table that was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct MeasuredRow {
    /// The name in the column `cell`.
    pub cell: String,
    pub batch: u32,
    pub time: Nanos,
    /// The standard deviation of single measurements, in nanoseconds.
    pub deviation: f64,
}

/// A scenario's overheads for each task. An overhead that is `None` comes from the table's rows, or is 0 without rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Overhead {
    #[serde(rename = "task_ns", deserialize_with = "nanos_or_time")]
    pub task: Option<Nanos>,
    /// The overhead of a task with new members.
    #[serde(rename = "gather_ns", deserialize_with = "nanos_or_time")]
    pub gather: Option<Nanos>,
    /// The time from the submission to the earliest start.
    #[serde(rename = "launch_ns", deserialize_with = "nanos_or_time")]
    pub launch: Option<Nanos>,
}

impl Overhead {
    /// These overheads, with the defaults for those that are not given.
    #[must_use]
    pub fn or(self, default: Overhead) -> Overhead {
        Overhead {
            task: self.task.or(default.task),
            gather: self.gather.or(default.gather),
            launch: self.launch.or(default.launch),
        }
    }

    /// The given overhead of the rows with this name.
    fn row(&self, name: &str) -> Option<Nanos> {
        match name {
            TASK => self.task,
            GATHER => self.gather,
            LAUNCH => self.launch,
            _ => None,
        }
    }
}

/// The times in ns of one name's rows, by input and batch.
type Points = BTreeMap<u32, BTreeMap<u32, u64>>;

impl CostTable {
    pub fn read(path: &Path) -> Result<CostTable> {
        let text = shipped::text(path)?;
        CostTable::parse(&text, &path.display().to_string())
    }

    /// Reads the text of a table; `name` is for messages. Lines that begin with `#` are comments, of which one may say
    /// that the table is [`NOT_USABLE`].
    pub fn parse(text: &str, name: &str) -> Result<CostTable> {
        let mut lines = input::lines(text);
        let (line, header) = lines.next().unwrap_or((1, ""));
        let has_context = header.split(',').any(is_context);
        let columns = if has_context {
            ITERATION_COLUMNS
        } else {
            COLUMNS
        };
        let refuse = |line: usize| move |problem| Error::input(format!("{name}:{line}: {problem}"));
        let header = Columns::parse(header, columns, 3, FORMAT).map_err(refuse(line))?;
        let mut rows: BTreeMap<String, Points> = BTreeMap::new();
        let mut measured = Vec::new();
        for (line, row) in lines {
            let fields = header.row(row).map_err(refuse(line))?;
            let deviation = deviation(&fields[4], columns[4]).map_err(refuse(line))?;
            let (cell, input, batch, ns) = point(fields, &columns).map_err(refuse(line))?;
            check_range(&cell, input, batch, ns).map_err(refuse(line))?;
            let batches = rows
                .entry(cell.clone())
                .or_default()
                .entry(input)
                .or_default();
            if batches.insert(batch, ns).is_some() {
                let twice = format!(
                    "a second row for the cell \"{cell}\" at batch {batch}; each batch has one row"
                );
                return Err(refuse(line)(twice));
            }
            if let Some(deviation) = deviation {
                measured.push(MeasuredRow {
                    cell,
                    batch,
                    time: Nanos(ns),
                    deviation,
                });
            }
        }
        if rows.is_empty() {
            return Err(Error::input(format!(
                "{name}: no rows; a cost table has at least one line cell,batch,ns"
            )));
        }
        let bandwidth_mb_s = rows.remove(BANDWIDTH).map(|points| points[&0][&1]);
        let cells = rows
            .into_iter()
            .map(|(cell, points)| (cell, cell_time(points, has_context)))
            .collect();
        Ok(CostTable {
            name: name.to_string(),
            cells,
            measured,
            remark: text
                .lines()
                .find_map(|line| line.strip_prefix(NOT_USABLE))
                .map(|remark| remark.trim().to_string()),
            bandwidth_mb_s,
            ..CostTable::empty()
        })
    }

    /// A table without rows, to which computed times are added.
    pub fn empty() -> CostTable {
        CostTable {
            name: "the cost table".into(),
            cells: BTreeMap::new(),
            measured: Vec::new(),
            remark: None,
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
                Some(network) => {
                    let form = &network.distinct()[place].form;
                    Some(Traffic::from_form(form, precision, bandwidth))
                }
                None => {
                    Traffic::from_operators(&operators[place], cell.chain, precision, bandwidth)
                }
            };
            if let Some(traffic) = traffic {
                self.traffic.insert(cell.name, Arc::new(traffic));
            }
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
        // Operators of a listed network with one form share their kernels, and so the cache of their times.
        let mut known: BTreeMap<&Form, Arc<RooflineKernels>> = BTreeMap::new();
        let operators = model.operators(sizes);
        for (place, cell) in model.cell_types().into_iter().enumerate() {
            if self.has(&cell.name) {
                continue;
            }
            let kernels = match model.network() {
                Some(network) => {
                    let form = &network.distinct()[place].form;
                    let kernels = known.entry(form).or_insert_with(|| {
                        Arc::new(RooflineKernels::new(Arc::clone(device), vec![form.clone()]))
                    });
                    Arc::clone(kernels)
                }
                None => {
                    match RooflineKernels::from_operators(device, &operators[place], cell.chain) {
                        Some(kernels) => Arc::new(kernels),
                        None => return Err(unknown_operators(&cell.name, model, device)),
                    }
                }
            };
            self.cells.insert(cell.name, CellTime::Computed(kernels));
        }
        Ok(self)
    }

    /// Adds the iterations of a language model by the roofline, unless there are rows for them.
    #[must_use]
    pub fn or_decoder(mut self, decoder: DecoderRoofline) -> CostTable {
        let iteration = self.cells.entry(ITERATION.into());
        iteration.or_insert_with(|| CellTime::Decoder(Arc::new(decoder)));
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
    pub fn with_persistent(mut self, kernels: Arc<PersistentKernels>, cell: &str) -> CostTable {
        if !self.has(cell) {
            let launches = CellTime::Persistent(Arc::clone(&kernels));
            self.cells.insert(cell.to_string(), launches);
        }
        self.persistent = Some(kernels);
        self
    }

    /// Notes why persistent kernels, which were asked for, do not run.
    #[must_use]
    pub fn with_traditional_kernels(self, because: String) -> CostTable {
        CostTable {
            traditional: Some(because),
            ..self
        }
    }

    /// Why cells run in traditional kernels although persistent ones were asked for.
    pub fn traditional(&self) -> Option<&str> {
        self.traditional.as_deref()
    }

    /// The times of the cell's persistent kernels, or `None` if the table has no rows for them.
    ///
    /// # Errors
    /// There are rows for the steps but none for the launches, or none for the steps.
    pub fn persistent(&self, cell: &str) -> Result<Option<PersistentKernels>> {
        let step_name = format!("{cell}.{PERSISTENT}");
        let launch_name = format!("{cell}.{PERSISTENT}.{LAUNCH}");
        let (there, missing) = match (self.curve(&step_name), self.curve(&launch_name)) {
            (Some(step), Some(launch)) => {
                return Ok(Some(PersistentKernels::Measured {
                    step: step.clone(),
                    launch: launch.clone(),
                }));
            }
            (None, None) => return Ok(None),
            (Some(_), None) => (step_name, launch_name),
            (None, Some(_)) => (launch_name, step_name),
        };
        Err(Error::input(format!(
            "{}: rows for \"{there}\" but none for \"{missing}\"; a launch is the sum of both, and batchlab profile --grnn measures both",
            self.name
        )))
    }

    /// The name of the file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The rows with a deviation.
    pub fn measured_rows(&self) -> &[MeasuredRow] {
        &self.measured
    }

    /// Why the table cannot be used, if its file says so.
    pub fn remark(&self) -> Option<&str> {
        self.remark.as_deref()
    }

    /// Notes on times that are more often a mistake of the table than a property of a device: a larger batch that takes
    /// less time, and a table in which nothing takes a microsecond.
    pub fn doubts(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let mut longest: Option<(Nanos, u32, &str)> = None;
        for (cell, time) in &self.cells {
            let CellTime::Rows(rows) = time else {
                continue;
            };
            if is_demand(cell) {
                continue;
            }
            for (_, curve) in &rows.curves {
                let batch = *curve.measured_batches().end();
                longest = longest.max(Some((curve.time(batch), batch, cell.as_str())));
            }
            if let Some((from, to)) = rows.curves.iter().find_map(|(_, curve)| curve.falls()) {
                notes.push(format!(
                    "{}: the time of {cell} falls from batch {from} to {to}; check the table",
                    self.name
                ));
            }
        }
        if let Some((time, batch, cell)) = longest
            && time < LEAST_PLAUSIBLE
        {
            notes.push(format!(
                "{}: a batch of {batch} of {cell} takes {time}, and nothing takes longer: are these milliseconds? the \
                 column ns has nanoseconds",
                self.name
            ));
        }
        notes
    }

    /// The curve of a name whose rows have no inputs.
    fn curve(&self, name: &str) -> Option<&Curve> {
        match self.cells.get(name)? {
            CellTime::Rows(rows) => Some(&rows.curves[0].1),
            _ => None,
        }
    }

    /// The time of the rows `CELL{part}`. A name that ends in a number falls back to the name without it: `internal`
    /// for `internal1`.
    fn time(&self, cell: &str, part: &str) -> Option<&CellTime> {
        let without_number = cell.trim_end_matches(|letter: char| letter.is_ascii_digit());
        [cell, without_number]
            .into_iter()
            .find_map(|name| self.cells.get(&format!("{name}{part}")))
    }

    /// Whether states that move to another worker have a cost.
    pub fn prices_transfers(&self) -> bool {
        self.curve(TRANSFER).is_some()
    }

    /// Whether the table has times for a cell.
    pub fn has(&self, cell: &str) -> bool {
        self.time(cell, "").is_some()
    }

    /// The costs of a cell's steps in tasks of any kind, or of an operator's.
    fn step(&self, cell: &str, run: CellTime) -> StepCosts {
        let demand = match self.time(cell, &format!(".{DEMAND}")) {
            Some(CellTime::Rows(rows) | CellTime::Grid(rows)) => Some(rows.clone()),
            _ => None,
        };
        // Times of a data sheet keep the rule by the preferred batch.
        let traffic = match run {
            CellTime::Rows(_) => self.traffic.get(cell).cloned(),
            _ => None,
        };
        StepCosts {
            run,
            switch: self.time(cell, &format!(".{SWITCH}")).cloned(),
            demand,
            traffic,
        }
    }

    /// The costs of a cell's steps in tasks of whole requests, which may have rows of their own. Otherwise they are
    /// those of steps in other tasks.
    fn whole_step(&self, cell: &str, otherwise: &StepCosts) -> Result<StepCosts> {
        let run = self.time(cell, &format!(".{WHOLE}"));
        let switch = self.time(cell, &format!(".{WHOLE}.{SWITCH}"));
        match (run, switch) {
            (Some(run), switch) => Ok(StepCosts {
                run: run.clone(),
                switch: switch.cloned(),
                ..otherwise.clone()
            }),
            (None, None) => Ok(otherwise.clone()),
            (None, Some(_)) => Err(Error::input(format!(
                "{}: rows for \"{cell}.{WHOLE}.{SWITCH}\" but none for \"{cell}.{WHOLE}\"; they are added to those",
                self.name
            ))),
        }
    }

    /// The costs of a model with these cells.
    ///
    /// # Errors
    /// A cell has no times.
    pub fn costs_for(&self, cells: &[CellType], overhead: Overhead) -> Result<TableCosts> {
        let mut steps = Vec::with_capacity(cells.len());
        let mut whole_steps = Vec::with_capacity(cells.len());
        for cell in cells {
            let Some(time) = self.time(&cell.name, "") else {
                return Err(self.missing_rows(&cell.name));
            };
            let step = self.step(&cell.name, time.clone());
            whole_steps.push(self.whole_step(&cell.name, &step)?);
            steps.push(step);
        }
        let extras = Extra::ROWS.map(|name| match overhead.row(name) {
            Some(time) => Some(Curve::constant(time)),
            None => self.curve(name).cloned(),
        });
        Ok(TableCosts {
            launches: self.launches(&overhead),
            row_changes: self.row_changes(cells),
            batches: cells.iter().map(|cell| cell.batches.clone()).collect(),
            steps,
            whole_steps,
            extras,
            change: match overhead.gather {
                Some(_) => None,
                None => self.curve(CHANGE).cloned(),
            },
            policy_rows: POLICY_ROWS.map(|name| self.curve(name).cloned()),
            transfer: self.curve(TRANSFER).cloned(),
            operators: Vec::new(),
            kernel: self.curve(KERNEL).cloned(),
            persistent: self.persistent.clone(),
            kv_tokens: self.kv_tokens,
        })
    }

    /// The costs of launches in addition to the rows `launch`. A launch that the scenario gives holds for all tasks.
    fn launches(&self, overhead: &Overhead) -> LaunchCosts {
        if overhead.launch.is_some() {
            return LaunchCosts::default();
        }
        LaunchCosts {
            gather: self.curve(GATHER_LAUNCH).cloned(),
            further: self.curve(FURTHER_LAUNCH).cloned(),
        }
    }

    /// The costs of new rows in steps of whole requests; `None` without any such row of the table.
    fn row_changes(&self, cells: &[CellType]) -> Option<RowChangeCosts> {
        let [shrink, grow, host] = [SHRINK, GROW, HOST].map(|name| self.curve(name).cloned());
        if shrink.is_none() && grow.is_none() && host.is_none() {
            return None;
        }
        Some(RowChangeCosts {
            stays: cells.iter().map(|cell| cell.chain).collect(),
            shrink,
            grow,
            host,
        })
    }

    fn missing_rows(&self, cell: &str) -> Error {
        let known: Vec<&str> = self.cells.keys().map(String::as_str).collect();
        Error::input(format!(
            "{}: no rows for the cell \"{cell}\", which the model needs; the table has: {}",
            self.name,
            known.join(", ")
        ))
    }

    /// The costs of a model with these cells and operators, as [`CostTable::costs_for`], for steps that may be
    /// operators.
    pub fn costs_for_operators(
        &self,
        cells: &[CellType],
        operators: &Catalogue,
        overhead: Overhead,
    ) -> Result<TableCosts> {
        let mut costs = Vec::with_capacity(operators.entries.len());
        for entry in &operators.entries {
            costs.push(match self.cells.get(&entry.name) {
                Some(time) => OperatorCosts::Own(Box::new(self.step(&entry.name, time.clone()))),
                None => OperatorCosts::Share(operators::OperatorShare::from_operator(
                    &entry.operator,
                    entry.cell,
                    &operators.operators[entry.cell.index()].operators,
                    cells[entry.cell.index()].chain,
                )),
            });
        }
        Ok(TableCosts {
            operators: costs,
            ..self.costs_for(cells, overhead)?
        })
    }

    /// The largest input with rows; `None` if the time is computed or does not depend on the input.
    pub fn largest_input(&self, cell: &str) -> Option<u32> {
        let CellTime::Rows(rows) = self.time(cell, "")? else {
            return None;
        };
        let (largest, _) = rows.curves.last()?;
        if *largest > 0 { Some(*largest) } else { None }
    }
}

fn unknown_operators(cell: &str, model: &Model, device: &Roofline) -> Error {
    Error::input(format!(
        "the operators of the cell \"{cell}\" of {} are unknown, so the roofline of {} gives no times for it; add rows \
         to a cost table (device.costs), or take a model that lists its operators (dnn:FILE.csv)",
        model.name(),
        device.name
    ))
}

/// Whether a column is the context of a language model's iterations.
fn is_context(column: &str) -> bool {
    column.trim().trim_matches('"') == ITERATION_COLUMNS[3]
}

/// The time of the rows of one name.
fn cell_time(points: Points, has_context: bool) -> CellTime {
    let mut curves = Vec::with_capacity(points.len());
    for (input, batches) in points {
        let curve = Curve::new(batches).expect("rows have batches from 1 on");
        curves.push((input, curve));
    }
    let is_grid = has_context && curves.len() > 1;
    let rows = CurvesByInput { curves };
    if is_grid {
        CellTime::Grid(rows)
    } else {
        CellTime::Rows(rows)
    }
}

/// The cell, the input, the batch and the time of a row.
fn point(
    [cell, batch, ns, input, _]: [String; 5],
    columns: &[&str; 5],
) -> Result<(String, u32, u32, u64), String> {
    let refuse = |column: usize, text: &str, what: &str| {
        format!("{}: \"{text}\" is not {what}", columns[column])
    };
    if cell.is_empty() {
        return Err(refuse(0, &cell, "the name of a cell"));
    }
    let size = batch
        .parse()
        .ok()
        .filter(|size| (1..=MAX_BATCH).contains(size))
        .ok_or_else(|| refuse(1, &batch, &format!("a whole number from 1 to {MAX_BATCH}")))?;
    let time = ns.parse().map_err(|_| {
        let problem = refuse(2, &ns, "a whole number of nanoseconds, 0 or more");
        match scale_decimal(&ns, 6) {
            Some(nanos) if ns.contains('.') => format!("{problem}; {ns} ms are {nanos}"),
            _ => problem,
        }
    })?;
    let input = if input.is_empty() { "0" } else { &*input };
    let input_size = input
        .parse()
        .map_err(|_| refuse(3, input, "a whole number, 0 or more"))?;
    Ok((cell, input_size, size, time))
}

/// The standard deviation of a row in nanoseconds; `None` for an empty field.
fn deviation(text: &str, column: &str) -> Result<Option<f64>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    match text.parse() {
        Ok(deviation) if deviation >= 0.0 => Ok(Some(deviation)),
        _ => Err(format!(
            "{column}: \"{text}\" is not a number of nanoseconds, 0 or more"
        )),
    }
}

/// Whether the rows of a name are demands (`CELL.demand`).
pub(crate) fn is_demand(name: &str) -> bool {
    name.strip_suffix(DEMAND)
        .is_some_and(|cell| cell.ends_with('.'))
}

/// Refuses a value that is out of range, in rows that hold no times.
fn check_range(name: &str, input: u32, batch: u32, value: u64) -> Result<(), String> {
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
