//! Under any policy, requests have the results that they have alone.

mod failures;
mod listed;
mod staying;
mod toy;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rand::RngExt;

use self::toy::Kind;
use super::Cpu;
use crate::base::units::{Nanos, RequestId};
use crate::core::engine;
use crate::core::policy::cellular::Cellular;
use crate::core::policy::dynet::{By, DyNet};
use crate::core::policy::ideal::Ideal;
use crate::core::policy::jit::{Granularity, Jit};
use crate::core::policy::merged::Merged;
use crate::core::policy::padded::Padded;
use crate::core::policy::registry::{Settings, Setup};
use crate::core::policy::unbatched::Unbatched;
use crate::core::policy::values::PerCell;
use crate::core::record::RecordOptions;
use crate::core::record::full::FullRecord;
use crate::core::workload::arrivals::OpenLoop;
use crate::core::workload::model::Model;
use crate::core::workload::operator::Sizes;
use crate::core::workload::operator::catalogue::Catalogue;
use crate::core::workload::random::{self, RandomSequence};
use crate::core::workload::shape::Shape;
use crate::core::workload::trace::Requests;
use crate::devices::network::{Network, Spec};
use crate::devices::tests::policies;

/// Serves requests that arrive a few microseconds apart, and returns their digests.
fn serve(
    network: &Arc<Network>,
    setup: &Setup<'_>,
    requests: &Requests,
    policy: &dyn Settings,
    rng: &mut RandomSequence,
) -> (Vec<Option<u64>>, FullRecord) {
    // There are several threads even on a machine with fewer cores.
    let lanes = usize::from(policy.streams(setup)).min(3);
    let mut policy = policy.build(setup).expect("settings that fit");
    let mut at = Nanos::ZERO;
    let gap = rng.random_range(1..20_000);
    let arrivals: Vec<Nanos> = (0..requests.len())
        .map(|_| {
            at += Nanos(rng.random_range(0..gap));
            at
        })
        .collect();
    let steps = setup.cells.len() + Catalogue::new(setup.model, &Sizes::square(1)).entries.len();
    let mut recorder = FullRecord::new(
        requests.len(),
        setup.workers,
        steps,
        RecordOptions::default(),
    );
    let mut source = OpenLoop::new(requests, &arrivals);
    let mut backend =
        Cpu::new(Arc::clone(network), requests, setup.workers, lanes, None).expect("threads");
    engine::run(
        &mut source,
        &mut *policy,
        &mut backend,
        &mut recorder,
        setup.workers,
        &AtomicBool::new(false),
    )
    .expect("this run is not stopped");
    let digests = (0..requests.len() as u64)
        .map(|request| backend.digest(RequestId(request)))
        .collect();
    (digests, recorder)
}

#[test]
fn every_request_has_the_result_of_a_single_run() {
    let network = toy::network();
    for case in 0..120 {
        let mut rng = random::sequence(case, 0, "cpu");
        let kind = Kind::ALL[case as usize % Kind::ALL.len()];
        let model = kind.model();
        let cells = kind.cells();
        let requests = kind.requests(rng.random_range(1..40), &mut rng);
        let setup = Setup {
            model: &model,
            cells: &cells,
            workers: rng.random_range(1..=3),
            costs: None,
            longest: None,
        };
        let policy = policies::random(
            kind.sequences(),
            if kind.sequences() { 4 } else { 1 },
            &mut rng,
        );
        let (digests, record) = serve(&network, &setup, &requests, &*policy, &mut rng);
        let case = format!(
            "case {case}: {kind:?} by {policy:?} on {} workers",
            setup.workers
        );
        assert_eq!(record.failures, [], "{case}");
        for (request, digest) in (0..).map(RequestId).zip(digests) {
            let alone = toy::alone(&network, request, &requests.graphs[request.index()]);
            assert_eq!(digest, Some(alone), "request {request} in {case}");
        }
    }
}

/// The parents, counted from 1, of the nodes of a tree, each with at most `most` children.
fn random_parents(nodes: usize, most: usize, rng: &mut RandomSequence) -> String {
    let mut children = vec![0; nodes + 1];
    let mut parents = vec!["0".to_string()];
    // Nodes are added from the root down, so that there is always one without children.
    for node in (1..nodes).rev() {
        let free: Vec<usize> = (node + 1..=nodes)
            .filter(|parent| children[*parent] < most)
            .collect();
        let parent = free[rng.random_range(0..free.len())];
        children[parent] += 1;
        parents.insert(0, parent.to_string());
    }
    parents.join(" ")
}

#[test]
fn the_cells_of_every_model_give_the_same_bits() {
    for (case, name) in (0..).zip([
        "lstm",
        "gru",
        "seq2seq",
        "tree-lstm",
        "childsum-tree-lstm",
        "dnn:block",
        "childsum-tree-lstm:2",
    ]) {
        let mut rng = random::sequence(case, 0, "cpu models");
        let model = Model::parse(name).expect("a model");
        let spec = Spec {
            hidden: 12,
            embedding: 12,
            vocabulary: 50,
            seed: case,
            weights: None,
        };
        let network = Network::new(&model, &spec).expect("weights from the seed");
        let network = Arc::new(match model {
            Model::Gru | Model::Dnn(_) => network,
            _ => network.with_operators().expect("it has operators"),
        });
        let cells = model.cell_types();
        let mut shape = || {
            let length = rng.random_range(1..9);
            let target = rng.random_range(1..9);
            match &model {
                Model::Lstm | Model::Gru | Model::Dnn(_) => format!("tokens:{length}"),
                Model::Seq2Seq => format!("seq2seq:{length}>{target}"),
                Model::Graph(_) | Model::Network(_) | Model::Llm(_) => {
                    unreachable!("none of the models is from a file")
                }
                Model::TreeLstm | Model::ChildSumTreeLstm | Model::ChildSumByArity(_) => {
                    let most = if model == Model::ChildSumTreeLstm {
                        9
                    } else {
                        2
                    };
                    format!("tree:{}", random_parents(length + target, most, &mut rng))
                }
            }
        };
        let shapes: Vec<Shape> = (0..30).map(|_| shape().parse().expect("a shape")).collect();
        let requests = Requests::unfold(shapes.into(), &model).expect("shapes of the model");
        for workers in 1..=2 {
            let setup = Setup {
                model: &model,
                cells: &cells,
                workers,
                costs: None,
                longest: None,
            };
            let mut policies: Vec<Box<dyn Settings>> = vec![
                Box::new(Cellular {
                    max_batch: PerCell::All(8),
                    ..Cellular::default()
                }),
                Box::new(Merged {
                    max_batch: 8,
                    ..Merged::default()
                }),
                Box::new(Ideal { max_batch: 8 }),
                Box::new(Unbatched {}),
                Box::new(Jit {
                    max_batch: 8,
                    ..Jit::default()
                }),
                Box::new(Jit {
                    granularity: Granularity::Graph,
                    max_batch: 8,
                    ..Jit::default()
                }),
            ];
            if network.by_operator.is_some() {
                for granularity in [Granularity::Operator, Granularity::Kernel] {
                    policies.push(Box::new(Jit {
                        granularity,
                        max_batch: 8,
                        ..Jit::default()
                    }));
                }
                for by in [By::Agenda, By::Depth] {
                    policies.push(Box::new(DyNet {
                        by,
                        max_batch: 8,
                        ..DyNet::default()
                    }));
                }
            }
            if !name.contains("tree") {
                policies.push(Box::new(Padded {
                    max_batch: 8,
                    ..Padded::default()
                }));
            }
            for policy in policies {
                let (digests, record) = serve(&network, &setup, &requests, &*policy, &mut rng);
                assert_eq!(record.failures, [], "{name} by {policy:?}");
                for (request, digest) in (0..).map(RequestId).zip(digests) {
                    let alone = network
                        .alone(request, &requests.graphs[request.index()])
                        .digest();
                    assert_eq!(
                        digest,
                        Some(alone),
                        "request {request}: {name} by {policy:?} on {workers} workers"
                    );
                }
            }
        }
    }
}
