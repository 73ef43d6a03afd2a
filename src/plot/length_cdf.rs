//! Distribution of request lengths, from a histogram or a trace.

use std::collections::BTreeMap;
use std::path::Path;

use super::axis::{Axis, number};
use super::canvas::Stroke;
use super::cdf::{Cdf, simplified};
use super::panel::{Entry, Key, LINE, figure as panel_figure, room_for};
use super::style::Style;
use super::table::Rows;
use super::{Drawing, Inputs, Nothing, Options};
use crate::error::{Error, Result};
use crate::workload::shape::Shape;

/// How often each length occurs.
type Histogram = BTreeMap<u64, u64>;

/// The shares at which a line gets a marker.
const MARKED: [f64; 3] = [0.1, 0.5, 0.9];

pub(super) fn figure(inputs: &Inputs, options: &Options) -> Drawing {
    if inputs.files().is_empty() {
        return Ok(Err(Nothing(
            "needs a file: a histogram of lengths (length,count) or a trace (id,arrival_ns,shape)".into(),
        )));
    }
    let mut curves = Vec::new();
    for path in inputs.files() {
        let name = path.file_stem().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        for (part, histogram) in histograms(path)? {
            let label = match (inputs.files().len(), part) {
                (1, "") => name.clone(),
                (1, part) => part.to_string(),
                (_, "") => name.clone(),
                (_, part) => format!("{name}: {part}"),
            };
            match Cdf::weighted(histogram.into_iter().map(|(length, count)| (length as f64, count))) {
                Some(cdf) => curves.push((label, cdf)),
                None => return Ok(Err(Nothing(format!("{}: has no lengths", path.display())))),
            }
        }
    }
    let longest = curves.iter().map(|(_, cdf)| cdf.largest()).fold(1.0, f64::max);
    let x = Axis::linear_to_tick("Length", 0.0, longest, room_for(longest).min(8));
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
        let points = simplified(cdf.rising().map(|(length, share)| panel.at(length, share)));
        canvas.line_within(&panel.area, &points, stroke);
    }
    panel.axes(&mut canvas);
    for (i, (_, cdf)) in curves.iter().enumerate() {
        for share in MARKED {
            canvas.marker(panel.at(cdf.quantile(share), share), &Style::of(i), false);
        }
    }
    Ok(Ok(canvas))
}

/// The histograms of a file, each with the name of its part: one without a name, or source and target.
fn histograms(path: &Path) -> Result<Vec<(&'static str, Histogram)>> {
    let mut rows = Rows::open(path)?;
    let has = |name: &str, rows: &Rows| rows.names().any(|known| known == name);
    if has("shape", &rows) {
        return trace_histograms(&mut rows);
    }
    let parts = match (has("src_len", &rows), has("length", &rows)) {
        (true, _) => vec![("source", rows.column("src_len")?), ("target", rows.column("tgt_len")?)],
        (false, true) => vec![("", rows.column("length")?)],
        (false, false) => {
            let known = "\"length,count\", \"src_len,tgt_len,count\" or \"id,arrival_ns,shape\"";
            return Err(Error::input(format!("{}: line 1: the header should be {known}", path.display())));
        }
    };
    let count = rows.column("count")?;
    let mut histograms: Vec<(&str, Histogram)> = parts.iter().map(|(name, _)| (*name, Histogram::new())).collect();
    while let Some(row) = rows.read()? {
        let times = row.needed(count)?;
        for ((_, histogram), (_, column)) in histograms.iter_mut().zip(&parts) {
            *histogram.entry(row.needed(*column)?).or_default() += times;
        }
    }
    Ok(histograms)
}

fn trace_histograms(rows: &mut Rows) -> Result<Vec<(&'static str, Histogram)>> {
    let column = rows.column("shape")?;
    let (mut sources, mut targets) = (Histogram::new(), Histogram::new());
    while let Some(row) = rows.read()? {
        let shape: Shape = row.text(column).parse().map_err(|error: String| row.error(column, &error))?;
        *sources.entry(u64::from(shape.length())).or_default() += 1;
        if let Shape::Seq2Seq { target, .. } = shape {
            *targets.entry(u64::from(target)).or_default() += 1;
        }
    }
    Ok(match targets.is_empty() {
        true => vec![("", sources)],
        false => vec![("source", sources), ("target", targets)],
    })
}
