//! The schedule: when each request waited and was computed, and each worker's batches. All panels share a time axis.

use std::collections::BTreeSet;

use super::axis::{Axis, Tick};
use super::canvas::{Align, Canvas, Rect, Stroke};
use super::data::Datum;
use super::input::Series;
use super::layout::{Content, Frame, MOST_ACROSS, PADDING, drawn, room};
use super::legend::{LegendEntry, LegendKey};
use super::panel::PlotPanel;
use super::remark::{stated, stated_entry};
use super::style::{GRID, INK, MEDIUM, PAPER, Rgb, SMALL, Style, tint};
use super::{Drawing, PlotInputs, PlotOptions, Undrawn, nothing};
use crate::base::error::Result;
use crate::base::units::{Nanos, StreamId, WorkerId};
use crate::lab::results::logs::{RequestLine, TaskLine};

const MOST_REQUESTS: usize = 60;
const WAITING: f64 = 0.28;
/// The lowest and the highest row, unless the sheet's height decides.
const ROWS: (f64, f64) = (8.0, 20.0);

/// The bar of the figure's largest batch.
const TALLEST: f64 = 40.0;
/// The lane's name fits.
const ABOVE_LANE: f64 = SMALL + 3.0;
const BELOW: f64 = 8.0;

type Lane = (WorkerId, StreamId);

/// In ns.
struct TaskBar {
    lane: Lane,
    batch: u64,
    start: u64,
    finish: u64,
}

struct Schedule {
    label: String,
    color: Rgb,
    requests: Vec<RequestLine>,
    tasks: Vec<TaskBar>,
    /// Ascending.
    lanes: Vec<Lane>,
    /// The height of a request.
    row: f64,
}

pub fn schedules(inputs: &PlotInputs, options: &PlotOptions) -> Drawing {
    let (point, series) = inputs.at_point(options)?;
    let schedules = series
        .iter()
        .map(|s| schedule(s, &point, options))
        .collect::<Result<Vec<_>, _>>()?;
    match schedules
        .iter()
        .map(|schedule| end(&schedule.requests))
        .max()
        .unwrap_or(0)
    {
        0 => Err(nothing("no time passes in these schedules")),
        end => figure(schedules, end, options),
    }
}

fn figure(mut schedules: Vec<Schedule>, end: u64, options: &PlotOptions) -> Drawing {
    let (unit, name) = time_unit(end);
    let x = Axis::linear(
        format!("Time ({name})"),
        end as f64 / unit * 1.02,
        MOST_ACROSS,
    );
    // Its rows are no values.
    let rows = Axis::bins("", [0.0, 1.0], Vec::new());
    let [x, rows] = options.asked([x, rows], [1.0 / unit, 1.0])?;
    let largest = schedules
        .iter()
        .flat_map(|s| &s.tasks)
        .map(|task| task.batch)
        .max()
        .unwrap_or(1);
    let of = |label: &str, y: &Axis| {
        stated(
            options.stated.iter().filter(|value| value.of == label),
            &x,
            y,
        )
    };
    let shades = [("waiting", WAITING), ("computing", 0.8)];
    let mut legend: Vec<LegendEntry> = shades
        .map(|(label, shade)| {
            LegendEntry::new(
                label,
                LegendKey::Bar(Style {
                    color: tint(INK, shade),
                    ..Style::of(0)
                }),
            )
        })
        .into();
    legend.extend(stated_entry(
        schedules
            .iter()
            .any(|one| !of(&one.label, &rows).is_empty()),
    ));
    let sheet = options.sheet();
    let frame = Frame {
        sheet: &sheet,
        title: options.title.as_deref(),
        legend: &legend,
        beside: false,
        right: None,
    };
    let room = room(&frame, &legend, schedules.len(), true);
    fit_rows(&mut schedules, room);
    let content = |one: &Schedule| {
        let y = one.y_axis(largest);
        Content {
            is_fixed: true,
            ..Content::new(&one.label, y.low, [x.clone(), y])
        }
    };
    let contents: Vec<Content> = schedules.iter().map(content).collect();
    Ok(drawn(&frame, contents, |canvas, i, panel| {
        let schedule = &schedules[i];
        schedule.draw(canvas, panel, unit, largest);
        panel.remark_lines(canvas, &of(&schedule.label, &panel.y));
        canvas.data.extend(schedule.data(panel, unit));
    }))
}

/// Rows as high as the panels' room allows, if it is limited.
fn fit_rows(schedules: &mut [Schedule], room: Option<f64>) {
    const LOWEST: f64 = 3.0;
    let Some(room) = room else { return };
    let others: f64 = schedules
        .iter()
        .map(|one| one.bottom(one.lanes.len()) - one.bottom(0) + BELOW)
        .sum();
    let rows: usize = schedules.iter().map(|one| one.requests.len()).sum();
    let row = ((room - others) / rows as f64).max(LOWEST);
    schedules.iter_mut().for_each(|one| one.row = row);
}

/// Its number, and its length if that is known.
fn name(request: &RequestLine) -> String {
    request.length.map_or(request.id.to_string(), |length| {
        format!("{} ({length})", request.id)
    })
}

/// The largest unit in which the end is at least 1, in ns.
fn time_unit(end: u64) -> (f64, &'static str) {
    match end {
        0..1_000 => (1.0, "ns"),
        1_000..1_000_000 => (1e3, "µs"),
        1_000_000..1_000_000_000 => (1e6, "ms"),
        _ => (1e9, "s"),
    }
}

/// Of the last request.
fn end(requests: &[RequestLine]) -> u64 {
    requests
        .iter()
        .map(|r| r.finish_ns.or(r.start_ns).unwrap_or(r.arrival_ns).0)
        .max()
        .unwrap_or(0)
}

impl Schedule {
    /// The lower end of the requests or, below them, of a number of lanes.
    fn bottom(&self, lanes: usize) -> f64 {
        self.requests.len() as f64 * self.row + lanes as f64 * (ABOVE_LANE + TALLEST)
    }

    /// In units below the top: the requests' numbers, and the scale of each lane.
    fn y_axis(&self, largest: u64) -> Axis {
        let labelled = (16.0 / self.row).ceil() as usize;
        let requests = self.requests.iter().enumerate().step_by(labelled);
        let requests = requests.map(|(i, request)| ((i as f64 + 0.5) * self.row, name(request)));
        let bottoms = (1..=self.lanes.len()).map(|lanes| self.bottom(lanes));
        let scales = bottoms.flat_map(|bottom| {
            [
                (bottom - TALLEST, largest.to_string()),
                (bottom, "0".into()),
            ]
        });
        let ticks = requests
            .chain(scales)
            .map(|(value, label)| Tick { value, label })
            .collect();
        let low = self.bottom(self.lanes.len()) + BELOW;
        Axis::bins("", [low, 0.0], ticks)
    }

    /// When requests waited and were computed.
    fn data(&self, panel: &PlotPanel, unit: f64) -> Vec<Datum> {
        let row = |request: &RequestLine| {
            let ends = |from: Option<Nanos>, to: Option<Nanos>| {
                Some([from?, to?].map(|time| time.0 as f64 / unit))
            };
            let RequestLine {
                arrival_ns,
                start_ns,
                finish_ns,
                ..
            } = *request;
            let parts = [
                (ends(Some(arrival_ns), start_ns), "waiting"),
                (ends(start_ns, finish_ns), "computing"),
            ];
            let axes = [panel.x.label.clone(), "Request".into()];
            let of = |(across, interval): (Option<[f64; 2]>, &'static str)| {
                let from = across?[0];
                let y = request.id.0 as f64;
                Some(Datum {
                    axes: axes.clone(),
                    across,
                    interval,
                    ..Datum::new(panel, &self.label, from, y)
                })
            };
            parts.into_iter().filter_map(of).collect::<Vec<_>>()
        };
        self.requests.iter().flat_map(row).collect()
    }

    fn lane_label(&self, (worker, stream): Lane) -> String {
        let several =
            |of: fn(&Lane, &Lane) -> bool| self.lanes.windows(2).any(|pair| of(&pair[0], &pair[1]));
        match (several(|a, b| a.0 != b.0), several(|a, b| a.0 == b.0)) {
            (false, false) => "batch".into(),
            (true, false) => format!("worker {worker}"),
            (false, true) => format!("stream {stream}"),
            (true, true) => format!("worker {worker}, stream {stream}"),
        }
    }

    fn rows_label(&self) -> &'static str {
        let has_lengths = self.requests.iter().any(|request| request.length.is_some());
        if has_lengths {
            "Request (length)"
        } else {
            "Request"
        }
    }

    fn draw(&self, canvas: &mut Canvas, panel: &PlotPanel, unit: f64, largest: u64) {
        let Rect {
            left, top, right, ..
        } = panel.area;
        let x = |ns: u64| {
            panel
                .at((ns as f64 / unit).clamp(panel.x.low, panel.x.high), 0.0)
                .0
        };
        let row = self.row;
        for (i, request) in self.requests.iter().enumerate() {
            let bar = |from: Nanos, to: Option<Nanos>| {
                let (upper, lower) = (top + (i as f64 + 0.14) * row, top + (i as f64 + 0.86) * row);
                Rect {
                    left: x(from.0),
                    top: upper,
                    right: to.map_or(right, |to| x(to.0)),
                    bottom: lower,
                }
            };
            let RequestLine {
                arrival_ns,
                start_ns,
                finish_ns,
                ..
            } = *request;
            canvas.fill(&bar(arrival_ns, start_ns), tint(self.color, WAITING));
            if let Some(start) = start_ns {
                canvas.fill(&bar(start, finish_ns), self.color);
            }
            canvas.border(&bar(arrival_ns, finish_ns), Stroke::solid(self.color, 0.8));
            let ends = [Some(arrival_ns), start_ns, finish_ns]
                .map(|end| end.map_or("-".into(), |end| end.to_string()));
            let [arrival, start, finish] = ends;
            let values = format!(
                "Request {}\narrival: {arrival}\nstart: {start}\nfinish: {finish}",
                request.id
            );
            canvas.spot(&self.label, bar(arrival_ns, finish_ns), values);
        }
        let middle = top + self.bottom(0) / 2.0;
        canvas.text(
            self.rows_label(),
            (PADDING + 0.8 * MEDIUM, middle),
            MEDIUM,
            Align::Upright,
            INK,
        );
        for (lanes, &lane) in (1..).zip(&self.lanes) {
            let bottom = top + self.bottom(lanes);
            let area = Rect {
                top: bottom - TALLEST,
                bottom,
                ..panel.area
            };
            canvas.text(
                self.lane_label(lane),
                (left + 4.0, area.top - 4.0),
                SMALL,
                Align::Left,
                INK,
            );
            let tasks = self.tasks.iter().filter(|task| task.lane == lane);
            let tasks: Vec<_> = tasks
                .map(|task| (x(task.start), x(task.finish), task.batch))
                .collect();
            draw_bars(canvas, &area, &tasks, largest);
        }
    }
}

/// Tasks (left end, right end, batch size), with numbers where these fit.
fn draw_bars(canvas: &mut Canvas, area: &Rect, tasks: &[(f64, f64, u64)], largest: u64) {
    let Rect { top, bottom, .. } = *area;
    canvas.line(
        &[(area.left, top), (area.right, top)],
        Stroke::solid(GRID, 0.8),
    );
    for &(left, right, batch) in tasks {
        let upper = bottom - batch as f64 / largest.max(1) as f64 * (bottom - top);
        let body = Rect {
            left,
            top: upper,
            right,
            bottom,
        };
        canvas.fill(&body, tint(INK, 0.3));
        if body.width() > 3.0 {
            canvas.line(
                &[(right, upper), (right, bottom)],
                Stroke::solid(PAPER, 0.8),
            );
        }
        if canvas.sheet.face.width(&batch.to_string(), SMALL) <= body.width() - 2.0 {
            // Above a bar that is too low.
            let baseline = if bottom - upper > SMALL {
                upper + SMALL - 1.0
            } else {
                upper - 2.5
            };
            canvas.text(
                batch.to_string(),
                ((left + right) / 2.0, baseline),
                SMALL,
                Align::Center,
                INK,
            );
        }
    }
    canvas.line(
        &[(area.left, bottom), (area.right, bottom)],
        Stroke::solid(tint(INK, 0.5), 0.8),
    );
}

fn schedule(series: &Series<'_>, point: &str, options: &PlotOptions) -> Result<Schedule, Undrawn> {
    let requests = requests(series, point, options.first)?;
    let mut tasks = tasks(series, point)?;
    // Later tasks belong to requests not shown.
    let end = end(&requests);
    tasks.retain(|task| task.start < end);
    let lanes: BTreeSet<Lane> = tasks.iter().map(|task| task.lane).collect();
    let (label, color, lanes) = (
        series.label.clone(),
        series.style.color,
        lanes.into_iter().collect(),
    );
    let row = (260.0 / requests.len() as f64).clamp(ROWS.0, ROWS.1);
    Ok(Schedule {
        label,
        color,
        requests,
        tasks,
        lanes,
        row,
    })
}

fn requests(
    series: &Series<'_>,
    point: &str,
    first: Option<usize>,
) -> Result<Vec<RequestLine>, Undrawn> {
    let (path, mut rows) = series.requests(point)?;
    let mut requests = Vec::new();
    while let Some(request) = rows.read()? {
        if first == Some(requests.len()) {
            break;
        }
        if requests.len() == MOST_REQUESTS {
            let why = format!(
                "{} has more than {MOST_REQUESTS} requests, too many to read",
                path.display()
            );
            return Err(nothing(format!(
                "{why}; draw the beginning with --first {MOST_REQUESTS}"
            )));
        }
        requests.push(request);
    }
    match requests.is_empty() {
        true => Err(nothing(format!("{}: has no requests", path.display()))),
        false => Ok(requests),
    }
}

/// None if not logged.
fn tasks(series: &Series<'_>, point: &str) -> Result<Vec<TaskBar>> {
    let (_, Some(mut rows)) = series.log::<TaskLine>(point)? else {
        return Ok(Vec::new());
    };
    let mut tasks = Vec::new();
    while let Some(TaskLine {
        worker,
        stream,
        batch,
        start_ns,
        finish_ns,
        ..
    }) = rows.read()?
    {
        // A task still running at the end has no times.
        let (lane, batch) = ((worker, stream), batch.into());
        let times = start_ns.zip(finish_ns);
        tasks.extend(times.map(|(start, finish)| TaskBar {
            lane,
            batch,
            start: start.0,
            finish: finish.0,
        }));
    }
    Ok(tasks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::units::RequestId;
    use crate::lab::plot::canvas::Mark;

    /// Of tasks of this duration.
    fn drawn_tasks(ns: u64) -> (Vec<f64>, Vec<String>) {
        let lane = Lane::default();
        let task = |i: u64, batch| TaskBar {
            lane,
            batch,
            start: i * ns,
            finish: (i + 1) * ns,
        };
        let (start_ns, finish_ns) = (Some(Nanos(0)), Some(Nanos(1000)));
        let requests = vec![RequestLine::earlier(
            RequestId(7),
            [Some(Nanos(0)), start_ns, finish_ns],
        )];
        let tasks = vec![task(0, 1), task(1, 2), task(2, 4)];
        let schedule = Schedule {
            label: "p".into(),
            color: INK,
            requests,
            tasks,
            lanes: vec![lane],
            row: 20.0,
        };
        let canvas = figure(vec![schedule], 1000, &PlotOptions::default()).unwrap();
        let bars = canvas.marks.iter().filter_map(|mark| match mark {
            Mark::Area(corners, color) if *color == tint(INK, 0.3) => {
                Some(corners[2].1 - corners[0].1)
            }
            _ => None,
        });
        let texts = canvas.marks.iter().filter_map(|mark| match mark {
            Mark::Text(text) => Some(text.words.clone()),
            _ => None,
        });
        (bars.collect(), texts.collect())
    }

    #[test]
    fn batches_are_heights_and_numbers_where_these_fit() {
        let (bars, texts) = drawn_tasks(300);
        assert_eq!(bars, [10.0, 20.0, 40.0]);
        assert!(
            ["1", "2", "4"]
                .iter()
                .all(|number| texts.iter().any(|text| text == number)),
            "{texts:?}"
        );
        let (bars, texts) = drawn_tasks(5);
        assert_eq!(bars, [10.0, 20.0, 40.0]);
        assert!(
            !texts.iter().any(|text| text == "2") && texts.iter().any(|text| text == "4"),
            "the scale: {texts:?}"
        );
    }

    #[test]
    fn the_axis_takes_the_largest_unit_that_is_not_too_large() {
        for (end, name) in [
            (999, "ns"),
            (12_000, "µs"),
            (12_000_000, "ms"),
            (3_000_000_000, "s"),
        ] {
            assert_eq!(time_unit(end).1, name);
        }
    }
}
