//! `batchlab jit`.

use std::num::NonZeroU32;
use std::path::PathBuf;

use serde::Serialize;
use serde_json::{Value, json};

use super::render::Shown;
use super::seed;
use crate::base::error::Result;
use crate::core::workload::random;
use crate::lab::results::table::tabulate;
use crate::papers::jit::count::{BatchCount, LaunchCounter, LaunchCounts};
use crate::papers::jit::kernels::KernelCounts;
use crate::papers::jit::launches::paper_kernels;
use crate::papers::jit::sample::TreeSamples;

#[derive(clap::Subcommand, Clone, Debug)]
pub enum JitCommand {
    /// Count the launches of a child-sum tree-LSTM on a file of trees, with and without batching
    ///
    /// Without batching, each node of a tree, the initial state of each leaf and, with --pairs, the head of each pair
    /// is a launch. With batching, one launch serves all initial states of a batch, all nodes with the same level and
    /// number of children, and all heads of one level.
    Count(CountArgs),
}

#[derive(clap::Args, Clone, Debug)]
pub struct CountArgs {
    /// One tree per line, as the 1-based parent of each node, optionally after the number of leaves and a tab; or a
    /// trace file
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

pub fn run(JitCommand::Count(args): &JitCommand) -> Result<()> {
    let samples = TreeSamples::read(&args.trees, args.pairs)?;
    let order = match &args.order {
        Some(file) => samples.read_order(file)?,
        None => samples.order(),
    };
    let batch = args.batch.get() as usize;
    let counter = LaunchCounter::new(&samples);
    let cells = counter.count(&order, batch);
    let operators = KernelCounts::count(&samples, &order, batch);
    let random_orders = args
        .orders
        .map(|orders| count_random_orders(&samples, &counter, batch, orders.get(), args.seed));
    args.shown.show(
        || as_text(args, &cells, &operators, random_orders.as_ref()),
        || as_json(&cells, &operators, random_orders.as_ref()),
    )
}

/// The launches of cells with batching, over random orders.
#[derive(Clone, Copy, Debug, Serialize)]
struct RandomOrders {
    orders: u32,
    seed: u64,
    min: u64,
    max: u64,
    mean: f64,
}

fn count_random_orders(
    samples: &TreeSamples,
    counter: &LaunchCounter,
    batch: usize,
    orders: u32,
    seed: u64,
) -> RandomOrders {
    let mut rng = random::sequence(seed, 0, "orders");
    let mut min = u64::MAX;
    let mut max = 0;
    let mut sum = 0;
    for _ in 0..orders {
        let order = samples.shuffled_order(&mut rng);
        let launches = counter.count(&order, batch).batched;
        min = min.min(launches);
        max = max.max(launches);
        sum += u128::from(launches);
    }
    RandomOrders {
        orders,
        seed,
        min,
        max,
        mean: sum as f64 / f64::from(orders),
    }
}

fn as_json(
    cells: &LaunchCounts,
    operators: &KernelCounts,
    random_orders: Option<&RandomOrders>,
) -> Value {
    let [paper_unbatched, paper_batched] = paper_kernels();
    let mut json = json!(cells);
    json["kernels"] = json!(operators);
    json["kernels"]["paper_unbatched"] = paper_unbatched.into();
    json["kernels"]["paper_batched"] = paper_batched.into();
    if let Some(random_orders) = random_orders {
        json["orders"] = json!(random_orders);
    }
    json
}

fn as_text(
    args: &CountArgs,
    cells: &LaunchCounts,
    operators: &KernelCounts,
    random_orders: Option<&RandomOrders>,
) -> String {
    let mut text = table_of_batches(args, cells);
    let counts = compare_counts(cells.unbatched, cells.batched);
    text += &format!("\ncells     {counts}");
    if let Some(RandomOrders {
        orders,
        seed,
        min,
        max,
        mean,
    }) = random_orders
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
    text += &format!("operators {}", compare_counts(unbatched, batched));
    text += &format!("by type   {}", compare_counts(unbatched, by_type));
    let [paper_unbatched, paper_batched] = paper_kernels();
    text + &format!(
        "          (22 + 2K for a cell of K children; {graph_nodes} nodes in the graphs of all cells, 29 + 4K each; \
         the paper counts {paper_unbatched} and about {paper_batched} kernels on SICK by an unpublished rule: only the order of \
         magnitude compares)\n"
    )
}

fn table_of_batches(args: &CountArgs, cells: &LaunchCounts) -> String {
    let batches: Vec<(usize, &BatchCount)> = cells.batches.iter().enumerate().collect();
    let samples = if args.pairs { "pairs" } else { "trees" };
    tabulate(
        &batches,
        &[
            ("batch", &|(number, _)| number.to_string()),
            (samples, &|(_, batch)| batch.samples.to_string()),
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
    )
}

fn compare_counts(unbatched: u64, batched: u64) -> String {
    let ratio = unbatched as f64 / batched as f64;
    format!("{unbatched} without batching, {batched} with: {ratio:.0}x\n")
}
