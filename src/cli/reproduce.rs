//! `batchlab reproduce`.

mod order;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use self::order::{Item, Order};
use super::{Common, Format, print, print_json, stop_on_ctrl_c};
use crate::error::{Error, Result};
use crate::experiment::executor::Target;
use crate::experiment::{self, Options, Report};
use crate::files::write_whole;
use crate::papers::lab::{Lab, Study};
use crate::papers::report::{self, Shown};
use crate::papers::{Checked, Findings, Launches, Made, Measured, Paper, carry_out, check, not_at_hand};
use crate::policy::registry::Registry;
use crate::results::{summary, table};
use crate::scenario::Scenario;

/// Reproduce the papers' figures, or check their claims
///
/// `list` names the figures. `batchmaker fig13a` runs the scenario of a figure, draws it and checks the paper's claims about it.
/// `claims` checks all claims of a paper: the paper's value, ours, the gap and the reason. `all` does all of this and writes a
/// page, index.html. Without a paper, `list`, `claims` and `all` cover every paper. Run it in the repository, where the
/// scenarios are.
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    /// batchmaker, late, jit, dvabatch or grnn, then names of figures, list, claims or all
    #[arg(required = true, value_name = "[PAPER] FIGURE")]
    pub what: Vec<String>,

    /// Folder of the papers' scenarios
    #[arg(long, value_name = "DIR", default_value = "scenarios")]
    pub scenarios: PathBuf,

    /// Folder with trees/sick_test.txt and jit/sick_test_order.csv, for jit table1 [default: $BATCHLAB_DATA]
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,

    /// Times of persistent kernels on a GPU, to compare with GRNN's (from grnn tune --csv or scripts/gpu-check.sh)
    #[arg(long, value_name = "FILE")]
    pub measured: Option<PathBuf>,

    #[command(flatten)]
    pub common: Common,
}

pub fn run(args: &Args, registry: &Registry) -> Result<()> {
    let order = Order::parse(&args.what)?;
    for paper in &order.list {
        print(&listed(*paper))?;
    }
    let items = order.items();
    if items.is_empty() {
        return Ok(());
    }
    let out = args.common.out("reproduce");
    let findings = carried_out(&items, args, &out, registry)?;
    let mut checked = Vec::new();
    for (paper, found) in &findings {
        checked.extend(check(*paper, found)?);
    }
    if order.page {
        write_page(&order, &findings, &checked, &out)?;
        args.common.note(format!("the figures and their claims: {}", out.join("index.html").display()));
    }
    tell(&order, &findings, &checked, args.common.format)
}

/// Reads all scenarios first.
fn carried_out(items: &[Item], args: &Args, out: &Path, registry: &Registry) -> Result<BTreeMap<Paper, Findings>> {
    let common = &args.common;
    let measured = args.measured.as_deref().map(Measured::read).transpose()?;
    let file = |item: &Item| args.scenarios.join(item.paper.name()).join(format!("{}.toml", item.exhibit.name));
    let mut findings: BTreeMap<Paper, Findings> = BTreeMap::new();
    let (mut scenarios, mut studies) = (Vec::new(), Vec::new());
    for item in items {
        match item.exhibit.made {
            Made::Study => studies.push(*item),
            Made::Scenario => scenarios.push((*item, common.scenario(&file(item), registry)?)),
            Made::Count => {
                let launches = Launches::of(args.data.as_deref())?;
                findings.entry(item.paper).or_default().add_launches(&item.exhibit.name, launches);
            }
        }
    }
    let stop = stop_on_ctrl_c()?;
    let runs = |scenario: &Scenario| scenario.policies.len() * scenario.points().len();
    let bar = common.progress(scenarios.iter().map(|(_, scenario)| runs(scenario)).sum(), "");
    for (Item { paper, exhibit }, scenario) in scenarios {
        bar.set_message(format!("{} {}", paper.name(), exhibit.name));
        let out = out.join(paper.name());
        let options = Options { target: Target::SIM, out, replications: 1, resume: false };
        let report = common.on_threads(|| experiment::run(&scenario, &options, stop, &|| bar.inc(1)))?;
        if report.interrupted() {
            return Err(Error::Interrupted);
        }
        for why in &report.undrawn {
            common.note(format!("{} {}: no figure: {why}", paper.name(), exhibit.name));
        }
        findings.entry(paper).or_default().add(&exhibit.name, scenario, report);
    }
    bar.finish_and_clear();
    // A search's number of runs is not known in advance.
    let bar = common.progress(studies.len(), "");
    let tick = || bar.tick();
    for of_paper in studies.chunk_by(|a, b| a.paper == b.paper) {
        let paper = of_paper[0].paper;
        let folder = args.scenarios.join(paper.name());
        let load =
            |name: &str, sets: &[String]| common.scenario_with(&folder.join(format!("{name}.toml")), sets, registry);
        let lab = Lab::new(&load, out.join(paper.name()), measured.as_ref(), stop, &tick);
        for Item { exhibit, .. } in of_paper {
            bar.set_message(format!("{} {}", paper.name(), exhibit.name));
            let study = common.on_threads(|| carry_out(paper, exhibit, &lab))?;
            findings.entry(paper).or_default().add_study(&exhibit.name, study);
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    if let (Some(measured), Some(found)) = (measured, findings.get_mut(&Paper::Grnn)) {
        found.add_measured(measured);
    }
    Ok(findings)
}

/// Named figures with their claims, or all claims.
fn tell(order: &Order, findings: &BTreeMap<Paper, Findings>, checked: &[Checked], format: Format) -> Result<()> {
    let mut documents = Vec::new();
    for Item { paper, exhibit } in &order.named {
        let own = |one: &&Checked| one.paper == *paper && one.claim.exhibits.first() == Some(&exhibit.name);
        let own: Vec<Checked> = checked.iter().filter(own).cloned().collect();
        let name = format!("{} {}", paper.name(), exhibit.name);
        let found = findings.get(paper);
        let study = found.and_then(|found| found.studied(&exhibit.name));
        let results = match found.and_then(|found| found.report(&exhibit.name)) {
            None if study.is_some() => study.map(studied).expect("it is one"),
            Some(Report { rows, folder, .. }) => Results {
                text: format!("{}\nresults in {}\n", table::table(rows), folder.path().display()),
                json: summary::to_json(&name, rows),
            },
            None => counted(found.and_then(|found| found.launches(&exhibit.name)))?,
        };
        match format {
            Format::Table => {
                print(&format!("{name}: {}\n{}\n", exhibit.place, results.text))?;
                if !own.is_empty() {
                    print(&format!("{}\n", report::table(&own)))?;
                }
            }
            Format::Json => documents.push(json!({
                "figure": name,
                "results": results.json,
                "claims": report::to_json(&own),
            })),
        }
    }
    if !order.claims.is_empty() {
        let claims: Vec<Checked> = checked.iter().filter(|one| order.claims.contains(&one.paper)).cloned().collect();
        match format {
            Format::Table => print(&report::table(&claims))?,
            Format::Json => documents.push(report::to_json(&claims)),
        }
    }
    if format == Format::Json { print_json(documents) } else { Ok(()) }
}

fn studied(study: &Study) -> Results {
    let numbers = study.numbers.as_ref().map_or(String::new(), |file| format!("numbers in {}\n", file.display()));
    Results { text: format!("{}\n{numbers}", study.table()), json: study.to_json() }
}

/// Of a figure, for a reader and for a program.
struct Results {
    text: String,
    json: Value,
}

fn counted(launches: Option<&Launches>) -> Result<Results> {
    Ok(match launches {
        None => Results { text: format!("not counted: {}\n", not_at_hand()), json: Value::Null },
        Some(launches) => Results {
            text: launches.table(),
            json: json!({
                "cells": serde_json::to_value(&launches.cells).map_err(Error::failed)?,
                "kernels": serde_json::to_value(launches.kernels).map_err(Error::failed)?,
            }),
        },
    })
}

fn listed(paper: Paper) -> String {
    let mut text = format!("{}\n", paper.title());
    for exhibit in paper.exhibits() {
        text.push_str(&format!("  {} {:<8}{}\n", paper.name(), exhibit.name, exhibit.place));
    }
    text
}

fn documents(pictures: &[PathBuf]) -> Result<Vec<String>> {
    let svg = pictures.iter().filter(|file| file.extension().is_some_and(|ending| ending == "svg"));
    svg.map(|file| fs::read_to_string(file).map_err(|cause| Error::unreadable(file, &cause))).collect()
}

fn write_page(order: &Order, findings: &BTreeMap<Paper, Findings>, checked: &[Checked], out: &Path) -> Result<()> {
    let mut shown = Vec::new();
    for Item { paper, exhibit } in order.on_page() {
        let found = findings.get(&paper);
        if let Some(study) = found.and_then(|found| found.studied(&exhibit.name)) {
            let numbers = study.numbers.as_ref().and_then(|file| file.strip_prefix(out).ok());
            let numbers = numbers.map(|path| path.display().to_string());
            let text = Some(study.note.clone()).filter(|note| !note.is_empty());
            shown.push(Shown { paper, exhibit, pictures: documents(&study.pictures)?, text, numbers });
            continue;
        }
        let Some(report) = found.and_then(|found| found.report(&exhibit.name)) else {
            let text = counted(found.and_then(|found| found.launches(&exhibit.name)))?.text;
            shown.push(Shown { paper, exhibit, pictures: Vec::new(), text: Some(text), numbers: None });
            continue;
        };
        let pictures = documents(&report.figures)?;
        let text = (!report.undrawn.is_empty()).then(|| report.undrawn.join("\n"));
        let summary = report.folder.summary();
        let numbers = summary.strip_prefix(out).ok().map(|path| path.display().to_string());
        shown.push(Shown { paper, exhibit, pictures, text, numbers });
    }
    let page = report::html(&shown, checked);
    write_whole(&out.join("index.html"), |file| file.write_all(page.as_bytes()))
}
