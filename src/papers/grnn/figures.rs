//! The figures and tables.

use super::measured::{FIRST, Measured, OF_ALL, OF_GRNN, Regret, Series, Size};
use super::model::Model;
use super::paper::{
    self, BATCHES, Grid, MAPPINGS, PAPER, PEAK, PEAK_CPU, STEPS, WIDTHS, by_size, measured_by_size, names, size,
};
use crate::cost::device_file::of_gpu;
use crate::cost::grnn::{Cell, Mapping, Rnn};
use crate::cost::roofline::Roofline;
use crate::error::{Error, Result};
use crate::papers::lab::{Study, bars, group};
use crate::plot::{Bars, Field, Group};

/// Bars that claims look up.
pub const MODEL: &str = "GRNN, model";
const WITHOUT_BUS: [&str; 2] = ["model, without PCIe", "paper, without PCIe"];
pub const SINGLE: &str = "one, model";
pub const DOUBLE: &str = "two, model";
pub const MEDIAN: &str = "median";
/// Without a file of measurements.
const THIS_GPU: &str = "this GPU";

/// Table 1.
pub fn latencies(model: &Model, own: Option<&Measured>) -> Result<Study> {
    let empty: &[&str] = if own.is_some() { &[] } else { &[THIS_GPU] };
    let bars = |cell: Cell| -> Result<Bars> {
        let name = cell.name().to_uppercase();
        let title = format!("Table 1: {name}, {STEPS} steps, Titan V");
        let (first, others) = paper::series(cell).split_first().expect("GRNN's own");
        let more = others.iter().map(|(name, _)| name);
        let series = names([MODEL, PAPER].iter().chain(&WITHOUT_BUS).chain(more).chain(empty));
        by_size([&title, "Latency (ms)", &name], series, |w, b| {
            let both = [model.sequence(cell, WIDTHS[w], BATCHES[b], STEPS)?, first.1[w][b]];
            let known = both.into_iter().chain(both.map(|ms| ms - paper::bus(w, b)));
            let known = known.chain(others.iter().map(|(_, grid)| grid[w][b]));
            Ok(known.map(Some).chain(empty.iter().map(|_| None)).collect())
        })
    };
    let mut drawings = vec![bars(Cell::Lstm)?, bars(Cell::Gru)?];
    if let Some(own) = own {
        for (cell, name) in [(Cell::Lstm, "LSTM"), (Cell::Gru, "GRU")] {
            let title = format!("Table 1: {name}, {STEPS} steps");
            drawings.push(measured_by_size(own, cell, [&title, "Latency (ms)", name], |_, _, ms| ms)?);
        }
    }
    Ok(Study {
        bars: drawings,
        note: format!(
            "The model's times are lines fitted to this table (docs/GRNN.md): their errors are those of the lines. Both include the way over PCIe, as do cuDNN's; \
             without it they are less by 4 bytes of each input and of each last state at {:.2} GB/s (PCIe 3.0 x16). What is measured here is \
             without it.\n{}",
            paper::BUS / 1e6,
            of_columns(own, OF_ALL, "The column \"this GPU\" is")
        ),
        ..Study::default()
    })
}

/// Table 2.
pub fn mappings(model: &Model, own: Option<&Measured>) -> Result<Study> {
    let table = Size { cell: Cell::Lstm, hidden: 256, batch: 20, steps: STEPS };
    let (ranked, _) = model.ranked(table.cell, table.hidden, table.batch);
    let (mut costs, mut ranks, mut times) = (Vec::new(), Vec::new(), Vec::new());
    for (groups, group_size, latency, cost, rank) in MAPPINGS {
        let mapping = Mapping { tile_width: 32, tile_height: 2, groups, group_size };
        let place = ranked.iter().position(|one| one.mapping == mapping);
        let place = place.ok_or_else(|| Error::failed(format!("{mapping:?} is not valid")))?;
        let found = own.and_then(|own| own.mapping(Rnn::Lstm, mapping, table));
        let row = |values: Vec<Option<f64>>| group(format!("{groups}×{group_size}"), values);
        costs.push(row(vec![Some(ranked[place].cost.total()), Some(cost)]));
        let own_rank = own.map(|_| found.map(|(rank, _)| rank.into()));
        ranks.push(row([Some((place + 1) as f64), Some(rank)].into_iter().chain(own_rank).collect()));
        times.push(row(vec![Some(model.mapped(&ranked[place], STEPS)?), Some(latency), found.map(|(_, ms)| ms)]));
    }
    let bars = |value: &str, series: Vec<String>, groups: Vec<Group>| {
        let titles = ["Table 2: LSTM of 256, batch 20, tiles of 32×2", "Work groups × size", value];
        bars(titles, series, vec![Field { groups, ..Field::default() }])
    };
    let both = || names(&[MODEL, PAPER]);
    let own_rank = own.map(|own| format!("model, {}", own.short()));
    let own_time = own.map_or(THIS_GPU.into(), |own| format!("GRNN, {}", own.short()));
    Ok(Study {
        bars: vec![
            bars("Cost", both(), costs),
            bars("Rank", both().into_iter().chain(own_rank).collect(), ranks),
            bars("Latency (ms)", both().into_iter().chain([own_time]).collect(), times),
        ],
        note: format!(
            "The paper cuts the digits of costs off. The model ranks mappings; it does not predict latencies.\n{}",
            of_columns(own, "ranks are those on that GPU.", "The column \"this GPU\" is")
        ),
        ..Study::default()
    })
}

/// Table 3.
pub fn synchronisations(model: &Model, own: Option<&Measured>) -> Result<Study> {
    let title = "Table 3: one or two synchronisations a step";
    let of_model = |kernel: Rnn, w: usize, b: usize| model.gru(kernel, WIDTHS[w], BATCHES[b], STEPS);
    let costs = by_size([title, "Cost", "GRU"], names(&[SINGLE, DOUBLE]), |w, b| {
        Ok(vec![Some(of_model(Rnn::GruSingle, w, b)?.0), Some(of_model(Rnn::GruDouble, w, b)?.0)])
    })?;
    let gpu = own.map_or(THIS_GPU, Measured::short);
    let own_names = ["one", "two"].map(|count| format!("{count}, {gpu}")).to_vec();
    let series = [names(&[SINGLE, "one, paper", DOUBLE, "two, paper"]), own_names].concat();
    let times = by_size([title, "Latency (ms)", "GRU"], series, |w, b| {
        let [(_, single), (_, double)] = [of_model(Rnn::GruSingle, w, b)?, of_model(Rnn::GruDouble, w, b)?];
        let known = [single, paper::SINGLE[w][b], double, paper::DOUBLE[w][b]].map(Some);
        let measured = |kernel: Rnn| own.and_then(|own| own.fastest(kernel, size(Cell::Gru, w, b)));
        Ok([&known[..], &[measured(Rnn::GruSingle), measured(Rnn::GruDouble)]].concat())
    })?;
    Ok(Study {
        bars: vec![costs, times],
        note: format!(
            "The line for one synchronisation is fitted to states of up to 256.\n{}",
            of_columns(own, "the fastest mapping of each kernel.", "The columns \"this GPU\" are")
        ),
        ..Study::default()
    })
}

fn of_columns(own: Option<&Measured>, more: &str, columns: &str) -> String {
    match own {
        None => format!("{columns} empty: nothing was measured.\n"),
        Some(own) => own.note(more),
    }
}

/// With the measured GPU's, if it has any bars.
fn with(bars: Bars, measured: Option<Bars>, note: String) -> Study {
    let measured = measured.filter(|own| own.fields.iter().any(has_bars));
    Study { bars: [bars].into_iter().chain(measured).collect(), note, ..Study::default() }
}

fn has_bars(field: &Field) -> bool {
    field.groups.iter().any(|group| group.bars.iter().any(Option::is_some))
}

fn noted(own: Option<&Measured>) -> String {
    own.map(|own| own.note(OF_ALL)).unwrap_or_default()
}

/// Figure 3.
pub fn libraries(model: &Model, own: Option<&Measured>) -> Result<Study> {
    let libraries = &paper::series(Cell::Lstm)[1..];
    let series = names(["traditional, data sheet"].iter().chain(libraries.iter().map(|(name, _)| name)));
    let bars = by_size(["Figure 3: LSTM, 100 steps, Titan V", "Latency (ms)", "State"], series, |w, b| {
        let ours = model.traditional(WIDTHS[w], BATCHES[b], STEPS)?;
        Ok([ours].into_iter().chain(libraries.iter().map(|(_, grid)| grid[w][b])).map(Some).collect())
    })?;
    let titles = ["Figure 3: LSTM, 100 steps", "Latency (ms)", "State"];
    let measured = own.map(|own| measured_by_size(own, Cell::Lstm, titles, |_, _, ms| ms)).transpose()?;
    Ok(with(
        bars,
        measured,
        format!(
            "Traditional kernels are a roofline: two products and one elementwise kernel for each step, launched 2 µs apart. The libraries' times are those \
             of the paper's Table 1; those of TensorFlow and TensorRT the paper only draws.\n{}",
            noted(own)
        ),
    ))
}

/// Figures 11 and 12: over DeepCPU.
pub fn over_cpu(figure: &str, cell: Cell, model: &Model, own: Option<&Measured>) -> Result<Study> {
    let title = format!("{figure}: {} over DeepCPU", cell.name().to_uppercase());
    let ((_, cpu), papers) = paper::series(cell).split_last().expect("DeepCPU's");
    let series = names([MODEL].iter().chain(papers.iter().map(|(name, _)| name)));
    let over = |w: usize, b: usize, ms: f64| cpu[w][b] / ms;
    let bars = by_size([&title, "Speed-up", "State"], series, |w, b| {
        let ours = model.sequence(cell, WIDTHS[w], BATCHES[b], STEPS)?;
        let known = [ours].into_iter().chain(papers.iter().map(|(_, grid)| grid[w][b]));
        Ok(known.map(|ms| Some(over(w, b, ms))).collect())
    })?;
    let measured = own.map(|own| measured_by_size(own, cell, [&title, "Speed-up", "State"], over)).transpose()?;
    let mut note = String::from(
        "The paper's speed-ups follow from its Table 1; the model's times are lines fitted to that. Times on the GPU include the way over PCIe, which DeepCPU does not \
             have.\n",
    );
    if own.is_some() {
        note += "What was measured is over DeepCPU too, on the paper's processors: its times are those of Table 1. It is without PCIe.\n";
    }
    Ok(with(bars, measured, note + &noted(own)))
}

/// Figure 13.
pub fn throughput(model: &Model, own: Option<&Measured>) -> Result<Study> {
    // Four gates' products with input and state.
    let operations = |w: usize, b: usize| {
        let [width, batch, steps] = [WIDTHS[w], BATCHES[b], STEPS].map(f64::from);
        2.0 * 8.0 * width * width * batch * steps
    };
    let share = |w: usize, b: usize, ms: f64, peak: f64| 100.0 * operations(w, b) / (ms * 1e6 * peak);
    // A slice of a GPU does not have the whole's peak.
    let whole = |own: &Measured, sheet: &Roofline| sheet.multiprocessors == u64::from(own.multiprocessors);
    let sheet = own.and_then(|own| of_gpu(&own.gpu).filter(|(_, sheet)| whole(own, sheet)));
    let peak = sheet.as_ref().map(|(_, sheet)| sheet.unit.peak_gflops);
    let shown = own.zip(peak);
    let series = [MODEL, PAPER, "DeepCPU"].map(String::from).into_iter();
    let series = series.chain(shown.map(|(own, _)| own.label(Series::Grnn))).collect();
    let bars = by_size(["Figure 13: LSTM, share of the peak", "Share of the peak (%)", "State"], series, |w, b| {
        let ours = model.sequence(Cell::Lstm, WIDTHS[w], BATCHES[b], STEPS)?;
        let known = [(ours, PEAK), (paper::LSTM[w][b], PEAK), (paper::LSTM_CPU[w][b], PEAK_CPU)];
        let known = known.map(|(ms, peak)| Some(share(w, b, ms, peak)));
        let own_share = shown.map(|(own, peak)| {
            let ms = own.ms(Series::Grnn, size(Cell::Lstm, w, b));
            ms.map(|ms| share(w, b, ms, peak as f64))
        });
        Ok(known.into_iter().chain(own_share).collect())
    })?;
    let mean = |grid: &Grid, peak: f64| {
        let all = (0..3).flat_map(|w| (0..3).map(move |b| (w, b)));
        all.map(|(w, b)| share(w, b, grid[w][b], peak)).sum::<f64>() / 9.0
    };
    let note = format!(
        "By Table 1 the means are {:.1} % for GRNN and {:.1} % for DeepCPU; the paper's text has 15.7 % and 12.6 %.\n",
        mean(&paper::LSTM, PEAK),
        mean(&paper::LSTM_CPU, PEAK_CPU)
    );
    let of_own = match (own, sheet) {
        (None, _) => String::new(),
        (Some(own), None) => {
            format!("{} measures, but no device file says the peak of the {}.\n", own.file.display(), own.name())
        }
        (Some(own), Some((file, sheet))) => format!(
            "The peak of the {} is that of scenarios/devices/{file}.toml in float32, {} operations in a nanosecond.\n{}",
            own.gpu,
            sheet.unit.peak_gflops,
            own.note(OF_GRNN)
        ),
    };
    Ok(with(bars, None, note + &of_own))
}

/// Figure 14.
pub fn spread(model: &Model, own: Option<&Measured>) -> Result<Study> {
    let series = names(&["fifth", MEDIAN, "last"]);
    let costs = by_size(["Figure 14: LSTM, cost over the least", "Cost over the least", "State"], series, |w, b| {
        let (ranked, _) = model.ranked(Cell::Lstm, WIDTHS[w], BATCHES[b]);
        let cost = |place: usize| ranked[place.min(ranked.len() - 1)].cost.total() / ranked[0].cost.total();
        Ok([cost(4), cost(ranked.len() / 2), cost(ranked.len())].map(Some).to_vec())
    })?;
    let mut note = String::from(
        "The paper's figure has measured latencies over the best that any mapping has: 1.03 for the model's first, 1.02 for the best of its first five, 1.8 \
         for the median. ",
    );
    let Some(own) = own else {
        note += "Only costs are shown: nothing was measured.\n";
        return Ok(with(costs, None, note));
    };
    let regret = |w: usize, b: usize| own.regret(size(Cell::Lstm, w, b));
    let run = (0..9).filter_map(|place| regret(place / 3, place % 3)).map(|regret| regret.run);
    let run: Vec<String> = run.map(|count| count.to_string()).collect();
    let file = own.file.display();
    if run.is_empty() {
        note += &format!(
            "Only costs are shown: {file} has no randomly drawn mappings of an LSTM (batchlab grnn tune --all).\n"
        );
        return Ok(with(costs, None, note));
    }
    note += &format!(
        "Measured are samples, of {} mappings, on {} ({file}); the best is that of all that were measured.\n",
        run.join(", "),
        own.name(),
    );
    let title = format!("Figure 14: LSTM, latency over the best, {}", own.short());
    let series = ["first".into(), format!("best of first {FIRST}"), "median".into(), "slowest".into()];
    let mut times = by_size([&title, "Latency over the best", "State"], series.to_vec(), |w, b| {
        let values = |found: Regret| [found.first, found.best_of_first, found.median, found.slowest];
        Ok(regret(w, b).map_or([None; 4], |found| values(found).map(Some)).to_vec())
    })?;
    // Widths without a sample.
    times.fields.retain(has_bars);
    Ok(Study { bars: vec![costs, times], note, ..Study::default() })
}

/// Figure 15.
pub fn networks(model: &Model, own: Option<&Measured>) -> Result<Study> {
    const UP_TO_20: [u32; 6] = [1, 4, 8, 12, 16, 20];
    let (mut fields, mut own_fields) = (Vec::new(), Vec::new());
    for (name, layers, width, steps) in [("Text classification", 2, 256, 20), ("CharRNN", 3, 128, 100)] {
        let of_layers = |ms: f64| f64::from(layers) * ms;
        let at_once = model.layers(width, layers, steps, &UP_TO_20)?;
        let of_batch = |(batch, at_once): (&u32, f64)| {
            let [own, traditional] =
                [model.sequence(Cell::Lstm, width, *batch, steps)?, model.traditional(width, *batch, steps)?];
            Ok(group(batch, [of_layers(own), at_once, of_layers(traditional)].map(Some)))
        };
        let groups = UP_TO_20.iter().zip(at_once).map(of_batch).collect::<Result<_>>()?;
        fields.push(Field { name: name.into(), groups });
        let own_of_batch = |own: &Measured, batch: u32| {
            let times = own.times(Size { cell: Cell::Lstm, hidden: width, batch, steps }).into_iter();
            group(batch, times.map(|ms| ms.map(of_layers)))
        };
        let groups = own.map(|own| UP_TO_20.map(|batch| own_of_batch(own, batch)).to_vec()).unwrap_or_default();
        own_fields.push(Field { name: name.into(), groups });
    }
    let bars = |on: &str, series: Vec<String>, fields: Vec<Field>| {
        bars([&format!("Figure 15: two networks, {on}"), "Batch", "Latency (ms)"], series, fields)
    };
    let measured = own.map(|own| bars(own.short(), own.labels(Cell::Lstm), own_fields));
    Ok(with(
        bars("Titan V", names(&[MODEL, "model, layers in one launch", "traditional, data sheet"]), fields),
        measured,
        format!(
            "Text classification has 2 layers of 256 and 20 steps, CharRNN 3 layers of 128 and 100 steps; layers run one after the other. \
             \"In one launch\" all layers run at once, each on its share of the multiprocessors and one step behind the layer before (docs/GRNN.md). \
             The paper draws its latencies and states none; nor does it say how its layers run.\n{}",
            noted(own)
        ),
    ))
}
