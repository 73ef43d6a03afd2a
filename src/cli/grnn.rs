//! `batchlab grnn`: persistent kernels for recurrent networks.

mod rank;

use crate::error::Result;

/// Persistent kernels for recurrent networks: which mapping of them is fastest
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand, Clone, Debug)]
enum Command {
    Rank(rank::Args),
}

/// Runs `batchlab grnn`.
///
/// # Errors
/// Those of its commands.
pub fn run(args: &Args) -> Result<()> {
    match &args.command {
        Command::Rank(args) => rank::run(args),
    }
}
