//! Figures 3, 5 and 6: kinds of diversity and their costs.

use super::super::Paper;
use super::super::lab::{Lab, Study, bars, group};
use super::{DVA, mean};
use crate::cost::CostModel;
use crate::cost::slice;
use crate::error::{Error, Result};
use crate::experiment::executor::Target;
use crate::experiment::prepare;
use crate::plot::Field;
use crate::scenario::Scenario;
use crate::task::Step;
use crate::units::Nanos;
use crate::workload::dnn::Operator;

/// Of figures 5 and 6.
const BATCHES: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];

/// Batches that can't be entered or left between stages.
pub const PLAIN: &str = "Single-entry single-exit";

/// Figure 3: schedules and mean latencies. T is a millisecond.
pub fn cases(lab: &Lab<'_>) -> Result<Study> {
    let mut study = Study::default();
    let mut groups = Vec::new();
    for (file, name) in [("case1", "I"), ("case2", "II"), ("case3", "III")] {
        let report = lab.run("fig3", &lab.scenario(file, &[])?)?;
        let papers = Paper::DvaBatch.values(&format!("dva-{file}"));
        let both = [PLAIN, DVA].into_iter().zip(papers);
        groups.push(group(name, both.flat_map(|(policy, paper)| [mean(&report, policy), Some(paper)])));
        study.figures.extend(report.figures);
    }
    let fields = vec![Field { groups, ..Field::default() }];
    let series = [PLAIN, DVA].into_iter().flat_map(|policy| [policy.to_string(), format!("{policy}, paper")]);
    study.bars.push(bars(["Figure 3: the three cases", "Case", "Mean latency (T)"], series, fields));
    Ok(study)
}

/// Figure 5: two products.
pub fn products(lab: &Lab<'_>) -> Result<Study> {
    let scenario = lab.scenario("products", &[])?;
    let parts = |all: &[Operator], _: &[Nanos]| {
        let name = |operator: &Operator| match operator.name.as_str() {
            "wide" => "[n·3136×576]×[576×64]".to_string(),
            _ => "[n·49×576]×[576×512]".to_string(),
        };
        Ok(all.iter().map(|operator| (name(operator), vec![operator.clone()])).collect())
    };
    by_batch("Figure 5: time of two products, Titan RTX", &scenario, parts)
}

/// Figure 6: U-Net in four parts of even time.
pub fn unet(lab: &Lab<'_>) -> Result<Study> {
    let scenario = lab.scenario("unet", &[])?;
    let parts = |all: &[Operator], times: &[Nanos]| {
        let ranges = slice::even(times, 4).map_err(Error::failed)?;
        let part = |range: &std::ops::Range<usize>| {
            let (first, last) = (&all[range.start].name, &all[range.end - 1].name);
            (format!("{first} to {last}"), all[range.clone()].to_vec())
        };
        Ok(ranges.iter().map(part).collect())
    };
    by_batch("Figure 6: time of U-Net's operators, Titan RTX", &scenario, parts)
}

type Parts = Vec<(String, Vec<Operator>)>;

/// The time of parts of a network for each query of a batch, in percent of a single query's.
fn by_batch(title: &str, scenario: &Scenario, cut: impl Fn(&[Operator], &[Nanos]) -> Result<Parts>) -> Result<Study> {
    let (_, device) = prepare(scenario, Target::SIM)?;
    let costs = device.costs(0).expect("a simulated run has costs");
    let network = scenario.workload.model.network().expect("the scenario's model is a network in a file");
    let all: Vec<Operator> = network.operators().cloned().collect();
    let parts = cut(&all, &slice::times(network, costs, 64, 0))?;
    let takes = |operators: &[Operator], batch: u32| -> f64 {
        let step = |operator: &Operator| Step { cell: operator.cell, batch, times: 1, input: 0 };
        operators.iter().map(|operator| CostModel::cell(costs, &step(operator)).0 as f64).sum()
    };
    let share =
        |operators: &[Operator], batch: u32| 100.0 * takes(operators, batch) / f64::from(batch) / takes(operators, 1);
    let of_batch = |batch| group(batch, parts.iter().map(|(_, part)| Some(share(part, batch))));
    let fields = vec![Field { groups: BATCHES.map(of_batch).to_vec(), ..Field::default() }];
    let series = parts.iter().map(|(name, _)| name.as_str());
    Ok(bars([title, "Batch", "Time a query (%)"], series, fields).into())
}
