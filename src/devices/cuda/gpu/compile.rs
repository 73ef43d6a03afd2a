//! The kernels: their source, which is part of the program, compiled for a GPU, cached on disk, and loaded.

use std::collections::BTreeMap;
use std::ffi::{CString, OsString, c_void};
use std::path::PathBuf;
use std::{env, fs};

use cudarc::driver::result;
use cudarc::driver::sys::CUmodule;
use include_dir::{Dir, File, include_dir};

use super::call::{Function, wide_parameters};
use super::driver::{Gpu, Owned, dotted};
use super::host::Host;
use super::nvrtc::{Nvrtc, Source, Target};
use crate::base::error::{Error, Result};
use crate::base::files;
use crate::base::precision::Precision;

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

/// The files that need no other constant than the element.
pub(super) fn of_cells() -> impl Iterator<Item = &'static str> {
    let names = FOLDER.files().filter_map(|file| file.path().to_str());
    names.filter(|name| name.ends_with(".cu") && !name.starts_with("grnn"))
}

/// The kernels that a file exports.
fn exported(text: &str) -> impl Iterator<Item = &str> {
    text.split("EXPORT_KERNEL(")
        .skip(1)
        .filter_map(|rest| rest.split(')').next())
}

/// Kernels, loaded on one GPU.
#[derive(Debug, Default)]
pub(super) struct Kernels {
    functions: BTreeMap<&'static str, Function>,
    _modules: Vec<Owned<CUmodule>>,
}

impl Kernels {
    /// Compiles files for a GPU, or finds them in the cache, and loads them.
    pub fn load(
        host: &Host,
        names: impl IntoIterator<Item = &'static str>,
        options: &[String],
    ) -> Result<Kernels> {
        let Host {
            gpu, nvrtc, cache, ..
        } = host;
        let (target, headers) = (target(gpu, nvrtc)?, headers());
        let mut loaded = Kernels::default();
        for (name, text) in names.into_iter().map(file) {
            let image = compiled(
                &Source {
                    name,
                    text,
                    headers: &headers,
                },
                options,
                nvrtc,
                target,
                cache,
            )?;
            // SAFETY: the image is the compiler's output, or the same bytes from the cache, followed by a zero.
            let load = || unsafe { result::module::load_data(image.as_ptr().cast::<c_void>()) };
            let module = gpu
                .call(format_args!("{name} can't be loaded"), load)
                .map_err(Error::failed)?;
            // SAFETY: it was loaded above.
            let module = unsafe { Owned::new(gpu, module, result::module::unload) };
            for kernel in exported(text) {
                let wide = wide_parameters(text, kernel).expect("a file defines what it exports");
                let name = CString::new(kernel).expect("names contain no zeros");
                // SAFETY: the module is loaded.
                let get = |module| unsafe { result::module::get_function(module, name) };
                let raw = module
                    .call(format_args!("{kernel} can't be loaded"), get)
                    .map_err(Error::failed)?;
                loaded.functions.insert(kernel, Function { raw, wide });
            }
            loaded._modules.push(module);
        }
        Ok(loaded)
    }

    /// # Panics
    ///
    /// If no loaded file exports the kernel.
    pub fn function(&self, kernel: &str) -> &Function {
        &self.functions[kernel]
    }
}

/// The target to compile to for a GPU. Fails if the GPU is older than all that the compiler knows.
fn target(gpu: &Gpu, nvrtc: &Nvrtc) -> Result<Target> {
    nvrtc.target(gpu.architecture).ok_or_else(|| {
        Error::failed(format!(
            "{gpu} has compute capability {}, for which NVRTC {} ({}) no longer compiles; take an older one",
            gpu.capability(),
            dotted(nvrtc.version),
            nvrtc.path.display()
        ))
    })
}

/// The image that the driver loads, compiled or from the cache, followed by a zero, which ends code that is text.
fn compiled(
    source: &Source<'_>,
    options: &[String],
    nvrtc: &Nvrtc,
    target: Target,
    cache: &Cache,
) -> Result<Vec<u8>> {
    let name = source.name.trim_end_matches(".cu");
    let version = format!("NVRTC {}", dotted(nvrtc.version));
    let mut texts = vec![name, source.text];
    texts.extend(source.headers.iter().map(|(_, text)| *text));
    let to = target.option();
    texts.extend(
        [version.as_str(), to.as_str()]
            .into_iter()
            .chain(options.iter().map(String::as_str)),
    );
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
pub(super) fn options(precision: Precision) -> Vec<String> {
    let element = match precision {
        Precision::F32 | Precision::Tf32 => 0,
        Precision::F16 => 1,
        Precision::Bf16 => 2,
    };
    vec![format!("-DELEMENT={element}"), "--std=c++17".into()]
}

const MAGIC: &[u8; 16] = b"batchlab kernel\n";

#[derive(Clone, Debug)]
pub(super) struct Cache {
    folder: Option<PathBuf>,
}

/// The key of an entry: a hash of everything that determines the compiler's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key(u128);

impl Key {
    pub fn of(texts: &[&str]) -> Key {
        let lengths = texts
            .iter()
            .flat_map(|text| (text.len() as u64).to_le_bytes());
        Key(hash(
            lengths.chain(texts.iter().flat_map(|text| text.bytes())),
        ))
    }
}

/// FNV-1a with 128 bits.
fn hash(bytes: impl Iterator<Item = u8>) -> u128 {
    const BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    bytes.fold(BASIS, |hash, byte| {
        (hash ^ u128::from(byte)).wrapping_mul(PRIME)
    })
}

impl Cache {
    /// The user's cache, in the system's place for caches.
    pub fn of_user() -> Cache {
        Cache {
            folder: user_folder(&|name| env::var_os(name)),
        }
    }

    #[cfg(test)]
    pub fn in_folder(folder: &std::path::Path) -> Cache {
        Cache {
            folder: Some(folder.to_path_buf()),
        }
    }

    /// An entry, if it exists and is undamaged.
    pub fn get(&self, name: &str, key: Key) -> Option<Vec<u8>> {
        let entry = fs::read(self.path(name, key)?).ok()?;
        let rest = entry
            .strip_prefix(MAGIC)?
            .strip_prefix(&key.0.to_le_bytes())?;
        let (check, image) = rest.split_first_chunk::<16>()?;
        (hash(image.iter().copied()).to_le_bytes() == *check).then(|| image.to_vec())
    }

    /// Stores an entry. A folder that can't be written to costs only time.
    pub fn put(&self, name: &str, key: Key, image: &[u8]) {
        let Some(path) = self.path(name, key) else {
            return;
        };
        let check = hash(image.iter().copied()).to_le_bytes();
        let parts: [&[u8]; 4] = [MAGIC, &key.0.to_le_bytes(), &check, image];
        let _ = files::write_whole(&path, |out| {
            parts.iter().try_for_each(|part| out.write_all(part))
        });
    }

    fn path(&self, name: &str, key: Key) -> Option<PathBuf> {
        Some(self.folder.as_ref()?.join(format!("{name}-{:032x}", key.0)))
    }
}

/// The program's folder among the user's caches, by the XDG base directories.
fn user_folder(variable: &dyn Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let folder = |name| {
        variable(name)
            .map(PathBuf::from)
            .filter(|folder| folder.is_absolute())
    };
    let caches =
        folder("XDG_CACHE_HOME").or_else(|| folder("HOME").map(|home| home.join(".cache")))?;
    Some(caches.join("batchlab"))
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
            assert_ne!(exported(text).count(), 0, "{name}");
            exported(text).for_each(|kernel| {
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
        let cache = Cache::in_folder(folder.path());
        let newest = *nvrtc.architectures.last().unwrap();
        // A compiler that does not know the GPU produces text; one file of that is enough.
        let files: Vec<&str> = of_cells().collect();
        let machine_code = (nvrtc.target(80), &b"\x7fELF"[..], &files[..]);
        for (target, magic, files) in [machine_code, (nvrtc.target(newest + 1), b"//", &files[..1])]
        {
            for name in files {
                let ((name, text), headers) = (file(name), headers());
                let source = Source {
                    name,
                    text,
                    headers: &headers,
                };
                let image = || {
                    compiled(
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

    #[test]
    fn an_entry_comes_back_until_it_is_damaged() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache {
            folder: Some(folder.path().join("new")),
        };
        let key = Key::of(&["source", "options"]);
        assert_eq!(cache.get("gates", key), None);
        cache.put("gates", key, b"image");
        assert_eq!(cache.get("gates", key).as_deref(), Some(&b"image"[..]));
        assert_eq!(cache.get("gates", Key::of(&["sourc", "eoptions"])), None);

        let path = cache.path("gates", key).unwrap();
        let whole = fs::read(&path).unwrap();
        for damaged in [
            &whole[..whole.len() - 1],
            &whole[1..],
            b"",
            b"something else of the same name",
        ] {
            fs::write(&path, damaged).unwrap();
            assert_eq!(cache.get("gates", key), None);
        }
        // An entry of another key, under this one's name.
        cache.put("gates", Key::of(&["other"]), b"other");
        fs::copy(cache.path("gates", Key::of(&["other"])).unwrap(), &path).unwrap();
        assert_eq!(cache.get("gates", key), None);
    }

    #[test]
    fn a_folder_that_takes_nothing_is_no_cache() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for folder in [None, Some(file.path().join("below a file"))] {
            let (cache, key) = (Cache { folder }, Key::of(&["source"]));
            cache.put("gates", key, b"image");
            assert_eq!(cache.get("gates", key), None);
        }
    }

    #[test]
    fn the_folder_is_the_users() {
        let with = |xdg: &str, home: &str| {
            let (xdg, home) = (OsString::from(xdg), OsString::from(home));
            user_folder(&move |name| {
                Some(if name == "HOME" {
                    home.clone()
                } else {
                    xdg.clone()
                })
            })
        };
        assert_eq!(with("/caches", "/home/me"), Some("/caches/batchlab".into()));
        assert_eq!(
            with("relative", "/home/me"),
            Some("/home/me/.cache/batchlab".into())
        );
        assert_eq!(with("", ""), None);
    }
}
