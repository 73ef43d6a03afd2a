//! DVABatch (*DVABatch: Diversity-aware Multi-Entry Multi-Exit Batching for Efficient Processing of DNN Services on GPUs*, ATC 2022).

mod claims;
mod loads;
mod operators;

pub(super) use claims::CHECKS;

use rayon::prelude::*;

use super::lab::{Lab, Study};
use crate::error::{Error, Result};
use crate::experiment::Report;
use crate::plot::{Field, Group};
use crate::results::columns::Metric;
use crate::scenario::Scenario;

/// File names and the paper's names.
const NETWORKS: [(&str, &str); 6] = [
    ("bert-base", "BertBase"),
    ("bert-large", "BertLarge"),
    ("unet", "Unet"),
    ("linknet", "LinkNet"),
    ("vgg19", "VGG19"),
    ("resnet152", "ResNet152"),
];

/// Labels in the scenarios.
const ZERO: &str = "ZeroBatch";
const DELAY: &str = "DelayBatch";
const DVA: &str = "DVABatch";

/// Shares of DelayBatch's peak.
const LOADS: [(&str, f64); 3] = [("low", 0.25), ("medium", 0.6), ("high", 0.9)];

pub(super) fn carry_out(name: &str, lab: &Lab<'_>) -> Result<Study> {
    match name {
        "fig3" => operators::cases(lab),
        "fig4" => operators::lengths(),
        "fig5" => operators::products(lab),
        "fig6" => operators::unet(lab),
        "fig14" => loads::by_load(lab),
        "fig15" => loads::stepping(lab),
        "fig17" => loads::by_task(lab),
        "fig18" => loads::split_alone(lab),
        "fig19" => loads::by_pairs(lab),
        "fig20" => loads::by_stages(lab),
        "fig21" => loads::one_client(lab),
        _ => Err(Error::failed(format!("{name} is not a study"))),
    }
}

/// A panel for each network, in parallel.
fn each(networks: &[(&str, &str)], groups: impl Fn(&str) -> Result<Vec<Group>> + Sync) -> Result<Vec<Field>> {
    let one = |(file, name): &(&str, &str)| Ok(Field { name: name.to_string(), groups: groups(file)? });
    networks.par_iter().with_max_len(1).map(one).collect()
}

/// With DelayBatch's best window, and its peak with it.
fn network(lab: &Lab<'_>, name: &str, sets: &[String]) -> Result<(Scenario, f64)> {
    let (window, peak) = lab.tuned(name, DELAY)?;
    let window = format!("policy.{DELAY}.window={}ns", window.0);
    let mut scenario = lab.scenario(name, &[&[window], sets].concat())?;
    scenario.output.plots.clear();
    Ok((scenario, peak))
}

/// In the order of the loads.
fn values(report: &Report, policy: &str, metric: Metric) -> impl Iterator<Item = Option<f64>> {
    let rows = report.rows.iter().filter(move |row| row.policy == policy);
    rows.map(move |row| row.estimate(metric).value)
}

/// Latency under the first load.
fn mean(report: &Report, policy: &str) -> Option<f64> {
    values(report, policy, Metric::Mean).next().flatten()
}
