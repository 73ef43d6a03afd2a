//! `batchlab policies` and `batchlab devices`.

use serde::Serialize;
use serde_json::{Value, json};

use super::render::Shown;
use crate::base::error::{Error, Result};
use crate::core::policy::registry::Registry;
use crate::devices::cuda::gpu::libraries::{self, About, Libraries, Library, list_gpus};
use crate::lab::results::table::{align, tabulate};
use crate::lab::scenario::reference::Reference;
use crate::lab::scenario::unknown_name;

/// List the policies that a scenario can name, with their keys
///
/// For the kinds that are named, also each key's default and meaning.
#[derive(clap::Args, Clone, Debug)]
pub struct PoliciesArgs {
    /// Kinds of policies, such as cellular
    #[arg(value_name = "KIND")]
    kinds: Vec<String>,

    #[command(flatten)]
    shown: Shown,
}

pub fn policies(args: &PoliciesArgs, registry: &Registry) -> Result<()> {
    let known: Vec<&str> = registry.kinds().collect();
    let mut named = Vec::new();
    for name in &args.kinds {
        match registry.names(name).first() {
            Some(kind) => named.push(*kind),
            None => {
                let what = format!("unknown policy \"{name}\"");
                return Err(Error::input(unknown_name(&what, name, &known)));
            }
        }
    }
    let reference = Reference::read();
    let mut shown = args.shown.several();
    let kinds = if named.is_empty() { &known } else { &named };
    for &kind in kinds {
        let about = registry.about(kind).unwrap_or_default();
        let keys = registry.defaults(kind).into_iter().flatten();
        let keys: Vec<PolicyKey<'_>> = keys
            .map(|(key, default)| PolicyKey {
                key,
                default,
                about: reference.about(kind, key),
            })
            .collect();
        let details = reference.heading(kind);
        let table = || {
            if named.is_empty() {
                line(kind, about, &keys)
            } else {
                page(kind, about, details, &keys)
            }
        };
        shown.show(
            table,
            || json!({ "kind": kind, "about": about, "details": details, "keys": keys }),
        )?;
    }
    shown.end()
}

#[derive(Serialize)]
struct PolicyKey<'a> {
    key: &'a str,
    default: &'a Value,
    about: &'a str,
}

fn line(kind: &str, about: &str, keys: &[PolicyKey<'_>]) -> String {
    let keys: Vec<&str> = keys.iter().map(|one| one.key).collect();
    let keys = if keys.is_empty() {
        String::new()
    } else {
        format!("{:<14}keys: {}\n", "", keys.join(", "))
    };
    format!("{kind:<14}{about}\n{keys}")
}

fn page(kind: &str, about: &str, details: &str, keys: &[PolicyKey<'_>]) -> String {
    let mut text = format!("{kind}: {about}\n{}", wrap("", details));
    for PolicyKey {
        key,
        default,
        about,
    } in keys
    {
        text += &format!("\n  {key} = {default}\n{}", wrap("      ", about));
    }
    text + "\n"
}

/// Breaks a text into lines of at most 80 columns.
fn wrap(indent: &str, text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + word.chars().count() < 80 => {
                *line += &format!(" {word}")
            }
            _ => lines.push(format!("{indent}{word}")),
        }
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// Fails after printing if the backend `cuda` lacks a GPU or a library.
pub fn devices(shown: Shown) -> Result<()> {
    let found = libraries::find();
    let libraries = Libraries::describe(&found);
    let gpus = list_gpus(&found);
    let seen = gpus.as_deref().unwrap_or_default();
    shown.show(
        || table(seen, &libraries),
        || json!({ "gpus": seen, "libraries": libraries }),
    )?;
    gpus.map(drop)?;
    found.nvrtc.need()?;
    found.cublas.need()?;
    Ok(())
}

fn table(gpus: &[About], libraries: &Libraries) -> String {
    let gpus = match gpus {
        [] => "no GPU\n".to_string(),
        some => tabulate(
            some,
            &[
                ("gpu", &|about| about.gpu.to_string()),
                ("name", &|about| about.name.clone()),
                ("capability", &|about| about.capability.clone()),
                ("multiprocessors", &|about| {
                    about.multiprocessors.to_string()
                }),
                ("free_gib", &|about| gibibytes(about.memory_free)),
                ("memory_gib", &|about| gibibytes(about.memory)),
            ],
        ),
    };
    let libraries = [
        library_line("driver, CUDA", libraries.driver.as_ref()),
        library_line("NVRTC", libraries.nvrtc.as_ref()),
        library_line("cuBLAS", libraries.cublas.as_ref()),
    ];
    format!("{gpus}\n{}", align(&libraries))
}

fn library_line(name: &str, library: Option<&Library>) -> Vec<String> {
    let texts = match library {
        Some(Library { version, path }) => [name, version, path],
        None => [name, "not found", ""],
    };
    texts.map(String::from).to_vec()
}

fn gibibytes(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / (1u64 << 30) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_a_line_for_each_gpu_and_library() {
        let gpu = About {
            gpu: 0,
            name: "A GPU".into(),
            capability: "9.0".into(),
            multiprocessors: 132,
            memory_free: 3 << 29,
            memory: 2 << 30,
        };
        let driver = Some(Library {
            version: "12.4".into(),
            path: "/lib/libcuda.so.1".into(),
        });
        let libraries = Libraries {
            driver,
            nvrtc: None,
            cublas: None,
        };
        assert_eq!(
            table(&[gpu], &libraries),
            "gpu   name  capability  multiprocessors  free_gib  memory_gib\n\
             0    A GPU         9.0              132       1.5         2.0\n\
             \n\
             driver, CUDA       12.4  /lib/libcuda.so.1\n\
             NVRTC         not found\n\
             cuBLAS        not found\n"
        );
        assert!(table(&[], &libraries).starts_with("no GPU\n\ndriver"));
    }
}
