//! `batchlab import`.

use std::path::{Path, PathBuf};

use super::render::{put, say};
use crate::base::error::{Context as _, Result};
use crate::base::shipped;
use crate::core::policy::closed_batches::Version;
use crate::lab::import::perf_analyzer::MeasuredTimes;
use crate::lab::import::triton;

/// Make policies and cost tables from files of other serving tools
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    #[command(subcommand)]
    from: ImportCommand,

    /// File to write; `-` for standard output [default: standard output]
    #[arg(short, long, value_name = "FILE", global = true)]
    out: Option<PathBuf>,
}

#[derive(clap::Subcommand, Clone, Debug)]
enum ImportCommand {
    /// The table of a policy from a model's config.pbtxt in Triton's repository
    ///
    /// Fields that are not modelled are named on standard error; docs/TRITON.md says why.
    Triton {
        /// The model's config.pbtxt
        config: PathBuf,
        /// Triton's release
        #[arg(long, value_enum, default_value = "22.03")]
        release: Release,
    },
    /// A cost table from measurements of perf_analyzer (its option -f) at concurrency 1
    ///
    /// A file has requests of several sizes if it has a column `Batch Size`; otherwise write SIZE=FILE. Rows that can't
    /// be used are named on standard error.
    PerfAnalyzer {
        /// CSV files, or SIZE=FILE for one with requests of one size
        #[arg(required = true, value_name = "[SIZE=]FILE")]
        files: Vec<String>,
        /// The cell's name in the table, for the model dnn:NAME
        #[arg(long, default_value = "net", value_name = "NAME")]
        cell: String,
    },
}

#[derive(clap::ValueEnum, Clone, Copy, Debug)]
enum Release {
    /// A batch is closed when it is formed (releases 21.09 to 21.12)
    #[value(name = "21.10")]
    Closed,
    /// A batch takes in requests until an instance takes it (from 22.01 on)
    #[value(name = "22.03")]
    Open,
}

impl Release {
    fn version(self) -> Version {
        match self {
            Release::Closed => Version::Closed,
            Release::Open => Version::Open,
        }
    }
}

pub fn run(args: &Args) -> Result<()> {
    let text = match &args.from {
        ImportCommand::Triton { config, release } => {
            let imported = triton::policy(&shipped::text(config)?, release.version())
                .within(config.display())?;
            for note in &imported.notes {
                say(format_args!("{}: {note}", config.display()));
            }
            imported.table()?
        }
        ImportCommand::PerfAnalyzer { files, cell } => {
            let mut measured = MeasuredTimes::default();
            for file in files {
                let sized = file
                    .split_once('=')
                    .and_then(|(size, path)| Some((size.parse().ok()?, path)));
                // A file's name may have an equals sign.
                let sized = sized.filter(|(size, _)| *size > 0);
                let path = sized.map_or(file.as_str(), |(_, path)| path);
                measured.add(
                    &shipped::text(Path::new(path))?,
                    path,
                    sized.map(|(size, _)| size),
                )?;
            }
            let table = measured.table(cell)?;
            for row in &measured.unused {
                say(format_args!("{row}; the row is not used"));
            }
            table
        }
    };
    put(
        args.out.as_deref().filter(|path| *path != Path::new("-")),
        &text,
    )
}
