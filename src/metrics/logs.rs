//! The result files: the request, task and batch logs and the summary. Real and simulated runs write the same columns.

use std::io::{self, Write};
use std::path::Path;

use super::combined::{Estimate, Row};
use super::figure::{Figure, Unit};
use super::lateness::Lateness;
use super::recorder::Recorder;
use crate::error::Result;
use crate::files::write_whole;
use crate::units::{CellId, Nanos};
use crate::workload::model::CellType;

/// The columns of `rounds.csv`.
pub const ROUNDS: [&str; 3] = ["now_ns", "completed", "arrived"];

/// Writes `requests.csv`: a row for each request that arrived, in the order of the ids, with empty fields for a start
/// and a finish that never came.
///
/// # Errors
/// Names the file that can't be written.
pub fn write_requests(path: &Path, record: &Recorder) -> Result<()> {
    write_whole(path, |out| requests(out, record))
}

/// Writes what `requests.csv` holds.
///
/// # Errors
/// Those of `out`.
pub fn requests(out: &mut dyn Write, record: &Recorder) -> io::Result<()> {
    fill_table(out, |table| {
        table.header(&["id", "arrival_ns", "start_ns", "finish_ns"])?;
        for (id, &arrival) in record.arrival.iter().enumerate().filter(|(_, arrival)| **arrival != Nanos::MAX) {
            let finish = record.finish[id];
            let start = if finish == Nanos::MAX { Nanos::MAX } else { record.start[id] };
            table.number(id as u64)?;
            table.time(arrival)?;
            table.time(start)?;
            table.time(finish)?;
            table.end_row()?;
        }
        Ok(())
    })
}

/// Writes `tasks.csv`: a row for each task that was kept, in the order of submission. Several cells are joined by `+`.
///
/// # Errors
/// Names the file that can't be written.
pub fn write_tasks(path: &Path, record: &Recorder, cells: &[CellType]) -> Result<()> {
    write_whole(path, |out| tasks(out, record, cells))
}

/// Writes what `tasks.csv` holds.
///
/// # Errors
/// Those of `out`.
pub fn tasks(out: &mut dyn Write, record: &Recorder, cells: &[CellType]) -> io::Result<()> {
    fill_table(out, |table| {
        table.header(&["task", "worker", "stream", "cell", "batch", "submit_ns", "start_ns", "finish_ns"])?;
        let mut joined = String::new();
        for task in &record.tasks {
            table.number(task.task.0)?;
            table.number(task.worker.0.into())?;
            table.number(task.stream.0.into())?;
            join_names(&mut joined, &task.cells, cells);
            table.text(&joined)?;
            table.number(task.batch.into())?;
            table.time(task.submit)?;
            table.time(task.start)?;
            table.time(task.finish)?;
            table.end_row()?;
        }
        Ok(())
    })
}

/// Writes `rounds.csv`: a row for each time that the policy was asked to schedule, in order, with the instant that it was
/// given, the tasks whose completions it had been told of since the time before, in that order and joined by `;`, and the
/// number of requests that had arrived. With the requests, that is all that a policy's decisions come from.
///
/// # Errors
/// Names the file that can't be written.
pub fn write_rounds(path: &Path, record: &Recorder) -> Result<()> {
    let mut delivered = record.delivered.iter();
    write_table(path, |table| {
        table.header(&ROUNDS)?;
        let mut joined = String::new();
        for round in &record.rounds {
            joined.clear();
            for (i, task) in delivered.by_ref().take(round.completions as usize).enumerate() {
                joined.push_str(if i == 0 { "" } else { ";" });
                joined.push_str(&task.to_string());
            }
            table.time(round.now)?;
            table.text(&joined)?;
            table.number(round.arrivals.into())?;
            table.end_row()?;
        }
        Ok(())
    })
}

/// Writes `failures.csv`: a row for each request that left without a result, with the instant and the reason, in the order
/// in which they left.
///
/// # Errors
/// Names the file that can't be written.
pub fn write_failures(path: &Path, record: &Recorder) -> Result<()> {
    write_table(path, |table| {
        table.header(&["id", "at_ns", "reason"])?;
        for (request, at, reason) in &record.failures {
            table.number(request.0.into())?;
            table.time(*at)?;
            table.text(reason)?;
            table.end_row()?;
        }
        Ok(())
    })
}

/// Writes `batches.csv`: how often each cell type was executed at each batch size.
///
/// # Errors
/// Names the file that can't be written.
pub fn write_batches(path: &Path, record: &Recorder, cells: &[CellType]) -> Result<()> {
    write_table(path, |table| {
        table.header(&["cell", "batch", "tasks"])?;
        for (cell, sizes) in cells.iter().zip(&record.batches) {
            for (batch, &tasks) in sizes.iter().enumerate().filter(|(_, tasks)| **tasks > 0) {
                table.text(&cell.name)?;
                table.number(batch as u64)?;
                table.number(tasks)?;
                table.end_row()?;
            }
        }
        Ok(())
    })
}

/// The columns that tell of the load generator, which simulated runs do not have.
const LATENESS: [&str; 4] = ["late_mean_us", "late_p99_us", "late_max_us", "valid"];

/// Where the columns that are no figures stand among [`Figure::ALL`]: `point` and `saturated` before the warm-up.
const BEFORE_POINT: usize = 19;

/// The figures by which policies are compared in pairs.
const COMPARED: [Figure; 7] =
    [Figure::Throughput, Figure::Goodput, Figure::Mean, Figure::P50, Figure::P90, Figure::P99, Figure::QueueP99];

/// Writes `differences.csv`: at each point, by how much every other policy exceeds the scenario's first, with the 95 %
/// interval of the paired differences over the replications. Without replications
/// or a second policy there are none, and nothing is written.
///
/// # Errors
/// Names the file that can't be written.
pub fn write_differences(path: &Path, rows: &[Row]) -> Result<()> {
    let first = |row: &Row| rows.iter().find(|other| other.point == row.point && other.policy == rows[0].policy);
    let pairs: Vec<(&Row, &Row)> = rows
        .iter()
        .filter(|row| row.policy != rows[0].policy)
        .filter_map(|row| Some((row, first(row)?)))
        .filter(|(row, _)| row.figures.replications() > 1)
        .collect();
    if pairs.is_empty() {
        return Ok(());
    }
    write_table(path, |table| {
        table.header(&["policy", "against", "point", "figure", "difference", "difference_ci"])?;
        for (row, against) in pairs {
            for figure in COMPARED {
                let Some(interval) = row.figures.difference(&against.figures, figure) else { continue };
                table.text(&row.policy)?;
                table.text(&against.policy)?;
                table.text(&row.point)?;
                table.text(figure.name())?;
                table.text(&written(interval.mean, figure.unit()))?;
                table.text(&written(interval.half_width, figure.unit()))?;
                table.end_row()?;
            }
        }
        Ok(())
    })
}

/// Writes `summary.csv`: a row for each policy and point. A figure that there is none of is an empty field. Those
/// about the load generator are there when any row ran on a real clock. Columns with half-widths follow behind the others
/// when any row has several replications.
///
/// # Errors
/// Names the file that can't be written.
pub fn write_summary(path: &Path, rows: &[Row]) -> Result<()> {
    let (first, further) = Figure::ALL.split_at(BEFORE_POINT);
    let with_lateness = rows.iter().any(|row| row.figures.lateness().is_some());
    let with_intervals = rows.iter().any(|row| row.figures.replications() > 1);
    write_table(path, |table| {
        let names = |figures: &[Figure]| figures.iter().map(|f| f.name().to_string()).collect::<Vec<_>>();
        let mut header = vec!["policy".to_string(), "backend".into()];
        header.extend(names(first));
        header.extend(["point".into(), "saturated".into()]);
        header.extend(names(further));
        header.extend(["worker_utilization".into(), "replications".into()]);
        if with_lateness {
            header.extend(LATENESS.map(String::from));
        }
        if with_intervals {
            header.extend(Figure::ALL.iter().map(|figure| format!("{}_ci", figure.name())));
        }
        table.header(&header)?;
        for row in rows {
            let estimates = Figure::ALL.map(|figure| row.figures.estimate(figure));
            let text = |figure: &Figure, value: Option<f64>| value.map_or(String::new(), |v| written(v, figure.unit()));
            let fields = |table: &mut Table<'_>, of: fn(&Estimate) -> Option<f64>, from: usize, to: usize| {
                (from..to).try_for_each(|i| table.text(&text(&Figure::ALL[i], of(&estimates[i]))))
            };
            table.text(&row.policy)?;
            table.text(&row.backend)?;
            fields(table, |e| e.value, 0, BEFORE_POINT)?;
            table.text(&row.point)?;
            table.text(truth(row.figures.saturated()))?;
            fields(table, |e| e.value, BEFORE_POINT, Figure::ALL.len())?;
            let workers: Vec<String> =
                row.figures.worker_utilization().into_iter().map(|share| written(share, Unit::Ratio)).collect();
            table.text(&workers.join(";"))?;
            table.number(row.figures.replications() as u64)?;
            if with_lateness {
                let late = row.figures.lateness();
                let micros = |of: fn(&Lateness) -> Option<f64>| {
                    late.as_ref().and_then(of).map_or(String::new(), |us| format!("{us:.3}"))
                };
                table.text(&micros(|late| Some(late.mean_us)))?;
                table.text(&micros(|late| late.p99_us))?;
                table.text(&micros(|late| Some(late.max_us)))?;
                table.text(truth(late.and_then(|late| late.valid)))?;
            }
            if with_intervals {
                fields(table, |e| e.half_width, 0, Figure::ALL.len())?;
            }
            table.end_row()?;
        }
        Ok(())
    })
}

/// An answer; an empty field where there is none.
fn truth(answer: Option<bool>) -> &'static str {
    answer.map_or("", |yes| if yes { "true" } else { "false" })
}

/// A figure as summary.csv writes it: milliseconds down to the nanosecond, rates to the thousandth, shares to the
/// millionth, and counts whole, unless they are a mean over replications.
fn written(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Millis | Unit::Ratio => format!("{value:.6}"),
        Unit::Count if value.fract() == 0.0 => format!("{value:.0}"),
        Unit::PerSecond | Unit::Count => format!("{value:.3}"),
    }
}

/// Sets `joined` to the names of the cells, joined by `+`.
pub(crate) fn join_names(joined: &mut String, cells: &[CellId], types: &[CellType]) {
    joined.clear();
    for (i, cell) in cells.iter().enumerate() {
        joined.push_str(if i == 0 { "" } else { "+" });
        joined.push_str(&types[cell.index()].name);
    }
}

/// A CSV file that is being written.
struct Table<'a>(csv::Writer<&'a mut dyn Write>);

fn write_table(path: &Path, fill: impl FnOnce(&mut Table<'_>) -> io::Result<()>) -> Result<()> {
    write_whole(path, |out| fill_table(out, fill))
}

fn fill_table(out: &mut dyn Write, fill: impl FnOnce(&mut Table<'_>) -> io::Result<()>) -> io::Result<()> {
    let mut table = Table(csv::Writer::from_writer(out));
    fill(&mut table)?;
    table.0.flush()
}

impl Table<'_> {
    fn header(&mut self, names: &[impl AsRef<[u8]>]) -> io::Result<()> {
        self.0.write_record(names).map_err(io::Error::from)
    }

    fn text(&mut self, text: &str) -> io::Result<()> {
        self.0.write_field(text).map_err(io::Error::from)
    }

    /// Digits from the last to the first, into a buffer that no number outgrows: the formatting machinery of the
    /// standard library would take most of the time of a long log.
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
        self.0.write_field(&digits[at..]).map_err(io::Error::from)
    }

    fn time(&mut self, time: Nanos) -> io::Result<()> {
        if time == Nanos::MAX { self.text("") } else { self.number(time.0) }
    }

    fn end_row(&mut self) -> io::Result<()> {
        self.0.write_record(None::<&[u8]>).map_err(io::Error::from)
    }
}

#[cfg(test)]
mod tests {
    use smallvec::smallvec;

    use super::super::combined::combine;
    use super::super::records::{queue, record};
    use super::super::summary::{Measure, Summary, summarize};
    use super::*;
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
        run.failed(crate::units::RequestId(1), Nanos(9), "worker 0: numbers that are none, \"NaN\"".into());
        assert_eq!(
            read(|path| write_failures(path, &run)),
            "id,at_ns,reason\n1,9,\"worker 0: numbers that are none, \"\"NaN\"\"\"\n"
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

    fn row(figures: &[Summary]) -> Row {
        Row { policy: "Batch, Maker".into(), backend: "sim".into(), point: "1000".into(), figures: combine(figures) }
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
        assert_eq!(headers.len(), 29 + Figure::ALL.len());
        let column = |name: &str| headers.iter().position(|header| header == name).unwrap();
        let rows: Vec<csv::StringRecord> = lines.records().map(|line| line.unwrap()).collect();
        assert!(rows[0][column("p90_ms_ci")].parse::<f64>().unwrap() > 0.0);
        assert_eq!(&rows[0][column("completed_ci")], "0");
        assert_eq!(&rows[0][column("p99_ms_ci")], "");
        assert_eq!(&rows[1][column("p90_ms_ci")], "", "a single run has no interval");
    }
}
