//! The simulator and the executors that come with batchlab: `sim`, `cpu` and `cuda`.

use std::fs;
use std::num::NonZero;
use std::sync::Arc;
use std::thread::available_parallelism;

use super::executor::{
    Abilities, Executor, Loaded, Preparation, Simulation, Simulator, StepLog, WorkerSettings,
};
use crate::base::error::{Error, Result};
use crate::base::precision::Precision;
use crate::base::units::WorkerId;
use crate::core::backend::Backend;
use crate::core::cost::grnn;
use crate::core::sim;
use crate::core::workload::model::Model;
use crate::core::workload::trace::Requests;
use crate::devices::cpu;
use crate::devices::cuda;
use crate::devices::cuda::gpu::Gpus;
use crate::devices::cuda::gpu::libraries::{self, Libraries, Library};
use crate::devices::network::Network;

/// The scenarios that `validate` runs by default.
pub(super) const VALIDATION_SET: [&str; 5] = [
    "scenarios/validate/chains.toml",
    "scenarios/validate/seq2seq.toml",
    "scenarios/validate/trees.toml",
    "scenarios/validate/three-ways.toml",
    "scenarios/validate/bert.toml",
];

const CUDA_VALIDATION_SET: [&str; 5] = [
    "scenarios/validate/gpu/chains.toml",
    "scenarios/validate/gpu/seq2seq.toml",
    "scenarios/validate/gpu/trees.toml",
    "scenarios/validate/gpu/three-ways.toml",
    "scenarios/validate/gpu/bert.toml",
];

/// Simulated workers, timed by the cost table.
#[derive(Clone, Copy, Debug)]
pub struct SimulatedDevice;

impl Simulator for SimulatedDevice {
    fn name(&self) -> &'static str {
        "sim"
    }

    fn about(&self) -> &'static str {
        "Tasks take the time that the cost table says"
    }

    fn start(&self, simulation: Simulation) -> Box<dyn Backend> {
        let Simulation {
            workers,
            streams,
            costs,
            random: _,
        } = simulation;
        sim::backend(workers, streams, costs)
    }
}

#[derive(Clone, Copy, Debug)]
pub struct CpuExecutor;

impl Executor for CpuExecutor {
    fn name(&self) -> &'static str {
        "cpu"
    }

    fn about(&self) -> &'static str {
        "This machine's processor; a worker is a thread"
    }

    fn abilities(&self) -> Abilities {
        Abilities {
            logs_steps: true,
            runs_operators: true,
            ..Abilities::default()
        }
    }

    fn check(&self, _: &Model, precision: Precision) -> Result<()> {
        match precision {
            Precision::F32 => Ok(()),
            precision => Err(Error::input(format!(
                "device.precision: the CPU computes only in f32, not in {precision}; leave it out, or use --backend cuda",
            ))),
        }
    }

    fn load(&self, network: Network, workers: &WorkerSettings) -> Result<Box<dyn Loaded>> {
        Ok(Box::new(OnCpu {
            network: Arc::new(network),
            workers: workers.count,
        }))
    }
}

struct OnCpu {
    network: Arc<Network>,
    workers: usize,
}

impl Loaded for OnCpu {
    fn network(&self) -> &Arc<Network> {
        &self.network
    }

    fn describe(&self) -> String {
        this_processor()
    }

    fn start(
        &mut self,
        requests: &Requests,
        preparation: &Preparation,
        log: StepLog,
    ) -> Result<Box<dyn Backend + '_>> {
        let network = Arc::clone(&self.network);
        let lanes = if log.is_some() {
            1
        } else {
            cpu::lanes(self.workers, preparation.streams)
        };
        let backend = cpu::Cpu::new(network, requests, self.workers, lanes, log)?;
        Ok(Box::new(backend))
    }
}

#[derive(Clone, Copy, Debug)]
pub struct CudaExecutor;

impl Executor for CudaExecutor {
    fn name(&self) -> &'static str {
        "cuda"
    }

    fn about(&self) -> &'static str {
        "This machine's GPUs; each of them is a worker"
    }

    fn abilities(&self) -> Abilities {
        Abilities {
            persistent_kernels: true,
            keeps_chosen_only: true,
            host_observed_times: true,
            shares_streams: true,
            ..Abilities::default()
        }
    }

    fn check(&self, model: &Model, _: Precision) -> Result<()> {
        cuda::check(model)
    }

    fn load(&self, network: Network, workers: &WorkerSettings) -> Result<Box<dyn Loaded>> {
        let persistent = workers.get::<grnn::DataSheet>();
        let gpus = Gpus::new(
            network.model(),
            network.spec(),
            workers.precision,
            workers.get().copied().unwrap_or_default(),
            persistent,
            workers.count,
        )?;
        Ok(Box::new(OnGpus {
            network: Arc::new(network),
            gpus,
            workers: workers.count,
            precision: workers.precision,
            wanted: persistent.map(|device| device.name.clone()),
        }))
    }

    fn validation_set(&self) -> &'static [&'static str] {
        &CUDA_VALIDATION_SET
    }
}

struct OnGpus {
    network: Arc<Network>,
    gpus: Gpus,
    workers: usize,
    precision: Precision,
    /// The name of the GPU whose performance model chooses persistent kernels.
    wanted: Option<String>,
}

impl Loaded for OnGpus {
    fn network(&self) -> &Arc<Network> {
        &self.network
    }

    fn precision(&self) -> Precision {
        self.precision
    }

    fn describe(&self) -> String {
        let workers = self.workers;
        let mut names: Vec<String> = (0..workers as u16)
            .map(|worker| self.gpus.describe(WorkerId(worker)))
            .collect();
        names.dedup();
        let times = if names.len() == 1 && workers > 1 {
            format!("{workers} x ")
        } else {
            String::new()
        };
        let Libraries {
            driver,
            nvrtc,
            cublas,
        } = Libraries::describe(&libraries::find());
        let version =
            |library: Option<Library>| library.map_or("unknown".into(), |library| library.version);
        let [driver, nvrtc, cublas] = [driver, nvrtc, cublas].map(version);
        let kernels = match &self.wanted {
            Some(name) if self.gpus.has_persistent_kernels() => {
                format!(", persistent kernels by the model of {name}")
            }
            Some(_) => ", traditional kernels".into(),
            None => String::new(),
        };
        let steps = match self.gpus.describe_steps() {
            "" => String::new(),
            steps => format!(", {steps}"),
        };
        format!(
            "{times}{}, driver CUDA {driver}, NVRTC {nvrtc}, cuBLAS {cublas}, {}{kernels}{steps}",
            names.join(" + "),
            self.precision,
        )
    }

    fn traditional(&self) -> Option<String> {
        let wanted = self
            .wanted
            .as_ref()
            .filter(|_| !self.gpus.has_persistent_kernels());
        wanted.map(|_| {
            let network = &self.network;
            let gpu = self.gpus.describe(WorkerId(0));
            let name = network.model().name();
            let hidden = network.spec().hidden;
            format!(
                "the registers of {gpu}, do not hold the weights of {name} with hidden {hidden}"
            )
        })
    }

    fn start(
        &mut self,
        requests: &Requests,
        preparation: &Preparation,
        _: StepLog,
    ) -> Result<Box<dyn Backend + '_>> {
        let network = Arc::clone(&self.network);
        Ok(Box::new(cuda::Cuda::new(
            &mut self.gpus,
            network,
            requests,
            self.workers,
            &cuda_options(preparation),
        )?))
    }
}

fn cuda_options(preparation: &Preparation) -> cuda::Options {
    cuda::Options {
        keep: preparation.keep.clone(),
        materialise: preparation.largest_batches.clone(),
        sizes: preparation.batch_sizes.clone(),
        several_launches: preparation.runs_several_steps,
        streams: preparation.streams,
        task_limit: preparation.task_limit,
        room: None,
    }
}

fn this_processor() -> String {
    let about = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let cores = available_parallelism().map_or(1, NonZero::get);
    format!(
        "{}, {cores} {}",
        model_name(&about).unwrap_or("unknown CPU"),
        if cores == 1 { "core" } else { "cores" }
    )
}

fn model_name(about: &str) -> Option<&str> {
    let names = about
        .lines()
        .filter_map(|line| line.split_once(':'))
        .filter(|(key, _)| key.trim() == "model name");
    names
        .map(|(_, name)| name.trim())
        .find(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processor_has_a_name() {
        let about = "processor\t: 0\nmodel\t\t: 85\nmodel name\t: Some CPU @ 2.00GHz\nflags\t: a b\nmodel name\t: Other\n";
        assert_eq!(model_name(about), Some("Some CPU @ 2.00GHz"));
        assert_eq!(model_name("Hardware : board\nmodel name :\n"), None);
        assert!(this_processor().contains(" core"));
    }
}
