//! `batchlab profile` on tiny networks. Nothing is asserted of times.

use batchlab::cost::table::{CostTable, Overhead};
use batchlab::cost::{CostModel as _, Extra};
use batchlab::units::CellId;
use batchlab::workload::model::Model;

use crate::desk::Desk;

/// Profiles with these options into `costs.csv`, and reads the table for a model's cells.
#[track_caller]
fn covers(model: &str, more: &[&str], batches: (u32, u32), others: &[&str]) -> String {
    let desk = Desk::new();
    let grid = [
        "profile",
        "--batches",
        "3,1,5",
        "--repeats",
        "2",
        "-o",
        "costs.csv",
        "--vocabulary",
        "9",
    ];
    desk.run(&[&grid[..], more].concat()).ok();
    let text = desk.read("costs.csv");
    let cells = Model::parse(model).unwrap().cell_types();
    let table = CostTable::parse(&text, "costs.csv")
        .unwrap()
        .costs_for(&cells, Overhead::default())
        .unwrap();
    for cell in (0..cells.len() as u16).map(CellId) {
        assert_eq!(
            table.measured_batches(cell),
            batches.0..=batches.1,
            "{text}"
        );
    }
    assert!(table.extra(Extra::Launch, 3).0 > 0, "{text}");
    let rows = |name: &str| {
        text.lines()
            .filter(|line| line.split(',').next() == Some(name))
            .count()
    };
    assert_eq!(["task", "launch"].map(rows), [3, 3], "{text}");
    for name in others {
        assert_eq!(rows(name), 3, "{text}");
    }
    assert!(text.starts_with("# batchlab profile "), "{text}");
    for part in [
        ", backend cpu, ",
        "# scheduler: ",
        "# ns of cells: the median times ",
        &format!(" of {model}: hidden 4, "),
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    text
}

#[test]
fn every_model_has_a_table() {
    for (model, others) in [
        ("lstm", &["lstm", "lstm.whole", "gather"][..]),
        ("gru", &["gru", "gru.whole", "gather"]),
        (
            "seq2seq",
            &[
                "decoder",
                "encoder",
                "decoder.switch",
                "encoder.switch",
                "decoder.whole",
                "encoder.whole",
                "decoder.whole.switch",
                "encoder.whole.switch",
                "gather",
            ],
        ),
        ("tree-lstm", &["internal", "leaf"]),
        ("childsum-tree-lstm", &["internal", "leaf"]),
        ("dnn:net", &["net"]),
    ] {
        let text = covers(model, &["--model", model, "--hidden", "4"], (1, 5), others);
        assert_eq!(
            text.contains("\ngather,"),
            others.contains(&"gather"),
            "members that always change have no gather of their own"
        );
        // Tasks of one to five requests. Tasks of a feed-forward network are one step.
        assert_eq!(
            text.contains("\nwhole,1,") && text.contains(".whole,1,"),
            model != "dnn:net",
            "{text}"
        );
        let several = matches!(model, "seq2seq" | "tree-lstm" | "childsum-tree-lstm");
        assert_eq!(text.contains(".switch,"), several, "{text}");
    }
    covers(
        "tree-lstm",
        &["--model", "tree-lstm", "--hidden", "4", "--workers", "2"],
        (1, 5),
        &["leaf"],
    );
    covers(
        "lstm",
        &["--model", "lstm", "--hidden", "4", "--workers", "2"],
        (1, 5),
        &["lstm", "gather"],
    );
}

#[test]
fn single_cells_share_a_table() {
    let text = covers(
        "lstm",
        &["--cell", "lstm:4", "--cell", "gru:3", "--cell", "net:2"],
        (1, 5),
        &["lstm", "gru", "net"],
    );
    assert!(
        text.contains("# task, gather, launch and whole: those of lstm\n"),
        "{text}"
    );
    let text = covers(
        "dnn:net",
        &["--cell", "net:4", "--inputs", "2,7"],
        (1, 5),
        &[],
    );
    assert!(
        text.contains("\ncell,batch,ns,stddev_ns,input\n") && text.contains(",7\n"),
        "{text}"
    );
    // One cell of a model.
    let desk = Desk::new();
    let printed = desk
        .run(&[
            "profile",
            "--cell",
            "decoder:4",
            "--batches",
            "1",
            "--repeats",
            "1",
            "--quiet",
        ])
        .ok();
    assert_eq!(printed.stderr, "");
    assert!(
        printed.stdout.contains("\ndecoder,1,")
            && !printed.stdout.contains("\nencoder,")
            && !printed.stdout.contains(".switch"),
        "{}",
        printed.stdout
    );
}

#[cfg(unix)]
#[test]
fn an_interrupted_profile_keeps_what_is_measured() {
    use std::io::{BufRead as _, BufReader};
    let desk = Desk::new();
    let words = [
        "profile",
        "--cell",
        "lstm:4",
        "--batches",
        "1,2",
        "--repeats",
        "1000",
        "-o",
        "part.csv",
    ];
    let mut child = desk
        .command(&words)
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap())
        .lines()
        .map(Result::unwrap);
    let note = lines.next().unwrap();
    assert!(
        note.starts_with("one of 1000 repeats is measured; about ")
            && note.ends_with(" s are left"),
        "{note}"
    );
    let id = child.id().to_string();
    assert!(
        std::process::Command::new("kill")
            .args(["-INT", &id])
            .status()
            .unwrap()
            .success()
    );
    let last = lines.last().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1));
    assert_eq!(
        last,
        "batchlab: interrupted: the table has only what was measured until then"
    );
    let table = desk.read("part.csv");
    assert!(
        table.contains("\n# interrupted: ") && table.contains("\nlstm,2,"),
        "{table}"
    );
    // A reader of the table is told.
    let ran = desk
        .run(&["sim", "t.toml", "--set", "device.costs=part.csv"])
        .ok();
    assert!(
        ran.stderr.contains("part.csv: the costs are not usable: ")
            && ran
                .stderr
                .contains("it was interrupted; profile with more --repeats"),
        "{}",
        ran.stderr
    );
}

#[test]
fn runs_with_costs_that_are_not_usable_say_so() {
    let desk = Desk::new();
    let header = "cell,batch,ns,stddev_ns\n";
    for (name, rows, why) in [
        (
            "vague.csv",
            "lstm,1,1000000,10000\nlstm,8,2000000,2100000\n",
            "1 of 2 rows deviate by more than their time and that of a step (the worst is lstm at 8: 2ms ± 2.1ms)",
        ),
        (
            "starved.csv",
            "lstm,1,2882,21\nlstm,8,9000,80\nlaunch,1,11528000,40000\n",
            "a launch takes up to 11.5ms, and a step from 2.88us on",
        ),
        (
            "remark.csv",
            "# not usable: lines between rows are off by up to 9.1 %, more than 5 %\nlstm,1,1000000,10000\n",
            "lines between rows are off by up to 9.1 %, more than 5 %",
        ),
    ] {
        desk.write(name, format!("{header}{rows}"));
        let costs = format!("device.costs={name}");
        let out = ["sim", "t.toml", "--out", name.trim_end_matches(".csv")];
        let ran = desk.run(&[&out[..], &["--set", &costs]].concat()).ok();
        let note = format!(
            "{name}: the costs are not usable: {why}; profile with more --repeats, or on a machine that does nothing else\n"
        );
        assert!(ran.stderr.contains(&note), "{note} in {}", ran.stderr);
        let folder = format!("{}/t", name.trim_end_matches(".csv"));
        let run: serde_json::Value =
            serde_json::from_str(&desk.read(&format!("{folder}/run.json"))).unwrap();
        assert_eq!(
            run["not_usable"],
            serde_json::json!([format!("{name}: {why}")])
        );
        // The note does not need the table.
        std::fs::remove_file(desk.path(name)).unwrap();
        let ran = desk.run(&["compare", &folder, &folder]).ok();
        let note = format!("{folder}: costs that are not usable: {name}: {why}\n");
        assert!(ran.stderr.contains(&note), "{note} in {}", ran.stderr);
    }
    // Each table of a sweep is judged, not only the first.
    for name in ["good.csv", "vague.csv"] {
        let deviation = if name == "good.csv" { 10 } else { 1_000_000 };
        desk.write(name, format!("{header}lstm,1,1000000,{deviation}\n"));
    }
    let swept = ["--sweep", "device.costs=good.csv,vague.csv"];
    let ran = desk.run(&[&["sim", "t.toml", "--out", "swept"], &swept[..]].concat());
    let stderr = ran.ok().stderr;
    assert!(
        stderr.contains("vague.csv: the costs are not usable: ") && !stderr.contains("good.csv: "),
        "{stderr}"
    );
    let ran = desk.run(&["sim", "t.toml", "--out", "out"]).ok();
    assert!(!ran.stderr.contains("usable"), "{}", ran.stderr);
    assert!(!desk.read("out/t/run.json").contains("usable"));
}

#[test]
fn a_scenario_is_measured_and_runs_on_the_table() {
    let desk = Desk::new();
    let scenario = |model: &str, dataset: &str| {
        format!(
            "name = 's'\n[workload]\nmodel = '{model}'\nhidden = 4\nvocabulary = 9\ndataset = '{dataset}'\nrequests = 50\n\
             [arrivals]\nprocess = 'offline'\n[device]\nworkers = 2\ncosts = 'measured.csv'\n[[policy]]\nkind = 'cellular'\n"
        )
    };
    desk.write("measured.csv", "cell,batch,ns\nnone,1,1\n");
    for (model, dataset, said) in [
        (
            "childsum-tree-lstm",
            "complete-tree:8",
            "the first 50 trees of s, with 2.00 children",
        ),
        (
            "childsum-tree-lstm:2",
            "complete-tree:8",
            "internal, leaf of childsum-tree-lstm: hidden 4",
        ),
        (
            "lstm",
            "constant:5",
            "lstm of lstm: hidden 4, embedding 4, vocabulary 9",
        ),
    ] {
        desk.write("s.toml", scenario(model, dataset));
        let words = [
            "profile",
            "--scenario",
            "s.toml",
            "--batches",
            "1,2",
            "--repeats",
            "1",
            "-o",
            "measured.csv",
        ];
        desk.run(&words).ok();
        let text = desk.read("measured.csv");
        assert!(
            text.contains(said) && text.contains("with 2 workers busy"),
            "{text}"
        );
        let ran = desk.run(&["sim", "s.toml", "--out", "out"]).ok();
        assert!(
            ran.stderr
                .contains("larger than the measured 1..2 of measured.csv"),
            "{}",
            ran.stderr
        );
        assert_eq!(desk.rows("out/s/summary.csv").len(), 1);
    }
}

/// The first fields of the rows of a name.
fn batches_of(text: &str, name: &str) -> Vec<u32> {
    let mut batches = Vec::new();
    for line in text.lines() {
        let mut fields = line.split(',');
        if fields.next() == Some(name)
            && let Some(batch) = fields.next()
        {
            batches.push(batch.parse().unwrap());
        }
    }
    batches
}

#[test]
fn sizes_are_found_and_the_lines_between_them_checked() {
    let desk = Desk::new();
    let cell = ["profile", "--cell", "lstm:4", "--vocabulary", "9"];
    let some = ["--repeats", "1", "-o", "t.csv"];
    let ran = desk.run(&[&cell[..], &some].concat()).ok();
    let text = desk.read("t.csv");
    let batches = batches_of(&text, "lstm");
    assert!(batches.is_sorted_by(|a, b| a < b), "{batches:?}");
    assert_eq!((batches[0], batches.last()), (1, Some(&512)));
    assert!(batches.contains(&64) && batches.len() <= 144, "{batches:?}");
    let check = "lines between rows: off by at most ";
    assert!(
        text.contains(&format!("# {check}")) && ran.stderr.contains(check),
        "{text}"
    );
    // A list stays as it is. Whether its lines are good enough is said, and decides on the exit code.
    let list = ["--batches", "1,4,64", "--strict"];
    let ran = desk.run(&[&cell[..], &some, &list].concat());
    let text = desk.read("t.csv");
    assert_eq!(batches_of(&text, "lstm"), [1, 4, 64]);
    assert_eq!(batches_of(&text, "task"), [1, 4, 64]);
    assert!(text.contains(check), "{text}");
    let remark = text
        .lines()
        .find_map(|line| line.strip_prefix("# not usable: "));
    match remark {
        Some(remark) => {
            let sentence = format!("batchlab: --strict: the profile is not usable: {remark}; ");
            let last = ran.stderr.lines().last().unwrap();
            assert!(
                ran.code == Some(4) && last.starts_with(&sentence),
                "{ran:?}"
            );
        }
        None => {
            let ran = ran.ok();
            assert_eq!(ran.stderr.lines().last(), Some("the profile is usable"));
        }
    }
    let ran = desk
        .run(
            &[
                &cell[..],
                &[
                    "--batches",
                    "1,2",
                    "--repeats",
                    "1",
                    "--suggest-sizes",
                    "-q",
                ],
            ]
            .concat(),
        )
        .ok();
    assert_eq!(ran.stderr, "");
    let sizes = ran
        .stdout
        .strip_prefix("batch_sizes = [")
        .unwrap()
        .trim_end();
    assert!(["2]", "1, 2]"].contains(&sizes), "{}", ran.stdout);
}

#[test]
fn a_scenario_says_which_sizes_its_policies_run() {
    let desk = Desk::new();
    desk.write("measured.csv", "cell,batch,ns\nnone,1,1\n");
    let scenario = |model: &str, dataset: &str, policies: &str| {
        format!(
            "name = 's'\n[workload]\nmodel = '{model}'\nhidden = 4\nvocabulary = 9\ndataset = '{dataset}'\nrequests = 90\n\
             [arrivals]\nprocess = 'offline'\n[device]\ncosts = 'measured.csv'\n{policies}"
        )
    };
    let some = [
        "profile",
        "--scenario",
        "s.toml",
        "--repeats",
        "1",
        "-o",
        "t.csv",
        "-q",
    ];
    let cellular = "[[policy]]\nkind = 'cellular'\nmax_batch = 8\nbatch_sizes = [2, 8]\n";
    for (model, dataset) in [("lstm", "constant:5"), ("tree-lstm", "complete-tree:8")] {
        desk.write("s.toml", scenario(model, dataset, cellular));
        desk.run(&some).ok();
        let text = desk.read("t.csv");
        let cell = if model == "lstm" { "lstm" } else { "leaf" };
        assert_eq!(batches_of(&text, cell), [2, 8], "{text}");
        assert!(
            text.contains("# only the sizes of batch_sizes run, so nothing lies between the rows"),
            "{text}"
        );
    }
    // 90 trees of 8 leaves in batches of up to 80 have levels of up to 640 nodes.
    let merged = "[[policy]]\nkind = 'merged'\nmax_batch = 80\n";
    desk.write("s.toml", scenario("tree-lstm", "complete-tree:8", merged));
    desk.run(&[&some[..], &["--batches", "1,16"]].concat()).ok();
    let text = desk.read("t.csv");
    assert!(
        text.contains(
            "# the policies form batches of up to 640, and the table ends at 16: beyond it"
        ),
        "{text}"
    );
    let merged = "[[policy]]\nkind = 'merged'\nmax_batch = 600\n";
    desk.write("s.toml", scenario("lstm", "constant:5", merged));
    desk.run(&some).ok();
    let text = desk.read("t.csv");
    assert_eq!(batches_of(&text, "lstm").last(), Some(&600), "{text}");
}

#[test]
fn mistakes_are_named() {
    let desk = Desk::new();
    for (words, code, message) in [
        (
            &["--cell", "lstm:8", "--cell", "lstm:9"][..],
            2,
            "--cell lstm:9: a second width of \"lstm\"; a table has one curve",
        ),
        (
            &["--model", "lstm", "--inputs", "4"],
            2,
            "--inputs: the time of these cells does not depend on",
        ),
        (
            &["--model", "lstm", "--hidden", "0"],
            2,
            "hidden: 0 is out of range; from 1 to 65536",
        ),
        (
            &["--floors"],
            2,
            "--floors: only GPUs have them; add --backend cuda",
        ),
        (
            &["--cell", "lstm:4", "--precision", "f16"],
            2,
            "the CPU computes only in f32, not in f16",
        ),
        (
            &["--cell", "x:4", "--embedding", "3"],
            2,
            "embedding: 3 is not the hidden width 4",
        ),
    ] {
        desk.run(&[&["profile"], words].concat())
            .failed(code, message);
    }
    for (words, message) in [
        (
            &["--cell", "lstm"][..],
            "\"lstm\" is not a cell with its hidden width, such as lstm:1024",
        ),
        (
            &["--model", "transformer"],
            "unknown model \"transformer\"; known: lstm, gru",
        ),
        (
            &["--model", "lstm", "--precision", "f64"],
            "unknown value \"f64\"; known: f32, tf32, bf16, f16",
        ),
        (
            &["--model", "lstm", "--batches", "0"],
            "0 is not in 1..=1048576",
        ),
        (&[], "the following required arguments were not provided"),
        (
            &["--model", "lstm", "--cell", "lstm:4"],
            "cannot be used with",
        ),
    ] {
        let ran = desk.run(&[&["profile"], words].concat());
        assert!(
            ran.code == Some(2) && ran.stderr.contains(message),
            "{ran:?}"
        );
    }
}
