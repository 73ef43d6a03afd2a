//! `batchlab tune`, `batchlab import` and `batchlab reproduce neighbours`.

use crate::desk::{Desk, same};

/// A step of b requests takes 0.1 b + 0.9 ms up to 2, and no less a request beyond.
fn images() -> Desk {
    let desk = Desk::new();
    desk.write(
        "net.csv",
        "cell,batch,ns\nnet,1,1000000\nnet,2,1100000\nnet,4,2200000\n",
    );
    desk.write(
        "t.toml",
        "name = \"t\"\n[workload]\nmodel = \"dnn:net\"\ndataset = \"constant:fixed\"\nrequests = 2000\n[arrivals]\n\
         process = \"uniform\"\nrates = [100]\n[device]\ncosts = \"net.csv\"\n[sweep]\n\"device.workers\" = [1, 2]\n\
         [[policy]]\nkind = \"triton\"\nlabel = \"T\"\n[[policy]]\nkind = \"unbatched\"\n",
    );
    desk
}

const TUNE: [&str; 9] = [
    "tune", "t.toml", "-q", "--policy", "T", "--slo", "20ms", "--out", "out",
];

/// A search that is short and coarse.
const FEW: [&str; 8] = [
    "--replications",
    "2",
    "--tolerance",
    "0.1",
    "--max-requests",
    "8000",
    "--set",
    "arrivals.process=poisson",
];

#[test]
fn the_best_settings_are_found_and_written() {
    let desk = images();
    let tune = |more: &[&str]| desk.run(&[&TUNE[..], &["--replications", "2"], more].concat());
    let found = tune(&[
        "--over",
        "max_batch=1,4,2",
        "--over",
        "max_total=100,200",
        "--format",
        "json",
    ])
    .ok()
    .json();
    let rows = found["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 6);
    let best = &rows[0];
    // A batch of two and one of four serve the same; of equal ones, the first is named.
    assert_eq!(
        (&best["policy.T.max_batch"], &best["policy.T.max_total"]),
        (&4.into(), &100.into()),
        "{found:#}"
    );
    let knee = best["knee_rps"].as_f64().unwrap();
    assert!((1_780.0..1_819.0).contains(&knee), "{knee}");
    let slow = rows
        .iter()
        .find(|row| row["policy.T.max_batch"] == 1)
        .unwrap();
    assert!(
        slow["round"].as_u64() < Some(3) && slow["knee_rps"].as_f64() < Some(1_100.0),
        "{slow}"
    );

    assert_eq!(desk.read("out/t/tune.csv").lines().count(), 7);
    assert!(
        desk.path("out/t/p99-throughput.png").exists() && desk.path("out/t/summary.csv").exists()
    );
    let tuned = desk.read("out/t/tuned.toml");
    assert!(
        tuned.contains("max_batch = 4") && !tuned.contains("sweep"),
        "{tuned}"
    );
    desk.write("tuned.toml", tuned);
    desk.run(&["sim", "tuned.toml", "-q"]).ok();
    let told = tune(&["--over", "max_batch=1,2"]).ok().stdout;
    assert!(
        told.starts_with("t: the highest rate with p99 at most 20ms, to 1 %\n  T, max_batch=2  18"),
        "{told}"
    );
    assert!(
        told.contains("\n1 of 2 settings are left after the last round\n"),
        "{told}"
    );
}

#[test]
fn the_chosen_settings_are_marked_and_keep_their_caveat() {
    let desk = images();
    let tune = |more: &[&str]| {
        let over = ["--over", "max_batch=1,2,4"];
        desk.run(&[&TUNE[..], &FEW, &over, more].concat())
            .ok()
            .stdout
    };
    let told = tune(&[]);
    let chosen: Vec<&str> = told
        .lines()
        .filter(|line| line.ends_with("  chosen"))
        .collect();
    assert!(
        chosen.len() == 1 && chosen[0].starts_with("  T, max_batch=2 "),
        "{told}"
    );
    assert_eq!(
        desk.column("out/t/tune.csv", "chosen"),
        ["true", "false", "false"]
    );
    let head = desk.read("out/t/tuned.toml");
    assert!(
        head.starts_with(
            "# t.toml, with the settings that batchlab tune chose.\n# The highest rate with p99 at most 20ms: 1"
        ) && !head.contains("Caveat"),
        "{head}"
    );
    // Too short to show an overload.
    let words = "tune t.toml -q --policy T --slo 60s --out out --over max_batch=1,2 --replications 2 --max-requests 2000";
    let words: Vec<&str> = words.split(' ').collect();
    let told = desk.run(&words).ok().stdout;
    assert!(
        told.contains("\nchosen: the best, although its answer has a caveat (?)"),
        "{told}"
    );
    let head = desk.read("out/t/tuned.toml");
    assert!(
        head.contains("\n# Caveat: limited by runs of 2000 requests: "),
        "{head}"
    );
}

#[test]
fn tune_goes_on_where_it_was_and_excludes_others() {
    let desk = images();
    let tune = |more: &[&str]| desk.run(&[&TUNE[..], &FEW, more].concat());
    let values = ["--over", "max_batch=1,2,4"];
    let whole = tune(&values).ok();
    let files = desk.files("out");
    // What a killed process has left.
    std::fs::remove_file(desk.path("out/t/tune.csv")).unwrap();
    std::fs::remove_file(desk.path("out/t/T/tune-2,policy.T.max_batch=2/search-2.json")).unwrap();
    let again = tune(&[&values[..], &["--resume"]].concat()).ok();
    assert_eq!(again.stdout, whole.stdout);
    same(&files, &desk.files("out"));
    tune(&["--over", "max_batch=1,2,4,8", "--resume"]).ok();
    tune(&[&values[..], &["--resume", "--seed", "2"]].concat())
        .failed(2, "search.json: was run with other settings");
    let lock = std::fs::File::options()
        .write(true)
        .open(desk.path("out/t/.lock"))
        .unwrap();
    lock.lock().unwrap();
    tune(&values).failed(2, "out/t: another run is writing to this folder");
}

#[test]
fn the_number_of_workers_that_was_found_is_written() {
    let desk = images();
    let tune = |more: &[&str]| desk.run(&[&TUNE[..], &FEW, &["--rate", "2500"], more].concat());
    let told = tune(&["--over", "max_batch=1,2"]).ok().stdout;
    assert!(told.contains("\n  T, max_batch=2  2 workers"), "{told}");
    let tuned = desk.read("out/t/tuned.toml");
    assert!(
        tuned.contains("\nworkers = 2\n") && tuned.contains("max_batch = 2"),
        "{tuned}"
    );
    tune(&["--over", "device.workers=1,2"]).failed(
        2,
        "t.toml: --over device.workers: --rate looks for the number of workers; leave one of the two out",
    );
}

#[test]
fn mistakes_in_settings_to_try_name_their_option() {
    let desk = images();
    for (over, message) in [
        (
            "max_batc=1,2",
            "t.toml: --over max_batc=1,2: policy[0] (triton): max_batc: unknown key",
        ),
        (
            "max_batch=1,,2",
            "batchlab: --over max_batch=1,,2: a value is empty",
        ),
        (
            "max_batch",
            "--over max_batch: no value; write it as --over key.path=value",
        ),
        (
            "device.workers=0",
            "t.toml: --over device.workers=0: device.workers: must be a whole number",
        ),
        (
            "policy.Z.window=1",
            "t.toml: --over policy.Z.window=1: policy.Z.window: there is no \"Z\"",
        ),
        (
            "policy.unbatched.costs=net.csv",
            "t.toml: --over policy.unbatched.costs: is a key of unbatched",
        ),
        (
            "label=a",
            "t.toml: --over label: names or describes results",
        ),
        (
            "class.a.share=1,2",
            "t.toml: --over class.a.share: the load and the objective are what",
        ),
    ] {
        desk.run(&[&TUNE[..], &["--over", over]].concat())
            .failed(2, message);
    }
    let twice = ["--over", "max_batch=1,2", "--over", "policy.T.max_batch=4"];
    desk.run(&[&TUNE[..], &twice].concat()).failed(
        2,
        "--over policy.T.max_batch=4: its key is in --over max_batch=1,2 too; give all values of a key at once",
    );
    assert!(!desk.path("out").exists());
}

/// The tuned scenario lies in another folder than the files that the given one lies beside.
#[test]
fn a_tuned_scenario_runs_where_it_is() {
    let desk = images();
    std::fs::create_dir(desk.path("sub")).unwrap();
    desk.write("sub/t.toml", desk.read("t.toml"));
    std::fs::rename(desk.path("net.csv"), desk.path("sub/net.csv")).unwrap();
    let words = [
        "sub/t.toml",
        "-q",
        "--policy",
        "T",
        "--slo",
        "20ms",
        "--over",
        "max_batch=2",
        "--replications",
        "2",
    ];
    desk.run(&[&["tune"], &words[..]].concat()).ok();
    desk.run(&["sim", "results/tune/t/tuned.toml", "-q"]).ok();
    // Nothing is searched in vain.
    let ran = desk.run(
        &[
            &["tune"],
            &words[..],
            &["--max-requests", "4000000000", "--out", "t.toml"],
        ]
        .concat(),
    );
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(
        ran.stderr
            .starts_with("batchlab: t.toml/t: cannot be written"),
        "{ran:?}"
    );
}

#[test]
fn sizes_that_need_too_much_memory_are_refused() {
    let desk = images();
    let sim = |set: &[&str]| {
        let set: Vec<&str> = set.iter().flat_map(|set| ["--set", set]).collect();
        desk.run(&[&["sim", "t.toml", "-q"], &set[..]].concat())
    };
    sim(&[
        "policy.T.priority_levels=4294967295",
        "policy.T.default_priority_level=1",
    ])
    .failed(2, "priority_levels: 4294967295 is too large; at most 1000");
    sim(&["policy.T.instances=65535"]).failed(2, "instances: 65535 is too large; at most 64");
    let limit = "policy.T={ kind = 'control-limit', label = 'T', max_batch = 4294967295 }";
    let poisson = "arrivals={ process = 'poisson', rates = [9] }";
    desk.run(&[
        "tune",
        "t.toml",
        "-q",
        "--policy",
        "T",
        "--optimal",
        "--set",
        limit,
        "--set",
        poisson,
    ])
    .failed(
        2,
        "max_batch: 4294967295 is too large for the best limit; at most 1024",
    );
}

#[test]
fn the_settings_with_the_fewest_workers_are_found() {
    let desk = images();
    let words = [
        "--rate",
        "2500",
        "--over",
        "max_batch=1,2",
        "--replications",
        "2",
        "--format",
        "json",
    ];
    let found = desk.run(&[&TUNE[..], &words].concat()).ok().json();
    let workers: Vec<_> = found["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["workers"].as_f64())
        .collect();
    assert_eq!(workers, [Some(2.0), Some(3.0)]);
}

#[test]
fn the_best_control_limit_is_computed() {
    let desk = images();
    desk.write("net.csv", "cell,batch,ns\nnet,1,2031200\nnet,32,6489000\n");
    // Half of what batches of 32 serve.
    let text = desk
        .read("t.toml")
        .replace("uniform", "poisson")
        .replace("[100]", "[2465.711]");
    let text = text.replace(
        "kind = \"triton\"\n",
        "kind = \"control-limit\"\nmax_batch = 32\n",
    );
    desk.write("t.toml", &text);
    let solve = |more: &[&str]| {
        desk.run(
            &[
                &["tune", "t.toml", "-q", "--policy", "T", "--optimal"],
                more,
            ]
            .concat(),
        )
    };
    let row = solve(&["--format", "json"]).ok().json()["rows"][0].clone();
    assert_eq!(row["wait_for"], 3);
    assert!(
        (row["cost_ms"].as_f64().unwrap() - 4.57745).abs() < 1e-4,
        "{row}"
    );
    let told = solve(&["--busy-weight", "50ms"]).ok().stdout;
    assert!(
        told.contains("least sum of mean latency and 50ms times the busy share"),
        "{told}"
    );
    solve(&["--set", "device.workers=2"]).failed(
        2,
        "t.toml: device.workers: the best limit is known for 1 worker only",
    );
    solve(&["--set", "arrivals.rates=[9999]"])
        .failed(2, "9999 req/s: more than 98 % of what batches of 32 serve");
    desk.write("t.toml", text.replace("control-limit", "padded"));
    solve(&[]).failed(2, "t.toml: --optimal: padded has no limit");
}

#[test]
fn mistakes_of_tune_are_told() {
    let desk = images();
    let tune = |policy: &str, more: &[&str]| {
        desk.run(
            &[
                &["tune", "t.toml", "-q", "--slo", "20ms", "--policy", policy],
                more,
            ]
            .concat(),
        )
    };
    tune("absent", &[]).failed(
        2,
        "t.toml: --policy: no policy is labelled \"absent\"; there are T, unbatched",
    );
    tune("unbatched", &[]).failed(
        2,
        "t.toml: --over: name keys of unbatched with their values",
    );
    tune("T", &["--over", "max_batsch=1"]).failed(2, "max_batsch: unknown key");
    tune("T", &["--over", "max_batch=0"]).failed(2, "max_batch: 0 is too small");
    for (over, message) in [
        (
            "policy.unbatched.overhead.task_ns=1,2",
            "is a key of unbatched, but the settings of T are compared",
        ),
        (
            "policy.1.overhead.task_ns=1,2",
            "is a key of unbatched, but",
        ),
        (
            "seed=1,2",
            "t.toml: --over seed: the seed draws the requests",
        ),
        (
            "arrivals.rates=1,2",
            "--over arrivals.rates: the load and the objective",
        ),
        (
            "metrics.slo=1ms,2ms",
            "--over metrics.slo: the load and the objective",
        ),
        (
            "workload.requests=10,20",
            "--over workload.requests: the load",
        ),
    ] {
        tune("T", &["--over", over]).failed(2, message);
    }
    tune(
        "T",
        &[
            "--set",
            "arrivals={ process = 'offline' }",
            "--over",
            "max_batch=1,2",
        ],
    )
    .failed(2, "a knee is looked for over rates");
    assert!(!desk.path("results").exists());
}

#[test]
fn a_model_of_triton_becomes_a_policy() {
    let desk = images();
    let config = "max_batch_size: 8\ndynamic_batching { preferred_batch_size: [4] max_queue_delay_microseconds: 500 }\n\
                  optimization { }\n";
    desk.write("config.pbtxt", config);
    let ran = desk.run(&["import", "triton", "config.pbtxt"]).ok();
    assert_eq!(ran.stderr, "config.pbtxt: optimization: not modelled\n");
    let head = desk.read("t.toml");
    desk.write(
        "t.toml",
        format!("{}{}", head.split("[[policy]]").next().unwrap(), ran.stdout),
    );
    desk.run(&["sim", "t.toml", "-q", "--set", "sweep={}"]).ok();
    assert!(ran.stdout.contains("version = \"22.03\""), "{}", ran.stdout);
    let older = desk
        .run(&["import", "triton", "config.pbtxt", "--release", "21.10"])
        .ok()
        .stdout;
    assert_eq!(older, ran.stdout.replace("22.03", "21.10"));
    let wrong = desk.run(&["import", "triton", "config.pbtxt", "--release", "21.1"]);
    assert!(
        wrong.code == Some(2) && wrong.stderr.contains("[possible values: 21.10, 22.03]"),
        "{wrong:?}"
    );
    desk.write("config.pbtxt", "max_batch_size: 8\ndynamic_batching {\n");
    desk.run(&["import", "triton", "config.pbtxt"])
        .failed(2, "config.pbtxt: the file ends where the name of a field");
}

#[test]
fn measurements_of_perf_analyzer_become_costs() {
    let desk = images();
    let header = "Concurrency,Inferences/Second,Server Queue,Server Compute Input,Server Compute Infer,Server Compute Output";
    desk.write(
        "1.csv",
        format!("{header}\n1,90,60,20,980,0\n2,95,900,20,980,0\n"),
    );
    desk.write("4.csv", format!("{header}\n1,90,60,40,2160,0\n"));
    let ran = desk
        .run(&[
            "import",
            "perf-analyzer",
            "1=1.csv",
            "4=4.csv",
            "-o",
            "net.csv",
        ])
        .ok();
    let unused = "1.csv: line 3: at a concurrency of 2 the server may join requests of 1; the row is not used\n";
    assert_eq!((ran.stderr.as_str(), ran.stdout.as_str()), (unused, ""));
    assert_eq!(
        desk.read("net.csv"),
        "cell,batch,ns\nnet,1,1000000\nnet,4,2200000\n"
    );
    desk.run(&["sim", "t.toml", "-q"]).ok();
    desk.run(&["import", "perf-analyzer", "4.csv"])
        .failed(2, "4.csv: line 1: no column Batch Size");
}

#[test]
fn the_neighbours_stand_side_by_side_on_a_page() {
    let desk = Desk::new();
    let words = [
        "reproduce",
        "neighbours",
        "-q",
        "--out",
        "out",
        "--set",
        "workload.requests=300",
    ];
    desk.run(&words).ok();
    let page = desk.read("out/index.html");
    for part in [
        "Requests with lengths",
        "Requests without lengths",
        "Trees",
        "Deadlines",
        "ceiling: ",
        "Symphony",
    ] {
        assert!(page.contains(part), "{part}");
    }
    assert!(!page.contains("verdict"), "no claims are checked");
    let told = desk
        .run(&[&words[..2], &["deadlines"], &words[2..]].concat())
        .ok()
        .stdout;
    assert!(
        told.contains("neighbours deadlines: Deadlines") && told.contains("floor: p50"),
        "{told}"
    );
}
