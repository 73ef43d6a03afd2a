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
    "src/devices/cuda/gpu/",
    "src/devices/network/huge_pages.rs",
    "src/devices/network/row_tiles.rs",
];
/// The modules that may read the host's clock.
const CLOCK: [&str; 6] = [
    "core::engine",
    "devices::cpu",
    "devices::cuda",
    "lab::run",
    "lab::page",
    "lab::profile",
];
/// The rooms whose modules have no order among each other.
const FLAT: [&str; 3] = ["papers", "swarm", "cli"];
/// The rooms of `src/`, each with the libraries that it must not name.
const ROOMS: [(&str, &[&str]); 7] = [
    (
        "base",
        &["clap", "plotters", "krilla", "indicatif", "cudarc"],
    ),
    (
        "core",
        &["plotters", "krilla", "indicatif", "cudarc", "rten_gemm"],
    ),
    ("devices", &["clap", "plotters", "krilla", "indicatif"]),
    ("lab", &["cudarc"]),
    ("papers", &["cudarc"]),
    ("swarm", &["cudarc"]),
    ("cli", &["cudarc"]),
];

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

/// The room of a file of `src/` and the module in it: `core::task` for `src/core/task/members.rs`. Rooms without modules
/// of their own rank and files beside the rooms have their name alone.
fn module(path: &str) -> String {
    let inside = path.strip_prefix("src/").expect("a file of src/");
    let mut parts = inside.trim_end_matches(".rs").split('/');
    let room = parts.next().expect("a first part");
    match parts.next() {
        Some(module)
            if module != "mod"
                && root().join("src").join(room).join("mod.rs").exists()
                && !FLAT.contains(&room) =>
        {
            format!("{room}::{module}")
        }
        _ => room.to_owned(),
    }
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

/// What a file names after `crate::`: rooms and their modules, in single paths and in groups.
fn used(text: &str) -> BTreeSet<String> {
    let code: String = code(text).flat_map(|(_, line)| [line, "\n"]).collect();
    let mut used = BTreeSet::new();
    for (at, found) in code.match_indices("crate::") {
        let rest = &code[at + found.len()..];
        let room = first_name(rest);
        used.insert(room.to_owned());
        let inner = rest[room.len()..].strip_prefix("::").unwrap_or("");
        let modules = match inner.strip_prefix('{') {
            Some(group) => members_of_group(group),
            None => vec![first_name(inner)],
        };
        used.extend(
            modules
                .into_iter()
                .map(|module| format!("{room}::{module}")),
        );
    }
    used
}

/// The name at the start of a text, or an empty text.
fn first_name(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_');
    &text[..end.unwrap_or(text.len())]
}

/// The first names of the members of `{a, b::c, d::{e, f}}`, given what follows the opening brace.
fn members_of_group(group: &str) -> Vec<&str> {
    let mut members = vec![first_name(group.trim_start())];
    let mut depth = 0;
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => members.push(first_name(group[at + 1..].trim_start())),
            _ => {}
        }
    }
    members.retain(|name| !name.is_empty());
    members
}

/// The names of the modules that a file declares, in its order.
fn declared(path: &str) -> Vec<String> {
    let text = fs::read_to_string(root().join(path)).unwrap_or_else(|_| panic!("no {path}"));
    let name = |line: &str| -> Option<String> {
        let line = line.strip_suffix(';')?;
        let (before, name) = line.rsplit_once(' ')?;
        ["mod", "pub mod", "pub(crate) mod"]
            .contains(&before)
            .then(|| name.to_owned())
    };
    text.lines().filter_map(name).collect()
}

fn report(rule: &str, broken: &[String]) {
    assert!(broken.is_empty(), "{rule}:\n{}", broken.join("\n"));
}

#[test]
fn src_shows_its_rooms_and_nothing_else() {
    let rooms = ROOMS.map(|(room, _)| room);
    let mut expected: Vec<String> = rooms.iter().map(|room| room.to_string()).collect();
    expected.extend(["lib.rs", "main.rs", "prelude.rs"].map(str::to_owned));
    let mut entries: Vec<String> = fs::read_dir(root().join("src"))
        .expect("src")
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    entries.sort();
    expected.sort();
    assert_eq!(entries, expected);
    let mut declared = declared("src/lib.rs");
    declared.retain(|name| name != "prelude");
    assert_eq!(declared, rooms, "the rooms in src/lib.rs, in their order");
}

#[test]
fn a_module_uses_only_modules_that_stand_before_it() {
    let mut order = Vec::new();
    for (room, _) in ROOMS {
        order.push(room.to_owned());
        if !FLAT.contains(&room) {
            let modules = declared(&format!("src/{room}/mod.rs"));
            order.extend(modules.iter().map(|module| format!("{room}::{module}")));
        }
    }
    assert!(order.len() > 20, "the modules of the rooms: {order:?}");
    let place = |name: &str| order.iter().position(|known| known == name);
    let mut broken = Vec::new();
    for file in files(&["src"], &["rs"]) {
        let own = module(&file.path);
        // The prelude names what authors of policies need, from all rooms.
        if ["lib", "main", "prelude"].contains(&own.as_str()) || is_test(&file.path) {
            continue;
        }
        let here = place(&own).unwrap_or_else(|| panic!("{} is in no module of a room", file.path));
        for other in used(&file.text) {
            if place(&other).is_some_and(|there| there > here) {
                broken.push(format!(
                    "{}: uses {other}, which is declared after {own}",
                    file.path
                ));
            }
            let room = first_name(&other);
            if !ROOMS.iter().any(|(known, _)| *known == room) {
                broken.push(format!(
                    "{}: crate::{other} is not the path of a room",
                    file.path
                ));
            }
        }
        // `super::` inside a module stays inside it, so that the paths above show each use of another module.
        let depth =
            file.path.trim_end_matches("/mod.rs").split('/').count() - own.split("::").count() - 1;
        let climb = "super::".repeat(depth + 1);
        if own.contains("::") && code(&file.text).any(|(_, line)| line.contains(&climb)) {
            broken.push(format!(
                "{}: {climb} leaves {own}; name the room",
                file.path
            ));
        }
    }
    report("a module uses only modules declared before it", &broken);
}

#[test]
fn a_room_names_no_library_that_belongs_elsewhere() {
    let mut broken = Vec::new();
    for file in files(&["src"], &["rs"]) {
        let own = module(&file.path);
        let room = first_name(&own);
        let Some((_, refused)) = ROOMS.iter().find(|(known, _)| *known == room) else {
            continue;
        };
        for (number, line) in code(&file.text) {
            for library in *refused {
                if line.contains(&format!("{library}::")) {
                    broken.push(format!("{}:{number}: {room} names {library}", file.path));
                }
            }
        }
    }
    report("a room names no library that belongs elsewhere", &broken);
}

#[test]
fn modules_with_children_are_folders_with_a_mod_file() {
    let mut broken = Vec::new();
    for file in files(&["src"], &["rs"]) {
        if root().join(file.path.trim_end_matches(".rs")).is_dir() {
            broken.push(format!("{}: move it to mod.rs in its folder", file.path));
        }
    }
    report("modules with children are folders with a mod.rs", &broken);
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
            if reads && !CLOCK.contains(&module(&file.path).as_str()) {
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
