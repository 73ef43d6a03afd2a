//! DVABatch with other numbers of buffer pairs and stages (Figures 19 and 20).

use super::names::{DVA, PAIRS, STAGES};
use super::networks::{
    NumberedBars, costs_and_network, draw_networks, mean_latency, rates, variant, with_best_window,
};
use crate::base::error::{Error, Result};
use crate::core::cost::slice;
use crate::core::summary::stats::Interval;
use crate::devices::network::operators::writes;
use crate::lab::plot::Bar;
use crate::lab::results::columns::Metric;
use crate::lab::results::summary::SummaryRow;
use crate::lab::run::RunReport;
use crate::lab::run::executor::SelectedBackend;
use crate::lab::run::target::prepare;
use crate::lab::scenario::{PolicyEntry, Scenario};
use crate::papers::study::Study;
use crate::papers::study_runner::StudyRunner;

/// The number of bytes of a `float32`.
const FLOAT: f64 = 4.0;

/// Figure 19: mean latency and memory by the number of buffer pairs.
pub fn buffer_pairs(runner: &StudyRunner<'_>) -> Result<Study> {
    draw_networks("networks", |name| {
        let mut scenario = runner.scenario(name, &[])?;
        scenario.policies.retain(|entry| entry.label == DVA);
        let peak = runner.peaks(&scenario)?[0];
        let memory = buffer_megabytes(&scenario)?;
        let mut scenario = runner.scenario(name, &[rates(peak, &[0.9])])?;
        scenario.output.plots.clear();
        scenario.policies = variants(runner, name, "buffer_pairs", &PAIRS)?;
        let report = runner.run("fig19", &scenario)?;
        let mut values = Vec::new();
        for pairs in PAIRS {
            let latency = mean_latency(&report, &pairs.to_string());
            values.push([latency, Some(memory * f64::from(pairs))]);
        }
        Ok(draw_variants(&PAIRS, &values, &report))
    })
}

/// Figure 20: peak and mean latency by the number of stages.
pub fn stages(runner: &StudyRunner<'_>) -> Result<Study> {
    draw_networks("stages", |name| {
        let mut scenario = with_best_window(runner, name, &[0.9], &[])?;
        scenario.policies = variants(runner, name, "stages", &STAGES)?;
        let report = runner.run("fig20", &scenario)?;
        let peaks = runner.peaks(&scenario)?;
        let mut values = Vec::new();
        for (stages, peak) in STAGES.into_iter().zip(peaks) {
            values.push([Some(peak), mean_latency(&report, &stages.to_string())]);
        }
        Ok(draw_variants(&STAGES, &values, &report))
    })
}

/// The network's DVABatch with each of these values of a setting, labelled with the value.
fn variants(
    runner: &StudyRunner<'_>,
    name: &str,
    key: &str,
    values: &[u32],
) -> Result<Vec<PolicyEntry>> {
    let mut entries = Vec::new();
    for value in values {
        let setting = format!("{key}={value}");
        entries.push(variant(runner, name, &setting, &value.to_string())?);
    }
    Ok(entries)
}

/// Draws variants of DVABatch three times: two with these values, and one with how far the mean is above the lowest.
fn draw_variants(
    variants: &[u32],
    values: &[[Option<f64>; 2]],
    report: &RunReport,
) -> NumberedBars {
    let policies: Vec<String> = variants.iter().map(u32::to_string).collect();
    let above = mean_above_lowest(report, &policies);
    let mut bars = Vec::new();
    for ((variant, [first, second]), above) in variants.iter().zip(values).zip(above) {
        bars.push((0, Bar::new(variant, DVA, *first)));
        bars.push((1, Bar::new(variant, DVA, *second)));
        bars.push((2, Bar::new(variant, DVA, above)));
    }
    bars
}

/// The percentage by which each policy's mean latency under the first load is at least above the lowest mean. It is the
/// lower end of the 95 % interval of the difference, whose replications are paired.
fn mean_above_lowest(report: &RunReport, policies: &[String]) -> Vec<Option<f64>> {
    let mut rows: Vec<Option<&SummaryRow>> = Vec::new();
    let mut lowest: Option<(&SummaryRow, f64)> = None;
    for policy in policies {
        let row = report.rows.iter().find(|row| row.policy == *policy);
        rows.push(row);
        if let Some(row) = row
            && let Some(mean) = row.estimate(Metric::Mean).value
            && lowest.is_none_or(|(_, least)| mean.total_cmp(&least).is_lt())
        {
            lowest = Some((row, mean));
        }
    }
    let Some((lowest, least)) = lowest else {
        return vec![None; rows.len()];
    };
    let mut above = Vec::new();
    for row in rows {
        let difference = row.and_then(|row| row.difference(lowest, Metric::Mean));
        above.push(difference.map(|Interval { mean, half_width }| {
            let at_least = (mean - half_width).max(0.0);
            100.0 * at_least / least
        }));
    }
    above
}

/// The memory of one set of buffers between the stages of the network's DVABatch, in megabytes: what the last operators
/// of stages write for the largest batch and input.
fn buffer_megabytes(scenario: &Scenario) -> Result<f64> {
    let (_, device) = prepare(scenario, SelectedBackend::SIM)?;
    let (costs, network) = costs_and_network(scenario, &device);
    let stages = setting(scenario, "stages");
    let batch = setting(scenario, "max_batch");
    let tokens = network.most_tokens.unwrap_or(0);
    let times = slice::times(network, costs, (batch as u32).isqrt(), tokens);
    let ranges = slice::even(&times, stages as usize).map_err(Error::failure)?;
    let mut numbers = 0;
    for range in &ranges[..ranges.len() - 1] {
        if let Some(last) = network.operators().nth(range.end - 1) {
            numbers += writes(&last.form.work(tokens)) * batch;
        }
    }
    Ok(numbers as f64 * FLOAT / 1e6)
}

/// A setting of the scenario's first policy.
fn setting(scenario: &Scenario, key: &str) -> u64 {
    let settings = serde_json::to_value(&scenario.policies[0].settings).expect("settings are JSON");
    settings[key].as_u64().expect("the scenario has it")
}
