//! The launches of Table 1, counted on the trees that the user has.

use std::env;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::count::{LaunchCounter, LaunchCounts};
use super::kernels::KernelCounts;
use super::sample::TreeSamples;
use crate::base::error::{Error, Result};
use crate::lab::results::table::align;
use crate::papers::paper::Paper;

/// The number of pairs in a batch.
const BATCH: usize = 256;
/// The files of SICK's test split and of the order of its pairs, in the folder of the data.
const TREES: &str = "trees/sick_test.txt";
const ORDER: &str = "jit/sick_test_order.csv";
/// The environment variable that names the folder of the data.
const DATA: &str = "BATCHLAB_DATA";

const CONTENTS: &str = "trees/sick_test.txt, a line for each tree (batchlab trace import --format parents makes such lines from the public \
    .parents files), and jit/sick_test_order.csv, the order of the pairs (position,pair)";

/// The files of SICK's test split.
pub struct TreeFiles {
    pub trees: PathBuf,
    order: PathBuf,
}

/// Finds the files in a folder, by default that of the environment variable. `None` if no folder is named.
pub fn find_files(folder: Option<&Path>) -> Result<Option<TreeFiles>> {
    let (folder, named_by) = if let Some(folder) = folder {
        (folder.to_path_buf(), "--data")
    } else {
        match env::var_os(DATA) {
            Some(value) if !value.is_empty() => (PathBuf::from(value), DATA),
            _ => return Ok(None),
        }
    };
    let files = TreeFiles {
        trees: folder.join(TREES),
        order: folder.join(ORDER),
    };
    for file in [&files.trees, &files.order] {
        if !file.is_file() {
            return Err(Error::input(format!(
                "{}: there is no such file, but {named_by} names the folder {}, which has to hold {CONTENTS}; with no folder named, \
                 the table is left out",
                file.display(),
                folder.display()
            )));
        }
    }
    Ok(Some(files))
}

/// Pairs of trees, and their order.
pub struct TreeInputs {
    samples: TreeSamples,
    order: Vec<u32>,
}

impl TreeInputs {
    /// Reads the files of [`find_files`], if there are any.
    pub fn read(folder: Option<&Path>) -> Result<Option<TreeInputs>> {
        let Some(files) = find_files(folder)? else {
            return Ok(None);
        };
        let samples = TreeSamples::read(&files.trees, true)?;
        let order = samples.read_order(&files.order)?;
        Ok(Some(TreeInputs { samples, order }))
    }

    pub fn count_launches(&self) -> JitLaunches {
        JitLaunches {
            cells: LaunchCounter::new(&self.samples).count(&self.order, BATCH),
            kernels: KernelCounts::count(&self.samples, &self.order, BATCH),
        }
    }
}

/// The launches of cells (the paper's subgraphs) and of operators (its kernels).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct JitLaunches {
    pub cells: LaunchCounts,
    pub kernels: KernelCounts,
}

/// The paper's numbers of kernel launches, without and with batching. The paper states the second one with "about".
pub fn paper_kernels() -> [u64; 2] {
    [paper_count("jit-kernel-none"), paper_count("jit-kernel")]
}

/// The paper's numbers of subgraphs, without and with batching.
fn paper_cells() -> [u64; 2] {
    [paper_count("jit-cell-none"), paper_count("jit-cell")]
}

fn paper_count(claim: &str) -> u64 {
    Paper::Jit.value(claim).number() as u64
}

impl JitLaunches {
    /// The paper's table, with two lines of ours.
    pub fn table(&self) -> String {
        let kernels = &self.kernels;
        let cells = [self.cells.unbatched, self.cells.batched];
        let headings = [
            "",
            "kernels",
            "batched",
            "ratio",
            "subgraphs",
            "batched",
            "ratio",
        ];
        let lines = [
            headings.map(String::from).to_vec(),
            table_line("paper", paper_kernels(), paper_cells()),
            table_line("ours", [kernels.unbatched, kernels.batched], cells),
            table_line("ours, by type", [kernels.unbatched, kernels.by_type], cells),
        ];
        align(&lines)
            + "The paper's ratio of kernels is 1930x, which implies 2,600 batched launches, not about 2,650.\n"
    }
}

fn table_line(name: &str, kernels: [u64; 2], cells: [u64; 2]) -> Vec<String> {
    let mut line = vec![name.to_string()];
    for [unbatched, batched] in [kernels, cells] {
        line.push(unbatched.to_string());
        line.push(batched.to_string());
        line.push(format!("{:.0}x", unbatched as f64 / batched as f64));
    }
    line
}
