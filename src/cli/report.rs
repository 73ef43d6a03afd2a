//! `batchlab report`.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::ValueEnum as _;
use serde_json::Value;

use super::number_in;
use super::render::print;
use crate::base::error::{Context as _, Error, Result};
use crate::base::files::{write_typed, write_whole};
use crate::base::units::Nanos;
use crate::lab::page::{
    PageSection, date, facts, figure, figures, fold, notes, page, summary, table,
};
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

    /// The largest size of the page in MB; it says which figures and lines it leaves out
    #[arg(long, value_name = "MB", default_value_t = 10.0, value_parser = number_in(0.1..=10_000.0))]
    pub max_size: f64,
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
    let with_summary: Vec<&ReportedFolder> = studies
        .iter()
        .filter(|study| study.rows.is_some())
        .collect();
    let mut names: Vec<&str> = studies.iter().map(|study| study.name.as_str()).collect();
    names.dedup();
    let title = args.title.clone().unwrap_or_else(|| names.join(", "));
    let most = (args.max_size * 1e6) as usize;
    let mut room = PageRoom {
        left: most.saturating_sub(page(&title, "", &[]).len()),
        left_out: Vec::new(),
    };
    let mut sections = Vec::new();
    let count = studies.len() + usize::from(with_summary.len() > 1);
    for (number, study) in (1..).zip(&studies) {
        let mut own = room.share(count + 1 - number);
        sections.push(study.section(&format!("results-{number}"), args, &mut own)?);
        room.take_back(own);
    }
    if let [first, others @ ..] = with_summary.as_slice()
        && !others.is_empty()
    {
        let mut own = room.share(1);
        sections.push(together(first, others, args, &mut own)?);
        room.take_back(own);
    }
    let text = page(&title, &room.note(args), &sections);
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

/// The bytes of a page that are left for more.
struct PageRoom {
    left: usize,
    /// The figures that were too large, with their bytes.
    left_out: Vec<(String, usize)>,
}

/// The bytes that a part takes for its heading, its links and its notes.
const PART_BYTES: usize = 2_000;
/// The most notes of a list, and the most values of a fact.
const MOST_LISTED: usize = 50;

impl PageRoom {
    /// The room of the next of several equal parts.
    fn share(&mut self, parts: usize) -> PageRoom {
        let share = self.left / parts;
        self.left -= share;
        PageRoom {
            left: share,
            left_out: Vec::new(),
        }
    }

    /// Takes back what a part has not used.
    fn take_back(&mut self, part: PageRoom) {
        self.left += part.left;
        self.left_out.extend(part.left_out);
    }

    /// The bytes for the lines of a table: a share of what is left, without the bytes around them.
    fn table_bytes(&self, share: usize) -> usize {
        (self.left / share).saturating_sub(PART_BYTES)
    }

    /// Uses room for HTML that must be there.
    fn take(&mut self, html: &str) {
        self.left = self.left.saturating_sub(html.len());
    }

    /// Whether a figure fits. One that takes more than half of the room would push out all others.
    fn takes_figure(&mut self, kind: &str, html: &str) -> bool {
        let fits = html.len() <= self.left / 2;
        if fits {
            self.left -= html.len();
        } else {
            self.left_out.push((kind.to_string(), html.len()));
        }
        fits
    }

    /// The note on figures that were left out.
    fn note(&self, args: &Args) -> String {
        if self.left_out.is_empty() {
            return String::new();
        }
        let mut names = Vec::new();
        let mut bytes = 0;
        for (name, size) in &self.left_out {
            names.push(format!("{name} ({:.1} MB)", *size as f64 / 1e6));
            bytes += size;
        }
        let first = &self.left_out[0].0;
        let folder = args.results[0].display();
        // Each figure may take half of the room that is left, and each folder has a part of the page.
        let parts = match args.results.len() {
            1 => 1,
            folders => folders + 1,
        };
        let needed = (args.max_size + (2 * parts * bytes) as f64 / 1e6).ceil();
        notes(&[format!(
            "A page has at most {} MB, so these figures are left out: {}. A file of its own has each of them: batchlab plot \
             {folder} --kind {first}, with --policies for some policies only. A page with --max-size {needed} has all.",
            args.max_size,
            shorten_list(&names)
        )])
    }
}

/// Texts with commas; of many the first ones and the number of the others.
fn shorten_list(texts: &[impl AsRef<str>]) -> String {
    let shown: Vec<&str> = texts.iter().take(MOST_LISTED).map(AsRef::as_ref).collect();
    let more = match texts.len() - shown.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    shown.join(", ") + &more
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

    fn section(&self, id: &str, args: &Args, room: &mut PageRoom) -> Result<PageSection> {
        let mut section = PageSection::new(id, &format!("{} ({})", self.name, self.path.display()));
        room.left = room.left.saturating_sub((4 + TABLES.len()) * PART_BYTES);
        let question = self.question()?;
        room.take(&question);
        section.add("question", "Question", &question);
        if let Some(rows) = &self.rows {
            let summary = self.summary(rows, room.table_bytes(4));
            room.take(&summary);
            let all = fold(
                "All columns",
                &csv(&self.path, "summary.csv", room.table_bytes(4))?,
            );
            room.take(&all);
            section.add("summary", "Results", &(summary + &all));
            section.add("figures", "Figures", &self.figures(args, room)?);
        }
        for (file, title) in TABLES {
            let name = file.trim_end_matches(".csv");
            let mut html = csv(&self.path, file, room.table_bytes(2))?;
            room.take(&html);
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
        let policies = array(self.setting("/scenario/policy"));
        let listed = &policies[..policies.len().min(MOST_LISTED)];
        all.extend(listed.iter().map(|policy| ("policy", settings(policy))));
        if policies.len() > listed.len() {
            let more = policies.len() - listed.len();
            all.push(("policy", format!("{more} more, which run.json has")));
        }
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
            format!("{key} = {}", shorten_list(&values))
        };
        distinct(pairs.iter().map(|(key, _)| *key))
            .into_iter()
            .map(with_values)
            .collect::<Vec<_>>()
            .join("; ")
    }

    /// The summary as a table, with the notes that `sim` prints.
    fn summary(&self, rows: &[SummaryRow], bytes: usize) -> String {
        let costs_of = |row: &SummaryRow| {
            let own = array(self.setting("/scenario/policy"))
                .iter()
                .find(|policy| policy["label"] == row.policy);
            own.map_or(String::new(), |policy| settings(&policy["costs"]))
        };
        let mut notes = notes_on_rows(rows, &costs_of);
        if notes.len() > MOST_LISTED {
            let more = notes.len() - MOST_LISTED;
            notes.truncate(MOST_LISTED);
            notes.push(format!("and {more} more notes, which sim prints"));
        }
        summary(rows, &notes, bytes)
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

    fn figures(&self, args: &Args, room: &mut PageRoom) -> Result<String> {
        draw_figures(
            &PlotInputs::open(&[&self.path])?,
            &self.kinds(&args.kind),
            &self.options()?,
            &args.x,
            room,
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

/// Draws the figures. Kinds without data are left out, with a note that says why, and so are those without room.
fn draw_figures(
    inputs: &PlotInputs,
    kinds: &[FigureKind],
    options: &plot::PlotOptions,
    keys: &[String],
    room: &mut PageRoom,
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
    let mut drawn = Vec::new();
    let mut undrawn = Vec::new();
    for (kind, options) in &all {
        match kind.draw(inputs, options) {
            Ok(canvas) => {
                let html = figure(&options.caption(*kind, &canvas), &canvas);
                let name = match &options.x {
                    Some(key) => format!("{kind} --x {key}"),
                    None => kind.to_string(),
                };
                if room.takes_figure(&name, &html) {
                    drawn.push(html);
                }
            }
            Err(Undrawn::Nothing(why)) => undrawn.push(format!("no {kind}: {why}")),
            Err(Undrawn::Broken(error)) => return Err(error),
        }
    }
    let html = figures(&drawn);
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
    room: &mut PageRoom,
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
    room.left = room.left.saturating_sub((1 + others.len()) * PART_BYTES);
    let figures = draw_figures(
        &PlotInputs::open(&paths)?,
        &first.kinds(&args.kind),
        &options,
        &args.x,
        room,
    )?;
    section.add("figures", "Figures of all results", &figures);
    for (number, other) in (2..).zip(others) {
        let html = match compare(&first.path, &other.path) {
            Ok(comparison) => differences(&comparison, room.table_bytes(2)),
            // The folders may have different requests on purpose.
            Err(Error::Input(why)) => notes(&[format!("not compared: {why}")]),
            Err(error) => return Err(error),
        };
        room.take(&html);
        let title = format!("{} against {}", other.path.display(), first.path.display());
        section.add(&number.to_string(), &title, &html);
    }
    Ok(section)
}

fn differences(comparison: &Comparison, bytes: usize) -> String {
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
    let file = "the file that `batchlab compare -o FILE` writes";
    facts(&sides) + &notes(&said) + &table(&headings, &lines, bytes, file)
}

/// The table of a CSV file, or an empty text without the file. Of a long one, the first lines that fit the bytes.
fn csv(folder: &Path, name: &str, bytes: usize) -> Result<String> {
    let path = within(folder, &[name])?;
    if !path.is_file() {
        return Ok(String::new());
    }
    let content = CsvTable::read(&path)?;
    let lines: Vec<Vec<String>> = content
        .rows()
        .map(|row| row.fields().map(String::from).collect())
        .collect();
    let names: Vec<&str> = content.file.names().collect();
    Ok(table(&names, &lines, bytes, name))
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
        Value::Array(all) => shorten_list(&all.iter().map(settings).collect::<Vec<_>>()),
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
