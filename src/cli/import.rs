//! `batchlab import`.

use std::path::{Path, PathBuf};

use super::find;
use super::render::{put, say};
use crate::base::error::{Context as _, Error, Result, refuse_if};
use crate::base::files::refuse_overwrite;
use crate::base::shipped::{self, Shipped};
use crate::core::policy::closed_batches::Version;
use crate::lab::import::perf_analyzer::MeasuredTimes;
use crate::lab::import::stages::StagedNetwork;
use crate::lab::import::triton;

/// Make policies, cost tables and networks in stages from measurements and files of other serving tools
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    #[command(subcommand)]
    from: ImportCommand,
}

#[derive(clap::Args, Clone, Debug)]
struct ImportOutput {
    /// File to write; `-` for standard output [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
}

impl ImportOutput {
    fn refuse_input(&self, input: &Path) -> Result<()> {
        match &self.out {
            Some(out) => refuse_overwrite(input, out),
            None => Ok(()),
        }
    }

    fn write(&self, text: &str) -> Result<()> {
        let out = self.out.as_deref();
        put(out.filter(|path| *path != Path::new("-")), text)
    }
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
        #[command(flatten)]
        output: ImportOutput,
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
        #[command(flatten)]
        output: ImportOutput,
    },
    /// A network in stages, and its cost table, from the times of whole batches, for dvabatch and lazy
    ///
    /// The network is for the model dnn:NAME.csv, the table for device.costs. The times of the stages add up to those of
    /// the table.
    Stages {
        /// A cost table cell,batch,ns
        costs: PathBuf,
        /// The cell to divide
        #[arg(long, default_value = "net", value_name = "NAME")]
        cell: String,
        /// The number of stages, which take the same time
        #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1_000))]
        stages: u32,
        /// The relative time of each stage, such as 3,2,1, if they differ
        #[arg(
            long,
            value_name = "SHARE,…",
            value_delimiter = ',',
            conflicts_with = "stages"
        )]
        shares: Vec<f64>,
        /// Writes NAME.csv, the network, and NAME-costs.csv, its cost table
        #[arg(short, long, value_name = "NAME")]
        out: PathBuf,
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
    match &args.from {
        ImportCommand::Stages {
            costs,
            cell,
            stages,
            shares,
            out,
        } => {
            let shares = match &shares[..] {
                [] => vec![1.0; *stages as usize],
                given => given.to_vec(),
            };
            divide(costs, cell, &shares, out)
        }
        ImportCommand::Triton {
            config,
            release,
            output,
        } => {
            output.refuse_input(config)?;
            let imported = triton::policy(&shipped::text(config)?, release.version())
                .within(config.display())?;
            for note in &imported.notes {
                say(format_args!("{}: {note}", config.display()));
            }
            output.write(&imported.table()?)
        }
        ImportCommand::PerfAnalyzer {
            files,
            cell,
            output,
        } => {
            let mut measured = MeasuredTimes::default();
            for file in files {
                let sized = file
                    .split_once('=')
                    .and_then(|(size, path)| Some((size.parse().ok()?, path)));
                // A file's name may have an equals sign.
                let sized = sized.filter(|(size, _)| *size > 0);
                let path = sized.map_or(file.as_str(), |(_, path)| path);
                output.refuse_input(Path::new(path))?;
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
            output.write(&table)
        }
    }
}

/// Writes a network in stages and its cost table.
fn divide(costs: &Path, cell: &str, shares: &[f64], out: &Path) -> Result<()> {
    refuse_if(out == Path::new("-"), || {
        Error::input(
            "--out: two files are written, NAME.csv and NAME-costs.csv; \"-\" can't name them",
        )
    })?;
    let costs = &find(Shipped::Costs, costs, false)?;
    let name = costs.display().to_string();
    let staged = StagedNetwork::divide(&shipped::text(costs)?, &name, cell, shares)?;
    let out = out.display().to_string();
    let stem = out.strip_suffix(".csv").unwrap_or(&out);
    let network = format!("{stem}.csv");
    let staged_costs = format!("{stem}-costs.csv");
    for file in [&network, &staged_costs] {
        refuse_overwrite(costs, Path::new(file))?;
    }
    put(Some(Path::new(&network)), &staged.network)?;
    put(Some(Path::new(&staged_costs)), &staged.costs)?;
    say(format_args!(
        "wrote {network}, for model = \"dnn:{network}\", and {staged_costs}, for device.costs"
    ));
    Ok(())
}
