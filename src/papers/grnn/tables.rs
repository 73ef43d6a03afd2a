//! Tables 1, 2 and 3.

use super::grid::{by_size, group, measured_by_size, names, size};
use super::measured::{Measured, OF_ALL, Size};
use super::model::Model;
use super::paper::{self, BATCHES, Grid, MAPPINGS, STEPS, WIDTHS};
use crate::cost::grnn::{Cell, Mapping, Rnn};
use crate::error::{Error, Result};
use crate::papers::lab::Study;
use crate::plot::{Bars, Field, Group};

/// The names of bars, which claims look up.
pub const MODEL: &str = "GRNN, model";
pub const PAPER: &str = "GRNN, paper";
pub const SINGLE: &str = "one, model";
pub const DOUBLE: &str = "two, model";
/// The column for what a GPU measures, where there is no file of one.
const THIS_GPU: &str = "this GPU";

/// Table 1.
pub fn latencies(model: &Model, own: Option<&Measured>) -> Result<Study> {
    let lstm = [paper::LSTM, paper::TRADITIONAL, paper::PERSISTENT, paper::LSTM_CPU];
    let gru = [paper::GRU, paper::GRU_CPU];
    // Without a file there is a column for what would stand in it.
    let empty: &[&str] = if own.is_some() { &[] } else { &[THIS_GPU] };
    let bars = |cell: Cell, name: &str, papers: &[Grid], series: &[&str]| -> Result<Bars> {
        let title = format!("Table 1: {name}, {STEPS} steps, Titan V");
        let series = names(&[&[MODEL, PAPER], series, empty].concat());
        by_size([&title, "Latency (ms)", name], series, |w, b| {
            let ours = model.sequence(cell, WIDTHS[w], BATCHES[b], STEPS)?;
            let known = [ours].into_iter().chain(papers.iter().map(|grid| grid[w][b]));
            Ok(known.map(Some).chain(empty.iter().map(|_| None)).collect())
        })
    };
    let mut drawings = vec![
        bars(Cell::Lstm, "LSTM", &lstm, &["cuDNN traditional", "cuDNN persistent", "DeepCPU"])?,
        bars(Cell::Gru, "GRU", &gru, &["DeepCPU"])?,
    ];
    if let Some(own) = own {
        for (cell, name) in [(Cell::Lstm, "LSTM"), (Cell::Gru, "GRU")] {
            let title = format!("Table 1: {name}, {STEPS} steps");
            drawings.push(measured_by_size(own, cell, [&title, "Latency (ms)", name], |_, _, ms| ms)?);
        }
    }
    Ok(Study {
        bars: drawings,
        note: format!(
            "The model's times are lines fitted to this table (docs/GRNN.md): what they miss, the lines miss.\n{}",
            noted(own, OF_ALL, "The column \"this GPU\" is")
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
    let bars = |value: &str, series: Vec<String>, groups: Vec<Group>| Bars {
        title: Some("Table 2: LSTM of 256, batch 20, tiles of 32×2".into()),
        across: "Work groups × size".into(),
        value: value.into(),
        series,
        fields: vec![Field { groups, ..Field::default() }],
        ..Bars::default()
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
            "The paper cuts the digits of costs off. Latencies show what the model is not for: it ranks.\n{}",
            noted(own, "ranks are those on that GPU.", "The column \"this GPU\" is")
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
            noted(own, "the fastest mapping of each kernel.", "The columns \"this GPU\" are")
        ),
        ..Study::default()
    })
}

/// What is said of the columns of a GPU.
fn noted(own: Option<&Measured>, more: &str, columns: &str) -> String {
    match own {
        None => format!("{columns} empty: nothing was measured.\n"),
        Some(own) => own.note(more),
    }
}
