//! Builds the shim and kernels, once for all tests that use them.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hasher};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::thread;

use nix::fcntl::{Flock, FlockArg};

use super::Element;
use super::compiler::{self, Compiler};

/// Nothing is contracted that the sources don't contract, so that results do not depend on the compiler's choices.
const FLAGS: [&str; 9] = [
    "-std=c++17",
    "-O2",
    "-g",
    "-fPIC",
    "-fvisibility=hidden",
    "-ffp-contract=off",
    "-pthread",
    "-shared",
    "-Wall",
];

const HERE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/host_cuda");

/// The name of the library with the kernels of one element.
pub fn library(element: Element) -> String {
    format!("libkernels_{}.so", element.name())
}

/// What the kernels are watched by while they run, as `HOST_CUDA_SANITIZE` says; see `scripts/sanitize-kernels`.
#[derive(Clone, Copy, Debug)]
enum Sanitizer {
    None,
    /// Finds races: memory that two threads of a launch use with no barrier or atomic between them.
    Thread,
    /// Finds what is read or written outside of its memory.
    Address,
}

impl Sanitizer {
    fn chosen() -> Sanitizer {
        match std::env::var("HOST_CUDA_SANITIZE").as_deref() {
            Err(_) | Ok("") => Sanitizer::None,
            Ok("thread") => Sanitizer::Thread,
            Ok("address") => Sanitizer::Address,
            Ok(other) => panic!("HOST_CUDA_SANITIZE={other}: neither thread nor address"),
        }
    }

    /// The shim is not watched itself: it tells the sanitizer which fiber runs.
    fn of_shim(self) -> &'static str {
        match self {
            Sanitizer::None => "",
            Sanitizer::Thread => "-DHOST_CUDA_TSAN",
            Sanitizer::Address => "-DHOST_CUDA_ASAN",
        }
    }

    fn of_kernels(self) -> &'static str {
        match self {
            Sanitizer::None => "",
            Sanitizer::Thread => "-fsanitize=thread",
            Sanitizer::Address => "-fsanitize=address",
        }
    }
}

/// Builds the shim, if it is not built yet. Returns the folder with it, or nothing where there is no compiler.
pub fn shim() -> Option<PathBuf> {
    let sources = Path::new(HERE).join("shim");
    once("shim", &files(&sources, ""), |compiler, folder| {
        let how = words(Sanitizer::chosen().of_shim());
        compiler.compile(
            folder,
            &[
                flags(),
                how,
                files(&sources, "cpp"),
                words("-o libhost_cuda.so"),
            ]
            .concat(),
        );
    })
}

/// Builds a library for each element out of the `.cu` files of a folder, if they are not built yet: of those that need no other
/// constant. Returns the folder with them, or nothing where there is no compiler.
pub fn kernels(name: &str, sources: &Path) -> Option<PathBuf> {
    let shim = shim()?;
    let device = device();
    let mut plain = files(sources, "cu");
    plain.retain(|file| !file.contains("/grnn_"));
    // What is linked to is named by what it was built from.
    let watched = [
        files(sources, ""),
        vec![device.clone(), text(&shim.join("libhost_cuda.so"))],
    ]
    .concat();
    once(name, &watched, |compiler, folder| {
        thread::scope(|scope| {
            for element in Element::ALL {
                let (shim, device, plain) = (&shim, &device, &plain);
                scope.spawn(move || {
                    let watched = Sanitizer::chosen().of_kernels();
                    let how = format!(
                        "{watched} -Wno-unknown-pragmas -DELEMENT={} -include",
                        element as u32
                    );
                    let how = [words(&how), vec![device.clone()], words("-x c++")].concat();
                    let link = words(&format!("-x none -lhost_cuda -o {}", library(element)));
                    compiler.compile(
                        folder,
                        &[flags(), how, plain.clone(), link, linked(shim)].concat(),
                    );
                });
            }
        });
    })
}

/// Builds a library out of sources, of which the last is compiled and includes the others, if it is not built yet. `constants`
/// are options as `-DNAME=VALUE`. Returns the folder with it, or nothing where there is no compiler.
pub fn variant(name: &str, sources: &[(&str, &str)], constants: &[String]) -> Option<PathBuf> {
    let shim = shim()?;
    let device = device();
    let watched = [device.clone(), text(&shim.join("libhost_cuda.so"))];
    let texts = sources
        .iter()
        .flat_map(|(name, text)| [*name, *text])
        .chain(constants.iter().map(String::as_str));
    once_of(
        &format!("variants/{name}"),
        &watched,
        &texts.collect::<Vec<_>>(),
        |compiler, folder| {
            for (name, text) in sources {
                fs::write(folder.join(name), text).expect("a source can be written");
            }
            let how = words(&format!(
                "{} -Wno-unknown-pragmas -include",
                Sanitizer::chosen().of_kernels()
            ));
            let how = [how, vec![device.clone()], words("-x c++")].concat();
            let (compiled, _) = sources.last().expect("a source");
            let link = words(&format!("{compiled} -x none -lhost_cuda -o {VARIANT}"));
            compiler.compile(
                folder,
                &[flags(), constants.to_vec(), how, link, linked(&shim)].concat(),
            );
        },
    )
}

/// The name of the library of a variant.
pub const VARIANT: &str = "libvariant.so";

fn device() -> String {
    format!("{HERE}/shim/device.hpp")
}

/// Builds the libraries that stand in for the driver, NVRTC and cuBLAS, with the project's kernels in them, if they are not
/// built yet. Returns the folder with them, or nothing where there is no compiler.
pub fn driver(sources: &Path) -> Option<PathBuf> {
    let [shim, kernels] = [shim()?, kernels("kernels", sources)?];
    let driver = Path::new(HERE).join("driver");
    let libraries = [
        text(&shim.join("libhost_cuda.so")),
        text(&kernels.join(library(Element::F32))),
    ];
    let newer = files(&driver.join("newer"), "cpp");
    once(
        "driver",
        &[&files(&driver, "")[..], &newer, &libraries].concat(),
        |compiler, folder| {
            let mut link =
                words("-Wl,-soname,libcuda.so.1 -o libcuda.so.1 -Wl,--no-as-needed -lhost_cuda");
            link.extend(Element::ALL.map(|element| format!("-lkernels_{}", element.name())));
            link.push("-ldl".into());
            // How the stand-in of NVRTC compiles what has constants of its own.
            let how = format!(
                "{} -Wno-unknown-pragmas -include '{}'",
                Sanitizer::chosen().of_kernels(),
                device()
            );
            let compiled = Path::new(env!("CARGO_TARGET_TMPDIR"))
                .join("host_cuda")
                .join("compiled");
            let defined = [
                ("COMPILE", format!("{compiler} {} {how}", flags().join(" "))),
                ("LINK", format!("-lhost_cuda {}", linked(&shim).join(" "))),
                ("COMPILED", text(&compiled)),
            ];
            let defined: Vec<String> = defined
                .iter()
                .map(|(name, text)| format!("-DHOST_CUDA_{name}={text:?}"))
                .collect();
            let sources = files(&driver, "cpp");
            compiler.compile(
                folder,
                &[
                    flags(),
                    defined,
                    sources,
                    link,
                    linked(&shim),
                    linked(&kernels),
                ]
                .concat(),
            );
            for name in ["libcuda.so", "libnvrtc.so.12", "libcublas.so.12"] {
                symlink("libcuda.so.1", folder.join(name)).expect("a link can be made");
            }
            let own = words(
                "-o libnvrtc.so.13 -Wl,-rpath,$ORIGIN -Wl,--no-as-needed -L. -l:libcuda.so.1",
            );
            compiler.compile(folder, &[flags(), newer.clone(), own].concat());
            symlink("libnvrtc.so.13", folder.join("libcublas.so.13")).expect("a link can be made");
        },
    )
}

/// Links to what is in a folder, and finds it there when it is loaded.
fn linked(folder: &Path) -> Vec<String> {
    let folder = folder.display();
    vec![format!("-L{folder}"), format!("-Wl,-rpath,{folder}")]
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

fn flags() -> Vec<String> {
    FLAGS.map(str::to_string).to_vec()
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_string).collect()
}

/// The files of a folder with an extension, or all, in the order of their names.
fn files(folder: &Path, extension: &str) -> Vec<String> {
    let entries =
        fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let paths = entries
        .map(|entry| entry.expect("a folder's entry").path())
        .filter(|path| path.is_file());
    let wanted = paths.filter(|path| {
        extension.is_empty() || path.extension().is_some_and(|end| end == extension)
    });
    let mut files: Vec<String> = wanted.map(|path| text(&path)).collect();
    files.sort();
    files
}

/// Builds into a folder that is named after all that goes into it. Tests run in several processes at once: the first builds,
/// the others wait for it. What was built before from other sources goes.
fn once(name: &str, watched: &[String], build: impl Fn(&Compiler, &Path)) -> Option<PathBuf> {
    once_of(name, watched, &[], build)
}

/// The same, for what also goes into it.
fn once_of(
    name: &str,
    watched: &[String],
    texts: &[&str],
    build: impl Fn(&Compiler, &Path),
) -> Option<PathBuf> {
    let compiler = compiler::find()?;
    let mut hasher = DefaultHasher::new();
    hasher.write(format!("{compiler} {FLAGS:?} {:?}", Sanitizer::chosen()).as_bytes());
    for text in texts {
        hasher.write(text.as_bytes());
        hasher.write_usize(text.len());
    }
    for path in watched {
        hasher.write(path.as_bytes());
        hasher.write(&fs::read(path).unwrap_or_else(|error| panic!("{path}: {error}")));
    }
    let all = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("host_cuda")
        .join(name);
    let built = all.join(format!("{:016x}", hasher.finish()));
    fs::create_dir_all(&all).expect("the folder for what tests build can be made");
    let lock = File::create(all.join("lock")).expect("the lock can be made");
    let _lock = Flock::lock(lock, FlockArg::LockExclusive)
        .map_err(|(_, error)| error)
        .expect("the lock can be taken");
    if !built.exists() {
        for old in fs::read_dir(&all)
            .expect("the folder is there")
            .flatten()
            .filter(|old| old.path().is_dir())
        {
            fs::remove_dir_all(old.path()).expect("what was built before can be taken away");
        }
        let unfinished = all.join("unfinished");
        fs::create_dir(&unfinished).expect("a folder to build in can be made");
        build(compiler, &unfinished);
        fs::rename(&unfinished, &built).expect("what is built can be named");
    }
    Some(built)
}
