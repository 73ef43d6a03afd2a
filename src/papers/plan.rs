//! The exhibits of a call, reproduced one after the other.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use super::findings::Findings;
use super::kinds;
use super::paper::{Exhibit, ExhibitKind, Paper};
use super::reproduction::{Controls, Reproduction, Workspace};
use super::study_runner::SEARCHES;
use crate::base::error::Result;
use crate::lab::run::folder::EarlierResults;
use crate::lab::run::shard::PlannedPoint;

/// The exhibits of a call, with their inputs and points.
pub struct ReproductionPlan<'a> {
    workspace: &'a Workspace<'a>,
    /// Each reproduction with the number of its points.
    reproductions: Vec<(Box<dyn Reproduction>, usize)>,
    pub points: Vec<PlannedPoint>,
}

impl<'a> ReproductionPlan<'a> {
    /// Reads the inputs of all exhibits, so that mistakes are found before the first run. Each point says whether it is
    /// finished, if `earlier` results count.
    pub fn open(
        exhibits: &[&'static Exhibit],
        workspace: &'a Workspace<'a>,
        earlier: EarlierResults,
    ) -> Result<ReproductionPlan<'a>> {
        let mut opened = Vec::new();
        for exhibit in exhibits {
            opened.push(kinds::open(exhibit, workspace)?);
        }
        // Studies come last, since it is not known in advance how long their searches take.
        opened.sort_by_key(|one| one.exhibit().kind == ExhibitKind::Study);
        let mut plan = ReproductionPlan {
            workspace,
            reproductions: Vec::new(),
            points: Vec::new(),
        };
        for reproduction in opened {
            let points = reproduction.points(workspace, earlier)?;
            plan.reproductions.push((reproduction, points.len()));
            plan.points.extend(points);
        }
        Ok(plan)
    }

    /// Reproduces the exhibits. `own` says which of the points are this call's; exhibits that have only points of other
    /// shards are left out.
    pub fn run(self, own: &[bool], controls: &Controls<'_>) -> Result<BTreeMap<Paper, Findings>> {
        let mut all: BTreeMap<Paper, Findings> = BTreeMap::new();
        let mut papers_with_searches = BTreeSet::new();
        let mut rest = own;
        for (reproduction, points) in self.reproductions {
            let (own, others) = rest.split_at(points);
            rest = others;
            if points > 0 && !own.contains(&true) {
                continue;
            }
            let exhibit = reproduction.exhibit();
            let paper = exhibit.paper;
            if exhibit.kind == ExhibitKind::Study
                && papers_with_searches.insert(paper)
                && !self.workspace.keeps_studies()
            {
                // Searches with other settings would otherwise stay forever.
                let _ = fs::remove_dir_all(self.workspace.folder(paper).join(SEARCHES));
            }
            controls.progress.begin(exhibit);
            let findings = all.entry(paper).or_default();
            let result = reproduction.run(own, findings, self.workspace, controls)?;
            findings.exhibits.insert(exhibit.name.clone(), result);
        }
        if let Some(findings) = all.get_mut(&Paper::Grnn) {
            findings.measured = Some(self.workspace.gpu_times.clone());
        }
        Ok(all)
    }
}
