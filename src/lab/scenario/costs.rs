//! The costs of a policy: the file that it names, and what is computed from that file. Policies and simulated devices
//! use them.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Serialize, Serializer};

use super::{DeviceSection, Input, WorkloadSection};
use crate::base::error::{Context as _, Error, Result};
use crate::base::hash::hash_bytes;
use crate::base::shipped;
use crate::base::units::Nanos;
use crate::core::cost::CostModel;
use crate::core::cost::decoder::DecoderRoofline;
use crate::core::cost::grnn;
use crate::core::cost::persistent::PersistentKernels;
use crate::core::cost::roofline::Roofline;
use crate::core::cost::table::{CostTable, Overhead, TableCosts};
use crate::core::policy::Policy;
use crate::core::policy::registry::{Settings, Setup};
use crate::core::task::Step;
use crate::core::workload::model::Model;
use crate::core::workload::operator::catalogue::Catalogue;

/// The costs of a policy. They are read when the scenario is checked, and kept with it.
#[derive(Clone)]
pub struct PolicyCosts(Arc<KnownCosts>);

#[derive(Default)]
struct KnownCosts {
    /// The policy's cost table, or the device's.
    file: Option<Input>,
    csv: Option<Arc<CostFile>>,
    /// The completed table, or why there is none. A real run needs it only if a policy requires costs.
    table: CompleteTable,
    /// The costs without overheads by which the policy decides.
    model: Option<Arc<dyn CostModel>>,
    /// Why the model is not known although costs are named.
    broken: Option<String>,
}

/// A table with all rows that the scenario's device adds, `None` without any source, or the reason for a failure.
type CompleteTable = Option<Result<Arc<CostTable>, String>>;

/// A cost table as it was read from its file.
pub(super) struct CostFile {
    table: CostTable,
    hash: String,
}

/// The cost tables that the scenarios of one file name. Each is read once.
#[derive(Default)]
pub(super) struct CostFiles(BTreeMap<PathBuf, Result<Arc<CostFile>, String>>);

impl CostFiles {
    fn read(&mut self, path: &Path) -> Result<Arc<CostFile>, String> {
        if let Some(known) = self.0.get(path) {
            return known.clone();
        }
        let read = CostFile::read(path)
            .map(Arc::new)
            .map_err(|error| error.to_string());
        self.0.insert(path.to_path_buf(), read.clone());
        read
    }
}

impl CostFile {
    fn read(path: &Path) -> Result<CostFile> {
        let text = shipped::text(path)?;
        Ok(CostFile {
            table: CostTable::parse(&text, &path.display().to_string())?,
            hash: hash_bytes(text.as_bytes()).to_string(),
        })
    }
}

impl PolicyCosts {
    /// Reads the costs of a policy with these settings on a scenario's device.
    pub(super) fn read(
        files: &mut CostFiles,
        file: Option<Input>,
        device: &DeviceSection,
        settings: &dyn Settings,
        workload: &WorkloadSection,
    ) -> PolicyCosts {
        let csv = match &file {
            Some(path) => files.read(path).map(Some),
            None => Ok(None),
        };
        let mut known = KnownCosts {
            file,
            ..KnownCosts::default()
        };
        let table = match csv {
            Ok(csv) => {
                let rows = csv.as_ref().map(|csv| csv.table.clone());
                known.csv = csv;
                complete_table(rows, device, workload).map_err(|error| error.to_string())
            }
            Err(unreadable) => Err(unreadable),
        };
        known.table = table.map(|table| table.map(Arc::new)).transpose();
        match &known.table {
            None => {}
            Some(Err(why)) => known.broken = Some(why.clone()),
            Some(Ok(table)) => {
                match costs_of_policy(table, workload, settings, Overhead::default()) {
                    Ok(model) => known.model = Some(Arc::new(model)),
                    Err(why) => known.broken = Some(why.to_string()),
                }
            }
        }
        PolicyCosts(Arc::new(known))
    }

    /// The costs of a policy for which the scenario names none.
    pub fn none() -> PolicyCosts {
        PolicyCosts(Arc::default())
    }

    /// The cost table's file, if there is one.
    pub fn file(&self) -> Option<&Input> {
        self.0.file.as_ref()
    }

    /// The hash of the file's content, if it could be read.
    pub fn hash(&self) -> Option<&str> {
        self.0.csv.as_ref().map(|csv| &*csv.hash)
    }

    /// The rows of the file, if it could be read.
    pub fn rows(&self) -> Option<&CostTable> {
        self.0.csv.as_ref().map(|csv| &csv.table)
    }

    /// The complete table, or `None` if the scenario names no costs.
    pub fn table(&self) -> Result<Option<&CostTable>> {
        match &self.0.table {
            None => Ok(None),
            Some(Ok(table)) => Ok(Some(table)),
            Some(Err(why)) => Err(Error::input(why)),
        }
    }

    /// The setup with the costs added, if they are known.
    pub fn within<'a>(&'a self, setup: Setup<'a>) -> Setup<'a> {
        Setup {
            costs: self.0.model.as_ref(),
            ..setup
        }
    }

    /// Builds a fresh policy.
    pub fn build(
        &self,
        settings: &dyn Settings,
        setup: Setup<'_>,
    ) -> Result<Box<dyn Policy>, String> {
        require_served(settings, setup.model)?;
        settings.build(&self.within(setup)).map_err(|problem| {
            match self.reason_for(settings, setup) {
                Some(broken) => broken.to_string(),
                None => problem,
            }
        })
    }

    /// Why the scenario's costs are not known, if that is all that keeps a policy from being built.
    pub fn reason_for(&self, settings: &dyn Settings, setup: Setup<'_>) -> Option<&str> {
        let broken = self.0.broken.as_deref()?;
        require_served(settings, setup.model).ok()?;
        let any: Arc<dyn CostModel> = Arc::new(AnyCosts);
        let with_costs = Setup {
            costs: Some(&any),
            ..setup
        };
        settings.build(&with_costs).ok()?;
        Some(broken)
    }
}

/// Refuses a model that a policy does not serve, whatever its costs are.
fn require_served(settings: &dyn Settings, model: &Model) -> Result<(), String> {
    let kind = settings.describe().name;
    match (settings.iterates(), model.is_llm()) {
        (true, false) => Err(format!(
            "{kind} serves language models only (llm or llm:FILE), not {}",
            model.name()
        )),
        (false, true) => Err(format!(
            "{kind} serves no language models; use static, orca, vllm or sarathi"
        )),
        _ => Ok(()),
    }
}

/// Costs in place of those that are not known, to find out whether a policy lacks nothing else.
struct AnyCosts;

impl CostModel for AnyCosts {
    fn cell(&self, _: &Step) -> Nanos {
        Nanos(1)
    }

    fn kv_tokens(&self) -> Option<u64> {
        Some(u64::MAX)
    }
}

impl fmt::Debug for PolicyCosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PolicyCosts").field(&self.0.file).finish()
    }
}

impl Serialize for PolicyCosts {
    /// Writes the name of the file as in the scenario.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.file.serialize(serializer)
    }
}

/// Completes the rows of a CSV file: from the device's data sheet for cells without rows, and with persistent kernels.
/// `None` without any of them.
fn complete_table(
    rows: Option<CostTable>,
    device: &DeviceSection,
    workload: &WorkloadSection,
) -> Result<Option<CostTable>> {
    let model = &workload.model;
    let sizes = workload.sizes();
    let has_rows = rows.is_some();
    let mut table = rows.map(|table| table.with_traffic(model, &sizes, device.precision));
    let mut kv_tokens = device.kv_tokens.map(u64::from);
    if let Some(file) = &device.roofline {
        let roofline = Arc::new(Roofline::read(file, device.precision)?);
        let rows = table.unwrap_or_else(CostTable::empty);
        table = Some(match model {
            Model::Llm(Some(shape)) => {
                let decoder = DecoderRoofline::new(&roofline, shape);
                kv_tokens = decoder
                    .kv_tokens(kv_tokens)
                    .map_err(Error::input)
                    .within(file.display())?;
                rows.or_decoder(decoder)
            }
            Model::Llm(None) if !has_rows => {
                return Err(Error::input(
                    "llm has no shape for device.roofline; name one, such as llm:scenarios/llms/opt-13b.toml, or give \
                     costs (device.costs, or those of the policy)",
                ));
            }
            _ => rows.or_computed(&roofline, model, &sizes)?,
        });
    }
    if let Some(file) = &device.grnn {
        let rows = table.unwrap_or_else(CostTable::empty);
        table = Some(with_persistent_kernels(rows, file, device, workload)?);
    }
    Ok(table.map(|table| table.with_kv_tokens(kv_tokens)))
}

/// Adds persistent kernels. As in the paper, a model whose weights do not fit in registers runs in traditional kernels:
/// those of the table, or of the file's own data sheet.
fn with_persistent_kernels(
    rows: CostTable,
    file: &Path,
    device: &DeviceSection,
    workload: &WorkloadSection,
) -> Result<CostTable> {
    let model = &workload.model;
    let sizes = workload.sizes();
    let cell = grnn::RecurrentCell::from_model(model)?;
    let kernels = grnn::DataSheet::read(file)?;
    if let Some(measured) = rows.persistent(cell.name())? {
        return Ok(rows.with_persistent(Arc::new(measured), cell.name()));
    }
    let launches = grnn::KernelLaunches::new(cell, sizes.hidden, &kernels, &grnn::Space::default());
    let Some(refused) = launches.refusal(cell, sizes.hidden, &kernels.name) else {
        let times = grnn::PersistentTimes::new(launches, &kernels).within(file.display())?;
        return Ok(rows.with_persistent(Arc::new(PersistentKernels::Modelled(times)), cell.name()));
    };
    let rows = if rows.has(cell.name()) {
        rows
    } else {
        let sheet = Roofline::read(file, device.precision).map_err(|missing| {
            Error::input(format!(
                "device.grnn: {refused}; the times of its traditional kernels are unknown, since {missing}; add device.costs or \
                 device.roofline, or take a smaller workload.hidden"
            ))
        })?;
        rows.or_computed(&Arc::new(sheet), model, &sizes)?
    };
    Ok(rows.with_traditional_kernels(refused))
}

/// The cost model of a policy's steps, which are cells or operators.
pub fn costs_of_policy(
    table: &CostTable,
    workload: &WorkloadSection,
    settings: &dyn Settings,
    overhead: Overhead,
) -> Result<TableCosts> {
    let cells = workload.model.cell_types();
    if settings.runs_operators() {
        let operators = Catalogue::new(&workload.model, &workload.sizes());
        table.costs_for_operators(&cells, &operators, overhead)
    } else {
        table.costs_for(&cells, overhead)
    }
}
