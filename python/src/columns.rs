//! Columns of tables, filled row by row.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::builder::{
    BooleanBuilder, Float64Builder, Int64Builder, StringBuilder, UInt8Builder,
};
use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, DictionaryArray, Int32Array, RecordBatch, StringArray};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use batchlab::results::columns::Value;
use batchlab::results::logs::{BatchLine, RequestLine, TaskLine, TokenLine};
use batchlab::units::Nanos;

/// A column that grows.
pub enum GrowingColumn {
    Whole(Int64Builder),
    /// A number that is 0 or 1.
    Flag(UInt8Builder),
    Real(Float64Builder),
    Truth(BooleanBuilder),
    Text(StringBuilder),
    Category(CategoryBuilder),
}

/// Texts of which few are different.
#[derive(Default)]
pub struct CategoryBuilder {
    codes: Vec<Option<i32>>,
    names: Vec<String>,
    places: HashMap<String, i32>,
}

impl CategoryBuilder {
    pub fn push(&mut self, name: Option<&str>) {
        let Some(name) = name else {
            self.codes.push(None);
            return;
        };
        // Most rows have the category of the row before.
        let last = self.codes.last().copied().flatten();
        if let Some(code) = last.filter(|code| self.names[*code as usize] == name) {
            self.codes.push(Some(code));
            return;
        }
        let code = match self.places.get(name) {
            Some(code) => *code,
            None => {
                let code = self.names.len() as i32;
                self.names.push(name.to_string());
                self.places.insert(name.to_string(), code);
                code
            }
        };
        self.codes.push(Some(code));
    }

    fn finish(self) -> ArrayRef {
        let names = Arc::new(StringArray::from(self.names));
        Arc::new(DictionaryArray::<Int32Type>::new(
            Int32Array::from(self.codes),
            names,
        ))
    }
}

impl GrowingColumn {
    fn finish(self) -> ArrayRef {
        match self {
            GrowingColumn::Whole(mut column) => Arc::new(column.finish()),
            GrowingColumn::Flag(mut column) => Arc::new(column.finish()),
            GrowingColumn::Real(mut column) => Arc::new(column.finish()),
            GrowingColumn::Truth(mut column) => Arc::new(column.finish()),
            GrowingColumn::Text(mut column) => Arc::new(column.finish()),
            GrowingColumn::Category(column) => column.finish(),
        }
    }
}

/// A table from named columns.
pub fn to_batch(columns: Vec<(String, GrowingColumn)>) -> Result<RecordBatch, ArrowError> {
    let arrays = columns
        .into_iter()
        .map(|(name, column)| (name, column.finish()));
    let arrays: Vec<(String, ArrayRef)> = arrays.collect();
    let fields: Vec<Field> = arrays
        .iter()
        .map(|(name, array)| Field::new(name, array.data_type().clone(), true))
        .collect();
    let schema = Arc::new(Schema::new(fields));
    RecordBatch::try_new(schema, arrays.into_iter().map(|(_, array)| array).collect())
}

fn whole(values: impl Iterator<Item = Option<u64>>) -> GrowingColumn {
    let mut column = Int64Builder::new();
    values.for_each(|value| column.append_option(value.map(|value| value as i64)));
    GrowingColumn::Whole(column)
}

fn times(values: impl Iterator<Item = Option<Nanos>>) -> GrowingColumn {
    whole(values.map(|at| at.map(|at| at.0)))
}

fn categories<'t>(names: impl Iterator<Item = Option<&'t str>>) -> GrowingColumn {
    let mut column = CategoryBuilder::default();
    names.for_each(|name| column.push(name));
    GrowingColumn::Category(column)
}

fn own_names(columns: Vec<(&str, GrowingColumn)>) -> Vec<(String, GrowingColumn)> {
    let columns = columns.into_iter();
    columns
        .map(|(name, column)| (name.to_string(), column))
        .collect()
}

/// The name of an outcome in logs.
fn outcome_name(line: &RequestLine) -> &'static str {
    use batchlab::record::Outcome;
    match line.outcome {
        Outcome::Served => "served",
        Outcome::Rejected => "rejected",
        Outcome::Expired => "expired",
        Outcome::Failed => "failed",
        Outcome::Unfinished => "unfinished",
    }
}

/// The columns of `requests.csv`. Language models add theirs.
pub fn request_columns(
    lines: &[RequestLine],
    tokens: &[TokenLine],
) -> Result<RecordBatch, ArrowError> {
    let mut measured = UInt8Builder::new();
    lines
        .iter()
        .for_each(|line| measured.append_value(line.measured));
    let classes = lines
        .iter()
        .map(|line| Some(line.class.as_str()).filter(|name| !name.is_empty()));
    let mut columns = vec![
        ("id", whole(lines.iter().map(|line| Some(line.id.0)))),
        (
            "arrival_ns",
            times(lines.iter().map(|line| Some(line.arrival_ns))),
        ),
        ("start_ns", times(lines.iter().map(|line| line.start_ns))),
        ("finish_ns", times(lines.iter().map(|line| line.finish_ns))),
        ("class", categories(classes)),
        (
            "length",
            whole(lines.iter().map(|line| line.length.map(u64::from))),
        ),
        ("measured", GrowingColumn::Flag(measured)),
        (
            "outcome",
            categories(lines.iter().map(|line| Some(outcome_name(line)))),
        ),
    ];
    if !tokens.is_empty() {
        columns.extend([
            (
                "first_token_ns",
                times(tokens.iter().map(|line| line.first_token_ns)),
            ),
            (
                "output",
                whole(tokens.iter().map(|line| Some(line.output.into()))),
            ),
            (
                "worst_gap_ns",
                times(tokens.iter().map(|line| Some(line.worst_gap_ns))),
            ),
            (
                "preemptions",
                whole(tokens.iter().map(|line| Some(line.preemptions.into()))),
            ),
        ]);
    }
    to_batch(own_names(columns))
}

/// The columns of `tasks.csv`.
pub fn task_columns(lines: &[TaskLine]) -> Result<RecordBatch, ArrowError> {
    to_batch(own_names(vec![
        ("task", whole(lines.iter().map(|line| Some(line.task.0)))),
        (
            "worker",
            whole(lines.iter().map(|line| Some(line.worker.0.into()))),
        ),
        (
            "stream",
            whole(lines.iter().map(|line| Some(line.stream.0.into()))),
        ),
        (
            "cell",
            categories(lines.iter().map(|line| Some(line.cell.as_str()))),
        ),
        (
            "batch",
            whole(lines.iter().map(|line| Some(line.batch.into()))),
        ),
        (
            "submit_ns",
            times(lines.iter().map(|line| Some(line.submit_ns))),
        ),
        ("start_ns", times(lines.iter().map(|line| line.start_ns))),
        ("finish_ns", times(lines.iter().map(|line| line.finish_ns))),
    ]))
}

/// The columns of `batches.csv`.
pub fn batch_columns(lines: &[BatchLine]) -> Result<RecordBatch, ArrowError> {
    to_batch(own_names(vec![
        (
            "cell",
            categories(lines.iter().map(|line| Some(line.cell.as_str()))),
        ),
        ("batch", whole(lines.iter().map(|line| Some(line.batch)))),
        ("tasks", whole(lines.iter().map(|line| Some(line.tasks)))),
    ]))
}

/// A column of values as summaries have them.
pub fn value_column(values: &[Value]) -> GrowingColumn {
    use batchlab::results::columns::MetricUnit;
    match values.first() {
        Some(Value::Truth(_)) => {
            let mut column = BooleanBuilder::new();
            for value in values {
                let truth = if let Value::Truth(truth) = value {
                    *truth
                } else {
                    None
                };
                column.append_option(truth);
            }
            GrowingColumn::Truth(column)
        }
        Some(Value::Number(..)) => {
            let numbers = values.iter().map(|value| match value {
                Value::Number(number, unit) => (*number, *unit),
                _ => (None, MetricUnit::Ratio),
            });
            let are_counts = numbers.clone().all(|(number, unit)| {
                unit == MetricUnit::Count && number.is_none_or(|number| number.fract() == 0.0)
            });
            if are_counts {
                return whole(numbers.map(|(number, _)| number.map(|number| number as u64)));
            }
            let mut column = Float64Builder::new();
            numbers.for_each(|(number, _)| column.append_option(number));
            GrowingColumn::Real(column)
        }
        _ => {
            let texts: Vec<Option<String>> = values
                .iter()
                .map(|value| match value {
                    Value::Given(text) => text.clone(),
                    value => Some(value.to_csv()),
                })
                .collect();
            text_column(&texts, matches!(values.first(), Some(Value::Given(_))))
        }
    }
}

/// A column of texts; of numbers or truths if all of them read so and that is wanted.
pub fn text_column(texts: &[Option<String>], may_be_numbers: bool) -> GrowingColumn {
    let given = || texts.iter().flatten();
    if may_be_numbers && given().next().is_some() {
        if given().all(|text| text.parse::<i64>().is_ok()) {
            let mut column = Int64Builder::new();
            for text in texts {
                column.append_option(text.as_ref().and_then(|text| text.parse().ok()));
            }
            return GrowingColumn::Whole(column);
        }
        if given().all(|text| text.parse::<f64>().is_ok()) {
            let mut column = Float64Builder::new();
            for text in texts {
                column.append_option(text.as_ref().and_then(|text| text.parse().ok()));
            }
            return GrowingColumn::Real(column);
        }
        if given().all(|text| text == "true" || text == "false") {
            let mut column = BooleanBuilder::new();
            for text in texts {
                column.append_option(text.as_ref().map(|text| text == "true"));
            }
            return GrowingColumn::Truth(column);
        }
    }
    let mut column = StringBuilder::new();
    texts
        .iter()
        .for_each(|text| column.append_option(text.as_ref()));
    GrowingColumn::Text(column)
}

/// The columns whose texts are categories.
const CATEGORIES: [&str; 3] = ["class", "outcome", "cell"];

/// Reads a log: a header, then rows of numbers and of texts without quotes. An empty field is a missing value.
pub fn read_columns(bytes: &[u8]) -> Result<RecordBatch, String> {
    let end = bytes
        .iter()
        .position(|byte| *byte == b'\n')
        .unwrap_or(bytes.len());
    let header = std::str::from_utf8(&bytes[..end]).map_err(|cause| cause.to_string())?;
    let names: Vec<&str> = header.trim_end().split(',').collect();
    let mut columns: Vec<GrowingColumn> = names
        .iter()
        .map(|name| match *name {
            name if CATEGORIES.contains(&name) => {
                GrowingColumn::Category(CategoryBuilder::default())
            }
            "measured" => GrowingColumn::Flag(UInt8Builder::new()),
            "reason" => GrowingColumn::Text(StringBuilder::new()),
            _ => GrowingColumn::Whole(Int64Builder::new()),
        })
        .collect();
    let rows = bytes[(end + 1).min(bytes.len())..].split(|byte| *byte == b'\n');
    for (number, row) in (2..).zip(rows).filter(|(_, row)| !row.is_empty()) {
        let mut fields = row.split(|byte| *byte == b',');
        for (name, column) in names.iter().zip(&mut columns) {
            let field = fields
                .next()
                .ok_or_else(|| format!("line {number}: {name}: missing"))?;
            push_field(column, field).ok_or_else(|| {
                let field = String::from_utf8_lossy(field);
                format!("line {number}: {name}: \"{field}\" is not a whole number")
            })?;
        }
    }
    let names = names.into_iter().map(String::from);
    to_batch(names.zip(columns).collect()).map_err(|cause| cause.to_string())
}

fn push_field(column: &mut GrowingColumn, field: &[u8]) -> Option<()> {
    match column {
        GrowingColumn::Category(column) => {
            let text = std::str::from_utf8(field).ok()?;
            column.push(Some(text).filter(|text| !text.is_empty()));
        }
        GrowingColumn::Text(column) => column.append_value(std::str::from_utf8(field).ok()?),
        GrowingColumn::Flag(column) => column.append_value((whole_number(field)?) as u8),
        GrowingColumn::Whole(column) if field.is_empty() => column.append_null(),
        GrowingColumn::Whole(column) => column.append_value(whole_number(field)?),
        GrowingColumn::Real(_) | GrowingColumn::Truth(_) => return None,
    }
    Some(())
}

fn whole_number(field: &[u8]) -> Option<i64> {
    if field.is_empty() || field.len() > 18 {
        return None;
    }
    let mut value = 0;
    for byte in field {
        if !byte.is_ascii_digit() {
            return None;
        }
        value = 10 * value + i64::from(byte - b'0');
    }
    Some(value)
}

/// The name of a column's type for users.
pub fn type_name(kind: &DataType) -> &'static str {
    match kind {
        DataType::Int64 | DataType::UInt8 => "int",
        DataType::Float64 => "float",
        DataType::Boolean => "bool",
        DataType::Dictionary(..) => "category",
        _ => "str",
    }
}
