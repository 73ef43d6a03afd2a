//! What a step moves between the device and its memory, for tables that name the device's bandwidth.

use super::operators;
use crate::base::precision::Precision;
use crate::base::units::{Nanos, Share};
use crate::core::workload::dnn::Form;
use crate::core::workload::operator::{Operator, OperatorKind};

/// What a step reads and writes at least: the weights of each product once, and with each row the inputs and outputs of
/// the products. Elementwise functions may be part of a product's kernel and do not count.
#[derive(Clone, Debug)]
pub struct Traffic {
    numbers: Numbers,
    /// The bytes of a number.
    bytes: u64,
    bandwidth_mb_s: u64,
}

#[derive(Clone, Debug)]
enum Numbers {
    Cell {
        weights: u64,
        of_row: u64,
    },
    /// An operator of a listed network.
    Listed(Form),
}

impl Traffic {
    /// The traffic of a cell with these operators, or `None` if one is unknown. In a `chain` exactly one cell precedes
    /// each cell.
    pub fn from_operators(
        list: &[Operator],
        chain: bool,
        precision: Precision,
        bandwidth_mb_s: u64,
    ) -> Option<Traffic> {
        if list
            .iter()
            .any(|operator| operator.kind == OperatorKind::Opaque)
        {
            return None;
        }
        let mut weights = 0;
        let mut of_row = 0;
        for operator in list {
            let work = operators::OperatorWork::from_operator(operator);
            if work.weights > 0 {
                weights += work.weights;
                of_row += work.of_row * u64::from(operators::rows_of_node(operator, chain));
            }
        }
        Some(Traffic {
            numbers: Numbers::Cell { weights, of_row },
            bytes: precision.bytes(),
            bandwidth_mb_s,
        })
    }

    pub fn from_form(form: &Form, precision: Precision, bandwidth_mb_s: u64) -> Traffic {
        Traffic {
            numbers: Numbers::Listed(form.clone()),
            bytes: precision.bytes(),
            bandwidth_mb_s,
        }
    }

    /// The bytes that a step reads and writes at least.
    fn bytes(&self, batch: u32, input: u32) -> u128 {
        let numbers = match &self.numbers {
            Numbers::Cell { weights, of_row } => {
                u128::from(*weights) + u128::from(*of_row) * u128::from(batch)
            }
            Numbers::Listed(form) => form.work(input).traffic(batch),
        };
        numbers * u128::from(self.bytes)
    }

    /// The share of the bandwidth that a step uses which takes this time alone. It is rounded up, and at most
    /// [`Share::WHOLE`].
    pub fn share(&self, batch: u32, input: u32, time: Nanos) -> Share {
        // A megabyte per second is a byte in a thousand nanoseconds.
        let most = u128::from(time.0) * u128::from(self.bandwidth_mb_s);
        let moved = self.bytes(batch, input).saturating_mul(1000);
        if moved >= most {
            Share::WHOLE
        } else {
            Share((moved << 32).div_ceil(most) as u64)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::workload::model::Model;
    use crate::core::workload::operator::Sizes;

    fn of(model: &Model, cell: usize, sizes: &Sizes, precision: Precision) -> Traffic {
        let list = model.operators(sizes).swap_remove(cell);
        Traffic::from_operators(&list, model.cell_types()[cell].chain, precision, 1000).unwrap()
    }

    #[test]
    fn a_step_moves_its_weights_once_and_its_rows() {
        let sizes = Sizes {
            hidden: 4,
            embedding: 3,
            vocabulary: 50,
        };
        let moved = |model, cell, batch| of(&model, cell, &sizes, Precision::F32).bytes(batch, 0);
        // Gates: from a word and a state of 7 numbers to 16.
        assert_eq!(moved(Model::Lstm, 0, 1), 4 * (7 * 16 + 7 + 16));
        assert_eq!(moved(Model::Lstm, 0, 10), 4 * (7 * 16 + 10 * (7 + 16)));
        // Three products from 7 numbers to 4.
        assert_eq!(moved(Model::Gru, 0, 2), 4 * 3 * (7 * 4 + 2 * (7 + 4)));
        // A decoder's scores, too.
        assert_eq!(
            moved(Model::Seq2Seq, 0, 1),
            4 * (7 * 16 + 7 + 16 + 4 * 50 + 4 + 50)
        );
        assert_eq!(
            of(&Model::Lstm, 0, &sizes, Precision::Bf16).bytes(1, 0),
            2 * (7 * 16 + 7 + 16)
        );
        let opaque = Model::Dnn("net".into());
        assert!(
            Traffic::from_operators(&opaque.operators(&sizes)[0], true, Precision::F32, 1)
                .is_none()
        );
    }

    #[test]
    fn its_share_is_that_of_what_the_bandwidth_moves_in_its_time() {
        let sizes = Sizes {
            hidden: 4,
            embedding: 3,
            vocabulary: 50,
        };
        // 540 bytes; 1000 MB/s are a byte in a nanosecond.
        let share = |time| of(&Model::Lstm, 0, &sizes, Precision::F32).share(1, 0, Nanos(time));
        assert_eq!(
            [540, 0, 539, u64::MAX].map(share),
            [Share::WHOLE, Share::WHOLE, Share::WHOLE, Share(1)]
        );
        assert_eq!(
            [1080, 540 * 3].map(share),
            [Share::from_ratio(1, 2), Share::from_ratio(1, 3)]
        );
    }
}
