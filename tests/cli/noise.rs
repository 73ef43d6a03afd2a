//! `[device] noise`: simulations whose tasks take as long as a recorded device needs for their work.

use std::collections::BTreeMap;

use crate::desk::{Desk, same};

/// Without what names the record.
fn results(desk: &Desk, noise: &str, more: &[&str]) -> BTreeMap<String, Vec<u8>> {
    let out = format!("out-{noise}");
    let mut words = vec!["sim", "t.toml", "--quiet", "--out", &out];
    let set = format!("device.noise={noise}.csv");
    if noise != "none" {
        words.extend(["--set", &set]);
    }
    desk.run(&[&words, more].concat()).ok();
    let mut files = desk.files(&out);
    files.retain(|name, _| !name.ends_with(".json"));
    files
}

#[test]
fn a_factor_of_one_changes_nothing_and_a_quarter_more_is_exact() {
    let desk = Desk::new();
    desk.write(
        "ones.csv",
        "time_ns,size,factor,ns\n5,1,1,40\n90,2,1,1000\n2000000000,1,1,77\n",
    );
    desk.write(
        "quarter.csv",
        "# A comment\ntime_ns,size,factor,ns\n7,1,1.25,5000000\n",
    );
    // Its streams share a device.
    desk.write(
        "t.toml",
        desk.read("t.toml") + "[[policy]]\nkind = \"dvabatch\"\nlabel = \"C\"\n",
    );
    same(&results(&desk, "none", &[]), &results(&desk, "ones", &[]));

    results(&desk, "quarter", &[]);
    let tasks = desk.rows("out-quarter/t/A/200/tasks.csv");
    assert!(tasks.len() > 100);
    for task in tasks {
        let number = |column: &str| task[column].parse::<u64>().unwrap();
        let cost = 900_000 + 100_000 * number("batch");
        assert_eq!(
            4 * (number("finish_ns") - number("start_ns")),
            5 * cost,
            "{task:?}"
        );
    }
}

#[test]
fn each_replication_has_noise_of_its_own_and_a_seed_repeats_it() {
    let desk = Desk::new();
    // Without noise, all replications of these arrivals are the same.
    let text = desk
        .read("t.toml")
        .replace("poisson", "uniform")
        .replace("lengths.csv", "constant:4");
    desk.write("t.toml", text);
    let rows = (0..20_000u64).map(|ms| {
        format!(
            "{},1,{},1000000\n",
            ms * 1_000_000,
            1.0 + (ms / 700 % 5) as f64 / 10.0
        )
    });
    desk.write(
        "wander.csv",
        format!("time_ns,size,factor,ns\n{}", rows.collect::<String>()),
    );
    let replications = ["--replications", "3"];
    let first = results(&desk, "wander", &replications);
    results(&desk, "none", &replications);
    let intervals = |noise: &str| desk.column(&format!("out-{noise}/t/summary.csv"), "mean_ms_ci");
    assert_eq!(intervals("none"), [""; 4]);
    for half_width in intervals("wander") {
        assert!(half_width.parse::<f64>().unwrap() > 1e-9);
    }
    same(
        &first,
        &results(
            &desk,
            "wander",
            &[&replications[..], &["--threads", "1"]].concat(),
        ),
    );
    for task in desk.rows("out-wander/t/A/200/tasks.csv") {
        let number = |column: &str| task[column].parse::<u64>().unwrap();
        let tenths =
            10 * (number("finish_ns") - number("start_ns")) / (900_000 + 100_000 * number("batch"));
        assert!((10..15).contains(&tenths), "{task:?}");
    }
}

#[test]
fn a_task_starts_as_late_as_those_of_the_record() {
    let desk = Desk::new();
    desk.write(
        "t.toml",
        desk.read("t.toml") + "[[policy]]\nkind = \"dvabatch\"\nlabel = \"C\"\n",
    );
    let columns = "time_ns,size,factor,ns,late_ns\n";
    desk.write("prompt.csv", format!("{columns}5,1,1,40,\n500,8,,90,0\n"));
    desk.write("late.csv", format!("{columns}1000000,1,,1000000,7000000\n"));
    same(&results(&desk, "none", &[]), &results(&desk, "prompt", &[]));

    results(&desk, "late", &[]);
    for policy in ["A", "C"] {
        let tasks = desk.rows(&format!("out-late/t/{policy}/200/tasks.csv"));
        let mut free = BTreeMap::new();
        for task in &tasks {
            let number = |column: &str| task[column].parse::<u64>().unwrap();
            let lane = (number("worker"), number("stream"));
            let before = free.insert(lane, number("finish_ns")).unwrap_or(0);
            let due = before.max(number("submit_ns") + 7_000_000);
            assert_eq!(number("start_ns"), due, "{task:?}");
        }
        assert!(tasks.len() > 20);
    }
}

#[test]
fn mistakes_are_named() {
    let desk = Desk::new();
    desk.write("zero.csv", "time_ns,size,factor,ns\n5,1,0,9\n");
    desk.write("empty.csv", "time_ns,size,factor,ns\n");
    desk.write("both.csv", "time_ns,size,factor,ns,late_ns\n5,1,1,9,3\n");
    for (noise, message) in [
        ("none.csv", "device.noise: no such file: none.csv"),
        (
            "zero.csv",
            "t.toml: device.noise: zero.csv: row 1: factor 0 is out of range; from 0.000001 to 1000000",
        ),
        (
            "empty.csv",
            "empty.csv: no rows; batchlab profile -o COSTS.csv writes noise.csv",
        ),
        (
            "both.csv",
            "t.toml: device.noise: both.csv: row 1: a row has a factor (of a task's time) or late_ns (of a task's start); \
             give one of the two",
        ),
        (
            "costs.csv",
            "a noise record has the columns time_ns,size,factor,ns",
        ),
    ] {
        desk.refuses(&["--set", &format!("device.noise={noise}")], message);
    }
    desk.run(&["profile", "--cell", "lstm:4", "-o", "noise.csv"])
        .failed(2, "--out: noise.csv is the name of the record");
}
