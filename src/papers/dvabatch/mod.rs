//! DVABatch (*DVABatch: Diversity-aware Multi-Entry Multi-Exit Batching for Efficient Processing of DNN Services on GPUs*, ATC'22).

mod claims;
mod latency;
mod operators;
mod peaks;

pub use claims::CLAIMS;

use rayon::prelude::*;

use super::Exhibit;
use super::lab::{Lab, Study};
use crate::error::{Error, Result};
use crate::plot::Field;
use crate::results::columns::Metric;
use crate::scenario::Scenario;

/// The figures. The others are drawings.
pub const EXHIBITS: &[Exhibit] = &[
    Exhibit::study(
        "fig3",
        "Figure 3",
        "Three kinds of diversity, and what becomes of the mean latency if batches can be entered and left between stages",
    ),
    Exhibit::study(
        "fig5",
        "Figure 5",
        "The time of two products for each query of a batch, against a batch of one: from the preferred batch on it falls no more",
    ),
    Exhibit::study("fig6", "Figure 6", "The same for the four quarters of U-Net's operators"),
    Exhibit::study(
        "fig14",
        "Figure 14",
        "Mean latency, and the 99th percentile, at 1/4, 3/5 and 9/10 of the peak of DelayBatch, whose window is the best that \
            find-window finds",
    ),
    Exhibit::study(
        "fig15",
        "Figure 15",
        "Latency under a load that rises from 66 to 4,000 requests/s in 15 steps; and the peak: the highest \
            Poisson load with a p99 of at most 200 ms",
    ),
    Exhibit::study("fig16", "Figure 16", "99th percentile of latency at the loads of Figure 14"),
    Exhibit::study("fig17", "Figure 17", "Peak load with the lengths of GLUE's tasks"),
    Exhibit::study("fig18", "Figure 18", "DVABatch with split alone"),
    Exhibit::study("fig19", "Figure 19", "Mean latency by the number of buffer pairs, at 9/10 of DVABatch's peak"),
    Exhibit::study(
        "fig20",
        "Figure 20",
        "Peak, and mean latency at 9/10 of DelayBatch's peak, by the number of stages",
    ),
    Exhibit::study("fig21", "Figure 21", "Mean latency of one client that sends a request when it has the last answer"),
];

/// The networks: the names of their files, and what the paper calls them.
const NETWORKS: [(&str, &str); 6] = [
    ("bert-base", "BertBase"),
    ("bert-large", "BertLarge"),
    ("unet", "Unet"),
    ("linknet", "LinkNet"),
    ("vgg19", "VGG19"),
    ("resnet152", "ResNet152"),
];

/// The policies, as the scenarios label them.
const ZERO: &str = "ZeroBatch";
const DELAY: &str = "DelayBatch";
const DVA: &str = "DVABatch";

/// The loads: names and shares of the peak.
const LOADS: [(&str, f64); 3] = [("low", 0.25), ("medium", 0.6), ("high", 0.9)];

/// Carries out the study of an exhibit.
///
/// # Errors
/// A scenario that is not there or wrong; a file that can't be written; Ctrl-C.
pub fn carry_out(name: &str, lab: &Lab<'_>) -> Result<Study> {
    match name {
        "fig3" => operators::cases(lab),
        "fig5" => operators::products(lab),
        "fig6" => operators::unet(lab),
        "fig14" => latency::by_load("fig14", lab),
        "fig15" => peaks::stepping(lab),
        "fig16" => latency::tails(lab),
        "fig17" => peaks::by_task(lab),
        "fig18" => latency::split_alone(lab),
        "fig19" => latency::by_pairs(lab),
        "fig20" => peaks::by_stages(lab),
        "fig21" => latency::one_client(lab),
        _ => Err(Error::failed(format!("{name} is no study"))),
    }
}

/// A panel for each network, all of them at once.
fn each(networks: &[(&str, &str)], field: impl Fn(&str) -> Result<Field> + Sync) -> Result<Vec<Field>> {
    let one = |(file, name): &(&str, &str)| Ok(Field { name: name.to_string(), ..field(file)? });
    networks.par_iter().with_max_len(1).map(one).collect()
}

/// A network's scenario with DelayBatch's best window; and the peak that DelayBatch has with it.
fn network(lab: &Lab<'_>, name: &str, sets: &[String]) -> Result<(Scenario, f64)> {
    let (window, peak) = lab.tuned(name, DELAY)?;
    let window = format!("policy.{DELAY}.window={}ns", window.0);
    let mut scenario = lab.scenario(name, &[&[window], sets].concat())?;
    scenario.output.plots.clear();
    Ok((scenario, peak))
}

/// A figure of each point of a policy, in the order of its loads.
fn values(report: &crate::experiment::Report, policy: &str, figure: Metric) -> Vec<Option<f64>> {
    let rows = report.rows.iter().filter(|row| row.policy == policy);
    rows.map(|row| row.estimate(figure).value).collect()
}
