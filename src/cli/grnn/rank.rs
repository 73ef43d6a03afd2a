//! `batchlab grnn rank`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::CellName;
use crate::cli::Format;
use crate::cost::grnn::{Cell, Cost, Device, Launches, Mapping, Ranked, Sizes, Space, csv, rank, weights_of_thread};
use crate::error::Result;
use crate::files::write_whole;

/// Rank the mappings of a persistent kernel
///
/// Costs are per step, in dependent fused multiply-adds: GC reads the state from the L2 cache, SC is a second synchronisation,
/// RC sums over the threads of a work group, PC computes the products. The model ranks mappings; it does not predict times.
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    /// The cell; for a GRU, both kernels (one or two synchronisations) are ranked together
    #[arg(long, value_enum)]
    cell: CellName,
    /// Width of the state
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=65536))]
    hidden: u32,
    /// Sequences in the batch
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=65536))]
    batch: u32,
    /// A device by name (titan-v, v100, titan-rtx, h200), or a file with a `grnn` table
    #[arg(long, default_value = "titan-v")]
    device: String,
    /// Number of mappings to print
    #[arg(long, default_value_t = 5)]
    top: usize,
    /// Write all valid mappings to a file
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Largest width of a tile
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1024))]
    max_tile_width: u32,
    /// Also allow blocks whose threads are not a multiple of 128 (one warp for each scheduler)
    #[arg(long)]
    loose: bool,
    /// How the mappings are printed
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

pub fn run(args: &Args) -> Result<()> {
    let device = Device::open(&args.device)?;
    let space = Space { widest: args.max_tile_width, uneven: args.loose };
    let cell = args.cell.cell();
    let ranked = rank(cell, args.hidden, args.batch, &device, &space);
    if let Some(file) = &args.csv {
        let text = csv(cell, args.hidden, args.batch, &ranked);
        write_whole(file, |out| out.write_all(text.as_bytes()))?;
    }
    let size: u64 = cell.kernels().iter().map(|rnn| space.size(*rnn, args.batch)).sum();
    let shown = &ranked[..args.top.min(ranked.len())];
    let table = || {
        let head = format!(
            "{}, hidden {}, batch {}, on {}: {} of {size} mappings are valid\n",
            cell.name(),
            args.hidden,
            args.batch,
            device.name,
            ranked.len()
        );
        head + &if ranked.is_empty() { instead(cell, args, &device, &space) } else { table(cell, shown, args) }
    };
    let json = || {
        json!({
            "device": device.name,
            "cell": cell.name(),
            "hidden": args.hidden,
            "batch": args.batch,
            "space": size,
            "valid": ranked.len(),
            "top": shown.iter().map(|one| object(one, args)).collect::<Vec<_>>(),
        })
    };
    args.format.show(table, json)
}

/// If no mapping is valid.
fn instead(cell: Cell, args: &Args, device: &Device, space: &Space) -> String {
    let launches = Launches::new(cell, args.hidden, device, space);
    // Launches by size: thousands of launches have at most two sizes.
    let mut sizes: BTreeMap<u32, u32> = BTreeMap::new();
    launches.of(args.batch).for_each(|(batch, _)| *sizes.entry(*batch).or_default() += 1);
    match sizes.iter().collect::<Vec<_>>()[..] {
        [] => format!(
            "no batch fits: with tiles of up to {} elements there are more blocks than multiprocessors, or more weights than \
             registers; the traditional kernels run instead, one for each step\n",
            space.widest
        ),
        [(padded, 1)] => format!("the batch runs padded to {padded}: grnn rank --batch {padded}\n"),
        _ => {
            let list: Vec<String> = sizes.iter().rev().map(|(batch, count)| format!("{count} of {batch}")).collect();
            let launches: u32 = sizes.values().sum();
            format!("the batch runs as {launches} launches, one after another: {}\n", list.join(", "))
        }
    }
}

fn table(cell: Cell, ranked: &[Ranked], args: &Args) -> String {
    let mut text = format!(
        "{:>4}{:>5}{:>5}{:>8}{:>6}{:>6}{:>5}{:>9}{:>8}{:>9}{:>10}{:>5}{:>13}{:>10}{:>14}\n",
        "rank",
        "TW",
        "TH",
        "groups",
        "size",
        "sync",
        "sub",
        "threads",
        "blocks",
        "weights",
        "GC",
        "SC",
        "RC",
        "PC",
        "cost"
    );
    for (place, one) in (1..).zip(ranked) {
        let Ranked { rnn, mapping, cost } = one;
        let Mapping { tile_width, tile_height, groups, group_size } = mapping;
        let sizes = Sizes { rnn: *rnn, hidden: args.hidden, batch: args.batch };
        let sync = match cell {
            Cell::Lstm => "-".into(),
            Cell::Gru => rnn.synchronisations().to_string(),
        };
        let Cost { memory, synchronisation, reduction, product } = cost;
        writeln!(
            text,
            "{place:>4}{tile_width:>5}{tile_height:>5}{groups:>8}{group_size:>6}{sync:>6}{:>5}{:>9}{:>8}{:>9}{memory:>10.2}{synchronisation:>5}\
             {reduction:>13.6}{product:>10.2}{:>14.6}",
            mapping.sub_tile_width(*rnn),
            mapping.threads(),
            mapping.blocks(&sizes),
            weights_of_thread(mapping, &sizes).ceil(),
            cost.total()
        )
        .expect("a string takes all");
    }
    text
}

fn object(one: &Ranked, args: &Args) -> Value {
    let Ranked { rnn, mapping, cost } = one;
    let sizes = Sizes { rnn: *rnn, hidden: args.hidden, batch: args.batch };
    json!({
        "kernel": rnn.to_string(),
        "mapping": mapping,
        "sub_tile_width": mapping.sub_tile_width(*rnn),
        "threads": mapping.threads(),
        "blocks": mapping.blocks(&sizes),
        "thread_weights": weights_of_thread(mapping, &sizes),
        "cost": {
            "memory": cost.memory,
            "synchronisation": cost.synchronisation,
            "reduction": cost.reduction,
            "product": cost.product,
            "total": cost.total(),
        },
    })
}
