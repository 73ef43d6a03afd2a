//! Failed launches, lost GPUs, NaNs and infinities, hosts that lack something.

use batchlab::cuda::device::{
    Device, DeviceBatch, DeviceFault, DeviceStream, MemoryNeeds, PlanId, StateSlot,
};
use batchlab::cuda::gpu::Gpus;
use batchlab::network::Spec;
use batchlab::network::weights::{Weights, tensors};
use batchlab::precision::Precision;
use batchlab::step_kernels::StepKernels;
use batchlab::units::{CellId, RequestId, WorkerId};
use batchlab::workload::cell_graph::CellGraph;
use batchlab::workload::model::Model;
use safetensors::tensor::{Dtype, TensorView, serialize};
use tempfile::TempDir;

use crate::bench::{Bench, STREAM, inside, needs, row, spec};

#[test]
fn a_launch_that_is_refused_costs_no_worker() {
    // Too many resources, and too many blocks for a cooperative launch. Three kernels are captured, and one gathers.
    let test = "faults::a_launch_that_is_refused_costs_no_worker";
    if !["701", "720"]
        .iter()
        .any(|code| inside(test, &[("FAIL_LAUNCH", "5"), ("FAIL_CODE", code)]))
    {
        return;
    }
    let mut bench = Bench::new(&Model::Lstm, Precision::F32, 1);
    let plan = bench.plan(STREAM, 0, 1, 0, true);
    let fault = (0..4).find_map(|_| {
        bench
            .gather_again(plan)
            .err()
            .or_else(|| bench.gpus.launch(plan).err())
    });
    let fault = fault.expect("one of the first launches is refused");
    assert!(
        !fault.lost && fault.reason.starts_with("GPU 0 (Host CUDA): "),
        "{fault}"
    );
    bench.gpus.health(STREAM.worker).unwrap();
    bench.gather_again(plan).unwrap();
    bench.launch(plan, 1);
    bench.fetch(STREAM, 0..1);
    bench.gpus.signal(STREAM).unwrap();
    bench.wait(STREAM, 2).unwrap();
    bench.compare(
        0,
        &bench.alone(0, &CellGraph::chain(CellId(0), 1)).state,
        Precision::F32,
    );
}

impl Bench {
    /// The first node of request 0.
    fn gather_again(&mut self, plan: PlanId) -> Result<(), DeviceFault> {
        let rows = [row(0, 0, 0, 0)];
        self.gpus.gather(
            plan,
            &DeviceBatch {
                rows: &rows,
                inputs: &[],
            },
        )
    }
}

#[test]
fn a_gpu_that_is_lost_says_why_from_then_on_and_leaves_the_others() {
    let lose = [("DEVICES", "2"), ("LOSE", "2"), ("LOSE_DEVICE", "1")];
    if !inside(
        "faults::a_gpu_that_is_lost_says_why_from_then_on_and_leaves_the_others",
        &lose,
    ) {
        return;
    }
    let mut bench = Bench::new(&Model::Lstm, Precision::F32, 2);
    let lost = DeviceStream {
        worker: WorkerId(1),
        ..STREAM
    };
    let (plan, lost_plan) = (
        bench.plan(STREAM, 0, 1, 0, true),
        bench.plan(lost, 0, 1, 0, true),
    );
    let event = bench.gpus.record(lost).unwrap();
    bench.gather(lost_plan, &[row(0, 0, 9, 0)], &[]);
    for _ in 0..3 {
        // The driver may say so when it queues, or when it is asked.
        let _ = bench.gpus.launch(lost_plan);
    }
    let fault = bench.wait(lost, 3).unwrap_err();
    assert!(
        fault.lost && fault.reason.starts_with("GPU 1 (Host CUDA): "),
        "{fault}"
    );
    for again in [
        bench.gpus.launch(lost_plan).unwrap_err(),
        bench.gpus.signal(lost).unwrap_err(),
        bench
            .gpus
            .copy_to_host(lost, StateSlot(0), bench.place(0))
            .unwrap_err(),
        bench.gpus.begin(2, &needs()).unwrap_err(),
    ] {
        assert_eq!(again, fault);
    }
    // What another worker wants of it can't be had, and that is all.
    let migrated = bench
        .gpus
        .copy_peer((lost.worker, StateSlot(0)), (STREAM, StateSlot(0)))
        .unwrap_err();
    let waited = bench.gpus.wait(STREAM, event).unwrap_err();
    assert_eq!(
        [migrated, waited],
        [(); 2].map(|()| DeviceFault {
            lost: false,
            ..fault.clone()
        })
    );

    for later_run in [false, true] {
        if later_run {
            bench
                .gpus
                .begin(
                    1,
                    &MemoryNeeds {
                        words: 9999,
                        ..needs()
                    },
                )
                .unwrap();
        }
        bench.gather(plan, &[row(1, 0, 3, 0)], &[]);
        bench.launch(plan, 4);
        bench.fetch(STREAM, 1..2);
        bench.gpus.signal(STREAM).unwrap();
        bench.wait(STREAM, 5).unwrap();
        bench.compare(
            1,
            &bench.alone(1, &CellGraph::chain(CellId(0), 4)).state,
            Precision::F32,
        );
    }
}

/// Weights in which the embedding of one word is NaN, in a folder of their own.
pub fn with_poison(model: &Model, spec: Spec, word: u32) -> (TempDir, Spec) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("weights.safetensors");
    let drawn = Weights::open(model, &spec).unwrap();
    let numbers: Vec<(String, Vec<usize>, Vec<u8>)> = tensors(model, &spec)
        .into_iter()
        .map(|tensor| {
            let mut numbers = drawn.take(&tensor.name);
            if tensor.name == "embedding.weight" {
                numbers[(word * spec.embedding) as usize] = f32::NAN;
            }
            (
                tensor.name,
                tensor.shape,
                numbers.into_iter().flat_map(f32::to_le_bytes).collect(),
            )
        })
        .collect();
    let views = numbers.iter().map(|(name, shape, bytes)| {
        (
            name.as_str(),
            TensorView::new(Dtype::F32, shape.clone(), bytes).expect("the tensor's bytes"),
        )
    });
    std::fs::write(&path, serialize(views, None).unwrap()).unwrap();
    (
        folder,
        Spec {
            weights: Some(path),
            ..spec
        },
    )
}

#[test]
fn nan_and_infinity_are_noted_for_their_slot() {
    if !inside("faults::nan_and_infinity_are_noted_for_their_slot", &[]) {
        return;
    }
    let (model, spec) = (Model::Lstm, spec());
    let good = Bench::of(&model, &spec, Precision::F32, 1);
    let words: Vec<u32> = (0..4)
        .map(|request| good.network.token(RequestId(request), 0))
        .collect();
    let poisoned = words[2];
    let (_folder, spec) = with_poison(&model, spec, poisoned);
    let mut bench = Bench::of(&model, &spec, Precision::F32, 1);
    let plan = bench.plan(STREAM, 0, 4, 0, true);
    bench.gather(
        plan,
        &[0, 1, 2, 3].map(|request| row(request, 0, 0, 0)),
        &[],
    );
    bench.launch(plan, 1);
    bench.wait(STREAM, 1).unwrap();
    for _ in 0..2 {
        // Asked once, it is forgotten; a new run begins with none either.
        let broken: Vec<bool> = (0..4)
            .map(|slot| bench.gpus.take_non_finite(STREAM.worker, StateSlot(slot)))
            .collect();
        assert_eq!(
            broken,
            words
                .iter()
                .map(|word| *word == poisoned)
                .collect::<Vec<_>>()
        );
        assert!((0..4).all(|slot| !bench.gpus.take_non_finite(STREAM.worker, StateSlot(slot))));
        bench.gather(
            plan,
            &[0, 1, 2, 3].map(|request| row(request, 0, 0, 0)),
            &[],
        );
        let signalled = bench.gpus.signal_count(STREAM);
        bench.launch(plan, 1);
        bench.wait(STREAM, signalled + 1).unwrap();
    }
    bench.gpus.begin(1, &needs()).unwrap();
    assert!((0..4).all(|slot| !bench.gpus.take_non_finite(STREAM.worker, StateSlot(slot))));
}

/// What a host lacks.
fn refusal(workers: usize) -> (u8, String) {
    let error = Gpus::new(
        &Model::Lstm,
        &spec(),
        Precision::F32,
        StepKernels::Auto,
        None,
        workers,
    )
    .unwrap_err();
    (error.exit_code(), error.to_string())
}

#[test]
fn a_driver_that_is_too_old_is_told() {
    if inside(
        "faults::a_driver_that_is_too_old_is_told",
        &[("VERSION", "11040")],
    ) {
        let (code, said) = refusal(1);
        assert_eq!(code, 1);
        assert!(
            said.starts_with("the driver is too old: ")
                && said.contains("CUDA up to 11.4, and 12.0"),
            "{said}"
        );
        assert!(said.contains("--backend cpu"), "{said}");
    }
}

#[test]
fn a_host_without_a_gpu_is_told() {
    if inside("faults::a_host_without_a_gpu_is_told", &[("DEVICES", "0")]) {
        let (code, said) = refusal(1);
        assert_eq!(code, 1);
        assert!(
            said.starts_with("there is no GPU: the driver ") && said.contains("--backend cpu"),
            "{said}"
        );
    }
}

#[test]
fn more_workers_than_gpus_are_a_mistake() {
    if inside(
        "faults::more_workers_than_gpus_are_a_mistake",
        &[("DEVICES", "2")],
    ) {
        let (code, said) = refusal(3);
        assert_eq!(code, 2);
        assert!(
            said.starts_with(
                "device.workers: 3 workers, each of which has a GPU of its own; from 1 to 2,"
            ),
            "{said}"
        );
        let dnn = Model::parse("dnn:net").unwrap();
        let square = Spec {
            embedding: 9,
            ..spec()
        };
        let error =
            Gpus::new(&dnn, &square, Precision::F32, StepKernels::Auto, None, 1).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert!(
            error
                .to_string()
                .starts_with("the model dnn:net has no cells for GPUs; run it with --backend cpu"),
            "{error}"
        );
    }
}
