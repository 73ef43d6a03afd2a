//! Readable schedules: `tests/schedules/*.txt`, each with a run above a line of dashes and its drawing below.
//!
//! The drawings are made again and compared. `UPDATE_SCHEDULES=1 cargo test --test core golden` writes them into the
//! files; then read what changed.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::lab::Run;
use batchlab::record::full::FullRecord;
use batchlab::units::Nanos;

#[test]
fn schedules_are_as_drawn() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/schedules");
    let mut files: Vec<_> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "txt"));
    files.sort();
    assert!(!files.is_empty(), "no schedules in {}", folder.display());

    for path in files {
        let text = fs::read_to_string(&path).unwrap();
        let (input, drawn) = text.split_once("----\n").unwrap_or((&text, ""));
        let run: Run =
            toml::from_str(input).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let now = draw(&run);
        if std::env::var_os("UPDATE_SCHEDULES").is_some() {
            fs::write(&path, format!("{input}----\n{now}")).unwrap();
        } else {
            assert_eq!(
                drawn,
                now,
                "{}: drawn there (left) and scheduled now (right)\n{now}",
                path.display()
            );
        }
    }
}

/// A Gantt chart with a column for each nanosecond. A request waits (`.`) from its arrival to the start of its first
/// task, and is served (`#`) until its last cell is done; `x` is its rejection. A task is its batch size followed by `-`.
fn draw(run: &Run) -> String {
    let record = run.run();
    let cells = run.device().cells;
    let mut rows: Vec<(String, Vec<char>)> = vec![("time".into(), ruler(record.execution.end))];
    for (id, (_, shape)) in run.requests().iter().enumerate() {
        rows.push((format!("request {id} {shape}"), lifetime(&record, id)));
    }
    let mut lanes: BTreeMap<(u16, String), Vec<char>> = BTreeMap::new();
    for task in &record.execution.tasks {
        let names: Vec<&str> = task
            .cells
            .iter()
            .map(|cell| cells[cell.index()].name.as_str())
            .collect();
        let lane = lanes.entry((task.worker.0, names.join("+"))).or_default();
        let size = char::from_digit(task.batch, 36).expect("small batches can be drawn");
        paint(lane, task.start, task.finish, '-');
        paint(lane, task.start, task.start + Nanos(1), size);
    }
    rows.extend(
        lanes
            .into_iter()
            .map(|((worker, cell), lane)| (format!("worker {worker} {cell}"), lane)),
    );

    let width = rows.iter().map(|(label, _)| label.len()).max().unwrap_or(0);
    let mut picture = String::new();
    for (label, columns) in rows {
        let line = format!(
            "{label:width$}  {}",
            columns.into_iter().collect::<String>()
        );
        writeln!(picture, "{}", line.trim_end()).expect("a string takes all");
    }
    picture
}

fn lifetime(record: &FullRecord, id: usize) -> Vec<char> {
    let mut row = Vec::new();
    if let Some((_, at)) = record
        .rejections
        .iter()
        .find(|(request, _)| request.index() == id)
    {
        paint(&mut row, record.arrival[id], *at, '.');
        paint(&mut row, *at, *at + Nanos(1), 'x');
        return row;
    }
    paint(&mut row, record.arrival[id], record.start[id], '.');
    paint(&mut row, record.start[id], record.finish[id], '#');
    row
}

fn ruler(end: Nanos) -> Vec<char> {
    let mut row = Vec::new();
    for mark in (0..=end.0).step_by(5) {
        for (place, digit) in mark.to_string().chars().enumerate() {
            let at = Nanos(mark + place as u64);
            paint(&mut row, at, at + Nanos(1), digit);
        }
    }
    row
}

fn paint(row: &mut Vec<char>, from: Nanos, to: Nanos, with: char) {
    let (from, to) = (from.0 as usize, to.0 as usize);
    row.resize(row.len().max(to), ' ');
    row[from..to].fill(with);
}
