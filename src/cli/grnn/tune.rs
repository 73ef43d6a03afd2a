//! `batchlab grnn tune`: the mappings that the model ranks first, measured.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use rand::seq::index::sample;
use serde_json::{Value, json};

use super::CellName;
use crate::backend::cuda::gpu::grnn::{Host, Tuned, Tuner};
use crate::cli::{Format, print, print_json};
use crate::cost::grnn::{Cell, Device, Mapping, Ranked, Space, rank};
use crate::error::{Error, Result};
use crate::files::write_whole;
use crate::workload::random;

/// Find the fastest mapping of a persistent kernel on this host's GPU
///
/// The mappings that the model ranks first are compiled, checked against the CPU and run; the fastest is kept for the next time.
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    /// What the kernel computes; for a GRU both ways to synchronise are tried
    #[arg(long, value_enum)]
    cell: CellName,
    /// The width of the state, and of the inputs
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=8192))]
    hidden: u32,
    /// The sequences that run together
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=4096))]
    batch: u32,
    /// The steps of a sequence
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    steps: u32,
    /// The device whose constants rank, by name or as a file; its multiprocessors are those of the GPU [default: the one that the
    /// GPU's name has in it, otherwise titan-v]
    #[arg(long)]
    device: Option<String>,
    /// How many of the first are run
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    top: u32,
    /// Also run so many others, drawn from all valid ones, to see what the model misses
    #[arg(long, value_name = "N", default_value_t = 0)]
    all: usize,
    /// Of which draw
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// How often each is measured; the median counts
    #[arg(long, value_name = "N", default_value_t = 21, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    times: u32,
    /// Measure even if the fastest is known
    #[arg(long)]
    again: bool,
    /// Write all that was measured to a file
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// How they are printed
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

/// A mapping with its place among all valid ones, and its time.
struct Measured {
    place: usize,
    ranked: Ranked,
    time: Duration,
}

/// Tunes, prints what was measured and keeps the fastest.
///
/// # Errors
/// No GPU, or no library for it; a device that is not known; a size without valid mappings; mappings of which the GPU runs none; a
/// kernel that computes something else than the CPU; a file that can't be written.
pub fn run(args: &Args) -> Result<()> {
    let host = Host::open().map_err(|error| {
        Error::input(format!("{error}; tune runs kernels on a GPU, and batchlab grnn rank needs none"))
    })?;
    let (gpu, device) = (host.name().to_string(), device(args, &host)?);
    let cell = args.cell.cell();
    let all = rank(cell, args.hidden, args.batch, &device, &Space::default());
    if all.is_empty() {
        return Err(Error::input(format!(
            "no mapping of {} with hidden {} and batch {} is valid on {gpu}; batchlab grnn rank says which batches run instead",
            cell.name(),
            args.hidden,
            args.batch
        )));
    }
    let tuner = Tuner::new(host, cell, args.hidden, args.batch, args.steps)?;
    if let Some(known) = tuner.recall().filter(|_| !args.again && args.all == 0) {
        return show_known(&known, &gpu, args);
    }
    let measured = measure(&tuner, &all, args)?;
    let best = measured.iter().min_by_key(|one| one.time).expect("one was measured");
    tuner.keep(&Tuned {
        rnn: best.ranked.rnn,
        mapping: best.ranked.mapping,
        steps: args.steps,
        nanoseconds: best.time.as_nanos() as u64,
    });
    if let Some(file) = &args.csv {
        let text = csv(&measured);
        write_whole(file, |out| out.write_all(text.as_bytes()))?;
    }
    match args.format {
        Format::Table => print(&table(&measured, best, all.len(), &gpu, cell, args)),
        Format::Json => print_json(vec![json!({
            "gpu": gpu,
            "cell": cell.name(),
            "hidden": args.hidden,
            "batch": args.batch,
            "steps": args.steps,
            "valid": all.len(),
            "best": object(best),
            "measured": measured.iter().map(object).collect::<Vec<_>>(),
            "regret": regrets(&measured, best, args).map(|(one, top)| json!({ "top_1": one, "top": top })),
        })]),
    }
}

/// What the model knows of the GPU.
fn device(args: &Args, host: &Host) -> Result<Device> {
    let known = || {
        let all = ["titan-v", "v100", "titan-rtx", "h200"].into_iter().filter_map(|name| Device::open(name).ok());
        all.into_iter().find(|device| host.name().contains(&device.name))
    };
    let device = match &args.device {
        Some(given) => Device::open(given)?,
        None => known().map_or_else(|| Device::open("titan-v"), Ok)?,
    };
    Ok(Device { multiprocessors: host.multiprocessors(), ..device })
}

/// Runs the first ones, and those that are drawn, in the order of their rank.
fn measure(tuner: &Tuner, all: &[Ranked], args: &Args) -> Result<Vec<Measured>> {
    let top = (args.top as usize).min(all.len());
    let mut places: Vec<usize> = (0..top).collect();
    let mut rng = random::stream(args.seed, 0, "grnn tune");
    places.extend(sample(&mut rng, all.len(), args.all.min(all.len())).into_iter().filter(|place| *place >= top));
    places.sort_unstable();
    let mut measured = Vec::new();
    let mut refused = None;
    for place in places {
        match tuner.measure(&all[place], args.times as usize) {
            Ok(time) => measured.push(Measured { place: place + 1, ranked: all[place], time }),
            Err(error) => {
                eprintln!("rank {} is passed over: {error}", place + 1);
                refused = Some(error);
            }
        }
    }
    match refused {
        Some(error) if measured.is_empty() => Err(error),
        _ => Ok(measured),
    }
}

/// By how much the first one, and the best of the first ones, are slower than the best of all; nothing without a sample.
fn regrets(measured: &[Measured], best: &Measured, args: &Args) -> Option<(f64, f64)> {
    let of = |first: usize| {
        let times = measured.iter().filter(|one| one.place <= first).map(|one| one.time);
        times.min().map(|time| time.as_secs_f64() / best.time.as_secs_f64() - 1.0)
    };
    (args.all > 0).then_some(())?;
    of(1).zip(of(args.top as usize))
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn words(rnn: impl std::fmt::Display, mapping: &Mapping) -> String {
    let Mapping { tile_width, tile_height, groups, group_size } = mapping;
    format!("{rnn}, tiles of {tile_width} by {tile_height}, {groups} groups of {group_size} threads")
}

fn show_known(known: &Tuned, gpu: &str, args: &Args) -> Result<()> {
    let time = Duration::from_nanos(known.nanoseconds);
    match args.format {
        Format::Json => print_json(vec![json!({ "gpu": gpu, "known": known })]),
        Format::Table => print(&format!(
            "known from an earlier run on {gpu}: {}: {:.4} ms for {} steps; --again measures anew\n",
            words(known.rnn, &known.mapping),
            milliseconds(time),
            known.steps
        )),
    }
}

fn table(measured: &[Measured], best: &Measured, valid: usize, gpu: &str, cell: Cell, args: &Args) -> String {
    let mut text = format!(
        "{}, hidden {}, batch {}, {} steps, on {gpu}: {} of {valid} valid mappings were run\n{:>6}{:>12}{:>5}{:>5}{:>8}{:>6}{:>14}{:>11}\n",
        cell.name(),
        args.hidden,
        args.batch,
        args.steps,
        measured.len(),
        "rank",
        "kernel",
        "TW",
        "TH",
        "groups",
        "size",
        "cost",
        "ms"
    );
    for one in measured.iter().filter(|one| one.place <= args.top as usize || one.place == best.place) {
        let Mapping { tile_width, tile_height, groups, group_size } = one.ranked.mapping;
        let (rnn, cost) = (one.ranked.rnn.to_string(), one.ranked.cost.total());
        writeln!(
            text,
            "{:>6}{rnn:>12}{tile_width:>5}{tile_height:>5}{groups:>8}{group_size:>6}{cost:>14.6}{:>11.4}",
            one.place,
            milliseconds(one.time)
        )
        .expect("a string takes all");
    }
    writeln!(text, "the fastest is rank {}, {}", best.place, words(best.ranked.rnn, &best.ranked.mapping))
        .expect("as above");
    if let Some((one, top)) = regrets(measured, best, args) {
        let percent = [one, top].map(|regret| regret * 100.0);
        let slower =
            format!("rank 1 is {:.1} % slower than it, the first {} are {:.1} %", percent[0], args.top, percent[1]);
        writeln!(text, "{slower}").expect("as above");
    }
    text
}

fn csv(measured: &[Measured]) -> String {
    let mut text = String::from("rank,kernel,tile_width,tile_height,work_groups,group_size,cost,ms\n");
    for Measured { place, ranked: Ranked { rnn, mapping, cost }, time } in measured {
        let Mapping { tile_width, tile_height, groups, group_size } = mapping;
        let (cost, time) = (cost.total(), milliseconds(*time));
        writeln!(text, "{place},{rnn},{tile_width},{tile_height},{groups},{group_size},{cost:.6},{time:.6}")
            .expect("a string takes all");
    }
    text
}

fn object(one: &Measured) -> Value {
    json!({
        "rank": one.place,
        "kernel": one.ranked.rnn.to_string(),
        "mapping": one.ranked.mapping,
        "cost": one.ranked.cost.total(),
        "ms": milliseconds(one.time),
    })
}
