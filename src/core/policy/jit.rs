//! Just-in-time dynamic batching (Zha et al., 2019). An idle worker opens a batching scope for the waiting requests.
//! Each node goes into a look-up table by its depth and a key (section 4.2); the slots then run by depth, each as one
//! batch. Finer nodes find more to batch, and need more look-ups.
//!
//! "The graph rewriting can be cached and stored for next forward pass" (section 4.3). Each scope is one forward pass,
//! so the key of the cache is the graph of all its requests in their order: each node's class (cell type, number of
//! input cells, input size) and the nodes that take its state. A scope whose graph is known costs a look-up for each
//! request, which recognises it. Other scopes cost a look-up for each node.
//!
//! | granularity | nodes of one slot have |
//! | --- | --- |
//! | graph (request) | the same shape |
//! | cell | one cell type, depth and number of input cells |
//! | operator | one depth, kind, weights, shape, layout and input result |
//! | kernel | the same; a product with a bias is two nodes |

use super::operators::{Evaluation, ListLevel, depth_order};
use super::prelude::*;
use super::whole::{Taken, first_come, graph, one_by_one};
use crate::core::task::ExtraTime;
use crate::core::workload::operator::catalogue::{Catalogue, OperatorList};
use crate::core::workload::operator::{OperandSource, Operator, OperatorKind, RowRule, Sizes};
use crate::core::workload::shape::Shape;

/// `kind = "jit"`.
#[derive(Clone, Debug, Serialize, Deserialize, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct Jit {
    /// The nodes of the look-up table.
    #[default(Granularity::Cell)]
    pub granularity: Granularity,
    /// The largest number of requests in a scope.
    #[default = 256]
    pub max_batch: u32,
    /// The host's time for a look-up. The paper gives none; the default is DyNet's `merge_ns`.
    #[serde(deserialize_with = "crate::base::units::nanos_or_time")]
    #[default(Nanos(100))]
    pub analysis_ns: Nanos,
    /// Whether the tables of scopes are kept (section 4.3). Whole graphs have none.
    #[default = true]
    pub cache: bool,
}

/// The nodes of the look-up table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Granularity {
    Graph,
    /// Cells, the paper's "subgraphs".
    Cell,
    Operator,
    /// Operators, with a bias apart from its product.
    Kernel,
}

impl Settings for Jit {
    fn describe(&self) -> PolicyKind {
        PolicyKind::new(
            "jit",
            "whole graphs through a look-up table, as graphs, cells, operators or kernels (JIT dynamic batching)",
        )
    }

    fn build(&self, setup: &Setup<'_>) -> Result<Box<dyn Policy>, String> {
        let look_up = self.analysis_ns;
        let cache = self.cache;
        // All sizes are equal, so that equality of operators does not depend on them.
        let catalogue = Catalogue::new(setup.model, &Sizes::square(1024));
        let mut evaluation = match self.granularity {
            Granularity::Graph => {
                return first_come(
                    self.max_batch,
                    |request| (request.shape.clone(), request.graph.clone()),
                    move |taken, requests, dispatch| {
                        submit_graphs(taken, requests, look_up, dispatch)
                    },
                );
            }
            Granularity::Cell => {
                Evaluation::new(&whole_cells(setup.cells.len()), key, ListLevel::Cells)
            }
            Granularity::Operator => {
                Evaluation::new(&catalogue.operators, key, ListLevel::Operators)
            }
            Granularity::Kernel => Evaluation::new(&catalogue.kernels, key, ListLevel::Kernels),
        };
        first_come(self.max_batch, graph, move |taken, graphs, dispatch| {
            let (evaluated, known) = if cache {
                evaluation.recall(graphs.collect(), depth_order)
            } else {
                (evaluation.evaluate(graphs, depth_order), false)
            };
            let nodes = evaluated.operators;
            let slots = evaluated.launches;
            let look_ups = if known {
                taken.requests.len() as u64
            } else {
                nodes
            };
            let task = evaluated.task(taken, look_up.saturating_mul(look_ups));
            dispatch.submit_because(&task, || Reason {
                what: if known {
                    format!("a batching scope whose graph is known: {nodes} nodes in {slots} slots")
                } else {
                    format!("a batching scope: {nodes} nodes looked up, in {slots} slots")
                },
                size: taken.size_of_evaluation(),
                when: when(taken),
            });
        })
    }

    fn largest_batches(&self, _: &Setup<'_>) -> Option<Batches> {
        Some(Batches::Requests(self.max_batch))
    }

    fn runs_operators(&self) -> bool {
        matches!(
            self.granularity,
            Granularity::Operator | Granularity::Kernel
        )
    }
}

/// Lists of one operator for each cell type. The operator takes the place of the whole cell.
fn whole_cells(cells: usize) -> Vec<OperatorList> {
    let mut lists = Vec::new();
    for cell in 0..cells as u16 {
        lists.push(OperatorList {
            operators: vec![Operator {
                name: cell.to_string(),
                kind: OperatorKind::Opaque,
                rows: RowRule::One,
                inputs: vec![OperandSource::Word, OperandSource::State],
                shape: [1, 1],
            }],
            ids: vec![CellId(cell)],
        });
    }
    lists
}

/// The key of a slot without the depth. Operators of one name take the same result.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct SlotKey {
    kind: OperatorKind,
    name: String,
    shape: [u32; 2],
    layout: u32,
    input: u32,
}

fn key(operator: &Operator, before: u32, input: u32) -> Option<SlotKey> {
    Some(SlotKey {
        kind: operator.kind.clone(),
        name: operator.name.clone(),
        shape: operator.shape,
        layout: operator.layout(before),
        input,
    })
}

/// Submits a task for each shape in a scope.
fn submit_graphs(
    taken: Taken<'_>,
    requests: impl Iterator<Item = (Shape, CellGraph)>,
    look_up: Nanos,
    dispatch: &mut Dispatch<'_>,
) {
    let mut groups: Vec<(Shape, CellGraph, Vec<RequestId>)> = Vec::new();
    for (request, (shape, graph)) in taken.requests.iter().copied().zip(requests) {
        match groups.iter_mut().find(|(known, ..)| *known == shape) {
            Some((.., requests)) => requests.push(request),
            None => groups.push((shape, graph, vec![request])),
        }
    }
    let shapes = groups.len();
    for (shape, graph, requests) in groups {
        let steps = one_by_one(&graph, requests.len() as u32);
        let extra = ExtraTime {
            host_during: look_up.saturating_mul(requests.len() as u64),
            ..ExtraTime::default()
        };
        let task = Task {
            extra,
            ..Task::without_padding(taken.worker, &steps, &requests)
        };
        dispatch.submit_because(&task, || Reason {
            what: format!(
                "requests of the shape {shape}, one of {shapes} shapes in the batching scope"
            ),
            size: format!(
                "all {} of the scope's {} requests that have it",
                requests.len(),
                taken.requests.len()
            ),
            when: when(taken),
        });
    }
}

fn when(taken: Taken<'_>) -> String {
    format!(
        "worker {} had nothing left to do and opened a scope, with {} requests waiting",
        taken.worker,
        taken.waiting()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::conformance::{Guarantees, check};
    use crate::core::policy::operators;
    use crate::core::policy::operators::batch::GraphBatch;
    use crate::core::policy::operators::classes::NodeClasses;
    use crate::core::workload::model::{CellType, Model, Unfolder};

    const ALL: [Granularity; 4] = [
        Granularity::Graph,
        Granularity::Cell,
        Granularity::Operator,
        Granularity::Kernel,
    ];

    /// The number of nodes in a table, and the names and batches of its slots in order.
    fn table(granularity: Granularity, model: &str, shapes: &[&str]) -> (u64, Vec<(String, u32)>) {
        let model = Model::parse(model).unwrap();
        let catalogue = Catalogue::new(&model, &Sizes::square(8));
        let mut classes = match granularity {
            Granularity::Operator => NodeClasses::new(&catalogue.operators, key),
            Granularity::Kernel => NodeClasses::new(&catalogue.kernels, key),
            _ => NodeClasses::new(&whole_cells(model.cell_types().len()), key),
        };
        let names: Vec<CellType> = model
            .cell_types()
            .into_iter()
            .chain(catalogue.types())
            .collect();
        let mut batch = GraphBatch::default();
        let mut unfolder = Unfolder::new(&model);
        // The unfolder knows shapes by their address, so all must live as long as it does.
        let shapes: Vec<Shape> = shapes.iter().map(|shape| shape.parse().unwrap()).collect();
        for shape in &shapes {
            batch.add(&unfolder.unfold(shape).unwrap(), &mut classes);
        }
        let schedule = depth_order(&batch, &classes);
        let mut slots = Vec::new();
        for step in operators::steps_of(&schedule.launches, classes.keyed_operators()) {
            for _ in 0..step.times {
                slots.push((names[step.cell.index()].name.clone(), step.batch));
            }
        }
        (schedule.operators, slots)
    }

    fn borrow_names(steps: &[(String, u32)]) -> Vec<(&str, u32)> {
        steps
            .iter()
            .map(|(name, batch)| (name.as_str(), *batch))
            .collect()
    }

    #[test]
    fn cells_are_apart_by_their_number_of_children() {
        // The shapes are a root over two leaves, a chain of three, and a root over a leaf and a chain of two.
        let (nodes, steps) = table(
            Granularity::Cell,
            "childsum-tree-lstm",
            &["tree:3 3 0", "tree:2 3 0", "tree:4 3 4 0"],
        );
        assert_eq!(nodes, 10);
        // The slots are leaves, nodes over leaves (with two children and with one), and roots (with one child and with
        // two).
        assert_eq!(
            borrow_names(&steps),
            [
                ("leaf", 5),
                ("internal", 1),
                ("internal", 2),
                ("internal", 1),
                ("internal", 1)
            ]
        );
    }

    #[test]
    fn steps_of_chains_are_batched_by_their_place() {
        let (nodes, steps) = table(
            Granularity::Cell,
            "seq2seq",
            &["seq2seq:1>2", "seq2seq:2>1"],
        );
        assert_eq!(nodes, 6);
        assert_eq!(
            borrow_names(&steps),
            [
                ("encoder", 2),
                ("encoder", 1),
                ("decoder", 1),
                ("decoder", 2)
            ]
        );
    }

    #[test]
    fn operators_that_no_child_changes_are_batched_across_numbers_of_children() {
        let shapes = ["tree:3 3 0", "tree:2 0"];
        let (nodes, steps) = table(Granularity::Operator, "childsum-tree-lstm", &shapes);
        // Each of the three leaves has 10 operators. Each root has 22, and two more for each of its children.
        assert_eq!(nodes, 3 * 10 + 26 + 24);
        let batches = |name: &str| {
            steps
                .iter()
                .filter(|(step, _)| step == name)
                .map(|(_, batch)| *batch)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            batches("internal.word"),
            [5],
            "of leaves and roots, which have a word each"
        );
        assert_eq!(
            batches("internal.child.h"),
            [3],
            "of three children, whosever they are"
        );
        assert_eq!(
            batches("internal.children"),
            [1, 1],
            "of two children and of one"
        );
        assert_eq!(
            batches("internal.f"),
            [2, 1],
            "rows of two children and of one"
        );
        assert_eq!(batches("internal.h"), [3, 2], "of leaves, then of roots");
    }

    #[test]
    fn kernels_have_biases_apart() {
        let shapes = ["chain:2", "chain:1"];
        let (operators, of_operators) = table(Granularity::Operator, "lstm", &shapes);
        let (kernels, of_kernels) = table(Granularity::Kernel, "lstm", &shapes);
        assert_eq!((operators, kernels), (3 * 15, 3 * 16));
        assert_eq!(
            of_kernels.len(),
            of_operators.len() + 2,
            "a bias at each of two steps"
        );
        assert!(
            of_kernels.contains(&("lstm.gates.product".into(), 2))
                && of_kernels.contains(&("lstm.gates.bias".into(), 2))
        );
    }

    #[test]
    fn it_keeps_the_laws() {
        for granularity in ALL {
            // A scope queues a task for each shape on one worker, so another may idle.
            let work_conserving = granularity != Granularity::Graph;
            let policy = Jit {
                granularity,
                max_batch: 5,
                ..Jit::default()
            };
            // Operators without a state run before their cell, so a request may be faster than its cells one by one.
            let bounded = !policy.runs_operators();
            check(
                &policy,
                &Guarantees {
                    max_batch: 5,
                    work_conserving,
                    bounded,
                    ..Guarantees::default()
                },
            );
        }
    }
}
