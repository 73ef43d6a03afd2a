//! The kernels. Their source is part of the program; it is compiled for a GPU, cached on disk, and loaded.

use std::collections::BTreeMap;
use std::ffi::{CString, c_void};

use cudarc::driver::result;
use cudarc::driver::sys::CUmodule;
use include_dir::{Dir, File, include_dir};

use super::cache::{CacheKey, KernelCache};
use super::call::{Function, wide_parameters};
use super::driver::{Gpu, Owned};
use super::host::GpuHost;
use super::library::format_version;
use super::nvrtc::{CompileTarget, KernelSource, Nvrtc};
use crate::base::error::{Error, Result};
use crate::base::precision::Precision;

/// The file of the kernels whose times are floors of all others.
pub(super) const FLOORS: &str = "floors.cu";

static FOLDER: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/kernels");

/// A file of kernels: its name and its text.
///
/// # Panics
///
/// If there is no such file.
pub fn file(name: &'static str) -> (&'static str, &'static str) {
    (
        name,
        FOLDER
            .get_file(name)
            .and_then(File::contents_utf8)
            .expect("the file is part of the program"),
    )
}

/// The names and texts of all headers, each of which includes only those before it.
pub fn headers() -> [(&'static str, &'static str); 3] {
    ["portable.cuh", "grnn_sums.cuh", "grnn.cuh"].map(file)
}

/// The file with the fused kernels of steps.
pub(super) const FUSED: &str = "fused.cu";

/// The files with the kernels of cells, which need no constant other than the element. [`FUSED`] is not one of them: it
/// takes the compiler two to three seconds, and GPUs before compute capability 8.0 can't run it.
pub(super) fn cell_files() -> impl Iterator<Item = &'static str> {
    let names = FOLDER.files().filter_map(|file| file.path().to_str());
    names.filter(|name| {
        let is_apart = name.starts_with("grnn") || [FUSED, FLOORS].contains(name);
        name.ends_with(".cu") && !is_apart
    })
}

/// The kernels that a file exports.
fn exported_kernels(text: &str) -> impl Iterator<Item = &str> {
    text.split("EXPORT_KERNEL(")
        .skip(1)
        .filter_map(|rest| rest.split(')').next())
}

/// Kernels, loaded on one GPU.
#[derive(Debug, Default)]
pub(super) struct LoadedKernels {
    functions: BTreeMap<&'static str, Function>,
    _modules: Vec<Owned<CUmodule>>,
}

impl LoadedKernels {
    /// Compiles files for a GPU, or finds them in the cache, and loads them.
    pub fn load(
        host: &GpuHost,
        names: impl IntoIterator<Item = &'static str>,
        options: &[String],
    ) -> Result<LoadedKernels> {
        let GpuHost {
            gpu, nvrtc, cache, ..
        } = host;
        let target = target(gpu, nvrtc)?;
        let headers = headers();
        let mut loaded = LoadedKernels::default();
        for (name, text) in names.into_iter().map(file) {
            let image = image(
                &KernelSource {
                    name,
                    text,
                    headers: &headers,
                },
                options,
                nvrtc,
                target,
                cache,
            )?;
            let module = gpu
                .call(format_args!("{name} can't be loaded"), || {
                    // SAFETY: the image is the compiler's output, or the same bytes from the cache, followed by a zero.
                    unsafe { result::module::load_data(image.as_ptr().cast::<c_void>()) }
                })
                .map_err(Error::failure)?;
            // SAFETY: it was loaded above.
            let module = unsafe { Owned::new(gpu, module, result::module::unload) };
            for kernel in exported_kernels(text) {
                let wide = wide_parameters(text, kernel).expect("a file defines what it exports");
                let name = CString::new(kernel).expect("names contain no zeros");
                let raw = module
                    .call(format_args!("{kernel} can't be loaded"), |module| {
                        // SAFETY: the module is loaded.
                        unsafe { result::module::get_function(module, name) }
                    })
                    .map_err(Error::failure)?;
                loaded.functions.insert(kernel, Function { raw, wide });
            }
            loaded._modules.push(module);
        }
        Ok(loaded)
    }

    /// A loaded kernel.
    ///
    /// # Panics
    ///
    /// If no loaded file exports the kernel.
    pub fn function(&self, kernel: &str) -> &Function {
        &self.functions[kernel]
    }
}

/// The target to compile to for a GPU. Fails if the GPU is older than all that the compiler knows.
fn target(gpu: &Gpu, nvrtc: &Nvrtc) -> Result<CompileTarget> {
    nvrtc.target(gpu.architecture).ok_or_else(|| {
        Error::failure(format!(
            "{gpu} has compute capability {}, for which NVRTC {} ({}) no longer compiles; take an older one",
            gpu.capability(),
            format_version(nvrtc.version),
            nvrtc.path.display()
        ))
    })
}

/// The image that the driver loads, compiled or from the cache. A zero follows it, which ends code that is text.
fn image(
    source: &KernelSource<'_>,
    options: &[String],
    nvrtc: &Nvrtc,
    target: CompileTarget,
    cache: &KernelCache,
) -> Result<Vec<u8>> {
    let name = source.name.trim_end_matches(".cu");
    let version = format!("NVRTC {}", format_version(nvrtc.version));
    let mut texts = vec![name, source.text];
    texts.extend(source.headers.iter().map(|(_, text)| *text));
    let to = target.option();
    texts.extend(
        [version.as_str(), to.as_str()]
            .into_iter()
            .chain(options.iter().map(String::as_str)),
    );
    let key = CacheKey::from_texts(&texts);
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

/// The compiler's options in addition to the architecture.
pub(super) fn options(precision: Precision) -> Vec<String> {
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
    use crate::devices::cuda::gpu::libraries;

    #[test]
    fn every_kernel_is_in_its_file() {
        let files = FOLDER.files().filter_map(|file| file.path().to_str());
        for name in files.filter(|name| name.ends_with(".cu")) {
            let (_, text) = file(name);
            assert_ne!(exported_kernels(text).count(), 0, "{name}");
            exported_kernels(text).for_each(|kernel| {
                assert!(
                    wide_parameters(text, kernel).is_some(),
                    "{kernel} in {name}"
                )
            });
        }
    }

    #[test]
    fn kernels_compile_and_come_from_the_cache_the_second_time() {
        let found = libraries::find();
        let Some(nvrtc) = &found.nvrtc.found else {
            println!("skipped: {}", found.nvrtc.story);
            return;
        };
        let folder = tempfile::tempdir().unwrap();
        let cache = KernelCache::from_folder(folder.path());
        let newest = *nvrtc.architectures.last().unwrap();
        // A compiler that does not know the GPU produces text, for which one file is enough.
        let files: Vec<&str> = cell_files().collect();
        let machine_code = (nvrtc.target(80), &b"\x7fELF"[..], &files[..]);
        for (target, magic, files) in [machine_code, (nvrtc.target(newest + 1), b"//", &files[..1])]
        {
            for name in files {
                let (name, text) = file(name);
                let headers = headers();
                let source = KernelSource {
                    name,
                    text,
                    headers: &headers,
                };
                let image = || {
                    image(
                        &source,
                        &options(Precision::Bf16),
                        nvrtc,
                        target.unwrap(),
                        &cache,
                    )
                    .unwrap()
                };
                let first = image();
                assert!(first.trim_ascii_start().starts_with(magic), "{name}");
                assert_eq!(first, image());
            }
        }
        assert_eq!(
            std::fs::read_dir(folder.path()).unwrap().count(),
            files.len() + 1
        );
        assert_eq!(nvrtc.target(1), None);
    }
}
