//! Operators against a slow reference in float64, and each query against the same query alone.

use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::core::workload::model::{Model, Unfolder};
use crate::core::workload::random;
use crate::core::workload::shape::Shape;
use crate::devices::network::Network;
use crate::devices::network::weights::{self, tensors};

fn network(text: &str, seed: u64) -> Network {
    let listed = Dnn::parse("n.csv", Path::new("n.csv"), text).unwrap();
    let spec = Spec {
        hidden: 1,
        embedding: 1,
        vocabulary: 1,
        seed,
        weights: None,
    };
    Network::new(&Model::Network(Arc::new(listed)), &spec).unwrap()
}

/// The rule of docs/NETWORKS.md in float64, one number after the other.
fn naive(network: &Network, request: RequestId, tokens: u32) -> Vec<f64> {
    let operators = network.operators().unwrap();
    let weights = Weights::open(network.model(), network.spec()).unwrap();
    let mut drawn = Vec::new();
    operators.draw(request, tokens, &mut drawn);
    let mut x: Vec<f64> = drawn.into_iter().map(f64::from).collect();
    for operator in operators.network().operators() {
        let work = operator.form.work(tokens);
        let [count, rows, inner, columns] =
            [work.count, work.rows, work.inner, work.columns].map(|size| size as usize);
        let read = |place: usize| x[place % x.len()];
        let squashed = |sum: f64| (5.0 / 3.0 * (3.0 / inner as f64).sqrt() * sum).tanh();
        x = match work.kind {
            FormKind::Matmul => {
                let w = weights.take(&format!("{}.weight", operator.name));
                let result = |row: usize, group: usize, column: usize| {
                    let of_inner = |i: usize| {
                        read((row * count + group) * inner + i)
                            * f64::from(w[(group * columns + column) * inner + i])
                    };
                    squashed((0..inner).map(of_inner).sum())
                };
                let places =
                    (0..rows).flat_map(|row| (0..count * columns).map(move |place| (row, place)));
                places
                    .map(|(row, place)| result(row, place / columns, place % columns))
                    .collect()
            }
            FormKind::BatchedMatmul => {
                let left = |at: usize, row: usize, i: usize| read((at * rows + row) * inner + i);
                let right = |at: usize, i: usize, column: usize| {
                    read(count * rows * inner + (at * inner + i) * columns + column)
                };
                let place = |n: usize| (n / (rows * columns), n / columns % rows, n % columns);
                let result = |n: usize| {
                    let (at, row, column) = place(n);
                    squashed(
                        (0..inner)
                            .map(|i| left(at, row, i) * right(at, i, column))
                            .sum(),
                    )
                };
                (0..count * rows * columns).map(result).collect()
            }
            FormKind::Memory => {
                let moved = work.elements.div_ceil(2).max(1) as usize;
                (0..moved)
                    .map(|place| (5.0 / 3.0 * read(place)).tanh())
                    .collect()
            }
        };
    }
    x
}

/// Sizes that hit whole vectors, tails, several panels and several blocks of rows.
fn lists() -> impl Strategy<Value = String> {
    let size = |most: u32| {
        (1..=most, any::<bool>()).prop_map(|(n, sized)| {
            if sized {
                "tokens".into()
            } else {
                n.to_string()
            }
        })
    };
    let matmul =
        (1..=3u32, size(70), 1..=40u32, 1..=90u32).prop_map(|(count, rows, inner, columns)| {
            format!("matmul,{count},{rows},{inner},{columns},1")
        });
    let batched =
        (size(4), size(9), size(30), size(20)).prop_map(|(count, rows, inner, columns)| {
            format!("batched-matmul,{count},{rows},{inner},{columns},1")
        });
    let memory =
        (0..=90u32, 0..=20u32).prop_map(|(n, each)| format!("memory,,,,,{n} + {each}*tokens"));
    let operator = prop_oneof![matmul, batched, memory];
    proptest::collection::vec(operator, 1..6).prop_map(|operators| {
        let lines = operators
            .iter()
            .enumerate()
            .map(|(place, operator)| format!("o{place},{operator}\n"));
        format!(
            "shape,tokens,60\nname,kind,count,rows,inner,columns,elements\n{}",
            lines.collect::<String>()
        )
    })
}

fn graph(network: &Network, tokens: u32) -> CellGraph {
    Unfolder::new(network.model())
        .unfold(&Shape::Tokens(tokens))
        .unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn a_request_alone_has_the_result_of_the_rule(text in lists(), seed in any::<u64>(), tokens in 1..=40u32) {
        let network = network(&text, seed);
        let found = network.alone(RequestId(7), &graph(&network, tokens)).state;
        let expected = naive(&network, RequestId(7), tokens);
        prop_assert_eq!(found.len(), expected.len());
        for (place, (found, expected)) in found.iter().zip(expected).enumerate() {
            let error = (f64::from(*found) - expected).abs();
            prop_assert!(error <= 3e-5, "number {} is {}, not {}\n{}", place, found, expected, text);
        }
    }

    #[test]
    fn a_query_results_in_the_same_bits_in_every_batch_and_padded_to_any_size(text in lists(), seed in any::<u64>()) {
        let network = network(&text, seed);
        let operators = network.operators().unwrap();
        let rng = &mut random::sequence(seed, 0, "batches");
        let mut scratch = Scratch::default();
        let mut from = Activations::default();
        let mut into = Activations::default();
        for size in [1, 2, 3, 7] {
            let queries: Vec<(RequestId, u32)> =
                (0..size).map(|_| (RequestId(rng.random_range(0..9)), rng.random_range(1..=30))).collect();
            from.clear();
            for (request, tokens) in &queries {
                from.push(*tokens, |numbers| operators.draw(*request, *tokens, numbers));
            }
            from.pad(rng.random_range(size..=size + 1));
            for operator in operators.network().operators() {
                let longest = queries.iter().map(|(_, tokens)| *tokens).max().unwrap();
                let padded_to = [0, longest, rng.random_range(longest..=60)][rng.random_range(0..3)];
                // What the memory held before must not matter.
                scratch.operand.fill(f32::NAN);
                scratch.more.fill(f32::NAN);
                scratch.product.fill(f32::NAN);
                operators.run(operator.cell, padded_to, &from, &mut into, &mut scratch);
                std::mem::swap(&mut from, &mut into);
            }
            for (place, (request, tokens)) in queries.iter().enumerate() {
                let alone = network.alone(*request, &graph(&network, *tokens)).state;
                let bits = |numbers: &[f32]| numbers.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                prop_assert_eq!(bits(from.values(place)), bits(&alone), "query {} of {}\n{}", place, size, text);
            }
        }
    }
}

#[test]
fn numbers_neither_fade_nor_all_reach_the_bounds() {
    // The list is as deep as BERT base, with its kinds of operators.
    let block = |n: u32| {
        format!(
            "qkv{n},matmul,,tokens,64,192,1\nscores{n},batched-matmul,4,tokens,16,tokens,1\nsoftmax{n},memory,,,,,8*tokens*tokens\n\
             mix{n},batched-matmul,4,tokens,tokens,16,1\nwide{n},matmul,,tokens,64,256,1\nnarrow{n},matmul,,tokens,256,64,1\n"
        )
    };
    let blocks: String = (0..12).map(block).collect();
    let network = network(
        &format!("shape,tokens,60\nname,kind,count,rows,inner,columns,elements\n{blocks}"),
        3,
    );
    let found = network.alone(RequestId(0), &graph(&network, 20)).state;
    let mean_square = found.iter().map(|x| x * x).sum::<f32>() / found.len() as f32;
    assert!((0.1..0.9).contains(&mean_square), "{mean_square}");
    assert!(found.iter().all(|x| x.abs() <= 1.0));
    let other = network.alone(RequestId(1), &graph(&network, 20)).state;
    assert_ne!(found, other, "requests have numbers of their own");
}

#[test]
fn weights_come_from_a_file_as_well() {
    let text = "shape,fixed\nname,kind,count,rows,inner,columns,elements\nb,matmul,2,3,4,5,1\na,memory,,,,,9\n";
    let drawn = network(text, 9);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("w.safetensors");
    weights::tests::write(&path, drawn.model(), drawn.spec(), |_, x| x);
    // The first operator still reads numbers drawn from the seed.
    let read = Network::new(
        drawn.model(),
        &Spec {
            weights: Some(path.clone()),
            ..drawn.spec().clone()
        },
    )
    .unwrap();
    let fixed = Unfolder::new(drawn.model()).unfold(&Shape::Fixed).unwrap();
    assert_eq!(
        read.alone(RequestId(1), &fixed),
        drawn.alone(RequestId(1), &fixed)
    );
    let other = network(&text.replace("4,5,1", "4,6,1"), 9);
    let refused = Network::new(
        other.model(),
        &Spec {
            weights: Some(path),
            ..other.spec().clone()
        },
    )
    .unwrap_err();
    assert!(
        refused.to_string().ends_with(
            "the tensor \"b.weight\" has the shape [10, 4], but the model dnn:n.csv needs [12, 4], a row for each output"
        ),
        "{refused}"
    );
}

#[test]
fn weights_of_listed_operators_have_names_and_shapes() {
    let text = "shape,fixed\nname,kind,count,rows,inner,columns,elements\nb,matmul,2,3,4,5,1\na,memory,,,,,1\n";
    let network = network(text, 1);
    let tensors = tensors(network.model(), network.spec());
    assert_eq!(
        tensors
            .iter()
            .map(|tensor| (&tensor.name[..], &tensor.shape[..]))
            .collect::<Vec<_>>(),
        [("b.weight", &[10, 4][..])]
    );
}

#[test]
fn weights_that_depend_on_the_tokens_are_refused() {
    let text = "shape,tokens,9\nname,kind,rows,inner,columns,elements\na,matmul,1,tokens,4,1\n";
    let listed = Dnn::parse("n.csv", Path::new("n.csv"), text).unwrap();
    assert_eq!(
        check(&listed).unwrap_err().to_string(),
        "model: dnn:n.csv: inner of the matmul \"a\" depends on tokens, and with it the size of its weights; to compute it, make \
         it a batched-matmul, which has none, or run it with batchlab sim"
    );
}

#[test]
fn a_network_that_is_too_large_is_refused_with_its_size() {
    let text = "shape,fixed\nname,kind,rows,inner,columns,elements\nwide,matmul,1,1024,524288,1\nlast,memory,,,,4096\n";
    let network = Dnn::parse("n.csv", Path::new("n.csv"), text).unwrap();
    assert_eq!(
        needs(&network),
        [4 << 30, 2_105_344],
        "2 GiB for the weights, and 2 while they are packed"
    );
    let huge = Dnn::parse(
        "n.csv",
        Path::new("n.csv"),
        &text.replace("1024,", "536870912,"),
    )
    .unwrap();
    let refused = fits(&huge).unwrap_err().to_string();
    let start = "model: dnn:n.csv, with 2097152.0 GiB for its weights and 4.0 GiB for a query, needs about 2097156.0 GiB of \
                 memory, and ";
    assert!(refused.starts_with(start), "{refused}");
}
