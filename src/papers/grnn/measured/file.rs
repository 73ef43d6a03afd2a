//! Measured times as CSV.

use std::fmt::Display;
use std::path::Path;

use clap::ValueEnum;

use super::{Chosen, Measured, Ranked, Row, Size, Way};
use crate::cost::grnn::{Cell, Mapping};
use crate::error::{Error, Result};
use crate::files::write_typed;
use crate::results::columns::name_of;
use crate::results::read::{CsvFile, CsvRow};

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
            let line = Line(row);
            let (gpu, multiprocessors) = (line.name("gpu", "the name of a GPU")?, line.whole("multiprocessors")?);
            let measured = measured.get_or_insert_with(|| Measured::new(path, gpu, multiprocessors));
            if measured.gpu != gpu || measured.multiprocessors != multiprocessors {
                return Err(line.error(
                    "gpu",
                    format!(
                        "\"{gpu}\" with {multiprocessors} multiprocessors, where the rows above are of {}; a file is of one GPU",
                        measured.name()
                    ),
                ));
            }
            measured.add(line.parse()?);
        }
        measured.ok_or_else(|| Error::input(format!("{}: no rows below the header", path.display())))
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
        Measured { file: path.to_path_buf(), gpu: gpu.to_string(), multiprocessors, rows: Vec::new() }
    }

    /// The multiprocessors distinguish slices of a GPU.
    pub fn name(&self) -> String {
        format!("{} with {} multiprocessors", self.gpu, self.multiprocessors)
    }

    pub fn write(&self) -> Result<()> {
        write_typed(&self.file, |out| {
            let mut table = csv::WriterBuilder::new().has_headers(false).from_writer(out);
            table.write_record(COLUMNS.split(','))?;
            for Row { size: Size { cell, hidden, batch, steps }, way, mapped, launches, ms } in &self.rows {
                let gpu = (&self.gpu, self.multiprocessors);
                let sequence = (name_of(way), name_of(cell), hidden, batch, steps, launches, format!("{ms:.6}"));
                match mapped {
                    None => table.serialize((gpu, sequence, [""; 10]))?,
                    Some(Ranked { rnn, mapping, rank, valid, cost, constants, chosen }) => {
                        let ranked = (rank, valid, format!("{cost:.6}"), constants, name_of(chosen));
                        table.serialize((gpu, sequence, rnn, mapping, ranked))?;
                    }
                }
            }
            table.flush()
        })
    }
}

/// Of a file with all [`COLUMNS`].
struct Line<'a>(CsvRow<'a>);

impl<'a> Line<'a> {
    fn parse(&self) -> Result<Row> {
        let cell = self.one_of("cell", Cell::value_variants(), name_of)?;
        let [hidden, batch, steps] = ["hidden", "batch", "steps"].map(|name| self.whole(name));
        let size = Size { cell, hidden: hidden?, batch: batch?, steps: steps? };
        let ms = self.number("ms")?;
        if ms <= 0.0 {
            return Err(self.error("ms", format!("\"{}\" is not a time; must be above 0", self.text("ms"))));
        }
        let way = self.one_of("way", Way::value_variants(), name_of)?;
        let is_counted = way == Way::Grnn || !self.text("launches").is_empty();
        let launches = is_counted.then(|| self.whole("launches")).transpose()?;
        let mapped = (way == Way::Grnn).then(|| self.ranked(cell)).transpose()?;
        let more = COLUMNS.split(',').skip(KERNEL).find(|name| mapped.is_none() && !self.text(name).is_empty());
        match more {
            Some(more) => Err(self.error(more, format!("\"{}\", but cuDNN has no mappings; empty", self.text(more)))),
            None => Ok(Row { size, way, mapped, launches, ms }),
        }
    }

    fn ranked(&self, cell: Cell) -> Result<Ranked> {
        let rnn = self.one_of("kernel", cell.kernels(), name_of)?;
        let mapping = Mapping {
            tile_width: self.whole("tile_width")?,
            tile_height: self.whole("tile_height")?,
            groups: self.whole("work_groups")?,
            group_size: self.whole("group_size")?,
        };
        let (rank, valid) = (self.whole("rank")?, self.whole("valid")?);
        if rank > valid {
            return Err(self.error("rank", format!("\"{rank}\" of {valid} valid mappings; from 1 to {valid}")));
        }
        let chosen = self.one_of("chosen", Chosen::value_variants(), name_of)?;
        let constants = self.name("constants", "the name of a device")?.to_string();
        Ok(Ranked { rnn, mapping, rank, valid, cost: self.number("cost")?, constants, chosen })
    }

    fn text(&self, name: &str) -> &'a str {
        self.0.text(name).expect("a column of the header")
    }

    fn error(&self, name: &str, what: impl Display) -> Error {
        self.0.error(name, &what.to_string())
    }

    fn name(&self, name: &str, what: &str) -> Result<&'a str> {
        match self.text(name) {
            "" => Err(self.error(name, format!("is empty; {what}"))),
            text => Ok(text),
        }
    }

    fn whole(&self, name: &str) -> Result<u32> {
        match self.0.whole(name)? {
            value @ 1..=MAX => Ok(value as u32),
            value => Err(self.error(name, format!("\"{value}\" is out of range; a whole number from 1 to {MAX}"))),
        }
    }

    fn number(&self, name: &str) -> Result<f64> {
        self.0.number(name)?.ok_or_else(|| self.error(name, "is empty; a number is needed"))
    }

    fn one_of<T: Copy>(&self, name: &str, all: &[T], called: impl Fn(&T) -> String) -> Result<T> {
        let text = self.text(name);
        all.iter().find(|one| called(one) == text).copied().ok_or_else(|| {
            let known: Vec<String> = all.iter().map(&called).collect();
            self.error(name, format!("unknown \"{text}\"; known: {}", known.join(", ")))
        })
    }
}
