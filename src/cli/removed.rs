//! Commands and options of earlier versions, which are refused with what replaces them.

use clap::error::{ContextKind, ContextValue};

use crate::base::error::Error;

/// The removed commands, each with the call that replaces it.
const COMMANDS: [(&str, &str); 2] = [
    (
        "find-window",
        "use batchlab tune SCENARIO --policy LABEL --over window=1ms,2ms,5ms",
    ),
    (
        "swarm",
        "use cargo test --test swarm -- --seed 1 --minutes 60 (in the repository)",
    ),
];

/// The removed options, each with what to do instead. No command has another option of these names.
const OPTIONS: [(&str, &str); 4] = [
    ("--linear", "use --y-scale linear"),
    ("--no-bars", "use --bars false"),
    (
        "--signal",
        "leave it out: the last kernel of a task always signals its end",
    ),
    (
        "--launch",
        "leave it out: kernels are launched as a graph where that is possible",
    ),
];

/// The error of a call with a removed command or option, given that of the parser.
pub fn refuse_removed(error: &clap::Error) -> Option<Error> {
    refuse(error, ContextKind::InvalidSubcommand, "command", &COMMANDS)
        .or_else(|| refuse(error, ContextKind::InvalidArg, "option", &OPTIONS))
}

/// The error of a name of this kind that is in a list of removed ones.
fn refuse(
    error: &clap::Error,
    kind: ContextKind,
    noun: &str,
    removed: &[(&str, &str)],
) -> Option<Error> {
    let Some(ContextValue::String(name)) = error.get(kind) else {
        return None;
    };
    let (_, instead) = removed.iter().find(|(known, _)| known == name)?;
    Some(Error::input(format!(
        "{name}: the {noun} was removed; {instead}"
    )))
}
