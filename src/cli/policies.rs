//! `batchlab policies`: what a scenario's `kind` can be.

use super::print;
use crate::error::Result;
use crate::policy::registry::Registry;

/// List the policies that a scenario can name, with their keys
#[derive(clap::Args, Clone, Debug)]
pub struct Args {}

/// Prints the list.
///
/// # Errors
/// Standard output that can't be written.
pub fn run(_: &Args, registry: &Registry) -> Result<()> {
    let mut text = String::new();
    for kind in registry.kinds() {
        text.push_str(&format!("{kind:<12}{}\n", registry.about(kind).unwrap_or_default()));
        let keys = registry.keys(kind).unwrap_or_default();
        if !keys.is_empty() {
            text.push_str(&format!("{:<12}keys: {}\n", "", keys.join(", ")));
        }
    }
    print(&text)
}
