//! The `batchlab` program: the library's command line with the policies that come with it.

use std::process::ExitCode;

use batchlab::policy::registry::Registry;

fn main() -> ExitCode {
    batchlab::cli::main(&Registry::standard())
}
