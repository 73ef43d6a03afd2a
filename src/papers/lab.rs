//! Studies: exhibits that need a search first, or several settings of a scenario.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use serde_json::{Value, json};

use super::{Exhibit, Measured};
use crate::base::error::{Error, Result};
use crate::base::files::write_whole;
use crate::base::units::{Nanos, Rate};
use crate::lab::figures::{self, ScenarioFigures};
use crate::lab::plot::{self, Bar, Bars, WrittenFigure};
use crate::lab::results::sweep_keys::distinct;
use crate::lab::results::table::aligned;
use crate::lab::run::executor::SelectedBackend;
use crate::lab::run::fingerprint::hash;
use crate::lab::run::goal::{Answer, Goal};
use crate::lab::run::knee::{Effort, Objective};
use crate::lab::run::search::Searches;
use crate::lab::run::shard::Shard;
use crate::lab::run::{self, RunOptions, RunReport};
use crate::lab::scenario::{LoadPoint, Quantile, Scenario};

/// The file of a study that is written last.
pub const NUMBERS: &str = "numbers.csv";

#[derive(Clone, Debug, Default)]
pub struct Study {
    /// A figure each, with the titles of the exhibit.
    pub bars: Vec<Bars>,
    pub figures: Vec<WrittenFigure>,
    pub numbers: Option<PathBuf>,
    pub note: String,
}

impl Study {
    pub fn new(drawings: impl IntoIterator<Item = Vec<Bar>>, note: String) -> Study {
        let bars = |bars: Vec<Bar>| {
            let series = distinct(bars.iter().map(|bar| bar.series.clone()));
            Bars {
                series,
                bars,
                with_papers: true,
                ..Bars::default()
            }
        };
        Study {
            bars: drawings.into_iter().map(bars).collect(),
            note,
            ..Study::default()
        }
    }

    /// Of all bars of a series, panel by panel.
    pub fn values(&self, drawing: usize, series: &str) -> Result<Vec<f64>> {
        let missing = || Error::failed(format!("drawing {drawing}: a bar of {series} is missing"));
        let bars = self
            .bars
            .get(drawing)
            .into_iter()
            .flat_map(|drawing| &drawing.bars);
        let values = bars.filter(|bar| bar.series == series).map(|bar| bar.value);
        values
            .collect::<Option<Vec<f64>>>()
            .filter(|values| !values.is_empty())
            .ok_or_else(missing)
    }

    /// Titles the drawings that have values, and writes them.
    pub fn write(&mut self, exhibit: &Exhibit, lab: &Lab<'_>) -> Result<()> {
        let (gpu, folder) = (lab.measured.short(), lab.out.join(&exhibit.name));
        for (bars, [title, across, value]) in self.bars.iter_mut().zip(&exhibit.drawings) {
            bars.title = Some(title.replace("{gpu}", gpu));
            [bars.across, bars.value] = [across, value].map(String::clone);
        }
        self.bars
            .retain(|bars| bars.bars.iter().any(|bar| bar.value.is_some()));
        for (i, bars) in self.bars.iter().enumerate() {
            let stem = if i == 0 {
                "bars".to_string()
            } else {
                format!("bars-{}", i + 1)
            };
            self.figures.push(plot::write(
                with_values(bars).draw(),
                &[],
                &folder.join(stem),
            )?);
        }
        let file = folder.join(NUMBERS);
        write_whole(&file, |out| out.write_all(self.csv().as_bytes()))?;
        self.numbers = Some(file);
        Ok(())
    }

    pub fn table(&self) -> String {
        let tables = self
            .bars
            .iter()
            .map(|bars| format!("{}\n{}", bars.value, aligned(&lines(bars))));
        let tables: Vec<String> = tables
            .chain((!self.note.is_empty()).then(|| self.note.clone()))
            .collect();
        tables.join("\n")
    }

    pub fn to_json(&self) -> Value {
        let one = |(bars, bar, value): (&Bars, &Bar, f64)| {
            let (title, value_of) = (&bars.title, &bars.value);
            let Bar {
                panel,
                group,
                series,
                upto: p99,
                ..
            } = bar;
            json!({
                "title": title, "value_of": value_of, "panel": panel, "group": group, "series": series, "value": value, "p99": p99
            })
        };
        self.named().map(one).collect()
    }

    fn csv(&self) -> String {
        let mut text = String::from("title,figure,panel,group,series,value,p99\n");
        for (bars, bar, value) in self.named() {
            let names = [
                bars.title.as_deref().unwrap_or(""),
                &bars.value,
                &bar.panel,
                &bar.group,
                &bar.series,
            ];
            let names = names.map(|name| format!("\"{}\"", name.replace('"', "\"\"")));
            text += &format!(
                "{},{value},{}\n",
                names.join(","),
                bar.upto.map_or(String::new(), |p99| p99.to_string())
            );
        }
        text
    }

    /// All bars that have a value, with their drawing.
    fn named(&self) -> impl Iterator<Item = (&Bars, &Bar, f64)> {
        self.bars.iter().flat_map(|bars| {
            bars.all()
                .filter_map(move |bar| Some((bars, bar, bar.value?)))
        })
    }
}

/// A series' name, and its values, panel by panel.
pub type Column = (String, Vec<Option<f64>>);

/// Panels with the same groups.
pub fn columns(panels: &[impl ToString], groups: &[impl ToString], series: &[Column]) -> Vec<Bar> {
    let mut bars = Vec::new();
    for (place, (panel, group)) in panels
        .iter()
        .flat_map(|panel| groups.iter().map(move |group| (panel, group)))
        .enumerate()
    {
        let bar = |(name, values): &Column| Bar {
            panel: panel.to_string(),
            ..Bar::new(group.to_string(), name, values[place])
        };
        bars.extend(series.iter().map(bar));
    }
    bars
}

/// Tables have an empty column for series without values, pictures don't.
fn with_values(bars: &Bars) -> Bars {
    let mut kept = bars.clone();
    kept.series.retain(|series| {
        bars.all()
            .any(|bar| bar.series == *series && bar.value.is_some())
    });
    kept
}

fn lines(bars: &Bars) -> Vec<Vec<String>> {
    let mut lines = vec![
        [String::new(), bars.across.clone()]
            .into_iter()
            .chain(bars.series.clone())
            .collect(),
    ];
    let all: Vec<&Bar> = bars.all().collect();
    for group in all.chunk_by(|a, b| (&a.panel, &a.group) == (&b.panel, &b.group)) {
        let shown = |series: &String| {
            let bar = group.iter().find(|bar| bar.series == *series);
            match bar.and_then(|bar| Some((bar.value?, bar.upto))) {
                None => "-".to_string(),
                Some((value, None)) => format!("{value:.2}"),
                Some((value, Some(upto))) => format!("{value:.2} ({upto:.2})"),
            }
        };
        let names = [group[0].panel.clone(), group[0].group.clone()];
        lines.push(
            names
                .into_iter()
                .chain(bars.series.iter().map(shown))
                .collect(),
        );
    }
    lines
}

pub struct Lab<'a> {
    /// Reads a scenario by the name of its file, with overrides.
    pub load: &'a (dyn Fn(&str, &[String]) -> Result<Scenario> + Sync),
    pub out: PathBuf,
    /// Times that were measured on a GPU.
    pub measured: &'a Measured,
    pub keep: Keep,
    /// Set on Ctrl-C.
    pub stop: &'a AtomicBool,
    pub progress: &'a (dyn Fn() + Sync),
    /// The peaks of each network's DelayBatch by window, searched for once.
    pub tried: Mutex<BTreeMap<String, Vec<Peak>>>,
}

/// A batch window, and the highest rate that meets the objective with it, if any.
pub type Peak = (Nanos, Option<Rate>);

/// Batch windows that are tried, in ms.
const WINDOWS: [u64; 7] = [1, 2, 5, 10, 20, 50, 100];

/// The folder of a paper's searches.
pub const SEARCHES: &str = "searches";

/// What a study does with the runs and searches that an earlier call has finished.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Keep {
    Nothing,
    /// It goes on with them.
    All(Option<Shard>),
    /// It carries out no others.
    Only,
}

/// The relative tolerance of searches.
const TOLERANCE: f64 = 0.01;
/// Peaks of windows that differ by less can't be told apart: searches with single runs scatter by 1.5 %.
const INDISTINCT: f64 = 0.03;
/// Runs as long as the scenario's: the papers' figures compare peaks, they do not state them.
const EFFORT: Effort = Effort {
    tolerance: TOLERANCE,
    replications: 1,
    max_requests: 0,
    near: None,
};
/// Of each point with a given rate.
const REPLICATIONS: u32 = 5;

impl Lab<'_> {
    pub fn scenario(&self, name: &str, sets: &[String]) -> Result<Scenario> {
        (self.load)(name, sets)
    }

    fn objective(scenario: &Scenario) -> Result<Objective> {
        let slo = scenario.metrics.slo;
        let slo = slo.ok_or_else(|| {
            Error::input(format!("{}: metrics.slo: missing", scenario.file.display()))
        })?;
        Ok(Objective {
            slo,
            quantile: Quantile::P99,
            max_rejected: 0.0,
            tokens: None,
        })
    }

    /// The highest rate of each policy at which the 99th percentile is within the SLO; 0 if there is none.
    pub fn peaks(&self, scenario: &Scenario) -> Result<Vec<f64>> {
        let knees = self.knees(scenario, None)?;
        (self.progress)();
        Ok(knees
            .iter()
            .map(|knee| knee.mean().map_or(0.0, |Rate(rate)| rate))
            .collect())
    }

    /// In a folder that the scenario's settings name, as studies search in many variations of one scenario.
    /// They begin near the rate that is given, or near the last of the scenario's.
    fn knees(&self, scenario: &Scenario, near: Option<Rate>) -> Result<Vec<Answer>> {
        let near = near.or_else(|| match scenario.points().last() {
            Some(LoadPoint::Rate(last)) => Some(*last),
            _ => None,
        });
        let out = self
            .out
            .join(SEARCHES)
            .join(hash(&scenario.resolved_json().to_string()));
        let asked = [(scenario.clone(), Lab::objective(scenario)?)];
        let searches = Searches::new(Goal::HighestRate, &asked, Effort { near, ..EFFORT }, &out)?;
        let (own, lock) = match self.keep {
            Keep::Only => (Some(vec![false; searches.points().len()]), None),
            Keep::Nothing => (None, Some(searches.open(false, None)?)),
            Keep::All(shard) => (None, Some(searches.open(true, shard)?)),
        };
        let found = searches.find(own.as_deref(), self.stop, self.progress)?;
        if let Some(lock) = lock.filter(|_| !matches!(self.keep, Keep::All(Some(_)))) {
            lock.complete();
        }
        let missing = |_| {
            Error::Incomplete(format!(
                "{}: a search is missing",
                searches.folder().path.display()
            ))
        };
        found
            .into_iter()
            .flatten()
            .map(|knee| knee.map_err(missing))
            .collect()
    }

    /// The peak of a network's policy with each window. Each search begins near the peak with the window before.
    pub fn by_window(&self, network: &str, policy: &str) -> Result<Vec<Peak>> {
        let known = || {
            self.tried
                .lock()
                .expect("no thread panics while holding it")
        };
        if let Some(found) = known().get(network) {
            return Ok(found.clone());
        }
        let mut tried: Vec<Peak> = Vec::new();
        for window in WINDOWS.map(|ms| Nanos(ms * 1_000_000)) {
            let mut scenario =
                self.scenario(network, &[format!("policy.{policy}.window={}ns", window.0)])?;
            scenario.policies.retain(|entry| entry.label == policy);
            let near = tried.last().and_then(|(_, peak)| *peak);
            tried.push((
                window,
                self.knees(&scenario, near)?.first().and_then(Answer::mean),
            ));
        }
        known().insert(network.to_string(), tried.clone());
        Ok(tried)
    }

    /// The window with which a network's policy has the highest peak, and that peak. Of those that the search can't
    /// tell apart, the shortest.
    pub fn tuned(&self, network: &str, policy: &str) -> Result<(Nanos, f64)> {
        let best = best(&self.by_window(network, policy)?);
        best.ok_or_else(|| {
            Error::failed(format!(
                "{network}: {policy} holds the objective at no rate"
            ))
        })
    }

    /// Given rates run several times, since means of single runs near the peak differ by a tenth.
    pub fn run(&self, exhibit: &str, scenario: &Scenario) -> Result<RunReport> {
        let (report, _) = self.run_and_draw(exhibit, scenario)?;
        Ok(report)
    }

    /// Runs a scenario as [`Lab::run`] does, and draws the figures that it asks for.
    pub fn run_and_draw(
        &self,
        exhibit: &str,
        scenario: &Scenario,
    ) -> Result<(RunReport, ScenarioFigures)> {
        let out = self.out.join(exhibit);
        let at_rates = matches!(scenario.points().first(), Some(LoadPoint::Rate(_)));
        let replications = if at_rates { REPLICATIONS } else { 1 };
        let resume = self.keep != Keep::Nothing;
        let options = RunOptions {
            backend: SelectedBackend::SIM,
            out,
            replications,
            resume,
            shard: None,
        };
        if self.keep == Keep::Only {
            let points = run::points(std::slice::from_ref(scenario), &options, true)?;
            if points.iter().any(|point| !point.finished) {
                return Err(Error::Incomplete(format!(
                    "{}: points are missing",
                    options.out.display()
                )));
            }
        }
        let report = run::run(scenario, &options, self.stop, self.progress)?;
        if report.is_interrupted() {
            return Err(Error::Interrupted);
        }
        let figures = figures::draw(scenario, &report.folder.path, &[])?;
        Ok((report, figures))
    }
}

/// The first of the highest peaks that the search can't tell apart.
fn best(peaks: &[Peak]) -> Option<(Nanos, f64)> {
    let found = || {
        peaks
            .iter()
            .filter_map(|(window, peak)| Some((*window, peak.as_ref()?.0)))
    };
    let highest = found().map(|(_, peak)| peak).fold(0.0, f64::max);
    found().find(|(_, peak)| peak * (1.0 + INDISTINCT) >= highest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_of_the_best_windows_is_chosen() {
        let best = |rates: &[Option<f64>]| {
            let one = |(window, rate): (&u64, &Option<f64>)| (Nanos(*window), rate.map(Rate));
            super::best(&WINDOWS.iter().zip(rates).map(one).collect::<Vec<_>>())
                .map(|(window, _)| window.0)
        };
        assert_eq!(best(&[Some(90.0), Some(97.5), Some(100.0), None]), Some(2));
        assert_eq!(best(&[Some(100.0), Some(110.0), Some(90.0)]), Some(2));
        assert_eq!(best(&[None, None]), None);
    }
}
