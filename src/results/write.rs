//! Writers of the result files, the same for real and simulated runs.

use std::io::{self, Write};
use std::path::Path;

use self::Field::{Number, Text, Time};
use super::columns::{BATCHES, Column, DIFFERENCES, FAILURES, Metric, REQUESTS, ROUNDS, TASKS};
use super::summary::{self, SummaryRow};
use crate::error::Result;
use crate::files::write_whole;
use crate::metrics::recorder::{Recorder, happened};
use crate::units::{CellId, Nanos};
use crate::workload::model::CellType;

/// `requests.csv`, by id. A request that never finished has an empty start and finish.
pub fn write_requests(path: &Path, record: &Recorder) -> Result<()> {
    write_whole(path, |out| requests(out, record))
}

pub fn requests(out: &mut dyn Write, record: &Recorder) -> io::Result<()> {
    let mut table = Table::new(out, &REQUESTS)?;
    for (id, &arrival) in record.arrival.iter().enumerate().filter(|(_, arrival)| happened(**arrival).is_some()) {
        let finish = record.finish[id];
        let start = happened(finish).map_or(finish, |_| record.start[id]);
        table.row([Number(id as u64), Time(arrival), Time(start), Time(finish)])?;
    }
    table.finish()
}

/// `tasks.csv`, in the order of submission. A task of several cells has their names joined by `+`.
pub fn write_tasks(path: &Path, record: &Recorder, cells: &[CellType]) -> Result<()> {
    write_whole(path, |out| tasks(out, record, cells))
}

pub fn tasks(out: &mut dyn Write, record: &Recorder, cells: &[CellType]) -> io::Result<()> {
    let mut table = Table::new(out, &TASKS)?;
    let mut names = String::new();
    for task in &record.tasks {
        join_names(&mut names, &task.cells, cells);
        table.row([
            Number(task.task.0),
            Number(task.worker.0.into()),
            Number(task.stream.0.into()),
            Text(&names),
            Number(task.batch.into()),
            Time(task.submit),
            Time(task.start),
            Time(task.finish),
        ])?;
    }
    table.finish()
}

/// `rounds.csv`, a row for each call of the policy: its instant, the tasks completed since the call before (joined by
/// `;`, in the order in which the policy learned of them), and the number of requests that had arrived. With the
/// requests, this determines a policy's decisions.
pub fn write_rounds(path: &Path, record: &Recorder) -> Result<()> {
    let mut delivered = record.delivered.iter();
    write_table(path, &ROUNDS, |table| {
        let mut tasks = String::new();
        for round in &record.rounds {
            tasks.clear();
            for (i, task) in delivered.by_ref().take(round.completions as usize).enumerate() {
                tasks.push_str(if i == 0 { "" } else { ";" });
                tasks.push_str(&task.to_string());
            }
            table.row([Time(round.now), Text(&tasks), Number(round.arrivals.into())])?;
        }
        Ok(())
    })
}

/// `failures.csv`, in the order in which the requests left.
pub fn write_failures(path: &Path, record: &Recorder) -> Result<()> {
    write_table(path, &FAILURES, |table| {
        record
            .failures
            .iter()
            .try_for_each(|(request, at, reason)| table.row([Number(request.0.into()), Time(*at), Text(reason)]))
    })
}

/// `batches.csv`: executions by cell type and batch size.
pub fn write_batches(path: &Path, record: &Recorder, cells: &[CellType]) -> Result<()> {
    write_table(path, &BATCHES, |table| {
        for (cell, sizes) in cells.iter().zip(&record.batches) {
            for (batch, &tasks) in sizes.iter().enumerate().filter(|(_, tasks)| **tasks > 0) {
                table.row([Text(&cell.name), Number(batch as u64), Number(tasks)])?;
            }
        }
        Ok(())
    })
}

const COMPARED: [Metric; 7] =
    [Metric::Throughput, Metric::Goodput, Metric::Mean, Metric::P50, Metric::P90, Metric::P99, Metric::QueueP99];

/// `differences.csv`: at each point, by how much every other policy exceeds the scenario's first, with the 95 %
/// confidence interval of the paired differences. Writes no file without replications or a second policy.
pub fn write_differences(path: &Path, rows: &[SummaryRow]) -> Result<()> {
    let first = |row: &SummaryRow| rows.iter().find(|other| other.point == row.point && other.policy == rows[0].policy);
    let pairs: Vec<(&SummaryRow, &SummaryRow)> = rows
        .iter()
        .filter(|row| row.policy != rows[0].policy && row.runs.len() > 1)
        .filter_map(|row| Some((row, first(row)?)))
        .collect();
    if pairs.is_empty() {
        return Ok(());
    }
    write_table(path, &DIFFERENCES, |table| {
        for (row, against) in pairs {
            for metric in COMPARED {
                let Some(interval) = row.difference(against, metric) else { continue };
                let [mean, half_width] = [interval.mean, interval.half_width].map(|value| metric.unit().written(value));
                let names = [&row.policy, &against.policy, &row.point].map(|name| Text(name));
                let [policy, against, point] = names;
                table.row([policy, against, point, Text(metric.name()), Text(&mean), Text(&half_width)])?;
            }
        }
        Ok(())
    })
}

pub fn write_summary(path: &Path, rows: &[SummaryRow]) -> Result<()> {
    write_columns(path, &summary::columns(rows), rows)
}

pub fn write_columns<T>(path: &Path, columns: &[Column<'_, T>], rows: &[T]) -> Result<()> {
    write_table(path, &columns.iter().map(|column| column.name.as_ref()).collect::<Vec<_>>(), |table| {
        rows.iter().try_for_each(|row| {
            let fields: Vec<String> = columns.iter().map(|column| column.value(row).to_csv()).collect();
            table.row(fields.iter().map(|field| Text(field)))
        })
    })
}

/// Sets `joined` to the names, joined by `+`.
pub(crate) fn join_names(joined: &mut String, cells: &[CellId], types: &[CellType]) {
    joined.clear();
    for (i, cell) in cells.iter().enumerate() {
        joined.push_str(if i == 0 { "" } else { "+" });
        joined.push_str(&types[cell.index()].name);
    }
}

/// Empty for an instant that never came.
enum Field<'a> {
    Number(u64),
    Time(Nanos),
    Text(&'a str),
}

struct Table<'a>(csv::Writer<&'a mut dyn Write>);

fn write_table(
    path: &Path,
    header: &[impl AsRef<str>],
    fill: impl FnOnce(&mut Table<'_>) -> io::Result<()>,
) -> Result<()> {
    write_whole(path, |out| {
        let mut table = Table::new(out, header)?;
        fill(&mut table)?;
        table.finish()
    })
}

impl<'w> Table<'w> {
    fn new(out: &'w mut dyn Write, header: &[impl AsRef<str>]) -> io::Result<Table<'w>> {
        let mut table = Table(csv::Writer::from_writer(out));
        table.row(header.iter().map(|name| Text(name.as_ref())))?;
        Ok(table)
    }

    fn row<'f>(&mut self, fields: impl IntoIterator<Item = Field<'f>>) -> io::Result<()> {
        for field in fields {
            match field {
                Number(number) => self.number(number)?,
                Time(at) => match happened(at) {
                    Some(at) => self.number(at.0)?,
                    None => self.0.write_field("")?,
                },
                Text(text) => self.0.write_field(text)?,
            }
        }
        Ok(self.0.write_record(None::<&[u8]>)?)
    }

    /// From the last digit to the first: in a long log, the standard library's formatting would take most of the time.
    fn number(&mut self, mut number: u64) -> io::Result<()> {
        let mut digits = [0; 20];
        let mut at = digits.len();
        loop {
            at -= 1;
            digits[at] = b'0' + (number % 10) as u8;
            number /= 10;
            if number == 0 {
                break;
            }
        }
        Ok(self.0.write_field(&digits[at..])?)
    }

    fn finish(mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use smallvec::smallvec;

    use super::*;
    use crate::metrics::records::{queue, record};
    use crate::metrics::summary::{Measure, Summary, summarize};
    use crate::task::{Round, TaskRow};
    use crate::units::{Rate, StreamId, TaskId, WorkerId};
    use crate::workload::model::Model;

    fn read(write: impl FnOnce(&Path) -> Result<()>) -> String {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/log.csv");
        write(&path).unwrap();
        std::fs::read_to_string(path).unwrap()
    }

    #[test]
    fn a_request_that_never_finished_has_empty_fields() {
        let never = u64::MAX;
        let run = record(&[(0, 5, 7), (1, 5, never), (2, never, never), (never, never, never), (10, 12, 1_234_567)]);
        assert_eq!(
            read(|path| write_requests(path, &run)),
            "id,arrival_ns,start_ns,finish_ns\n0,0,5,7\n1,1,,\n2,2,,\n4,10,12,1234567\n"
        );
    }

    #[test]
    fn a_round_names_the_tasks_that_were_done_and_counts_the_requests_that_came() {
        let mut run = record(&[]);
        let round = |now, completions, arrivals| Round { now: Nanos(now), completions, arrivals };
        run.rounds = vec![round(0, 0, 2), round(7, 2, 0), round(8, 0, 0), round(9, 1, 1)];
        run.delivered = vec![TaskId(1), TaskId(0), TaskId(2)];
        assert_eq!(read(|path| write_rounds(path, &run)), "now_ns,completed,arrived\n0,,2\n7,1;0,0\n8,,0\n9,2,1\n");
    }

    #[test]
    fn a_failure_is_a_row_with_its_reason() {
        let mut run = record(&[(0, 5, 7), (1, 5, u64::MAX)]);
        run.failed(crate::units::RequestId(1), Nanos(9), "worker 0: a value is NaN, \"NaN\"".into());
        assert_eq!(
            read(|path| write_failures(path, &run)),
            "id,at_ns,reason\n1,9,\"worker 0: a value is NaN, \"\"NaN\"\"\"\n"
        );
    }

    #[test]
    fn the_load_generator_has_columns_where_it_ran_on_a_clock() {
        let mut run = queue(1000, 0.5, 1);
        let simulated = summarize(&run, &Measure::default());
        run.lateness = vec![Nanos(30_000); 1000];
        let real = summarize(&run, &Measure::default());
        let closed = summarize(&run, &Measure { closed_loop: true, ..Measure::default() });
        assert_eq!((simulated.lateness, closed.lateness), (None, None));
        let text = read(|path| write_summary(path, &[row(&[simulated]), row(&[real])]));
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].ends_with(",replications,late_mean_us,late_p99_us,late_max_us,valid"), "{}", lines[0]);
        assert!(lines[1].ends_with(",1,,,,"), "{}", lines[1]);
        assert!(lines[2].ends_with(",1,30.000,30.000,30.000,false"), "{}", lines[2]);
    }

    #[test]
    fn tasks_and_batches_name_their_cells() {
        let cells = Model::TreeLstm.cell_types();
        let mut run = record(&[]);
        run.batches = vec![vec![0, 0, 3], vec![0, 7]];
        run.tasks.push(TaskRow {
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
            read(|path| write_tasks(path, &run, &cells)),
            "task,worker,stream,cell,batch,submit_ns,start_ns,finish_ns\n4,1,0,leaf+internal,2,1,2,30\n"
        );
        assert_eq!(read(|path| write_batches(path, &run, &cells)), "cell,batch,tasks\ninternal,2,3\nleaf,1,7\n");
        let comma = Model::Dnn("a,b".into()).cell_types();
        run.batches = vec![vec![0, 1]];
        assert_eq!(read(|path| write_batches(path, &run, &comma)), "cell,batch,tasks\n\"a,b\",1,1\n");
    }

    fn row(runs: &[Summary]) -> SummaryRow {
        let [policy, backend, point] = ["Batch, Maker", "sim", "1000"].map(String::from);
        SummaryRow { policy, backend, point, runs: runs.to_vec() }
    }

    #[test]
    fn the_summary_has_its_columns_in_order() {
        let mut summary = summarize(&queue(30, 0.5, 1), &Measure { offered: Some(Rate(1000.0)), ..Measure::default() });
        summary.latency.mean_ms = Some(0.001_234_5);
        summary.worker_utilization = vec![0.5, 0.25];
        summary.saturated = Some(true);
        let text = read(|path| write_summary(path, &[row(&[summary])]));
        let mut lines = csv::Reader::from_reader(text.as_bytes());
        assert_eq!(
            lines.headers().unwrap().iter().collect::<Vec<_>>().join(","),
            "policy,backend,offered_rps,throughput_rps,goodput_rps,completed,failed,rejected,mean_ms,p50_ms,p90_ms,\
             p95_ms,p99_ms,p999_ms,queue_p50_ms,queue_p99_ms,compute_p50_ms,compute_p99_ms,mean_batch,padding,\
             utilization,point,saturated,warmup,max_ms,queue_p90_ms,compute_p90_ms,worker_utilization,replications"
        );
        let line = lines.records().next().unwrap().unwrap();
        assert_eq!(&line[0], "Batch, Maker");
        assert_eq!(&line[2], "1000.000");
        assert_eq!(&line[4], "", "there is no SLO");
        assert_eq!(&line[5], "30");
        assert_eq!(&line[8], "0.001234");
        assert_eq!(&line[10], "", "30 samples have no p90");
        assert_eq!((&line[21], &line[22], &line[23]), ("1000", "true", "0"));
        assert_eq!((&line[27], &line[28]), ("0.500000;0.250000", "1"));
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
        assert_eq!(&rows[1][column("p90_ms_ci")], "", "a single run has no interval");
    }
}
