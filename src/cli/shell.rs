//! `batchlab completions`, `man`, `schema` and `init`: what shells, readers and editors need of the program.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;

use clap_complete::Shell;

use super::render::{print, print_with, put};
use crate::base::error::{Error, Result};
use crate::core::policy::registry::Registry;
use crate::lab::scenario::schema;

/// Print a script that completes commands and options in a shell
///
/// Such as: batchlab completions bash > ~/.local/share/bash-completion/completions/batchlab
#[derive(clap::Args, Clone, Debug)]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Print the manual page, or write a page for each command
#[derive(clap::Args, Clone, Debug)]
pub struct ManArgs {
    /// Folder for the pages of all commands [default: print that of batchlab]
    #[arg(short, long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Print the JSON Schema of scenarios, for completion and checks in an editor
///
/// Editors with Taplo or Even Better TOML read it if the first line of a scenario is "#:schema ./scenario.schema.json".
#[derive(clap::Args, Clone, Debug)]
pub struct SchemaArgs {
    /// File for the schema [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Write a commented scenario that runs at once, with its cost table beside it
#[derive(clap::Args, Clone, Debug)]
pub struct InitArgs {
    /// The scenario to write; a file that exists is kept
    #[arg(value_name = "FILE", default_value = "scenario.toml")]
    file: PathBuf,
}

pub fn completions(args: &CompletionsArgs, mut command: clap::Command) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "batchlab", &mut script);
    print_with(|out| out.write_all(&script))
}

pub fn man(args: &ManArgs, command: clap::Command) -> Result<()> {
    let Some(folder) = &args.out else {
        return print_with(|out| clap_mangen::Man::new(command).render(out));
    };
    let pages = fs::create_dir_all(folder).and_then(|()| clap_mangen::generate_to(command, folder));
    pages.map_err(|cause| Error::unwritable(folder, &cause))
}

pub fn schema(args: &SchemaArgs, registry: &Registry) -> Result<()> {
    put(
        args.out.as_deref(),
        &format!("{:#}\n", schema::schema(registry)),
    )
}

pub fn init(args: &InitArgs) -> Result<()> {
    let file = args.file.as_path();
    let costs = file.with_file_name("v100.csv");
    if let Some(path) = [file, &costs].into_iter().find(|path| path.exists()) {
        return Err(Error::mistake(
            path,
            "exists already; name another file, as batchlab init mine/first.toml",
        ));
    }
    put(Some(file), include_str!("init.toml"))?;
    put(Some(&costs), include_str!("../../scenarios/costs/v100.csv"))?;
    print(&format!("{}\n{}\n", file.display(), costs.display()))
}
