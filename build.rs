//! Tells the program which commit it is built from, so that results can name it.

use std::path::Path;
use std::process::Command;

fn main() {
    // `include_dir` notices changed files, but not new ones.
    for path in ["kernels", "scenarios", "traces"] {
        println!("cargo::rerun-if-changed={path}");
    }
    // In a worktree `.git` is a file, and a path that does not exist would mean a new build each time.
    for file in ["HEAD", "logs/HEAD"] {
        if let Some(path) = git(&["--git-path", file]).filter(|path| Path::new(path).exists()) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    let commit = git(&["HEAD"]).unwrap_or_else(|| "unknown".into());
    println!("cargo::rustc-env=BATCHLAB_COMMIT={commit}");
    println!("cargo::rustc-env=BATCHLAB_SHORT_COMMIT={}", &commit[..7]);
}

/// What `git rev-parse` says; `None` without a repository.
fn git(words: &[&str]) -> Option<String> {
    let output = Command::new("git")
        .arg("rev-parse")
        .args(words)
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout)
        .ok()
        .filter(|_| output.status.success())?;
    Some(text.trim().to_string())
}
