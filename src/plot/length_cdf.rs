//! Distribution of request lengths, from the histogram of a results folder, another histogram or a trace.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::axis::{Axis, number};
use super::canvas::Stroke;
use super::cdf::{Cdf, MARKED, stepped};
use super::input::{Folder, stem};
use super::panel::{Entry, Key, LINE, figure as panel_figure, room_for};
use super::style::Style;
use super::{Drawing, Inputs, Nothing, Options};
use crate::error::{Error, Result};
use crate::results::read::CsvFile;
use crate::workload::model::Model;
use crate::workload::shape::Shape;

/// How often each length occurs.
type Histogram = BTreeMap<u64, u64>;

/// One curve: a histogram, and what its lengths count if that is known.
struct Part {
    /// Nothing where the source has no other part.
    name: &'static str,
    counts: &'static str,
    histogram: Histogram,
}

/// What the lengths of a histogram count that does not say of which shapes they are.
const UNKNOWN: &str = "steps, nodes or tokens";

pub(super) fn figure(inputs: &Inputs, options: &Options) -> Drawing {
    let mut sources: Vec<(String, Vec<Part>)> = Vec::new();
    for folder in inputs.folders() {
        let path = folder.path.join("lengths.csv");
        if path.is_file() {
            sources.push((folder.name.clone(), folder_parts(&path, folder)?));
        }
    }
    for path in inputs.files() {
        sources.push((stem(path), parts(path)?));
    }
    if sources.is_empty() {
        return Ok(Err(Nothing(
            "needs a results folder with lengths.csv, or a file: a histogram of lengths (length,count) or a trace \
             (id,arrival_ns,shape)"
                .into(),
        )));
    }
    let single = sources.len() == 1;
    let mut units = BTreeSet::new();
    let mut curves = Vec::new();
    for (source, parts) in sources {
        for Part { name, counts, histogram } in parts {
            let label = match (single, name) {
                (_, "") => source.clone(),
                (true, name) => name.to_string(),
                (false, name) => format!("{source}: {name}"),
            };
            units.insert(counts);
            match Cdf::weighted(histogram.into_iter().map(|(length, count)| (length as f64, count))) {
                Some(cdf) => curves.push((label, cdf)),
                None => return Ok(Err(Nothing(format!("{source}: has no lengths")))),
            }
        }
    }
    let unit = match units.contains(UNKNOWN) {
        true => UNKNOWN.to_string(),
        false => units.into_iter().collect::<Vec<_>>().join(" or "),
    };
    let longest = curves.iter().map(|(_, cdf)| cdf.largest()).fold(1.0, f64::max);
    let x = Axis::linear_to_tick(format!("Length ({unit})"), 0.0, longest, room_for(longest).min(8));
    let y = Axis::linear("Share of requests", 0.0, 1.0, 5);
    let legend: Vec<Entry> = curves
        .iter()
        .enumerate()
        .map(|(i, (label, cdf))| {
            let label = format!("{label} (median {})", number(cdf.quantile(0.5)));
            Entry { label, key: Key::Line(Style::of(i)) }
        })
        .collect();

    let (mut canvas, panel) = panel_figure(options.title.as_deref(), &legend, x, y);
    for (i, (_, cdf)) in curves.iter().enumerate() {
        let style = Style::of(i);
        let stroke = Stroke { color: style.color, width: LINE, dash: style.dash };
        let points = stepped(cdf.rising().map(|(length, share)| panel.at(length, share)));
        canvas.line_within(&panel.area, &points, stroke);
    }
    panel.axes(&mut canvas);
    for (i, (_, cdf)) in curves.iter().enumerate() {
        for share in MARKED {
            canvas.marker(panel.at(cdf.quantile(share), share), &Style::of(i), 0.0, false);
        }
    }
    Ok(Ok(canvas))
}

/// The histograms of a results folder. What their lengths count follows from the model of its run.
fn folder_parts(path: &Path, folder: &Folder) -> Result<Vec<Part>> {
    let counts = match folder.model() {
        Some(Model::Lstm | Model::Gru | Model::Seq2Seq) => "steps",
        Some(Model::TreeLstm | Model::ChildSumTreeLstm | Model::ChildSumByArity(_)) => "nodes",
        Some(Model::Dnn(_) | Model::Network(_)) => "tokens",
        Some(Model::Graph(_)) | None => return parts(path),
    };
    Ok(parts(path)?.into_iter().map(|part| Part { counts, ..part }).collect())
}

/// The histograms of a file: one without a name, or source and target.
fn parts(path: &Path) -> Result<Vec<Part>> {
    let mut rows = CsvFile::open(path)?;
    let has = |name: &str, rows: &CsvFile| rows.names().any(|known| known == name);
    if has("shape", &rows) {
        return trace_parts(&mut rows);
    }
    let columns = match (has("src_len", &rows), has("length", &rows)) {
        (true, _) => vec![("source", "steps", rows.column("src_len")?), ("target", "steps", rows.column("tgt_len")?)],
        (false, true) => vec![("", UNKNOWN, rows.column("length")?)],
        (false, false) => {
            let known = "\"length,count\", \"src_len,tgt_len,count\" or \"id,arrival_ns,shape\"";
            return Err(Error::input(format!("{}: line 1: the header should be {known}", path.display())));
        }
    };
    let count = rows.column("count")?;
    let mut parts: Vec<Part> =
        columns.iter().map(|&(name, counts, _)| Part { name, counts, histogram: Histogram::new() }).collect();
    while let Some(row) = rows.read()? {
        let times = row.needed(count)?;
        for (part, (.., column)) in parts.iter_mut().zip(&columns) {
            *part.histogram.entry(row.needed(*column)?).or_default() += times;
        }
    }
    Ok(parts)
}

fn trace_parts(rows: &mut CsvFile) -> Result<Vec<Part>> {
    let column = rows.column("shape")?;
    let (mut sources, mut targets) = (Histogram::new(), Histogram::new());
    let mut units = BTreeSet::new();
    while let Some(row) = rows.read()? {
        let shape: Shape = row.text(column).parse().map_err(|error: String| row.error(column, &error))?;
        *sources.entry(u64::from(shape.length())).or_default() += 1;
        units.insert(match shape {
            Shape::Chain(_) | Shape::Seq2Seq { .. } => "steps",
            Shape::Tree(_) => "nodes",
            Shape::Tokens(_) => "tokens",
            Shape::Fixed => "passes",
            Shape::Graph(_) => "graphs",
        });
        if let Shape::Seq2Seq { target, .. } = shape {
            *targets.entry(u64::from(target)).or_default() += 1;
        }
    }
    // One model takes one kind of shape, so more than one unit is no trace that can be run.
    let counts = if units.len() == 1 { units.pop_first().unwrap_or(UNKNOWN) } else { UNKNOWN };
    let part = |name, histogram| Part { name, counts, histogram };
    Ok(match targets.is_empty() {
        true => vec![part("", sources)],
        false => vec![part("source", sources), part("target", targets)],
    })
}
