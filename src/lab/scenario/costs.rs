//! The costs that a policy may know when it is built.

use std::path::Path;
use std::sync::Arc;

use super::{Device, Workload};
use crate::base::error::{Context as _, Error, Result};
use crate::core::cost::CostModel;
use crate::core::cost::decoder::DecoderRoofline;
use crate::core::cost::grnn;
use crate::core::cost::persistent::PersistentKernels;
use crate::core::cost::roofline::Roofline;
use crate::core::cost::table::{CostTable, Overhead, TableCosts};
use crate::core::policy::Policy;
use crate::core::policy::registry::{Settings, Setup};
use crate::core::workload::model::Model;
use crate::core::workload::operator::catalogue::Catalogue;

/// From a cost table; for cells without rows, a device's data sheet; and for persistent kernels, the table or the
/// device's model. `None` without a source.
pub fn read_cost_table(
    costs: Option<&Path>,
    device: &Device,
    workload: &Workload,
) -> Result<Option<CostTable>> {
    let (model, sizes) = (&workload.model, workload.sizes());
    let table = costs.map(CostTable::read).transpose()?;
    let mut table = table.map(|table| table.with_traffic(model, &sizes, device.precision));
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
            Model::Llm(None) if costs.is_none() => {
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
        table = Some(with_kernels(rows, file, device, workload)?);
    }
    Ok(table.map(|table| table.with_kv_tokens(kv_tokens)))
}

/// Adds persistent kernels. As in the paper, a model whose weights no registers hold runs in traditional kernels: those
/// of the table, or of the file's own data sheet.
fn with_kernels(
    rows: CostTable,
    file: &Path,
    device: &Device,
    workload: &Workload,
) -> Result<CostTable> {
    let (model, sizes) = (&workload.model, workload.sizes());
    let cell = grnn::RecurrentCell::of(model)?;
    let kernels = grnn::DataSheet::read(file)?;
    if let Some(measured) = rows.persistent(cell.name())? {
        return Ok(rows.with_persistent(Arc::new(measured), cell.name()));
    }
    let launches = grnn::KernelLaunches::new(cell, sizes.hidden, &kernels, &grnn::Space::default());
    let Some(refused) = launches.refused(cell, sizes.hidden, &kernels.name) else {
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
    Ok(rows.in_traditional_kernels(refused))
}

/// The times of a policy's steps, cells or operators.
pub fn costs_of_policy(
    table: &CostTable,
    workload: &Workload,
    settings: &dyn Settings,
    overhead: Overhead,
) -> Result<TableCosts> {
    let cells = workload.model.cell_types();
    match settings.runs_operators() {
        true => table.costs_for_operators(
            &cells,
            &Catalogue::new(&workload.model, &workload.sizes()),
            overhead,
        ),
        false => table.costs_for(&cells, overhead),
    }
}

/// What is known of a policy's costs, or why it is nothing. For its decisions, a real run needs a fitting table only if
/// the policy requires it.
pub struct CostEstimates {
    table: Result<Option<CostTable>, String>,
    model: Result<Option<Arc<dyn CostModel>>, String>,
}

impl CostEstimates {
    pub fn read(
        costs: Option<&Path>,
        device: &Device,
        settings: &dyn Settings,
        workload: &Workload,
    ) -> CostEstimates {
        let table = read_cost_table(costs, device, workload).map_err(|error| error.to_string());
        let model = |table: &CostTable| match costs_of_policy(
            table,
            workload,
            settings,
            Overhead::default(),
        ) {
            Ok(model) => Ok(Arc::new(model) as Arc<dyn CostModel>),
            Err(error) => Err(error.to_string()),
        };
        let model = table
            .as_ref()
            .map_err(Clone::clone)
            .and_then(|table| table.as_ref().map(model).transpose());
        CostEstimates { table, model }
    }

    pub fn table(&self) -> Result<Option<&CostTable>> {
        self.table
            .as_ref()
            .map(Option::as_ref)
            .map_err(Error::input)
    }

    pub fn within<'a>(&'a self, setup: Setup<'a>) -> Setup<'a> {
        Setup {
            costs: self.model.as_ref().ok().and_then(Option::as_ref),
            ..setup
        }
    }

    pub fn build(
        &self,
        settings: &dyn Settings,
        setup: Setup<'_>,
    ) -> Result<Box<dyn Policy>, String> {
        let (kind, model) = (settings.describe().name, setup.model);
        match (settings.iterates(), model.is_llm()) {
            (true, false) => Err(format!(
                "{kind} serves language models only (llm or llm:FILE), not {}",
                model.name()
            )),
            (false, true) => Err(format!(
                "{kind} serves no language models; use static, orca, vllm or sarathi"
            )),
            _ => settings
                .build(&self.within(setup))
                .map_err(|problem| match &self.model {
                    Ok(_) => problem,
                    Err(broken) => format!("{problem} (no costs are known: {broken})"),
                }),
        }
    }
}
