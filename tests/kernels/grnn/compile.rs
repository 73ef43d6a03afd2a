//! The kernels of the mappings that the model ranks first compile within the registers that it counts with.

use std::collections::HashMap;
use std::sync::Mutex;
use std::thread;

use batchlab::cost::grnn::{
    DataSheet, KernelLaunches, RecurrentCell, RnnSizes, Space, rank, weights_of_thread,
};
use batchlab::cuda::gpu::grnn::{Configuration, headers};
use batchlab::cuda::gpu::nvrtc::{CompileTarget, KernelSource, Nvrtc};

use crate::compile::{ARCHITECTURES, Figures, figures, nvrtc, warning};

/// Table 1.
const HIDDEN: [u32; 3] = [64, 256, 1024];
const BATCHES: [u32; 3] = [1, 10, 20];

/// The number of mappings for each size.
const TOP: usize = 5;

/// The widths whose states stay on chip, and the number of mappings for each size.
const ON_CHIP: [u32; 3] = [64, 128, 256];
const TOP_ON_CHIP: usize = 2;

/// The best mappings of a cell and a size. A batch that fits no GPU at once runs as smaller ones, and its mappings are theirs.
fn best(
    device: &str,
    top: usize,
    cell: RecurrentCell,
    hidden: u32,
    batch: u32,
) -> Vec<Configuration> {
    let device = DataSheet::open(device).expect("a named device");
    let space = Space::default();
    let launches = KernelLaunches::new(cell, hidden, &device, &space);
    let sizes: Vec<u32> = launches.kernels(batch).map(|(batch, _)| *batch).collect();
    let batch = if sizes.is_empty() { batch } else { sizes[0] };
    let ranked = rank(cell, hidden, batch, &device, &space);
    assert!(
        !ranked.is_empty(),
        "{} of {hidden} by {batch} has no kernel",
        cell.name()
    );
    let configuration = |rnn, mapping| {
        Configuration::new(RnnSizes { rnn, hidden, batch }, mapping).expect("a mapping")
    };
    ranked
        .iter()
        .take(top)
        .map(|one| configuration(one.rnn, one.mapping))
        .collect()
}

fn compiled(nvrtc: &Nvrtc, configuration: &Configuration, architecture: u32) -> Figures {
    let mut options = configuration.options();
    options.push("--ptxas-options=-v".into());
    let (name, text) = configuration.source();
    let source = KernelSource {
        name,
        text,
        headers: &headers(),
    };
    let log = nvrtc
        .compile(&source, CompileTarget::Cubin(architecture), &options)
        .unwrap_or_else(|error| panic!("{error}"))
        .log;
    assert_eq!(
        warning(&log),
        None,
        "{configuration:?}, sm_{architecture}:\n{log}"
    );
    let mut figures = figures(&log);
    assert_eq!(figures.len(), 1, "{log}");
    figures.remove(0)
}

#[test]
fn mappings_compile_within_the_registers_that_the_model_counts_with() {
    let Some(nvrtc) = nvrtc() else { return };
    // Sizes of one width share kernels, which are compiled for any batch.
    let mut rows = Vec::new();
    let mut wanted = HashMap::new();
    let mut add = |hidden, batch, configuration: Configuration| {
        for architecture in ARCHITECTURES
            .into_iter()
            .filter(|known| nvrtc.architectures.contains(known))
        {
            let clusters = configuration.cluster().filter(|_| architecture >= 90);
            let configuration = clusters.unwrap_or(configuration);
            let key = (configuration.constants(), architecture);
            wanted.insert(key.clone(), configuration);
            rows.push((hidden, batch, configuration, key));
        }
    };
    for cell in [RecurrentCell::Lstm, RecurrentCell::Gru] {
        for (hidden, batch) in HIDDEN
            .into_iter()
            .flat_map(|hidden| BATCHES.map(|batch| (hidden, batch)))
        {
            for configuration in best("titan-v", TOP, cell, hidden, batch) {
                add(hidden, batch, configuration);
            }
        }
        for (hidden, batch) in ON_CHIP
            .into_iter()
            .flat_map(|hidden| BATCHES.map(|batch| (hidden, batch)))
        {
            for configuration in best("h100", TOP_ON_CHIP, cell, hidden, batch) {
                add(hidden, batch, configuration);
            }
        }
    }
    let (queue, done) = (Mutex::new(wanted.into_iter()), Mutex::new(HashMap::new()));
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let next = queue.lock().expect("no panic").next();
                    let Some((key, configuration)) = next else {
                        break;
                    };
                    let figures = compiled(&nvrtc, &configuration, key.1);
                    done.lock().expect("no panic").insert(key, figures);
                }
            });
        }
    });
    let done = done.into_inner().expect("no panic");

    println!(
        "{:<11}{:>7}{:>6}  {:<18}{:>4}{:>9}{:>7}{:>11}{:>8}",
        "kernel",
        "hidden",
        "batch",
        "TW, TH, GPB, WS",
        "sm",
        "weights",
        "bound",
        "registers",
        "spills"
    );
    let mut wrong = Vec::new();
    for (hidden, batch, configuration, key) in &rows {
        let (sizes, mapping, figures) =
            (configuration.sizes(), configuration.mapping(), &done[key]);
        let (weights, bound, spills) = (
            weights_of_thread(&mapping, &sizes).ceil() as u32,
            configuration.registers(),
            figures.spilled(),
        );
        let of = format!(
            "{}, {}, {}, {}",
            mapping.tile_width, mapping.tile_height, mapping.groups, mapping.group_size
        );
        println!(
            "{:<11}{hidden:>7}{batch:>6}  {of:<18}{:>4}{weights:>9}{bound:>7}{:>11}{spills:>8}",
            sizes.rnn.to_string(),
            key.1,
            figures.registers
        );
        let faults = [
            (figures.spills(key.1), "it spills"),
            (
                figures.registers > bound,
                "it has more registers than the model counts with",
            ),
            (
                figures.registers <= weights,
                "its weights are not in registers",
            ),
        ];
        wrong.extend(
            faults
                .into_iter()
                .filter(|(is, _)| *is)
                .map(|(_, what)| format!("{configuration:?}, sm_{}: {what}", key.1)),
        );
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    println!(
        "{} kernels for {} mappings of {} sizes by NVRTC {}.{}",
        done.len(),
        rows.len(),
        2 * HIDDEN.len() * BATCHES.len(),
        nvrtc.version.0,
        nvrtc.version.1
    );
}
