//! The keys of `[device]` that say how a GPU computes, with the names of their values.

use crate::gpu_settings::{LaunchBy, Precision, Settings, Signal};

/// A value of a key with its name.
pub type Named<T> = (&'static str, T);

/// The number formats of products.
pub fn precisions() -> [Named<Precision>; 4] {
    Precision::ALL.map(|precision| (precision.name(), precision))
}

/// What tells that a task is done.
pub const SIGNALS: [Named<Signal>; 2] = [("fused", Signal::Fused), ("kernel", Signal::Kernel)];

/// How the kernels of a task are started.
pub const LAUNCHES: [Named<LaunchBy>; 2] = [("graph", LaunchBy::Graph), ("kernels", LaunchBy::Kernels)];

/// The names of a precision, a signal and a launch.
pub fn names(settings: &Settings) -> [&'static str; 3] {
    let Settings { precision, signal, launch } = settings;
    [precision.name(), name(&SIGNALS, signal), name(&LAUNCHES, launch)]
}

/// The value of a name.
///
/// # Errors
/// Lists the known names.
pub fn parse<T: Copy>(choices: &[Named<T>], name: &str) -> Result<T, String> {
    let found = choices.iter().find(|(known, _)| *known == name);
    let known = || choices.iter().map(|(known, _)| *known).collect::<Vec<_>>().join(", ");
    found.map(|(_, value)| *value).ok_or_else(|| format!("unknown value \"{name}\"; known: {}", known()))
}

fn name<T: PartialEq>(choices: &[Named<T>], value: &T) -> &'static str {
    choices.iter().find(|(_, choice)| choice == value).expect("each value has a name").0
}
