//! Runs a scenario in all the ways that must agree, and checks the laws.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::AtomicBool;

use batchlab::conformance::Guarantees;
use batchlab::conformance::laws::{self, CheckedCase};
use batchlab::conformance::record::{CheckedRun, Watch};
use batchlab::cost::{CostModel as _, Extra};
use batchlab::error::{Error, Result};
use batchlab::policy::registry::{Batches, Registry};
use batchlab::record::RecordOptions;
use batchlab::results::logs::{LogRow as _, RoundLine};
use batchlab::results::write;
use batchlab::run::executor::SelectedBackend;
use batchlab::run::inputs::RunInputs;
use batchlab::run::target::Target;
use batchlab::run::{Run, RunOptions, RunReport, prepare, run_sweep};
use batchlab::scenario::Scenario;
use batchlab::units::Nanos;
use batchlab::validate::ledger::replay_with_ledger;
use batchlab::validate::results::Results;

use crate::faults::{Fault, Faulty};

/// Runs a scenario file, with its sweep, in all the ways that must agree, and returns the number of runs, each a policy
/// under a load. Results go to folders in `out`.
///
/// # Errors
/// [`Error::Input`] if the scenario is rejected; others begin with the name of a broken law and a colon.
pub fn check_scenario(
    file: &Path,
    faults: &[Fault],
    registry: &Registry,
    out: &Path,
) -> Result<usize> {
    // Simulators live as long as the program, and a list of faults is small.
    let device: &'static Faulty = Box::leak(Box::new(Faulty(faults.to_vec())));
    catch_unwind(AssertUnwindSafe(|| check_laws(file, device, registry, out))).unwrap_or_else(
        |panic| {
            let text = panic
                .downcast_ref::<String>()
                .map(String::as_str)
                .or(panic.downcast_ref::<&str>().copied());
            Err(Error::failure(format!(
                "panic: {}",
                text.unwrap_or("without a message")
            )))
        },
    )
}

fn check_laws(
    file: &Path,
    device: &'static Faulty,
    registry: &Registry,
    out: &Path,
) -> Result<usize> {
    let target = SelectedBackend::Simulated(device);
    let scenarios = Scenario::expand(file, &[], &[], registry)?;
    let mut records = Vec::new();
    for scenario in &scenarios {
        let (inputs, prepared) = prepare(scenario, target)?;
        for policy in 0..scenario.policies.len() {
            for load in scenario.points() {
                let run = Run {
                    policy,
                    load,
                    replication: 0,
                };
                records.push(run_and_check(&inputs, &prepared, &run, &device.0)?);
            }
        }
    }
    let one = run_on_threads(1, &scenarios, target, out)?;
    let several = run_on_threads(3, &scenarios, target, out)?;
    if format!("{:?}", one.rows) != format!("{:?}", several.rows) {
        return Err(Error::failure(
            "threads: the summary depends on their number",
        ));
    }
    for report in [one, several] {
        replay_runs(&report.folder.path, &records, registry)
            .map_err(|error| Error::failure(format!("replay: {error}")))?;
    }
    Ok(records.len())
}

/// Runs the sweep with two replications on this number of threads.
fn run_on_threads(
    threads: usize,
    scenarios: &[Scenario],
    target: SelectedBackend,
    out: &Path,
) -> Result<RunReport> {
    let options = RunOptions {
        backend: target,
        out: out.join(format!("threads-{threads}")),
        replications: 2,
        resume: false,
        shard: None,
    };
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()
        .map_err(Error::failure)?;
    pool.install(|| run_sweep(scenarios, &options, &AtomicBool::new(false), &|| ()))
}

/// Runs one point and checks every law.
fn run_and_check(
    inputs: &RunInputs<'_>,
    device: &Target,
    run: &Run,
    faults: &[Fault],
) -> Result<CheckedRun> {
    let keep = RecordOptions {
        tasks: true,
        rounds: true,
        ..RecordOptions::default()
    };
    let requests = inputs.prepare(run, keep)?.requests;
    let watch_run = |each_instant| {
        let mut prepared = inputs.prepare(run, keep)?;
        let mut backend = device
            .start_simulator(inputs, run, &requests)
            .expect("the device is simulated");
        let watch = Watch {
            members: true,
            each_instant,
        };
        let streams = inputs.streams(run.policy);
        let record = CheckedRun::record(&mut *backend, watch, streams, |backend| {
            prepared
                .serve(backend, &AtomicBool::new(false))
                .map(|()| prepared.record)
        })?;
        if backend.now() == Nanos::MAX {
            return Err(Error::input("the clock ends before the run"));
        }
        Ok(record.with_failures())
    };
    let record = watch_run(false)?;
    let costs = device.costs(run.policy).expect("the device is simulated");
    let entry = &inputs.scenario.policies[run.policy];
    if entry.settings.iterates() {
        let planned = watch_run(true)?;
        let is_same = planned.seen == record.seen
            && planned.done == record.done
            && planned.recorder.execution.tasks == record.recorder.execution.tasks
            && planned.recorder.execution.rounds == record.recorder.execution.rounds;
        if !is_same {
            return Err(Error::failure(format!(
                "\"{}\" at {}: repeated iterations differ from planned ones",
                entry.name(),
                run.load
            )));
        }
    }
    let checked = if entry.settings.iterates() {
        laws::check_iterations(&record)
    } else {
        let given = CheckedCase {
            requests: &requests,
            cells: &inputs.cells,
            workers: inputs.workers(),
            device: costs,
            sizes: entry.settings.batch_sizes(),
        };
        let launches_at_once = costs.extra(Extra::Launch, 1) == Nanos::ZERO;
        let guarantees = guarantees(inputs, run.policy, faults, launches_at_once);
        laws::check(&given, &record, &guarantees)
    };
    match checked {
        Ok(()) => Ok(record),
        Err(law) => Err(Error::failure(format!(
            "{law}\n\"{}\" at {}",
            entry.name(),
            run.load
        ))),
    }
}

/// The promises of a policy on a device with such faults.
fn guarantees(
    inputs: &RunInputs<'_>,
    policy: usize,
    faults: &[Fault],
    launches_at_once: bool,
) -> Guarantees {
    let device = &inputs.scenario.device;
    let settings = &inputs.scenario.policies[policy].settings;
    let max_batch = match inputs.largest_batches(policy) {
        Some(Batches::Nodes(largest)) => largest.into_iter().max().unwrap_or(0),
        Some(Batches::Requests(largest)) => largest,
        None => u32::MAX,
    };
    let kind = settings.describe().name;
    let never_waits = match kind {
        "cellular" | "late" | "merged" | "fold" | "ideal" | "unbatched" | "dynet" => true,
        "padded" => settings.value("window") == Some(&"0ns".into()),
        _ => false,
    };
    let loses_tasks = faults.contains(&Fault::Lost) || faults.contains(&Fault::Refused);
    // Operators that need no state, such as look-ups, run ahead of their cells. Noise may shorten tasks.
    let has_exact_costs = device.grnn.is_none() && device.noise.is_none();
    Guarantees {
        max_batch,
        // A worker whose completion is late, or whose launch takes time, seems to idle.
        work_conserving: never_waits && launches_at_once && !faults.contains(&Fault::Late),
        pins: ["cellular", "late"].contains(&kind),
        bounded: !loses_tasks && has_exact_costs && !settings.runs_operators(),
        holds_back: settings.value("preserve_ordering") == Some(&true.into()),
        cases: 0,
    }
}

/// Replays every run from its logs, to which the events of these records are added.
fn replay_runs(folder: &Path, records: &[CheckedRun], registry: &Registry) -> Result<()> {
    let results = Results::open(folder, registry)?;
    assert_eq!(results.points.len(), records.len(), "each run has a folder");
    for (point, record) in results.points.iter().zip(records) {
        write::write_rounds(
            &point.folder.join(RoundLine::FILE),
            &record.recorder.execution,
        )?;
        let inputs = RunInputs::new(&results.scenarios[point.variant])?;
        let (replay, _) = replay_with_ledger(&inputs, point, None)?;
        if let Some(difference) = replay.difference {
            return Err(Error::failure(difference));
        }
    }
    Ok(())
}
