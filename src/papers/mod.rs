//! The papers' figures and claims.
//!
//! An [`Exhibit`] is a figure or a table of a paper, and a [`Claim`] a value that its text states. Both are data, in a TOML file for
//! each paper. The check of a claim reads this project's results of the exhibits and tells how far apart both values are; a claim
//! that does not hold is shown with its reason. No cost table is fitted to make a claim hold: a claim that a row of a table was made
//! from is [derived](verdict::Word::Derived) and not counted.

mod batchmaker;
mod dvabatch;
mod findings;
mod grnn;
pub mod jit;
pub mod lab;
mod late;
pub mod report;
pub mod verdict;

use std::sync::LazyLock;

use serde::Deserialize;

pub use findings::{Findings, Series};
pub use grnn::Sheet;
pub use grnn::measured::{self, Measured};
pub use jit::{Launches, not_at_hand};
pub use verdict::{Verdict, Word};

use crate::error::Result;

/// A paper whose figures are reproduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Paper {
    BatchMaker,
    Late,
    Jit,
    DvaBatch,
    Grnn,
}

/// The file of a paper.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Contents {
    title: String,
    #[serde(rename = "exhibit")]
    exhibits: Vec<Exhibit>,
    #[serde(rename = "claim")]
    claims: Vec<Claim>,
}

/// A paper's name, the text of its file and the checks of its claims.
type Parts = (&'static str, &'static str, &'static [&'static [(&'static str, Check)]]);

impl Paper {
    /// All papers, in the order in which they are shown.
    pub const ALL: [Paper; 5] = [Paper::BatchMaker, Paper::Late, Paper::Jit, Paper::DvaBatch, Paper::Grnn];

    fn parts(self) -> Parts {
        match self {
            Paper::BatchMaker => ("batchmaker", include_str!("batchmaker.toml"), batchmaker::CHECKS),
            Paper::Late => ("late", include_str!("late.toml"), &[late::CHECKS]),
            Paper::Jit => ("jit", include_str!("jit.toml"), &[jit::CHECKS]),
            Paper::DvaBatch => ("dvabatch", include_str!("dvabatch.toml"), &[dvabatch::CHECKS]),
            Paper::Grnn => ("grnn", include_str!("grnn.toml"), &[grnn::CHECKS]),
        }
    }

    fn contents(self) -> &'static Contents {
        static ALL: LazyLock<[Contents; 5]> = LazyLock::new(|| {
            Paper::ALL.map(|paper| {
                let (name, text, _) = paper.parts();
                toml::from_str(text).unwrap_or_else(|error| panic!("{name}.toml: {error}"))
            })
        });
        &ALL[self as usize]
    }

    /// Its name on the command line, and that of the folder of its scenarios.
    pub fn name(self) -> &'static str {
        self.parts().0
    }

    /// Its title, venue and year.
    pub fn title(self) -> &'static str {
        &self.contents().title
    }

    /// Its exhibits, in the paper's order.
    pub fn exhibits(self) -> &'static [Exhibit] {
        &self.contents().exhibits
    }

    /// Its claims.
    pub fn claims(self) -> &'static [Claim] {
        &self.contents().claims
    }

    /// The paper of this name.
    pub fn named(name: &str) -> Option<Paper> {
        Paper::ALL.into_iter().find(|paper| paper.name() == name)
    }

    fn checks(self) -> impl Iterator<Item = &'static (&'static str, Check)> {
        self.parts().2.iter().copied().flatten()
    }
}

/// A figure or a table of a paper.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exhibit {
    /// Its name on the command line, such as `fig7a`.
    pub name: String,
    /// Its name in the paper, such as `Figure 7a`.
    pub place: String,
    /// A description.
    pub shows: String,
    pub made: Made,
}

/// How an exhibit is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Made {
    /// The scenario `scenarios/PAPER/NAME.toml` is run and drawn.
    Scenario,
    /// By runs of several scenarios, with searches before them, or by a model without runs.
    Study,
    /// By counting launches on the trees of SICK's test split, which users have to get themselves.
    Count,
}

/// Carries out the study of an exhibit, draws it and writes its numbers.
pub fn carry_out(paper: Paper, exhibit: &Exhibit, lab: &lab::Lab<'_>) -> Result<lab::Study> {
    let mut study = match paper {
        Paper::Grnn => grnn::carry_out(&exhibit.name, lab),
        _ => dvabatch::carry_out(&exhibit.name, lab),
    }?;
    study.write(&lab.out.join(&exhibit.name))?;
    Ok(study)
}

/// The basis of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// The rules determine the value exactly.
    Exact,
    /// A simulation on a stated cost table.
    Sim,
    /// An input of the cost table, which the results must reproduce.
    Input,
    /// Only the order of magnitude can be compared.
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

/// A value that a paper states.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// The short name, such as `bm-lstm-peak`.
    pub id: String,
    pub kind: Kind,
    /// The section, figure or table of the paper that states it.
    pub place: String,
    pub what: String,
    /// The paper's value with its unit.
    pub paper: String,
    /// The exhibits whose results the check reads. The claim is shown with the first of them.
    pub exhibits: Vec<String>,
    /// Why the values differ; empty if they don't.
    #[serde(default)]
    reason: String,
    /// The claim whose reason applies.
    reason_of: Option<String>,
}

/// Compares this project's value of a claim with the paper's.
pub type Check = fn(&Findings) -> Result<Verdict>;

/// A claim and the verdict of its check.
#[derive(Clone, Debug)]
pub struct Checked {
    pub paper: Paper,
    pub claim: &'static Claim,
    pub verdict: Verdict,
}

impl Checked {
    /// Why the claim does not hold; `None` if it does.
    pub fn reason(&self) -> Option<&'static str> {
        let other = |id: &String| self.paper.claims().iter().find(|claim| claim.id == *id);
        let explained = self.claim.reason_of.as_ref().and_then(other).unwrap_or(self.claim);
        let reason = self.verdict.reason.unwrap_or(&explained.reason);
        (self.verdict.word != Word::Holds).then_some(reason).filter(|reason| !reason.is_empty())
    }
}

/// Checks the claims of a paper whose exhibits all have results.
pub fn check(paper: Paper, findings: &Findings) -> Result<Vec<Checked>> {
    let ready = |claim: &&Claim| claim.exhibits.iter().all(|exhibit| findings.has(exhibit));
    let checked = paper.claims().iter().filter(ready).map(|claim| {
        let (_, check) = paper.checks().find(|(id, _)| *id == claim.id).expect("every claim has a check");
        Ok(Checked { paper, claim, verdict: check(findings)? })
    });
    checked.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_claim_has_a_check_and_exhibits_of_its_paper() {
        for paper in Paper::ALL {
            let ids: Vec<&str> = paper.claims().iter().map(|claim| claim.id.as_str()).collect();
            assert_eq!(ids, paper.checks().map(|(id, _)| *id).collect::<Vec<_>>(), "in one order");
            for claim in paper.claims() {
                for exhibit in &claim.exhibits {
                    assert!(paper.exhibits().iter().any(|known| known.name == *exhibit), "{}: {exhibit}", claim.id);
                }
                assert!(claim.reason_of.iter().all(|id| ids.contains(&id.as_str())), "{}", claim.id);
            }
        }
    }

    #[test]
    fn names_are_unique() {
        let mut ids: Vec<&str> =
            Paper::ALL.iter().flat_map(|paper| paper.claims()).map(|claim| claim.id.as_str()).collect();
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), count);
        for paper in Paper::ALL {
            assert_eq!(Paper::named(paper.name()), Some(paper));
        }
    }
}
