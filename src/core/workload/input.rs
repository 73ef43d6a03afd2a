//! Parts of all files that people write: tables with named columns, and settings in TOML.

use std::fmt::Display;
use std::ops::RangeInclusive;

use csv::StringRecord;
use serde::de::DeserializeOwned;
use toml::{Table, Value};

/// Puts the place of a problem before it.
pub fn locate<P: Display>(place: impl Display) -> impl FnOnce(P) -> String {
    move |problem| format!("{place}: {problem}")
}

/// The lines of a text with their numbers, without empty ones and comments, which begin with `#`.
pub fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = (1..).zip(text.trim_start_matches('\u{feff}').lines());
    lines.filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'))
}

/// The columns of a table, in any order. Those without a name, which a spreadsheet leaves behind, are ignored.
pub struct Columns<const N: usize> {
    places: [Option<usize>; N],
    count: usize,
}

impl<const N: usize> Columns<N> {
    /// The columns of a header. The first `needed` ones of `known` must be there; `format` says which ones such a table
    /// has.
    pub fn parse(
        header: &str,
        known: [&str; N],
        needed: usize,
        format: &str,
    ) -> Result<Columns<N>, String> {
        refuse_separators(header)?;
        let names = fields(header);
        let places = known.map(|column| names.iter().position(|name| name == column));
        if let Some(missing) = places[..needed].iter().position(Option::is_none) {
            return Err(format!("no column \"{}\"; {format}", known[missing]));
        }
        if let Some(unknown) = names
            .iter()
            .find(|name| !name.is_empty() && !known.contains(name))
        {
            return Err(format!(
                "unknown column \"{unknown}\"; known: {}",
                known.join(", ")
            ));
        }
        if let Some(twice) = known
            .iter()
            .find(|column| names.iter().filter(|name| name == *column).count() > 1)
        {
            return Err(format!("column \"{twice}\" is given twice; once is enough"));
        }
        Ok(Columns {
            places,
            count: names.len(),
        })
    }

    /// The texts of a row in the order of the known columns, empty for columns that the table lacks.
    pub fn row(&self, line: &str) -> Result<[String; N], String> {
        let fields = fields(line);
        if fields.len() != self.count {
            return Err(format!(
                "\"{}\" has {} fields where the header has {}",
                line.trim(),
                fields.len(),
                self.count
            ));
        }
        Ok(self
            .places
            .map(|place| place.map_or(String::new(), |place| fields[place].to_string())))
    }
}

/// Refuses the header of a table whose columns are not separated by commas, as spreadsheets write it in some languages.
pub fn refuse_separators(header: &str) -> Result<(), String> {
    if header.contains(',') {
        return Ok(());
    }
    for (separator, name) in [(';', "semicolons"), ('\t', "tabs")] {
        if header.contains(separator) {
            return Err(format!(
                "the columns are separated by {name}; put commas between them (and points into decimals)"
            ));
        }
    }
    Ok(())
}

/// The fields of a line of a CSV file, without blanks around them and without their quotes.
pub fn fields(line: &str) -> StringRecord {
    let mut reader = csv::ReaderBuilder::new();
    let reader = reader
        .has_headers(false)
        .trim(csv::Trim::All)
        .buffer_capacity(line.len() + 1);
    let mut fields = StringRecord::new();
    reader
        .from_reader(line.as_bytes())
        .read_record(&mut fields)
        .expect("any line is a record");
    fields
}

/// Reads settings. Errors name the file, and the line or the key. `range` gives the allowed numbers of a key such as
/// `f32.tiles[0].rows`, or `None` if all are allowed.
pub fn settings<T: DeserializeOwned>(
    text: &str,
    file: &str,
    range: impl Fn(&str) -> Option<RangeInclusive<f64>>,
) -> Result<T, String> {
    let refuse = |error: toml::de::Error| {
        let line = error
            .span()
            .map_or(1, |span| 1 + text[..span.start].matches('\n').count());
        format!("{file}:{line}: {}", error.message().replace('\n', ", "))
    };
    let read = toml::from_str(text).map_err(refuse)?;
    let values: Table = toml::from_str(text).map_err(refuse)?;
    for (key, value) in &values {
        check(key, value, &range).map_err(|problem| format!("{file}: {problem}"))?;
    }
    Ok(read)
}

/// Refuses a number that is out of the range of its key, also within a table or a list.
fn check(
    key: &str,
    value: &Value,
    range: &impl Fn(&str) -> Option<RangeInclusive<f64>>,
) -> Result<(), String> {
    let (number, text) = match value {
        Value::Table(keys) => {
            return keys
                .iter()
                .try_for_each(|(name, value)| check(&format!("{key}.{name}"), value, range));
        }
        Value::Array(items) => {
            return (0..)
                .zip(items)
                .try_for_each(|(place, item)| check(&format!("{key}[{place}]"), item, range));
        }
        Value::Integer(number) => (*number as f64, number.to_string()),
        Value::Float(number) => (*number, number.to_string()),
        _ => return Ok(()),
    };
    let Some(range) = range(key).filter(|range| !range.contains(&number)) else {
        return Ok(());
    };
    let (least, most) = range.into_inner();
    let what = if least.fract() == 0.0 {
        "a whole number"
    } else {
        "a number"
    };
    Err(format!(
        "{key}: {text} is out of range; {what} from {least} to {most}"
    ))
}
