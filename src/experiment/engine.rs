//! A network on a device that computes: made ready once, started for each run.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use super::target::{Processor, this_processor};
use super::verify::Answer;
use crate::backend::Backend;
use crate::backend::cpu::{self, Cpu, StepTime};
use crate::backend::cuda::gpu::about::{Libraries, Library};
use crate::backend::cuda::gpu::{Gpus, libraries};
use crate::backend::cuda::{Cuda, Options};
use crate::cost::grnn;
use crate::error::{Error, Result};
use crate::gpu_settings::{Precision, Settings};
use crate::network::Network;
use crate::units::{RequestId, WorkerId};
use crate::workload::model::Model;
use crate::workload::trace::Requests;

/// A network that is ready to be started on its device. What takes long (weights, kernels) is done once, here.
pub struct Engine {
    network: Arc<Network>,
    workers: usize,
    precision: Precision,
    /// The device by whose model persistent kernels are chosen.
    persistent: Option<String>,
    place: Place,
}

enum Place {
    Cpu,
    Gpus(Box<Gpus>),
}

/// A device that has been started for a run.
pub trait Running: Backend {
    /// What a request came to, once it has finished. A device that keeps the results of some requests alone knows of these.
    fn answer(&self, request: RequestId) -> Option<Answer>;
}

impl Running for Cpu {
    fn answer(&self, request: RequestId) -> Option<Answer> {
        self.digest(request).map(Answer::Digest)
    }
}

impl Running for Cuda<'_, Gpus> {
    fn answer(&self, request: RequestId) -> Option<Answer> {
        self.output(request).map(Answer::Output)
    }
}

impl Engine {
    /// Makes a network ready on so many workers. `settings` are those of GPUs, which take its weights from where it has them, and
    /// `persistent` is what GRNN's model knows of one, where tasks of several steps are to run in persistent kernels.
    ///
    /// # Errors
    /// A GPU that is missing, or something that it needs.
    pub fn new(
        processor: Processor,
        network: Network,
        settings: &Settings,
        persistent: Option<&grnn::Device>,
        workers: usize,
    ) -> Result<Engine> {
        let (precision, place) = match processor {
            Processor::Cpu => (Precision::F32, Place::Cpu),
            Processor::Cuda => {
                let gpus = Gpus::new(network.model(), network.spec(), settings, persistent, workers)?;
                (settings.precision, Place::Gpus(Box::new(gpus)))
            }
        };
        let persistent = persistent.map(|device| device.name.clone());
        Ok(Engine { network: Arc::new(network), workers, precision, persistent, place })
    }

    /// The network, as the CPU computes it.
    pub fn network(&self) -> &Arc<Network> {
        &self.network
    }

    /// The format in which products are computed.
    pub fn precision(&self) -> Precision {
        self.precision
    }

    /// Whether the answers of a run are to be chosen before it, because the device keeps no others.
    pub fn keeps_some(&self) -> bool {
        matches!(self.place, Place::Gpus(_))
    }

    /// Whether a task has finished when the host sees it, and starts when it is submitted or when the host sees the one before
    /// it to be done. A worker that is a thread reads the clock itself.
    pub fn times_are_seen(&self) -> bool {
        matches!(self.place, Place::Gpus(_))
    }

    /// The device, in words, with the versions of what it computes with.
    pub fn described(&self) -> String {
        match &self.place {
            Place::Cpu => this_processor(),
            Place::Gpus(gpus) => {
                let kernels =
                    self.persistent.as_ref().map(|name| format!(", persistent kernels by the model of {name}"));
                of_gpus(gpus, self.workers, self.precision) + &kernels.unwrap_or_default()
            }
        }
    }

    /// As [`Engine::start`], with workers that tell `log` of each step that they run inside of tasks of whole requests, where
    /// the device can: a GPU runs them out of its host's sight, and tells nothing.
    ///
    /// # Errors
    /// Those of [`Engine::start`].
    pub fn start_logging<'e>(
        &'e mut self,
        requests: &Requests,
        options: &Options,
        log: Sender<StepTime>,
    ) -> Result<Box<dyn Running + 'e>> {
        match self.place {
            Place::Cpu => Ok(Box::new(Cpu::logging(Arc::clone(&self.network), requests, self.workers, log)?)),
            Place::Gpus(_) => self.start(requests, options),
        }
    }

    /// Starts the workers for the requests of a run. The clock starts when they are ready.
    ///
    /// # Errors
    /// A thread that can't be started; a GPU's memory that is not there.
    pub fn start<'e>(&'e mut self, requests: &Requests, options: &Options) -> Result<Box<dyn Running + 'e>> {
        let network = Arc::clone(&self.network);
        Ok(match &mut self.place {
            Place::Cpu => {
                let lanes = cpu::lanes(self.workers, options.streams);
                Box::new(Cpu::with_lanes(network, requests, self.workers, lanes)?)
            }
            Place::Gpus(gpus) => Box::new(Cuda::new(&mut **gpus, network, requests, self.workers, options)?),
        })
    }
}

/// GPUs in words, with the versions of what they are used through.
fn of_gpus(gpus: &Gpus, workers: usize, precision: Precision) -> String {
    let mut names: Vec<String> = (0..workers as u16).map(|worker| gpus.describe(WorkerId(worker))).collect();
    names.dedup();
    let times = if names.len() == 1 && workers > 1 { format!("{workers} x ") } else { String::new() };
    let Libraries { driver, nvrtc, cublas } = Libraries::of(&libraries::find());
    let version = |library: Option<Library>| library.map_or("unknown".into(), |library| library.version);
    let [driver, nvrtc, cublas] = [driver, nvrtc, cublas].map(version);
    format!("{times}{}, driver CUDA {driver}, NVRTC {nvrtc}, cuBLAS {cublas}, {precision}", names.join(" + "))
}

/// Whether a device computes a model as these settings ask for.
///
/// # Errors
/// What it can't, and what can.
pub fn check(processor: Processor, model: &Model, settings: &Settings) -> Result<()> {
    match (processor, settings.precision) {
        // Before weights are drawn that nobody multiplies with.
        (Processor::Cuda, _) => crate::backend::cuda::check(model),
        (Processor::Cpu, precision) if precision != Precision::F32 => Err(Error::input(format!(
            "device.precision: the CPU computes in f32 alone, not in {precision}; leave it out, or use --backend cuda",
        ))),
        _ => Ok(()),
    }
}
