//! `batchlab reproduce`.

mod order;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;

use indicatif::ProgressBar;
use serde_json::json;

use self::order::Order;
use super::parts::Parts;
use super::render::{Several, Shown, print, terminal_width};
use super::sim::note_missing_locks;
use super::{Common, progress, stop_on_ctrl_c};
use crate::base::error::Result;
use crate::base::files::write_whole;
use crate::base::shipped::GRNN_MEASURED;
use crate::core::policy::registry::Registry;
use crate::lab::run::lock::Lock;
use crate::papers::measured::GpuTimes;
use crate::papers::paper::ExhibitKind;
use crate::papers::report::{ExhibitReport, claims_as_json, claims_as_text, html, table_by_paper};
use crate::papers::reproduction::{Controls, Progress, Workspace};
use crate::papers::{CheckedClaim, Exhibit, Findings, Paper, ReproductionPlan, check_claims};

/// Reproduce the papers' figures, or check their claims
///
/// `list` names the figures. `batchmaker fig13a` runs the scenario of a figure, draws it and checks the paper's claims
/// about it. `claims` checks all claims of a paper, without figures: the paper's value, ours, the gap and the reason.
/// `all` does all of this and writes a page, index.html. Without a paper, `list`, `claims` and `all` cover every paper.
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    /// batchmaker, late, jit, dvabatch or grnn, then names of figures, list, claims or all; or neighbours, all policies
    /// side by side; or continuous, from padding to continuous batching
    #[arg(required = true, value_name = "[PAPER] FIGURE")]
    pub what: Vec<String>,

    /// Folder of the papers' scenarios; without a folder scenarios, those inside the program
    #[arg(long, value_name = "DIR", default_value = "scenarios")]
    pub scenarios: PathBuf,

    /// Folder with trees/sick_test.txt and jit/sick_test_order.csv, for jit [default: $BATCHLAB_DATA]
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,

    /// Times of persistent kernels on a GPU, to compare with GRNN's (from grnn tune --out or scripts/gpu-check.sh); the
    /// default, an H100's, is inside the program
    #[arg(long, value_name = "FILE", default_value = GRNN_MEASURED)]
    pub measured: PathBuf,

    /// Also measure jit table2 on this processor, which takes a minute; with a folder of data on SICK's trees,
    /// otherwise on generated ones
    #[arg(long, conflicts_with_all = ["plan", "shard", "merge_only"])]
    pub measure: bool,

    #[command(flatten)]
    pub parts: Parts,

    #[command(flatten)]
    pub common: Common,
}

pub fn run(args: &Args, registry: &Registry) -> Result<()> {
    let order = Order::parse(&args.what)?;
    for paper in &order.list {
        print(&list_exhibits(*paper))?;
    }
    let exhibits = order.exhibits();
    if exhibits.is_empty() {
        return Ok(());
    }
    reproduce(args, registry, &order, &exhibits)
}

fn reproduce(
    args: &Args,
    registry: &Registry,
    order: &Order,
    exhibits: &[&'static Exhibit],
) -> Result<()> {
    let parts = &args.parts;
    let common = &args.common;
    let read_scenario = |paper: Paper, name: &str, overrides: &[String]| {
        let folder = args.scenarios.join(paper.name());
        common.scenario_with(&folder.join(format!("{name}.toml")), overrides, registry)
    };
    let workspace = Workspace {
        read_scenario: &read_scenario,
        data: args.data.clone(),
        measures: args.measure,
        gpu_times: GpuTimes::read(&args.measured)?,
        draws: order.shows_figures(),
        out: common.out("reproduce"),
        resume: parts.resume,
        merge_only: parts.merge_only,
        shard: parts.shard,
        window_peaks: Mutex::default(),
        known_peaks: Mutex::default(),
    };
    let plan = ReproductionPlan::open(exhibits, &workspace, parts.earlier_results())?;
    let has_measurement = exhibits
        .iter()
        .any(|exhibit| exhibit.kind == ExhibitKind::Measurement);
    if args.measure && !has_measurement {
        common.note("--measure has no effect; it is for jit table2");
    }
    if parts.plan {
        return parts.show(&plan.points, common.shown);
    }
    if parts.merge_only {
        Parts::refuse_missing(&plan.points, std::slice::from_ref(&workspace.out))?;
    }
    if !args.scenarios.is_dir() {
        common.note("built-in files: scenarios, traces");
    }
    let lock = Lock::take(&workspace.out, parts.shard)?;
    note_missing_locks(common, lock.held);
    let findings = run_plan(plan, args)?;
    let out = &workspace.out;
    if let Some(shard) = parts.shard {
        common.note(format!(
            "shard {shard}: its points are finished in {}",
            out.display()
        ));
        return common.shown.several().end();
    }
    let mut checked = Vec::new();
    for (paper, found) in &findings {
        checked.extend(check_claims(*paper, found)?);
    }
    if !order.all.is_empty() {
        let page = html(&order.page_exhibits(), &findings, &checked, out);
        let file = out.join("index.html");
        write_whole(&file, |file| file.write_all(page.as_bytes()))?;
        common.note(format!("the figures and their claims: {}", file.display()));
    }
    lock.complete();
    show_results(order, &findings, &checked, common.shown)
}

/// Runs the points of this call, with a bar.
fn run_plan(plan: ReproductionPlan<'_>, args: &Args) -> Result<BTreeMap<Paper, Findings>> {
    let common = &args.common;
    let own = match args.parts.select_points(&plan.points) {
        Some((_, own)) => own,
        None => vec![true; plan.points.len()],
    };
    let count = own.iter().filter(|own| **own).count();
    let reporter = BarReporter {
        bar: progress(common.quiet, count, "runs", ""),
        common,
    };
    let controls = Controls {
        stop: stop_on_ctrl_c()?,
        progress: &reporter,
    };
    let findings = common.run_on_threads(|| plan.run(&own, &controls))?;
    reporter.bar.finish_and_clear();
    Ok(findings)
}

/// Shows progress as a bar, and notes on standard error.
struct BarReporter<'a> {
    bar: ProgressBar,
    common: &'a Common,
}

impl Progress for BarReporter<'_> {
    fn begin(&self, exhibit: &Exhibit) {
        self.bar.set_message(exhibit.full_name());
    }

    fn finish_point(&self) {
        self.bar.inc(1);
    }

    fn tick(&self) {
        self.bar.tick();
    }

    fn note(&self, text: String) {
        self.common.note(text);
    }
}

/// Shows the named figures with their claims, then all claims of papers.
fn show_results(
    order: &Order,
    findings: &BTreeMap<Paper, Findings>,
    checked: &[CheckedClaim],
    shown: Shown,
) -> Result<()> {
    let mut results = shown.several();
    for exhibit in &order.named {
        let own: Vec<CheckedClaim> = checked
            .iter()
            .filter(|one| one.claim.is_with(exhibit))
            .cloned()
            .collect();
        show_exhibit(exhibit, findings, &own, &mut results)?;
    }
    if !order.claims.is_empty() {
        let claims: Vec<CheckedClaim> = checked
            .iter()
            .filter(|one| order.claims.contains(&one.claim.paper))
            .cloned()
            .collect();
        results.show(
            || claims_as_text(&claims) + &table_by_paper(&claims),
            || claims_as_json(&claims),
        )?;
    }
    results.end()
}

fn show_exhibit(
    exhibit: &Exhibit,
    findings: &BTreeMap<Paper, Findings>,
    claims: &[CheckedClaim],
    results: &mut Several,
) -> Result<()> {
    let name = exhibit.full_name();
    let ExhibitReport { text, json, .. } = ExhibitReport::new(exhibit, findings, terminal_width());
    let mut table = format!("{name}: {}\n{text}\n", exhibit.place);
    if !claims.is_empty() {
        table += &format!("{}\n", claims_as_text(claims));
    }
    results.show(
        || table,
        || json!({ "figure": name, "results": json, "claims": claims_as_json(claims) }),
    )
}

/// The title of a paper, and a line for each of its exhibits.
fn list_exhibits(paper: Paper) -> String {
    let exhibits = paper.exhibits();
    let width = exhibits.iter().map(|exhibit| exhibit.name.len()).max();
    let width = width.unwrap_or(0);
    let mut text = format!("{}\n", paper.title());
    for exhibit in exhibits {
        text += &format!(
            "  {} {:<width$}  {}\n",
            paper.name(),
            exhibit.name,
            exhibit.place
        );
    }
    text
}
