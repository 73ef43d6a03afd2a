//! The operators of the built-in models: the CPU backend's equations in the form of DyNet's and MXNet's builders, with
//! one product for all gates, then a slice for each.

use super::{Kind, Operator, Rows, Sizes, Source};
use crate::workload::graph_model;
use crate::workload::model::Model;

pub(super) fn operators(model: &Model, sizes: &Sizes) -> Vec<Vec<Operator>> {
    match model {
        Model::Lstm => vec![lstm("lstm", sizes, Source::Word).done()],
        Model::Gru => vec![gru(sizes)],
        Model::Seq2Seq => vec![decoder(sizes), lstm("encoder", sizes, Source::Word).done()],
        Model::TreeLstm => vec![tree_internal(sizes), tree_leaf(sizes)],
        Model::ChildSumTreeLstm => vec![child_sum_internal(sizes), child_sum_leaf(sizes)],
        Model::ChildSumByArity(most) => {
            let internal = (0..*most).map(|_| child_sum_internal(sizes));
            internal.chain([child_sum_leaf(sizes)]).collect()
        }
        Model::Dnn(name) => vec![opaque(name, sizes)],
        Model::Network(network) => network.distinct().iter().map(|operator| opaque(&operator.name, sizes)).collect(),
        Model::Graph(model) => graph_model::operators::operators(model, sizes),
    }
}

struct List(Vec<Operator>);

impl List {
    fn push(&mut self, name: &str, kind: Kind, rows: Rows, inputs: &[Source], shape: [u32; 2]) -> Source {
        self.0.push(Operator { name: name.into(), kind, rows, inputs: inputs.to_vec(), shape });
        Source::Operator(self.0.len() as u16 - 1)
    }

    /// With `WEIGHT.weight` and `WEIGHT.bias`.
    fn affine(&mut self, name: &str, weight: &str, rows: Rows, inputs: &[Source], shape: [u32; 2]) -> Source {
        let kind = Kind::Affine { weight: format!("{weight}.weight"), bias: format!("{weight}.bias") };
        self.push(name, kind, rows, inputs, shape)
    }

    fn map(&mut self, name: &str, function: &str, rows: Rows, inputs: &[Source], width: u32) -> Source {
        let kind = Kind::Elementwise { function: function.into() };
        self.push(name, kind, rows, inputs, [width, width * inputs.len() as u32])
    }

    fn sum(&mut self, name: &str, inputs: &[Source], width: u32) -> Source {
        self.push(name, Kind::Sum, Rows::One, inputs, [width, width * inputs.len() as u32])
    }

    fn slice(&mut self, name: &str, from: Source, rows: Rows, width: u32) -> Source {
        self.push(name, Kind::Slice, rows, &[from], [width, width])
    }

    fn lookup(&mut self, table: &str, word: Source, sizes: &Sizes) -> Source {
        let kind = Kind::Lookup { table: table.into() };
        self.push("lookup", kind, Rows::One, &[word], [sizes.embedding, sizes.vocabulary])
    }

    fn done(self) -> Vec<Operator> {
        self.0
    }
}

fn lstm(cell: &str, sizes: &Sizes, word: Source) -> List {
    let h = sizes.hidden;
    let mut list = List(Vec::new());
    let x = list.lookup("embedding", word, sizes);
    let gates = list.affine("gates", cell, Rows::One, &[x, Source::State], [4 * h, sizes.embedding + h]);
    let [i, f, g, o] = ["i", "f", "g", "o"].map(|gate| list.slice(&format!("{gate}.slice"), gates, Rows::One, h));
    let i = list.map("i", "sigmoid", Rows::One, &[i], h);
    let f = list.map("f", "sigmoid", Rows::One, &[f], h);
    let g = list.map("g", "tanh", Rows::One, &[g], h);
    let o = list.map("o", "sigmoid", Rows::One, &[o], h);
    let new = list.map("new", "product", Rows::One, &[i, g], h);
    let kept = list.map("kept", "product", Rows::One, &[f, Source::State], h);
    let c = list.sum("c", &[new, kept], h);
    let c = list.map("c.tanh", "tanh", Rows::One, &[c], h);
    list.map("h", "product", Rows::One, &[o, c], h);
    list
}

/// An LSTM over the previous word, a projection to all words, and the best.
fn decoder(sizes: &Sizes) -> Vec<Operator> {
    let mut list = lstm("decoder", sizes, Source::State);
    list.0[0].kind = Kind::Lookup { table: "decoder.embedding".into() };
    let h = Source::Operator(list.0.len() as u16 - 1);
    let scores = list.affine("scores", "projection", Rows::One, &[h], [sizes.vocabulary, sizes.hidden]);
    let kind = Kind::Elementwise { function: "argmax".into() };
    list.push("word", kind, Rows::One, &[scores], [1, sizes.vocabulary]);
    list.done()
}

fn gru(sizes: &Sizes) -> Vec<Operator> {
    let h = sizes.hidden;
    let shape = [h, sizes.embedding + h];
    let mut list = List(Vec::new());
    let x = list.lookup("embedding", Source::Word, sizes);
    let r = list.affine("r.sum", "gru.r", Rows::One, &[x, Source::State], shape);
    let z = list.affine("z.sum", "gru.z", Rows::One, &[x, Source::State], shape);
    let r = list.map("r", "sigmoid", Rows::One, &[r], h);
    let z = list.map("z", "sigmoid", Rows::One, &[z], h);
    let reset = list.map("reset", "product", Rows::One, &[r, Source::State], h);
    let n = list.affine("n.sum", "gru.n", Rows::One, &[x, reset], shape);
    let n = list.map("n", "tanh", Rows::One, &[n], h);
    let rest = list.map("rest", "complement", Rows::One, &[z], h);
    let new = list.map("new", "product", Rows::One, &[rest, n], h);
    let kept = list.map("kept", "product", Rows::One, &[z, Source::State], h);
    list.sum("h", &[new, kept], h);
    list.done()
}

fn tree_state(list: &mut List, [i, o, u]: [Source; 3], kept: Option<Source>, h: u32) {
    let i = list.map("i", "sigmoid", Rows::One, &[i], h);
    let o = list.map("o", "sigmoid", Rows::One, &[o], h);
    let u = list.map("u", "tanh", Rows::One, &[u], h);
    let new = list.map("new", "product", Rows::One, &[i, u], h);
    let c = kept.map_or(new, |kept| list.sum("c", &[new, kept], h));
    let c = list.map("c.tanh", "tanh", Rows::One, &[c], h);
    list.map("h", "product", Rows::One, &[o, c], h);
}

fn tree_leaf(sizes: &Sizes) -> Vec<Operator> {
    let h = sizes.hidden;
    let mut list = List(Vec::new());
    let x = list.lookup("embedding", Source::Word, sizes);
    let gates = list.affine("gates", "leaf", Rows::One, &[x], [3 * h, sizes.embedding]);
    let slices = ["i", "o", "u"].map(|gate| list.slice(&format!("{gate}.slice"), gates, Rows::One, h));
    tree_state(&mut list, slices, None, h);
    list.done()
}

fn tree_internal(sizes: &Sizes) -> Vec<Operator> {
    let h = sizes.hidden;
    let mut list = List(Vec::new());
    let gates = list.affine("gates", "internal", Rows::One, &[Source::State], [5 * h, 2 * h]);
    let slices = ["i", "o", "u"].map(|gate| list.slice(&format!("{gate}.slice"), gates, Rows::One, h));
    let f = list.slice("f.slice", gates, Rows::ForEach, h);
    let f = list.map("f", "sigmoid", Rows::ForEach, &[f], h);
    let kept = list.map("kept", "product", Rows::ForEach, &[f, Source::State], h);
    tree_state(&mut list, slices, Some(kept), h);
    list.done()
}

/// MXNet's symbolic form for K children: 22 + 2K operators. With the word, six weights and two states per child it has
/// 29 + 4K nodes; for one child the 33 of JIT dynamic batching (section 3).
fn child_sum_internal(sizes: &Sizes) -> Vec<Operator> {
    let h = sizes.hidden;
    let mut list = List(Vec::new());
    let (slices, iou) = child_sum_word(&mut list, sizes);
    let sum = list.sum("children", &[Source::State], h);
    let child_h = list.slice("child.h", Source::State, Rows::ForEach, h);
    let child_c = list.slice("child.c", Source::State, Rows::ForEach, h);
    let stacked_h = list.push("children.h", Kind::Concat, Rows::Stacked, &[child_h], [h, h]);
    let stacked_c = list.push("children.c", Kind::Concat, Rows::Stacked, &[child_c], [h, h]);
    let f = list.affine("f.children", "childsum.f", Rows::Stacked, &[stacked_h], [h, h]);
    let f_word = list.slice("f.word", slices, Rows::One, h);
    let f = list.push("f.sum", Kind::Sum, Rows::Stacked, &[f_word, f], [h, 2 * h]);
    let f = list.map("f", "sigmoid", Rows::Stacked, &[f], h);
    let iou_children = list.affine("iou.children", "childsum.iou", Rows::One, &[sum], [3 * h, h]);
    let iou = list.sum("iou.sum", &[iou, iou_children], 3 * h);
    let iou = list.slice("iou.slice", iou, Rows::One, 3 * h);
    let kept = list.map("kept", "product", Rows::Stacked, &[f, stacked_c], h);
    let kept = list.push("kept.sum", Kind::Sum, Rows::Stacked, &[kept], [h, h]);
    tree_state(&mut list, [iou; 3], Some(kept), h);
    list.done()
}

fn child_sum_leaf(sizes: &Sizes) -> Vec<Operator> {
    let mut list = List(Vec::new());
    let (_, iou) = child_sum_word(&mut list, sizes);
    let iou = list.slice("iou.slice", iou, Rows::One, 3 * sizes.hidden);
    tree_state(&mut list, [iou; 3], None, sizes.hidden);
    list.done()
}

/// The word's part of the gates: all four slices, and those of i, o and u.
fn child_sum_word(list: &mut List, sizes: &Sizes) -> (Source, Source) {
    let h = sizes.hidden;
    let word = list.affine("word", "childsum.word", Rows::One, &[Source::Word], [4 * h, sizes.embedding]);
    let slices = list.slice("word.slice", word, Rows::One, 4 * h);
    let iou = list.push("iou.word", Kind::Concat, Rows::One, &[slices], [3 * h, 3 * h]);
    (slices, iou)
}

fn opaque(name: &str, sizes: &Sizes) -> Vec<Operator> {
    let mut list = List(Vec::new());
    list.push(name, Kind::Opaque, Rows::One, &[Source::Word], [sizes.hidden, sizes.embedding]);
    list.done()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn models() -> impl Iterator<Item = Model> {
        ["lstm", "gru", "seq2seq", "tree-lstm", "childsum-tree-lstm", "dnn:net"]
            .into_iter()
            .map(|name| Model::parse(name).unwrap())
    }

    fn count(operators: &[Operator], before: u32) -> u32 {
        operators.iter().map(|operator| operator.copies(before)).sum()
    }

    #[test]
    fn every_cell_has_a_list_whose_inputs_stand_before_those_who_take_them() {
        for model in models() {
            let lists = model.operators(&Sizes::square(8));
            assert_eq!(lists.len(), model.cell_types().len());
            for list in lists {
                let names: BTreeSet<&str> = list.iter().map(|operator| operator.name.as_str()).collect();
                assert_eq!(names.len(), list.len(), "{model:?}");
                for (place, operator) in list.iter().enumerate() {
                    assert!(!operator.inputs.is_empty());
                    for input in &operator.inputs {
                        assert!(!matches!(input, Source::Operator(earlier) if *earlier as usize >= place));
                    }
                }
                let taken: BTreeSet<u16> = list
                    .iter()
                    .flat_map(|operator| &operator.inputs)
                    .filter_map(|input| match input {
                        Source::Operator(earlier) => Some(*earlier),
                        _ => None,
                    })
                    .collect();
                assert_eq!(taken.len(), list.len() - 1, "{model:?}");
            }
        }
    }

    #[test]
    fn the_child_sum_cell_has_the_operators_and_the_graph_nodes_of_mxnets() {
        let lists = Model::ChildSumTreeLstm.operators(&Sizes::square(150));
        for children in 1..=9 {
            assert_eq!(count(&lists[0], children), 22 + 2 * children);
        }
        let weights: BTreeSet<&str> = lists[0].iter().flat_map(Operator::parameters).collect();
        assert_eq!(weights.len(), 6);
        assert_eq!(lists[0][0].signature(3), lists[1][0].signature(0));
    }

    #[test]
    fn other_cells_have_the_operators_of_their_equations() {
        let counts =
            |model: Model| model.operators(&Sizes::square(4)).iter().map(|list| count(list, 2)).collect::<Vec<_>>();
        assert_eq!(counts(Model::Lstm), [15]);
        assert_eq!(counts(Model::Gru), [12]);
        assert_eq!(counts(Model::Seq2Seq), [17, 15]);
        assert_eq!(counts(Model::TreeLstm), [17, 11]);
        assert_eq!(counts(Model::Dnn("net".into())), [1]);
    }

    #[test]
    fn shapes_follow_from_the_sizes() {
        let sizes = Sizes { hidden: 4, embedding: 3, vocabulary: 50 };
        let shape = |model: &Model, cell: usize, name: &str| {
            let lists = model.operators(&sizes);
            lists[cell].iter().find(|operator| operator.name == name).unwrap().shape
        };
        assert_eq!(shape(&Model::Lstm, 0, "gates"), [16, 7]);
        assert_eq!(shape(&Model::Seq2Seq, 0, "scores"), [50, 4]);
        assert_eq!(shape(&Model::TreeLstm, 0, "gates"), [20, 8]);
        assert_eq!(shape(&Model::TreeLstm, 1, "gates"), [12, 3]);
        assert_eq!(shape(&Model::ChildSumTreeLstm, 0, "word"), [16, 3]);
        assert_eq!(shape(&Model::Lstm, 0, "lookup"), [3, 50]);
    }
}
