//! Measured times as CSV.

use std::fmt::Display;
use std::path::Path;

use super::{GpuTimes, MappingChoice, MeasuredMapping, SequenceSize, SequenceTime, Way};
use crate::base::error::{Error, Result};
use crate::base::files::write_typed;
use crate::core::cost::grnn::{Mapping, RecurrentCell};
use crate::lab::results::read::{CsvFile, CsvRow};

/// The columns of a file. A column that `grnn rank --out` also writes has the same name there.
const COLUMNS: &str = "gpu,multiprocessors,way,cell,hidden,batch,steps,launches,ms,kernel,tile_width,tile_height,\
    work_groups,group_size,rank,valid,cost,constants,chosen";
/// The first of the columns that only mappings have, and their number.
const KERNEL: usize = 9;
const MAPPING_COLUMNS: usize = 10;

/// The largest whole number in a row. It is far beyond any kernel.
const MAX: u64 = 1 << 24;

impl GpuTimes {
    /// Reads a file. The last of repeated rows counts.
    pub fn read(path: &Path) -> Result<GpuTimes> {
        let mut rows = CsvFile::open(path)?;
        let found = rows.names().collect::<Vec<_>>().join(",");
        if found != COLUMNS {
            return Err(Error::input(format!(
                "{}: line 1: the header is \"{found}\"; that of measured sequences is {COLUMNS}, as batchlab grnn tune --out writes it",
                path.display()
            )));
        }
        let mut times: Option<GpuTimes> = None;
        while let Some(row) = rows.read()? {
            let gpu = parse_name(row, "gpu", "the name of a GPU")?;
            let multiprocessors = parse_whole(row, "multiprocessors")?;
            let times = times.get_or_insert_with(|| GpuTimes::new(path, gpu, multiprocessors));
            if !times.is_of(gpu, multiprocessors) {
                let above = times.name();
                let what = format!(
                    "\"{gpu}\" with {multiprocessors} multiprocessors, where the rows above are of {above}"
                );
                return Err(row.error("gpu", &format!("{what}; a file is of one GPU")));
            }
            times.add(parse_time(row)?);
        }
        times.ok_or_else(|| Error::input(format!("{}: no rows below the header", path.display())))
    }

    /// Opens a file to add times of this GPU. A new file has none.
    pub fn open(path: &Path, gpu: &str, multiprocessors: u32) -> Result<GpuTimes> {
        let new = GpuTimes::new(path, gpu, multiprocessors);
        if !path.exists() {
            return Ok(new);
        }
        let there = GpuTimes::read(path)?;
        if !there.is_of(gpu, multiprocessors) {
            return Err(Error::input(format!(
                "{}: is of {}, and this is {}; a file is of one GPU, so name another",
                path.display(),
                there.name(),
                new.name()
            )));
        }
        Ok(there)
    }

    fn new(path: &Path, gpu: &str, multiprocessors: u32) -> GpuTimes {
        GpuTimes {
            file: path.to_path_buf(),
            gpu: gpu.to_string(),
            multiprocessors,
            rows: Vec::new(),
            earlier: Vec::new(),
        }
    }

    fn is_of(&self, gpu: &str, multiprocessors: u32) -> bool {
        self.gpu == gpu && self.multiprocessors == multiprocessors
    }

    /// The name of the GPU. The multiprocessors distinguish slices of a GPU.
    pub fn name(&self) -> String {
        format!("{} with {} multiprocessors", self.gpu, self.multiprocessors)
    }

    pub fn write(&self) -> Result<()> {
        write_typed(&self.file, |out| {
            let mut table = csv::WriterBuilder::new()
                .has_headers(false)
                .from_writer(out);
            table.write_record(COLUMNS.split(','))?;
            for time in &self.rows {
                let gpu = (&self.gpu, self.multiprocessors);
                let size = &time.size;
                let sequence = (
                    time.way.name(),
                    size.cell.name(),
                    size.hidden,
                    size.batch,
                    size.steps,
                    time.launches,
                    format!("{:.6}", time.ms),
                );
                if let Some(mapped) = &time.mapped {
                    let ranked = (
                        mapped.rank,
                        mapped.valid,
                        format!("{:.6}", mapped.cost),
                        &mapped.constants,
                        mapped.chosen.name(),
                    );
                    table.serialize((gpu, sequence, mapped.rnn, mapped.mapping, ranked))?;
                } else {
                    table.serialize((gpu, sequence, [""; MAPPING_COLUMNS]))?;
                }
            }
            table.flush()
        })
    }
}

/// Parses a row of a file with all [`COLUMNS`].
fn parse_time(row: CsvRow<'_>) -> Result<SequenceTime> {
    let cell = parse_choice(row, "cell", &RecurrentCell::ALL, RecurrentCell::name)?;
    let size = SequenceSize {
        cell,
        hidden: parse_whole(row, "hidden")?,
        batch: parse_whole(row, "batch")?,
        steps: parse_whole(row, "steps")?,
    };
    let ms = parse_number(row, "ms")?;
    if ms <= 0.0 {
        return Err(row.error(
            "ms",
            &format!("\"{}\" is not a time; must be above 0", row.text("ms")?),
        ));
    }
    let way = parse_choice(row, "way", &Way::ALL, Way::name)?;
    let launches = if way == Way::Grnn || !row.text("launches")?.is_empty() {
        Some(parse_whole(row, "launches")?)
    } else {
        None
    };
    let mapped = if way == Way::Grnn {
        Some(parse_mapping(row, cell)?)
    } else {
        refuse_mapping(row)?;
        None
    };
    Ok(SequenceTime {
        size,
        way,
        mapped,
        launches,
        ms,
    })
}

/// The columns of a mapping must be empty in a row of cuDNN.
fn refuse_mapping(row: CsvRow<'_>) -> Result<()> {
    for (name, text) in COLUMNS.split(',').zip(row.fields()).skip(KERNEL) {
        if !text.is_empty() {
            return Err(row.error(
                name,
                &format!("\"{text}\", but cuDNN has no mappings; empty"),
            ));
        }
    }
    Ok(())
}

fn parse_mapping(row: CsvRow<'_>, cell: RecurrentCell) -> Result<MeasuredMapping> {
    let rnn = parse_choice(row, "kernel", cell.kernels(), |rnn| rnn)?;
    let mapping = Mapping {
        tile_width: parse_whole(row, "tile_width")?,
        tile_height: parse_whole(row, "tile_height")?,
        groups: parse_whole(row, "work_groups")?,
        group_size: parse_whole(row, "group_size")?,
    };
    let rank = parse_whole(row, "rank")?;
    let valid = parse_whole(row, "valid")?;
    if rank > valid {
        return Err(row.error(
            "rank",
            &format!("\"{rank}\" of {valid} valid mappings; from 1 to {valid}"),
        ));
    }
    Ok(MeasuredMapping {
        rnn,
        mapping,
        rank,
        valid,
        chosen: parse_choice(row, "chosen", &MappingChoice::ALL, MappingChoice::name)?,
        constants: parse_name(row, "constants", "the name of a device")?.to_string(),
        cost: parse_number(row, "cost")?,
    })
}

fn parse_name<'r>(row: CsvRow<'r>, column: &str, what: &str) -> Result<&'r str> {
    let text = row.text(column)?;
    if text.is_empty() {
        Err(row.error(column, &format!("is empty; {what}")))
    } else {
        Ok(text)
    }
}

fn parse_whole(row: CsvRow<'_>, column: &str) -> Result<u32> {
    match row.whole(column)? {
        value @ 1..=MAX => Ok(value as u32),
        value => Err(row.error(
            column,
            &format!("\"{value}\" is out of range; a whole number from 1 to {MAX}"),
        )),
    }
}

fn parse_number(row: CsvRow<'_>, column: &str) -> Result<f64> {
    row.number(column)?
        .ok_or_else(|| row.error(column, "is empty; a number is needed"))
}

/// Parses the name of one of several values.
fn parse_choice<T: Copy, N: Display>(
    row: CsvRow<'_>,
    column: &str,
    all: &[T],
    name: fn(T) -> N,
) -> Result<T> {
    let text = row.text(column)?;
    for one in all {
        if name(*one).to_string() == text {
            return Ok(*one);
        }
    }
    let known: Vec<String> = all.iter().map(|one| name(*one).to_string()).collect();
    Err(row.error(
        column,
        &format!("unknown \"{text}\"; known: {}", known.join(", ")),
    ))
}
