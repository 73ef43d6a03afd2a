//! On a fake device that completes late and reorders freely, every policy must give each request the result that it has
//! alone, and a fault must fail exactly the requests that it affects.

mod failures;
mod fake;
mod laws;
mod listed;
mod sequences;
mod staying;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use rand::RngExt as _;

use self::fake::Fake;
use super::{BETWEEN_CALLS, Cuda, Options};
use crate::base::units::{CellId, Nanos, RequestId, StreamId, TaskId, WorkerId};
use crate::core::backend::Backend;
use crate::core::backend::Output;
use crate::core::cost::CostModel;
use crate::core::engine;
use crate::core::policy::cellular::Cellular;
use crate::core::policy::registry::{Settings, Setup};
use crate::core::policy::values::{BatchSizes, PerCell};
use crate::core::record::RecordOptions;
use crate::core::record::full::FullRecord;
use crate::core::task::{Completion, MemberList, Task};
use crate::core::workload::arrivals::OpenLoop;
use crate::core::workload::cell_graph::tree::Tree;
use crate::core::workload::model::Model;
use crate::core::workload::random::{self, RandomSequence};
use crate::core::workload::shape::Shape;
use crate::core::workload::trace::Requests;
use crate::devices::network::{Network, Spec};
use crate::devices::tests::policies;

/// The models with cells for GPUs.
const MODELS: [&str; 6] = [
    "lstm",
    "gru",
    "seq2seq",
    "tree-lstm",
    "childsum-tree-lstm",
    "childsum-tree-lstm:4",
];

fn network(model: &str, seed: u64) -> Arc<Network> {
    let model = Model::parse(model).expect("a model");
    let spec = Spec {
        hidden: 6,
        embedding: 5,
        vocabulary: 40,
        seed,
        weights: None,
    };
    Arc::new(Network::new(&model, &spec).expect("weights from the seed"))
}

fn requests(model: &Model, count: usize, rng: &mut RandomSequence) -> Requests {
    let mut shape = || match model {
        Model::Seq2Seq => Shape::Seq2Seq {
            source: rng.random_range(1..9),
            target: rng.random_range(1..9),
        },
        Model::TreeLstm | Model::ChildSumTreeLstm | Model::ChildSumByArity(_) => {
            let most = if *model == Model::TreeLstm { 2 } else { 4 };
            let mut children = vec![0];
            let mut parents = vec![0];
            for node in 1..rng.random_range(1..16) {
                let free: Vec<usize> = (0..node)
                    .filter(|parent| children[*parent] < most)
                    .collect();
                let parent = free[rng.random_range(0..free.len())];
                children[parent] += 1;
                children.push(0);
                parents.push(parent as u32 + 1);
            }
            Shape::Tree(Arc::new(
                Tree::from_parents(&parents).expect("parents stand before their children"),
            ))
        }
        _ => Shape::Chain(rng.random_range(1..12)),
    };
    let shapes: Vec<Shape> = (0..count).map(|_| shape()).collect();
    Requests::unfold(shapes.into(), model).expect("shapes of the model")
}

/// A random policy that serves the model.
fn random_policy(model: &Model, rng: &mut RandomSequence) -> Box<dyn Settings> {
    policies::of_model(
        !model.takes_trees(),
        if matches!(model, Model::Lstm | Model::Gru) {
            5
        } else {
            1
        },
        rng,
    )
}

/// Spreads a policy's tasks over the given streams and, on request, over other workers, so that dependent tasks are in
/// flight at the same time.
struct Spread<'b, 'd> {
    inner: &'b mut Cuda<'d, Fake>,
    rng: RandomSequence,
    streams: u16,
    workers: Option<u16>,
}

impl Backend for Spread<'_, '_> {
    fn now(&self) -> Nanos {
        self.inner.now()
    }

    fn submit(&mut self, id: TaskId, task: &Task<'_>, members: Option<MemberList>) {
        let stream = match self.streams {
            0 => task.stream,
            streams => StreamId(self.rng.random_range(0..streams)),
        };
        let worker = self.workers.map_or(task.worker, |workers| {
            WorkerId(self.rng.random_range(0..workers))
        });
        self.inner.submit(
            id,
            &Task {
                worker,
                stream,
                ..*task
            },
            members,
        );
    }

    fn wait(&mut self, until: Option<Nanos>) -> Option<Completion> {
        self.inner.wait(until)
    }

    /// A task that goes astray does not follow the one before it.
    fn wants_members(&self) -> bool {
        self.streams > 1 || self.workers.is_some()
    }

    fn spare(&mut self) -> Option<MemberList> {
        self.inner.spare()
    }

    fn failure(&mut self, request: RequestId) -> Option<String> {
        self.inner.failure(request)
    }
}

struct Service<'s> {
    network: &'s Arc<Network>,
    requests: &'s Requests,
    policy: &'s dyn Settings,
    workers: usize,
    streams: u16,
    /// Whether tasks also go to workers that the policy did not choose.
    astray: bool,
    /// The costs known to the policy.
    costs: Option<Arc<dyn CostModel>>,
    options: Options,
    room: usize,
    between_calls: Duration,
}

impl<'s> Service<'s> {
    /// A service with one worker and one stream, which keeps all requests.
    fn new(
        network: &'s Arc<Network>,
        requests: &'s Requests,
        policy: &'s dyn Settings,
    ) -> Service<'s> {
        let keep = (0..requests.len() as u64).map(RequestId).collect();
        let options = Options {
            keep,
            ..Options::default()
        };
        Service {
            network,
            requests,
            policy,
            workers: 1,
            streams: 1,
            astray: false,
            costs: None,
            options,
            room: 64,
            between_calls: BETWEEN_CALLS,
        }
    }

    /// Serves the requests, which arrive a few microseconds apart, and returns their outputs.
    fn serve(
        &self,
        device: &mut Fake,
        rng: &mut RandomSequence,
    ) -> (Vec<Option<Output>>, FullRecord) {
        let model = self.network.model();
        let cells = model.cell_types();
        let setup = Setup {
            model,
            cells: &cells,
            workers: self.workers,
            costs: self.costs.as_ref(),
            longest: None,
        };
        let mut policy = self.policy.build(&setup).expect("settings that fit");
        let mut at = Nanos::ZERO;
        let gap = rng.random_range(1..20_000);
        let next = |_| {
            at += Nanos(rng.random_range(0..gap));
            at
        };
        let arrivals: Vec<Nanos> = (0..self.requests.len()).map(next).collect();
        let keep = RecordOptions {
            tasks: true,
            ..RecordOptions::default()
        };
        let mut recorder = FullRecord::new(self.requests.len(), self.workers, cells.len(), keep);
        let mut source = OpenLoop::new(self.requests, &arrivals);
        let network = Arc::clone(self.network);
        let options = Options {
            room: Some(self.room),
            ..self.options.clone()
        };
        let mut cuda = Cuda::new(device, network, self.requests, self.workers, &options)
            .expect("a device that is well");
        cuda.between_calls = self.between_calls;
        let workers = self.astray.then_some(self.workers as u16);
        let mut backend = Spread {
            inner: &mut cuda,
            rng: random::sequence(rng.random(), 0, "spread"),
            streams: self.streams,
            workers,
        };
        engine::run(
            &mut source,
            &mut *policy,
            &mut backend,
            &mut recorder,
            self.workers,
            &AtomicBool::new(false),
        )
        .expect("this run is not stopped");
        cuda.collect();
        assert!(!cuda.launcher.streams.are_busy(), "nothing is in progress");
        assert_eq!(
            cuda.launcher.states.pools.used_slots(),
            0,
            "all slots have been given back"
        );
        let outputs = (0..self.requests.len() as u64)
            .map(|request| cuda.output(RequestId(request)))
            .collect();
        let mut lost = |worker: &WorkerId| cuda.launcher.states.pools.lost(*worker).is_some();
        let lost: Vec<WorkerId> = (0..self.workers as u16)
            .map(WorkerId)
            .filter(&mut lost)
            .collect();
        drop(cuda);
        let told = &recorder.failures;
        assert!(
            lost.iter().all(|worker| device.has_died(*worker)),
            "{lost:?} were given up: {told:?}"
        );
        assert!(device.is_idle(), "all that was queued has run");
        assert!(device.plans() <= device.most_plans);
        (outputs, recorder)
    }

    fn alone(&self, request: usize) -> Output {
        self.network
            .alone(RequestId(request as u64), &self.requests.graphs[request])
    }
}

#[test]
fn every_request_has_the_results_of_a_run_by_itself() {
    for case in 0..240 {
        let mut rng = random::sequence(case, 0, "cuda");
        let network = network(MODELS[case as usize % MODELS.len()], case);
        let requests = requests(network.model(), rng.random_range(1..40), &mut rng);
        let policy = random_policy(network.model(), &mut rng);
        let mut service = Service::new(&network, &requests, &*policy);
        service.workers = rng.random_range(1..=3);
        service.streams = rng.random_range(1..=3);
        service.astray = rng.random_bool(0.3);
        let mut device = Fake::new(&network, random::sequence(case, 0, "cuda device"));
        device.most_steps = [0, 0, 1, 4, 100][rng.random_range(0..5)];
        let (outputs, record) = service.serve(&mut device, &mut rng);
        let case = format!(
            "case {case}: {} by {policy:?} on {} workers with {} streams and up to {} steps in a launch",
            network.model().name(),
            service.workers,
            service.streams,
            device.most_steps
        );
        assert_eq!(record.failures, [], "{case}");
        for (request, output) in outputs.into_iter().enumerate() {
            assert_eq!(
                output,
                Some(service.alone(request)),
                "request {request} in {case}"
            );
        }
    }
}

#[test]
fn a_device_serves_run_after_run() {
    let network = network("seq2seq", 1);
    let mut rng = random::sequence(1, 0, "cuda runs");
    let mut device = Fake::new(&network, random::sequence(1, 0, "cuda runs device"));
    for largest in [4, 8, 8] {
        let requests = requests(network.model(), 20, &mut rng);
        let policy = Cellular {
            max_batch: PerCell::All(8),
            ..Cellular::default()
        };
        let mut service = Service::new(&network, &requests, &policy);
        service.options.materialise = vec![(CellId(0), largest), (CellId(1), largest)];
        let (outputs, _) = service.serve(&mut device, &mut rng);
        for (request, output) in outputs.into_iter().enumerate() {
            assert_eq!(output, Some(service.alone(request)));
        }
    }
    assert_eq!(
        device.plans(),
        16,
        "those that were made ready ahead stay, and no others"
    );
}

#[test]
fn only_supported_sizes_are_made_ready() {
    let network = network("seq2seq", 1);
    let mut rng = random::sequence(1, 0, "cuda sizes");
    let mut device = Fake::new(&network, random::sequence(1, 0, "cuda sizes device"));
    let requests = requests(network.model(), 20, &mut rng);
    let sizes = vec![2, 5, 8];
    let batch_sizes = BatchSizes(Some(sizes.clone()));
    let policy = Cellular {
        max_batch: PerCell::All(8),
        batch_sizes,
        ..Cellular::default()
    };
    let mut service = Service::new(&network, &requests, &policy);
    service.options = Options {
        materialise: vec![(CellId(0), 8), (CellId(1), 8)],
        sizes,
        ..Options::default()
    };
    service.serve(&mut device, &mut rng);
    assert_eq!(device.plans(), 6);
}

#[test]
fn parts_of_requests_run_what_was_made_ready_for_them() {
    let network = network("lstm", 1);
    let mut rng = random::sequence(1, 0, "cuda parts");
    let mut device = Fake::new(&network, random::sequence(1, 0, "cuda parts device"));
    let requests = requests(network.model(), 30, &mut rng);
    let policy = Cellular {
        max_batch: PerCell::All(8),
        chunk: 3,
        ..Cellular::default()
    };
    let mut service = Service::new(&network, &requests, &policy);
    (
        service.options.materialise,
        service.options.several_launches,
    ) = (vec![(CellId(0), 8)], true);
    let (outputs, _) = service.serve(&mut device, &mut rng);
    for (request, output) in outputs.into_iter().enumerate() {
        assert_eq!(output, Some(service.alone(request)));
    }
    assert_eq!(
        device.most_plans, 8,
        "no other was made while the requests were served"
    );
}

#[test]
fn only_outputs_that_are_kept_are_there() {
    for model in MODELS {
        let network = network(model, 2);
        let mut rng = random::sequence(2, 0, "cuda kept");
        let requests = requests(network.model(), 12, &mut rng);
        let policy = Cellular::default();
        let mut service = Service::new(&network, &requests, &policy);
        service.options.keep = vec![RequestId(3), RequestId(7), RequestId(11)];
        let mut device = Fake::new(&network, random::sequence(2, 0, "cuda kept device"));
        let (outputs, _) = service.serve(&mut device, &mut rng);
        for (request, output) in outputs.into_iter().enumerate() {
            assert_eq!(
                output,
                [3, 7, 11]
                    .contains(&request)
                    .then(|| service.alone(request)),
                "{model}"
            );
        }
    }
}
