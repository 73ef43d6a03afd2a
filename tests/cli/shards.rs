//! `--plan`, `--shard` and `--merge-only`.

#![expect(clippy::disallowed_methods, reason = "waits for a child process")]

use std::fs;
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::desk::{Desk, Ran, SCENARIO, program, same};

/// 3 replications of 2 loads of A and of B twice, in 2 combinations: 36 points.
const SWEEP: [&str; 10] = [
    "sim",
    "t.toml",
    "--replications",
    "3",
    "--sweep",
    "device.workers=1,2",
    "--sweep",
    "policy.B.max_batch=4,8",
    "--set",
    "output.plots=['latency-throughput', 'latency-cdf']",
];

/// 4 replications of two policies, whose runs have to grow.
const KNEE: [&str; 12] = [
    "find-knee",
    "t.toml",
    "--slo",
    "20ms",
    "--replications",
    "4",
    "--tolerance",
    "0.05",
    "--max-requests",
    "4000",
    "--sweep",
    "device.workers=1,2",
];

const WORKERS: [&str; 14] = [
    "find-workers",
    "t.toml",
    "--slo",
    "20ms",
    "--rate",
    "900",
    "--replications",
    "2",
    "--tolerance",
    "0.05",
    "--max-requests",
    "4000",
    "--sweep",
    "policy.B.max_batch=2,4,8",
];

fn desk() -> Desk {
    let desk = Desk::new();
    desk.write("t.toml", format!("{SCENARIO}[output]\ntimeline = true\n"));
    desk
}

struct Sharded<'d> {
    desk: &'d Desk,
    command: &'d [&'d str],
    out: &'d str,
}

impl Sharded<'_> {
    fn run(&self, more: &[&str]) -> Ran {
        self.desk
            .run(&[self.command, &["--out", self.out, "--threads", "1"], more].concat())
    }

    fn shard(&self, shard: &str) -> Ran {
        self.run(&["--shard", shard]).ok()
    }

    fn start(&self, shard: &str) -> Child {
        let words = [
            self.command,
            &["--out", self.out, "--threads", "1", "--shard", shard],
        ]
        .concat();
        self.desk
            .command(&words)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// What the merge prints is what one process prints.
    #[track_caller]
    fn merged(&self, reference: &Ran) {
        let merged = self.run(&["--resume", "-q"]).ok();
        assert_eq!(merged.stdout, reference.stdout);
        same(&self.desk.files("reference"), &self.desk.files(self.out));
    }
}

/// One process, shards one after the other, killed ones, and all at once.
#[track_caller]
fn come_to_the_same(command: &[&str]) {
    let desk = desk();
    let of = |out| Sharded {
        desk: &desk,
        command,
        out,
    };
    let reference = of("reference").run(&["-q"]).ok();

    let in_turn = of("in-turn");
    for shard in [3, 7, 1, 6, 2, 5, 4] {
        let ran = in_turn.shard(&format!("{shard}/7"));
        assert_eq!(ran.stdout, "", "a shard has no results to show");
    }
    in_turn.merged(&reference);

    let killed = of("killed");
    for (shard, milliseconds) in [(2, 20), (5, 60), (7, 110)] {
        let mut child = killed.start(&format!("{shard}/7"));
        sleep(Duration::from_millis(milliseconds));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    (1..=7).for_each(|shard| drop(killed.shard(&format!("{shard}/7"))));
    killed.merged(&reference);

    let at_once = of("at-once");
    let children: Vec<Child> = (1..=7)
        .map(|shard| at_once.start(&format!("{shard}/7")))
        .collect();
    for child in children {
        Ran::from(child.wait_with_output().unwrap()).ok();
    }
    at_once.merged(&reference);
}

#[test]
fn shards_of_a_sweep_come_to_the_files_of_one_process() {
    come_to_the_same(&SWEEP);
}

#[test]
fn shards_of_find_knee_come_to_the_files_of_one_process() {
    come_to_the_same(&KNEE);
}

#[test]
fn shards_of_find_workers_come_to_the_files_of_one_process() {
    come_to_the_same(&WORKERS);
}

#[test]
fn a_merge_names_the_shards_that_are_missing() {
    let desk = desk();
    let run = Sharded {
        desk: &desk,
        command: &SWEEP,
        out: "out",
    };
    for shard in [1, 3, 4, 7] {
        run.shard(&format!("{shard}/7"));
    }
    fs::remove_file(desk.path("out/t/A/100,device.workers=1/tasks.csv")).unwrap();
    let before = desk.files("out");
    let missing = run.run(&["--merge-only"]);
    missing.failed(
        3,
        " of 36 points are missing; of 7 shards, run again --array=1-2,5-6; or call --resume",
    );
    assert!(
        missing.stderr.starts_with("batchlab: out/t: 16 of"),
        "{missing:?}"
    );
    same(&before, &desk.files("out"));
    for shard in [1, 2, 5, 6] {
        run.shard(&format!("{shard}/7"));
    }
    run.run(&["--merge-only"]).ok();
    assert_eq!(desk.rows("out/t/summary.csv").len(), 12);
}

#[test]
fn a_merge_of_several_scenarios_names_the_shards_of_each() {
    let desk = desk();
    desk.write("u.toml", SCENARIO.replace("name = \"t\"", "name = \"u\""));
    let sim = |words: &[&str]| {
        desk.run(&[&["sim", "t.toml", "u.toml", "--out", "out"][..], words].concat())
    };
    // The first half of the points are those of t.
    sim(&["--shard", "1/2"]).ok();
    desk.run(&["sim", "t.toml", "--out", "out", "--resume"])
        .ok();
    let missing = sim(&["--merge-only"]);
    missing.failed(3, "out/t, out/u: 4 of 8 points are missing; of 2 shards, run again --array=2; or call --resume");
    sim(&["--shard", "2/2"]).ok();
    sim(&["--merge-only"]).ok();
    assert!(desk.path("out/u/summary.csv").is_file());
}

#[test]
fn a_search_goes_on_where_it_was() {
    let desk = desk();
    let run = Sharded {
        desk: &desk,
        command: &KNEE,
        out: "out",
    };
    run.run(&["--merge-only"]).failed(
        3,
        "out/t: 16 of 16 points are missing; or call --resume to compute them here",
    );
    run.shard("2/4");
    let missing = run.run(&["--merge-only"]);
    assert!(
        missing.code == Some(3) && missing.stderr.contains("of 4 shards, run again --array=1"),
        "{missing:?}"
    );
    let whole = run.run(&["--resume", "-q"]).ok().stdout;
    let knees = desk.read("out/t/knee.csv");
    assert_eq!(run.run(&["--merge-only", "-q"]).ok().stdout, whole);
    assert_eq!(desk.read("out/t/knee.csv"), knees);
    run.run(&["--resume", "--seed", "2"])
        .failed(2, "search.json: was run with other settings");
    run.run(&["--resume", "--max-rejected", "0.5"])
        .failed(2, "search.json: was run with other settings");
}

#[test]
fn a_plan_lists_the_points() {
    let desk = desk();
    let run = Sharded {
        desk: &desk,
        command: &SWEEP,
        out: "out",
    };
    let plan = |more: &[&str]| {
        run.run(&[&["--plan", "--format", "json"], more].concat())
            .ok()
            .results()
    };
    let all = plan(&[]);
    assert!(!desk.path("out").exists(), "a plan writes nothing");
    assert_eq!(all.len(), 36);
    assert_eq!(
        (&all[0]["point"], &all[35]["point"], &all[35]["replication"]),
        (&1.into(), &36.into(), &3.into())
    );
    assert!(
        all.iter()
            .all(|point| point["finished"] == false && point["cost"] == 200)
    );
    assert_eq!(
        all[0]["swept"],
        serde_json::json!([["device.workers", "1"]])
    );
    let shares: Vec<_> = (1..=5)
        .flat_map(|shard| plan(&["--shard", &format!("{shard}/5")]))
        .collect();
    assert_eq!(shares, all, "each point is in one shard");
    run.shard("2/5");
    let finished = plan(&[]);
    let own = plan(&["--shard", "2/5"]);
    assert!(own.iter().all(|point| point["finished"] == true), "{own:?}");
    assert_eq!(
        finished
            .iter()
            .filter(|point| point["finished"] == true)
            .count(),
        own.len()
    );
    let planned = run.run(&["--plan"]).ok();
    // 200 requests of 108 bytes.
    assert!(
        planned
            .stderr
            .contains("memory: about 0 MiB for the largest run, 0 MiB for "),
        "{planned:?}"
    );
    let table = planned.stdout;
    assert_eq!(table.lines().count(), 37);
    assert!(table.lines().nth(1).unwrap().starts_with("1"), "{table}");
    let knees = desk.run(&[&KNEE[..], &["--plan"]].concat()).ok().stdout;
    assert_eq!(knees.lines().count(), 1 + 16, "{knees}");
}

#[test]
fn a_long_plan_shows_its_ends() {
    let desk = desk();
    let rates: Vec<String> = (1..=501).map(|rate| rate.to_string()).collect();
    let rates = format!("arrivals.rates=[{}]", rates.join(","));
    let words = [
        "sim",
        "t.toml",
        "--out",
        "out",
        "--plan",
        "--set",
        &rates,
        "--set",
        "workload.requests=1000000",
    ];
    let planned = desk.run(&words).ok();
    let lines: Vec<&str> = planned.stdout.lines().collect();
    assert_eq!(lines.len(), 1 + 20 + 1, "{planned:?}");
    assert!(lines[1].starts_with("1 ") && lines[20].starts_with("1002 "));
    assert_eq!(
        lines[21],
        "and 982 points between them, which --format json lists; finished: 0 of 1002"
    );
    // 4 bytes for a request, and 44 for its record and summary.
    let one = "memory: about 46 MiB for the largest run, ";
    assert!(planned.stderr.contains(one), "{planned:?}");
    let two = desk.run(&[&words[..], &["--threads", "2"]].concat()).ok();
    assert!(
        two.stderr.contains("run, 88 MiB for 2 at once; free: "),
        "{two:?}"
    );
    let all = desk
        .run(&[&words[..], &["--format", "json"]].concat())
        .ok()
        .results();
    assert_eq!(all.len(), 1002);
}

#[test]
fn too_many_combinations_are_refused() {
    let desk = desk();
    let values: Vec<String> = (1..=400).map(|value| value.to_string()).collect();
    let workers = format!("device.workers={}", values.join(","));
    let batches = format!("policy.A.max_batch={}", values.join(","));
    desk.sim(&["--plan", "--sweep", &workers, "--sweep", &batches])
        .failed(
            2,
            "all swept keys together have 160400 combinations, and at most 100000 are allowed; take fewer values",
        );
}

/// The limit of the address space stands for a small machine.
#[cfg(target_os = "linux")]
#[test]
fn runs_that_need_more_memory_than_there_is_are_refused() {
    let desk = desk();
    let run = |requests: &str, more: &str| {
        let words = format!(
            "ulimit -v 2000000; exec \"$0\" sim t.toml --out out --threads 2 --set workload.requests={requests} {more}"
        );
        let mut command = std::process::Command::new("sh");
        command
            .args(["-c", &words, env!("CARGO_BIN_EXE_batchlab")])
            .current_dir(desk.path(""));
        let output = command.output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        (output.status.code(), stderr)
    };
    let (code, stderr) = run("50000000", "");
    assert_eq!(code, Some(2), "{stderr}");
    for part in [
        "batchlab: t.toml: workload.requests = 50000000 with 2 runs at once needs about 4.3 GiB of memory, and ",
        " are free; set output.record = \"stream\", which forgets requests that have left, or draw fewer; fewer --threads \
         take less\n",
    ] {
        assert!(stderr.contains(part), "{stderr}");
    }
    assert!(!desk.path("out").exists());
    let (code, stderr) = run("2000", "");
    assert_eq!(code, Some(0), "{stderr}");
}

#[test]
fn mistakes_are_refused() {
    let desk = desk();
    for shard in ["0/4", "5/4", "4"] {
        let ran = desk.sim(&["--shard", shard]);
        assert!(
            ran.code == Some(2)
                && ran
                    .stderr
                    .contains("is not I/N with I from 1 to N, such as 2/7"),
            "{ran:?}"
        );
    }
    let both = desk.sim(&["--shard", "1/2", "--merge-only"]);
    assert!(
        both.code == Some(2) && both.stderr.contains("cannot be used with"),
        "{both:?}"
    );
    desk.sim(&["--shard", "1/2"]).ok();
    let before = desk.files("out");
    let other = "out/t/run.json: was run with other settings, seed, input files or another version of the program";
    desk.sim(&["--resume", "--seed", "2"])
        .failed(2, "was run with other settings");
    desk.sim(&["--shard", "2/2", "--seed", "2"])
        .failed(2, other);
    same(&before, &desk.files("out"));
    let run = desk.read("out/t/run.json");
    desk.write(
        "out/t/run.json",
        run.replacen("\"format\": 1", "\"format\": 7", 1),
    );
    desk.sim(&["--shard", "2/2"]).failed(
        2,
        "out/t/run.json: is of format 7, but this version of the program goes on",
    );
    desk.write("out/t/run.json", run);
    desk.sim(&["--resume"]).ok();
}

/// A shard in whose way something stands leaves what the others have, and its own points for later.
#[test]
fn a_shard_that_fails_harms_no_other() {
    let desk = desk();
    desk.run(&["sim", "t.toml", "--out", "reference", "-q"])
        .ok();
    desk.write("out", "");
    desk.sim(&["--shard", "1/2"]).failed(1, "cannot be written");
    fs::remove_file(desk.path("out")).unwrap();
    desk.sim(&["--shard", "1/2"]).ok();
    // In the place of a point's folder.
    desk.write("out/t/A/200", "");
    let failed = desk.sim(&["--shard", "2/2", "--threads", "1"]);
    failed.failed(1, "out/t/A/200: cannot be written");
    fs::remove_file(desk.path("out/t/A/200")).unwrap();
    desk.sim(&["--merge-only"])
        .failed(3, "of 2 shards, run again --array=");
    desk.sim(&["--shard", "1/2"]).ok();
    desk.sim(&["--shard", "2/2"]).ok();
    desk.sim(&["--merge-only"]).ok();
    same(&desk.files("reference"), &desk.files("out"));
}

#[test]
fn shards_exclude_other_runs_and_not_each_other() {
    let desk = desk();
    let run = Sharded {
        desk: &desk,
        command: &SWEEP,
        out: "out",
    };
    let mut child = run.start("1/2");
    let patience = Instant::now();
    while !desk.path("out/t/run.json").exists() {
        assert!(
            patience.elapsed() < Duration::from_secs(60),
            "the shard does not get on"
        );
        sleep(Duration::from_millis(1));
    }
    let pid = child.id().to_string();
    let signal = |name: &str| {
        std::process::Command::new("kill")
            .args([name, &pid])
            .status()
            .unwrap()
    };
    assert!(signal("-STOP").success());
    run.run(&["--resume"])
        .failed(2, "out/t: another run is writing to this folder");
    run.shard("2/2");
    assert!(signal("-KILL").success());
    child.wait().unwrap();
    run.run(&["--resume"]).ok();
}

/// A scenario, and a study of three.
#[test]
fn shards_of_reproduce_come_to_the_files_of_one_process() {
    let desk = desk();
    let reproduce = |out: &str, more: &[&str]| {
        let mut command = program();
        command.current_dir(env!("CARGO_MANIFEST_DIR")).args([
            "reproduce",
            "-q",
            "batchmaker",
            "fig5",
            "dvabatch",
        ]);
        Ran::from(
            command
                .args(["fig3", "--out"])
                .arg(desk.path(out))
                .args(more)
                .output()
                .unwrap(),
        )
    };
    let mut reference = reproduce("reference", &[]).ok().stdout;
    assert_eq!(
        reproduce("out", &["--plan", "--format", "json"])
            .ok()
            .results()
            .last()
            .unwrap()["finished"],
        false
    );
    reproduce("out", &["--shard", "2/2"]).ok();
    let missing = reproduce("out", &["--merge-only"]);
    assert!(
        missing.code == Some(3) && missing.stderr.contains("of 2 shards, run again --array=1"),
        "{missing:?}"
    );
    reproduce("out", &["--shard", "1/2"]).ok();
    let merged = reproduce("out", &["--merge-only"]).ok().stdout;
    reference = reference.replace("/reference/", "/out/");
    assert_eq!(merged, reference);
    same(&desk.files("reference"), &desk.files("out"));
}
