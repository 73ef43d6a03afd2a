//! Figures 14 to 21: latency at given loads, and the highest load within the objective.

use super::super::lab::{Lab, Study, bars, group};
use super::{DELAY, DVA, LOADS, NETWORKS, ZERO, each, mean, network, operators, values};
use crate::error::{Error, Result};
use crate::experiment::window::Tried;
use crate::plot::{self, Bar, Bars, Field, Group, Inputs, Kind};
use crate::results::columns::Metric;
use crate::scenario::{PolicyEntry, Scenario};
use crate::units::Rate;

/// Without stretch and early exits.
pub const SPLIT: &str = "DVABatch-split";

/// Buffer pairs of figure 19.
pub const PAIRS: [u32; 5] = [1, 2, 3, 4, 5];

fn rates(peak: f64, shares: &[f64]) -> String {
    let rates: Vec<String> = shares.iter().map(|share| format!("{:.3}", share * peak)).collect();
    format!("arrivals.rates=[{}]", rates.join(","))
}

/// A network at the three loads, its scenario changed by `more`; a group for each load.
fn at_loads(
    exhibit: &str,
    lab: &Lab<'_>,
    name: &str,
    more: impl Fn(&mut Scenario) -> Result<()>,
    policies: &[&str],
) -> Result<Vec<Group>> {
    let (_, peak) = network(lab, name, &[])?;
    let (mut scenario, _) = network(lab, name, &[rates(peak, &LOADS.map(|(_, share)| share))])?;
    more(&mut scenario)?;
    let report = lab.run(exhibit, &scenario)?;
    let bars = |load: usize| {
        let bar = |policy: &&str| {
            let of = |metric| values(&report, policy, metric).nth(load).flatten();
            of(Metric::Mean).map(|value| Bar { value, upto: of(Metric::P99), saturated: false })
        };
        policies.iter().map(bar).collect()
    };
    let groups = LOADS.iter().enumerate().map(|(load, (name, _))| Group { name: name.to_string(), bars: bars(load) });
    Ok(groups.collect())
}

/// Figures 14 and 16: means with whiskers to the 99th percentile, and the ends of the whiskers.
pub fn by_load(lab: &Lab<'_>) -> Result<Study> {
    let policies = [ZERO, DELAY, DVA];
    let fields = each(&NETWORKS, |name| at_loads("fig14", lab, name, |_| Ok(()), &policies))?;
    let tuned = |(file, name): &(&str, &str)| {
        let (window, peak) = lab.tuned(file, DELAY)?;
        Ok(format!("{name} {window} ({peak:.0} requests/s)"))
    };
    let windows = NETWORKS.iter().map(tuned).collect::<Result<Vec<_>>>()?.join(", ");
    let mut study = latencies("Figure 14: mean latency, Titan RTX", &policies, fields.clone());
    study.bars.extend([tails(&policies, fields), by_window(lab)?]);
    study.note = format!("{DELAY}'s windows, and its peaks with them: {windows}\n");
    Ok(study)
}

fn tails(policies: &[&str], mut fields: Vec<Field>) -> Bars {
    for bar in fields.iter_mut().flat_map(|field| &mut field.groups).flat_map(|group| &mut group.bars) {
        *bar = bar.and_then(|bar| bar.upto).map(|value| Bar { value, ..Bar::default() });
    }
    let title = "Figure 16: 99th percentile of latency, Titan RTX";
    bars([title, "Load", "p99 latency (ms)"], policies.iter().copied(), fields)
}

/// The peaks among which DelayBatch's window is chosen, against the highest of them.
fn by_window(lab: &Lab<'_>) -> Result<Bars> {
    let fields = each(&NETWORKS, |name| {
        let tried = lab.by_window(name, DELAY)?;
        let highest = tried.iter().filter_map(|tried| tried.rate).fold(0.0, |highest, Rate(rate)| rate.max(highest));
        let share = |tried: &Tried| tried.rate.map(|Rate(rate)| 100.0 * rate / highest);
        Ok(tried.iter().map(|tried| group(tried.window, [share(tried)])).collect())
    })?;
    Ok(bars(["DelayBatch: peak by its window", "Window", "Peak (% of the highest)"], [DELAY], fields))
}

/// Figure 18: only split.
pub fn split_alone(lab: &Lab<'_>) -> Result<Study> {
    let policies = [DELAY, SPLIT, DVA];
    let fields = each(&[("linknet", "LinkNet"), ("unet", "Unet")], |name| {
        let more = |scenario: &mut Scenario| {
            scenario.policies.push(variant(lab, name, "policy=operator", SPLIT)?);
            scenario.policies.retain(|entry| entry.label != ZERO);
            Ok(())
        };
        at_loads("fig18", lab, name, more, &policies)
    })?;
    Ok(latencies("Figure 18: split alone, Titan RTX", &policies, fields))
}

fn latencies(title: &str, policies: &[&str], fields: Vec<Field>) -> Study {
    let bars = bars([title, "Load", "Latency (ms)"], policies.iter().copied(), fields);
    Bars { whiskers: Some("mean to p99".into()), ..bars }.into()
}

/// The network's DVABatch with another setting.
fn variant(lab: &Lab<'_>, name: &str, set: &str, label: &str) -> Result<PolicyEntry> {
    let scenario = lab.scenario(name, &[format!("policy.{DVA}.{set}")])?;
    let entry = scenario.policies.into_iter().find(|entry| entry.label == DVA);
    let entry = entry.ok_or_else(|| Error::input(format!("{name}: no policy is labelled \"{DVA}\"")))?;
    Ok(PolicyEntry { label: label.into(), ..entry })
}

/// The network's DVABatch with each of these values of a setting, labelled with the value.
fn variants(lab: &Lab<'_>, name: &str, key: &str, values: &[u32]) -> Result<Vec<PolicyEntry>> {
    values.iter().map(|value| variant(lab, name, &format!("{key}={value}"), &value.to_string())).collect()
}

/// Figure 19: mean latency and memory by buffer pairs.
pub fn by_pairs(lab: &Lab<'_>) -> Result<Study> {
    let both = each(&NETWORKS, |name| {
        let mut scenario = lab.scenario(name, &[])?;
        scenario.policies.retain(|entry| entry.label == DVA);
        let (peak, memory) = (lab.peaks(&scenario)?[0], operators::buffers(&scenario)?);
        let mut scenario = lab.scenario(name, &[rates(peak, &[0.9])])?;
        scenario.output.plots.clear();
        scenario.policies = variants(lab, name, "buffer_pairs", &PAIRS)?;
        let report = lab.run("fig19", &scenario)?;
        let values = |pairs: u32| [mean(&report, &pairs.to_string()), Some(memory * f64::from(pairs))];
        Ok(PAIRS.map(|pairs| group(pairs, values(pairs))).to_vec())
    })?;
    let title = "Figure 19: buffer pairs, Titan RTX";
    let means = only(0, &both, [title, "Buffer pairs", "Mean latency (ms)"]);
    let memory = only(1, &both, [title, "Buffer pairs", "Memory of the buffers (MB)"]);
    Ok(Study { bars: vec![means, memory], ..Study::default() })
}

/// Of groups with several values, the one at a place.
fn only(place: usize, fields: &[Field], titles: [&str; 3]) -> Bars {
    let mut fields = fields.to_vec();
    fields.iter_mut().flat_map(|field| &mut field.groups).for_each(|group| group.bars = vec![group.bars[place]]);
    bars(titles, [DVA], fields)
}

/// Figure 21: a closed loop of one client.
pub fn one_client(lab: &Lab<'_>) -> Result<Study> {
    let sets = ["arrivals={process=\"closed\",clients=[1]}", "workload.requests=2000"].map(String::from);
    let fields = each(&NETWORKS, |name| {
        let mut scenario = lab.scenario(name, &sets)?;
        scenario.output.plots.clear();
        scenario.policies.retain(|entry| entry.label != DELAY);
        let report = lab.run("fig21", &scenario)?;
        Ok(vec![group("", [ZERO, DVA].map(|policy| mean(&report, policy)))])
    })?;
    Ok(bars(["Figure 21: one client, Titan RTX", "Policy", "Mean latency (ms)"], [ZERO, DVA], fields).into())
}

/// GLUE's tasks: trace names and the paper's names.
pub const TASKS: [(&str, &str); 8] = [
    ("cola", "CoLA"),
    ("sst2", "SST-2"),
    ("mrpc", "MRPC"),
    ("qqp", "QQP"),
    ("stsb", "STS-B"),
    ("qnli", "QNLI"),
    ("rte", "RTE"),
    ("wnli", "WNLI"),
];

/// Of figure 20.
pub const STAGES: [u32; 6] = [1, 2, 4, 8, 16, 20];

/// DelayBatch's and DVABatch's.
fn peaks(lab: &Lab<'_>, name: &str, sets: &[String]) -> Result<Vec<Option<f64>>> {
    let (mut scenario, _) = network(lab, name, sets)?;
    scenario.policies.retain(|entry| entry.label != ZERO);
    Ok(lab.peaks(&scenario)?.into_iter().map(Some).collect())
}

/// Figure 15: the stepping load of section 8.3. Peaks come from a search, because the steps are 281 requests/s wide
/// and VGG19 serves little more than that.
pub fn stepping(lab: &Lab<'_>) -> Result<Study> {
    let sets =
        ["arrivals={process=\"stepping\",from=66,to=4000,steps=15}", "workload.requests=30000", "output.requests=true"]
            .map(String::from);
    let fields = each(&NETWORKS, |name| {
        let (mut scenario, _) = network(lab, name, &sets)?;
        scenario.policies.retain(|entry| entry.label != ZERO);
        lab.run("fig15", &scenario)?;
        Ok(vec![group("", peaks(lab, name, &[])?)])
    })?;
    let folders: Vec<_> = NETWORKS.iter().map(|(file, _)| lab.out.join("fig15").join(file)).collect();
    let options = plot::Options {
        title: Some("Figure 15: latency under a stepping load, Titan RTX".into()),
        slo: lab.scenario(NETWORKS[0].0, &[])?.metrics.slo,
        ..plot::Options::default()
    };
    let stem = lab.out.join("fig15").join(Kind::LatencySteps.to_string());
    let figures = vec![plot::draw(Kind::LatencySteps, &Inputs::open(&folders)?, &options, &stem)?];
    let title = "Peak load with a p99 of at most 200 ms";
    Ok(Study { figures, ..bars([title, "Policy", "Peak (requests/s)"], [DELAY, DVA], fields).into() })
}

/// Figure 17: both BERTs with each task's lengths.
pub fn by_task(lab: &Lab<'_>) -> Result<Study> {
    let fields = each(&NETWORKS[..2], |name| {
        let of_task = |(file, task): &(&str, &str)| {
            Ok(group(task, peaks(lab, name, &[format!("workload.dataset=traces/glue-{file}.csv")])?))
        };
        TASKS.iter().map(of_task).collect()
    })?;
    Ok(bars(["Figure 17: peak load by task of GLUE", "Task", "Peak (requests/s)"], [DELAY, DVA], fields).into())
}

/// Figure 20: peak and latency by the number of stages.
pub fn by_stages(lab: &Lab<'_>) -> Result<Study> {
    const OF: [(&str, &str); 3] = [("bert-base", "BertBase"), ("linknet", "LinkNet"), ("resnet152", "ResNet152")];
    let both = each(&OF, |name| {
        let (_, peak) = network(lab, name, &[])?;
        let (mut scenario, _) = network(lab, name, &[rates(peak, &[0.9])])?;
        scenario.policies = variants(lab, name, "stages", &STAGES)?;
        let report = lab.run("fig20", &scenario)?;
        let peaks = lab.peaks(&scenario)?;
        let of_stages = |(stages, peak): (&u32, f64)| group(stages, [Some(peak), mean(&report, &stages.to_string())]);
        Ok(STAGES.iter().zip(peaks).map(of_stages).collect())
    })?;
    let peaks = only(0, &both, ["Figure 20: peak by the number of stages", "Stages", "Peak (requests/s)"]);
    let means = only(1, &both, ["Figure 20: latency by the number of stages", "Stages", "Mean latency (ms)"]);
    Ok(Study { bars: vec![peaks, means], ..Study::default() })
}
