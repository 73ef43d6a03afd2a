//! The time of a launch of operators, for policies that batch below cells.
//!
//! Rows `CELL.OPERATOR` of a cost table come first. Otherwise a launch takes its share of the cell's time, and at least
//! the time of a kernel launch (rows `kernel`). An operator's share follows from the larger of its floating-point
//! operations and [`BALANCE`] times its bytes (float32; weights once per launch). The shares of a cell sum to 1.

use crate::base::units::CellId;
use crate::core::workload::operator::{Operator, OperatorKind};

/// The floating-point operations in the time of a byte: 15.7 TFLOP/s by 900 GB/s of a V100, rounded. It affects only
/// the few operators that are bound by memory.
pub const BALANCE: u64 = 17;

const FLOAT: u64 = 4;

/// The numbers that an operator reads and writes: weights once, the others with each row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OperatorWork {
    pub weights: u64,
    pub of_row: u64,
}

impl OperatorWork {
    pub fn from_operator(operator: &Operator) -> OperatorWork {
        let [rows, columns] = operator.shape.map(u64::from);
        let has_products = matches!(
            operator.kind,
            OperatorKind::Matmul { .. } | OperatorKind::Affine { .. }
        );
        let is_lookup = matches!(operator.kind, OperatorKind::Lookup { .. });
        OperatorWork {
            weights: if has_products { rows * columns } else { 0 },
            of_row: if is_lookup { 2 * rows } else { rows + columns },
        }
    }

    /// The time of these rows, measured in floating-point operations. Bytes count as the operations that take as long;
    /// only the operations of products can take longer.
    fn time(self, rows: u64) -> u64 {
        (2 * self.weights * rows).max(BALANCE * FLOAT * (self.weights + self.of_row * rows))
    }
}

/// The rows of an operator for each node of its cell. A cell of a chain follows one cell; a cell of a tree is taken to
/// follow two.
pub(super) fn rows_of_node(operator: &Operator, chain: bool) -> u32 {
    let before = if chain { 1 } else { 2 };
    operator.copies(before) * operator.rows(before)
}

/// An operator's share of the time of its cell.
#[derive(Clone, Debug)]
pub struct OperatorShare {
    pub cell: CellId,
    pub rows_of_node: u32,
    work: OperatorWork,
    /// The work of each operator of the cell, and its rows for each node.
    all: Vec<(OperatorWork, u32)>,
}

impl OperatorShare {
    pub fn from_operator(
        operator: &Operator,
        cell: CellId,
        list: &[Operator],
        chain: bool,
    ) -> OperatorShare {
        OperatorShare {
            cell,
            rows_of_node: rows_of_node(operator, chain),
            work: OperatorWork::from_operator(operator),
            all: list
                .iter()
                .map(|operator| {
                    (
                        OperatorWork::from_operator(operator),
                        rows_of_node(operator, chain),
                    )
                })
                .collect(),
        }
    }

    /// The nodes of the cell that have these rows of the operator.
    pub fn nodes(&self, rows: u32) -> u32 {
        rows.div_ceil(self.rows_of_node)
    }

    /// The share of the cell's time for these rows, as a fraction.
    #[inline]
    pub fn fraction(&self, rows: u32) -> (u64, u64) {
        let nodes = u64::from(self.nodes(rows));
        let all = self
            .all
            .iter()
            .map(|(work, rows)| work.time(nodes * u64::from(*rows)))
            .sum();
        (self.work.time(u64::from(rows)), all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::workload::model::Model;
    use crate::core::workload::operator::Sizes;

    fn shares(
        model: &Model,
        cell: usize,
        rows_of_node: impl Fn(&OperatorShare) -> u32,
    ) -> Vec<(String, f64)> {
        let list = model.operators(&Sizes::square(1024)).swap_remove(cell);
        let chain = model.cell_types()[cell].chain;
        list.iter()
            .map(|operator| {
                let share =
                    OperatorShare::from_operator(operator, CellId(cell as u16), &list, chain);
                let (own, all) = share.fraction(rows_of_node(&share));
                (operator.name.clone(), own as f64 / all as f64)
            })
            .collect()
    }

    #[test]
    fn the_shares_of_a_cell_sum_to_one() {
        for model in [
            "lstm",
            "gru",
            "seq2seq",
            "tree-lstm",
            "childsum-tree-lstm",
            "dnn:net",
        ] {
            let model = Model::parse(model).unwrap();
            for cell in 0..model.cell_types().len() {
                for nodes in [1, 7, 64, 512] {
                    let sum: f64 = shares(&model, cell, |share| nodes * share.rows_of_node)
                        .iter()
                        .map(|(_, s)| s)
                        .sum();
                    assert!((sum - 1.0).abs() < 1e-9, "{model:?} {cell} {nodes}: {sum}");
                }
            }
        }
    }

    #[test]
    fn products_have_nearly_all_of_it() {
        let share = |nodes: u32, name: &str| {
            let shares = shares(&Model::Lstm, 0, |share| nodes * share.rows_of_node);
            shares
                .into_iter()
                .find(|(operator, _)| operator == name)
                .unwrap()
                .1
        };
        assert!(share(1, "gates") > 0.99);
        assert!(
            (0.75..0.95).contains(&share(512, "gates")),
            "{}",
            share(512, "gates")
        );
    }

    #[test]
    fn by_hand() {
        let kind = OperatorKind::Matmul { weight: "w".into() };
        let operator = Operator {
            name: "p".into(),
            kind,
            rows: crate::core::workload::operator::RowRule::One,
            inputs: Vec::new(),
            shape: [2, 3],
        };
        assert_eq!(OperatorWork::from_operator(&operator).time(1), BALANCE * 44);
        assert_eq!(
            OperatorWork::from_operator(&operator).time(10),
            BALANCE * 224
        );
    }
}
