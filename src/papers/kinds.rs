//! The four kinds of exhibits as reproductions.

use std::path::Path;

use super::findings::{ExhibitResult, Findings};
use super::jit::launches::{self, TreeInputs};
use super::paper::{Exhibit, ExhibitKind, Paper};
use super::reproduction::{Controls, Reproduction, Workspace};
use super::study::NUMBERS;
use super::study_runner::StudyRunner;
use super::{dvabatch, grnn};
use crate::base::error::{Error, Result};
use crate::lab::figures::{self, ScenarioFigures};
use crate::lab::plot::{self, FigureKind, PlotInputs, WrittenFigure};
use crate::lab::run::executor::{SelectedBackend, Verify};
use crate::lab::run::folder::EarlierResults;
use crate::lab::run::shard::PlannedPoint;
use crate::lab::run::standard::CpuExecutor;
use crate::lab::run::{self, RunOptions, RunReport};
use crate::lab::scenario::Scenario;

/// Reads the inputs of an exhibit.
pub fn open(exhibit: &'static Exhibit, workspace: &Workspace<'_>) -> Result<Box<dyn Reproduction>> {
    Ok(match exhibit.kind {
        ExhibitKind::Scenario => {
            let scenario = (workspace.read_scenario)(exhibit.paper, &exhibit.name, &[])?;
            Box::new(ScenarioRun { exhibit, scenario })
        }
        ExhibitKind::Study => Box::new(StudyRun { exhibit }),
        ExhibitKind::Count => {
            let trees = TreeInputs::read(workspace.data.as_deref())?;
            Box::new(LaunchCount { exhibit, trees })
        }
        ExhibitKind::Measurement => Box::new(Measurement::open(exhibit, workspace)?),
    })
}

/// A scenario on the simulator.
struct ScenarioRun {
    exhibit: &'static Exhibit,
    scenario: Scenario,
}

impl ScenarioRun {
    fn options(&self, workspace: &Workspace<'_>) -> RunOptions {
        RunOptions {
            backend: SelectedBackend::SIM,
            out: workspace.folder(self.exhibit.paper),
            replications: 1,
            resume: workspace.keeps_points(),
            shard: None,
        }
    }

    fn run_with(
        self,
        options: &RunOptions,
        draws: bool,
        findings: &Findings,
        controls: &Controls<'_>,
    ) -> Result<ExhibitResult> {
        let progress = || controls.progress.finish_point();
        let report = run::run(&self.scenario, options, controls.stop, &progress)?;
        if report.is_interrupted() {
            return Err(Error::Interrupted);
        }
        let mut figures = ScenarioFigures::default();
        if draws {
            figures = self.draw(&report, options, findings)?;
        }
        for why in &figures.undrawn {
            let name = self.exhibit.full_name();
            controls.progress.note(format!("{name}: no figure: {why}"));
        }
        let run = Box::new((self.scenario, report));
        Ok(ExhibitResult::Run(run, figures))
    }

    fn draw(
        &self,
        report: &RunReport,
        options: &RunOptions,
        findings: &Findings,
    ) -> Result<ScenarioFigures> {
        let mut figures = ScenarioFigures::default();
        if options.shard.is_none() {
            let stated = self.exhibit.stated_values();
            figures = figures::draw(&self.scenario, &report.folder.path, &stated)?;
        }
        if let Some(name) = &self.exhibit.beside
            && let Ok((_, other)) = findings.run(name)
        {
            let stem = options.out.join(&self.exhibit.name);
            let figure = draw_latencies(&[other, report], &stem)?;
            figures.drawn.splice(..0, figure);
        }
        Ok(figures)
    }
}

impl Reproduction for ScenarioRun {
    fn exhibit(&self) -> &'static Exhibit {
        self.exhibit
    }

    fn points(
        &self,
        workspace: &Workspace<'_>,
        earlier: EarlierResults,
    ) -> Result<Vec<PlannedPoint>> {
        let scenarios = std::slice::from_ref(&self.scenario);
        run::points(scenarios, &self.options(workspace), earlier)
    }

    fn run(
        self: Box<Self>,
        own: &[bool],
        findings: &Findings,
        workspace: &Workspace<'_>,
        controls: &Controls<'_>,
    ) -> Result<ExhibitResult> {
        let options = RunOptions {
            shard: workspace.shard.map(|shard| (shard, own.to_vec())),
            ..self.options(workspace)
        };
        self.run_with(&options, workspace.draws, findings, controls)
    }
}

/// The latencies of the same requests under the policies of several reports, or `None` if there are too few requests
/// for a 99th percentile.
fn draw_latencies(reports: &[&RunReport], stem: &Path) -> Result<Option<WrittenFigure>> {
    let folders: Vec<&Path> = reports
        .iter()
        .map(|report| report.folder.path.as_path())
        .collect();
    let inputs = PlotInputs::open(&folders)?;
    match FigureKind::LatencyRate.draw(&inputs, &plot::PlotOptions::default()) {
        Ok(canvas) => Ok(Some(plot::write(canvas, &[], stem)?)),
        Err(_) => Ok(None),
    }
}

/// A scenario on the processor at hand, or `None` if the user does not ask for it.
struct Measurement {
    exhibit: &'static Exhibit,
    run: Option<ScenarioRun>,
}

impl Measurement {
    fn open(exhibit: &'static Exhibit, workspace: &Workspace<'_>) -> Result<Measurement> {
        if !workspace.measures {
            return Ok(Measurement { exhibit, run: None });
        }
        let mut overrides = Vec::new();
        if let Some(files) = launches::find_files(workspace.data.as_deref())? {
            overrides.push(format!("workload.dataset={}", files.trees.display()));
        }
        let scenario = (workspace.read_scenario)(exhibit.paper, &exhibit.name, &overrides)?;
        let run = Some(ScenarioRun { exhibit, scenario });
        Ok(Measurement { exhibit, run })
    }
}

impl Reproduction for Measurement {
    fn exhibit(&self) -> &'static Exhibit {
        self.exhibit
    }

    fn points(
        &self,
        workspace: &Workspace<'_>,
        earlier: EarlierResults,
    ) -> Result<Vec<PlannedPoint>> {
        match &self.run {
            Some(run) => run.points(workspace, earlier),
            None => Ok(Vec::new()),
        }
    }

    fn run(
        self: Box<Self>,
        _: &[bool],
        findings: &Findings,
        workspace: &Workspace<'_>,
        controls: &Controls<'_>,
    ) -> Result<ExhibitResult> {
        let Some(run) = self.run else {
            return Ok(ExhibitResult::Missing);
        };
        let options = RunOptions {
            backend: SelectedBackend::Real(&CpuExecutor, Verify::Sample),
            resume: false,
            ..run.options(workspace)
        };
        run.run_with(&options, workspace.draws, findings, controls)
    }
}

/// The launches of a tree-LSTM, counted on SICK's trees if there are any.
struct LaunchCount {
    exhibit: &'static Exhibit,
    trees: Option<TreeInputs>,
}

impl Reproduction for LaunchCount {
    fn exhibit(&self) -> &'static Exhibit {
        self.exhibit
    }

    fn points(&self, _: &Workspace<'_>, _: EarlierResults) -> Result<Vec<PlannedPoint>> {
        Ok(Vec::new())
    }

    fn run(
        self: Box<Self>,
        _: &[bool],
        _: &Findings,
        _: &Workspace<'_>,
        _: &Controls<'_>,
    ) -> Result<ExhibitResult> {
        Ok(match self.trees {
            Some(trees) => ExhibitResult::Launches(trees.count_launches()),
            None => ExhibitResult::Missing,
        })
    }
}

/// Several runs after searches, or a model without runs.
struct StudyRun {
    exhibit: &'static Exhibit,
}

/// The estimated cost of a study that searches, in requests. It is a guess, as searches differ.
const STUDY_COST: u64 = 5_000_000;

impl Reproduction for StudyRun {
    fn exhibit(&self) -> &'static Exhibit {
        self.exhibit
    }

    /// A study is one point. When merging, the study itself looks at its runs and searches.
    fn points(&self, workspace: &Workspace<'_>, _: EarlierResults) -> Result<Vec<PlannedPoint>> {
        let folder = workspace.folder(self.exhibit.paper);
        // GRNN's studies are a model without runs.
        let is_model = self.exhibit.paper == Paper::Grnn;
        let point = PlannedPoint {
            scenario: self.exhibit.full_name(),
            replication: 1,
            cost: if is_model { 1 } else { STUDY_COST },
            finished: folder.join(&self.exhibit.name).join(NUMBERS).is_file(),
            ..PlannedPoint::default()
        };
        Ok(vec![point])
    }

    fn run(
        self: Box<Self>,
        _: &[bool],
        _: &Findings,
        workspace: &Workspace<'_>,
        controls: &Controls<'_>,
    ) -> Result<ExhibitResult> {
        let exhibit = self.exhibit;
        let runner = StudyRunner {
            paper: exhibit.paper,
            workspace,
            controls,
        };
        let mut study = match exhibit.paper {
            Paper::Grnn => grnn::run_study(&exhibit.name, &runner)?,
            _ => dvabatch::run_study(&exhibit.name, &runner)?,
        };
        study.note.insert_str(0, &exhibit.note);
        let folder = runner.folder().join(&exhibit.name);
        study.title(exhibit, runner.gpu_times().short());
        if workspace.draws {
            study.draw(&folder)?;
        }
        study.write(&folder)?;
        controls.progress.finish_point();
        Ok(ExhibitResult::Study(study))
    }
}
