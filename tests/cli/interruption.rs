//! Ctrl-C, `kill -9` and `--resume`.

#![expect(clippy::disallowed_methods, reason = "waits for a child process")]

use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::desk::{COSTS, Desk, Ran, SCENARIO, files_below, same};

const REQUESTS: usize = 600;

/// A sweep of sixteen points, long enough to be stopped on its way.
fn sweep() -> Desk {
    let desk = Desk::new();
    let text = SCENARIO
        .replace("[100, 200]", "[100, 120, 140, 160, 180, 200, 220, 240]")
        .replace("requests = 200", &format!("requests = {REQUESTS}"));
    desk.write("t.toml", format!("{text}[output]\ntimeline = true\n"));
    desk
}

const POINTS: usize = 16;

fn start(desk: &Desk, more: &[&str]) -> Child {
    let words = [&["sim", "t.toml", "--out", "out", "--threads", "1"], more].concat();
    desk.command(&words)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn finished_points(desk: &Desk) -> usize {
    desk.files("out")
        .keys()
        .filter(|name| name.ends_with("point.json"))
        .count()
}

/// Waits until this number of points is finished.
fn wait_for(desk: &Desk, points: usize) {
    let patience = Instant::now();
    while finished_points(desk) < points {
        assert!(
            patience.elapsed() < Duration::from_secs(60),
            "the sweep does not get on"
        );
        sleep(Duration::from_millis(2));
    }
}

fn interrupt(child: &Child) {
    let sent = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status()
        .unwrap();
    assert!(sent.success());
}

/// The runs that the last call carried out itself, as opposed to taking them over.
fn carried_out(desk: &Desk) -> usize {
    let host: Value = serde_json::from_str(&desk.read("out/t/host.json")).unwrap();
    host["runs"].as_array().unwrap().len()
}

/// Asserts that no file is half written.
fn whole(desk: &Desk) {
    for (name, bytes) in files_below(&desk.path("out")) {
        if name.contains(".partial/") {
            continue;
        }
        let text = String::from_utf8_lossy(&bytes);
        if name.ends_with(".json") {
            assert!(
                serde_json::from_slice::<Value>(&bytes).is_ok(),
                "{name} is no JSON"
            );
        } else if name.ends_with(".csv") {
            assert!(text.ends_with('\n'), "{name} ends within a line");
            let columns = |line: &str| line.split(',').count();
            let expected = columns(text.lines().next().unwrap());
            assert!(
                text.lines().all(|line| columns(line) == expected),
                "{name} has rows of other lengths"
            );
        }
        if name.ends_with("requests.csv") {
            assert_eq!(text.lines().count(), 1 + REQUESTS, "{name}");
        }
    }
}

#[test]
fn ctrl_c_keeps_what_is_finished_and_resume_goes_on() {
    let desk = sweep();
    desk.run(&["sim", "t.toml", "--out", "reference"]).ok();

    let child = start(&desk, &["--format", "json"]);
    wait_for(&desk, 3);
    interrupt(&child);
    let ran = Ran::from(child.wait_with_output().unwrap());
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let kept = finished_points(&desk);
    assert!((3..POINTS).contains(&kept), "{kept}");
    let message = format!(
        "interrupted: {kept} of 16 runs are finished and kept in out/t; go on with --resume\n"
    );
    assert!(ran.stderr.ends_with(&message), "{ran:?}");
    assert_eq!(
        ran.json()["rows"].as_array().unwrap().len(),
        kept,
        "what is finished is printed"
    );
    assert_eq!(desk.rows("out/t/summary.csv").len(), kept);
    whole(&desk);
    let reference = desk.files("reference");
    for (name, bytes) in desk
        .files("out")
        .iter()
        .filter(|(name, _)| name.matches('/').count() == 3)
    {
        assert!(
            reference[name] == *bytes,
            "{name} is not what an uninterrupted run has"
        );
    }

    desk.sim(&["--resume"]).ok();
    same(&reference, &desk.files("out"));
    assert_eq!(carried_out(&desk), POINTS - kept);
}

#[test]
fn a_killed_run_leaves_no_half_file() {
    let desk = sweep();
    desk.run(&["sim", "t.toml", "--out", "reference"]).ok();
    // A spread of moments that depends on nothing: before, within and behind the writing of points.
    for milliseconds in [5, 23, 61, 97, 142, 191, 230] {
        let mut child = start(&desk, &["--resume"]);
        sleep(Duration::from_millis(milliseconds));
        child.kill().unwrap();
        child.wait().unwrap();
        whole(&desk);
    }
    desk.sim(&["--resume"]).ok();
    same(&desk.files("reference"), &desk.files("out"));
}

#[test]
fn points_of_another_scenario_are_not_taken_over() {
    let desk = Desk::new();
    let sets = ["--replications", "2"];
    desk.sim(&sets).ok();
    let resume = |more: &[&str]| desk.sim(&[&sets[..], &["--resume"], more].concat());
    let taken_over = |more: &[&str], runs: usize| {
        resume(more).ok();
        let (taken, here) = (runs - carried_out(&desk), desk.files("out"));
        desk.run(&[&["sim", "t.toml", "--out", "fresh"], &sets[..], more].concat())
            .ok();
        same(&desk.files("fresh"), &here);
        taken
    };
    assert_eq!(taken_over(&[], 8), 8, "nothing has changed");
    assert_eq!(
        taken_over(&["--set", "output.title=x"], 8),
        8,
        "a title changes no figure"
    );
    assert_eq!(
        taken_over(&["--set", "arrivals.rates=[100, 200, 300]"], 12),
        8,
        "a load may be added"
    );

    let before = desk.files("out");
    let refused = |more: &[&str]| {
        resume(more).failed(2, "out/t/A/100/point.json: was run with other settings");
        same(&before, &desk.files("out"));
    };
    refused(&["--seed", "2"]);
    refused(&["--set", "device.workers=2"]);
    desk.write(
        "costs.csv",
        "cell,batch,ns\nlstm,1,1000000\nlstm,2,1200000\n",
    );
    refused(&[]);
    desk.write("costs.csv", COSTS);
    let lengths = desk.read("lengths.csv");
    desk.write("lengths.csv", "length,count\n2,1\n4,2\n9,2\n");
    refused(&[]);
    desk.write("lengths.csv", &lengths);
    desk.write("out/t/A/100/point.json", "{ \"fingerprint\": ");
    assert_eq!(
        taken_over(&["--set", "arrivals.rates=[100, 200, 300]"], 12),
        11,
        "a broken point is run again"
    );
    desk.sim(&sets).ok();
    assert_eq!(carried_out(&desk), 8, "without --resume all is run");
}

#[test]
fn a_run_clears_away_what_another_left() {
    let desk = Desk::new();
    desk.sim(&[
        "--replications",
        "3",
        "--set",
        "output.timeline=true",
        "--set",
        "output.plots=[\"gantt\"]",
    ]);
    desk.sim(&[
        "--replications",
        "3",
        "--set",
        "output.timeline=true",
        "--set",
        "output.plots=[\"goodput\"]",
    ]);
    desk.write("out/t/notes.txt", "mine");
    let less = [
        "--set",
        "arrivals.rates=[100]",
        "--set",
        "output.requests=false",
    ];
    desk.sim(&less).ok();
    assert_eq!(desk.read("out/t/notes.txt"), "mine");
    std::fs::remove_file(desk.path("out/t/notes.txt")).unwrap();
    desk.run(&[&["sim", "t.toml", "--out", "fresh"], &less[..]].concat())
        .ok();
    same(&desk.files("fresh"), &desk.files("out"));
}
