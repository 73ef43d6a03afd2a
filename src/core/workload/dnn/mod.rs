//! Staged networks: a list of operators with the shapes of their products, from a CSV file (`docs/NETWORKS.md`). A
//! request is the chain of the operators. Each is a cell type, because cells of one type share weights; lines with the
//! same name are the same operator.

mod file;

use std::path::{Path, PathBuf};

use super::cell_graph::{CellGraph, CellRun};
use super::model::CellType;
use super::shape::Shape;
use crate::base::shipped;
use crate::base::units::{CellId, NodeId};

/// A feed-forward network as a list of operators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dnn {
    /// The file's name in the scenario.
    pub given: String,
    pub path: PathBuf,
    /// The tokens of the longest request; `None` if all requests are of one fixed size.
    pub most_tokens: Option<u32>,
    /// The distinct operators, sorted by name.
    operators: Vec<ListedOperator>,
    /// The operators in running order.
    chain: Vec<CellId>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedOperator {
    pub name: String,
    pub cell: CellId,
    pub form: Form,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FormKind {
    /// Products with weights, read once; rows are stacked: `[batch·rows, inner] × [inner, columns]`.
    Matmul,
    /// The `count·batch` products of queries' own matrices.
    BatchedMatmul,
    /// No products, only memory traffic.
    Memory,
}

impl FormKind {
    pub const ALL: [(&'static str, FormKind); 3] = [
        ("matmul", FormKind::Matmul),
        ("batched-matmul", FormKind::BatchedMatmul),
        ("memory", FormKind::Memory),
    ];

    pub fn name(self) -> &'static str {
        FormKind::ALL
            .iter()
            .find(|(_, kind)| *kind == self)
            .expect("each kind has a name")
            .0
    }
}

/// What an operator computes for each query, by the number of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Form<T = SizeByTokens> {
    pub kind: FormKind,
    pub count: T,
    pub rows: T,
    /// The numbers that are added up for each element of a product.
    pub inner: T,
    pub columns: T,
    /// The numbers that are read and written, without weights.
    pub elements: T,
}

/// What an operator computes for each query with a given number of tokens. For [`FormKind::Memory`] the products are 0.
pub type QueryWork = Form<u64>;

impl Form {
    pub fn work(&self, tokens: u32) -> QueryWork {
        let Form { kind, .. } = *self;
        let [count, rows, inner, columns, elements] = self.sizes().map(|size| size.size(tokens));
        QueryWork {
            kind,
            count,
            rows,
            inner,
            columns,
            elements,
        }
    }

    pub fn is_constant(&self) -> bool {
        self.sizes().into_iter().all(SizeByTokens::is_constant)
    }

    fn sizes(&self) -> [&SizeByTokens; 5] {
        [
            &self.count,
            &self.rows,
            &self.inner,
            &self.columns,
            &self.elements,
        ]
    }
}

impl QueryWork {
    /// The floating-point operations of a batch; a multiply-add counts as two.
    pub fn flops(&self, batch: u32) -> u128 {
        let adds: u128 = [self.count, self.rows, self.inner, self.columns]
            .map(u128::from)
            .iter()
            .product();
        2 * adds * u128::from(batch)
    }

    pub fn weights(&self) -> u128 {
        match self.kind {
            FormKind::Matmul => [self.count, self.inner, self.columns]
                .map(u128::from)
                .iter()
                .product(),
            FormKind::BatchedMatmul | FormKind::Memory => 0,
        }
    }

    /// The numbers that a batch reads and writes: weights once, the rest for each query.
    pub fn traffic(&self, batch: u32) -> u128 {
        self.weights() + u128::from(self.elements) * u128::from(batch)
    }
}

impl Dnn {
    pub fn read(given: &str, path: &Path) -> Result<Dnn, String> {
        let text = shipped::text(path).map_err(|error| error.to_string())?;
        Dnn::parse(given, path, &text).map_err(|problem| format!("{}: {problem}", path.display()))
    }

    /// Reads a network, as [`Dnn::read`], from a text; messages lack the file's name.
    pub fn parse(given: &str, path: &Path, text: &str) -> Result<Dnn, String> {
        file::parse(given, path, text)
    }

    /// The operators in running order: place `i` is node `i` of every request.
    pub fn operators(&self) -> impl ExactSizeIterator<Item = &ListedOperator> {
        self.chain.iter().map(|cell| &self.operators[cell.index()])
    }

    pub fn cell_at(&self, node: NodeId) -> Option<CellId> {
        self.chain.get(node.index()).copied()
    }

    /// The distinct operators, by their cell ids.
    pub fn distinct(&self) -> &[ListedOperator] {
        &self.operators
    }

    /// The input size of an operator's step: the tokens, or 0 if the operator does not depend on them.
    pub fn input(&self, operator: &ListedOperator, tokens: u32) -> u32 {
        if operator.form.is_constant() {
            0
        } else {
            tokens
        }
    }

    pub fn cell_types(&self) -> Vec<CellType> {
        let mut types = Vec::with_capacity(self.operators.len());
        for operator in &self.operators {
            let first = self.chain.iter().position(|cell| *cell == operator.cell);
            let priority = first.map_or(0, |place| place as i32);
            types.push(CellType {
                sized: !operator.form.is_constant(),
                ..CellType::new(&operator.name, priority, true)
            });
        }
        types
    }

    /// The cell graph of a request; `None` for a kind of shape that the network does not take.
    pub fn unfold(&self, shape: &Shape) -> Option<Result<CellGraph, String>> {
        let tokens = match (self.most_tokens, shape) {
            (Some(most), Shape::Tokens(tokens)) if *tokens > most => {
                return Some(Err(format!(
                    "a request has {tokens} tokens, and {} takes up to {most}; leave out longer ones (workload.max_length = {most})",
                    self.path.display()
                )));
            }
            (Some(_), Shape::Tokens(tokens)) => *tokens,
            (None, Shape::Fixed) => 0,
            _ => return None,
        };
        let runs = self.operators().map(|operator| CellRun {
            cell: operator.cell,
            length: 1,
            input: self.input(operator, tokens),
        });
        Some(Ok(CellGraph::chains(runs)))
    }
}

/// A polynomial of `tokens` with natural coefficients, by power.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SizeByTokens([u64; MAX_POWER + 1]);

/// The largest size: far beyond any layer, and far from an overflow.
const MAX_SIZE: u64 = 1 << 40;

const MAX_POWER: usize = 3;

impl SizeByTokens {
    pub fn constant(size: u64) -> SizeByTokens {
        SizeByTokens([size, 0, 0, 0])
    }

    pub fn parse(text: &str) -> Result<SizeByTokens, String> {
        let refuse = || {
            format!(
                "\"{text}\" is not a sum of products of whole numbers and tokens, such as 64, 12*tokens or 3*tokens*tokens + 64"
            )
        };
        let mut coefficients = [0u64; MAX_POWER + 1];
        for term in text.split('+') {
            let mut power = 0;
            let mut product = 1u64;
            for factor in term.split('*').map(str::trim) {
                match factor {
                    "tokens" if power < MAX_POWER => power += 1,
                    "tokens" => {
                        return Err(format!(
                            "\"{text}\" has more than {MAX_POWER} factors tokens in a product"
                        ));
                    }
                    _ if !factor.bytes().all(|digit| digit.is_ascii_digit()) => {
                        return Err(refuse());
                    }
                    _ => {
                        product = factor
                            .parse()
                            .ok()
                            .and_then(|n| product.checked_mul(n))
                            .ok_or_else(refuse)?
                    }
                }
            }
            let sum = coefficients[power].checked_add(product);
            coefficients[power] = sum
                .filter(|sum| *sum <= MAX_SIZE)
                .ok_or_else(|| too_large(text))?;
        }
        Ok(SizeByTokens(coefficients))
    }

    /// The value for a number of tokens; `None` above `MAX_SIZE`.
    pub fn checked_at(&self, tokens: u32) -> Option<u64> {
        let value = self.0.iter().rev().try_fold(0u64, |sum, coefficient| {
            sum.checked_mul(u64::from(tokens))
                .and_then(|sum| sum.checked_add(*coefficient))
        });
        value.filter(|value| *value <= MAX_SIZE)
    }

    pub fn size(&self, tokens: u32) -> u64 {
        self.checked_at(tokens).unwrap_or(MAX_SIZE)
    }

    pub fn is_constant(&self) -> bool {
        self.0[1..] == [0; MAX_POWER]
    }
}

fn too_large(text: &str) -> String {
    format!("\"{text}\" is more than the limit {MAX_SIZE}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_products_are_read() {
        for (text, of_three) in [
            ("0", 0),
            ("64", 64),
            ("tokens", 3),
            (" 12 * tokens ", 36),
            ("tokens*tokens*12*4", 432),
            ("2*tokens*tokens + tokens*5 + 7+1", 41),
        ] {
            assert_eq!(
                SizeByTokens::parse(text).unwrap().size(3),
                of_three,
                "{text}"
            );
        }
        assert!(SizeByTokens::parse("3*4").unwrap().is_constant());
        assert_eq!(SizeByTokens::parse("3*4"), Ok(SizeByTokens::constant(12)));
        assert!(!SizeByTokens::parse("tokens").unwrap().is_constant());
    }

    #[test]
    fn what_is_no_size_is_quoted() {
        for bad in [
            "",
            "token",
            "3*",
            "-1",
            "1.5",
            "tokens^2",
            "tokens tokens",
            "99999999999999999999",
        ] {
            let error = SizeByTokens::parse(bad).unwrap_err();
            assert!(
                error.starts_with(&format!("\"{bad}\" is not a sum of products")),
                "{error}"
            );
        }
        assert!(
            SizeByTokens::parse("tokens*tokens*tokens*tokens")
                .unwrap_err()
                .contains("more than 3 factors")
        );
        assert!(
            SizeByTokens::parse("2000000000000")
                .unwrap_err()
                .contains("is more than the limit 1099511627776")
        );
        assert_eq!(
            SizeByTokens::parse("tokens*tokens")
                .unwrap()
                .checked_at(1 << 21),
            None
        );
    }
}
