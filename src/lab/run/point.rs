//! The run of one point, its summary and its files.

use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::folder::{BATCHES, FAILURES, FileSizes, Folder, REJECTIONS, numbered_name};
use super::inputs::RunInputs;
use super::job::Run;
use super::target::{RunOutput, Target};
use super::verify::Verified;
use crate::base::clock;
use crate::base::error::{Context as _, Error, Result, refuse_if};
use crate::base::files::write_whole;
use crate::core::record::compact::CompactRecord;
use crate::core::record::execution::{Decisions, Execution};
use crate::core::record::full::FullRecord;
use crate::core::record::{RecordOptions, Recorder as _};
use crate::core::summary::{Summarize, Summary, summarize};
use crate::core::workload::model::CellType;
use crate::lab::results::logs::{LogRow as _, RequestLine, RoundLine, TaskLine};
use crate::lab::results::{timeline, write};

/// A run that is done, whose record is in memory. Its logs are written from here, or read as rows.
#[derive(Debug)]
pub struct KeptRun {
    pub run: Run,
    /// The place of the run's scenario in the sweep.
    pub variant: usize,
    pub summary: Summary,
    /// The cell types, then the operators if a policy runs those.
    pub steps: Vec<CellType>,
    pub record: KeptRecord,
    verified: Verified,
    wall: Duration,
}

#[derive(Debug)]
pub enum KeptRecord {
    Full(Box<RunOutput<FullRecord>>),
    Compact(Box<RunOutput<CompactRecord>>),
}

impl KeptRun {
    pub fn execution(&self) -> &Execution {
        match &self.record {
            KeptRecord::Full(output) => output.record.execution(),
            KeptRecord::Compact(output) => output.record.execution(),
        }
    }
}

/// A policy under a load in one replication, with all that its run needs.
pub(super) struct Point<'a> {
    pub run: &'a Run,
    pub inputs: &'a RunInputs<'a>,
    pub target: &'a Target,
    pub folder: &'a Folder,
    pub stop: &'a AtomicBool,
    /// Whether the tasks of every replication are recorded. Files have those of the first only.
    pub records_all_tasks: bool,
}

#[derive(Clone, Debug)]
pub(super) struct PointResult {
    pub summary: Summary,
    /// The measurements of the host, or `None` if an earlier call has finished the run.
    pub host: Option<HostMeasurements>,
}

/// Measurements of the host, which must not influence the results of a seed.
#[derive(Clone, Debug)]
pub(super) struct HostMeasurements {
    /// The run's entry in `host.json`.
    pub row: Value,
    pub decisions: Decisions,
    pub verified: Verified,
    /// Messages of the first failures. The run's file lists all of them.
    pub failures: Vec<String>,
}

/// A record from which a point's files are written.
trait LoggedRecord: Summarize {
    fn write_requests(&self, out: &mut dyn Write, warmup: u64) -> io::Result<()>;

    /// Writes the timeline. A compact record keeps no tasks to draw.
    fn write_timeline(&self, _path: &Path, _cells: &[CellType]) -> Result<()> {
        Ok(())
    }
}

impl LoggedRecord for FullRecord {
    fn write_requests(&self, out: &mut dyn Write, warmup: u64) -> io::Result<()> {
        write::write_requests(out, self, warmup)
    }

    fn write_timeline(&self, path: &Path, cells: &[CellType]) -> Result<()> {
        timeline::write_timeline(path, self, cells)
    }
}

impl LoggedRecord for CompactRecord {
    fn write_requests(&self, out: &mut dyn Write, warmup: u64) -> io::Result<()> {
        write::write_logged_requests(out, self, warmup)
    }
}

/// The number of failures that are reported one by one.
const FAILURES_SHOWN: usize = 3;

impl Point<'_> {
    /// Executes the run and writes its files. The summary is written last, so that a run with a summary is finished.
    pub fn run(&self) -> Result<PointResult> {
        let clock = clock::now();
        match self.execute()? {
            KeptRecord::Full(output) => self.write(&output, clock),
            KeptRecord::Compact(output) => self.write(&output, clock),
        }
    }

    /// Executes the run and keeps its record. Writes nothing.
    pub fn keep(&self, variant: usize) -> Result<KeptRun> {
        let clock = clock::now();
        let record = self.execute()?;
        let (summary, verified) = match &record {
            KeptRecord::Full(output) => (self.summarize(output), self.verify(output)?),
            KeptRecord::Compact(output) => (self.summarize(output), self.verify(output)?),
        };
        Ok(KeptRun {
            run: *self.run,
            variant,
            summary,
            steps: self.inputs.steps.clone(),
            record,
            verified,
            wall: clock.elapsed(),
        })
    }

    /// Writes the files of a run that was kept.
    pub fn write_kept(&self, kept: &KeptRun) -> Result<PointResult> {
        match &kept.record {
            KeptRecord::Full(output) => self.write_run(output, kept),
            KeptRecord::Compact(output) => self.write_run(output, kept),
        }
    }

    /// The result of a run that was kept, without files.
    pub fn result(&self, kept: &KeptRun) -> PointResult {
        let host = match &kept.record {
            KeptRecord::Full(output) => self.host_of_kept(output, kept),
            KeptRecord::Compact(output) => self.host_of_kept(output, kept),
        };
        PointResult {
            summary: kept.summary.clone(),
            host: Some(host),
        }
    }

    fn host_of_kept<R: LoggedRecord>(
        &self,
        output: &RunOutput<R>,
        kept: &KeptRun,
    ) -> HostMeasurements {
        self.host_measurements(output, &kept.summary, kept.verified, kept.wall)
    }

    fn execute(&self) -> Result<KeptRecord> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
        if let Some(options) = self.inputs.compact_options(self.run.load) {
            let output = self
                .target
                .execute_compact(self.inputs, self.run, options, self.stop)?;
            self.refuse_interrupted(output.interrupted)?;
            return Ok(KeptRecord::Compact(Box::new(output)));
        }
        let options = self.record_options();
        let output = self
            .target
            .execute(self.inputs, self.run, options, self.stop)?;
        self.refuse_interrupted(output.interrupted)?;
        Ok(KeptRecord::Full(Box::new(output)))
    }

    /// Forgets an interrupted simulation, which is easily run again.
    fn refuse_interrupted(&self, interrupted: bool) -> Result<()> {
        refuse_if(interrupted && !self.target.is_real(), || Error::Interrupted)
    }

    fn summarize<R: LoggedRecord>(&self, output: &RunOutput<R>) -> Summary {
        let mut summary = summarize(&output.record, &self.inputs.measure(self.run.load));
        summary.extrapolated =
            self.target
                .extrapolations(self.inputs, self.run, output.record.execution());
        if self.target.is_real() {
            // Repeats have the same requests: their intervals are those of the machine's noise.
            summary.forget_independent();
        }
        summary
    }

    fn write<R: LoggedRecord>(&self, output: &RunOutput<R>, clock: Instant) -> Result<PointResult> {
        let summary = self.summarize(output);
        let files = self.publish(output, &summary)?;
        let verified = match self.verify(output) {
            Err(Error::Interrupted) => {
                self.folder.write_point(self.run, &summary, files, true)?;
                return Err(Error::Interrupted);
            }
            verified => verified?,
        };
        self.folder.write_point(self.run, &summary, files, false)?;
        let host = self.host_measurements(output, &summary, verified, clock.elapsed());
        Ok(PointResult {
            summary,
            host: Some(host),
        })
    }

    fn write_run<R: LoggedRecord>(
        &self,
        output: &RunOutput<R>,
        kept: &KeptRun,
    ) -> Result<PointResult> {
        let files = self.publish(output, &kept.summary)?;
        self.folder
            .write_point(self.run, &kept.summary, files, false)?;
        Ok(PointResult {
            summary: kept.summary.clone(),
            host: Some(self.host_of_kept(output, kept)),
        })
    }

    /// Writes the logs into the folder of the point.
    fn publish<R: LoggedRecord>(
        &self,
        output: &RunOutput<R>,
        summary: &Summary,
    ) -> Result<FileSizes> {
        let stage = self.folder.stage()?;
        self.write_files(stage.path(), &output.record, summary.warmup)?;
        self.folder.publish(self.run, &stage)
    }

    /// Whether the logs are written, which only the first replication has. Others differ only in random sequences or
    /// noise.
    fn is_logged(&self) -> bool {
        self.run.replication == 0
    }

    fn record_options(&self) -> RecordOptions {
        let output = &self.inputs.scenario.output;
        RecordOptions {
            tasks: (self.is_logged() || self.records_all_tasks)
                && (output.tasks || output.timeline),
            first_tasks: self.is_logged() && output.timeline,
            rounds: self.target.is_real(),
            all_decisions: self.target.is_real(),
            ..RecordOptions::default()
        }
    }

    fn write_files<R: LoggedRecord>(&self, folder: &Path, record: &R, warmup: u64) -> Result<()> {
        if self.is_logged() {
            self.write_logs(folder, record, warmup)?;
        }
        // This file is written for every run, so that the spread of batch sizes is known.
        let replication = self.run.replication;
        let batches = folder.join(numbered_name(replication, BATCHES));
        write::write_batches(&batches, record.execution(), &self.inputs.steps)?;
        for (name, requests) in [
            (FAILURES, record.failures()),
            (REJECTIONS, record.explained_rejections()),
        ] {
            if !requests.is_empty() {
                write::write_failures(&folder.join(numbered_name(replication, name)), requests)?;
            }
        }
        Ok(())
    }

    fn write_logs<R: LoggedRecord>(&self, folder: &Path, record: &R, warmup: u64) -> Result<()> {
        let output = &self.inputs.scenario.output;
        let steps = &self.inputs.steps;
        let execution = record.execution();
        if output.requests {
            write_whole(&folder.join(RequestLine::FILE), |out| {
                record.write_requests(out, warmup)
            })?;
        }
        if output.tasks {
            write_whole(&folder.join(TaskLine::FILE), |out| {
                write::write_tasks(out, execution, steps)
            })?;
            if self.target.is_real() {
                write::write_rounds(&folder.join(RoundLine::FILE), execution)?;
            }
        }
        if output.timeline {
            record.write_timeline(&folder.join("timeline.json"), steps)?;
        }
        Ok(())
    }

    fn verify<R>(&self, output: &RunOutput<R>) -> Result<Verified> {
        if output.interrupted {
            return Err(Error::Interrupted);
        }
        let label = &self.inputs.scenario.policies[self.run.policy].label;
        let load = self.run.load;
        let repeat = self.run.replication + 1;
        self.target
            .verify(output, self.stop)
            .within(format_args!("\"{label}\" at {load}, repeat {repeat}"))
    }

    fn host_measurements<R: LoggedRecord>(
        &self,
        output: &RunOutput<R>,
        summary: &Summary,
        verified: Verified,
        wall: Duration,
    ) -> HostMeasurements {
        let policy = self.inputs.scenario.policies[self.run.policy].name();
        let load = self.run.load;
        let mut failures = Vec::new();
        for (request, _, reason) in output.record.failures().iter().take(FAILURES_SHOWN) {
            failures.push(format!(
                "\"{policy}\" at {load}: request {request} failed: {reason}"
            ));
        }
        HostMeasurements {
            row: self.folder.host_row(
                self.run,
                output.record.execution(),
                output.launched.as_ref(),
                &verified,
                summary.lateness,
                wall,
            ),
            decisions: output.record.execution().decisions,
            verified,
            failures,
        }
    }
}
