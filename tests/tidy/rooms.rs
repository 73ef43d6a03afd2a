//! The rooms of `src/` and the order of their modules, and what only some modules may do.

use std::collections::BTreeSet;
use std::fs;

use crate::source::{code, files, is_test, report, root};

/// Where `unsafe` is allowed.
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
const FLAT: [&str; 2] = ["papers", "cli"];
/// The rooms of `src/`, each with the libraries that it must not name.
const ROOMS: [(&str, &[&str]); 6] = [
    (
        "base",
        &["clap", "plotters", "pdf_writer", "indicatif", "cudarc"],
    ),
    (
        "core",
        &[
            "clap",
            "plotters",
            "pdf_writer",
            "indicatif",
            "cudarc",
            "rten_gemm",
        ],
    ),
    ("devices", &["clap", "plotters", "pdf_writer", "indicatif"]),
    ("lab", &["cudarc"]),
    ("papers", &["clap", "cudarc"]),
    ("cli", &["cudarc"]),
];

/// The room of a file of `src/` and the module in it: `core::task` for `src/core/task/members.rs`. Rooms without modules
/// of their own rank and files next to the rooms have their name alone.
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
    for file in files(&["src", "python/src"], &["rs"]) {
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
