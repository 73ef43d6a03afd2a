//! The schedule: when each request waited and was computed, and the batches that each worker ran. One panel for each
//! policy, with one time axis.

use super::axis::{Axis, Spread};
use super::canvas::{Align, Canvas, HALF_DIGIT, Rect, Stroke};
use super::font::{fitted, text_width};
use super::input::{Series, point};
use super::panel::{Entry, Key, PADDING, Panel, header, header_height, overhang, x_axis_height};
use super::style::{INK, MEDIUM, PAPER, Rgb, SMALL, WIDTH, tint};
use super::{Drawing, Inputs, Nothing, Options, or_nothing};
use crate::error::Result;

/// A panel shows at most so many requests.
const MOST_REQUESTS: usize = 60;

const HEADING: f64 = 24.0;
const LANE: f64 = 21.0;
const PANEL_GAP: f64 = 12.0;
const WAITING: f64 = 0.28;

/// One request of the log, in ns.
struct Request {
    id: String,
    arrival: u64,
    start: Option<u64>,
    finish: Option<u64>,
}

/// One task of the log, in ns.
struct Task {
    lane: (u64, u64),
    batch: u64,
    start: u64,
    finish: u64,
}

/// What one policy did.
struct Schedule {
    label: String,
    color: Rgb,
    requests: Vec<Request>,
    tasks: Vec<Task>,
    /// The worker and stream of each lane, ascending.
    lanes: Vec<(u64, u64)>,
}

pub(super) fn figure(inputs: &Inputs, options: &Options) -> Drawing {
    let series = or_nothing!(inputs.series(options)?);
    let point = point(&series, options)?;
    let mut schedules = Vec::new();
    for s in &series {
        if s.row_at(&point)?.is_some() {
            schedules.push(or_nothing!(schedule(s, &point, options)?));
        }
    }
    let Some(end) = schedules.iter().map(Schedule::end).max().filter(|end| *end > 0) else {
        return Ok(Err(Nothing("no time passes in these schedules".into())));
    };
    Ok(Ok(drawn(&schedules, end, options.title.as_deref())))
}

fn drawn(schedules: &[Schedule], end: u64, title: Option<&str>) -> Canvas {
    let (unit, name) = time_unit(end);
    let x = Axis::linear(format!("Time ({name})"), 0.0, end as f64 / unit * 1.02, 8);
    let legend = [
        Entry { label: "waiting".into(), key: Key::Area(tint(INK, WAITING)) },
        Entry { label: "computing".into(), key: Key::Area(tint(INK, 0.8)) },
    ];
    let widest = schedules.iter().flat_map(Schedule::row_labels).map(|l| text_width(&l, SMALL)).fold(0.0, f64::max);
    let left = PADDING + MEDIUM + 8.0 + widest + 7.0;
    let right = WIDTH - PADDING - overhang(&x);
    let mut top = PADDING + header_height(title, &legend, WIDTH - 2.0 * PADDING);
    let height = schedules.iter().map(|s| HEADING + s.height() + PANEL_GAP).sum::<f64>() - PANEL_GAP;
    let mut canvas = Canvas::new(WIDTH, (top + height + 4.0 + x_axis_height()).ceil());
    header(&mut canvas, title, &legend);
    for (i, schedule) in schedules.iter().enumerate() {
        let area = Rect { left, top: top + HEADING, right, bottom: top + HEADING + schedule.height() + 4.0 };
        let y = Axis { label: String::new(), spread: Spread::Linear, low: 0.0, high: 1.0, ticks: Vec::new() };
        let panel = Panel { area, x: x.clone(), y };
        let heading = fitted(&schedule.label, MEDIUM, right - left);
        canvas.text(heading, (left, top + HEADING - 7.0), MEDIUM, Align::Left, schedule.color);
        panel.grid(&mut canvas);
        schedule.draw(&mut canvas, &panel, unit);
        if i + 1 == schedules.len() {
            panel.x_axis(&mut canvas);
        } else {
            canvas.line(&[(area.left, area.bottom), (area.right, area.bottom)], Stroke::solid(INK, 0.8));
        }
        top = area.bottom + PANEL_GAP - 4.0;
    }
    canvas
}

/// The largest unit in which the end is at least 1, in ns, and its name.
fn time_unit(end: u64) -> (f64, &'static str) {
    match end {
        0..1_000 => (1.0, "ns"),
        1_000..1_000_000 => (1e3, "µs"),
        1_000_000..1_000_000_000 => (1e6, "ms"),
        _ => (1e9, "s"),
    }
}

impl Schedule {
    fn end(&self) -> u64 {
        self.requests.iter().map(|r| r.finish.or(r.start).unwrap_or(r.arrival)).max().unwrap_or(0)
    }

    fn row(&self) -> f64 {
        (260.0 / self.requests.len() as f64).clamp(8.0, 20.0)
    }

    fn height(&self) -> f64 {
        let lanes = if self.lanes.is_empty() { 0.0 } else { 6.0 + self.lanes.len() as f64 * LANE };
        self.requests.len() as f64 * self.row() + lanes
    }

    fn row_labels(&self) -> Vec<String> {
        let lanes = self.lanes.iter().map(|&lane| self.lane_label(lane));
        self.requests.iter().map(|r| r.id.clone()).chain(lanes).collect()
    }

    fn lane_label(&self, (worker, stream): (u64, u64)) -> String {
        match (self.lanes.len(), self.lanes.iter().any(|(_, stream)| *stream > 0)) {
            (1, _) => "batch".into(),
            (_, false) => format!("worker {worker}"),
            (_, true) => format!("worker {worker}.{stream}"),
        }
    }

    fn draw(&self, canvas: &mut Canvas, panel: &Panel, unit: f64) {
        let Rect { left, top, .. } = panel.area;
        let x = |ns: u64| panel.at((ns as f64 / unit).min(panel.x.high), 0.0).0;
        let row = self.row();
        let labelled = (16.0 / row).ceil() as usize;
        for (i, request) in self.requests.iter().enumerate() {
            let (upper, lower) = (top + (i as f64 + 0.14) * row, top + (i as f64 + 0.86) * row);
            let bar = |from: u64, to: Option<u64>| {
                let right = to.map_or(panel.area.right, x);
                Rect { left: x(from), top: upper, right, bottom: lower }
            };
            canvas.fill(&bar(request.arrival, request.start), tint(self.color, WAITING));
            if let Some(start) = request.start {
                canvas.fill(&bar(start, request.finish), self.color);
            }
            canvas.border(&bar(request.arrival, request.finish), Stroke::solid(self.color, 0.8));
            if i % labelled == 0 {
                let at = (left - 7.0, (upper + lower) / 2.0 + HALF_DIGIT * SMALL);
                canvas.text(&request.id, at, SMALL, Align::Right, INK);
            }
        }
        let rows_end = top + self.requests.len() as f64 * row;
        canvas.upright_text("Request", (PADDING + 0.8 * MEDIUM, (top + rows_end) / 2.0), MEDIUM, INK);
        for (i, &lane) in self.lanes.iter().enumerate() {
            let lane_top = rows_end + 6.0 + i as f64 * LANE;
            let at = (left - 7.0, lane_top + LANE / 2.0 + HALF_DIGIT * SMALL);
            canvas.text(self.lane_label(lane), at, SMALL, Align::Right, INK);
            let boxes = self.tasks.iter().filter(|task| task.lane == lane).map(|task| {
                let (left, right) = (x(task.start), x(task.finish));
                (Rect { left, top: lane_top + 1.0, right, bottom: lane_top + LANE - 1.0 }, task.batch.to_string())
            });
            draw_tasks(canvas, &boxes.collect::<Vec<_>>());
        }
        canvas.line(&[(left, top), (left, panel.area.bottom + 0.6)], Stroke::solid(INK, 1.2));
    }
}

/// A box for each task, with its batch size if that fits into half of the boxes of the lane.
fn draw_tasks(canvas: &mut Canvas, boxes: &[(Rect, String)]) {
    let fits = |(area, batch): &&(Rect, String)| text_width(batch, SMALL) <= area.width() - 2.0;
    let labelled = 2 * boxes.iter().filter(fits).count() >= boxes.len();
    for entry in boxes {
        let (area, batch) = entry;
        canvas.fill(area, tint(INK, 0.14));
        if area.width() > 3.0 {
            canvas.border(area, Stroke::solid(PAPER, 1.6));
        }
        if labelled && fits(&entry) {
            let at = ((area.left + area.right) / 2.0, (area.top + area.bottom) / 2.0 + HALF_DIGIT * SMALL);
            canvas.text(batch, at, SMALL, Align::Center, INK);
        }
    }
}

fn schedule(series: &Series<'_>, point: &str, options: &Options) -> Result<Result<Schedule, Nothing>> {
    let requests = or_nothing!(requests(series, point, options.first)?);
    let tasks = tasks(series, point)?;
    let mut schedule =
        Schedule { label: series.label.clone(), color: series.style.color, requests, tasks, lanes: Vec::new() };
    // What comes after the requests that are shown is left out with them.
    let end = schedule.end();
    schedule.tasks.retain(|task| task.start < end);
    schedule.lanes = schedule.tasks.iter().map(|task| task.lane).collect();
    schedule.lanes.sort_unstable();
    schedule.lanes.dedup();
    Ok(Ok(schedule))
}

fn requests(series: &Series<'_>, point: &str, first: Option<usize>) -> Result<Result<Vec<Request>, Nothing>> {
    let path = series.log(point, "requests.csv");
    let Some(mut rows) = series.open_log(point, "requests.csv")? else {
        return Ok(Err(Nothing(format!(
            "there is no {}; a run writes it with output.requests = true",
            path.display()
        ))));
    };
    let (id, arrival) = (rows.column("id")?, rows.column("arrival_ns")?);
    let (start, finish) = (rows.column("start_ns")?, rows.column("finish_ns")?);
    let mut requests = Vec::new();
    while let Some(row) = rows.read()? {
        if requests.len() == first.unwrap_or(MOST_REQUESTS).min(MOST_REQUESTS) {
            if first.is_some_and(|first| first <= MOST_REQUESTS) {
                break;
            }
            let why = format!("{} has more than {MOST_REQUESTS} requests, too many to read", path.display());
            return Ok(Err(Nothing(format!("{why}; draw the beginning with --first {MOST_REQUESTS}"))));
        }
        requests.push(Request {
            id: row.text(id).to_string(),
            arrival: row.needed(arrival)?,
            start: row.whole(start)?,
            finish: row.whole(finish)?,
        });
    }
    Ok(if requests.is_empty() { Err(Nothing(format!("{}: has no requests", path.display()))) } else { Ok(requests) })
}

/// The tasks, or none if they were not logged.
fn tasks(series: &Series<'_>, point: &str) -> Result<Vec<Task>> {
    let Some(mut rows) = series.open_log(point, "tasks.csv")? else {
        return Ok(Vec::new());
    };
    let (worker, stream, batch) = (rows.column("worker")?, rows.column("stream")?, rows.column("batch")?);
    let (start, finish) = (rows.column("start_ns")?, rows.column("finish_ns")?);
    let mut tasks = Vec::new();
    while let Some(row) = rows.read()? {
        // A task that was still running at the end of the run has no times.
        if let (Some(start), Some(finish)) = (row.whole(start)?, row.whole(finish)?) {
            let lane = (row.needed(worker)?, row.needed(stream)?);
            tasks.push(Task { lane, batch: row.needed(batch)?, start, finish });
        }
    }
    Ok(tasks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_axis_takes_the_largest_unit_that_is_not_too_large() {
        for (end, name) in [(999, "ns"), (12_000, "µs"), (12_000_000, "ms"), (3_000_000_000, "s")] {
            assert_eq!(time_unit(end).1, name);
        }
    }
}
