use std::path::Path;

use super::*;
use crate::core::workload::model::Model;

fn model(text: &str) -> GraphModel {
    GraphModel::parse("m.json", Path::new("m.json"), text).unwrap()
}

fn ruled(shape: &str, nodes: &str) -> Result<GraphModel, String> {
    let text = format!(
        r#"{{"cells": [{{"name": "a"}}, {{"name": "b"}}, {{"name": "c"}}], "unfold": {{"shape": "{shape}", "nodes": [{nodes}]}}}}"#
    );
    GraphModel::parse("m.json", Path::new("m.json"), &text)
}

fn example(name: &str) -> GraphModel {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("scenarios/graphs")
        .join(name);
    GraphModel::read(name, &path).unwrap()
}

fn unfold(model: &GraphModel, shape: &str) -> CellGraph {
    model
        .unfold(&shape.parse().unwrap())
        .expect("a shape of its kind")
        .unwrap()
}

fn written_out(model: &GraphModel, shape: &str) -> Vec<(String, Vec<u32>)> {
    let CellGraph::Graph(graph) = unfold(model, shape) else {
        panic!("a chain")
    };
    let node = |node: u32| {
        let needs = graph.inputs(node).iter().map(|before| before + 1).collect();
        (
            model.cells[graph.cells()[node as usize].index()]
                .name
                .clone(),
            needs,
        )
    };
    (0..graph.len() as u32).map(node).collect()
}

fn runs(model: &GraphModel, shape: &str) -> Vec<(String, u32)> {
    let CellGraph::Chains(runs) = unfold(model, shape) else {
        panic!("no chain")
    };
    runs.iter()
        .map(|run| (model.cells[run.cell.index()].name.clone(), run.length))
        .collect()
}

fn node(cell: &str, needs: &[u32]) -> (String, Vec<u32>) {
    (cell.to_string(), needs.to_vec())
}

#[test]
fn a_need_that_leads_out_of_the_range_is_none() {
    let two = example("two-layers.json");
    let [one, other] = ["lstm1", "lstm2"];
    assert_eq!(
        written_out(&two, "chain:3"),
        [
            node(one, &[]),
            node(one, &[1]),
            node(one, &[2]),
            node(other, &[1]),
            node(other, &[2, 4]),
            node(other, &[3, 5])
        ]
    );
    let both = example("bidirectional.json");
    let (there, back, out) = ("forward", "backward", "output");
    assert_eq!(
        written_out(&both, "chain:2"),
        [
            node(there, &[]),
            node(there, &[1]),
            node(back, &[4]),
            node(back, &[]),
            node(out, &[1, 3]),
            node(out, &[2, 4])
        ]
    );
}

#[test]
fn trees_are_those_of_the_model_that_is_built_in() {
    let own = ruled(
        "tree",
        r#"{"name": "leaf", "cell": "b", "over": {"v": "tree"}, "children": 0},
           {"name": "inner", "cell": "a", "over": {"v": "tree"}, "children": "1..", "needs": ["leaf[v.children]", "inner[v.children]"]}"#,
    )
    .unwrap();
    let shape = "tree:5 5 6 6 7 7 0";
    let CellGraph::Graph(own) = unfold(&own, shape) else {
        panic!("a graph")
    };
    let built_in = crate::core::workload::model::Unfolder::new(&Model::TreeLstm)
        .unfold(&shape.parse().unwrap())
        .unwrap();
    let CellGraph::Graph(built_in) = built_in else {
        panic!("a graph")
    };
    assert_eq!(own.cells(), built_in.cells());
    assert_eq!(own.subgraphs(), built_in.subgraphs());
    assert_eq!(own.depths(), built_in.depths());
    assert!((0..7).all(|node| own.successors(node) == built_in.successors(node)));

    let classified = example("tree.json");
    let top = |shape| written_out(&classified, shape).pop().unwrap();
    assert_eq!(top("tree:3 3 0"), node("classifier", &[3]));
    assert_eq!(top("tree:0"), node("classifier", &[1]));
    let down = ruled(
        "tree",
        r#"{"name": "up", "cell": "a", "over": {"v": "tree"}, "needs": ["up[v.children]"]},
           {"name": "down", "cell": "b", "over": {"v": "tree"}, "needs": ["down[v.parent]", "up[v]"]}"#,
    )
    .unwrap();
    assert_eq!(
        written_out(&down, "tree:3 3 0"),
        [
            node("a", &[]),
            node("a", &[]),
            node("a", &[1, 2]),
            node("b", &[1, 6]),
            node("b", &[2, 6]),
            node("b", &[3])
        ]
    );
}

#[test]
fn families_may_have_several_indices_and_spans() {
    let grid = ruled(
        "chain",
        r#"{"name": "h", "cell": "a", "over": {"l": 2, "i": "N"}, "needs": ["h[l-1, i]", "h[l, i-1]"]},
           {"name": "top", "cell": "b", "needs": ["h[2, N]"]}"#,
    )
    .unwrap();
    assert_eq!(
        written_out(&grid, "chain:2"),
        [
            node("a", &[]),
            node("a", &[1]),
            node("a", &[1]),
            node("a", &[2, 3]),
            node("b", &[4])
        ]
    );
    // Every step needs the two before it, and the last a column of the grid.
    let wide = ruled(
        "chain",
        r#"{"name": "h", "cell": "a", "over": {"i": "N", "k": 2}},
           {"name": "s", "cell": "b", "over": {"i": "N"}, "needs": ["s[i-2..i-1]", "h[N + 1 - i, *]"]}"#,
    )
    .unwrap();
    assert_eq!(
        written_out(&wide, "chain:3")[6..],
        [
            node("b", &[5, 6]),
            node("b", &[3, 4, 7]),
            node("b", &[1, 2, 7, 8])
        ]
    );
}

#[test]
fn a_rule_whose_nodes_have_one_order_is_a_chain() {
    let attention = example("attention.json");
    assert!(attention.is_chain && attention.is_sequence());
    assert_eq!(
        runs(&attention, "seq2seq:3>2"),
        [("encoder".to_string(), 3), ("decoder".to_string(), 2)]
    );
    assert_eq!(
        unfold(&attention, "seq2seq:1000000000>5").nodes(),
        1_000_000_005
    );

    let up = r#"{"name": "u", "cell": "a", "over": {"i": "N"}, "needs": ["u[i-1]"]}"#;
    let chains = [
        (
            r#"{"name": "v", "cell": "b", "over": {"i": "N"}, "needs": ["v[i+1]", "u[N]"]}"#,
            true,
        ),
        (
            r#"{"name": "v", "cell": "b", "over": {"i": "N"}, "needs": ["v[i+1]", "u[i]"]}"#,
            true,
        ),
        (
            r#"{"name": "v", "cell": "b", "over": {"i": "N"}, "needs": ["v[i-1]", "v[i-3..i-2]", "u[N + 1 - i]"]}"#,
            true,
        ),
        (
            r#"{"name": "v", "cell": "b", "over": {"i": "N"}, "needs": ["v[i-1]", "u[i]"]}"#,
            false,
        ),
        (
            r#"{"name": "v", "cell": "b", "over": {"i": "N - 1"}, "needs": ["v[i-1]", "u[*]"]}"#,
            false,
        ),
        (
            r#"{"name": "v", "cell": "b", "over": {"i": "N"}, "needs": ["v[i-2]", "u[*]"]}"#,
            false,
        ),
        (r#"{"name": "v", "cell": "b", "needs": ["u[N]"]}"#, true),
        (r#"{"name": "v", "cell": "b", "needs": ["u[1]"]}"#, false),
    ];
    for (second, chain) in chains {
        let model = ruled("chain", &format!("{up}, {second}")).unwrap();
        assert_eq!(model.is_chain, chain, "{second}");
    }
    // A chain whose length is not the request's can't be padded.
    let down = ruled(
        "chain",
        r#"{"name": "d", "cell": "a", "over": {"i": "N"}, "needs": ["d[i+1]"]}"#,
    )
    .unwrap();
    assert!(down.is_chain && down.is_sequence());
    let first = ruled(
        "chain",
        r#"{"name": "s", "cell": "b"}, {"name": "u", "cell": "a", "over": {"i": "N"}, "needs": ["u[i-1]", "s"]}"#,
    );
    let first = first.unwrap();
    assert!(first.is_chain && !first.is_sequence());
    assert_eq!(
        runs(&first, "chain:4"),
        [("b".to_string(), 1), ("a".to_string(), 4)]
    );
}

proptest::proptest! {
    #[test]
    fn what_is_called_a_chain_is_one(
        own in proptest::collection::vec(0usize..5, 0..3),
        cross in proptest::collection::vec(0usize..8, 0..3),
        first in 0usize..5,
        n in 1u32..7,
    ) {
        let items = ["i-1", "i+1", "i-2", "1..i-1", "i-3..i-2"];
        let others = ["*", "N", "1", "i", "N+1-i", "i-1", "1..i", "i..N"];
        let needs = |name: &str, items: Vec<&str>| -> Vec<String> {
            items.iter().map(|item| format!("\"{name}[{item}]\"")).collect()
        };
        let mut second = needs("v", own.iter().map(|at| items[*at]).collect());
        second.extend(needs("u", cross.iter().map(|at| others[*at]).collect()));
        let nodes = format!(
            r#"{{"name": "u", "cell": "a", "over": {{"i": "N"}}, "needs": [{}]}},
               {{"name": "v", "cell": "b", "over": {{"i": "N"}}, "needs": [{}]}}"#,
            needs("u", vec![items[first]]).join(", "),
            second.join(", "),
        );
        if let Ok(model) = ruled("chain", &nodes) && model.is_chain {
            let Unfolding::Rule(rule) = &model.unfolding else { unreachable!() };
            let graph = rule.write_out(&rule.extent(&Shape::Chain(n)).unwrap()).unwrap();
            let depth = graph.depths().iter().max().unwrap() + 1;
            proptest::prop_assert_eq!(depth as usize, graph.len());
            let mut order: Vec<usize> = (0..graph.len()).collect();
            order.sort_by_key(|node| graph.depths()[*node]);
            let cells: Vec<CellId> = order.into_iter().map(|node| graph.cells()[node]).collect();
            let CellGraph::Chains(runs) = unfold(&model, &format!("chain:{n}")) else { panic!("a chain") };
            let of_runs: Vec<CellId> = runs.iter().flat_map(|run| vec![run.cell; run.length as usize]).collect();
            proptest::prop_assert_eq!(cells, of_runs);
        }
    }
}

#[test]
fn given_graphs_are_taken_by_their_number() {
    let explicit = example("explicit.json");
    assert_eq!(explicit.weights(), [2, 1, 1, 1]);
    assert_eq!(
        written_out(&explicit, "graph:1"),
        [node("a", &[]), node("b", &[1]), node("a", &[1, 2])]
    );
    assert_eq!(
        explicit
            .unfold(&Shape::Graph(5))
            .unwrap()
            .unwrap_err()
            .split_once(": ")
            .unwrap()
            .1,
        "there is no graph 5; the file has 4"
    );
    assert!(explicit.unfold(&Shape::Chain(1)).is_none());
    let chains = model(
        r#"{"cells": [{"name": "a"}, {"name": "b"}], "graphs": [{"nodes": ["a", "b", "a"], "edges": [[1, 2], [2, 3], [1, 3]]}, {"nodes": ["b", "a", "a"], "edges": [[2, 3], [3, 1]]}]}"#,
    );
    assert_eq!(
        runs(&chains, "graph:1"),
        [
            ("a".to_string(), 1),
            ("b".to_string(), 1),
            ("a".to_string(), 1)
        ]
    );
    assert_eq!(
        runs(&chains, "graph:2"),
        [("a".to_string(), 2), ("b".to_string(), 1)]
    );
}

#[test]
fn cells_come_in_the_order_of_their_names() {
    let types = example("bidirectional.json").cell_types();
    let named: Vec<(&str, i32, &[u32])> = types
        .iter()
        .map(|cell| (cell.name.as_str(), cell.priority, &cell.batches[..]))
        .collect();
    assert_eq!(
        named,
        [
            ("backward", 0, &[][..]),
            ("forward", 0, &[]),
            ("output", 1, &[1, 4, 16, 64, 256])
        ]
    );
    let layers = example("two-layers.json");
    let operators = &layers.cells[0].operators;
    assert_eq!(operators[2].kind, GraphOperatorKind::Affine);
    assert_eq!(
        (operators[2].shape, &operators[2].inputs[..]),
        (Some([4096, 2048]), &["in".to_string()][..])
    );
}

#[test]
fn mistakes_are_named_with_their_place() {
    let cells = r#""cells": [{"name": "a"}]"#;
    let rule =
        |nodes: &str| format!(r#"{{{cells}, "unfold": {{"shape": "chain", "nodes": [{nodes}]}}}}"#);
    let family = |more: &str| rule(&format!(r#"{{"name": "f", "cell": "a"{more}}}"#));
    let over = |needs: &str| family(&format!(r#", "over": {{"i": "N"}}, "needs": ["{needs}"]"#));
    let tree = |more: &str| family(more).replace("chain", "tree");
    let graph = |graph: &str| format!(r#"{{{cells}, "graphs": [{graph}]}}"#);
    let cell = |cell: &str| format!(r#"{{"cells": [{cell}], "graphs": []}}"#);
    let operator = |operator: &str| cell(&format!(r#"{{"name": "a", "operators": [{operator}]}}"#));
    for (text, message) in [
        ("{".to_string(), "line 1: EOF while parsing an object"),
        (
            format!("{{\n{cells},\n\"graph\": []}}"),
            "line 3: unknown field `graph`, expected one of `$schema`, `about`, `cells`",
        ),
        (
            format!("{{{cells}}}"),
            "does not say how requests unfold; it needs unfold (a rule) or graphs (a list of them)",
        ),
        (cell(""), "cells: 0 are listed; a model has from 1 to 65535"),
        (
            cell(r#"{"name": "a b"}"#),
            "cells[0].name: \"a b\" is not a name; a name consists of letters, digits, _ and -",
        ),
        (
            cell(r#"{"name": "gather"}"#),
            "cells[0].name: \"gather\" has a meaning of its own in cost tables; take another",
        ),
        (
            cell(r#"{"name": "a"}, {"name": "a"}"#),
            "cells[1].name: a second cell \"a\"; names must be unique",
        ),
        (
            cell(r#"{"name": "a", "batches": [4, 2]}"#),
            "cells[0].batches[1]: 2 is out of place; the sizes ascend, from 1",
        ),
        (
            cell(r#"{"name": "a"}"#),
            "graphs: no weight is above 0; at least one must be",
        ),
        (
            operator(r#"{"name": "x", "kind": "elementwise", "inputs": ["y"]}"#),
            "cells[0].operators[0].inputs[0]: unknown input \"y\"; known here: word, state",
        ),
        (
            operator(r#"{"name": "x", "kind": "affine", "weight": "W"}"#),
            "cells[0].operators[0].shape: missing; an operator with weights has weight and shape",
        ),
        (
            operator(r#"{"name": "x", "kind": "affine", "weight": "W", "shape": [2, 3]}"#),
            "cells[0].operators[0].bias: missing; a product without one is of the kind matmul",
        ),
        (
            operator(r#"{"name": "x", "kind": "sum", "bias": "b"}"#),
            "cells[0].operators[0].bias: only affine has one; remove it",
        ),
        (family(r#", "cell": "b""#), "line 1: duplicate field `cell`"),
        (
            rule(r#"{"name": "f", "cell": "b"}"#),
            "unfold.nodes[0].cell: unknown cell \"b\"; the file's cells: a",
        ),
        (
            rule(r#"{"name": "F", "cell": "a"}"#),
            "unfold.nodes[0].name: \"F\" is not a name; a name consists of small letters",
        ),
        (
            rule(""),
            "unfold.nodes: is empty; a rule has at least one family of nodes",
        ),
        (
            family(r#", "over": {"i": "M"}"#),
            "unfold.nodes[0]: over.i: unknown name \"M\"; known here: N",
        ),
        (
            family(r#", "over": {"i": []}"#),
            "unfold.nodes[0]: over.i: must be a number, or a sum such as \"N\" or \"S + 1\"",
        ),
        (
            family(r#", "over": {"v": "tree"}"#),
            "unfold.nodes[0]: over.v: there is no tree; unfold.shape must be \"tree\"",
        ),
        (
            family(r#", "children": 0"#),
            "unfold.nodes[0]: children: needs an index over a tree",
        ),
        (
            tree(r#", "over": {"v": "tree"}, "children": "some""#),
            "unfold.nodes[0]: children: must be a number of children, or a range such as \"1..\" or \"2..3\"",
        ),
        (
            tree(r#", "over": {"v": "tree"}, "needs": ["f[v.uncle]"]"#),
            "unfold.nodes[0].needs[0]: \"f[v.uncle]\": a node of a tree has no uncle; it has children, parent",
        ),
        (
            tree(r#", "over": {"v": "tree"}, "needs": ["f[1]"]"#),
            "unfold.nodes[0].needs[0]: \"f[1]\": \"f\" ranges over a tree; its indices are v, v.children, v.parent, root or *",
        ),
        (
            over("f"),
            "unfold.nodes[0].needs[0]: \"f\": has 0 indices, but \"f\" has 1",
        ),
        (
            over("g[i]"),
            "unfold.nodes[0].needs[0]: \"g[i]\": unknown family \"g\"; known: f",
        ),
        (
            over("f[j-1]"),
            "unfold.nodes[0].needs[0]: \"f[j-1]\": unknown name \"j\"; known here: i, N",
        ),
        (
            over("f[2 i]"),
            "unfold.nodes[0].needs[0]: \"f[2 i]\": \"2 i\" is not a sum of names and numbers, such as i - 1 or N + 1 - i",
        ),
        (
            over("f[i-1"),
            "unfold.nodes[0].needs[0]: \"f[i-1\": is not a reference; write FAMILY[INDEX]",
        ),
        (
            over("f[root]"),
            "unfold.nodes[0].needs[0]: \"f[root]\": \"f\" does not range over a tree; root is not an index of it",
        ),
        (
            over("f[i]"),
            "unfold: nodes need each other: f[1] -> f[1] (for a request chain:1)",
        ),
        (
            over("f[i+1]\", \"f[i-1]"),
            "unfold: nodes need each other: f[1] -> f[2] -> f[1] (for a request chain:2)",
        ),
        (
            family(r#", "over": {"i": "N - 4"}"#),
            "unfold: unfolds to no node at all (for a request chain:1)",
        ),
        (
            graph(r#"{"nodes": []}"#),
            "graphs[0]: nodes: is empty; a graph has at least one node",
        ),
        (
            graph(r#"{"nodes": ["a", "b"]}"#),
            "graphs[0]: nodes[1]: unknown cell \"b\"; the file's cells: a",
        ),
        (
            graph(r#"{"nodes": ["a"], "edges": [[1, 2]]}"#),
            "graphs[0]: edges[0]: [1, 2] leads out of the graph; its nodes are 1 to 1",
        ),
        (
            graph(r#"{"nodes": ["a", "a"], "edges": [[1, 2], [2, 1]]}"#),
            "graphs[0]: edges: nodes need each other: 1 -> 2 -> 1",
        ),
    ] {
        let error = GraphModel::parse("m.json", Path::new("m.json"), &text).expect_err(&text);
        assert!(error.starts_with(message), "{text}: {error}");
    }
    let far = ruled(
        "chain",
        r#"{"name": "u", "cell": "a", "over": {"i": "N", "k": "N"}}"#,
    )
    .unwrap();
    assert_eq!(
        far.unfold(&Shape::Chain(1 << 20)).unwrap().unwrap_err(),
        "m.json: unfolds to more than 16777216 nodes; only chains are not written out and may be longer"
    );
}
