//! What the studies of several figures share: networks, their scenarios and their panels.

use rayon::prelude::*;

use super::names::{DELAY, DVA, named_files};
use crate::base::error::{Error, Result};
use crate::core::cost::table::TableCosts;
use crate::core::workload::dnn::Dnn;
use crate::lab::plot::Bar;
use crate::lab::results::columns::Metric;
use crate::lab::run::RunReport;
use crate::lab::run::target::Target;
use crate::lab::scenario::{PolicyEntry, Scenario};
use crate::papers::study::Study;
use crate::papers::study_runner::StudyRunner;

/// Bars with the numbers of their drawings.
pub type NumberedBars = Vec<(usize, Bar)>;

/// Draws a panel for each network of a list, in parallel.
pub fn draw_networks(
    list: &str,
    bars: impl Fn(&str) -> Result<NumberedBars> + Sync,
) -> Result<Study> {
    let panels: Vec<NumberedBars> = named_files(list)
        .par_iter()
        .with_max_len(1)
        .map(|[file, _]| bars(file))
        .collect::<Result<_>>()?;
    let mut drawings: Vec<Vec<Bar>> = Vec::new();
    for ([_, name], panel) in named_files(list).iter().zip(panels) {
        for (drawing, bar) in panel {
            if drawings.len() <= drawing {
                drawings.resize_with(drawing + 1, Vec::new);
            }
            drawings[drawing].push(Bar {
                panel: name.clone(),
                ..bar
            });
        }
    }
    Ok(Study::new(drawings, String::new()))
}

/// A network's scenario with DelayBatch's best window. If there are shares, its rates are these shares of the peak with
/// that window.
pub fn with_best_window(
    runner: &StudyRunner<'_>,
    name: &str,
    shares: &[f64],
    overrides: &[String],
) -> Result<Scenario> {
    let (window, peak) = runner.best_window(name, DELAY)?;
    let mut all = vec![format!("policy.{DELAY}.window={}ns", window.0)];
    if !shares.is_empty() {
        all.push(rates(peak, shares));
    }
    all.extend_from_slice(overrides);
    let mut scenario = runner.scenario(name, &all)?;
    scenario.output.plots.clear();
    Ok(scenario)
}

/// The override that sets the rates to shares of a peak.
pub fn rates(peak: f64, shares: &[f64]) -> String {
    let rates: Vec<String> = shares
        .iter()
        .map(|share| format!("{:.3}", share * peak))
        .collect();
    format!("arrivals.rates=[{}]", rates.join(","))
}

pub fn without(label: &str, mut scenario: Scenario) -> Scenario {
    scenario.policies.retain(|entry| entry.label != label);
    scenario
}

/// The network's DVABatch with another setting.
pub fn variant(
    runner: &StudyRunner<'_>,
    name: &str,
    setting: &str,
    label: &str,
) -> Result<PolicyEntry> {
    let scenario = runner.scenario(name, &[format!("policy.{DVA}.{setting}")])?;
    for entry in scenario.policies {
        if entry.label == DVA {
            return Ok(PolicyEntry {
                label: label.into(),
                ..entry
            });
        }
    }
    Err(Error::input(format!(
        "{name}: no policy is labelled \"{DVA}\""
    )))
}

/// A metric of a policy under each load, in the order of the loads.
pub fn values_by_load(report: &RunReport, policy: &str, metric: Metric) -> Vec<Option<f64>> {
    let rows = report.rows.iter().filter(|row| row.policy == policy);
    rows.map(|row| row.estimate(metric).value).collect()
}

/// The mean latency under the first load.
pub fn mean_latency(report: &RunReport, policy: &str) -> Option<f64> {
    let means = values_by_load(report, policy, Metric::Mean);
    means.first().copied().flatten()
}

pub fn costs_and_network<'a>(
    scenario: &'a Scenario,
    device: &'a Target,
) -> (&'a TableCosts, &'a Dnn) {
    let costs = device.costs(0).expect("a simulated run has costs");
    (costs, network(scenario))
}

pub fn network(scenario: &Scenario) -> &Dnn {
    let model = &scenario.workload.model;
    model
        .network()
        .expect("the scenario's model is a network in a file")
}
