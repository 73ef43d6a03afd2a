//! Distribution of request lengths, from a results folder, a histogram or a trace.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::axis::{Axis, number};
use super::cdf::{Cdf, Line, drawn, shares};
use super::input::{Folder, stem};
use super::panel::room_for;
use super::style::Style;
use super::{Drawing, Inputs, Options, nothing};
use crate::error::{Error, Result};
use crate::results::read::CsvFile;
use crate::results::saved::within;
use crate::workload::shape::Shape;

/// Lengths with their counts; the name tells sources from targets, and prompts from outputs.
struct Part {
    name: &'static str,
    units: BTreeSet<&'static str>,
    histogram: BTreeMap<u64, u64>,
}

/// If a histogram does not state its requests' shapes.
const UNKNOWN: &str = "steps, nodes or tokens";

pub fn lengths(inputs: &Inputs, options: &Options) -> Drawing {
    let mut sources: Vec<(String, Vec<Part>)> = Vec::new();
    for folder in &inputs.folders {
        let path = within(&folder.results.path, &["lengths.csv"])?;
        if path.is_file() {
            sources.push((folder.name.clone(), folder_parts(&path, folder)?));
        }
    }
    for path in &inputs.files {
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
        let none = || nothing(format!("{source}: has no lengths"));
        if parts.is_empty() {
            return Err(none());
        }
        for part in parts {
            let label = match (single, part.name) {
                (_, "") => source.clone(),
                (true, name) => name.to_string(),
                (false, name) => format!("{source}: {name}"),
            };
            units.extend(part.units);
            let counts = part.histogram.into_iter().map(|(length, count)| (length as f64, count));
            let cdf = Cdf::weighted(counts).ok_or_else(none)?;
            let label = format!("{label} (median {})", number(cdf.quantile(0.5)));
            lines.push(Line { label, style: Style::of(lines.len()), hollow: false, cdf });
        }
    }
    let unit = match units.contains(UNKNOWN) {
        true => UNKNOWN.to_string(),
        false => units.into_iter().collect::<Vec<_>>().join(" or "),
    };
    let longest = lines.iter().map(|line| line.cdf.largest()).fold(1.0, f64::max);
    let x = Axis::linear_to_tick(format!("Length ({unit})"), 0.0, longest, room_for(longest).min(8));
    Ok(drawn(options, &lines, Vec::new(), [x, shares()], false))
}

/// Their unit follows from the run's model.
fn folder_parts(path: &Path, folder: &Folder) -> Result<Vec<Part>> {
    let model = folder.model();
    let unit = match model.as_deref() {
        Some("lstm" | "gru" | "seq2seq") => "steps",
        Some("tree-lstm" | "childsum-tree-lstm") => "nodes",
        Some("dnn" | "llm") => "tokens",
        _ => return parts(path),
    };
    let name = |name| match (unit, name) {
        ("tokens", "source") => "prompt",
        ("tokens", "target") => "output",
        _ => name,
    };
    Ok(parts(path)?
        .into_iter()
        .map(|part| Part { name: name(part.name), units: BTreeSet::from([unit]), ..part })
        .collect())
}

/// One without a name, or sources and targets.
fn parts(path: &Path) -> Result<Vec<Part>> {
    let mut rows = CsvFile::open(path)?;
    let has = |name| rows.names().any(|known| known == name);
    let (trace, pairs) = (has("shape"), has("src_len"));
    if !(trace || pairs || has("length")) {
        let known = "\"length,count\", \"src_len,tgt_len,count\" or \"id,arrival_ns,shape\"";
        return Err(Error::input(format!("{}: line 1: the header should be {known}", path.display())));
    }
    let part = |name| Part { name, units: BTreeSet::new(), histogram: BTreeMap::new() };
    let [mut single, mut source, mut target] = ["", "source", "target"].map(part);
    while let Some(row) = rows.read()? {
        if trace {
            let shape = row.text("shape")?.parse().map_err(|error: String| row.error("shape", &error))?;
            match shape {
                Shape::Seq2Seq { source: from, target: to } => {
                    source.add(from.into(), "steps", 1);
                    target.add(to.into(), "steps", 1);
                }
                Shape::Chain(length) => single.add(length.into(), "steps", 1),
                Shape::Tree(tree) => single.add(tree.len() as u64, "nodes", 1),
                Shape::Tokens(length) => single.add(length.into(), "tokens", 1),
                Shape::Llm { prompt, output } => {
                    (source.name, target.name) = ("prompt", "output");
                    source.add(prompt.into(), "tokens", 1);
                    target.add(output.into(), "tokens", 1);
                }
                Shape::Fixed => single.add(1, "passes", 1),
                Shape::Graph(_) => single.add(1, "graphs", 1),
            }
        } else if pairs {
            source.add(row.whole("src_len")?, "steps", row.whole("count")?);
            target.add(row.whole("tgt_len")?, "steps", row.whole("count")?);
        } else {
            single.add(row.whole("length")?, UNKNOWN, row.whole("count")?);
        }
    }
    Ok([single, source, target].into_iter().filter(|part| !part.histogram.is_empty()).collect())
}

impl Part {
    fn add(&mut self, length: u64, unit: &'static str, count: u64) {
        // A model takes one kind of shape, so a trace with several units can't be run.
        self.units.insert(if self.units.iter().any(|known| *known != unit) { UNKNOWN } else { unit });
        *self.histogram.entry(length).or_default() += count;
    }
}
