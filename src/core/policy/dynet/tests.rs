//! Checks of DyNet's two orders, by hand and against the reference.

use rand::RngExt as _;

use super::*;
use crate::base::units::CellId;
use crate::core::conformance::{Guarantees, check};
use crate::core::policy::operators::batch::GraphBatch;
use crate::core::policy::operators::classes::NodeClasses;
use crate::core::policy::operators::{self, OperatorSchedule, naive};
use crate::core::workload::cell_graph::{CellRun, Graph};
use crate::core::workload::model::{Model, Unfolder};
use crate::core::workload::operator::catalogue::OperatorList;
use crate::core::workload::operator::{OperandSource, Operator, OperatorKind, RowRule};
use crate::core::workload::random::{self, RandomSequence};
use crate::core::workload::shape::Shape;

/// The lists of cells whose operators are `NAME KIND ROWS INPUT,…`. KIND is a weight in capitals, `sum`, `alone` or a
/// function, ROWS is 1, `each` or `all`, and INPUT is `word`, `state` or an earlier place.
fn lists(cells: &[&[&str]]) -> Vec<OperatorList> {
    let mut next_id = cells.len() as u16;
    let mut lists = Vec::new();
    for operators in cells {
        let first_id = next_id;
        next_id += operators.len() as u16;
        lists.push(OperatorList {
            operators: operators.iter().map(|text| operator(text)).collect(),
            ids: (first_id..next_id).map(CellId).collect(),
        });
    }
    lists
}

fn operator(text: &str) -> Operator {
    let [name, kind, rows, inputs] = text.split(' ').collect::<Vec<_>>().try_into().unwrap();
    Operator {
        name: name.into(),
        kind: match kind {
            "sum" => OperatorKind::Sum,
            "alone" => OperatorKind::Opaque,
            _ if kind.chars().all(char::is_uppercase) => OperatorKind::Matmul {
                weight: kind.into(),
            },
            _ => OperatorKind::Elementwise {
                function: kind.into(),
            },
        },
        rows: match rows {
            "each" => RowRule::ForEach,
            "all" => RowRule::Stacked,
            _ => RowRule::One,
        },
        inputs: inputs
            .split(',')
            .map(|input| match input {
                "word" => OperandSource::Word,
                "state" => OperandSource::State,
                place => OperandSource::Operator(place.parse().unwrap()),
            })
            .collect(),
        shape: [1, 1],
    }
}

fn chain(cells: &str) -> CellGraph {
    CellGraph::chains(cells.bytes().map(|cell| CellRun {
        cell: CellId(u16::from(cell - b'a')),
        length: 1,
        input: 0,
    }))
}

fn launched(by: By, cells: &[&[&str]], graphs: &[CellGraph]) -> Vec<String> {
    let lists = lists(cells);
    let mut classes = NodeClasses::new(&lists, signature);
    let mut batch = GraphBatch::default();
    for graph in graphs {
        batch.add(graph, &mut classes);
    }
    let OperatorSchedule { launches, .. } = match by {
        By::Agenda => agenda_order(&batch, &classes),
        By::Depth => depth_order(&batch, &classes),
    };
    let mut launched = Vec::new();
    for step in operators::steps_of(&launches, classes.keyed_operators()) {
        let name = name_of(step.cell, &lists);
        for _ in 0..step.times {
            launched.push(format!("{name}{}", step.batch));
        }
    }
    launched
}

fn name_of(id: CellId, lists: &[OperatorList]) -> &str {
    let list = lists.iter().find(|list| list.ids.contains(&id)).unwrap();
    let place = list.ids.iter().position(|known| *known == id).unwrap();
    &list.operators[place].name
}

/// The example of section 3.2: chains of one and three steps, each followed by a loss.
#[test]
fn the_agenda_waits_with_what_is_deep_on_average() {
    let cells: [&[&str]; 2] = [&["t tanh 1 word,state"], &["loss W 1 state"]];
    let graphs = [chain("ab"), chain("aaab")];
    // The mean depth of t is (0 + 0 + 1 + 2) / 4, and that of the loss is (1 + 3) / 2, so the first loss waits.
    assert_eq!(
        launched(By::Agenda, &cells, &graphs),
        ["t2", "t1", "t1", "loss2"]
    );
    // Depth 0 has both t, depth 1 has t and the first loss, depth 2 has t, and depth 3 has the second loss.
    assert_eq!(
        launched(By::Depth, &cells, &graphs),
        ["t2", "t1", "loss1", "t1", "loss1"]
    );
}

#[test]
fn of_signatures_of_equal_mean_depth_the_first_seen_runs_first_but_for_elementwise_ones() {
    let agenda = |operators: &[&str]| launched(By::Agenda, &[operators], &[chain("a"), chain("a")]);
    let all = |rest: &str| format!("end sum 1 {rest}");
    assert_eq!(
        agenda(&["v V 1 word", "w W 1 word", &all("0,1")]),
        ["v2", "w2", "end2"]
    );
    assert_eq!(
        agenda(&["w W 1 word", "v V 1 word", &all("0,1")]),
        ["w2", "v2", "end2"]
    );
    assert_eq!(
        agenda(&["w W 1 word", "t tanh 1 word", &all("0,1")]),
        ["t2", "w2", "end2"],
        "displaced"
    );
    assert_eq!(
        agenda(&[
            "w W 1 word",
            "s sigmoid 1 word",
            "t tanh 1 word",
            &all("0,1,2")
        ]),
        ["s2", "t2", "w2", "end2"]
    );
    assert_eq!(
        agenda(&[
            "t tanh 1 word",
            "w W 1 word",
            "s sigmoid 1 word",
            &all("0,1,2")
        ]),
        ["t2", "s2", "w2", "end2"]
    );
}

#[test]
fn equal_means_are_equal_as_fractions() {
    // The depths of w are 0 and 2, those of t are 1, 1 and 1: the means are equal, and the sums are not.
    let operators = [
        "w W 1 word",
        "t tanh 1 0",
        "u tanh 1 0",
        "x tanh 1 0",
        "w2 W 1 1",
        "end sum 1 2,3,4",
    ];
    assert_eq!(
        launched(By::Agenda, &[&operators], &[chain("a")]),
        ["w1", "t3", "w1", "end1"]
    );
    // The mean depth of v is also 1, and v is seen before t, but t is elementwise.
    let operators = ["w W 1 word", "v V 1 0", "t tanh 1 0", "end sum 1 1,2"];
    assert_eq!(
        launched(By::Agenda, &[&operators], &[chain("a")]),
        ["w1", "t1", "v1", "end1"]
    );
}

#[test]
fn what_cannot_be_batched_runs_alone_and_first() {
    let operators = [
        "w W 1 word",
        "net alone 1 word",
        "net2 alone 1 1",
        "end sum 1 0,2",
    ];
    let agenda = launched(By::Agenda, &[&operators], &[chain("a"), chain("a")]);
    assert_eq!(agenda, ["net1", "net1", "net21", "net21", "w2", "end2"]);
}

#[test]
fn operators_of_two_cells_run_as_one_if_their_signatures_say_so() {
    let cells: [&[&str]; 2] = [
        &["w W 1 word", "t tanh 1 0"],
        &["w W 1 word", "s sum 1 0,state", "t tanh 1 1"],
    ];
    // The mean depths are 0 for W, (1 + 3) / 2 for tanh, and 2 for sum.
    assert_eq!(
        launched(By::Agenda, &cells, &[chain("ab")]),
        ["w2", "t1", "s1", "t1"]
    );
}

#[test]
fn what_hangs_on_one_child_runs_as_soon_as_that_child_is_done() {
    // Node 2 has children 0 (a leaf) and 1 (over leaf 3).
    let cells: [&[&str]; 2] = [&["c A each state", "s sum 1 0"], &["l tanh 1 word"]];
    let graph = Graph::new([1, 0, 0, 1].map(CellId).to_vec(), &[(0, 2), (1, 2), (3, 1)]).unwrap();
    let agenda = launched(By::Agenda, &cells, &[CellGraph::Graph(graph.into())]);
    // Both leaves run, then the products of both (for nodes 1 and 2), then node 1, its product, and node 2.
    assert_eq!(agenda, ["l2", "c2", "s1", "c1", "s1"]);
}

fn random_lists(rng: &mut RandomSequence, cells: usize) -> Vec<OperatorList> {
    let texts: Vec<Vec<String>> = (0..cells)
        .map(|_| {
            let count = rng.random_range(1..7);
            (0..count)
                .map(|place| {
                    let kind =
                        ["A", "B", "C", "sum", "tanh", "sigmoid", "alone"][rng.random_range(0..7)];
                    let last = place + 1 == count;
                    let rows = if last {
                        "1"
                    } else {
                        ["1", "1", "each", "all"][rng.random_range(0..4)]
                    };
                    let inputs: Vec<String> = (0..rng.random_range(1..4))
                        .map(|_| match rng.random_range(0..place + 2) {
                            0 => "word".into(),
                            1 => "state".into(),
                            earlier => (earlier - 2).to_string(),
                        })
                        .collect();
                    format!("o{place} {kind} {rows} {}", inputs.join(","))
                })
                .collect()
        })
        .collect();
    let texts: Vec<Vec<&str>> = texts
        .iter()
        .map(|list| list.iter().map(String::as_str).collect())
        .collect();
    lists(&texts.iter().map(Vec::as_slice).collect::<Vec<_>>())
}

fn random_graph(rng: &mut RandomSequence, cells: u16) -> CellGraph {
    let cell = |rng: &mut RandomSequence| CellId(rng.random_range(0..cells));
    if rng.random() {
        let runs = (0..rng.random_range(1..4)).map(|_| CellRun {
            cell: cell(rng),
            length: rng.random_range(1..5),
            input: 0,
        });
        return CellGraph::chains(runs.collect::<Vec<_>>());
    }
    let nodes = rng.random_range(1..9u32);
    let edges: Vec<(u32, u32)> = (1..nodes)
        .flat_map(|to| {
            (0..rng.random_range(0..3))
                .map(|_| (rng.random_range(0..to), to))
                .collect::<Vec<_>>()
        })
        .collect();
    CellGraph::Graph(
        Graph::new((0..nodes).map(|_| cell(rng)).collect(), &edges)
            .unwrap()
            .into(),
    )
}

fn agrees_with_the_naive(lists: &[OperatorList], graphs: &[CellGraph], number: u64) {
    let mut classes = NodeClasses::new(lists, signature);
    let mut batch = GraphBatch::default();
    for graph in graphs {
        batch.add(graph, &mut classes);
    }
    let nodes = naive::build(graphs, lists, signature);
    let OperatorSchedule {
        operators,
        launches,
        ..
    } = agenda_order(&batch, &classes);
    assert_eq!(operators, nodes.len() as u64, "case {number}");
    let translated = naive::translated(&launches, &classes, signature);
    assert_eq!(
        translated,
        naive::by_agenda(&nodes),
        "agenda of case {number}: {lists:?} {graphs:?}"
    );
    let OperatorSchedule {
        operators,
        launches,
        ..
    } = depth_order(&batch, &classes);
    assert_eq!(operators, nodes.len() as u64, "case {number}");
    let mut translated = naive::translated(&launches, &classes, signature);
    translated.retain(|(key, _)| key.is_some());
    assert_eq!(
        translated,
        naive::by_depth(&nodes),
        "depth of case {number}: {lists:?} {graphs:?}"
    );
}

#[test]
fn both_orders_are_those_of_single_operators_on_random_graphs() {
    for number in 0..2_000 {
        let rng = &mut random::sequence(number, 0, "dynet");
        let cells = rng.random_range(1..4);
        let lists = random_lists(rng, cells);
        let graphs: Vec<CellGraph> = (0..rng.random_range(1..5))
            .map(|_| random_graph(rng, cells as u16))
            .collect();
        agrees_with_the_naive(&lists, &graphs, number);
    }
}

#[test]
fn both_orders_are_those_of_single_operators_on_the_built_in_models() {
    let shapes: [(&str, &[&str]); 5] = [
        ("lstm", &["chain:3", "chain:1", "chain:5"]),
        ("gru", &["chain:2", "chain:4"]),
        ("seq2seq", &["seq2seq:2>3", "seq2seq:3>1"]),
        ("tree-lstm", &["tree:5 5 6 6 7 7 0", "tree:3 3 0", "tree:0"]),
        (
            "childsum-tree-lstm",
            &["tree:5 5 6 6 7 7 0", "tree:0 1 1 1 2", "tree:2 3 0"],
        ),
    ];
    for (number, (model, shapes)) in (0..).zip(shapes) {
        let model = Model::parse(model).unwrap();
        let mut unfolder = Unfolder::new(&model);
        let shapes: Vec<Shape> = shapes.iter().map(|shape| shape.parse().unwrap()).collect();
        let graphs: Vec<CellGraph> = shapes
            .iter()
            .map(|shape| unfolder.unfold(shape).unwrap())
            .collect();
        let catalogue = Catalogue::new(&model, &Sizes::square(16));
        agrees_with_the_naive(&catalogue.operators, &graphs, number);
    }
}

#[test]
fn it_keeps_the_laws() {
    for by in [By::Agenda, By::Depth] {
        check(
            &DyNet {
                max_batch: 5,
                by,
                ..DyNet::default()
            },
            &Guarantees {
                max_batch: 5,
                ..Guarantees::default()
            },
        );
    }
}
