//! Distributions of queueing time, computation time and latency over the requests of one point.

use super::axis::Axis;
use super::canvas::Stroke;
use super::cdf::{Cdf, MARKED, simplified};
use super::input::{Series, at_point, line_legend, point};
use super::panel::{LINE, figure as panel_figure, log_x, log_y};
use super::{Drawing, Inputs, Nothing, Options, or_nothing};
use crate::error::Result;
use crate::units::Nanos;

/// Which part of a request's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Span {
    /// From its arrival to its first task.
    Queue,
    /// From its first task to its end.
    Compute,
    /// From its arrival to its end.
    Latency,
}

pub(super) fn figure(span: Span, inputs: &Inputs, options: &Options) -> Drawing {
    let series = or_nothing!(inputs.series(options)?);
    let point = point(&series, options)?;
    let mut curves = Vec::new();
    for s in series {
        // With several folders, not each has every point.
        if s.row_at(&point)?.is_some() {
            let cdf = or_nothing!(distribution(&s, &point, span)?);
            curves.push((s, cdf));
        }
    }
    let largest = curves.iter().map(|(_, cdf)| cdf.largest()).fold(0.0, f64::max);
    if largest <= 0.0 {
        return Ok(Err(Nothing(format!("every time at point {point} is 0, which a logarithmic axis does not show"))));
    }
    let name = match span {
        Span::Queue => "Queueing time",
        Span::Compute => "Computation time",
        Span::Latency => "Latency",
    };
    let label = format!("{name}{} (ms)", at_point(&point, options));
    let x = log_x(label, least(curves.iter().map(|(_, cdf)| cdf), largest), largest);
    let y = match options.tail {
        false => Axis::linear("Share of requests", 0.0, 1.0, 5),
        true => {
            let requests = curves.iter().map(|(_, cdf)| cdf.count()).max().unwrap_or(1);
            log_y("Share of slower requests", 0.5 / requests as f64, 1.0)
        }
    };

    let shown: Vec<Series<'_>> = curves.iter().map(|(s, _)| s.clone()).collect();
    let (mut canvas, panel) = panel_figure(options.title.as_deref(), &line_legend(&shown), x, y);
    for (s, cdf) in &curves {
        let stroke = Stroke { color: s.style.color, width: LINE, dash: s.style.dash };
        let place = |(ms, share)| panel.at(ms, share);
        let points = match options.tail {
            false => simplified(cdf.rising().map(place)),
            true => simplified(cdf.falling().map(place)),
        };
        canvas.line_within(&panel.area, &points, stroke);
    }
    panel.axes(&mut canvas);
    for (s, cdf) in &curves {
        for share in MARKED {
            let at = panel.at(cdf.quantile(share), if options.tail { 1.0 - share } else { share });
            if panel.area.holds(at) {
                canvas.marker(at, &s.style, 0.0, false);
            }
        }
    }
    Ok(Ok(canvas))
}

/// Where the axis begins: where the first curve leaves the ground, but at most five decades below the largest time of the
/// fastest policy. Below that of the slowest it could cut the fastest one off.
pub(super) fn least<'a>(cdfs: impl Iterator<Item = &'a Cdf> + Clone, largest: f64) -> f64 {
    let starts = cdfs.clone().filter_map(Cdf::low_end);
    let fastest = cdfs.map(Cdf::largest).filter(|time| *time > 0.0).fold(largest, f64::min);
    starts.fold(largest, f64::min).max(fastest / 1e5)
}

/// The distribution in milliseconds over the requests that finished, without those of the warm-up.
pub(super) fn distribution(series: &Series<'_>, point: &str, span: Span) -> Result<Result<Cdf, Nothing>> {
    let path = series.log(point, "requests.csv");
    let Some(mut rows) = series.open_log(point, "requests.csv")? else {
        return Ok(Err(Nothing(format!(
            "there is no {}; a run writes it with output.requests = true",
            path.display()
        ))));
    };
    let columns = [rows.column("arrival_ns")?, rows.column("start_ns")?, rows.column("finish_ns")?];
    let mut warmup = series.warmup(point)?;
    let mut times = Vec::new();
    while let Some(row) = rows.read()? {
        if warmup > 0 {
            warmup -= 1;
            continue;
        }
        let arrival = row.needed(columns[0])?;
        let (Some(start), Some(finish)) = (row.whole(columns[1])?, row.whole(columns[2])?) else {
            continue;
        };
        let (from, to) = match span {
            Span::Queue => (arrival, start),
            Span::Compute => (start, finish),
            Span::Latency => (arrival, finish),
        };
        if to < from {
            return Err(row.error(columns[2], "the request's times run backwards; arrival, start, finish is the order"));
        }
        times.push(Nanos(to - from).as_millis_f64());
    }
    Ok(Cdf::of(times).ok_or_else(|| Nothing(format!("{}: no request finished after the warm-up", path.display()))))
}
