//! Names: a type has one of its own, so that a search finds it and a reader knows which one is meant. A function is named
//! by a verb or a noun.

use std::collections::BTreeMap;
use std::fs;

use crate::source::{code, files, is_test, report, root};

/// Names that several types have. `Args` are the options of each command.
const SHARED: &[&str] = &["Args"];

/// Words with which a function's name does not begin: what follows would not be what the function does or returns.
const PREPOSITIONS: &[&str] = &[
    "at", "beside", "by", "for", "in", "no", "not", "of", "on", "per", "under",
];

/// Participles that do not end in "ed". They say neither what a function does nor what it returns.
const PARTICIPLES: &[&str] = &[
    "given", "held", "hidden", "kept", "left", "made", "own", "sent", "shown", "taken", "told",
    "written",
];

/// Verbs and nouns that end in "ed".
const NOT_PARTICIPLES: &[&str] = &["embed", "feed", "need", "seed", "speed"];

/// The places of each type of `src/`, by its name.
fn types() -> BTreeMap<String, Vec<String>> {
    let mut types: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in files(&["src"], &["rs"]) {
        if is_test(&file.path) {
            continue;
        }
        for (number, line) in code(&file.text) {
            if let Some(name) = declared_type(line) {
                let place = format!("{}:{number}", file.path);
                types.entry(name.to_owned()).or_default().push(place);
            }
        }
    }
    types
}

/// The name of the type that a line declares.
fn declared_type(line: &str) -> Option<&str> {
    let mut words = line.trim_start().split([' ', '<', '(', '{', ':', ';']);
    let mut word = words.next()?;
    if word == "pub" {
        word = words.next()?;
        // `pub(crate)` and `pub(super)` are split at their parenthesis.
        if word.ends_with(')') {
            word = words.next()?;
        }
    }
    if ["struct", "enum", "trait", "union"].contains(&word) {
        words.next()
    } else {
        None
    }
}

#[test]
fn a_type_has_a_name_of_its_own() {
    let mut broken = Vec::new();
    for (name, places) in types() {
        if places.len() > 1 && !SHARED.contains(&name.as_str()) {
            broken.push(format!("{name}: {}", places.join(" ")));
        }
    }
    report("a type has a name of its own", &broken);
}

#[test]
fn a_term_of_the_glossary_names_one_type_at_most() {
    let glossary = fs::read_to_string(root().join("docs/GLOSSARY.md")).expect("the glossary");
    let types = types();
    let mut known = 0;
    let mut broken = Vec::new();
    for line in glossary.lines() {
        let Some(terms) = line
            .strip_prefix("| ")
            .and_then(|line| line.split(" | ").next())
        else {
            continue;
        };
        for term in terms.split(", ") {
            let places = types.get(&camel_case(term)).map_or(&[][..], Vec::as_slice);
            known += places.len();
            if places.len() > 1 {
                broken.push(format!("{term}: {}", places.join(" ")));
            }
        }
    }
    assert!(known > 10, "only {known} terms of the glossary are types");
    report("a term of the glossary names one type at most", &broken);
}

#[test]
fn a_function_is_a_verb_or_a_noun() {
    let mut broken = Vec::new();
    for file in files(&["src", "python/src"], &["rs"]) {
        if is_test(&file.path) {
            continue;
        }
        let lines = code(&file.text);
        // A test is named by what it shows.
        for (number, line) in lines.take_while(|(_, line)| !line.starts_with("mod tests")) {
            if let Some(name) = declared_function(line)
                && !is_verb_or_noun(name)
            {
                broken.push(format!("{}:{number}: {name}", file.path));
            }
        }
    }
    report("a function is named by a verb or a noun", &broken);
}

/// The name of the function that a line declares.
fn declared_function(line: &str) -> Option<&str> {
    let (before, after) = line.trim_start().split_once("fn ")?;
    let is_declaration = before.split_whitespace().all(|word| {
        word.starts_with("pub")
            || ["const", "unsafe", "extern"].contains(&word)
            || word.ends_with(')')
    });
    let name = after.split(['(', '<']).next()?;
    Some(name).filter(|_| is_declaration)
}

fn is_verb_or_noun(name: &str) -> bool {
    let (first, rest) = name.split_once('_').unwrap_or((name, ""));
    let is_participle =
        PARTICIPLES.contains(&first) || first.ends_with("ed") && !NOT_PARTICIPLES.contains(&first);
    // An adjective before a noun, as in `measured_batches`, is fine.
    !PREPOSITIONS.contains(&first) && (!rest.is_empty() || !is_participle)
}

/// `CostTable` for `cost table`.
fn camel_case(term: &str) -> String {
    let mut name = String::new();
    for word in term.split([' ', '-']) {
        let mut letters = word.chars();
        name.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        name.extend(letters);
    }
    name
}

#[test]
fn types_are_found_in_declarations() {
    let lines = [
        "pub(crate) struct Row<'a> {",
        "enum Kind {",
        "pub trait Policy: Send {",
        "let x = 1;",
    ];
    let found: Vec<Option<&str>> = lines.iter().map(|line| declared_type(line)).collect();
    assert_eq!(found, [Some("Row"), Some("Kind"), Some("Policy"), None]);
}

#[test]
fn functions_are_found_and_judged() {
    let lines = [
        "    pub(crate) fn write<R>(&self) {",
        "pub const unsafe fn slot(self) -> u32 {",
        "    run: impl FnOnce(u32),",
        "// A fn is a function.",
    ];
    let found: Vec<Option<&str>> = lines.iter().map(|line| declared_function(line)).collect();
    assert_eq!(found, [Some("write"), Some("slot"), None, None]);
    for name in ["measured_batches", "seed", "pad", "from_rows"] {
        assert!(is_verb_or_noun(name), "{name}");
    }
    for name in ["measured", "of_cell", "at", "kept"] {
        assert!(!is_verb_or_noun(name), "{name}");
    }
}
