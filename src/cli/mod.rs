//! The command line: a file for each command.

pub mod trace;
