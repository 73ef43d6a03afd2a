//! The papers' figures and claims, each as a scenario and a check.
//!
//! An [`Exhibit`] is a figure or table of a paper, and what makes it here. A [`Claim`] is a value that a reader can look up in
//! a paper: its check reads what this project's own runs of the exhibits' scenarios came to, and says how far apart the two
//! are. A claim that does not hold is shown with its reason; no cost table is fitted to make one hold, and where a row of
//! a table was made from a paper's figure, that figure is said to be [derived](verdict::Word::Derived) and counts for nothing.

mod batchmaker;
mod dvabatch;
mod findings;
mod grnn;
pub mod jit;
pub mod lab;
mod late;
pub mod page;
pub mod report;
pub mod verdict;

pub use findings::{Findings, Series};
pub use grnn::measured::{self, Measured};
pub use grnn::sheet::Sheet;
pub use jit::{Launches, not_at_hand};
pub use verdict::{Verdict, Word};

use crate::error::Result;

/// A paper whose figures are reproduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Paper {
    /// *Low Latency RNN Inference with Cellular Batching*, EuroSys 2018.
    BatchMaker,
    /// *Low Latency Model Serving with Late Batching*, AISys 2017.
    Late,
    /// *Just-in-Time Dynamic-Batching*, 2019.
    Jit,
    /// *DVABatch: Diversity-aware Multi-Entry Multi-Exit Batching*, ATC 2022.
    DvaBatch,
    /// *GRNN: Low-Latency and Scalable RNN Inference on GPUs*, EuroSys 2019.
    Grnn,
}

impl Paper {
    /// All papers, in the order in which they are shown.
    pub const ALL: [Paper; 5] = [Paper::BatchMaker, Paper::Late, Paper::Jit, Paper::DvaBatch, Paper::Grnn];

    /// Its name on the command line, and that of the folder of its scenarios.
    pub fn name(self) -> &'static str {
        match self {
            Paper::BatchMaker => "batchmaker",
            Paper::Late => "late",
            Paper::Jit => "jit",
            Paper::DvaBatch => "dvabatch",
            Paper::Grnn => "grnn",
        }
    }

    /// Its title, venue and year.
    pub fn title(self) -> &'static str {
        match self {
            Paper::BatchMaker => "BatchMaker: Low Latency RNN Inference with Cellular Batching (EuroSys 2018)",
            Paper::Late => "Late Batching: Low Latency Model Serving with Late Batching (AISys 2017)",
            Paper::Jit => "JIT dynamic batching: Just-in-Time Dynamic-Batching (2019)",
            Paper::DvaBatch => {
                "DVABatch: Diversity-aware Multi-Entry Multi-Exit Batching for DNN Services on GPUs (ATC 2022)"
            }
            Paper::Grnn => "GRNN: Low-Latency and Scalable RNN Inference on GPUs (EuroSys 2019)",
        }
    }

    /// Its figures, in the paper's order.
    pub fn exhibits(self) -> &'static [Exhibit] {
        match self {
            Paper::BatchMaker => batchmaker::EXHIBITS,
            Paper::Late => late::EXHIBITS,
            Paper::Jit => jit::EXHIBITS,
            Paper::DvaBatch => dvabatch::EXHIBITS,
            Paper::Grnn => grnn::EXHIBITS,
        }
    }

    /// Its claims.
    pub fn claims(self) -> Vec<&'static Claim> {
        match self {
            Paper::BatchMaker => batchmaker::claims().collect(),
            Paper::Late => late::CLAIMS.iter().collect(),
            Paper::Jit => jit::CLAIMS.iter().collect(),
            Paper::DvaBatch => dvabatch::CLAIMS.iter().collect(),
            Paper::Grnn => grnn::CLAIMS.iter().collect(),
        }
    }

    /// The paper of this name.
    pub fn named(name: &str) -> Option<Paper> {
        Paper::ALL.into_iter().find(|paper| paper.name() == name)
    }
}

/// A figure or table of a paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exhibit {
    /// Its name on the command line, as `fig7a`.
    pub name: &'static str,
    /// What the paper calls it, as `Figure 7a`.
    pub place: &'static str,
    /// What it shows.
    pub shows: &'static str,
    /// What makes it.
    pub made: Made,
}

/// What makes an exhibit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Made {
    /// The scenario `scenarios/PAPER/NAME.toml`, run and drawn.
    Scenario,
    /// Runs of several of the paper's scenarios, with searches before them; or what a model says without any run.
    Study,
    /// A count of launches on the trees of SICK's test split, which people have to get themselves.
    Count,
}

impl Exhibit {
    /// One that a scenario makes.
    const fn scenario(name: &'static str, place: &'static str, shows: &'static str) -> Exhibit {
        Exhibit { name, place, shows, made: Made::Scenario }
    }

    /// One that a study makes.
    const fn study(name: &'static str, place: &'static str, shows: &'static str) -> Exhibit {
        Exhibit { name, place, shows, made: Made::Study }
    }
}

/// Carries out the study of a paper's exhibit, draws it and writes its numbers down.
///
/// # Errors
/// A scenario that is not there or wrong; a file that can't be written; Ctrl-C.
pub fn carry_out(paper: Paper, exhibit: &Exhibit, lab: &lab::Lab<'_>) -> Result<lab::Study> {
    let mut study = match paper {
        Paper::Grnn => grnn::carry_out(exhibit.name, lab),
        _ => dvabatch::carry_out(exhibit.name, lab),
    }?;
    study.write(&lab.out.join(exhibit.name))?;
    Ok(study)
}

/// What a claim rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Follows from the rules alone, to the last digit.
    Exact,
    /// Comes out of a simulation on a stated cost table.
    Sim,
    /// Goes into the cost table, and has to come out of it again.
    Input,
    /// Only its order of magnitude can be claimed.
    Magnitude,
    /// A measurement of a processor.
    Cpu,
    /// A measurement of a GPU.
    Cuda,
}

impl Kind {
    /// Its name in documents.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Exact => "exact",
            Kind::Sim => "sim",
            Kind::Input => "input",
            Kind::Magnitude => "magnitude",
            Kind::Cpu => "cpu",
            Kind::Cuda => "cuda",
        }
    }
}

/// A value that a paper states, and how this project checks it.
#[derive(Debug)]
pub struct Claim {
    /// The short name, as `bm-lstm-peak`.
    pub id: &'static str,
    /// What it rests on.
    pub kind: Kind,
    /// Where the paper states it.
    pub place: &'static str,
    /// What it is about.
    pub what: &'static str,
    /// The paper's value, with its unit.
    pub paper: &'static str,
    /// The exhibits whose results the check reads. It is shown with the first of them.
    pub exhibits: &'static [&'static str],
    /// Reads this project's value from the results.
    pub check: fn(&Findings) -> Result<Verdict>,
    /// Why the values differ, where they do, or why nothing can be said.
    pub reason: &'static str,
}

/// A claim and what its check found.
#[derive(Clone, Debug)]
pub struct Checked {
    /// The paper that makes it.
    pub paper: Paper,
    /// The claim.
    pub claim: &'static Claim,
    /// What was found.
    pub verdict: Verdict,
}

impl Checked {
    /// Why the claim does not hold; nothing where it does.
    pub fn reason(&self) -> Option<&'static str> {
        let reason = self.verdict.reason.unwrap_or(self.claim.reason);
        (self.verdict.word != Word::Holds).then_some(reason).filter(|reason| !reason.is_empty())
    }
}

/// Checks the claims of a paper whose exhibits have all been run.
///
/// # Errors
/// Results that can't be read, or that lack a policy or a point that a check needs.
pub fn check(paper: Paper, findings: &Findings) -> Result<Vec<Checked>> {
    let ready = |claim: &&Claim| claim.exhibits.iter().all(|exhibit| findings.has(exhibit));
    let claims = paper.claims().into_iter().filter(ready);
    claims.map(|claim| Ok(Checked { paper, claim, verdict: (claim.check)(findings)? })).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_claim_is_shown_with_an_exhibit_of_its_paper() {
        for paper in Paper::ALL {
            for claim in paper.claims() {
                for exhibit in claim.exhibits {
                    assert!(paper.exhibits().iter().any(|known| known.name == *exhibit), "{}: {exhibit}", claim.id);
                }
            }
        }
    }

    #[test]
    fn names_are_their_own() {
        let mut ids: Vec<&str> = Paper::ALL.iter().flat_map(|paper| paper.claims()).map(|claim| claim.id).collect();
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), count);
        for paper in Paper::ALL {
            assert_eq!(Paper::named(paper.name()), Some(paper));
        }
    }
}
