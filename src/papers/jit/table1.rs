//! JIT dynamic batching (*Just-in-Time Dynamic-Batching*, 2019).

use std::env;
use std::path::{Path, PathBuf};

use super::super::{Claim, Exhibit, Findings, Kind, Made, Verdict};
use crate::error::{Error, Result};
use crate::papers::jit::count::{Counter, Counts};
use crate::papers::jit::kernels::{KernelCounter, KernelCounts, PAPER_BATCHED, PAPER_UNBATCHED};
use crate::papers::jit::sample::Samples;

/// The pairs of a batch in the paper.
const BATCH: usize = 256;
/// The trees of SICK's test split, and the order of its pairs, in the folder of the data.
const TREES: &str = "trees/sick_test.txt";
const ORDER: &str = "jit/sick_test_order.csv";
/// The variable that names this folder.
const DATA: &str = "BATCHLAB_DATA";

/// What the folder has to hold.
macro_rules! contents {
    () => {
        "trees/sick_test.txt, a line for each tree (batchlab trace import --format parents makes such lines from the public .parents \
         files), and jit/sick_test_order.csv, the order of the pairs (position,pair)"
    };
}

const NOT_AT_HAND: &str = concat!(
    "The trees of SICK's test split are not part of the project, since their licence is another (CC BY-NC-SA 3.0). Name a folder \
     that has ",
    contents!(),
    ", with --data or BATCHLAB_DATA"
);

const NO_SIMULATION: &str = "A measurement of a 36-thread Haswell, no simulation. scripts/peers/run.sh measures this model on the \
    processor at hand, 256 pairs at a time";

/// The paper's one table that can be counted. Its figures are drawings.
pub const EXHIBITS: &[Exhibit] = &[Exhibit {
    name: "table1",
    place: "Table 1",
    shows: "Launches of a child-sum Tree-LSTM on SICK's test pairs, 256 at a time, without and with batching: at the \
        granularity of cells (the paper's subgraphs) and of operators (its kernels). `batchlab jit count` counts any file of trees",
    made: Made::Count,
}];

/// The claims, in the paper's order.
pub const CLAIMS: &[Claim] = &[
    Claim {
        id: "jit-kernel-none",
        kind: Kind::Magnitude,
        place: "Table 1",
        what: "kernel launches without batching; ours are operators, 22 + 2K for a cell of K children",
        paper: "5,018,658 launches",
        exhibits: &["table1"],
        check: |found| magnitude(found, |launches| launches.kernels.unbatched, PAPER_UNBATCHED, "operators"),
        reason: "The paper does not say what it counts as a kernel, and its code does not give the number",
    },
    Claim {
        id: "jit-kernel",
        kind: Kind::Magnitude,
        place: "Table 1",
        what: "kernel launches with batching; ours are operators of one depth, kind and layout",
        paper: "about 2,650 launches",
        exhibits: &["table1"],
        check: |found| magnitude(found, |launches| launches.kernels.batched, PAPER_BATCHED, "launches"),
        reason: "Ours keeps operators apart that stand at different places of a cell or take another number of children: 54 launches \
            for each of the 202 levels of the 20 batches. The paper's figure is 13 a level, little more than the ten operators \
            that stand one behind the other in a cell, so it must count nearly all operators of one depth as one launch",
    },
    Claim {
        id: "jit-cell-none",
        kind: Kind::Exact,
        place: "Table 1",
        what: "cells without batching: nodes, initial states of leaves, heads of pairs",
        paper: "148,681 cells",
        exhibits: &["table1"],
        check: |found| exact(found, |launches| launches.cells.unbatched, 148_681, "cells"),
        reason: "The trees are others than those of SICK's test split",
    },
    Claim {
        id: "jit-cell",
        kind: Kind::Exact,
        place: "Table 1",
        what: "cells with batching at the level of subgraphs",
        paper: "1,081 cells",
        exhibits: &["table1"],
        check: |found| exact(found, |launches| launches.cells.batched, 1_081, "cells"),
        reason: "The trees or their order are others than SICK's test split in the paper's order",
    },
    Claim {
        id: "jit-infer",
        kind: Kind::Cpu,
        place: "Table 2",
        what: "inference with 256 samples in a batch over one at a time",
        paper: "6.25 x",
        exhibits: &[],
        check: |_| Ok(Verdict::not_run(NO_SIMULATION)),
        reason: "",
    },
];

/// The launches on SICK's test pairs at both granularities.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launches {
    /// Calls of cells.
    pub cells: Counts,
    /// Operators.
    pub kernels: KernelCounts,
}

impl Launches {
    /// Counts them on the trees in a folder, by default the one that `BATCHLAB_DATA` names; `None` where no folder is named.
    ///
    /// # Errors
    /// A folder that lacks one of the files; trees or an order that can't be read or don't belong together.
    pub fn of(folder: Option<&Path>) -> Result<Option<Launches>> {
        let variable = || env::var_os(DATA).filter(|value| !value.is_empty()).map(|value| (PathBuf::from(value), DATA));
        let named = folder.map(|folder| (folder.to_path_buf(), "--data")).or_else(variable);
        let Some((folder, by)) = named else { return Ok(None) };
        let (trees, order) = (folder.join(TREES), folder.join(ORDER));
        if let Some(missing) = [&trees, &order].into_iter().find(|file| !file.is_file()) {
            return Err(Error::input(format!(
                "{}: there is no such file, but {by} names the folder {}, which has to hold {}; with no folder named, the table is \
                 left out",
                missing.display(),
                folder.display(),
                contents!()
            )));
        }
        let samples = Samples::read(&trees, true)?;
        let order = samples.read_order(&order)?;
        let cells = Counter::new(&samples).count(&order, BATCH);
        let kernels = KernelCounter::new(&samples).count(&order, BATCH);
        Ok(Some(Launches { cells, kernels }))
    }

    /// The table as the paper has it, ours below the paper's.
    pub fn table(&self) -> String {
        let Launches { cells, kernels } = self;
        let row = |name: &str, kernels: [u64; 2], cells: [u64; 2]| {
            let ratio = |[none, batched]: [u64; 2]| format!("{:.0}x", none as f64 / batched as f64);
            format!(
                "{name:<8}{:>12}{:>10}{:>8}{:>14}{:>10}{:>8}\n",
                kernels[0],
                kernels[1],
                ratio(kernels),
                cells[0],
                cells[1],
                ratio(cells)
            )
        };
        let head = ["", "kernels", "batched", "ratio", "subgraphs", "batched", "ratio"];
        let head = format!(
            "{:<8}{:>12}{:>10}{:>8}{:>14}{:>10}{:>8}\n",
            head[0], head[1], head[2], head[3], head[4], head[5], head[6]
        );
        head + &row("paper", [PAPER_UNBATCHED, PAPER_BATCHED], [148_681, 1_081])
            + &row("ours", [kernels.unbatched, kernels.batched], [cells.unbatched, cells.batched])
    }
}

/// Why there is no count.
pub fn not_at_hand() -> &'static str {
    NOT_AT_HAND
}

/// Whether a count has the paper's order of magnitude.
fn magnitude(found: &Findings, ours: fn(&Launches) -> u64, paper: u64, unit: &str) -> Result<Verdict> {
    Ok(counted(found, |launches| Verdict::magnitude(ours(launches) as f64, paper as f64, unit)))
}

/// Whether a count is the paper's.
fn exact(found: &Findings, ours: fn(&Launches) -> u64, paper: u64, unit: &str) -> Result<Verdict> {
    Ok(counted(found, |launches| Verdict::exact(&[ours(launches) as f64], &[paper as f64], unit)))
}

fn counted(found: &Findings, verdict: impl Fn(&Launches) -> Verdict) -> Verdict {
    found.launches("table1").map_or_else(|| Verdict::not_run(NOT_AT_HAND), verdict)
}
