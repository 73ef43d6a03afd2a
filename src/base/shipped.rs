//! The scenarios, cost tables, devices, networks, traces and measurements of the repository, which are inside the
//! program. A file on disk comes first; without one, a path such as `traces/figure5.csv` means the built-in copy in any
//! folder.
//!
//! A program that calls this crate may also keep files in memory ([`MemoryFile`]), such as a scenario that it has made.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, RwLock};

use include_dir::{Dir, include_dir};

use crate::base::error::{Error, Result, nearest};
use crate::base::hash::hash_bytes;
use crate::base::memory::limit_input;

static SCENARIOS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/scenarios");
static TRACES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/traces");

/// The times of persistent kernels and of cuDNN's on an H100, with which GRNN's claims are compared.
pub const GRNN_MEASURED: &str = "results/reference/gpu/measured.csv";
/// The comparison of the CPU backend with other systems.
pub const PEERS: &str = "results/reference/peers.txt";

static MEASUREMENTS: [(&str, &[u8]); 2] = [
    (
        GRNN_MEASURED,
        include_bytes!("../../results/reference/gpu/measured.csv"),
    ),
    (PEERS, include_bytes!("../../results/reference/peers.txt")),
];

/// The kinds of built-in files, which decide where a name is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shipped {
    Scenario,
    Costs,
    Device,
    Network,
    Trace,
}

/// The files in memory by their paths.
static IN_MEMORY: RwLock<BTreeMap<PathBuf, SharedContent>> = RwLock::new(BTreeMap::new());

struct SharedContent {
    bytes: Arc<[u8]>,
    /// The number of [`MemoryFile`]s of this path.
    owners: usize,
}

/// A file in memory, which scenarios and commands find by its path until it is dropped.
///
/// The path ends with `@` and a hash of the content, so that equal files have one path and no two files share one. It
/// may lie in a folder, next to the files that its content names.
#[derive(Debug)]
pub struct MemoryFile {
    path: PathBuf,
}

impl MemoryFile {
    /// Keeps a file whose path is `name`, `@` and the hash of the content.
    pub fn new(name: &str, content: &[u8]) -> MemoryFile {
        let path = PathBuf::from(format!("{name}@{}", hash_bytes(content)));
        let mut files = IN_MEMORY.write().expect(UNBROKEN);
        let shared = files.entry(path.clone()).or_insert_with(|| SharedContent {
            bytes: content.into(),
            owners: 0,
        });
        shared.owners += 1;
        MemoryFile { path }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for MemoryFile {
    fn drop(&mut self) {
        let mut files = IN_MEMORY.write().expect(UNBROKEN);
        if let Some(shared) = files.get_mut(&self.path) {
            shared.owners -= 1;
            if shared.owners == 0 {
                files.remove(&self.path);
            }
        }
    }
}

const UNBROKEN: &str = "nothing panics while it holds the files in memory";

/// The content of a file in memory.
fn memory_content(path: &Path) -> Option<Arc<[u8]>> {
    let files = IN_MEMORY.read().expect(UNBROKEN);
    files.get(path).map(|shared| Arc::clone(&shared.bytes))
}

/// Whether a path means a file in memory.
pub fn is_in_memory(path: &Path) -> bool {
    memory_content(path).is_some()
}

#[derive(Clone, Copy, Debug)]
pub struct BuiltIn {
    /// The path below the folder of its kind, without the ending: `batchmaker/fig7a`.
    pub name: &'static str,
    pub text: &'static str,
}

impl Shipped {
    /// The folder, and the ending of its files.
    fn place(self) -> (&'static str, &'static str) {
        match self {
            Shipped::Scenario => ("scenarios/", ".toml"),
            Shipped::Costs => ("scenarios/costs/", ".csv"),
            Shipped::Device => ("scenarios/devices/", ".toml"),
            Shipped::Network => ("scenarios/networks/", ".csv"),
            Shipped::Trace => ("traces/", ".csv"),
        }
    }

    /// All built-in files of this kind, in the order of their names.
    pub fn all(self) -> Vec<BuiltIn> {
        let (top, tree) = if self == Shipped::Trace {
            ("traces/", &TRACES)
        } else {
            ("scenarios/", &SCENARIOS)
        };
        let (folder, ending) = self.place();
        let below = folder.strip_prefix(top).unwrap_or_default();
        let mut found = Vec::new();
        let mut folders = vec![tree];
        while let Some(folder) = folders.pop() {
            for inner in folder.dirs() {
                // Files of devices and language models are TOML too, but not scenarios.
                let has_others =
                    inner.path().ends_with("devices") || inner.path().ends_with("llms");
                if self != Shipped::Scenario || !has_others {
                    folders.push(inner);
                }
            }
            found.extend(folder.files().filter_map(|file| {
                let name = file
                    .path()
                    .to_str()?
                    .strip_prefix(below)?
                    .strip_suffix(ending)?;
                Some(BuiltIn {
                    name,
                    text: file.contents_utf8()?,
                })
            }));
        }
        found.sort_by_key(|one| one.name);
        found
    }

    pub fn path(self, name: &str) -> PathBuf {
        let (folder, ending) = self.place();
        PathBuf::from(format!("{folder}{name}{ending}"))
    }

    /// The path at which a file is found, and its text.
    ///
    /// # Errors
    /// There is no such file, or it can't be read.
    pub fn read(self, given: &Path) -> Result<(PathBuf, String)> {
        let path = self.find(given)?;
        let text = text(&path)?;
        Ok((path, text))
    }

    /// The file on disk, or else the built-in file of this path, or else the only one whose name ends like this:
    /// `fig7a` and `batchmaker/fig7a` are `scenarios/batchmaker/fig7a.toml`.
    ///
    /// # Errors
    /// There is no such file, or several names end like this.
    pub fn find(self, given: &Path) -> Result<PathBuf> {
        let on_disk = fs::metadata(given);
        if on_disk.as_ref().is_ok_and(|found| !found.is_dir()) || is_in_memory(given) {
            return Ok(given.to_path_buf());
        }
        if let Some(path) = within_repository(given).filter(|path| content(path).is_some()) {
            return Ok(path);
        }
        let text = given.to_string_lossy();
        let (folder, ending) = self.place();
        let name = text.strip_prefix(folder).unwrap_or(&text);
        let name = name.strip_suffix(ending).unwrap_or(name);
        let all = self.all();
        let ends_so = |one: &&'static str| {
            one.strip_suffix(name)
                .is_some_and(|rest| rest.is_empty() || rest.ends_with('/'))
        };
        let found: Vec<&str> = all.iter().map(|one| one.name).filter(ends_so).collect();
        match (&found[..], on_disk) {
            ([one], _) => Ok(self.path(one)),
            ([], Ok(_)) => Ok(given.to_path_buf()), // A folder; reading it reports that.
            ([], Err(cause)) => {
                let names: Vec<&str> = all
                    .iter()
                    .flat_map(|one| one.name.rsplit('/').next())
                    .collect();
                let guess = nearest(name, &names);
                let known = match self {
                    Shipped::Scenario => "batchlab scenarios lists what is".into(),
                    _ => format!(
                        "known: {}",
                        all.iter()
                            .map(|one| one.name)
                            .collect::<Vec<_>>()
                            .join(", ")
                    ),
                };
                let error = Error::unreadable(given, &cause);
                Err(Error::input(format!(
                    "{error}; nothing built in has that name{guess}; {known}"
                )))
            }
            (several, _) if several.contains(&name) => Ok(self.path(name)),
            (several, _) => {
                let names = several.join(", ");
                Err(Error::mistake(
                    given,
                    format!("several built-in files have this name; name one of {names}"),
                ))
            }
        }
    }
}

impl BuiltIn {
    /// The first sentence of the file's first comment.
    pub fn about(&self) -> String {
        let comment = self.text.lines().map_while(|line| line.strip_prefix("# "));
        let text = comment.collect::<Vec<_>>().join(" ");
        text.split_once(". ")
            .map_or(text.trim_end_matches('.'), |(first, _)| first)
            .to_string()
    }
}

/// A relative path without `.` and `..`, as paths are in the repository.
pub fn within_repository(path: &Path) -> Option<PathBuf> {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => plain.push(name),
            Component::CurDir => {}
            Component::ParentDir if plain.pop() => {}
            _ => return None,
        }
    }
    Some(plain)
}

/// The contents of a built-in file.
fn content(path: &Path) -> Option<&'static [u8]> {
    let path = within_repository(path)?;
    for (folder, tree) in [("scenarios", &SCENARIOS), ("traces", &TRACES)] {
        if let Ok(below) = path.strip_prefix(folder)
            && let Some(file) = tree.get_file(below)
        {
            return Some(file.contents());
        }
    }
    let (_, text) = MEASUREMENTS
        .iter()
        .find(|(name, _)| path == Path::new(name))?;
    Some(text)
}

/// Whether a path means a built-in file: there is one, and none on disk.
pub fn is_built_in(path: &Path) -> bool {
    !path.exists() && content(path).is_some()
}

pub fn is_file(path: &Path) -> bool {
    path.is_file() || is_built_in(path) || is_in_memory(path)
}

/// A file, on disk, built in or in memory.
pub trait ShippedFile: Read + Debug + Send {}

impl<T: Read + Debug + Send> ShippedFile for T {}

pub fn open(path: &Path) -> io::Result<Box<dyn ShippedFile>> {
    if let Some(content) = memory_content(path) {
        return Ok(Box::new(io::Cursor::new(content)));
    }
    match content(path).filter(|_| !path.exists()) {
        Some(text) => Ok(Box::new(text)),
        None => Ok(Box::new(File::open(path)?)),
    }
}

pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    limit_input(open(path)?)
        .read_to_end(&mut bytes)
        .map(|_| bytes)
}

/// The text of a file, on disk, built in or in memory.
///
/// # Errors
/// The file cannot be read; the message names it.
pub fn text(path: &Path) -> Result<String> {
    let mut text = String::new();
    let read = open(path).and_then(|file| limit_input(file).read_to_string(&mut text));
    read.map(|_| text)
        .map_err(|cause| Error::unreadable(path, &cause))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_in_memory_is_there_until_its_last_owner_is_dropped() {
        let file = MemoryFile::new("folder/mine.toml", b"name = 'mine'");
        let again = MemoryFile::new("folder/mine.toml", b"name = 'mine'");
        let other = MemoryFile::new("folder/mine.toml", b"name = 'other'");
        assert_eq!(file.path(), again.path());
        assert_ne!(file.path(), other.path());
        assert_eq!(file.path().parent(), Some(Path::new("folder")));
        drop(file);
        let path = Shipped::Scenario.find(again.path()).unwrap();
        assert_eq!(text(&path).unwrap(), "name = 'mine'");
        assert!(is_file(&path) && !is_built_in(&path));
        drop(again);
        assert!(text(&path).is_err());
    }
}
