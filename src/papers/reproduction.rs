//! The protocol of all kinds of exhibits.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard};

use super::findings::{ExhibitResult, Findings};
use super::grnn::measured::GpuTimes;
use super::paper::{Exhibit, Paper};
use crate::base::error::Result;
use crate::base::units::{Nanos, Rate};
use crate::lab::run::folder::EarlierResults;
use crate::lab::run::shard::{PlannedPoint, Shard};
use crate::lab::scenario::Scenario;

/// An exhibit that can be reproduced. Its inputs have been read.
pub trait Reproduction: Send + Sync {
    fn exhibit(&self) -> &'static Exhibit;

    /// The points that shards share out, or none if each call makes the exhibit itself. Each point says whether it is
    /// finished, if `earlier` results count.
    fn points(
        &self,
        workspace: &Workspace<'_>,
        earlier: EarlierResults,
    ) -> Result<Vec<PlannedPoint>>;

    /// Computes the results. `own` says which of the points are this call's, `findings` has the results of the paper's
    /// exhibits before it.
    fn run(
        self: Box<Self>,
        own: &[bool],
        findings: &Findings,
        workspace: &Workspace<'_>,
        controls: &Controls<'_>,
    ) -> Result<ExhibitResult>;
}

/// A batch window, and the highest rate that meets the objective with it, if any.
pub type WindowPeak = (Nanos, Option<Rate>);

/// A function that reads a scenario of a paper by the name of its file, with overrides.
pub type ReadScenario<'a> = dyn Fn(Paper, &str, &[String]) -> Result<Scenario> + Sync + 'a;

/// What the reproductions of a call share: their inputs, and where results are.
pub struct Workspace<'a> {
    pub read_scenario: &'a ReadScenario<'a>,
    /// The folder that the user names for SICK's trees.
    pub data: Option<PathBuf>,
    /// Whether measurements run on this processor.
    pub measures: bool,
    /// Times of sequences that were measured on a GPU.
    pub gpu_times: GpuTimes,
    /// Whether figures are drawn. A call that only checks claims shows none.
    pub draws: bool,
    /// The folder of all papers' results.
    pub out: PathBuf,
    /// Keeps the points that an earlier call has finished.
    pub resume: bool,
    /// Keeps the points that an earlier call has finished, and computes no others.
    pub merge_only: bool,
    pub shard: Option<Shard>,
    /// The peaks of each network by batch window, which are searched for once.
    pub window_peaks: Mutex<BTreeMap<(Paper, String), Vec<WindowPeak>>>,
    /// The peaks that were searched for, by the folders of the searches. Several figures ask for the same one.
    pub known_peaks: Mutex<BTreeMap<PathBuf, Option<Rate>>>,
}

impl Workspace<'_> {
    /// The folder of a paper's results.
    pub fn folder(&self, paper: Paper) -> PathBuf {
        self.out.join(paper.name())
    }

    /// Whether scenarios keep the points that an earlier call has finished.
    pub fn keeps_points(&self) -> bool {
        self.resume || self.merge_only
    }

    /// Whether studies keep the runs and searches that an earlier call has finished. With shards they do, since a
    /// study's own runs are not shared out.
    pub fn keeps_studies(&self) -> bool {
        self.keeps_points() || self.shard.is_some()
    }

    pub fn known_peaks(&self) -> MutexGuard<'_, BTreeMap<PathBuf, Option<Rate>>> {
        self.known_peaks
            .lock()
            .expect("no thread panics while holding it")
    }

    pub fn known_window_peaks(&self) -> MutexGuard<'_, BTreeMap<(Paper, String), Vec<WindowPeak>>> {
        self.window_peaks
            .lock()
            .expect("no thread panics while holding it")
    }
}

/// The flag that stops a call, and the receiver of its reports.
pub struct Controls<'a> {
    /// The flag that Ctrl-C sets.
    pub stop: &'a AtomicBool,
    pub progress: &'a dyn Progress,
}

/// A receiver of reports on the progress of a call.
pub trait Progress: Sync {
    fn begin(&self, exhibit: &Exhibit);

    /// Reports that one of the call's own points is finished.
    fn finish_point(&self);

    /// Reports that some part of a point is done, such as a run of a search.
    fn tick(&self);

    fn note(&self, text: String);
}
