//! The kernels: their source, which is part of the program, compiled for a GPU and loaded.

use std::ffi::{CString, c_void};
use std::sync::Arc;

use cudarc::driver::result;
use cudarc::driver::sys::CUmodule;

use super::cache::{Cache, Key};
use super::call::{Function, Parameters};
use super::driver::Gpu;
use super::nvrtc::{Nvrtc, Source, Target};
use crate::error::{Error, Result};
use crate::gpu_settings::Precision;

/// A file of kernels: its name, its text, and the kernels in it.
type File = (&'static str, &'static str, &'static [(Kernel, &'static str)]);

/// Defines the kernels and the files that contain them.
macro_rules! kernels {
    ($($file:literal: $($kernel:ident = $name:literal),+;)+) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Kernel {
            $($($kernel,)+)+
        }

        const FILES: &[File] = &[$((
            concat!($file, ".cu"),
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/kernels/", $file, ".cu")),
            &[$((Kernel::$kernel, $name)),+],
        )),+];
    };
}

kernels! {
    "gather": GatherChain = "gather_chain", GatherLeaf = "gather_leaf", GatherPair = "gather_pair",
        GatherSum = "gather_sum", GatherQueries = "gather_queries";
    "lstm": StepLstm = "step_lstm";
    "argmax": DecoderWord = "decoder_word";
    "gru": GruReset = "gru_reset", GruUpdate = "gru_update";
    "tree": StepLeaf = "step_leaf", StepPair = "step_pair";
    "childsum": StepSum = "step_sum";
    "listed": OperandRows = "operand_rows", OperandPairs = "operand_pairs", CopyNumbers = "copy_numbers",
        Squash = "squash";
    "sequences": TakeSequences = "take_sequences", GiveSequences = "give_sequences";
    "signal": Signal = "signal";
}

/// The header that all of them include.
const HEADER: (&str, &str) =
    ("portable.cuh", include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/kernels/portable.cuh")));

/// A compiled file, loaded on a GPU.
#[derive(Debug)]
pub(super) struct Module {
    pub gpu: Arc<Gpu>,
    module: CUmodule,
}

// SAFETY: a module belongs to a context, not to a thread; every call makes the context the calling thread's first.
unsafe impl Send for Module {}

impl Module {
    /// Compiles a source, or finds it in the cache, and loads it. The GPU's context must be the thread's.
    pub fn load(
        gpu: &Arc<Gpu>,
        nvrtc: &Nvrtc,
        cache: &Cache,
        source: &Source<'_>,
        options: &[String],
    ) -> Result<Module> {
        let image = compiled(source, options, nvrtc, target(gpu, nvrtc)?, cache)?;
        let failed = |error| Error::failed(gpu.fault(format_args!("{} can't be loaded", source.name), error).reason);
        // SAFETY: the image is the compiler's output, or the same bytes from the cache, followed by a zero.
        let module = unsafe { result::module::load_data(image.as_ptr().cast::<c_void>()) }.map_err(failed)?;
        Ok(Module { gpu: Arc::clone(gpu), module })
    }

    /// A kernel of the source that the module was loaded from. The module must outlive the function's launches.
    pub fn function(&self, source: &Source<'_>, kernel: &str) -> Result<Function> {
        let missing = || Error::failed(format!("{} has no kernel {kernel}", source.name));
        let parameters = Parameters::of(source.text, kernel).ok_or_else(missing)?;
        let name = CString::new(kernel).expect("names contain no zeros");
        // SAFETY: the module is loaded.
        let raw = unsafe { result::module::get_function(self.module, name) }
            .map_err(|error| Error::failed(self.gpu.fault(format_args!("{kernel} can't be loaded"), error).reason))?;
        Ok(Function { raw, parameters })
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        if self.gpu.bind().is_ok() {
            // SAFETY: it was loaded once, and none of its functions is launched any more. A lost GPU can't unload.
            let _ = unsafe { result::module::unload(self.module) };
        }
    }
}

/// The kernels, loaded on one GPU.
#[derive(Debug)]
pub(super) struct Kernels {
    _modules: Vec<Module>,
    /// In the order of [`Kernel`].
    functions: Vec<Function>,
}

impl Kernels {
    /// Compiles the kernels for a GPU, or finds them in the cache, and loads them.
    pub fn load(gpu: &Arc<Gpu>, nvrtc: &Nvrtc, precision: Precision, cache: &Cache) -> Result<Kernels> {
        gpu.bind().map_err(|fault| Error::failed(fault.reason))?;
        let mut loaded = Kernels { _modules: Vec::new(), functions: Vec::new() };
        for file in FILES {
            let source = source(file);
            let module = Module::load(gpu, nvrtc, cache, &source, &options(precision))?;
            for (_, name) in file.2 {
                loaded.functions.push(module.function(&source, name)?);
            }
            loaded._modules.push(module);
        }
        Ok(loaded)
    }

    pub fn function(&self, kernel: Kernel) -> Function {
        self.functions[kernel as usize]
    }
}

fn source((name, text, _): &File) -> Source<'static> {
    Source { name, text, headers: &[HEADER] }
}

/// The target to compile to for a GPU. Fails if the GPU is older than all that the compiler knows.
fn target(gpu: &Gpu, nvrtc: &Nvrtc) -> Result<Target> {
    nvrtc.target(gpu.architecture).ok_or_else(|| {
        Error::failed(format!(
            "{gpu} has compute capability {}.{}, for which NVRTC {}.{} ({}) no longer compiles; take an older one",
            gpu.architecture / 10,
            gpu.architecture % 10,
            nvrtc.version.0,
            nvrtc.version.1,
            nvrtc.path.display()
        ))
    })
}

/// The image that the driver loads, compiled or from the cache, followed by a zero, which ends code that is text.
fn compiled(source: &Source<'_>, options: &[String], nvrtc: &Nvrtc, target: Target, cache: &Cache) -> Result<Vec<u8>> {
    let name = source.name.trim_end_matches(".cu");
    let version = format!("NVRTC {}.{}", nvrtc.version.0, nvrtc.version.1);
    let mut texts = vec![name, source.text];
    texts.extend(source.headers.iter().map(|(_, text)| *text));
    let to = target.option();
    texts.extend([version.as_str(), to.as_str()].into_iter().chain(options.iter().map(String::as_str)));
    let key = Key::of(&texts);
    let mut image = match cache.get(name, key) {
        Some(image) => image,
        None => {
            let image = nvrtc.compile(source, target, options)?.image;
            cache.put(name, key, &image);
            image
        }
    };
    image.push(0);
    Ok(image)
}

/// The compiler's options beside the architecture.
fn options(precision: Precision) -> Vec<String> {
    let element = match precision {
        Precision::F32 | Precision::Tf32 => 0,
        Precision::F16 => 1,
        Precision::Bf16 => 2,
    };
    vec![format!("-DELEMENT={element}"), "--std=c++17".into()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::cuda::gpu::libraries;

    #[test]
    fn every_kernel_is_in_its_file() {
        let kernels =
            FILES.iter().flat_map(|(file, text, kernels)| kernels.iter().map(move |kernel| (file, text, kernel)));
        for (number, (file, text, (kernel, name))) in kernels.enumerate() {
            assert!(Parameters::of(text, name).is_some(), "{name} in {file}");
            assert_eq!(*kernel as usize, number, "functions are in the order of the kernels");
        }
    }

    #[test]
    fn kernels_compile_and_come_from_the_cache_the_second_time() {
        let found = libraries::find();
        let Some(nvrtc) = &found.nvrtc.found else {
            println!("skipped: {}", found.nvrtc.story());
            return;
        };
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::in_folder(folder.path());
        let newest = *nvrtc.architectures.last().unwrap();
        // A compiler that does not know the GPU produces text; one file of that is enough.
        let of_text = &FILES[FILES.len() - 1..];
        let machine_code = (nvrtc.target(80), &b"\x7fELF"[..], FILES);
        for (target, magic, files) in [machine_code, (nvrtc.target(newest + 1), b"//", of_text)] {
            for file in files {
                let image =
                    || compiled(&source(file), &options(Precision::Bf16), nvrtc, target.unwrap(), &cache).unwrap();
                let first = image();
                assert!(first.trim_ascii_start().starts_with(magic), "{}", file.0);
                assert_eq!(first, image());
            }
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), FILES.len() + 1);
        assert_eq!(nvrtc.target(1), None);
    }
}
