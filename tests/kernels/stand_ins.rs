//! The libraries that stand in for the driver and cuBLAS do what those would: products, order, captures, refusals.

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::OnceLock;

use half::{bf16, f16};
use libloading::Library;

use crate::host_cuda;

type Handle = *mut c_void;

/// What the tests below call, with the signatures of CUDA's headers.
struct Cuda {
    library: Library,
}

/// Calls a function by its name.
macro_rules! call {
    ($cuda:ident.$function:ident($($value:expr => $type:ty),* $(,)?)) => {{
        // SAFETY: the signature is that of the vendor's header, and the tests give pointers that are valid for the call.
        unsafe {
            let function = $cuda.library.get::<unsafe extern "C" fn($($type),*) -> c_int>(stringify!($function)).unwrap();
            function($($value),*)
        }
    }};
}

/// The libraries, with the device's context current; nothing where there is no compiler.
fn cuda() -> Option<&'static Cuda> {
    static CUDA: OnceLock<Option<Cuda>> = OnceLock::new();
    let cuda = CUDA.get_or_init(|| {
        Some(Cuda {
            library: host_cuda::load(&host_cuda::driver()?.join("libcuda.so.1")),
        })
    });
    let cuda = cuda.as_ref()?;
    let mut context: Handle = null_mut();
    assert_eq!(call!(cuda.cuInit(0 => u32)), 0);
    assert_eq!(
        call!(cuda.cuDevicePrimaryCtxRetain(&mut context => *mut Handle, 0 => c_int)),
        0
    );
    assert_eq!(call!(cuda.cuCtxSetCurrent(context => Handle)), 0);
    Some(cuda)
}

impl Cuda {
    fn memory(&self, bytes: usize) -> u64 {
        let mut address = 0u64;
        assert_eq!(
            call!(self.cuMemAlloc_v2(&mut address => *mut u64, bytes => usize)),
            0
        );
        address
    }

    fn holding<T: Copy>(&self, values: &[T]) -> u64 {
        let bytes = size_of_val(values);
        let address = self.memory(bytes);
        assert_eq!(
            call!(self.cuMemcpyHtoD_v2(address => u64, values.as_ptr().cast() => *const c_void, bytes => usize)),
            0
        );
        address
    }

    fn read(&self, address: u64, count: usize) -> Vec<f32> {
        let mut values = vec![0f32; count];
        let to: *mut c_void = values.as_mut_ptr().cast();
        assert_eq!(
            call!(self.cuMemcpyDtoH_v2(to => *mut c_void, address => u64, 4 * count => usize)),
            0
        );
        values
    }

    fn stream(&self) -> Handle {
        let mut stream = null_mut();
        assert_eq!(
            call!(self.cuStreamCreate(&mut stream => *mut Handle, 1 => u32)),
            0
        );
        stream
    }

    fn event(&self) -> Handle {
        let mut event = null_mut();
        assert_eq!(
            call!(self.cuEventCreate(&mut event => *mut Handle, 2 => u32)),
            0
        );
        event
    }

    fn finish(&self, stream: Handle) {
        assert_eq!(call!(self.cuStreamSynchronize(stream => Handle)), 0);
    }

    /// A handle of products on a stream.
    fn products(&self, stream: Handle) -> Handle {
        let mut handle = null_mut();
        assert_eq!(call!(self.cublasCreate_v2(&mut handle => *mut Handle)), 0);
        assert_eq!(
            call!(self.cublasSetStream_v2(handle => Handle, stream => Handle)),
            0
        );
        handle
    }

    /// Queues c\[rows, outputs\] = x\[rows, inputs\] · w\[outputs, inputs\]ᵀ, all of them row by row.
    fn multiply(
        &self,
        handle: Handle,
        [rows, outputs, inputs]: [i32; 3],
        [x, w, c]: [u64; 3],
        [of, by]: [c_int; 2],
    ) -> c_int {
        let (one, zero) = (1f32, 0f32);
        call!(self.cublasGemmEx(
            handle => Handle, 1 => c_int, 0 => c_int, outputs => c_int, rows => c_int, inputs => c_int,
            &one => *const f32, w => u64, of => c_int, inputs => c_int, x => u64, of => c_int, inputs => c_int,
            &zero => *const f32, c => u64, 0 => c_int, outputs => c_int, by => c_int, -1 => c_int,
        ))
    }
}

const ROWS: usize = 3;
const OUTPUTS: usize = 5;
const INPUTS: usize = 7;
const SIZES: [i32; 3] = [ROWS as i32, OUTPUTS as i32, INPUTS as i32];
const F32: [c_int; 2] = [0, 68];

/// Operand and weights with numbers that no two of have in common, and their product.
fn factors() -> (Vec<f32>, Vec<f32>) {
    let numbers = |count: usize, step: f32| {
        (0..count)
            .map(|i| (i as f32 * step).sin())
            .collect::<Vec<f32>>()
    };
    (numbers(ROWS * INPUTS, 0.7), numbers(OUTPUTS * INPUTS, 1.3))
}

fn product(x: &[f32], w: &[f32]) -> Vec<f32> {
    let row = |x: &[f32], w: &[f32]| x.iter().zip(w).map(|(x, w)| x * w).sum();
    x.chunks(INPUTS)
        .flat_map(|x| w.chunks(INPUTS).map(move |w| row(x, w)))
        .collect()
}

#[track_caller]
fn near(found: &[f32], expected: &[f32], tolerated: f32) {
    assert_eq!(found.len(), expected.len());
    assert!(
        found
            .iter()
            .zip(expected)
            .all(|(a, b)| (a - b).abs() <= tolerated),
        "{found:?} {expected:?}"
    );
}

#[test]
fn products_are_right_in_every_format() {
    let Some(cuda) = cuda() else { return };
    let stream = cuda.stream();
    let handle = cuda.products(stream);
    let (x, w) = factors();
    let result = cuda.memory(4 * ROWS * OUTPUTS);
    let halves = |all: &[f32]| all.iter().map(|x| f16::from_f32(*x)).collect::<Vec<f16>>();
    let brains = |all: &[f32]| {
        all.iter()
            .map(|x| bf16::from_f32(*x))
            .collect::<Vec<bf16>>()
    };
    let (half, brain) = ([halves(&x), halves(&w)], [brains(&x), brains(&w)]);
    let wide = |all: &[f16]| all.iter().map(|x| x.to_f32()).collect::<Vec<f32>>();
    let wider = |all: &[bf16]| all.iter().map(|x| x.to_f32()).collect::<Vec<f32>>();
    for (operands, how, expected, tolerated) in [
        (
            [cuda.holding(&x), cuda.holding(&w)],
            F32,
            product(&x, &w),
            1e-6,
        ),
        (
            [cuda.holding(&x), cuda.holding(&w)],
            [0, 77],
            product(&x, &w),
            7.0 * 2f32.powi(-10),
        ),
        (
            half.each_ref().map(|all| cuda.holding(all)),
            [2, 68],
            product(&wide(&half[0]), &wide(&half[1])),
            1e-6,
        ),
        (
            brain.each_ref().map(|all| cuda.holding(all)),
            [14, 68],
            product(&wider(&brain[0]), &wider(&brain[1])),
            1e-6,
        ),
    ] {
        assert_eq!(
            cuda.multiply(handle, SIZES, [operands[0], operands[1], result], how),
            0
        );
        cuda.finish(stream);
        near(&cuda.read(result, ROWS * OUTPUTS), &expected, tolerated);
    }
    let exact = cuda.holding(&[1.0f32 + 1.0 / 4096.0; INPUTS]);
    assert_eq!(
        cuda.multiply(handle, [1, 1, 1], [exact, exact, result], [0, 77]),
        0
    );
    cuda.finish(stream);
    assert_eq!(
        cuda.read(result, 1),
        [1.0],
        "TF32 rounds what it multiplies"
    );
}

#[test]
fn memory_that_was_not_taken_is_refused() {
    let Some(cuda) = cuda() else { return };
    let stream = cuda.stream();
    let memory = cuda.memory(64);
    assert_eq!(
        cuda.read(memory, 1)[0].to_bits(),
        0xcdcd_cdcd,
        "nothing is there at first"
    );
    for (address, bytes) in [(memory, 65), (memory + 4, 64), (memory - 4, 4), (64, 4)] {
        assert_eq!(
            call!(cuda.cuMemsetD8_v2(address => u64, 0 => u8, bytes => usize)),
            1
        );
    }
    let mut pageable = 0f32;
    let to: *mut c_void = (&raw mut pageable).cast();
    let copied = call!(cuda.cuMemcpyDtoHAsync_v2(to => *mut c_void, memory => u64, 4 => usize, stream => Handle));
    assert_eq!(copied, 1, "such a copy needs pinned memory");
    let handle = cuda.products(stream);
    assert_eq!(
        cuda.multiply(handle, SIZES, [memory, memory, memory], F32),
        7,
        "too small for the product"
    );
    assert_eq!(call!(cuda.cuMemFree_v2(memory => u64)), 0);
    assert_eq!(call!(cuda.cuMemFree_v2(memory => u64)), 1);
    assert_eq!(
        call!(cuda.cuMemsetD8_v2(memory => u64, 0 => u8, 4 => usize)),
        1
    );
    assert_eq!(
        call!(cuda.cuMemAlloc_v2(&mut 0u64 => *mut u64, 1 << 40 => usize)),
        2
    );
}

#[test]
fn a_wait_is_for_what_was_recorded_before_it() {
    let Some(cuda) = cuda() else { return };
    let (first, second, event) = (cuda.stream(), cuda.stream(), cuda.event());
    let wait = |stream| call!(cuda.cuStreamWaitEvent(stream => Handle, event => Handle, 0 => u32));
    let record = |stream| call!(cuda.cuEventRecord(event => Handle, stream => Handle));
    // What was never recorded is not waited for.
    assert_eq!(wait(second), 0);
    cuda.finish(second);

    let (count, edge) = (1 << 16, 1 << 8);
    let (ones, results) = (
        cuda.holding(&vec![1f32; count]),
        [cuda.memory(4 * count), cuda.memory(4 * count)],
    );
    let handle = cuda.products(first);
    assert_eq!(
        cuda.multiply(handle, [edge; 3], [ones, ones, results[0]], F32),
        0
    );
    assert_eq!(record(first), 0);
    assert_eq!(wait(second), 0);
    let copied = call!(cuda.cuMemcpyDtoDAsync_v2(results[1] => u64, results[0] => u64, 4 * count => usize, second => Handle));
    assert_eq!(copied, 0);
    // A record that comes later, behind a wait for it on the other stream, does not hold the first wait back.
    assert_eq!(wait(first), 0);
    assert_eq!(record(second), 0);
    assert_eq!(wait(first), 0);
    assert_eq!(call!(cuda.cuCtxSynchronize()), 0);
    assert_eq!(cuda.read(results[1], count), vec![edge as f32; count]);
}

#[test]
fn what_is_captured_runs_when_the_graph_is_launched() {
    let Some(cuda) = cuda() else { return };
    let stream = cuda.stream();
    let handle = cuda.products(stream);
    let (x, w) = factors();
    let (operand, weights, result) = (
        cuda.holding(&x),
        cuda.holding(&w),
        cuda.memory(4 * ROWS * OUTPUTS),
    );
    let begin = || {
        assert_eq!(
            call!(cuda.cuStreamBeginCapture_v2(stream => Handle, 1 => c_int)),
            0
        )
    };
    let (mut graph, mut executable) = (null_mut(), null_mut());

    begin();
    assert_eq!(
        call!(cuda.cuMemAlloc_v2(&mut 0u64 => *mut u64, 4 => usize)),
        900,
        "memory can't be taken meanwhile"
    );
    assert_eq!(
        call!(cuda.cuStreamEndCapture(stream => Handle, &mut graph => *mut Handle)),
        901,
        "that spoils the capture"
    );

    begin();
    assert_eq!(
        cuda.multiply(handle, SIZES, [operand, weights, result], F32),
        0
    );
    assert_eq!(
        call!(cuda.cuStreamEndCapture(stream => Handle, &mut graph => *mut Handle)),
        0
    );
    cuda.finish(stream);
    assert_eq!(
        cuda.read(result, 1)[0].to_bits(),
        0xcdcd_cdcd,
        "nothing has run yet"
    );
    let made = call!(cuda.cuGraphInstantiateWithFlags(&mut executable => *mut Handle, graph => Handle, 0 => u64));
    assert_eq!((made, call!(cuda.cuGraphDestroy(graph => Handle))), (0, 0));
    for factor in [1.0, -2.0] {
        let scaled: Vec<f32> = x.iter().map(|x| factor * x).collect();
        let from = scaled.as_ptr().cast();
        assert_eq!(
            call!(cuda.cuMemcpyHtoD_v2(operand => u64, from => *const c_void, size_of_val(&scaled[..]) => usize)),
            0
        );
        assert_eq!(
            call!(cuda.cuGraphLaunch(executable => Handle, stream => Handle)),
            0
        );
        cuda.finish(stream);
        near(
            &cuda.read(result, ROWS * OUTPUTS),
            &product(&scaled, &w),
            1e-6,
        );
    }
    assert_eq!(call!(cuda.cuGraphExecDestroy(executable => Handle)), 0);
    assert_eq!(
        call!(cuda.cuGraphLaunch(executable => Handle, stream => Handle)),
        400,
        "it is gone"
    );
}

#[test]
fn what_is_no_image_is_refused() {
    let Some(cuda) = cuda() else { return };
    let mut module: Handle = null_mut();
    let load = |module: &mut Handle, image: &std::ffi::CStr| call!(cuda.cuModuleLoadData(module => *mut Handle, image.as_ptr().cast() => *const c_void));
    assert_eq!(load(&mut module, c"\x7fELF"), 200);
    assert_eq!(load(&mut module, c"host-cuda-image 1 signal missing"), 0);
    let mut function: Handle = null_mut();
    for (name, result) in [(c"signal", 0), (c"missing", 500), (c"step_lstm", 500)] {
        let found = call!(cuda.cuModuleGetFunction(&mut function => *mut Handle, module => Handle, name.as_ptr() => *const i8));
        assert_eq!(found, result, "{name:?}");
    }
}
