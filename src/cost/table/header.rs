//! The columns of cost tables, and their rows.

use crate::error::{Error, Result};

/// [`Curve::best`](crate::cost::curve::Curve::best) tries all batches up to it.
pub const MAX_BATCH: u32 = 1 << 20;

const COLUMNS: [&str; 5] = ["cell", "batch", "ns", "input", "stddev_ns"];
const NEEDED: usize = 3;
/// Of a language model's iterations, instead of batch and input.
const ITERATIONS: [&str; 5] = ["cell", "tokens", "ns", "context", "stddev_ns"];

pub struct Row {
    pub cell: String,
    /// From 1 to [`MAX_BATCH`].
    pub batch: u32,
    pub ns: u64,
    pub input: u32,
}

pub struct Header {
    places: [Option<usize>; COLUMNS.len()],
    columns: usize,
    /// The time is interpolated over the context, not padded to the next input.
    pub context: bool,
}

impl Header {
    pub fn parse(line: &str) -> Result<Header> {
        let names = fields(line)?;
        let context = names.iter().any(|name| name == "context");
        let known = if context { ITERATIONS } else { COLUMNS };
        let places = known.map(|column| names.iter().position(|name| name == column));
        if let Some(missing) = (0..NEEDED).find(|i| places[*i].is_none()) {
            return Err(Error::input(format!(
                "no column \"{}\"; a cost table has the columns cell,batch,ns and may have input,stddev_ns, or for \
                 iterations of a language model cell,tokens,context,ns",
                known[missing]
            )));
        }
        if let Some(unknown) = names.iter().find(|name| !known.contains(&name.as_str())) {
            return Err(Error::input(format!("unknown column \"{unknown}\"; known: {}", known.join(", "))));
        }
        if let Some(place) = (1..names.len()).find(|place| names[..*place].contains(&names[*place])) {
            return Err(Error::input(format!("column \"{}\" is given twice; once is enough", names[place])));
        }
        Ok(Header { places, columns: names.len(), context })
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
        let text = |column: usize| self.places[column].map_or("", |place| fields[place].as_str());
        let refuse = |column: usize, what: &str| {
            let names = if self.context { ITERATIONS } else { COLUMNS };
            Error::input(format!("{}: \"{}\" is not {what}", names[column], text(column)))
        };
        if text(0).is_empty() {
            return Err(refuse(0, "the name of a cell"));
        }
        // Checked but not used.
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
