//! `batchlab reproduce`: the papers' figures and claims.

mod order;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;

use self::order::{Item, Order};
use super::{Common, Format, print, print_json, stop_on_ctrl_c};
use crate::error::{Error, Result};
use crate::experiment::target::Target;
use crate::experiment::{self, Options, Report};
use crate::figures::page::{self, Shown};
use crate::figures::{Checked, Findings, Paper, check, report};
use crate::files::write_whole;
use crate::metrics::table;
use crate::policy::registry::Registry;
use crate::scenario::Scenario;

/// Reproduce the papers' figures, or check their claims
///
/// `list` names the figures. `batchmaker fig13a` runs a figure's scenario, draws it and checks what the paper's text says of it;
/// `claims` checks all of a paper's claims, each beside ours with the gap and the reason; `all` does all of that and writes a
/// page, index.html. Without the name of a paper, `list`, `claims` and `all` are about every paper. Run it in the repository,
/// where the scenarios are.
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    /// batchmaker or late, then names of figures, list, claims or all
    #[arg(required = true, value_name = "[PAPER] FIGURE")]
    pub what: Vec<String>,

    /// The folder of the papers' scenarios
    #[arg(long, value_name = "DIR", default_value = "scenarios")]
    pub scenarios: PathBuf,

    #[command(flatten)]
    pub common: Common,
}

/// Runs scenarios, draws figures and checks claims.
///
/// # Errors
/// An unknown name, with those that are known; whatever goes wrong with a scenario; Ctrl-C.
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

/// Runs the scenarios of these figures, after all of them have been read.
fn carried_out(items: &[Item], args: &Args, out: &Path, registry: &Registry) -> Result<BTreeMap<Paper, Findings>> {
    let common = &args.common;
    let file = |item: &Item| args.scenarios.join(item.paper.name()).join(format!("{}.toml", item.exhibit.name));
    let mut scenarios = Vec::new();
    for item in items {
        scenarios.push((*item, common.scenario(&file(item), registry)?));
    }
    let stop = stop_on_ctrl_c()?;
    let runs = |scenario: &Scenario| scenario.policies.len() * scenario.points().len();
    let bar = common.progress(scenarios.iter().map(|(_, scenario)| runs(scenario)).sum(), "");
    let mut findings: BTreeMap<Paper, Findings> = BTreeMap::new();
    for (Item { paper, exhibit }, scenario) in scenarios {
        bar.set_message(format!("{} {}", paper.name(), exhibit.name));
        let out = out.join(paper.name());
        let options = Options { target: Target::Sim, out, replications: 1, resume: false };
        let report = common.on_threads(|| experiment::run(&scenario, &options, stop, &|| bar.inc(1)))?;
        if report.interrupted() {
            return Err(Error::Interrupted);
        }
        for why in &report.undrawn {
            common.note(format!("{} {}: no figure: {why}", paper.name(), exhibit.name));
        }
        findings.entry(paper).or_default().add(exhibit.name, scenario, report);
    }
    bar.finish_and_clear();
    Ok(findings)
}

/// Prints what was asked for: figures by name with their claims, or all claims.
fn tell(order: &Order, findings: &BTreeMap<Paper, Findings>, checked: &[Checked], format: Format) -> Result<()> {
    let mut documents = Vec::new();
    for Item { paper, exhibit } in &order.named {
        let own = |one: &&Checked| one.paper == *paper && one.claim.exhibits.first() == Some(&exhibit.name);
        let own: Vec<Checked> = checked.iter().filter(own).cloned().collect();
        let name = format!("{} {}", paper.name(), exhibit.name);
        let Some(Report { rows, folder, .. }) = findings.get(paper).and_then(|found| found.report(exhibit.name)) else {
            continue;
        };
        match format {
            Format::Table => {
                print(&format!("{name}: {}\n{}\n", exhibit.place, table::table(rows)))?;
                if !own.is_empty() {
                    print(&format!("{}\n", report::table(&own)))?;
                }
                print(&format!("results in {}\n\n", folder.path().display()))?;
            }
            Format::Json => documents.push(json!({
                "figure": name,
                "results": table::to_json(&name, rows),
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

/// The figures of a paper by name.
fn listed(paper: Paper) -> String {
    let mut text = format!("{}\n", paper.title());
    for exhibit in paper.exhibits() {
        text.push_str(&format!("  {} {:<8}{}\n", paper.name(), exhibit.name, exhibit.place));
    }
    text
}

/// Writes the page into the folder of the results.
fn write_page(order: &Order, findings: &BTreeMap<Paper, Findings>, checked: &[Checked], out: &Path) -> Result<()> {
    let mut shown = Vec::new();
    for Item { paper, exhibit } in order.on_page() {
        let Some(report) = findings.get(&paper).and_then(|found| found.report(exhibit.name)) else { continue };
        let mut pictures = Vec::new();
        for file in report.figures.iter().filter(|file| file.extension().is_some_and(|ending| ending == "svg")) {
            pictures.push(fs::read_to_string(file).map_err(|cause| Error::unreadable(file, &cause))?);
        }
        let text = (!report.undrawn.is_empty()).then(|| report.undrawn.join("\n"));
        let summary = report.folder.summary();
        let numbers = summary.strip_prefix(out).ok().map(|path| path.display().to_string());
        shown.push(Shown { paper, exhibit, pictures, text, numbers });
    }
    let page = page::html(&shown, checked);
    write_whole(&out.join("index.html"), |file| file.write_all(page.as_bytes()))
}
