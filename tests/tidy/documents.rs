//! Documents: width, links, and the files of a package.

use std::fs;
use std::path::Path;

use crate::source::{Source, files, report, root};

/// The longest line of a Markdown file, tables, code and links aside.
const COLUMNS: usize = 120;

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

pub fn documents() -> Vec<Source> {
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
