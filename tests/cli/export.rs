//! `batchlab export`: all points in one table.

use std::process::Stdio;

use crate::desk::Desk;

fn swept() -> Desk {
    let desk = Desk::new();
    desk.sim(&[
        "--sweep",
        "device.workers=1,2",
        "--sweep",
        "policy.B.max_batch=4,8",
        "--replications",
        "2",
    ])
    .ok();
    desk
}

#[test]
fn requests_and_tasks_of_all_points_are_one_table() {
    let desk = swept();
    for (rows, file, columns) in [("requests", "requests.csv", 8), ("tasks", "tasks.csv", 8)] {
        desk.run(&["export", "out/t", "--rows", rows, "-o", "all.csv"])
            .ok();
        let all = desk.read("all.csv");
        let head: Vec<&str> = all.lines().next().unwrap().split(',').collect();
        assert_eq!(
            head[..6],
            [
                "scenario",
                "policy",
                "load",
                "device.workers",
                "policy.B.max_batch",
                "replication"
            ],
            "{all}"
        );
        assert_eq!(head.len(), 6 + columns);
        // Twice two loads of A, and four times two of B.
        let mut expected = Vec::new();
        for (policy, keys) in [
            ("A", vec![["1", ""], ["2", ""]]),
            ("B", vec![["1", "4"], ["1", "8"], ["2", "4"], ["2", "8"]]),
        ] {
            for [workers, batch] in keys {
                for load in ["100", "200"] {
                    let of_b = if batch.is_empty() {
                        String::new()
                    } else {
                        format!(",policy.B.max_batch={batch}")
                    };
                    let log = desk.read(&format!(
                        "out/t/{policy}/{load},device.workers={workers}{of_b}/{file}"
                    ));
                    expected.extend(
                        log.lines()
                            .skip(1)
                            .map(|row| format!("t,{policy},{load},{workers},{batch},1,{row}")),
                    );
                }
            }
        }
        let mut found: Vec<String> = all.lines().skip(1).map(String::from).collect();
        found.sort();
        expected.sort();
        assert_eq!(found, expected);
    }
}

#[test]
fn each_replication_and_class_has_its_summary() {
    let desk = swept();
    let printed = desk
        .run(&["export", "out/t", "--rows", "summaries"])
        .ok()
        .stdout;
    desk.run(&["export", "out/t", "--rows", "summaries", "--out", "s.csv"])
        .ok();
    assert_eq!(desk.read("s.csv"), printed);
    let (all, means) = (desk.rows("s.csv"), desk.rows("out/t/summary.csv"));
    assert_eq!(all.len(), 2 * means.len());
    for mean in means {
        let keys = ["policy", "device.workers", "policy.B.max_batch"];
        let own = all.iter().filter(|row| {
            row["load"] == mean["point"] && keys.iter().all(|key| row[*key] == mean[*key])
        });
        let p50: Vec<f64> = own.map(|row| row["p50_ms"].parse().unwrap()).collect();
        let mean: f64 = mean["p50_ms"].parse().unwrap();
        assert!(
            p50.len() == 2 && ((p50[0] + p50[1]) / 2.0 - mean).abs() < 2e-6,
            "{p50:?} {mean}"
        );
    }

    let classes = "[[class]]\nname = \"a\"\nshare = 0.5\n[[class]]\nname = \"b\"\nshare = 0.5\n";
    desk.write(
        "c.toml",
        crate::desk::SCENARIO.replace("name = \"t\"", "name = \"c\"") + classes,
    );
    desk.run(&["sim", "c.toml", "--out", "out", "--quiet"]).ok();
    desk.run(&[
        "export",
        "out/c",
        "out/t",
        "--rows",
        "summaries",
        "--out",
        "s.csv",
    ])
    .ok();
    let all = desk.rows("s.csv");
    let of: Vec<&str> = all
        .iter()
        .take(3)
        .map(|row| row["class"].as_str())
        .collect();
    assert_eq!(of, ["", "a", "b"]);
    let completed: Vec<u32> = all
        .iter()
        .take(3)
        .map(|row| row["completed"].parse().unwrap())
        .collect();
    assert_eq!(completed[0], completed[1] + completed[2]);
    assert_eq!(
        all.iter().filter(|row| row["scenario"] == "t").count(),
        24,
        "and those of the other folder"
    );
}

#[test]
fn missing_logs_are_told_and_nothing_is_written() {
    let desk = Desk::new();
    desk.sim(&["--set", "output.tasks=false"]).ok();
    let path = "out/t/A/100/tasks.csv";
    desk.run(&["export", "out/t", "--rows", "tasks", "-o", "tasks.csv"])
        .failed(
            2,
            &format!("{path}: is missing; a run writes it with output.tasks = true"),
        );
    assert!(!desk.path("tasks.csv").exists());
    desk.write("out/t/A/200/requests.csv", "id,arrival_ns\n1,2\n");
    desk.run(&["export", "out/t", "-o", "all.csv"]).failed(
        2,
        "out/t/A/200/requests.csv: its columns are not id, arrival_ns, ",
    );
    assert!(!desk.path("all.csv").exists());
    desk.run(&["export", "nowhere"])
        .failed(2, "nowhere: has no summary.csv");
}

#[test]
fn a_reader_that_stops_reading_is_no_error() {
    let desk = swept();
    let mut command = desk.command(&["export", "out/t", "--rows", "tasks"]);
    let mut export = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A pipe holds less than the table has.
    drop(export.stdout.take());
    let ended = export.wait_with_output().unwrap();
    assert!(ended.status.success(), "{ended:?}");
    assert_eq!(String::from_utf8_lossy(&ended.stderr), "");
}
