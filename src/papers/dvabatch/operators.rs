//! Figures 3, 5 and 6: kinds of diversity and their costs.

use std::path::Path;

use super::super::Paper;
use super::super::lab::{Lab, Study, bars, group};
use super::loads::TASKS;
use super::{DVA, mean};
use crate::cost::CostModel;
use crate::cost::slice;
use crate::error::{Error, Result};
use crate::experiment::executor::Target;
use crate::experiment::prepare;
use crate::network::operators::writes;
use crate::plot::Field;
use crate::scenario::Scenario;
use crate::shipped;
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

/// Workloads of figure 4 whose lengths may not be shipped.
const MISSING: [(&str, &str); 2] = [("mnli", "MNLI"), ("ax", "AX")];

/// Ranges of words of figure 4, by their ends.
pub const WORDS: [(&str, u32); 4] = [("under 5", 4), ("5 to 20", 20), ("21 to 100", 100), ("over 100", u32::MAX)];

/// Figure 4: words of sentences.
pub fn lengths() -> Result<Study> {
    let (mut shares, mut note) = (Vec::new(), String::new());
    for (file, name) in TASKS.into_iter().chain(MISSING) {
        let path = format!("traces/glue-words-{file}.csv");
        let Ok(text) = shipped::text(Path::new(&path)) else {
            note += &format!("{name} is missing: its lengths may not be shipped; {path} (length,count) adds it\n");
            continue;
        };
        let row = |line: &str| {
            line.split_once(',').and_then(|(words, count)| Some((words.parse().ok()?, count.parse().ok()?)))
        };
        let rows: Vec<(u32, f64)> = text.lines().skip(1).filter_map(row).collect();
        let upto = |most: u32| rows.iter().filter(|(words, _)| *words <= most).fold(0.0, |sum, (_, count)| sum + count);
        let mut before = 0.0;
        let sentences = WORDS.map(|(_, most)| upto(most) - std::mem::replace(&mut before, upto(most)));
        shares.push((name, sentences.map(|one| 100.0 * one / before)));
    }
    let of_range = |range: usize| group(WORDS[range].0, shares.iter().map(|(_, of_each)| Some(of_each[range])));
    let fields = vec![Field { groups: (0..WORDS.len()).map(of_range).collect(), ..Field::default() }];
    let labels = ["Figure 4: sentences in GLUE by length", "Words", "Sentences (%)"];
    let bars = bars(labels, shares.iter().map(|(name, _)| *name), fields);
    Ok(Study { note, ..bars.into() })
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

/// Memory of one set of buffers between the stages of the network's DVABatch, in MB: what the last operators of stages
/// write for the largest batch and input.
pub fn buffers(scenario: &Scenario) -> Result<f64> {
    let (_, device) = prepare(scenario, Target::SIM)?;
    let costs = device.costs(0).expect("a simulated run has costs");
    let network = scenario.workload.model.network().expect("the scenario's model is a network in a file");
    let settings = serde_json::to_value(&scenario.policies[0].settings).expect("settings are JSON");
    let [stages, batch] = ["stages", "max_batch"].map(|key| settings[key].as_u64().expect("the scenario has it"));
    let tokens = network.most_tokens.unwrap_or(0);
    let times = slice::times(network, costs, (batch as u32).isqrt(), tokens);
    let ends = slice::even(&times, stages as usize).map_err(Error::failed)?;
    let last = ends.iter().take(ends.len() - 1).filter_map(|stage| network.operators().nth(stage.end - 1));
    let numbers: u64 = last.map(|operator| writes(&operator.form.at(tokens)) * batch).sum();
    Ok(numbers as f64 * FLOAT / 1e6)
}

/// Bytes of a number.
const FLOAT: f64 = 4.0;
