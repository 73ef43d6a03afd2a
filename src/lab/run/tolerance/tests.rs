//! Tests that rounding passes and mistakes do not. Low precision is emulated by rounding weights, words, and h between
//! the steps.

use half::{bf16, f16};

use super::*;
use crate::base::units::{CellId, RequestId};
use crate::core::workload::cell_graph::CellGraph;
use crate::core::workload::model::{Model, Unfolder};
use crate::core::workload::shape::Shape;
use crate::devices::network::operators::{Activations, Operators};
use crate::devices::network::weights::tests::write;
use crate::devices::network::{BatchInputs, Network, Scratch};

const HIDDEN: u32 = 96;

fn spec() -> Spec {
    Spec {
        hidden: HIDDEN,
        embedding: 64,
        vocabulary: 300,
        seed: 3,
        weights: None,
    }
}

/// A number in this precision. For float32, it is off by its last bit.
fn rounded(precision: Precision, x: f32) -> f32 {
    match precision {
        Precision::F32 => f32::from_bits(x.to_bits() ^ 1),
        Precision::Tf32 => f32::from_bits(x.to_bits() & !0x1fff),
        Precision::Bf16 => bf16::from_f32(x).to_f32(),
        Precision::F16 => f16::from_f32(x).to_f32(),
    }
}

fn coarse(model: &Model, precision: Precision) -> Network {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("w.safetensors");
    let round = |name: &str, x: f32| {
        if name.contains("bias") {
            x
        } else {
            rounded(precision, x)
        }
    };
    write(&path, model, &spec(), round);
    Network::new(
        model,
        &Spec {
            weights: Some(path),
            ..spec()
        },
    )
    .unwrap()
}

/// The results in this precision, where the nodes in `skipped` pass their input on unchanged.
fn computed(
    network: &Network,
    precision: Precision,
    id: u32,
    graph: &CellGraph,
    skipped: Option<u32>,
) -> Output {
    let (width, hidden) = (network.state(), HIDDEN as usize);
    let mut scratch = Scratch::default();
    let mut node = |cell: CellId, node: u32, states: &[f32]| -> Vec<f32> {
        let mut operands = states.to_vec();
        for state in operands.chunks_exact_mut(width) {
            state[..hidden]
                .iter_mut()
                .for_each(|h| *h = rounded(precision, *h));
        }
        let mut out = vec![0.0; width];
        let all = 0..(states.len() / width) as u32;
        let batch = BatchInputs {
            rows: 1,
            tokens: &[network.token(RequestId(id.into()), node)],
            token_ends: &[1],
            padded_to: 0,
            states: &operands,
            states_at: &[all],
        };
        network.cell(cell).run(&batch, &mut out, &mut scratch);
        out
    };
    match graph {
        CellGraph::Chains(runs) => {
            let cells = runs
                .iter()
                .flat_map(|run| std::iter::repeat_n(run.cell, run.length as usize));
            let mut output = Output::default();
            for (place, cell) in (0..).zip(cells) {
                if skipped != Some(place) {
                    output.state = node(cell, place, &std::mem::take(&mut output.state));
                }
                output.words.extend(network.cell(cell).word(&output.state));
            }
            output
        }
        CellGraph::Graph(graph) => {
            let mut order: Vec<u32> = (0..graph.len() as u32).collect();
            order.sort_by_key(|node| graph.depths()[*node as usize]);
            let mut states = vec![Vec::new(); graph.len()];
            for place in order {
                let inputs = graph.inputs(place);
                let taken: Vec<f32> = inputs
                    .iter()
                    .flat_map(|input| states[*input as usize].clone())
                    .collect();
                states[place as usize] = match skipped == Some(place) {
                    true => taken[..width].to_vec(),
                    false => node(graph.cells()[place as usize], place, &taken),
                };
            }
            let last = (0..graph.len())
                .find(|node| graph.successors(*node as u32).is_empty())
                .unwrap();
            Output {
                state: states.swap_remove(last),
                words: Vec::new(),
            }
        }
    }
}

/// The cases: a model, a shape, and a node near the end. A decoder with random weights soon repeats one word, after
/// which one step more or less makes no difference.
const CASES: [(&str, &str, Option<u32>); 11] = [
    ("lstm", "chain:1", None),
    ("lstm", "chain:24", Some(23)),
    ("lstm", "chain:330", Some(329)),
    ("gru", "chain:2", Some(1)),
    ("gru", "chain:60", Some(59)),
    ("seq2seq", "seq2seq:20>30", None),
    ("seq2seq", "seq2seq:20>1", Some(20)),
    ("seq2seq", "seq2seq:1>3", Some(3)),
    ("tree-lstm", "tree:5 5 6 6 7 7 0", Some(6)),
    ("tree-lstm", "tree:2 3 4 5 6 7 8 0 1 2 3 4 5 6 7 8", Some(7)),
    ("childsum-tree-lstm", "tree:6 6 6 7 6 7 0", Some(6)),
];

struct Case {
    network: Network,
    graph: CellGraph,
    node: Option<u32>,
    name: String,
}

fn cases() -> impl Iterator<Item = (Model, Case)> {
    CASES.into_iter().map(|(model, shape, node)| {
        let name = format!("{model} of {shape}");
        let model = Model::parse(model).unwrap();
        let graph = Unfolder::new(&model)
            .unfold(&shape.parse::<Shape>().unwrap())
            .unwrap();
        let network = Network::new(&model, &spec()).unwrap();
        (
            model,
            Case {
                network,
                graph,
                node,
                name,
            },
        )
    })
}

impl Case {
    fn check(
        &self,
        precision: Precision,
        id: u32,
        found: &Output,
    ) -> (Result<(), String>, LargestError) {
        let mut largest = LargestError::default();
        let expected = self
            .network
            .follow(RequestId(id.into()), &self.graph, &found.words);
        let tolerance = Tolerance::new(precision, &spec());
        let verdict = tolerance.check(
            found,
            &expected,
            self.graph.depth(),
            self.network.state(),
            &mut largest,
        );
        (verdict, largest)
    }
}

#[test]
fn rounding_passes_in_every_format() {
    for (model, case) in cases() {
        for precision in Precision::ALL {
            let device = coarse(&model, precision);
            for id in 0..4 {
                let found = computed(&device, precision, id, &case.graph, None);
                let (verdict, largest) = case.check(precision, id, &found);
                assert_eq!(verdict, Ok(()), "{} in {precision}", case.name);
                assert!(
                    largest.error > 0.0,
                    "{} in {precision}: nothing was rounded",
                    case.name
                );
                // There must be a margin for networks that are slightly worse.
                assert!(
                    largest.of_tolerated < 0.7,
                    "{} in {precision}: {largest:?}",
                    case.name
                );
            }
        }
    }
}

#[test]
fn mistakes_are_found_in_every_format() {
    for (model, case) in cases() {
        for precision in Precision::ALL {
            let device = coarse(&model, precision);
            let right = computed(&device, precision, 0, &case.graph, None);
            let wrong = |found: &Output, what: &str| {
                let (verdict, largest) = case.check(precision, 0, found);
                assert!(
                    verdict.is_err(),
                    "{what} of {} in {precision}: {largest:?}",
                    case.name
                );
                assert!(largest.of_tolerated > 1.0);
            };
            wrong(
                &computed(&device, precision, 1, &case.graph, None),
                "another request's result",
            );
            if case.node.is_some() {
                wrong(
                    &computed(&device, precision, 0, &case.graph, case.node),
                    "a missing step",
                );
            }
            let spoilt = |spoil: &dyn Fn(&mut Vec<f32>)| {
                let mut found = right.clone();
                spoil(&mut found.state);
                found
            };
            let h = |state: &[f32]| {
                (0..HIDDEN as usize)
                    .max_by(|a, b| state[*a].abs().total_cmp(&state[*b].abs()))
                    .unwrap()
            };
            wrong(
                &spoilt(&|state| state[h(&right.state)] = 0.0),
                "a number that was not written",
            );
            wrong(&spoilt(&|state| state[h(&right.state)] *= -1.0), "a sign");
            wrong(&spoilt(&|state| state[5] = f32::NAN), "NaN");
            wrong(
                &spoilt(&|state| state[..HIDDEN as usize].rotate_left(1)),
                "numbers in the wrong places",
            );
        }
    }
}

#[test]
fn fewer_bits_than_were_asked_for_are_found() {
    for (model, case) in cases().filter(|(_, case)| case.graph.depth() < 100) {
        for (asked, given) in [
            (Precision::F32, Precision::Tf32),
            (Precision::F32, Precision::F16),
            (Precision::Tf32, Precision::Bf16),
            (Precision::F16, Precision::Bf16),
        ] {
            let found = computed(&coarse(&model, given), given, 0, &case.graph, None);
            let (verdict, largest) = case.check(asked, 0, &found);
            if asked == Precision::F32 {
                assert!(
                    verdict.is_err(),
                    "{} in {given} passes for {asked}: {largest:?}",
                    case.name
                );
            } else {
                let (_, honest) = case.check(given, 0, &found);
                assert!(
                    largest.of_tolerated > 3.0 * honest.of_tolerated,
                    "{} in {given}: {largest:?}",
                    case.name
                );
            }
        }
    }
}

#[test]
fn a_word_must_be_among_the_best() {
    let (_, case) = cases()
        .find(|(_, case)| case.name == "seq2seq of seq2seq:20>30")
        .unwrap();
    let right = case.network.alone(RequestId(0), &case.graph);
    for place in [0, 13, 29] {
        let mut words = right.words[..=place].to_vec();
        words[place] = (words[place] + 1) % 300;
        let followed = case.network.follow(RequestId(0), &case.graph, &words);
        assert_eq!(followed.output.words[..place], right.words[..place]);
        let mut found = followed.output.clone();
        found.words[place] = words[place];
        let verdict = case.check(Precision::Bf16, 0, &found).0.unwrap_err();
        assert!(
            verdict.starts_with(&format!(
                "word {place} is {}, whose score is ",
                words[place]
            )),
            "{verdict}"
        );
    }
    let mut unknown = right.clone();
    unknown.words[3] = 300;
    assert!(case.check(Precision::Bf16, 0, &unknown).0.is_err());
    let mut short = right.clone();
    short.words.pop();
    assert!(
        case.check(Precision::Bf16, 0, &short)
            .0
            .unwrap_err()
            .contains(" and 29 words, not ")
    );
}

#[test]
fn of_two_words_that_are_nearly_as_good_either_passes() {
    let (model, case) = cases()
        .find(|(_, case)| case.name == "seq2seq of seq2seq:20>30")
        .unwrap();
    // Some steps choose another word in bfloat16, and everything after that word differs.
    let device = coarse(&model, Precision::Bf16);
    let mut others = 0;
    for id in 0..40 {
        let found = computed(&device, Precision::Bf16, id, &case.graph, None);
        others +=
            u32::from(found.words != case.network.alone(RequestId(id.into()), &case.graph).words);
        assert_eq!(case.check(Precision::Bf16, id, &found).0, Ok(()));
    }
    assert!(others > 0, "no request took another way");
}

/// A listed network with operators of each kind.
fn listed() -> Model {
    let text = include_str!("../../../../scenarios/networks/example.csv");
    let network =
        crate::core::workload::dnn::Dnn::parse("n.csv", std::path::Path::new("n.csv"), text);
    Model::Network(std::sync::Arc::new(network.unwrap()))
}

fn coarsely(
    network: &Network,
    precision: Precision,
    request: RequestId,
    graph: &CellGraph,
) -> Vec<f32> {
    let operators = network.operators().unwrap();
    let tokens = Operators::tokens(graph);
    let (mut from, mut into, mut all) =
        (Activations::default(), Activations::default(), Vec::new());
    let mut read = Vec::new();
    operators.draw(request, tokens, &mut read);
    for operator in operators.network().operators() {
        from.clear();
        from.push(tokens, |numbers| {
            numbers.extend(read.iter().map(|x| rounded(precision, *x)))
        });
        operators.run(operator.cell, 0, &from, &mut into, &mut Scratch::default());
        read = into.values(0).to_vec();
        all.extend_from_slice(&read);
    }
    all
}

#[test]
fn operators_are_judged_one_by_one() {
    let model = listed();
    let exact = Network::new(&model, &spec()).unwrap();
    let operators = exact.operators().unwrap();
    for precision in Precision::ALL {
        let tolerance = Tolerance::new(precision, &spec());
        let network = coarse(&model, precision);
        for (id, tokens) in [(0, 40), (1, 3), (2, 1)] {
            let (request, graph) = (
                RequestId(id),
                Unfolder::new(&model)
                    .unfold(&Shape::Tokens(tokens))
                    .unwrap(),
            );
            let judge = |found: &[f32]| {
                let mut largest = LargestError::default();
                let judged = operators.follow(request, &graph, found, |passed| {
                    tolerance.check_operator(passed, &mut largest)
                });
                judged.map(|()| largest)
            };
            let found = coarsely(&network, precision, request, &graph);
            let largest = judge(&found)
                .unwrap_or_else(|wrong| panic!("{precision}, {tokens} tokens: {wrong}"));
            assert!(
                largest.error > 0.0 && largest.of_tolerated > 0.001,
                "{precision}: {largest:?}"
            );
            // One number after each operator is off by a fifth of the usual size.
            let mut begin = 0;
            for (operator, length) in operators
                .network()
                .operators()
                .zip(operators.lengths(&graph))
            {
                let length = length as usize;
                let mut wrong = found.clone();
                wrong[begin + length / 2] +=
                    0.2 * root_mean_square(&found[begin..begin + length]).max(0.5) as f32;
                let said = judge(&wrong).unwrap_err();
                let name = format!(
                    "after operator \"{}\", number {} is ",
                    operator.name,
                    length / 2
                );
                assert!(said.starts_with(&name), "{precision}: {said}");
                begin += length;
            }
            assert!(
                judge(&found[1..])
                    .unwrap_err()
                    .contains(" numbers after its operators, not ")
            );
            let other = coarsely(&network, precision, RequestId(9), &graph);
            assert!(
                judge(&other)
                    .unwrap_err()
                    .starts_with("after operator \"project\""),
                "another request's"
            );
        }
    }
}
