//! `batchlab reproduce`.

mod order;

use std::collections::BTreeMap;
use std::iter;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use self::order::{Item, Order};
use super::parts::Parts;
use super::render::{Shown, print, width};
use super::sim::tell_of_locks;
use super::{Common, progress, stop_on_ctrl_c};
use crate::error::{Error, Result};
use crate::experiment::executor::{Target, Verify};
use crate::experiment::lock::Lock;
use crate::experiment::shard::Point;
use crate::experiment::standard::Cpu;
use crate::experiment::{self, Options, Report};
use crate::files::write_whole;
use crate::metrics::bounds::Bounds;
use crate::papers::lab::{Keep, Lab, NUMBERS};
use crate::papers::{Checked, Exhibit, Findings, Launches, Made, Measured, Paper, carry_out, check, jit, report};
use crate::plot::{self, Figure, Inputs, Kind};
use crate::policy::registry::Registry;
use crate::results::saved::Saved;
use crate::results::{summary, table};
use crate::scenario::Scenario;

/// Reproduce the papers' figures, or check their claims
///
/// `list` names the figures. `batchmaker fig13a` runs the scenario of a figure, draws it and checks the paper's claims about it.
/// `claims` checks all claims of a paper: the paper's value, ours, the gap and the reason. `all` does all of this and writes a
/// page, index.html. Without a paper, `list`, `claims` and `all` cover every paper.
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    /// batchmaker, late, jit, dvabatch or grnn, then names of figures, list, claims or all; or neighbours, all policies side by
    /// side; or continuous, from padding to continuous batching
    #[arg(required = true, value_name = "[PAPER] FIGURE")]
    pub what: Vec<String>,

    /// Folder of the papers' scenarios; without a folder scenarios, those inside the program
    #[arg(long, value_name = "DIR", default_value = "scenarios")]
    pub scenarios: PathBuf,

    /// Folder with trees/sick_test.txt and jit/sick_test_order.csv, for jit [default: $BATCHLAB_DATA]
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,

    /// Times of persistent kernels on a GPU, to compare with GRNN's (from grnn tune --out or scripts/gpu-check.sh)
    #[arg(long, value_name = "FILE")]
    pub measured: Option<PathBuf>,

    /// Also measure jit table2 on this processor, which takes a minute; with a folder of data on SICK's trees, otherwise on
    /// generated ones
    #[arg(long, conflicts_with_all = ["plan", "shard", "merge_only"])]
    pub measure: bool,

    #[command(flatten)]
    pub parts: Parts,

    #[command(flatten)]
    pub common: Common,
}

/// What the order asks for, with the scenarios read.
struct Work {
    /// Those of measurements run on the processor.
    scenarios: Vec<(Item, Scenario)>,
    studies: Vec<Item>,
    launches: Vec<(Item, Option<Launches>)>,
    measured: Option<Measured>,
}

/// Of a study that searches, in requests: a guess, as searches differ.
const STUDY: u64 = 5_000_000;

pub fn run(args: &Args, registry: &Registry) -> Result<()> {
    let order = Order::parse(&args.what)?;
    for paper in &order.list {
        print(&listed(*paper))?;
    }
    let items = order.items();
    if items.is_empty() {
        return Ok(());
    }
    let (parts, common, out) = (&args.parts, &args.common, args.common.out("reproduce"));
    let work = Work::read(&items, args, registry)?;
    if args.measure && !work.scenarios.iter().any(|(item, _)| item.is_measured()) {
        common.note("--measure has no effect; it is for jit table2");
    }
    let points = work.points(&out, parts)?;
    if parts.plan {
        return parts.show(&points, common.shown);
    }
    if parts.merge_only {
        Parts::refuse_missing(&points, std::slice::from_ref(&out))?;
    }
    if !args.scenarios.is_dir() {
        common.note("built-in files: scenarios, traces");
    }
    let lock = Lock::take(&out, parts.shard)?;
    tell_of_locks(common, lock.held);
    let findings = work.carried_out(args, &out, registry, &points)?;
    if let Some(shard) = parts.shard {
        common.note(format!("shard {shard}: its points are finished in {}", out.display()));
        return common.shown.several().end();
    }
    let mut checked = Vec::new();
    for (paper, found) in &findings {
        checked.extend(check(*paper, found)?);
    }
    if !order.all.is_empty() {
        write_page(&order, &findings, &checked, &out)?;
        common.note(format!("the figures and their claims: {}", out.join("index.html").display()));
    }
    lock.complete();
    tell(&order, &findings, &checked, common.shown)
}

fn file(args: &Args, paper: Paper, name: &str) -> PathBuf {
    args.scenarios.join(paper.name()).join(format!("{name}.toml"))
}

impl Work {
    /// Reads all scenarios first.
    fn read(items: &[Item], args: &Args, registry: &Registry) -> Result<Work> {
        let measured = args.measured.as_deref().map(Measured::read).transpose()?;
        let mut work = Work { scenarios: Vec::new(), studies: Vec::new(), launches: Vec::new(), measured };
        for item in items {
            match item.exhibit.made {
                Made::Study => work.studies.push(*item),
                Made::Scenario => {
                    let file = file(args, item.paper, &item.exhibit.name);
                    work.scenarios.push((*item, args.common.scenario_with(&file, &[], registry)?));
                }
                Made::Measurement if args.measure => {
                    let trees = jit::data(args.data.as_deref())?.map(|[trees, _]| trees);
                    let trees = trees.map(|trees| format!("workload.dataset={}", trees.display()));
                    let file = file(args, item.paper, &item.exhibit.name);
                    let more: Vec<String> = trees.into_iter().collect();
                    work.scenarios.push((*item, args.common.scenario_with(&file, &more, registry)?));
                }
                Made::Measurement => work.launches.push((*item, None)),
                Made::Count => work.launches.push((*item, Launches::of(args.data.as_deref())?)),
            }
        }
        Ok(work)
    }

    fn options(out: &Path, item: &Item, parts: &Parts) -> Options {
        let out = out.join(item.paper.name());
        let stated = item.paper.stated(item.exhibit);
        Options { target: Target::SIM, out, replications: 1, resume: parts.keeps(), shard: None, stated }
    }

    /// Those of the scenarios, and each study as one. Which are finished is looked at if it matters.
    fn points(&self, out: &Path, parts: &Parts) -> Result<Vec<Point>> {
        let mut points = Vec::new();
        for (item, scenario) in &self.scenarios {
            let (scenario, options) = (std::slice::from_ref(scenario), Work::options(out, item, parts));
            points.extend(experiment::points(scenario, &options, parts.plan || parts.merge_only)?);
        }
        points.extend(self.studies.iter().map(|item| Point {
            scenario: item.name(),
            replication: 1,
            // GRNN's are a model without runs.
            cost: if item.paper == Paper::Grnn { 1 } else { STUDY },
            // The merge looks at its runs and searches.
            finished: out.join(item.paper.name()).join(&item.exhibit.name).join(NUMBERS).is_file(),
            ..Point::default()
        }));
        Ok(points)
    }

    fn carried_out(
        self,
        args: &Args,
        out: &Path,
        registry: &Registry,
        points: &[Point],
    ) -> Result<BTreeMap<Paper, Findings>> {
        let (common, parts, stop) = (&args.common, &args.parts, stop_on_ctrl_c()?);
        let mut findings: BTreeMap<Paper, Findings> = BTreeMap::new();
        for (item, launches) in self.launches {
            findings.entry(item.paper).or_default().launches.insert(item.exhibit.name.clone(), launches);
        }
        let own = parts.own(points).map_or(vec![true; points.len()], |(_, own)| own);
        let (own, own_studies) = own.split_at(points.len() - self.studies.len());
        let mut rest = own;
        let bar = progress(common.quiet, own.iter().filter(|own| **own).count(), "runs", "");
        for (item, scenario) in self.scenarios {
            bar.set_message(item.name());
            let runs = rest.split_off(..scenario.policies.len() * scenario.points().len()).expect("each has a value");
            let shard = parts.shard.map(|shard| (shard, runs.to_vec()));
            if shard.is_some() && !runs.contains(&true) {
                continue;
            }
            let mut options = Options { shard, ..Work::options(out, &item, parts) };
            if item.is_measured() {
                options = Options { target: Target::Real(&Cpu, Verify::Sample), resume: false, ..options };
            }
            let mut report = common.on_threads(|| experiment::run(&scenario, &options, stop, &|| bar.inc(1)))?;
            if report.interrupted() {
                return Err(Error::Interrupted);
            }
            let other = |name: &String| findings.get(&item.paper)?.report(name);
            if let Some(other) = item.exhibit.beside.as_ref().and_then(other) {
                let figure = one_figure(&[other, &report], &options.out.join(&item.exhibit.name))?;
                report.figures.splice(..0, figure);
            }
            for why in &report.undrawn {
                common.note(format!("{}: no figure: {why}", item.name()));
            }
            findings.entry(item.paper).or_default().runs.insert(item.exhibit.name.clone(), (scenario, report));
        }
        bar.finish_and_clear();
        let studies = self.studies.iter().zip(own_studies).filter_map(|(item, own)| own.then_some(*item));
        let studies: Vec<Item> = studies.collect();
        // A search's number of runs is not known in advance.
        let bar = progress(common.quiet, studies.len(), "runs", "");
        let tick = || bar.tick();
        let keep = match parts {
            Parts { merge_only: true, .. } => Keep::Only,
            Parts { shard: None, resume: false, .. } => Keep::Nothing,
            Parts { shard, .. } => Keep::All(*shard),
        };
        for of_paper in studies.chunk_by(|a, b| a.paper == b.paper) {
            let paper = of_paper[0].paper;
            let load = |name: &str, sets: &[String]| common.scenario_with(&file(args, paper, name), sets, registry);
            let lab = Lab::new(&load, out.join(paper.name()), self.measured.as_ref(), keep, stop, &tick);
            for item in of_paper {
                bar.set_message(item.name());
                let study = common.on_threads(|| carry_out(paper, item.exhibit, &lab))?;
                findings.entry(paper).or_default().studies.insert(item.exhibit.name.clone(), study);
                bar.inc(1);
            }
        }
        bar.finish_and_clear();
        if let Some(found) = findings.get_mut(&Paper::Grnn) {
            found.measured = self.measured;
        }
        Ok(findings)
    }
}

/// Named figures with their claims, or all claims.
fn tell(order: &Order, findings: &BTreeMap<Paper, Findings>, checked: &[Checked], shown: Shown) -> Result<()> {
    let mut shown = shown.several();
    for item in &order.named {
        let own = |one: &&Checked| one.paper == item.paper && one.claim.exhibits.first() == Some(&item.exhibit.name);
        let own: Vec<Checked> = checked.iter().filter(own).cloned().collect();
        let Results { text, json, .. } = results(&findings[&item.paper], item);
        let claims = || if own.is_empty() { String::new() } else { format!("{}\n", report::table(&own)) };
        shown.show(
            || format!("{}: {}\n{text}\n{}", item.name(), item.exhibit.place, claims()),
            || json!({ "figure": item.name(), "results": json, "claims": report::to_json(&own) }),
        )?;
    }
    if !order.claims.is_empty() {
        let claims: Vec<Checked> = checked.iter().filter(|one| order.claims.contains(&one.paper)).cloned().collect();
        shown.show(|| report::table(&claims) + &report::by_paper(&claims), || report::to_json(&claims))?;
    }
    shown.end()
}

/// Of an exhibit, for a reader, for a program, and for the page.
struct Results<'a> {
    text: String,
    json: Value,
    figures: &'a [Figure],
    note: String,
    numbers: Option<PathBuf>,
}

/// Latencies of the same requests under the policies of several reports. `None` if there are too few for a p99.
fn one_figure(reports: &[&Report], stem: &Path) -> Result<Option<Figure>> {
    let folders: Vec<&Path> = reports.iter().map(|report| &*report.folder.path).collect();
    let drawn = Kind::LatencyRate.drawn(&Inputs::open(&folders)?, &plot::Options::default());
    drawn.ok().map(|canvas| plot::write(canvas, None, stem)).transpose()
}

fn results<'a>(found: &'a Findings, item: &Item) -> Results<'a> {
    let exhibit = &item.exhibit.name;
    if let Some(study) = found.studies.get(exhibit) {
        let file = study.numbers.as_ref().map_or(String::new(), |file| format!("numbers in {}\n", file.display()));
        return Results {
            text: format!("{}\n{file}", study.table()),
            json: study.to_json(),
            figures: &study.figures,
            note: study.note.clone(),
            numbers: study.numbers.clone(),
        };
    }
    if let Some(report) = found.report(exhibit).filter(|_| item.is_measured()) {
        let trees = found.run(exhibit).map_or("", |(scenario, _)| &scenario.workload.source().given);
        let text = jit::measured(report).unwrap_or_else(|error| format!("{error}\n"));
        let text = format!("{text}trees: {trees}; results in {}\n", report.folder.path.display());
        let json = summary::to_json(&item.name(), &report.rows);
        return Results { note: text.clone(), text, json, figures: &[], numbers: Some(report.folder.summary()) };
    }
    if let Some(report) = found.report(exhibit) {
        let (table, bounds) = (table::table(&report.rows, width()), bounds(&report.folder.path));
        return Results {
            text: format!("{table}\n{bounds}results in {}\n", report.folder.path.display()),
            json: summary::to_json(&item.name(), &report.rows),
            figures: &report.figures,
            note: report.undrawn.join("\n") + &bounds,
            numbers: Some(report.folder.summary()),
        };
    }
    let (text, json) = match found.launches(exhibit) {
        None => (jit::not_at_hand(exhibit), Value::Null),
        Some(launches) => (launches.table(), json!(launches)),
    };
    Results { note: text.clone(), text, json, figures: &[], numbers: None }
}

/// The floor and the ceiling, which no policy can beat.
fn bounds(folder: &Path) -> String {
    let Ok(Some(Bounds { floor, ceiling_rps, .. })) = Saved::open(folder).and_then(|saved| saved.bounds()) else {
        return String::new();
    };
    let percentiles = [("p50", floor.p50_ms), ("p90", floor.p90_ms), ("p99", floor.p99_ms)];
    let percentiles = percentiles.iter().filter_map(|(name, ms)| ms.map(|ms| format!("{name} {ms:.3} ms")));
    let floor = format!("floor: {}\n", percentiles.collect::<Vec<_>>().join(", "));
    let ceiling = ceiling_rps.map_or(String::new(), |rate| format!("ceiling: {rate:.0} requests/s\n"));
    floor + &ceiling
}

fn listed(paper: Paper) -> String {
    let width = paper.exhibits().iter().map(|exhibit| exhibit.name.len()).max().unwrap_or(0);
    let line = |exhibit: &Exhibit| format!("  {} {:<width$}  {}\n", paper.name(), exhibit.name, exhibit.place);
    iter::once(format!("{}\n", paper.title())).chain(paper.exhibits().iter().map(line)).collect()
}

fn write_page(order: &Order, findings: &BTreeMap<Paper, Findings>, checked: &[Checked], out: &Path) -> Result<()> {
    let mut shown = Vec::new();
    for item in order.on_page() {
        let Results { figures, note, numbers, .. } = results(&findings[&item.paper], &item);
        let below = |file: PathBuf| Some(file.strip_prefix(out).ok()?.display().to_string());
        shown.push(report::Shown {
            paper: item.paper,
            exhibit: item.exhibit,
            figures,
            text: Some(note).filter(|note| !note.is_empty()),
            report: findings[&item.paper].report(&item.exhibit.name),
            numbers: numbers.and_then(below),
        });
    }
    let page = report::html(&shown, checked);
    write_whole(&out.join("index.html"), |file| file.write_all(page.as_bytes()))
}
