//! Networks as lists of operators: the shipped ones, the command that shows them, and scenarios that run them.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::desk::{Desk, Ran, program};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// `batchlab network` on a shipped network, as JSON.
fn shown(name: &str, options: &[&str]) -> Value {
    let file = format!("scenarios/networks/{name}.csv");
    let mut command = program();
    let output = command
        .current_dir(ROOT)
        .args(["network", &file, "--format", "json"])
        .args(options)
        .output()
        .unwrap();
    assert!(output.status.success(), "{name}: {output:?}");
    Ran::from(output).json()
}

const TITAN_RTX: [&str; 2] = ["--roofline", "scenarios/devices/titan-rtx.toml"];

#[test]
fn shipped_networks_have_the_totals_that_are_well_known() {
    // Multiply-adds in 10^9 and weights in 10^6, each to half of the last digit. Weights are those of products only.
    for (name, tokens, macs, weights, within) in [
        ("vgg19", None, 19.63, 143.65, 0.005),
        ("resnet152", None, 11.51, 60.04, 0.005),
        ("linknet", None, 2.05, 11.5, 0.05),
        ("unet", None, 1.95, 24.4, 0.05),
        // 12 layers of 12 · 768² weights, and 2 · tokens² · 768 multiply-adds of attention.
        ("bert-base", Some("128"), 11.17, 85.5, 0.05),
        ("bert-large", Some("128"), 39.47, 303.0, 0.05),
    ] {
        let tokens = tokens.map_or(vec![], |tokens| vec!["--tokens", tokens]);
        let network = shown(name, &tokens);
        let off = |key: &str, known: f64, unit: f64| {
            (network[key].as_f64().unwrap() / unit - known).abs()
        };
        assert!(
            off("multiply_adds", macs, 1e9) < within,
            "{name}: {}",
            network["multiply_adds"]
        );
        assert!(
            off("weights", weights, 1e6) < within,
            "{name}: {}",
            network["weights"]
        );
    }
}

#[test]
fn shipped_networks_are_what_their_layers_give() {
    let check = Command::new("python3")
        .current_dir(ROOT)
        .args(["scripts/networks/networks.py", "--check"])
        .output();
    match check {
        Ok(output) => assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stdout)
        ),
        Err(cause) => eprintln!("not checked without python3: {cause}"),
    }
}

/// DVABatch, Figure 6: the operators of U-Net's first part gain from large batches, those of its last part only from
/// small ones.
#[test]
fn the_former_part_of_unet_prefers_larger_batches_than_the_latter() {
    let unet = shown("unet", &TITAN_RTX);
    let operators = unet["operators"].as_array().unwrap();
    let preferred = |name: &str| -> Vec<u64> {
        let of_part = operators
            .iter()
            .filter(|operator| operator["name"].as_str().unwrap().starts_with(name));
        of_part
            .filter(|operator| operator["kind"] == "matmul")
            .map(|o| o["preferred_batch"].as_u64().unwrap())
            .collect()
    };
    // Each stage of the encoder has a quarter of the pixels and twice the channels of the previous one: twice the
    // batch.
    for (stage, batch) in [("enc1", 4), ("enc2_2", 8), ("enc3_2", 16), ("enc4_2", 32)] {
        assert!(
            preferred(stage).iter().all(|preferred| *preferred == batch),
            "{stage}: {:?}",
            preferred(stage)
        );
    }
    for (level, batch) in [
        ("dec1", 16),
        ("dec2", 8),
        ("dec3", 4),
        ("dec4", 2),
        ("dec5", 1),
        ("head", 1),
    ] {
        assert!(
            preferred(level).iter().all(|preferred| *preferred == batch),
            "{level}: {:?}",
            preferred(level)
        );
    }
    // So it is sliced after the encoder and after the decoder's first level, which is as small as the encoder's last
    // stages.
    let stages = shown("unet", &[&TITAN_RTX[..], &["--preferred", "8"]].concat())["stages"].clone();
    let ends: Vec<&str> = stages
        .as_array()
        .unwrap()
        .iter()
        .map(|stage| stage["to"].as_str().unwrap())
        .collect();
    assert_eq!(ends, ["enc4_3b", "dec1b", "head"]);
}

#[test]
fn stages_hold_every_operator_once_and_times_add_up() {
    let net = shown(
        "resnet152",
        &[&TITAN_RTX[..], &["--stages", "4", "--batch", "1,64"]].concat(),
    );
    let stages = net["stages"].as_array().unwrap();
    let sum = |key: &dyn Fn(&Value) -> u64| stages.iter().map(key).sum::<u64>();
    assert_eq!(
        sum(&|stage| stage["operators"].as_u64().unwrap()),
        net["operators"].as_array().unwrap().len() as u64
    );
    for batch in ["1", "64"] {
        assert_eq!(
            sum(&|stage| stage["times_ns"][batch].as_u64().unwrap()),
            net["times_ns"][batch].as_u64().unwrap()
        );
    }
    let at_64: Vec<u64> = stages
        .iter()
        .map(|stage| stage["times_ns"]["64"].as_u64().unwrap())
        .collect();
    let (least, most) = (at_64.iter().min().unwrap(), at_64.iter().max().unwrap());
    assert!(most - least < most / 10, "{at_64:?}");
    assert_eq!(
        (&stages[0]["from"], &stages[3]["to"]),
        (&"conv1".into(), &"fc".into())
    );
}

#[test]
fn a_network_is_shown_with_and_without_a_device() {
    let desk = desk();
    let plain = desk.run(&["network", "net.csv"]).ok().stdout;
    assert!(
        plain.starts_with(
            "operator    kind     for one query  MMAC  elements\na         matmul  [16, 4] x [4, 8]  0.00       192\n"
        ),
        "{plain}"
    );
    assert!(
        plain.ends_with("\n2 operators, 0.000 G multiply-adds for 16 tokens, 0.000 M weights\n"),
        "{plain}"
    );
    let options = [
        "--roofline",
        "device.toml",
        "--batch",
        "1,2",
        "--tokens",
        "4",
        "--at",
        "b",
    ];
    let timed = desk
        .run(&[&["network", "net.csv"][..], &options].concat())
        .ok()
        .stdout;
    assert!(timed.contains("preferred  µs at 1  µs at 2"), "{timed}");
    assert!(
        timed.contains("stage  operators  from  to  µs at 1  µs at 2\n1              1     a   a"),
        "{timed}"
    );
}

#[test]
fn mistakes_are_named() {
    let desk = desk();
    let header = "shape,tokens,16\nname,kind,rows,inner,columns,elements\n";
    desk.write("sized.csv", format!("{header}a,matmul,1,tokens,4,1\n"));
    desk.write("long.csv", format!("{header}a,memory,,,,4000000000\n"));
    desk.write(
        "huge.csv",
        format!("{header}a,matmul,1,1048576,1048576,1\n"),
    );
    for (options, message) in [
        (&["network", "none.csv"][..], "none.csv: cannot be read"),
        (
            &["network", "net.csv", "--tokens", "17"],
            "--tokens 17: net.csv takes up to 16",
        ),
        (
            &["network", "net.csv", "--stages", "2"],
            "--stages: needs the times of operators; name a device",
        ),
        (
            &[
                "network",
                "net.csv",
                "--roofline",
                "device.toml",
                "--stages",
                "3",
            ],
            "--stages: 3 stages of 2 operators; from 1 to 2",
        ),
        (
            &["network", "net.csv", "--at", "c"],
            "--at: no operator \"c\" in net.csv; it has: a, b",
        ),
        (
            &[
                "network",
                "net.csv",
                "--roofline",
                "device.toml",
                "--precision",
                "f16",
            ],
            "device.toml: no table [f16], ",
        ),
        (
            &["network", "net.csv", "--costs", "costs.csv"],
            "costs.csv: no rows for the cell \"a\"",
        ),
        (
            &["sim", "t.toml", "--set", "device.roofline=gone.toml"],
            "t.toml: --set device.roofline=gone.toml: device.roofline: no such file",
        ),
        (
            &["sim", "t.toml", "--set", "device.precision=f16"],
            "t.toml: device.toml: no table [f16], ",
        ),
        (
            &["sim", "t.toml", "--set", "workload.model=dnn:net"],
            "t.toml: the operators of the cell \"net\" of dnn:net are unknown",
        ),
        (
            &["sim", "t.toml", "--set", "workload.dataset=constant:17"],
            "t.toml: workload.dataset: constant:17: a request has 17 tokens, and net.csv takes up to 16",
        ),
        (
            &["sim", "t.toml", "--set", "workload.dataset=constant:fixed"],
            "t.toml: workload.dataset: constant:fixed: the model dnn:net.csv takes no fixed shapes",
        ),
        (
            &[
                "real",
                "t.toml",
                "--backend",
                "cuda",
                "--set",
                "workload.model=dnn:net",
            ],
            "t.toml: the model dnn:net has no cells for GPUs; run it with --backend cpu, ",
        ),
        (
            &[
                "real",
                "t.toml",
                "--backend",
                "cuda",
                "--set",
                "workload.model=dnn:long.csv",
            ],
            "t.toml: the model dnn:long.csv: the operator \"a\" has 2000000000 numbers of a query, and GPUs count up to 1073741824;",
        ),
        (
            &["real", "t.toml", "--set", "workload.model=dnn:sized.csv"],
            "t.toml: workload: model: dnn:sized.csv: inner of the matmul \"a\" depends on tokens, and with it the size of its weights",
        ),
        (
            &["real", "t.toml", "--set", "workload.model=dnn:huge.csv"],
            "t.toml: workload: model: dnn:huge.csv, with 8192.0 GiB for its weights and 12 MiB for a query, needs about ",
        ),
        (
            &["real", "t.toml", "--set", "workload.weights=net.csv"],
            "t.toml: workload: net.csv: is not a safetensors file",
        ),
        (
            &["profile", "--scenario", "t.toml", "--inputs", "17"],
            "--inputs: 17 tokens, and net.csv takes up to 16",
        ),
        (
            &["profile", "--model", "dnn:net.csv"],
            "error: invalid value 'dnn:net.csv' for '--model <MODEL>': dnn:net.csv describes a model",
        ),
    ] {
        let ran = desk.run(options);
        assert_eq!(ran.code, Some(2), "{options:?}: {ran:?}");
        assert!(
            ran.stderr
                .trim_start_matches("batchlab: ")
                .starts_with(message),
            "{options:?}: {}",
            ran.stderr
        );
    }
    desk.write(
        "net.csv",
        desk.read("net.csv").replace("tokens,4,8", "tokens,four,8"),
    );
    desk.refuses(
        &[],
        "t.toml:3: workload.model: net.csv: line 3: inner: \"four\" is not a sum of products",
    );
}

/// DVABatch, section 8.1: the diversities that the paper finds in each network. The shipped scenarios name them; `auto`
/// finds them by itself.
#[test]
fn the_paper_and_auto_see_the_same_diversities() {
    for name in [
        "bert-base",
        "bert-large",
        "unet",
        "linknet",
        "vgg19",
        "resnet152",
    ] {
        let (desk, scenario) = (Desk::new(), format!("scenarios/dvabatch/{name}.toml"));
        let served = |policy: &str| {
            let mut command = program();
            command
                .current_dir(ROOT)
                .args(["sim", &scenario, "--out"])
                .arg(desk.path("results"));
            command.args([
                "--set",
                "output.requests=true",
                "--set",
                "output.plots=[]",
                "--set",
                "workload.requests=300",
            ]);
            command.args(["--set", &format!("policy.DVABatch.policy=\"{policy}\"")]);
            let output = command.output().unwrap();
            assert!(output.status.success(), "{name}: {output:?}");
            let served = desk.files("results").into_iter();
            served
                .filter(|(name, _)| name.contains("DVABatch") && name.ends_with("requests.csv"))
                .collect::<Vec<_>>()
        };
        let text = std::fs::read_to_string(Path::new(ROOT).join(&scenario)).unwrap();
        let known = text
            .lines()
            .find_map(|line| line.strip_prefix("policy ")?.split('"').nth(1))
            .unwrap();
        let auto = served("auto");
        assert!(!auto.is_empty());
        assert!(auto == served(known), "{name} is not served by {known}");
        // Without splits, as in all networks but U-Net, `operator-load` and `load` are the same.
        let other = if matches!(name, "linknet" | "vgg19" | "resnet152") {
            "input"
        } else {
            "load"
        };
        assert!(
            auto != served(other),
            "{name} is served by {other} just the same"
        );
    }
}

#[test]
fn mistakes_of_staged_policies_are_named() {
    let desk = desk();
    desk.write(
        "t.toml",
        desk.read("t.toml") + "[[policy]]\nkind = \"dvabatch\"\n",
    );
    for (option, message) in [
        ("stages=0", "stages: 0 stages of 2 operators; from 1 to 2"),
        (
            "stages=[\"c\"]",
            "stages: no operator \"c\" in net.csv; it has: a, b",
        ),
        (
            "stages=\"fancy\"",
            "stages: must be a number of stages, a list of operators before which a stage begins, \"operators\" or",
        ),
        (
            "window=5",
            "window: must be a time with its unit in quotes, such as \"2ms\", or \"first-stage\", not 5",
        ),
        (
            "window=\"stage\"",
            "window: unknown unit \"stage\" in \"stage\"; known: ns, us, ms, s; or \"first-stage\"",
        ),
        (
            "room=\"none\"",
            "room: unknown value \"none\"; known: room, any",
        ),
        (
            "pad_to=\"end\"",
            "pad_to: unknown value \"end\"; known: bucket, longest",
        ),
        ("buffer_pairs=0", "buffer_pairs: 0 is too small; at least 1"),
        ("split_slack=2", "split_slack: 2 must be between 0 and 1"),
        (
            "comp_wait=\"soon\"",
            "comp_wait: unknown unit \"soon\" in \"soon\"; known: ns, us, ms, s; or \"auto\"",
        ),
    ] {
        let ran = desk.run(&[
            "sim",
            "t.toml",
            "--set",
            &format!("policy.dvabatch.{option}"),
        ]);
        assert!(
            ran.code == Some(2) && ran.stderr.contains(message),
            "{option}: {ran:?}"
        );
    }
    desk.write(
        "t.toml",
        desk.read("t.toml")
            .replace("roofline = \"device.toml\"", ""),
    );
    let ran = desk.run(&["sim", "t.toml"]);
    let message = "stages: can't be computed, because the costs of the device are unknown; name a cost table (device.costs) or a data";
    assert!(
        ran.code == Some(2) && ran.stderr.contains(message),
        "{ran:?}"
    );
}

#[test]
fn a_network_computes_under_every_policy_that_takes_chains() {
    let desk = desk();
    let staged = "[[policy]]\nkind = \"dvabatch\"\nstages = 2\n[[policy]]\nkind = \"lazy\"\n";
    desk.write("t.toml", desk.read("t.toml") + staged);
    let fixed = [
        "real",
        "t.toml",
        "--verify",
        "all",
        "--set",
        "arrivals={ process = 'offline' }",
        "--set",
        "workload.requests=60",
    ];
    let verified = |more: &[&str]| {
        let said = desk.run(&[&fixed[..], more].concat()).ok().stderr;
        assert!(
            said.contains("verified: 480 requests have the same bits as when run alone\n"),
            "{more:?}: {said}"
        );
    };
    verified(&[]);
    // Two stages on two streams; the policy decides as in the recording.
    let replayed = desk.run(&["replay", "results/cpu/t"]).ok().stdout;
    assert_eq!(
        replayed
            .lines()
            .filter(|line| line.trim_end().ends_with("yes"))
            .count(),
        8,
        "{replayed}"
    );
    verified(&[
        "--set",
        "device.workers=2",
        "--set",
        "policy.dvabatch.policy=load",
        "--set",
        "policy.padded.pad_to=bucket",
    ]);
}

#[test]
fn what_is_measured_of_a_network_is_its_table() {
    let desk = desk();
    desk.write(
        "t.toml",
        desk.read("t.toml") + "[[policy]]\nkind = \"dvabatch\"\nstages = 2\n",
    );
    let options = ["--batches", "1,3", "--repeats", "1", "-o", "costs.csv"];
    desk.run(&[&["profile", "--scenario", "t.toml"][..], &options].concat())
        .ok();
    let text = desk.read("costs.csv");
    let rows = |start: &str| text.lines().filter(|line| line.starts_with(start)).count();
    // Tokens double up to the longest request; a table has overheads for each batch.
    assert_eq!(
        ["a,1,", "a,3,", "b,1,", "launch,", "whole,"].map(rows),
        [2, 2, 2, 2, 2],
        "{text}"
    );
    assert!(
        text.lines()
            .any(|line| line.starts_with("a,3,") && line.ends_with(",16")),
        "{text}"
    );
    // The table is enough for a simulation, and for a policy that needs costs in a real run.
    desk.write(
        "t.toml",
        desk.read("t.toml")
            .replace("roofline = \"device.toml\"", "costs = \"costs.csv\""),
    );
    desk.run(&["sim", "t.toml", "-q"]).ok();
    desk.run(&[
        "real",
        "t.toml",
        "-q",
        "--set",
        "arrivals={ process = 'offline' }",
        "--set",
        "workload.requests=20",
    ])
    .ok();
    desk.write(
        "net.csv",
        "shape,fixed\nname,kind,rows,inner,columns,elements\na,matmul,3,4,8,12\nb,memory,,,,8\n",
    );
    let more = ["--set", "workload.dataset=constant:fixed"];
    desk.run(&[&["profile", "--scenario", "t.toml"][..], &options, &more].concat())
        .ok();
    assert!(
        desk.read("costs.csv")
            .contains("\ncell,batch,ns,stddev_ns\n")
    );
}

#[test]
fn the_shipped_real_scenario_has_right_answers() {
    let desk = Desk::new();
    let mut command = program();
    let output = command
        .current_dir(ROOT)
        .args([
            "real",
            "scenarios/dvabatch/real.toml",
            "--verify",
            "all",
            "--set",
            "workload.requests=50",
            "--out",
        ])
        .arg(desk.path("out"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.contains("verified: 300 requests have the same bits as when run alone\n"),
        "{said}"
    );
}

#[test]
fn a_network_runs_under_every_policy_that_takes_chains() {
    let desk = desk();
    desk.run(&["sim", "t.toml", "-q"]).ok();
    let rows = desk.rows("results/sim/t/summary.csv");
    assert_eq!(rows.len(), 2 * 6);
    assert!(rows.iter().all(|row| row["completed"] == "200"), "{rows:?}");
    // Both operators of a single request, one after the other: 2 launches, at most 16 tokens of 48 operations each.
    let latencies = desk.column("results/sim/t/No batching/100/requests.csv", "finish_ns");
    assert_eq!(latencies.len(), 200);
    let inputs =
        serde_json::from_str::<Value>(&desk.read("results/sim/t/run.json")).unwrap()["inputs"]
            .clone();
    assert!(
        inputs["net.csv"].is_string() && inputs["device.toml"].is_string(),
        "{inputs}"
    );
    // The table's rows take precedence over the roofline: a second for each a.
    desk.write("rows.csv", "cell,batch,ns\na,1,1000000000\n");
    desk.run(&[
        "sim",
        "t.toml",
        "-q",
        "--set",
        "device.costs=rows.csv",
        "--out",
        "slow",
    ])
    .ok();
    let slow = desk.rows("slow/t/summary.csv");
    assert!(
        slow.iter()
            .all(|row| row["p50_ms"].parse::<f64>().unwrap() > 1000.0),
        "{slow:?}"
    );
}

/// A single request takes the time that the command prints for the tokens that it is padded to: its own, its bucket's,
/// the network's most, or the dataset's longest.
#[test]
fn padding_reaches_every_operator() {
    let desk = desk();
    let bucket = [
        "--set",
        "policy.padded.bucket_width=10",
        "--set",
        "policy.padded.max_batch=1",
    ];
    for (length, longest, padded_to) in [(3, 12, 10), (11, 16, 16), (11, 14, 14)] {
        desk.write(
            "lengths.csv",
            format!("length,count\n{length},1\n{longest},1\n"),
        );
        let dataset = "workload.dataset=lengths.csv";
        let out = format!("out{longest}");
        let sets = [
            "sim",
            "t.toml",
            "-q",
            "--set",
            "arrivals.rates=[1]",
            "--set",
            dataset,
            "--out",
            &out,
        ];
        desk.run(&[&sets[..], &bucket].concat()).ok();
        let time = |tokens: u32| {
            let tokens = tokens.to_string();
            let options = [
                "network",
                "net.csv",
                "--roofline",
                "device.toml",
                "--format",
                "json",
                "--tokens",
                &tokens,
            ];
            desk.run(&options).ok().json()["times_ns"]["1"]
                .as_u64()
                .unwrap()
        };
        let least = |policy: &str| {
            let rows = desk.rows(&format!("{out}/t/{policy}/1/requests.csv"));
            let ns = |row: &std::collections::BTreeMap<String, String>, key: &str| {
                row[key].parse::<u64>().unwrap()
            };
            rows.iter()
                .map(|row| ns(row, "finish_ns") - ns(row, "start_ns"))
                .min()
                .unwrap()
        };
        assert_eq!(least("No batching"), time(length), "{length}");
        assert_eq!(least("padded"), time(padded_to), "{length}");
        assert!(time(length) < time(padded_to));
    }
}

#[test]
fn a_recurrent_network_runs_on_a_device_without_a_table() {
    let desk = desk();
    let lstm = [
        "workload.model=lstm",
        "workload.hidden=8",
        "workload.dataset=constant:3",
    ];
    let overrides: Vec<&str> = lstm.iter().flat_map(|set| ["--set", set]).collect();
    desk.run(&[&["sim", "t.toml", "-q"][..], &overrides].concat())
        .ok();
    assert!(
        desk.rows("results/sim/t/summary.csv")
            .iter()
            .all(|row| row["completed"] == "200")
    );
}

/// A scenario of a network of two operators on a small device.
fn desk() -> Desk {
    let desk = Desk::new();
    desk.write(
        "net.csv",
        "shape,tokens,16\nname,kind,rows,inner,columns,elements\na,matmul,tokens,4,8,12*tokens\nb,memory,,,,8*tokens\n",
    );
    desk.write(
        "device.toml",
        "name = \"small\"\nmultiprocessors = 2\nbandwidth_mb_s = 4000\nlaunch_ns = 1000\nlatency_ns = 100\n\
         [f32]\npeak_gflops = 8\nbytes = 4\ntiles = [{ rows = 4, columns = 4, efficiency = 50 }]\n",
    );
    desk.write("lengths.csv", "length,count\n3,5\n16,2\n");
    let policies: String = [
        "kind = \"cellular\"",
        "kind = \"late\"",
        "kind = \"padded\"",
        "kind = \"merged\"\nmax_batch = 8",
        "kind = \"ideal\"",
        "kind = \"immediate\"\nlabel = \"No batching\"",
    ]
    .map(|policy| format!("[[policy]]\n{policy}\n"))
    .concat();
    let scenario = desk
        .read("t.toml")
        .replace("\"lstm\"", "\"dnn:net.csv\"")
        .replace("costs = \"costs.csv\"", "roofline = \"device.toml\"");
    let (head, _) = scenario.split_once("[[policy]]").unwrap();
    desk.write("t.toml", format!("{head}{policies}"));
    desk
}

#[test]
fn the_shipped_scenario_runs() {
    let desk = Desk::new();
    let mut command = program();
    let output = command
        .current_dir(ROOT)
        .args([
            "sim",
            "scenarios/dvabatch/bert-base.toml",
            "-q",
            "--set",
            "workload.requests=500",
            "--out",
        ])
        .arg(desk.path("out"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let rows = desk.rows("out/bert-base/summary.csv");
    assert!(rows.iter().all(|row| row["completed"] == "500"), "{rows:?}");
    assert!(Path::new(&desk.path("out/bert-base/bars.svg")).is_file());
}

#[test]
fn only_inputs_that_take_time_are_padded_to_a_bucket() {
    let desk = Desk::new();
    let padding = || {
        let ran = desk.sim(&[
            "--set=workload.model=dnn:net",
            "--set=arrivals.rates=[100]",
            "--set=policy.B.bucket_width=4",
            "--format=json",
        ]);
        ran.ok().json()["rows"][1]["padding"].as_f64().unwrap()
    };
    // No request of 4 is drawn, but one could be.
    desk.write("lengths.csv", "length,count\n1,100000000\n4,1\n");
    desk.write("costs.csv", "cell,batch,ns\nnet,1,1000000\nnet,8,2000000\n");
    assert_eq!(padding(), 0.0);
    desk.write(
        "costs.csv",
        "cell,batch,ns,input\nnet,1,1000000,1\nnet,1,2000000,4\n",
    );
    assert_eq!(padding(), 0.75);
}
