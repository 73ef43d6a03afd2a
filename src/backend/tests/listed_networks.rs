//! Listed networks for the tests of real backends.

use std::path::Path;
use std::sync::Arc;

use crate::cost::CostModel;
use crate::cost::table::{CostTable, Overhead};
use crate::network::{Network, Spec};
use crate::workload::dnn::Dnn;
use crate::workload::model::Model;

/// The example network, whose operators depend on the tokens.
pub const EXAMPLE: &str = include_str!("../../../scenarios/networks/example.csv");

/// An operator at several places, some adjacent, so that a stage may repeat it.
pub const REPEATED: &str = "shape,fixed\nname,kind,count,rows,inner,columns,elements\na,matmul,2,3,5,7,1\nb,memory,,,,,40\n\
                            a,matmul,2,3,5,7,1\na,matmul,2,3,5,7,1\nc,matmul,,9,20,6,1\nb,memory,,,,,40\n";

pub fn listed(text: &str) -> Model {
    Model::Network(Arc::new(Dnn::parse("n.csv", Path::new("n.csv"), text).expect("a network")))
}

/// A small network of a model.
pub fn network(model: &Model) -> Arc<Network> {
    let spec = Spec { hidden: 6, embedding: 5, vocabulary: 20, seed: 4, weights: None };
    Arc::new(Network::new(model, &spec).expect("weights from the seed"))
}

/// Costs with which larger batches are faster.
pub fn costs(model: &Model) -> Arc<dyn CostModel> {
    let cells = model.cell_types();
    let rows = cells.iter().map(|cell| format!("{0},1,1000\n{0},8,3000\n", cell.name)).collect::<String>();
    let table = CostTable::parse(&format!("cell,batch,ns\n{rows}"), "costs").expect("a table");
    Arc::new(table.device(&cells, Overhead::default()).expect("all cells have rows"))
}
