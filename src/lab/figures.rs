//! The figures that a scenario asks for, drawn from the results of its run.

use std::path::Path;

use crate::base::error::{Error, Result};
use crate::lab::plot::{self, PlotInputs, PlotOptions, Stated, WrittenFigure};
use crate::lab::scenario::Scenario;

/// The figures of a scenario.
#[derive(Debug, Default)]
pub struct ScenarioFigures {
    pub drawn: Vec<WrittenFigure>,
    /// Why other figures could not be drawn.
    pub undrawn: Vec<String>,
}

/// Draws the figures into the folder of the results. `stated` are values of a paper, which the figures show too.
///
/// # Errors
/// Fails if the results can't be read or a figure can't be written.
pub fn draw(scenario: &Scenario, results: &Path, stated: &[Stated]) -> Result<ScenarioFigures> {
    draw_from(scenario, results, results, stated)
}

/// Draws the figures as [`draw`] does, but into another folder.
pub fn draw_from(
    scenario: &Scenario,
    results: &Path,
    folder: &Path,
    stated: &[Stated],
) -> Result<ScenarioFigures> {
    let mut figures = ScenarioFigures::default();
    if scenario.output.plots.is_empty() {
        return Ok(figures);
    }
    let inputs = PlotInputs::open(&[results])?;
    for kind in &scenario.output.plots {
        let name = kind.to_string();
        let mut options = PlotOptions {
            title: scenario.output.title.clone(),
            point: scenario.output.plot_point.clone(),
            slo: scenario.metrics.slo,
            stated: stated.to_vec(),
            look: scenario.output.figure.clone(),
            ..PlotOptions::default()
        };
        let titles = &scenario.output.figure.titles;
        if let Some((_, title)) = titles.iter().find(|(of, _)| *of == name) {
            options.title = Some(title.clone());
        }
        match plot::draw(*kind, &inputs, &options, &folder.join(&name)) {
            Ok(figure) => figures.drawn.push(figure),
            // There may be too few requests for a quantile. The runs are valid nevertheless.
            Err(Error::Input(why)) => figures.undrawn.push(why),
            Err(error) => return Err(error),
        }
    }
    Ok(figures)
}
