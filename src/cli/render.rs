//! Results as a table for a reader, or as JSON for a program.

use std::io::{self, BufWriter, Write};

use serde_json::Value;

use crate::error::{Error, Result};

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// For a reader
    Table,
    /// For a program
    Json,
}

impl Format {
    pub fn show(self, table: impl FnOnce() -> String, json: impl FnOnce() -> Value) -> Result<()> {
        match self {
            Format::Table => print(&table()),
            Format::Json => print_json(vec![json()]),
        }
    }
}

/// A reader that stops reading, such as `head`, is not an error.
pub fn print(text: &str) -> Result<()> {
    print_with(|out| out.write_all(text.as_bytes()))
}

/// As [`print()`].
pub fn print_with(fill: impl FnOnce(&mut BufWriter<io::StdoutLock<'_>>) -> io::Result<()>) -> Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    match fill(&mut out).and_then(|()| out.flush()) {
        Err(cause) if cause.kind() == io::ErrorKind::BrokenPipe => {
            // Dropping the buffer would write its rest again.
            let _ = out.into_parts();
            Ok(())
        }
        Err(cause) => Err(Error::failed(format!("standard output: cannot be written: {cause}"))),
        Ok(()) => Ok(()),
    }
}

/// The value itself, or an array of several.
pub fn print_json(mut values: Vec<Value>) -> Result<()> {
    let document = if values.len() == 1 { values.remove(0) } else { Value::Array(values) };
    print(&format!("{document:#}\n"))
}
