//! `batchlab export`.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::render::print_with;
use crate::base::error::{Error, Result};
use crate::base::files::write_typed;
use crate::core::summary::Summary;
use crate::lab::results::columns::{Metric, MetricUnit};
use crate::lab::results::logs::{LogRow, RequestLine, TaskLine};
use crate::lab::results::read::CsvFile;
use crate::lab::results::sweep_keys;
use crate::lab::validate::compare::side::{ComparedPoint, Side};

/// Write the requests, tasks or summaries of all points as one table
///
/// Each row begins with the scenario, policy, load, swept keys and replication of its point. The other columns are
/// those of requests.csv or tasks.csv, or the metrics of one replication and class (no class: of all its requests).
/// Logs are those of the first replication. docs/ANALYSIS.md reads the table with pandas and DuckDB.
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    /// Results folders, such as results/sim/NAME
    #[arg(required = true, value_name = "RESULTS")]
    results: Vec<PathBuf>,

    /// What the rows are
    #[arg(long, value_enum, default_value_t = ExportRows::Requests)]
    rows: ExportRows,

    /// CSV file to write; `-` for standard output [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug)]
enum ExportRows {
    Requests,
    Tasks,
    Summaries,
}

pub fn run(args: &Args) -> Result<()> {
    let sides = args
        .results
        .iter()
        .map(|path| Side::open(path))
        .collect::<Result<Vec<_>>>()?;
    let places = || sides.iter().flat_map(|side| &side.places);
    let mut unreadable = None;
    let mut fill = |out: &mut dyn Write| {
        let keys = sweep_keys::keys(places().map(|place| &place.swept[..]));
        let mut table = ExportTable {
            sides: &sides,
            keys,
            csv: csv::Writer::from_writer(out),
            unreadable: None,
        };
        let written = match args.rows {
            ExportRows::Requests => table.logs::<RequestLine>(),
            ExportRows::Tasks => table.logs::<TaskLine>(),
            ExportRows::Summaries => table.summaries(),
        };
        unreadable = table.unreadable;
        written.and_then(|()| table.csv.flush())
    };
    let written = match args.out.as_deref().filter(|path| *path != Path::new("-")) {
        Some(path) => write_typed(path, fill),
        None => print_with(|out| fill(out)),
    };
    unreadable.map_or(written, Err)
}

struct ExportTable<'a, 'o> {
    sides: &'a [Side],
    keys: Vec<&'a str>,
    csv: csv::Writer<&'o mut dyn Write>,
    /// The error of the results that ended the table early, or `None` if only writing can have failed.
    unreadable: Option<Error>,
}

/// The cause of an error in writing. The conversion of the library hides its kind, such as a reader that has ended.
fn to_io_error(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(cause) => cause,
        other => io::Error::other(format!("{other:?}")),
    }
}

impl<'a> ExportTable<'a, '_> {
    fn read<T>(&mut self, read: Result<T>) -> io::Result<T> {
        read.map_err(|error| {
            let cause = io::Error::other(error.to_string());
            self.unreadable = Some(error);
            cause
        })
    }

    fn row<'t>(
        &mut self,
        point: &[impl AsRef<[u8]>],
        fields: impl IntoIterator<Item = &'t str>,
    ) -> io::Result<()> {
        for field in point {
            self.csv.write_field(field).map_err(to_io_error)?;
        }
        for field in fields {
            self.csv.write_field(field).map_err(to_io_error)?;
        }
        self.csv.write_record(None::<&[u8]>).map_err(to_io_error)
    }

    fn header<'n>(&mut self, names: impl IntoIterator<Item = &'n str>) -> io::Result<()> {
        let of_points = [
            &["scenario", "policy", "load"],
            &self.keys[..],
            &["replication"],
        ]
        .concat();
        self.row(&of_points, names)
    }

    /// The first fields of a row. Replications count from 1.
    fn point(&self, side: &Side, place: &ComparedPoint, replication: usize) -> Vec<String> {
        let values = self
            .keys
            .iter()
            .map(|key| sweep_keys::value(&place.swept, key).unwrap_or_default());
        let texts = [side.scenario(), &place.policy, &place.load]
            .into_iter()
            .chain(values);
        texts
            .map(String::from)
            .chain([replication.to_string()])
            .collect()
    }

    fn points(&self) -> impl Iterator<Item = (&'a Side, &'a ComparedPoint)> + use<'a> {
        self.sides
            .iter()
            .flat_map(|side| side.places.iter().map(move |place| (side, place)))
    }

    fn logs<T: LogRow>(&mut self) -> io::Result<()> {
        let mut names: Option<Vec<String>> = None;
        for (side, place) in self.points() {
            let file = side.results.file(&place.policy, &place.point, T::FILE);
            let opened = file.and_then(|file| open_log::<T>(&file, names.as_deref()));
            let mut log = self.read(opened)?;
            if names.is_none() {
                self.header(log.names())?;
                names = Some(log.names().map(String::from).collect());
            }
            let point = self.point(side, place, 1);
            while let Some(row) = self.read(log.read())? {
                self.row(&point, row.fields())?;
            }
        }
        Ok(())
    }

    fn summaries(&mut self) -> io::Result<()> {
        let own = ["class", "saturated", "expired", "within_slo"];
        self.header(
            own.into_iter()
                .chain(Metric::ALL.iter().map(|metric| metric.name())),
        )?;
        for (side, place) in self.points() {
            let runs = side.runs(place);
            for (replication, all) in (1..).zip(self.read(runs)?) {
                let point = self.point(side, place, replication);
                let classes = all.classes.iter().map(|(class, of)| (class.as_str(), of));
                for (class, summary) in [("", &all)].into_iter().chain(classes) {
                    let fields = fields(class, summary);
                    self.row(&point, fields.iter().map(String::as_str))?;
                }
            }
        }
        Ok(())
    }
}

fn fields(class: &str, summary: &Summary) -> Vec<String> {
    let number = |value: Option<f64>, unit: MetricUnit| {
        value.map_or(String::new(), |number| unit.format(number))
    };
    let own = [
        class.to_string(),
        summary
            .saturated
            .map_or(String::new(), |saturated| saturated.to_string()),
        summary.expired.to_string(),
        number(summary.within_slo, MetricUnit::Ratio),
    ];
    own.into_iter()
        .chain(
            Metric::ALL
                .iter()
                .map(|metric| number(metric.value(summary), metric.unit())),
        )
        .collect()
}

/// `names`: the columns that it must have.
fn open_log<T: LogRow>(path: &Path, names: Option<&[String]>) -> Result<CsvFile> {
    if !path.is_file() {
        let key = T::FILE.trim_end_matches(".csv");
        return Err(Error::mistake(
            path,
            format!("is missing; a run writes it with output.{key} = true"),
        ));
    }
    let log = CsvFile::open(path)?;
    match names {
        Some(names) if log.names().ne(names) => {
            let before = names.join(", ");
            Err(Error::mistake(
                path,
                format!("its columns are not {before}, as before; run the scenario again"),
            ))
        }
        _ => Ok(log),
    }
}
