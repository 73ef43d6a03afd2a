//! Distribution of request lengths, from a results folder, a histogram or a trace.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::axis::{Axis, number};
use super::cdf::{CdfLine, CdfPanel, draw_cdfs, share_axis};
use super::distribution::Cdf;
use super::input::{PlotInputs, stem};
use super::layout::MOST_ACROSS;
use super::options::PlotOptions;
use super::style::Style;
use super::undrawn::{Drawing, Undrawn, nothing};
use crate::base::error::{Error, Result};
use crate::core::workload::shape::Shape;
use crate::lab::results::read::{CsvFile, CsvRow};
use crate::lab::results::saved_results::within;

/// Lengths with their counts.
struct LengthHistogram {
    /// What the lengths are of, such as the sources of translations. Empty if requests have one length.
    name: &'static str,
    unit: &'static str,
    counts: BTreeMap<u64, u64>,
}

/// A folder or a file, and the histograms in it.
struct LengthSource {
    name: String,
    histograms: Vec<LengthHistogram>,
}

/// The unit of a histogram that does not state its requests' shapes.
const UNKNOWN: &str = "steps, nodes or tokens";

/// The names of the lengths of a request that has one, and of those that have two.
const ALONE: [&str; 2] = ["", ""];
const SOURCES: [&str; 2] = ["source", "target"];
const PROMPTS: [&str; 2] = ["prompt", "output"];

/// Draws the distribution of lengths in each folder and file.
pub fn draw_lengths(inputs: &PlotInputs, options: &PlotOptions) -> Drawing {
    let sources = read_sources(inputs)?;
    if sources.is_empty() {
        return Err(nothing(
            "needs a results folder with lengths.csv, or a file: a histogram of lengths (length,count) or a trace \
             (id,arrival_ns,shape)",
        ));
    }
    let is_single = sources.len() == 1;
    let mut units = BTreeSet::new();
    let mut lines = Vec::new();
    for source in sources {
        let before = lines.len();
        let source_name = options.look.name(&source.name);
        for histogram in source.histograms {
            let name = histogram.name;
            let label = if name.is_empty() {
                source_name.to_string()
            } else if is_single {
                name.to_string()
            } else {
                format!("{source_name}: {name}")
            };
            units.insert(histogram.unit);
            let counts = histogram.counts.into_iter();
            let Some(cdf) = Cdf::from_counts(counts.map(|(length, count)| (length as f64, count)))
            else {
                continue;
            };
            lines.push(CdfLine {
                label: format!("{label} (median {})", number(cdf.quantile(0.5))),
                style: Style::number(lines.len()),
                hollow: false,
                cdf,
            });
        }
        if lines.len() == before {
            return Err(nothing(format!("{}: has no lengths", source.name)));
        }
    }
    let panel = CdfPanel {
        heading: String::new(),
        axes: length_axes(&lines, &units, options)?,
        lines,
    };
    Ok(draw_cdfs(options, &[panel], Vec::new(), false))
}

fn read_sources(inputs: &PlotInputs) -> Result<Vec<LengthSource>> {
    let mut sources = Vec::new();
    for folder in &inputs.folders {
        let path = within(&folder.results.path, &["lengths.csv"])?;
        if path.is_file() {
            sources.push(LengthSource {
                name: folder.name.clone(),
                histograms: read_histograms(&path, folder.model().as_deref())?,
            });
        }
    }
    for path in &inputs.files {
        sources.push(LengthSource {
            name: stem(path),
            histograms: read_histograms(path, None)?,
        });
    }
    Ok(sources)
}

fn length_axes(
    lines: &[CdfLine],
    units: &BTreeSet<&str>,
    options: &PlotOptions,
) -> Result<[Axis; 2], Undrawn> {
    let unit = if units.contains(UNKNOWN) {
        UNKNOWN.to_string()
    } else {
        units.iter().copied().collect::<Vec<_>>().join(" or ")
    };
    let mut longest: f64 = 1.0;
    let mut shortest = f64::INFINITY;
    for line in lines {
        longest = longest.max(line.cdf.largest());
        if let Some(low_end) = line.cdf.low_end() {
            shortest = shortest.min(low_end);
        }
    }
    let x = Axis::linear_to_tick(format!("Length ({unit})"), longest, MOST_ACROSS);
    options.axes([x, share_axis()], [shortest, 1e-3])
}

/// What the rows of a file are.
#[derive(Clone, Copy, PartialEq)]
enum LengthRows {
    Lengths,
    Pairs,
    Trace,
}

/// Reads one histogram without a name, or two. The unit follows from the shapes or the run's model.
fn read_histograms(path: &Path, model: Option<&str>) -> Result<Vec<LengthHistogram>> {
    let mut file = CsvFile::open(path)?;
    let rows = kind_of_rows(&file, path)?;
    let unit = match model {
        Some("tree-lstm" | "childsum-tree-lstm") => "nodes",
        Some("dnn" | "llm") => "tokens",
        Some("lstm" | "gru" | "seq2seq") => "steps",
        _ if rows == LengthRows::Pairs => "steps",
        _ => UNKNOWN,
    };
    let names = if unit == "tokens" { PROMPTS } else { SOURCES };
    let mut histograms: Vec<LengthHistogram> = Vec::new();
    while let Some(row) = file.read()? {
        match rows {
            LengthRows::Pairs => {
                for (name, column) in names.into_iter().zip(["src_len", "tgt_len"]) {
                    let length = row.whole(column)?;
                    add(&mut histograms, name, unit, length, row.whole("count")?);
                }
            }
            LengthRows::Trace => add_shape(&mut histograms, &row)?,
            LengthRows::Lengths => {
                let length = row.whole("length")?;
                add(&mut histograms, "", unit, length, row.whole("count")?);
            }
        }
    }
    Ok(histograms)
}

fn kind_of_rows(file: &CsvFile, path: &Path) -> Result<LengthRows> {
    let names: Vec<&str> = file.names().collect();
    if names.contains(&"src_len") {
        Ok(LengthRows::Pairs)
    } else if names.contains(&"shape") {
        Ok(LengthRows::Trace)
    } else if names.contains(&"length") {
        Ok(LengthRows::Lengths)
    } else {
        let known = "\"length,count\", \"src_len,tgt_len,count\" or \"id,arrival_ns,shape\"";
        Err(Error::input(format!(
            "{}: line 1: the header should be {known}",
            path.display()
        )))
    }
}

/// Counts the lengths of a request of a trace.
fn add_shape(histograms: &mut Vec<LengthHistogram>, row: &CsvRow<'_>) -> Result<()> {
    let shape: Shape = row
        .text("shape")?
        .parse()
        .map_err(|error: String| row.error("shape", &error))?;
    let (names, unit) = match shape {
        Shape::Llm { .. } => (PROMPTS, "tokens"),
        Shape::Seq2Seq { .. } => (SOURCES, "steps"),
        Shape::Chain(_) => (ALONE, "steps"),
        Shape::Tree(_) => (ALONE, "nodes"),
        Shape::Tokens(_) => (ALONE, "tokens"),
        Shape::Fixed => (ALONE, "passes"),
        Shape::Graph(_) => (ALONE, "graphs"),
    };
    add(histograms, names[0], unit, shape.length().into(), 1);
    if let Shape::Llm { output: second, .. } | Shape::Seq2Seq { target: second, .. } = shape {
        add(histograms, names[1], unit, second.into(), 1);
    }
    Ok(())
}

/// Adds requests of a length to the histogram with this name.
fn add(
    histograms: &mut Vec<LengthHistogram>,
    name: &'static str,
    unit: &'static str,
    length: u64,
    count: u64,
) {
    let place = match histograms.iter().position(|one| one.name == name) {
        Some(place) => place,
        None => {
            histograms.push(LengthHistogram {
                name,
                unit,
                counts: BTreeMap::new(),
            });
            histograms.len() - 1
        }
    };
    let histogram = &mut histograms[place];
    // A trace with several units has one curve for all of its requests, so that each curve has a label of its own.
    if histogram.unit != unit {
        histogram.unit = UNKNOWN;
    }
    *histogram.counts.entry(length).or_default() += count;
}
