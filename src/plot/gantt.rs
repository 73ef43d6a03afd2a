//! The schedule: when each request waited and was computed, and each worker's batches. All panels share a time axis.

use super::axis::{Axis, Spread};
use super::canvas::{Align, Canvas, HALF_DIGIT, Rect, Stroke};
use super::input::{Series, point};
use super::legend::{Entry, Key, header, header_height};
use super::panel::{HEADING, PADDING, Panel, TICKS_HEIGHT, X_AXIS_HEIGHT, Y_LABEL_WIDTH, overhang, x_label};
use super::render::{fitted, text_width};
use super::style::{GRID, INK, MEDIUM, PAPER, Rgb, SMALL, WIDTH, tint};
use super::{Drawing, Inputs, Kind, Options, Undrawn, nothing};
use crate::error::Result;

/// BatchMaker, Figure 5.
pub const GANTT: Kind =
    Kind { name: "gantt", about: "the schedule: a row for each request and each worker", drawn: schedules };

const MOST_REQUESTS: usize = 60;

const PANEL_GAP: f64 = 12.0;
const WAITING: f64 = 0.28;

/// In ns.
struct Request {
    id: String,
    arrival: u64,
    start: Option<u64>,
    finish: Option<u64>,
}

/// In ns.
struct Task {
    lane: (u64, u64),
    batch: u64,
    start: u64,
    finish: u64,
}

/// How lanes show batch sizes.
#[derive(Clone, Copy)]
enum Lanes {
    /// Numbers in boxes.
    Boxes,
    /// If numbers do not fit: heights, scaled to the figure's largest batch.
    Bars { largest: u64 },
}

struct Schedule {
    label: String,
    color: Rgb,
    requests: Vec<Request>,
    tasks: Vec<Task>,
    /// Worker and stream, ascending.
    lanes: Vec<(u64, u64)>,
}

fn schedules(inputs: &Inputs, options: &Options) -> Drawing {
    let series = inputs.series(options)?;
    let point = point(&series, options)?;
    let mut schedules = Vec::new();
    for s in &series {
        if s.row_at(&point)?.is_some() {
            schedules.push(schedule(s, &point, options)?);
        }
    }
    match schedules.iter().map(Schedule::end).max().unwrap_or(0) {
        0 => Err(nothing("no time passes in these schedules")),
        end => Ok(drawn(&schedules, end, options.title.as_deref())),
    }
}

fn drawn(schedules: &[Schedule], end: u64, title: Option<&str>) -> Canvas {
    let (unit, name) = time_unit(end);
    let x = Axis::linear(format!("Time ({name})"), 0.0, end as f64 / unit * 1.02, 8);
    let legend =
        [Entry::new("waiting", Key::Area(tint(INK, WAITING))), Entry::new("computing", Key::Area(tint(INK, 0.8)))];
    let right = WIDTH - PADDING - overhang(&x);
    let left = |lanes: Lanes| {
        let widest = schedules.iter().map(|schedule| schedule.label_width(lanes)).fold(0.0, f64::max);
        Y_LABEL_WIDTH + widest + 7.0
    };
    let per_ns = (right - left(Lanes::Boxes)) / (x.high * unit);
    let lanes = match schedules.iter().all(|schedule| schedule.numbers_fit(per_ns)) {
        true => Lanes::Boxes,
        false => Lanes::Bars { largest: schedules.iter().flat_map(Schedule::batches).max().unwrap_or(1) },
    };
    let left = left(lanes);
    let mut top = PADDING + header_height(title, &legend);
    let panels = schedules.iter().map(|s| HEADING + s.height(lanes) + 4.0);
    let between = (schedules.len() - 1) as f64 * (TICKS_HEIGHT + PANEL_GAP);
    let mut canvas = Canvas::new(WIDTH, (top + panels.sum::<f64>() + between + X_AXIS_HEIGHT).ceil());
    header(&mut canvas, title, &legend);
    for (i, schedule) in schedules.iter().enumerate() {
        let area = Rect { left, top: top + HEADING, right, bottom: top + HEADING + schedule.height(lanes) + 4.0 };
        let y = Axis { label: String::new(), spread: Spread::Linear, low: 0.0, high: 1.0, ticks: Vec::new() };
        let panel = Panel { area, x: x.clone(), y };
        let heading = fitted(&schedule.label, MEDIUM, right - left);
        canvas.text(heading, (left, top + HEADING - 7.0), MEDIUM, Align::Left, schedule.color);
        panel.grid(&mut canvas);
        schedule.draw(&mut canvas, &panel, unit, lanes);
        panel.x_axis(&mut canvas);
        if i + 1 == schedules.len() {
            x_label(&mut canvas, &x.label, &area);
        }
        top = area.bottom + TICKS_HEIGHT + PANEL_GAP;
    }
    canvas
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

impl Schedule {
    fn end(&self) -> u64 {
        self.requests.iter().map(|r| r.finish.or(r.start).unwrap_or(r.arrival)).max().unwrap_or(0)
    }

    fn row(&self) -> f64 {
        (260.0 / self.requests.len() as f64).clamp(8.0, 20.0)
    }

    fn height(&self, lanes: Lanes) -> f64 {
        self.requests.len() as f64 * self.row() + lanes.height(self.lanes.len())
    }

    fn label_width(&self, lanes: Lanes) -> f64 {
        let ids = self.requests.iter().map(|request| text_width(&request.id, SMALL));
        let names = self.lanes.iter().map(|&lane| text_width(&self.lane_label(lane), SMALL) + lanes.scale_width());
        ids.chain(names).fold(0.0, f64::max)
    }

    fn batches(&self) -> impl Iterator<Item = u64> {
        self.tasks.iter().map(|task| task.batch)
    }

    /// Whether at least half of each lane's boxes are wide enough, at this width of a nanosecond.
    fn numbers_fit(&self, per_ns: f64) -> bool {
        self.lanes.iter().all(|&lane| {
            let of_lane = || self.tasks.iter().filter(|task| task.lane == lane);
            let fit = of_lane().filter(|task| fits(task.batch, (task.finish - task.start) as f64 * per_ns)).count();
            2 * fit >= of_lane().count()
        })
    }

    fn lane_label(&self, (worker, stream): (u64, u64)) -> String {
        match (self.lanes.len(), self.lanes.iter().any(|(_, stream)| *stream > 0)) {
            (1, _) => "batch".into(),
            (_, false) => format!("worker {worker}"),
            (_, true) => format!("worker {worker}.{stream}"),
        }
    }

    fn draw(&self, canvas: &mut Canvas, panel: &Panel, unit: f64, lanes: Lanes) {
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
            let lane_top = rows_end + lanes.below_rows(i);
            let area = Rect { top: lane_top + 1.0, bottom: lane_top + 1.0 + lanes.tallest(), ..panel.area };
            let middle = (area.top + area.bottom) / 2.0 + HALF_DIGIT * SMALL;
            canvas.text(self.lane_label(lane), (left - 7.0 - lanes.scale_width(), middle), SMALL, Align::Right, INK);
            let tasks: Vec<(f64, f64, u64)> = self
                .tasks
                .iter()
                .filter(|task| task.lane == lane)
                .map(|task| (x(task.start), x(task.finish), task.batch))
                .collect();
            lanes.draw(canvas, &area, &tasks);
        }
        canvas.line(&[(left, top), (left, panel.area.bottom + 0.6)], Stroke::solid(INK, 1.2));
    }
}

impl Lanes {
    /// Of a box, or of the bar of the largest batch.
    fn tallest(self) -> f64 {
        match self {
            Lanes::Boxes => 19.0,
            Lanes::Bars { .. } => 40.0,
        }
    }

    /// Between bars, the ends of two scales fit.
    fn below_rows(self, lane: usize) -> f64 {
        match self {
            Lanes::Boxes => 6.0 + lane as f64 * (self.tallest() + 2.0),
            Lanes::Bars { .. } => 11.0 + lane as f64 * (self.tallest() + 16.0),
        }
    }

    fn height(self, lanes: usize) -> f64 {
        match (lanes.checked_sub(1), self) {
            (None, _) => 0.0,
            (Some(last), Lanes::Boxes) => self.below_rows(last) + self.tallest() + 2.0,
            (Some(last), Lanes::Bars { .. }) => self.below_rows(last) + self.tallest() + 8.0,
        }
    }

    /// On the left of a lane, for the ends of its scale.
    fn scale_width(self) -> f64 {
        match self {
            Lanes::Boxes => 0.0,
            Lanes::Bars { largest } => text_width(&largest.to_string(), SMALL) + 8.0,
        }
    }

    /// Tasks: left end, right end, batch size.
    fn draw(self, canvas: &mut Canvas, area: &Rect, tasks: &[(f64, f64, u64)]) {
        let Rect { top, bottom, .. } = *area;
        match self {
            Lanes::Boxes => {
                for &(left, right, batch) in tasks {
                    let body = Rect { left, top, right, bottom };
                    canvas.fill(&body, tint(INK, 0.14));
                    if body.width() > 3.0 {
                        canvas.border(&body, Stroke::solid(PAPER, 1.6));
                    }
                    if fits(batch, body.width()) {
                        let at = ((left + right) / 2.0, (top + bottom) / 2.0 + HALF_DIGIT * SMALL);
                        canvas.text(batch.to_string(), at, SMALL, Align::Center, INK);
                    }
                }
            }
            Lanes::Bars { largest } => {
                canvas.line(&[(area.left, top), (area.right, top)], Stroke::solid(GRID, 0.8));
                for &(left, right, batch) in tasks {
                    let upper = bottom - batch as f64 / largest.max(1) as f64 * (bottom - top);
                    let body = Rect { left, top: upper, right, bottom };
                    canvas.fill(&body, tint(INK, 0.3));
                    if body.width() > 3.0 {
                        canvas.line(&[(right, upper), (right, bottom)], Stroke::solid(PAPER, 0.8));
                    }
                    if fits(batch, body.width()) {
                        // Above a bar that is too low.
                        let baseline = if bottom - upper > SMALL { upper + SMALL - 1.0 } else { upper - 2.5 };
                        canvas.text(batch.to_string(), ((left + right) / 2.0, baseline), SMALL, Align::Center, INK);
                    }
                }
                canvas.line(&[(area.left, bottom), (area.right, bottom)], Stroke::solid(tint(INK, 0.5), 0.8));
                for (end, y) in [(largest, top), (0, bottom)] {
                    canvas.line(&[(area.left - 4.0, y), (area.left, y)], Stroke::solid(INK, 1.2));
                    let at = (area.left - 7.0, y + HALF_DIGIT * SMALL);
                    canvas.text(end.to_string(), at, SMALL, Align::Right, INK);
                }
            }
        }
    }
}

fn fits(batch: u64, width: f64) -> bool {
    text_width(&batch.to_string(), SMALL) <= width - 2.0
}

fn schedule(series: &Series<'_>, point: &str, options: &Options) -> Result<Schedule, Undrawn> {
    let requests = requests(series, point, options.first)?;
    let tasks = tasks(series, point)?;
    let mut schedule =
        Schedule { label: series.label.clone(), color: series.style.color, requests, tasks, lanes: Vec::new() };
    // Later tasks belong to requests not shown.
    let end = schedule.end();
    schedule.tasks.retain(|task| task.start < end);
    schedule.lanes = schedule.tasks.iter().map(|task| task.lane).collect();
    schedule.lanes.sort_unstable();
    schedule.lanes.dedup();
    Ok(schedule)
}

fn requests(series: &Series<'_>, point: &str, first: Option<usize>) -> Result<Vec<Request>, Undrawn> {
    let (path, mut rows) = series.requests(point)?;
    let (id, arrival) = (rows.column("id")?, rows.column("arrival_ns")?);
    let (start, finish) = (rows.column("start_ns")?, rows.column("finish_ns")?);
    let mut requests = Vec::new();
    while let Some(row) = rows.read()? {
        if requests.len() == first.unwrap_or(MOST_REQUESTS).min(MOST_REQUESTS) {
            if first.is_some_and(|first| first <= MOST_REQUESTS) {
                break;
            }
            let why = format!("{} has more than {MOST_REQUESTS} requests, too many to read", path.display());
            return Err(nothing(format!("{why}; draw the beginning with --first {MOST_REQUESTS}")));
        }
        requests.push(Request {
            id: row.text(id).to_string(),
            arrival: row.needed(arrival)?,
            start: row.whole(start)?,
            finish: row.whole(finish)?,
        });
    }
    match requests.is_empty() {
        true => Err(nothing(format!("{}: has no requests", path.display()))),
        false => Ok(requests),
    }
}

/// None if not logged.
fn tasks(series: &Series<'_>, point: &str) -> Result<Vec<Task>> {
    let Some(mut rows) = series.open_log(point, "tasks.csv")? else {
        return Ok(Vec::new());
    };
    let (worker, stream, batch) = (rows.column("worker")?, rows.column("stream")?, rows.column("batch")?);
    let (start, finish) = (rows.column("start_ns")?, rows.column("finish_ns")?);
    let mut tasks = Vec::new();
    while let Some(row) = rows.read()? {
        // A task still running at the end has no times.
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
    use crate::plot::canvas::Mark;

    /// Of tasks of this duration.
    fn drawn_tasks(ns: u64) -> (Vec<f64>, Vec<String>) {
        let task = |i: u64, batch| Task { lane: (0, 0), batch, start: i * ns, finish: (i + 1) * ns };
        let requests = vec![Request { id: "r".into(), arrival: 0, start: Some(0), finish: Some(1000) }];
        let tasks = vec![task(0, 1), task(1, 2), task(2, 4)];
        let schedule = Schedule { label: "p".into(), color: INK, requests, tasks, lanes: vec![(0, 0)] };
        let canvas = drawn(&[schedule], 1000, None);
        let bars = canvas.marks.iter().filter_map(|mark| match mark {
            Mark::Area(corners, color) if *color == tint(INK, 0.3) => Some(corners[2].1 - corners[0].1),
            _ => None,
        });
        let texts = canvas.marks.iter().filter_map(|mark| match mark {
            Mark::Text(text) => Some(text.words.clone()),
            _ => None,
        });
        (bars.collect(), texts.collect())
    }

    #[test]
    fn batches_are_numbers_where_these_fit_and_heights_elsewhere() {
        let (bars, texts) = drawn_tasks(300);
        assert_eq!(bars.len(), 0);
        assert!(["1", "2", "4"].iter().all(|number| texts.iter().any(|text| text == number)), "{texts:?}");
        let (bars, texts) = drawn_tasks(5);
        assert_eq!(bars, [10.0, 20.0, 40.0]);
        assert!(!texts.iter().any(|text| text == "2") && texts.iter().any(|text| text == "4"), "the scale: {texts:?}");
    }

    #[test]
    fn the_axis_takes_the_largest_unit_that_is_not_too_large() {
        for (end, name) in [(999, "ns"), (12_000, "µs"), (12_000_000, "ms"), (3_000_000_000, "s")] {
            assert_eq!(time_unit(end).1, name);
        }
    }
}
