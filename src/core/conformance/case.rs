//! Random workloads on random devices.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rand::RngExt as _;

use super::record::{CheckedRun, Watch};
use crate::base::units::Nanos;
use crate::core::backend::Backend;
use crate::core::cost::table::{CostTable, Overhead, TableCosts};
use crate::core::cost::task_times::TaskTimes;
use crate::core::engine;
use crate::core::policy::registry::{Settings, Setup};
use crate::core::record::RecordOptions;
use crate::core::record::full::FullRecord;
use crate::core::sim;
use crate::core::workload::arrivals::OpenLoop;
use crate::core::workload::cell_graph::tree::Tree;
use crate::core::workload::dnn::Dnn;
use crate::core::workload::graph_model::{GraphModel, Takes};
use crate::core::workload::model::Model;
use crate::core::workload::operator::Sizes;
use crate::core::workload::operator::catalogue::Catalogue;
use crate::core::workload::random::{self, RandomSequence};
use crate::core::workload::shape::Shape;
use crate::core::workload::shared_list::SharedList;
use crate::core::workload::trace::Requests;

/// A random workload, with the costs of a random device.
pub(super) struct RandomCase {
    pub model: Model,
    pub workers: usize,
    costs: String,
    overhead: Overhead,
    pub requests: Requests,
    pub arrivals: Vec<Nanos>,
}

impl RandomCase {
    pub fn draw(number: u32) -> RandomCase {
        let rng = &mut random::sequence(u64::from(number), 0, "conformance");
        let (model, _) = draw_model(number, rng);
        let count = rng.random_range(1..=40);
        let shapes: SharedList<Shape> = (0..count).map(|_| draw_shape(&model, rng)).collect();
        let mut clock = 0;
        let arrivals = (0..count)
            .map(|_| {
                // Bursts, gaps of about a task, and long silences.
                clock += [0, 0, rng.random_range(0..300), rng.random_range(0..5_000)]
                    [rng.random_range(0..4)];
                Nanos(clock)
            })
            .collect();
        let mut costs = String::from("cell,batch,ns\n");
        for cell in model.cell_types() {
            for batch in [1, 4, 16] {
                let _ = writeln!(
                    costs,
                    "{},{batch},{}",
                    cell.name,
                    rng.random_range(1..100) * (3 + batch)
                );
            }
        }
        // There is no launch overhead: a worker waits during a launch although it has work, which looks like idling.
        let overhead = Overhead {
            task: Some(Nanos(rng.random_range(0..20))),
            gather: Some(Nanos(rng.random_range(0..20))),
            launch: None,
        };
        let requests = Requests::unfold(shapes, &model).expect("the shapes fit the model");
        RandomCase {
            model,
            workers: rng.random_range(1..=4),
            costs,
            overhead,
            requests,
            arrivals,
        }
    }

    pub fn device(&self) -> TableCosts {
        let operators = Catalogue::new(&self.model, &Sizes::square(8));
        CostTable::parse(&self.costs, "costs")
            .and_then(|table| {
                table.costs_for_operators(&self.model.cell_types(), &operators, self.overhead)
            })
            .expect("the table has all of the model's cells")
    }

    /// The same case without one of its requests; `None` if it has no other.
    pub fn without(&self, request: usize) -> Option<RandomCase> {
        let mut shapes = self.requests.shapes.iter().cloned().collect::<Vec<_>>();
        let mut arrivals = self.arrivals.clone();
        shapes.remove(request);
        arrivals.remove(request);
        if shapes.is_empty() {
            return None;
        }
        let requests = Requests::unfold(shapes.into(), &self.model).expect("the shapes fit");
        Some(RandomCase {
            model: self.model.clone(),
            workers: self.workers,
            costs: self.costs.clone(),
            overhead: self.overhead,
            requests,
            arrivals,
        })
    }

    /// Runs the policy on a simulated device.
    ///
    /// # Errors
    /// The policy fails.
    pub fn run(
        &self,
        policy: &dyn Settings,
        setup: &Setup<'_>,
        watch: Watch,
    ) -> Result<CheckedRun, String> {
        let mut backend = sim::backend(
            self.workers,
            policy.streams(setup),
            TaskTimes::new(self.device(), &self.requests.graphs),
        );
        self.run_on(&mut *backend, policy, setup, watch)
    }

    pub fn run_on(
        &self,
        backend: &mut dyn Backend,
        policy: &dyn Settings,
        setup: &Setup<'_>,
        watch: Watch,
    ) -> Result<CheckedRun, String> {
        let mut running = policy.build(setup).expect("it was built before");
        let keep = RecordOptions {
            tasks: true,
            ..RecordOptions::default()
        };
        let mut recorder =
            FullRecord::new(self.requests.len(), self.workers, setup.cells.len(), keep);
        let mut source = OpenLoop::new(&self.requests, &self.arrivals);
        let stop = AtomicBool::new(false);
        let record = CheckedRun::record(backend, watch, policy.streams(setup), |backend| {
            engine::run(
                &mut source,
                &mut *running,
                backend,
                &mut recorder,
                self.workers,
                &stop,
            )
            .map(|()| recorder)
        });
        record.map_err(|error| format!("the policy fails: {error}"))
    }

    pub fn describe(&self) -> String {
        let mut text = format!(
            "model {}, {} workers, {:?}\n{}",
            self.model.name(),
            self.workers,
            self.overhead,
            self.costs
        );
        text.push_str("id,arrival_ns,shape\n");
        for (id, (arrival, shape)) in self
            .arrivals
            .iter()
            .zip(self.requests.shapes.iter())
            .enumerate()
        {
            let _ = writeln!(text, "{id},{},{shape}", arrival.0);
        }
        text
    }
}

const GRAPHS: [&str; 5] = [
    include_str!("../../../scenarios/graphs/two-layers.json"),
    include_str!("../../../scenarios/graphs/bidirectional.json"),
    include_str!("../../../scenarios/graphs/attention.json"),
    include_str!("../../../scenarios/graphs/tree.json"),
    include_str!("../../../scenarios/graphs/explicit.json"),
];

/// A model, with the text of its file if it has one. Every fifth workload is of a graph model, every tenth of a
/// network.
pub fn draw_model(number: u32, rng: &mut RandomSequence) -> (Model, Option<String>) {
    let model = match number % 5 {
        0 => Model::Lstm,
        1 => Model::Seq2Seq,
        // Nodes of random trees have fewer than 15 children.
        2 => [Model::TreeLstm, Model::ChildSumByArity(15)][rng.random_range(0..2)].clone(),
        3 if number % 10 == 3 => {
            let text = draw_network(rng);
            let network = Dnn::parse("network.csv", Path::new("network.csv"), &text);
            return (
                Model::Network(Arc::new(network.expect("the network is sound"))),
                Some(text),
            );
        }
        3 => Model::Dnn("net".into()),
        _ => {
            let text = GRAPHS[rng.random_range(0..GRAPHS.len())];
            let model = GraphModel::parse("graph.json", Path::new("graph.json"), text);
            return (
                Model::Graph(Arc::new(model.expect("the examples are sound"))),
                Some(text.into()),
            );
        }
    };
    (model, None)
}

fn draw_network(rng: &mut RandomSequence) -> String {
    let tokens = rng.random_range(0..3) > 0;
    let mut text = String::from(if tokens {
        "shape,tokens,40\n"
    } else {
        "shape,fixed\n"
    });
    text.push_str("name,kind,count,rows,inner,columns,elements\n");
    let sized: Vec<bool> = (0..rng.random_range(1..=9))
        .map(|_| tokens && rng.random_range(0..4) > 0)
        .collect();
    let mut operators: Vec<usize> = (0..sized.len()).collect();
    operators.extend((0..rng.random_range(0..=3)).map(|_| rng.random_range(0..sized.len())));
    for operator in operators {
        let rows = if sized[operator] { "tokens" } else { "4" };
        let _ = writeln!(text, "o{operator},matmul,,{rows},8,8,16*{rows}");
    }
    text
}

pub fn draw_shape(model: &Model, rng: &mut RandomSequence) -> Shape {
    match model {
        Model::Lstm | Model::Gru => Shape::Chain(rng.random_range(1..=12)),
        Model::Seq2Seq => Shape::Seq2Seq {
            source: rng.random_range(1..=8),
            target: rng.random_range(1..=8),
        },
        Model::TreeLstm | Model::ChildSumTreeLstm | Model::ChildSumByArity(_) => {
            // Parents are earlier nodes, so every arity and order of leaves occurs.
            let nodes = rng.random_range(1..=15u32);
            let parents: Vec<u32> = (0..nodes)
                .map(|i| if i == 0 { 0 } else { rng.random_range(1..=i) })
                .collect();
            Shape::Tree(Arc::new(
                Tree::from_parents(&parents).expect("parents stand before their children"),
            ))
        }
        Model::Graph(graph) => match graph.takes() {
            Takes::Chains => Shape::Chain(rng.random_range(1..=12)),
            Takes::Pairs => Shape::Seq2Seq {
                source: rng.random_range(1..=8),
                target: rng.random_range(1..=8),
            },
            Takes::Trees => draw_shape(&Model::TreeLstm, rng),
            Takes::Graphs => {
                let graphs = graph.weights().len() as u32;
                Shape::Graph(rng.random_range(1..=graphs))
            }
        },
        Model::Network(network) if network.most_tokens.is_none() => Shape::Fixed,
        Model::Network(_) => Shape::Tokens(rng.random_range(1..=40)),
        Model::Llm(_) => Shape::Llm {
            prompt: rng.random_range(1..=40),
            output: rng.random_range(1..=40),
        },
        Model::Dnn(_) if rng.random() => Shape::Tokens(rng.random_range(1..=40)),
        Model::Dnn(_) => Shape::Fixed,
    }
}
