//! What the backend has to know of a model's cells.

use crate::error::{Error, Result};
use crate::network::Network;
use crate::units::CellId;
use crate::workload::model::Model;

/// A cell type, as far as it matters to what is queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// It writes words.
    pub writes: bool,
    /// Its products have a row for each input state ([`Shape::inputs`](super::device::Shape::inputs)).
    pub counts_inputs: bool,
}

/// The cell types of a network's model, by their ids.
pub fn of(network: &Network) -> Vec<Cell> {
    let (model, nothing) = (network.model(), vec![0.0; network.state()]);
    let cell = |(id, name): (u16, String)| Cell {
        writes: network.cell(CellId(id)).word(&nothing).is_some(),
        counts_inputs: matches!(model, Model::ChildSumTreeLstm | Model::ChildSumByArity(_)) && name != "leaf",
    };
    (0..).zip(model.cell_types().into_iter().map(|cell| cell.name)).map(cell).collect()
}

/// Whether there are kernels for a model's cells.
///
/// # Errors
/// Names the model, and the way out.
pub fn check(model: &Model) -> Result<()> {
    match model {
        Model::Dnn(_) | Model::Graph(_) | Model::Network(_) => Err(Error::input(format!(
            "the model {} has no cells for GPUs; run it with --backend cpu, or take lstm, gru, seq2seq, tree-lstm or \
             childsum-tree-lstm",
            model.name()
        ))),
        _ => Ok(()),
    }
}
