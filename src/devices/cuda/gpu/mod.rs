//! The trait [`Device`] on CUDA.
//!
//! `cudarc` calls NVIDIA's driver. NVRTC and cuBLAS are called through our own tables of functions, because they are
//! opened by path ([`libraries`]). All unsafe code for GPUs is in this module.
//!
//! The repeated operations of a run neither allocate nor block. A gather is one launch over a staged batch, a launch of
//! a cell is one graph, also together with changes of rows, which are arguments of its first node, and a signal is a
//! counter in the host's memory that the GPU increments.

mod cache;
mod call;
mod cells;
mod compile;
pub mod cublas;
pub mod driver;
pub mod floors;
pub mod fused;
mod graph;
pub mod grnn;
mod host;
pub mod libraries;
mod library;
mod memory;
pub mod nvrtc;
mod plan;
mod stream;
mod weights;
mod worker;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use cudarc::driver::{result, sys};

use self::cache::KernelCache;
use self::cells::Sequences;
use self::compile::{FUSED, LoadedKernels, cell_files, options};
use self::driver::Gpu;
use self::host::GpuHost;
use self::memory::Mapped;
use self::plan::PlanState;
use self::stream::StreamState;
use self::weights::Upload;
use self::worker::GpuWorker;
use super::device::{
    BatchShape, Device, DeviceBatch, DeviceFault, DeviceStream, Event, HostPlace, MemoryNeeds,
    PlanId, RowUpdate, StateSlot,
};
use crate::base::error::{Context as _, Error, Result};
use crate::base::precision::Precision;
use crate::base::step_kernels::StepKernels;
use crate::base::units::WorkerId;
use crate::core::cost::grnn::DataSheet;
use crate::core::workload::model::Model;
use crate::devices::network::Spec;
use crate::devices::network::weights::Weights;

/// What to do if there is no GPU, for messages.
const CPU: &str = "use --backend cpu, which needs no GPU";

/// The GPUs of this host, each with the network. Fields are dropped in order: users before what they use.
#[derive(Debug)]
pub struct Gpus {
    /// The plans by number; `None` for dropped ones.
    plans: Vec<Option<PlanState>>,
    /// The numbers of dropped plans, some of which may be in use again.
    vacant: Vec<usize>,
    /// The plan of each shape. The map is never iterated.
    of_shape: HashMap<BatchShape, PlanId>,
    workers: Vec<GpuWorker>,
    /// The words that the requests write.
    words: Mapped<u32>,
    /// The states that are copied to the host.
    fetched: Mapped<f32>,
    /// The stream of each copy to the host, and the signal after the copy.
    copies: Vec<Option<(DeviceStream, u64)>>,
    /// Which steps are [`fused`], for the description.
    steps: String,
    /// The size of a state, in numbers.
    state: usize,
    spec: Spec,
    precision: Precision,
}

// SAFETY: the handles of the driver and of cuBLAS belong to a process, not to a thread; every call makes its context
// current first. Handles and memory are reachable only through this value, so two threads never use them at the same
// time.
unsafe impl Send for Gpus {}

impl Gpus {
    /// Opens one GPU for each worker, and loads the network's kernels and weights. If GRNN's description of such a GPU
    /// is given as `persistent`, launches of several steps run in persistent kernels, provided that the registers hold
    /// the weights.
    ///
    /// Fails if a library is missing or too old, if there are fewer GPUs than workers or too little memory, or if the
    /// model has no kernels.
    ///
    /// `step_kernels` decides how the steps of gated cells are computed.
    pub fn new(
        model: &Model,
        spec: &Spec,
        precision: Precision,
        step_kernels: StepKernels,
        persistent: Option<&DataSheet>,
        workers: usize,
    ) -> Result<Gpus> {
        spec.check(model)?;
        super::check(model)?;
        let found = libraries::find();
        let driver = found.driver.need().or_way_out(CPU)?;
        let visible = driver.gpus().or_way_out(CPU)?;
        let nvrtc = found.nvrtc.need().or_way_out(CPU)?;
        let cublas = found.cublas.need().or_way_out(CPU)?;
        if !(1..=visible).contains(&workers) {
            return Err(Error::input(format!(
                "device.workers: {workers} workers, each of which has a GPU of its own; from 1 to {visible}, which are visible"
            )));
        }
        let weights = Weights::open(model, spec)?;
        let cache = KernelCache::user_cache();
        let state = cells::state(model, spec);
        let mut opened = Vec::with_capacity(workers);
        let mut steps = String::new();
        for number in 0..workers {
            let nvrtc = nvrtc.clone();
            let cublas = cublas.clone();
            let cache = cache.clone();
            let host = GpuHost {
                gpu: Gpu::open(number)?,
                nvrtc,
                cublas,
                cache,
            };
            let mut upload = Upload::new(&host.gpu, &weights, spec, precision, step_kernels);
            let cells = cells::build_cells(model, &mut upload).map_err(Error::failure)?;
            let is_fused = upload.fused.iter().any(|(_, batches)| batches.is_ok());
            let files = cell_files().chain(is_fused.then_some(FUSED));
            let kernels = LoadedKernels::load(&host, files, &options(precision)).or_way_out(CPU)?;
            steps = fused::describe(step_kernels, &upload.fused);
            let sequences =
                persistent.map(|device| Sequences::new(host.clone(), model, device, &mut upload));
            opened.push(GpuWorker {
                streams: BTreeMap::new(),
                pool: None,
                non_finite: Mapped::new(&host.gpu, 0, "a note for each state")
                    .map_err(Error::failure)?,
                slots: 0,
                stride: cells::stride(state),
                cells,
                sequences: sequences.transpose()?.flatten(),
                persistent: None,
                kernels,
                cublas: host.cublas,
                gpu: host.gpu,
            });
        }
        let gpus: Vec<Arc<Gpu>> = opened
            .iter()
            .map(|worker| Arc::clone(&worker.gpu))
            .collect();
        for gpu in &gpus {
            gpus.iter()
                .filter(|other| other.number != gpu.number)
                .try_for_each(|other| gpu.reach(other))
                .map_err(Error::failure)?;
        }
        Ok(Gpus {
            plans: Vec::new(),
            vacant: Vec::new(),
            of_shape: HashMap::new(),
            workers: opened,
            words: Mapped::new(&gpus[0], 0, "words").map_err(Error::failure)?,
            fetched: Mapped::new(&gpus[0], 0, "fetched states").map_err(Error::failure)?,
            copies: Vec::new(),
            steps,
            state,
            spec: spec.clone(),
            precision,
        })
    }

    /// The name and the size of a worker's GPU.
    pub fn describe(&self, worker: WorkerId) -> String {
        let gpu = &self.workers[worker.index()].gpu;
        format!("{}, {} multiprocessors", gpu.name, gpu.multiprocessors)
    }

    /// Which steps of gated cells are fused, to follow the precision in a description; empty if it goes without saying.
    pub fn describe_steps(&self) -> &str {
        &self.steps
    }

    /// Whether launches of several steps run in persistent kernels.
    pub fn has_persistent_kernels(&self) -> bool {
        self.most_steps(1) > 0
    }

    /// A stream, opened if it is new.
    fn stream(&mut self, stream: DeviceStream) -> Result<&mut StreamState, DeviceFault> {
        let worker = worker_of(&mut self.workers, stream.worker)?;
        worker.gpu.check_usable()?;
        if !worker.streams.contains_key(&stream.id) {
            worker.open_stream(stream.id, self.precision)?;
        }
        Ok(worker
            .streams
            .get_mut(&stream.id)
            .expect("it was opened above"))
    }

    /// A plan and its stream.
    fn plan_and_stream(
        &mut self,
        plan: PlanId,
    ) -> Result<(&mut PlanState, &mut StreamState), DeviceFault> {
        let number = plan.0;
        let plan = self.plans.get_mut(number as usize).and_then(Option::as_mut);
        let Some(plan) = plan else {
            return Err(DeviceFault::survivable(format!(
                "plan {number} was given up"
            )));
        };
        let DeviceStream { worker, id } = plan.shape.stream;
        let worker = &mut self.workers[worker.index()];
        worker.gpu.check_usable()?;
        Ok((
            plan,
            worker
                .streams
                .get_mut(&id)
                .expect("a plan's stream is open"),
        ))
    }

    /// Makes a plan. The stream's memory must fit its shape.
    fn make(&self, shape: BatchShape) -> Result<PlanState, DeviceFault> {
        let worker = &self.workers[shape.stream.worker.index()];
        PlanState::new(
            shape,
            worker,
            &self.spec,
            self.words.address(0),
            self.precision,
        )
    }

    /// Drops plans, and returns their numbers and shapes.
    fn give_up(&mut self, which: impl Fn(&PlanState) -> bool) -> Vec<(usize, BatchShape)> {
        let mut given_up = Vec::new();
        for (place, plan) in self.plans.iter_mut().enumerate() {
            if let Some(plan) = plan.take_if(|plan| which(plan)) {
                self.of_shape.remove(&plan.shape);
                self.vacant.push(place);
                given_up.push((place, plan.shape));
            }
        }
        given_up
    }

    /// Makes plans again whose memory has moved. If one can't be made, it and those after it are dropped, because
    /// they refer to freed memory.
    fn remake(&mut self, moved: impl Fn(&PlanState) -> bool) -> Result<(), DeviceFault> {
        let given_up = self.give_up(moved);
        for (place, shape) in given_up {
            self.plans[place] = Some(self.make(shape)?);
            self.of_shape.insert(shape, PlanId(place as u32));
        }
        Ok(())
    }
}

impl Drop for Gpus {
    /// Waits for queued work before its memory is freed.
    fn drop(&mut self) {
        for worker in &self.workers {
            // On a lost GPU there is nothing to wait for.
            let _ = worker.gpu.synchronize();
        }
    }
}

impl Device for Gpus {
    fn begin(&mut self, workers: usize, needs: &MemoryNeeds) -> Result<Vec<u32>, DeviceFault> {
        if workers > self.workers.len() {
            let open = self.workers.len();
            return Err(DeviceFault::survivable(format!(
                "{workers} workers, but {open} GPUs are open"
            )));
        }
        for (number, GpuWorker { gpu, .. }) in self.workers.iter().enumerate() {
            let ended = gpu.check_usable().and_then(|()| gpu.synchronize());
            // The loss of a GPU does not concern a run with fewer workers.
            if number < workers {
                ended?;
            }
        }
        let lost: Vec<bool> = self
            .workers
            .iter()
            .map(|worker| worker.gpu.check_usable().is_err())
            .collect();
        self.give_up(|plan| lost[plan.shape.stream.worker.index()]);
        let gpu = Arc::clone(&self.workers[0].gpu);
        let floats = needs.numbers as usize;
        if floats > self.fetched.count {
            self.fetched = Mapped::new(&gpu, floats, "fetched states")?;
        }
        self.copies.clear();
        self.copies.resize(needs.fetched as usize, None);
        let more_words = needs.words as usize > self.words.count;
        if more_words {
            self.words = Mapped::new(&gpu, (needs.words as usize).next_power_of_two(), "words")?;
        }
        let mut moved = vec![more_words; self.workers.len()];
        let fits = self.workers[..workers]
            .iter_mut()
            .zip(&mut moved)
            .try_for_each(|(worker, moved)| {
                *moved |= worker.fit(needs.states)?;
                worker.reset()
            });
        if let Err(fault) = fits {
            // No plan keeps freed memory.
            self.give_up(|_| true);
            return Err(fault);
        }
        self.remake(|plan| moved[plan.shape.stream.worker.index()])?;
        Ok(self.workers[..workers]
            .iter()
            .map(|worker| worker.slots)
            .collect())
    }

    fn most_steps(&self, rows: u32) -> u32 {
        // All workers have the same network. If the GPUs differ, the weaker one decides.
        let steps = self.workers.iter().map(|worker| worker.most_steps(rows));
        steps.min().unwrap_or(0)
    }

    fn prepare(&mut self, shape: BatchShape) -> Result<PlanId, DeviceFault> {
        if let Some(plan) = self.of_shape.get(&shape) {
            return Ok(*plan);
        }
        self.stream(shape.stream)?;
        let worker = &mut self.workers[shape.stream.worker.index()];
        if let Some(sequences) = worker.sequences.as_mut().filter(|_| shape.steps > 0)
            && let Err(fault) = sequences.make_ready(shape.rows)
        {
            // Only NVIDIA's driver knows whether the GPU is lost.
            let lost = worker.gpu.memory().is_err_and(|fault| fault.lost);
            return Err(DeviceFault { lost, ..fault });
        }
        if worker.fit_stream(&shape, self.precision)? {
            let memory = worker.memory_of(&shape);
            self.remake(|plan| plan.shape.stream == shape.stream && plan.memory == memory)?;
        }
        let made = self.make(shape)?;
        let vacant =
            std::iter::from_fn(|| self.vacant.pop()).find(|place| self.plans[*place].is_none());
        let place = vacant.unwrap_or(self.plans.len());
        if place == self.plans.len() {
            self.plans.push(None);
        }
        self.plans[place] = Some(made);
        let plan = PlanId(place as u32);
        self.of_shape.insert(shape, plan);
        Ok(plan)
    }

    fn release(&mut self, plan: PlanId) {
        let place = plan.0 as usize;
        if let Some(plan) = self.plans.get_mut(place).and_then(Option::take) {
            self.of_shape.remove(&plan.shape);
            self.vacant.push(place);
        }
    }

    fn gather(&mut self, plan: PlanId, batch: &DeviceBatch<'_>) -> Result<(), DeviceFault> {
        let (plan, stream) = self.plan_and_stream(plan)?;
        plan.gather(stream, batch)
    }

    fn launch(&mut self, plan: PlanId) -> Result<(), DeviceFault> {
        let BatchShape { stream, steps, .. } = self.plan_and_stream(plan)?.0.shape;
        if steps > 0 {
            self.workers[stream.worker.index()].one_at_a_time(stream.id)?;
        }
        let (plan, stream) = self.plan_and_stream(plan)?;
        plan.launch(stream)
    }

    fn launch_changed(&mut self, plan: PlanId, changes: &[RowUpdate]) -> Result<(), DeviceFault> {
        let (plan, stream) = self.plan_and_stream(plan)?;
        plan.launch_changed(stream, changes)
    }

    fn signal(&mut self, stream: DeviceStream) -> Result<(), DeviceFault> {
        self.stream(stream)?.signal()
    }

    fn signal_count(&self, stream: DeviceStream) -> u64 {
        let worker = &self.workers[stream.worker.index()];
        worker
            .streams
            .get(&stream.id)
            .map_or(0, StreamState::signal_count)
    }

    fn record(&mut self, stream: DeviceStream) -> Result<Event, DeviceFault> {
        let number = self.stream(stream)?.record()?;
        Ok(Event { stream, number })
    }

    fn wait(&mut self, stream: DeviceStream, event: Event) -> Result<(), DeviceFault> {
        let event = self
            .stream(event.stream)
            .map_err(fault_of_other_worker)?
            .event(event.number);
        // SAFETY: events live as long as their streams, which are never closed.
        unsafe { self.stream(stream)?.wait(event) }
    }

    fn copy_peer(
        &mut self,
        from: (WorkerId, StateSlot),
        to: (DeviceStream, StateSlot),
    ) -> Result<(), DeviceFault> {
        let bytes = self.state * size_of::<f32>();
        let source = worker_of(&mut self.workers, from.0)?;
        source.gpu.check_usable().map_err(fault_of_other_worker)?;
        let source_context = source.gpu.handle();
        let source = source.state(from.1)?;
        let raw = self.stream(to.0)?.handle().raw;
        let worker = &mut self.workers[to.0.worker.index()];
        let target = worker.state(to.1)?;
        // SAFETY: both are states of pools, which do not move while work is queued; contexts and stream are alive.
        worker
            .gpu
            .call("a state can't be migrated over", || unsafe {
                if from.0 == to.0.worker {
                    result::memcpy_dtod_async(target, source, bytes, raw)
                } else {
                    result::memcpy_peer_async(
                        worker.gpu.handle(),
                        target,
                        source_context,
                        source,
                        bytes,
                        raw,
                    )
                }
            })
    }

    fn copy_to_host(
        &mut self,
        stream: DeviceStream,
        slot: StateSlot,
        place: HostPlace,
    ) -> Result<(), DeviceFault> {
        let HostPlace {
            number,
            begin,
            numbers,
        } = place;
        let bytes = (numbers as usize).min(self.state) * size_of::<f32>();
        self.stream(stream)?;
        let target = self.fetched.place(begin as usize);
        let worker = &mut self.workers[stream.worker.index()];
        let source = worker.state(slot)?;
        let on = &worker.streams[&stream.id];
        self.copies[number as usize] = Some((stream, on.next_signal()));
        on.handle().call("a state can't be fetched", |on| {
            // SAFETY: the slot is a state of the pool, and the place has room for it; both live while work is queued.
            unsafe { sys::cuMemcpyDtoHAsync_v2(target.cast(), source, bytes, on) }.result()
        })
    }

    fn fetched_state(&self, place: HostPlace) -> &[f32] {
        let (stream, signal) =
            self.copies[place.number as usize].expect("a state is fetched before it is read");
        assert!(
            self.signal_count(stream) >= signal,
            "a fetched state is read behind the signal that follows the copy"
        );
        // SAFETY: the only copy to this place was queued before a signal that has been counted; another one would have
        // to be queued through this value, which the slice borrows.
        unsafe {
            self.fetched
                .read(place.begin as usize, place.numbers as usize)
        }
    }

    fn word(&self, place: u32) -> u32 {
        self.words.get(place as usize).load(Ordering::Relaxed)
    }

    fn take_non_finite(&mut self, worker: WorkerId, slot: StateSlot) -> bool {
        let note = self.workers[worker.index()].non_finite.get(slot.0 as usize);
        // No queued work writes it, and an exchange takes longer than a read.
        let non_finite = note.load(Ordering::Relaxed) != 0;
        if non_finite {
            note.store(0, Ordering::Relaxed);
        }
        non_finite
    }

    fn health(&mut self, worker: WorkerId) -> Result<(), DeviceFault> {
        let worker = worker_of(&mut self.workers, worker)?;
        worker.gpu.check_usable()?;
        worker.streams.values().try_for_each(StreamState::health)
    }

    fn give_up(&mut self, worker: WorkerId, reason: &str) {
        if let Ok(worker) = worker_of(&mut self.workers, worker) {
            worker.gpu.give_up(reason);
        }
    }
}

fn worker_of(workers: &mut [GpuWorker], id: WorkerId) -> Result<&mut GpuWorker, DeviceFault> {
    let open = workers.len();
    workers
        .get_mut(id.index())
        .ok_or_else(|| DeviceFault::survivable(format!("worker {id}, but {open} GPUs are open")))
}

/// The fault of a worker other than the called one, which is not lost.
fn fault_of_other_worker(fault: DeviceFault) -> DeviceFault {
    DeviceFault {
        lost: false,
        ..fault
    }
}
