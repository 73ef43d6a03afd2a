//! DVABatch (*DVABatch: Diversity-aware Multi-Entry Multi-Exit Batching for Efficient Processing of DNN Services on GPUs*, ATC 2022).

mod claims;

pub(super) use claims::CHECKS;

use std::path::Path;

use rayon::prelude::*;

use super::Paper;
use super::findings::mean as mean_of;
use super::lab::{Column, Lab, Study, columns};
use crate::base::error::{Error, Result};
use crate::base::files::folder_name;
use crate::base::shipped;
use crate::base::units::{Nanos, Rate};
use crate::core::cost::CostModel;
use crate::core::cost::slice;
use crate::core::cost::table::TableCosts;
use crate::core::summary::stats::Interval;
use crate::core::task::Step;
use crate::core::workload::dnn::{Dnn, ListedOperator};
use crate::devices::network::operators::writes;
use crate::lab::plot::look::Scale;
use crate::lab::plot::{self, Bar, Bars, FigureKind, Look, PlotInputs};
use crate::lab::results::columns::Metric;
use crate::lab::results::logs::{BatchLine, LogRow as _};
use crate::lab::results::read::Log;
use crate::lab::results::summary::SummaryRow;
use crate::lab::run::RunReport;
use crate::lab::run::executor::SelectedBackend;
use crate::lab::run::target::{Target, prepare};
use crate::lab::scenario::{PolicyEntry, Scenario};

/// Labels in the scenarios.
const ZERO: &str = "ZeroBatch";
const DELAY: &str = "DelayBatch";
const DVA: &str = "DVABatch";

/// Batches that can't be entered or left between stages.
const PLAIN: &str = "Single-entry single-exit";
/// Without stretch and early exits.
const SPLIT: &str = "DVABatch-split";

/// As shares of DelayBatch's peak.
const LOADS: [&str; 3] = ["low", "medium", "high"];
const SHARES: [f64; 3] = [0.25, 0.6, 0.9];

/// Ranges of words of figure 4, by their ends.
const WORDS: [(&str, u32); 4] = [
    ("under 5", 4),
    ("5 to 20", 20),
    ("21 to 100", 100),
    ("over 100", u32::MAX),
];

/// Of figures 5 and 6.
const BATCHES: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];

/// Buffer pairs of figure 19.
const PAIRS: [u32; 5] = [1, 2, 3, 4, 5];

/// Of figure 20.
const STAGES: [u32; 6] = [1, 2, 4, 8, 16, 20];

pub(super) fn carry_out(name: &str, lab: &Lab<'_>) -> Result<Study> {
    match name {
        "fig3" => cases(lab),
        "fig4" => Ok(lengths()),
        "fig5" => products(lab),
        "fig6" => unet(lab),
        "fig14" => by_load(lab),
        "fig15" => stepping(lab),
        "fig17" => by_task(lab),
        "fig18" => split_alone(lab),
        "fig19" => by_pairs(lab),
        "fig20" => by_stages(lab),
        "fig21" => one_client(lab),
        _ => Err(Error::failed(format!("{name} is not a study"))),
    }
}

/// Bars with the numbers of their drawings.
type Numbered = Vec<(usize, Bar)>;

/// Names of files with the paper's names.
fn named(list: &str) -> &'static [[String; 2]] {
    &Paper::DvaBatch.contents().names[list]
}

/// A panel for each network of a list, in parallel.
fn each(networks: &str, bars: impl Fn(&str) -> Result<Numbered> + Sync) -> Result<Study> {
    let one = |[file, name]: &[String; 2]| {
        let of_panel = |(drawing, bar)| {
            (
                drawing,
                Bar {
                    panel: name.clone(),
                    ..bar
                },
            )
        };
        Ok(bars(file)?.into_iter().map(of_panel).collect())
    };
    let all: Vec<Numbered> = named(networks)
        .par_iter()
        .with_max_len(1)
        .map(one)
        .collect::<Result<_>>()?;
    let mut drawings: Vec<Vec<Bar>> = Vec::new();
    for (drawing, bar) in all.into_iter().flatten() {
        drawings.resize_with(drawings.len().max(drawing + 1), Vec::new);
        drawings[drawing].push(bar);
    }
    Ok(Study::new(drawings, String::new()))
}

/// With DelayBatch's best window; at shares of its peak with that window, if there are any.
fn network(lab: &Lab<'_>, name: &str, shares: &[f64], sets: &[String]) -> Result<Scenario> {
    let (window, peak) = lab.tuned(name, DELAY)?;
    let rates = (!shares.is_empty()).then(|| rates(peak, shares));
    let tuned = [format!("policy.{DELAY}.window={}ns", window.0)]
        .into_iter()
        .chain(rates);
    let mut scenario =
        lab.scenario(name, &tuned.chain(sets.iter().cloned()).collect::<Vec<_>>())?;
    scenario.output.plots.clear();
    Ok(scenario)
}

/// In the order of the loads.
fn values(report: &RunReport, policy: &str, metric: Metric) -> impl Iterator<Item = Option<f64>> {
    let rows = report.rows.iter().filter(move |row| row.policy == policy);
    rows.map(move |row| row.estimate(metric).value)
}

/// Latency under the first load.
fn mean(report: &RunReport, policy: &str) -> Option<f64> {
    values(report, policy, Metric::Mean).next().flatten()
}

/// Figure 3: schedules and mean latencies. T is a millisecond.
fn cases(lab: &Lab<'_>) -> Result<Study> {
    let (mut bars, mut figures) = (Vec::new(), Vec::new());
    for (file, name) in [("case1", "I"), ("case2", "II"), ("case3", "III")] {
        let (report, drawn) = lab.run_and_draw("fig3", &lab.scenario(file, &[])?)?;
        for (policy, paper) in [PLAIN, DVA]
            .into_iter()
            .zip(Paper::DvaBatch.value(&format!("dva-{file}")).numbers())
        {
            bars.push(Bar::new(name, policy, mean(&report, policy)));
            bars.push(Bar::new(name, format!("{policy}, paper"), Some(*paper)));
        }
        figures.extend(drawn.drawn);
    }
    Ok(Study {
        figures,
        ..Study::new([bars], String::new())
    })
}

/// Figure 4: words of sentences.
fn lengths() -> Study {
    let (mut series, mut note): (Vec<Column>, _) = (Vec::new(), String::new());
    for [file, name] in named("tasks").iter().chain(named("more-tasks")) {
        let path = format!("traces/glue-words-{file}.csv");
        let Ok(text) = shipped::text(Path::new(&path)) else {
            note += &format!(
                "{name} is missing: its lengths may not be shipped; {path} (length,count) adds it\n"
            );
            continue;
        };
        let row = |line: &str| {
            line.split_once(',')
                .and_then(|(words, count)| Some((words.parse().ok()?, count.parse().ok()?)))
        };
        let rows: Vec<(u32, f64)> = text.lines().skip(1).filter_map(row).collect();
        let upto = |most: u32| {
            rows.iter()
                .filter(|(words, _)| *words <= most)
                .fold(0.0, |sum, (_, count)| sum + count)
        };
        let mut before = 0.0;
        let sentences =
            WORDS.map(|(_, most)| upto(most) - std::mem::replace(&mut before, upto(most)));
        series.push((
            name.clone(),
            sentences.map(|one| Some(100.0 * one / before)).to_vec(),
        ));
    }
    Study::new(
        [columns(&[""], &WORDS.map(|(name, _)| name), &series)],
        note,
    )
}

/// Figure 5: two products.
fn products(lab: &Lab<'_>) -> Result<Study> {
    by_batch(&lab.scenario("products", &[])?, |all, _| {
        let name = |operator: &ListedOperator| match operator.name.as_str() {
            "wide" => "[n·3136×576]×[576×64]".to_string(),
            _ => "[n·49×576]×[576×512]".to_string(),
        };
        Ok(all
            .iter()
            .map(|operator| (name(operator), std::slice::from_ref(operator)))
            .collect())
    })
}

/// Figure 6: each of U-Net's operators, and the network in four parts of even time.
fn unet(lab: &Lab<'_>) -> Result<Study> {
    let scenario = lab.scenario("unet", &[])?;
    let parts = by_batch(&scenario, |all, times| {
        let name =
            |part: &[ListedOperator]| format!("{} to {}", part[0].name, part[part.len() - 1].name);
        let ranges = slice::even(times, 4).map_err(Error::failed)?;
        Ok(ranges
            .into_iter()
            .map(|range| (name(&all[range.clone()]), &all[range]))
            .collect())
    })?;
    let mut study = Study::new([by_operator(&scenario)?], String::new());
    (study.bars[0].lines, study.bars[0].log) = (true, true);
    study.bars.extend(parts.bars);
    Ok(study)
}

/// The time of each operator of a network, in ms, in the order of its file.
fn by_operator(scenario: &Scenario) -> Result<Vec<Bar>> {
    let (_, device) = prepare(scenario, SelectedBackend::SIM)?;
    let (costs, network) = costs_and_network(scenario, &device);
    let takes = |operator: &ListedOperator, batch: u32| {
        costs
            .cell(&Step {
                cell: operator.cell,
                batch,
                times: 1,
                input: 0,
            })
            .as_millis_f64()
    };
    let column = |batch: u32| {
        let times = network
            .operators()
            .map(|operator| Some(takes(operator, batch)));
        (format!("batch {batch}"), times.collect())
    };
    let ids: Vec<usize> = (1..=network.operators().count()).collect();
    Ok(columns(&[""], &ids, &BATCHES.map(column)))
}

/// Names and operators.
type Parts<'a> = Vec<(String, &'a [ListedOperator])>;

/// The time of parts of a network for each query of a batch, in percent of a single query's.
fn by_batch(
    scenario: &Scenario,
    cut: impl for<'a> Fn(&'a [ListedOperator], &[Nanos]) -> Result<Parts<'a>>,
) -> Result<Study> {
    let (_, device) = prepare(scenario, SelectedBackend::SIM)?;
    let (costs, network) = costs_and_network(scenario, &device);
    let all: Vec<ListedOperator> = network.operators().cloned().collect();
    let takes = |operators: &[ListedOperator], batch: u32| -> f64 {
        let step = |operator: &ListedOperator| Step {
            cell: operator.cell,
            batch,
            times: 1,
            input: 0,
        };
        operators
            .iter()
            .map(|operator| costs.cell(&step(operator)).0 as f64)
            .sum()
    };
    let share = |operators: &[ListedOperator], batch: u32| {
        100.0 * takes(operators, batch) / f64::from(batch) / takes(operators, 1)
    };
    let column = |(name, part)| (name, BATCHES.map(|batch| Some(share(part, batch))).to_vec());
    let parts = cut(&all, &slice::times(network, costs, 64, 0))?;
    let series: Vec<Column> = parts.into_iter().map(column).collect();
    Ok(Study::new(
        [columns(&[""], &BATCHES, &series)],
        String::new(),
    ))
}

fn costs_and_network<'a>(scenario: &'a Scenario, device: &'a Target) -> (&'a TableCosts, &'a Dnn) {
    let costs = device.costs(0).expect("a simulated run has costs");
    (
        costs,
        scenario
            .workload
            .model
            .network()
            .expect("the scenario's model is a network in a file"),
    )
}

fn rates(peak: f64, shares: &[f64]) -> String {
    let rates: Vec<String> = shares
        .iter()
        .map(|share| format!("{:.3}", share * peak))
        .collect();
    format!("arrivals.rates=[{}]", rates.join(","))
}

/// A group for each of the three loads of a network's scenario.
fn at_loads(
    exhibit: &str,
    lab: &Lab<'_>,
    scenario: &Scenario,
    policies: &[&str],
) -> Result<Numbered> {
    let report = lab.run(exhibit, scenario)?;
    let bar = |load: usize, policy: &str| {
        let of = |metric| values(&report, policy, metric).nth(load).flatten();
        (
            0,
            Bar {
                upto: of(Metric::P99),
                ..Bar::new(LOADS[load], policy, of(Metric::Mean))
            },
        )
    };
    Ok((0..LOADS.len())
        .flat_map(|load| policies.iter().map(move |policy| bar(load, policy)))
        .collect())
}

/// Figures 14 and 16: means with whiskers to the 99th percentile, and the ends of the whiskers. Then the peaks among
/// which DelayBatch's window is chosen, against the highest of them.
fn by_load(lab: &Lab<'_>) -> Result<Study> {
    let study = each("networks", |name| {
        let mut bars = at_loads(
            "fig14",
            lab,
            &network(lab, name, &SHARES, &[])?,
            &[ZERO, DELAY, DVA],
        )?;
        let tail = |(_, bar): &(usize, Bar)| {
            (
                1,
                Bar {
                    value: bar.upto,
                    upto: None,
                    ..bar.clone()
                },
            )
        };
        bars.extend(bars.iter().map(tail).collect::<Numbered>());
        let tried = lab.by_window(name, DELAY)?;
        let highest = tried
            .iter()
            .filter_map(|(_, peak)| *peak)
            .fold(0.0, |highest, Rate(rate)| rate.max(highest));
        let share = |peak: Option<Rate>| peak.map(|Rate(rate)| 100.0 * rate / highest);
        bars.extend(
            tried
                .iter()
                .map(|(window, peak)| (2, Bar::new(window, DELAY, share(*peak)))),
        );
        Ok(bars)
    })?;
    let tuned = |[file, name]: &[String; 2]| {
        let (window, peak) = lab.tuned(file, DELAY)?;
        Ok(format!("{name} {window} ({peak:.0} requests/s)"))
    };
    let windows = named("networks")
        .iter()
        .map(tuned)
        .collect::<Result<Vec<_>>>()?
        .join(", ");
    let mut study = Study {
        note: format!("{DELAY}'s windows, and its peaks with them: {windows}\n"),
        ..study
    };
    for (bars, claims) in study.bars.iter_mut().zip([
        ["dva-avg-zero", "dva-avg-delay"],
        ["dva-p99-zero", "dva-p99-delay"],
    ]) {
        add_cuts(bars, claims);
    }
    Ok(study)
}

/// The last panel: by how much DVABatch cuts the latency of the two baselines, as means over the networks, and the paper's.
fn add_cuts(bars: &mut Bars, claims: [&str; 2]) {
    let panel = "Mean cut (%)".to_string();
    let add = |bars: &mut Bars, load: &str, series: String, value| {
        bars.summary.push(Bar {
            panel: panel.clone(),
            ..Bar::new(load, series, value)
        });
    };
    for (place, load) in LOADS.into_iter().enumerate() {
        for (other, claim) in [ZERO, DELAY].into_iter().zip(claims) {
            let of = |policy| {
                bars.bars
                    .iter()
                    .filter(move |bar| bar.group == load && bar.series == policy)
            };
            let cut =
                |(ours, theirs): (&Bar, &Bar)| Some(100.0 * (1.0 - ours.value? / theirs.value?));
            let cuts: Option<Vec<f64>> = of(DVA).zip(of(other)).map(cut).collect();
            add(bars, load, other.into(), cuts.map(|cuts| mean_of(&cuts)));
            add(
                bars,
                load,
                format!("{other}, paper"),
                Paper::DvaBatch.value(claim).numbers().get(place).copied(),
            );
        }
    }
    bars.series
        .extend([ZERO, DELAY].map(|other| format!("{other}, paper")));
}

/// Figure 18: only split; and the batches that it begins with.
fn split_alone(lab: &Lab<'_>) -> Result<Study> {
    each("split", |name| {
        let mut scenario = network(lab, name, &SHARES, &[])?;
        scenario
            .policies
            .push(variant(lab, name, "policy=operator", SPLIT)?);
        let scenario = without(ZERO, scenario);
        let mut bars = at_loads("fig18", lab, &scenario, &[DELAY, SPLIT, DVA])?;
        let first = &scenario
            .workload
            .model
            .network()
            .expect("a network in a file")
            .operators()
            .next();
        let first = first.expect("a network has operators").name.as_str();
        let folder = lab.out.join("fig18").join(name).join(folder_name(SPLIT));
        for (load, point) in LOADS.into_iter().zip(scenario.points()) {
            let median =
                median_batch(&folder.join(point.to_string()).join(BatchLine::FILE), first)?;
            bars.push((1, Bar::new(load, SPLIT, median)));
        }
        Ok(bars)
    })
}

/// Half of the batches with which an operator ran are at least as large.
fn median_batch(file: &Path, operator: &str) -> Result<Option<f64>> {
    let mut rows = Log::<BatchLine>::open(file)?;
    let mut sizes: Vec<(u64, u64)> = Vec::new();
    while let Some(BatchLine { cell, batch, tasks }) = rows.read()? {
        if cell == operator {
            sizes.push((batch, tasks));
        }
    }
    sizes.sort_unstable();
    let all: u64 = sizes.iter().map(|(_, tasks)| tasks).sum();
    let mut below = 0;
    let median = sizes.iter().find(|(_, tasks)| {
        below += tasks;
        2 * below >= all
    });
    Ok(median.map(|(batch, _)| *batch as f64))
}

/// The network's DVABatch with another setting.
fn variant(lab: &Lab<'_>, name: &str, set: &str, label: &str) -> Result<PolicyEntry> {
    let scenario = lab.scenario(name, &[format!("policy.{DVA}.{set}")])?;
    let entry = scenario
        .policies
        .into_iter()
        .find(|entry| entry.label == DVA);
    let entry =
        entry.ok_or_else(|| Error::input(format!("{name}: no policy is labelled \"{DVA}\"")))?;
    Ok(PolicyEntry {
        label: label.into(),
        ..entry
    })
}

/// The network's DVABatch with each of these values of a setting, labelled with the value.
fn variants(lab: &Lab<'_>, name: &str, key: &str, values: &[u32]) -> Result<Vec<PolicyEntry>> {
    values
        .iter()
        .map(|value| variant(lab, name, &format!("{key}={value}"), &value.to_string()))
        .collect()
}

/// Figure 19: mean latency and memory by buffer pairs.
fn by_pairs(lab: &Lab<'_>) -> Result<Study> {
    each("networks", |name| {
        let mut scenario = lab.scenario(name, &[])?;
        scenario.policies.retain(|entry| entry.label == DVA);
        let (peak, memory) = (lab.peaks(&scenario)?[0], buffers(&scenario)?);
        let mut scenario = lab.scenario(name, &[rates(peak, &[0.9])])?;
        scenario.output.plots.clear();
        scenario.policies = variants(lab, name, "buffer_pairs", &PAIRS)?;
        let report = lab.run("fig19", &scenario)?;
        let values = |pairs: &u32| {
            [
                mean(&report, &pairs.to_string()),
                Some(memory * f64::from(*pairs)),
            ]
        };
        Ok(of_variants(&PAIRS, PAIRS.iter().map(values), &report))
    })
}

/// Three drawings of variants of DVABatch: two with these values, and how far the mean is above the lowest.
fn of_variants(
    variants: &[u32],
    values: impl Iterator<Item = [Option<f64>; 2]>,
    report: &RunReport,
) -> Numbered {
    let above = above_lowest(
        report,
        &variants.iter().map(u32::to_string).collect::<Vec<_>>(),
    );
    let bars = |((variant, [one, other]), above): ((&u32, [_; 2]), _)| {
        [one, other, above]
            .into_iter()
            .enumerate()
            .map(|(i, value)| (i, Bar::new(variant, DVA, value)))
            .collect()
    };
    variants
        .iter()
        .zip(values)
        .zip(above)
        .flat_map(bars as fn(_) -> Vec<_>)
        .collect()
}

/// The least by which each policy's mean latency under the first load is above the lowest mean, in percent of that.
/// It is the lower end of the 95 % interval of the difference, whose replications are paired.
fn above_lowest(report: &RunReport, policies: &[String]) -> Vec<Option<f64>> {
    let row = |policy: &String| report.rows.iter().find(|row| row.policy == *policy);
    let mean = |row: &&SummaryRow| row.estimate(Metric::Mean).value;
    let rows: Vec<Option<&SummaryRow>> = policies.iter().map(row).collect();
    let known = rows
        .iter()
        .flatten()
        .filter_map(|row| Some((*row, mean(row)?)));
    let Some((lowest, least)) = known.min_by(|(_, a), (_, b)| a.total_cmp(b)) else {
        return vec![None; rows.len()];
    };
    let above = |row: Option<&SummaryRow>| {
        let Interval { mean, half_width } = row?.difference(lowest, Metric::Mean)?;
        Some(100.0 * (mean - half_width).max(0.0) / least)
    };
    rows.into_iter().map(above).collect()
}

/// Figure 21: a closed loop of one client.
fn one_client(lab: &Lab<'_>) -> Result<Study> {
    let sets = [
        "arrivals={process=\"closed\",clients=[1]}",
        "workload.requests=2000",
    ]
    .map(String::from);
    each("networks", |name| {
        let mut scenario = without(DELAY, lab.scenario(name, &sets)?);
        scenario.output.plots.clear();
        let report = lab.run("fig21", &scenario)?;
        Ok([ZERO, DVA]
            .map(|policy| (0, Bar::new("", policy, mean(&report, policy))))
            .to_vec())
    })
}

fn without(label: &str, mut scenario: Scenario) -> Scenario {
    scenario.policies.retain(|entry| entry.label != label);
    scenario
}

/// DelayBatch's and DVABatch's peaks, as a group.
fn peaks(lab: &Lab<'_>, name: &str, group: &str, sets: &[String]) -> Result<Numbered> {
    let peaks = lab.peaks(&without(ZERO, network(lab, name, &[], sets)?))?;
    Ok([DELAY, DVA]
        .into_iter()
        .zip(peaks)
        .map(|(policy, peak)| (0, Bar::new(group, policy, Some(peak))))
        .collect())
}

/// Figure 15: the stepping load of section 8.3. Peaks come from a search, because the steps are 281 requests/s wide
/// and VGG19 serves little more than that.
fn stepping(lab: &Lab<'_>) -> Result<Study> {
    let sets = [
        "arrivals={process=\"stepping\",from=66,to=4000,steps=15}",
        "workload.requests=30000",
        "output.requests=true",
    ]
    .map(String::from);
    let study = each("networks", |name| {
        lab.run("fig15", &without(ZERO, network(lab, name, &[], &sets)?))?;
        peaks(lab, name, "", &[])
    })?;
    let folders: Vec<_> = named("networks")
        .iter()
        .map(|[file, _]| lab.out.join("fig15").join(file))
        .collect();
    let mut inputs = PlotInputs::open(&folders)?;
    for (folder, [_, name]) in inputs.folders.iter_mut().zip(named("networks")) {
        folder.name.clone_from(name);
    }
    let options = plot::PlotOptions {
        title: Some("Figure 15: latency under a stepping load, Titan RTX".into()),
        slo: lab.scenario("bert-base", &[])?.metrics.slo,
        look: Look {
            y_scale: Some(Scale::Linear),
            ..Look::default()
        },
        ..plot::PlotOptions::default()
    };
    let stem = lab
        .out
        .join("fig15")
        .join(FigureKind::LatencySteps.to_string());
    let figures = vec![plot::draw(
        FigureKind::LatencySteps,
        &inputs,
        &options,
        &stem,
    )?];
    Ok(Study { figures, ..study })
}

/// Figure 17: both BERTs with each task's lengths.
fn by_task(lab: &Lab<'_>) -> Result<Study> {
    each("berts", |name| {
        let of_task = |[file, task]: &[String; 2]| {
            peaks(
                lab,
                name,
                task,
                &[format!("workload.dataset=traces/glue-{file}.csv")],
            )
        };
        Ok(named("tasks")
            .iter()
            .map(of_task)
            .collect::<Result<Vec<_>>>()?
            .concat())
    })
}

/// Figure 20: peak and latency by the number of stages.
fn by_stages(lab: &Lab<'_>) -> Result<Study> {
    each("stages", |name| {
        let mut scenario = network(lab, name, &[0.9], &[])?;
        scenario.policies = variants(lab, name, "stages", &STAGES)?;
        let report = lab.run("fig20", &scenario)?;
        let values = |(stages, peak): (&u32, f64)| [Some(peak), mean(&report, &stages.to_string())];
        Ok(of_variants(
            &STAGES,
            STAGES.iter().zip(lab.peaks(&scenario)?).map(values),
            &report,
        ))
    })
}

/// Memory of one set of buffers between the stages of the network's DVABatch, in MB: what the last operators of stages
/// write for the largest batch and input.
fn buffers(scenario: &Scenario) -> Result<f64> {
    let (_, device) = prepare(scenario, SelectedBackend::SIM)?;
    let (costs, network) = costs_and_network(scenario, &device);
    let settings = serde_json::to_value(&scenario.policies[0].settings).expect("settings are JSON");
    let [stages, batch] =
        ["stages", "max_batch"].map(|key| settings[key].as_u64().expect("the scenario has it"));
    let tokens = network.most_tokens.unwrap_or(0);
    let times = slice::times(network, costs, (batch as u32).isqrt(), tokens);
    let ends = slice::even(&times, stages as usize).map_err(Error::failed)?;
    let last = ends
        .iter()
        .take(ends.len() - 1)
        .filter_map(|stage| network.operators().nth(stage.end - 1));
    let numbers: u64 = last
        .map(|operator| writes(&operator.form.at(tokens)) * batch)
        .sum();
    Ok(numbers as f64 * FLOAT / 1e6)
}

/// Bytes of a number.
const FLOAT: f64 = 4.0;
