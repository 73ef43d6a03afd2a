//! The timeline of a run as a Chrome trace, the JSON format of Perfetto and chrome://tracing: a track for each stream,
//! rows of waiting and computing requests, an arrow from each request to its first task, and counters. Times are
//! microseconds with three decimals, exact nanoseconds.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::fmt;
use std::io::{self, Write};
use std::mem;
use std::path::Path;

use serde_json::{Value, json};

use super::write::joined_names;
use crate::base::error::Result;
use crate::base::files::write_whole;
use crate::base::units::{Nanos, StreamId, WorkerId};
use crate::core::record::Outcome;
use crate::core::record::full::{FullRecord, to_instant};
use crate::core::task::TaskRow;
use crate::core::workload::model::CellType;

const WORKERS: u32 = 1;
const REQUESTS: u32 = 2;

/// Writes the timeline of a run. It has tasks and arrows only if the record has kept tasks and first tasks.
pub fn write_timeline(path: &Path, record: &FullRecord, cells: &[CellType]) -> Result<()> {
    write_whole(path, |out| {
        out.write_all(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")?;
        let mut events = Events { out, separator: "" };
        let timeline = Timeline {
            record,
            cells,
            tracks: tracks(record),
            stays: stays(record),
        };
        timeline.name_tracks(&mut events)?;
        // A viewer binds an arrow's end to a slice that it has already read.
        timeline.draw_tasks(&mut events)?;
        timeline.draw_requests(&mut events)?;
        timeline.draw_arrows(&mut events)?;
        timeline.draw_counters(&mut events)?;
        events.out.write_all(b"\n]}\n")
    })
}

struct Timeline<'a> {
    record: &'a FullRecord,
    cells: &'a [CellType],
    /// The streams that ran tasks, in order. A worker without tasks is listed with its first stream.
    tracks: Vec<(WorkerId, StreamId)>,
    stays: Vec<Stay>,
}

fn tracks(record: &FullRecord) -> Vec<(WorkerId, StreamId)> {
    let ran: BTreeSet<_> = record
        .execution
        .tasks
        .iter()
        .map(|task| (task.worker, task.stream))
        .collect();
    let all = (0..record.execution.busy.len() as u16).map(|worker| (WorkerId(worker), StreamId(0)));
    let idle = all.filter(|(worker, _)| !ran.iter().any(|(other, _)| other == worker));
    ran.iter()
        .copied()
        .chain(idle)
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect()
}

/// The time of a request in the system, on a row of the timeline where it overlaps no other request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stay {
    request: usize,
    row: usize,
    arrival: Nanos,
    start: Option<Nanos>,
    /// When the request left, or the end of the run if it never did.
    end: Nanos,
    outcome: &'static str,
}

/// The requests in the order of arrival, each on the first free row. There are as many rows as requests in the system
/// at the peak.
fn stays(record: &FullRecord) -> Vec<Stay> {
    let departures = record.departures();
    let mut stays: Vec<Stay> = (0..record.arrival.len())
        .filter_map(|request| {
            let arrival = to_instant(record.arrival[request])?;
            let (end, outcome) = match departures.get(request) {
                (at, Outcome::Served) => (at, "finished"),
                (at, Outcome::Rejected | Outcome::Expired) => (at, "rejected"),
                (_, Outcome::Failed | Outcome::Unfinished) => {
                    (record.execution.end.max(arrival), "never finished")
                }
            };
            let start = Some(record.start[request]).filter(|&start| start <= end);
            Some(Stay {
                request,
                row: 0,
                arrival,
                start,
                end,
                outcome,
            })
        })
        .collect();
    stays.sort_by_key(|stay| stay.arrival);

    let mut taken: BinaryHeap<Reverse<(Nanos, usize)>> = BinaryHeap::new();
    let mut free: BinaryHeap<Reverse<usize>> = BinaryHeap::new();
    for stay in &mut stays {
        while let Some(Reverse((_, row))) = taken
            .peek()
            .filter(|Reverse((end, _))| *end <= stay.arrival)
        {
            free.push(Reverse(*row));
            taken.pop();
        }
        stay.row = free.pop().map_or(taken.len(), |Reverse(row)| row);
        taken.push(Reverse((stay.end, stay.row)));
    }
    stays
}

impl Timeline<'_> {
    fn name_tracks(&self, events: &mut Events<'_>) -> io::Result<()> {
        for (pid, name) in [(WORKERS, "workers"), (REQUESTS, "requests")] {
            events.name(
                "process",
                format_args!(r#""pid":{pid}"#),
                name,
                pid as usize,
            )?;
        }
        let mut name = |pid: u32, tid: usize, name: &str| {
            events.name(
                "thread",
                format_args!(r#""pid":{pid},"tid":{tid}"#),
                name,
                tid,
            )
        };
        let several_streams = self.tracks.len() > self.record.execution.busy.len();
        for (tid, (worker, stream)) in self.tracks.iter().enumerate() {
            let stream = if several_streams {
                format!(" stream {stream}")
            } else {
                String::new()
            };
            name(WORKERS, tid, &format!("worker {worker}{stream}"))?;
        }
        let rows = self
            .stays
            .iter()
            .map(|stay| stay.row + 1)
            .max()
            .unwrap_or(0);
        (0..rows).try_for_each(|row| name(REQUESTS, self.tracks.len() + row, &format!("row {row}")))
    }

    fn draw_tasks(&self, events: &mut Events<'_>) -> io::Result<()> {
        for task in &self.record.execution.tasks {
            let name = joined_names(&task.cells, self.cells);
            let label = json!(format!("{name} × {}", task.batch));
            let args = json!({ "task": task.task.0, "cell": name, "batch": task.batch, "submit_ns": task.submit.0 });
            events.slice(
                WORKERS,
                self.track_of(task),
                &label,
                task.start,
                task.finish,
                &args,
            )?;
        }
        Ok(())
    }

    fn track_of(&self, task: &TaskRow) -> usize {
        self.tracks
            .binary_search(&(task.worker, task.stream))
            .expect("every kept task has a track")
    }

    fn draw_requests(&self, events: &mut Events<'_>) -> io::Result<()> {
        for stay in &self.stays {
            let tid = self.tracks.len() + stay.row;
            let mut args = json!({ "request": stay.request, "outcome": stay.outcome });
            if let Some(Some(task)) = self.record.first_task.get(stay.request) {
                args["first_task"] = task.0.into();
            }
            let waited = stay.start.is_none_or(|start| start > stay.arrival);
            let waiting = waited.then(|| ("waiting", stay.arrival, stay.start.unwrap_or(stay.end)));
            let computing = stay.start.map(|start| ("computing", start, stay.end));
            for (name, from, to) in waiting.into_iter().chain(computing) {
                events.slice(REQUESTS, tid, &json!(name), from, to, &args)?;
            }
        }
        Ok(())
    }

    /// Draws an arrow from each request's start to its first task. Both ends are at the same instant.
    fn draw_arrows(&self, events: &mut Events<'_>) -> io::Result<()> {
        let tasks = &self.record.execution.tasks;
        for stay in &self.stays {
            let first = self.record.first_task.get(stay.request);
            let (Some(start), Some(Some(first))) = (stay.start, first) else {
                continue;
            };
            let Ok(place) = tasks.binary_search_by_key(first, |task| task.task) else {
                continue;
            };
            let (row, track) = (self.tracks.len() + stay.row, self.track_of(&tasks[place]));
            let flow = format!(r#""name":"starts","cat":"request","id":{}"#, stay.request);
            let (from, to) = (micros(start), micros(tasks[place].start));
            events.push(format_args!(
                r#""ph":"s",{flow},"pid":{REQUESTS},"tid":{row},"ts":{from}"#
            ))?;
            events.push(format_args!(
                r#""ph":"f","bp":"e",{flow},"pid":{WORKERS},"tid":{track},"ts":{to}"#
            ))?;
        }
        Ok(())
    }

    /// Draws the numbers of requests in the system and of waiting requests, at each change.
    fn draw_counters(&self, events: &mut Events<'_>) -> io::Result<()> {
        const COUNTERS: [&str; 2] = ["requests in the system", "requests waiting"];
        let mut changes: Vec<(Nanos, usize, i64)> = Vec::with_capacity(4 * self.stays.len());
        for stay in &self.stays {
            let left = (stay.outcome != "never finished").then_some(stay.end);
            changes.extend([0, 1].map(|counter| (stay.arrival, counter, 1)));
            changes.extend(stay.start.or(left).map(|started| (started, 1, -1)));
            changes.extend(left.map(|left| (left, 0, -1)));
        }
        changes.sort_unstable();
        let mut counts = [0; 2];
        for instant in changes.chunk_by(|a, b| a.0 == b.0) {
            let (before, ts) = (counts, micros(instant[0].0));
            instant
                .iter()
                .for_each(|(_, counter, change)| counts[*counter] += change);
            for ((name, count), _) in COUNTERS
                .iter()
                .zip(counts)
                .zip(before)
                .filter(|((_, now), then)| now != then)
            {
                events.push(format_args!(
                    r#""ph":"C","name":"{name}","pid":{REQUESTS},"ts":{ts},"args":{{"requests":{count}}}"#
                ))?;
            }
        }
        debug_assert!(self.record.finish.contains(&Nanos::MAX) || counts == [0, 0]);
        Ok(())
    }
}

/// The events of a trace as they are written, each on a line.
struct Events<'a> {
    out: &'a mut dyn Write,
    separator: &'static str,
}

impl Events<'_> {
    /// Writes an event whose object has these fields.
    fn push(&mut self, fields: fmt::Arguments<'_>) -> io::Result<()> {
        write!(
            self.out,
            "{}\n{{{fields}}}",
            mem::replace(&mut self.separator, ",")
        )
    }

    /// Names a process or thread: `what` is `process` or `thread`, `which` has its fields, and `place` is its place
    /// among the others.
    fn name(
        &mut self,
        what: &str,
        which: fmt::Arguments<'_>,
        name: &str,
        place: usize,
    ) -> io::Result<()> {
        self.push(format_args!(
            r#""ph":"M",{which},"name":"{what}_name","args":{{"name":"{name}"}}"#
        ))?;
        self.push(format_args!(
            r#""ph":"M",{which},"name":"{what}_sort_index","args":{{"sort_index":{place}}}"#
        ))
    }

    fn slice(
        &mut self,
        pid: u32,
        tid: usize,
        name: &Value,
        start: Nanos,
        end: Nanos,
        args: &Value,
    ) -> io::Result<()> {
        let (ts, dur) = (micros(start), micros(end - start));
        self.push(format_args!(
            r#""ph":"X","pid":{pid},"tid":{tid},"name":{name},"ts":{ts},"dur":{dur},"args":{args}"#
        ))
    }
}

fn micros(Nanos(ns): Nanos) -> String {
    format!("{}.{:03}", ns / 1000, ns % 1000)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde_json::Value;
    use smallvec::smallvec;

    use super::*;
    use crate::base::units::{CellId, RequestId, TaskId};
    use crate::core::record::tests::record;
    use crate::core::record::{RecordOptions, Recorder};
    use crate::core::task::TaskRow;
    use crate::core::workload::model::Model;

    fn written(record: &FullRecord) -> String {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("timeline.json");
        write_timeline(
            &path,
            record,
            &Model::Dnn("a \"quoted\" cell".into()).cell_types(),
        )
        .unwrap();
        std::fs::read_to_string(path).unwrap()
    }

    /// A run in which each request is a task of its own, on the first free of three streams, or never runs.
    fn run(requests: &[(u64, u64)]) -> FullRecord {
        let mut run = FullRecord::new(
            requests.len(),
            2,
            1,
            RecordOptions {
                tasks: true,
                first_tasks: true,
                ..RecordOptions::default()
            },
        );
        let mut free = [0u64; 3];
        let mut now = 0;
        for (id, &(gap, work)) in requests.iter().enumerate() {
            now += gap;
            run.arrival[id] = Nanos(now);
            match id % 7 {
                5 => continue,
                6 => {
                    run.reject(RequestId(id as u64), Nanos(now + gap));
                    continue;
                }
                _ => {}
            }
            let worker = (0..3).min_by_key(|&w| free[w]).unwrap();
            let start = now.max(free[worker]);
            free[worker] = start + work;
            let (task, finish) = (
                TaskId(run.execution.tasks.len() as u64),
                Nanos(start + work),
            );
            run.start[id] = Nanos(start);
            run.finish[id] = finish;
            run.first_task[id] = Some(task);
            run.execution.end = run.execution.end.max(finish);
            run.execution.tasks.push(TaskRow {
                task,
                worker: WorkerId(worker as u16 / 2),
                stream: StreamId(worker as u16 % 2),
                cells: smallvec![CellId(0)],
                batch: 1,
                submit: Nanos(start),
                start: Nanos(start),
                finish,
            });
        }
        run
    }

    fn ns(value: &Value) -> u64 {
        (value.as_f64().unwrap() * 1000.0).round() as u64
    }

    /// Checks the rules of viewers: slices of a track do not overlap, arrows have both ends in a slice, tracks have
    /// names.
    fn check(text: &str) {
        let trace: Value = serde_json::from_str(text).unwrap();
        let mut tracks: BTreeMap<(u64, u64), Vec<(u64, u64)>> = BTreeMap::new();
        let mut arrows: BTreeMap<u64, Vec<(&str, u64)>> = BTreeMap::new();
        let mut names = Vec::new();
        for event in trace["traceEvents"].as_array().unwrap() {
            let track = (
                event["pid"].as_u64().unwrap(),
                event["tid"].as_u64().unwrap_or(u64::MAX),
            );
            match event["ph"].as_str().unwrap() {
                "X" => {
                    let start = ns(&event["ts"]);
                    tracks
                        .entry(track)
                        .or_default()
                        .push((start, start + ns(&event["dur"])));
                }
                phase @ ("s" | "f") => {
                    let ts = ns(&event["ts"]);
                    assert!(
                        tracks[&track]
                            .iter()
                            .any(|(start, end)| (*start..=*end).contains(&ts)),
                        "{event}"
                    );
                    assert_eq!(event.get("bp").is_some(), phase == "f");
                    arrows
                        .entry(event["id"].as_u64().unwrap())
                        .or_default()
                        .push((phase, ts));
                }
                "C" => assert!(event["args"]["requests"].as_i64().unwrap() >= 0),
                "M" if event["name"] == "thread_name" => names.push(track),
                "M" => {}
                other => panic!("unknown phase {other}"),
            }
        }
        for (track, slices) in &mut tracks {
            assert!(names.contains(track), "{track:?} has no name");
            slices.sort_unstable();
            assert!(
                slices.windows(2).all(|w| w[0].1 <= w[1].0),
                "slices of {track:?} overlap"
            );
        }
        for (id, ends) in arrows {
            assert!(
                matches!(ends[..], [("s", from), ("f", to)] if from <= to),
                "arrow {id}: {ends:?}"
            );
        }
    }

    #[test]
    fn a_timeline_by_hand() {
        let mut run = record(&[(1000, 1500, 4_000_001), (2000, u64::MAX, u64::MAX)]);
        run.reject(RequestId(1), Nanos(2500));
        let text = written(&run);
        check(&text);
        let lines: Vec<&str> = text
            .lines()
            .filter(|line| !line.contains(r#""ph":"M""#))
            .collect();
        assert_eq!(
            lines,
            [
                r#"{"displayTimeUnit":"ns","traceEvents":["#,
                r#"{"ph":"X","pid":2,"tid":1,"name":"waiting","ts":1.000,"dur":0.500,"args":{"request":0,"outcome":"finished"}},"#,
                r#"{"ph":"X","pid":2,"tid":1,"name":"computing","ts":1.500,"dur":3998.501,"args":{"request":0,"outcome":"finished"}},"#,
                r#"{"ph":"X","pid":2,"tid":2,"name":"waiting","ts":2.000,"dur":0.500,"args":{"request":1,"outcome":"rejected"}},"#,
                r#"{"ph":"C","name":"requests in the system","pid":2,"ts":1.000,"args":{"requests":1}},"#,
                r#"{"ph":"C","name":"requests waiting","pid":2,"ts":1.000,"args":{"requests":1}},"#,
                r#"{"ph":"C","name":"requests waiting","pid":2,"ts":1.500,"args":{"requests":0}},"#,
                r#"{"ph":"C","name":"requests in the system","pid":2,"ts":2.000,"args":{"requests":2}},"#,
                r#"{"ph":"C","name":"requests waiting","pid":2,"ts":2.000,"args":{"requests":1}},"#,
                r#"{"ph":"C","name":"requests in the system","pid":2,"ts":2.500,"args":{"requests":1}},"#,
                r#"{"ph":"C","name":"requests waiting","pid":2,"ts":2.500,"args":{"requests":0}},"#,
                r#"{"ph":"C","name":"requests in the system","pid":2,"ts":4000.001,"args":{"requests":0}}"#,
                "]}",
            ]
        );
    }

    #[test]
    fn an_empty_run_is_a_trace_too() {
        check(&written(&record(&[])));
    }

    #[test]
    fn each_started_request_has_an_arrow() {
        let text = written(&run(&[(1, 5); 14]));
        check(&text);
        assert_eq!(text.matches(r#""ph":"s""#).count(), 10);
    }

    #[test]
    fn rows_are_as_many_as_requests_at_once() {
        let stays = stays(&record(&[
            (0, 0, 10),
            (1, 1, 5),
            (5, 5, 7),
            (6, 6, 9),
            (10, 10, 11),
        ]));
        assert_eq!(
            stays.iter().map(|stay| stay.row).collect::<Vec<_>>(),
            [0, 1, 1, 2, 0]
        );
    }

    proptest! {
        #[test]
        fn every_timeline_is_sound(requests in prop::collection::vec((0u64..8, 1u64..30), 0..60)) {
            let run = run(&requests);
            let text = written(&run);
            check(&text);
            prop_assert_eq!(text, written(&run));
        }
    }
}
