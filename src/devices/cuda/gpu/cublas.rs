//! cuBLAS: its functions, and a handle.

use std::ffi::{CStr, c_char, c_void};
use std::fmt;
use std::path::PathBuf;
use std::ptr;
use std::sync::Arc;

use cudarc::cublas::sys::{
    cublasComputeType_t as Compute, cublasGemmAlgo_t as Algorithm, cublasOperation_t as Operation,
    cudaDataType as Type,
};
use cudarc::driver::sys::CUstream;
use libloading::Library;

use super::driver::{Gpu, Owned};
use super::library::{functions, refusal};
use super::memory::GpuMemory;
use crate::base::precision::Precision;
use crate::devices::cuda::device::DeviceFault;

type HandlePointer = *mut c_void;

/// The oldest architecture that CUDA 13 serves, which cuBLAS does not report.
const OLDEST_OF_13: u32 = 75;

functions! {
    /// A status is a plain number, because later versions may have more of them.
    Functions {
        property = cublasGetProperty(i32, *mut i32) -> i32;
        create = cublasCreate_v2(*mut HandlePointer) -> i32;
        destroy = cublasDestroy_v2(HandlePointer) -> i32;
        set_stream = cublasSetStream_v2(HandlePointer, CUstream) -> i32;
        set_workspace = cublasSetWorkspace_v2(HandlePointer, *mut c_void, usize) -> i32;
        multiply = cublasGemmEx(
            HandlePointer, Operation, Operation, i32, i32, i32, *const c_void, *const c_void, Type, i32, *const c_void,
            Type, i32, *const c_void, *mut c_void, Type, i32, Compute, Algorithm,
        ) -> i32;
        multiply_pairs = cublasGemmStridedBatchedEx(
            HandlePointer, Operation, Operation, i32, i32, i32, *const c_void, *const c_void, Type, i32, i64,
            *const c_void, Type, i32, i64, *const c_void, *mut c_void, Type, i32, i64, i32, Compute, Algorithm,
        ) -> i32;
        describe = cublasGetStatusString(i32) -> *const c_char;
    }
}

/// cuBLAS, NVIDIA's library for products of matrices.
#[derive(Clone, Debug)]
pub struct Cublas {
    pub version: (u32, u32, u32),
    pub path: PathBuf,
    functions: Functions,
}

impl Cublas {
    pub(super) fn bind(library: &'static Library, path: PathBuf) -> Result<Cublas, String> {
        let functions = Functions::load(library)?;
        let mut version = [0; 3];
        for (which, part) in (0..).zip(&mut version) {
            // SAFETY: the function writes one number, and needs no handle.
            let status = unsafe { (functions.property)(which, part) };
            if status != 0 {
                return Err("fails when asked for its version".to_string());
            }
        }
        let [major, minor, patch] = version.map(|part| part.max(0) as u32);
        Ok(Cublas {
            version: (major, minor, patch),
            path,
            functions,
        })
    }

    /// The library itself if it is of this major version, if one is given, and has kernels for these architectures;
    /// otherwise why it is refused.
    pub(super) fn serving(self, gpus: &[u32], major: Option<u32>) -> Result<Cublas, String> {
        let (own, minor, _) = self.version;
        if major.is_some_and(|major| major != own) {
            return Err(format!("is cuBLAS {own}"));
        }
        match gpus.iter().find(|gpu| own >= 13 && **gpu < OLDEST_OF_13) {
            None => Ok(self),
            Some(gpu) => Err(refusal(("cuBLAS", "cublas"), (own, minor), *gpu)),
        }
    }

    fn check(&self, doing: impl fmt::Display, status: i32) -> Result<(), DeviceFault> {
        if status == 0 {
            return Ok(());
        }
        // SAFETY: for any number the library returns a static text that ends with a zero.
        let reason = unsafe { CStr::from_ptr((self.functions.describe)(status)) }.to_string_lossy();
        // The driver's next answer will show whether the GPU is lost.
        Err(DeviceFault::survivable(format!(
            "cuBLAS: {doing}: {reason}"
        )))
    }
}

/// A product \[rows, outputs\] = \[rows, inputs\] · \[outputs, inputs\]ᵀ of row-major matrices; addresses are the
/// GPU's.
#[derive(Clone, Copy, Debug)]
pub(super) struct GpuProduct {
    /// The left matrix.
    pub left: u64,
    /// The distance of the left matrix's rows, in elements.
    pub stride: u32,
    /// The weights.
    pub right: u64,
    /// The result, in float32.
    pub result: u64,
    /// The distance of the result's rows.
    pub result_stride: u32,
    pub rows: u32,
    pub inputs: u32,
    pub outputs: u32,
    /// The number of pairs of matrices, if the product is instead \[rows, inputs\] · \[inputs, outputs\] of each pair.
    /// All left matrices are contiguous, as are all right ones and all results.
    pub pairs: Option<u32>,
}

/// The properties by which the library selects a kernel: the sizes of a product or of pairs, and the distances of rows.
pub(super) type ProductSize = ([u32; 5], Option<u32>);

impl GpuProduct {
    /// A product of contiguous matrices with these rows, inputs and outputs.
    pub fn contiguous(
        [rows, inputs, outputs]: [u32; 3],
        left: u64,
        right: u64,
        result: u64,
    ) -> GpuProduct {
        GpuProduct {
            left,
            stride: inputs,
            right,
            result,
            result_stride: outputs,
            rows,
            inputs,
            outputs,
            pairs: None,
        }
    }

    /// The properties by which the library selects a kernel.
    pub fn size(&self) -> ProductSize {
        (
            [
                self.rows,
                self.inputs,
                self.outputs,
                self.stride,
                self.result_stride,
            ],
            self.pairs,
        )
    }
}

/// A handle of the library with its stream.
#[derive(Debug)]
pub(super) struct Handle {
    cublas: Cublas,
    handle: HandlePointer,
    element: Type,
    compute: Compute,
    pub stream: Owned<CUstream>,
    _workspace: GpuMemory,
}

impl Handle {
    /// Opens a stream of a GPU. Without a workspace of its own the library would allocate one in every graph.
    pub fn new(
        gpu: &Arc<Gpu>,
        cublas: &Cublas,
        precision: Precision,
    ) -> Result<Handle, DeviceFault> {
        let (element, compute) = match precision {
            Precision::F32 => (Type::CUDA_R_32F, Compute::CUBLAS_COMPUTE_32F),
            Precision::Tf32 => (Type::CUDA_R_32F, Compute::CUBLAS_COMPUTE_32F_FAST_TF32),
            Precision::Bf16 => (Type::CUDA_R_16BF, Compute::CUBLAS_COMPUTE_32F),
            Precision::F16 => (Type::CUDA_R_16F, Compute::CUBLAS_COMPUTE_32F),
        };
        let stream = gpu.stream()?;
        let workspace = GpuMemory::new(gpu, workspace_of(gpu), "products' workspace")?;
        let address = workspace.address() as *mut c_void;
        let bytes = workspace.bytes;
        let mut handle = ptr::null_mut();
        // SAFETY: a context is current, and the handle has a place.
        let status = unsafe { (cublas.functions.create)(&mut handle) };
        cublas.check("a handle can't be made", status)?;
        let made = Handle {
            cublas: cublas.clone(),
            handle,
            element,
            compute,
            stream,
            _workspace: workspace,
        };
        // SAFETY: handle, stream and workspace are alive; the handle is destroyed first. The stream comes first,
        // because setting it resets the workspace.
        unsafe {
            cublas.check(
                "a stream can't be set",
                (cublas.functions.set_stream)(handle, made.stream.raw),
            )?;
            cublas.check(
                "a workspace can't be set",
                (cublas.functions.set_workspace)(handle, address, bytes),
            )?;
        }
        Ok(made)
    }

    /// Queues a product on the handle's stream.
    ///
    /// # Safety
    ///
    /// The addresses are memory of the handle's context, as large as the sizes say, that outlives the queued work.
    pub unsafe fn multiply(&self, product: &GpuProduct) -> Result<(), DeviceFault> {
        let GpuProduct {
            rows,
            inputs,
            outputs,
            pairs,
            ..
        } = *product;
        let one = 1.0f32;
        let zero = 0.0f32;
        // The library is column-major: it sees weights [inputs, outputs], a left matrix [inputs, rows] and a result
        // [outputs, rows]; the right matrix of a pair is [outputs, inputs]. SAFETY: the caller's promise; both factors
        // are read before the call returns.
        let status = unsafe {
            match pairs {
                None => (self.cublas.functions.multiply)(
                    self.handle,
                    Operation::CUBLAS_OP_T,
                    Operation::CUBLAS_OP_N,
                    outputs as i32,
                    rows as i32,
                    inputs as i32,
                    (&raw const one).cast(),
                    product.right as *const c_void,
                    self.element,
                    inputs as i32,
                    product.left as *const c_void,
                    self.element,
                    product.stride as i32,
                    (&raw const zero).cast(),
                    product.result as *mut c_void,
                    Type::CUDA_R_32F,
                    product.result_stride as i32,
                    self.compute,
                    Algorithm::CUBLAS_GEMM_DFALT,
                ),
                Some(count) => (self.cublas.functions.multiply_pairs)(
                    self.handle,
                    Operation::CUBLAS_OP_N,
                    Operation::CUBLAS_OP_N,
                    outputs as i32,
                    rows as i32,
                    inputs as i32,
                    (&raw const one).cast(),
                    product.right as *const c_void,
                    self.element,
                    outputs as i32,
                    matrix_size(inputs, outputs),
                    product.left as *const c_void,
                    self.element,
                    inputs as i32,
                    matrix_size(rows, inputs),
                    (&raw const zero).cast(),
                    product.result as *mut c_void,
                    Type::CUDA_R_32F,
                    outputs as i32,
                    matrix_size(rows, outputs),
                    count as i32,
                    self.compute,
                    Algorithm::CUBLAS_GEMM_DFALT,
                ),
            }
        };
        match pairs {
            None => self.cublas.check(
                format_args!("a product [{rows}, {inputs}] by [{outputs}, {inputs}]ᵀ"),
                status,
            ),
            Some(count) => self.cublas.check(
                format_args!("{count} products [{rows}, {inputs}] by [{inputs}, {outputs}]"),
                status,
            ),
        }
    }
}

fn matrix_size(height: u32, width: u32) -> i64 {
    i64::from(height) * i64::from(width)
}

/// The size of a workspace in bytes, as NVIDIA recommends it: more on recent GPUs.
fn workspace_of(gpu: &Gpu) -> usize {
    let mebibytes = if gpu.architecture >= 90 { 32 } else { 8 };
    mebibytes << 20
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.stream.gpu.bind().is_ok() {
            // SAFETY: the handle was created by this library in the GPU's context and is destroyed once. A failure
            // can't be handled.
            unsafe { (self.cublas.functions.destroy)(self.handle) };
        }
    }
}
