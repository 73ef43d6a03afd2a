//! CSV files, read by the names of their columns.

use std::marker::PhantomData;
use std::num::IntErrorKind;
use std::path::{Path, PathBuf};

use csv::{DeserializeErrorKind, StringRecord};

use super::logs::LogRow;
use crate::base::error::{Error, Result};
use crate::base::shipped::{self, ShippedFile};

/// A CSV file that is read row by row.
#[derive(Debug)]
pub struct CsvFile {
    path: PathBuf,
    names: StringRecord,
    reader: csv::Reader<Box<dyn ShippedFile>>,
    record: StringRecord,
}

/// A CSV file held in memory.
#[derive(Debug)]
pub struct CsvTable {
    pub file: CsvFile,
    records: Vec<StringRecord>,
}

/// A row of a CSV file.
#[derive(Clone, Copy, Debug)]
pub struct CsvRow<'a> {
    file: &'a CsvFile,
    record: &'a StringRecord,
}

/// A log with rows of type `T`.
#[derive(Debug)]
pub struct Log<T> {
    file: CsvFile,
    rows: PhantomData<T>,
}

impl CsvFile {
    pub fn open(path: &Path) -> Result<CsvFile> {
        let file = shipped::open(path).map_err(|cause| Error::unreadable(path, &cause))?;
        let mut reader = csv::Reader::from_reader(file);
        let names = reader
            .headers()
            .map_err(|cause| broken(path, &cause))?
            .clone();
        if names.is_empty() {
            return Err(Error::mistake(
                path,
                "is empty; it should begin with a header",
            ));
        }
        Ok(CsvFile {
            path: path.to_path_buf(),
            names,
            reader,
            record: StringRecord::new(),
        })
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter()
    }

    /// The next row, or `None` after the last. A row must have as many fields as the header.
    pub fn read(&mut self) -> Result<Option<CsvRow<'_>>> {
        let more = self
            .reader
            .read_record(&mut self.record)
            .map_err(|cause| broken(&self.path, &cause))?;
        if !more {
            return Ok(None);
        }
        Ok(Some(CsvRow {
            file: self,
            record: &self.record,
        }))
    }

    fn place(&self, name: &str) -> Result<usize> {
        self.names
            .iter()
            .position(|known| known == name)
            .ok_or_else(|| {
                let known = self.names.iter().collect::<Vec<_>>().join(", ");
                Error::mistake(
                    &self.path,
                    format_args!("no column \"{name}\"; there are {known}"),
                )
            })
    }
}

impl CsvTable {
    pub fn read(path: &Path) -> Result<CsvTable> {
        let mut file = CsvFile::open(path)?;
        let records = file
            .reader
            .records()
            .collect::<Result<_, _>>()
            .map_err(|cause| broken(path, &cause))?;
        Ok(CsvTable { file, records })
    }

    pub fn rows(&self) -> impl Iterator<Item = CsvRow<'_>> {
        self.records.iter().map(|record| CsvRow {
            file: &self.file,
            record,
        })
    }
}

impl<T: LogRow> Log<T> {
    pub fn open(path: &Path) -> Result<Log<T>> {
        let file = CsvFile::open(path)?;
        T::COLUMNS[..T::NEEDED]
            .iter()
            .try_for_each(|name| file.place(name).map(drop))?;
        Ok(Log {
            file,
            rows: PhantomData,
        })
    }

    /// Opens a log, or returns `None` if the file does not exist.
    pub fn open_if_there(path: &Path) -> Result<Option<Log<T>>> {
        if !path.is_file() {
            return Ok(None);
        }
        Log::open(path).map(Some)
    }

    /// The next row, or `None` after the last.
    pub fn read(&mut self) -> Result<Option<T>> {
        self.file.read()?.map(|row| row.deserialize()).transpose()
    }

    /// An error about the row that was read last.
    pub fn error(&self, name: &str, what: &str) -> Error {
        CsvRow {
            file: &self.file,
            record: &self.file.record,
        }
        .error(name, what)
    }
}

impl<'a> CsvRow<'a> {
    pub fn fields(&self) -> impl Iterator<Item = &'a str> {
        self.record.iter()
    }

    /// The field in a column. The error for an unknown column lists those of the file.
    pub fn text(&self, name: &str) -> Result<&'a str> {
        Ok(&self.record[self.file.place(name)?])
    }

    /// The number in a column, or `None` if the field is empty.
    pub fn number(&self, name: &str) -> Result<Option<f64>> {
        match self.text(name)? {
            "" => Ok(None),
            text => match text.parse() {
                Ok(value) if f64::is_finite(value) => Ok(Some(value)),
                _ => Err(self.error(name, &format!("\"{text}\" is not a number"))),
            },
        }
    }

    /// The whole number in a column.
    pub fn whole(&self, name: &str) -> Result<u64> {
        let text = self.text(name)?;
        text.parse().map_err(|cause: std::num::ParseIntError| {
            self.error(name, &integer_problem(text, cause.kind()))
        })
    }

    /// An error that names the file, the line and the column.
    pub fn error(&self, name: &str, what: &str) -> Error {
        let line = self.record.position().map_or(0, csv::Position::line);
        Error::mistake(&self.file.path, format_args!("line {line}: {name}: {what}"))
    }

    fn deserialize<T: LogRow>(&self) -> Result<T> {
        let names = &self.file.names;
        self.record.deserialize(Some(names)).map_err(|cause| {
            let csv::ErrorKind::Deserialize { err, .. } = cause.kind() else {
                return broken(&self.file.path, &cause);
            };
            let field = err.field().unwrap_or_default() as usize;
            let what = match err.kind() {
                DeserializeErrorKind::ParseInt(cause) => {
                    integer_problem(&self.record[field], cause.kind())
                }
                kind => kind.to_string(),
            };
            self.error(&names[field], &what)
        })
    }
}

fn integer_problem(text: &str, why: &IntErrorKind) -> String {
    match why {
        IntErrorKind::Empty => "is empty; a whole number is needed".into(),
        IntErrorKind::PosOverflow => format!("{text} is too large"),
        _ => format!("\"{text}\" is not a whole number"),
    }
}

fn broken(path: &Path, cause: &csv::Error) -> Error {
    let line = cause.position().map_or(0, csv::Position::line);
    let what = match cause.kind() {
        csv::ErrorKind::UnequalLengths {
            expected_len, len, ..
        } => {
            format!("line {line}: has {len} fields, but the header has {expected_len}")
        }
        csv::ErrorKind::Utf8 { .. } => format!("line {line}: is not UTF-8 text"),
        _ => format!("cannot be read: {cause}"),
    };
    Error::mistake(path, what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::units::{Nanos, RequestId};
    use crate::lab::results::logs::RequestLine;

    fn with<T>(text: &str, read: impl FnOnce(&Path) -> T) -> T {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.csv");
        std::fs::write(&path, text).unwrap();
        read(&path)
    }

    #[test]
    fn an_empty_field_is_neither_a_number_nor_an_error() {
        let table = with("a,b\n1.5,\n", CsvTable::read).unwrap();
        let row = table.rows().next().unwrap();
        assert_eq!(row.number("a").unwrap(), Some(1.5));
        assert_eq!(row.number("b").unwrap(), None);
    }

    #[test]
    fn errors_name_line_and_column() {
        let table = with("a,b\n1,2\n3,x\n", CsvTable::read).unwrap();
        let row = table.rows().nth(1).unwrap();
        let ends = |error: Error, end: &str| assert!(error.to_string().ends_with(end), "{error}");
        ends(
            row.whole("b").unwrap_err(),
            "t.csv: line 3: b: \"x\" is not a whole number",
        );
        ends(
            row.number("b").unwrap_err(),
            "t.csv: line 3: b: \"x\" is not a number",
        );
        ends(
            row.text("c").unwrap_err(),
            "no column \"c\"; there are a, b",
        );
        ends(
            with("a,b\n1\n", CsvTable::read).unwrap_err(),
            "line 2: has 1 fields, but the header has 2",
        );
        ends(
            with("", CsvTable::read).unwrap_err(),
            "is empty; it should begin with a header",
        );
    }

    #[test]
    fn a_row_of_a_log_has_its_type() {
        let read = |rows: &str| {
            with(
                &format!("more,finish_ns,start_ns,arrival_ns,id\n{rows}\n"),
                |path| Log::<RequestLine>::open(path).unwrap().read(),
            )
        };
        let line = RequestLine::earlier(RequestId(7), [Some(Nanos(1)), None, Some(Nanos(9))]);
        assert_eq!(read("x,9,,1,7").unwrap(), Some(line));
        for (row, error) in [
            (
                "x,9,a,1,7",
                "t.csv: line 2: start_ns: \"a\" is not a whole number",
            ),
            (
                "x,9,2,,7",
                "t.csv: line 2: arrival_ns: is empty; a whole number is needed",
            ),
            (
                "x,9,2,1,50000000000000000000",
                "t.csv: line 2: id: 50000000000000000000 is too large",
            ),
            ("x,9", "line 2: has 2 fields, but the header has 5"),
        ] {
            let found = read(row).unwrap_err().to_string();
            assert!(found.ends_with(error), "{found}");
        }
        let error = with("id,arrival_ns\n", |path| {
            Log::<RequestLine>::open(path).unwrap_err().to_string()
        });
        assert!(
            error.ends_with("t.csv: no column \"start_ns\"; there are id, arrival_ns"),
            "{error}"
        );
    }
}
