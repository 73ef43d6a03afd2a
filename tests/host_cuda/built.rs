//! Builds the shim and kernels, once for all tests that use them.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hasher};
use std::path::{Path, PathBuf};
use std::thread;

use nix::fcntl::{Flock, FlockArg};

use super::Element;
use super::compiler::{self, Compiler};

/// Nothing is contracted that the sources don't contract, so that results do not depend on the compiler's choices.
const FLAGS: [&str; 9] =
    ["-std=c++17", "-O2", "-g", "-fPIC", "-fvisibility=hidden", "-ffp-contract=off", "-pthread", "-shared", "-Wall"];

/// The name of the library with the kernels of one element.
pub fn library(element: Element) -> String {
    format!("libkernels_{}.so", element.name())
}

/// Builds the shim and a library for each element out of the `.cu` files of a folder, if they are not built yet. Returns the
/// folder with them, or nothing where there is no compiler.
pub fn kernels(name: &str, sources: &Path) -> Option<PathBuf> {
    let shim = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/host_cuda/shim");
    let [device, cpp] = [shim.join("device.hpp"), shim].map(|path| path.display().to_string());
    let shim = files(Path::new(&cpp), "cpp");
    let kernels = files(sources, "cu");
    let watched = [files(Path::new(&cpp), ""), files(sources, "")].concat();
    once(name, &watched, |compiler, folder| {
        let flags = FLAGS.map(str::to_string).to_vec();
        compiler.compile(folder, &[&flags[..], &shim, &words("-o libhost_cuda.so")].concat());
        thread::scope(|scope| {
            for element in Element::ALL {
                let (flags, kernels, device) = (&flags, &kernels, &device);
                scope.spawn(move || {
                    let more = format!("-DELEMENT={} -Wno-unknown-pragmas -x c++ -include", element as u32);
                    let link = format!("-x none -L. -lhost_cuda -Wl,-rpath,$ORIGIN -o {}", library(element));
                    let all = [&flags[..], &words(&more), std::slice::from_ref(device), kernels, &words(&link)];
                    compiler.compile(folder, &all.concat());
                });
            }
        });
    })
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_string).collect()
}

/// The files of a folder with an extension, or all, in the order of their names.
fn files(folder: &Path, extension: &str) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let paths = entries.map(|entry| entry.expect("a folder's entry").path()).filter(|path| path.is_file());
    let wanted = paths.filter(|path| extension.is_empty() || path.extension().is_some_and(|end| end == extension));
    let mut files: Vec<String> = wanted.map(|path| path.display().to_string()).collect();
    files.sort();
    files
}

/// Builds into a folder that is named after all that goes into it. Tests run in several processes at once: the first builds,
/// the others wait for it. What was built before from other sources goes.
fn once(name: &str, watched: &[String], build: impl Fn(&Compiler, &Path)) -> Option<PathBuf> {
    let compiler = compiler::find()?;
    let mut hasher = DefaultHasher::new();
    hasher.write(format!("{compiler} {FLAGS:?}").as_bytes());
    for path in watched {
        hasher.write(path.as_bytes());
        hasher.write(&fs::read(path).unwrap_or_else(|error| panic!("{path}: {error}")));
    }
    let all = Path::new(env!("CARGO_TARGET_TMPDIR")).join("host_cuda").join(name);
    let built = all.join(format!("{:016x}", hasher.finish()));
    fs::create_dir_all(&all).expect("the folder for what tests build can be made");
    let lock = File::create(all.join("lock")).expect("the lock can be made");
    let _lock = Flock::lock(lock, FlockArg::LockExclusive).map_err(|(_, error)| error).expect("the lock can be taken");
    if !built.exists() {
        for old in fs::read_dir(&all).expect("the folder is there").flatten().filter(|old| old.path().is_dir()) {
            fs::remove_dir_all(old.path()).expect("what was built before can be taken away");
        }
        let unfinished = all.join("unfinished");
        fs::create_dir(&unfinished).expect("a folder to build in can be made");
        build(compiler, &unfinished);
        fs::rename(&unfinished, &built).expect("what is built can be named");
    }
    Some(built)
}
