use crate::gpu_settings::{LaunchBy, Precision, Settings, Signal};

pub type Named<T> = (&'static str, T);

pub fn precisions() -> [Named<Precision>; 4] {
    Precision::ALL.map(|precision| (precision.name(), precision))
}

pub const SIGNALS: [Named<Signal>; 2] = [("fused", Signal::Fused), ("kernel", Signal::Kernel)];

pub const LAUNCHES: [Named<LaunchBy>; 2] = [("graph", LaunchBy::Graph), ("kernels", LaunchBy::Kernels)];

pub fn names(settings: &Settings) -> [&'static str; 3] {
    let Settings { precision, signal, launch } = settings;
    [precision.name(), name(&SIGNALS, signal), name(&LAUNCHES, launch)]
}

pub fn parse<T: Copy>(choices: &[Named<T>], name: &str) -> Result<T, String> {
    let found = choices.iter().find(|(known, _)| *known == name);
    let known = || choices.iter().map(|(known, _)| *known).collect::<Vec<_>>().join(", ");
    found.map(|(_, value)| *value).ok_or_else(|| format!("unknown value \"{name}\"; known: {}", known()))
}

fn name<T: PartialEq>(choices: &[Named<T>], value: &T) -> &'static str {
    choices.iter().find(|(_, choice)| choice == value).expect("each value has a name").0
}
