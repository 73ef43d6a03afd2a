//! Swarm testing: random scenarios on devices with faults, each with other features switched on.
//!
//! A case is a scenario file. All laws of the [conformance kit](crate::core::conformance) must hold, each request must leave,
//! a replay must decide the same, and the files must not depend on the number of threads. A refusal of the scenario is
//! no failure. A case that fails is reduced while the same law is broken.

mod draw;
mod faults;
mod shrink;

use std::fmt;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use self::draw::Case;
pub use self::faults::Fault;
use self::faults::Faulty;
use self::shrink::smallest;
use crate::base::error::{Error, Result};
use crate::base::units::Nanos;
use crate::core::conformance::Guarantees;
use crate::core::conformance::laws::{self, Given};
use crate::core::conformance::record::Record;
use crate::core::cost::{CostModel as _, Extra};
use crate::core::metrics::recorder::Keep;
use crate::core::policy::registry::{Batches, Registry};
use crate::lab::results::columns::name_of;
use crate::lab::results::logs::{LogRow as _, RoundLine};
use crate::lab::results::write;
use crate::lab::run::device::Device;
use crate::lab::run::executor::Target;
use crate::lab::run::inputs::Inputs;
use crate::lab::run::{self, Options, Run, prepare};
use crate::lab::scenario::Scenario;
use crate::lab::validate::ledger::replayed;
use crate::lab::validate::results::Results;

/// The cases of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub cases: u64,
    pub refused: u64,
    pub runs: usize,
    pub broken: u64,
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts {
            cases,
            refused,
            runs,
            broken,
        } = self;
        write!(
            f,
            "{cases} cases, {refused} of them refused, with {runs} runs: {broken} break a law"
        )
    }
}

/// Draws and checks a case for each seed until `stop` is set. `tell` gets a text on each case that fails; its reduced
/// files stay in `out`.
///
/// # Errors
/// `out` can't be written, or `tell` fails.
pub fn search(
    seeds: impl Iterator<Item = u64>,
    registry: &Registry,
    out: &Path,
    stop: &AtomicBool,
    mut tell: impl FnMut(&str) -> Result<()>,
) -> Result<Counts> {
    let mut counts = Counts::default();
    for seed in seeds.take_while(|_| !stop.load(Ordering::Relaxed)) {
        let (case, folder) = (Case::draw(seed, registry), out.join(seed.to_string()));
        let test = |case: &Case| {
            Ok(check(
                &case.write(&folder)?,
                &case.faults,
                registry,
                &folder,
            ))
        };
        counts.cases += 1;
        let broken = match test(&case)? {
            Ok(runs) => {
                counts.runs += runs;
                None
            }
            Err(Error::Input(_)) => {
                counts.refused += 1;
                None
            }
            Err(error) => Some(smallest(case, error.to_string(), &test)?),
        };
        // What can't be removed is written over by the next case of this seed.
        let _ = fs::remove_dir_all(&folder);
        if let Some((small, how)) = broken {
            counts.broken += 1;
            tell(&described(seed, &how, &small, &small.write(&folder)?))?;
        }
    }
    Ok(counts)
}

fn described(seed: u64, how: &str, case: &Case, file: &Path) -> String {
    let names: Vec<String> = case.faults.iter().map(name_of).collect();
    let faults = if names.is_empty() {
        String::new()
    } else {
        format!(" --faults {}", names.join(","))
    };
    let (files, file) = (
        case.files.keys().copied().collect::<Vec<_>>().join(", "),
        file.display(),
    );
    let scenario = case.scenario.to_string();
    format!(
        "seed {seed}: {how}\nthe smallest case found, with {files} beside it:\n\n{scenario}\nrepeat it with: \
         batchlab swarm --case {file}{faults}\n"
    )
}

/// Runs a scenario file, with its sweep, in all the ways that must agree, and returns the number of runs, each a policy
/// under a load. Results go to folders in `out`.
///
/// # Errors
/// [`Error::Input`] if the scenario is refused; others begin with the name of a broken law and a colon.
pub fn check(file: &Path, faults: &[Fault], registry: &Registry, out: &Path) -> Result<usize> {
    // Simulators live as long as the program, and a list of faults is small.
    let device: &'static Faulty = Box::leak(Box::new(Faulty(faults.to_vec())));
    catch_unwind(AssertUnwindSafe(|| {
        keeps_the_laws(file, device, registry, out)
    }))
    .unwrap_or_else(|panic| {
        let text = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or(panic.downcast_ref::<&str>().copied());
        Err(Error::failed(format!(
            "panic: {}",
            text.unwrap_or("without a message")
        )))
    })
}

fn keeps_the_laws(
    file: &Path,
    device: &'static Faulty,
    registry: &Registry,
    out: &Path,
) -> Result<usize> {
    let target = Target::Simulated(device);
    let scenarios = Scenario::expand(file, &[], &[], registry)?;
    let mut records = Vec::new();
    for scenario in &scenarios {
        let (inputs, prepared) = prepare(scenario, target)?;
        for policy in 0..scenario.policies.len() {
            for load in scenario.points() {
                records.push(served(
                    &inputs,
                    &prepared,
                    &Run {
                        policy,
                        load,
                        replication: 0,
                    },
                    device,
                )?);
            }
        }
    }
    let on_threads = |threads: usize| {
        let out = out.join(format!("threads-{threads}"));
        let options = Options {
            target,
            out,
            replications: 2,
            resume: false,
            shard: None,
            stated: Vec::new(),
        };
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .map_err(Error::failed)?;
        pool.install(|| run::run_sweep(&scenarios, &options, &AtomicBool::new(false), &|| ()))
    };
    let (one, several) = (on_threads(1)?, on_threads(3)?);
    if format!("{:?}", one.rows) != format!("{:?}", several.rows) {
        return Err(Error::failed(
            "threads: the summary depends on their number",
        ));
    }
    for report in [one, several] {
        replays(&report.folder.path, &records, registry)
            .map_err(|error| Error::failed(format!("replay: {error}")))?;
    }
    Ok(records.len())
}

/// The record of a run that keeps the laws.
fn served(
    inputs: &Inputs<'_>,
    device: &Device,
    run: &Run,
    Faulty(faults): &Faulty,
) -> Result<Record> {
    let keep = Keep {
        tasks: true,
        rounds: true,
        ..Keep::default()
    };
    let mut prepared = inputs.prepare(run, keep)?;
    let requests = Arc::clone(&prepared.requests);
    let mut backend = device
        .simulated(inputs, run, &requests)
        .expect("the device is simulated");
    let record = Record::of(&mut *backend, true, inputs.streams(run.policy), |backend| {
        prepared
            .serve(backend, &AtomicBool::new(false))
            .map(|()| prepared.record)
    })?;
    if backend.now() == Nanos::MAX {
        return Err(Error::input("the clock ends before the run"));
    }
    let costs = device.costs(run.policy).expect("the device is simulated");
    let entry = &inputs.scenario.policies[run.policy];
    let (cells, sizes) = (&inputs.cells, entry.settings.batch_sizes());
    let given = Given {
        requests: &requests,
        cells,
        workers: inputs.workers(),
        device: costs,
        sizes,
    };
    let launched_at_once = costs.extra(Extra::Launch, 1) == Nanos::ZERO;
    let guarantees = guarantees(inputs, run.policy, faults, launched_at_once);
    let record = record.with_failures();
    let kept = match entry.settings.iterates() {
        true => laws::check_iterations(&record),
        false => laws::check(&given, &record, &guarantees),
    };
    kept.map_err(|law| Error::failed(format!("{law}\n\"{}\" at {}", entry.name(), run.load)))?;
    Ok(record)
}

/// What a policy promises on a device with such faults.
fn guarantees(
    inputs: &Inputs<'_>,
    policy: usize,
    faults: &[Fault],
    launched_at_once: bool,
) -> Guarantees {
    let Scenario {
        policies, device, ..
    } = inputs.scenario;
    let settings = &policies[policy].settings;
    let max_batch = match inputs.largest_batches(policy) {
        Some(Batches::Nodes(of_cells)) => of_cells.into_iter().max().unwrap_or(0),
        Some(Batches::Requests(most)) => most,
        None => u32::MAX,
    };
    let kind = settings.describe().name;
    let has = |key: &str, value: serde_json::Value| settings.value(key) == Some(&value);
    let never_waits = [
        "cellular",
        "late",
        "merged",
        "fold",
        "ideal",
        "unbatched",
        "dynet",
    ]
    .contains(&kind)
        || kind == "padded" && has("window", "0ns".into());
    // A worker whose completion is late, or whose launch takes time, seems to idle.
    let work_conserving = never_waits && launched_at_once && !faults.contains(&Fault::Late);
    let shorter = [Fault::Lost, Fault::Refused]
        .iter()
        .any(|fault| faults.contains(fault));
    let pins = ["cellular", "late"].contains(&kind);
    // Operators that need no state, such as look-ups, run ahead of their cells. Noise may shorten tasks.
    let exact = device.grnn.is_none() && device.noise.is_none();
    let bounded = !shorter && exact && !settings.runs_operators();
    let holds_back = has("preserve_ordering", true.into());
    Guarantees {
        max_batch,
        work_conserving,
        pins,
        bounded,
        holds_back,
        cases: 0,
    }
}

/// Replays every run from its logs, to which the events of these records are added.
fn replays(folder: &Path, records: &[Record], registry: &Registry) -> Result<()> {
    let results = Results::open(folder, registry)?;
    assert_eq!(results.points.len(), records.len(), "each run has a folder");
    for (point, record) in results.points.iter().zip(records) {
        write::write_rounds(&point.folder.join(RoundLine::FILE), &record.recorder)?;
        let inputs = Inputs::new(&results.scenarios[point.variant])?;
        if let Some(difference) = replayed(&inputs, point, None)?.0.difference {
            return Err(Error::failed(difference));
        }
    }
    Ok(())
}
