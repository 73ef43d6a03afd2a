//! `batchlab reproduce`.

mod order;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::{fs, iter, mem};

use serde_json::json;

use self::order::Order;
use super::parts::Parts;
use super::render::{Shown, print, terminal_width};
use super::sim::note_missing_locks;
use super::{Common, progress, stop_on_ctrl_c};
use crate::base::error::{Error, Result};
use crate::base::files::write_whole;
use crate::base::shipped::GRNN_MEASURED;
use crate::core::policy::registry::Registry;
use crate::lab::figures::{self, ScenarioFigures};
use crate::lab::plot::{self, FigureKind, PlotInputs, WrittenFigure};
use crate::lab::run::executor::{SelectedBackend, Verify};
use crate::lab::run::lock::Lock;
use crate::lab::run::shard::PlannedPoint;
use crate::lab::run::standard::Cpu;
use crate::lab::run::{self, RunOptions, RunReport};
use crate::lab::scenario::Scenario;
use crate::papers::lab::{Keep, Lab, NUMBERS, SEARCHES};
use crate::papers::{
    Checked, Exhibit, Findings, Found, Item, Launches, Made, Measured, Paper, carry_out, check,
    jit, report,
};

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

    /// Times of persistent kernels on a GPU, to compare with GRNN's (from grnn tune --out or scripts/gpu-check.sh); the default, an
    /// H100's, is inside the program
    #[arg(long, value_name = "FILE", default_value = GRNN_MEASURED)]
    pub measured: PathBuf,

    /// Also measure jit table2 on this processor, which takes a minute; with a folder of data on SICK's trees, otherwise on
    /// generated ones
    #[arg(long, conflicts_with_all = ["plan", "shard", "merge_only"])]
    pub measure: bool,

    #[command(flatten)]
    pub parts: Parts,

    #[command(flatten)]
    pub common: Common,
}

/// What the order asks for, with the scenarios read and the launches counted.
struct Work<'a> {
    args: &'a Args,
    registry: &'a Registry,
    out: PathBuf,
    /// Those of measurements run on the processor.
    scenarios: Vec<(Item, Scenario)>,
    studies: Vec<Item>,
    findings: BTreeMap<Paper, Findings>,
    measured: Measured,
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
    let (parts, common) = (&args.parts, &args.common);
    let work = Work::read(&items, args, registry)?;
    let out = work.out.clone();
    if args.measure && !work.scenarios.iter().any(|(item, _)| item.is_measured()) {
        common.note("--measure has no effect; it is for jit table2");
    }
    let points = work.points()?;
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
    note_missing_locks(common, lock.held);
    let findings = work.carried_out(&points)?;
    if let Some(shard) = parts.shard {
        common.note(format!(
            "shard {shard}: its points are finished in {}",
            out.display()
        ));
        return common.shown.several().end();
    }
    let checked = findings
        .iter()
        .map(|(paper, found)| check(*paper, found))
        .collect::<Result<Vec<_>>>()?
        .concat();
    if !order.all.is_empty() {
        let (page, file) = (
            report::html(&order.on_page(), &findings, &checked, &out),
            out.join("index.html"),
        );
        write_whole(&file, |file| file.write_all(page.as_bytes()))?;
        common.note(format!("the figures and their claims: {}", file.display()));
    }
    lock.complete();
    tell(&order, &findings, &checked, common.shown)
}

fn insert(findings: &mut BTreeMap<Paper, Findings>, item: &Item, found: Found) {
    findings
        .entry(item.paper)
        .or_default()
        .exhibits
        .insert(item.exhibit.name.clone(), found);
}

impl<'a> Work<'a> {
    /// Reads all scenarios first.
    fn read(items: &[Item], args: &'a Args, registry: &'a Registry) -> Result<Work<'a>> {
        let measured = Measured::read(&args.measured)?;
        let (out, findings) = (args.common.out("reproduce"), BTreeMap::new());
        let mut work = Work {
            args,
            registry,
            out,
            scenarios: Vec::new(),
            studies: Vec::new(),
            findings,
            measured,
        };
        for item in items {
            let data = args.data.as_deref();
            match item.exhibit.made {
                Made::Study => work.studies.push(*item),
                Made::Count => insert(
                    &mut work.findings,
                    item,
                    Launches::of(data)?.map_or(Found::Missing, Found::Launches),
                ),
                Made::Measurement if !args.measure => {
                    insert(&mut work.findings, item, Found::Missing)
                }
                Made::Scenario | Made::Measurement => {
                    let trees = if item.is_measured() {
                        jit::data(data)?
                    } else {
                        None
                    };
                    let trees =
                        trees.map(|[trees, _]| format!("workload.dataset={}", trees.display()));
                    let scenario =
                        work.scenario(item.paper, &item.exhibit.name, &Vec::from_iter(trees))?;
                    work.scenarios.push((*item, scenario));
                }
            }
        }
        Ok(work)
    }

    fn scenario(&self, paper: Paper, name: &str, sets: &[String]) -> Result<Scenario> {
        let file = self
            .args
            .scenarios
            .join(paper.name())
            .join(format!("{name}.toml"));
        self.args.common.scenario_with(&file, sets, self.registry)
    }

    fn options(&self, item: &Item) -> RunOptions {
        let (out, resume) = (self.out.join(item.paper.name()), self.args.parts.keeps());
        RunOptions {
            backend: SelectedBackend::SIM,
            out,
            replications: 1,
            resume,
            shard: None,
        }
    }

    /// Those of the scenarios, and each study as one. Which are finished is looked at if it matters.
    fn points(&self) -> Result<Vec<PlannedPoint>> {
        let mut points = Vec::new();
        let looked_at = self.args.parts.plan || self.args.parts.merge_only;
        for (item, scenario) in &self.scenarios {
            points.extend(run::points(
                std::slice::from_ref(scenario),
                &self.options(item),
                looked_at,
            )?);
        }
        points.extend(self.studies.iter().map(|item| {
            PlannedPoint {
                scenario: item.name(),
                replication: 1,
                // GRNN's are a model without runs.
                cost: if item.paper == Paper::Grnn { 1 } else { STUDY },
                // The merge looks at its runs and searches.
                finished: self
                    .out
                    .join(item.paper.name())
                    .join(&item.exhibit.name)
                    .join(NUMBERS)
                    .is_file(),
                ..PlannedPoint::default()
            }
        }));
        Ok(points)
    }

    fn carried_out(mut self, points: &[PlannedPoint]) -> Result<BTreeMap<Paper, Findings>> {
        let mut findings = mem::take(&mut self.findings);
        let (common, parts, stop) = (&self.args.common, &self.args.parts, stop_on_ctrl_c()?);
        let own = parts
            .own(points)
            .map_or(vec![true; points.len()], |(_, own)| own);
        let (own, own_studies) = own.split_at(points.len() - self.studies.len());
        let mut rest = own;
        let bar = progress(
            common.quiet,
            own.iter().filter(|own| **own).count(),
            "runs",
            "",
        );
        for (item, scenario) in mem::take(&mut self.scenarios) {
            bar.set_message(item.name());
            let runs = rest
                .split_off(..scenario.policies.len() * scenario.points().len())
                .expect("each has a value");
            let shard = parts.shard.map(|shard| (shard, runs.to_vec()));
            if shard.is_some() && !runs.contains(&true) {
                continue;
            }
            let mut options = RunOptions {
                shard,
                ..self.options(&item)
            };
            if item.is_measured() {
                options = RunOptions {
                    backend: SelectedBackend::Real(&Cpu, Verify::Sample),
                    resume: false,
                    ..options
                };
            }
            let report =
                common.on_threads(|| run::run(&scenario, &options, stop, &|| bar.inc(1)))?;
            if report.is_interrupted() {
                return Err(Error::Interrupted);
            }
            let mut figures = ScenarioFigures::default();
            if options.shard.is_none() {
                let stated = item.paper.stated(item.exhibit);
                figures = figures::draw(&scenario, &report.folder.path, &stated)?;
            }
            let other = |name: &String| Some(&findings.get(&item.paper)?.run(name).ok()?.1);
            if let Some(other) = item.exhibit.beside.as_ref().and_then(other) {
                let figure = one_figure(&[other, &report], &options.out.join(&item.exhibit.name))?;
                figures.drawn.splice(..0, figure);
            }
            figures
                .undrawn
                .iter()
                .for_each(|why| common.note(format!("{}: no figure: {why}", item.name())));
            insert(
                &mut findings,
                &item,
                Found::Run(Box::new((scenario, report)), figures),
            );
        }
        bar.finish_and_clear();
        let studies = self
            .studies
            .iter()
            .zip(own_studies)
            .filter_map(|(item, own)| own.then_some(*item));
        let studies: Vec<Item> = studies.collect();
        // A search's number of runs is not known in advance.
        let bar = progress(common.quiet, studies.len(), "runs", "");
        let tick = || bar.tick();
        let keep = match parts {
            Parts {
                merge_only: true, ..
            } => Keep::Only,
            Parts {
                shard: None,
                resume: false,
                ..
            } => Keep::Nothing,
            Parts { shard, .. } => Keep::All(*shard),
        };
        for of_paper in studies.chunk_by(|a, b| a.paper == b.paper) {
            let paper = of_paper[0].paper;
            let load = |name: &str, sets: &[String]| self.scenario(paper, name, sets);
            let (out, measured) = (self.out.join(paper.name()), &self.measured);
            if keep == Keep::Nothing {
                // Those of other settings would stay for ever.
                let _ = fs::remove_dir_all(out.join(SEARCHES));
            }
            let lab = Lab {
                load: &load,
                out,
                measured,
                keep,
                stop,
                progress: &tick,
                tried: Mutex::default(),
            };
            for item in of_paper {
                bar.set_message(item.name());
                let study = common.on_threads(|| carry_out(paper, item.exhibit, &lab))?;
                insert(&mut findings, item, Found::Study(study));
                bar.inc(1);
            }
        }
        bar.finish_and_clear();
        if let Some(found) = findings.get_mut(&Paper::Grnn) {
            found.measured = Some(self.measured);
        }
        Ok(findings)
    }
}

/// Named figures with their claims, or all claims.
fn tell(
    order: &Order,
    findings: &BTreeMap<Paper, Findings>,
    checked: &[Checked],
    shown: Shown,
) -> Result<()> {
    let mut shown = shown.several();
    for item in &order.named {
        let own: Vec<Checked> = checked
            .iter()
            .filter(|one| one.is_with(item))
            .cloned()
            .collect();
        let report::Shown { text, json, .. } = report::Shown::of(item, findings, terminal_width());
        let claims = || {
            if own.is_empty() {
                String::new()
            } else {
                format!("{}\n", report::table(&own))
            }
        };
        let text = || {
            format!(
                "{}: {}\n{text}\n{}",
                item.name(),
                item.exhibit.place,
                claims()
            )
        };
        shown.show(
            text,
            || json!({ "figure": item.name(), "results": json, "claims": report::to_json(&own) }),
        )?;
    }
    if !order.claims.is_empty() {
        let claims: Vec<Checked> = checked
            .iter()
            .filter(|one| order.claims.contains(&one.paper))
            .cloned()
            .collect();
        shown.show(
            || report::table(&claims) + &report::by_paper(&claims),
            || report::to_json(&claims),
        )?;
    }
    shown.end()
}

/// Latencies of the same requests under the policies of several reports. `None` if there are too few for a p99.
fn one_figure(reports: &[&RunReport], stem: &Path) -> Result<Option<WrittenFigure>> {
    let folders: Vec<&Path> = reports.iter().map(|report| &*report.folder.path).collect();
    let drawn =
        FigureKind::LatencyRate.draw(&PlotInputs::open(&folders)?, &plot::PlotOptions::default());
    drawn
        .ok()
        .map(|canvas| plot::write(canvas, &[], stem))
        .transpose()
}

fn listed(paper: Paper) -> String {
    let width = paper
        .exhibits()
        .iter()
        .map(|exhibit| exhibit.name.len())
        .max()
        .unwrap_or(0);
    let line = |exhibit: &Exhibit| {
        format!(
            "  {} {:<width$}  {}\n",
            paper.name(),
            exhibit.name,
            exhibit.place
        )
    };
    iter::once(format!("{}\n", paper.title()))
        .chain(paper.exhibits().iter().map(line))
        .collect()
}
