//! Classes of nodes; keys of operators that run as one.

use std::collections::HashMap;
use std::hash::Hash;

use crate::base::units::CellId;
use crate::core::workload::operator::Depths;
use crate::core::workload::operator::catalogue::OperatorList;
use crate::core::workload::operator::{OperandSource, Operator, OperatorKind, RowRule};

/// Operators of one key run as one. Numbered in the order of meeting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(u32);

impl Key {
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Keyed {
    /// Gives a launch its name and cost.
    pub operator: CellId,
    /// Each runs by itself.
    pub alone: bool,
    pub elementwise: bool,
}

#[derive(Clone, Debug)]
pub struct Class {
    pub cell: CellId,
    /// Input cells; an initial state counts as one.
    pub before: u32,
    /// Or 0 if their time does not depend on it.
    pub input: u32,
    pub keys: Vec<Key>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    Word,
    /// That of the copy's input cell.
    OneState,
    AllStates,
}

#[derive(Clone, Debug)]
pub struct Cell {
    pub list: OperatorList,
    pub depths: Depths,
    pub needs: Vec<Needs>,
    /// Earlier operators, each once.
    pub waits_for: Vec<Vec<u16>>,
    pub takers: Vec<Vec<u16>>,
}

/// `None`: the operator always runs by itself.
pub type KeyOf<K> = fn(&Operator, before: u32, input: u32) -> Option<K>;

pub struct Classes<K> {
    cells: Vec<Cell>,
    key_of: KeyOf<K>,
    classes: Vec<Class>,
    // Looked up, never iterated.
    class_of: HashMap<(CellId, u32, u32), u32>,
    /// Of operators that run by themselves: the operator, the input cells and the input.
    key_numbers: HashMap<Result<K, (CellId, u32, u32)>, Key>,
    keyed: Vec<Keyed>,
}

impl<K: Hash + Eq> Classes<K> {
    pub fn new(lists: &[OperatorList], key_of: KeyOf<K>) -> Classes<K> {
        let mut classes = Classes {
            cells: lists.iter().map(Cell::of).collect(),
            key_of,
            classes: Vec::new(),
            class_of: HashMap::new(),
            key_numbers: HashMap::new(),
            keyed: Vec::new(),
        };
        // A launch is named after the first such cell, not the first request.
        for cell in 0..lists.len() as u16 {
            classes.keys(CellId(cell), 1, 0);
        }
        classes
    }

    /// `before` counts an initial state as one cell.
    pub fn class(&mut self, cell: CellId, before: u32, input: u32) -> u32 {
        let before = before.max(1);
        if let Some(class) = self.class_of.get(&(cell, before, input)) {
            return *class;
        }
        let keys = self.keys(cell, before, input);
        let class = self.classes.len() as u32;
        self.classes.push(Class {
            cell,
            before,
            input,
            keys,
        });
        self.class_of.insert((cell, before, input), class);
        class
    }

    fn keys(&mut self, cell: CellId, before: u32, input: u32) -> Vec<Key> {
        let list = &self.cells[cell.index()].list;
        let operators = list.operators.iter().zip(&list.ids);
        let mut number = |(operator, id): (&Operator, &CellId)| {
            let together = (self.key_of)(operator, before, input);
            let keyed = Keyed {
                operator: *id,
                alone: together.is_none(),
                elementwise: matches!(
                    operator.kind,
                    OperatorKind::Elementwise { .. } | OperatorKind::Sum
                ),
            };
            *self
                .key_numbers
                .entry(together.ok_or((*id, before, input)))
                .or_insert_with(|| {
                    self.keyed.push(keyed);
                    Key(self.keyed.len() as u32 - 1)
                })
        };
        operators.map(&mut number).collect()
    }

    pub fn all(&self) -> &[Class] {
        &self.classes
    }

    pub fn cell(&self, class: u32) -> &Cell {
        &self.cells[self.classes[class as usize].cell.index()]
    }

    pub fn keyed(&self) -> &[Keyed] {
        &self.keyed
    }
}

impl Cell {
    fn of(list: &OperatorList) -> Cell {
        let mut needs: Vec<Needs> = Vec::with_capacity(list.operators.len());
        let mut takers = vec![Vec::new(); list.operators.len()];
        let mut waits_for = Vec::with_capacity(list.operators.len());
        for (place, operator) in list.operators.iter().enumerate() {
            let of_operator = |source: &OperandSource| {
                if let OperandSource::Operator(earlier) = source {
                    Some(*earlier)
                } else {
                    None
                }
            };
            let mut earlier: Vec<u16> = operator.inputs.iter().filter_map(of_operator).collect();
            earlier.sort_unstable();
            earlier.dedup();
            earlier
                .iter()
                .for_each(|earlier| takers[*earlier as usize].push(place as u16));
            waits_for.push(earlier);
            let one = operator.rows == RowRule::ForEach;
            let need = operator.inputs.iter().fold(Needs::Word, |need, source| {
                let other = match source {
                    OperandSource::Word => Needs::Word,
                    OperandSource::State => Needs::OneState,
                    OperandSource::Operator(earlier) => needs[*earlier as usize],
                };
                match (need, other) {
                    (Needs::AllStates, _) | (_, Needs::AllStates) => Needs::AllStates,
                    (Needs::Word, Needs::Word) => Needs::Word,
                    _ if one => Needs::OneState,
                    _ => Needs::AllStates,
                }
            });
            needs.push(need);
        }
        Cell {
            depths: Depths::of(&list.operators),
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

    fn classes(model: &Model) -> Classes<crate::core::workload::operator::Signature> {
        let catalogue = Catalogue::new(model, &Sizes::square(8));
        Classes::new(&catalogue.operators, |operator, before, _| {
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
                Needs::Word,
                Needs::OneState,
                Needs::AllStates,
                Needs::AllStates
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
            Needs::AllStates,
            "the gates of a node take both children"
        );
    }
}
