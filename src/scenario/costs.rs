//! The costs that a policy may know when it is built.

use std::path::Path;
use std::sync::Arc;

use super::Device;
use crate::cost::CostModel;
use crate::cost::grnn;
use crate::cost::persistent::Persistent;
use crate::cost::roofline::Roofline;
use crate::cost::table::{CostTable, Overhead};
use crate::error::{Context as _, Result};
use crate::policy::Policy;
use crate::policy::registry::{Settings, Setup};
use crate::workload::model::Model;
use crate::workload::operator::Sizes;
use crate::workload::operator::catalogue::Catalogue;

/// From a cost table; for cells without rows, a device's data sheet; and for persistent kernels, the table or the
/// device's model, unless the weights do not fit (GRNN). `None` without a source.
pub fn named(costs: Option<&Path>, device: &Device, model: &Model, sizes: &Sizes) -> Result<Option<CostTable>> {
    let mut table = costs.map(CostTable::read).transpose()?;
    if let Some(file) = &device.roofline {
        let roofline = Arc::new(Roofline::read(file, device.precision)?);
        table = Some(table.unwrap_or_else(CostTable::empty).or_computed(&roofline, model, sizes)?);
    }
    if let Some(file) = &device.grnn {
        let cell = grnn::Cell::of(model)?;
        let kernels = grnn::Device::read(file)?;
        let rows = table.unwrap_or_else(CostTable::empty);
        let modelled = || grnn::Persistent::new(cell, sizes.hidden, &kernels).within(file.display());
        let fits = || grnn::Launches::new(cell, sizes.hidden, &kernels, &grnn::Space::default()).largest().is_some();
        let times = match rows.persistent(cell.name())?.map_or_else(|| modelled().map(Persistent::Modelled), Ok) {
            // As in the paper, a model too large for registers runs in traditional kernels, if their times are known.
            Err(_) if rows.has(cell.name()) && !fits() => return Ok(Some(rows)),
            times => times?,
        };
        table = Some(rows.with_persistent(Arc::new(times), cell.name()));
    }
    Ok(table)
}

/// The costs for a policy's decisions, or why there are none. A real run needs a fitting table only if the policy
/// requires it.
pub struct CostEstimates(std::result::Result<Option<Arc<dyn CostModel>>, String>);

impl CostEstimates {
    pub fn read(
        costs: Option<&Path>,
        device: &Device,
        settings: &dyn Settings,
        model: &Model,
        sizes: &Sizes,
    ) -> CostEstimates {
        let made = |table: CostTable| {
            let cells = model.cell_types();
            match settings.runs_operators() {
                true => table.device_with(&cells, &Catalogue::new(model, sizes), Overhead::default()),
                false => table.device(&cells, Overhead::default()),
            }
        };
        let shared = |device| Arc::new(device) as Arc<dyn CostModel>;
        let read = || named(costs, device, model, sizes)?.map(|table| made(table).map(shared)).transpose();
        CostEstimates(read().map_err(|error| error.to_string()))
    }

    pub fn within<'a>(&'a self, setup: Setup<'a>) -> Setup<'a> {
        Setup { costs: self.0.as_ref().ok().and_then(Option::as_ref), ..setup }
    }

    pub fn build(&self, settings: &dyn Settings, setup: Setup<'_>) -> std::result::Result<Box<dyn Policy>, String> {
        settings.build(&self.within(setup)).map_err(|problem| match &self.0 {
            Ok(_) => problem,
            Err(broken) => format!("{problem} (no costs are known: {broken})"),
        })
    }
}
