//! The profiled cost table: a CSV of `cell,batch,ns`, with optional `input` and `stddev_ns`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Deserialize;

use super::CostModel;
use super::curve::Curve;
use crate::backend::Step;
use crate::error::{Error, Result};
use crate::units::Nanos;
use crate::workload::model::CellType;

/// The name under which a table gives the time of bringing states together.
const GATHER: &str = "gather";

/// A cost table as its file has it.
#[derive(Clone, Debug)]
pub struct CostTable {
    name: String,
    cells: BTreeMap<String, CellCosts>,
}

/// The curves of one cell by the size of its input, ascending; a cell without sizes has one, at 0.
#[derive(Clone, Debug)]
struct CellCosts {
    by_input: Vec<(u32, Curve)>,
}

/// What each task and each change of a batch's members cost beside the cells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overhead {
    /// Added to every task.
    pub task: Nanos,
    /// Added to a task whose members are not those of the task before; `None` takes the table's `gather` rows, or
    /// nothing where it has none.
    pub gather: Option<Nanos>,
}

#[derive(Deserialize)]
struct Row {
    cell: String,
    batch: u32,
    ns: u64,
    #[serde(default)]
    input: Option<u32>,
    /// The spread of the measurement; read to be checked, but a table's times are its means.
    #[serde(default)]
    #[allow(dead_code)]
    stddev_ns: Option<f64>,
}

impl CostTable {
    /// Reads a table from its file.
    ///
    /// # Errors
    /// Names the file and the line.
    pub fn read(path: &Path) -> Result<CostTable> {
        let text = fs::read_to_string(path).map_err(|cause| Error::unreadable(path, &cause))?;
        CostTable::parse(&text, &path.display().to_string())
    }

    /// Reads a table from its text; `name` stands for the file in messages. Lines that begin with `#` are comments.
    ///
    /// # Errors
    /// Names the line, the value and what is allowed.
    pub fn parse(text: &str, name: &str) -> Result<CostTable> {
        let mut reader =
            csv::ReaderBuilder::new().comment(Some(b'#')).trim(csv::Trim::All).from_reader(text.as_bytes());
        let headers = reader.headers().map_err(|e| bad_row(name, &e))?.clone();
        if let Some(missing) = ["cell", "batch", "ns"].iter().find(|column| !headers.iter().any(|h| h == **column)) {
            return Err(Error::input(format!(
                "{name}:1: no column \"{missing}\"; a cost table has the columns cell,batch,ns and may have input,stddev_ns"
            )));
        }
        if let Some(unknown) = headers.iter().find(|h| !["cell", "batch", "ns", "input", "stddev_ns"].contains(h)) {
            return Err(Error::input(format!(
                "{name}:1: unknown column \"{unknown}\"; known: cell, batch, ns, input, stddev_ns"
            )));
        }
        let mut points: BTreeMap<(String, u32), Vec<(u32, u64)>> = BTreeMap::new();
        for record in reader.records() {
            let record = record.map_err(|e| bad_row(name, &e))?;
            let line = record.position().map_or(0, csv::Position::line);
            let row: Row = record.deserialize(Some(&headers)).map_err(|e| bad_row(name, &e))?;
            if row.batch == 0 {
                return Err(Error::input(format!("{name}:{line}: batch 0; a batch is a whole number from 1")));
            }
            let curve = points.entry((row.cell.clone(), row.input.unwrap_or(0))).or_default();
            if curve.iter().any(|(batch, _)| *batch == row.batch) {
                return Err(Error::input(format!(
                    "{name}:{line}: a second time for cell \"{}\" at batch {}; each batch stands once",
                    row.cell, row.batch
                )));
            }
            curve.push((row.batch, row.ns));
        }
        let mut cells: BTreeMap<String, CellCosts> = BTreeMap::new();
        for ((cell, input), points) in points {
            let curve = Curve::new(points).map_err(|e| Error::input(format!("{name}: cell \"{cell}\": {e}")))?;
            cells.entry(cell).or_insert_with(|| CellCosts { by_input: Vec::new() }).by_input.push((input, curve));
        }
        if cells.is_empty() {
            return Err(Error::input(format!("{name}: no rows; a cost table has at least one line cell,batch,ns")));
        }
        Ok(CostTable { name: name.to_string(), cells })
    }

    /// The costs of a model's cells on a device with these overheads.
    ///
    /// # Errors
    /// A cell that the table does not have.
    pub fn device(&self, cells: &[CellType], overhead: Overhead) -> Result<TableModel> {
        let curves = cells
            .iter()
            .map(|cell| {
                self.cells.get(&cell.name).cloned().ok_or_else(|| {
                    let known: Vec<&str> = self.cells.keys().map(String::as_str).collect();
                    Error::input(format!(
                        "{}: no rows for the cell \"{}\", which the model needs; the table has: {}",
                        self.name,
                        cell.name,
                        known.join(", ")
                    ))
                })
            })
            .collect::<Result<Vec<CellCosts>>>()?;
        let gather = match overhead.gather {
            Some(time) => Curve::constant(time),
            None => match self.cells.get(GATHER) {
                Some(costs) => costs.by_input[0].1.clone(),
                None => Curve::constant(Nanos::ZERO),
            },
        };
        Ok(TableModel { cells: curves, task: overhead.task, gather })
    }

    /// The smallest and the largest batch that the table has for a cell.
    pub fn measured(&self, cell: &str) -> Option<(u32, u32)> {
        let spans = self.cells.get(cell)?.by_input.iter().map(|(_, curve)| curve.measured());
        spans.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
    }

    /// The largest input that the table has for a cell; `None` where its time does not depend on it.
    pub fn largest_input(&self, cell: &str) -> Option<u32> {
        self.cells.get(cell)?.by_input.last().map(|(input, _)| *input).filter(|input| *input > 0)
    }
}

/// A cost table made ready for one model on one device.
#[derive(Clone, Debug)]
pub struct TableModel {
    cells: Vec<CellCosts>,
    task: Nanos,
    gather: Curve,
}

impl CostModel for TableModel {
    fn cell(&self, step: &Step) -> Nanos {
        let by_input = &self.cells[step.cell.index()].by_input;
        // A smaller input runs padded to the next size that was measured.
        let fitting = by_input.partition_point(|(input, _)| *input < step.input).min(by_input.len() - 1);
        by_input[fitting].1.at(step.batch)
    }

    fn gather(&self, batch: u32) -> Nanos {
        self.gather.at(batch)
    }

    fn task(&self) -> Nanos {
        self.task
    }
}

fn bad_row(name: &str, error: &csv::Error) -> Error {
    let line = error.position().map(csv::Position::line);
    let place = line.map_or_else(|| name.to_string(), |line| format!("{name}:{line}"));
    let what = match error.kind() {
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            format!("{len} fields where the header has {expected_len}")
        }
        csv::ErrorKind::Deserialize { err, .. } => {
            let column =
                err.field().and_then(|i| ["cell", "batch", "ns"].get(i as usize)).copied().unwrap_or("a field");
            format!("{column}: {}", err.kind())
        }
        _ => error.to_string(),
    };
    Error::input(format!("{place}: {what}; a row is cell,batch,ns with a name and two whole numbers"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::CellId;
    use crate::workload::model::Model;

    #[test]
    fn a_table_is_read_whatever_the_order_of_its_rows_and_columns() {
        let table = CostTable::parse("batch,cell,ns\n# measured\n8,lstm,20\n4,lstm,10\n1,gather,3\n", "t.csv").unwrap();
        let device = table.device(&Model::Lstm.cell_types(), Overhead::default()).unwrap();
        let step = |batch| Step { cell: CellId(0), batch, times: 1, input: 0 };
        assert_eq!(device.cell(&step(6)), Nanos(15));
        assert_eq!(device.gather(2), Nanos(6));
        assert_eq!(table.measured("lstm"), Some((4, 8)));
    }

    #[test]
    fn a_padded_input_takes_the_next_size() {
        let table = CostTable::parse("cell,batch,ns,input\nbert,1,10,64\nbert,1,20,128\n", "t.csv").unwrap();
        let device = table.device(&Model::Dnn("bert".into()).cell_types(), Overhead::default()).unwrap();
        let at = |input| device.cell(&Step { cell: CellId(0), batch: 1, times: 1, input }).0;
        assert_eq!([at(1), at(64), at(65), at(128)], [10, 10, 20, 20]);
        assert_eq!(table.largest_input("bert"), Some(128));
    }

    #[test]
    fn broken_tables_are_named_by_line() {
        for (text, part) in [
            ("cell,batch\nlstm,1\n", "t.csv:1: no column \"ns\""),
            ("cell,batch,ns,colour\n", "unknown column \"colour\""),
            ("cell,batch,ns\n", "no rows"),
            ("cell,batch,ns\nlstm,1,5\nlstm,x,5\n", "t.csv:3: batch: invalid digit"),
            ("cell,batch,ns\nlstm,0,5\n", "t.csv:2: batch 0"),
            ("cell,batch,ns\nlstm,1\n", "t.csv:2: 2 fields where the header has 3"),
            ("cell,batch,ns\nlstm,1,5\nlstm,1,6\n", "t.csv:3: a second time"),
            ("cell,batch,ns\nlstm,1,-5\n", "t.csv:2: ns: invalid digit"),
        ] {
            let error = CostTable::parse(text, "t.csv").unwrap_err().to_string();
            assert!(error.contains(part), "{text:?} gave {error:?}");
        }
        let table = CostTable::parse("cell,batch,ns\nlstm,1,5\n", "t.csv").unwrap();
        let error = table.device(&Model::Gru.cell_types(), Overhead::default()).unwrap_err().to_string();
        assert!(error.contains("no rows for the cell \"gru\"") && error.contains("has: lstm"), "{error}");
    }
}
