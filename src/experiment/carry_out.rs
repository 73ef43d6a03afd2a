//! One run of an experiment: carried out, summed up and written.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::Run;
use super::folder::Folder;
use super::prepared::{Prepared, Ran};
use super::verify::Verified;
use crate::clock;
use crate::error::{Context as _, Error, Result};
use crate::metrics::recorder::{Decisions, Keep, Recorder};
use crate::metrics::summary::{Summary, summarize};
use crate::results::{timeline, write};
use crate::scenario::Output;
use crate::units::RequestId;

/// A run's figures, and what only those who carried it out know.
#[derive(Clone, Debug)]
pub(super) struct Finished {
    pub summary: Summary,
    /// `None` for a run that was taken over.
    pub host: Option<Host>,
}

/// What is known of a run beside its figures, which a result of one seed must not depend on.
#[derive(Clone, Debug)]
pub(super) struct Host {
    /// How long it took, with its files.
    pub wall: Duration,
    /// What the policy's decisions took.
    pub decisions: Decisions,
    /// What the comparison with the same requests run alone found.
    pub verified: Verified,
    /// The first requests that failed, and why.
    pub failures: Vec<(RequestId, String)>,
}

/// How many failures of a run are told of one by one; its file has all.
const FAILURES_SHOWN: usize = 3;

/// Carries out one run and writes its files, the summary last: where that is, the run is finished.
///
/// A real run that the user stops is written as far as it came, with a summary that says so.
///
/// # Errors
/// A file that can't be written, a result that is not that of the request alone, [`Error::Interrupted`].
pub(super) fn carry_out(run: &Run, prepared: &Prepared<'_>, folder: &Folder, stop: &AtomicBool) -> Result<Finished> {
    if stop.load(Ordering::Relaxed) {
        return Err(Error::Interrupted);
    }
    let clock = clock::now();
    let real = prepared.target().is_real();
    // The logs are those of the first replication; the others differ in their random streams or by the machine's noise.
    let logged = run.replication == 0;
    let output = &prepared.scenario().output;
    let keep = Keep {
        tasks: logged && (output.tasks || output.timeline),
        first_tasks: logged && output.timeline,
        rounds: real,
        reasons: false,
    };
    let ran = prepared.execute(run, keep, stop)?;
    if ran.interrupted && !real {
        return Err(Error::Interrupted); // A simulation is as easily run again.
    }
    let mut summary = summarize(&ran.record, &prepared.measure(run.load));
    summary.extrapolated = prepared.extrapolated(run, &ran.record);
    if logged {
        write_logs(&folder.point(run), output, &ran.record, prepared)?;
    }
    // Of every run, so that the spread of the batch sizes can be told.
    write::write_batches(&folder.batches(run), &ran.record, prepared.steps())?;
    if real {
        write_failures(&folder.failures(run), &ran.record)?;
    }
    let verified = verify(&ran, run, prepared, stop);
    if matches!(verified, Err(Error::Interrupted)) {
        folder.write_interrupted(run, &summary)?;
    }
    let verified = verified?;
    folder.write_finished(run, &summary)?;
    let Recorder { decisions, failures, .. } = ran.record;
    let failures = failures.into_iter().take(FAILURES_SHOWN).map(|(request, _, reason)| (request, reason)).collect();
    let host = Host { wall: clock.elapsed(), decisions, verified, failures };
    Ok(Finished { summary, host: Some(host) })
}

fn write_logs(point: &Path, output: &Output, record: &Recorder, prepared: &Prepared<'_>) -> Result<()> {
    let place = |file| point.join(file);
    if output.requests {
        write::write_requests(&place("requests.csv"), record)?;
    }
    if output.tasks {
        write::write_tasks(&place("tasks.csv"), record, prepared.steps())?;
        if prepared.target().is_real() {
            write::write_rounds(&place("rounds.csv"), record)?;
        }
    }
    if output.timeline {
        timeline::write_timeline(&place("timeline.json"), record, prepared.steps())?;
    }
    Ok(())
}

/// Writes the log of failures where there are any; one that an interrupted run left is none of this run's.
fn write_failures(path: &Path, record: &Recorder) -> Result<()> {
    if !record.failures.is_empty() {
        return write::write_failures(path, record);
    }
    match fs::remove_file(path) {
        Err(cause) if cause.kind() != io::ErrorKind::NotFound => Err(Error::unwritable(path, &cause)),
        _ => Ok(()),
    }
}

/// Compares what the run's requests came to with the same requests run alone.
fn verify(ran: &Ran, run: &Run, prepared: &Prepared<'_>, stop: &AtomicBool) -> Result<Verified> {
    if ran.interrupted {
        return Err(Error::Interrupted);
    }
    prepared.verify(ran, stop).within(format_args!(
        "\"{}\" at {}, repeat {}",
        prepared.scenario().policies[run.policy].label,
        run.load,
        run.replication + 1
    ))
}
