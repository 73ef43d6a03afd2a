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
use crate::devices::cuda::gpu::grnn::{Host, Tuned, Tuner};
use crate::lab::results::table::tabulate;
use crate::papers::measured::{self, Chosen, Measured, Row, Size, Way};

/// Find the fastest mapping of a persistent kernel on this host's GPU
///
/// Compiles the mappings that the model ranks first, checks them against the CPU and runs them. The fastest is kept for later
/// runs.
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
    /// The device whose constants rank the mappings, by name or as a file; the number of multiprocessors is the GPU's [default: the
    /// device in the GPU's name, otherwise titan-v]
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
type Places = BTreeMap<usize, Chosen>;
/// A mapping that was run, and the time of a launch.
type Timed = (measured::Ranked, Duration);

pub fn run(args: &Args) -> Result<()> {
    let way = "tune runs kernels on a GPU, and batchlab grnn rank needs none";
    let host = Host::open().map_err(|error| Error::input(format!("{error}; {way}")))?;
    let (gpu, device) = (host.name().to_string(), device(args, &host)?);
    let Args {
        cell,
        hidden,
        batch,
        launches,
        steps,
        ..
    } = *args;
    let part = batch.div_ceil(launches);
    let needed = batch.div_ceil(part);
    if needed < launches {
        let why = format!("a batch of {batch} in parts of {part} is {needed} launches");
        return Err(Error::input(format!("--launches {launches}: {why}")));
    }
    let all = rank(cell, hidden, part, &device, &Space::default());
    if all.is_empty() {
        return Err(Error::input(format!(
            "no mapping of {} with hidden {hidden} and batch {part} is valid on {gpu}; batchlab grnn rank shows which batches run \
             instead, and --launches splits a batch",
            cell.name()
        )));
    }
    let places = places(&all, args, &gpu)?;
    let open =
        |path| can_write(path).and_then(|()| Measured::open(path, &gpu, host.multiprocessors()));
    let file = args.out.as_deref().map(open).transpose()?;
    let tuner = Tuner::new(host, cell, hidden, part, steps)?;
    // The user's choice may not contain the fastest.
    let whole = args.kernel.is_none() && args.mappings.is_empty();
    let may_recall = whole && !args.again && args.all == 0 && file.is_none();
    if let Some(known) = tuner.recall().filter(|_| may_recall) {
        return show_known(&known, &gpu, args);
    }
    let (measured, outcome) = measure(&tuner, &all, &places, &device.name, args);
    let Some(best) = measured.iter().min_by_key(|(_, time)| *time) else {
        return outcome;
    };
    let (measured::Ranked { rnn, mapping, .. }, time) = *best;
    let nanoseconds = time.as_nanos() as u64;
    // A faster mapping of an earlier run stays.
    let is_beaten = |known: Tuned| {
        known.steps == steps && known.mapping != mapping && known.nanoseconds < nanoseconds
    };
    if whole && !tuner.recall().is_some_and(is_beaten) {
        tuner.keep(&Tuned {
            rnn,
            mapping,
            steps,
            nanoseconds,
        });
    }
    if let Some(file) = file {
        write(file, &measured, args)?;
    }
    let json = || {
        json!({
            "gpu": gpu,
            "cell": cell.name(),
            "hidden": hidden,
            "batch": batch,
            "launches": launches,
            "steps": steps,
            "valid": all.len(),
            "best": object(best, args),
            "measured": measured.iter().map(|one| object(one, args)).collect::<Vec<_>>(),
            "regret": regrets(&measured, best, args).map(|(one, top)| json!({ "top_1": one, "top": top })),
        })
    };
    args.shown
        .show(|| table(&measured, best, all.len(), &gpu, args), json)?;
    outcome
}

fn device(args: &Args, host: &Host) -> Result<DataSheet> {
    let by_name = || Roofline::of_gpu(host.name()).map(|(file, _)| file);
    let device = DataSheet::open(args.device.as_deref().or_else(by_name).unwrap_or("titan-v"))?;
    Ok(DataSheet {
        multiprocessors: host.multiprocessors(),
        ..device
    })
}

fn places(all: &[RankedMapping], args: &Args, gpu: &str) -> Result<Places> {
    let is_wanted = |place: &usize| args.kernel.is_none_or(|kernel| all[*place].rnn == kernel);
    let of_kernel: Vec<usize> = (0..all.len()).filter(is_wanted).collect();
    if of_kernel.is_empty() {
        let (kernel, count) = (
            args.kernel
                .map_or(String::new(), |kernel| kernel.to_string()),
            all.len(),
        );
        return Err(Error::input(format!(
            "--kernel {kernel}: none of the {count} valid mappings on {gpu} is of it"
        )));
    }
    if args.mappings.is_empty() {
        let mut rng = random::sequence(args.seed, 0, "grnn tune");
        let drawn = sample(&mut rng, all.len(), args.all.min(all.len())).into_iter();
        let first = of_kernel
            .into_iter()
            .take(args.top as usize)
            .map(|place| (place, Chosen::First));
        // A mapping from the top is `First` even if drawn too.
        return Ok(drawn
            .map(|place| (place, Chosen::Drawn))
            .chain(first)
            .collect());
    }
    let mut places = BTreeMap::new();
    for mapping in &args.mappings {
        let mut found = of_kernel
            .iter()
            .filter(|place| all[**place].mapping == *mapping)
            .peekable();
        if found.peek().is_none() {
            let way = format!(
                "{} mappings are, and batchlab grnn rank --out lists a device's",
                of_kernel.len()
            );
            return Err(Error::input(format!(
                "--mapping {mapping}: is not valid on {gpu}; {way}"
            )));
        }
        places.extend(found.map(|place| (*place, Chosen::Given)));
    }
    Ok(places)
}

/// Skips mappings that the GPU can't run; it is an error if none is left. A wrong result or a failing GPU ends the
/// measurement; earlier results are kept.
fn measure(
    tuner: &Tuner,
    all: &[RankedMapping],
    places: &Places,
    device: &str,
    args: &Args,
) -> (Vec<Timed>, Result<()>) {
    let mut measured = Vec::new();
    let mut refused = Ok(());
    for (&place, &chosen) in places {
        let (rank, valid) = (place as u32 + 1, all.len() as u32);
        let mut kernel = match tuner.kernel(&all[place]) {
            Ok(kernel) => kernel,
            Err(error) => {
                say(format_args!("rank {rank} is passed over: {error}"));
                refused = Err(error);
                continue;
            }
        };
        let time = match tuner.measure(&mut kernel, args.times as usize) {
            Ok(time) => time,
            Err(error) => return (measured, Err(error)),
        };
        let RankedMapping { rnn, mapping, cost } = all[place];
        let (cost, constants) = (cost.total(), device.to_string());
        measured.push((
            measured::Ranked {
                rnn,
                mapping,
                rank,
                valid,
                cost,
                constants,
                chosen,
            },
            time,
        ));
    }
    let outcome = if measured.is_empty() { refused } else { Ok(()) };
    (measured, outcome)
}

/// How much slower the first mapping, and the best of the first ones, are than the best of all; `None` without a
/// sample.
fn regrets(measured: &[Timed], best: &Timed, args: &Args) -> Option<(f64, f64)> {
    let of = |first: u32| {
        let times = measured
            .iter()
            .filter(|(one, _)| one.rank <= first)
            .map(|(_, time)| time);
        times
            .min()
            .map(|time| time.as_secs_f64() / best.1.as_secs_f64() - 1.0)
    };
    (args.all > 0).then_some(())?;
    of(1).zip(of(args.top))
}

fn milliseconds(time: Duration, args: &Args) -> f64 {
    time.as_secs_f64() * 1e3 * f64::from(args.launches)
}

fn words(rnn: impl std::fmt::Display, mapping: &Mapping) -> String {
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
    let Tuned {
        rnn,
        mapping,
        steps,
        nanoseconds,
    } = known;
    let (mapping, ms) = (
        words(rnn, mapping),
        milliseconds(Duration::from_nanos(*nanoseconds), args),
    );
    let table = || {
        format!(
            "known from an earlier run on {gpu}: {mapping}: {ms:.4} ms for {steps} steps; --again measures anew\n"
        )
    };
    args.shown.show(
        table,
        || json!({ "gpu": gpu, "launches": args.launches, "known": known }),
    )
}

fn table(measured: &[Timed], best: &Timed, valid: usize, gpu: &str, args: &Args) -> String {
    let Args {
        cell,
        hidden,
        batch,
        steps,
        launches,
        ..
    } = args;
    let in_launches = if *launches > 1 {
        format!(" in {launches} launches")
    } else {
        String::new()
    };
    let (cell, count) = (cell.name(), measured.len());
    let on =
        format!("{cell}, hidden {hidden}, batch {batch}{in_launches}, {steps} steps, on {gpu}");
    let head = format!("{on}: {count} of {valid} valid mappings were run\n");
    let is_shown = |one: &&Timed| one.0.chosen != Chosen::Drawn || one.0.rank == best.0.rank;
    let rows = tabulate(
        &measured.iter().filter(is_shown).collect::<Vec<_>>(),
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
    );
    let fastest = format!(
        "the fastest is rank {}, {}\n",
        best.0.rank,
        words(best.0.rnn, &best.0.mapping)
    );
    let slower = regrets(measured, best, args).map_or(String::new(), |(one, top)| {
        let [one, top] = [one, top].map(|regret| regret * 100.0);
        format!(
            "rank 1 is {one:.1} % slower than it, the first {} are {top:.1} %\n",
            args.top
        )
    });
    head + &rows + &fastest + &slower
}

fn write(mut file: Measured, measured: &[Timed], args: &Args) -> Result<()> {
    let Args {
        cell,
        hidden,
        batch,
        steps,
        ..
    } = *args;
    for (ranked, time) in measured {
        let (mapped, launches) = (Some(ranked.clone()), Some(args.launches));
        let (size, ms) = (
            Size {
                cell,
                hidden,
                batch,
                steps,
            },
            milliseconds(*time, args),
        );
        file.add(Row {
            size,
            way: Way::Grnn,
            mapped,
            launches,
            ms,
        });
    }
    file.write()
}

fn object((one, time): &Timed, args: &Args) -> Value {
    json!({
        "rank": one.rank,
        "kernel": one.rnn.to_string(),
        "mapping": one.mapping,
        "cost": one.cost,
        "ms": milliseconds(*time, args),
    })
}
