//! The ids of a model's operators, which follow those of its cells, for tasks, costs and logs.

use super::{Operator, Sizes, kernels};
use crate::base::units::CellId;
use crate::core::workload::model::{CellType, Model};

/// The operators of a model with their ids.
#[derive(Clone, Debug)]
pub struct Catalogue {
    /// The distinct operators and kernels; the first has the id after those of the cells.
    pub entries: Vec<CatalogueEntry>,
    /// The operators of each cell.
    pub operators: Vec<OperatorList>,
    /// The kernels of each cell.
    pub kernels: Vec<OperatorList>,
}

#[derive(Clone, Debug)]
pub struct OperatorList {
    pub operators: Vec<Operator>,
    pub ids: Vec<CellId>,
}

#[derive(Clone, Debug)]
pub struct CatalogueEntry {
    pub cell: CellId,
    /// The name `CELL.OPERATOR`.
    pub name: String,
    pub operator: Operator,
}

impl Catalogue {
    /// Numbers the operators cell by cell. A kernel that is a whole operator has the operator's id.
    pub fn new(model: &Model, sizes: &Sizes) -> Catalogue {
        let cells = model.cell_types();
        let mut entries: Vec<CatalogueEntry> = Vec::new();
        let mut numbered = |cell: usize, operators: Vec<Operator>| {
            let ids = operators.iter().map(|operator| {
                let name = format!("{}.{}", cells[cell].name, operator.name);
                let known = entries.iter().position(|entry| entry.name == name);
                let place = known.unwrap_or_else(|| {
                    entries.push(CatalogueEntry {
                        cell: CellId(cell as u16),
                        name,
                        operator: operator.clone(),
                    });
                    entries.len() - 1
                });
                CellId((cells.len() + place) as u16)
            });
            OperatorList {
                ids: ids.collect(),
                operators,
            }
        };
        let mut whole = Vec::new();
        let mut split = Vec::new();
        for (cell, operators) in model.operators(sizes).into_iter().enumerate() {
            split.push(numbered(cell, kernels(&operators)));
            whole.push(numbered(cell, operators));
        }
        Catalogue {
            entries,
            operators: whole,
            kernels: split,
        }
    }

    /// The cell types that represent the operators.
    pub fn types(&self) -> impl Iterator<Item = CellType> {
        self.entries
            .iter()
            .map(|entry| CellType::new(&entry.name, 0, false))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_are_numbered_behind_the_cells() {
        let catalogue = Catalogue::new(&Model::TreeLstm, &Sizes::square(8));
        let types: Vec<CellType> = catalogue.types().collect();
        let name = |id: CellId| types[id.index() - 2].name.as_str();
        assert_eq!(name(catalogue.operators[0].ids[0]), "internal.gates");
        assert_eq!(name(catalogue.kernels[0].ids[0]), "internal.gates.product");
        assert_eq!(name(catalogue.kernels[0].ids[1]), "internal.gates.bias");
        assert_eq!(name(*catalogue.operators[1].ids.last().unwrap()), "leaf.h");
        assert_eq!(
            catalogue.operators[1].ids.last(),
            catalogue.kernels[1].ids.last(),
            "a kernel as it is"
        );
        let all: std::collections::BTreeSet<&str> =
            types.iter().map(|named| named.name.as_str()).collect();
        assert_eq!(all.len(), types.len());
        assert_eq!(catalogue.entries.len(), types.len());
    }
}
