//! Where `batchlab trace` writes.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::cli::print_with;
use crate::error::{Error, Result};
use crate::workload::trace::Trace;

/// Where to write.
#[derive(Debug, clap::Args)]
pub(super) struct OutputArgs {
    /// The trace file to write; `-` or none for standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl OutputArgs {
    /// Writes the trace, and for a file says so on standard error.
    pub(super) fn write(&self, trace: &Trace) -> Result<()> {
        let Some(path) = self.output.as_deref().filter(|path| *path != Path::new("-")) else {
            return print_with(|out| trace.write_to(out));
        };
        if path.exists() && !path.is_file() {
            // A device or a pipe is written to, not replaced.
            return File::create(path)
                .and_then(|file| {
                    let mut out = BufWriter::new(file);
                    trace.write_to(&mut out)?;
                    out.flush()
                })
                .map_err(|cause| Error::unwritable(path, &cause));
        }
        trace.write(path)?;
        let span = trace.arrivals.last().map_or(0.0, |last| last.as_secs_f64());
        eprintln!("wrote {} requests over {span:.3} s to {}", trace.len(), path.display());
        Ok(())
    }
}
