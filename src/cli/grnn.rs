//! `batchlab grnn`: persistent kernels for recurrent networks.

mod fit;
mod rank;
mod tune;

use crate::cost::grnn::Cell;
use crate::error::Result;

/// Persistent kernels for recurrent networks: which mapping of them is fastest
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand, Clone, Debug)]
enum Command {
    Fit(fit::Args),
    Rank(rank::Args),
    Tune(tune::Args),
}

/// The cells that have kernels.
#[derive(clap::ValueEnum, Clone, Copy, Debug)]
enum CellName {
    /// With one synchronisation a step
    Lstm,
    /// With one or two
    Gru,
}

impl CellName {
    fn cell(self) -> Cell {
        match self {
            CellName::Lstm => Cell::Lstm,
            CellName::Gru => Cell::Gru,
        }
    }
}

/// Runs `batchlab grnn`.
///
/// # Errors
/// Those of its commands.
pub fn run(args: &Args) -> Result<()> {
    match &args.command {
        Command::Fit(args) => fit::run(args),
        Command::Rank(args) => rank::run(args),
        Command::Tune(args) => tune::run(args),
    }
}
