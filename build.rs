//! Tells the program which commit it is built from, so that results can name it.

use std::process::Command;

fn main() {
    // `include_dir` notices changed files, but not new ones.
    for path in ["scenarios", "traces", ".git/HEAD"] {
        println!("cargo::rerun-if-changed={path}");
    }
    println!("cargo::rerun-if-changed=.git/logs/HEAD");
    let commit = Command::new("git").args(["rev-parse", "HEAD"]).output().ok().filter(|output| output.status.success());
    let commit = commit.and_then(|output| String::from_utf8(output.stdout).ok());
    let commit = commit.as_deref().map_or("unknown", str::trim);
    println!("cargo::rustc-env=BATCHLAB_COMMIT={commit}");
    println!("cargo::rustc-env=BATCHLAB_SHORT_COMMIT={}", &commit[..7]);
}
