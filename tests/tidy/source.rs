//! The files that the rules are about.

use std::fs;
use std::path::{Path, PathBuf};

pub struct Source {
    /// The path below the root, with slashes.
    pub path: String,
    pub text: String,
}

pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The files below these folders with one of these endings, in the order of their paths.
pub fn files(folders: &[&str], endings: &[&str]) -> Vec<Source> {
    let mut paths = Vec::new();
    for folder in folders {
        collect(&root().join(folder), endings, &mut paths);
    }
    paths.sort();
    let read = |path: PathBuf| Source {
        text: fs::read_to_string(&path).expect("a readable source file"),
        path: path
            .strip_prefix(root())
            .expect("below the root")
            .to_string_lossy()
            .replace('\\', "/"),
    };
    let files: Vec<Source> = paths.into_iter().map(read).collect();
    assert!(!files.is_empty(), "no {endings:?} below {folders:?}");
    files
}

pub fn collect(path: &Path, endings: &[&str], paths: &mut Vec<PathBuf>) {
    if path.is_dir() {
        for entry in fs::read_dir(path).expect("a readable folder") {
            collect(&entry.expect("a readable entry").path(), endings, paths);
        }
    } else if path
        .extension()
        .is_some_and(|ending| endings.iter().any(|known| ending == *known))
    {
        paths.push(path.to_owned());
    }
}

pub fn is_test(path: &str) -> bool {
    path.contains("/tests/") || path.ends_with("/tests.rs")
}

/// The lines of a file up to its inline tests, without comments, each with its number.
pub fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let end = text.find("#[cfg(test)]\nmod tests {").unwrap_or(text.len());
    (1..)
        .zip(text[..end].lines())
        .filter(|(_, line)| !line.trim_start().starts_with("//"))
}

pub fn report(rule: &str, broken: &[String]) {
    assert!(broken.is_empty(), "{rule}:\n{}", broken.join("\n"));
}
