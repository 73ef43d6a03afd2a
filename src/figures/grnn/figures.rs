//! Figures 3 and 11 to 15.

use super::model::Model;
use super::paper::{self, BATCHES, Grid, PEAK, PEAK_CPU, STEPS, WIDTHS};
use super::{NOT_MEASURED, group};
use crate::cost::grnn::Cell;
use crate::error::Result;
use crate::figures::lab::Study;
use crate::plot::bars::{Bars, Field};

/// A bar for each series in each width and batch; `values` are given the places of both in the paper's tables.
fn by_size(
    title: &str,
    value: &str,
    series: &[&str],
    values: impl Fn(usize, usize) -> Result<Vec<f64>>,
) -> Result<Bars> {
    let mut fields = Vec::new();
    for (w, width) in WIDTHS.into_iter().enumerate() {
        let of_batch = |(b, batch): (usize, u32)| Ok(group(batch.to_string(), &values(w, b)?));
        let groups = BATCHES.into_iter().enumerate().map(of_batch).collect::<Result<_>>()?;
        fields.push(Field { name: format!("State of {width}"), groups });
    }
    Ok(Bars {
        title: Some(title.into()),
        across: "Batch".into(),
        value: value.into(),
        series: series.iter().map(ToString::to_string).collect(),
        fields,
        ..Bars::default()
    })
}

fn alone(bars: Bars, note: &str) -> Study {
    Study { bars: vec![bars], note: note.into(), ..Study::default() }
}

/// Figure 3.
pub fn libraries(model: &Model) -> Result<Study> {
    let series = ["traditional, data sheet", "cuDNN traditional", "cuDNN persistent", "DeepCPU"];
    let values = |w: usize, b: usize| {
        let ours = model.traditional(WIDTHS[w], BATCHES[b], STEPS)?;
        Ok(vec![ours, paper::TRADITIONAL[w][b], paper::PERSISTENT[w][b], paper::LSTM_CPU[w][b]])
    };
    let bars = by_size("Figure 3: LSTM, 100 steps, Titan V", "Latency (ms)", &series, values)?;
    Ok(alone(
        bars,
        "Traditional kernels are a roofline: two products and one elementwise kernel for each step, launched 2 µs apart. The libraries' times are those \
         of the paper's Table 1; those of TensorFlow and TensorRT the paper only draws.\n",
    ))
}

/// Figure 11.
pub fn lstm_over_cpu(model: &Model) -> Result<Study> {
    let series = ["GRNN, model", "GRNN, paper", "cuDNN traditional", "cuDNN persistent"];
    let values = |w: usize, b: usize| {
        let over = |ms: f64| paper::LSTM_CPU[w][b] / ms;
        let ours = model.sequence(Cell::Lstm, WIDTHS[w], BATCHES[b], STEPS)?;
        Ok([ours, paper::LSTM[w][b], paper::TRADITIONAL[w][b], paper::PERSISTENT[w][b]].map(over).to_vec())
    };
    let bars = by_size("Figure 11: LSTM over DeepCPU", "Speed-up", &series, values)?;
    Ok(alone(bars, "The paper's speed-ups follow from its Table 1; the model's times are lines fitted to that.\n"))
}

/// Figure 12.
pub fn gru_over_cpu(model: &Model) -> Result<Study> {
    let values = |w: usize, b: usize| {
        let ours = model.sequence(Cell::Gru, WIDTHS[w], BATCHES[b], STEPS)?;
        Ok([ours, paper::GRU[w][b]].map(|ms| paper::GRU_CPU[w][b] / ms).to_vec())
    };
    let bars = by_size("Figure 12: GRU over DeepCPU", "Speed-up", &["GRNN, model", "GRNN, paper"], values)?;
    Ok(alone(bars, "The paper's speed-ups follow from its Table 1; the model's times are lines fitted to that.\n"))
}

/// Figure 13.
pub fn throughput(model: &Model) -> Result<Study> {
    // Products of four gates with the input and with the state.
    let operations = |w: usize, b: usize| {
        let [width, batch, steps] = [WIDTHS[w], BATCHES[b], STEPS].map(f64::from);
        2.0 * 8.0 * width * width * batch * steps
    };
    let share = |w: usize, b: usize, ms: f64, peak: f64| 100.0 * operations(w, b) / (ms * 1e6 * peak);
    let values = |w: usize, b: usize| {
        let ours = model.sequence(Cell::Lstm, WIDTHS[w], BATCHES[b], STEPS)?;
        let of_gpu = [ours, paper::LSTM[w][b]].map(|ms| share(w, b, ms, PEAK));
        Ok(vec![of_gpu[0], of_gpu[1], share(w, b, paper::LSTM_CPU[w][b], PEAK_CPU)])
    };
    let series = ["GRNN, model", "GRNN, paper", "DeepCPU"];
    let bars = by_size("Figure 13: LSTM, share of the peak", "Share of the peak (%)", &series, values)?;
    let mean = |grid: &Grid, peak: f64| {
        let all = (0..3).flat_map(|w| (0..3).map(move |b| (w, b)));
        all.map(|(w, b)| share(w, b, grid[w][b], peak)).sum::<f64>() / 9.0
    };
    let note = format!(
        "By Table 1 the means are {:.1} % for GRNN and {:.1} % for DeepCPU; the paper's text has 15.7 % and 12.6 %.\n",
        mean(&paper::LSTM, PEAK),
        mean(&paper::LSTM_CPU, PEAK_CPU)
    );
    Ok(alone(bars, &note))
}

/// Figure 14.
pub fn spread(model: &Model) -> Result<Study> {
    let values = |w: usize, b: usize| {
        let (ranked, _) = model.ranked(Cell::Lstm, WIDTHS[w], BATCHES[b]);
        let cost = |place: usize| ranked[place.min(ranked.len() - 1)].cost.total() / ranked[0].cost.total();
        Ok(vec![cost(4), cost(ranked.len() / 2), cost(ranked.len())])
    };
    let series = ["fifth", "median", "last"];
    let bars = by_size("Figure 14: LSTM, cost over the least", "Cost over the least", &series, values)?;
    let note = format!(
        "The paper's figure has measured latencies over the best that any mapping has: 1.03 for the model's first, 1.02 for the best of its first five, 1.8 \
         for the median. {}",
        NOT_MEASURED.replace("The column \"this GPU\" is empty", "Here are costs alone")
    );
    Ok(alone(bars, &note))
}

/// Figure 15.
pub fn networks(model: &Model) -> Result<Study> {
    const UP_TO_20: [u32; 6] = [1, 4, 8, 12, 16, 20];
    let mut fields = Vec::new();
    for (name, layers, width, steps) in [("Text classification", 2, 256, 20), ("CharRNN", 3, 128, 100)] {
        let of_batch = |batch: &u32| {
            let values = [model.sequence(Cell::Lstm, width, *batch, steps)?, model.traditional(width, *batch, steps)?];
            Ok(group(batch.to_string(), &values.map(|ms| f64::from(layers) * ms)))
        };
        let groups = UP_TO_20.iter().map(of_batch).collect::<Result<_>>()?;
        fields.push(Field { name: name.into(), groups });
    }
    let bars = Bars {
        title: Some("Figure 15: two networks, Titan V".into()),
        across: "Batch".into(),
        value: "Latency (ms)".into(),
        series: vec!["GRNN, model".into(), "traditional, data sheet".into()],
        fields,
        ..Bars::default()
    };
    Ok(alone(
        bars,
        "Text classification has 2 layers of 256 and 20 steps, CharRNN 3 layers of 128 and 100 steps; layers run one behind the other. The paper draws its latencies \
         and states none.\n",
    ))
}
