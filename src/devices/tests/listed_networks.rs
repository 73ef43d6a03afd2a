//! Listed networks and parts of requests on real backends: the same results under every policy.

use std::path::Path;
use std::sync::Arc;

use rand::RngExt as _;

use super::policies;
use crate::base::units::{Nanos, RequestId};
use crate::core::backend::Output;
use crate::core::backend::{Answer, Backend};
use crate::core::conformance::{Guarantees, check_backend};
use crate::core::cost::CostModel;
use crate::core::cost::table::{CostTable, Overhead};
use crate::core::policy::cellular::Cellular;
use crate::core::policy::dvabatch::{Diversity, DvaBatch, Lazy, StageRule, Stages};
use crate::core::policy::padded::Padded;
use crate::core::policy::registry::Settings;
use crate::core::policy::values::PerCell;
use crate::core::record::full::FullRecord;
use crate::core::workload::dnn::Dnn;
use crate::core::workload::model::Model;
use crate::core::workload::random::{self, RandomSequence};
use crate::core::workload::shape::Shape;
use crate::core::workload::trace::Requests;
use crate::devices::network::{Network, Spec};

/// The example network, whose operators depend on the tokens.
pub const EXAMPLE: &str = include_str!("../../../scenarios/networks/example.csv");

/// A network with an operator at several places, some of them adjacent, so that a stage may repeat it.
pub const REPEATED: &str = "shape,fixed\nname,kind,count,rows,inner,columns,elements\na,matmul,2,3,5,7,1\nb,memory,,,,,40\n\
                            a,matmul,2,3,5,7,1\na,matmul,2,3,5,7,1\nc,matmul,,9,20,6,1\nb,memory,,,,,40\n";

pub fn listed(text: &str) -> Model {
    Model::Network(Arc::new(
        Dnn::parse("n.csv", Path::new("n.csv"), text).expect("a network"),
    ))
}

/// A small network of a model.
pub fn network(model: &Model) -> Arc<Network> {
    let spec = Spec {
        hidden: 6,
        embedding: 5,
        vocabulary: 20,
        seed: 4,
        weights: None,
    };
    Arc::new(Network::new(model, &spec).expect("weights from the seed"))
}

/// Costs with which larger batches are faster.
pub fn costs(model: &Model) -> Arc<dyn CostModel> {
    let cells = model.cell_types();
    let rows = cells
        .iter()
        .map(|cell| format!("{0},1,1000\n{0},8,3000\n", cell.name))
        .collect::<String>();
    let table = CostTable::parse(&format!("cell,batch,ns\n{rows}"), "costs").expect("a table");
    Arc::new(
        table
            .costs_for(&cells, Overhead::default())
            .expect("all cells have rows"),
    )
}

/// Random requests of a listed network or a chain model.
pub fn requests(model: &Model, count: usize, rng: &mut RandomSequence) -> Requests {
    let mut shape = || match model.network().map(|listed| listed.most_tokens) {
        Some(Some(_)) => Shape::Tokens(rng.random_range(1..=40)),
        Some(None) => Shape::Fixed,
        None => Shape::Chain(rng.random_range(1..=9)),
    };
    let shapes: Vec<Shape> = (0..count).map(|_| shape()).collect();
    Requests::unfold(shapes.into(), model).expect("shapes of the model")
}

/// Whether a request has the result that it has alone; in a listed network, operator by operator.
pub fn is_right(
    network: &Network,
    requests: &Requests,
    id: u64,
    output: Option<&Output>,
) -> Result<(), String> {
    let request = RequestId(id);
    let graph = &requests.graphs[id as usize];
    let output = output.ok_or("no output")?;
    let Some(operators) = network.operators() else {
        let same = *output == network.alone(request, graph);
        return if same {
            Ok(())
        } else {
            Err("another output".into())
        };
    };
    operators.follow(request, graph, &output.state, |passed| {
        let same = passed
            .found
            .iter()
            .zip(passed.expected)
            .all(|(found, expected)| found.to_bits() == expected.to_bits());
        if same {
            Ok(())
        } else {
            Err("other numbers".into())
        }
    })
}

/// A workload with its policy.
pub struct Case {
    pub network: Arc<Network>,
    pub requests: Requests,
    pub policy: Box<dyn Settings>,
    pub by_stages: bool,
    pub workers: usize,
}

/// A function that serves a workload on a backend.
pub type Serve<'a> = &'a dyn Fn(&Case, &mut RandomSequence) -> (Vec<Option<Answer>>, FullRecord);

pub fn results_are_the_same(cases: u64, serve: Serve<'_>) {
    let models = [listed(EXAMPLE), listed(REPEATED), Model::Lstm, Model::Gru];
    for number in 0..cases {
        let mut rng = random::sequence(number, 0, "listed");
        let model = &models[number as usize % models.len()];
        let requests = requests(model, rng.random_range(1..25), &mut rng);
        let by_stages = rng.random_bool(0.6);
        let is_listed = model.network().is_some();
        let policy = match by_stages {
            true => policies::staged(is_listed, &mut rng),
            false => policies::of_model(true, if is_listed { 1 } else { 5 }, &mut rng),
        };
        let case = Case {
            network: network(model),
            requests,
            policy,
            by_stages,
            workers: rng.random_range(1..=3),
        };
        let (answers, record) = serve(&case, &mut rng);
        let Case {
            network,
            requests,
            policy,
            workers,
            ..
        } = &case;
        let name = format!(
            "case {number}: {} by {policy:?} on {workers} workers",
            model.name()
        );
        assert_eq!(record.failures, [], "{name}");
        for (id, answer) in (0..).zip(answers) {
            let alone = || {
                network
                    .alone(RequestId(id), &requests.graphs[id as usize])
                    .digest()
            };
            let right = match answer {
                Some(Answer::Digest(digest)) if digest != alone() => Err("other bits".into()),
                Some(Answer::Digest(_)) => Ok(()),
                Some(Answer::Output(output)) => is_right(network, requests, id, Some(&output)),
                None => Err("no answer".into()),
            };
            assert_eq!(right, Ok(()), "request {id} in {name}");
        }
    }
}

/// A function that starts a backend for requests and passes it to a closure.
pub type Start<'a> = &'a dyn Fn(&Model, &Requests, usize, &mut dyn FnMut(&mut dyn Backend));

pub fn stages_keep_the_laws(start: Start<'_>) {
    let staged = |policy, stages, buffer_pairs| {
        let comp_wait = Some(Nanos(100_000));
        Box::new(DvaBatch {
            policy,
            stages,
            max_batch: 4,
            comp_wait,
            buffer_pairs,
            ..DvaBatch::default()
        })
    };
    let policies: [Box<dyn Settings>; 5] = [
        staged(Diversity::Auto, Stages::Count(3), 2),
        staged(Diversity::Load, Stages::By(StageRule::Operators), 1),
        Box::new(Lazy {
            max_batch: 4,
            comp_wait: Nanos(3_000),
        }),
        Box::new(Padded {
            bucket_width: 4,
            max_batch: 4,
            ..Padded::default()
        }),
        Box::new(Cellular {
            max_tasks: 3,
            max_batch: PerCell::All(4),
            ..Cellular::default()
        }),
    ];
    for policy in policies {
        let pins = policy.describe().name == "cellular";
        let promises = Guarantees {
            max_batch: 4,
            work_conserving: false,
            pins,
            cases: 60,
            ..Guarantees::default()
        };
        check_backend(&*policy, &promises, |model, requests, workers, run| {
            // The other models have tests of their own, and no stages.
            if matches!(model, Model::Network(_) | Model::Lstm) {
                start(model, requests, workers, run);
            }
        });
    }
}
