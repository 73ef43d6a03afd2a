//! `batchlab grnn rank`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::base::error::Result;
use crate::base::shipped::Shipped;
use crate::cli::render::{Shown, put};
use crate::core::cost::grnn::{
    DataSheet, KernelLaunches, RankedMapping, RecurrentCell, RnnSizes, Space, csv, rank,
    weights_of_thread,
};
use crate::lab::results::table::tabulate;

/// Rank the mappings of a persistent kernel
///
/// Costs are per step, in dependent fused multiply-adds: GC reads the state from the L2 cache, SC is a second
/// synchronisation, RC sums over the threads of a work group, PC computes the products. The model ranks mappings; it
/// does not predict times.
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    /// The cell; for a GRU, both kernels (one or two synchronisations) are ranked together
    #[arg(long, value_enum)]
    cell: RecurrentCell,
    /// Width of the state
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=65536))]
    hidden: u32,
    /// Sequences in the batch
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=65536))]
    batch: u32,
    #[arg(long, help = format!("A device by name ({}), or a file with a `grnn` table", devices()),
          default_value = "titan-v")]
    device: String,
    /// Number of mappings to print
    #[arg(long, default_value_t = 5)]
    top: usize,
    /// Write all valid mappings to a file
    #[arg(short, long, value_name = "FILE", alias = "csv")]
    out: Option<PathBuf>,
    /// Largest width of a tile
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1024))]
    max_tile_width: u32,
    /// Also allow blocks whose threads are not a multiple of 128 (one warp for each scheduler)
    #[arg(long)]
    loose: bool,
    #[command(flatten)]
    shown: Shown,
}

/// The names of the devices inside the program.
fn devices() -> String {
    let names: Vec<&str> = Shipped::Device.all().iter().map(|file| file.name).collect();
    names.join(", ")
}

pub fn run(args: &Args) -> Result<()> {
    let device = DataSheet::open(&args.device)?;
    let space = Space {
        widest: args.max_tile_width,
        uneven: args.loose,
    };
    let Args {
        cell,
        hidden,
        batch,
        ..
    } = *args;
    let ranked = rank(cell, hidden, batch, &device, &space);
    if let Some(file) = &args.out {
        put(Some(file), &csv(cell, hidden, batch, &ranked))?;
    }
    let mut size = 0;
    for rnn in cell.kernels() {
        size += space.size(*rnn, batch);
    }
    let first = &ranked[..args.top.min(ranked.len())];
    args.shown.show(
        || {
            let head = format!(
                "{}, hidden {hidden}, batch {batch}, on {}: {} of {size} mappings are valid\n",
                cell.name(),
                device.name,
                ranked.len()
            );
            let body = if ranked.is_empty() {
                explain_launches(args, &device, &space)
            } else {
                table_of_mappings(first, args)
            };
            head + &body
        },
        || {
            let first: Vec<Value> = first.iter().map(|one| as_json(one, args)).collect();
            json!({
                "device": device.name,
                "cell": cell.name(),
                "hidden": hidden,
                "batch": batch,
                "space": size,
                "valid": ranked.len(),
                "top": first,
            })
        },
    )
}

/// How the batch runs where no mapping is valid.
fn explain_launches(args: &Args, device: &DataSheet, space: &Space) -> String {
    let launches = KernelLaunches::new(args.cell, args.hidden, device, space);
    // Launches are counted by size, since thousands of launches have at most two sizes.
    let mut counts: BTreeMap<u32, u32> = BTreeMap::new();
    for (batch, _) in launches.kernels(args.batch) {
        *counts.entry(*batch).or_default() += 1;
    }
    match counts.iter().collect::<Vec<_>>()[..] {
        [] => format!(
            "no batch fits: with tiles of up to {} elements there are more blocks than multiprocessors, or more weights than \
             registers; the traditional kernels run instead, one for each step\n",
            space.widest
        ),
        [(padded, 1)] => format!("the batch runs padded to {padded}: grnn rank --batch {padded}\n"),
        _ => {
            let texts: Vec<String> = counts
                .iter()
                .rev()
                .map(|(batch, count)| format!("{count} of {batch}"))
                .collect();
            let launches: u32 = counts.values().sum();
            format!(
                "the batch runs as {launches} launches, one after another: {}\n",
                texts.join(", ")
            )
        }
    }
}

fn table_of_mappings(ranked: &[RankedMapping], args: &Args) -> String {
    let rows: Vec<(usize, &RankedMapping)> = (1..).zip(ranked).collect();
    tabulate(
        &rows,
        &[
            ("rank", &|(place, _)| place.to_string()),
            ("TW", &|(_, one)| one.mapping.tile_width.to_string()),
            ("TH", &|(_, one)| one.mapping.tile_height.to_string()),
            ("groups", &|(_, one)| one.mapping.groups.to_string()),
            ("size", &|(_, one)| one.mapping.group_size.to_string()),
            ("sync", &|(_, one)| match args.cell {
                RecurrentCell::Lstm => "-".into(),
                RecurrentCell::Gru => one.rnn.synchronisations().to_string(),
            }),
            ("sub", &|(_, one)| {
                one.mapping.sub_tile_width(one.rnn).to_string()
            }),
            ("threads", &|(_, one)| one.mapping.threads().to_string()),
            ("blocks", &|(_, one)| {
                one.mapping.blocks(&sizes(one, args)).to_string()
            }),
            ("weights", &|(_, one)| {
                let weights = weights_of_thread(&one.mapping, &sizes(one, args));
                weights.ceil().to_string()
            }),
            ("GC", &|(_, one)| format!("{:.2}", one.cost.memory)),
            ("SC", &|(_, one)| one.cost.synchronisation.to_string()),
            ("RC", &|(_, one)| format!("{:.6}", one.cost.reduction)),
            ("PC", &|(_, one)| format!("{:.2}", one.cost.product)),
            ("cost", &|(_, one)| format!("{:.6}", one.cost.total())),
        ],
    )
}

fn sizes(ranked: &RankedMapping, args: &Args) -> RnnSizes {
    RnnSizes {
        rnn: ranked.rnn,
        hidden: args.hidden,
        batch: args.batch,
    }
}

fn as_json(ranked: &RankedMapping, args: &Args) -> Value {
    let RankedMapping { rnn, mapping, cost } = ranked;
    let sizes = sizes(ranked, args);
    let mut json = json!({
        "kernel": rnn.to_string(),
        "mapping": mapping,
        "sub_tile_width": mapping.sub_tile_width(*rnn),
        "threads": mapping.threads(),
        "blocks": mapping.blocks(&sizes),
        "thread_weights": weights_of_thread(mapping, &sizes),
        "cost": cost,
    });
    json["cost"]["total"] = cost.total().into();
    json
}
