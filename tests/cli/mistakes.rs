//! Every kind of mistake is one clear error, and nothing is half written.

use std::fs;

use crate::desk::{COSTS, Desk, SCENARIO};

#[test]
fn of_the_scenario() {
    let desk = Desk::new();
    for (old, new, message) in [
        (
            "requests = 200",
            "request = 200",
            "t.toml:5: workload.request: unknown key; did you mean requests?; known: model",
        ),
        (
            "requests = 200",
            "max_length = 1",
            "t.toml: workload: max_length = 1 leaves nothing of the dataset lengths.csv: its shortest",
        ),
        (
            "[100, 200]",
            "[100, nan]",
            "t.toml:8: arrivals.rates[1]: must be a number of requests per second from 1e-6",
        ),
        (
            "[100, 200]",
            "[100, 1e2]",
            "t.toml:8: arrivals.rates[1]: 100 stands twice",
        ),
        (
            "\"lengths.csv\"",
            "\"europarl\"",
            "dataset: no such file: europarl, nor built in; a dataset is a file, constant:SIZE (constant:fixed for requests without",
        ),
        (
            "\"B\"",
            "\"../B\"",
            "t.toml:16: policy[1] (padded): label: \"../B\" cannot name a folder of results; leave out",
        ),
        (
            "\"B\"",
            "\"..\"",
            "t.toml:16: policy[1] (padded): label: \"..\" cannot name a folder of results",
        ),
        (
            "\"B\"",
            "\" \"",
            "t.toml:16: policy[1] (padded): label: must not be empty",
        ),
        (
            "\"B\"",
            r#""\u001b[31mB""#,
            r#"t.toml:16: policy[1] (padded): label: "\u{1b}[31mB" has a control character; leave it out"#,
        ),
        (
            "\"t\"",
            r#""t\u0007""#,
            r#"t.toml:1: name: "t\u{7}" has a control character; leave it out"#,
        ),
        (
            "[[policy]]\nkind = \"cellular\"",
            "[output]\ntitle = \"a\\u009b\"\n[[policy]]\nkind = \"cellular\"",
            r#"t.toml:12: output.title: "a\u{9b}" has a control character; leave it out"#,
        ),
        (
            "\"B\"",
            "\"Run.json\"",
            "t.toml:16: policy[1] (padded): label: \"Run.json\" could be a file of results; leave",
        ),
        (
            "\"B\"",
            "\".partial\"",
            "t.toml:16: policy[1] (padded): label: \".partial\" begins with a dot, as the files of a run that is under way",
        ),
        (
            "\"B\"",
            "\".lock\"",
            "t.toml:16: policy[1] (padded): label: \".lock\" begins with a dot, as the files of a run that is under way",
        ),
        (
            "[[policy]]",
            "[output]\nplots = [\"queue-cfd\"]\n[[policy]]",
            "t.toml:12: output.plots[0]: unknown value \"queue-cfd\"; did you mean queue-cdf?; known: latency-throughput",
        ),
        (
            "\"A\"",
            "\"A\"\nbatch_sizes = []",
            "t.toml:14: policy[0] (cellular): batch_sizes: the list is empty; list the sizes, or leave the key out for any",
        ),
        (
            "\"A\"",
            "\"A\"\nbatch_sizes = [0, 512]",
            "t.toml:14: policy[0] (cellular): batch_sizes: 0 is too small; at least 1",
        ),
        (
            "\"A\"",
            "\"A\"\nbatch_sizes = [1, 512, 64]",
            "t.toml:14: policy[0] (cellular): batch_sizes: 64 after 512; list each size once, the smallest first",
        ),
        (
            "\"cellular\"",
            "\"late\"\nbatch_sizes = [8, 8, 512]",
            "t.toml:13: policy[0] (late): batch_sizes: 8 after 8; list each size once, the smallest first",
        ),
        (
            "\"A\"",
            "\"A\"\nbatch_sizes = [1, 64]",
            "t.toml:14: policy[0] (cellular): batch_sizes: the largest, 64, is below max_batch 512; add a size of at least 512, \
             or lower max_batch",
        ),
    ] {
        assert!(SCENARIO.contains(old), "{old}");
        desk.write("t.toml", SCENARIO.replacen(old, new, 1));
        desk.refuses(&[], message);
    }
    let long = "x".repeat(300);
    desk.write(
        "t.toml",
        SCENARIO.replacen("\"B\"", &format!("\"{long}\""), 1),
    );
    desk.refuses(
        &[],
        "label: names a folder of results in 300 letters; at most 200",
    );
}

#[test]
fn of_the_scenarios_file() {
    let desk = Desk::new();
    fs::remove_file(desk.path("t.toml")).unwrap();
    desk.refuses(&[], "t.toml: cannot be read: No such file");
    desk.write("t.toml", "");
    desk.refuses(&[], "t.toml:1: name: missing");
    desk.write("t.toml", b"name = \"\xff\"");
    desk.refuses(
        &[],
        "t.toml: cannot be read: stream did not contain valid UTF-8",
    );
    fs::remove_file(desk.path("t.toml")).unwrap();
    fs::create_dir(desk.path("t.toml")).unwrap();
    desk.refuses(&[], "t.toml: cannot be read: Is a directory");
    fs::remove_dir(desk.path("t.toml")).unwrap();
    desk.write(
        "t.toml",
        SCENARIO
            .replace("[100, 200]", "[100, \"x\"]")
            .replace('\n', "\r\n"),
    );
    desk.refuses(&[], "t.toml:8: arrivals.rates[1]: must be a number");
}

#[test]
fn of_a_dataset() {
    let desk = Desk::new();
    for (text, message) in [
        (
            &b""[..],
            "lengths.csv: line 1: the header is \"\", but the model lstm takes a CSV file with the header length,",
        ),
        (
            b"length,count\n3,1\n\n4,x\n",
            "lengths.csv: line 4: count: \"x\" is not a whole number, 0 or more",
        ),
        (
            b"length,count\r\n0,1\r\n",
            "lengths.csv: line 2: length: \"0\" is not a whole number from 1 to 1073741824",
        ),
        (
            b"length,count\n3\n",
            "lengths.csv: line 2: \"3\" has 1 fields; it takes 2: length,count",
        ),
        (b"length,count\n3,0\n", "lengths.csv: the counts sum to 0"),
        (
            b"length,count\n\xff,0\n",
            "lengths.csv: not a text file in UTF-8",
        ),
        (
            b"2\t3 3 0\n",
            "lengths.csv: line 1: is a tree, but the model lstm takes a CSV file",
        ),
    ] {
        desk.write("lengths.csv", text);
        desk.refuses(&[], &format!("t.toml: workload.dataset: {message}"));
    }
    let none = ["--set", "workload.dataset=constant:0"];
    desk.refuses(
        &none,
        "t.toml: workload.dataset: constant:0: bad shape \"chain:0\": \"0\" is not a whole number from 1",
    );
}

/// A scenario that replays `trace.csv`.
fn replay(model: &str, kind: &str) -> String {
    format!(
        "name = \"t\"\n[workload]\nmodel = \"{model}\"\ntrace = \"trace.csv\"\n[device]\ncosts = \"costs.csv\"\n\
         [[policy]]\nkind = \"{kind}\"\n"
    )
}

#[test]
fn of_a_trace() {
    let desk = Desk::new();
    desk.write("t.toml", replay("lstm", "cellular"));
    desk.refuses(&[], "t.toml:4: workload.trace: no such file: trace.csv");
    for (rows, message) in [
        ("", "trace.csv: the trace holds no requests"),
        (
            "0,0,chain:3\n2,0,chain:3\n",
            "trace.csv: line 3: id: \"2\" should be 1",
        ),
        (
            "0,5,chain:3\n\n1,4,chain:3\n",
            "trace.csv: line 4: arrival_ns: 4 is before 5, the arrival before it",
        ),
        (
            "0,5.5,chain:3\n",
            "trace.csv: line 2: arrival_ns: \"5.5\" is not a time; it is a whole number of nanoseconds",
        ),
        (
            "0,5,chain:0\n",
            "trace.csv: line 2: shape: bad shape \"chain:0\": \"0\" is not a whole number from 1",
        ),
        (
            "0,5,rope:3\n",
            "trace.csv: line 2: shape: bad shape \"rope:3\"; known: chain:N",
        ),
        (
            "0,5,tree:2 1 0\n",
            "trace.csv: line 2: shape: node 1 never reaches the root: its parents form a cycle",
        ),
        (
            "0,5,seq2seq:3>4\n",
            "trace.csv: request 0: the model lstm takes no seq2seq shapes; it takes: chain:N",
        ),
        (
            "0,5\n",
            "trace.csv: line 2: \"0,5\" has 2 fields; a row is id,arrival_ns,shape",
        ),
        (
            "0,18446744073709551615,chain:3\n",
            "trace.csv: the last of 1 requests arrives after 1.845e10 s; it may arrive",
        ),
    ] {
        desk.write("trace.csv", format!("id,arrival_ns,shape\n{rows}"));
        desk.refuses(&[], message);
    }
    desk.write(
        "trace.csv",
        "id,arrival_ns,shape,class\n0,5,chain:3,a\n1,5,chain:3,\n",
    );
    desk.refuses(
        &[],
        "trace.csv: line 3: class: is empty; each request has a class",
    );
    desk.write("trace.csv", "length,count\n3,1\n");
    desk.refuses(
        &[],
        "trace.csv: line 1: the header is \"length,count\"; that of a trace is id,arrival_ns,shape",
    );
    desk.write(
        "trace.csv",
        "id,arrival_ns,shape\n0,9000000000000000000,chain:3\n",
    );
    desk.refuses(
        &["--set", "workload.time_scale=3"],
        "t.toml: workload.time_scale: a time scale of 3 moves the last",
    );
}

#[test]
fn of_trees() {
    let desk = Desk::new();
    desk.write("t.toml", replay("tree-lstm", "cellular"));
    desk.write("trace.csv", "id,arrival_ns,shape\n0,0,tree:3 3 0\n");
    desk.refuses(
        &[],
        "costs.csv: no rows for the cell \"internal\", which the model needs; the table has: lstm",
    );
    desk.write("costs.csv", "cell,batch,ns\nleaf,1,5\ninternal,1,7\n");
    desk.refuses(
        &["--set", "policy.0.kind=padded"],
        "policy[0] (padded): padded batching takes sequences only, and the model tree-lstm has trees; use cellular or",
    );
    desk.write("trees.txt", "2\t3 3 0\n3\t2 3 1\n");
    desk.write(
        "t.toml",
        replay("tree-lstm", "merged").replace("trace = \"trace.csv\"", "dataset = \"trees.txt\""),
    );
    let arrivals = ["--set", "arrivals.process=offline"];
    desk.refuses(
        &arrivals,
        "trees.txt: line 2: no node has parent 0, so the parents form a cycle",
    );
}

#[test]
fn of_a_cost_table() {
    let desk = Desk::new();
    for (text, message) in [
        (
            "",
            "costs.csv:1: no column \"cell\"; a cost table has the columns cell,batch,ns",
        ),
        (
            "cell,batch,ns\n",
            "costs.csv: no rows; a cost table has at least one",
        ),
        (
            "# measured\n\ncell,batch,ns\n\nlstm,1,x\n",
            "costs.csv:5: ns: \"x\" is not a whole number of nanoseconds",
        ),
        (
            "cell,batch,ns\r\nlstm,1,5\r\nlstm,1.5,5\r\n",
            "costs.csv:3: batch: \"1.5\" is not a whole number from 1 to",
        ),
        (
            "cell,batch,ns\nlstm,1,-5\n",
            "costs.csv:2: ns: \"-5\" is not",
        ),
        (
            "cell,batch,ns\nlstm,1\n",
            "costs.csv:2: \"lstm,1\" has 2 fields where the header has 3",
        ),
        (
            "cell,batch,ns\nlstm,1,5\nlstm,1,6\n",
            "costs.csv:3: a second row for the cell \"lstm\" at batch 1",
        ),
        (
            "cell,batch,ns\ngru,1,5\n",
            "costs.csv: no rows for the cell \"lstm\", which the model needs; the table has: gru",
        ),
        ("cell,batch,ms\nlstm,1,5\n", "costs.csv:1: no column \"ns\""),
    ] {
        desk.write("costs.csv", text);
        desk.refuses(&[], message);
    }
}

#[test]
fn of_an_override() {
    let desk = Desk::new();
    for (set, message) in [
        (
            "device=3",
            "t.toml: --set device=3: device: must be a table, not 3",
        ),
        (
            "policy.C.max_batch=3",
            "--set policy.C.max_batch=3: policy: there is no \"C\"; known: 0 (A), 1 (B)",
        ),
        (
            "policy.A.max_batch.gru=3",
            "policy.A.max_batch.gru=3: policy[0] (cellular): max_batch.gru: the model has no such",
        ),
        (
            "policy.B.window=2",
            "policy.B.window=2: policy[1] (padded): window: must be a time with its unit in quotes",
        ),
        (
            "policy.B.version=\"21.1\"",
            "version: unknown value \"21.1\"; did you mean 21.10?; known: 21.10, 22.03",
        ),
        (
            "policy.B.version=\"21.10\"",
            "policy[1] (padded): version: \"21.10\" needs turn = \"batch\"",
        ),
        (
            "policy.B.window=2ps",
            "window: unknown unit \"ps\" in \"2ps\"; known: ns, us, ms, s",
        ),
    ] {
        desk.refuses(&["--set", set], message);
    }
}

#[test]
fn of_a_release_of_triton() {
    let desk = Desk::new();
    let closed = [
        "--set",
        "policy.B.version=\"21.10\"",
        "--set",
        "policy.B.turn=batch",
        "--set",
    ];
    let longest =
        "\"21.10\" has one bucket; bucket_width (2) must be at least the longest request (";
    desk.refuses(
        &[&closed[..], &["policy.B.bucket_width=2"]].concat(),
        longest,
    );
    desk.sim(&[&closed[..], &["policy.B.bucket_width=512"]].concat())
        .ok();
}

#[test]
fn of_several_scenarios() {
    let desk = Desk::new();
    desk.write("u.toml", SCENARIO.replace("\"t\"", "\"T\""));
    desk.refuses(
        &["u.toml"],
        "u.toml: name: \"T\" is also the name in t.toml; each scenario of one call needs a folder",
    );
    desk.write(
        "u.toml",
        SCENARIO
            .replace("\"t\"", "\"u\"")
            .replace("lengths.csv", "broken.csv"),
    );
    desk.write("broken.csv", "length,count\nx,1\n");
    desk.refuses(&["u.toml"], "broken.csv: line 2: length: \"x\" is not");
}

#[test]
fn a_clock_that_ends_is_told() {
    let desk = Desk::new();
    let no_summary = |message: &str, more: &[&str]| {
        desk.sim(more).failed(2, message);
        assert!(!desk.path("out/t/summary.csv").exists());
        assert!(
            desk.files("out")
                .keys()
                .all(|name| !name.ends_with("point.json")),
            "no point is finished"
        );
    };
    no_summary(
        "arrivals: the last of 100000 requests arrives after",
        &[
            "--set",
            "arrivals.rates=[0.000001]",
            "--set",
            "workload.requests=100000",
        ],
    );
    desk.write("costs.csv", "cell,batch,ns\nlstm,1,18446744073709551615\n");
    no_summary(
        "\"A\" at 100 is not done when the clock ends, after 18446744073.709551615s; are the costs in costs.csv in",
        &["--threads", "1"],
    );
}

#[test]
fn of_the_folder_for_the_results() {
    let desk = Desk::new();
    desk.write("out", "a file");
    desk.sim(&[]).failed(1, "out/t: cannot be written: ");
    assert_eq!(desk.read("out"), "a file");
    fs::remove_file(desk.path("out")).unwrap();
    fs::create_dir_all(desk.path("out/t/summary.csv")).unwrap();
    desk.write("out/t/summary.csv/mine", "a file");
    desk.sim(&[])
        .failed(1, "out/t/summary.csv: cannot be written: ");
}

#[test]
fn of_the_words_of_a_call() {
    let desk = Desk::new();
    for words in [
        &[][..],
        &["simulate"],
        &["sim"],
        &["sim", "t.toml", "--sed", "3"],
        &["sim", "t.toml", "--seed", "x"],
        &["sim", "t.toml", "--threads", "0"],
        &["sim", "t.toml", "--threads", "65535"],
        &["sim", "t.toml", "--replications", "0"],
        &["sim", "t.toml", "--format", "xml"],
        &["sim", "t.toml", "--out", ""],
        &["find-knee"],
        &["find-knee", "t.toml", "--slo", "5"],
        &["find-knee", "t.toml", "--quantile", "p98"],
        &["find-knee", "t.toml", "--tolerance", "0"],
        &["plot"],
        &["plot", "out", "--kind", "pie"],
        &["trace"],
        &["trace", "gen"],
        &["trace", "gen", "--dataset", "constant:4", "-n", "0"],
        &[
            "trace",
            "gen",
            "--dataset",
            "constant:4",
            "-n",
            "3",
            "--process",
            "closed",
        ],
    ] {
        let ran = desk.run(words);
        assert_eq!(
            (ran.code, ran.stdout.as_str()),
            (Some(2), ""),
            "{words:?}: {ran:?}"
        );
        assert!(
            ran.stderr.contains("Usage") || ran.stderr.contains("--help"),
            "{words:?}: {ran:?}"
        );
    }
    assert!(!desk.path("results").exists() && !desk.path("out").exists());
}

#[test]
fn unusual_files_that_are_right() {
    let desk = Desk::new();
    let plain = desk.sim(&[]).ok().stdout;
    for (name, text) in [
        ("t.toml", SCENARIO),
        ("costs.csv", COSTS),
        ("lengths.csv", &desk.read("lengths.csv")),
    ] {
        desk.write(name, format!("\u{feff}{}", text.replace('\n', "\r\n")));
    }
    assert_eq!(
        desk.sim(&[]).ok().stdout,
        plain,
        "a byte order mark and Windows line ends change nothing"
    );
    // Files beside a scenario are found from anywhere, and blanks in paths are no matter.
    let beside = desk.path("of mine");
    fs::create_dir(&beside).unwrap();
    for name in ["t.toml", "costs.csv", "lengths.csv"] {
        fs::rename(desk.path(name), beside.join(name)).unwrap();
    }
    assert_eq!(
        desk.run(&["sim", "of mine/t.toml", "--out", "my results", "-q"])
            .ok()
            .stdout,
        plain
    );
    assert!(desk.path("my results/t/A/100/requests.csv").is_file());
}

#[test]
fn extremes_that_are_right() {
    let desk = Desk::new();
    let one = desk
        .sim(&[
            "--set",
            "workload.requests=1",
            "--set",
            "device.workers=65535",
        ])
        .ok();
    assert!(one.stdout.contains("n<20"), "{}", one.stdout);
    desk.write("costs.csv", "cell,batch,ns\nlstm,1,0\n");
    desk.sim(&["--set", "arrivals.rates=[1e9]"]).ok();
    let requests = desk.rows("out/t/A/1000000000/requests.csv");
    assert!(
        requests
            .iter()
            .all(|row| row["arrival_ns"] == row["finish_ns"])
    );
}

#[test]
fn numbers_have_the_notations_that_people_write() {
    let desk = Desk::new();
    desk.refuses(&["--set", "workload.requests=1.5e0"], "not 1.5");
    desk.sim(&["--set", "workload.requests=1e2"]).ok();
    assert_eq!(desk.rows("out/t/A/200/requests.csv").len(), 100);
    for (value, problem) in [
        ("64k", "not a whole number; write digits only"),
        ("", "a whole number is missing"),
        ("99999999999999999999999", "the number is too large"),
    ] {
        let message = format!("invalid value '{value}' for '--hidden <HIDDEN>': {problem}");
        let ran = desk.run(&["profile", "--hidden", value]);
        assert_eq!(ran.code, Some(2));
        assert!(ran.stderr.contains(&message), "{}", ran.stderr);
    }
}

#[test]
fn mistakes_of_all_parts_are_told_at_once() {
    let desk = Desk::new();
    let scenario = desk.read("t.toml")
        + "[[policy]]\nkind = \"padded\"\nmax_batches = 3\n[[policy]]\nkind = \"celular\"\n";
    desk.write("t.toml", scenario.replace("lengths.csv", "constant:0"));
    let dataset = "t.toml:4: workload.dataset: constant:0: ";
    let policies = [
        "policy[2] (padded): max_batches: unknown key",
        "policy[3].kind: unknown policy \"celular\"; did you mean cellular?",
    ];
    for (set, message) in [
        ("device.workers=0", "device.workers: must be a whole number"),
        (
            "device.costs=nope.csv",
            "device.costs: no such file: nope.csv",
        ),
    ] {
        let ran = desk.sim(&["--set", set]);
        assert_eq!(ran.code, Some(2));
        for message in [message, dataset, policies[0], policies[1]] {
            assert_eq!(ran.stderr.matches(message).count(), 1, "{}", ran.stderr);
        }
    }
    let ran = desk.sim(&[
        "--set",
        "workload.model=lsmt",
        "--set",
        "workload.requests=0",
    ]);
    for message in [
        "workload.model: ",
        "workload.requests: must be a whole number",
    ] {
        assert!(ran.stderr.contains(message), "{}", ran.stderr);
    }
}
