//! Simulated devices and executors that compute, registered by name in [`Executors`].

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use super::standard::{self, CpuExecutor, CudaExecutor, SimulatedDevice};
use crate::base::error::{Error, Result};
use crate::base::precision::Precision;
use crate::base::units::{CellId, Nanos, RequestId};
use crate::core::backend::Backend;
use crate::core::cost::task_times::TaskTimes;
use crate::core::workload::model::Model;
use crate::core::workload::random::RandomSequence;
use crate::core::workload::trace::Requests;
use crate::devices::cpu::StepTime;
use crate::devices::network::Network;

/// A device that computes networks, as `--backend` names it. Add your own with [`Executors::with`].
pub trait Executor: fmt::Debug + Sync {
    /// The name on the command line and in results.
    fn name(&self) -> &'static str;

    /// One line for `--help`.
    fn about(&self) -> &'static str;

    /// What the executor can do, and what its times mean.
    fn abilities(&self) -> Abilities {
        Abilities::default()
    }

    /// Refuses an unsupported model or precision before weights are drawn. The error names what is supported.
    fn check(&self, _: &Model, _: Precision) -> Result<()> {
        Ok(())
    }

    /// Loads a network onto the workers, once for all runs.
    fn load(&self, network: Network, workers: &WorkerSettings) -> Result<Box<dyn Loaded>>;

    /// The scenario files that `validate` runs by default.
    fn validation_set(&self) -> &'static [&'static str] {
        &standard::VALIDATION_SET
    }
}

/// What distinguishes executors. The default suits workers that are threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Abilities {
    /// Whether the executor has GRNN's persistent kernels for lstm and gru.
    pub persistent_kernels: bool,
    /// Whether it reports the time of each step inside a task of whole requests.
    pub logs_steps: bool,
    /// Whether it keeps only the results of requests that were chosen before the run.
    pub keeps_chosen_only: bool,
    /// Whether it also runs cells operator by operator, for policies that batch operators.
    pub runs_operators: bool,
    /// Whether the times of tasks are those at which the host observed them.
    pub host_observed_times: bool,
    /// Whether the streams of a worker share one device. On the CPU, each stream has a thread.
    pub shares_streams: bool,
}

/// The workers onto which an executor loads a network.
#[derive(Clone, Debug, Default)]
pub struct WorkerSettings {
    pub count: usize,
    pub precision: Precision,
    extensions: Vec<Arc<dyn Any + Send + Sync>>,
}

impl WorkerSettings {
    pub fn new(count: usize, precision: Precision) -> WorkerSettings {
        WorkerSettings {
            count,
            precision,
            extensions: Vec::new(),
        }
    }

    /// Adds a setting that only some executors know. An executor finds it by its type.
    #[must_use]
    pub fn with<T: Any + Send + Sync>(mut self, setting: T) -> WorkerSettings {
        self.extensions.push(Arc::new(setting));
        self
    }

    /// The first setting of this type, such as the GPU of `device.grnn`
    /// ([`grnn::DataSheet`](crate::core::cost::grnn::DataSheet)), which chooses persistent kernels.
    pub fn get<T: Any>(&self) -> Option<&T> {
        self.extensions
            .iter()
            .find_map(|setting| setting.downcast_ref())
    }
}

/// What an executor can prepare before the clock of a run starts.
#[derive(Clone, Debug, Default)]
pub struct Preparation {
    /// The requests whose results are compared later, ascending, for an executor that
    /// [keeps only chosen ones](Abilities::keeps_chosen_only).
    pub keep: Vec<RequestId>,
    /// The largest batch of each cell type; empty if the policy sets no bound.
    pub largest_batches: Vec<(CellId, u32)>,
    /// The only batch sizes that the policy uses, ascending; empty if it uses any size.
    pub batch_sizes: Vec<u32>,
    /// Whether tasks are whole requests, or parts of them.
    pub runs_several_steps: bool,
    /// The number of streams of each worker that the policy uses; 0 if unknown.
    pub streams: u16,
    /// The longest time of a task, after which its worker is given up; `None` for the executor's limit.
    pub task_limit: Option<Nanos>,
}

/// A network that an executor has loaded.
pub trait Loaded: Send {
    /// The network on the CPU, the reference for verification.
    fn network(&self) -> &Arc<Network>;

    /// The number format of products.
    fn precision(&self) -> Precision {
        Precision::F32
    }

    /// The device and the versions of its libraries, for results.
    fn describe(&self) -> String;

    /// Why cells run in traditional kernels although persistent ones were asked for.
    fn traditional(&self) -> Option<String> {
        None
    }

    /// Starts the workers of a run and, when they are ready, the clock. With [`Abilities::logs_steps`], the time of
    /// each step goes to `log`.
    fn start(
        &mut self,
        requests: &Requests,
        preparation: &Preparation,
        log: StepLog,
    ) -> Result<Box<dyn Backend + '_>>;
}

/// The channel to which the times of steps are sent, or `None` if they are not wanted.
pub type StepLog = Option<Sender<StepTime>>;

/// A simulated device, as `sim --backend` names it.
pub trait Simulator: fmt::Debug + Sync {
    /// The name on the command line and in results.
    fn name(&self) -> &'static str;

    /// One line for `--help`.
    fn about(&self) -> &'static str;

    /// Starts one run, with idle workers at time 0.
    fn start(&self, simulation: Simulation) -> Box<dyn Backend>;
}

/// What a simulator needs for one run.
pub struct Simulation {
    pub workers: usize,
    pub streams: u16,
    pub costs: TaskTimes,
    /// The random sequence of this replication that only the device uses.
    pub random: RandomSequence,
}

/// The simulator or the executor that a command has chosen, as `--backend` names it.
#[derive(Clone, Copy, Debug)]
pub enum SelectedBackend {
    /// A simulator. Its runs are independent, so they are spread over threads, and each replication draws its own
    /// workload.
    Simulated(&'static dyn Simulator),
    /// An executor. Its runs go one after the other, since they would disturb each other. All repeats have the same
    /// requests and arrivals.
    Real(&'static dyn Executor, Verify),
}

/// Which requests of a real run are compared with the same requests run alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Verify {
    /// Up to 32 of each run
    #[default]
    Sample,
    /// All that finished
    All,
    /// None
    None,
}

impl SelectedBackend {
    pub const SIM: SelectedBackend = SelectedBackend::Simulated(&SimulatedDevice);

    pub fn name(self) -> &'static str {
        match self {
            SelectedBackend::Simulated(simulator) => simulator.name(),
            SelectedBackend::Real(executor, _) => executor.name(),
        }
    }

    /// Whether the backend computes, on a real clock.
    pub fn is_real(self) -> bool {
        matches!(self, SelectedBackend::Real(..))
    }
}

/// The executors and simulators that the command line can name.
#[derive(Clone, Debug, Default)]
pub struct Executors {
    pub executors: Vec<&'static dyn Executor>,
    pub simulators: Vec<&'static dyn Simulator>,
}

impl Executors {
    pub fn standard() -> Executors {
        Executors::default()
            .with_simulator(&SimulatedDevice)
            .with(&CpuExecutor)
            .with(&CudaExecutor)
    }

    #[must_use]
    pub fn with(mut self, executor: &'static dyn Executor) -> Executors {
        self.executors.push(executor);
        self
    }

    #[must_use]
    pub fn with_simulator(mut self, simulator: &'static dyn Simulator) -> Executors {
        self.simulators.push(simulator);
        self
    }

    pub fn executor(&self, name: &str) -> Result<&'static dyn Executor> {
        find(&self.executors, name, |executor| executor.name())
    }

    pub fn simulator(&self, name: &str) -> Result<&'static dyn Simulator> {
        find(&self.simulators, name, |simulator| simulator.name())
    }
}

fn find<T: Copy>(known: &[T], name: &str, name_of: impl Fn(&T) -> &'static str) -> Result<T> {
    known
        .iter()
        .find(|one| name_of(one) == name)
        .copied()
        .ok_or_else(|| {
            let names: Vec<&str> = known.iter().map(name_of).collect();
            Error::input(format!(
                "unknown backend \"{name}\"; known: {}",
                names.join(", ")
            ))
        })
}
