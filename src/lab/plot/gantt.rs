//! The schedule: when each request waited and was computed, and each worker's batches. All panels share a time axis.

use std::collections::BTreeSet;

use super::axis::{Axis, Tick};
use super::canvas::{Align, Canvas, Rect, Stroke};
use super::data::Datum;
use super::folder::Series;
use super::input::PlotInputs;
use super::layout::{Content, Frame, MOST_ACROSS, draw_panels, room_for_panels};
use super::legend::{LegendEntry, LegendKey};
use super::options::PlotOptions;
use super::panel::PlotPanel;
use super::remark::{Remark, legend_entry, stated_remarks};
use super::style::{GRID, INK, MEDIUM, PADDING, PAPER, Rgb, SMALL, Style, tint};
use super::undrawn::{Drawing, Undrawn, nothing};
use crate::base::error::Result;
use crate::base::units::{Nanos, StreamId, WorkerId};
use crate::lab::results::logs::{RequestLine, TaskLine};

const MOST_REQUESTS: usize = 60;
/// The strength of the colour of a request that waits.
const WAITING: f64 = 0.28;
/// The least and the largest height of a request's row, unless the sheet's height decides.
const ROWS: (f64, f64) = (8.0, 20.0);

/// The height of the figure's largest batch.
const TALLEST: f64 = 40.0;
/// The distance above a lane, in which the lane's name fits.
const ABOVE_LANE: f64 = SMALL + 3.0;
/// The distance below the last lane.
const BELOW: f64 = 8.0;

/// A worker's stream, whose tasks have a row.
type Lane = (WorkerId, StreamId);

/// A task of a lane. Its times are in nanoseconds.
struct TaskBar {
    lane: Lane,
    batch: u64,
    start: u64,
    finish: u64,
}

/// The schedule of a policy.
struct Schedule {
    label: String,
    color: Rgb,
    requests: Vec<RequestLine>,
    tasks: Vec<TaskBar>,
    /// The lanes, ascending.
    lanes: Vec<Lane>,
    /// The height of a request's row.
    row: f64,
}

/// What the schedules of a figure share.
struct GanttScale {
    /// The nanoseconds of the time axis's unit.
    unit: f64,
    largest_batch: u64,
}

/// Draws the schedules of the policies at a point.
pub fn draw_schedules(inputs: &PlotInputs, options: &PlotOptions) -> Drawing {
    let (point, series) = inputs.compared_point(options)?;
    let mut schedules = Vec::new();
    for s in &series {
        schedules.push(Schedule::read(s, &point, options)?);
    }
    let ends = schedules.iter().map(|schedule| end(&schedule.requests));
    let end = ends.max().unwrap_or(0);
    if end == 0 {
        return Err(nothing("no time passes in these schedules"));
    }
    draw(schedules, end, options)
}

fn draw(mut schedules: Vec<Schedule>, end: u64, options: &PlotOptions) -> Drawing {
    let (unit, unit_name) = time_unit(end);
    let time = Axis::linear(
        format!("Time ({unit_name})"),
        end as f64 / unit * 1.02,
        MOST_ACROSS,
    );
    // The rows of a schedule are not values, so this vertical axis is a placeholder.
    let rows = Axis::bins("", [0.0, 1.0], Vec::new());
    let [time, rows] = options.axes([time, rows], [1.0 / unit, 1.0])?;
    let batches = schedules.iter().flat_map(|s| &s.tasks);
    let scale = GanttScale {
        unit,
        largest_batch: batches.map(|task| task.batch).max().unwrap_or(1),
    };
    let stated: Vec<Remark> = schedules
        .iter()
        .flat_map(|one| one.stated_values(options, &time, &rows))
        .collect();
    let legend = legend(legend_entry(stated.iter()));
    let sheet = options.sheet();
    let frame = Frame {
        sheet: &sheet,
        title: options.title.as_deref(),
        legend: &legend,
        beside: false,
        right: None,
    };
    if let Some(room) = room_for_panels(&frame, &legend, schedules.len(), true) {
        fit_rows(&mut schedules, room);
    }
    let mut contents = Vec::new();
    for schedule in &schedules {
        let y = schedule.y_axis(scale.largest_batch);
        contents.push(Content {
            is_fixed: true,
            ..Content::new(&schedule.label, y.low, [time.clone(), y])
        });
    }
    Ok(draw_panels(&frame, contents, |canvas, i, panel| {
        let schedule = &schedules[i];
        schedule.draw(canvas, panel, &scale);
        let stated = schedule.stated_values(options, &time, &panel.y);
        panel.remark_lines(canvas, &stated);
        canvas.data.extend(schedule.data(panel, unit));
    }))
}

fn legend(stated: Option<LegendEntry>) -> Vec<LegendEntry> {
    let mut legend = Vec::new();
    for (label, strength) in [("waiting", WAITING), ("computing", 0.8)] {
        let style = Style {
            color: tint(INK, strength),
            ..Style::number(0)
        };
        legend.push(LegendEntry::new(label, LegendKey::Bar(style)));
    }
    legend.extend(stated);
    legend
}

/// Gives rows the height that the panels' room allows.
fn fit_rows(schedules: &mut [Schedule], room: f64) {
    const LOWEST: f64 = 3.0;
    let others: f64 = schedules
        .iter()
        .map(|one| one.bottom(one.lanes.len()) - one.bottom(0) + BELOW)
        .sum();
    let rows: usize = schedules.iter().map(|one| one.requests.len()).sum();
    let height = ((room - others) / rows as f64).max(LOWEST);
    for schedule in schedules {
        schedule.row = height;
    }
}

/// The number of a request, and its length if that is known.
fn name(request: &RequestLine) -> String {
    match request.length {
        Some(length) => format!("{} ({length})", request.id),
        None => request.id.to_string(),
    }
}

/// The largest unit in which the end is at least 1, in nanoseconds, and its name.
fn time_unit(end: u64) -> (f64, &'static str) {
    match end {
        0..1_000 => (1.0, "ns"),
        1_000..1_000_000 => (1e3, "µs"),
        1_000_000..1_000_000_000 => (1e6, "ms"),
        _ => (1e9, "s"),
    }
}

/// The end of the last request.
fn end(requests: &[RequestLine]) -> u64 {
    let ends = requests
        .iter()
        .map(|r| r.finish_ns.or(r.start_ns).unwrap_or(r.arrival_ns).0);
    ends.max().unwrap_or(0)
}

impl Schedule {
    fn read(series: &Series<'_>, point: &str, options: &PlotOptions) -> Result<Schedule, Undrawn> {
        let requests = read_requests(series, point, options.first)?;
        let mut tasks = read_tasks(series, point)?;
        // Later tasks belong to requests that are not shown.
        let end = end(&requests);
        tasks.retain(|task| task.start < end);
        let lanes: BTreeSet<Lane> = tasks.iter().map(|task| task.lane).collect();
        let (lowest, highest) = ROWS;
        Ok(Schedule {
            label: series.label.clone(),
            color: series.style.color,
            row: (260.0 / requests.len() as f64).clamp(lowest, highest),
            requests,
            tasks,
            lanes: lanes.into_iter().collect(),
        })
    }

    /// The values that a paper states about this policy.
    fn stated_values(&self, options: &PlotOptions, x: &Axis, y: &Axis) -> Vec<Remark> {
        let own = options.stated.iter().filter(|one| one.of == self.label);
        stated_remarks(own, x, y)
    }

    /// The lower end of the requests or, below them, of a number of lanes.
    fn bottom(&self, lanes: usize) -> f64 {
        self.requests.len() as f64 * self.row + lanes as f64 * (ABOVE_LANE + TALLEST)
    }

    /// The vertical axis in units below the top. Its labels are the numbers of requests, and the scale of each lane.
    fn y_axis(&self, largest_batch: u64) -> Axis {
        const LABEL_HEIGHT: f64 = 16.0;
        let labelled = (LABEL_HEIGHT / self.row).ceil() as usize;
        let mut ticks = Vec::new();
        for (i, request) in self.requests.iter().enumerate().step_by(labelled) {
            ticks.push(Tick {
                value: (i as f64 + 0.5) * self.row,
                label: name(request),
            });
        }
        for lanes in 1..=self.lanes.len() {
            let bottom = self.bottom(lanes);
            ticks.push(Tick {
                value: bottom - TALLEST,
                label: largest_batch.to_string(),
            });
            ticks.push(Tick {
                value: bottom,
                label: "0".into(),
            });
        }
        let low = self.bottom(self.lanes.len()) + BELOW;
        Axis::bins("", [low, 0.0], ticks)
    }

    /// The times in which requests waited and were computed, as rows of the figure's data.
    fn data(&self, panel: &PlotPanel, unit: f64) -> Vec<Datum> {
        let mut data = Vec::new();
        for request in &self.requests {
            let arrival = Some(request.arrival_ns);
            let parts = [
                (arrival, request.start_ns, "waiting"),
                (request.start_ns, request.finish_ns, "computing"),
            ];
            for (from, to, interval) in parts {
                let (Some(from), Some(to)) = (from, to) else {
                    continue;
                };
                let ends = [from, to].map(|time| time.0 as f64 / unit);
                data.push(Datum {
                    axes: [panel.x.label.clone(), "Request".into()],
                    across: Some(ends),
                    interval,
                    ..panel.datum(&self.label, ends[0], request.id.0 as f64)
                });
            }
        }
        data
    }

    fn lane_label(&self, (worker, stream): Lane) -> String {
        let mut has_workers = false;
        let mut has_streams = false;
        for pair in self.lanes.windows(2) {
            if pair[0].0 == pair[1].0 {
                has_streams = true;
            } else {
                has_workers = true;
            }
        }
        match (has_workers, has_streams) {
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

    fn draw(&self, canvas: &mut Canvas, panel: &PlotPanel, scale: &GanttScale) {
        for (i, request) in self.requests.iter().enumerate() {
            self.draw_request(canvas, panel, scale, i, request);
        }
        let middle = panel.area.top + self.bottom(0) / 2.0;
        canvas.text(
            self.rows_label(),
            (PADDING + 0.8 * MEDIUM, middle),
            MEDIUM,
            Align::Upright,
            INK,
        );
        for (lanes, &lane) in (1..).zip(&self.lanes) {
            let bottom = panel.area.top + self.bottom(lanes);
            let area = Rect {
                top: bottom - TALLEST,
                bottom,
                ..panel.area
            };
            let at = (area.left + 4.0, area.top - 4.0);
            canvas.text(self.lane_label(lane), at, SMALL, Align::Left, INK);
            self.draw_lane(canvas, panel, scale, lane, &area);
        }
    }

    /// Draws the row of the request with this number.
    fn draw_request(
        &self,
        canvas: &mut Canvas,
        panel: &PlotPanel,
        scale: &GanttScale,
        number: usize,
        request: &RequestLine,
    ) {
        let arrival = scale.place(panel, request.arrival_ns.0);
        let start = request.start_ns.map(|time| scale.place(panel, time.0));
        let finish = request.finish_ns.map(|time| scale.place(panel, time.0));
        // A request that has not started or finished yet reaches to the end of the panel.
        let end = finish.unwrap_or(panel.area.right);
        let whole = Rect {
            left: arrival,
            top: panel.area.top + (number as f64 + 0.14) * self.row,
            right: end,
            bottom: panel.area.top + (number as f64 + 0.86) * self.row,
        };
        let waiting = Rect {
            right: start.unwrap_or(panel.area.right),
            ..whole
        };
        canvas.fill(&waiting, tint(self.color, WAITING));
        if let Some(start) = start {
            let computing = Rect {
                left: start,
                ..whole
            };
            canvas.fill(&computing, self.color);
        }
        canvas.border(&whole, Stroke::solid(self.color, 0.8));
        let values = format!(
            "Request {}\narrival: {}\nstart: {}\nfinish: {}",
            request.id,
            request.arrival_ns,
            time_or_dash(request.start_ns),
            time_or_dash(request.finish_ns)
        );
        canvas.spot(&self.label, whole, values);
    }

    /// Draws the tasks of a lane, with their batch sizes where these fit.
    fn draw_lane(
        &self,
        canvas: &mut Canvas,
        panel: &PlotPanel,
        scale: &GanttScale,
        lane: Lane,
        area: &Rect,
    ) {
        let top = [(area.left, area.top), (area.right, area.top)];
        canvas.line(&top, Stroke::solid(GRID, 0.8));
        for task in self.tasks.iter().filter(|task| task.lane == lane) {
            let share = task.batch as f64 / scale.largest_batch.max(1) as f64;
            let body = Rect {
                left: scale.place(panel, task.start),
                top: area.bottom - share * (area.bottom - area.top),
                right: scale.place(panel, task.finish),
                bottom: area.bottom,
            };
            draw_task(canvas, &body, task.batch);
        }
        let bottom = [(area.left, area.bottom), (area.right, area.bottom)];
        canvas.line(&bottom, Stroke::solid(tint(INK, 0.5), 0.8));
    }
}

impl GanttScale {
    /// The horizontal place of a time, within the panel.
    fn place(&self, panel: &PlotPanel, ns: u64) -> f64 {
        let time = (ns as f64 / self.unit).clamp(panel.x.low, panel.x.high);
        panel.place(time, 0.0).0
    }
}

fn time_or_dash(time: Option<Nanos>) -> String {
    match time {
        Some(time) => time.to_string(),
        None => "-".into(),
    }
}

/// Draws a task as a bar, with its batch size if that fits.
fn draw_task(canvas: &mut Canvas, body: &Rect, batch: u64) {
    canvas.fill(body, tint(INK, 0.3));
    if body.width() > 3.0 {
        let end = [(body.right, body.top), (body.right, body.bottom)];
        canvas.line(&end, Stroke::solid(PAPER, 0.8));
    }
    let size = batch.to_string();
    if canvas.sheet.face.width(&size, SMALL) > body.width() - 2.0 {
        return;
    }
    // The size is above a bar that is too low for it.
    let baseline = if body.height() > SMALL {
        body.top + SMALL - 1.0
    } else {
        body.top - 2.5
    };
    let at = ((body.left + body.right) / 2.0, baseline);
    canvas.text(size, at, SMALL, Align::Center, INK);
}

fn read_requests(
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
            return Err(nothing(format!(
                "{} has more than {MOST_REQUESTS} requests, too many to read; draw the beginning with \
                 --first {MOST_REQUESTS}",
                path.display()
            )));
        }
        requests.push(request);
    }
    if requests.is_empty() {
        return Err(nothing(format!("{}: has no requests", path.display())));
    }
    Ok(requests)
}

/// Reads the tasks of a point. There are none if they were not logged.
fn read_tasks(series: &Series<'_>, point: &str) -> Result<Vec<TaskBar>> {
    let (_, Some(mut rows)) = series.log::<TaskLine>(point)? else {
        return Ok(Vec::new());
    };
    let mut tasks = Vec::new();
    while let Some(line) = rows.read()? {
        // A task that still ran at the end has no times.
        if let (Some(start), Some(finish)) = (line.start_ns, line.finish_ns) {
            tasks.push(TaskBar {
                lane: (line.worker, line.stream),
                batch: line.batch.into(),
                start: start.0,
                finish: finish.0,
            });
        }
    }
    Ok(tasks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::units::RequestId;
    use crate::lab::plot::canvas::CanvasMark;

    /// The heights of bars and the texts in a drawing of tasks that take this long.
    fn draw_tasks(ns: u64) -> (Vec<f64>, Vec<String>) {
        let lane = Lane::default();
        let mut tasks = Vec::new();
        for (i, batch) in [1, 2, 4].into_iter().enumerate() {
            let start = i as u64 * ns;
            tasks.push(TaskBar {
                lane,
                batch,
                start,
                finish: start + ns,
            });
        }
        let times = [Some(Nanos(0)), Some(Nanos(0)), Some(Nanos(1000))];
        let schedule = Schedule {
            label: "p".into(),
            color: INK,
            requests: vec![RequestLine::earlier(RequestId(7), times)],
            tasks,
            lanes: vec![lane],
            row: 20.0,
        };
        let canvas = draw(vec![schedule], 1000, &PlotOptions::default()).unwrap();
        let mut bars = Vec::new();
        let mut texts = Vec::new();
        for mark in canvas.marks {
            match mark {
                CanvasMark::Area(corners, color) if color == tint(INK, 0.3) => {
                    bars.push(corners[2].1 - corners[0].1);
                }
                CanvasMark::Text(text) => texts.push(text.words),
                _ => {}
            }
        }
        (bars, texts)
    }

    #[test]
    fn batches_are_heights_and_numbers_where_these_fit() {
        let (bars, texts) = draw_tasks(300);
        assert_eq!(bars, [10.0, 20.0, 40.0]);
        assert!(
            ["1", "2", "4"]
                .iter()
                .all(|number| texts.iter().any(|text| text == number)),
            "{texts:?}"
        );
        let (bars, texts) = draw_tasks(5);
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
