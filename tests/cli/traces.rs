//! `batchlab trace` on the command line.

use crate::desk::{Desk, Ran, SCENARIO};

#[test]
fn a_trace_is_what_the_scenario_replays() {
    let desk = Desk::new();
    for (process, options) in [
        (
            "process = \"poisson\"\nrates = [100, 200]",
            &["--rate", "200"][..],
        ),
        (
            "process = \"gamma\"\ncv = 2.5\nrates = [200]",
            &["--rate", "200", "--process", "gamma", "--cv", "2.5"],
        ),
        (
            "process = \"mmpp\"\nratio = 5\nlow = \"1s\"\nhigh = \"200ms\"\nrates = [200]",
            &[
                "--rate",
                "200",
                "--process",
                "mmpp",
                "--ratio",
                "5",
                "--low",
                "1s",
                "--high",
                "200ms",
            ],
        ),
    ] {
        desk.write(
            "t.toml",
            SCENARIO.replace("process = \"poisson\"\nrates = [100, 200]", process),
        );
        // By itself, a trace has no warm-up.
        desk.sim(&["--seed", "9", "--set", "metrics.warmup=none"])
            .ok();
        let gen_ = [
            "trace",
            "gen",
            "--dataset",
            "lengths.csv",
            "-n",
            "200",
            "--seed",
            "9",
            "-o",
            "trace.csv",
        ];
        desk.run(&[&gen_[..], options].concat()).ok();
        let drawn = desk.read("out/t/B/200/requests.csv");
        let lengths = desk.read("out/t/lengths.csv");
        let (head, rest) = SCENARIO.split_once("dataset").unwrap();
        let device = &rest[rest.find("[device]").unwrap()..];
        desk.write("t.toml", format!("{head}trace = \"trace.csv\"\n{device}"));
        desk.sim(&[]).ok();
        assert_eq!(desk.read("out/t/B/trace/requests.csv"), drawn, "{process}");
        assert_eq!(desk.read("out/t/lengths.csv"), lengths);
    }
}

#[test]
fn what_is_written_reads_back() {
    let desk = Desk::new();
    for (model, dataset) in [
        ("lstm", "constant:24"),
        ("seq2seq", "constant:24>27"),
        ("tree-lstm", "generator:treebank"),
        ("dnn:bert", "generator:europarl-en"),
        ("dnn:resnet", "constant:fixed"),
    ] {
        let drawn = desk
            .run(&[
                "trace",
                "gen",
                "--model",
                model,
                "--dataset",
                dataset,
                "-n",
                "50",
                "--rate",
                "9",
                "-o",
                "a.csv",
            ])
            .ok();
        assert!(
            drawn.stderr.starts_with("wrote 50 requests over "),
            "{drawn:?}"
        );
        assert_eq!(drawn.stdout, "");
        let to_stdout = [
            "trace",
            "gen",
            "--model",
            model,
            "--dataset",
            dataset,
            "-n",
            "50",
            "--rate",
            "9",
        ];
        assert_eq!(desk.run(&to_stdout).ok().stdout, desk.read("a.csv"));
        desk.run(&["trace", "convert", "a.csv", "-o", "b.csv"]).ok();
        desk.run(&[
            "trace",
            "convert",
            "b.csv",
            "--time-scale",
            "4",
            "-o",
            "c.csv",
        ])
        .ok();
        desk.run(&[
            "trace",
            "convert",
            "c.csv",
            "--time-scale",
            "0.25",
            "-o",
            "d.csv",
        ])
        .ok();
        assert_eq!(desk.read("b.csv"), desk.read("d.csv"), "{dataset}");
        let info = desk
            .run(&["trace", "info", "d.csv", "--format", "json"])
            .ok()
            .json();
        assert_eq!(info["requests"], 50, "{dataset}");
    }
    let input = std::fs::File::open(desk.path("a.csv")).unwrap();
    let piped: Ran = desk
        .command(&["trace", "info", "-"])
        .stdin(input)
        .output()
        .unwrap()
        .into();
    assert!(piped.ok().stdout.starts_with("requests    50 (50 fixed)"));
}

#[test]
fn public_formats_become_traces() {
    let desk = Desk::new();
    desk.write(
        "in.csv",
        "arrival_s,length_in,length_out\r\n0.5,7,8\r\n0.25,3,0\r\n2.5,4,5\r\n",
    );
    let ran = desk.run(&["trace", "import", "in.csv"]).ok();
    assert_eq!(
        ran.stdout,
        "id,arrival_ns,shape\n0,0,seq2seq:7>8\n1,2000000000,seq2seq:4>5\n"
    );
    assert!(
        ran.stderr
            .contains("in.csv: skipped 1 row: its length is 0 or missing"),
        "{}",
        ran.stderr
    );
    desk.write("words.txt", "one two three\nfour\n");
    let ran = desk
        .run(&[
            "trace",
            "import",
            "words.txt",
            "--format",
            "sentences",
            "--process",
            "offline",
        ])
        .ok();
    assert_eq!(
        ran.stdout,
        "id,arrival_ns,shape\n0,0,chain:3\n1,0,chain:1\n"
    );
}

#[test]
fn mapped_lengths_are_never_lost() {
    let desk = Desk::new();
    desk.write("out.csv", "arrival_s,out\n0,3\n");
    desk.write("in.csv", "arrival_s,length_in\n0,3\n");
    for (file, map) in [
        ("out.csv", "out=length_out"),
        ("in.csv", "length_in=length_out"),
    ] {
        let import = ["trace", "import", file, "--map", map];
        desk.run(&import).failed(
            2,
            &format!("{file}: line 1: a column is length_out, and none is length_in; add --map YOURS=length_in"),
        );
        let fixed = desk.run(&[&import[..], &["--as", "fixed"]].concat()).ok();
        assert_eq!(fixed.stdout, "id,arrival_ns,shape\n0,0,fixed\n");
    }
}

/// The example of docs/OWN.md: an image model measured end to end, and a trace with a time and a class.
#[test]
fn a_model_and_a_trace_of_ones_own_become_a_study() {
    let desk = Desk::new();
    desk.write(
        "resnet50.csv",
        "cell,batch,ns\nresnet50,1,2050000\nresnet50,8,6200000\nresnet50,32,20100000\n",
    );
    let mut log = String::from("started,customer\n");
    for request in 0..2000 {
        let seconds = 1_787_000_000.0 + f64::from(request * 17 % 2000) / 400.0;
        let customer = ["shop", "archive"][usize::from(request % 5 == 0)];
        log += &format!("{seconds:.3},{customer}\n");
    }
    desk.write("log.csv", log);
    let ran = desk
        .run(&[
            "trace",
            "import",
            "log.csv",
            "--map",
            "started=arrival_s",
            "--map",
            "customer=class",
            "-o",
            "trace.csv",
        ])
        .ok();
    assert!(ran.stderr.contains("have been sorted"), "{}", ran.stderr);
    assert!(
        desk.read("trace.csv")
            .starts_with("id,arrival_ns,shape,class\n0,0,fixed,archive\n1,3000000,fixed,")
    );
    let scenario = "name = \"own\"\nworkload = { model = \"dnn:resnet50\", trace = \"trace.csv\" }\n\
                    device.costs = \"resnet50.csv\"\n\
                    class = [{ name = \"shop\", slo = \"50ms\" }, { name = \"archive\", slo = \"1s\" }]\n\
                    policy = [{ kind = \"padded\", max_batch = 32 }, { kind = \"triton\", max_batch = 32 }]\n";
    desk.write("own.toml", scenario);
    desk.run(&["sim", "own.toml", "--out", "out"]).ok();
    let classes = desk.column("out/own/classes.csv", "class");
    assert_eq!(classes, ["shop", "archive", "shop", "archive"]);

    // From end-to-end times to stages.
    let divided = desk.run(&[
        "import",
        "stages",
        "resnet50.csv",
        "--cell",
        "resnet50",
        "--shares",
        "2,1,1",
        "-o",
        "staged",
    ]);
    assert!(divided.ok().stderr.contains("wrote staged.csv"));
    assert!(
        desk.read("staged-costs.csv")
            .contains("stage1,8,3100000\nstage2,8,1550000\n")
    );
    let staged = [
        "--set",
        "workload.model=dnn:staged.csv",
        "--set",
        "device.costs=staged-costs.csv",
    ];
    let dvabatch = [
        "--set",
        "policy.triton={kind=\"dvabatch\", stages=\"operators\"}",
    ];
    desk.run(&[&["sim", "own.toml", "--out", "out"][..], &staged, &dvabatch].concat())
        .ok();
    let undivided = desk.run(&[&["sim", "own.toml", "--out", "out"][..], &dvabatch].concat());
    undivided.failed(2, "batchlab import stages COSTS.csv --cell resnet50");
    let missing = desk.run(&["import", "stages", "resnet50.csv", "--cell", "resnet50"]);
    assert_eq!(missing.code, Some(2));
    assert!(missing.stderr.contains("--out <NAME>"), "{missing:?}");
    let unnamed = [
        "import",
        "stages",
        "resnet50.csv",
        "--cell",
        "resnet50",
        "-o",
        "-",
    ];
    desk.run(&unnamed).failed(
        2,
        "--out: two files are written, NAME.csv and NAME-costs.csv",
    );
    // Without a trace, requests without lengths are drawn from constant:fixed.
    let drawn = scenario.replace(
        "trace = \"trace.csv\"",
        "dataset = \"images.csv\", requests = 100",
    ) + "arrivals = { process = \"poisson\", rates = [100] }\n";
    desk.write("drawn.toml", &drawn);
    desk.run(&["sim", "drawn.toml", "--out", "out"]).failed(
        2,
        "constant:SIZE (constant:fixed for requests without lengths)",
    );
    desk.write("drawn.toml", drawn.replace("images.csv", "constant:fixed"));
    desk.run(&["sim", "drawn.toml", "--out", "out"]).ok();
}

#[test]
fn what_is_odd_about_a_trace_is_said() {
    let desk = Desk::new();
    desk.write("coarse.csv", "arrival_s,class\n5,a\n5,b\n5,c\n6,a\n6,b\n");
    let ran = desk
        .run(&["trace", "import", "coarse.csv", "-o", "a.csv"])
        .ok();
    let note = "all stamps are multiples of 1s, and 100 % of the requests share theirs";
    assert!(ran.stderr.contains(note), "{}", ran.stderr);
    assert!(
        desk.run(&["trace", "info", "a.csv"])
            .ok()
            .stdout
            .contains(note)
    );
    let spread = desk
        .run(&[
            "trace",
            "import",
            "coarse.csv",
            "--spread",
            "1s",
            "--seed",
            "3",
        ])
        .ok();
    assert!(!spread.stderr.contains("stamps"), "{}", spread.stderr);
    let converted = desk
        .run(&["trace", "convert", "a.csv", "--spread", "1s", "--seed", "3"])
        .ok();
    assert_eq!(spread.stdout, converted.stdout);
    assert_ne!(spread.stdout, desk.read("a.csv"));
    desk.run(&["trace", "convert", "a.csv", "--spread", "3s"])
        .failed(
            2,
            "a.csv: --spread: request 3 arrives 1s after the first, which is not a multiple of 3s",
        );

    let mut drift = String::from("id,arrival_ns,shape\n");
    for id in 0u64..1000 {
        drift += &format!(
            "{id},{},fixed\n",
            if id < 500 { id } else { 500 + 3 * (id - 500) }
        );
    }
    desk.write("drift.csv", drift);
    let info = desk.run(&["trace", "info", "drift.csv"]).ok().stdout;
    assert!(
        info.contains("the load is not stationary") && info.contains("requests/s"),
        "{info}"
    );
    let json = desk
        .run(&["trace", "info", "drift.csv", "--format", "json"])
        .ok()
        .json();
    assert_eq!(
        (&json["stationary"], json["parts"].as_array().unwrap().len()),
        (&false.into(), 10)
    );
    let info = desk.run(&["trace", "info", "europarl-en-1k"]).ok().stdout;
    assert!(!info.contains("note"), "{info}");

    desk.write("penn.mrg", "( (S (NP (-NONE- *-1)) (VP (VB go))) )\n");
    let ran = desk
        .run(&[
            "trace",
            "import",
            "penn.mrg",
            "--format",
            "treebank",
            "--process",
            "offline",
        ])
        .ok();
    assert!(
        ran.stderr
            .contains("left out 1 leaf without a word (-NONE-), and the nodes"),
        "{}",
        ran.stderr
    );
    assert_eq!(ran.stdout, "id,arrival_ns,shape\n0,0,tree:2 3 0\n");
    desk.write("bad.parents", "3 3 0\n1 2\n0\n");
    desk.run(&["trace", "import", "bad.parents", "--format", "parents", "--process", "offline"])
        .failed(2, "bad.parents: line 2: no node has parent 0, so the parents form a cycle; a tree has one root; to leave this tree out, delete the line");

    desk.write(
        "quoted.csv",
        "\"id\",\"arrival_ns\",\"shape\"\n\"0\",\"5\",\"chain:3\"\n",
    );
    assert!(
        desk.run(&["trace", "info", "quoted.csv"])
            .ok()
            .stdout
            .contains("1 chain")
    );
    for (text, message) in [
        (
            "when,what\n1,2\n",
            "x.csv: line 1: unknown header \"when,what\"; give our names with --map YOURS=OURS",
        ),
        (
            "time;class\n1;a\n",
            "x.csv: line 1: the columns are separated by semicolons",
        ),
        (
            "id,arrival_ns,shape\n0,0,fixed\n",
            "x.csv: is a trace already",
        ),
        (
            "arrival_s\n1787000000123\n",
            "x.csv: line 2: arrival_s: 1787000000123 is too large for seconds; milliseconds?",
        ),
    ] {
        desk.write("x.csv", text);
        desk.run(&["trace", "import", "x.csv"]).failed(2, message);
    }
    desk.write(
        "x.csv",
        "arrival_s\n1787000000.000001\n1787000000.000002\n1787000000.000003\n",
    );
    assert!(
        desk.run(&["trace", "import", "x.csv"])
            .ok()
            .stdout
            .ends_with("1,1000,fixed\n2,2000,fixed\n")
    );
}

#[test]
fn json_lines_and_gzip_are_read_and_classes_are_kept() {
    use std::io::Write as _;
    let desk = Desk::new();
    let mooncake = "{\"timestamp\": 1000, \"input_length\": 7, \"output_length\": 8, \"hash_ids\": [0, 1]}\n\n\
                    {\"output_length\": 5, \"timestamp\": 1000.5, \"input_length\": 4, \"hash_ids\": []}\n";
    desk.write("moon.jsonl", mooncake);
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(mooncake.as_bytes()).unwrap();
    desk.write("moon.jsonl.gz", packed.finish().unwrap());
    desk.write("marked.jsonl", format!("\u{feff}\n {mooncake}"));
    for file in ["moon.jsonl", "moon.jsonl.gz", "marked.jsonl"] {
        let ran = desk.run(&["trace", "import", file]).ok();
        assert_eq!(
            ran.stdout, "id,arrival_ns,shape\n0,0,seq2seq:7>8\n1,500000,seq2seq:4>5\n",
            "{file}"
        );
    }
    desk.write(
        "in.csv",
        "arrival_s,length_in,Tenant,Model\n1,3,x,small\n0,4,y,large\n2,5,x,small\n",
    );
    desk.run(&["trace", "import", "in.csv", "-o", "a.csv"]).ok();
    assert_eq!(
        desk.read("a.csv"),
        "id,arrival_ns,shape,class\n0,0,chain:4,large\n1,1000000000,chain:3,small\n2,2000000000,chain:5,small\n"
    );
    let cut = desk
        .run(&["trace", "convert", "a.csv", "--skip", "1", "--rate", "2"])
        .ok();
    assert_eq!(
        cut.stdout,
        "id,arrival_ns,shape,class\n0,0,chain:3,small\n1,500000000,chain:5,small\n"
    );
    for (file, text, message) in [
        (
            "b.jsonl",
            "{\"timestamp\": 1, \"input_length\": 7}\n{\"timestamp\": ",
            "b.jsonl: line 2: is not a JSON object",
        ),
        (
            "b.jsonl",
            "{\"timestamp\": 1, \"input_length\": 7}\n\n{\"timestamp\": \"x\", \"input_length\": 7}",
            "b.jsonl: line 3: timestamp: \"x\" is not a number of milliseconds",
        ),
        (
            "b.jsonl",
            "\u{feff}\n{\"input_length\": 7}\n",
            "b.jsonl: line 2: unknown header \"{\"input_length\": 7}\"",
        ),
        ("b.csv", "\u{feff} \n", "b.csv: is empty"),
        (
            "b.csv",
            "\n \narrival_s,length_in\n1,3\n\n2,x\n",
            "b.csv: line 6: length_in: \"x\" is not a whole number",
        ),
        (
            "b.csv",
            "arrival\n1969-12-31 00:00:00\n",
            "b.csv: line 2: arrival: \"1969-12-31 00:00:00\" is before 1970, in which dates begin",
        ),
        (
            "b.csv",
            "arrival_s,length_in,class\n1,3,\n",
            "b.csv: line 2: class: is empty",
        ),
        (
            "b.csv",
            "arrival_s,length_in,class\n1,3,\"a,b\"\n",
            "b.csv: line 2: class: \"a,b\" is not a class",
        ),
    ] {
        desk.write(file, text);
        desk.run(&["trace", "import", file]).failed(2, message);
    }
}

#[test]
fn mistakes_are_named() {
    let desk = Desk::new();
    desk.write("bad.csv", "id,arrival_ns,shape\n0,5,chain:3\n1,4,chain:3\n");
    desk.write("in.csv", "arrival_s,length_in\n0,3\nsoon,4\n");
    let gen_ = &["trace", "gen", "--dataset", "constant:4", "-n", "3"][..];
    for (words, message) in [
        (
            &["trace", "info", "bad.csv"][..],
            "bad.csv: line 3: arrival_ns: 4 is before 5",
        ),
        (
            &["trace", "convert", "bad.csv", "-o", "out.csv"],
            "bad.csv: line 3: arrival_ns: 4 is before 5",
        ),
        (
            &["trace", "info", "none.csv"],
            "none.csv: cannot be read: No such file",
        ),
        (
            &["trace", "info", "."],
            ".: line 1: cannot be read: Is a directory",
        ),
        (
            &["trace", "import", "in.csv", "-o", "out.csv"],
            "in.csv: line 3: arrival_s: \"soon\" is not a number of seconds",
        ),
        (
            &["trace", "import", "costs.csv"],
            "costs.csv: line 1: unknown header \"cell,batch,ns\"",
        ),
        (
            &[gen_, &["--rate", "0"]].concat(),
            "--rate: must be a number of requests per second from 1e-6 to 1e9, not 0",
        ),
        (
            &[gen_, &["--rate", "nan"]].concat(),
            "--rate: must be a number of requests per second from 1e-6 to 1e9, not NaN",
        ),
        (
            &[gen_, &["--rate", "1e-10"]].concat(),
            "--rate: must be a number of requests per second from 1e-6",
        ),
        (
            &[gen_, &["--process", "gamma", "--rate", "3"]].concat(),
            "--cv: missing; the coefficient of variation of the",
        ),
        (
            &[gen_, &["--cv", "2", "--rate", "3"]].concat(),
            "--cv: unknown key of the process \"poisson\"; known: process, r",
        ),
        (
            &[gen_, &["--process", "gamma", "--cv", "0", "--rate", "3"]].concat(),
            "--cv: 0 is out of range; it is a number",
        ),
        (
            &[gen_, &["--process", "offline", "--rate", "3"]].concat(),
            "--rate: unknown key of the process \"offline\"",
        ),
        (
            &[
                "trace",
                "gen",
                "--dataset",
                "constant:4",
                "-n",
                "20000",
                "--rate",
                "1e-6",
            ],
            "requests arrives after",
        ),
        (
            &[gen_, &[]].concat(),
            "poisson needs --rate, in requests per second",
        ),
        (
            &[gen_, &["--rate", "3", "--model", "x"]].concat(),
            "--model: unknown model \"x\"; known: lstm, gru, seq2seq",
        ),
        (
            &["trace", "gen", "--dataset", "x", "-n", "3", "--rate", "3"],
            "x: no such file; a dataset is a file, constant:SIZE",
        ),
    ] {
        desk.run(words).failed(2, message);
    }
    let low = desk.run(&[gen_, &["--process", "mmpp", "--rate", "3", "--low", "5"]].concat());
    assert!(
        low.code == Some(2) && low.stderr.contains("'--low <TIME>': \"5\" has no unit"),
        "{low:?}"
    );
    assert!(!desk.path("out.csv").exists());
    desk.write("good.csv", "id,arrival_ns,shape\n0,5,chain:3\n");
    desk.run(&["trace", "convert", "good.csv", "-o", "good.csv/x.csv"])
        .failed(1, "good.csv: cannot be written: ");
    desk.run(&["trace", "convert", "good.csv", "-o", "."])
        .failed(1, ".: cannot be written: is a directory");
}
