//! Wording: phrases that have a plainer form.

use crate::documents::documents;
use crate::source::{files, is_test, report};

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

#[test]
fn the_wording_is_plain() {
    let mut broken = Vec::new();
    let mut all = files(
        &[
            "src",
            "tests",
            "examples",
            "benches",
            "kernels",
            "python/src",
        ],
        &["rs", "cu", "cuh"],
    );
    all.extend(files(&["scenarios", "examples"], &["toml"]));
    all.extend(files(&["scripts", "python"], &["py", "pyi", "sh"]));
    all.extend(documents());
    for file in all
        .iter()
        .filter(|file| !file.path.starts_with("tests/tidy/"))
    {
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

/// Words with which no doc comment begins: what follows them is not a sentence, and not a noun phrase that a reader
/// understands where an editor shows it alone.
const FRAGMENTS: [&str; 6] = ["Of", "Those", "By", "As", "In", "With"];

#[test]
fn a_doc_comment_begins_with_its_subject() {
    let mut broken = Vec::new();
    for file in files(&["src", "python/src"], &["rs"]) {
        if is_test(&file.path) {
            continue;
        }
        let mut before = "";
        for (number, line) in (1..).zip(file.text.lines()) {
            let line = line.trim_start();
            let comment = line.strip_prefix("///").or(line.strip_prefix("//!"));
            if let Some(comment) = comment.filter(|_| !before.starts_with("//")) {
                let first = comment.split_whitespace().next().unwrap_or("");
                if FRAGMENTS.contains(&first) {
                    broken.push(format!("{}:{number}: {line}", file.path));
                }
            }
            before = line;
        }
    }
    report("a doc comment begins with its subject", &broken);
}
