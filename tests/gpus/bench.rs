//! A network on GPUs, and on the CPU beside it.

#![expect(clippy::disallowed_methods, reason = "waits for a device")]

use std::env;
use std::process::Command;
use std::time::{Duration, Instant};

use batchlab::backend::Output;
use batchlab::cost::grnn;
use batchlab::cuda::device::{
    BatchShape, Device, DeviceBatch, DeviceFault, DeviceStream, GatherRow, HostPlace, MemoryNeeds,
    PlanId, StateSlot,
};
use batchlab::cuda::gpu::Gpus;
use batchlab::network::{Network, Spec};
use batchlab::precision::Precision;
use batchlab::step_kernels::StepKernels;
use batchlab::units::{CellId, RequestId, StreamId, WorkerId};
use batchlab::workload::cell_graph::CellGraph;
use batchlab::workload::model::Model;

use crate::host_cuda;

/// Set in the process that a test runs in.
const INSIDE: &str = "GPUS_TEST_INSIDE";
/// Set to run the tests on the GPUs of this host. Tests that need a faulty GPU are skipped.
const REAL: &str = "REAL_GPU";

/// Whether the caller, the test of this name, is to go on: in a process of its own that sees the GPUs which `settings`
/// describe (`tests/host_cuda/driver/settings.hpp`). In the process that it is called in first it starts that one, and the test
/// is over when that has ended well. Libraries are looked for once a process, by what its environment said at its start.
#[track_caller]
pub fn inside(test: &str, settings: &[(&str, &str)]) -> bool {
    if env::var_os(INSIDE).is_some() {
        return true;
    }
    if env::var_os(REAL).is_some() {
        // A real GPU takes its own time, and its own order.
        let can_be_had = settings
            .iter()
            .all(|(name, _)| ["DELAY_US", "SEED"].contains(name));
        if !can_be_had {
            println!("{test} is passed over: no real GPU has {settings:?}");
        }
        return can_be_had;
    }
    let Some(libraries) = host_cuda::driver() else {
        return false;
    };
    let caches = tempfile::tempdir().expect("a folder for caches");
    let mut command = Command::new(env::current_exe().expect("a test knows its program"));
    command
        .args(["--exact", test, "--nocapture"])
        .env(INSIDE, "1")
        .env("XDG_CACHE_HOME", caches.path());
    command
        .env("LD_LIBRARY_PATH", &libraries)
        .env("BATCHLAB_CUDA_LIBRARIES", &libraries);
    command.envs(
        settings
            .iter()
            .map(|(name, value)| (format!("HOST_CUDA_{name}"), value)),
    );
    let ran = command.output().expect("the program starts again");
    let (said, complained) = (
        String::from_utf8_lossy(&ran.stdout),
        String::from_utf8_lossy(&ran.stderr),
    );
    assert!(
        ran.status.success() && said.contains("1 passed"),
        "{test} {settings:?}:\n{said}\n{complained}"
    );
    false
}

/// The first stream of the first worker.
pub const STREAM: DeviceStream = DeviceStream {
    worker: WorkerId(0),
    id: StreamId(0),
};

/// The network, and the GPUs with it.
pub struct Bench {
    pub network: Network,
    pub gpus: Gpus,
}

pub fn spec() -> Spec {
    Spec {
        hidden: 9,
        embedding: 5,
        vocabulary: 13,
        seed: 3,
        weights: None,
    }
}

/// The numbers of a place on the host, which has room for any state here.
pub const PLACE: u64 = 4096;

pub fn needs() -> MemoryNeeds {
    MemoryNeeds {
        states: 64,
        words: 256,
        fetched: 64,
        numbers: 64 * PLACE,
    }
}

/// A row of one node.
pub fn row(request: u32, node: u32, last: u32, inputs_end: u32) -> GatherRow {
    GatherRow {
        request: RequestId(request.into()),
        node,
        last,
        state: StateSlot(request),
        words: 16 * request,
        tokens: 0,
        inputs_end,
    }
}

impl Bench {
    pub fn new(model: &Model, precision: Precision, workers: usize) -> Bench {
        Bench::of(model, &spec(), precision, workers)
    }

    pub fn of(model: &Model, spec: &Spec, precision: Precision, workers: usize) -> Bench {
        Bench::with(model, spec, precision, StepKernels::Auto, None, workers)
    }

    /// A GPU with these kernels of steps.
    pub fn of_steps(
        model: &Model,
        spec: &Spec,
        precision: Precision,
        step_kernels: StepKernels,
    ) -> Bench {
        Bench::with(model, spec, precision, step_kernels, None, 1)
    }

    /// The same with persistent kernels by what is known of a device.
    pub fn persistent(model: &Model, spec: &Spec, precision: Precision, workers: usize) -> Bench {
        let device = grnn::DataSheet::open("titan-v").expect("a device that comes with batchlab");
        let step_kernels = StepKernels::Auto;
        Bench::with(model, spec, precision, step_kernels, Some(&device), workers)
    }

    fn with(
        model: &Model,
        spec: &Spec,
        precision: Precision,
        step_kernels: StepKernels,
        persistent: Option<&grnn::DataSheet>,
        workers: usize,
    ) -> Bench {
        let mut gpus =
            Gpus::new(model, spec, precision, step_kernels, persistent, workers).expect("GPUs");
        gpus.begin(workers, &needs()).expect("a run");
        Bench {
            network: Network::new(model, spec).expect("a network"),
            gpus,
        }
    }

    /// The plan of a batch on a stream.
    pub fn plan(
        &mut self,
        stream: DeviceStream,
        cell: u16,
        rows: u32,
        inputs: u32,
        signals: bool,
    ) -> PlanId {
        self.gpus
            .prepare(BatchShape {
                stream,
                cell: CellId(cell),
                rows,
                inputs,
                tokens: 0,
                steps: 0,
                signals,
            })
            .expect("a plan")
    }

    /// The plan of some steps of a batch in a persistent kernel.
    pub fn plan_of_steps(&mut self, stream: DeviceStream, rows: u32, steps: u32) -> PlanId {
        let shape = BatchShape {
            stream,
            cell: CellId(0),
            rows,
            inputs: 0,
            tokens: 0,
            steps,
            signals: false,
        };
        self.gpus.prepare(shape).expect("a plan")
    }

    /// The plan of a batch of an operator, padded to some tokens.
    pub fn plan_of(
        &mut self,
        stream: DeviceStream,
        cell: u16,
        rows: u32,
        tokens: u32,
        signals: bool,
    ) -> PlanId {
        self.gpus
            .prepare(BatchShape {
                stream,
                cell: CellId(cell),
                rows,
                inputs: 0,
                tokens,
                steps: 0,
                signals,
            })
            .expect("a plan")
    }

    pub fn gather(&mut self, plan: PlanId, rows: &[GatherRow], inputs: &[u32]) {
        let inputs: Vec<StateSlot> = inputs.iter().map(|slot| StateSlot(*slot)).collect();
        self.gpus
            .gather(
                plan,
                &DeviceBatch {
                    rows,
                    inputs: &inputs,
                },
            )
            .expect("a gather");
    }

    pub fn launch(&mut self, plan: PlanId, times: u32) {
        (0..times).for_each(|_| self.gpus.launch(plan).expect("a launch"));
    }

    /// Fetches the states of requests, in whose slots they are.
    pub fn fetch(&mut self, stream: DeviceStream, requests: impl Iterator<Item = u32>) {
        requests.for_each(|request| self.fetch_to(stream, StateSlot(request), request));
    }

    /// Fetches the state of a slot to the place of this number.
    pub fn fetch_to(&mut self, stream: DeviceStream, slot: StateSlot, number: u32) {
        self.gpus
            .copy_to_host(stream, slot, self.place(number))
            .expect("a fetch");
    }

    /// A place on the host, with room for a state of the network.
    pub fn place(&self, number: u32) -> HostPlace {
        HostPlace {
            number,
            begin: PLACE * u64::from(number),
            numbers: self.network.state() as u32,
        }
    }

    /// Waits until a stream has signalled so often.
    pub fn wait(&mut self, stream: DeviceStream, signals: u64) -> Result<(), DeviceFault> {
        let late = Instant::now() + Duration::from_secs(60);
        while self.gpus.signal_count(stream) < signals {
            self.gpus.health(stream.worker)?;
            assert!(
                Instant::now() < late,
                "{} of {signals} signals",
                self.gpus.signal_count(stream)
            );
            std::thread::sleep(Duration::from_micros(100));
        }
        assert_eq!(self.gpus.signal_count(stream), signals);
        Ok(())
    }

    pub fn alone(&self, request: u32, graph: &CellGraph) -> Output {
        self.network.alone(RequestId(request.into()), graph)
    }

    /// Compares a fetched state with the CPU's.
    #[track_caller]
    pub fn compare(&self, place: u32, expected: &[f32], precision: Precision) {
        let bound = if precision == Precision::F32 {
            2e-6
        } else {
            2e-2
        };
        let came = self.gpus.fetched_state(HostPlace {
            numbers: expected.len() as u32,
            ..self.place(place)
        });
        assert_eq!(came.len(), expected.len());
        for (at, (came, expected)) in came.iter().zip(expected).enumerate() {
            assert!(
                (came - expected).abs() <= bound * expected.abs().max(1.0),
                "{place}, {at}: {came}, not {expected}"
            );
        }
    }
}
