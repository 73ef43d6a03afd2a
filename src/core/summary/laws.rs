//! Laws that hold in every run under any policy.

use std::collections::BTreeMap;

use crate::base::units::{Nanos, StreamId};
use crate::core::record::full::{FullRecord, to_instant};
use crate::core::task::TaskRow;

/// The number of requests in the system, integrated over the run: in request-nanoseconds, from arrivals and departures
/// only.
pub fn presence(record: &FullRecord) -> u128 {
    let finished = record.finish.iter().copied().filter_map(to_instant);
    let rejected = record.rejections.iter().map(|(_, at)| *at);
    let failed = record.failures.iter().map(|(_, at, _)| *at);
    let departures = finished.chain(rejected).chain(failed).map(|at| (at, true));
    let arrivals = record
        .arrival
        .iter()
        .copied()
        .filter_map(to_instant)
        .map(|at| (at, false));
    let mut events: Vec<(Nanos, bool)> = arrivals.chain(departures).collect();
    // Arrivals first: a request that takes no time does not leave before it arrives.
    events.sort_unstable();
    let mut integral = 0;
    let mut number = 0u64;
    let mut since = Nanos::ZERO;
    for (at, leaves) in events {
        integral += u128::from(number) * u128::from((at - since).0);
        since = at;
        number = if leaves {
            number.saturating_sub(1)
        } else {
            number + 1
        };
    }
    integral
}

/// Little's law, L = λW, exactly: from empty to empty, the integral of the number in the system is the sum of the times
/// in it. The law also fails for a request that never left.
pub fn littles_law(record: &FullRecord) -> Result<(), String> {
    let departures = record.departures();
    let mut sum = 0u128;
    for (id, &arrival) in record.arrival.iter().enumerate() {
        let (left, _) = departures.get(id);
        match (to_instant(arrival), to_instant(left)) {
            (None, None) => {}
            (_, None) => return Err(format!("request {id} never left the system")),
            (Some(arrival), Some(left)) if left >= arrival => sum += u128::from((left - arrival).0),
            _ => return Err(format!("request {id} left before it arrived")),
        }
    }
    let integral = presence(record);
    if integral == sum {
        Ok(())
    } else {
        Err(format!(
            "the number in the system adds up to {integral} request-ns, but the times spent in it to {sum} ns"
        ))
    }
}

/// Every request arrives, then starts, then finishes.
pub fn causality(record: &FullRecord) -> Result<(), String> {
    for (id, &finish) in record
        .finish
        .iter()
        .enumerate()
        .filter(|(_, finish)| to_instant(**finish).is_some())
    {
        let arrival = record.arrival[id];
        let start = record.start[id];
        if arrival > start || start > finish {
            return Err(format!(
                "request {id} arrived at {} ns, started at {} ns and finished at {} ns",
                arrival.0, start.0, finish.0
            ));
        }
    }
    Ok(())
}

/// A worker is busy while at least one of its tasks runs; the tasks of a stream do not overlap. The record must have
/// kept its tasks.
pub fn busy_is_covered_by_tasks(record: &FullRecord) -> Result<(), String> {
    let tasks = &record.execution.tasks;
    if tasks.len() as u64 != record.execution.task_count {
        return Err(format!(
            "{} tasks ran, but the log has {}",
            record.execution.task_count,
            tasks.len()
        ));
    }
    let busy = &record.execution.busy;
    let mut tasks: Vec<&TaskRow> = tasks.iter().collect();
    tasks.sort_unstable_by_key(|task| (task.worker, task.start, task.finish, task.stream));
    let mut covered = vec![Nanos::ZERO; busy.len()];
    for of_worker in tasks.chunk_by(|a, b| a.worker == b.worker) {
        let mut until = Nanos::ZERO;
        let mut of_streams: BTreeMap<StreamId, Nanos> = BTreeMap::new();
        for &&TaskRow {
            worker,
            start,
            finish,
            stream,
            ..
        } in of_worker
        {
            if of_streams
                .insert(stream, finish)
                .is_some_and(|before| start < before)
            {
                return Err(format!(
                    "two tasks of worker {worker}, stream {stream} overlap at {} ns",
                    start.0
                ));
            }
            covered[worker.index()] += finish.saturating_since(start.max(until));
            until = until.max(finish);
        }
    }
    match covered
        .iter()
        .zip(busy)
        .position(|(covered, busy)| covered != busy)
    {
        None => Ok(()),
        Some(worker) => Err(format!(
            "worker {worker} was busy for {} ns, but its tasks took {} ns",
            busy[worker].0, covered[worker].0
        )),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use smallvec::smallvec;

    use super::*;
    use crate::base::units::{CellId, RequestId, TaskId, WorkerId};
    use crate::core::record::Recorder;
    use crate::core::record::tests::{queue, record};
    use crate::core::summary::{Measure, summarize};

    #[test]
    fn presence_by_hand() {
        // The requests are present from 2 to 6, from 4 to 10, and from 5 until the rejection at 8.
        let mut run = record(&[(2, 2, 6), (4, 6, 10), (5, u64::MAX, u64::MAX)]);
        run.reject(RequestId(2), Nanos(8));
        assert_eq!(presence(&run), 4 + 6 + 3);
        assert_eq!(littles_law(&run), Ok(()));
        assert_eq!(presence(&record(&[])), 0);
    }

    #[test]
    fn a_request_that_fails_leaves() {
        let mut run = record(&[(2, 2, 6), (4, 6, u64::MAX)]);
        assert!(littles_law(&run).is_err());
        run.fail(RequestId(1), Nanos(9), "NaN".into());
        assert_eq!(presence(&run), 4 + 5);
        assert_eq!(littles_law(&run), Ok(()));
        assert_eq!(summarize(&run, &Measure::default()).failed, 1);
    }

    #[test]
    fn little_agrees_with_the_summary() {
        let run = queue(5000, 0.8, 2);
        let span = run.execution.end - run.arrival[0];
        let mean_number = presence(&run) as f64 / span.0 as f64;
        let rate = 5000.0 / span.as_millis_f64();
        let latency = summarize(&run, &Measure::default())
            .latency
            .mean_ms
            .unwrap();
        assert!((mean_number / (rate * latency) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn broken_records_are_found() {
        let never = u64::MAX;
        assert_eq!(
            littles_law(&record(&[(1, 2, never)])),
            Err("request 0 never left the system".into())
        );
        assert!(littles_law(&record(&[(1, 1, 20), (9, 9, 4)])).is_err());
        assert!(
            causality(&record(&[(1, 0, 3)]))
                .unwrap_err()
                .contains("request 0 arrived at 1 ns, started at 0 ns")
        );
        assert!(causality(&record(&[(1, never, 3)])).is_err());
        assert_eq!(causality(&record(&[(1, 1, 1), (1, never, never)])), Ok(()));
    }

    fn row(task: TaskId, stream: u16, start: u64, finish: u64) -> TaskRow {
        let (worker, stream, cells) = (WorkerId(0), StreamId(stream), smallvec![CellId(0)]);
        TaskRow {
            task,
            worker,
            stream,
            cells,
            batch: 1,
            submit: Nanos(0),
            start: Nanos(start),
            finish: Nanos(finish),
        }
    }

    #[test]
    fn busy_time_is_checked_by_worker() {
        let mut run = record(&[]);
        (run.execution.task_count, run.execution.busy[0]) = (1, Nanos(5));
        assert_eq!(
            busy_is_covered_by_tasks(&run),
            Err("1 tasks ran, but the log has 0".into())
        );
        run.execution.tasks.push(row(TaskId(0), 0, 1, 6));
        assert_eq!(busy_is_covered_by_tasks(&run), Ok(()));
        run.execution.busy[0] = Nanos(6);
        assert_eq!(
            busy_is_covered_by_tasks(&run),
            Err("worker 0 was busy for 6 ns, but its tasks took 5 ns".into())
        );
    }

    #[test]
    fn streams_overlap_and_tasks_of_one_do_not() {
        let law = |busy, tasks: &[(u16, u64, u64)]| {
            let mut run = record(&[]);
            (run.execution.task_count, run.execution.busy[0]) = (tasks.len() as u64, Nanos(busy));
            run.execution.tasks.extend(
                (0..)
                    .map(TaskId)
                    .zip(tasks)
                    .map(|(task, (stream, start, finish))| row(task, *stream, *start, *finish)),
            );
            busy_is_covered_by_tasks(&run)
        };
        assert_eq!(
            law(9, &[(0, 0, 5), (1, 2, 4), (0, 5, 6), (1, 7, 10)]),
            Ok(())
        );
        assert_eq!(
            law(11, &[(0, 0, 5), (1, 2, 4)]),
            Err("worker 0 was busy for 11 ns, but its tasks took 5 ns".into())
        );
        assert_eq!(
            law(5, &[(1, 0, 3), (1, 2, 5)]),
            Err("two tasks of worker 0, stream 1 overlap at 2 ns".into())
        );
    }

    proptest! {
        #[test]
        fn littles_law_is_exact(rows in prop::collection::vec((0u64..50, 0u64..20, 0u64..20), 0..40)) {
            let rows: Vec<_> = rows.into_iter().map(|(a, wait, work)| (a, a + wait, a + wait + work)).collect();
            prop_assert_eq!(littles_law(&record(&rows)), Ok(()));
        }
    }
}
