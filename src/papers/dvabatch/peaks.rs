//! Figures 15, 17 and 20: the highest load within the objective.

use super::super::lab::{Lab, Study};
use super::latency::{rates, variant};
use super::{DELAY, DVA, NETWORKS, ZERO, each, network, values};
use crate::error::Result;
use crate::plot::{self, Inputs, LATENCY_STEPS};
use crate::plot::{Bar, Bars, Field, Group};
use crate::results::columns::Metric;

/// GLUE's tasks: names of their traces and names in the paper.
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

/// The numbers of stages of figure 20.
pub const STAGES: [u32; 6] = [1, 2, 4, 8, 16, 20];

fn bar(value: f64) -> Option<Bar> {
    Some(Bar { value, upto: None })
}

/// Figure 15: the stepping load of section 8.3, and the peak of each network by a search: the steps are 281 requests/s wide, and
/// VGG19 serves little more than that.
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

/// Figure 17: the peaks of both BERTs with the lengths of each task.
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
