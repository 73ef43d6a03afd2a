//! `batchlab report`.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::ValueEnum as _;
use serde_json::Value;

use super::render::print;
use crate::base::error::{Context as _, Error, Result};
use crate::base::files::{write_typed, write_whole};
use crate::base::units::Nanos;
use crate::lab::page::{PageSection, date, facts, figures, fold, notes, page, summary, table};
use crate::lab::plot::{self, BY_KEY, FigureKind, Look, PlotInputs, Undrawn};
use crate::lab::results::read::CsvTable;
use crate::lab::results::saved_results::{read_json, within};
use crate::lab::results::summary::SummaryRow;
use crate::lab::results::sweep_keys::distinct;
use crate::lab::run::notes::notes_on_rows;
use crate::lab::validate::compare::report::{HEADINGS, cells};
use crate::lab::validate::compare::side::{ComparedPoint, Side};
use crate::lab::validate::compare::{Comparison, ComparisonRow, compare};

/// Write a page to read and to send: tables, figures, warnings and differences of results
///
/// The page is one HTML file that loads nothing. Its tables sort by a click on a heading, and its figures show values
/// under the pointer and hide series by a click in the legend. With several folders it also has figures of all of them,
/// and how each differs from the first. Prints the name of the file.
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    /// Results folders (with a summary.csv or knee.csv), such as results/sim/NAME
    #[arg(required = true, value_name = "RESULTS")]
    pub results: Vec<PathBuf>,

    /// File of the page [default: report.html in the results folder if there is only one, otherwise in the current
    /// folder]
    #[arg(long, short, value_name = "FILE")]
    pub out: Option<PathBuf>,

    /// Title of the page [default: the scenarios' names]
    #[arg(long)]
    pub title: Option<String>,

    /// Kind of figure, as in `plot` (repeatable) [default: those of the scenario; if it names none, all that have data]
    #[arg(long, value_parser = |text: &str| text.parse::<FigureKind>())]
    pub kind: Vec<FigureKind>,

    /// Swept key on the x axis of further figures, as in `plot` (repeatable) [default: each, if there is only one load]
    #[arg(long, value_name = "KEY")]
    pub x: Vec<String>,
}

/// The other files that are shown, unchanged.
const TABLES: [(&str, &str); 5] = [
    ("knee.csv", "Highest rates that meet the objective"),
    (
        "workers.csv",
        "Smallest numbers of workers that meet the objective",
    ),
    ("classes.csv", "Classes of requests"),
    (
        "differences.csv",
        "Differences between policies on the same requests",
    ),
    ("comparison.csv", "Comparison of runs"),
];

pub fn run(args: &Args) -> Result<()> {
    let studies = args
        .results
        .iter()
        .map(|path| ReportedFolder::open(path))
        .collect::<Result<Vec<_>>>()?;
    let mut sections = Vec::new();
    for (number, study) in (1..).zip(&studies) {
        sections.push(study.section(&format!("results-{number}"), args)?);
    }
    let with_summary: Vec<&ReportedFolder> = studies
        .iter()
        .filter(|study| study.rows.is_some())
        .collect();
    if let [first, others @ ..] = with_summary.as_slice()
        && !others.is_empty()
    {
        sections.push(together(first, others, args)?);
    }
    let mut names: Vec<&str> = studies.iter().map(|study| study.name.as_str()).collect();
    names.dedup();
    let title = args.title.clone().unwrap_or_else(|| names.join(", "));
    let text = page(&title, "", &sections);
    let fill = |file: &mut dyn Write| file.write_all(text.as_bytes());
    let beside = if let [only] = &*args.results {
        only.join("report.html")
    } else {
        "report.html".into()
    };
    match &args.out {
        Some(out) => write_typed(out, fill),
        None => write_whole(&beside, fill),
    }?;
    print(&format!(
        "{}\n",
        args.out.as_ref().unwrap_or(&beside).display()
    ))
}

/// A results folder.
struct ReportedFolder {
    path: PathBuf,
    name: String,
    run: Value,
    /// The rows of the summary, which searches do not write.
    rows: Option<Vec<SummaryRow>>,
}

impl ReportedFolder {
    fn open(path: &Path) -> Result<ReportedFolder> {
        let has = |file: &str| path.join(file).is_file();
        let is_summary = has("summary.csv") || !TABLES.iter().any(|(file, _)| has(file));
        let rows = is_summary.then(|| rows(path)).transpose()?;
        let run = ["run.json", "knee.json", "workers.json"]
            .into_iter()
            .find(|file| has(file));
        let run = run.map_or(Ok(Value::Null), |run| read_json(&within(path, &[run])?))?;
        let folder = || path.canonicalize().unwrap_or_else(|_| path.into());
        let last = || {
            folder()
                .file_name()
                .map_or_else(String::new, |name| name.to_string_lossy().into_owned())
        };
        let name = run
            .pointer("/scenario/name")
            .and_then(Value::as_str)
            .map_or_else(last, String::from);
        Ok(ReportedFolder {
            path: path.into(),
            name,
            run,
            rows,
        })
    }

    /// Whether the settings of a search, which a later run leaves there, are not those of the run.
    fn has_other_settings(&self, file: &str) -> Result<bool> {
        let file = within(&self.path, &[file])?;
        if !file.is_file() {
            return Ok(false);
        }
        let search = read_json(&file)?;
        let differs = |pointer| search.pointer(pointer) != self.run.pointer(pointer);
        Ok(["/scenario", "/variants", "/inputs"]
            .into_iter()
            .any(differs))
    }

    fn setting(&self, pointer: &str) -> &Value {
        self.run.pointer(pointer).unwrap_or(&Value::Null)
    }

    fn section(&self, id: &str, args: &Args) -> Result<PageSection> {
        let mut section = PageSection::new(id, &format!("{} ({})", self.name, self.path.display()));
        section.add("question", "Question", &self.question()?);
        if let Some(rows) = &self.rows {
            let all = fold("All columns", &csv(&self.path, "summary.csv")?);
            section.add("summary", "Results", &(self.summary(rows) + &all));
            section.add("figures", "Figures", &self.figures(args)?);
        }
        for (file, title) in TABLES {
            let name = file.trim_end_matches(".csv");
            let mut html = csv(&self.path, file)?;
            if !html.is_empty() && self.has_other_settings(&format!("{name}.json"))? {
                let other = format!(
                    "The search was made with other settings than the run above; {name}.json has them."
                );
                html += &notes(&[other]);
            }
            section.add(name, title, &html);
        }
        Ok(section)
    }

    /// What was run, where and when.
    fn question(&self) -> Result<String> {
        let host = within(&self.path, &["host.json"])?;
        let host = if host.is_file() {
            read_json(&host)?
        } else {
            Value::Null
        };
        let text = |pointer: &str| settings(self.setting(pointer));
        let table = |name: &str| text(&format!("/scenario/{name}"));
        let finished = host["finished_unix_s"].as_u64().map_or(String::new(), date);
        let wall = host["wall_s"]
            .as_f64()
            .map_or(String::new(), |s| format!("{s:.1} s"));
        let mut all = vec![("scenario", text("/file")), ("workload", table("workload"))];
        all.extend(["arrivals", "device", "metrics"].map(|name| (name, table(name))));
        all.extend(
            array(self.setting("/scenario/policy"))
                .iter()
                .map(|policy| ("policy", settings(policy))),
        );
        all.extend([
            ("sweep", self.sweep()),
            ("seed", text("/seed")),
            ("replications", text("/replications")),
            ("backend", text("/backend")),
            ("host", text("/device")),
            ("commit", text("/git_commit")),
            ("finished", finished),
            ("wall time", wall),
        ]);
        Ok(if self.run.is_null() {
            String::new()
        } else {
            facts(&all)
        })
    }

    /// Each swept key with its values; the other facts are those of the first combination.
    fn sweep(&self) -> String {
        let policies = array(self.setting("/variants"))
            .iter()
            .flat_map(|one| array(&one["policy"]));
        let pairs = policies.flat_map(|policy| array(&policy["swept"]));
        let pairs = distinct(pairs.filter_map(|pair| Some((pair[0].as_str()?, pair[1].as_str()?))));
        let with_values = |key: &str| {
            let values: Vec<&str> = pairs
                .iter()
                .filter(|(of, _)| *of == key)
                .map(|(_, value)| *value)
                .collect();
            format!("{key} = {}", values.join(", "))
        };
        distinct(pairs.iter().map(|(key, _)| *key))
            .into_iter()
            .map(with_values)
            .collect::<Vec<_>>()
            .join("; ")
    }

    /// The summary as a table, with the notes that `sim` prints.
    fn summary(&self, rows: &[SummaryRow]) -> String {
        let costs_of = |row: &SummaryRow| {
            let own = array(self.setting("/scenario/policy"))
                .iter()
                .find(|policy| policy["label"] == row.policy);
            own.map_or(String::new(), |policy| settings(&policy["costs"]))
        };
        summary(rows, &notes_on_rows(rows, &costs_of))
    }

    fn options(&self) -> Result<plot::PlotOptions> {
        let text = |pointer: &str| self.setting(pointer).as_str().map(String::from);
        let slo = text("/scenario/metrics/slo").map(|slo| Nanos::parse(&slo));
        let slo = slo
            .transpose()
            .map_err(Error::input)
            .within(self.path.join("run.json").display())?;
        let point = text("/scenario/output/plot_point");
        // A page has a size and a font of its own.
        let look = serde_json::from_value(self.setting("/scenario/output/figure").clone())
            .unwrap_or_default();
        let Look {
            x_range,
            y_range,
            x_scale,
            y_scale,
            label,
            order,
            ..
        } = look;
        let look = Look {
            x_range,
            y_range,
            x_scale,
            y_scale,
            label,
            order,
            ..Look::default()
        };
        Ok(plot::PlotOptions {
            title: text("/scenario/output/title"),
            point,
            slo,
            look,
            ..plot::PlotOptions::default()
        })
    }

    /// The kinds that the user asks for, or those of the scenario, or else all.
    fn kinds(&self, asked: &[FigureKind]) -> Vec<FigureKind> {
        let own = array(self.setting("/scenario/output/plots"));
        let own: Vec<FigureKind> = own
            .iter()
            .filter_map(|kind| kind.as_str()?.parse().ok())
            .collect();
        [asked, &own, FigureKind::value_variants()]
            .into_iter()
            .find(|kinds| !kinds.is_empty())
            .unwrap_or_default()
            .to_vec()
    }

    fn figures(&self, args: &Args) -> Result<String> {
        draw_figures(
            &PlotInputs::open(&[&self.path])?,
            &self.kinds(&args.kind),
            &self.options()?,
            &args.x,
        )
    }
}

fn rows(path: &Path) -> Result<Vec<SummaryRow>> {
    let side = Side::open(path)?;
    let row = |place: &ComparedPoint| {
        let ComparedPoint {
            policy,
            load,
            swept,
            ..
        } = place.clone();
        Ok(SummaryRow {
            policy,
            swept,
            backend: side.backend().into(),
            point: load,
            class: String::new(),
            runs: side.runs(place)?,
        })
    };
    side.places.iter().map(row).collect()
}

/// Draws the figures. Kinds without data are left out, with a note that says why.
fn draw_figures(
    inputs: &PlotInputs,
    kinds: &[FigureKind],
    options: &plot::PlotOptions,
    keys: &[String],
) -> Result<String> {
    let mut all: Vec<(FigureKind, plot::PlotOptions)> =
        kinds.iter().map(|kind| (*kind, options.clone())).collect();
    for key in if keys.is_empty() {
        inputs.keys_of_one_load()
    } else {
        keys.to_vec()
    } {
        let own: Vec<FigureKind> = kinds
            .iter()
            .filter(|kind| BY_KEY.contains(kind))
            .copied()
            .collect();
        let kinds = if own.is_empty() { vec![BY_KEY[0]] } else { own };
        all.extend(kinds.iter().map(|kind| {
            (
                *kind,
                plot::PlotOptions {
                    x: Some(key.clone()),
                    ..options.clone()
                },
            )
        }));
    }
    let mut canvases = Vec::new();
    let mut undrawn = Vec::new();
    for (kind, options) in &all {
        match kind.draw(inputs, options) {
            Ok(canvas) => canvases.push((options.caption(*kind, &canvas), canvas)),
            Err(Undrawn::Nothing(why)) => undrawn.push(format!("no {kind}: {why}")),
            Err(Undrawn::Broken(error)) => return Err(error),
        }
    }
    let html = figures(
        canvases
            .iter()
            .map(|(caption, canvas)| (caption.as_str(), canvas)),
    );
    // Most kinds need data of their own, so there are no notes if all kinds are drawn.
    Ok(if kinds.len() == FigureKind::value_variants().len() {
        html
    } else {
        html + &notes(&undrawn)
    })
}

/// All results in one figure of each kind, and how each differs from the first.
fn together(
    first: &ReportedFolder,
    others: &[&ReportedFolder],
    args: &Args,
) -> Result<PageSection> {
    let paths: Vec<&Path> = [first]
        .iter()
        .chain(others)
        .map(|study| &*study.path)
        .collect();
    let options = plot::PlotOptions {
        point: None,
        title: None,
        look: Look::default(),
        ..first.options()?
    };
    let mut section = PageSection::new("together", "Comparison");
    let figures = draw_figures(
        &PlotInputs::open(&paths)?,
        &first.kinds(&args.kind),
        &options,
        &args.x,
    )?;
    section.add("figures", "Figures of all results", &figures);
    for (number, other) in (2..).zip(others) {
        let html = match compare(&first.path, &other.path) {
            Ok(comparison) => differences(&comparison),
            // The folders may have different requests on purpose.
            Err(Error::Input(why)) => notes(&[format!("not compared: {why}")]),
            Err(error) => return Err(error),
        };
        let title = format!("{} against {}", other.path.display(), first.path.display());
        section.add(&number.to_string(), &title, &html);
    }
    Ok(section)
}

fn differences(comparison: &Comparison) -> String {
    let headings: Vec<&str> = ["policy", "point", "metric"]
        .into_iter()
        .chain(HEADINGS[1..].iter().copied())
        .collect();
    let line = |row: &ComparisonRow| {
        let place = [&row.place.policy, &row.place.point].map(String::clone);
        place
            .into_iter()
            .chain(cells(row).iter().map(|cell| cell.trim().to_string()))
            .collect()
    };
    let lines: Vec<Vec<String>> = comparison.rows.iter().map(line).collect();
    let sides = [("A", &comparison.a), ("B", &comparison.b)];
    let sides = sides.map(|(name, side)| {
        (
            name,
            format!("{} ({})", side.results.path.display(), side.backend()),
        )
    });
    let mut said = comparison.notes.clone();
    said.push(comparison.usability.sentence());
    facts(&sides) + &notes(&said) + &table(&headings, &lines)
}

/// The table of a CSV file, or an empty text without the file.
fn csv(folder: &Path, name: &str) -> Result<String> {
    let path = within(folder, &[name])?;
    if !path.is_file() {
        return Ok(String::new());
    }
    let content = CsvTable::read(&path)?;
    let lines: Vec<Vec<String>> = content
        .rows()
        .map(|row| row.fields().map(String::from).collect())
        .collect();
    Ok(table(&content.file.names().collect::<Vec<_>>(), &lines))
}

/// The items of an array, or none for another value.
fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// A value, or the keys of a table with their values. Keys without a value are left out, and so is the sweep, which has
/// a line of its own.
fn settings(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(all) => all.iter().map(settings).collect::<Vec<_>>().join(", "),
        Value::Object(keys) => {
            let keys = keys
                .iter()
                .filter(|(key, _)| *key != "swept")
                .map(|(key, value)| (key, settings(value)));
            let keys = keys.filter(|(_, text)| !text.is_empty());
            keys.map(|(key, text)| format!("{key} = {text}"))
                .collect::<Vec<_>>()
                .join("; ")
        }
        other => other.to_string(),
    }
}
