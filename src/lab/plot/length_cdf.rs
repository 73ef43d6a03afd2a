//! Distribution of request lengths, from a results folder, a histogram or a trace.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::axis::{Axis, Spread, number};
use super::cdf::{Cdf, CdfLine, drawn, shares};
use super::input::stem;
use super::layout::MOST_ACROSS;
use super::style::Style;
use super::{Drawing, PlotInputs, PlotOptions, nothing};
use crate::base::error::{Error, Result};
use crate::core::workload::shape::Shape;
use crate::lab::results::read::CsvFile;
use crate::lab::results::saved_results::within;

/// Lengths with their counts. The name tells sources from targets, and prompts from outputs.
struct LengthHistogram {
    name: &'static str,
    unit: &'static str,
    histogram: BTreeMap<u64, u64>,
}

/// If a histogram does not state its requests' shapes.
const UNKNOWN: &str = "steps, nodes or tokens";

const ALONE: [&str; 2] = ["", ""];
const SOURCES: [&str; 2] = ["source", "target"];
const PROMPTS: [&str; 2] = ["prompt", "output"];

pub fn lengths(inputs: &PlotInputs, options: &PlotOptions) -> Drawing {
    let mut sources: Vec<(String, Vec<LengthHistogram>)> = Vec::new();
    for folder in &inputs.folders {
        let path = within(&folder.results.path, &["lengths.csv"])?;
        if path.is_file() {
            sources.push((
                folder.name.clone(),
                parts(&path, folder.model().as_deref())?,
            ));
        }
    }
    for path in &inputs.files {
        sources.push((stem(path), parts(path, None)?));
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
        let before = lines.len();
        for part in parts {
            let label = match (single, part.name) {
                (_, "") => options.look.name(&source).to_string(),
                (true, name) => name.to_string(),
                (false, name) => format!("{}: {name}", options.look.name(&source)),
            };
            units.insert(part.unit);
            let counts = part
                .histogram
                .into_iter()
                .map(|(length, count)| (length as f64, count));
            let Some(cdf) = Cdf::weighted(counts) else {
                continue;
            };
            let label = format!("{label} (median {})", number(cdf.quantile(0.5)));
            lines.push(CdfLine {
                label,
                style: Style::of(lines.len()),
                hollow: false,
                cdf,
            });
        }
        if lines.len() == before {
            return Err(nothing(format!("{source}: has no lengths")));
        }
    }
    let unit = match units.contains(UNKNOWN) {
        true => UNKNOWN.to_string(),
        false => units.into_iter().collect::<Vec<_>>().join(" or "),
    };
    let longest = lines
        .iter()
        .map(|line| line.cdf.largest())
        .fold(1.0, f64::max);
    let shortest = lines
        .iter()
        .filter_map(|line| line.cdf.low_end())
        .fold(f64::INFINITY, f64::min);
    let x = Axis::linear_to_tick(format!("Length ({unit})"), longest, MOST_ACROSS);
    let axes = options.asked_of(
        [x, shares()],
        options.look.y_scale.map(Spread::from),
        [shortest, 1e-3],
    )?;
    Ok(drawn(
        options,
        vec![(String::new(), lines, axes)],
        Vec::new(),
        false,
    ))
}

/// One without a name, or two. The unit follows from the shapes or the run's model.
fn parts(path: &Path, model: Option<&str>) -> Result<Vec<LengthHistogram>> {
    let mut rows = CsvFile::open(path)?;
    let has = |name| rows.names().any(|known| known == name);
    let (trace, pairs) = (has("shape"), has("src_len"));
    if !(trace || pairs || has("length")) {
        let known = "\"length,count\", \"src_len,tgt_len,count\" or \"id,arrival_ns,shape\"";
        return Err(Error::input(format!(
            "{}: line 1: the header should be {known}",
            path.display()
        )));
    }
    let unit = match model {
        Some("tree-lstm" | "childsum-tree-lstm") => "nodes",
        Some("dnn" | "llm") => "tokens",
        Some("lstm" | "gru" | "seq2seq") => "steps",
        _ if pairs => "steps",
        _ => UNKNOWN,
    };
    let [first, second] = if unit == "tokens" { PROMPTS } else { SOURCES };
    let mut parts: Vec<LengthHistogram> = Vec::new();
    let mut add = |name, unit, length: u64, count: u64| {
        let at = parts
            .iter()
            .position(|part| part.name == name)
            .unwrap_or_else(|| {
                parts.push(LengthHistogram {
                    name,
                    unit,
                    histogram: BTreeMap::new(),
                });
                parts.len() - 1
            });
        // One curve of all that the trace has, so that each has a label of its own.
        if parts[at].unit != unit {
            parts[at].unit = UNKNOWN;
        }
        *parts[at].histogram.entry(length).or_default() += count;
    };
    while let Some(row) = rows.read()? {
        if pairs {
            add(first, unit, row.whole("src_len")?, row.whole("count")?);
            add(second, unit, row.whole("tgt_len")?, row.whole("count")?);
        } else if trace {
            let shape: Shape = row
                .text("shape")?
                .parse()
                .map_err(|error: String| row.error("shape", &error))?;
            let ([first, second], unit) = match shape {
                Shape::Llm { .. } => (PROMPTS, "tokens"),
                Shape::Seq2Seq { .. } => (SOURCES, "steps"),
                Shape::Chain(_) => (ALONE, "steps"),
                Shape::Tree(_) => (ALONE, "nodes"),
                Shape::Tokens(_) => (ALONE, "tokens"),
                Shape::Fixed => (ALONE, "passes"),
                Shape::Graph(_) => (ALONE, "graphs"),
            };
            add(first, unit, shape.length().into(), 1);
            if let Shape::Llm { output: more, .. } | Shape::Seq2Seq { target: more, .. } = shape {
                add(second, unit, more.into(), 1);
            }
        } else {
            add("", unit, row.whole("length")?, row.whole("count")?);
        }
    }
    Ok(parts)
}
