//! The figures and tables.

use super::measured::{FIRST, GpuTimes, OF_ALL, OF_GRNN, RnnSystem, SequenceSize};
use super::model::PerformanceModel;
use super::tables::{
    self, DEEP_CPU_SHARE, MAPPINGS, NETWORK_BATCHES, NETWORKS, PAPER, PEAK, PEAK_CPU, PaperTimes,
    RnnNetwork, STEPS, bars_by_size, bus_ms, cost_and_rank, full_series, measured_bars,
    paper_series, series, size, table_1,
};
use crate::core::cost::grnn::{Mapping, RankedMapping, RecurrentCell, Rnn};
use crate::core::cost::roofline::Roofline;
use crate::lab::plot::Bar;
use crate::papers::numbers::mean;
use crate::papers::paper::Paper;
use crate::papers::study::{BarSeries, Study, bars_by_panel};

/// The series that claims look up.
pub const MODEL: &str = "GRNN, model";
pub const SINGLE: &str = "one, model";
pub const DOUBLE: &str = "two, model";
const TRADITIONAL: &str = "traditional, data sheet";

/// Table 1: the latencies of an LSTM and a GRU.
pub fn latencies(model: &PerformanceModel, measured: &GpuTimes) -> Study {
    let mut drawings = Vec::new();
    for cell in [RecurrentCell::Lstm, RecurrentCell::Gru] {
        drawings.push(draw_latencies(model, cell));
    }
    for cell in [RecurrentCell::Lstm, RecurrentCell::Gru] {
        let panel = cell.name().to_uppercase();
        drawings.push(measured_bars(measured, cell, &panel, |_, ms| ms));
    }
    Study::new(drawings, measured.note(OF_ALL))
}

/// The model's and the paper's times of a cell, with and without the way over the bus.
fn draw_latencies(model: &PerformanceModel, cell: RecurrentCell) -> Vec<Bar> {
    let (grnn, others) = table_1(cell).split_first().expect("GRNN's own");
    let mut all = vec![
        full_series(MODEL, |place| model.sequence(size(cell, place))),
        paper_series(grnn),
        full_series("model, without PCIe", |place| {
            model.sequence(size(cell, place)) - bus_ms(place)
        }),
        full_series("paper, without PCIe", |place| grnn.1[place] - bus_ms(place)),
    ];
    all.extend(others.iter().map(paper_series));
    bars_by_size(&cell.name().to_uppercase(), &all)
}

/// Table 2: costs, ranks and times of five mappings.
pub fn mappings(model: &PerformanceModel, measured: &GpuTimes) -> Study {
    let table = SequenceSize {
        cell: RecurrentCell::Lstm,
        hidden: 256,
        batch: 20,
        steps: STEPS,
    };
    let (all_ranked, _) = model.rank(table);
    let gpu = measured.short();
    let mut costs = [empty_series(MODEL), empty_series(PAPER)];
    let mut ranks = [
        empty_series(MODEL),
        empty_series(PAPER),
        empty_series(&format!("model, {gpu}")),
    ];
    let mut times = [
        empty_series(MODEL),
        empty_series(PAPER),
        empty_series(&format!("GRNN, {gpu}")),
    ];
    let mut groups = Vec::new();
    for (number, paper) in MAPPINGS.iter().enumerate() {
        let mapping = Mapping {
            tile_width: 32,
            tile_height: 2,
            groups: paper.groups,
            group_size: paper.group_size,
        };
        let (place, ranked) = find_mapping(&all_ranked, mapping);
        let [paper_cost, paper_rank] = cost_and_rank(number);
        let own = measured.mapping(Rnn::Lstm, mapping, table);
        costs[0].1.push(Some(ranked.cost.total()));
        costs[1].1.push(Some(paper_cost));
        ranks[0].1.push(Some((place + 1) as f64));
        ranks[1].1.push(Some(paper_rank));
        ranks[2].1.push(own.map(|(rank, _)| rank.into()));
        times[0].1.push(Some(model.launch(ranked, STEPS)));
        times[1].1.push(Some(paper.ms));
        times[2].1.push(own.map(|(_, ms)| ms));
        groups.push(format!("{}×{}", paper.groups, paper.group_size));
    }
    let drawings = [
        bars_by_panel(&[""], &groups, &costs),
        bars_by_panel(&[""], &groups, &ranks),
        bars_by_panel(&[""], &groups, &times),
    ];
    Study::new(drawings, measured.note("ranks are those on that GPU."))
}

fn empty_series(name: &str) -> BarSeries {
    (name.to_string(), Vec::new())
}

/// A mapping and its place in the ranking, from 0.
fn find_mapping(ranked: &[RankedMapping], mapping: Mapping) -> (usize, &RankedMapping) {
    ranked
        .iter()
        .enumerate()
        .find(|(_, one)| one.mapping == mapping)
        .expect("the mapping is valid")
}

/// Table 3: costs and times of a GRU with one synchronisation a step and with two.
pub fn synchronisations(model: &PerformanceModel, measured: &GpuTimes) -> Study {
    let mut costs = Vec::new();
    let mut times = Vec::new();
    for (name, kernel, paper) in [
        (SINGLE, Rnn::GruSingle, tables::SINGLE),
        (DOUBLE, Rnn::GruDouble, tables::DOUBLE),
    ] {
        costs.push(full_series(name, |place| {
            let [cost, _] = model.best_of_kernel(kernel, size(RecurrentCell::Gru, place));
            cost
        }));
        times.push(full_series(name, |place| {
            let [_, time] = model.best_of_kernel(kernel, size(RecurrentCell::Gru, place));
            time
        }));
        times.push(paper_series(&paper));
    }
    let gpu = measured.short();
    for (count, kernel) in [("one", Rnn::GruSingle), ("two", Rnn::GruDouble)] {
        times.push(series(format!("{count}, {gpu}"), |place| {
            measured.fastest(kernel, size(RecurrentCell::Gru, place))
        }));
    }
    Study::new(
        [bars_by_size("GRU", &costs), bars_by_size("GRU", &times)],
        measured.note("the fastest mapping of each kernel."),
    )
}

/// Figure 3: the latencies of an LSTM before GRNN.
pub fn libraries(model: &PerformanceModel, measured: &GpuTimes) -> Study {
    let mut all = vec![full_series(TRADITIONAL, |place| {
        model.traditional(size(RecurrentCell::Lstm, place))
    })];
    all.extend(table_1(RecurrentCell::Lstm)[1..].iter().map(paper_series));
    let drawings = [
        bars_by_size("State", &all),
        measured_bars(measured, RecurrentCell::Lstm, "State", |_, ms| ms),
    ];
    Study::new(drawings, measured.note(OF_ALL))
}

const OVER_CPU: &str = "What was measured is over DeepCPU too, on the paper's processors: its times are those of Table 1. It is without \
                PCIe. PyTorch asks cuDNN for persistent kernels in float32 only at hidden sizes up to 192, so wider states have \
                none.\n";

/// Figures 11 and 12: the speed-ups over DeepCPU.
pub fn over_cpu(cell: RecurrentCell, model: &PerformanceModel, measured: &GpuTimes) -> Study {
    let ((_, cpu), papers) = table_1(cell).split_last().expect("DeepCPU's");
    let mut all = vec![full_series(MODEL, |place| {
        cpu[place] / model.sequence(size(cell, place))
    })];
    for (name, times) in papers {
        all.push(full_series(*name, |place| cpu[place] / times[place]));
    }
    let drawings = [
        bars_by_size("State", &all),
        measured_bars(measured, cell, "State", |place, ms| cpu[place] / ms),
    ];
    Study::new(drawings, format!("{OVER_CPU}{}", measured.note(OF_ALL)))
}

/// Figure 13: the share of the peak throughput.
pub fn throughput(model: &PerformanceModel, measured: &GpuTimes) -> Study {
    let mut all = vec![
        full_series(MODEL, |place| {
            share_of_peak(
                place,
                model.sequence(size(RecurrentCell::Lstm, place)),
                PEAK,
            )
        }),
        share_series(tables::LSTM, PEAK),
        share_series(tables::LSTM_CPU, PEAK_CPU),
    ];
    let mut note = format!(
        "By Table 1 the means are {:.1} % for GRNN and {:.1} % for DeepCPU; the paper's text has {} % and {DEEP_CPU_SHARE} %.\n",
        mean_share(tables::LSTM, PEAK),
        mean_share(tables::LSTM_CPU, PEAK_CPU),
        Paper::Grnn.value("grnn-share").number()
    );
    if let Some((file, sheet)) = data_sheet(measured) {
        let peak = sheet.unit.peak_gflops;
        all.push(series(measured.label(RnnSystem::Grnn), |place| {
            let ms = measured.ms(RnnSystem::Grnn, size(RecurrentCell::Lstm, place))?;
            Some(share_of_peak(place, ms, peak as f64))
        }));
        note += &format!(
            "The peak of the {} is that of scenarios/devices/{file}.toml in float32, {peak} operations in a nanosecond.\n{}",
            measured.gpu,
            measured.note(OF_GRNN)
        );
    } else {
        note += &format!(
            "{} measures, but no device file says the peak of the {}.\n",
            measured.file.display(),
            measured.name()
        );
    }
    Study::new([bars_by_size("State", &all)], note)
}

/// The data sheet of the measured GPU. A slice of a GPU does not have the whole's peak.
fn data_sheet(measured: &GpuTimes) -> Option<(&'static str, Roofline)> {
    let (file, sheet) = Roofline::find_for_gpu(&measured.gpu)?;
    if sheet.multiprocessors == u64::from(measured.multiprocessors) {
        Some((file, sheet))
    } else {
        None
    }
}

/// The share of a peak that an LSTM reaches with some milliseconds at a place, in percent.
fn share_of_peak(place: usize, ms: f64, peak: f64) -> f64 {
    let size = size(RecurrentCell::Lstm, place);
    let [hidden, batch, steps] = [size.hidden, size.batch, size.steps].map(f64::from);
    // The operations are the products of four gates with the input and the state.
    100.0 * (2.0 * 8.0 * hidden * hidden * batch * steps) / (ms * 1e6 * peak)
}

fn share_series((name, times): PaperTimes, peak: f64) -> BarSeries {
    full_series(name, |place| share_of_peak(place, times[place], peak))
}

fn mean_share(times: PaperTimes, peak: f64) -> f64 {
    let (_, shares) = share_series(times, peak);
    mean(&shares.into_iter().flatten().collect::<Vec<f64>>())
}

/// Figure 14: costs over the least, and measured times over the best.
pub fn spread(model: &PerformanceModel, measured: &GpuTimes) -> Study {
    let mut costs: Vec<Vec<f64>> = Vec::new();
    for place in 0..9 {
        let (ranked, _) = model.rank(size(RecurrentCell::Lstm, place));
        let least = ranked[0].cost.total();
        costs.push(ranked.iter().map(|one| one.cost.total() / least).collect());
    }
    let regrets =
        [0, 1, 2, 3, 4, 5, 6, 7, 8].map(|place| measured.regret(size(RecurrentCell::Lstm, place)));
    let costs = [
        full_series("fifth", |place| costs[place][4.min(costs[place].len() - 1)]),
        full_series("median", |place| costs[place][costs[place].len() / 2]),
        full_series("last", |place| costs[place][costs[place].len() - 1]),
    ];
    let best = [
        series("Top-1", |place| Some(regrets[place]?.first)),
        series(format!("Top-{FIRST}"), |place| {
            Some(regrets[place]?.best_of_first)
        }),
    ];
    let others = [
        series("median", |place| Some(regrets[place]?.median)),
        series("slowest", |place| Some(regrets[place]?.slowest)),
    ];
    let runs: Vec<usize> = regrets.iter().flatten().map(|regret| regret.run).collect();
    Study::new(
        [
            bars_by_size("State", &costs),
            bars_by_size("State", &best),
            bars_by_size("State", &others),
        ],
        note_on_samples(&runs, measured),
    )
}

/// What was measured for Figure 14. `runs` has the number of mappings of each sample.
fn note_on_samples(runs: &[usize], measured: &GpuTimes) -> String {
    let file = measured.file.display();
    if runs.is_empty() {
        return format!(
            "Only costs are shown: {file} has no randomly drawn mappings of an LSTM (batchlab grnn tune --all).\n"
        );
    }
    let counts: Vec<String> = runs.iter().map(usize::to_string).collect();
    format!(
        "Measured are samples, of {} mappings, on {} ({file}); the best is that of all that were measured. {} of the nine \
         sizes have no samples, and their places are empty.\n",
        counts.join(", "),
        measured.name(),
        9 - runs.len(),
    )
}

/// Figure 15: two networks of several layers.
pub fn networks(model: &PerformanceModel, measured: &GpuTimes) -> Study {
    let mut at_once = empty_series("model, layers in one launch");
    for network in NETWORKS {
        let time = model.layers(network.width, network.layers, network.steps);
        at_once
            .1
            .extend(NETWORK_BATCHES.map(|batch| Some(time(batch))));
    }
    let of_model = [
        network_series(MODEL, |size| Some(model.sequence(size))),
        at_once,
        network_series(TRADITIONAL, |size| Some(model.traditional(size))),
    ];
    let mut own = Vec::new();
    for system in measured.systems(RecurrentCell::Lstm) {
        own.push(network_series(system.name(), |size| {
            measured.ms(system, size)
        }));
    }
    let panels = NETWORKS.map(|network| network.name);
    let drawings = [
        bars_by_panel(&panels, &NETWORK_BATCHES, &of_model),
        bars_by_panel(&panels, &NETWORK_BATCHES, &own),
    ];
    Study::new(drawings, measured.note(OF_ALL))
}

/// The times of all networks by batch, whose layers run one after the other.
fn network_series(name: &str, time_of_layer: impl Fn(SequenceSize) -> Option<f64>) -> BarSeries {
    let mut values = Vec::new();
    for network in NETWORKS {
        for batch in NETWORK_BATCHES {
            let time = time_of_layer(layer_size(network, batch));
            values.push(time.map(|time| f64::from(network.layers) * time));
        }
    }
    (name.to_string(), values)
}

fn layer_size(network: RnnNetwork, batch: u32) -> SequenceSize {
    SequenceSize {
        cell: RecurrentCell::Lstm,
        hidden: network.width,
        batch,
        steps: network.steps,
    }
}
