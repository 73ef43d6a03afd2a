//! `batchlab grnn`.

mod rank;
mod tune;

use std::path::PathBuf;

use super::render::{print, put};
use crate::base::error::{Error, Result};
use crate::base::files::can_write;
use crate::core::cost::grnn::{DataSheet, SCHEDULERS, data_sheet_file};
use crate::devices::cuda::gpu::grnn::{GpuHost, measure};

#[derive(clap::Subcommand, Clone, Debug)]
pub enum GrnnCommand {
    Fit(FitArgs),
    Rank(rank::Args),
    Tune(tune::Args),
}

pub fn run(command: &GrnnCommand) -> Result<()> {
    match command {
        GrnnCommand::Fit(args) => fit(args),
        GrnnCommand::Rank(args) => rank::run(args),
        GrnnCommand::Tune(args) => tune::run(args),
    }
}

/// Measure the model's parameters of this host's GPU, and write a device file
///
/// Micro-benchmarks measure multiply-adds, shuffles, the L2 cache, the barrier of a row, products and reductions; S1,
/// S2 and S3 are fitted to them. rank and tune read the file with --device.
#[derive(clap::Args, Clone, Debug)]
pub struct FitArgs {
    /// The name of the device
    #[arg(long, value_name = "NAME", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    device_name: String,
    /// The device file, FILE.toml
    #[arg(short, long, value_name = "FILE")]
    out: PathBuf,
    /// Measurements of each quantity, of which the median is used
    #[arg(long, value_name = "N", default_value_t = 21, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    times: u32,
}

fn fit(args: &FitArgs) -> Result<()> {
    let out = args.out.display();
    if args.out.extension().is_none_or(|end| end != "toml") {
        return Err(Error::input(format!(
            "--out {out}: a device file ends with .toml, as --device needs it"
        )));
    }
    can_write(&args.out)?;
    let way = "fit measures on a GPU; scenarios/devices has files of others";
    let host = GpuHost::open().map_err(|error| Error::input(format!("{error}; {way}")))?;
    let reported = host.report(&args.device_name)?;
    let measured = measure(&host, SCHEDULERS, args.times as usize)?;
    let device = measured.data_sheet(&reported)?;
    let text = data_sheet_file(&device, &measured, &reported);
    DataSheet::parse(&text, "what was fitted")
        .map_err(|error| Error::failure(error.to_string()))?;
    put(Some(&args.out), &text)?;
    let [products, reductions] = measured.misses(&device.constants).map(|miss| 100.0 * miss);
    print(&format!(
        "{text}\nThe fits miss products by up to {products:.1} %, reductions by up to {reductions:.1} %. Written to {out}\n"
    ))
}
