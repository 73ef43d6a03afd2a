//! A results folder that is compared with another.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::error::{Error, Result};
use crate::experiment::executor::Target;
use crate::files::folder_name;
use crate::metrics::summary::Summary;
use crate::results::columns::BATCHES;
use crate::results::read::{CsvFile, CsvTable};

#[derive(Debug)]
pub struct Side {
    path: PathBuf,
    run: Value,
    places: Vec<Place>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub policy: String,
    pub point: String,
}

pub type BatchCounts = BTreeMap<u64, u64>;

impl Side {
    pub fn open(path: &Path) -> Result<Side> {
        let file = path.join("summary.csv");
        if !file.is_file() {
            return Err(Error::input(format!(
                "{}: has no summary.csv; name the folder that a run wrote its results to, such as results/sim/NAME",
                path.display()
            )));
        }
        let summary = CsvTable::read(&file)?;
        let (policy, point) = (summary.column("policy")?, summary.column("point")?);
        let places = summary
            .rows()
            .map(|row| Place { policy: row.text(policy).into(), point: row.text(point).into() })
            .collect();
        Ok(Side { path: path.to_path_buf(), run: read_json(&path.join("run.json"))?, places })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn scenario(&self) -> &str {
        self.setting("/scenario/name").as_str().unwrap_or_default()
    }

    pub fn backend(&self) -> &str {
        self.setting("/backend").as_str().unwrap_or_default()
    }

    /// With a virtual clock, each run of a point draws its own requests; real runs repeat one trace.
    pub fn simulated(&self) -> bool {
        self.backend() == Target::SIM.name()
    }

    /// The value in `run.json` at a JSON pointer such as `/scenario/seed`; null if missing.
    pub fn setting(&self, pointer: &str) -> &Value {
        self.run.pointer(pointer).unwrap_or(&Value::Null)
    }

    pub fn places(&self) -> &[Place] {
        &self.places
    }

    pub fn runs(&self, place: &Place) -> Result<Vec<Summary>> {
        let mut runs = Vec::new();
        loop {
            let path = self.file(place, "point", runs.len(), "json");
            if !runs.is_empty() && !path.is_file() {
                return Ok(runs);
            }
            let mut point = read_json(&path)?;
            let summary = serde_json::from_value(point["summary"].take()).map_err(|cause| {
                Error::input(format!("{}: is not a point of this version of the program: {cause}", path.display()))
            })?;
            runs.push(summary);
        }
    }

    /// Of each cell type; `None` if the run did not log them.
    pub fn batches(&self, place: &Place, run: usize) -> Result<Option<BTreeMap<String, BatchCounts>>> {
        let path = self.file(place, "batches", run, "csv");
        let Some(mut rows) = CsvFile::open_if_there(&path)? else { return Ok(None) };
        let [cell, batch, tasks] = rows.columns(BATCHES)?;
        let mut cells: BTreeMap<String, BatchCounts> = BTreeMap::new();
        while let Some(row) = rows.read()? {
            let sizes = cells.entry(row.text(cell).to_string()).or_default();
            *sizes.entry(row.needed(batch)?).or_default() += row.needed(tasks)?;
        }
        Ok(Some(cells))
    }

    pub fn requests(&self, place: &Place) -> Result<Option<CsvFile>> {
        CsvFile::open_if_there(&self.file(place, "requests", 0, "csv"))
    }

    pub fn lengths(&self) -> Option<String> {
        fs::read_to_string(self.path.join("lengths.csv")).ok()
    }

    /// The first run's file has no number, the second's has 2.
    fn file(&self, place: &Place, name: &str, run: usize, ending: &str) -> PathBuf {
        let number = if run == 0 { String::new() } else { format!("-{}", run + 1) };
        self.path.join(folder_name(&place.policy)).join(&place.point).join(format!("{name}{number}.{ending}"))
    }
}

fn read_json(path: &Path) -> Result<Value> {
    let text = fs::read_to_string(path).map_err(|cause| Error::unreadable(path, &cause))?;
    serde_json::from_str(&text).map_err(|cause| Error::input(format!("{}: is not JSON: {cause}", path.display())))
}
