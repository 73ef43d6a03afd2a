//! The results of studies: bars, figures and numbers.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::paper::Exhibit;
use crate::base::error::{Error, Result};
use crate::base::files::write_whole;
use crate::lab::plot::{self, Bar, Bars, WrittenFigure};
use crate::lab::results::sweep_keys::distinct;
use crate::lab::results::table::align;

/// The file of a study that is written last.
pub const NUMBERS: &str = "numbers.csv";

/// The results of a study.
#[derive(Clone, Debug, Default)]
pub struct Study {
    /// The drawings, each of which becomes a figure with one of the exhibit's titles.
    pub bars: Vec<Bars>,
    pub figures: Vec<WrittenFigure>,
    /// The file with all values.
    pub numbers: Option<PathBuf>,
    pub note: String,
}

impl Study {
    pub fn new(drawings: impl IntoIterator<Item = Vec<Bar>>, note: String) -> Study {
        let mut study = Study {
            note,
            ..Study::default()
        };
        for bars in drawings {
            study.bars.push(Bars {
                series: distinct(bars.iter().map(|bar| bar.series.clone())),
                bars,
                with_papers: true,
                ..Bars::default()
            });
        }
        study
    }

    /// The values of all bars of a series, panel by panel. It is an error if one is missing.
    pub fn values(&self, drawing: usize, series: &str) -> Result<Vec<f64>> {
        let missing = || Error::failure(format!("drawing {drawing}: a bar of {series} is missing"));
        let bars = self.bars.get(drawing).ok_or_else(missing)?;
        let mut values = Vec::new();
        for bar in &bars.bars {
            if bar.series == series {
                values.push(bar.value.ok_or_else(missing)?);
            }
        }
        if values.is_empty() {
            Err(missing())
        } else {
            Ok(values)
        }
    }

    /// Titles the drawings that have values, and forgets the others. `gpu` is the GPU of the measured times.
    pub fn title(&mut self, exhibit: &Exhibit, gpu: &str) {
        for (bars, [title, across, value]) in self.bars.iter_mut().zip(&exhibit.drawings) {
            bars.title = Some(title.replace("{gpu}", gpu));
            bars.across.clone_from(across);
            bars.value.clone_from(value);
        }
        self.bars
            .retain(|bars| bars.bars.iter().any(|bar| bar.value.is_some()));
    }

    /// Draws the figures into a folder.
    pub fn draw(&mut self, folder: &Path) -> Result<()> {
        for (place, bars) in self.bars.iter().enumerate() {
            let name = if place == 0 {
                "bars".to_string()
            } else {
                format!("bars-{}", place + 1)
            };
            let canvas = without_empty_series(bars).draw();
            self.figures
                .push(plot::write(canvas, &[], &folder.join(name))?);
        }
        Ok(())
    }

    /// Writes all values to a folder.
    pub fn write(&mut self, folder: &Path) -> Result<()> {
        let file = folder.join(NUMBERS);
        write_whole(&file, |out| out.write_all(self.to_csv().as_bytes()))?;
        self.numbers = Some(file);
        Ok(())
    }

    pub fn table(&self) -> String {
        let mut tables = Vec::new();
        for bars in &self.bars {
            tables.push(format!("{}\n{}", bars.value, align(&table_lines(bars))));
        }
        if !self.note.is_empty() {
            tables.push(self.note.clone());
        }
        tables.join("\n")
    }

    pub fn to_json(&self) -> Value {
        let mut values = Vec::new();
        for (bars, bar, value) in self.bars_with_values() {
            values.push(json!({
                "title": bars.title,
                "value_of": bars.value,
                "panel": bar.panel,
                "group": bar.group,
                "series": bar.series,
                "value": value,
                "p99": bar.upto,
            }));
        }
        Value::Array(values)
    }

    fn to_csv(&self) -> String {
        let mut text = String::from("title,figure,panel,group,series,value,p99\n");
        for (bars, bar, value) in self.bars_with_values() {
            let title = bars.title.as_deref().unwrap_or("");
            for name in [title, &bars.value, &bar.panel, &bar.group, &bar.series] {
                text += &format!("\"{}\",", name.replace('"', "\"\""));
            }
            text += &format!("{value},");
            if let Some(p99) = bar.upto {
                text += &p99.to_string();
            }
            text += "\n";
        }
        text
    }

    /// All bars that have a value, each with its drawing.
    fn bars_with_values(&self) -> Vec<(&Bars, &Bar, f64)> {
        let mut all = Vec::new();
        for bars in &self.bars {
            for bar in bars.all() {
                if let Some(value) = bar.value {
                    all.push((bars, bar, value));
                }
            }
        }
        all
    }
}

/// A series' name, and its values, panel by panel.
pub type BarSeries = (String, Vec<Option<f64>>);

/// The bars of several series in panels with the same groups.
pub fn bars_by_panel(
    panels: &[impl ToString],
    groups: &[impl ToString],
    series: &[BarSeries],
) -> Vec<Bar> {
    let mut bars = Vec::new();
    let mut place = 0;
    for panel in panels {
        for group in groups {
            for (name, values) in series {
                bars.push(Bar {
                    panel: panel.to_string(),
                    ..Bar::new(group.to_string(), name, values[place])
                });
            }
            place += 1;
        }
    }
    bars
}

/// Tables have an empty column for a series without values, pictures don't.
fn without_empty_series(bars: &Bars) -> Bars {
    let mut drawn = bars.clone();
    drawn.series.retain(|series| {
        bars.all()
            .any(|bar| bar.series == *series && bar.value.is_some())
    });
    drawn
}

/// A heading, and a line for each group of each panel.
fn table_lines(bars: &Bars) -> Vec<Vec<String>> {
    let mut heading = vec![String::new(), bars.across.clone()];
    heading.extend(bars.series.iter().cloned());
    let mut lines = vec![heading];
    let all: Vec<&Bar> = bars.all().collect();
    for group in all.chunk_by(|a, b| a.panel == b.panel && a.group == b.group) {
        let mut line = vec![group[0].panel.clone(), group[0].group.clone()];
        for series in &bars.series {
            let bar = group.iter().find(|bar| bar.series == *series);
            line.push(bar.map_or_else(|| "-".to_string(), |bar| table_value(bar)));
        }
        lines.push(line);
    }
    lines
}

/// A bar's value, with its 99th percentile in parentheses.
fn table_value(bar: &Bar) -> String {
    match (bar.value, bar.upto) {
        (None, _) => "-".to_string(),
        (Some(value), None) => format!("{value:.2}"),
        (Some(value), Some(upto)) => format!("{value:.2} ({upto:.2})"),
    }
}
