//! One run of an experiment, summarised and written.

use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use serde_json::Value;

use super::Run;
use super::folder::{BATCHES, FAILURES, Folder, REJECTIONS, numbered};
use super::inputs::RunInputs;
use super::target::{RunOutput, Target};
use super::verify::Verified;
use crate::base::clock;
use crate::base::error::{Context as _, Error, Result};
use crate::base::files::write_whole;
use crate::core::record::compact::CompactRecord;
use crate::core::record::execution::Decisions;
use crate::core::record::full::FullRecord;
use crate::core::record::{ReasonedDeparture, RecordOptions};
use crate::core::summary::{Summarize, Summary, summarize};
use crate::core::workload::model::CellType;
use crate::lab::results::logs::{LogRow as _, RequestLine, RoundLine, TaskLine};
use crate::lab::results::{timeline, write};

#[derive(Clone, Debug)]
pub(super) struct PointResult {
    pub summary: Summary,
    /// `None` for a run taken over from an earlier call.
    pub host: Option<Host>,
}

/// Host measurements, which must not influence results of a seed.
#[derive(Clone, Debug)]
pub(super) struct Host {
    /// In `host.json`.
    pub row: Value,
    pub decisions: Decisions,
    pub verified: Verified,
    /// Messages of the first failures; the run's file lists all.
    pub failures: Vec<String>,
}

/// Failures that are reported one by one; the run's file lists all.
const FAILURES_SHOWN: usize = 3;

/// Carries out one run and writes its files. The summary comes last: where it exists, the run is finished.
pub(super) fn run_point(
    run: &Run,
    inputs: &RunInputs<'_>,
    device: &Target,
    folder: &Folder,
    stop: &AtomicBool,
) -> Result<PointResult> {
    if stop.load(Ordering::Relaxed) {
        return Err(Error::Interrupted);
    }
    let attempt = Attempt {
        run,
        inputs,
        device,
        folder,
        stop,
        clock: clock::now(),
    };
    if let Some(options) = inputs.compact_options(run.load) {
        let ran = device.run_compact(inputs, run, options, stop)?;
        return attempt.write(&ran);
    }
    let output = &inputs.scenario.output;
    let options = RecordOptions {
        tasks: attempt.is_logged() && (output.tasks || output.timeline),
        first_tasks: attempt.is_logged() && output.timeline,
        rounds: attempt.is_real(),
        ..RecordOptions::default()
    };
    let ran = device.run(inputs, run, options, stop)?;
    attempt.write(&ran)
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

/// One run, and what is needed to write its files.
struct Attempt<'a> {
    run: &'a Run,
    inputs: &'a RunInputs<'a>,
    device: &'a Target,
    folder: &'a Folder,
    stop: &'a AtomicBool,
    clock: Instant,
}

impl Attempt<'_> {
    fn is_real(&self) -> bool {
        matches!(self.device, Target::Real { .. })
    }

    /// Other replications differ only in random sequences or noise, so they have no logs.
    fn is_logged(&self) -> bool {
        self.run.replication == 0
    }

    fn write<R: LoggedRecord>(&self, ran: &RunOutput<R>) -> Result<PointResult> {
        if ran.interrupted && !self.is_real() {
            return Err(Error::Interrupted); // A simulation is easily run again.
        }
        let Attempt {
            run,
            inputs,
            folder,
            ..
        } = *self;
        let execution = ran.record.execution();
        let mut summary = summarize(&ran.record, &inputs.measure(run.load));
        summary.extrapolated = self.device.extrapolated(inputs, run, execution);
        let stage = folder.stage()?;
        if self.is_logged() {
            self.write_logs(stage.path(), &ran.record, summary.warmup)?;
        }
        self.write_events(stage.path(), &ran.record)?;
        let files = folder.publish(run, &stage)?;
        drop(stage);
        let verified = match self.verify(ran) {
            Err(Error::Interrupted) => {
                folder.write_point(run, &summary, files, true)?;
                return Err(Error::Interrupted);
            }
            verified => verified?,
        };
        folder.write_point(run, &summary, files, false)?;
        let row = folder.host_row(
            run,
            execution,
            ran.launched.as_ref(),
            &verified,
            summary.lateness,
            self.clock.elapsed(),
        );
        let host = Host {
            row,
            decisions: execution.decisions,
            verified,
            failures: self.failure_messages(ran.record.failures()),
        };
        Ok(PointResult {
            summary,
            host: Some(host),
        })
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
            if self.is_real() {
                write::write_rounds(&folder.join(RoundLine::FILE), execution)?;
            }
        }
        if output.timeline {
            record.write_timeline(&folder.join("timeline.json"), steps)?;
        }
        Ok(())
    }

    /// Writes the files that every replication has: the batch sizes, whose spread is thus known, and the requests that
    /// left for a reason.
    fn write_events<R: LoggedRecord>(&self, folder: &Path, record: &R) -> Result<()> {
        let path = |file| folder.join(numbered(self.run.replication, file));
        write::write_batches(&path(BATCHES), record.execution(), &self.inputs.steps)?;
        if !record.failures().is_empty() {
            write::write_failures(&path(FAILURES), record.failures())?;
        }
        if !record.explained_rejections().is_empty() {
            write::write_failures(&path(REJECTIONS), record.explained_rejections())?;
        }
        Ok(())
    }

    fn verify<R>(&self, ran: &RunOutput<R>) -> Result<Verified> {
        if ran.interrupted {
            return Err(Error::Interrupted);
        }
        let label = &self.inputs.scenario.policies[self.run.policy].label;
        let load = self.run.load;
        let repeat = self.run.replication + 1;
        self.device
            .verify(ran, self.stop)
            .within(format_args!("\"{label}\" at {load}, repeat {repeat}"))
    }

    fn failure_messages(&self, failures: &[ReasonedDeparture]) -> Vec<String> {
        let policy = self.inputs.scenario.policies[self.run.policy].name();
        let load = self.run.load;
        let shown = failures.iter().take(FAILURES_SHOWN);
        shown
            .map(|(request, _, reason)| {
                format!("\"{policy}\" at {load}: request {request} failed: {reason}")
            })
            .collect()
    }
}
