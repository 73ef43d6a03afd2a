//! The papers' figures and claims, each as a scenario and a check.
//!
//! A claim is a figure that a reader can look up in a paper. Its check reads what this project's own runs of the paper's
//! scenarios came to, and says how far apart the two are. A check that does not hold is shown with its reason; no cost
//! table is fitted to make it hold.

mod batchmaker;
mod findings;
pub mod report;

pub use findings::{Findings, Series};

/// A figure that a paper states, and how this project checks it.
pub struct Claim {
    /// The short name, as `bm-lstm-peak`.
    pub id: &'static str,
    /// Where the paper states it.
    pub place: &'static str,
    /// What it is about.
    pub what: &'static str,
    /// The paper's value, with its unit.
    pub paper: &'static str,
    /// The scenarios whose results the check reads.
    pub scenarios: &'static [&'static str],
    /// Reads this project's value from the results.
    pub check: fn(&Findings) -> crate::error::Result<Verdict>,
    /// Why the values differ, where they do.
    pub reason: &'static str,
}

/// What a check found.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// This project's value, with its unit.
    pub ours: String,
    /// How far it is from the paper's: a difference in percent, or whether an order holds.
    pub gap: String,
    /// Whether it agrees with the paper, within what the kind of claim allows.
    pub holds: bool,
}

/// How far a simulated figure may be from the paper's and still count as agreeing: the paper's own figures are read off
/// plots, and its testbed is known by a handful of step times.
const TOLERANCE: f64 = 0.15;

impl Verdict {
    /// A number against the paper's.
    fn near(ours: f64, paper: f64, unit: &str) -> Verdict {
        let off = ours / paper - 1.0;
        Verdict { ours: shown(ours, unit), gap: format!("{:+.1} %", off * 100.0), holds: off.abs() <= TOLERANCE }
    }

    /// A number that the paper bounds from below.
    fn above(ours: f64, bound: f64, unit: &str) -> Verdict {
        let holds = ours > bound;
        Verdict { ours: shown(ours, unit), gap: if holds { "holds" } else { "below" }.into(), holds }
    }

    /// Values that have to be the paper's own.
    fn exact(ours: &[f64], paper: &[f64], unit: &str) -> Verdict {
        let list: Vec<String> = ours.iter().map(|value| format!("{value}")).collect();
        let holds = ours == paper;
        Verdict {
            ours: format!("{} {unit}", list.join("; ")),
            gap: if holds { "none" } else { "differs" }.into(),
            holds,
        }
    }

    /// A range of percentages against the paper's.
    fn range(ours: (f64, f64), paper: (f64, f64), unit: &str) -> Verdict {
        let off = |ours: f64, paper: f64| ours - paper;
        Verdict {
            ours: format!("{:.1} to {:.1} {unit}", ours.0, ours.1),
            gap: format!("{:+.1} to {:+.1} {unit}", off(ours.0, paper.0), off(ours.1, paper.1)),
            holds: off(ours.0, paper.0).abs() <= 100.0 * TOLERANCE && off(ours.1, paper.1).abs() <= 100.0 * TOLERANCE,
        }
    }

    /// An order of things, with the figures that show it.
    fn order(holds: bool, figures: String) -> Verdict {
        Verdict { ours: figures, gap: if holds { "holds" } else { "does not hold" }.into(), holds }
    }
}

fn shown(value: f64, unit: &str) -> String {
    let digits = match value.abs() {
        v if v >= 1_000.0 => 0,
        v if v >= 10.0 => 1,
        _ => 2,
    };
    format!("{value:.digits$} {unit}").trim_end().to_string()
}

/// All claims, by paper and in the order in which the papers make them.
pub fn claims() -> impl Iterator<Item = &'static Claim> {
    batchmaker::CLAIMS.iter()
}
