//! Each cell against a slow reference in float64, and each row against the same row alone.

mod naive;

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use rand::Rng;
use rand::RngExt;

use self::naive::Naive;
use super::{BatchInputs, Network, Scratch, Spec};
use crate::base::units::{CellId, RequestId};
use crate::core::workload::cell_graph::tree::Tree;
use crate::core::workload::model::{Model, Unfolder};
use crate::core::workload::random::{self, RandomSequence};
use crate::core::workload::shape::Shape;

const MODELS: [&str; 7] = [
    "lstm",
    "gru",
    "seq2seq",
    "tree-lstm",
    "childsum-tree-lstm",
    "childsum-tree-lstm:12",
    "dnn:block",
];

fn spec(hidden: u32, embedding: u32, vocabulary: u32) -> Spec {
    Spec {
        hidden,
        embedding,
        vocabulary,
        seed: 5,
        weights: None,
    }
}

/// Sizes that hit whole vectors, tails, and rows shorter than a vector.
fn networks() -> impl Strategy<Value = (Network, u64)> {
    (0..MODELS.len(), 1..70u32, 1..70u32, 1..90u32, any::<u64>()).prop_map(
        |(model, hidden, embedding, words, seed)| {
            let model = Model::parse(MODELS[model]).unwrap();
            let embedding = if matches!(model, Model::Dnn(_)) {
                hidden
            } else {
                embedding
            };
            (
                Network::new(&model, &spec(hidden, embedding, words)).unwrap(),
                seed,
            )
        },
    )
}

fn draw_shape(model: &Model, rng: &mut RandomSequence) -> Shape {
    match model {
        Model::Lstm | Model::Gru => Shape::Chain(rng.random_range(1..=9)),
        Model::Seq2Seq => Shape::Seq2Seq {
            source: rng.random_range(1..=5),
            target: rng.random_range(1..=5),
        },
        Model::Graph(_) | Model::Network(_) | Model::Llm(_) => {
            unreachable!("none of the models is from a file")
        }
        Model::Dnn(_) if rng.random_range(0..4) == 0 => Shape::Fixed,
        Model::Dnn(_) => Shape::Tokens(rng.random_range(1..=20)),
        Model::TreeLstm | Model::ChildSumTreeLstm | Model::ChildSumByArity(_) => {
            let most = if *model == Model::TreeLstm {
                2
            } else {
                u32::MAX
            };
            let mut children = vec![0];
            let mut parents = vec![0];
            for _ in 1..rng.random_range(1..=13) {
                let free: Vec<usize> = (0..children.len())
                    .filter(|node| children[*node] < most)
                    .collect();
                let parent = free[rng.random_range(0..free.len())];
                children[parent] += 1;
                children.push(0);
                parents.push(parent as u32 + 1);
            }
            Shape::Tree(Arc::new(Tree::from_parents(&parents).unwrap()))
        }
    }
}

fn assert_close(found: &[f32], expected: &[f64], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (place, (found, expected)) in found.iter().zip(expected).enumerate() {
        let error = (f64::from(*found) - expected).abs();
        assert!(
            error <= 2e-6 * (1.0 + expected.abs()),
            "{what}: number {place} is {found}, not {expected}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, ..ProptestConfig::default() })]

    #[test]
    fn a_request_alone_has_the_result_of_the_equations((network, seed) in networks()) {
        let rng = &mut random::sequence(seed, 0, "shapes");
        let naive = Naive::new(&network);
        for request in 0..3 {
            let shape = draw_shape(&network.model, rng);
            let graph = Unfolder::new(&network.model).unfold(&shape).unwrap();
            network.check(&graph).unwrap();
            let output = network.alone(RequestId(request), &graph);
            let token = |place| network.token(RequestId(request), place);
            let expected = naive.run(&shape, &token, &output.words);
            assert_close(&output.state, &expected, &format!("{:?} of {shape}", network.spec));
        }
    }

    #[test]
    fn a_row_has_the_same_bits_in_every_batch((network, seed) in networks()) {
        let rng = &mut random::sequence(seed, 0, "rows");
        for cell in 0..network.model.cell_types().len() {
            let pool: Vec<Row> = (0..40).map(|_| Row::draw(&network, rng)).collect();
            let mut scratch = Scratch::default();
            let alone: Vec<Vec<u32>> =
                pool.iter().map(|row| run(&network, cell, &[row], &mut scratch).pop().unwrap()).collect();
            for count in [1, 2, 3, 5, 6, 7, 12, 16, 17, 33, 64, 101] {
                let chosen: Vec<usize> = (0..count).map(|_| rng.random_range(0..pool.len())).collect();
                let rows: Vec<&Row> = chosen.iter().map(|row| &pool[*row]).collect();
                for (row, result) in chosen.iter().zip(run(&network, cell, &rows, &mut scratch)) {
                    prop_assert_eq!(&result, &alone[*row], "row {} of cell {}, {} rows", row, cell, count);
                }
            }
        }
    }
}

struct Row {
    tokens: Vec<u32>,
    states: Vec<f32>,
}

impl Row {
    fn draw(network: &Network, rng: &mut RandomSequence) -> Row {
        let words = network.spec.vocabulary;
        let (tokens, most) = match network.model {
            Model::Dnn(_) => (rng.random_range(1..=6), 0),
            Model::TreeLstm => (1, 2),
            Model::ChildSumTreeLstm | Model::ChildSumByArity(_) => (1, 4),
            _ => (1, 1),
        };
        let mut states = Vec::new();
        for _ in 0..rng.random_range(0..=most) {
            states.extend(
                (0..network.state()).map(|_| rng.next_u32() as f32 / (1u64 << 31) as f32 - 1.0),
            );
            if network.model == Model::Seq2Seq {
                *states.last_mut().unwrap() = rng.random_range(0..words) as f32;
            }
        }
        Row {
            tokens: (0..tokens).map(|_| rng.random_range(0..words)).collect(),
            states,
        }
    }
}

fn run(network: &Network, cell: usize, rows: &[&Row], scratch: &mut Scratch) -> Vec<Vec<u32>> {
    let width = network.state();
    for buffer in [
        &mut scratch.operand,
        &mut scratch.product,
        &mut scratch.more,
    ] {
        buffer.fill(f32::NAN);
    }
    let mut out = vec![f32::NAN; rows.len() * width];
    let spans = |length: &dyn Fn(&Row) -> usize| -> Vec<Range<u32>> {
        rows.iter()
            .scan(0, |end, row| {
                let begin = *end;
                *end += length(row) as u32;
                Some(begin..*end)
            })
            .collect()
    };
    let batch = BatchInputs {
        rows: rows.len(),
        tokens: &rows
            .iter()
            .flat_map(|row| row.tokens.clone())
            .collect::<Vec<_>>(),
        token_ends: &spans(&|row| row.tokens.len())
            .iter()
            .map(|span| span.end)
            .collect::<Vec<_>>(),
        // Padding must not change the words' results.
        padded_to: if rows.len().is_multiple_of(2) { 9 } else { 0 },
        states: &rows
            .iter()
            .flat_map(|row| row.states.clone())
            .collect::<Vec<_>>(),
        states_at: &spans(&|row| row.states.len() / width),
    };
    network
        .cell(CellId(cell as u16))
        .run(&batch, &mut out, scratch);
    out.chunks_exact(width)
        .map(|state| state.iter().map(|x| x.to_bits()).collect())
        .collect()
}

#[test]
fn nothing_is_computed_for_no_rows() {
    for model in MODELS {
        let model = Model::parse(model).unwrap();
        let network = Network::new(&model, &spec(5, 5, 7)).unwrap();
        for cell in 0..model.cell_types().len() {
            assert!(run(&network, cell, &[], &mut Scratch::default()).is_empty());
        }
    }
}

#[test]
fn a_binary_cell_refuses_more_than_two_children() {
    let shape: Shape = "tree:4 4 4 0".parse().unwrap();
    let check = |model: Model| {
        let network = Network::new(&model, &spec(3, 3, 3)).unwrap();
        network.check(&Unfolder::new(&model).unfold(&shape).unwrap())
    };
    assert_eq!(
        check(Model::TreeLstm).unwrap_err().to_string(),
        "node 4 has 3 children, but the cells of tree-lstm take at most 2; the model childsum-tree-lstm takes any number"
    );
    assert!(check(Model::ChildSumTreeLstm).is_ok());
}

/// PyTorch's output for the same weights and words (`scripts/torch-reference.py`).
#[derive(serde::Deserialize)]
struct Expected {
    model: String,
    hidden: u32,
    embedding: u32,
    vocabulary: u32,
    seed: u64,
    requests: Vec<ExpectedRequest>,
}

#[derive(serde::Deserialize)]
struct ExpectedRequest {
    shape: String,
    state: Vec<f64>,
    words: Vec<u32>,
}

#[test]
fn requests_have_the_outputs_of_pytorch() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/pytorch");
    for model in MODELS {
        let answers = if model.starts_with("childsum") {
            "childsum-tree-lstm"
        } else {
            model
        };
        let file = folder.join(format!("{}.json", answers.replace(':', "-")));
        let expected: Expected =
            serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
        assert_eq!(expected.model, answers);
        let model = Model::parse(model).unwrap();
        let spec = Spec {
            hidden: expected.hidden,
            embedding: expected.embedding,
            vocabulary: expected.vocabulary,
            seed: expected.seed,
            weights: Some(file.with_extension("safetensors")),
        };
        let network = Network::new(&model, &spec).unwrap();
        for (request, expected) in (0..).zip(expected.requests) {
            let shape: Shape = expected.shape.parse().unwrap();
            let output = network.alone(
                RequestId(request),
                &Unfolder::new(&model).unfold(&shape).unwrap(),
            );
            assert_close(
                &output.state,
                &expected.state,
                &format!("{} of {shape}", model.name()),
            );
            assert_eq!(output.words, expected.words, "{} of {shape}", model.name());
        }
    }
}

#[test]
fn sizes_out_of_range_are_refused() {
    let spec = |hidden, embedding, vocabulary| Spec {
        hidden,
        embedding,
        vocabulary,
        seed: 1,
        weights: None,
    };
    let refusal = |spec: Spec, model: &str| {
        spec.check(&Model::parse(model).unwrap())
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        refusal(spec(0, 1, 1), "lstm"),
        "hidden: 0 is out of range; from 1 to 65536"
    );
    assert_eq!(
        refusal(spec(1, 1 << 17, 1), "gru"),
        "embedding: 131072 is out of range; from 1 to 65536"
    );
    assert_eq!(
        refusal(spec(1, 1, 1 << 25), "gru"),
        "vocabulary: 33554432 is out of range; from 1 to 16777216"
    );
    assert_eq!(
        refusal(spec(8, 4, 9), "dnn:net"),
        "embedding: 4 is not the hidden width 8, which the model dnn:net adds it to; leave it out"
    );
    assert!(spec(8, 4, 1 << 24).check(&Model::Seq2Seq).is_ok());
}
