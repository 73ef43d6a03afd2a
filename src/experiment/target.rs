//! What an experiment runs on: the one thing in which simulated and real experiments differ.

use std::borrow::Cow;
use std::fs;
use std::num::NonZero;
use std::thread::available_parallelism;

use crate::scenario::Scenario;

/// What runs the tasks of an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Simulated devices on a virtual clock. Runs are independent of each other and of the host, so that they are spread over
    /// threads, and each replication draws a workload of its own.
    Sim,
    /// A device that computes, on the monotonic clock. Runs would disturb each other, so that they go one after the other, and
    /// every repeat has the same requests at the same times: what differs between repeats is the machine's noise.
    Real(Processor, Verify),
}

/// A device that computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Processor {
    /// This machine's processor; a worker is a thread.
    Cpu,
    /// This machine's GPUs; each of them is a worker.
    Cuda,
}

impl Processor {
    /// Its name in results.
    pub fn name(self) -> &'static str {
        match self {
            Processor::Cpu => "cpu",
            Processor::Cuda => "cuda",
        }
    }
}

/// Which requests of a real run are compared with the same requests run alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verify {
    /// None.
    None,
    /// A few, which the seed draws.
    #[default]
    Sample,
    /// All that finished.
    All,
}

/// The bound on the requests in the system in real runs, unless the scenario has one: they are held in memory, with their
/// states.
const MAX_WAITING: u32 = 1_000_000;

impl Target {
    /// Its name in results.
    pub fn name(self) -> &'static str {
        match self {
            Target::Sim => "sim",
            Target::Real(processor, _) => processor.name(),
        }
    }

    /// Whether it computes, on a real clock.
    pub fn is_real(self) -> bool {
        self != Target::Sim
    }

    /// The scenario with what it leaves to the backend.
    pub fn completed(self, scenario: &Scenario) -> Cow<'_, Scenario> {
        if !self.is_real() || scenario.device.max_waiting.is_some() {
            return Cow::Borrowed(scenario);
        }
        let mut completed = scenario.clone();
        completed.device.max_waiting = Some(MAX_WAITING);
        Cow::Owned(completed)
    }
}

/// This machine's processor: its name and the number of cores that this process may use.
pub fn this_processor() -> String {
    let about = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let cores = available_parallelism().map_or(1, NonZero::get);
    format!("{}, {cores} {}", model_name(&about).unwrap_or("unknown CPU"), if cores == 1 { "core" } else { "cores" })
}

/// The name of the first processor in the text of `/proc/cpuinfo`.
fn model_name(about: &str) -> Option<&str> {
    let names = about.lines().filter_map(|line| line.split_once(':')).filter(|(key, _)| key.trim() == "model name");
    names.map(|(_, name)| name.trim()).find(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processor_has_a_name() {
        let about =
            "processor\t: 0\nmodel\t\t: 85\nmodel name\t: Some CPU @ 2.00GHz\nflags\t: a b\nmodel name\t: Other\n";
        assert_eq!(model_name(about), Some("Some CPU @ 2.00GHz"));
        assert_eq!(model_name("Hardware : board\nmodel name :\n"), None);
        assert!(this_processor().contains(" core"));
    }
}
