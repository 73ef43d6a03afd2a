//! Latencies and peaks of the policies under several loads (Figures 3, 14 to 18 and 21).

use std::path::Path;

use super::names::{DELAY, DVA, LOADS, PLAIN, SHARES, SPLIT, ZERO, named_files};
use super::networks::{
    NumberedBars, draw_networks, mean_latency, network, values_by_load, variant, with_best_window,
    without,
};
use crate::base::error::Result;
use crate::base::files::folder_name;
use crate::base::units::Rate;
use crate::lab::plot::look::Scale;
use crate::lab::plot::{self, Bar, Bars, FigureKind, Look, PlotInputs};
use crate::lab::results::columns::Metric;
use crate::lab::results::logs::{BatchLine, LogRow as _};
use crate::lab::results::read::Log;
use crate::lab::scenario::Scenario;
use crate::papers::numbers::mean;
use crate::papers::paper::Paper;
use crate::papers::study::Study;
use crate::papers::study_runner::StudyRunner;

/// Figure 3: schedules and mean latencies. T is a millisecond.
pub fn cases(runner: &StudyRunner<'_>) -> Result<Study> {
    let mut bars = Vec::new();
    let mut figures = Vec::new();
    for (file, name) in [("case1", "I"), ("case2", "II"), ("case3", "III")] {
        let (report, drawn) = runner.run_and_draw("fig3", &runner.scenario(file, &[])?)?;
        let papers = Paper::DvaBatch.value(&format!("dva-{file}")).numbers();
        for (policy, paper) in [PLAIN, DVA].into_iter().zip(papers) {
            bars.push(Bar::new(name, policy, mean_latency(&report, policy)));
            bars.push(Bar::new(name, format!("{policy}, paper"), Some(*paper)));
        }
        figures.extend(drawn.drawn);
    }
    Ok(Study {
        figures,
        ..Study::new([bars], String::new())
    })
}

/// Figures 14 and 16: means with whiskers to the 99th percentile, and the ends of the whiskers. Then the peaks among
/// which DelayBatch's window is chosen, against the highest of them.
pub fn latency_by_load(runner: &StudyRunner<'_>) -> Result<Study> {
    let mut study = draw_networks("networks", |name| {
        let scenario = with_best_window(runner, name, &SHARES, &[])?;
        let mut bars = draw_loads(runner, "fig14", &scenario, &[ZERO, DELAY, DVA])?;
        let mut tails = Vec::new();
        for (_, bar) in &bars {
            let tail = Bar {
                value: bar.upto,
                upto: None,
                ..bar.clone()
            };
            tails.push((1, tail));
        }
        bars.extend(tails);
        bars.extend(draw_peaks_by_window(runner, name)?);
        Ok(bars)
    })?;
    let mut windows = Vec::new();
    for [file, name] in named_files("networks") {
        let (window, peak) = runner.best_window(file, DELAY)?;
        windows.push(format!("{name} {window} ({peak:.0} requests/s)"));
    }
    study.note = format!(
        "{DELAY}'s windows, and its peaks with them: {}\n",
        windows.join(", ")
    );
    add_cuts(&mut study.bars[0], "dva-avg-zero", "dva-avg-delay");
    add_cuts(&mut study.bars[1], "dva-p99-zero", "dva-p99-delay");
    Ok(study)
}

/// The peak of DelayBatch with each window, in percent of the highest.
fn draw_peaks_by_window(runner: &StudyRunner<'_>, name: &str) -> Result<NumberedBars> {
    let peaks = runner.peaks_by_window(name, DELAY)?;
    let mut highest: f64 = 0.0;
    for (_, peak) in &peaks {
        if let Some(Rate(peak)) = peak {
            highest = highest.max(*peak);
        }
    }
    let mut bars = Vec::new();
    for (window, peak) in &peaks {
        let share = peak.map(|Rate(peak)| 100.0 * peak / highest);
        bars.push((2, Bar::new(window, DELAY, share)));
    }
    Ok(bars)
}

/// Draws a group for each of the three loads of a network's scenario: means, with whiskers to the 99th percentile.
fn draw_loads(
    runner: &StudyRunner<'_>,
    exhibit: &str,
    scenario: &Scenario,
    policies: &[&str],
) -> Result<NumberedBars> {
    let report = runner.run(exhibit, scenario)?;
    let mut bars = Vec::new();
    for (place, load) in LOADS.into_iter().enumerate() {
        for policy in policies {
            let means = values_by_load(&report, policy, Metric::Mean);
            let tails = values_by_load(&report, policy, Metric::P99);
            let bar = Bar {
                upto: tails.get(place).copied().flatten(),
                ..Bar::new(load, *policy, means.get(place).copied().flatten())
            };
            bars.push((0, bar));
        }
    }
    Ok(bars)
}

/// Adds the last panel: the percentage by which DVABatch cuts the latency of the two baselines, as means over the
/// networks, and the paper's cuts.
fn add_cuts(bars: &mut Bars, claim_on_zero: &str, claim_on_delay: &str) {
    for (place, load) in LOADS.into_iter().enumerate() {
        for (other, claim) in [(ZERO, claim_on_zero), (DELAY, claim_on_delay)] {
            let ours = mean_cut(bars, load, other);
            let papers = Paper::DvaBatch.value(claim).numbers();
            add_to_summary(bars, load, other.to_string(), ours);
            let series = format!("{other}, paper");
            add_to_summary(bars, load, series, papers.get(place).copied());
        }
    }
    for other in [ZERO, DELAY] {
        bars.series.push(format!("{other}, paper"));
    }
}

fn add_to_summary(bars: &mut Bars, load: &str, series: String, value: Option<f64>) {
    bars.summary.push(Bar {
        panel: "Mean cut (%)".to_string(),
        ..Bar::new(load, series, value)
    });
}

/// How far DVABatch cuts another policy's latency under a load, in percent; `None` if a value is missing.
fn mean_cut(bars: &Bars, load: &str, other: &str) -> Option<f64> {
    let ours = values_at_load(bars, load, DVA);
    let theirs = values_at_load(bars, load, other);
    let mut cuts = Vec::new();
    for (ours, theirs) in ours.into_iter().zip(theirs) {
        cuts.push(100.0 * (1.0 - ours? / theirs?));
    }
    Some(mean(&cuts))
}

fn values_at_load(bars: &Bars, load: &str, policy: &str) -> Vec<Option<f64>> {
    let bars = bars.bars.iter();
    bars.filter(|bar| bar.group == load && bar.series == policy)
        .map(|bar| bar.value)
        .collect()
}

/// Figure 15: the stepping load of section 8.3. Peaks come from a search, because the steps are 281 requests/s wide
/// and VGG19 serves little more than that.
pub fn stepping_load(runner: &StudyRunner<'_>) -> Result<Study> {
    let overrides = [
        "arrivals={process=\"stepping\",from=66,to=4000,steps=15}",
        "workload.requests=30000",
        "output.requests=true",
    ]
    .map(String::from);
    let study = draw_networks("networks", |name| {
        let scenario = with_best_window(runner, name, &[], &overrides)?;
        runner.run("fig15", &without(ZERO, scenario))?;
        draw_peaks(runner, name, "", &[])
    })?;
    if !runner.workspace.draws {
        return Ok(study);
    }
    let folder = runner.folder().join("fig15");
    let networks = named_files("networks");
    let folders: Vec<_> = networks.iter().map(|[file, _]| folder.join(file)).collect();
    let mut inputs = PlotInputs::open(&folders)?;
    for (folder, [_, name]) in inputs.folders.iter_mut().zip(networks) {
        folder.name.clone_from(name);
    }
    let options = plot::PlotOptions {
        title: Some("Figure 15: latency under a stepping load, Titan RTX".into()),
        look: Look {
            y_scale: Some(Scale::Linear),
            ..Look::default()
        },
        slo: runner.scenario("bert-base", &[])?.metrics.slo,
        ..plot::PlotOptions::default()
    };
    let stem = folder.join(FigureKind::LatencySteps.to_string());
    let figure = plot::draw(FigureKind::LatencySteps, &inputs, &options, &stem)?;
    Ok(Study {
        figures: vec![figure],
        ..study
    })
}

/// Figure 17: the peaks of both BERTs with each task's lengths.
pub fn peak_by_task(runner: &StudyRunner<'_>) -> Result<Study> {
    draw_networks("berts", |name| {
        let mut bars = Vec::new();
        for [file, task] in named_files("tasks") {
            let dataset = format!("workload.dataset=traces/glue-{file}.csv");
            bars.extend(draw_peaks(runner, name, task, &[dataset])?);
        }
        Ok(bars)
    })
}

/// DelayBatch's and DVABatch's peaks, as a group.
fn draw_peaks(
    runner: &StudyRunner<'_>,
    name: &str,
    group: &str,
    overrides: &[String],
) -> Result<NumberedBars> {
    let scenario = with_best_window(runner, name, &[], overrides)?;
    let peaks = runner.peaks(&without(ZERO, scenario))?;
    let mut bars = Vec::new();
    for (policy, peak) in [DELAY, DVA].into_iter().zip(peaks) {
        bars.push((0, Bar::new(group, policy, Some(peak))));
    }
    Ok(bars)
}

/// Figure 18: DVABatch with only split, and the batches that it begins with.
pub fn only_split(runner: &StudyRunner<'_>) -> Result<Study> {
    draw_networks("split", |name| {
        let mut scenario = with_best_window(runner, name, &SHARES, &[])?;
        let split = variant(runner, name, "policy=operator", SPLIT)?;
        scenario.policies.push(split);
        let scenario = without(ZERO, scenario);
        let mut bars = draw_loads(runner, "fig18", &scenario, &[DELAY, SPLIT, DVA])?;
        let first = network(&scenario)
            .operators()
            .next()
            .expect("a network has operators");
        let folder = runner.folder().join("fig18").join(name);
        let folder = folder.join(folder_name(SPLIT));
        for (load, point) in LOADS.into_iter().zip(scenario.points()) {
            let file = folder.join(point.to_string()).join(BatchLine::FILE);
            let median = median_batch(&file, &first.name)?;
            bars.push((1, Bar::new(load, SPLIT, median)));
        }
        Ok(bars)
    })
}

/// The median size of an operator's batches: half of them are at least as large.
fn median_batch(file: &Path, operator: &str) -> Result<Option<f64>> {
    let mut lines = Log::<BatchLine>::open(file)?;
    let mut sizes: Vec<(u64, u64)> = Vec::new();
    while let Some(BatchLine { cell, batch, tasks }) = lines.read()? {
        if cell == operator {
            sizes.push((batch, tasks));
        }
    }
    sizes.sort_unstable();
    let all: u64 = sizes.iter().map(|(_, tasks)| tasks).sum();
    let mut up_to_here = 0;
    for (batch, tasks) in sizes {
        up_to_here += tasks;
        if 2 * up_to_here >= all {
            return Ok(Some(batch as f64));
        }
    }
    Ok(None)
}

/// Figure 21: a closed loop of one client.
pub fn one_client(runner: &StudyRunner<'_>) -> Result<Study> {
    let overrides = [
        "arrivals={process=\"closed\",clients=[1]}",
        "workload.requests=2000",
    ]
    .map(String::from);
    draw_networks("networks", |name| {
        let mut scenario = without(DELAY, runner.scenario(name, &overrides)?);
        scenario.output.plots.clear();
        let report = runner.run("fig21", &scenario)?;
        let mut bars = Vec::new();
        for policy in [ZERO, DVA] {
            bars.push((0, Bar::new("", policy, mean_latency(&report, policy))));
        }
        Ok(bars)
    })
}
