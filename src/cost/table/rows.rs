//! The lines of a cost table's file.

use crate::error::{Error, Result};

/// The largest batch of a row. [`Curve::best`](crate::cost::curve::Curve::best) tries all batches up to it.
const MAX_BATCH: u32 = 1 << 20;

/// The columns of a cost table; the first three are required.
const COLUMNS: [&str; 5] = ["cell", "batch", "ns", "input", "stddev_ns"];
const NEEDED: usize = 3;

/// One row of a table.
pub struct Row {
    pub cell: String,
    /// From 1 to [`MAX_BATCH`].
    pub batch: u32,
    /// The time of the whole batch.
    pub ns: u64,
    /// 0 if the cell's time does not depend on its input.
    pub input: u32,
}

/// The place of each of [`COLUMNS`] in a file.
pub struct Header {
    places: [Option<usize>; COLUMNS.len()],
    columns: usize,
}

impl Header {
    pub fn parse(line: &str) -> Result<Header> {
        let names = fields(line)?;
        let places = COLUMNS.map(|column| names.iter().position(|name| name == column));
        if let Some(missing) = (0..NEEDED).find(|i| places[*i].is_none()) {
            return Err(Error::input(format!(
                "no column \"{}\"; a cost table has the columns cell,batch,ns and may have input,stddev_ns",
                COLUMNS[missing]
            )));
        }
        if let Some(unknown) = names.iter().find(|name| !COLUMNS.contains(&name.as_str())) {
            return Err(Error::input(format!("unknown column \"{unknown}\"; known: {}", COLUMNS.join(", "))));
        }
        if let Some(place) = (1..names.len()).find(|place| names[..*place].contains(&names[*place])) {
            return Err(Error::input(format!("column \"{}\" stands twice; once is enough", names[place])));
        }
        Ok(Header { places, columns: names.len() })
    }

    pub fn row(&self, line: &str) -> Result<Row> {
        let fields = fields(line)?;
        if fields.len() != self.columns {
            return Err(Error::input(format!(
                "\"{}\" has {} fields where the header has {}",
                line.trim(),
                fields.len(),
                self.columns
            )));
        }
        // An optional column may also be empty.
        let text = |column: usize| self.places[column].map_or("", |place| fields[place].as_str());
        let refuse = |column: usize, what: &str| {
            Error::input(format!("{}: \"{}\" is not {what}", COLUMNS[column], text(column)))
        };
        if text(0).is_empty() {
            return Err(refuse(0, "the name of a cell"));
        }
        // The spread of a measurement is checked but not used.
        if !text(4).is_empty() && !text(4).parse().is_ok_and(|spread: f64| spread >= 0.0) {
            return Err(refuse(4, "a number of nanoseconds, 0 or more"));
        }
        let batch = text(1).parse().ok().filter(|batch| (1..=MAX_BATCH).contains(batch));
        Ok(Row {
            cell: text(0).to_string(),
            batch: batch.ok_or_else(|| refuse(1, &format!("a whole number from 1 to {MAX_BATCH}")))?,
            ns: text(2).parse().map_err(|_| refuse(2, "a whole number of nanoseconds, 0 or more"))?,
            input: match text(3) {
                "" => 0,
                size => size.parse().map_err(|_| refuse(3, "a whole number, 0 or more"))?,
            },
        })
    }
}

/// The fields of one line, trimmed. A field may be quoted.
fn fields(line: &str) -> Result<Vec<String>> {
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .trim(csv::Trim::All)
        .buffer_capacity(line.len() + 1)
        .from_reader(line.as_bytes());
    match reader.records().next() {
        Some(Ok(record)) => Ok(record.iter().map(str::to_string).collect()),
        Some(Err(error)) => Err(Error::input(error)),
        None => Ok(Vec::new()),
    }
}
