use super::*;

fn graph(cells: &str, edges: &[(u32, u32)]) -> Graph {
    Graph::new(
        cells.bytes().map(|c| CellId(u16::from(c - b'a'))).collect(),
        edges,
    )
    .unwrap()
}

fn assert_acyclic(graph: &Graph) {
    let cells = graph.subgraphs().iter().map(|s| s.cell).collect();
    let edges: Vec<(u32, u32)> = (0..graph.len() as u32)
        .flat_map(|n| graph.successors(n).iter().map(move |m| (n, *m)))
        .map(|(a, b)| {
            (
                graph.subgraph_of()[a as usize],
                graph.subgraph_of()[b as usize],
            )
        })
        .filter(|(a, b)| a != b)
        .collect();
    Graph::new(cells, &edges).expect("no subgraph waits for itself");
}

#[test]
fn a_tree_is_cut_into_its_leaves_and_the_rest() {
    // ((0 1) (2 3)); BatchMaker, section 4.4.
    let tree: Tree = "5 5 6 6 7 7 0".parse().unwrap();
    let direct = Graph::from_tree(&tree, |children| CellId(u16::from(children == 0)));
    let general = graph("bbbbaaa", &[(0, 4), (1, 4), (2, 5), (3, 5), (4, 6), (5, 6)]);
    for graph in [&direct, &general] {
        assert_eq!(graph.subgraph_of(), [0, 1, 2, 3, 4, 4, 4]);
        assert_eq!(graph.subgraphs()[4].outer_inputs, 4);
        assert_eq!(*graph.entries(4), [4, 5]);
        assert_eq!(graph.depths(), [0, 0, 0, 0, 1, 1, 2]);
        assert_eq!(graph.inputs(0), [0u32; 0]);
        assert_eq!(graph.inputs(4), [0, 1]);
        assert_eq!(graph.inputs(6), [4, 5]);
    }
}

#[test]
fn a_single_leaf_is_a_tree() {
    let graph = Graph::from_tree(&"0".parse().unwrap(), |children| {
        CellId(u16::from(children == 0))
    });
    assert_eq!(graph.cells(), [CellId(1)]);
    assert_eq!(graph.subgraphs().len(), 1);
}

#[test]
fn a_tree_is_the_same_in_any_order_of_its_nodes() {
    // ((0 1) (2 3)), then with the root first, and with the nodes reversed.
    for (parents, leaves) in [
        ("5 5 6 6 7 7 0", [0, 1, 2, 3]),
        ("0 1 1 2 2 3 3", [3, 4, 5, 6]),
        ("0 1 1 3 3 2 2", [3, 4, 5, 6]),
        ("6 6 7 7 0 5 5", [0, 1, 2, 3]),
    ] {
        let tree: Tree = parents.parse().unwrap();
        assert_eq!((tree.leaves(), tree.height()), (4, 2), "{parents}");
        let heights = tree.heights();
        assert_eq!(heights, *tree.graph().depths(), "{parents}");
        for (node, height) in heights.into_iter().enumerate() {
            let is_leaf = leaves.contains(&node);
            assert_eq!(height == 0, is_leaf, "{parents}");
            assert_eq!(tree.graph().cells()[node] == Tree::LEAF, is_leaf);
        }
        assert_eq!(SharedGraph::Tree(Arc::new(tree)).len(), 7);
    }
}

#[test]
fn two_layers_stay_whole() {
    // a0 -> a1 -> a2 and b0 -> b1 -> b2, each b on its a.
    let graph = graph(
        "aaabbb",
        &[(0, 1), (1, 2), (3, 4), (4, 5), (0, 3), (1, 4), (2, 5)],
    );
    assert_eq!(graph.subgraph_of(), [0, 0, 0, 1, 1, 1]);
}

#[test]
fn sets_that_wait_for_each_other_are_split_where_they_do() {
    // a -> b -> a with a shortcut a -> a: one set of a would wait for itself.
    let back = graph("aba", &[(0, 1), (1, 2), (0, 2)]);
    assert_eq!(back.subgraph_of(), [0, 1, 2]);
    let long = graph("aaaba", &[(0, 1), (1, 2), (2, 3), (3, 4), (2, 4)]);
    assert_eq!(long.subgraph_of(), [0, 0, 0, 1, 2]);
    let diamond = graph("abba", &[(0, 1), (0, 2), (1, 3), (2, 3), (0, 3)]);
    assert_eq!(diamond.subgraph_of(), [0, 1, 2, 3]);
    for graph in [&back, &long, &diamond] {
        assert_acyclic(graph);
    }
}

#[test]
fn a_cycle_is_named() {
    let error = Graph::new(vec![CellId(0); 4], &[(0, 1), (1, 2), (2, 3), (3, 1)]).unwrap_err();
    assert_eq!(error, GraphError::Cycle(vec![1, 2, 3]));
    assert_eq!(Graph::new(vec![], &[]).unwrap_err(), GraphError::Empty);
}

proptest::proptest! {
    #[test]
    fn every_acyclic_graph_is_cut_without_a_circle(
        types in proptest::collection::vec(0u16..3, 1..24),
        picks in proptest::collection::vec((0usize..24, 0usize..24), 0..60),
    ) {
        let n = types.len();
        let edges: Vec<(u32, u32)> = picks.iter()
            .map(|(a, b)| (a % n, b % n))
            .filter(|(a, b)| a < b)
            .map(|(a, b)| (a as u32, b as u32))
            .collect();
        let graph = Graph::new(types.iter().map(|t| CellId(*t)).collect(), &edges).unwrap();
        assert_acyclic(&graph);
        for (node, &subgraph) in graph.subgraph_of().iter().enumerate() {
            proptest::prop_assert_eq!(graph.subgraphs()[subgraph as usize].cell, graph.cells()[node]);
        }
    }
}
