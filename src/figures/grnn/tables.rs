//! Tables 1, 2 and 3.

use super::model::Model;
use super::paper::{self, BATCHES, Grid, MAPPINGS, STEPS, WIDTHS};
use super::{NOT_MEASURED, group};
use crate::cost::grnn::{Cell, Mapping, Rnn};
use crate::error::{Error, Result};
use crate::figures::lab::Study;
use crate::plot::bars::{Bars, Field, Group};

/// The names of bars, which claims look up.
pub const MODEL: &str = "GRNN, model";
pub const PAPER: &str = "GRNN, paper";
pub const MEASURED: &str = "this GPU";
pub const SINGLE: &str = "one, model";
pub const DOUBLE: &str = "two, model";

/// Table 1.
pub fn latencies(model: &Model) -> Result<Study> {
    let lstm = [paper::LSTM, paper::TRADITIONAL, paper::PERSISTENT, paper::LSTM_CPU];
    let gru = [paper::GRU, paper::GRU_CPU];
    let bars = |cell: Cell, name: &str, papers: &[Grid], series: &[&str]| -> Result<Bars> {
        let mut fields = Vec::new();
        for (w, width) in WIDTHS.into_iter().enumerate() {
            let mut groups = Vec::new();
            for (b, batch) in BATCHES.into_iter().enumerate() {
                let ours = model.sequence(cell, width, batch, STEPS)?;
                let theirs = papers.iter().map(|grid| grid[w][b]);
                groups
                    .push(unmeasured(group(batch.to_string(), &[ours].into_iter().chain(theirs).collect::<Vec<_>>())));
            }
            fields.push(Field { name: format!("{name} of {width}"), groups });
        }
        let series = [MODEL, PAPER].iter().chain(series).chain(&[MEASURED]).map(ToString::to_string).collect();
        let title = Some(format!("Table 1: {name}, 100 steps, Titan V"));
        Ok(Bars { title, across: "Batch".into(), value: "Latency (ms)".into(), series, fields, ..Bars::default() })
    };
    Ok(Study {
        bars: vec![
            bars(Cell::Lstm, "LSTM", &lstm, &["cuDNN traditional", "cuDNN persistent", "DeepCPU"])?,
            bars(Cell::Gru, "GRU", &gru, &["DeepCPU"])?,
        ],
        note: format!(
            "The model's times are lines fitted to this table (docs/GRNN.md): what they miss, the lines miss.\n{NOT_MEASURED}"
        ),
        ..Study::default()
    })
}

/// Table 2.
pub fn mappings(model: &Model) -> Result<Study> {
    let (ranked, _) = model.ranked(Cell::Lstm, 256, 20);
    let (mut costs, mut ranks, mut times) = (Vec::new(), Vec::new(), Vec::new());
    for (groups, group_size, latency, cost, rank) in MAPPINGS {
        let mapping = Mapping { tile_width: 32, tile_height: 2, groups, group_size };
        let place = ranked.iter().position(|one| one.mapping == mapping);
        let place = place.ok_or_else(|| Error::failed(format!("{mapping:?} is not valid")))?;
        let name = || format!("{groups}×{group_size}");
        costs.push(group(name(), &[ranked[place].cost.total(), cost]));
        ranks.push(group(name(), &[(place + 1) as f64, rank]));
        times.push(unmeasured(group(name(), &[model.mapped(&ranked[place], STEPS)?, latency])));
    }
    let bars = |value: &str, series: &[&str], groups: Vec<Group>| Bars {
        title: Some("Table 2: LSTM of 256, batch 20, tiles of 32×2".into()),
        across: "Work groups × size".into(),
        value: value.into(),
        series: series.iter().map(ToString::to_string).collect(),
        fields: vec![Field { groups, ..Field::default() }],
        ..Bars::default()
    };
    Ok(Study {
        bars: vec![
            bars("Cost", &[MODEL, PAPER], costs),
            bars("Rank", &[MODEL, PAPER], ranks),
            bars("Latency (ms)", &[MODEL, PAPER, MEASURED], times),
        ],
        note: format!(
            "The paper cuts the digits of costs off. Latencies show what the model is not for: it ranks.\n{NOT_MEASURED}"
        ),
        ..Study::default()
    })
}

/// Table 3.
pub fn synchronisations(model: &Model) -> Result<Study> {
    let (mut costs, mut times) = (Vec::new(), Vec::new());
    for (w, width) in WIDTHS.into_iter().enumerate() {
        let (mut of_costs, mut of_times) = (Vec::new(), Vec::new());
        for (b, batch) in BATCHES.into_iter().enumerate() {
            let (single, single_ms) = model.gru(Rnn::GruSingle, width, batch, STEPS)?;
            let (double, double_ms) = model.gru(Rnn::GruDouble, width, batch, STEPS)?;
            of_costs.push(group(batch.to_string(), &[single, double]));
            let values = [single_ms, paper::SINGLE[w][b], double_ms, paper::DOUBLE[w][b]];
            of_times.push(unmeasured(unmeasured(group(batch.to_string(), &values))));
        }
        let name = format!("GRU of {width}");
        costs.push(Field { name: name.clone(), groups: of_costs });
        times.push(Field { name, groups: of_times });
    }
    let bars = |value: &str, series: &[&str], fields: Vec<Field>| Bars {
        title: Some("Table 3: one or two synchronisations a step".into()),
        across: "Batch".into(),
        value: value.into(),
        series: series.iter().map(ToString::to_string).collect(),
        fields,
        ..Bars::default()
    };
    let series = [SINGLE, "one, paper", DOUBLE, "two, paper", "one, this GPU", "two, this GPU"];
    Ok(Study {
        bars: vec![bars("Cost", &[SINGLE, DOUBLE], costs), bars("Latency (ms)", &series, times)],
        note: format!(
            "The line for one synchronisation is fitted to states of up to 256.\n{}",
            NOT_MEASURED.replace("The column \"this GPU\" is", "The columns \"this GPU\" are")
        ),
        ..Study::default()
    })
}

/// With a bar that has no value, for what a device would measure.
fn unmeasured(mut group: Group) -> Group {
    group.bars.push(None);
    group
}
