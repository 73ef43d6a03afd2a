//! Commands of earlier versions, which are refused with their replacements.

use clap::error::{ContextKind, ContextValue};

use crate::base::error::Error;

/// The removed commands, each with the call that replaces it.
const REMOVED: [(&str, &str); 2] = [
    (
        "find-window",
        "batchlab tune SCENARIO --policy LABEL --over window=1ms,2ms,5ms",
    ),
    (
        "swarm",
        "cargo test --test swarm -- --seed 1 --minutes 60 (in the repository)",
    ),
];

/// The error of a call of a removed command, given that of the parser.
pub fn refuse_removed(error: &clap::Error) -> Option<Error> {
    let Some(ContextValue::String(name)) = error.get(ContextKind::InvalidSubcommand) else {
        return None;
    };
    let (name, replacement) = REMOVED.iter().find(|(removed, _)| removed == name)?;
    Some(Error::input(format!(
        "{name}: the command was removed; use {replacement}"
    )))
}
