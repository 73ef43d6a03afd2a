//! `batchlab jit`.

use std::num::NonZeroU32;
use std::path::PathBuf;

use serde::Serialize;
use serde_json::json;

use super::render::Shown;
use super::seed;
use crate::base::error::Result;
use crate::core::workload::random;
use crate::lab::results::table::tabulate;
use crate::papers::jit::count::{BatchCount, Counter, Counts};
use crate::papers::jit::kernels::KernelCounts;
use crate::papers::jit::paper_kernels;
use crate::papers::jit::sample::Samples;

#[derive(clap::Subcommand, Clone, Debug)]
pub enum Command {
    /// Count the launches of a child-sum tree-LSTM on a file of trees, with and without batching
    ///
    /// Without batching, each node of a tree, the initial state of each leaf and, with --pairs, the head of each pair is a
    /// launch. With batching, one launch serves all initial states of a batch, all nodes with the same level and number of
    /// children, and all heads of one level.
    Count(Count),
}

#[derive(clap::Args, Clone, Debug)]
pub struct Count {
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
    #[arg(long, default_value_t = 1, value_parser = seed)]
    seed: u64,
    #[command(flatten)]
    shown: Shown,
}

pub fn run(Command::Count(args): &Command) -> Result<()> {
    let samples = Samples::read(&args.trees, args.pairs)?;
    let order = args
        .order
        .as_ref()
        .map_or_else(|| Ok(samples.order()), |file| samples.read_order(file))?;
    let (batch, counter) = (args.batch.get() as usize, Counter::new(&samples));
    let (cells, operators) = (
        counter.count(&order, batch),
        KernelCounts::of(&samples, &order, batch),
    );
    let range = args
        .orders
        .map(|orders| range(&samples, &counter, batch, orders.get(), args.seed));
    let json = || {
        let mut json = json!(cells);
        json["kernels"] = json!(operators);
        let [paper_unbatched, paper_batched] = paper_kernels();
        json["kernels"]["paper_unbatched"] = paper_unbatched.into();
        json["kernels"]["paper_batched"] = paper_batched.into();
        if let Some(range) = &range {
            json["orders"] = json!(range);
        }
        json
    };
    args.shown
        .show(|| text(args, &cells, &operators, range.as_ref()), json)
}

#[derive(Clone, Copy, Debug, Serialize)]
struct Range {
    orders: u32,
    seed: u64,
    min: u64,
    max: u64,
    mean: f64,
}

fn text(args: &Count, cells: &Counts, operators: &KernelCounts, range: Option<&Range>) -> String {
    let batches: Vec<(usize, &BatchCount)> = cells.batches.iter().enumerate().collect();
    let mut text = tabulate(
        &batches,
        &[
            ("batch", &|(number, _)| number.to_string()),
            (if args.pairs { "pairs" } else { "trees" }, &|(_, batch)| {
                batch.samples.to_string()
            }),
            ("cells", &|(_, batch)| batch.cells.to_string()),
            ("leaves", &|(_, batch)| batch.leaves.to_string()),
            ("level", &|(_, batch)| batch.max_level.to_string()),
            ("unbatched", &|(_, batch)| batch.unbatched.to_string()),
            ("initial", &|(_, batch)| {
                batch.begin_state_launches.to_string()
            }),
            ("cell", &|(_, batch)| batch.cell_launches.to_string()),
            ("head", &|(_, batch)| batch.similarity_launches.to_string()),
            ("launches", &|(_, batch)| batch.batched.to_string()),
        ],
    );
    let both = |none: u64, batched: u64| {
        format!(
            "{none} without batching, {batched} with: {:.0}x\n",
            none as f64 / batched as f64
        )
    };
    text += &format!("\ncells     {}", both(cells.unbatched, cells.batched));
    if let Some(Range {
        orders,
        seed,
        min,
        max,
        mean,
    }) = range
    {
        text += &format!(
            "orders    {min} to {max}, mean {mean:.0}, in {orders} random orders (seed {seed})\n"
        );
    }
    let KernelCounts {
        unbatched,
        batched,
        by_type,
        graph_nodes,
    } = *operators;
    text += &format!("operators {}", both(unbatched, batched));
    text += &format!("by type   {}", both(unbatched, by_type));
    let [paper_unbatched, paper_batched] = paper_kernels();
    text + &format!(
        "          (22 + 2K for a cell of K children; {graph_nodes} nodes in the graphs of all cells, 29 + 4K each; \
         the paper counts {paper_unbatched} and about {paper_batched} kernels on SICK by an unpublished rule: only the order of \
         magnitude compares)\n"
    )
}

fn range(samples: &Samples, counter: &Counter, batch: usize, orders: u32, seed: u64) -> Range {
    let mut rng = random::sequence(seed, 0, "orders");
    let (mut min, mut max, mut sum) = (u64::MAX, 0, 0);
    for _ in 0..orders {
        let count = counter.count(&samples.shuffled(&mut rng), batch).batched;
        (min, max, sum) = (count.min(min), count.max(max), sum + u128::from(count));
    }
    Range {
        orders,
        seed,
        min,
        max,
        mean: sum as f64 / f64::from(orders),
    }
}
