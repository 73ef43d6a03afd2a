//! Distribution of request lengths, from a results folder, a histogram or a trace.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::axis::{Axis, number};
use super::cdf::{Cdf, Line, drawn, shares};
use super::input::{Folder, stem};
use super::legend::{Entry, Key};
use super::panel::room_for;
use super::style::Style;
use super::{Drawing, Inputs, Kind, Options, nothing};
use crate::error::{Error, Result};
use crate::results::read::CsvFile;
use crate::workload::model::Model;
use crate::workload::shape::Shape;

/// BatchMaker, Figure 10.
pub const LENGTH_CDF: Kind = Kind {
    name: "length-cdf",
    about: "distribution of request lengths",
    drawn: |inputs, options| lengths(inputs, options),
};

type Histogram = BTreeMap<u64, u64>;

struct Part {
    name: &'static str,
    unit: &'static str,
    histogram: Histogram,
}

/// If a histogram does not state its requests' shapes.
const UNKNOWN: &str = "steps, nodes or tokens";

fn lengths(inputs: &Inputs, options: &Options) -> Drawing {
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
        return Err(nothing(
            "needs a results folder with lengths.csv, or a file: a histogram of lengths (length,count) or a trace \
             (id,arrival_ns,shape)",
        ));
    }
    let single = sources.len() == 1;
    let mut units = BTreeSet::new();
    let mut lines = Vec::new();
    for (source, parts) in sources {
        for Part { name, unit, histogram } in parts {
            let label = match (single, name) {
                (_, "") => source.clone(),
                (true, name) => name.to_string(),
                (false, name) => format!("{source}: {name}"),
            };
            units.insert(unit);
            let cdf = Cdf::weighted(histogram.into_iter().map(|(length, count)| (length as f64, count)))
                .ok_or_else(|| nothing(format!("{source}: has no lengths")))?;
            lines.push(Line { label, style: Style::of(lines.len()), hollow: false, cdf });
        }
    }
    let unit = match units.contains(UNKNOWN) {
        true => UNKNOWN.to_string(),
        false => units.into_iter().collect::<Vec<_>>().join(" or "),
    };
    let longest = lines.iter().map(|line| line.cdf.largest()).fold(1.0, f64::max);
    let x = Axis::linear_to_tick(format!("Length ({unit})"), 0.0, longest, room_for(longest).min(8));
    let entry = |line: &Line| {
        let label = format!("{} (median {})", line.label, number(line.cdf.quantile(0.5)));
        Entry::new(label, Key::Line(line.style))
    };
    let legend: Vec<Entry> = lines.iter().map(entry).collect();
    Ok(drawn(options.title.as_deref(), &legend, x, shares(), &lines, false))
}

/// Their unit follows from the run's model.
fn folder_parts(path: &Path, folder: &Folder) -> Result<Vec<Part>> {
    let unit = match folder.model() {
        Some(Model::Lstm | Model::Gru | Model::Seq2Seq) => "steps",
        Some(Model::TreeLstm | Model::ChildSumTreeLstm | Model::ChildSumByArity(_)) => "nodes",
        Some(Model::Dnn(_) | Model::Network(_)) => "tokens",
        Some(Model::Graph(_)) | None => return parts(path),
    };
    Ok(parts(path)?.into_iter().map(|part| Part { unit, ..part }).collect())
}

/// One without a name, or sources and targets.
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
        columns.iter().map(|&(name, unit, _)| Part { name, unit, histogram: Histogram::new() }).collect();
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
    // A model takes one kind of shape, so a trace with several units can't be run.
    let unit = if units.len() == 1 { units.pop_first().unwrap_or(UNKNOWN) } else { UNKNOWN };
    let part = |name, histogram| Part { name, unit, histogram };
    Ok(match targets.is_empty() {
        true => vec![part("", sources)],
        false => vec![part("source", sources), part("target", targets)],
    })
}
