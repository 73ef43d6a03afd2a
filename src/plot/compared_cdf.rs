//! The distributions of latency of two runs of one trace, one over the other: a colour for each policy, solid lines with
//! full markers for the first, dashed lines with hollow markers for the second.

use std::path::{Path, PathBuf};

use super::axis::Axis;
use super::canvas::Stroke;
use super::cdf::{Cdf, MARKED, simplified};
use super::input::{Series, at_point};
use super::panel::{Entry, Key, LINE, RING, figure as panel_figure, log_x};
use super::request_cdf::{Span, distribution, least};
use super::style::Style;
use super::{Inputs, Options, write};
use crate::error::{Error, Result};

/// The dash of the second results.
const SECOND: &[f64] = &[6.0, 3.5];

/// Draws the latencies of a point in two results folders and writes `STEM.svg` and `STEM.png`, or what
/// [`Options::formats`] asks for. Gives the files; none if a request log that it takes is missing or empty.
///
/// # Errors
/// A log that is broken, a file that can't be written.
///
/// # Panics
/// Unless the inputs are two results folders.
pub fn draw(inputs: &Inputs, point: &str, options: &Options, stem: &Path) -> Result<Vec<PathBuf>> {
    let [first, second] = inputs.folders() else { panic!("two results folders are compared") };
    let all = inputs.series(options)?.map_err(|nothing| Error::input(nothing.0))?;
    // The policies of the first folder that the second has, too, with their places among the colours.
    let of = |folder: &super::input::Folder| -> Vec<Series<'_>> {
        all.iter().filter(|series| series.is_of(folder)).cloned().collect()
    };
    let (of_first, of_second) = (of(first), of(second));
    let pairs = of_first.iter().filter_map(|one| {
        let other = of_second.iter().find(|other| other.policy() == one.policy())?;
        Some((one, other))
    });
    let mut legend = Vec::new();
    let mut curves: Vec<(Style, bool, Cdf)> = Vec::new();
    for (colour, (one, other)) in pairs.enumerate() {
        if one.row_at(point)?.is_none() || other.row_at(point)?.is_none() {
            continue;
        }
        let (Ok(cdf), Ok(other_cdf)) =
            (distribution(one, point, Span::Latency)?, distribution(other, point, Span::Latency)?)
        else {
            continue;
        };
        let style = Style { dash: &[], ..Style::of(colour) };
        legend.push(Entry { label: one.policy().to_string(), key: Key::Line(style) });
        curves.push((style, false, cdf));
        curves.push((Style { dash: SECOND, ..style }, true, other_cdf));
    }
    let largest = curves.iter().map(|(.., cdf)| cdf.largest()).fold(0.0, f64::max);
    if largest <= 0.0 {
        return Ok(Vec::new());
    }
    legend.push(Entry { label: first.name.clone(), key: Key::Stroke(&[]) });
    legend.push(Entry { label: second.name.clone(), key: Key::Stroke(SECOND) });

    let x = log_x(
        format!("Latency{} (ms)", at_point(point, options)),
        least(curves.iter().map(|(.., cdf)| cdf), largest),
        largest,
    );
    let y = Axis::linear("Share of requests", 0.0, 1.0, 5);
    let (mut canvas, panel) = panel_figure(options.title.as_deref(), &legend, x, y);
    for (style, _, cdf) in &curves {
        let points = simplified(cdf.rising().map(|(ms, share)| panel.at(ms, share)));
        let stroke = Stroke { color: style.color, width: LINE, dash: style.dash };
        canvas.line_within(&panel.area, &points, stroke);
    }
    panel.axes(&mut canvas);
    // The hollow markers first and larger, so that they show as rings around full ones at the same place.
    let (hollow, full): (Vec<_>, Vec<_>) = curves.iter().partition(|(_, hollow, _)| *hollow);
    for (style, hollow, cdf) in hollow.into_iter().chain(full) {
        for share in MARKED {
            let at = panel.at(cdf.quantile(share), share);
            if panel.area.holds(at) {
                canvas.marker(at, style, if *hollow { RING } else { 0.0 }, *hollow);
            }
        }
    }
    write(&canvas, &options.formats, stem)
}
