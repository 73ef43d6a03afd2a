//! The classes of nodes, and the keys of operators that run as one.

use std::collections::HashMap;
use std::hash::Hash;

use crate::base::units::CellId;
use crate::core::workload::operator::Depths;
use crate::core::workload::operator::catalogue::OperatorList;
use crate::core::workload::operator::{OperandSource, Operator, OperatorKind, RowRule};

/// The number of a key, in the order in which keys were met. Operators of one key run as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OperatorKey(u32);

impl OperatorKey {
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The operators of a key.
#[derive(Clone, Copy, Debug)]
pub struct KeyedOperator {
    /// The operator that gives a launch its name and cost.
    pub operator: CellId,
    /// Whether each operator runs by itself.
    pub alone: bool,
    pub elementwise: bool,
}

/// Nodes of one cell type, number of input cells and input size.
#[derive(Clone, Debug)]
pub struct NodeClass {
    pub cell: CellId,
    /// The number of input cells, of which an initial state counts as one.
    pub before: u32,
    /// The input size, or 0 if the time does not depend on it.
    pub input: u32,
    /// The keys of the cell's operators.
    pub keys: Vec<OperatorKey>,
}

/// What an operator needs before it can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputNeeds {
    Word,
    /// The state of one input cell, that of the operator's copy.
    OneState,
    AllStates,
}

/// The operators of a cell type.
#[derive(Clone, Debug)]
pub struct CellOperators {
    pub list: OperatorList,
    pub depths: Depths,
    pub needs: Vec<InputNeeds>,
    /// The earlier operators whose results each operator takes.
    pub waits_for: Vec<Vec<u16>>,
    /// The later operators that take each operator's result.
    pub takers: Vec<Vec<u16>>,
}

/// A function that returns the key of an operator, or `None` if the operator always runs by itself.
pub type KeyFunction<K> = fn(&Operator, before: u32, input: u32) -> Option<K>;

/// The classes and keys that have been met.
pub struct NodeClasses<K> {
    cells: Vec<CellOperators>,
    key_of: KeyFunction<K>,
    classes: Vec<NodeClass>,
    /// The number of each class, by cell type, number of input cells and input. It is looked up, and never iterated
    /// over.
    class_of: HashMap<(CellId, u32, u32), u32>,
    /// The number of each key. Operators that run by themselves have a key of the operator, the number of input cells
    /// and the input.
    key_numbers: HashMap<Result<K, (CellId, u32, u32)>, OperatorKey>,
    keyed: Vec<KeyedOperator>,
}

impl<K: Hash + Eq> NodeClasses<K> {
    pub fn new(lists: &[OperatorList], key_of: KeyFunction<K>) -> NodeClasses<K> {
        let mut classes = NodeClasses {
            cells: lists.iter().map(CellOperators::new).collect(),
            key_of,
            classes: Vec::new(),
            class_of: HashMap::new(),
            key_numbers: HashMap::new(),
            keyed: Vec::new(),
        };
        // A launch is named after the first cell with the key, and not after the first request.
        for cell in 0..lists.len() as u16 {
            classes.keys(CellId(cell), 1, 0);
        }
        classes
    }

    /// The class of nodes with `before` input cells, of which an initial state counts as one.
    pub fn class(&mut self, cell: CellId, before: u32, input: u32) -> u32 {
        let before = before.max(1);
        if let Some(class) = self.class_of.get(&(cell, before, input)) {
            return *class;
        }
        let keys = self.keys(cell, before, input);
        let class = self.classes.len() as u32;
        self.classes.push(NodeClass {
            cell,
            before,
            input,
            keys,
        });
        self.class_of.insert((cell, before, input), class);
        class
    }

    fn keys(&mut self, cell: CellId, before: u32, input: u32) -> Vec<OperatorKey> {
        let list = &self.cells[cell.index()].list;
        let mut keys = Vec::new();
        for (operator, id) in list.operators.iter().zip(&list.ids) {
            let key = (self.key_of)(operator, before, input);
            let keyed = KeyedOperator {
                operator: *id,
                alone: key.is_none(),
                elementwise: matches!(
                    operator.kind,
                    OperatorKind::Elementwise { .. } | OperatorKind::Sum
                ),
            };
            let known = self.key_numbers.entry(key.ok_or((*id, before, input)));
            keys.push(*known.or_insert_with(|| {
                self.keyed.push(keyed);
                OperatorKey(self.keyed.len() as u32 - 1)
            }));
        }
        keys
    }

    pub fn all(&self) -> &[NodeClass] {
        &self.classes
    }

    pub fn cell(&self, class: u32) -> &CellOperators {
        &self.cells[self.classes[class as usize].cell.index()]
    }

    pub fn keyed_operators(&self) -> &[KeyedOperator] {
        &self.keyed
    }
}

impl CellOperators {
    fn new(list: &OperatorList) -> CellOperators {
        let mut needs: Vec<InputNeeds> = Vec::with_capacity(list.operators.len());
        let mut takers = vec![Vec::new(); list.operators.len()];
        let mut waits_for = Vec::with_capacity(list.operators.len());
        for (place, operator) in list.operators.iter().enumerate() {
            let mut earlier: Vec<u16> = Vec::new();
            for source in &operator.inputs {
                if let OperandSource::Operator(place) = source {
                    earlier.push(*place);
                }
            }
            earlier.sort_unstable();
            earlier.dedup();
            for needed in &earlier {
                takers[*needed as usize].push(place as u16);
            }
            waits_for.push(earlier);
            let one = operator.rows == RowRule::ForEach;
            let need = operator
                .inputs
                .iter()
                .fold(InputNeeds::Word, |need, source| {
                    let other = match source {
                        OperandSource::Word => InputNeeds::Word,
                        OperandSource::State => InputNeeds::OneState,
                        OperandSource::Operator(earlier) => needs[*earlier as usize],
                    };
                    match (need, other) {
                        (InputNeeds::AllStates, _) | (_, InputNeeds::AllStates) => {
                            InputNeeds::AllStates
                        }
                        (InputNeeds::Word, InputNeeds::Word) => InputNeeds::Word,
                        _ if one => InputNeeds::OneState,
                        _ => InputNeeds::AllStates,
                    }
                });
            needs.push(need);
        }
        CellOperators {
            depths: Depths::from_operators(&list.operators),
            list: list.clone(),
            needs,
            waits_for,
            takers,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::workload::model::Model;
    use crate::core::workload::operator::Sizes;
    use crate::core::workload::operator::catalogue::Catalogue;

    fn classes(model: &Model) -> NodeClasses<crate::core::workload::operator::Signature> {
        let catalogue = Catalogue::new(model, &Sizes::square(8));
        NodeClasses::new(&catalogue.operators, |operator, before, _| {
            operator.signature(before)
        })
    }

    #[test]
    fn a_class_is_a_cell_type_and_a_number_of_cells_before() {
        let mut classes = classes(&Model::ChildSumTreeLstm);
        let [two, three, leaf] =
            [(0, 2), (0, 3), (1, 0)].map(|(cell, before)| classes.class(CellId(cell), before, 0));
        assert_eq!(classes.class(CellId(0), 2, 0), two);
        assert_eq!(
            classes.class(CellId(1), 1, 0),
            leaf,
            "an initial state is one cell before"
        );
        let keys = |class: u32| &classes.all()[class as usize].keys;
        let differ: Vec<&str> = (0..keys(two).len())
            .filter(|place| keys(two)[*place] != keys(three)[*place])
            .map(|place| classes.cell(two).list.operators[place].name.as_str())
            .collect();
        assert_eq!(
            differ,
            ["children.h", "children.c", "f.children"],
            "sums and functions go by their type alone"
        );
        assert_eq!(keys(two)[0], keys(leaf)[0]);
    }

    #[test]
    fn an_operator_waits_for_one_state_only_if_all_that_it_takes_does() {
        let mut childsum = classes(&Model::ChildSumTreeLstm);
        let class = childsum.class(CellId(0), 2, 0);
        let cell = childsum.cell(class);
        let needs = |name: &str| {
            cell.needs[cell
                .list
                .operators
                .iter()
                .position(|operator| operator.name == name)
                .unwrap()]
        };
        assert_eq!(
            ["word", "child.h", "children.h", "children"].map(needs),
            [
                InputNeeds::Word,
                InputNeeds::OneState,
                InputNeeds::AllStates,
                InputNeeds::AllStates
            ]
        );
        let mut binary = classes(&Model::TreeLstm);
        let class = binary.class(CellId(0), 2, 0);
        let cell = binary.cell(class);
        let slice = cell
            .list
            .operators
            .iter()
            .position(|operator| operator.name == "f.slice")
            .unwrap();
        assert_eq!(
            cell.needs[slice],
            InputNeeds::AllStates,
            "the gates of a node take both children"
        );
    }
}
