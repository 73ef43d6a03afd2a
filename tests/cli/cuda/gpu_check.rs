//! `scripts/gpu-check.sh` without a GPU: what its parts make of recorded results, and a part at its smallest size on
//! libraries that stand in for those of a GPU.

use std::path::Path;
use std::process::{Command, Output};

use super::Host;

/// Runs a command in the folder of the sources; `None` where its program is missing.
fn run(command: &mut Command) -> Option<Output> {
    command
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env("PYTHONDONTWRITEBYTECODE", "1");
    match command.output() {
        Ok(output) => Some(output),
        Err(cause) => {
            eprintln!("not checked: {:?}: {cause}", command.get_program());
            None
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn the_script_is_well_formed_and_names_its_parts() {
    let Some(parsed) = run(Command::new("bash").args(["-n", "scripts/gpu-check.sh"])) else {
        return;
    };
    assert!(parsed.status.success(), "{}", text(&parsed.stderr));
    let Some(listed) = run(Command::new("python3").args(["scripts/gpu/check.py", "--list"])) else {
        return;
    };
    let listed = text(&listed.stdout);
    for part in [
        "answers",
        "fused",
        "host",
        "three-ways",
        "persistent",
        "validate",
    ] {
        let known = listed.lines().any(|line| line.starts_with(part));
        assert!(known, "{part}: {listed}");
    }
}

#[test]
fn recorded_results_are_judged_as_they_should() {
    let mut command = Command::new("python3");
    let Some(tested) = run(command.args(["-m", "unittest", "discover", "-s", "scripts/gpu"]))
    else {
        return;
    };
    let said = text(&tested.stderr);
    assert!(tested.status.success() && said.contains("OK"), "{said}");
}

#[test]
fn a_part_runs_on_stand_ins_and_leaves_its_tables() {
    let Some(host) = Host::new() else { return };
    let out = host.desk.path("check");
    let mut command = Command::new("python3");
    let program = env!("CARGO_BIN_EXE_batchlab");
    command.args([
        "scripts/gpu/check.py",
        "--tiny",
        "--program",
        program,
        "--out",
    ]);
    command.arg(&out).args(["host", "networks"]);
    host.prepare(&mut command);
    let Some(ran) = run(&mut command) else { return };
    let said = text(&ran.stdout);
    assert!(ran.status.success(), "{said}\n{}", text(&ran.stderr));
    for line in [
        "SKIP the host's time for a task in bf16: no verdict at this size: us of the host a task: ",
        "PASS scenarios/dvabatch/real.toml: ",
        "host took ",
        "PASS: nothing failed, in ",
    ] {
        assert!(
            said.lines().any(|said| said.starts_with(line)),
            "{line}: {said}"
        );
    }
    for file in ["summary.txt", "host.tar.gz", "networks.tar.gz"] {
        assert!(Path::new(&out).join(file).is_file(), "{file}");
    }
}
