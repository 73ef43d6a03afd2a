//! Results as tables for a reader, or as JSON for a program.

use std::fmt::Display;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use serde::Serialize;
use serde_json::Value;

use super::session::{give_note, give_result};
use crate::base::error::{Error, Result, printable};
use crate::base::files::write_typed;

/// The option of every command that prints results.
#[derive(clap::Args, Clone, Copy, Debug)]
pub struct Shown {
    /// How the results are printed
    #[arg(long, value_enum, default_value_t = OutputFormat::Table)]
    format: OutputFormat,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum OutputFormat {
    /// For a reader
    Table,
    /// An array of results, for a program
    Json,
}

impl Shown {
    /// Prints a single result.
    pub fn show<J: Serialize>(
        self,
        table: impl FnOnce() -> String,
        json: impl FnOnce() -> J,
    ) -> Result<()> {
        let mut several = self.several();
        several.show(table, json)?;
        several.end()
    }

    pub fn several(self) -> Several {
        Several {
            json: match self.format {
                OutputFormat::Table => None,
                OutputFormat::Json => Some(Vec::new()),
            },
        }
    }
}

/// The results of one call: tables are printed at once, JSON at the end as one array.
pub struct Several {
    json: Option<Vec<Value>>,
}

impl Several {
    pub fn show<J: Serialize>(
        &mut self,
        table: impl FnOnce() -> String,
        json: impl FnOnce() -> J,
    ) -> Result<()> {
        let Some(results) = &mut self.json else {
            return print(&table());
        };
        match serde_json::to_value(json()).map_err(Error::failure)? {
            Value::Array(list) => results.extend(list),
            one => results.push(one),
        }
        Ok(())
    }

    /// Prints the JSON. A single result is an array too, so that a program reads the results of all calls alike.
    pub fn end(self) -> Result<()> {
        match self.json {
            Some(results) => print(&format!("{:#}\n", Value::Array(results))),
            None => Ok(()),
        }
    }
}

/// The width of the terminal in characters; `None` if standard output is not a terminal.
pub fn terminal_width() -> Option<usize> {
    terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| usize::from(width.0))
}

/// Prints to standard output. A reader that stops reading, such as `head`, is not an error.
pub fn print(text: &str) -> Result<()> {
    if give_result(text) {
        return Ok(());
    }
    print_with(|out| out.write_all(printable(text).as_bytes()))
}

/// Prints a line on standard error. If that can't be written, the exit code still says what happened.
pub fn say(line: impl Display) {
    let line = line.to_string();
    if !give_note(&line) {
        let _ = writeln!(io::stderr(), "{}", printable(&line));
    }
}

/// Writes to a file that the user has named, or to standard output.
pub fn put(path: Option<&Path>, text: &str) -> Result<()> {
    match path {
        Some(path) => write_typed(path, |out| out.write_all(text.as_bytes())),
        None => print(text),
    }
}

/// Prints what `fill` writes, as [`print()`] does.
pub fn print_with(
    fill: impl FnOnce(&mut BufWriter<io::StdoutLock<'_>>) -> io::Result<()>,
) -> Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    match fill(&mut out).and_then(|()| out.flush()) {
        Err(cause) if cause.kind() == io::ErrorKind::BrokenPipe => {
            // Dropping the buffer would write its rest again.
            let _ = out.into_parts();
            Ok(())
        }
        Err(cause) => Err(Error::failure(format!(
            "standard output: cannot be written: {cause}"
        ))),
        Ok(()) => Ok(()),
    }
}
