//! Tables of results, which any library that reads Arrow takes without copies.

use std::fmt::Write as _;
use std::path::PathBuf;

use arrow_array::cast::AsArray as _;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::{Float64Type, Int32Type, Int64Type, UInt8Type};
use arrow_array::{Array, RecordBatch, RecordBatchIterator, RecordBatchReader as _};
use arrow_schema::DataType;
use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyDict, PyList, PyTuple};

use crate::columns::{GrowingColumn, read_columns, text_column, to_batch, type_name};
use crate::errors::InputError;

/// A table of results.
#[pyclass(frozen, module = "batchlab", subclass)]
pub struct Table {
    batch: RecordBatch,
    /// What a reader should know beside the numbers.
    #[pyo3(get)]
    notes: Vec<String>,
}

/// The rows of a table that a terminal or a notebook shows.
const SHOWN: usize = 10;

impl Table {
    pub fn new(batch: RecordBatch) -> Table {
        Table {
            batch,
            notes: Vec::new(),
        }
    }

    fn array(&self, name: &str) -> PyResult<&dyn Array> {
        match self.batch.column_by_name(name) {
            Some(array) => Ok(&**array),
            None => Err(PyKeyError::new_err(format!(
                "no column \"{name}\"; the columns are {}",
                self.columns().join(", ")
            ))),
        }
    }

    /// The rows that are shown: the first and the last.
    fn shown_rows(&self) -> (Vec<usize>, bool) {
        let rows = self.batch.num_rows();
        if rows <= SHOWN {
            return ((0..rows).collect(), false);
        }
        let half = SHOWN / 2;
        ((0..half).chain(rows - half..rows).collect(), true)
    }

    fn texts(&self, row: usize) -> Vec<String> {
        let columns = self.batch.columns().iter();
        columns.map(|column| text_of(column, row)).collect()
    }
}

/// A value as a reader sees it; empty if it is missing.
fn text_of(column: &dyn Array, row: usize) -> String {
    if column.is_null(row) {
        return String::new();
    }
    match column.data_type() {
        DataType::Int64 => column.as_primitive::<Int64Type>().value(row).to_string(),
        DataType::UInt8 => column.as_primitive::<UInt8Type>().value(row).to_string(),
        DataType::Float64 => {
            let text = format!("{:.6}", column.as_primitive::<Float64Type>().value(row));
            text.trim_end_matches('0').trim_end_matches('.').to_string()
        }
        DataType::Boolean => column.as_boolean().value(row).to_string(),
        DataType::Dictionary(..) => {
            let column = column.as_dictionary::<Int32Type>();
            let names = column.values().as_string::<i32>();
            names.value(column.keys().value(row) as usize).to_string()
        }
        _ => column.as_string::<i32>().value(row).to_string(),
    }
}

fn value_of<'py>(py: Python<'py>, column: &dyn Array, row: usize) -> PyResult<Bound<'py, PyAny>> {
    if column.is_null(row) {
        return Ok(py.None().into_bound(py));
    }
    Ok(match column.data_type() {
        DataType::Int64 => column
            .as_primitive::<Int64Type>()
            .value(row)
            .into_pyobject(py)?
            .into_any(),
        DataType::UInt8 => column
            .as_primitive::<UInt8Type>()
            .value(row)
            .into_pyobject(py)?
            .into_any(),
        DataType::Float64 => column
            .as_primitive::<Float64Type>()
            .value(row)
            .into_pyobject(py)?
            .into_any(),
        DataType::Boolean => column
            .as_boolean()
            .value(row)
            .into_pyobject(py)?
            .to_owned()
            .into_any(),
        _ => text_of(column, row).into_pyobject(py)?.into_any(),
    })
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[pymethods]
impl Table {
    /// The names of the columns, in order.
    #[getter]
    fn columns(&self) -> Vec<String> {
        let schema = self.batch.schema();
        schema
            .fields()
            .iter()
            .map(|field| field.name().clone())
            .collect()
    }

    /// The type of each column: int, float, bool, str or category.
    #[getter]
    fn types<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let types = PyDict::new(py);
        for field in self.batch.schema().fields() {
            types.set_item(field.name(), type_name(field.data_type()))?;
        }
        Ok(types)
    }

    /// The numbers of rows and columns.
    #[getter]
    fn shape(&self) -> (usize, usize) {
        (self.batch.num_rows(), self.batch.num_columns())
    }

    fn __len__(&self) -> usize {
        self.batch.num_rows()
    }

    /// The values of a column as a list.
    fn __getitem__<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyList>> {
        let column = self.array(name)?;
        let values: PyResult<Vec<_>> = (0..column.len())
            .map(|row| value_of(py, column, row))
            .collect();
        PyList::new(py, values?)
    }

    /// The rows as a list of dicts.
    fn rows<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let names = self.columns();
        let rows = PyList::empty(py);
        for row in 0..self.batch.num_rows() {
            let values = PyDict::new(py);
            for (name, column) in names.iter().zip(self.batch.columns()) {
                values.set_item(name, value_of(py, column, row)?)?;
            }
            rows.append(values)?;
        }
        Ok(rows)
    }

    /// The table as a DataFrame of pandas, which has to be installed.
    fn to_pandas<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let module = slf.py().import("batchlab._table")?;
        module.call_method1("to_pandas", (slf,))
    }

    /// The table as a DataFrame of polars, which has to be installed.
    fn to_polars<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let module = slf.py().import("batchlab._table")?;
        module.call_method1("to_polars", (slf,))
    }

    /// The table with these notes.
    fn with_notes(&self, notes: Vec<String>) -> Table {
        Table {
            batch: self.batch.clone(),
            notes,
        }
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema; // The interface allows it to be ignored.
        let batches = vec![Ok(self.batch.clone())];
        let reader = RecordBatchIterator::new(batches, self.batch.schema());
        debug_assert_eq!(reader.schema(), self.batch.schema());
        let stream = FFI_ArrowArrayStream::new(Box::new(reader));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }

    /// The memory of a column for NumPy: the type, the values, which of them are missing (or None), and the names of
    /// categories (or None).
    fn _buffers<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyTuple>> {
        let column = self.array(name)?;
        let bytes = |values: &[u8]| PyBytes::new(py, values).into_any();
        let none = || py.None().into_bound(py);
        let missing = match column.null_count() {
            0 => none(),
            _ => bytes(
                &(0..column.len())
                    .map(|row| u8::from(column.is_null(row)))
                    .collect::<Vec<_>>(),
            ),
        };
        let (kind, values, names) = match column.data_type() {
            DataType::Int64 => {
                let values = column.as_primitive::<Int64Type>().values();
                ("int64", bytes(values.inner().as_slice()), none())
            }
            DataType::UInt8 => {
                let values = column.as_primitive::<UInt8Type>().values();
                ("uint8", bytes(values.inner().as_slice()), none())
            }
            DataType::Float64 => {
                let values = column.as_primitive::<Float64Type>().values();
                ("float64", bytes(values.inner().as_slice()), none())
            }
            DataType::Boolean => {
                let column = column.as_boolean();
                let values: Vec<u8> = (0..column.len())
                    .map(|row| u8::from(column.value(row)))
                    .collect();
                ("bool", bytes(&values), none())
            }
            DataType::Dictionary(..) => {
                let column = column.as_dictionary::<Int32Type>();
                let names: Vec<&str> = column
                    .values()
                    .as_string::<i32>()
                    .iter()
                    .flatten()
                    .collect();
                let codes = column.keys().values();
                (
                    "category",
                    bytes(codes.inner().as_slice()),
                    PyList::new(py, names)?.into_any(),
                )
            }
            _ => {
                let values = self.__getitem__(py, name)?;
                ("str", values.into_any(), none())
            }
        };
        PyTuple::new(
            py,
            [kind.into_pyobject(py)?.into_any(), values, missing, names],
        )
    }

    fn __repr__(&self) -> String {
        let (rows, cut) = self.shown_rows();
        let mut lines = vec![self.columns()];
        lines.extend(rows.iter().map(|row| self.texts(*row)));
        if cut {
            let dots = vec!["…".to_string(); self.batch.num_columns()];
            lines.insert(1 + SHOWN / 2, dots);
        }
        let mut widths = vec![0; self.batch.num_columns()];
        for line in &lines {
            for (width, text) in widths.iter_mut().zip(line) {
                *width = text.chars().count().max(*width);
            }
        }
        let mut text = String::new();
        for line in &lines {
            let fields: Vec<String> = line
                .iter()
                .zip(&widths)
                .map(|(field, width)| format!("{field:>width$}"))
                .collect();
            let _ = writeln!(text, "{}", fields.join("  "));
        }
        let (rows, columns) = self.shape();
        let _ = write!(text, "[{rows} rows, {columns} columns]");
        text
    }

    fn __contains__(&self, name: &str) -> bool {
        self.batch.column_by_name(name).is_some()
    }

    fn _repr_html_(&self) -> String {
        let row_of = |cells: &[String], tag: &str| {
            let cells: String = cells
                .iter()
                .map(|cell| format!("<{tag}>{}</{tag}>", escape(cell)))
                .collect();
            format!("<tr>{cells}</tr>")
        };
        let (shown, cut) = self.shown_rows();
        let mut body: Vec<String> = shown
            .iter()
            .map(|row| row_of(&self.texts(*row), "td"))
            .collect();
        if cut {
            let dots = vec!["…".to_string(); self.batch.num_columns()];
            body.insert(SHOWN / 2, row_of(&dots, "td"));
        }
        let (rows, columns) = self.shape();
        format!(
            "<table><thead>{}</thead><tbody>{}</tbody></table><p>{rows} rows, {columns} columns</p>",
            row_of(&self.columns(), "th"),
            body.concat()
        )
    }
}

/// Reads a log of a run, such as requests.csv.
#[pyfunction]
pub fn read_log(py: Python<'_>, path: PathBuf) -> PyResult<Table> {
    let read = py.detach(|| {
        let bytes = std::fs::read(&path).map_err(|cause| format!("cannot be read: {cause}"))?;
        read_columns(&bytes)
    });
    let batch = read.map_err(|why| InputError::new_err(format!("{}: {why}", path.display())))?;
    Ok(Table::new(batch))
}

/// The columns that are texts, even if all of them read as numbers.
const LABELS: [&str; 4] = ["policy", "class", "limiting_class", "caveat"];

/// Reads a CSV file with a header, which comments may precede. Columns of numbers and truths have their types.
#[pyfunction]
pub fn read_csv(path: PathBuf) -> PyResult<Table> {
    let wrong = |why: String| InputError::new_err(format!("{}: {why}", path.display()));
    let text = std::fs::read_to_string(&path)
        .map_err(|cause| wrong(format!("cannot be read: {cause}")))?;
    let mut rest = text.as_str();
    while rest.starts_with('#') {
        rest = rest.split_once('\n').map_or("", |(_, rest)| rest);
    }
    let mut reader = csv::Reader::from_reader(rest.as_bytes());
    let header = reader
        .headers()
        .map_err(|cause| wrong(cause.to_string()))?
        .clone();
    let mut columns: Vec<Vec<Option<String>>> = vec![Vec::new(); header.len()];
    for record in reader.records() {
        let record = record.map_err(|cause| wrong(cause.to_string()))?;
        for (column, field) in columns.iter_mut().zip(&record) {
            column.push(Some(field.to_string()).filter(|field| !field.is_empty()));
        }
    }
    let columns = header.iter().zip(&columns);
    let columns = columns.map(|(name, texts)| {
        let column = text_column(texts, !LABELS.contains(&name));
        (name.to_string(), column)
    });
    batch_of(columns.collect())
}

/// A table from columns: pairs of a name and a list of numbers, texts or truths.
#[pyfunction]
pub fn table(columns: Vec<(String, Vec<Bound<'_, PyAny>>)>) -> PyResult<Table> {
    let mut grown = Vec::new();
    for (name, values) in columns {
        let mut texts = Vec::new();
        for value in values {
            texts.push(match value.is_none() {
                true => None,
                false if value.is_instance_of::<pyo3::types::PyBool>() => {
                    Some(value.extract::<bool>()?.to_string())
                }
                false => Some(value.str()?.to_string()),
            });
        }
        grown.push((name, text_column(&texts, true)));
    }
    batch_of(grown)
}

pub fn batch_of(columns: Vec<(String, GrowingColumn)>) -> PyResult<Table> {
    let batch = to_batch(columns).map_err(|cause| PyValueError::new_err(cause.to_string()))?;
    Ok(Table::new(batch))
}
