//! Equal seeds give equal bytes.

use crate::desk::{Desk, SCENARIO, same};

/// A scenario that writes every kind of file.
fn full() -> Desk {
    let desk = Desk::new();
    let output = "[output]\ntimeline = true\n";
    desk.write(
        "t.toml",
        format!(
            "{SCENARIO}[[policy]]\nkind = \"merged\"\n[[policy]]\nkind = \"immediate\"\n{output}"
        ),
    );
    desk
}

#[test]
fn the_same_bytes_on_any_number_of_threads() {
    let desk = full();
    let run = |out: &str, threads: &str| {
        let ran = desk
            .run(&[
                "sim",
                "t.toml",
                "-q",
                "--replications",
                "2",
                "--out",
                out,
                "--threads",
                threads,
                "--set",
                "output.plots=['queue-cdf']",
            ])
            .ok();
        (desk.files(out), ran.stdout)
    };
    let (files, printed) = run("one", "1");
    assert!(
        files.keys().any(|name| name.ends_with(".png"))
            && files.keys().any(|name| name.ends_with("timeline.json"))
    );
    for (out, threads) in [("two", "2"), ("seven", "7")] {
        let (others, also_printed) = run(out, threads);
        same(&files, &others);
        assert_eq!(printed, also_printed);
    }
    same(&files, &run("two", "1").0); // over the results of an earlier run
}

#[test]
fn another_seed_gives_other_requests() {
    let desk = Desk::new();
    desk.sim(&["--seed", "1"]).ok();
    let first = desk.read("out/t/A/100/requests.csv");
    desk.sim(&["--seed", "2"]).ok();
    assert_ne!(first, desk.read("out/t/A/100/requests.csv"));
    desk.sim(&[]).ok();
    assert_eq!(
        first,
        desk.read("out/t/A/100/requests.csv"),
        "the default seed is 1"
    );
}

#[test]
fn policies_do_not_touch_each_other() {
    let desk = full();
    desk.sim(&[]).ok();
    let text = desk.read("t.toml");
    let (head, policies) = text.split_once("[[policy]]").unwrap();
    let (policies, output) = policies.split_once("[output]").unwrap();
    let mut policies: Vec<&str> = policies.split("[[policy]]").collect();
    policies.reverse();
    desk.write(
        "t.toml",
        format!(
            "{head}[[policy]]{}[output]{output}",
            policies.join("[[policy]]")
        ),
    );
    desk.run(&["sim", "t.toml", "-q", "--out", "reversed"]).ok();
    let logs = |out: &str| {
        let mut files = desk.files(out);
        files.retain(|name, _| name.matches('/').count() == 3 && !name.ends_with("point.json"));
        files
    };
    assert_eq!(logs("out").len(), 4 * 2 * 4);
    same(&logs("out"), &logs("reversed"));
}

#[test]
fn every_policy_replays_the_same_requests() {
    let desk = full();
    desk.sim(&[]).ok();
    for point in ["100", "200"] {
        let of = |policy: &str, column: &str| {
            desk.column(&format!("out/t/{policy}/{point}/requests.csv"), column)
        };
        let (ids, arrivals) = (of("A", "id"), of("A", "arrival_ns"));
        assert_eq!(ids, (0..200).map(|id| id.to_string()).collect::<Vec<_>>());
        for policy in ["B", "merged", "immediate"] {
            assert_eq!(
                (&of(policy, "id"), &of(policy, "arrival_ns")),
                (&ids, &arrivals),
                "{policy}"
            );
        }
    }
}
