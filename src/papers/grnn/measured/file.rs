//! Measured times as CSV.

use std::path::Path;

use clap::ValueEnum;

use super::{Chosen, Measured, Ranked, Row, Size, Way};
use crate::base::error::{Error, Result};
use crate::base::files::write_typed;
use crate::core::cost::grnn::{Mapping, RecurrentCell, Rnn};
use crate::lab::results::columns::name_of;
use crate::lab::results::read::{CsvFile, CsvRow};

/// Columns that `grnn rank --out` also has have the same names.
const COLUMNS: &str = "gpu,multiprocessors,way,cell,hidden,batch,steps,launches,ms,kernel,tile_width,tile_height,\
    work_groups,group_size,rank,valid,cost,constants,chosen";
/// The first of those that only mappings have.
const KERNEL: usize = 9;

/// Of integers in a row: far beyond any kernel.
const MAX: u64 = 1 << 24;

impl Measured {
    /// Of repeated rows the last one counts.
    pub fn read(path: &Path) -> Result<Measured> {
        let mut rows = CsvFile::open(path)?;
        let found = rows.names().collect::<Vec<_>>().join(",");
        if found != COLUMNS {
            return Err(Error::input(format!(
                "{}: line 1: the header is \"{found}\"; that of measured sequences is {COLUMNS}, as batchlab grnn tune --out writes it",
                path.display()
            )));
        }
        let mut measured: Option<Measured> = None;
        while let Some(row) = rows.read()? {
            let (gpu, multiprocessors) = (
                name(row, "gpu", "the name of a GPU")?,
                whole(row, "multiprocessors")?,
            );
            let measured =
                measured.get_or_insert_with(|| Measured::new(path, gpu, multiprocessors));
            if measured.gpu != gpu || measured.multiprocessors != multiprocessors {
                let above = measured.name();
                let what = format!(
                    "\"{gpu}\" with {multiprocessors} multiprocessors, where the rows above are of {above}"
                );
                return Err(row.error("gpu", &format!("{what}; a file is of one GPU")));
            }
            measured.add(parse(row)?);
        }
        measured
            .ok_or_else(|| Error::input(format!("{}: no rows below the header", path.display())))
    }

    /// To add times of this GPU; a new file has none.
    pub fn open(path: &Path, gpu: &str, multiprocessors: u32) -> Result<Measured> {
        let new = Measured::new(path, gpu, multiprocessors);
        if !path.exists() {
            return Ok(new);
        }
        let there = Measured::read(path)?;
        if (there.gpu.as_str(), there.multiprocessors) != (gpu, multiprocessors) {
            return Err(Error::input(format!(
                "{}: is of {}, and this is {}; a file is of one GPU, so name another",
                path.display(),
                there.name(),
                new.name()
            )));
        }
        Ok(there)
    }

    fn new(path: &Path, gpu: &str, multiprocessors: u32) -> Measured {
        Measured {
            file: path.to_path_buf(),
            gpu: gpu.to_string(),
            multiprocessors,
            rows: Vec::new(),
            earlier: Vec::new(),
        }
    }

    /// The multiprocessors distinguish slices of a GPU.
    pub fn name(&self) -> String {
        format!("{} with {} multiprocessors", self.gpu, self.multiprocessors)
    }

    pub fn write(&self) -> Result<()> {
        write_typed(&self.file, |out| {
            let mut table = csv::WriterBuilder::new()
                .has_headers(false)
                .from_writer(out);
            table.write_record(COLUMNS.split(','))?;
            for Row {
                size:
                    Size {
                        cell,
                        hidden,
                        batch,
                        steps,
                    },
                way,
                mapped,
                launches,
                ms,
            } in &self.rows
            {
                let gpu = (&self.gpu, self.multiprocessors);
                let sequence = (
                    name_of(way),
                    cell_name(cell),
                    hidden,
                    batch,
                    steps,
                    launches,
                    format!("{ms:.6}"),
                );
                match mapped {
                    None => table.serialize((gpu, sequence, [""; 10]))?,
                    Some(Ranked {
                        rnn,
                        mapping,
                        rank,
                        valid,
                        cost,
                        constants,
                        chosen,
                    }) => {
                        let ranked = (
                            rank,
                            valid,
                            format!("{cost:.6}"),
                            constants,
                            name_of(chosen),
                        );
                        table.serialize((gpu, sequence, rnn, mapping, ranked))?;
                    }
                }
            }
            table.flush()
        })
    }
}

/// Of a file with all [`COLUMNS`].
fn parse(row: CsvRow<'_>) -> Result<Row> {
    let cell = one_of(row, "cell", &RecurrentCell::ALL, cell_name)?;
    let [hidden, batch, steps] = ["hidden", "batch", "steps"].map(|name| whole(row, name));
    let size = Size {
        cell,
        hidden: hidden?,
        batch: batch?,
        steps: steps?,
    };
    let ms = number(row, "ms")?;
    if ms <= 0.0 {
        return Err(row.error(
            "ms",
            &format!("\"{}\" is not a time; must be above 0", row.text("ms")?),
        ));
    }
    let way = one_of(row, "way", Way::value_variants(), name_of)?;
    let is_counted = way == Way::Grnn || !row.text("launches")?.is_empty();
    let launches = is_counted.then(|| whole(row, "launches")).transpose()?;
    let mapped = (way == Way::Grnn).then(|| ranked(row, cell)).transpose()?;
    let more = COLUMNS
        .split(',')
        .zip(row.fields())
        .skip(KERNEL)
        .find(|(_, text)| mapped.is_none() && !text.is_empty());
    match more {
        Some((name, text)) => Err(row.error(
            name,
            &format!("\"{text}\", but cuDNN has no mappings; empty"),
        )),
        None => Ok(Row {
            size,
            way,
            mapped,
            launches,
            ms,
        }),
    }
}

fn ranked(row: CsvRow<'_>, cell: RecurrentCell) -> Result<Ranked> {
    let rnn = one_of(row, "kernel", cell.kernels(), Rnn::to_string)?;
    let [tile_width, tile_height, groups, group_size] =
        ["tile_width", "tile_height", "work_groups", "group_size"].map(|name| whole(row, name));
    let (tile_width, tile_height, groups, group_size) =
        (tile_width?, tile_height?, groups?, group_size?);
    let mapping = Mapping {
        tile_width,
        tile_height,
        groups,
        group_size,
    };
    let (rank, valid) = (whole(row, "rank")?, whole(row, "valid")?);
    if rank > valid {
        return Err(row.error(
            "rank",
            &format!("\"{rank}\" of {valid} valid mappings; from 1 to {valid}"),
        ));
    }
    let chosen = one_of(row, "chosen", Chosen::value_variants(), name_of)?;
    let constants = name(row, "constants", "the name of a device")?.to_string();
    Ok(Ranked {
        rnn,
        mapping,
        rank,
        valid,
        cost: number(row, "cost")?,
        constants,
        chosen,
    })
}

fn name<'r>(row: CsvRow<'r>, column: &str, what: &str) -> Result<&'r str> {
    let text = row.text(column)?;
    if text.is_empty() {
        Err(row.error(column, &format!("is empty; {what}")))
    } else {
        Ok(text)
    }
}

fn whole(row: CsvRow<'_>, column: &str) -> Result<u32> {
    match row.whole(column)? {
        value @ 1..=MAX => Ok(value as u32),
        value => Err(row.error(
            column,
            &format!("\"{value}\" is out of range; a whole number from 1 to {MAX}"),
        )),
    }
}

fn number(row: CsvRow<'_>, column: &str) -> Result<f64> {
    row.number(column)?
        .ok_or_else(|| row.error(column, "is empty; a number is needed"))
}

fn cell_name(cell: &RecurrentCell) -> String {
    cell.name().to_string()
}

/// The value with the name that a row has in a column.
fn one_of<T: Clone>(
    row: CsvRow<'_>,
    column: &str,
    all: &[T],
    name_of: fn(&T) -> String,
) -> Result<T> {
    let text = row.text(column)?;
    all.iter()
        .find(|one| name_of(*one) == text)
        .cloned()
        .ok_or_else(|| {
            let known: Vec<String> = all.iter().map(name_of).collect();
            row.error(
                column,
                &format!("unknown \"{text}\"; known: {}", known.join(", ")),
            )
        })
}
