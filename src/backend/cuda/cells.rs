//! What the backend has to know of a model's cells.

use crate::error::{Error, Result};
use crate::network::{Network, operators};
use crate::units::CellId;
use crate::workload::dnn::Dnn;
use crate::workload::model::Model;

/// A cell type, as far as it matters to what is queued.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    /// It writes words.
    pub writes: bool,
    /// Its products have a row for each input state ([`Shape::inputs`](super::device::Shape::inputs)).
    pub counts_inputs: bool,
    /// It is an operator whose sizes depend on the tokens ([`Shape::tokens`](super::device::Shape::tokens)).
    pub sized: bool,
}

/// The cell types of a network's model, by their ids.
pub fn of(network: &Network) -> Vec<Cell> {
    let (model, nothing) = (network.model(), vec![0.0; network.state()]);
    if let Some(listed) = model.network() {
        let sized = |operator: &crate::workload::dnn::Operator| !operator.form.is_constant();
        return listed.distinct().iter().map(|operator| Cell { sized: sized(operator), ..Cell::default() }).collect();
    }
    let cell = |(id, name): (u16, String)| Cell {
        writes: network.cell(CellId(id)).word(&nothing).is_some(),
        counts_inputs: matches!(model, Model::ChildSumTreeLstm | Model::ChildSumByArity(_)) && name != "leaf",
        sized: false,
    };
    (0..).zip(model.cell_types().into_iter().map(|cell| cell.name)).map(cell).collect()
}

/// The most numbers of a query that kernels count.
const MOST_NUMBERS: u64 = 1 << 30;

/// Whether there are kernels for a model's cells.
///
/// # Errors
/// Names the model, and the way out.
pub fn check(model: &Model) -> Result<()> {
    match model {
        Model::Dnn(_) | Model::Graph(_) => Err(Error::input(format!(
            "the model {} has no cells for GPUs; run it with --backend cpu, or take lstm, gru, seq2seq, tree-lstm, \
             childsum-tree-lstm or dnn:FILE.csv",
            model.name()
        ))),
        Model::Network(listed) => check_sizes(listed),
        _ => Ok(()),
    }
}

/// Whether kernels can count what an operator reads and writes of a query.
fn check_sizes(listed: &Dnn) -> Result<()> {
    for operator in listed.distinct() {
        let work = operator.form.at(listed.most_tokens().unwrap_or(0));
        let largest = operators::reads(&work).max(operators::writes(&work)).max(work.inner * work.columns);
        if largest > MOST_NUMBERS {
            return Err(Error::input(format!(
                "the model dnn:{}: the operator \"{}\" has {largest} numbers of a query, and GPUs count up to {MOST_NUMBERS}; \
                 run it with --backend cpu, or take a smaller network",
                listed.given(),
                operator.name
            )));
        }
    }
    Ok(())
}
