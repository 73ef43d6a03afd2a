//! cuBLAS: its functions, and a handle.

use std::ffi::{CStr, c_char, c_void};
use std::path::PathBuf;
use std::ptr;
use std::sync::Arc;

use cudarc::driver::sys::CUstream;
use libloading::Library;

use super::driver::{Gpu, Owned};
use super::libraries::functions;
use super::memory::Memory;
use super::nvrtc::refusal;
use crate::backend::cuda::device::Fault;
use crate::gpu_settings::Precision;

type HandlePointer = *mut c_void;

/// The oldest architecture that CUDA 13 serves, which cuBLAS does not tell.
const OLDEST_OF_13: u32 = 75;

functions! {
    /// Enumerations are plain numbers, because later versions may have more members.
    Functions {
        property = cublasGetProperty(i32, *mut i32) -> i32;
        create = cublasCreate_v2(*mut HandlePointer) -> i32;
        destroy = cublasDestroy_v2(HandlePointer) -> i32;
        set_stream = cublasSetStream_v2(HandlePointer, CUstream) -> i32;
        set_workspace = cublasSetWorkspace_v2(HandlePointer, *mut c_void, usize) -> i32;
        multiply = cublasGemmEx(
            HandlePointer, i32, i32, i32, i32, i32, *const c_void, *const c_void, i32, i32, *const c_void, i32, i32,
            *const c_void, *mut c_void, i32, i32, i32, i32,
        ) -> i32;
        multiply_pairs = cublasGemmStridedBatchedEx(
            HandlePointer, i32, i32, i32, i32, i32, *const c_void, *const c_void, i32, i32, i64, *const c_void, i32, i32,
            i64, *const c_void, *mut c_void, i32, i32, i64, i32, i32, i32,
        ) -> i32;
        describe = cublasGetStatusString(i32) -> *const c_char;
    }
}

mod constants {
    pub const TRANSPOSED: i32 = 1;
    pub const PLAIN: i32 = 0;
    pub const R_32F: i32 = 0;
    pub const R_16F: i32 = 2;
    pub const R_16BF: i32 = 14;
    pub const COMPUTE_32F: i32 = 68;
    pub const COMPUTE_32F_FAST_TF32: i32 = 77;
    pub const DEFAULT_ALGORITHM: i32 = -1;
}

#[derive(Clone, Debug)]
pub struct Cublas {
    pub version: (u32, u32, u32),
    pub path: PathBuf,
    functions: Functions,
}

impl Cublas {
    pub(super) fn bind(library: &'static Library, path: PathBuf) -> Result<Cublas, String> {
        let functions = Functions::of(library)?;
        let part = |which| {
            let mut number = 0;
            // SAFETY: the function writes one number, and needs no handle.
            let status = unsafe { (functions.property)(which, &mut number) };
            if status == 0 { Ok(number.max(0) as u32) } else { Err("fails when asked for its version".to_string()) }
        };
        Ok(Cublas { version: (part(0)?, part(1)?, part(2)?), path, functions })
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

    fn check(&self, doing: &str, status: i32) -> Result<(), Fault> {
        if status == 0 {
            return Ok(());
        }
        // SAFETY: for any number the library returns a static text that ends with a zero.
        let reason = unsafe { CStr::from_ptr((self.functions.describe)(status)) }.to_string_lossy();
        // The driver's next answer will tell whether the GPU is lost.
        Err(Fault::survived(format!("cuBLAS: {doing}: {reason}")))
    }
}

/// A product \[rows, outputs\] = \[rows, inputs\] · \[outputs, inputs\]ᵀ of row-major matrices; addresses are the
/// GPU's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Product {
    /// The left operand, and the distance of its rows in elements.
    pub operand: u64,
    pub stride: u32,
    pub weights: u64,
    /// The result in float32, and the distance of its rows.
    pub result: u64,
    pub result_stride: u32,
    pub rows: u32,
    pub inputs: u32,
    pub outputs: u32,
}

/// Products \[rows, columns\] = \[rows, inner\] · \[inner, columns\] of pairs of row-major matrices. All left matrices
/// are contiguous, as are all right ones and all results.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pairs {
    pub left: u64,
    pub right: u64,
    /// In float32.
    pub result: u64,
    pub count: u32,
    pub rows: u32,
    pub inner: u32,
    pub columns: u32,
}

/// The properties by which the library selects a kernel: the sizes of a product or of pairs, and the distances of rows.
pub(super) type Size = [u32; 5];

impl Product {
    /// Of contiguous matrices with these rows, inputs and outputs.
    pub fn of([rows, inputs, outputs]: [u32; 3], operand: u64, weights: u64, result: u64) -> Product {
        Product { operand, stride: inputs, weights, result, result_stride: outputs, rows, inputs, outputs }
    }

    pub fn size(&self) -> Size {
        [self.rows, self.inputs, self.outputs, self.stride, self.result_stride]
    }
}

impl Pairs {
    pub fn size(&self) -> Size {
        // Unlike any product, whose rows have a distance.
        [self.rows, self.inner, self.columns, self.count, 0]
    }
}

/// A handle with its stream.
#[derive(Debug)]
pub(super) struct Handle {
    cublas: Cublas,
    handle: HandlePointer,
    element: i32,
    compute: i32,
    pub stream: Owned<CUstream>,
    _workspace: Memory,
}

impl Handle {
    /// Opens a stream of a GPU. Without a workspace of its own the library would allocate one in every graph.
    pub fn new(gpu: &Arc<Gpu>, cublas: &Cublas, precision: Precision) -> Result<Handle, Fault> {
        let (element, compute) = match precision {
            Precision::F32 => (constants::R_32F, constants::COMPUTE_32F),
            Precision::Tf32 => (constants::R_32F, constants::COMPUTE_32F_FAST_TF32),
            Precision::Bf16 => (constants::R_16BF, constants::COMPUTE_32F),
            Precision::F16 => (constants::R_16F, constants::COMPUTE_32F),
        };
        let (stream, workspace) = (gpu.stream()?, Memory::new(gpu, workspace_of(gpu), "products' workspace")?);
        let (address, bytes) = (workspace.address() as *mut c_void, workspace.bytes);
        let mut handle = ptr::null_mut();
        // SAFETY: a context is current, and the handle has a place.
        let status = unsafe { (cublas.functions.create)(&mut handle) };
        cublas.check("a handle can't be made", status)?;
        let made = Handle { cublas: cublas.clone(), handle, element, compute, stream, _workspace: workspace };
        // SAFETY: handle, stream and workspace are alive; the handle is destroyed first. The stream comes first, because
        // setting it resets the workspace.
        unsafe {
            cublas.check("a stream can't be set", (cublas.functions.set_stream)(handle, made.stream.raw))?;
            cublas.check("a workspace can't be set", (cublas.functions.set_workspace)(handle, address, bytes))?;
        }
        Ok(made)
    }

    /// Queues a product on the handle's stream.
    ///
    /// # Safety
    ///
    /// The addresses are memory of the handle's context, as large as the sizes say, that outlives the queued work.
    pub unsafe fn multiply(&self, product: &Product) -> Result<(), Fault> {
        let (one, zero) = (1.0f32, 0.0f32);
        // The library is column-major: it sees weights [inputs, outputs], an operand [inputs, rows] and a result
        // [outputs, rows]. SAFETY: the caller's promise; both factors are read before the call returns.
        let status = unsafe {
            (self.cublas.functions.multiply)(
                self.handle,
                constants::TRANSPOSED,
                constants::PLAIN,
                product.outputs as i32,
                product.rows as i32,
                product.inputs as i32,
                (&raw const one).cast(),
                product.weights as *const c_void,
                self.element,
                product.inputs as i32,
                product.operand as *const c_void,
                self.element,
                product.stride as i32,
                (&raw const zero).cast(),
                product.result as *mut c_void,
                constants::R_32F,
                product.result_stride as i32,
                self.compute,
                constants::DEFAULT_ALGORITHM,
            )
        };
        let Product { rows, inputs, outputs, .. } = product;
        // The text is only made for a fault.
        if status == 0 {
            return Ok(());
        }
        self.cublas.check(&format!("a product [{rows}, {inputs}] by [{outputs}, {inputs}]ᵀ"), status)
    }

    /// Queues products of pairs of matrices on the handle's stream.
    ///
    /// # Safety
    ///
    /// As [`Handle::multiply`].
    pub unsafe fn multiply_pairs(&self, pairs: &Pairs) -> Result<(), Fault> {
        let Pairs { count, rows, inner, columns, .. } = *pairs;
        let (one, zero) = (1.0f32, 0.0f32);
        let size = |height: u32, width: u32| i64::from(height) * i64::from(width);
        // In column-major order the right matrix is [columns, inner] and comes first, the left one is [inner, rows].
        // SAFETY: the caller's promise; both factors are read before the call returns.
        let status = unsafe {
            (self.cublas.functions.multiply_pairs)(
                self.handle,
                constants::PLAIN,
                constants::PLAIN,
                columns as i32,
                rows as i32,
                inner as i32,
                (&raw const one).cast(),
                pairs.right as *const c_void,
                self.element,
                columns as i32,
                size(inner, columns),
                pairs.left as *const c_void,
                self.element,
                inner as i32,
                size(rows, inner),
                (&raw const zero).cast(),
                pairs.result as *mut c_void,
                constants::R_32F,
                columns as i32,
                size(rows, columns),
                count as i32,
                self.compute,
                constants::DEFAULT_ALGORITHM,
            )
        };
        if status == 0 {
            return Ok(());
        }
        self.cublas.check(&format!("{count} products [{rows}, {inner}] by [{inner}, {columns}]"), status)
    }
}

/// The size of a workspace as NVIDIA recommends it: products share more work on recent GPUs.
fn workspace_of(gpu: &Gpu) -> usize {
    let mebibytes = if gpu.architecture >= 90 { 32 } else { 8 };
    mebibytes << 20
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.stream.gpu.bind().is_ok() {
            // SAFETY: the handle was created by this library in the GPU's context and is destroyed once. A failure can't
            // be handled.
            unsafe { (self.cublas.functions.destroy)(self.handle) };
        }
    }
}
