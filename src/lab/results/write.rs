//! Writers of the result files, the same for real and simulated runs.

use std::io::{self, Write};
use std::path::Path;

use serde::Serialize;

use super::columns::{Column, Metric};
use super::logs::{
    BatchLine, DifferenceLine, FailureLine, LogRow as _, RequestLine, RoundLine, TaskLine,
    TokenLine,
};
use super::summary::{self, SummaryRow};
use crate::base::error::Result;
use crate::base::files::write_whole;
use crate::base::units::{CellId, RequestId};
use crate::core::record::compact::{CompactRecord, LoggedRequest};
use crate::core::record::execution::Execution;
use crate::core::record::full::{FullRecord, to_instant};
use crate::core::record::{Outcome, ReasonedDeparture};
use crate::core::workload::model::CellType;

/// Writes the rows of `requests.csv`. The first `warmup` requests are the warm-up.
pub fn write_requests(out: &mut dyn Write, record: &FullRecord, warmup: u64) -> io::Result<()> {
    let lines = request_lines(record, warmup);
    if record.tokens.is_none() {
        return write_lines(out, RequestLine::COLUMNS, lines);
    }
    let lines = lines.map(|line| {
        let tokens = token_line(record, line.id);
        (line, tokens)
    });
    let columns = [RequestLine::COLUMNS, TokenLine::COLUMNS].concat();
    write_lines(out, &columns, lines)
}

/// The rows of `requests.csv`. The first `warmup` requests are the warm-up.
pub fn request_lines(
    record: &FullRecord,
    warmup: u64,
) -> impl Iterator<Item = RequestLine> + use<'_> {
    let mut measured = vec![1; record.arrival.len()];
    for &request in record.arrival_order().iter().take(warmup as usize) {
        measured[request as usize] = 0;
    }
    let departures = record.departures();
    let arrived = record
        .arrival
        .iter()
        .enumerate()
        .filter_map(|(id, at)| Some((id, to_instant(*at)?)));
    arrived.map(move |(id, arrival_ns)| {
        let request = RequestId(id as u64);
        let finish_ns = to_instant(record.finish[id]);
        RequestLine {
            id: request,
            arrival_ns,
            start_ns: finish_ns.map(|_| record.start[id]),
            finish_ns,
            class: class_name(record, request),
            length: record.shapes.as_ref().map(|shapes| shapes[id].length()),
            measured: measured[id],
            outcome: departures.get(id).1,
        }
    })
}

/// The columns that a language model adds to the row of a request; `None` for other models.
pub fn token_line(record: &FullRecord, request: RequestId) -> Option<TokenLine> {
    let sequence = &record.tokens.as_ref()?.sequences[request.index()];
    Some(TokenLine {
        first_token_ns: to_instant(sequence.first),
        output: sequence.output,
        worst_gap_ns: sequence.worst_gap,
        preemptions: sequence.preemptions,
    })
}

/// The name of a request's class, or an empty text without classes.
fn class_name(record: &FullRecord, request: RequestId) -> String {
    match &record.classes {
        Some(classes) => classes.class(request).name.to_string(),
        None => String::new(),
    }
}

/// Writes the rows of `requests.csv` from the requests that a compact record has logged.
pub fn write_logged_requests(
    out: &mut dyn Write,
    record: &CompactRecord,
    warmup: u64,
) -> io::Result<()> {
    write_lines(
        out,
        RequestLine::COLUMNS,
        logged_request_lines(record, warmup),
    )
}

/// The rows of `requests.csv` of the requests that a compact record has logged.
pub fn logged_request_lines(
    record: &CompactRecord,
    warmup: u64,
) -> impl Iterator<Item = RequestLine> + use<'_> {
    let mut logged: Vec<&LoggedRequest> = record.log.iter().collect();
    logged.sort_unstable_by_key(|logged| logged.request);
    logged.into_iter().map(move |logged| {
        let finish_ns = match logged.outcome {
            Outcome::Served => Some(logged.departure),
            _ => None,
        };
        RequestLine {
            id: logged.request,
            arrival_ns: logged.life.arrival,
            start_ns: finish_ns.map(|_| logged.life.start),
            finish_ns,
            class: record.class_name(&logged.life).to_string(),
            length: Some(logged.life.length),
            measured: u8::from(logged.request.0 >= warmup),
            outcome: logged.outcome,
        }
    })
}

/// Writes the rows of `tasks.csv`.
pub fn write_tasks(
    out: &mut dyn Write,
    execution: &Execution,
    cells: &[CellType],
) -> io::Result<()> {
    write_lines(out, TaskLine::COLUMNS, task_lines(execution, cells))
}

/// The rows of `tasks.csv`.
pub fn task_lines(execution: &Execution, cells: &[CellType]) -> impl Iterator<Item = TaskLine> {
    execution.tasks.iter().map(|row| TaskLine {
        task: row.task,
        worker: row.worker,
        stream: row.stream,
        cell: joined_names(&row.cells, cells),
        batch: row.batch,
        submit_ns: row.submit,
        start_ns: to_instant(row.start),
        finish_ns: to_instant(row.finish),
    })
}

/// Writes `rounds.csv`, a row for each call of the policy.
pub fn write_rounds(path: &Path, execution: &Execution) -> Result<()> {
    let mut lines = Vec::with_capacity(execution.rounds.len());
    let mut reported = execution.reported.iter();
    for round in &execution.rounds {
        let completed: Vec<String> = reported
            .by_ref()
            .take(round.completions as usize)
            .map(ToString::to_string)
            .collect();
        lines.push(RoundLine {
            now_ns: round.now,
            completed: completed.join(";"),
            arrived: round.arrivals,
        });
    }
    write_whole(path, |out| write_lines(out, RoundLine::COLUMNS, lines))
}

/// Writes `failures.csv`, or a file of rejections with their reasons in the same form.
pub fn write_failures(path: &Path, failures: &[ReasonedDeparture]) -> Result<()> {
    let lines = failures.iter().map(|(id, at, why)| FailureLine {
        id: *id,
        at_ns: *at,
        reason: why.to_string(),
    });
    write_whole(path, |out| write_lines(out, FailureLine::COLUMNS, lines))
}

/// Writes `batches.csv`: the number of executions of each cell type at each batch size.
pub fn write_batches(path: &Path, execution: &Execution, cells: &[CellType]) -> Result<()> {
    let lines = batch_lines(execution, cells);
    write_whole(path, |out| write_lines(out, BatchLine::COLUMNS, lines))
}

/// The rows of `batches.csv`.
pub fn batch_lines(execution: &Execution, cells: &[CellType]) -> impl Iterator<Item = BatchLine> {
    cells
        .iter()
        .zip(execution.batches())
        .flat_map(|(cell, sizes)| {
            let executed = (0..).zip(sizes).filter(|(_, tasks)| *tasks > 0);
            executed.map(|(batch, tasks)| BatchLine {
                cell: cell.name.clone(),
                batch,
                tasks,
            })
        })
}

/// The metrics of `differences.csv`.
const COMPARED: [Metric; 7] = [
    Metric::Throughput,
    Metric::Goodput,
    Metric::Mean,
    Metric::P50,
    Metric::P90,
    Metric::P99,
    Metric::QueueP99,
];

/// Writes `differences.csv`: the comparison of every other policy with the scenario's first at each point. Writes no
/// file without replications or a second policy.
pub fn write_differences(path: &Path, rows: &[SummaryRow]) -> Result<()> {
    let mut lines = Vec::new();
    let mut pairs = 0;
    for row in rows.iter().filter(|row| row.runs.len() > 1) {
        let first_policy = &rows[0].policy;
        let Some(against) = rows
            .iter()
            .find(|other| other.policy == *first_policy && other.has_same_requests(row))
        else {
            continue;
        };
        if std::ptr::eq(against, row) {
            continue;
        }
        pairs += 1;
        for metric in COMPARED {
            let Some(interval) = row.difference(against, metric) else {
                continue;
            };
            lines.push(DifferenceLine {
                policy: row.name(),
                against: against.name(),
                point: row.point.clone(),
                figure: metric.name().into(),
                difference: metric.unit().format(interval.mean),
                difference_ci: metric.unit().format(interval.half_width),
            });
        }
    }
    if pairs > 0 {
        write_whole(path, |out| write_lines(out, DifferenceLine::COLUMNS, lines))
    } else {
        Ok(())
    }
}

/// Writes `summary.csv`.
pub fn write_summary(path: &Path, rows: &[SummaryRow]) -> Result<()> {
    write_columns(path, &summary::columns(rows, false), rows)
}

/// Writes `classes.csv`, unless there are no classes.
pub fn write_classes(path: &Path, rows: &[SummaryRow]) -> Result<()> {
    let rows: Vec<SummaryRow> = rows.iter().flat_map(SummaryRow::classes).collect();
    if rows.is_empty() {
        Ok(())
    } else {
        write_columns(path, &summary::columns(&rows, true), &rows)
    }
}

/// Writes a CSV file with a row for each `T`.
pub fn write_columns<T>(path: &Path, columns: &[Column<'_, T>], rows: &[T]) -> Result<()> {
    write_whole(path, |out| {
        let mut table = csv::Writer::from_writer(out);
        table.write_record(columns.iter().map(|column| column.name.as_ref()))?;
        for row in rows {
            table.write_record(columns.iter().map(|column| column.value(row).to_csv()))?;
        }
        table.flush()
    })
}

/// Writes a log: a header with these columns, then the rows.
fn write_lines(
    out: &mut dyn Write,
    columns: &[&str],
    rows: impl IntoIterator<Item: Serialize>,
) -> io::Result<()> {
    let mut table = csv::WriterBuilder::new()
        .has_headers(false)
        .from_writer(out);
    table.write_record(columns)?;
    rows.into_iter().try_for_each(|row| table.serialize(row))?;
    table.flush()
}

/// The names of cell types, joined by `+`.
pub(crate) fn joined_names(cells: &[CellId], types: &[CellType]) -> String {
    cells
        .iter()
        .map(|cell| types[cell.index()].name.as_str())
        .collect::<Vec<_>>()
        .join("+")
}

#[cfg(test)]
mod tests {
    use smallvec::smallvec;

    use super::*;
    use crate::base::units::{Nanos, Rate, StreamId, TaskId, WorkerId};
    use crate::core::record::Recorder;
    use crate::core::record::tests::{queue, record};
    use crate::core::summary::{Measure, Summary, summarize};
    use crate::core::task::{Round, TaskRow};
    use crate::core::workload::model::Model;

    fn read(write: impl FnOnce(&Path) -> Result<()>) -> String {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/log.csv");
        write(&path).unwrap();
        std::fs::read_to_string(path).unwrap()
    }

    #[test]
    fn a_request_that_never_finished_has_empty_fields() {
        let never = u64::MAX;
        let run = record(&[
            (0, 5, 7),
            (1, 5, never),
            (2, never, never),
            (never, never, never),
            (10, 12, 1_234_567),
        ]);
        assert_eq!(
            read(|path| write_whole(path, |out| write_requests(out, &run, 1))),
            "id,arrival_ns,start_ns,finish_ns,class,length,measured,outcome\n0,0,5,7,,,0,served\n1,1,,,,,1,unfinished\n\
             2,2,,,,,1,unfinished\n4,10,12,1234567,,,1,served\n"
        );
    }

    #[test]
    fn a_round_names_the_tasks_that_were_done_and_counts_the_requests_that_came() {
        let mut run = record(&[]);
        let round = |now, completions, arrivals| Round {
            now: Nanos(now),
            completions,
            arrivals,
        };
        run.execution.rounds = vec![
            round(0, 0, 2),
            round(7, 2, 0),
            round(8, 0, 0),
            round(9, 1, 1),
        ];
        run.execution.reported = vec![TaskId(1), TaskId(0), TaskId(2)];
        assert_eq!(
            read(|path| write_rounds(path, &run.execution)),
            "now_ns,completed,arrived\n0,,2\n7,1;0,0\n8,,0\n9,2,1\n"
        );
    }

    #[test]
    fn a_failure_is_a_row_with_its_reason() {
        let mut run = record(&[(0, 5, 7), (1, 5, u64::MAX)]);
        run.fail(
            RequestId(1),
            Nanos(9),
            "worker 0: a value is NaN, \"NaN\"".into(),
        );
        assert_eq!(
            read(|path| write_failures(path, &run.failures)),
            "id,at_ns,reason\n1,9,\"worker 0: a value is NaN, \"\"NaN\"\"\"\n"
        );
    }

    #[test]
    fn the_load_generator_has_columns_where_it_ran_on_a_clock() {
        let mut run = queue(1000, 0.5, 1);
        let simulated = summarize(&run, &Measure::default());
        run.lateness = vec![Nanos(30_000); 1000];
        let real = summarize(&run, &Measure::default());
        let closed = summarize(
            &run,
            &Measure {
                closed_loop: true,
                ..Measure::default()
            },
        );
        assert_eq!((simulated.lateness, closed.lateness), (None, None));
        let text = read(|path| write_summary(path, &[row(&[simulated]), row(&[real])]));
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            lines[0].ends_with(",replications,late_mean_us,late_p99_us,late_max_us,valid"),
            "{}",
            lines[0]
        );
        assert!(lines[1].ends_with(",1,,,,"), "{}", lines[1]);
        assert!(
            lines[2].ends_with(",1,30.000,30.000,30.000,false"),
            "{}",
            lines[2]
        );
    }

    #[test]
    fn tasks_and_batches_name_their_cells() {
        let cells = Model::TreeLstm.cell_types();
        let mut run = record(&[]);
        run.execution.unlisted = vec![vec![0, 0, 3], vec![0, 7]];
        run.execution.tasks.push(TaskRow {
            task: TaskId(4),
            worker: WorkerId(1),
            stream: StreamId(0),
            cells: smallvec![CellId(1), CellId(0)],
            batch: 2,
            submit: Nanos(1),
            start: Nanos(2),
            finish: Nanos(30),
        });
        assert_eq!(
            read(|path| write_whole(path, |out| write_tasks(out, &run.execution, &cells))),
            "task,worker,stream,cell,batch,submit_ns,start_ns,finish_ns\n4,1,0,leaf+internal,2,1,2,30\n"
        );
        assert_eq!(
            read(|path| write_batches(path, &run.execution, &cells)),
            "cell,batch,tasks\ninternal,2,3\nleaf,1,7\n"
        );
        let comma = Model::Dnn("a,b".into()).cell_types();
        run.execution.unlisted = vec![vec![0, 1]];
        assert_eq!(
            read(|path| write_batches(path, &run.execution, &comma)),
            "cell,batch,tasks\n\"a,b\",1,1\n"
        );
    }

    fn row(runs: &[Summary]) -> SummaryRow {
        let [policy, backend, point] = ["Batch, Maker", "sim", "1000"].map(String::from);
        SummaryRow {
            policy,
            backend,
            point,
            runs: runs.to_vec(),
            ..SummaryRow::default()
        }
    }

    #[test]
    fn the_summary_has_its_columns_in_order() {
        let mut summary = summarize(
            &queue(30, 0.5, 1),
            &Measure {
                offered: Some(Rate(1000.0)),
                ..Measure::default()
            },
        );
        summary.latency.mean_ms = Some(0.001_234_5);
        summary.slo = Some(Nanos(2_500_000));
        summary.saturated = Some(true);
        let text = read(|path| write_summary(path, &[row(&[summary])]));
        let mut lines = csv::Reader::from_reader(text.as_bytes());
        assert_eq!(
            lines
                .headers()
                .unwrap()
                .iter()
                .collect::<Vec<_>>()
                .join(","),
            "policy,backend,offered_rps,throughput_rps,goodput_rps,completed,failed,rejected,mean_ms,p50_ms,p90_ms,\
             p95_ms,p99_ms,p999_ms,queue_p50_ms,queue_p99_ms,compute_p50_ms,compute_p99_ms,mean_batch,padding,\
             utilization,point,saturated,warmup,max_ms,queue_p90_ms,compute_p90_ms,slo_ms,replications"
        );
        let line = lines.records().next().unwrap().unwrap();
        assert_eq!(&line[0], "Batch, Maker");
        assert_eq!(&line[2], "1000.000");
        assert_eq!(&line[4], "", "there is no SLO");
        assert_eq!(&line[5], "30");
        assert_eq!(&line[8], "0.001234");
        assert_eq!(&line[10], "", "30 samples have no p90");
        assert_eq!((&line[21], &line[22], &line[23]), ("1000", "true", "0"));
        assert_eq!((&line[27], &line[28]), ("2.500000", "1"));
    }

    #[test]
    fn replications_bring_a_column_with_the_half_width() {
        let runs = [1, 2, 3].map(|seed| summarize(&queue(500, 0.5, seed), &Measure::default()));
        let text = read(|path| write_summary(path, &[row(&runs), row(&runs[..1])]));
        let mut lines = csv::Reader::from_reader(text.as_bytes());
        let headers = lines.headers().unwrap().clone();
        assert_eq!(headers.len(), 29 + Metric::ALL.len());
        let column = |name: &str| headers.iter().position(|header| header == name).unwrap();
        let rows: Vec<csv::StringRecord> = lines.records().map(|line| line.unwrap()).collect();
        assert!(rows[0][column("p90_ms_ci")].parse::<f64>().unwrap() > 0.0);
        assert_eq!(&rows[0][column("completed_ci")], "0");
        assert_eq!(&rows[0][column("p99_ms_ci")], "");
        assert_eq!(
            &rows[1][column("p90_ms_ci")],
            "",
            "a single run has no interval"
        );
    }
}
