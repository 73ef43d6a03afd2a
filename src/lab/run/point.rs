//! One run of an experiment, summarised and written.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use super::Run;
use super::folder::{BATCHES, FAILURES, Folder, REJECTIONS, numbered};
use super::inputs::RunInputs;
use super::target::{RunOutput, Target};
use super::verify::Verified;
use crate::base::clock;
use crate::base::error::{Context as _, Error, Result};
use crate::base::files::write_whole;
use crate::base::units::{Nanos, RequestId};
use crate::core::metrics::recorder::{Decisions, Keep, Recorder};
use crate::core::metrics::summary::{Summary, summarize};
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
    let clock = clock::now();
    let real = matches!(device, Target::Real { .. });
    // Other replications differ only in random sequences or noise.
    let logged = run.replication == 0;
    let output = &inputs.scenario.output;
    let keep = Keep {
        tasks: logged && (output.tasks || output.timeline),
        first_tasks: logged && output.timeline,
        rounds: real,
        stream: inputs.streams_by(run.load),
        ..Keep::default()
    };
    let ran = device.run(inputs, run, keep, stop)?;
    if ran.interrupted && !real {
        return Err(Error::Interrupted); // A simulation is easily run again.
    }
    let mut summary = summarize(&ran.record, &inputs.measure(run.load));
    summary.extrapolated = device.extrapolated(inputs, run, &ran.record);
    let stage = folder.stage()?;
    if logged {
        write_logs(stage.path(), &ran.record, inputs, keep, summary.warmup)?;
    }
    // For every run, so that the spread of batch sizes is known.
    write::write_batches(
        &stage.path().join(numbered(run.replication, BATCHES)),
        &ran.record,
        &inputs.steps,
    )?;
    for (file, of) in [
        (FAILURES, &ran.record.failures),
        (REJECTIONS, &ran.record.refusals),
    ] {
        if !of.is_empty() {
            write::write_failures(&stage.path().join(numbered(run.replication, file)), of)?;
        }
    }
    let files = folder.publish(run, &stage)?;
    drop(stage);
    let verified = match verify(&ran, run, inputs, device, stop) {
        Err(Error::Interrupted) => {
            folder.write_point(run, &summary, files, true)?;
            return Err(Error::Interrupted);
        }
        verified => verified?,
    };
    folder.write_point(run, &summary, files, false)?;
    let (policy, load) = (inputs.scenario.policies[run.policy].name(), run.load);
    let message = |(request, _, reason): &(RequestId, Nanos, String)| {
        format!("\"{policy}\" at {load}: request {request} failed: {reason}")
    };
    let failures = ran
        .record
        .failures
        .iter()
        .take(FAILURES_SHOWN)
        .map(message)
        .collect();
    let (launched, lateness) = (ran.launched.as_ref(), summary.lateness);
    let row = folder.host_row(
        run,
        &ran.record,
        launched,
        &verified,
        lateness,
        clock.elapsed(),
    );
    let host = Host {
        row,
        decisions: ran.record.decisions,
        verified,
        failures,
    };
    Ok(PointResult {
        summary,
        host: Some(host),
    })
}

fn write_logs(
    folder: &Path,
    record: &Recorder,
    inputs: &RunInputs<'_>,
    keep: Keep,
    warmup: u64,
) -> Result<()> {
    let output = &inputs.scenario.output;
    let place = |file| folder.join(file);
    if output.requests {
        write_whole(&place(RequestLine::FILE), |out| {
            write::requests(out, record, warmup)
        })?;
    }
    if output.tasks {
        write_whole(&place(TaskLine::FILE), |out| {
            write::tasks(out, record, &inputs.steps)
        })?;
        if keep.rounds {
            write::write_rounds(&place(RoundLine::FILE), record)?;
        }
    }
    if output.timeline {
        timeline::write_timeline(&place("timeline.json"), record, &inputs.steps)?;
    }
    Ok(())
}

fn verify(
    ran: &RunOutput,
    run: &Run,
    inputs: &RunInputs<'_>,
    device: &Target,
    stop: &AtomicBool,
) -> Result<Verified> {
    if ran.interrupted {
        return Err(Error::Interrupted);
    }
    let (label, load, repeat) = (
        &inputs.scenario.policies[run.policy].label,
        run.load,
        run.replication + 1,
    );
    device
        .verify(ran, stop)
        .within(format_args!("\"{label}\" at {load}, repeat {repeat}"))
}
