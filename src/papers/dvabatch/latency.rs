//! Figures 14, 16, 18, 19 and 21: latency at set loads.

use super::super::lab::{Lab, Study};
use super::{DELAY, DVA, LOADS, NETWORKS, ZERO, each, network, values};
use crate::error::Result;
use crate::plot::{Bar, Bars, Field, Group};
use crate::results::columns::Metric;
use crate::scenario::{PolicyEntry, Scenario};

/// DVABatch without stretch and early exits.
pub const SPLIT: &str = "DVABatch-split";

/// The numbers of buffer pairs of figure 19.
pub const PAIRS: [u32; 5] = [1, 2, 3, 4, 5];

/// An override that sets the rates to these shares of a peak.
pub fn rates(peak: f64, shares: &[f64]) -> String {
    let rates: Vec<String> = shares.iter().map(|share| format!("{:.3}", share * peak)).collect();
    format!("arrivals.rates=[{}]", rates.join(","))
}

/// Runs a network at the three loads, with its scenario changed by `more`. A group for each load.
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
        for bar in bars.fields.iter_mut().flat_map(|field| &mut field.groups).flat_map(|group| &mut group.bars) {
            *bar = bar.and_then(|bar| bar.upto).map(|value| Bar { value, upto: None });
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

/// The network's DVABatch with other settings.
pub fn variant(lab: &Lab<'_>, name: &str, sets: &[String], label: &str) -> Result<PolicyEntry> {
    let scenario = lab.scenario(name, sets)?;
    let entry = scenario.policies.into_iter().find(|entry| entry.label == DVA);
    let entry = entry.ok_or_else(|| crate::error::Error::input(format!("{name}: no policy is labelled \"{DVA}\"")))?;
    Ok(PolicyEntry { label: label.into(), ..entry })
}

/// Figure 19: the mean latency by the number of buffer pairs.
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
            Group { name, bars: vec![mean.map(|value| Bar { value, upto: None })] }
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
        let bar = |policy| mean(policy).map(|value| Bar { value, upto: None });
        Ok(Field { groups: vec![Group { name: String::new(), bars: vec![bar(ZERO), bar(DVA)] }], ..Field::default() })
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
