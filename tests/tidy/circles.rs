//! Circles of files: two files that need each other are read together, so each circle is a decision.

use std::collections::{BTreeMap, BTreeSet};

use crate::source::{code, files, is_test, report};

/// The circles that are left, each with the reason why it stays. Files are named without `src/` and `.rs`.
const CIRCLES: &[(&[&str], &str)] = &[
    (
        &["core/workload/arrivals", "core/workload/trace"],
        "arrivals make requests of a trace, and a trace refuses an arrival that the clock cannot hold",
    ),
    (
        &[
            "core/workload/dnn",
            "core/workload/graph_model",
            "core/workload/model",
        ],
        "a model may be a listed network or a rule of graphs, and both have cell types of the model",
    ),
    (
        &[
            "core/workload/graph_model/expression",
            "core/workload/graph_model/rule",
        ],
        "an expression counts the nodes of families, whose rules hold expressions",
    ),
    (
        &[
            "devices/network/cells/gated",
            "devices/network/cells/seq2seq",
        ],
        "a decoder has an LSTM, and the LSTM of an encoder begins with the decoder's start word",
    ),
    (
        &["devices/network/operators", "devices/network/weights"],
        "operators are packed from weights, and random weights have the shapes of operators",
    ),
    (
        &["devices/network/product", "devices/network/row_tiles"],
        "a product by tiles of rows is a product for processors with AVX-512",
    ),
    (
        &["lab/run/executor", "lab/run/standard"],
        "the registry of executors begins with the standard ones",
    ),
    (
        &["lab/scenario/source", "lab/scenario/sweep"],
        "a source holds the keys that are swept, which are read from the source",
    ),
];

/// A module by the names of its path, such as `core`, `task` for `src/core/task/mod.rs`.
type Module = Vec<String>;

/// The uses of files by files. A module that uses its own descendants contains them and closes no circle.
struct Uses {
    modules: Vec<Module>,
    /// The indices of the modules that each module uses.
    uses: Vec<BTreeSet<usize>>,
}

impl Uses {
    fn read() -> Uses {
        let mut texts = BTreeMap::new();
        for file in files(&["src"], &["rs"]) {
            let inside = file.path.trim_start_matches("src/").trim_end_matches(".rs");
            let inside = inside.trim_end_matches("/mod");
            if !is_test(&file.path) && !["lib", "main", "prelude"].contains(&inside) {
                let module: Module = inside.split('/').map(str::to_owned).collect();
                let lines: Vec<&str> = code(&file.text).map(|(_, line)| line).collect();
                texts.insert(module, lines.join("\n"));
            }
        }
        let modules: Vec<Module> = texts.keys().cloned().collect();
        let mut uses = Vec::new();
        for (module, text) in &texts {
            let mut used = BTreeSet::new();
            for path in paths(text) {
                let Some(target) = resolve(module, &path, &modules) else {
                    continue;
                };
                if !modules[target].starts_with(module) && modules[target].len() > 1 {
                    used.insert(target);
                }
            }
            uses.push(used);
        }
        Uses { modules, uses }
    }

    /// The modules that `start` reaches over any number of uses.
    fn reachable(&self, start: usize) -> BTreeSet<usize> {
        let mut reached = BTreeSet::new();
        let mut open = vec![start];
        while let Some(module) = open.pop() {
            for next in &self.uses[module] {
                if reached.insert(*next) {
                    open.push(*next);
                }
            }
        }
        reached
    }

    /// Groups of modules that reach each other, in the order of their names.
    fn circles(&self) -> BTreeSet<BTreeSet<String>> {
        let reachable: Vec<BTreeSet<usize>> = (0..self.modules.len())
            .map(|module| self.reachable(module))
            .collect();
        let mut circles = BTreeSet::new();
        for (module, reached) in reachable.iter().enumerate() {
            if reached.contains(&module) {
                let others = reached
                    .iter()
                    .filter(|other| reachable[**other].contains(&module));
                circles.insert(others.map(|other| self.modules[*other].join("/")).collect());
            }
        }
        circles
    }
}

/// The module that a path leads to: the longest part of it that is a module.
fn resolve(own: &Module, path: &[&str], modules: &[Module]) -> Option<usize> {
    let mut at = own.clone();
    let mut rest = path;
    match path[0] {
        "crate" => {
            at.clear();
            rest = &path[1..];
        }
        "self" => rest = &path[1..],
        "super" => {
            while let Some((&"super", after)) = rest.split_first() {
                at.pop();
                rest = after;
            }
        }
        // The path begins with a child, or with a name that is not a module of this crate.
        child => {
            at.push(child.to_owned());
            modules.binary_search(&at).ok()?;
            rest = &path[1..];
        }
    }
    for name in rest {
        at.push((*name).to_owned());
        if modules.binary_search(&at).is_err() {
            at.pop();
            break;
        }
    }
    modules.binary_search(&at).ok()
}

/// The paths of a text (`a::b`), with groups (`a::{b, c::d}`) written out.
fn paths(text: &str) -> Vec<Vec<&str>> {
    let mut paths = Vec::new();
    let mut done = 0;
    for (separator, _) in text.match_indices("::") {
        let before = &text[..separator];
        let start = before.rfind(|c: char| !is_name(c)).map_or(0, |at| at + 1);
        if start >= done && start < separator && !before[..start].ends_with("::") {
            done = expand(text, start, &[], &mut paths);
        }
    }
    paths
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Adds the paths that begin at a byte of the text, and returns the byte after them. `before` holds the names in front.
fn expand<'t>(
    text: &'t str,
    start: usize,
    before: &[&'t str],
    paths: &mut Vec<Vec<&'t str>>,
) -> usize {
    let rest = text[start..].trim_start();
    let start = text.len() - rest.len();
    if rest.starts_with('{') {
        return expand_group(text, start + 1, before, paths);
    }
    let end = start + rest.find(|c: char| !is_name(c)).unwrap_or(rest.len());
    let mut names = before.to_vec();
    if end > start {
        names.push(&text[start..end]);
    }
    if text[end..].starts_with("::") {
        return expand(text, end + 2, &names, paths);
    }
    if !names.is_empty() {
        paths.push(names);
    }
    end
}

/// Adds the paths of a group, given the byte after its opening brace, and returns the byte after its closing brace.
fn expand_group<'t>(
    text: &'t str,
    start: usize,
    before: &[&'t str],
    paths: &mut Vec<Vec<&'t str>>,
) -> usize {
    let mut at = start;
    loop {
        at = expand(text, at, before, paths);
        match text[at..].chars().next() {
            None => return at,
            Some('}') => return at + 1,
            Some(c) => at += c.len_utf8(),
        }
    }
}

#[test]
fn circles_of_files_are_those_that_are_listed() {
    let found = Uses::read().circles();
    let mut broken = Vec::new();
    for circle in &found {
        let is_listed = |(files, _): &(&[&str], &str)| circle.iter().eq(*files);
        if !CIRCLES.iter().any(is_listed) {
            let files: Vec<&str> = circle.iter().map(String::as_str).collect();
            broken.push(format!("not listed: {}", files.join(" ")));
        }
    }
    for (files, reason) in CIRCLES {
        if !found.iter().any(|circle| circle.iter().eq(*files)) {
            broken.push(format!(
                "no longer a circle: {} ({reason})",
                files.join(" ")
            ));
        }
    }
    report("circles of files are those that are listed", &broken);
}

#[test]
fn paths_of_groups_are_written_out() {
    let found = paths("use a::{b, c::{d, e}};\nuse f;\nlet x = super::super::g(h::i);");
    let joined: Vec<String> = found.iter().map(|path| path.join("::")).collect();
    assert_eq!(
        joined,
        ["a::b", "a::c::d", "a::c::e", "super::super::g", "h::i"]
    );
}
