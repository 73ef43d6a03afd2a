//! The search for one of NVIDIA's libraries, and tables of its functions.
//!
//! Libraries are opened by path, because CUDA toolkits and Python packages are rarely on the system's library path. All
//! places that were tried are kept for messages.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::{env, fs};

use libloading::Library;

use crate::base::error::{Error, Result};

/// The environment variable with the folders to search first, separated as in `PATH`.
pub const FOLDERS: &str = "BATCHLAB_CUDA_LIBRARIES";

/// The first CUDA version whose libraries have all functions that we use.
const OLDEST_MAJOR: u32 = 12;

/// The newest CUDA version to search for if no driver gives a limit.
const NEWEST_MAJOR: u32 = 13;

/// The result of a search for one library.
#[derive(Debug)]
pub struct LibrarySearch<T> {
    pub found: Option<T>,
    /// The name of the library in messages.
    name: &'static str,
    /// The names and places that were tried, and why the files found there were refused.
    pub story: String,
}

impl<T> LibrarySearch<T> {
    /// The library, or an error that says what was searched for, where, and what else to do.
    pub fn need(&self) -> Result<&T> {
        self.found.as_ref().ok_or_else(|| {
            Error::failure(format!(
                "no {} was found: {}; name its folder in {FOLDERS}",
                self.name, self.story
            ))
        })
    }

    /// Tries the files of these names, place by place, until `bind` accepts one.
    pub(super) fn new(
        name: &'static str,
        names: &[String],
        places: &[SearchPlace],
        bind: impl Fn(&'static Library, PathBuf) -> Result<T, String>,
    ) -> LibrarySearch<T> {
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
        LibrarySearch { found, name, story }
    }
}

/// The file names of a library with the numbers after `.so.`, best first.
pub(super) fn file_names(stem: &str, versions: impl Iterator<Item = u32>) -> Vec<String> {
    // A name without a number is a link to any version, for linkers.
    versions
        .map(|version| format!("{stem}.so.{version}"))
        .chain([format!("{stem}.so")])
        .collect()
}

/// The file names of a library of the CUDA toolkit, from the newest version that the driver can load.
pub(super) fn toolkit_names(stem: &str, newest: Option<u32>) -> Vec<String> {
    file_names(stem, (OLDEST_MAJOR..=newest.unwrap_or(NEWEST_MAJOR)).rev())
}

/// A place where libraries are searched for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SearchPlace {
    name: String,
    /// The folders to search, or `None` for the system's loader.
    folders: Option<Vec<PathBuf>>,
}

impl SearchPlace {
    fn folders(name: impl Into<String>, folders: Vec<PathBuf>) -> SearchPlace {
        SearchPlace {
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

    /// All places in order. `variable` reads the environment.
    pub fn all(variable: &dyn Fn(&str) -> Option<OsString>) -> Vec<SearchPlace> {
        // A relative folder would be below the current one, which may be a stranger's.
        let path = |name: &str| {
            variable(name)
                .map(PathBuf::from)
                .filter(|path| path.is_absolute())
        };
        let mut places = Vec::new();
        let named = variable(FOLDERS).unwrap_or_default();
        for folder in env::split_paths(&named) {
            if !folder.as_os_str().is_empty() {
                let absolute = std::path::absolute(&folder).unwrap_or(folder);
                let name = absolute.display().to_string();
                places.push(SearchPlace::folders(name, vec![absolute]));
            }
        }
        places.push(SearchPlace {
            name: "the system's library path".into(),
            folders: None,
        });
        for name in ["CUDA_HOME", "CUDA_PATH"] {
            if let Some(root) = path(name) {
                let shown = format!("{name}={}", root.display());
                places.push(SearchPlace::folders(shown, toolkit(&root)));
            }
        }
        let installed = inside(Path::new("/usr/local"), "cuda")
            .iter()
            .flat_map(|root| toolkit(root))
            .collect();
        places.push(SearchPlace::folders("/usr/local/cuda*", installed));
        // The folders where container runtimes and WSL put the driver's libraries.
        for folder in ["/usr/local/nvidia/lib64", "/usr/lib/wsl/lib"] {
            places.push(SearchPlace::folders(folder, vec![folder.into()]));
        }
        for prefix in pythons(&path, variable("PATH")) {
            places.push(SearchPlace::folders(
                format!("the Python packages of {}", prefix.display()),
                packages(&prefix),
            ));
        }
        places
    }
}

/// The folders of libraries in a CUDA toolkit.
fn toolkit(root: &Path) -> Vec<PathBuf> {
    let targets = inside(&root.join("targets"), "")
        .into_iter()
        .map(|target| target.join("lib"));
    [root.join("lib64"), root.join("lib")]
        .into_iter()
        .chain(targets)
        .collect()
}

/// The prefix of the Python that runs this program as a module, whose packages come before those of other Pythons.
static OWN_PYTHON: OnceLock<PathBuf> = OnceLock::new();

/// Names the Python that runs this program as a module. The first call counts.
pub fn set_own_python(prefix: PathBuf) {
    let _ = OWN_PYTHON.set(prefix);
}

/// The prefixes of Pythons whose packages may contain the libraries: the one that runs this program, the environment's,
/// the one into which a wheel put this program, that of the first `python3` in `PATH`, and the user's own.
fn pythons(path: &dyn Fn(&str) -> Option<PathBuf>, search: Option<OsString>) -> Vec<PathBuf> {
    let environment = ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(path);
    let mut prefixes: Vec<PathBuf> = OWN_PYTHON.get().cloned().into_iter().collect();
    prefixes.extend(environment);
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
        // Packages installed by hand next to Debian's interpreter have this prefix.
        if bin == Path::new("/usr/bin") {
            prefixes.push("/usr/local".into());
        }
    }
    prefixes.extend(path("HOME").map(|home| home.join(".local")));
    let mut seen = BTreeSet::new();
    prefixes.retain(|prefix| seen.insert(prefix.clone()));
    prefixes
}

/// The folders of libraries in the packages `nvidia-*` of a Python.
fn packages(prefix: &Path) -> Vec<PathBuf> {
    // Only a shim of pyenv is in `PATH`; its interpreters' prefixes are inside its own.
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
    for path in mapped {
        let name = path.file_name().and_then(|name| name.to_str());
        if let Some(rest) = name.and_then(|name| name.strip_prefix(stem))
            && rest.starts_with(".so")
        {
            return path.to_path_buf();
        }
    }
    file.to_path_buf()
}

/// A version in the form `12.4`.
pub(super) fn format_version((major, minor): (u32, u32)) -> String {
    format!("{major}.{minor}")
}

/// Why a version of a library does not serve an architecture, and what to install.
pub(super) fn refusal(
    (name, package): (&str, &str),
    version: (u32, u32),
    architecture: u32,
) -> String {
    format!(
        "is {name} {}, which does not serve compute capability {}; install version 12, as with pip install \
         nvidia-{package}-cu12",
        format_version(version),
        format_version((architecture / 10, architecture % 10))
    )
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
            fn load(library: &'static libloading::Library) -> Result<$table, String> {
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
        let named = home.path().join("named");
        let venv = home.path().join("venv");
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
        let places = SearchPlace::all(&environment(&variables));
        assert_eq!(places[0].folders, Some(vec![named.clone()]));
        assert_eq!(places[1].folders, None);
        assert_eq!(
            places[2].folders.as_ref().unwrap().last(),
            Some(&cuda.join("targets/x/lib"))
        );
        assert_eq!(places.last().unwrap().folders, Some(vec![lib.clone()]));

        let wanted = |newest| toolkit_names("libnvrtc", newest);
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
        let given = SearchPlace::all(&environment(&variables.map(|name| (name, relative))));
        let none = SearchPlace::all(&environment(&[]));
        let names = |places: Vec<SearchPlace>| {
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
            SearchPlace::folders(
                home.path().display().to_string(),
                vec![home.path().to_path_buf()],
            ),
            SearchPlace {
                name: "the system's library path".into(),
                folders: None,
            },
        ];
        let search = LibrarySearch::<()>::new(
            "Absent",
            &toolkit_names("libabsent", Some(12)),
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
