//! `batchlab grnn tune`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use rand::seq::index::sample;
use serde_json::{Value, json};

use crate::base::error::{Error, Result};
use crate::base::files::can_write;
use crate::cli::render::{Shown, say};
use crate::cli::seed;
use crate::core::cost::grnn::{DataSheet, Mapping, RankedMapping, RecurrentCell, Rnn, Space, rank};
use crate::core::cost::roofline::Roofline;
use crate::core::workload::random;
use crate::devices::cuda::gpu::grnn::{GpuHost, Tuned, Tuner};
use crate::lab::results::table::tabulate;
use crate::papers::measured::{
    GpuTimes, MappingChoice, MeasuredMapping, SequenceSize, SequenceTime, Way,
};

/// Find the fastest mapping of a persistent kernel on this host's GPU
///
/// Compiles the mappings that the model ranks first, checks them against the CPU and runs them. The fastest is kept for
/// later runs.
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    /// The cell; for a GRU, both kernels (one or two synchronisations) are tried
    #[arg(long, value_enum)]
    cell: RecurrentCell,
    /// Width of the state and of the inputs
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=8192))]
    hidden: u32,
    /// Sequences in the batch
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=4096))]
    batch: u32,
    /// Steps of a sequence
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    steps: u32,
    /// The device whose constants rank the mappings, by name or as a file; the number of multiprocessors is the GPU's
    /// [default: the device in the GPU's name, otherwise titan-v]
    #[arg(long)]
    device: Option<String>,
    /// Number of mappings to run, from the top of the ranking
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    top: u32,
    /// Also run a random sample of N valid mappings, to see what the model misses
    #[arg(long, value_name = "N", default_value_t = 0)]
    all: usize,
    /// Seed of the random sample
    #[arg(long, default_value_t = 0, value_parser = seed)]
    seed: u64,
    /// Measurements of each mapping, of which the median is used
    #[arg(long, value_name = "N", default_value_t = 21, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    times: u32,
    /// Measure even if the fastest mapping is known
    #[arg(long)]
    again: bool,
    /// Run only kernels of this kind; they keep their ranks among both kinds
    #[arg(long, value_enum, conflicts_with = "all")]
    kernel: Option<Rnn>,
    /// Run this mapping instead of the first of the ranking (repeatable)
    #[arg(long = "mapping", value_name = "TW,TH,GPB,WS", conflicts_with_all = ["all", "top"])]
    mappings: Vec<Mapping>,
    /// Split a batch that is too large into N launches, one after another; times are for all of them
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=4096))]
    launches: u32,
    /// Add the measurements to a file, for `reproduce --measured`; those of the same mappings are replaced
    #[arg(short, long, value_name = "FILE", alias = "csv")]
    out: Option<PathBuf>,
    #[command(flatten)]
    shown: Shown,
}

/// Places in the ranking, and why each is run.
type Places = BTreeMap<usize, MappingChoice>;
/// A mapping that was run, and the time of a launch.
type TimedMapping = (MeasuredMapping, Duration);

pub fn run(args: &Args) -> Result<()> {
    let way = "tune runs kernels on a GPU, and batchlab grnn rank needs none";
    let host = GpuHost::open().map_err(|error| Error::input(format!("{error}; {way}")))?;
    let gpu = host.name().to_string();
    let device = open_device(args, &host)?;
    let part = batch_of_launch(args)?;
    let ranked = rank(args.cell, args.hidden, part, &device, &Space::default());
    if ranked.is_empty() {
        return Err(Error::input(format!(
            "no mapping of {} with hidden {} and batch {part} is valid on {gpu}; batchlab grnn rank shows which batches run \
             instead, and --launches splits a batch",
            args.cell.name(),
            args.hidden
        )));
    }
    let places = choose_places(&ranked, args, &gpu)?;
    let file = match &args.out {
        Some(path) => {
            can_write(path)?;
            Some(GpuTimes::open(path, &gpu, host.multiprocessors())?)
        }
        None => None,
    };
    let tuner = Tuner::new(host, args.cell, args.hidden, part, args.steps)?;
    // The user's choice may not contain the fastest.
    let is_whole = args.kernel.is_none() && args.mappings.is_empty();
    let may_recall = is_whole && !args.again && args.all == 0 && file.is_none();
    if may_recall && let Some(known) = tuner.recall() {
        return show_known(&known, &gpu, args);
    }
    let (timed, outcome) = measure(&tuner, &ranked, &places, &device.name, args);
    let Some(best) = timed.iter().min_by_key(|(_, time)| *time) else {
        return outcome;
    };
    if is_whole {
        keep(&tuner, best, args);
    }
    if let Some(file) = file {
        write(file, &timed, args)?;
    }
    let valid = ranked.len();
    args.shown.show(
        || as_text(&timed, best, valid, &gpu, args),
        || as_json(&timed, best, valid, &gpu, args),
    )?;
    outcome
}

/// The device whose constants rank the mappings, with the GPU's multiprocessors.
fn open_device(args: &Args, host: &GpuHost) -> Result<DataSheet> {
    let by_name = Roofline::find_for_gpu(host.name()).map(|(file, _)| file);
    let name = args.device.as_deref().or(by_name).unwrap_or("titan-v");
    let device = DataSheet::open(name)?;
    Ok(DataSheet {
        multiprocessors: host.multiprocessors(),
        constants: host.constants(&device.constants),
        // Ranks are others than by the published formula, and files of measurements keep the two apart.
        name: format!("{} (states on chip)", device.name),
    })
}

/// The batch of each launch. It is an error if fewer launches are enough.
fn batch_of_launch(args: &Args) -> Result<u32> {
    let batch = args.batch;
    let part = batch.div_ceil(args.launches);
    let needed = batch.div_ceil(part);
    if needed < args.launches {
        return Err(Error::input(format!(
            "--launches {}: a batch of {batch} in parts of {part} is {needed} launches",
            args.launches
        )));
    }
    Ok(part)
}

fn choose_places(ranked: &[RankedMapping], args: &Args, gpu: &str) -> Result<Places> {
    let mut of_kernel = Vec::new();
    for (place, one) in ranked.iter().enumerate() {
        if args.kernel.is_none_or(|kernel| one.rnn == kernel) {
            of_kernel.push(place);
        }
    }
    if of_kernel.is_empty() {
        let kernel = args
            .kernel
            .map_or(String::new(), |kernel| kernel.to_string());
        return Err(Error::input(format!(
            "--kernel {kernel}: none of the {} valid mappings on {gpu} is of it",
            ranked.len()
        )));
    }
    if args.mappings.is_empty() {
        Ok(draw_places(ranked.len(), &of_kernel, args))
    } else {
        find_given(ranked, &of_kernel, args, gpu)
    }
}

/// The first places, and a random sample of all. A mapping from the top is `First` even if it is drawn too.
fn draw_places(count: usize, of_kernel: &[usize], args: &Args) -> Places {
    let mut rng = random::sequence(args.seed, 0, "grnn tune");
    let mut places = Places::new();
    for place in sample(&mut rng, count, args.all.min(count)) {
        places.insert(place, MappingChoice::Drawn);
    }
    for place in of_kernel.iter().take(args.top as usize) {
        places.insert(*place, MappingChoice::First);
    }
    places
}

/// The places of the mappings that the user names.
fn find_given(
    ranked: &[RankedMapping],
    of_kernel: &[usize],
    args: &Args,
    gpu: &str,
) -> Result<Places> {
    let mut places = Places::new();
    for mapping in &args.mappings {
        let mut is_valid = false;
        for place in of_kernel {
            if ranked[*place].mapping == *mapping {
                places.insert(*place, MappingChoice::Given);
                is_valid = true;
            }
        }
        if !is_valid {
            return Err(Error::input(format!(
                "--mapping {mapping}: is not valid on {gpu}; {} mappings are, and batchlab grnn rank --out lists a device's",
                of_kernel.len()
            )));
        }
    }
    Ok(places)
}

/// Skips mappings that the GPU can't run; it is an error if none is left. A wrong result or a failing GPU ends the
/// measurement; earlier results are kept.
fn measure(
    tuner: &Tuner,
    ranked: &[RankedMapping],
    places: &Places,
    device: &str,
    args: &Args,
) -> (Vec<TimedMapping>, Result<()>) {
    let mut timed = Vec::new();
    let mut refused = Ok(());
    for (&place, &chosen) in places {
        let rank = place as u32 + 1;
        let mut kernel = match tuner.kernel(&ranked[place]) {
            Ok(kernel) => kernel,
            Err(error) => {
                say(format_args!("rank {rank} is passed over: {error}"));
                refused = Err(error);
                continue;
            }
        };
        let time = match tuner.measure(&mut kernel, args.times as usize) {
            Ok(time) => time,
            Err(error) => return (timed, Err(error)),
        };
        let mapping = MeasuredMapping {
            rnn: ranked[place].rnn,
            mapping: ranked[place].mapping,
            rank,
            valid: ranked.len() as u32,
            cost: ranked[place].cost.total(),
            constants: device.to_string(),
            chosen,
        };
        timed.push((mapping, time));
    }
    let outcome = if timed.is_empty() { refused } else { Ok(()) };
    (timed, outcome)
}

/// Keeps the fastest mapping for later runs. A faster one of an earlier run stays.
fn keep(tuner: &Tuner, best: &TimedMapping, args: &Args) {
    let (ranked, time) = best;
    let tuned = Tuned {
        rnn: ranked.rnn,
        mapping: ranked.mapping,
        steps: args.steps,
        nanoseconds: time.as_nanos() as u64,
    };
    let is_beaten = tuner.recall().is_some_and(|known| {
        known.steps == tuned.steps
            && known.mapping != tuned.mapping
            && known.nanoseconds < tuned.nanoseconds
    });
    if !is_beaten {
        tuner.keep(&tuned);
    }
}

/// How much slower the first mapping, and the best of the first ones, are than the best of all; `None` without a
/// sample.
fn regrets(timed: &[TimedMapping], best: &TimedMapping, args: &Args) -> Option<(f64, f64)> {
    if args.all == 0 {
        return None;
    }
    let of_first = regret(timed, best, 1)?;
    let of_top = regret(timed, best, args.top)?;
    Some((of_first, of_top))
}

/// How much slower the best mapping up to a rank is than the best of all.
fn regret(timed: &[TimedMapping], best: &TimedMapping, last_rank: u32) -> Option<f64> {
    let first = timed.iter().filter(|(one, _)| one.rank <= last_rank);
    let least = first.map(|(_, time)| time).min()?;
    Some(least.as_secs_f64() / best.1.as_secs_f64() - 1.0)
}

/// The time of all launches.
fn milliseconds(time: Duration, args: &Args) -> f64 {
    time.as_secs_f64() * 1e3 * f64::from(args.launches)
}

fn describe(rnn: impl std::fmt::Display, mapping: &Mapping) -> String {
    let Mapping {
        tile_width,
        tile_height,
        groups,
        group_size,
    } = mapping;
    format!(
        "{rnn}, tiles of {tile_width} by {tile_height}, {groups} groups of {group_size} threads"
    )
}

fn show_known(known: &Tuned, gpu: &str, args: &Args) -> Result<()> {
    args.shown.show(
        || {
            let mapping = describe(known.rnn, &known.mapping);
            let ms = milliseconds(Duration::from_nanos(known.nanoseconds), args);
            format!(
                "known from an earlier run on {gpu}: {mapping}: {ms:.4} ms for {} steps; --again measures anew\n",
                known.steps
            )
        },
        || json!({ "gpu": gpu, "launches": args.launches, "known": known }),
    )
}

fn as_text(
    timed: &[TimedMapping],
    best: &TimedMapping,
    valid: usize,
    gpu: &str,
    args: &Args,
) -> String {
    let in_launches = if args.launches > 1 {
        format!(" in {} launches", args.launches)
    } else {
        String::new()
    };
    let mut text = format!(
        "{}, hidden {}, batch {}{in_launches}, {} steps, on {gpu}: {} of {valid} valid mappings were run\n",
        args.cell.name(),
        args.hidden,
        args.batch,
        args.steps,
        timed.len()
    );
    text += &table_of_mappings(timed, best, args);
    text += &format!(
        "the fastest is rank {}, {}\n",
        best.0.rank,
        describe(best.0.rnn, &best.0.mapping)
    );
    if let Some((of_first, of_top)) = regrets(timed, best, args) {
        text += &format!(
            "rank 1 is {:.1} % slower than it, the first {} are {:.1} %\n",
            of_first * 100.0,
            args.top,
            of_top * 100.0
        );
    }
    text
}

/// A table of the mappings that were not drawn, and of the fastest.
fn table_of_mappings(timed: &[TimedMapping], best: &TimedMapping, args: &Args) -> String {
    let mut rows = Vec::new();
    for one in timed {
        if one.0.chosen != MappingChoice::Drawn || one.0.rank == best.0.rank {
            rows.push(one);
        }
    }
    tabulate(
        &rows,
        &[
            ("rank", &|(one, _)| one.rank.to_string()),
            ("kernel", &|(one, _)| one.rnn.to_string()),
            ("TW", &|(one, _)| one.mapping.tile_width.to_string()),
            ("TH", &|(one, _)| one.mapping.tile_height.to_string()),
            ("groups", &|(one, _)| one.mapping.groups.to_string()),
            ("size", &|(one, _)| one.mapping.group_size.to_string()),
            ("cost", &|(one, _)| format!("{:.6}", one.cost)),
            ("ms", &|(_, time)| {
                format!("{:.4}", milliseconds(*time, args))
            }),
        ],
    )
}

/// Adds the times to a file.
fn write(mut file: GpuTimes, timed: &[TimedMapping], args: &Args) -> Result<()> {
    for (ranked, time) in timed {
        file.add(SequenceTime {
            size: SequenceSize {
                cell: args.cell,
                hidden: args.hidden,
                batch: args.batch,
                steps: args.steps,
            },
            way: Way::Grnn,
            mapped: Some(ranked.clone()),
            launches: Some(args.launches),
            ms: milliseconds(*time, args),
        });
    }
    file.write()
}

fn as_json(
    timed: &[TimedMapping],
    best: &TimedMapping,
    valid: usize,
    gpu: &str,
    args: &Args,
) -> Value {
    let measured: Vec<Value> = timed.iter().map(|one| mapping_as_json(one, args)).collect();
    let regret = regrets(timed, best, args);
    json!({
        "gpu": gpu,
        "cell": args.cell.name(),
        "hidden": args.hidden,
        "batch": args.batch,
        "launches": args.launches,
        "steps": args.steps,
        "valid": valid,
        "best": mapping_as_json(best, args),
        "measured": measured,
        "regret": regret.map(|(one, top)| json!({ "top_1": one, "top": top })),
    })
}

fn mapping_as_json((one, time): &TimedMapping, args: &Args) -> Value {
    json!({
        "rank": one.rank,
        "kernel": one.rnn.to_string(),
        "mapping": one.mapping,
        "cost": one.cost,
        "ms": milliseconds(*time, args),
    })
}
