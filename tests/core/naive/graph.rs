//! Shapes as explicit lists of nodes and edges, cut into subgraphs.

/// The cell graph of one request.
#[derive(Clone, Debug)]
pub struct Graph {
    /// The length by which requests are bucketed, and that of the target (0 without one).
    pub length: usize,
    pub target: usize,
    /// The cell type of each node.
    pub cells: Vec<String>,
    /// The nodes that each node needs.
    pub needs: Vec<Vec<usize>>,
    /// The nodes of each subgraph; subgraphs in the order of their lowest node, nodes in the order of their index.
    pub subgraphs: Vec<Vec<usize>>,
}

impl Graph {
    /// Unfolds `chain:N`, `tokens:N` (as a chain of that many steps), `seq2seq:S>T`, `tree:P P P …`, or any graph, as
    /// the cell type of each node with the nodes that it needs: `graph:encoder encoder<0 decoder<0,1`.
    pub fn unfold(shape: &str) -> Graph {
        let (kind, size) = shape
            .split_once(':')
            .expect("the reference knows no shapes without a size");
        let mut graph = Graph {
            length: 0,
            target: 0,
            cells: vec![],
            needs: vec![],
            subgraphs: vec![],
        };
        match kind {
            "chain" | "tokens" => {
                graph.length = size.parse().expect("a length");
                graph.add_chain("lstm", graph.length);
            }
            "seq2seq" => {
                let (source, target) = size.split_once('>').expect("a source and a target");
                graph.length = source.parse().expect("a length");
                graph.target = target.parse().expect("a length");
                graph.add_chain("encoder", graph.length);
                graph.add_chain("decoder", graph.target);
            }
            "tree" => graph.add_tree(size),
            "graph" => {
                for node in size.split(' ') {
                    let (cell, needs) = node.split_once('<').unwrap_or((node, ""));
                    graph.cells.push(cell.to_string());
                    let needs = needs.split(',').filter(|need| !need.is_empty());
                    graph
                        .needs
                        .push(needs.map(|need| need.parse().expect("a node")).collect());
                }
            }
            other => panic!("the reference knows no {other} shapes"),
        }
        graph.cut();
        graph
    }

    /// Nodes in a row. The first needs the node before it, if there is one.
    fn add_chain(&mut self, cell: &str, length: usize) {
        for _ in 0..length {
            let node = self.cells.len();
            self.cells.push(cell.to_string());
            self.needs
                .push(if node == 0 { vec![] } else { vec![node - 1] });
        }
    }

    /// Each node needs its children. A node without children is a leaf.
    fn add_tree(&mut self, parents: &str) {
        let parents: Vec<usize> = parents
            .split_whitespace()
            .map(|p| p.parse().expect("a parent"))
            .collect();
        self.length = parents.len();
        for node in 1..=parents.len() {
            let children: Vec<usize> = (0..parents.len())
                .filter(|child| parents[*child] == node)
                .collect();
            self.cells.push(
                if children.is_empty() {
                    "leaf"
                } else {
                    "internal"
                }
                .to_string(),
            );
            self.needs.push(children);
        }
    }

    /// Maximal sets of nodes of one cell type that are connected by edges between nodes of that type. Each node begins
    /// as a set, and sets merge along such edges until nothing changes. Chains, seq2seq requests and trees have no sets
    /// that wait for each other.
    ///
    /// Choice: the text does not define how sets that wait for each other are split, so the reference takes no graph
    /// with such sets; see [`Graph::waits_in_a_circle`].
    fn cut(&mut self) {
        let mut set: Vec<usize> = (0..self.cells.len()).collect();
        loop {
            let before = set.clone();
            for node in 0..self.cells.len() {
                for &input in &self.needs[node] {
                    if self.cells[input] == self.cells[node] {
                        let lower = set[node].min(set[input]);
                        (set[node], set[input]) = (lower, lower);
                    }
                }
            }
            if set == before {
                break;
            }
        }
        // A set is named by its lowest node.
        for lowest in 0..set.len() {
            let nodes: Vec<usize> = (0..set.len()).filter(|node| set[*node] == lowest).collect();
            if !nodes.is_empty() {
                self.subgraphs.push(nodes);
            }
        }
    }

    /// Whether subgraphs wait for each other: remove one by one those that wait for no other; some remain.
    pub fn waits_in_a_circle(&self) -> bool {
        let mut left = self.subgraphs.clone();
        loop {
            let waits = |nodes: &Vec<usize>| {
                let mut needs = nodes
                    .iter()
                    .flat_map(|node| &self.needs[*node])
                    .filter(|need| !nodes.contains(need));
                needs.any(|need| left.iter().any(|others| others.contains(need)))
            };
            let Some(free) = left.iter().position(|nodes| !waits(nodes)) else {
                return !left.is_empty();
            };
            left.remove(free);
        }
    }

    /// Whether two graphs have the same cells and edges, node by node.
    pub fn looks_like(&self, other: &Graph) -> bool {
        let same = |ours: &Vec<usize>, theirs: &Vec<usize>| {
            ours.len() == theirs.len() && ours.iter().all(|need| theirs.contains(need))
        };
        self.cells == other.cells
            && self
                .needs
                .iter()
                .zip(&other.needs)
                .all(|(ours, theirs)| same(ours, theirs))
    }

    /// The depth of each node from the leaves: 0 without inputs, else one more than the deepest input.
    pub fn depths(&self) -> Vec<usize> {
        let mut depths = vec![0; self.cells.len()];
        loop {
            let before = depths.clone();
            for (node, needs) in self.needs.iter().enumerate() {
                depths[node] = needs
                    .iter()
                    .map(|input| before[*input] + 1)
                    .max()
                    .unwrap_or(0);
            }
            if depths == before {
                return depths;
            }
        }
    }
}

#[test]
fn the_tree_of_four_leaves_has_five_subgraphs() {
    let tree = Graph::unfold("tree:5 5 6 6 7 7 0");
    assert_eq!(
        tree.subgraphs,
        [vec![0], vec![1], vec![2], vec![3], vec![4, 5, 6]]
    );
    assert_eq!(tree.depths(), [0, 0, 0, 0, 1, 1, 2]);
    let pair = Graph::unfold("seq2seq:2>3");
    assert_eq!(pair.subgraphs, [vec![0, 1], vec![2, 3, 4]]);
    assert!(!Graph::unfold("graph:leaf leaf<0 internal<1").waits_in_a_circle());
    assert!(Graph::unfold("graph:leaf internal<0 leaf<0,1").waits_in_a_circle());
}
