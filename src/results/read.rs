//! Result files, read by the names of their columns.

use std::fs::File;
use std::path::{Path, PathBuf};

use csv::StringRecord;

use crate::error::{Error, Result};

#[derive(Clone, Copy, Debug)]
pub struct CsvColumn {
    index: usize,
    name: &'static str,
}

#[derive(Clone, Copy, Debug)]
pub struct CsvRow<'a> {
    path: &'a Path,
    record: &'a StringRecord,
}

#[derive(Debug)]
pub struct CsvFile {
    path: PathBuf,
    names: StringRecord,
    reader: csv::Reader<File>,
    record: StringRecord,
}

/// A CSV file held in memory.
#[derive(Debug)]
pub struct CsvTable {
    path: PathBuf,
    names: StringRecord,
    records: Vec<StringRecord>,
}

impl CsvFile {
    pub fn open(path: &Path) -> Result<CsvFile> {
        let file = File::open(path).map_err(|cause| Error::unreadable(path, &cause))?;
        let mut reader = csv::Reader::from_reader(file);
        let names = reader.headers().map_err(|cause| broken(path, &cause))?.clone();
        if names.is_empty() {
            return Err(Error::input(format!("{}: is empty; it should begin with a header", path.display())));
        }
        Ok(CsvFile { path: path.to_path_buf(), names, reader, record: StringRecord::new() })
    }

    /// `None` if the file does not exist.
    pub fn open_if_there(path: &Path) -> Result<Option<CsvFile>> {
        if path.is_file() { CsvFile::open(path).map(Some) } else { Ok(None) }
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter()
    }

    /// The error lists the columns of the file.
    pub fn column(&self, name: &'static str) -> Result<CsvColumn> {
        column(&self.path, &self.names, name)
    }

    pub fn columns<const N: usize>(&self, names: [&'static str; N]) -> Result<[CsvColumn; N]> {
        let mut columns = [CsvColumn { index: 0, name: "" }; N];
        for (column, name) in columns.iter_mut().zip(names) {
            *column = self.column(name)?;
        }
        Ok(columns)
    }

    /// `None` after the last. A row must have as many fields as the header.
    pub fn read(&mut self) -> Result<Option<CsvRow<'_>>> {
        match self.reader.read_record(&mut self.record) {
            Ok(true) => Ok(Some(CsvRow { path: &self.path, record: &self.record })),
            Ok(false) => Ok(None),
            Err(cause) => Err(broken(&self.path, &cause)),
        }
    }
}

impl CsvTable {
    pub fn read(path: &Path) -> Result<CsvTable> {
        let mut file = CsvFile::open(path)?;
        let mut records = Vec::new();
        while let Some(row) = file.read()? {
            records.push(row.record.clone());
        }
        Ok(CsvTable { path: file.path, names: file.names, records })
    }

    /// The error lists the columns of the file.
    pub fn column(&self, name: &'static str) -> Result<CsvColumn> {
        column(&self.path, &self.names, name)
    }

    pub fn rows(&self) -> impl Iterator<Item = CsvRow<'_>> {
        self.records.iter().map(|record| CsvRow { path: &self.path, record })
    }

    pub fn row(&self, index: usize) -> CsvRow<'_> {
        CsvRow { path: &self.path, record: &self.records[index] }
    }
}

impl<'a> CsvRow<'a> {
    pub fn text(&self, column: CsvColumn) -> &'a str {
        &self.record[column.index]
    }

    /// `None` if the field is empty.
    pub fn number(&self, column: CsvColumn) -> Result<Option<f64>> {
        self.parsed(column, "a number", |text| text.parse::<f64>().ok().filter(|value| value.is_finite()))
    }

    /// `None` if the field is empty.
    pub fn whole(&self, column: CsvColumn) -> Result<Option<u64>> {
        self.parsed(column, "a whole number", |text| text.parse::<u64>().ok())
    }

    /// An empty field is an error.
    pub fn needed(&self, column: CsvColumn) -> Result<u64> {
        self.whole(column)?.ok_or_else(|| self.error(column, "is empty; a whole number is needed"))
    }

    /// Names file, line and column.
    pub fn error(&self, column: CsvColumn, what: &str) -> Error {
        let line = self.record.position().map_or(0, csv::Position::line);
        Error::input(format!("{}: line {line}: {}: {what}", self.path.display(), column.name))
    }

    fn parsed<T>(&self, column: CsvColumn, what: &str, parse: impl Fn(&str) -> Option<T>) -> Result<Option<T>> {
        match self.text(column) {
            "" => Ok(None),
            text => match parse(text) {
                Some(value) => Ok(Some(value)),
                None => Err(self.error(column, &format!("\"{text}\" is not {what}"))),
            },
        }
    }
}

fn column(path: &Path, names: &StringRecord, name: &'static str) -> Result<CsvColumn> {
    match names.iter().position(|known| known == name) {
        Some(index) => Ok(CsvColumn { index, name }),
        None => {
            let known = names.iter().collect::<Vec<_>>().join(", ");
            Err(Error::input(format!("{}: no column \"{name}\"; there are {known}", path.display())))
        }
    }
}

fn broken(path: &Path, cause: &csv::Error) -> Error {
    let path = path.display();
    match cause.kind() {
        csv::ErrorKind::UnequalLengths { pos, expected_len, len } => {
            let line = pos.as_ref().map_or(0, csv::Position::line);
            Error::input(format!("{path}: line {line}: has {len} fields, but the header has {expected_len}"))
        }
        csv::ErrorKind::Utf8 { pos, .. } => {
            let line = pos.as_ref().map_or(0, csv::Position::line);
            Error::input(format!("{path}: line {line}: is not UTF-8 text"))
        }
        _ => Error::input(format!("{path}: cannot be read: {cause}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str) -> Result<CsvTable> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.csv");
        std::fs::write(&path, text).unwrap();
        CsvTable::read(&path)
    }

    #[test]
    fn an_empty_field_is_no_number_and_no_error() {
        let table = table("a,b\n1.5,\n").unwrap();
        let (a, b) = (table.column("a").unwrap(), table.column("b").unwrap());
        assert_eq!(table.row(0).number(a).unwrap(), Some(1.5));
        assert_eq!(table.row(0).number(b).unwrap(), None);
    }

    #[test]
    fn errors_name_line_and_column() {
        let table_ = table("a,b\n1,2\n3,x\n").unwrap();
        let b = table_.column("b").unwrap();
        let error = table_.row(1).whole(b).unwrap_err().to_string();
        assert!(error.ends_with("t.csv: line 3: b: \"x\" is not a whole number"), "{error}");
        let error = table_.column("c").unwrap_err().to_string();
        assert!(error.ends_with("no column \"c\"; there are a, b"), "{error}");
        let error = table("a,b\n1\n").unwrap_err().to_string();
        assert!(error.ends_with("line 2: has 1 fields, but the header has 2"), "{error}");
        assert!(table("").unwrap_err().to_string().ends_with("is empty; it should begin with a header"));
    }
}
