//! The inputs of a scenario's runs: requests, arrivals, and policies with their costs.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, Weak};

use rand_distr::Distribution as _;
use rand_distr::weighted::WeightedIndex;

use super::Run;
use crate::backend::Backend;
use crate::driver::drive;
use crate::error::{Context as _, Error, Result};
use crate::memory::require;
use crate::metrics::recorder::{Keep, Recorder};
use crate::metrics::stream::{Rules, Stream};
use crate::metrics::summary::Measure;
use crate::metrics::validity::Warmup;
use crate::policy::Policy;
use crate::policy::admission::Admission;
use crate::policy::registry::{Batches, Setup};
use crate::scenario::costs::CostEstimates;
use crate::scenario::{self, ArrivalSpec, ClassEntry, Input, Load, LoadPoint, PolicyEntry, Record, Scenario};
use crate::units::Nanos;
use crate::workload::arrivals::{ClosedLoop, OpenLoop, Source, Think, within_the_clock};
use crate::workload::class::{Class, Classes};
use crate::workload::dataset::Dataset;
use crate::workload::draws::{Drawn, Draws};
use crate::workload::model::CellType;
use crate::workload::operator::catalogue::Catalogue;
use crate::workload::random;
use crate::workload::shape::Shape;
use crate::workload::trace::{Requests, Trace};

pub struct Inputs<'s> {
    scenario: &'s Scenario,
    cells: Vec<CellType>,
    steps: Vec<CellType>,
    estimates: Vec<CostEstimates>,
    origin: Origin,
    /// The longest request of the trace, or that can be drawn.
    longest: u32,
    /// Shared by the runs of a replication.
    shared: Mutex<Vec<Weak<Requests>>>,
}

enum Origin {
    Dataset {
        dataset: Dataset,
        /// Of each class that has its own.
        own: Vec<Option<Dataset>>,
        count: u64,
        max_length: Option<u32>,
        arrivals: ArrivalSpec,
    },
    Trace {
        requests: Arc<Requests>,
        trace: Trace,
        file: PathBuf,
        time_scale: f64,
    },
}

/// In bytes, with its record in one run: measured with chains, more for trees.
const REQUEST: u128 = 100;

/// How many requests stand for those of a stream.
const SAMPLE: u64 = 100_000;

/// In the log of a stream.
const LOGGED: u64 = 10_000;

/// All that one run needs besides a backend.
pub struct Prepared<'a> {
    /// Those of the run, or a sample of them if they are drawn as they arrive.
    pub requests: Arc<Requests>,
    pub arrivals: Arrivals<'a>,
    pub policy: Box<dyn Policy>,
    pub record: Recorder,
    workers: usize,
}

pub enum Arrivals<'a> {
    /// With the requests, which are drawn as they arrive; for one run.
    Drawn(Option<Box<dyn Source + 'a>>),
    Open(Arc<[Nanos]>),
    /// From clients that wait for their answers.
    Closed {
        clients: u32,
        think: Think,
        /// The stream that think times are drawn from.
        random: Box<random::Stream>,
    },
}

impl Arrivals<'_> {
    /// The source that a driver takes requests from.
    pub fn source<'a>(&'a mut self, requests: &'a Requests) -> Box<dyn Source + 'a> {
        match self {
            Arrivals::Drawn(source) => source.take().expect("each run is prepared"),
            Arrivals::Open(times) => Box::new(OpenLoop::new(requests, times)),
            Arrivals::Closed { clients, think, random } => {
                Box::new(ClosedLoop::new(requests, *clients, *think, random))
            }
        }
    }
}

impl Prepared<'_> {
    /// Drives the run. The record is valid even if the run was stopped.
    pub fn serve(&mut self, backend: &mut dyn Backend, stop: &AtomicBool) -> Result<()> {
        let mut source = self.arrivals.source(&self.requests);
        drive(&mut *source, &mut *self.policy, backend, &mut self.record, self.workers, stop)
    }
}

impl<'s> Inputs<'s> {
    /// Reads the files and builds each policy once, so that mistakes show before the first run.
    pub fn new(scenario: &'s Scenario) -> Result<Inputs<'s>> {
        let cells = scenario.workload.model.cell_types();
        let mut steps = cells.clone();
        if scenario.policies.iter().any(|entry| entry.settings.runs_operators()) {
            steps.extend(operators(scenario).types());
        }
        let (model, sizes) = (&scenario.workload.model, scenario.workload.sizes());
        let estimates = |entry: &PolicyEntry| {
            CostEstimates::read(entry.costs.as_deref(), &scenario.device, &*entry.settings, model, &sizes)
        };
        let estimates = scenario.policies.iter().map(estimates).collect();
        let origin = Origin::open(scenario)?;
        let longest = origin.longest();
        let inputs = Inputs { scenario, cells, steps, estimates, origin, longest, shared: Mutex::new(Vec::new()) };
        for policy in 0..scenario.policies.len() {
            inputs.policy(policy)?;
        }
        if let Origin::Trace { requests, .. } = &inputs.origin {
            for load in scenario.points() {
                inputs.arrivals(&Run { policy: 0, load, replication: 0 }, requests.len())?;
            }
        }
        Ok(inputs)
    }

    pub fn scenario(&self) -> &'s Scenario {
        self.scenario
    }

    pub fn cells(&self) -> &[CellType] {
        &self.cells
    }

    /// The model's cell types, then their operators if a policy runs those.
    pub fn steps(&self) -> &[CellType] {
        &self.steps
    }

    pub fn workers(&self) -> usize {
        self.scenario.device.workers
    }

    pub fn requests(&self, replication: u32) -> Result<Arc<Requests>> {
        if let Origin::Trace { requests, .. } = &self.origin {
            return Ok(Arc::clone(requests));
        }
        // The lock is held while drawing, so that runs which start together draw only once.
        let mut shared = self.shared.lock().expect("drawing requests does not panic");
        let slot = replication as usize;
        if shared.len() <= slot {
            shared.resize(slot + 1, Weak::new());
        }
        if let Some(requests) = shared[slot].upgrade() {
            return Ok(requests);
        }
        let Origin::Dataset { count, .. } = &self.origin else { unreachable!("a trace is read") };
        let requests = Arc::new(self.drawn(replication, *count)?);
        shared[slot] = Arc::downgrade(&requests);
        Ok(requests)
    }

    /// The requests that stand for all in checks and bounds: those of the first replication, of a stream the first of them.
    pub fn sample(&self) -> Result<Arc<Requests>> {
        match (&self.origin, self.scenario.output.record) {
            (Origin::Dataset { count, .. }, Record::Stream) => self.drawn(0, (*count).min(SAMPLE)).map(Arc::new),
            _ => self.requests(0),
        }
    }

    fn draws(&self, replication: u32) -> Result<Draws<'_>> {
        let Origin::Dataset { dataset, own, max_length, .. } = &self.origin else { unreachable!("a trace is read") };
        let sampler =
            |dataset, purpose: &str| Ok((Dataset::sampler(dataset, *max_length)?, self.stream(replication, purpose)));
        let own = own
            .iter()
            .zip(&self.scenario.classes)
            .map(|(own, class)| own.as_ref().map(|own| sampler(own, &format!("shapes of {}", class.name))).transpose());
        Ok(Draws {
            own: own.collect::<Result<_>>()?,
            classes: shares(self.scenario).map(|shares| (shares, self.stream(replication, "classes"))),
            shapes: sampler(dataset, "shapes")?,
        })
    }

    fn drawn(&self, replication: u32, count: u64) -> Result<Requests> {
        let file = self.scenario.file.display();
        require(u128::from(count) * REQUEST, format_args!("{file}: workload.requests = {count}"), "draw fewer")?;
        let mut draws = self.draws(replication)?;
        let (shapes, of): (Vec<Shape>, Vec<u16>) = (0..count).map(|_| draws.draw()).unzip();
        let requests = Requests::unfold(shapes.into(), &self.scenario.workload.model).map_err(Error::input)?;
        let classes = draws.classes.map(|_| Classes { all: self.classes(), of });
        Ok(Requests { classes: classes.map(Arc::new), ..requests })
    }

    fn classes(&self) -> Vec<Class> {
        self.scenario.classes.iter().map(ClassEntry::class).collect()
    }

    pub fn prepare(&self, run: &Run, keep: Keep) -> Result<Prepared<'_>> {
        let (policy, workers) = (self.policy(run.policy)?, self.workers());
        let Some(rules) = keep.stream else {
            let requests = self.requests(run.replication)?;
            let arrivals = self.arrivals(run, requests.len())?;
            let mut record = self.recorder(requests.len(), keep);
            record.tell_of(&requests);
            return Ok(Prepared { requests, arrivals, policy, record, workers });
        };
        let (classes, model) = (self.classes(), &self.scenario.workload.model);
        let mut record = self.recorder(0, keep);
        record.stream = Some(Box::new(Stream::new(rules, classes.clone())));
        let drawn = Box::new(Drawn::new(self.draws(run.replication)?, model, classes, rules.requests));
        let Origin::Dataset { arrivals, .. } = &self.origin else { unreachable!("a stream draws its requests") };
        let source: Box<dyn Source> = match arrivals.process() {
            Some(process) => {
                let random = self.stream(run.replication, "arrivals");
                Box::new(OpenLoop::of(drawn, process.times(run.load.rate(), rules.requests as usize, random)))
            }
            None => {
                let LoadPoint::Clients(clients) = run.load else { unreachable!("only clients wait for answers") };
                let think = arrivals.think().expect("clients send in a closed loop");
                Box::new(ClosedLoop::of(drawn, clients, think, &mut self.stream(run.replication, "think")))
            }
        };
        Ok(Prepared { requests: self.sample()?, arrivals: Arrivals::Drawn(Some(source)), policy, record, workers })
    }

    /// How a run is recorded that does not keep its requests; `None` if it keeps them.
    pub fn streams_by(&self, load: LoadPoint) -> Option<Rules> {
        let Origin::Dataset { count, .. } = self.origin else { return None };
        let output = &self.scenario.output;
        let Measure { slo, warmup, .. } = self.measure(load);
        let warmup = match warmup {
            Warmup::None => 0,
            // A stream cannot look back.
            Warmup::Mser5 => count / 10,
            Warmup::Share(share) => (share * count as f64) as u64,
            Warmup::Requests(requests) => requests.into(),
        };
        let log_every = output.log_every.unwrap_or(count.div_ceil(LOGGED));
        (output.record == Record::Stream).then_some(Rules { requests: count, warmup, slo, log_every })
    }

    fn arrivals(&self, run: &Run, requests: usize) -> Result<Arrivals<'static>> {
        let stream = |purpose| self.stream(run.replication, purpose);
        Ok(match (&self.origin, run.load) {
            (Origin::Trace { trace, time_scale, file, .. }, load) => {
                let scaled = match load {
                    LoadPoint::Rate(rate) => trace.at_rate(rate).within("arrivals.rates"),
                    LoadPoint::Scaled(factor) => trace.scaled(factor).within("workload.time_scale"),
                    _ => trace.scaled(*time_scale).within("workload.time_scale"),
                };
                let scaled = scaled.within(self.scenario.file.display())?;
                let clock = within_the_clock(&scaled.arrivals).within(file.display());
                clock.within("workload.trace").within(self.scenario.file.display())?;
                Arrivals::Open(scaled.arrivals)
            }
            (Origin::Dataset { arrivals, .. }, LoadPoint::Clients(clients)) => {
                let think = arrivals.think().expect("clients send in a closed loop");
                Arrivals::Closed { clients, think, random: Box::new(stream("think")) }
            }
            (Origin::Dataset { arrivals, .. }, load) => {
                let process = arrivals.process().expect("only clients send in a closed loop");
                let times: Arc<[Nanos]> = process.times(load.rate(), requests, stream("arrivals")).collect();
                within_the_clock(&times).within("arrivals").within(self.scenario.file.display())?;
                Arrivals::Open(times)
            }
        })
    }

    pub fn recorder(&self, requests: usize, keep: Keep) -> Recorder {
        Recorder::new(requests, self.workers(), self.cells.len(), keep)
    }

    pub(super) fn stream(&self, replication: u32, purpose: &str) -> random::Stream {
        random::stream(self.scenario.seed, replication, purpose)
    }

    pub fn streams(&self, policy: usize) -> u16 {
        self.scenario.policies[policy].settings.streams(&self.setup(policy))
    }

    pub(crate) fn largest_batches(&self, policy: usize) -> Option<Batches> {
        self.scenario.policies[policy].settings.largest_batches(&self.setup(policy))
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
                scenario::Warmup::Auto if settles => Warmup::Mser5,
                scenario::Warmup::Auto | scenario::Warmup::None => Warmup::None,
                scenario::Warmup::Mser5 => Warmup::Mser5,
                scenario::Warmup::Share(share) => Warmup::Share(share),
                scenario::Warmup::Requests(count) => Warmup::Requests(count),
            },
            offered: load.rate(),
            closed_loop: matches!(load, LoadPoint::Clients(_)),
        }
    }

    fn setup(&self, policy: usize) -> Setup<'_> {
        self.estimates[policy].within(self.bare_setup())
    }

    fn bare_setup(&self) -> Setup<'_> {
        let Scenario { workload, device, .. } = self.scenario;
        let (model, longest) = (&workload.model, Some(self.longest));
        Setup { model, cells: &self.cells, workers: device.workers, costs: None, longest }
    }

    pub fn policy(&self, index: usize) -> Result<Box<dyn Policy>> {
        let entry = &self.scenario.policies[index];
        let policy = self.estimates[index].build(&*entry.settings, self.bare_setup()).map_err(|error| {
            Error::input(format!("{}: policy[{index}] ({}): {error}", self.scenario.file.display(), entry.label))
        })?;
        Ok(match self.scenario.device.max_waiting {
            Some(bound) => Box::new(Admission::new(policy, bound)),
            None => policy,
        })
    }
}

impl Origin {
    fn open(scenario: &Scenario) -> Result<Origin> {
        let (model, file) = (&scenario.workload.model, scenario.file.display());
        match &scenario.workload.load {
            Load::Drawn { dataset, requests, max_length } => {
                let open = |dataset: &Input| {
                    let dataset = Dataset::open(&dataset.path().to_string_lossy(), model, &|path| PathBuf::from(path))?;
                    // Draws nothing, but fails if no shape is short enough.
                    let none = dataset.sample(0, *max_length, &mut random::stream(scenario.seed, 0, "shapes"));
                    none.within("workload").within(&file).map(|_| dataset)
                };
                let dataset = open(dataset)?;
                let own = scenario.classes.iter().map(|class| class.dataset.as_ref().map(open).transpose());
                let own = own.collect::<Result<Vec<_>>>()?;
                let (count, max_length) = (*requests, *max_length);
                let arrivals = scenario.arrivals.clone().expect("a dataset comes with arrivals");
                Ok(Origin::Dataset { dataset, own, count, max_length, arrivals })
            }
            Load::Trace { trace, time_scale } => {
                let read = Trace::read(trace)?;
                let shapes = Arc::clone(&read.shapes);
                let requests = Requests::unfold(shapes, model).map_err(Error::input).within(trace.display())?;
                let classes = match &read.classes {
                    Some(names) => {
                        let known = scenario.classes.iter().map(ClassEntry::class).collect();
                        Some(Classes::by_name(names, known).map_err(Error::input).within(trace.display())?)
                    }
                    None => draw_classes(scenario, read.len(), 0),
                };
                let requests = Requests { classes: classes.map(Arc::new), ..requests };
                Ok(Origin::Trace {
                    requests: Arc::new(requests),
                    trace: read,
                    file: trace.path().into(),
                    time_scale: time_scale[0],
                })
            }
        }
    }

    fn longest(&self) -> u32 {
        match self {
            Origin::Dataset { dataset, own, max_length, .. } => {
                let all = own.iter().flatten().chain([dataset]);
                all.map(|dataset| dataset.longest(*max_length)).max().unwrap_or(0)
            }
            Origin::Trace { requests, .. } => requests.longest(),
        }
    }
}

fn shares(scenario: &Scenario) -> Option<WeightedIndex<f64>> {
    WeightedIndex::new(scenario.classes.iter().map(|class| class.share)).ok()
}

/// By the shares of the scenario's classes, if it has any.
fn draw_classes(scenario: &Scenario, count: usize, replication: u32) -> Option<Classes> {
    let shares = shares(scenario)?;
    let stream = &mut random::stream(scenario.seed, replication, "classes");
    let of = (0..count).map(|_| shares.sample(stream) as u16).collect();
    Some(Classes { all: scenario.classes.iter().map(ClassEntry::class).collect(), of })
}

pub(super) fn operators(scenario: &Scenario) -> Catalogue {
    Catalogue::new(&scenario.workload.model, &scenario.workload.sizes())
}
