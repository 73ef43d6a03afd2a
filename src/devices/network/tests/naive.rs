//! The models' equations in float64, one node and one gate at a time.

use std::collections::BTreeMap;

use crate::core::workload::cell_graph::tree::Tree;
use crate::core::workload::model::Model;
use crate::core::workload::shape::Shape;
use crate::devices::network::Network;
use crate::devices::network::weights::{Weights, tensors};

type Vector = Vec<f64>;

/// float32 may choose either of two words whose scores are this close.
const TIE: f64 = 1e-5;

pub struct Naive {
    model: Model,
    hidden: usize,
    tensors: BTreeMap<String, (Vec<usize>, Vector)>,
}

impl Naive {
    pub fn new(network: &Network) -> Naive {
        let weights = Weights::open(&network.model, &network.spec).unwrap();
        let tensors = tensors(&network.model, &network.spec)
            .into_iter()
            .map(|tensor| {
                let numbers = weights
                    .take(&tensor.name)
                    .into_iter()
                    .map(f64::from)
                    .collect();
                (tensor.name, (tensor.shape, numbers))
            })
            .collect();
        Naive {
            model: network.model.clone(),
            hidden: network.spec.hidden as usize,
            tensors,
        }
    }

    /// `words` are those that the network wrote; each must be one of the best.
    pub fn run(&self, shape: &Shape, token: &dyn Fn(u32) -> u32, words: &[u32]) -> Vector {
        let h = self.hidden;
        let zero = (vec![0.0; h], vec![0.0; h]);
        match (&self.model, shape) {
            (Model::Lstm, Shape::Chain(n)) => {
                let steps = (0..*n).map(|i| self.row("embedding.weight", token(i)));
                join(steps.fold(zero, |state, x| self.lstm("lstm", &x, &state)))
            }
            (Model::Gru, Shape::Chain(n)) => (0..*n).fold(zero.0, |state, i| {
                self.gru(&self.row("embedding.weight", token(i)), &state)
            }),
            (Model::Seq2Seq, Shape::Seq2Seq { source, target }) => {
                let steps = (0..*source).map(|i| self.row("embedding.weight", token(i)));
                let mut state = steps.fold(zero, |state, x| self.lstm("encoder", &x, &state));
                assert_eq!(words.len(), *target as usize);
                let mut word = 0;
                for next in words {
                    state = self.lstm("decoder", &self.row("decoder.embedding", word), &state);
                    let scores = plus(
                        &self.times("projection.weight", &state.0),
                        self.vector("projection.bias"),
                    );
                    let best = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                    assert!(
                        scores[*next as usize] >= best - TIE,
                        "word {next} is none of the best"
                    );
                    word = *next;
                }
                let mut state = join(state);
                state.push(f64::from(word));
                state
            }
            (Model::TreeLstm, Shape::Tree(tree)) => join(self.binary(tree, root(tree), token)),
            (Model::ChildSumTreeLstm | Model::ChildSumByArity(_), Shape::Tree(tree)) => {
                join(self.childsum(tree, root(tree), token))
            }
            (Model::Dnn(_), Shape::Tokens(n)) => self.dense(*n, token),
            (Model::Dnn(_), Shape::Fixed) => self.dense(1, token),
            (model, shape) => panic!("{model:?} takes no {shape}"),
        }
    }

    fn lstm(&self, name: &str, x: &[f64], (h, c): &(Vector, Vector)) -> (Vector, Vector) {
        let all = plus(
            &plus(
                &self.times(&format!("{name}.weight_ih"), x),
                &self.times(&format!("{name}.weight_hh"), h),
            ),
            self.vector(&format!("{name}.bias")),
        );
        let gate = |number: usize| &all[number * self.hidden..(number + 1) * self.hidden];
        let i = sigmoid(gate(0));
        let f = sigmoid(gate(1));
        let g = tanh(gate(2));
        let o = sigmoid(gate(3));
        let c = plus(&mul(&f, c), &mul(&i, &g));
        (mul(&o, &tanh(&c)), c)
    }

    fn gru(&self, x: &[f64], h: &[f64]) -> Vector {
        let of_x = self.times("gru.weight_ih", x);
        let of_h = self.times("gru.weight_hh", h);
        let part = |all: &[f64], number: usize| {
            all[number * self.hidden..(number + 1) * self.hidden].to_vec()
        };
        let bias = self.vector("gru.bias");
        let gate = |n: usize| {
            sigmoid(&plus(
                &plus(&part(&of_x, n), &part(&of_h, n)),
                &part(bias, n),
            ))
        };
        let r = gate(0);
        let z = gate(1);
        let of_reset = part(&self.times("gru.weight_hh", &mul(&r, h)), 2);
        let n = tanh(&plus(&plus(&part(&of_x, 2), &of_reset), &part(bias, 2)));
        (0..self.hidden)
            .map(|k| (1.0 - z[k]) * n[k] + z[k] * h[k])
            .collect()
    }

    fn binary(&self, tree: &Tree, node: usize, token: &dyn Fn(u32) -> u32) -> (Vector, Vector) {
        let mut children: Vec<(Vector, Vector)> = children(tree, node)
            .map(|child| self.binary(tree, child, token))
            .collect();
        let gate = |all: &[f64], number: usize| {
            all[number * self.hidden..(number + 1) * self.hidden].to_vec()
        };
        let (all, kept) = if children.is_empty() {
            let x = self.row("embedding.weight", token(node as u32));
            (
                plus(&self.times("leaf.weight", &x), self.vector("leaf.bias")),
                vec![0.0; self.hidden],
            )
        } else {
            children.resize(2, (vec![0.0; self.hidden], vec![0.0; self.hidden]));
            let of_left = self.times("internal.weight_left", &children[0].0);
            let of_right = self.times("internal.weight_right", &children[1].0);
            let all = plus(&plus(&of_left, &of_right), self.vector("internal.bias"));
            let left = sigmoid(&gate(&all, 3));
            let right = sigmoid(&gate(&all, 4));
            let kept = plus(&mul(&left, &children[0].1), &mul(&right, &children[1].1));
            (all, kept)
        };
        let i = sigmoid(&gate(&all, 0));
        let o = sigmoid(&gate(&all, 1));
        let u = tanh(&gate(&all, 2));
        let c = plus(&mul(&i, &u), &kept);
        (mul(&o, &tanh(&c)), c)
    }

    fn childsum(&self, tree: &Tree, node: usize, token: &dyn Fn(u32) -> u32) -> (Vector, Vector) {
        let children: Vec<(Vector, Vector)> = children(tree, node)
            .map(|child| self.childsum(tree, child, token))
            .collect();
        let x = self.row("embedding.weight", token(node as u32));
        let mut sum = vec![0.0; self.hidden];
        let mut kept = vec![0.0; self.hidden];
        for (h, c) in &children {
            sum = plus(&sum, h);
            let of_x = self.times("childsum.weight_f_x", &x);
            let f = plus(
                &plus(&of_x, &self.times("childsum.weight_f_h", h)),
                self.vector("childsum.bias_f"),
            );
            kept = plus(&kept, &mul(&sigmoid(&f), c));
        }
        let of_x = self.times("childsum.weight_iou_x", &x);
        let all = plus(
            &plus(&of_x, &self.times("childsum.weight_iou_h", &sum)),
            self.vector("childsum.bias_iou"),
        );
        let gate = |number: usize| &all[number * self.hidden..(number + 1) * self.hidden];
        let i = sigmoid(gate(0));
        let o = sigmoid(gate(1));
        let u = tanh(gate(2));
        let c = plus(&mul(&i, &u), &kept);
        (mul(&o, &tanh(&c)), c)
    }

    fn dense(&self, tokens: u32, token: &dyn Fn(u32) -> u32) -> Vector {
        let mut sum = vec![0.0; self.hidden];
        for place in 0..tokens {
            let x = self.row("embedding.weight", token(place));
            let wide = plus(
                &self.times("dense.weight_1", &x),
                self.vector("dense.bias_1"),
            );
            let wide: Vector = wide.into_iter().map(|y| y.max(0.0)).collect();
            let y = plus(
                &self.times("dense.weight_2", &wide),
                self.vector("dense.bias_2"),
            );
            sum = plus(&sum, &plus(&x, &y));
        }
        sum.into_iter().map(|x| x / f64::from(tokens)).collect()
    }

    fn vector(&self, name: &str) -> &[f64] {
        &self.tensors[name].1
    }

    fn row(&self, name: &str, row: u32) -> Vector {
        let (shape, numbers) = &self.tensors[name];
        numbers[row as usize * shape[1]..(row as usize + 1) * shape[1]].to_vec()
    }

    fn times(&self, name: &str, x: &[f64]) -> Vector {
        let (shape, numbers) = &self.tensors[name];
        assert_eq!(shape[1], x.len());
        numbers
            .chunks(shape[1])
            .map(|row| row.iter().zip(x).map(|(w, x)| w * x).sum())
            .collect()
    }
}

fn root(tree: &Tree) -> usize {
    (0..tree.len())
        .find(|node| tree.parents()[*node] == Tree::NO_PARENT)
        .unwrap()
}

fn children(tree: &Tree, node: usize) -> impl Iterator<Item = usize> + '_ {
    (0..tree.len()).filter(move |child| tree.parents()[*child] == node as u32)
}

fn join((h, c): (Vector, Vector)) -> Vector {
    [h, c].concat()
}

fn plus(a: &[f64], b: &[f64]) -> Vector {
    a.iter().zip(b).map(|(a, b)| a + b).collect()
}

fn mul(a: &[f64], b: &[f64]) -> Vector {
    a.iter().zip(b).map(|(a, b)| a * b).collect()
}

fn sigmoid(x: &[f64]) -> Vector {
    x.iter().map(|x| 1.0 / (1.0 + (-x).exp())).collect()
}

fn tanh(x: &[f64]) -> Vector {
    x.iter().map(|x| x.tanh()).collect()
}
