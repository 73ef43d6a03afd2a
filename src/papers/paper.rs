//! The papers, with their exhibits and claims as the TOML files have them.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

use super::value::PaperValue;
use crate::lab::plot::Stated;

/// A paper whose figures are reproduced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Paper {
    #[default]
    BatchMaker,
    Late,
    Jit,
    DvaBatch,
    Grnn,
    /// Not a paper: all policies side by side, without claims.
    Neighbours,
    /// Several papers: from padding to continuous batching.
    Continuous,
}

/// The file of a paper.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PaperFile {
    title: String,
    /// The reasons why results may be missing, by the names that claims use.
    #[serde(default)]
    missing: BTreeMap<String, String>,
    /// Lists of file names, each with the paper's own name.
    #[serde(default)]
    names: BTreeMap<String, Vec<[String; 2]>>,
    #[serde(rename = "exhibit")]
    exhibits: Vec<Exhibit>,
    #[serde(default, rename = "claim")]
    claims: Vec<Claim>,
}

impl PaperFile {
    /// The file is inside the program, so a mistake in it is one of the program.
    fn parse(paper: Paper) -> PaperFile {
        let mut file: PaperFile = match toml::from_str(paper.text()) {
            Ok(file) => file,
            Err(error) => panic!("{}.toml: {error}", paper.name()),
        };
        for exhibit in &mut file.exhibits {
            exhibit.paper = paper;
        }
        for claim in &mut file.claims {
            claim.paper = paper;
        }
        file
    }
}

impl Paper {
    /// All papers in the order of lists and pages.
    pub const ALL: [Paper; 7] = [
        Paper::BatchMaker,
        Paper::Late,
        Paper::Jit,
        Paper::DvaBatch,
        Paper::Grnn,
        Paper::Neighbours,
        Paper::Continuous,
    ];

    pub fn from_name(name: &str) -> Option<Paper> {
        Paper::ALL.into_iter().find(|paper| paper.name() == name)
    }

    /// The name on the command line, which is also that of the folder of its scenarios.
    pub fn name(self) -> &'static str {
        match self {
            Paper::BatchMaker => "batchmaker",
            Paper::Late => "late",
            Paper::Jit => "jit",
            Paper::DvaBatch => "dvabatch",
            Paper::Grnn => "grnn",
            Paper::Neighbours => "neighbours",
            Paper::Continuous => "continuous",
        }
    }

    fn text(self) -> &'static str {
        match self {
            Paper::BatchMaker => include_str!("batchmaker.toml"),
            Paper::Late => include_str!("late.toml"),
            Paper::Jit => include_str!("jit.toml"),
            Paper::DvaBatch => include_str!("dvabatch.toml"),
            Paper::Grnn => include_str!("grnn.toml"),
            Paper::Neighbours => include_str!("neighbours.toml"),
            Paper::Continuous => include_str!("continuous.toml"),
        }
    }

    fn file(self) -> &'static PaperFile {
        static FILES: LazyLock<BTreeMap<Paper, PaperFile>> = LazyLock::new(|| {
            Paper::ALL
                .into_iter()
                .map(|paper| (paper, PaperFile::parse(paper)))
                .collect()
        });
        &FILES[&self]
    }

    /// The title, with venue and year.
    pub fn title(self) -> &'static str {
        &self.file().title
    }

    /// The exhibits in the paper's order.
    pub fn exhibits(self) -> &'static [Exhibit] {
        &self.file().exhibits
    }

    pub fn claims(self) -> &'static [Claim] {
        &self.file().claims
    }

    /// A list of file names, each with the paper's own name.
    ///
    /// # Panics
    /// The paper's file has no such list.
    pub fn names(self, list: &str) -> &'static [[String; 2]] {
        &self.file().names[list]
    }

    /// Why results are missing.
    ///
    /// # Panics
    /// The paper's file has no such reason.
    pub fn reason_for_missing(self, name: &str) -> &'static str {
        &self.file().missing[name]
    }

    fn find_claim(self, id: &str) -> Option<&'static Claim> {
        self.claims().iter().find(|claim| claim.id == id)
    }

    /// The value of a claim.
    ///
    /// # Panics
    /// The paper has no such claim.
    pub fn value(self, claim: &str) -> &'static PaperValue {
        match self.find_claim(claim) {
            Some(claim) => &claim.value,
            None => panic!("{claim} is not a claim"),
        }
    }

    /// Whether it is one of the five papers that this project implements.
    pub fn is_implemented(self) -> bool {
        !matches!(self, Paper::Neighbours | Paper::Continuous)
    }
}

/// A figure or a table of a paper.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exhibit {
    #[serde(skip)]
    pub paper: Paper,
    /// The name on the command line, such as `fig7a`.
    pub name: String,
    /// Names of other figures that the same runs show.
    #[serde(default)]
    pub also: Vec<String>,
    /// The name in the paper, such as `Figure 7a`.
    pub place: String,
    pub shows: String,
    #[serde(rename = "made")]
    pub kind: ExhibitKind,
    /// The title, the groups and the value of each drawing of a study. `{gpu}` is the GPU of the measured times.
    #[serde(default)]
    pub drawings: Vec<[String; 3]>,
    /// The text below the figures of a study.
    #[serde(default)]
    pub note: String,
    /// An earlier exhibit, whose policies are also in this one's first figure.
    pub beside: Option<String>,
}

/// How the results of an exhibit are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ExhibitKind {
    /// `scenarios/PAPER/NAME.toml` is run and drawn.
    Scenario,
    /// There are several runs after searches, or a model without runs.
    Study,
    /// Launches are counted on the trees of SICK's test split, which users have to get themselves.
    Count,
    /// `scenarios/PAPER/NAME.toml` is run on the processor at hand, if the user asks for it.
    Measurement,
}

impl Exhibit {
    /// The names of the paper and of the exhibit, as on the command line.
    pub fn full_name(&self) -> String {
        format!("{} {}", self.paper.name(), self.name)
    }

    /// The values of claims that the exhibit's figures show.
    pub fn stated_values(&self) -> Vec<Stated> {
        let mut stated = Vec::new();
        for claim in self.paper.claims() {
            let Some(mark) = &claim.mark else { continue };
            if claim.exhibits[0] != self.name {
                continue;
            }
            let text = claim.value.text().trim_end_matches(" req/s");
            for value in claim.value.figure_numbers() {
                stated.push(Stated {
                    value,
                    label: format!("{}: {text}", mark.of),
                    ..mark.clone()
                });
            }
        }
        stated
    }
}

/// A value that a paper states.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    #[serde(skip)]
    pub paper: Paper,
    /// The name of the claim, such as `bm-lstm-peak`.
    pub id: String,
    /// The basis of the comparison. `exact`: the rules determine the value; `sim`: a simulation on a stated cost table;
    /// `input`: an input of the cost table, which results must reproduce; `magnitude`: only orders of magnitude can be
    /// compared; `cpu`, `cuda`: measured on a processor or a GPU.
    pub kind: String,
    /// The section, figure or table that states the value.
    pub place: String,
    pub what: String,
    #[serde(rename = "paper")]
    pub value: PaperValue,
    /// The place where a figure of the first exhibit shows the value.
    pub mark: Option<Stated>,
    /// The exhibits that the check reads. The claim is shown with the first.
    pub exhibits: Vec<String>,
    /// The name of the reason why there may be no value.
    pub missing: Option<String>,
    /// Why the values differ; empty if they don't.
    #[serde(default)]
    pub reason: String,
    /// Commands whose results support the reason, in addition to those of the exhibits.
    #[serde(default)]
    pub shown_by: Vec<String>,
    /// The claim whose reason applies.
    pub reason_of: Option<String>,
}

impl Claim {
    /// The claim that has the reason for a difference: this one, or the one that it names.
    pub fn with_reason(&self) -> &Claim {
        let other = self.reason_of.as_ref();
        other
            .and_then(|id| self.paper.find_claim(id))
            .unwrap_or(self)
    }

    /// The command that makes the exhibits.
    pub fn command(&self) -> String {
        format!(
            "batchlab reproduce {} {}",
            self.paper.name(),
            self.exhibits.join(" ")
        )
    }

    /// Whether the claim is shown with this exhibit.
    pub fn is_with(&self, exhibit: &Exhibit) -> bool {
        self.paper == exhibit.paper && self.exhibits[0] == exhibit.name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn studies_have_drawings() {
        for exhibit in Paper::ALL.iter().flat_map(|paper| paper.exhibits()) {
            let is_study = exhibit.kind == ExhibitKind::Study;
            assert_eq!(is_study, !exhibit.drawings.is_empty(), "{}", exhibit.name);
        }
    }

    #[test]
    fn claims_name_what_their_paper_has() {
        for paper in Paper::ALL {
            for claim in paper.claims() {
                let id = &claim.id;
                let kinds = ["exact", "sim", "input", "magnitude", "cpu", "cuda"];
                assert!(kinds.contains(&claim.kind.as_str()), "{id}");
                if let Some(name) = &claim.missing {
                    assert!(paper.file().missing.contains_key(name), "{id}: {name}");
                }
                if let Some(other) = &claim.reason_of {
                    assert!(paper.find_claim(other).is_some(), "{id}: {other}");
                }
                assert!(!claim.exhibits.is_empty(), "{id}");
                for name in &claim.exhibits {
                    let mut exhibits = paper.exhibits().iter();
                    assert!(exhibits.any(|known| known.name == *name), "{id}: {name}");
                }
            }
        }
    }

    #[test]
    fn names_are_unique() {
        let mut ids = Vec::new();
        for paper in Paper::ALL {
            assert_eq!(Paper::from_name(paper.name()), Some(paper));
            ids.extend(paper.claims().iter().map(|claim| claim.id.as_str()));
        }
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), count);
    }
}
