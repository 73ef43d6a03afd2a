//! Figures 14 to 21: latency at given loads, and the highest load within the objective.

use super::super::lab::{Lab, Study};
use super::{DELAY, DVA, LOADS, NETWORKS, ZERO, each, network, values};
use crate::error::{Error, Result};
use crate::plot::{self, Bar, Bars, Field, Group, Inputs, LATENCY_STEPS};
use crate::results::columns::Metric;
use crate::scenario::{PolicyEntry, Scenario};

fn bar(value: f64) -> Option<Bar> {
    Some(Bar { value, upto: None })
}

/// Without stretch and early exits.
pub const SPLIT: &str = "DVABatch-split";

/// Buffer pairs of figure 19.
pub const PAIRS: [u32; 5] = [1, 2, 3, 4, 5];

pub fn rates(peak: f64, shares: &[f64]) -> String {
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
) -> Result<Field> {
    let (_, peak) = network(lab, name, &[])?;
    let (mut scenario, _) = network(lab, name, &[rates(peak, &LOADS.map(|(_, share)| share))])?;
    more(&mut scenario)?;
    let report = lab.run(exhibit, &scenario)?;
    let bars = |load: usize| {
        let bar = |policy: &&str| {
            let of = |figure| values(&report, policy, figure).get(load).copied().flatten();
            of(Metric::Mean).map(|value| Bar { value, upto: of(Metric::P99) })
        };
        policies.iter().map(bar).collect()
    };
    let groups = LOADS.iter().enumerate().map(|(load, (name, _))| Group { name: name.to_string(), bars: bars(load) });
    Ok(Field { groups: groups.collect(), ..Field::default() })
}

/// Figure 14, with whiskers to the 99th percentile.
pub fn by_load(exhibit: &str, lab: &Lab<'_>) -> Result<Study> {
    let policies = [ZERO, DELAY, DVA];
    let fields = each(&NETWORKS, |name| at_loads(exhibit, lab, name, |_| Ok(()), &policies))?;
    let tuned = |(file, name): &(&str, &str)| {
        let (window, peak) = lab.tuned(file, DELAY)?;
        Ok(format!("{name} {window} ({peak:.0} requests/s)"))
    };
    let windows = NETWORKS.iter().map(tuned).collect::<Result<Vec<_>>>()?.join(", ");
    let note = format!("{DELAY}'s windows, and its peaks with them: {windows}\n");
    Ok(Study { note, ..latencies("Figure 14: mean latency, Titan RTX", &policies, fields) })
}

/// Figure 16: the ends of figure 14's whiskers.
pub fn tails(lab: &Lab<'_>) -> Result<Study> {
    let mut study = by_load("fig16", lab)?;
    for bars in &mut study.bars {
        bars.title = Some("Figure 16: 99th percentile of latency, Titan RTX".into());
        bars.value = "p99 latency (ms)".into();
        bars.whiskers = None;
        for one in bars.fields.iter_mut().flat_map(|field| &mut field.groups).flat_map(|group| &mut group.bars) {
            *one = one.and_then(|one| one.upto).and_then(bar);
        }
    }
    Ok(study)
}

/// Figure 18: only split.
pub fn split_alone(lab: &Lab<'_>) -> Result<Study> {
    let policies = [DELAY, SPLIT, DVA];
    let fields = each(&[("linknet", "LinkNet"), ("unet", "Unet")], |name| {
        let more = |scenario: &mut Scenario| {
            scenario.policies.push(variant(lab, name, &["policy.DVABatch.policy=operator".into()], SPLIT)?);
            scenario.policies.retain(|entry| entry.label != ZERO);
            Ok(())
        };
        at_loads("fig18", lab, name, more, &policies)
    })?;
    Ok(latencies("Figure 18: split alone, Titan RTX", &policies, fields))
}

fn latencies(title: &str, policies: &[&str], fields: Vec<Field>) -> Study {
    let bars = Bars {
        title: Some(title.into()),
        across: "Load".into(),
        value: "Latency (ms)".into(),
        whiskers: Some("mean to p99".into()),
        series: policies.iter().map(|policy| policy.to_string()).collect(),
        fields,
    };
    Study { bars: vec![bars], ..Study::default() }
}

/// Other settings of the network's DVABatch.
pub fn variant(lab: &Lab<'_>, name: &str, sets: &[String], label: &str) -> Result<PolicyEntry> {
    let scenario = lab.scenario(name, sets)?;
    let entry = scenario.policies.into_iter().find(|entry| entry.label == DVA);
    let entry = entry.ok_or_else(|| Error::input(format!("{name}: no policy is labelled \"{DVA}\"")))?;
    Ok(PolicyEntry { label: label.into(), ..entry })
}

/// Figure 19: mean latency by buffer pairs.
pub fn by_pairs(lab: &Lab<'_>) -> Result<Study> {
    let fields = each(&NETWORKS, |name| {
        let mut scenario = lab.scenario(name, &[])?;
        scenario.policies.retain(|entry| entry.label == DVA);
        let peak = lab.peaks(&scenario)?[0];
        let mut scenario = lab.scenario(name, &[rates(peak, &[0.9])])?;
        scenario.output.plots.clear();
        let one = |pairs: &u32| {
            let set = format!("policy.{DVA}.buffer_pairs={pairs}");
            variant(lab, name, &[set], &pairs.to_string())
        };
        scenario.policies = PAIRS.iter().map(one).collect::<Result<_>>()?;
        let report = lab.run("fig19", &scenario)?;
        let group = |pairs: &u32| {
            let name = pairs.to_string();
            let mean = values(&report, &name, Metric::Mean).first().copied().flatten();
            Group { name, bars: vec![mean.and_then(bar)] }
        };
        Ok(Field { groups: PAIRS.iter().map(group).collect(), ..Field::default() })
    })?;
    let bars = Bars {
        title: Some("Figure 19: buffer pairs, Titan RTX".into()),
        across: "Buffer pairs".into(),
        value: "Mean latency (ms)".into(),
        series: vec![DVA.into()],
        fields,
        ..Bars::default()
    };
    Ok(Study { bars: vec![bars], ..Study::default() })
}

/// Figure 21: a closed loop of one client.
pub fn one_client(lab: &Lab<'_>) -> Result<Study> {
    let sets = ["arrivals={process=\"closed\",clients=[1]}", "workload.requests=2000"].map(String::from);
    let fields = each(&NETWORKS, |name| {
        let mut scenario = lab.scenario(name, &sets)?;
        scenario.output.plots.clear();
        scenario.policies.retain(|entry| entry.label != DELAY);
        let report = lab.run("fig21", &scenario)?;
        let mean = |policy| values(&report, policy, Metric::Mean).first().copied().flatten();
        let mean_bar = |policy| mean(policy).and_then(bar);
        Ok(Field {
            groups: vec![Group { name: String::new(), bars: vec![mean_bar(ZERO), mean_bar(DVA)] }],
            ..Field::default()
        })
    })?;
    let bars = Bars {
        title: Some("Figure 21: one client, Titan RTX".into()),
        across: "Policy".into(),
        value: "Mean latency (ms)".into(),
        series: vec![ZERO.into(), DVA.into()],
        fields,
        ..Bars::default()
    };
    Ok(Study { bars: vec![bars], ..Study::default() })
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

/// Figure 15: the stepping load of section 8.3. Peaks come from a search, because the steps are 281 requests/s wide
/// and VGG19 serves little more than that.
pub fn stepping(lab: &Lab<'_>) -> Result<Study> {
    let policies = [DELAY, DVA];
    let sets =
        ["arrivals={process=\"stepping\",from=66,to=4000,steps=15}", "workload.requests=30000", "output.requests=true"]
            .map(String::from);
    let fields = each(&NETWORKS, |name| {
        let (mut scenario, _) = network(lab, name, &sets)?;
        scenario.policies.retain(|entry| entry.label != ZERO);
        lab.run("fig15", &scenario)?;
        let (mut scenario, _) = network(lab, name, &[])?;
        scenario.policies.retain(|entry| entry.label != ZERO);
        let bars = lab.peaks(&scenario)?.into_iter().map(bar).collect();
        Ok(Field { groups: vec![Group { name: String::new(), bars }], ..Field::default() })
    })?;
    let folders: Vec<_> = NETWORKS.iter().map(|(file, _)| lab.out.join("fig15").join(file)).collect();
    let options = plot::Options {
        title: Some("Figure 15: latency under a stepping load, Titan RTX".into()),
        slo: lab.scenario(NETWORKS[0].0, &[])?.metrics.slo,
        ..plot::Options::default()
    };
    let stem = lab.out.join("fig15").join(LATENCY_STEPS.name);
    let pictures = plot::draw(LATENCY_STEPS, &Inputs::open(&folders)?, &options, &stem)?;
    let bars = Bars {
        title: Some("Peak load with a p99 of at most 200 ms".into()),
        across: "Policy".into(),
        value: "Peak (requests/s)".into(),
        series: policies.map(String::from).to_vec(),
        fields,
        ..Bars::default()
    };
    Ok(Study { bars: vec![bars], pictures, ..Study::default() })
}

/// Figure 17: both BERTs with each task's lengths.
pub fn by_task(lab: &Lab<'_>) -> Result<Study> {
    let fields = each(&NETWORKS[..2], |name| {
        let group = |(file, task): &(&str, &str)| {
            let (mut scenario, _) = network(lab, name, &[format!("workload.dataset=traces/glue-{file}.csv")])?;
            scenario.policies.retain(|entry| entry.label != ZERO);
            let bars = lab.peaks(&scenario)?.into_iter().map(bar).collect();
            Ok(Group { name: task.to_string(), bars })
        };
        Ok(Field { groups: TASKS.iter().map(group).collect::<Result<_>>()?, ..Field::default() })
    })?;
    let bars = Bars {
        title: Some("Figure 17: peak load by task of GLUE".into()),
        across: "Task".into(),
        value: "Peak (requests/s)".into(),
        series: [DELAY, DVA].map(String::from).to_vec(),
        fields,
        ..Bars::default()
    };
    Ok(Study { bars: vec![bars], ..Study::default() })
}

/// Figure 20: peak and latency by the number of stages.
pub fn by_stages(lab: &Lab<'_>) -> Result<Study> {
    const OF: [(&str, &str); 3] = [("bert-base", "BertBase"), ("linknet", "LinkNet"), ("resnet152", "ResNet152")];
    let mut all = each(&OF, |name| {
        let (_, peak) = network(lab, name, &[])?;
        let (mut scenario, _) = network(lab, name, &[rates(peak, &[0.9])])?;
        let one = |stages: &u32| {
            let set = format!("policy.{DVA}.stages={stages}");
            variant(lab, name, &[set], &stages.to_string())
        };
        scenario.policies = STAGES.iter().map(one).collect::<Result<_>>()?;
        let report = lab.run("fig20", &scenario)?;
        let peaks = lab.peaks(&scenario)?;
        let group = |(stages, peak): (&u32, &f64)| {
            let name = stages.to_string();
            let mean = values(&report, &name, Metric::Mean).first().copied().flatten();
            Group { name, bars: vec![bar(*peak), mean.and_then(bar)] }
        };
        Ok(Field { groups: STAGES.iter().zip(&peaks).map(group).collect(), ..Field::default() })
    })?;
    let mut means = all.clone();
    for (fields, place) in [(&mut all, 0), (&mut means, 1)] {
        for group in fields.iter_mut().flat_map(|field| &mut field.groups) {
            group.bars = vec![group.bars[place]];
        }
    }
    let bars = |title: &str, value: &str, fields| Bars {
        title: Some(title.into()),
        across: "Stages".into(),
        value: value.into(),
        series: vec![DVA.into()],
        fields,
        ..Bars::default()
    };
    Ok(Study {
        bars: vec![
            bars("Figure 20: peak by the number of stages", "Peak (requests/s)", all),
            bars("Figure 20: latency by the number of stages", "Mean latency (ms)", means),
        ],
        ..Study::default()
    })
}
