//! `batchlab jit`.

use std::fmt::{self, Display};
use std::io::Write;
use std::num::NonZeroU32;
use std::path::PathBuf;

use serde::Serialize;

use super::{Format, print_with};
use crate::error::{Error, Result};
use crate::papers::jit::count::{Counter, Counts};
use crate::papers::jit::kernels::{KernelCounts, PAPER_BATCHED, PAPER_UNBATCHED};
use crate::papers::jit::sample::Samples;
use crate::workload::random;

/// Count the launches of JIT dynamic batching
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand, Clone, Debug)]
enum Command {
    /// Count the launches of a child-sum tree-LSTM on a file of trees, with and without batching
    ///
    /// Without batching, each node of a tree, the initial state of each leaf and, with --pairs, the head of each pair is a
    /// launch. With batching, one launch serves all initial states of a batch, all nodes with the same level and number of
    /// children, and all heads of one level.
    Count(Count),
}

#[derive(clap::Args, Clone, Debug)]
struct Count {
    /// One tree per line, as the 1-based parent of each node, optionally after the number of leaves and a tab; or a trace file
    trees: PathBuf,
    /// Take every two lines as a pair of trees that is compared
    #[arg(long)]
    pairs: bool,
    /// The order in which trees or pairs are batched: a CSV file position,tree or position,pair [default: the file's]
    #[arg(long, value_name = "FILE")]
    order: Option<PathBuf>,
    /// Trees or pairs in a batch
    #[arg(long, default_value = "256")]
    batch: NonZeroU32,
    /// Also count N random orders, and print the minimum, the maximum and the mean
    #[arg(long, value_name = "N")]
    orders: Option<NonZeroU32>,
    /// Seed of the random orders
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How the counts are printed
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

pub fn run(args: &Args) -> Result<()> {
    let Command::Count(args) = &args.command;
    let report = Report::of(args)?;
    match args.format {
        Format::Table => print_with(|out| write!(out, "{report}")),
        Format::Json => {
            let json = serde_json::to_value(&report).map_err(Error::failed)?;
            super::print_json(vec![json])
        }
    }
}

#[derive(Clone, Debug, Serialize)]
struct Report {
    #[serde(flatten)]
    counts: Counts,
    kernels: Kernels,
    #[serde(skip_serializing_if = "Option::is_none")]
    orders: Option<Range>,
    #[serde(skip)]
    sample: &'static str,
}

/// Our counts of operators, the paper's of kernels.
#[derive(Clone, Copy, Debug, Serialize)]
struct Kernels {
    #[serde(flatten)]
    counts: KernelCounts,
    /// On SICK.
    paper_unbatched: u64,
    paper_batched: u64,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct Range {
    orders: u32,
    seed: u64,
    min: u64,
    max: u64,
    mean: f64,
}

impl Report {
    fn of(args: &Count) -> Result<Report> {
        let samples = Samples::read(&args.trees, args.pairs)?;
        let order = match &args.order {
            Some(file) => samples.read_order(file)?,
            None => samples.order(),
        };
        let batch = args.batch.get() as usize;
        let counter = Counter::new(&samples);
        let kernels = KernelCounts::of(&samples, &order, batch);
        Ok(Report {
            counts: counter.count(&order, batch),
            kernels: Kernels { counts: kernels, paper_unbatched: PAPER_UNBATCHED, paper_batched: PAPER_BATCHED },
            orders: args.orders.map(|orders| range(&samples, &counter, batch, orders.get(), args.seed)),
            sample: if args.pairs { "pair" } else { "tree" },
        })
    }
}

fn range(samples: &Samples, counter: &Counter, batch: usize, orders: u32, seed: u64) -> Range {
    let mut rng = random::stream(seed, 0, "orders");
    let counts: Vec<u64> = (0..orders).map(|_| counter.count(&samples.shuffled(&mut rng), batch).batched).collect();
    Range {
        orders,
        seed,
        min: counts.iter().min().copied().unwrap_or(0),
        max: counts.iter().max().copied().unwrap_or(0),
        mean: counts.iter().sum::<u64>() as f64 / f64::from(orders),
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let samples = format!("{}s", self.sample);
        writeln!(
            f,
            "{:>6}{:>8}{:>9}{:>9}{:>7}{:>11}{:>9}{:>7}{:>7}{:>10}",
            "batch", samples, "cells", "leaves", "level", "unbatched", "initial", "cell", "head", "launches"
        )?;
        for (number, batch) in self.counts.batches.iter().enumerate() {
            writeln!(
                f,
                "{number:>6}{:>8}{:>9}{:>9}{:>7}{:>11}{:>9}{:>7}{:>7}{:>10}",
                batch.samples,
                batch.cells,
                batch.leaves,
                batch.max_level,
                batch.unbatched,
                batch.begin_state_launches,
                batch.cell_launches,
                batch.similarity_launches,
                batch.batched
            )?;
        }
        let ratio = |unbatched: u64, batched: u64| unbatched as f64 / batched as f64;
        let Counts { unbatched, batched, .. } = self.counts;
        writeln!(f, "\ncells     {unbatched} without batching, {batched} with: {:.0}x", ratio(unbatched, batched))?;
        if let Some(range) = &self.orders {
            let Range { orders, seed, min, max, mean } = range;
            writeln!(f, "orders    {min} to {max}, mean {mean:.0}, in {orders} random orders (seed {seed})")?;
        }
        let KernelCounts { unbatched, batched, graph_nodes } = self.kernels.counts;
        writeln!(f, "operators {unbatched} without batching, {batched} with: {:.0}x", ratio(unbatched, batched))?;
        writeln!(
            f,
            "          (22 + 2K for a cell of K children; {graph_nodes} nodes in the graphs of all cells, 29 + 4K each; \
             the paper counts {PAPER_UNBATCHED} and about {PAPER_BATCHED} kernels on SICK by an unpublished rule: only the order of \
             magnitude compares)"
        )
    }
}
