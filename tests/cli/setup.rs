//! What shells, editors and beginners get: completions, manual pages, the schema, a first scenario, the list of policies.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::desk::Desk;
use crate::graphs::valid_by_schema;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

fn scenarios() -> Vec<Value> {
    let (mut folders, mut found) = (vec![PathBuf::from(ROOT).join("scenarios")], Vec::new());
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
        {
            let text = || fs::read_to_string(&path).unwrap();
            match path.extension().and_then(|ending| ending.to_str()) {
                None if path.is_dir() => folders.push(path),
                Some("toml")
                    if !["devices", "llms"]
                        .iter()
                        .any(|other| folder.ends_with(other)) =>
                {
                    found.push(toml::from_str(&text()).unwrap())
                }
                _ => {}
            }
        }
    }
    found
}

#[test]
fn the_schema_takes_all_scenarios_and_no_mistakes() {
    let desk = Desk::new();
    desk.run(&["schema", "-o", "schema.json"]).ok();
    assert_eq!(desk.read("schema.json"), desk.run(&["schema"]).ok().stdout);
    let mut documents = scenarios();
    let right = documents.len();
    assert!(right > 30, "{right}");
    let base: Value = toml::from_str(crate::desk::SCENARIO).unwrap();
    for (place, wrong) in [
        ("/device/worker", json!(1)),
        ("/device/workers", json!("two")),
        ("/device/precision", json!("f8")),
        ("/metrics/slo", json!(50)),
        ("/arrivals/process", json!("weibull")),
        ("/output/plots", json!(["pie"])),
        ("/policy/0/max_batch", json!("many")),
        ("/policy/1/pad_to", json!("nothing")),
        ("/policy/1/max_tasks", json!(5)),
        ("/policy/1/kind", json!("padding")),
        ("/workload", json!({ "dataset": "constant:3" })),
    ] {
        let mut document = base.clone();
        let (table, key) = place.rsplit_once('/').unwrap();
        for name in ["device", "metrics", "output"] {
            document
                .as_object_mut()
                .unwrap()
                .entry(name)
                .or_insert(json!({}));
        }
        document.pointer_mut(table).unwrap()[key] = wrong;
        documents.push(document);
    }
    for (place, valid) in valid_by_schema(&desk.path("schema.json"), &documents)
        .into_iter()
        .enumerate()
    {
        assert_eq!(valid, place < right, "{}", documents[place]);
    }
    let schema: Value = serde_json::from_str(&desk.read("schema.json")).unwrap();
    let padded = |schema: &Value| {
        schema["properties"]["policy"]["items"]["oneOf"][2]["properties"]["pad_to"].clone()
    };
    assert_eq!(padded(&schema)["enum"], json!(["bucket", "longest"]));
    assert_eq!(padded(&schema)["default"], "bucket");
    assert!(
        padded(&schema)["description"]
            .as_str()
            .unwrap()
            .starts_with("Up to the bucket's bound")
    );
}

#[test]
fn a_first_scenario_runs_at_once() {
    let desk = Desk::new();
    assert_eq!(desk.run(&["init"]).ok().stdout, "scenario.toml\nv100.csv\n");
    desk.run(&["init"])
        .failed(2, "scenario.toml: exists already; name another file");
    let written = desk.run(&["init", "mine/own.toml"]).ok();
    assert_eq!(written.stdout, "mine/own.toml\nmine/v100.csv\n");
    let ran = desk
        .run(&[
            "sim",
            "mine/own.toml",
            "-q",
            "-o",
            "out",
            "--set",
            "workload.requests=2000",
        ])
        .ok();
    assert!(
        ran.stdout.starts_with("first\n")
            && desk.path("out/first/latency-throughput.svg").is_file(),
        "{ran:?}"
    );
}

#[test]
fn policies_are_described_with_keys_and_papers() {
    let desk = Desk::new();
    let text = desk.run(&["policies", "cellular"]).ok().stdout;
    assert!(
        text.contains("EuroSys 2018") && text.contains("\n  max_tasks = 5\n      How many tasks"),
        "{text}"
    );
    assert!(
        text.lines().skip(1).all(|line| line.chars().count() <= 80),
        "{text}"
    );
    let all = desk.run(&["policies", "--format", "json"]).ok().results();
    let kinds: Vec<&str> = all
        .iter()
        .map(|one| one["kind"].as_str().unwrap())
        .collect();
    assert_eq!(kinds[..3], ["cellular", "late", "padded"]);
    for policy in &all {
        assert_ne!(policy["details"], "", "{policy}");
        for key in policy["keys"].as_array().unwrap() {
            assert!(
                key["about"].as_str().is_some_and(|about| about.len() > 10),
                "{policy}"
            );
        }
    }
    let alias = desk
        .run(&["policies", "immediate", "--format", "json"])
        .ok()
        .json();
    assert_eq!(alias["kind"], "unbatched");
    desk.run(&["policies", "celular"]).failed(
        2,
        "unknown policy \"celular\"; did you mean cellular?; known: cellular, late,",
    );
}

#[test]
fn shells_complete_and_commands_have_pages() {
    let desk = Desk::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = desk.run(&["completions", shell]).ok().stdout;
        assert!(
            script.contains("find-knee") && script.contains("replications"),
            "{shell}: {script}"
        );
    }
    assert!(desk.run(&["man"]).ok().stdout.contains(".SH SYNOPSIS"));
    desk.run(&["man", "-o", "man"]).ok();
    for page in ["batchlab", "batchlab-sim", "batchlab-trace-import"] {
        assert!(
            Path::new(&desk.path(&format!("man/{page}.1"))).is_file(),
            "{page}"
        );
    }
}

/// Names of options that changed stay valid.
#[test]
fn options_have_one_name_and_their_old_ones() {
    let desk = Desk::new();
    for option in ["-o", "--out", "--output"] {
        let words = [
            "trace",
            "gen",
            "--dataset",
            "constant:4",
            "-n",
            "20",
            "--rate",
            "9",
            "--quiet",
            option,
            "a.csv",
        ];
        let ran = desk.run(&words).ok();
        assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("", ""));
        fs::remove_file(desk.path("a.csv")).unwrap();
    }
    let ran = desk.run(&["sim", "t.toml", "--seed", "-1"]);
    assert!(
        ran.stderr
            .contains("invalid value '-1' for '--seed <SEED>': must be a whole number from 0 to "),
        "{ran:?}"
    );
}

#[test]
fn several_mistakes_are_told_at_once() {
    let desk = Desk::new();
    let text = desk
        .read("t.toml")
        .replace("requests = 200", "requests = \"many\"\nmodell = 1")
        .replace("[device]", "[device]\nworker = 2");
    let text = text
        .replace("rates =", "rate =")
        .replace("kind = \"cellular\"", "kind = \"celular\"");
    desk.write("t.toml", &text);
    let ran = desk.sim(&[]);
    let places: Vec<&str> = ran
        .stderr
        .lines()
        .map(|line| {
            line.split(": ")
                .nth(usize::from(line.starts_with("batchlab")))
                .unwrap()
        })
        .collect();
    assert_eq!(
        (ran.code, places),
        (
            Some(2),
            vec!["t.toml:5", "t.toml:6", "t.toml:11", "t.toml:9", "t.toml:14"]
        ),
        "{ran:?}"
    );
    let text = text
        .replace("\"many\"\nmodell = 1", "200")
        .replace("worker = 2", "")
        .replace("rate =", "rates =");
    desk.write(
        "t.toml",
        text.replace("label = \"B\"", "label = \"B\"\nmax_batch = 0\n"),
    );
    let ran = desk.sim(&[]);
    assert!(
        ran.stderr.contains("policy[0].kind: unknown policy") && ran.stderr.contains("\nt.toml:"),
        "{ran:?}"
    );
}

#[test]
fn times_have_units_everywhere() {
    let desk = Desk::new();
    let overhead = |value: &str| {
        desk.sim(&["--set", &format!("overhead.task_ns={value}")])
            .ok();
        let run: Value = serde_json::from_str(&desk.read("out/t/run.json")).unwrap();
        run["scenario"]["overhead"]["task_ns"].clone()
    };
    assert_eq!(
        [overhead("5us"), overhead("5000")],
        [json!(5000), json!(5000)]
    );
    desk.sim(&["--set", "overhead.task_ns=5parsec"]).failed(
        2,
        "overhead.task_ns: unknown unit \"parsec\" in \"5parsec\"",
    );
}

#[test]
fn a_cost_table_that_falls_gets_a_note() {
    let desk = Desk::new();
    desk.write(
        "costs.csv",
        "cell,batch,ns\nlstm,1,1000000\nlstm,4,200000\n",
    );
    let ran = desk.run(&["sim", "t.toml", "--out", "out"]).ok();
    assert!(
        ran.stderr
            .contains("costs.csv: the time of lstm falls from batch 1 to 4; check the table"),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_cost_table_in_milliseconds_gets_a_note() {
    let desk = Desk::new();
    desk.write("costs.csv", "cell,batch,ns\nlstm,1,2\nlstm,4,6\n");
    let ran = desk.run(&["sim", "t.toml", "--out", "out"]).ok();
    let note = "costs.csv: a batch of 4 of lstm takes 6ns, and nothing takes longer: are these milliseconds?";
    assert!(ran.stderr.contains(note), "{}", ran.stderr);
}

#[test]
fn imports_never_overwrite_what_they_read() {
    let desk = Desk::new();
    let costs = "cell,batch,ns\nnet,1,10\n";
    let config = "name: \"m\"\nmax_batch_size: 8\ndynamic_batching { }\n";
    let measured = "Concurrency,Batch Size,Server Compute Infer\n1,1,10\n";
    let times = "arrival_s\n1\n2\n";
    let trace = "id,arrival_ns,shape\n0,0,fixed\n";
    for (file, text, words) in [
        ("net.csv", costs, &["import", "stages"][..]),
        ("net-costs.csv", costs, &["import", "stages"]),
        ("config.pbtxt", config, &["import", "triton"]),
        ("perf.csv", measured, &["import", "perf-analyzer"]),
        ("log.csv", times, &["trace", "import"]),
        ("trace.csv", trace, &["trace", "convert"]),
    ] {
        desk.write(file, text);
        let import = [words, &[file, "-o"]].concat();
        // Stages add endings to the name.
        let out = if file.starts_with("net") { "net" } else { file };
        let message = format!("{file}: is the file that is read, which would be lost");
        desk.run(&[&import[..], &[out]].concat())
            .failed(2, &message);
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(file, desk.path("link.csv")).unwrap();
            desk.run(&[&import[..], &["link.csv"]].concat())
                .failed(2, "link.csv: is the file that is read");
            std::fs::remove_file(desk.path("link.csv")).unwrap();
        }
        assert_eq!(desk.read(file), text);
        desk.run(&[&import[..], &["other.csv"]].concat()).ok();
    }
    // No file of two is written where the other is refused.
    desk.write("own-costs.csv", costs);
    desk.run(&["import", "stages", "own-costs.csv", "-o", "own"])
        .failed(2, "own-costs.csv: is the file that is read");
    assert!(!desk.path("own.csv").exists());
}

#[test]
fn shares_and_names_of_stages_are_checked() {
    let desk = Desk::new();
    desk.write("net.csv", "cell,batch,ns\nnet,1,10\nstage1,1,5\n");
    let import = ["import", "stages", "net.csv", "-o", "staged"];
    desk.run(&import)
        .failed(2, "net.csv: has rows \"stage1\" already");
    desk.run(&[&import[..], &["--shares", "1e308,1e308"]].concat())
        .failed(
            2,
            "--shares: 1e308 is not a share; a share is a number above 0, up to 1e9",
        );
    assert!(!desk.path("staged.csv").exists());
}

#[test]
fn a_mistake_in_a_cost_table_is_said_first_and_once() {
    let desk = Desk::new();
    let staged = desk
        .read("t.toml")
        .replace("kind = \"cellular\"", "kind = \"symphony\"")
        .replace(
            "kind = \"padded\"",
            "kind = \"dvabatch\"\nwindow = \"first-stage\"",
        );
    desk.write("t.toml", staged);
    for (table, message) in [
        (
            "cell,batch,ns\nlstm,1,2.05\n",
            "costs.csv:2: ns: \"2.05\" is not a whole number of nanoseconds, 0 or more; 2.05 ms are 2050000",
        ),
        (
            "cell,batch,ns\nlstm,1,-5\n",
            "costs.csv:2: ns: \"-5\" is not",
        ),
        (
            "cell,batch,ns\nlstm,0,5\n",
            "costs.csv:2: batch: \"0\" is not",
        ),
        (
            "cell,batch,ns\nlstm,1,5\nlstm,1,6\n",
            "costs.csv:3: a second row",
        ),
        (
            "cell,batch,ns\ngru,1,5\n",
            "costs.csv: no rows for the cell \"lstm\"",
        ),
        (
            "cell;batch;ns\nlstm;1;5\n",
            "costs.csv:1: the columns are separated by semicolons",
        ),
        ("cell,batch\nlstm,1\n", "costs.csv:1: no column \"ns\""),
        ("cell,batch,ns\n", "costs.csv: no rows; a cost table"),
        ("", "costs.csv:1: no column \"cell\""),
    ] {
        desk.write("costs.csv", table);
        let ran = desk.sim(&[]);
        ran.failed(2, message);
        assert!(
            ran.stderr
                .starts_with(&format!("batchlab: t.toml: {message}")),
            "{ran:?}"
        );
    }
}

#[test]
fn options_and_policies_that_do_not_fit_say_so() {
    let desk = Desk::new();
    desk.sim(&[]).ok();
    let ran = desk
        .run(&[
            "plot",
            "out/t",
            "--kind",
            "latency-throughput",
            "--first",
            "5",
        ])
        .ok();
    assert_eq!(
        ran.stderr,
        "batchlab: note: --first has no effect on latency-throughput; it is for gantt\n"
    );
    let run = desk
        .read("out/t/run.json")
        .replace("\"kind\": \"padded\"", "\"kind\": \"lifo\"");
    desk.write("out/t/run.json", run);
    let message = "the policy \"lifo\" is one of another program; use the program that ran it on these results";
    desk.run(&["explain", "out/t/A/100", "request", "1"])
        .failed(2, message);
}
