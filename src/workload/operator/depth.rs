//! The depth of an operator in a request's graph of operators: 0 without inputs from other operators, otherwise 1 more
//! than its deepest input.
//!
//! Within a cell an operator depends on the word, on the preceding states, or on both. So its depth is the larger of
//! its distance from the word, and the depth of those states plus its distance from them. This lets a batch of graphs
//! be counted by cells of equal depth instead of operator by operator.

use super::{Operator, Source};

/// The depths of a cell's operators, as a function of the depth of the preceding states.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Depths {
    operators: Vec<Reach>,
}

/// The longest paths to an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reach {
    /// Edges from an operator of the cell that has no operator as input.
    from_word: u32,
    /// Edges from a state; `None` if there is no path.
    from_state: Option<u32>,
}

impl Depths {
    /// The depths of a list in which inputs precede their users.
    pub fn of(list: &[Operator]) -> Depths {
        let mut operators: Vec<Reach> = Vec::with_capacity(list.len());
        for operator in list {
            let inputs = operator.inputs.iter().map(|source| match source {
                Source::Word => Reach { from_word: 0, from_state: None },
                Source::State => Reach { from_word: 0, from_state: Some(1) },
                Source::Operator(earlier) => {
                    let Reach { from_word, from_state } = operators[*earlier as usize];
                    Reach { from_word: from_word + 1, from_state: from_state.map(|edges| edges + 1) }
                }
            });
            let reach = inputs.fold(Reach { from_word: 0, from_state: None }, |longest, input| Reach {
                from_word: longest.from_word.max(input.from_word),
                from_state: longest.from_state.max(input.from_state),
            });
            operators.push(reach);
        }
        Depths { operators }
    }

    /// The depth of an operator. `states` is the depth of the operator that gives the deepest preceding state, or for
    /// [`super::Rows::ForEach`] the state of that one cell; `None` without preceding cells.
    pub fn depth(&self, operator: usize, states: Option<u32>) -> u32 {
        let Reach { from_word, from_state } = self.operators[operator];
        from_word.max(states.zip(from_state).map_or(0, |(depth, edges)| depth + edges))
    }

    /// The depth of the operator that gives the cell's state.
    pub fn state(&self, states: Option<u32>) -> u32 {
        self.depth(self.operators.len() - 1, states)
    }

    /// Whether an operator depends on the preceding states.
    pub fn needs_state(&self, operator: usize) -> bool {
        self.operators[operator].from_state.is_some()
    }
}

#[cfg(test)]
mod tests {
    use crate::workload::model::Model;
    use crate::workload::operator::Sizes;

    use super::*;

    #[test]
    fn a_step_of_an_lstm_stands_behind_the_state_before() {
        let list = &Model::Lstm.operators(&Sizes::square(4))[0];
        let depths = Depths::of(list);
        let place = |name: &str| list.iter().position(|operator| operator.name == name).unwrap();
        let at = |name, states| depths.depth(place(name), states);
        // The first: lookup 0, gates 1, slices 2, gates' functions 3, products 4, c 5, its tanh 6, h 7.
        assert_eq!(
            ["lookup", "gates", "f.slice", "f", "kept", "c", "c.tanh", "h"].map(|name| at(name, None)),
            [0, 1, 2, 3, 4, 5, 6, 7]
        );
        // The second takes a state of depth 7; its word is looked up at once.
        assert_eq!(["lookup", "gates", "kept", "h"].map(|name| at(name, Some(7))), [0, 8, 11, 14]);
        assert_eq!(depths.state(Some(7)), 14);
        assert!(!depths.needs_state(place("lookup")) && depths.needs_state(place("i")));
    }

    #[test]
    fn a_way_from_the_word_can_be_longer_than_one_from_the_state() {
        let list = &Model::Gru.operators(&Sizes::square(4))[0];
        let depths = Depths::of(list);
        // lookup 0, gate 1, sigmoid 2, reset 3, n 4, tanh 5, new 6, h 7 without a state.
        assert_eq!(depths.state(None), 7);
        assert_eq!(depths.state(Some(0)), 7, "an initial state is there at depth 0, as the looked-up word is");
        assert_eq!(depths.state(Some(7)), 14);
    }
}
