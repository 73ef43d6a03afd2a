//! The kernels: their source, which is part of the program, compiled for a GPU and loaded.

use std::ffi::{CString, c_void};
use std::sync::Arc;

use cudarc::driver::result;
use cudarc::driver::sys::{CUfunction, CUmodule};

use super::cache::{Cache, Key};
use super::nvrtc::{Nvrtc, Source, Target};
use super::opened::Gpu;
use crate::error::{Error, Result};
use crate::gpu_settings::Precision;

/// A file of kernels.
struct File {
    name: &'static str,
    text: &'static str,
    kernels: &'static [Kernel],
}

macro_rules! file {
    ($name:literal: $($kernel:ident),+) => {
        File {
            name: $name,
            text: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/kernels/", $name, ".cu")),
            kernels: &[$(Kernel::$kernel),+],
        }
    };
}

/// All kernels, file by file.
const FILES: [File; 9] = [
    file!("gather": GatherChain, GatherLeaf, GatherPair, GatherSum, GatherQueries),
    file!("lstm": StepLstm),
    file!("argmax": DecoderWord),
    file!("gru": GruReset, GruUpdate),
    file!("tree": StepLeaf, StepPair),
    file!("childsum": StepSum),
    file!("listed": OperandRows, OperandPairs, CopyNumbers, Squash),
    file!("sequences": TakeSequences, GiveSequences),
    file!("signal": Signal),
];

/// What all of them include.
const HEADER: (&str, &str) =
    ("portable.cuh", include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/kernels/portable.cuh")));

/// A kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kernel {
    GatherChain,
    GatherLeaf,
    GatherPair,
    GatherSum,
    GatherQueries,
    StepLstm,
    DecoderWord,
    GruReset,
    GruUpdate,
    StepLeaf,
    StepPair,
    StepSum,
    OperandRows,
    OperandPairs,
    CopyNumbers,
    Squash,
    TakeSequences,
    GiveSequences,
    Signal,
}

/// The number of kernels.
const KERNELS: usize = Kernel::Signal as usize + 1;

impl Kernel {
    /// Its name in the source.
    pub fn name(self) -> &'static str {
        match self {
            Kernel::GatherChain => "gather_chain",
            Kernel::GatherLeaf => "gather_leaf",
            Kernel::GatherPair => "gather_pair",
            Kernel::GatherSum => "gather_sum",
            Kernel::GatherQueries => "gather_queries",
            Kernel::StepLstm => "step_lstm",
            Kernel::DecoderWord => "decoder_word",
            Kernel::GruReset => "gru_reset",
            Kernel::GruUpdate => "gru_update",
            Kernel::StepLeaf => "step_leaf",
            Kernel::StepPair => "step_pair",
            Kernel::StepSum => "step_sum",
            Kernel::OperandRows => "operand_rows",
            Kernel::OperandPairs => "operand_pairs",
            Kernel::CopyNumbers => "copy_numbers",
            Kernel::Squash => "squash",
            Kernel::TakeSequences => "take_sequences",
            Kernel::GiveSequences => "give_sequences",
            Kernel::Signal => "signal",
        }
    }
}

/// All kernels, loaded on one GPU.
#[derive(Debug)]
pub(super) struct Kernels {
    gpu: Arc<Gpu>,
    modules: Vec<CUmodule>,
    functions: [CUfunction; KERNELS],
}

impl Kernels {
    /// Compiles the kernels for a GPU, or finds them in the cache, and loads them.
    ///
    /// # Errors
    /// A compiler that does not know the GPU or refuses a kernel; a driver that can't load what it made.
    pub fn load(gpu: &Arc<Gpu>, nvrtc: &Nvrtc, precision: Precision, cache: &Cache) -> Result<Kernels> {
        gpu.bind().map_err(|fault| Error::failed(fault.reason))?;
        let target = target(gpu, nvrtc)?;
        let mut loaded =
            Kernels { gpu: Arc::clone(gpu), modules: Vec::new(), functions: [std::ptr::null_mut(); KERNELS] };
        for file in &FILES {
            let image = image(file, nvrtc, target, precision, cache)?;
            let failed =
                |error| Error::failed(gpu.fault(format_args!("{}.cu can't be loaded", file.name), error).reason);
            // SAFETY: the image is what the compiler made, or the same bytes from the cache, with a zero behind it.
            let module = unsafe { result::module::load_data(image.as_ptr().cast::<c_void>()) }.map_err(failed)?;
            loaded.modules.push(module);
            for kernel in file.kernels {
                let name = CString::new(kernel.name()).expect("the names have no zeros");
                // SAFETY: the module was loaded above, and is kept for as long as the function.
                let function = unsafe { result::module::get_function(module, name) }.map_err(failed)?;
                loaded.functions[*kernel as usize] = function;
            }
        }
        Ok(loaded)
    }

    /// A kernel, for launches on its GPU.
    pub fn function(&self, kernel: Kernel) -> CUfunction {
        self.functions[kernel as usize]
    }
}

impl Drop for Kernels {
    fn drop(&mut self) {
        if self.gpu.bind().is_ok() {
            for module in self.modules.drain(..) {
                // SAFETY: each was loaded once, and no function of it is launched any more. A GPU that is lost can't unload.
                let _ = unsafe { result::module::unload(module) };
            }
        }
    }
}

/// What kernels are compiled to for a GPU.
///
/// # Errors
/// A GPU that is older than all that the compiler knows.
pub(super) fn target(gpu: &Gpu, nvrtc: &Nvrtc) -> Result<Target> {
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

/// What the driver loads of a file, with a zero behind it, which ends code that is text.
fn image(file: &File, nvrtc: &Nvrtc, target: Target, precision: Precision, cache: &Cache) -> Result<Vec<u8>> {
    let name = format!("{}.cu", file.name);
    let source = Source { name: &name, text: file.text, headers: &[HEADER] };
    compiled(&source, &options(precision), nvrtc, target, cache)
}

/// What the driver loads of a source, compiled or from the cache, with a zero behind it.
///
/// # Errors
/// What the compiler says against it.
pub(super) fn compiled(
    source: &Source<'_>,
    options: &[String],
    nvrtc: &Nvrtc,
    target: Target,
    cache: &Cache,
) -> Result<Vec<u8>> {
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

/// What the kernels are compiled with beside the architecture.
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
        let mut seen = Vec::new();
        for file in &FILES {
            for kernel in file.kernels {
                assert!(file.text.contains(&format!("{}(", kernel.name())), "{} in {}.cu", kernel.name(), file.name);
                seen.push(*kernel as usize);
            }
        }
        seen.sort_unstable();
        assert_eq!(seen, (0..KERNELS).collect::<Vec<_>>());
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
        // A compiler that does not know the GPU gives text; one file of that is enough.
        let of_text = &FILES[FILES.len() - 1..];
        let machine_code = (nvrtc.target(80), &b"\x7fELF"[..], &FILES[..]);
        for (target, magic, files) in [machine_code, (nvrtc.target(newest + 1), b"//", of_text)] {
            let target = target.unwrap();
            for file in files {
                let compiled = image(file, nvrtc, target, Precision::Bf16, &cache).unwrap();
                assert!(compiled.trim_ascii_start().starts_with(magic), "{}", file.name);
                assert_eq!(compiled, image(file, nvrtc, target, Precision::Bf16, &cache).unwrap());
            }
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), FILES.len() + 1);
        assert_eq!(nvrtc.target(1), None);
    }
}
