//! The profiled cost table: a CSV file of `cell,batch,ns`, with optional `input` and `stddev_ns`.

mod model;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use self::model::TableModel;
use self::model::{CellCosts, OperatorCosts, Rows, StepCosts};
use super::Extra;
use super::curve::Curve;
use super::decoder::Decoder;
use super::operators;
use super::persistent::Persistent;
use super::roofline::{Kernels, Roofline};
use crate::error::{Error, Result};
use crate::shipped;
use crate::units::{Nanos, nanos_or_time};
use crate::workload::dnn::Form;
use crate::workload::input::{self, Columns};
use crate::workload::model::{CellType, Model};
use crate::workload::operator::Sizes;
use crate::workload::operator::catalogue::Catalogue;
use crate::workload::row_names::{GATHER, ITERATION, KERNEL, LAUNCH, PERSISTENT, SWITCH, TASK, TRANSFER, WHOLE};

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
    kv_tokens: Option<u64>,
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
            let (cell, input, batch, ns) =
                header.row(text).and_then(|row| point(row, &columns)).map_err(refuse(line))?;
            let curves = points.entry(cell.clone()).or_default();
            if curves.entry(input).or_default().insert(batch, ns).is_some() {
                let twice = format!("a second row for the cell \"{cell}\" at batch {batch}; each batch has one row");
                return Err(refuse(line)(twice));
            }
        }
        if points.is_empty() {
            return Err(Error::input(format!("{name}: no rows; a cost table has at least one line cell,batch,ns")));
        }
        let costs = |inputs: BTreeMap<u32, BTreeMap<u32, u64>>| {
            let curve = |points| Curve::new(points).expect("rows have batches from 1 on");
            let rows = Rows { by_input: inputs.into_iter().map(|(input, points)| (input, curve(points))).collect() };
            let is_grid = has_context && rows.by_input.len() > 1;
            if is_grid { CellCosts::Grid(rows) } else { CellCosts::Rows(rows) }
        };
        let cells = points.into_iter().map(|(cell, inputs)| (cell, costs(inputs))).collect();
        Ok(CostTable { name: name.to_string(), cells, ..CostTable::empty() })
    }

    pub fn empty() -> CostTable {
        CostTable { name: "the cost table".into(), cells: BTreeMap::new(), persistent: None, kv_tokens: None }
    }

    /// Adds times by the roofline for cells without rows.
    pub fn or_computed(mut self, device: &Arc<Roofline>, model: &Model, sizes: &Sizes) -> Result<CostTable> {
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
            self.cells.insert(cell.to_string(), CellCosts::Persistent(Arc::clone(&kernels)));
        }
        self.persistent = Some(kernels);
        self
    }

    pub fn persistent(&self, cell: &str) -> Result<Option<Persistent>> {
        let [step, launch] = [format!("{cell}.{PERSISTENT}"), format!("{cell}.{PERSISTENT}.{LAUNCH}")];
        let missing = |there: &str, missing: &str| {
            Error::input(format!(
                "{}: rows for \"{there}\" but none for \"{missing}\"; a launch is the sum of both, and batchlab profile --grnn measures both",
                self.name
            ))
        };
        match (self.curve(&step), self.curve(&launch)) {
            (Some(step), Some(launch)) => Ok(Some(Persistent::Measured { step: step.clone(), launch: launch.clone() })),
            (Some(_), None) => Err(missing(&step, &launch)),
            (None, Some(_)) => Err(missing(&launch, &step)),
            (None, None) => Ok(None),
        }
    }

    /// A larger batch that takes less time is more often a mistake of the table than a property of a device.
    pub fn falling(&self) -> Vec<String> {
        let note = |(cell, costs): (&String, &CellCosts)| {
            let CellCosts::Rows(rows) = costs else { return None };
            let (from, to) = rows.by_input.iter().find_map(|(_, curve)| curve.falls())?;
            Some(format!("{}: the time of {cell} falls from batch {from} to {to}", self.name))
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
        [cell, any].into_iter().find_map(|name| self.cells.get(&format!("{name}{part}")))
    }

    pub fn has(&self, cell: &str) -> bool {
        self.rows(cell, "").is_some()
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
            let anywhere = StepCosts { run: rows("").ok_or_else(unknown)?, switch: rows(&format!(".{SWITCH}")) };
            let in_whole = match (rows(&format!(".{WHOLE}")), rows(&format!(".{WHOLE}.{SWITCH}"))) {
                (Some(run), switch) => StepCosts { run, switch },
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
            given.map(Curve::constant).or_else(|| self.curve(name).cloned())
        };
        Ok(TableModel {
            batches: cells.iter().map(|cell| cell.batches.clone()).collect(),
            steps,
            whole_steps,
            extras: Extra::ROWS.map(extra),
            transfer: self.curve(TRANSFER).cloned(),
            operators: Vec::new(),
            kernel: self.curve(KERNEL).cloned(),
            persistent: self.persistent.clone(),
            kv_tokens: self.kv_tokens,
        })
    }

    /// As [`CostTable::device`], for steps that may be operators.
    pub fn device_with(&self, cells: &[CellType], operators: &Catalogue, overhead: Overhead) -> Result<TableModel> {
        let costs = operators.entries.iter().map(|entry| match self.cells.get(&entry.name) {
            Some(rows) => OperatorCosts::Own(rows.clone()),
            None => {
                let place = entry.cell.index();
                let (list, chain) = (&operators.operators[place].operators, cells[place].chain);
                OperatorCosts::Share(operators::Share::of(&entry.operator, entry.cell, list, chain))
            }
        });
        Ok(TableModel { operators: costs.collect(), ..self.device(cells, overhead)? })
    }

    /// `None` if the time is computed or does not depend on the input.
    pub fn largest_input(&self, cell: &str) -> Option<u32> {
        let CellCosts::Rows(rows) = self.rows(cell, "")? else { return None };
        rows.by_input.last().map(|(input, _)| *input).filter(|input| *input > 0)
    }
}

/// The cell, the input, the batch and the time of a row.
fn point(
    [cell, batch, ns, input, spread]: [String; 5],
    columns: &[&str; 5],
) -> Result<(String, u32, u32, u64), String> {
    let refuse = |column: usize, text: &str, what: &str| format!("{}: \"{text}\" is not {what}", columns[column]);
    if cell.is_empty() {
        return Err(refuse(0, &cell, "the name of a cell"));
    }
    // Checked but not used.
    if !spread.is_empty() && !spread.parse().is_ok_and(|spread: f64| spread >= 0.0) {
        return Err(refuse(4, &spread, "a number of nanoseconds, 0 or more"));
    }
    let allowed = batch.parse().ok().filter(|batch| (1..=MAX_BATCH).contains(batch));
    let allowed = allowed.ok_or_else(|| refuse(1, &batch, &format!("a whole number from 1 to {MAX_BATCH}")))?;
    let time = ns.parse().map_err(|_| refuse(2, &ns, "a whole number of nanoseconds, 0 or more"))?;
    let size = if input.is_empty() { "0" } else { &*input };
    Ok((cell, size.parse().map_err(|_| refuse(3, size, "a whole number, 0 or more"))?, allowed, time))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::{CostModel as _, MemberKind};
    use crate::task::Step;
    use crate::units::CellId;

    #[test]
    fn a_table_is_read_whatever_the_order_of_its_rows_and_columns() {
        let table =
            CostTable::parse("\u{feff}batch, cell,ns\n# measured\n8,\"lstm\",20\n4,lstm,10\n\n1,gather,3\n", "t.csv")
                .unwrap();
        let device = table.device(&Model::Lstm.cell_types(), Overhead::default()).unwrap();
        let step = |batch| Step { cell: CellId(0), batch, times: 1, input: 0 };
        assert_eq!(device.cell(&step(6)), Nanos(15));
        assert_eq!(device.extra(Extra::Gather, 2), Nanos(6));
    }

    #[test]
    fn the_rows_of_a_name_hold_for_the_cells_that_add_a_number_to_it() {
        let rows = "cell,batch,ns\ninternal,1,10\ninternal.switch,1,3\ninternal2,1,20\nleaf,1,5\n";
        let cells = Model::ChildSumByArity(3).cell_types();
        let device = CostTable::parse(rows, "t.csv").unwrap().device(&cells, Overhead::default()).unwrap();
        let step = |cell| Step { cell: CellId(cell), batch: 1, times: 1, input: 0 };
        assert_eq!([0, 1, 2, 3].map(|cell| device.cell(&step(cell)).0), [10, 20, 10, 5]);
        assert_eq!([0, 1, 2, 3].map(|cell| device.switch(&step(cell), MemberKind::Nodes).0), [3, 3, 3, 0]);
    }

    #[test]
    fn overheads_are_the_scenarios_or_the_tables_or_nothing() {
        let rows = "cell,batch,ns\nlstm,1,10\ntask,1,3\ntask,3,7\ngather,1,20\nlaunch,2,40\n";
        let table = CostTable::parse(rows, "t.csv").unwrap();
        let device = |overhead| table.device(&Model::Lstm.cell_types(), overhead).unwrap();
        let measured = device(Overhead::default());
        let extras = |device: &TableModel, task, gather, launch| {
            let extras = [(Extra::Task, task), (Extra::Gather, gather), (Extra::Launch, launch)];
            extras.map(|(extra, batch)| device.extra(extra, batch).0)
        };
        assert_eq!(extras(&measured, 2, 2, 1), [5, 40, 40]);
        let given = Overhead { task: Some(Nanos(0)), gather: None, launch: Some(Nanos(1)) };
        assert_eq!(extras(&device(given), 9, 1, 9), [0, 20, 1]);
        let none = CostTable::parse("cell,batch,ns\nlstm,1,10\n", "t.csv").unwrap();
        let none = none.device(&Model::Lstm.cell_types(), Overhead::default()).unwrap();
        assert_eq!(extras(&none, 9, 9, 9), [0; 3]);
    }

    #[test]
    fn steps_of_whole_requests_have_rows_of_their_own_or_those_of_the_cell() {
        let rows = "cell,batch,ns\nencoder,1,10\nencoder.switch,1,3\nencoder.whole,1,8\nencoder.whole,3,16\n\
                    decoder,1,20\ndecoder.switch,1,5\nwhole,1,2\nwhole,2,7\n";
        let cells = Model::Seq2Seq.cell_types();
        let device = |rows: &str| CostTable::parse(rows, "t.csv").unwrap().device(&cells, Overhead::default());
        let costs = |rows: &str, cell: &str| {
            let device = device(rows).unwrap();
            let cell = CellId(cells.iter().position(|known| known.name == cell).unwrap() as u16);
            let step = Step { cell, batch: 2, times: 1, input: 0 };
            let switch = device.switch(&step, MemberKind::Requests);
            [device.runs(&step, MemberKind::Requests).time.0, switch.0, device.extra(Extra::Requests, 2).0]
        };
        assert_eq!(costs(rows, "encoder"), [12, 0, 7], "the switch of other tasks is none of these");
        assert_eq!(costs(rows, "decoder"), [40, 10, 7]);
        assert_eq!(costs(&format!("{rows}encoder.whole.switch,2,1\n"), "encoder"), [12, 1, 7]);
        assert_eq!(costs("cell,batch,ns\nencoder,1,10\ndecoder,1,20\n", "encoder"), [20, 0, 0]);

        let error = device(&format!("{rows}decoder.whole.switch,2,1\n")).unwrap_err().to_string();
        assert_eq!(
            error,
            "t.csv: rows for \"decoder.whole.switch\" but none for \"decoder.whole\"; they are added to those"
        );
        let twice = CostTable::parse(&format!("{rows}encoder.whole,3,1\n"), "t.csv").unwrap_err().to_string();
        assert!(twice.contains("t.csv:10: a second row for the cell \"encoder.whole\" at batch 3"), "{twice}");
    }

    #[test]
    fn a_padded_input_takes_the_next_size() {
        let table = CostTable::parse("cell,batch,ns,input\nbert,1,10,64\nbert,1,20,128\n", "t.csv").unwrap();
        let device = table.device(&Model::Dnn("bert".into()).cell_types(), Overhead::default()).unwrap();
        let at = |input| device.cell(&Step { cell: CellId(0), batch: 1, times: 1, input }).0;
        assert_eq!([at(1), at(64), at(65), at(128)], [10, 10, 20, 20]);
        assert_eq!(table.largest_input("bert"), Some(128));
        assert_eq!(device.measured(CellId(0)), 1..=1);
    }

    #[test]
    fn iterations_are_interpolated_over_tokens_and_context() {
        let rows = "cell,tokens,context,ns\niteration,1,0,100\niteration,11,0,200\niteration,1,1000,300\n\
                    iteration,11,1000,500\ntask,1,,7\n";
        let table = CostTable::parse(rows, "t.csv").unwrap();
        let device = table.device(&Model::Llm(None).cell_types(), Overhead::default()).unwrap();
        let at = |batch, input| device.cell(&Step { cell: CellId(0), batch, times: 1, input }).0;
        assert_eq!([at(1, 0), at(11, 0), at(1, 1000), at(11, 1000)], [100, 200, 300, 500]);
        assert_eq!([at(6, 0), at(1, 500), at(6, 500), at(6, 1)], [150, 200, 275, 150], "0.25 is rounded down");
        assert_eq!(at(6, 2000), 650, "beyond the last, the line goes on");
        assert_eq!(device.extra(Extra::Task, 9), Nanos(63));
        let error = CostTable::parse("cell,tokens,context,ns\niteration,x,0,1\n", "t.csv").unwrap_err().to_string();
        assert!(error.contains("t.csv:2: tokens: \"x\" is not a whole number"), "{error}");
    }

    #[test]
    fn broken_tables_are_named_by_line() {
        for (text, part) in [
            ("", "t.csv:1: no column \"cell\""),
            ("cell,batch\nlstm,1\n", "t.csv:1: no column \"ns\""),
            ("cell,batch,ns,colour\n", "unknown column \"colour\""),
            ("cell,batch,ns,ns\n", "t.csv:1: column \"ns\" is given twice"),
            ("cell,batch,ns\n", "no rows"),
            ("# measured\r\n\r\ncell,batch,ns\r\nlstm,1,5\r\n\r\nlstm,x,5\r\n", "t.csv:6: batch: \"x\" is not a whole"),
            ("cell,batch,ns\nlstm,0,5\n", "t.csv:2: batch: \"0\" is not a whole number from 1"),
            ("cell,batch,ns\nlstm,1048577,5\n", "t.csv:2: batch: \"1048577\" is not a whole number from 1 to 1048576"),
            ("cell,batch,ns\nlstm,1\n", "t.csv:2: \"lstm,1\" has 2 fields where the header has 3"),
            ("cell,batch,ns\n\nlstm,1,5\nlstm,1,6\n", "t.csv:4: a second row for the cell"),
            ("cell,batch,ns\nlstm,1,-5\n", "t.csv:2: ns: \"-5\" is not a whole number of nanoseconds"),
            ("cell,batch,ns\n,1,5\n", "t.csv:2: cell: \"\" is not the name"),
            ("cell,batch,ns,input\nlstm,1,5,x\n", "t.csv:2: input: \"x\""),
            ("cell,batch,ns,stddev_ns\nlstm,1,5,nan\n", "t.csv:2: stddev_ns: \"nan\""),
        ] {
            let error = CostTable::parse(text, "t.csv").unwrap_err().to_string();
            assert!(error.contains(part), "{text:?} gave {error:?}");
        }
        let table = CostTable::parse("cell,batch,ns\nlstm,1,5\n", "t.csv").unwrap();
        let error = table.device(&Model::Gru.cell_types(), Overhead::default()).unwrap_err().to_string();
        assert!(error.contains("no rows for the cell \"gru\"") && error.contains("has: lstm"), "{error}");
    }
}
