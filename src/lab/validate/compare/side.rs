//! A results folder that is compared with another.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::base::error::{Error, Result};
use crate::core::summary::Summary;
use crate::lab::results::logs::BatchLine;
use crate::lab::results::read::{CsvRow, Log};
use crate::lab::results::saved_results::{SavedResults, read_json, within};
use crate::lab::results::sweep_keys::Swept;
use crate::lab::run::executor::SelectedBackend;

/// One of the two results folders.
#[derive(Debug)]
pub struct Side {
    pub results: SavedResults,
    run: Value,
    pub places: Vec<ComparedPoint>,
}

/// A policy at a point of a results folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ComparedPoint {
    pub policy: String,
    /// The name of the point's folder: the load and the swept keys.
    pub point: String,
    pub load: String,
    pub swept: Vec<Swept>,
}

/// The number of cells in batches of each size. f64 is exact up to 2^53, and a damaged file cannot overflow it.
pub type Batches = BTreeMap<u64, f64>;

impl Side {
    pub fn open(path: &Path) -> Result<Side> {
        let results = SavedResults::open(path)?;
        let place = |row: CsvRow<'_>| {
            Ok(ComparedPoint {
                policy: row.policy().into(),
                point: results.place(row)?,
                load: row.point()?.to_string(),
                swept: results.swept_of(row)?,
            })
        };
        let places = results.rows().map(place).collect::<Result<_>>()?;
        Ok(Side {
            run: results.settings()?,
            results,
            places,
        })
    }

    pub fn scenario(&self) -> &str {
        self.setting("/scenario/name").as_str().unwrap_or_default()
    }

    pub fn backend(&self) -> &str {
        self.setting("/backend").as_str().unwrap_or_default()
    }

    /// Whether the clock is virtual. Each simulated run of a point draws its own requests, whereas real runs repeat one
    /// trace.
    pub fn is_simulated(&self) -> bool {
        self.backend() == SelectedBackend::SIM.name()
    }

    /// The value in `run.json` at a JSON pointer such as `/scenario/seed`; null if missing.
    pub fn setting(&self, pointer: &str) -> &Value {
        self.run.pointer(pointer).unwrap_or(&Value::Null)
    }

    pub fn runs(&self, place: &ComparedPoint) -> Result<Vec<Summary>> {
        let mut runs = Vec::new();
        loop {
            let path = self.file(place, "point", runs.len(), "json")?;
            if !runs.is_empty() && !path.is_file() {
                return Ok(runs);
            }
            let mut point = read_json(&path)?;
            let summary = serde_json::from_value(point["summary"].take()).map_err(|cause| {
                Error::input(format!(
                    "{}: is not a point of this version of the program: {cause}",
                    path.display()
                ))
            })?;
            runs.push(summary);
        }
    }

    /// The batches of each cell type, or `None` if the run did not log them.
    pub fn batches(
        &self,
        place: &ComparedPoint,
        run: usize,
    ) -> Result<Option<BTreeMap<String, Batches>>> {
        let Some(mut rows) = Log::open_if_there(&self.file(place, "batches", run, "csv")?)? else {
            return Ok(None);
        };
        let mut cells: BTreeMap<String, Batches> = BTreeMap::new();
        while let Some(BatchLine { cell, batch, tasks }) = rows.read()? {
            *cells.entry(cell).or_default().entry(batch).or_default() +=
                batch as f64 * tasks as f64;
        }
        Ok(Some(cells))
    }

    /// The contents of `lengths.csv`, if the folder has the file.
    pub fn lengths(&self) -> Option<String> {
        fs::read_to_string(within(&self.results.path, &["lengths.csv"]).ok()?).ok()
    }

    /// The file of a run. The first run's file has no number, the second's has 2.
    fn file(&self, place: &ComparedPoint, name: &str, run: usize, ending: &str) -> Result<PathBuf> {
        let number = if run == 0 {
            String::new()
        } else {
            format!("-{}", run + 1)
        };
        self.results.file(
            &place.policy,
            &place.point,
            &format!("{name}{number}.{ending}"),
        )
    }
}
