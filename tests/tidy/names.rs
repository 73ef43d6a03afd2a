//! Names: a type has one of its own, so that a search finds it and a reader knows which one is meant.

use std::collections::BTreeMap;
use std::fs;

use crate::source::{code, files, is_test, report, root};

/// Names that several types have. `Args` are the options of each command.
const SHARED: &[&str] = &["Args"];

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
