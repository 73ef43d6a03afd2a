//! The inputs of a scenario's runs: requests, arrivals, and policies with their costs.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rand_distr::Distribution as _;
use rand_distr::weighted::WeightedIndex;

use super::job::Run;
use super::memory::RunMemory;
use super::shared_requests::{RequestsKey, SharedRequests};
use crate::base::error::{Context as _, Error, Result};
use crate::base::memory::require;
use crate::base::units::Nanos;
use crate::core::backend::Backend;
use crate::core::cost::table::CostTable;
use crate::core::engine;
use crate::core::policy::Policy;
use crate::core::policy::admission::Admission;
use crate::core::policy::registry::{Batches, Setup};
use crate::core::record::compact::{CompactOptions, CompactRecord};
use crate::core::record::full::FullRecord;
use crate::core::record::{RecordOptions, Recorder};
use crate::core::summary::Measure;
use crate::core::summary::warmup::{AUTO_PARTS, Warmup};
use crate::core::workload::arrivals::{
    ClosedLoop, OpenLoop, RequestSource, RequestSupply, RequestsInMemory, within_the_clock,
};
use crate::core::workload::cell_graph::tree::Tree;
use crate::core::workload::cell_graph::{CellGraph, SharedGraph};
use crate::core::workload::class::{Class, Classes};
use crate::core::workload::dataset::Dataset;
use crate::core::workload::draws::{Drawn, Draws, ShapeDraws};
use crate::core::workload::graph_model::Takes;
use crate::core::workload::model::{CellType, Unfolder};
use crate::core::workload::operator::catalogue::Catalogue;
use crate::core::workload::random;
use crate::core::workload::shape::Shape;
use crate::core::workload::shared_list::ShapesBuilder;
use crate::core::workload::trace::{Requests, Trace, TraceFile};
use crate::lab::scenario::{ArrivalSpec, ClassEntry, Input, Load, LoadPoint, Record, Scenario};

pub struct RunInputs<'s> {
    pub scenario: &'s Scenario,
    pub cells: Vec<CellType>,
    /// The model's cell types, then their operators if a policy runs those.
    pub steps: Vec<CellType>,
    origin: Origin,
    /// The length of the longest request of the trace, or of the longest that can be drawn.
    longest: u32,
    /// The requests that runs share.
    shared: Arc<SharedRequests>,
    /// The key of this workload's requests.
    key: RequestsKey,
    /// A flag that ends the drawing of requests when it is set.
    stop: &'s AtomicBool,
}

pub(super) static NEVER: AtomicBool = AtomicBool::new(false);

enum Origin {
    Dataset {
        dataset: Dataset,
        /// The dataset of each class that has its own.
        own: Vec<Option<Dataset>>,
        max_length: Option<u32>,
    },
    Trace {
        requests: Arc<Requests>,
        file: Arc<TraceFile>,
    },
}

/// The number of requests whose graphs represent all in an estimate of memory.
const SAMPLED_GRAPHS: u32 = 500;

/// The number of requests that represent all requests of a run that forgets them.
const SAMPLE: u32 = 100_000;

/// The number of requests in the log of a run that forgets its requests.
const LOGGED: u64 = 10_000;

/// What one run needs in addition to a backend.
pub struct Prepared<'a, R = FullRecord> {
    /// The requests of the run, or a sample of them if they are drawn as they arrive.
    pub requests: Arc<Requests>,
    pub source: Box<dyn RequestSource + 'a>,
    pub policy: Box<dyn Policy>,
    pub record: R,
    workers: usize,
}

impl<R: Recorder> Prepared<'_, R> {
    /// Runs the engine on a backend of the caller. The record is valid even if the run was stopped.
    pub fn serve(&mut self, backend: &mut dyn Backend, stop: &AtomicBool) -> Result<()> {
        engine::run(
            &mut *self.source,
            &mut *self.policy,
            backend,
            &mut self.record,
            self.workers,
            stop,
        )
    }
}

impl<'s> RunInputs<'s> {
    /// Reads the files and builds each policy once, so that mistakes show before the first run.
    pub fn new(scenario: &'s Scenario) -> Result<RunInputs<'s>> {
        RunInputs::share(scenario, Arc::default())
    }

    /// Reads the inputs as [`RunInputs::new`] does. They share the requests that they draw with others.
    pub fn share(scenario: &'s Scenario, shared: Arc<SharedRequests>) -> Result<RunInputs<'s>> {
        let cells = scenario.workload.model.cell_types();
        let mut steps = cells.clone();
        if scenario
            .policies
            .iter()
            .any(|entry| entry.settings.runs_operators())
        {
            steps.extend(
                Catalogue::new(&scenario.workload.model, &scenario.workload.sizes()).types(),
            );
        }
        let key = RequestsKey::new(scenario);
        let origin = Origin::open(scenario, &key, &shared)?;
        let longest = origin.longest();
        let inputs = RunInputs {
            scenario,
            cells,
            steps,
            origin,
            longest,
            shared,
            key,
            stop: &NEVER,
        };
        for policy in 0..scenario.policies.len() {
            inputs.policy(policy)?;
        }
        if let Origin::Trace { .. } = &inputs.origin {
            scenario
                .points()
                .into_iter()
                .try_for_each(|load| inputs.arrivals(load).map(drop))?;
        }
        Ok(inputs)
    }

    /// The same inputs, which draw no more requests once `stop` is set.
    pub fn until(self, stop: &'s AtomicBool) -> RunInputs<'s> {
        RunInputs { stop, ..self }
    }

    /// The cost table of a policy, or `None` if the scenario names no costs.
    pub fn costs(&self, policy: usize) -> Result<Option<&CostTable>> {
        self.scenario.policies[policy]
            .costs
            .table()
            .within(self.scenario.file.display())
    }

    pub fn workers(&self) -> usize {
        self.scenario.device.workers
    }

    pub fn requests(&self, replication: u32) -> Result<Arc<Requests>> {
        if let Origin::Trace { requests, .. } = &self.origin {
            return Ok(Arc::clone(requests));
        }
        let count = self
            .scenario
            .workload
            .load
            .drawn()
            .expect("a trace is read");
        self.first_requests(replication, count)
    }

    /// The first requests of a replication, drawn once.
    fn first_requests(&self, replication: u32, count: u32) -> Result<Arc<Requests>> {
        let key = RequestsKey {
            replication,
            count,
            ..self.key.clone()
        };
        self.shared
            .find_or_draw(key, || self.draw_requests(replication, count))
    }

    /// The requests that represent all requests in checks and bounds. They are those of the first replication, or only
    /// its first ones if they are drawn as they arrive.
    pub fn sample(&self) -> Result<Arc<Requests>> {
        match (
            self.scenario.workload.load.drawn(),
            self.scenario.output.record,
        ) {
            (Some(count), Record::Stream) => self.first_requests(0, count.min(SAMPLE)),
            _ => self.requests(0),
        }
    }

    fn draws(&self, replication: u32) -> Result<Draws<'_>> {
        let Origin::Dataset {
            dataset,
            own,
            max_length,
        } = &self.origin
        else {
            unreachable!("a trace is read")
        };
        let sampler = |dataset, purpose: &str| {
            Ok(ShapeDraws::new(
                Dataset::sampler(dataset, *max_length)?,
                self.random_sequence(replication, purpose),
            ))
        };
        let own = own.iter().zip(&self.scenario.classes).map(|(own, class)| {
            own.as_ref()
                .map(|own| sampler(own, &format!("shapes of {}", class.name)))
                .transpose()
        });
        Ok(Draws {
            own: own.collect::<Result<_>>()?,
            classes: shares(self.scenario)
                .map(|shares| (shares, self.random_sequence(replication, "classes"))),
            shapes: sampler(dataset, "shapes")?,
        })
    }

    fn draw_requests(&self, replication: u32, count: u32) -> Result<Requests> {
        let file = self.scenario.file.display();
        require(
            RunMemory::new(self.scenario, count.into(), 0).total(),
            format_args!("{file}: workload.requests = {count}"),
            "draw fewer",
        )?;
        let mut draws = self.draws(replication)?;
        let mut shapes = ShapesBuilder::default();
        let mut of = Vec::new();
        for _ in 0..count {
            if self.stop.load(Ordering::Relaxed) {
                return Err(Error::Interrupted);
            }
            let (shape, class) = draws.draw();
            shapes.push(shape);
            if draws.classes.is_some() {
                of.push(class);
            }
        }
        let requests = Requests::unfold(shapes.build(), &self.scenario.workload.model)
            .map_err(Error::input)?;
        let classes = draws.classes.map(|_| Classes {
            all: self.classes(),
            of,
        });
        Ok(Requests {
            classes: classes.map(Arc::new),
            ..requests
        })
    }

    /// The memory of a run, without what is in memory already; nothing for runs that forget their requests. Real backends
    /// and [some scenarios](Scenario::lists_trees) make the lists of trees.
    pub(super) fn memory(&self, lists_trees: bool) -> Result<RunMemory> {
        if self.scenario.output.record == Record::Stream {
            return Ok(RunMemory::default());
        }
        if let Origin::Trace { requests, .. } = &self.origin {
            let count = requests.len() as u64;
            return Ok(RunMemory {
                requests: if lists_trees {
                    bytes_of_lists(requests)
                } else {
                    0
                },
                ..RunMemory::new(self.scenario, count, 0)
            });
        }
        let drawn = self.scenario.workload.load.drawn();
        let count = drawn.expect("requests without a trace are drawn");
        let shared = self.bytes_of_graphs(count, lists_trees)?;
        Ok(RunMemory::new(self.scenario, count.into(), shared))
    }

    /// The bytes of the trees and graphs of drawn requests, estimated from some of them. Equal shapes of a dataset share
    /// theirs.
    fn bytes_of_graphs(&self, count: u32, lists_trees: bool) -> Result<u128> {
        let model = &self.scenario.workload.model;
        let Origin::Dataset { dataset, own, .. } = &self.origin else {
            return Ok(0);
        };
        if !matches!(model.unfolds(), Some(Takes::Trees | Takes::Graphs)) {
            return Ok(0);
        }
        let mut draws = self.draws(0)?;
        let mut unfolder = Unfolder::new(model);
        let sampled = count.min(SAMPLED_GRAPHS);
        let mut bytes = 0;
        for _ in 0..sampled {
            let (shape, _) = draws.draw();
            if let Shape::Tree(tree) = &shape {
                bytes += size_of::<Tree>() + size_of_val(tree.parents());
            }
            let graph = unfolder.unfold(&shape).map_err(Error::input)?;
            let is_tree = matches!(graph, CellGraph::Graph(SharedGraph::Tree(_)));
            if !is_tree || lists_trees {
                bytes += graph.shared_bytes();
            }
        }
        let mut shapes = Some(0);
        for dataset in own.iter().flatten().chain([dataset]) {
            shapes = shapes.zip(dataset.shapes()).map(|(a, b)| a + b);
        }
        let distinct = shapes.map_or(count as usize, |shapes| shapes.min(count as usize));
        Ok((bytes * distinct) as u128 / u128::from(sampled.max(1)))
    }

    fn classes(&self) -> Vec<Class> {
        self.scenario
            .classes
            .iter()
            .map(ClassEntry::class)
            .collect()
    }

    /// Prepares a run that keeps its requests.
    pub fn prepare(&self, run: &Run, options: RecordOptions) -> Result<Prepared<'_>> {
        let policy = self.policy(run.policy)?;
        let requests = self.requests(run.replication)?;
        let workers = self.workers();
        let mut record = FullRecord::new(requests.len(), workers, self.cells.len(), options);
        record.describe_requests(&requests);
        let supply = RequestsInMemory::new(Arc::clone(&requests));
        let source = self.source(run, supply, true)?;
        Ok(Prepared {
            requests,
            source,
            policy,
            record,
            workers,
        })
    }

    /// Prepares a run that forgets its requests.
    pub(super) fn prepare_compact(
        &self,
        run: &Run,
        options: CompactOptions,
    ) -> Result<Prepared<'_, CompactRecord>> {
        let policy = self.policy(run.policy)?;
        let workers = self.workers();
        let classes = self.classes();
        let record = CompactRecord::new(workers, self.cells.len(), options, classes.clone());
        let model = &self.scenario.workload.model;
        let drawn = Drawn::new(
            self.draws(run.replication)?,
            model,
            classes,
            options.requests,
        );
        let source = self.source(run, drawn, false)?;
        Ok(Prepared {
            requests: self.sample()?,
            source,
            policy,
            record,
            workers,
        })
    }

    /// The options of the record of a run that forgets its requests, or `None` if the run keeps them.
    pub fn compact_options(&self, load: LoadPoint) -> Option<CompactOptions> {
        let Load::Drawn {
            requests: count, ..
        } = self.scenario.workload.load
        else {
            return None;
        };
        let output = &self.scenario.output;
        let Measure { slo, warmup, .. } = self.measure(load);
        let counts_independent = warmup == Warmup::Auto;
        let warmup = match warmup {
            Warmup::None => 0,
            // A compact record cannot look back, so that MSER-5 was refused.
            Warmup::Auto | Warmup::Mser5 => count / AUTO_PARTS as u64,
            Warmup::Share(share) => (share * count as f64) as u64,
            Warmup::Requests(requests) => requests.into(),
        };
        let log_every = output.log_every.unwrap_or(count.div_ceil(LOGGED));
        (output.record == Record::Stream).then_some(CompactOptions {
            requests: count,
            warmup,
            counts_independent,
            slo,
            log_every,
        })
    }

    /// The source of a run's requests. If `checked`, all times are drawn at once, and requests that arrive too late are
    /// an error.
    fn source<'a>(
        &'a self,
        run: &Run,
        supply: impl RequestSupply + 'a,
        checked: bool,
    ) -> Result<Box<dyn RequestSource + 'a>> {
        let random = |purpose| self.random_sequence(run.replication, purpose);
        let arrivals = self.scenario.arrivals.as_ref();
        if let LoadPoint::Clients(clients) = run.load {
            let think = arrivals
                .and_then(ArrivalSpec::think)
                .expect("clients send in a closed loop");
            let mut random = random("think");
            return Ok(Box::new(ClosedLoop::from_supply(
                supply,
                clients,
                think,
                &mut random,
            )));
        }
        let Some(process) = arrivals.and_then(ArrivalSpec::process) else {
            let times = self.arrivals(run.load)?;
            let times = (0..times.len()).map(move |place| times[place]);
            return Ok(Box::new(OpenLoop::from_supply(supply, times)));
        };
        let requests = supply.count() as usize;
        let times = process.times(run.load.rate(), requests, random("arrivals"));
        if !checked {
            return Ok(Box::new(OpenLoop::from_supply(supply, times)));
        }
        let times: Vec<Nanos> = times.collect();
        within_the_clock(&times)
            .within("arrivals")
            .within(self.scenario.file.display())?;
        Ok(Box::new(OpenLoop::from_supply(supply, times.into_iter())))
    }

    /// The arrival times of the trace under a load.
    fn arrivals(&self, load: LoadPoint) -> Result<Arc<[Nanos]>> {
        let (
            Origin::Trace { file, .. },
            Load::Trace {
                trace: input,
                time_scale,
            },
        ) = (&self.origin, &self.scenario.workload.load)
        else {
            unreachable!("a process has times")
        };
        let trace = &file.trace;
        let scaled = match load {
            LoadPoint::Rate(rate) => trace.scale_to_rate(rate).within("arrivals.rates"),
            LoadPoint::Scaled(factor) => trace.scale_times(factor).within("workload.time_scale"),
            _ => trace
                .scale_times(time_scale[0])
                .within("workload.time_scale"),
        };
        let scaled = scaled.within(self.scenario.file.display())?;
        let clock = within_the_clock(&scaled.arrivals).within(input.display());
        clock
            .within("workload.trace")
            .within(self.scenario.file.display())?;
        Ok(scaled.arrivals)
    }

    pub(super) fn random_sequence(
        &self,
        replication: u32,
        purpose: &str,
    ) -> random::RandomSequence {
        random::sequence(self.scenario.seed, replication, purpose)
    }

    pub fn streams(&self, policy: usize) -> u16 {
        self.scenario.policies[policy]
            .settings
            .streams(&self.setup(policy))
    }

    pub fn largest_batches(&self, policy: usize) -> Option<Batches> {
        self.scenario.policies[policy]
            .settings
            .largest_batches(&self.setup(policy))
    }

    /// The largest batch of a policy, in nodes of each cell type, or `None` if it has no bound.
    pub(super) fn largest_batches_in_nodes(
        &self,
        policy: usize,
        requests: &Requests,
    ) -> Option<Vec<u32>> {
        let most = match self.largest_batches(policy)? {
            Batches::Nodes(of_cells) => return Some(of_cells),
            Batches::Requests(most) => most.min(requests.len() as u32),
        };
        // For each cell type, the most nodes of any request at the same depth.
        let cells = self.cells.len();
        let mut widest = vec![0u32; cells];
        for graph in requests.graphs.values() {
            for (widest, width) in widest.iter_mut().zip(graph.widths(cells)) {
                *widest = width.max(*widest);
            }
        }
        let nodes = widest.into_iter().map(|width| width.saturating_mul(most));
        Some(nodes.collect())
    }

    /// The largest batch, in nodes of a cell type, that the policies form of requests that run in this order. Without
    /// requests, each has one node of a cell type at a time. Policies without a bound do not count.
    pub fn largest_formed(&self, requests: Option<&Requests>) -> u32 {
        let mut largest = 0;
        for policy in 0..self.scenario.policies.len() {
            let formed = match (self.largest_batches(policy), requests) {
                (None, _) => 0,
                (Some(Batches::Nodes(of_cells)), _) => of_cells.into_iter().max().unwrap_or(0),
                (Some(Batches::Requests(most)), None) => most,
                (Some(Batches::Requests(most)), Some(requests)) => {
                    widest_batch(requests, self.cells.len(), most as usize)
                }
            };
            largest = largest.max(formed);
        }
        largest
    }

    /// Whether tasks are whole requests, or parts of them.
    pub(super) fn runs_several_steps(&self, policy: usize) -> bool {
        self.scenario.policies[policy].settings.runs_parts()
            || matches!(self.largest_batches(policy), Some(Batches::Requests(_)))
    }

    pub fn measure(&self, load: LoadPoint) -> Measure {
        let replays = matches!(self.origin, Origin::Trace { .. });
        let settles = !replays && matches!(load, LoadPoint::Rate(_) | LoadPoint::Clients(_));
        Measure {
            slo: self.scenario.metrics.slo,
            warmup: match self.scenario.metrics.warmup {
                // A trace, changing rates and an offline load have no steady state.
                Warmup::Auto if !settles => Warmup::None,
                rule => rule,
            },
            offered: load.rate(),
            closed_loop: matches!(load, LoadPoint::Clients(_)),
        }
    }

    fn setup(&self, policy: usize) -> Setup<'_> {
        let Scenario {
            workload, device, ..
        } = self.scenario;
        let model = &workload.model;
        let longest = Some(self.longest);
        let setup = Setup {
            model,
            cells: &self.cells,
            workers: device.workers,
            costs: None,
            longest,
        };
        self.scenario.policies[policy].costs.within(setup)
    }

    pub fn policy(&self, index: usize) -> Result<Box<dyn Policy>> {
        let entry = &self.scenario.policies[index];
        let policy = entry
            .costs
            .build(&*entry.settings, self.setup(index))
            .map_err(|error| {
                Error::input(format!(
                    "{}: policy[{index}] ({}): {error}",
                    self.scenario.file.display(),
                    entry.label
                ))
            })?;
        Ok(match self.scenario.device.max_waiting {
            Some(bound) => Box::new(Admission::new(policy, bound)),
            None => policy,
        })
    }
}

impl Origin {
    fn open(scenario: &Scenario, key: &RequestsKey, shared: &SharedRequests) -> Result<Origin> {
        let model = &scenario.workload.model;
        let file = scenario.file.display();
        match &scenario.workload.load {
            Load::Drawn {
                dataset,
                max_length,
                ..
            } => {
                let open = |dataset: &Input, key: &str| {
                    let opened = Dataset::open(&dataset.to_string_lossy(), model, &|path| {
                        PathBuf::from(path)
                    });
                    let dataset = opened.within(key).within(&file)?;
                    // This call draws nothing, but fails if no shape is short enough.
                    let none = dataset.sample(
                        0,
                        *max_length,
                        &mut random::sequence(scenario.seed, 0, "shapes"),
                    );
                    none.within("workload").within(&file).map(|_| dataset)
                };
                let dataset = open(dataset, "workload.dataset")?;
                let of_class = |(index, class): (usize, &ClassEntry)| {
                    let own = class.dataset.as_ref();
                    own.map(|dataset| open(dataset, &format!("class[{index}].dataset")))
                        .transpose()
                };
                let own = scenario
                    .classes
                    .iter()
                    .enumerate()
                    .map(of_class)
                    .collect::<Result<Vec<_>>>()?;
                Ok(Origin::Dataset {
                    dataset,
                    own,
                    max_length: *max_length,
                })
            }
            Load::Trace { trace, .. } => {
                let file = trace.read()?;
                let key = RequestsKey {
                    count: file.trace.len() as u32,
                    ..key.clone()
                };
                let unfold = || {
                    unfold_trace(scenario, &file.trace)
                        .map_err(Error::input)
                        .within(trace.display())
                };
                Ok(Origin::Trace {
                    requests: shared.find_or_draw(key, unfold)?,
                    file,
                })
            }
        }
    }

    fn longest(&self) -> u32 {
        match self {
            Origin::Dataset {
                dataset,
                own,
                max_length,
            } => {
                let all = own.iter().flatten().chain([dataset]);
                all.map(|dataset| dataset.longest(*max_length))
                    .max()
                    .unwrap_or(0)
            }
            Origin::Trace { requests, .. } => requests.longest(),
        }
    }
}

/// The requests of a scenario that names a trace.
fn unfold_trace(scenario: &Scenario, trace: &Trace) -> Result<Requests, String> {
    let requests = Requests::unfold(trace.shapes.clone(), &scenario.workload.model)?;
    let all = scenario.classes.iter().map(ClassEntry::class).collect();
    let classes = match (&trace.classes, shares(scenario)) {
        (Some(names), _) => Some(Classes::from_names(names, all)?),
        (None, Some(shares)) => {
            let drawn = shares.sample_iter(random::sequence(scenario.seed, 0, "classes"));
            Some(Classes {
                all,
                of: drawn.take(trace.len()).map(|class| class as u16).collect(),
            })
        }
        (None, None) => None,
    };
    Ok(Requests {
        classes: classes.map(Arc::new),
        ..requests
    })
}

/// The distribution of requests over the scenario's classes, if it has any.
fn shares(scenario: &Scenario) -> Option<WeightedIndex<f64>> {
    WeightedIndex::new(scenario.classes.iter().map(|class| class.share)).ok()
}

/// The most nodes of a cell type in any batch of this number of neighbouring requests. Each request counts with its most
/// nodes at one depth.
fn widest_batch(requests: &Requests, cells: usize, most: usize) -> u32 {
    let mut sums = vec![0u32; cells];
    let mut batch: VecDeque<Vec<u32>> = VecDeque::new();
    let mut largest = 0;
    for graph in requests.graphs.iter() {
        let widths = graph.widths(cells);
        if batch.len() == most.max(1)
            && let Some(first) = batch.pop_front()
        {
            for (sum, width) in sums.iter_mut().zip(first) {
                *sum -= width;
            }
        }
        for (sum, width) in sums.iter_mut().zip(&widths) {
            *sum = sum.saturating_add(*width);
            largest = largest.max(*sum);
        }
        batch.push_back(widths);
    }
    largest
}

/// The bytes of the lists that the trees of a trace get during a run, estimated from its first requests.
fn bytes_of_lists(requests: &Requests) -> u128 {
    let mut bytes = 0;
    let mut sampled = 0;
    for graph in requests.graphs.iter().take(SAMPLED_GRAPHS as usize) {
        sampled += 1;
        if matches!(graph, CellGraph::Graph(SharedGraph::Tree(_))) {
            bytes += graph.shared_bytes();
        }
    }
    (bytes * requests.len()) as u128 / sampled.max(1)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::executor::SelectedBackend;
    use super::super::{RunOptions, run};
    use super::*;
    use crate::core::policy::registry::Registry;

    #[test]
    fn no_requests_are_drawn_once_the_user_stops() {
        let file = Path::new("scenarios/dvabatch/vgg19.toml");
        let scenario = Scenario::load(
            file,
            &["workload.requests=2001".into()],
            &Registry::standard(),
        )
        .unwrap();
        let stop = AtomicBool::new(true);
        let inputs = RunInputs::new(&scenario).unwrap().until(&stop);
        assert!(matches!(inputs.requests(0), Err(Error::Interrupted)));

        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out");
        let options = RunOptions {
            backend: SelectedBackend::SIM,
            out: out.clone(),
            replications: 1,
            resume: false,
            shard: None,
        };
        assert!(matches!(
            run(&scenario, &options, &stop, &|| ()),
            Err(Error::Interrupted)
        ));
        assert!(
            !out.exists(),
            "nothing is written before the requests are there"
        );

        stop.store(false, Ordering::Relaxed);
        assert_eq!(inputs.requests(0).unwrap().len(), 2001);
    }
}
