//! Finds the driver, NVRTC and cuBLAS at run time, so that one build serves hosts with and without them.
//!
//! Libraries are opened by path, because CUDA toolkits and Python packages are rarely on the system's library path. All
//! places that were tried are kept for messages.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::{env, fs};

use libloading::Library;

use super::cublas::Cublas;
use super::driver::Driver;
use super::nvrtc::Nvrtc;
use crate::base::error::{Error, Result};

/// The environment variable with the folders to search first, separated as in `PATH`.
pub const FOLDERS: &str = "BATCHLAB_CUDA_LIBRARIES";

/// The first CUDA version whose libraries have all functions that we use.
const OLDEST_MAJOR: u32 = 12;

/// The newest CUDA version to search for if no driver gives a limit.
const NEWEST_MAJOR: u32 = 13;

/// The libraries, and where they were searched for.
#[derive(Debug)]
pub struct Found {
    pub driver: Search<Driver>,
    pub nvrtc: Search<Nvrtc>,
    pub cublas: Search<Cublas>,
}

/// Searches for the libraries and opens them. They stay open until the program ends.
pub fn find() -> Found {
    let places = Place::all(&|name| env::var_os(name));
    let driver = Search::new(
        "NVIDIA driver",
        &names("libcuda", 1..=1),
        &places,
        Driver::bind,
    );
    // The output of libraries newer than the driver can't be loaded.
    let newest = driver.found.as_ref().map(|driver| driver.version.0);
    let gpus = driver
        .found
        .as_ref()
        .map(Driver::served)
        .unwrap_or_default();
    let nvrtc = Search::new(
        "NVRTC",
        &of_toolkit("libnvrtc", newest),
        &places,
        |library, path| Nvrtc::bind(library, path)?.serving(&gpus),
    );
    let cublas_of = |major: Option<u32>| {
        let bind = |library, path| Cublas::bind(library, path)?.serving(&gpus, major);
        Search::new("cuBLAS", &of_toolkit("libcublas", newest), &places, bind)
    };
    // The two are installed together, so that those of one major version fit best; others work too.
    let paired = cublas_of(nvrtc.found.as_ref().map(|nvrtc| nvrtc.version.0));
    let cublas = if paired.found.is_some() {
        paired
    } else {
        cublas_of(None)
    };
    Found {
        driver,
        nvrtc,
        cublas,
    }
}

/// The result of a search for one library.
#[derive(Debug)]
pub struct Search<T> {
    pub found: Option<T>,
    name: &'static str,
    /// The names and places that were tried, and why the files found there were refused.
    pub story: String,
}

impl<T> Search<T> {
    /// The library, or an error that says what was searched for, where, and what else to do.
    pub fn need(&self) -> Result<&T> {
        self.found.as_ref().ok_or_else(|| {
            Error::failed(format!(
                "no {} was found: {}; name its folder in {FOLDERS}",
                self.name, self.story
            ))
        })
    }

    fn new(
        name: &'static str,
        names: &[String],
        places: &[Place],
        bind: impl Fn(&'static Library, PathBuf) -> Result<T, String>,
    ) -> Search<T> {
        let all: Vec<&str> = places.iter().map(|place| place.name.as_str()).collect();
        let mut story = format!("looked for {} in {}", names.join(", "), all.join(", "));
        let found = places
            .iter()
            .flat_map(|place| place.files(names))
            .find_map(|file| {
                // SAFETY: opening a library runs its initialisers. These are the vendor's libraries, by name and from
                // folders that the user or the system's administrator has set up for them.
                let refused = match unsafe { Library::new(&file) } {
                    // A library with threads and devices of its own is never closed.
                    Ok(library) => match bind(Box::leak(Box::new(library)), opened_from(&file)) {
                        Ok(found) => return Some(found),
                        Err(reason) => reason,
                    },
                    Err(reason) if file.is_absolute() => reason.to_string(),
                    // For a bare name the story says enough.
                    Err(_) => return None,
                };
                story += &format!("; {}: {refused}", file.display());
                None
            });
        Search { found, name, story }
    }
}

/// The file names of a library with the numbers after `.so.`, best first.
fn names(stem: &str, versions: impl Iterator<Item = u32>) -> Vec<String> {
    // A name without a number is a link for linkers to any version.
    versions
        .map(|version| format!("{stem}.so.{version}"))
        .chain([format!("{stem}.so")])
        .collect()
}

fn of_toolkit(stem: &str, newest: Option<u32>) -> Vec<String> {
    names(stem, (OLDEST_MAJOR..=newest.unwrap_or(NEWEST_MAJOR)).rev())
}

#[derive(Debug, PartialEq, Eq)]
struct Place {
    name: String,
    /// `None` for the system's loader.
    folders: Option<Vec<PathBuf>>,
}

impl Place {
    fn folders(name: impl Into<String>, folders: Vec<PathBuf>) -> Place {
        Place {
            name: name.into(),
            folders: Some(folders),
        }
    }

    /// The files of these names, best first; for the loader, the names themselves.
    fn files(&self, names: &[String]) -> Vec<PathBuf> {
        let Some(folders) = &self.folders else {
            return names.iter().map(PathBuf::from).collect();
        };
        let files = names
            .iter()
            .flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
        files.filter(|file| file.exists()).collect()
    }

    /// All places in order, by the environment that `variable` reads.
    fn all(variable: &dyn Fn(&str) -> Option<OsString>) -> Vec<Place> {
        let path = |name: &str| {
            variable(name)
                .map(PathBuf::from)
                .filter(|path| path.is_absolute())
        };
        let named: Vec<PathBuf> = variable(FOLDERS)
            .map(|all| env::split_paths(&all).collect())
            .unwrap_or_default();
        let named = named
            .into_iter()
            .filter(|folder| !folder.as_os_str().is_empty())
            .map(|folder| {
                let absolute = std::path::absolute(&folder).unwrap_or(folder);
                Place::folders(absolute.display().to_string(), vec![absolute])
            });
        let mut places: Vec<Place> = named.collect();
        places.push(Place {
            name: "the system's library path".into(),
            folders: None,
        });
        // A relative folder would be below the current one, which may be a stranger's.
        for name in ["CUDA_HOME", "CUDA_PATH"] {
            let toolkit = path(name)
                .map(|root| Place::folders(format!("{name}={}", root.display()), toolkit(&root)));
            places.extend(toolkit);
        }
        let installed = inside(Path::new("/usr/local"), "cuda")
            .iter()
            .flat_map(|root| toolkit(root))
            .collect();
        places.push(Place::folders("/usr/local/cuda*", installed));
        // The folders where container runtimes and WSL put the driver's libraries.
        for folder in ["/usr/local/nvidia/lib64", "/usr/lib/wsl/lib"] {
            places.push(Place::folders(folder, vec![folder.into()]));
        }
        for prefix in pythons(&path, variable("PATH")) {
            places.push(Place::folders(
                format!("the Python packages of {}", prefix.display()),
                packages(&prefix),
            ));
        }
        places
    }
}

fn toolkit(root: &Path) -> Vec<PathBuf> {
    let targets = inside(&root.join("targets"), "")
        .into_iter()
        .map(|target| target.join("lib"));
    [root.join("lib64"), root.join("lib")]
        .into_iter()
        .chain(targets)
        .collect()
}

/// The prefixes of Pythons whose packages may contain the libraries: the environment's, that into which a wheel put this
/// program, that of the first `python3` in `PATH`, the user's own.
fn pythons(path: &dyn Fn(&str) -> Option<PathBuf>, search: Option<OsString>) -> Vec<PathBuf> {
    let mut prefixes: Vec<PathBuf> = ["VIRTUAL_ENV", "CONDA_PREFIX"]
        .into_iter()
        .filter_map(path)
        .collect();
    let own = env::current_exe()
        .ok()
        .and_then(|program| program.parent().map(Path::to_path_buf));
    prefixes.extend(
        own.filter(|bin| bin.join("python3").is_file())
            .and_then(|bin| bin.parent().map(Path::to_path_buf)),
    );
    let search = search
        .map(|all| env::split_paths(&all).collect::<Vec<_>>())
        .unwrap_or_default();
    if let Some(bin) = search
        .iter()
        .find(|bin| bin.is_absolute() && bin.join("python3").is_file())
    {
        prefixes.extend(bin.parent().map(Path::to_path_buf));
        // Packages installed by hand beside Debian's interpreter have this prefix.
        prefixes.extend((bin == Path::new("/usr/bin")).then(|| "/usr/local".into()));
    }
    prefixes.extend(path("HOME").map(|home| home.join(".local")));
    let mut seen = BTreeSet::new();
    prefixes.retain(|prefix| seen.insert(prefix.clone()));
    prefixes
}

/// The folders of libraries in the packages `nvidia-*` of a Python.
fn packages(prefix: &Path) -> Vec<PathBuf> {
    // Pyenv, of which only a shim is in `PATH`, has its interpreters' prefixes inside its own.
    let prefixes = [prefix.to_path_buf()]
        .into_iter()
        .chain(inside(&prefix.join("versions"), "3"));
    let versions: Vec<PathBuf> = prefixes
        .flat_map(|prefix| inside(&prefix.join("lib"), "python3"))
        .collect();
    let sites = versions
        .iter()
        .flat_map(|version| [version.join("site-packages"), version.join("dist-packages")]);
    sites
        .flat_map(|site| inside(&site.join("nvidia"), ""))
        .map(|package| package.join("lib"))
        .collect()
}

/// The entries of a folder with this prefix in descending order, so that newer versions come first.
fn inside(folder: &Path, beginning: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(beginning))
        .map(|entry| entry.path())
        .collect();
    found.sort_unstable_by(|a, b| b.cmp(a));
    found
}

/// The file that the loader opened: the path itself, or the file that the process has mapped under that name.
fn opened_from(file: &Path) -> PathBuf {
    if file.is_absolute() {
        return file.to_path_buf();
    }
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let name = file.to_string_lossy();
    // A library opened by its short name is mapped under its full one, as libcuda.so.1 under libcuda.so.535.54.
    let stem = name.split(".so").next().unwrap_or_default();
    let mapped = maps
        .lines()
        .filter_map(|line| line.find('/').map(|at| Path::new(&line[at..])));
    let is_it = |path: &&Path| {
        let rest = path
            .file_name()
            .and_then(|name| name.to_str())
            .and_then(|name| name.strip_prefix(stem));
        rest.is_some_and(|rest| rest.starts_with(".so"))
    };
    mapped.into_iter().find(is_it).unwrap_or(file).to_path_buf()
}

/// A table of a library's functions, with a constructor that looks them up.
macro_rules! functions {
    ($(#[$about:meta])* $table:ident { $($field:ident = $symbol:ident($($argument:ty),* $(,)?) -> $result:ty;)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug)]
        struct $table {
            $($field: unsafe extern "C" fn($($argument),*) -> $result,)*
        }

        impl $table {
            fn of(library: &'static libloading::Library) -> Result<$table, String> {
                $(
                    // SAFETY: the type is that of the function in the vendor's headers, and the library is never
                    // closed.
                    let $field = unsafe {
                        library.get::<unsafe extern "C" fn($($argument),*) -> $result>(stringify!($symbol))
                    };
                    let $field = *$field.map_err(|_| concat!("has no ", stringify!($symbol)).to_string())?;
                )*
                Ok($table { $($field,)* })
            }
        }
    };
}

pub(super) use functions;

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(variables: &[(&str, &Path)]) -> impl Fn(&str) -> Option<OsString> {
        let variables: Vec<(String, OsString)> = variables
            .iter()
            .map(|(name, value)| (name.to_string(), value.as_os_str().to_os_string()))
            .collect();
        move |name| {
            variables
                .iter()
                .find(|(known, _)| known == name)
                .map(|(_, value)| value.clone())
        }
    }

    #[test]
    fn folders_that_are_named_come_first_and_pythons_are_known_without_running_them() {
        let home = tempfile::tempdir().unwrap();
        let (named, venv) = (home.path().join("named"), home.path().join("venv"));
        let lib = venv.join("lib/python3.12/site-packages/nvidia/cu13/lib");
        for folder in [
            &named,
            &lib,
            &venv.join("bin"),
            &home.path().join("cuda/targets/x/lib"),
        ] {
            fs::create_dir_all(folder).unwrap();
        }
        for file in [
            named.join("libnvrtc.so"),
            lib.join("libnvrtc.so.13"),
            lib.join("libnvrtc.so.12"),
        ] {
            fs::write(file, "no library").unwrap();
        }
        fs::write(venv.join("bin/python3"), "").unwrap();
        let cuda = home.path().join("cuda");
        let variables = [
            (FOLDERS, named.as_path()),
            ("PATH", &venv.join("bin")),
            ("CUDA_HOME", &cuda),
        ];
        let places = Place::all(&environment(&variables));
        assert_eq!(places[0].folders, Some(vec![named.clone()]));
        assert_eq!(places[1].folders, None);
        assert_eq!(
            places[2].folders.as_ref().unwrap().last(),
            Some(&cuda.join("targets/x/lib"))
        );
        assert_eq!(places.last().unwrap().folders, Some(vec![lib.clone()]));

        let wanted = |newest| of_toolkit("libnvrtc", newest);
        assert_eq!(
            places[0].files(&wanted(Some(13))),
            [named.join("libnvrtc.so")]
        );
        let newest_first = [lib.join("libnvrtc.so.13"), lib.join("libnvrtc.so.12")];
        assert_eq!(
            places.last().unwrap().files(&wanted(Some(13))),
            newest_first
        );
        assert_eq!(
            places.last().unwrap().files(&wanted(Some(12))),
            newest_first[1..]
        );
    }

    #[test]
    fn relative_folders_are_not_searched() {
        let relative = Path::new("relative");
        let variables = [
            "PATH",
            "CUDA_HOME",
            "CUDA_PATH",
            "VIRTUAL_ENV",
            "CONDA_PREFIX",
            "HOME",
        ];
        let given = Place::all(&environment(&variables.map(|name| (name, relative))));
        let none = Place::all(&environment(&[]));
        let names = |places: Vec<Place>| {
            places
                .into_iter()
                .map(|place| place.name)
                .collect::<Vec<_>>()
        };
        assert_eq!(names(given), names(none));
    }

    #[test]
    fn what_was_looked_for_is_told() {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join("libabsent.so.12"), "no library").unwrap();
        let places = [
            Place::folders(
                home.path().display().to_string(),
                vec![home.path().to_path_buf()],
            ),
            Place {
                name: "the system's library path".into(),
                folders: None,
            },
        ];
        let search = Search::<()>::new(
            "Absent",
            &of_toolkit("libabsent", Some(12)),
            &places,
            |_, _| Ok(()),
        );
        let message = search.need().unwrap_err().to_string();
        let folder = home.path().display();
        let beginning = format!(
            "no Absent was found: looked for libabsent.so.12, libabsent.so in {folder}, the system's library path; \
             {folder}/libabsent.so.12: "
        );
        assert!(message.starts_with(&beginning), "{message}");
        assert!(
            message.ends_with("; name its folder in BATCHLAB_CUDA_LIBRARIES"),
            "{message}"
        );
    }
}
