//! The laws that every policy keeps, as a kit: one line in a test checks a policy on random workloads.
//!
//! ```
//! use batchlab::conformance::{Promises, check};
//! use batchlab::policy::padded::Padded;
//!
//! check(&Padded { max_batch: 4, ..Padded::default() }, &Promises { max_batch: 4, ..Promises::default() });
//! ```
//!
//! The laws are read off a record of what the policy submitted and what came of it, never off the policy:
//!
//! 1. **Conservation**: every request leaves once, finished or rejected; every node of a finished request runs once.
//! 2. **Order**: no node starts before the nodes that it needs are done.
//! 3. **Caps**: no batch is larger than promised; a cell task holds nodes of one cell type; the cells that a task calls
//!    useful are those of its members, and it executes no fewer.
//! 4. **Causality**: arrival ≤ submission ≤ start ≤ finish, and a request leaves when its last node is done.
//! 5. **Work**: the tasks of a stream do not overlap, and a worker is busy while at least one of its tasks runs.
//! 6. **Little's law**: the number in the system, integrated over time, is the sum of the latencies.
//! 7. **Repetition**: the same events give the same tasks, whether the backend asks for the nodes or not.
//! 8. **Work conservation**, if promised: no worker idles while a request waits of which nothing runs.
//! 9. **Pinning**, if promised: while a subgraph has unfinished tasks on one worker, none of its nodes goes to another.
//! 10. **Bounds**, if promised: no request takes less than its critical path at the best batches, and no set of workers serves
//!     more in a time than at the best batches ([`crate::metrics::bounds`]).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rand::RngExt as _;

use crate::backend::{Backend, Completion, MemberList, NodeRef, Step, Task, sim};
use crate::cost::table::{CostTable, Overhead, TableModel};
use crate::driver::drive;
use crate::metrics::bounds::Fastest;
use crate::metrics::laws;
use crate::metrics::recorder::{Keep, Recorder};
use crate::policy::registry::{Configured, Setup};
use crate::units::{CellId, Nanos, NodeId, RequestId, StreamId, TaskId, WorkerId};
use crate::workload::arrivals::OpenLoop;
use crate::workload::cell_graph::{CellGraph, Run};
use crate::workload::dnn::Dnn;
use crate::workload::graph_model::{GraphModel, Takes};
use crate::workload::model::Model;
use crate::workload::operator::Sizes;
use crate::workload::operator::catalogue::Catalogue;
use crate::workload::random::{self, Stream};
use crate::workload::shape::{Shape, Tree};
use crate::workload::trace::Requests;

/// What a policy promises beyond the laws that hold for all.
#[derive(Clone, Copy, Debug)]
pub struct Promises {
    /// The largest batch: nodes of a cell task, requests of a batch of whole graphs.
    pub max_batch: u32,
    /// No worker idles while a request waits of which nothing runs. Not so with batch windows.
    pub work_conserving: bool,
    /// The nodes of a subgraph with unfinished tasks go to the worker of these tasks.
    pub pins: bool,
    /// Every node runs as a cell, for what the cost table says.
    pub bounded: bool,
    /// How many random workloads are tried.
    pub cases: u32,
}

impl Default for Promises {
    fn default() -> Self {
        Promises { max_batch: u32::MAX, work_conserving: true, pins: true, bounded: true, cases: 200 }
    }
}

/// Checks a policy on random workloads of every model that it serves.
///
/// # Panics
/// Names the law that is broken, with the workload that shows it; or says that the policy serves no model at all.
pub fn check(policy: &dyn Configured, promises: &Promises) {
    let mut served = 0;
    for number in 0..promises.cases {
        let case = Case::draw(number);
        let cells = case.model.cell_types();
        let device = case.device();
        let setup = Setup { model: &case.model, cells: &cells, workers: case.workers, costs: Some(&device) };
        if policy.build_policy(&setup).is_err() {
            continue; // A policy may refuse a model, and says why where a user meets it.
        }
        served += 1;
        let watched = case.run(policy, &setup, true);
        let broken = first_broken(&case, &watched, promises).or_else(|| {
            let again = case.run(policy, &setup, true);
            let unwatched = case.run(policy, &setup, false);
            (again.tasks != watched.tasks || again.finish != watched.finish)
                .then(|| "repetition: a second run of the same events differs".to_string())
                .or_else(|| {
                    (unwatched.finish != watched.finish).then(|| {
                        "repetition: the schedule depends on whether the backend asks for the nodes".to_string()
                    })
                })
        });
        if let Some(law) = broken {
            panic!("{policy:?} breaks a law on case {number}: {law}\n{}", case.describe());
        }
    }
    assert!(served > 0, "{policy:?} serves none of the models in {} cases", promises.cases);
}

/// Checks a backend with a clock of its own: that what it tells of the runs of a policy keeps those of the laws that do not
/// depend on the simulator's exact times (conservation, order, caps, causality, work and pinning). `on` is given a workload's model,
/// its requests and the number of workers, and passes a backend for them to the function, or leaves out what it can't run.
///
/// # Panics
/// Names the law that is broken, with the workload that shows it; or says that no workload was run.
pub fn check_backend(
    policy: &dyn Configured,
    promises: &Promises,
    mut on: impl FnMut(&Model, &Requests, usize, &mut dyn FnMut(&mut dyn Backend)),
) {
    let mut served = 0;
    for number in 0..promises.cases {
        let case = Case::draw(number);
        let cells = case.model.cell_types();
        let device = case.device();
        let setup = Setup { model: &case.model, cells: &cells, workers: case.workers, costs: Some(&device) };
        if policy.runs_operators() || policy.build_policy(&setup).is_err() {
            continue;
        }
        on(&case.model, &case.requests, case.workers, &mut |backend| {
            served += 1;
            let run = case.run_on(backend, policy, &setup, true);
            let broken = caps(&case, &run, promises)
                .and_then(|()| conservation(&case, &run))
                .and_then(|()| order(&case, &run))
                .and_then(|()| causality(&case, &run))
                .and_then(|()| busy_time(&run))
                .and_then(|()| if promises.pins { pinning(&case, &run) } else { Ok(()) });
            if let Err(law) = broken {
                panic!("a backend breaks a law under {policy:?} on case {number}: {law}\n{}", case.describe());
            }
        });
    }
    assert!(served > 0, "none of {} workloads was run", promises.cases);
}

/// A random workload on a random device.
struct Case {
    model: Model,
    workers: usize,
    costs: String,
    overhead: Overhead,
    requests: Requests,
    arrivals: Vec<Nanos>,
}

impl Case {
    fn draw(number: u32) -> Case {
        let rng = &mut random::stream(u64::from(number), 0, "conformance");
        let model = draw_model(number, rng);
        let count = rng.random_range(1..=40);
        let shapes: Arc<[Shape]> = (0..count).map(|_| draw_shape(&model, rng)).collect();
        let mut clock = 0;
        let arrivals = (0..count)
            .map(|_| {
                // Bursts at one instant, gaps of about a task, and long silences.
                clock += [0, 0, rng.random_range(0..300), rng.random_range(0..5_000)][rng.random_range(0..4)];
                Nanos(clock)
            })
            .collect();
        let mut costs = String::from("cell,batch,ns\n");
        for cell in model.cell_types() {
            for batch in [1, 4, 16] {
                let _ = writeln!(costs, "{},{batch},{}", cell.name, rng.random_range(1..100) * (3 + batch));
            }
        }
        let mut nanos = || Some(Nanos(rng.random_range(0..20)));
        // No launch: during one a worker waits for work that it has, which the law of work conservation takes for idling.
        let overhead = Overhead { task: nanos(), gather: nanos(), launch: None };
        let requests = Requests::unfold(shapes, &model).expect("the shapes are the model's own");
        Case { model, workers: rng.random_range(1..=4), costs, overhead, requests, arrivals }
    }

    fn device(&self) -> TableModel {
        let operators = Catalogue::new(&self.model, &Sizes::square(8));
        CostTable::parse(&self.costs, "costs")
            .and_then(|table| table.device_with(&self.model.cell_types(), &operators, self.overhead))
            .expect("the table has all of the model's cells")
    }

    fn run(&self, policy: &dyn Configured, setup: &Setup<'_>, watch: bool) -> Record {
        let mut backend = sim::device(self.workers, policy.streams(setup), self.device());
        self.run_on(&mut *backend, policy, setup, watch)
    }

    fn run_on(&self, backend: &mut dyn Backend, policy: &dyn Configured, setup: &Setup<'_>, watch: bool) -> Record {
        let streams = policy.streams(setup);
        let mut policy = policy.build_policy(setup).expect("it was built before");
        let mut backend = Watched { inner: backend, watch, tasks: Vec::new() };
        let mut recorder = Recorder::new(self.requests.len(), self.workers, setup.cells.len(), Keep::default());
        let mut source = OpenLoop::new(&self.requests, &self.arrivals);
        let stop = AtomicBool::new(false);
        drive(&mut source, &mut *policy, &mut backend, &mut recorder, self.workers, &stop)
            .expect("nobody interrupts the run");
        Record {
            littles_law: laws::littles_law(&recorder).map_err(|error| format!("Little's law: {error}")),
            tasks: backend.tasks,
            start: recorder.start,
            finish: recorder.finish,
            rejected: recorder.rejected,
            busy: recorder.busy,
            streams,
        }
    }

    fn describe(&self) -> String {
        let mut text =
            format!("model {}, {} workers, {:?}\n{}", self.model.name(), self.workers, self.overhead, self.costs);
        text.push_str("id,arrival_ns,shape\n");
        for (id, (arrival, shape)) in self.arrivals.iter().zip(self.requests.shapes.iter()).enumerate() {
            let _ = writeln!(text, "{id},{},{shape}", arrival.0);
        }
        text
    }
}

/// Graph models whose subgraphs are cut in different ways: layers that lie on each other, two chains in opposite directions, chains
/// proper, trees, and graphs one by one, with batch sizes that a batch is padded to.
const GRAPHS: [&str; 5] = [
    include_str!("../scenarios/graphs/two-layers.json"),
    include_str!("../scenarios/graphs/bidirectional.json"),
    include_str!("../scenarios/graphs/attention.json"),
    include_str!("../scenarios/graphs/tree.json"),
    include_str!("../scenarios/graphs/explicit.json"),
];

/// A network whose operators depend on the tokens, but for the last.
const NETWORK: &str = include_str!("../scenarios/networks/example.csv");

/// The models take turns; every fifth workload is of a graph model, every tenth of a network.
fn draw_model(number: u32, rng: &mut Stream) -> Model {
    match number % 5 {
        0 => Model::Lstm,
        1 => Model::Seq2Seq,
        // With more children than any node of the trees that are drawn.
        2 => [Model::TreeLstm, Model::ChildSumByArity(15)][rng.random_range(0..2)].clone(),
        3 if number % 10 == 3 => {
            let network = Dnn::parse("example.csv", Path::new("example.csv"), NETWORK);
            Model::Network(Arc::new(network.expect("the example is sound")))
        }
        3 => Model::Dnn("net".into()),
        _ => {
            let number = rng.random_range(0..GRAPHS.len());
            let model = GraphModel::parse("example", Path::new("example"), GRAPHS[number]);
            Model::Graph(Arc::new(model.expect("the examples are sound")))
        }
    }
}

fn draw_shape(model: &Model, rng: &mut Stream) -> Shape {
    match model {
        Model::Lstm | Model::Gru => Shape::Chain(rng.random_range(1..=12)),
        Model::Seq2Seq => Shape::Seq2Seq { source: rng.random_range(1..=8), target: rng.random_range(1..=8) },
        Model::TreeLstm | Model::ChildSumTreeLstm | Model::ChildSumByArity(_) => {
            // Each node but the first hangs below one drawn before it, so that any arity and any order of leaves occurs.
            let nodes = rng.random_range(1..=15u32);
            let parents: Vec<u32> = (0..nodes).map(|i| if i == 0 { 0 } else { rng.random_range(1..=i) }).collect();
            Shape::Tree(Arc::new(Tree::from_parents(&parents).expect("parents stand before their children")))
        }
        Model::Graph(graph) => match graph.takes() {
            Takes::Chains => Shape::Chain(rng.random_range(1..=12)),
            Takes::Pairs => Shape::Seq2Seq { source: rng.random_range(1..=8), target: rng.random_range(1..=8) },
            Takes::Trees => draw_shape(&Model::TreeLstm, rng),
            Takes::Graphs => {
                let graphs = graph.weights().map_or(1, |weights| weights.len() as u32);
                Shape::Graph(rng.random_range(1..=graphs))
            }
        },
        Model::Network(_) => Shape::Tokens(rng.random_range(1..=40)),
        Model::Dnn(_) if rng.random() => Shape::Tokens(rng.random_range(1..=40)),
        Model::Dnn(_) => Shape::Fixed,
    }
}

/// What came of a run.
struct Record {
    littles_law: Result<(), String>,
    tasks: Vec<Watch>,
    start: Vec<Nanos>,
    finish: Vec<Nanos>,
    rejected: u64,
    busy: Vec<Nanos>,
    /// How many streams of each worker the policy says that it uses.
    streams: u16,
}

/// A task as it was submitted, and its times.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Watch {
    worker: WorkerId,
    stream: StreamId,
    cell: CellId,
    batch: u32,
    step_batch: u32,
    executed_cells: u64,
    useful_cells: u64,
    members: Option<MemberList>,
    submit: Nanos,
    start: Nanos,
    finish: Nanos,
}

/// A backend that writes down what passes through it.
struct Watched<'b> {
    inner: &'b mut dyn Backend,
    watch: bool,
    tasks: Vec<Watch>,
}

impl Backend for Watched<'_> {
    fn now(&self) -> Nanos {
        self.inner.now()
    }

    fn submit(&mut self, id: TaskId, task: &Task<'_>, members: Option<MemberList>) {
        self.tasks.push(Watch {
            worker: task.worker,
            stream: task.stream,
            cell: task.steps[0].cell,
            batch: task.batch,
            step_batch: task.steps[0].batch,
            executed_cells: task.steps.iter().map(Step::cells).sum(),
            useful_cells: task.useful_cells,
            members: members.clone(),
            submit: self.now(),
            start: Nanos::MAX,
            finish: Nanos::MAX,
        });
        self.inner.submit(id, task, members);
    }

    fn wait(&mut self, until: Option<Nanos>) -> Option<Completion> {
        let completion = self.inner.wait(until)?;
        let task = &mut self.tasks[completion.task.0 as usize];
        (task.start, task.finish) = (completion.start, completion.finish);
        Some(completion)
    }

    fn wants_members(&self) -> bool {
        self.watch
    }

    fn batches(&self, cell: CellId) -> &[u32] {
        self.inner.batches(cell)
    }
}

/// The first law that the run breaks, if there is one.
fn first_broken(case: &Case, run: &Record, promises: &Promises) -> Option<String> {
    let checks: [&dyn Fn() -> Result<(), String>; 9] = [
        &|| caps(case, run, promises),
        &|| conservation(case, run),
        &|| order(case, run),
        &|| causality(case, run),
        &|| busy_time(run),
        &|| run.littles_law.clone(),
        &|| if promises.work_conserving { work_conservation(case, run) } else { Ok(()) },
        &|| if promises.pins { pinning(case, run) } else { Ok(()) },
        &|| if promises.bounded { bounds(case, run) } else { Ok(()) },
    ];
    checks.iter().find_map(|check| check().err())
}

/// The nodes of a task; `None` for whole graphs, whose inner order is the backend's.
fn cell_nodes(task: &Watch) -> Option<&[NodeRef]> {
    match task.members.as_ref().expect("the run was watched") {
        MemberList::Nodes(nodes) => Some(nodes),
        MemberList::Requests(_) => None,
    }
}

fn members(task: &Watch, case: &Case) -> Vec<NodeRef> {
    match task.members.as_ref().expect("the run was watched") {
        MemberList::Nodes(nodes) => nodes.clone(),
        MemberList::Requests(requests) => requests
            .iter()
            .flat_map(|request| {
                let nodes = case.requests.graphs[request.index()].nodes() as u32;
                (0..nodes).map(|node| NodeRef { request: *request, node: NodeId(node) })
            })
            .collect(),
    }
}

fn cell_of(graph: &CellGraph, node: NodeId) -> CellId {
    match graph {
        CellGraph::Graph(graph) => graph.cells()[node.index()],
        CellGraph::Chains(runs) => run_of(runs, node).cell,
    }
}

/// As how many cells a node counts: the size of its input, where it has one.
fn size_of(graph: &CellGraph, node: NodeId) -> u64 {
    match graph {
        CellGraph::Graph(_) => 1,
        CellGraph::Chains(runs) => u64::from(run_of(runs, node).input.max(1)),
    }
}

fn run_of(runs: &[Run], node: NodeId) -> Run {
    let mut behind = 0;
    let run = runs.iter().find(|run| {
        behind += run.length;
        node.0 < behind
    });
    *run.expect("a node is in one of the runs")
}

/// The subgraph of each node and the edges of a request's graph.
fn spell_out(graph: &CellGraph) -> (Vec<u32>, Vec<(u32, u32)>) {
    match graph {
        CellGraph::Graph(graph) => {
            let edges = (0..graph.len() as u32).flat_map(|n| graph.successors(n).iter().map(move |m| (n, *m)));
            (graph.subgraph_of().to_vec(), edges.collect())
        }
        CellGraph::Chains(runs) => {
            let subgraphs: Vec<u32> =
                runs.iter().enumerate().flat_map(|(i, run)| vec![i as u32; run.length as usize]).collect();
            let edges = (1..subgraphs.len() as u32).map(|n| (n - 1, n)).collect();
            (subgraphs, edges)
        }
    }
}

fn caps(case: &Case, run: &Record, promises: &Promises) -> Result<(), String> {
    for (id, task) in run.tasks.iter().enumerate() {
        if task.batch > promises.max_batch || task.batch == 0 {
            return Err(format!("caps: task {id} has a batch of {}; at most {}", task.batch, promises.max_batch));
        }
        let own: u64 =
            members(task, case).iter().map(|n| size_of(&case.requests.graphs[n.request.index()], n.node)).sum();
        if task.useful_cells != own || task.executed_cells < own {
            return Err(format!(
                "caps: task {id} executes {} cells, calls {} useful, and its members have {own}",
                task.executed_cells, task.useful_cells
            ));
        }
        let Some(nodes) = cell_nodes(task) else { continue };
        let sizes = &case.model.cell_types()[task.cell.index()].batches;
        let as_many = sizes.iter().copied().find(|size| *size >= task.batch).unwrap_or(task.batch);
        if nodes.len() != task.batch as usize || task.step_batch != as_many {
            return Err(format!(
                "caps: task {id} says {}, runs {} at once and holds {} nodes",
                task.batch,
                task.step_batch,
                nodes.len()
            ));
        }
        if let Some(other) =
            nodes.iter().find(|n| cell_of(&case.requests.graphs[n.request.index()], n.node) != task.cell)
        {
            return Err(format!("caps: task {id} of cell {} holds {other:?} of another cell type", task.cell));
        }
    }
    Ok(())
}

fn conservation(case: &Case, run: &Record) -> Result<(), String> {
    let finished = run.finish.iter().filter(|at| **at != Nanos::MAX).count() as u64;
    if finished + run.rejected != run.finish.len() as u64 {
        let lost = run.finish.iter().position(|at| *at == Nanos::MAX).unwrap_or(0);
        return Err(format!("conservation: request {lost} never left"));
    }
    let mut runs: Vec<Vec<u32>> = case.requests.graphs.iter().map(|g| vec![0; g.nodes() as usize]).collect();
    for node in run.tasks.iter().flat_map(|task| members(task, case)) {
        runs[node.request.index()][node.node.index()] += 1;
    }
    for (request, counts) in runs.iter().enumerate() {
        let expected = u32::from(run.finish[request] != Nanos::MAX);
        if let Some(node) = counts.iter().position(|count| *count != expected) {
            return Err(format!("conservation: node {node} of request {request} ran {} times", counts[node]));
        }
    }
    Ok(())
}

fn order(case: &Case, run: &Record) -> Result<(), String> {
    let mut times: BTreeMap<NodeRef, (Nanos, Nanos)> = BTreeMap::new();
    for task in &run.tasks {
        for node in cell_nodes(task).unwrap_or_default() {
            times.insert(*node, (task.start, task.finish));
        }
    }
    for (request, graph) in case.requests.graphs.iter().enumerate() {
        let at = |node| times.get(&NodeRef { request: RequestId(request as u32), node: NodeId(node) });
        for (from, to) in spell_out(graph).1 {
            if let (Some(before), Some(after)) = (at(from), at(to))
                && after.0 < before.1
            {
                return Err(format!("order: node {to} of request {request} starts before node {from} is done"));
            }
        }
    }
    Ok(())
}

fn causality(case: &Case, run: &Record) -> Result<(), String> {
    let mut last = vec![Nanos::ZERO; run.finish.len()];
    let mut first = vec![Nanos::MAX; run.finish.len()];
    for (id, task) in run.tasks.iter().enumerate() {
        if task.submit > task.start || task.start > task.finish {
            return Err(format!("causality: task {id} runs before it is submitted, or ends before it starts"));
        }
        for node in members(task, case) {
            let request = node.request.index();
            if task.submit < case.arrivals[request] {
                return Err(format!("causality: task {id} holds request {request}, which has not arrived"));
            }
            last[request] = last[request].max(task.finish);
            first[request] = first[request].min(task.start);
        }
    }
    for (request, finish) in run.finish.iter().enumerate().filter(|(_, at)| **at != Nanos::MAX) {
        if *finish != last[request] {
            return Err(format!(
                "causality: request {request} leaves at {finish}, its last node is done at {}",
                last[request]
            ));
        }
        if run.start[request] != first[request] {
            return Err(format!(
                "causality: request {request} is said to start at {}, its first node starts at {}",
                run.start[request], first[request]
            ));
        }
    }
    Ok(())
}

fn busy_time(run: &Record) -> Result<(), String> {
    if let Some(id) = run.tasks.iter().position(|task| task.stream.0 >= run.streams) {
        let Watch { stream, .. } = run.tasks[id];
        return Err(format!("work: task {id} is on stream {stream}, and the policy uses {}", run.streams));
    }
    let tasks = run.tasks.iter().map(|task| (task.worker, task.stream, task.start, task.finish));
    laws::busy_is_covered(&run.busy, tasks).map_err(|broken| format!("work: {broken}"))
}

fn work_conservation(case: &Case, run: &Record) -> Result<(), String> {
    let end = run.finish.iter().filter(|at| **at != Nanos::MAX).max().copied().unwrap_or(Nanos::ZERO);
    let mut idle: Vec<(Nanos, Nanos)> = Vec::new();
    for worker in 0..case.workers {
        let spans = run.tasks.iter().filter(|t| t.worker.index() == worker).map(|t| (t.submit, t.finish));
        idle.extend(gaps(spans.collect(), Nanos::ZERO, end));
    }
    let mut tasks_of: Vec<Vec<(Nanos, Nanos)>> = vec![Vec::new(); run.finish.len()];
    for task in &run.tasks {
        for node in members(task, case) {
            tasks_of[node.request.index()].push((task.submit, task.finish));
        }
    }
    for (request, spans) in tasks_of.into_iter().enumerate().filter(|(r, _)| run.finish[*r] != Nanos::MAX) {
        for waits in gaps(spans, case.arrivals[request], run.finish[request]) {
            if let Some(gap) = idle.iter().find(|gap| gap.0.max(waits.0) < gap.1.min(waits.1)) {
                return Err(format!(
                    "work conservation: request {request} waits from {} to {}, and a worker idles from {} to {}",
                    waits.0, waits.1, gap.0, gap.1
                ));
            }
        }
    }
    Ok(())
}

/// The parts of a span that none of the given spans covers.
fn gaps(mut spans: Vec<(Nanos, Nanos)>, from: Nanos, to: Nanos) -> Vec<(Nanos, Nanos)> {
    spans.sort_unstable();
    let mut open = Vec::new();
    let mut covered = from;
    for (start, end) in spans {
        if start > covered {
            open.push((covered, start));
        }
        covered = covered.max(end);
    }
    if covered < to {
        open.push((covered, to));
    }
    open
}

fn pinning(case: &Case, run: &Record) -> Result<(), String> {
    let subgraphs: Vec<Vec<u32>> = case.requests.graphs.iter().map(|graph| spell_out(graph).0).collect();
    let mut tasks_of: BTreeMap<(RequestId, u32), Vec<&Watch>> = BTreeMap::new();
    for task in &run.tasks {
        for node in cell_nodes(task).unwrap_or_default() {
            let subgraph = subgraphs[node.request.index()][node.node.index()];
            tasks_of.entry((node.request, subgraph)).or_default().push(task);
        }
    }
    for ((request, subgraph), tasks) in tasks_of {
        for (i, a) in tasks.iter().enumerate() {
            if let Some(b) =
                tasks[i + 1..].iter().find(|b| b.worker != a.worker && b.submit < a.finish && a.submit < b.finish)
            {
                return Err(format!(
                    "pinning: subgraph {subgraph} of request {request} is on workers {} and {} at once",
                    a.worker, b.worker
                ));
            }
        }
    }
    Ok(())
}

fn bounds(case: &Case, run: &Record) -> Result<(), String> {
    let device = case.device();
    let nodes: u64 = case.requests.graphs.iter().map(CellGraph::nodes).sum();
    let largest = vec![nodes as u32; case.model.cell_types().len()];
    let mut fastest = Fastest::new([&device], largest);
    let mut work = 0.0;
    let left = |request: &usize| run.finish[*request] != Nanos::MAX;
    for request in (0..run.finish.len()).filter(left) {
        let graph = &case.requests.graphs[request];
        let (least, took) = (fastest.path(graph), run.finish[request] - case.arrivals[request]);
        if took < least {
            return Err(format!("bounds: request {request} takes {took}, and at the best batches {least}"));
        }
        work += fastest.work(graph);
    }
    // A worker does no more than one for each of its streams. The sum of shares is rounded, unlike times.
    let busy: Nanos = run.busy.iter().copied().sum();
    if busy.0 as f64 * f64::from(run.streams) < work * (1.0 - 1e-9) {
        return Err(format!("bounds: workers are busy for {busy}, and at the best batches for {work:.1}ns"));
    }
    Ok(())
}
