//! The times of networks and their operators by the size of the batch (Figures 5 and 6).

use super::networks::costs_and_network;
use crate::base::error::{Error, Result};
use crate::core::cost::CostModel;
use crate::core::cost::slice;
use crate::core::cost::table::TableCosts;
use crate::core::task::Step;
use crate::core::workload::dnn::{Dnn, ListedOperator};
use crate::lab::plot::Bar;
use crate::lab::run::executor::SelectedBackend;
use crate::lab::run::target::prepare;
use crate::lab::scenario::Scenario;
use crate::papers::study::{BarSeries, Study, bars_by_panel};
use crate::papers::study_runner::StudyRunner;

const BATCHES: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];

/// Parts of a network: names and operators.
type Parts<'a> = Vec<(String, &'a [ListedOperator])>;

/// Figure 5: two products.
pub fn products(runner: &StudyRunner<'_>) -> Result<Study> {
    let scenario = runner.scenario("products", &[])?;
    let bars = draw_parts(&scenario, |operators, _, _| {
        let mut parts = Vec::new();
        for operator in operators {
            let name = match operator.name.as_str() {
                "wide" => "[n·3136×576]×[576×64]",
                _ => "[n·49×576]×[576×512]",
            };
            parts.push((name.to_string(), std::slice::from_ref(operator)));
        }
        Ok(parts)
    })?;
    Ok(Study::new([bars], String::new()))
}

/// Figure 6: each of U-Net's operators, and the network in four parts of even time.
pub fn unet(runner: &StudyRunner<'_>) -> Result<Study> {
    let scenario = runner.scenario("unet", &[])?;
    let operators = draw_operators(&scenario)?;
    let quarters = draw_parts(&scenario, cut_into_quarters)?;
    let mut study = Study::new([operators, quarters], String::new());
    study.bars[0].lines = true;
    study.bars[0].log = true;
    Ok(study)
}

fn cut_into_quarters<'a>(
    operators: &'a [ListedOperator],
    network: &Dnn,
    costs: &TableCosts,
) -> Result<Parts<'a>> {
    let times = slice::times(network, costs, 64, 0);
    let mut parts = Vec::new();
    for range in slice::even(&times, 4).map_err(Error::failure)? {
        let part = &operators[range];
        let first = &part[0].name;
        let last = &part[part.len() - 1].name;
        parts.push((format!("{first} to {last}"), part));
    }
    Ok(parts)
}

/// The time of each operator of a network in milliseconds, in the order of its file.
fn draw_operators(scenario: &Scenario) -> Result<Vec<Bar>> {
    let (_, device) = prepare(scenario, SelectedBackend::SIM)?;
    let (costs, network) = costs_and_network(scenario, &device);
    let mut series: Vec<BarSeries> = Vec::new();
    for batch in BATCHES {
        let times = network
            .operators()
            .map(|operator| Some(costs.cell(&step(operator, batch)).as_millis_f64()))
            .collect();
        series.push((format!("batch {batch}"), times));
    }
    let numbers: Vec<usize> = (1..=network.operators().count()).collect();
    Ok(bars_by_panel(&[""], &numbers, &series))
}

/// The time of parts of a network for each query of a batch, in percent of a single query's.
fn draw_parts(
    scenario: &Scenario,
    cut: impl for<'a> Fn(&'a [ListedOperator], &Dnn, &TableCosts) -> Result<Parts<'a>>,
) -> Result<Vec<Bar>> {
    let (_, device) = prepare(scenario, SelectedBackend::SIM)?;
    let (costs, network) = costs_and_network(scenario, &device);
    let operators: Vec<ListedOperator> = network.operators().cloned().collect();
    let mut series: Vec<BarSeries> = Vec::new();
    for (name, part) in cut(&operators, network, costs)? {
        let alone = nanoseconds(costs, part, 1);
        let mut shares = Vec::new();
        for batch in BATCHES {
            let whole = nanoseconds(costs, part, batch);
            shares.push(Some(100.0 * whole / f64::from(batch) / alone));
        }
        series.push((name, shares));
    }
    Ok(bars_by_panel(&[""], &BATCHES, &series))
}

fn nanoseconds(costs: &TableCosts, operators: &[ListedOperator], batch: u32) -> f64 {
    operators
        .iter()
        .map(|operator| costs.cell(&step(operator, batch)).0 as f64)
        .sum()
}

fn step(operator: &ListedOperator, batch: u32) -> Step {
    Step {
        cell: operator.cell,
        batch,
        times: 1,
        input: 0,
    }
}
