//! The rules of the house that a program can check: layers, unsafe code, the host's clock, links and wording.
//!
//! The rules are in CONTRIBUTING.md; each failure names the file, the line and the rule.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The longest line of a Markdown file, tables, code and links aside.
const COLUMNS: usize = 120;
/// Where `unsafe` may stand.
const UNSAFE: [&str; 3] = [
    "src/backend/cuda/gpu/",
    "src/network/huge_pages.rs",
    "src/network/row_tiles.rs",
];
/// The modules that may read the host's clock.
const CLOCK: [&str; 5] = ["backend", "driver", "experiment", "page", "profile"];

/// Phrases that have a plainer form.
const BANNED: &[(&str, &str)] = &[
    ("numbers that are none", "NaN or infinity"),
    ("that is none", "say what it is instead"),
    ("that are none", "say what they are instead"),
    ("is no share", "must be between 0 and 1"),
    ("is no toml", "not valid TOML"),
    ("is no number", "is not a number"),
    ("so many ", "n, or the number of"),
    ("came to", "resulted in, or the value itself"),
    ("come to what", "result in"),
    ("comes to", "results in"),
    ("whoever", "name the subject"),
    ("nobody", "no request, no task, no caller"),
    ("somebody", "a caller, a user"),
    ("owns the gap", "explains the gap"),
    ("what of it", "name it"),
    ("what of them", "name them"),
    ("brought together", "gathered"),
    ("bring together", "gather"),
    ("behind the last", "after the last"),
    ("behind each other", "one after the other"),
    ("one behind the other", "one after the other"),
    ("for gpus alone", "for GPUs only"),
];

struct Source {
    path: String,
    text: String,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The files below these folders with one of these endings, in the order of their paths.
fn files(folders: &[&str], endings: &[&str]) -> Vec<Source> {
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

fn collect(path: &Path, endings: &[&str], paths: &mut Vec<PathBuf>) {
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

/// The top-level module that a file of `src/` belongs to.
fn module(path: &str) -> &str {
    let inside = path.strip_prefix("src/").expect("a file of src/");
    inside
        .split('/')
        .next()
        .expect("a first part")
        .trim_end_matches(".rs")
}

fn is_test(path: &str) -> bool {
    path.contains("/tests/") || path.ends_with("/tests.rs")
}

/// The lines of a file up to its inline tests, without comments, each with its number.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let end = text.find("#[cfg(test)]\nmod tests {").unwrap_or(text.len());
    (1..)
        .zip(text[..end].lines())
        .filter(|(_, line)| !line.trim_start().starts_with("//"))
}

/// The modules of the crate that a file names after `crate::`, in single paths and in groups.
fn used(text: &str, modules: &[String]) -> BTreeSet<String> {
    let code: String = code(text).flat_map(|(_, line)| [line, "\n"]).collect();
    let mut used = BTreeSet::new();
    for (at, found) in code.match_indices("crate::") {
        let rest = &code[at + found.len()..];
        let names: Vec<&str> = match rest.strip_prefix('{') {
            Some(group) => group[..group.find(';').unwrap_or(group.len())]
                .split(',')
                .map(|item| item.trim().split("::").next().unwrap_or(""))
                .collect(),
            None => vec![
                rest.split(|c: char| !c.is_alphanumeric() && c != '_')
                    .next()
                    .unwrap_or(""),
            ],
        };
        used.extend(
            names
                .into_iter()
                .filter(|name| modules.iter().any(|known| known == name))
                .map(str::to_owned),
        );
    }
    used
}

fn report(rule: &str, broken: &[String]) {
    assert!(broken.is_empty(), "{rule}:\n{}", broken.join("\n"));
}

#[test]
fn a_module_uses_only_modules_that_stand_before_it() {
    let lib = fs::read_to_string(root().join("src/lib.rs")).expect("src/lib.rs");
    let order: Vec<String> = lib
        .lines()
        .filter_map(|line| {
            line.strip_prefix("pub mod ")
                .or(line.strip_prefix("pub(crate) mod "))
                .or(line.strip_prefix("mod "))
        })
        .filter_map(|line| line.strip_suffix(';'))
        .map(str::to_owned)
        .collect();
    assert!(order.len() > 10, "the modules of lib.rs: {order:?}");
    let place = |name: &str| order.iter().position(|known| known == name);
    let mut broken = Vec::new();
    for file in files(&["src"], &["rs"]) {
        let of = module(&file.path);
        // The prelude names what authors of policies need, from all modules.
        if ["lib", "main", "prelude"].contains(&of) || is_test(&file.path) {
            continue;
        }
        let here =
            place(of).unwrap_or_else(|| panic!("{} belongs to no module of lib.rs", file.path));
        for other in used(&file.text, &order) {
            if place(&other).is_some_and(|there| there > here) {
                broken.push(format!(
                    "{}: uses {other}, which stands after {of} in src/lib.rs",
                    file.path
                ));
            }
        }
    }
    report(
        "a module uses only modules before it in src/lib.rs",
        &broken,
    );
}

#[test]
fn unsafe_code_and_the_hosts_clock_stand_where_they_may() {
    let mut broken = Vec::new();
    for file in files(&["src"], &["rs"]) {
        for (number, line) in code(&file.text) {
            let words = || line.split(|c: char| !c.is_alphanumeric() && c != '_');
            if words().any(|word| word == "unsafe")
                && !UNSAFE.iter().any(|place| file.path.starts_with(place))
            {
                broken.push(format!("{}:{number}: unsafe code", file.path));
            }
            let reads = line.contains("clock::now") || line.contains("clock::unix_seconds");
            let simulated = file.path.starts_with("src/backend/sim");
            if reads && (simulated || !CLOCK.contains(&module(&file.path))) {
                broken.push(format!("{}:{number}: reads the host's clock", file.path));
            }
        }
    }
    report(
        "unsafe code and the host's clock stand where they may",
        &broken,
    );
}

#[test]
fn documents_are_narrow_and_their_links_resolve() {
    let mut broken = Vec::new();
    for file in documents() {
        let mut fenced = false;
        for (number, line) in (1..).zip(file.text.lines()) {
            fenced ^= line.trim_start().starts_with("```");
            let exempt = fenced
                || line.starts_with(['|', '!'])
                || line.starts_with("    ")
                || line.contains("](");
            if !exempt && line.chars().count() > COLUMNS {
                broken.push(format!(
                    "{}:{number}: longer than {COLUMNS} columns",
                    file.path
                ));
            }
            if !fenced {
                broken.extend(
                    dead_links(&file, line)
                        .map(|link| format!("{}:{number}: no {link}", file.path)),
                );
            }
        }
    }
    report("documents are narrow and their links resolve", &broken);
}

fn documents() -> Vec<Source> {
    let mut documents = files(
        &[
            "docs",
            "scenarios",
            "benches",
            "traces",
            "results",
            "scripts",
        ],
        &["md"],
    );
    documents.retain(|file| !file.path.starts_with("results/") || file.path == "results/README.md");
    for entry in fs::read_dir(root()).expect("the root") {
        let path = entry.expect("a readable entry").path();
        if path.extension().is_some_and(|ending| ending == "md") {
            documents.push(Source {
                text: fs::read_to_string(&path).expect("a readable document"),
                path: path
                    .file_name()
                    .expect("a name")
                    .to_string_lossy()
                    .into_owned(),
            });
        }
    }
    documents
}

/// The targets of a line's links that exist neither as a file nor as a heading.
fn dead_links<'f>(file: &'f Source, line: &'f str) -> impl Iterator<Item = &'f str> {
    let targets = line
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next());
    targets
        .filter(|target| !target.contains("://"))
        .filter(|target| {
            let (path, heading) = target
                .split_once('#')
                .map_or((*target, None), |(path, heading)| (path, Some(heading)));
            let folder = Path::new(&file.path).parent().expect("a folder");
            let place = if path.is_empty() {
                root().join(&file.path)
            } else {
                root().join(folder).join(path)
            };
            let text = || fs::read_to_string(&place).unwrap_or_default();
            !place.exists()
                || heading.is_some_and(|heading| {
                    !text()
                        .lines()
                        .any(|line| anchor(line) == Some(heading.into()))
                })
        })
}

/// The name by which links reach a heading: lower case, hyphens for spaces, no punctuation.
fn anchor(line: &str) -> Option<String> {
    let heading = line
        .strip_prefix('#')?
        .trim_start_matches('#')
        .trim()
        .to_lowercase();
    let kept = heading
        .chars()
        .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    Some(kept.map(|c| if c == ' ' { '-' } else { c }).collect())
}

#[test]
fn the_wording_is_plain() {
    let mut broken = Vec::new();
    let mut all = files(
        &["src", "tests", "examples", "benches", "kernels"],
        &["rs", "cu", "cuh"],
    );
    all.extend(files(&["scenarios", "examples"], &["toml"]));
    all.extend(files(&["scripts"], &["py", "sh"]));
    all.extend(documents());
    for file in all.iter().filter(|file| file.path != "tests/tidy.rs") {
        for (number, line) in (1..).zip(file.text.lines()) {
            // The words of a name, too.
            let line = line.to_lowercase().replace('_', " ");
            for (phrase, better) in BANNED.iter().filter(|(phrase, _)| line.contains(phrase)) {
                broken.push(format!(
                    "{}:{number}: \"{}\"; write: {better}",
                    file.path,
                    phrase.trim()
                ));
            }
        }
    }
    report("the wording is plain", &broken);
}

/// `Cargo.toml` leaves other results out of packages.
#[test]
fn packages_contain_what_the_program_includes() {
    let mut cargo = std::process::Command::new(env!("CARGO"));
    let listed = cargo
        .args(["package", "--list", "--allow-dirty", "--offline"])
        .current_dir(root())
        .output()
        .unwrap();
    let files = String::from_utf8(listed.stdout).unwrap();
    for file in [
        "results/reference/gpu/measured.csv",
        "results/reference/peers.txt",
    ] {
        assert!(
            files.lines().any(|listed| listed == file),
            "{file}: {}",
            String::from_utf8_lossy(&listed.stderr)
        );
    }
}
