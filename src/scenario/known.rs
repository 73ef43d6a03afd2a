//! The costs that a policy may know when it is built.

use std::path::Path;
use std::sync::Arc;

use crate::cost::CostModel;
use crate::cost::table::{CostTable, Overhead};
use crate::policy::Policy;
use crate::policy::registry::{Configured, Setup};
use crate::workload::model::Model;
use crate::workload::operator::Sizes;
use crate::workload::operator::catalogue::Catalogue;

/// The costs of a policy's table, or why there are none. A real run may do with a table that does not fit, or without one, unless the
/// policy asks for it.
pub struct KnownCosts(Result<Option<Arc<dyn CostModel>>, String>);

impl KnownCosts {
    /// Reads a policy's table, if it has one. The sizes are those of the model's network.
    pub fn read(costs: Option<&Path>, settings: &dyn Configured, model: &Model, sizes: &Sizes) -> KnownCosts {
        let read = |file| {
            let (table, cells) = (CostTable::read(file)?, model.cell_types());
            match settings.runs_operators() {
                true => table.device_with(&cells, &Catalogue::new(model, sizes), Overhead::default()),
                false => table.device(&cells, Overhead::default()),
            }
        };
        let shared = |device| Arc::new(device) as Arc<dyn CostModel>;
        KnownCosts(costs.map(|file| read(file).map(shared)).transpose().map_err(|error| error.to_string()))
    }

    /// The same setup, with these costs.
    pub fn within<'a>(&'a self, setup: Setup<'a>) -> Setup<'a> {
        Setup { costs: self.0.as_ref().ok().and_then(Option::as_ref), ..setup }
    }

    /// Builds a policy that knows them.
    ///
    /// # Errors
    /// Those of the policy, with what is wrong with the table, if something is.
    pub fn build(&self, settings: &dyn Configured, setup: Setup<'_>) -> Result<Box<dyn Policy>, String> {
        settings.build_policy(&self.within(setup)).map_err(|problem| match &self.0 {
            Ok(_) => problem,
            Err(broken) => format!("{problem} (no costs are known: {broken})"),
        })
    }
}
