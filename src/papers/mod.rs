//! The papers' figures and claims.
//!
//! An [`Exhibit`] is a figure or table of a paper, a [`Claim`] a value that its text states; both are data in a TOML
//! file for each paper. A claim's check compares the paper's value with this project's results; a claim that does not
//! hold is shown with its reason. No cost table is fitted to make a claim hold: a claim that a table's row was made
//! from is [derived](verdict::Word::Derived) and not counted.

mod batchmaker;
mod continuous;
mod dvabatch;
mod findings;
mod grnn;
pub mod jit;
pub mod lab;
mod late;
pub mod report;
mod value;
pub mod verdict;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use clap::ValueEnum;
use serde::Deserialize;

pub use findings::{Findings, Found, Series};
pub use grnn::measured::{self, Measured};
pub use jit::Launches;
pub use value::PaperValue;
pub use verdict::{Verdict, Word};

use crate::base::error::Result;
use crate::lab::plot::Stated;

/// A paper whose figures are reproduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Paper {
    BatchMaker,
    Late,
    Jit,
    DvaBatch,
    Grnn,
    /// No paper: all policies side by side, without claims.
    Neighbours,
    /// Several papers: from padding to continuous batching.
    Continuous,
}

/// The file of a paper.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Contents {
    title: String,
    /// Why results may be missing, by a name.
    #[serde(default)]
    missing: BTreeMap<String, String>,
    /// Lists of names in files with the paper's names.
    #[serde(default)]
    names: BTreeMap<String, Vec<[String; 2]>>,
    #[serde(rename = "exhibit")]
    exhibits: Vec<Exhibit>,
    #[serde(default, rename = "claim")]
    claims: Vec<Claim>,
}

/// A paper's name, file and checks.
type Parts = (
    &'static str,
    &'static str,
    &'static [&'static [(&'static str, Check)]],
);

impl Paper {
    /// In the order of lists and pages.
    pub fn all() -> impl Iterator<Item = Paper> {
        Paper::value_variants().iter().copied()
    }

    fn parts(self) -> Parts {
        match self {
            Paper::BatchMaker => (
                "batchmaker",
                include_str!("batchmaker.toml"),
                &[batchmaker::CHECKS],
            ),
            Paper::Late => ("late", include_str!("late.toml"), &[late::CHECKS]),
            Paper::Jit => ("jit", include_str!("jit.toml"), &[jit::CHECKS]),
            Paper::DvaBatch => (
                "dvabatch",
                include_str!("dvabatch.toml"),
                &[dvabatch::CHECKS],
            ),
            Paper::Grnn => ("grnn", include_str!("grnn.toml"), &[grnn::CHECKS]),
            Paper::Neighbours => ("neighbours", include_str!("neighbours.toml"), &[]),
            Paper::Continuous => (
                "continuous",
                include_str!("continuous.toml"),
                &[continuous::CHECKS],
            ),
        }
    }

    fn contents(self) -> &'static Contents {
        static ALL: LazyLock<Vec<Contents>> = LazyLock::new(|| {
            let read = |(name, text, _): Parts| {
                toml::from_str(text).unwrap_or_else(|error| panic!("{name}.toml: {error}"))
            };
            Paper::all().map(Paper::parts).map(read).collect()
        });
        &ALL[self as usize]
    }

    /// On the command line, and of its scenarios' folder.
    pub fn name(self) -> &'static str {
        self.parts().0
    }

    /// With venue and year.
    pub fn title(self) -> &'static str {
        &self.contents().title
    }

    /// In the paper's order.
    pub fn exhibits(self) -> &'static [Exhibit] {
        &self.contents().exhibits
    }

    pub fn items(self) -> impl Iterator<Item = Item> {
        self.exhibits().iter().map(move |exhibit| Item {
            paper: self,
            exhibit,
        })
    }

    pub fn claims(self) -> &'static [Claim] {
        &self.contents().claims
    }

    /// The values of claims that the figures of an exhibit show.
    pub fn stated(self, exhibit: &Exhibit) -> Vec<Stated> {
        let own = self
            .claims()
            .iter()
            .filter(|claim| claim.exhibits[0] == exhibit.name);
        let one = |claim: &'static Claim| {
            let mark = claim.mark.as_ref()?;
            let text = claim.paper.text().trim_end_matches(" req/s");
            let label = format!("{}: {text}", mark.of);
            Some(claim.paper.in_figure_units().map(move |value| Stated {
                value,
                label: label.clone(),
                ..mark.clone()
            }))
        };
        own.filter_map(one).flatten().collect()
    }

    /// The value of a claim.
    ///
    /// # Panics
    /// The paper has no such claim.
    fn value(self, claim: &str) -> &'static PaperValue {
        let found = self.claims().iter().find(|one| one.id == claim);
        &found
            .unwrap_or_else(|| panic!("{claim} is not a claim"))
            .paper
    }

    /// Whether it is one of the five papers that this project implements.
    pub fn is_implemented(self) -> bool {
        !matches!(self, Paper::Neighbours | Paper::Continuous)
    }

    pub fn named(name: &str) -> Option<Paper> {
        Paper::all().find(|paper| paper.name() == name)
    }

    fn checks(self) -> impl Iterator<Item = &'static (&'static str, Check)> {
        self.parts().2.iter().copied().flatten()
    }
}

#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exhibit {
    /// On the command line, such as `fig7a`.
    pub name: String,
    /// Names of other figures that the same runs show.
    #[serde(default)]
    pub also: Vec<String>,
    /// In the paper, such as `Figure 7a`.
    pub place: String,
    pub shows: String,
    pub made: Made,
    /// Of a study's drawings: title, groups and value. `{gpu}` is the GPU of the measured times.
    #[serde(default)]
    drawings: Vec<[String; 3]>,
    /// Below the figures of a study.
    #[serde(default)]
    note: String,
    /// An exhibit before it, whose policies are in its first figure too.
    pub beside: Option<String>,
}

/// An exhibit of a paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    pub paper: Paper,
    pub exhibit: &'static Exhibit,
}

impl Item {
    pub fn name(&self) -> String {
        format!("{} {}", self.paper.name(), self.exhibit.name)
    }

    pub fn is_measured(&self) -> bool {
        self.exhibit.made == Made::Measurement
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Made {
    /// `scenarios/PAPER/NAME.toml` is run and drawn.
    Scenario,
    /// Several runs after searches, or a model without runs.
    Study,
    /// Launches are counted on the trees of SICK's test split, which users have to get themselves.
    Count,
    /// `scenarios/PAPER/NAME.toml` is run on the processor at hand, if the user asks for it.
    Measurement,
}

pub fn carry_out(paper: Paper, exhibit: &Exhibit, lab: &lab::Lab<'_>) -> Result<lab::Study> {
    let mut study = match paper {
        Paper::Grnn => grnn::carry_out(&exhibit.name, lab),
        _ => dvabatch::carry_out(&exhibit.name, lab),
    }?;
    study.note.insert_str(0, &exhibit.note);
    study.write(exhibit, lab)?;
    Ok(study)
}

/// A value that a paper states.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Such as `bm-lstm-peak`.
    pub id: String,
    /// Its basis. `exact`: the rules determine the value; `sim`: a simulation on a stated cost table; `input`: an input of
    /// the cost table, which results must reproduce; `magnitude`: only orders of magnitude can be compared; `cpu`, `cuda`:
    /// measured on a processor or a GPU.
    pub kind: String,
    /// Section, figure or table.
    pub place: String,
    pub what: String,
    /// The paper's value, with its unit.
    pub paper: PaperValue,
    /// Where a figure of the first exhibit shows it.
    pub mark: Option<Stated>,
    /// Those that the check reads. The claim is shown with the first.
    pub exhibits: Vec<String>,
    /// Why there may be no value, by its name.
    missing: Option<String>,
    /// Why the values differ; empty if they don't.
    #[serde(default)]
    reason: String,
    /// Commands whose results support the reason, beside those of the exhibits.
    #[serde(default)]
    shown_by: Vec<String>,
    /// The claim whose reason applies.
    reason_of: Option<String>,
}

/// Compares our results with the value that a claim states.
pub type Check = fn(&Findings, &PaperValue) -> Result<Verdict>;

#[derive(Clone, Debug)]
pub struct Checked {
    pub paper: Paper,
    pub claim: &'static Claim,
    pub verdict: Verdict,
}

impl Checked {
    /// The claim that has the reason.
    fn explained(&self) -> &'static Claim {
        let other = |id: &String| self.paper.claims().iter().find(|claim| claim.id == *id);
        self.claim
            .reason_of
            .as_ref()
            .and_then(other)
            .unwrap_or(self.claim)
    }

    /// Commands that show the reason, if there is one; the exhibits' is not among them.
    pub fn shown_by(&self) -> &'static [String] {
        self.reason().map_or(&[], |_| &self.explained().shown_by)
    }

    /// That makes the exhibits.
    fn command(&self) -> String {
        format!(
            "batchlab reproduce {} {}",
            self.paper.name(),
            self.claim.exhibits.join(" ")
        )
    }

    /// Whether it is shown with this exhibit.
    pub fn is_with(&self, item: &Item) -> bool {
        self.paper == item.paper && self.claim.exhibits[0] == item.exhibit.name
    }

    /// Why the claim does not hold, if so.
    pub fn reason(&self) -> Option<&'static str> {
        let reason: &'static str = match &self.claim.missing {
            Some(name) if self.verdict.word == Word::NotRun => &self.paper.contents().missing[name],
            _ => &self.explained().reason,
        };
        (!self.verdict.word.holds())
            .then_some(reason)
            .filter(|reason| !reason.is_empty())
    }
}

/// The claims whose exhibits all have results.
pub fn check(paper: Paper, findings: &Findings) -> Result<Vec<Checked>> {
    let ready = |claim: &&Claim| {
        claim
            .exhibits
            .iter()
            .all(|exhibit| findings.exhibits.contains_key(exhibit))
    };
    let checked = paper.claims().iter().filter(ready).map(|claim| {
        let (_, check) = paper
            .checks()
            .find(|(id, _)| *id == claim.id)
            .expect("every claim has a check");
        Ok(Checked {
            paper,
            claim,
            verdict: check(findings, &claim.paper)?,
        })
    });
    checked.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_claim_has_a_check_and_exhibits_of_its_paper() {
        for paper in Paper::all() {
            let ids: Vec<&str> = paper
                .claims()
                .iter()
                .map(|claim| claim.id.as_str())
                .collect();
            assert_eq!(
                ids,
                paper.checks().map(|(id, _)| *id).collect::<Vec<_>>(),
                "in one order"
            );
            for exhibit in paper.exhibits() {
                assert_eq!(
                    exhibit.made == Made::Study,
                    !exhibit.drawings.is_empty(),
                    "{}",
                    exhibit.name
                );
            }
            for claim in paper.claims() {
                assert!(!claim.exhibits.is_empty(), "{}", claim.id);
                let kinds = ["exact", "sim", "input", "magnitude", "cpu", "cuda"];
                assert!(kinds.contains(&claim.kind.as_str()), "{}", claim.id);
                assert!(
                    claim
                        .missing
                        .iter()
                        .all(|name| paper.contents().missing.contains_key(name)),
                    "{}",
                    claim.id
                );
                for exhibit in &claim.exhibits {
                    assert!(
                        paper.exhibits().iter().any(|known| known.name == *exhibit),
                        "{}: {exhibit}",
                        claim.id
                    );
                }
                assert!(
                    claim.reason_of.iter().all(|id| ids.contains(&id.as_str())),
                    "{}",
                    claim.id
                );
            }
        }
    }

    #[test]
    fn names_are_unique() {
        let mut ids: Vec<&str> = Paper::all()
            .flat_map(|paper| paper.claims())
            .map(|claim| claim.id.as_str())
            .collect();
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), count);
        for paper in Paper::all() {
            assert_eq!(Paper::named(paper.name()), Some(paper));
        }
    }
}
