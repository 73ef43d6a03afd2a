//! Profiles of GPUs, and simulated runs that are validated against them.

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;

use super::{Host, TREES, with_persistent_kernels};

#[test]
fn cells_are_profiled_and_simulated() {
    let Some(host) = Host::new() else { return };
    let fixed = [
        "profile",
        "--scenario",
        "t.toml",
        "--backend",
        "cuda",
        "--output",
        "gpu.csv",
        "-q",
    ];
    host.run(&[&fixed[..], &["--batches", "1,2,4", "--repeats", "3"]].concat())
        .ok();
    let costs = host.desk.read("gpu.csv");
    assert!(costs.contains("Host CUDA"), "{costs}");
    for batch in [1, 2, 4] {
        assert!(
            costs
                .lines()
                .any(|line| line.starts_with(&format!("lstm,{batch},"))),
            "{costs}"
        );
        let demand = costs
            .lines()
            .find_map(|line| line.strip_prefix(&format!("lstm.demand,{batch},")));
        let parts: u64 = demand
            .and_then(|row| row.split(',').next()?.parse().ok())
            .unwrap_or_else(|| panic!("{costs}"));
        assert!((1..=1_000_000).contains(&parts), "{costs}");
    }
    assert!(
        costs.contains(
            "# lstm.demand: parts per million of the device, from steps on four streams at once; "
        ),
        "{costs}"
    );
    host.desk
        .run(&[
            "sim",
            "t.toml",
            "--set",
            "device.costs=gpu.csv",
            "-q",
            "--out",
            "simulated",
        ])
        .ok();
}

/// A device with persistent kernels, and a table without their times.
fn with_timeless_kernels() -> Option<Host> {
    let host = with_persistent_kernels()?;
    let device = host.desk.read("titan-v.toml");
    host.desk
        .write("timeless.toml", device.split("[grnn.time]").next().unwrap());
    Some(host)
}

/// The only time of a name at batch 1 in a cost table.
fn time_in(table: &str, name: &str) -> u64 {
    let row = table
        .lines()
        .find_map(|line| line.strip_prefix(&format!("{name},1,")));
    row.and_then(|row| row.split(',').next()?.parse().ok())
        .unwrap_or_else(|| panic!("{name}: {table}"))
}

#[test]
fn launches_of_persistent_kernels_are_profiled_and_simulated() {
    let Some(host) = with_timeless_kernels() else {
        return;
    };
    let desk = &host.desk;
    let timeless = ["--set", "device.grnn=timeless.toml"];
    let small = ["--batches", "1,3", "--repeats", "2", "--backend", "cuda"];
    let scenario = ["profile", "--scenario", "t.toml", "--output", "lstm.csv"];
    let said = host
        .run(&[&scenario[..], &small, &timeless].concat())
        .ok()
        .stderr;
    assert!(
        said.contains("lstm.persistent: tasks of 4 and of 32 steps in persistent kernels"),
        "{said}"
    );
    // The same without a scenario, by the device's name.
    let named = [
        "profile",
        "--model",
        "gru",
        "--hidden",
        "8",
        "--vocabulary",
        "9",
        "--grnn",
        "h200",
        "--quiet",
    ];
    let gru = host.run(&[&named[..], &small].concat()).ok().stdout;
    let lstm = desk.read("lstm.csv");
    for (table, cell) in [(&lstm, "lstm"), (&gru, "gru")] {
        for row in [
            "persistent,1",
            "persistent,3",
            "persistent.launch,1",
            "persistent.launch,3",
        ] {
            assert!(
                table
                    .lines()
                    .any(|line| line.starts_with(&format!("{cell}.{row},"))),
                "{cell}.{row}: {table}"
            );
        }
        assert!(
            table.contains(", persistent kernels by the model of "),
            "{table}"
        );
    }
    let kernels = fs::read_dir(desk.path("cache/batchlab"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    let kernels: Vec<String> = kernels
        .map(|name| name.to_string_lossy().into_owned())
        .collect();
    for kernel in ["grnn_lstm", "grnn_gru"] {
        assert!(
            kernels.iter().any(|name| name.starts_with(kernel)),
            "{kernel} has not run: {kernels:?}"
        );
    }
    // A single request, in chunks and whole: exactly the times of the rows.
    let one = [
        "--set",
        "workload.dataset=constant:6",
        "--set",
        "workload.requests=1",
        "--set",
        "policy.A.chunk=3",
    ];
    let offline = [
        "--set",
        "arrivals={ process = 'offline' }",
        "--set",
        "policy.B.pad_to=longest",
    ];
    let simulate = |costs: &str| {
        let costs = format!("device.costs={costs}");
        desk.sim(&[&one[..], &offline, &timeless, &["--set", &costs]].concat())
    };
    simulate("lstm.csv").ok();
    let [step, launch, task] =
        ["lstm.persistent", "lstm.persistent.launch", "task"].map(|name| time_in(&lstm, name));
    for (policy, tasks, steps) in [("A", 2, 3), ("B", 1, 6)] {
        let rows = desk.rows(&format!("out/t/{policy}/offline/tasks.csv"));
        let took = |row: &BTreeMap<String, String>| {
            let [start, finish] =
                ["start_ns", "finish_ns"].map(|column| row[column].parse::<u64>().unwrap());
            finish - start
        };
        assert_eq!(
            rows.iter().map(took).collect::<Vec<_>>(),
            vec![launch + steps * step + task; tasks],
            "{policy}"
        );
    }
    // A table with one of the two rows, and one with neither.
    let without = |part: &str| {
        lstm.lines()
            .filter(|line| !line.starts_with(part))
            .collect::<Vec<_>>()
            .join("\n")
    };
    for (name, part, message) in [
        (
            "half.csv",
            "lstm.persistent.launch,",
            "rows for \"lstm.persistent\" but none for \"lstm.persistent.launch\"",
        ),
        (
            "other.csv",
            "lstm.persistent,",
            "rows for \"lstm.persistent.launch\" but none for \"lstm.persistent\"",
        ),
        (
            "none.csv",
            "lstm.persistent",
            "no table [grnn.time] for the Titan V",
        ),
    ] {
        desk.write(name, without(part));
        simulate(name).failed(2, message);
    }
}

#[test]
fn persistent_kernels_that_no_profile_measures_are_refused() {
    let Some(host) = with_timeless_kernels() else {
        return;
    };
    let refuses = |words: &[&str], message| {
        host.run(&[&["profile", "--quiet"], words].concat())
            .failed(2, message)
    };
    let scenario = ["--scenario", "t.toml", "--set", "device.grnn=timeless.toml"];
    let cpu = "device.grnn: persistent kernels run on GPUs, and the CPU has none; add --backend cuda, or leave device.grnn out";
    refuses(&scenario, cpu);
    host.run(&[
        "validate",
        "t.toml",
        "-q",
        "--costs",
        "costs.csv",
        "--set",
        "device.grnn=timeless.toml",
    ])
    .failed(2, cpu);
    refuses(
        &["--model", "lstm", "--grnn", "h200"],
        "--grnn: persistent kernels run on GPUs, and the CPU has none",
    );
    let require_gpu =
        |words: &[&str], message| refuses(&[&["--backend", "cuda"], words].concat(), message);
    require_gpu(
        &["--model", "seq2seq", "--grnn", "h200"],
        "--grnn: persistent kernels run lstm and gru, and seq2seq has none",
    );
    require_gpu(
        &["--cell", "lstm:8", "--cell", "leaf:8", "--grnn", "h200"],
        "run lstm and gru, and tree-lstm has none",
    );
    require_gpu(
        &["--model", "lstm", "--grnn", "h900"],
        "--grnn: h900: cannot be read: No such file or directory (os error 2); nothing built in",
    );
    let model = [
        "--set",
        "workload.model=seq2seq",
        "--set",
        "workload.dataset=constant:4>5",
    ];
    require_gpu(
        &[&scenario[..], &model].concat(),
        "t.toml: device.grnn: persistent kernels run lstm and gru",
    );
}

#[test]
fn persistent_kernels_are_validated_against_gpus() {
    let Some(host) = with_timeless_kernels() else {
        return;
    };
    let launches =
        "lstm.persistent,1,100000\nlstm.persistent,8,200000\nlstm.persistent.launch,1,100000\n";
    host.desk.write(
        "costs.csv",
        format!("cell,batch,ns\nlstm,1,100000\nlstm,8,200000\n{launches}"),
    );
    let fixed = [
        "validate",
        "t.toml",
        "--backend",
        "cuda",
        "--costs",
        "costs.csv",
        "--out",
        "out",
        "--format",
        "json",
    ];
    let small = [
        "--loads",
        "80",
        "--repeats",
        "2",
        "--seconds",
        "0.01",
        "--quiet",
        "--set",
        "workload.max_length=2",
    ];
    let chunks = [
        "--set",
        "device.grnn=timeless.toml",
        "--set",
        "policy.A.chunk=2",
    ];
    let lines = host
        .run(&[&fixed[..], &small, &chunks].concat())
        .ok()
        .results();
    assert!(
        lines.len() == 2 && lines.iter().all(|line| line["same_decisions"] == true),
        "{lines:?}"
    );
    // The account of a recorded run has the simulator's times of such launches.
    let ledger = ["replay", "out/cuda/t-A", "--ledger", "--format", "json"];
    let json = host.run(&ledger).ok().json();
    assert!(
        json["rows"][0]["ledger"]["all_by_model"]["mean_ms"]
            .as_f64()
            .unwrap()
            > 0.3,
        "{json}"
    );
}

#[test]
fn a_profile_is_of_the_device_and_its_format() {
    let Some(host) = Host::new() else { return };
    let small = [
        "--batches",
        "1,3",
        "--repeats",
        "1",
        "--vocabulary",
        "9",
        "--quiet",
    ];
    let fixed = [
        "profile",
        "--backend",
        "cuda",
        "--cell",
        "lstm:4",
        "--cell",
        "internal:4",
        "--precision",
        "bf16",
    ];
    let table = host.run(&[&fixed[..], &small].concat()).ok().stdout;
    for part in [
        ", backend cuda, Host CUDA, 4 multiprocessors, driver CUDA 12.8, NVRTC ",
        " vocabulary 9, bf16",
        "\nlaunch,1,",
    ] {
        assert!(table.contains(part), "{part}: {table}");
    }
    for cell in ["lstm,1,", "lstm,3,", "internal,1,", "internal,3,"] {
        assert!(
            table.lines().any(|line| line.starts_with(cell)),
            "{cell}: {table}"
        );
    }
    // Every backend checks whether the network takes the trees.
    let trees = [
        "--set",
        "workload.model=tree-lstm",
        "--set",
        "workload.dataset=constant:tree:4 4 4 0",
    ];
    let fixed = [
        "profile",
        "--backend",
        "cuda",
        "--scenario",
        "t.toml",
        "--quiet",
    ];
    let ran = host.run(&[&fixed[..], &trees, &TREES].concat());
    ran.failed(2, "has 3 children");
}

#[test]
fn floors_are_those_of_copies_and_products() {
    let Some(host) = Host::new() else { return };
    let table = host
        .run(&["profile", "--backend", "cuda", "--floors"])
        .ok()
        .stdout;
    let mut lines = table.lines();
    assert_eq!(
        lines.next(),
        Some("precision,bytes_per_s,operations_per_s,cache_bytes_per_s,cache_bytes,launch_ns")
    );
    let rows: Vec<Vec<&str>> = lines.map(|line| line.split(',').collect()).collect();
    assert_eq!(
        rows.iter().map(|row| row[0]).collect::<Vec<_>>(),
        ["f32", "tf32", "bf16", "f16"]
    );
    assert!(
        rows.iter()
            .flat_map(|row| &row[1..])
            .all(|rate| rate.parse::<u64>().unwrap() > 0),
        "{table}"
    );
}

#[test]
fn simulated_runs_are_validated_against_gpus() {
    let Some(host) = Host::new() else { return };
    // Costs far below the real times, so that batches are large and runs short.
    host.desk
        .write("costs.csv", "cell,batch,ns\nlstm,1,100000\nlstm,8,200000\n");
    let fixed = [
        "validate",
        "t.toml",
        "--backend",
        "cuda",
        "--costs",
        "costs.csv",
        "--out",
        "out",
        "--format",
        "json",
    ];
    let small = [
        "--loads",
        "80",
        "--repeats",
        "2",
        "--seconds",
        "0.01",
        "--quiet",
        "--set",
        "workload.max_length=2",
    ];
    let lines = host.run(&[&fixed[..], &small].concat()).ok().results();
    assert_eq!(
        lines
            .iter()
            .map(|line| &line["scenario"])
            .collect::<Vec<_>>(),
        ["t-A", "t-B"]
    );
    assert!(
        lines.iter().all(|line| line["same_decisions"] == true),
        "{lines:?}"
    );
    assert!(
        host.desk.path("out/cuda/t-A").is_dir()
            && host.desk.path("out/compared/t-A/comparison.csv").is_file()
    );
}

#[test]
fn a_sweep_resumes_only_with_the_same_precision() {
    let Some(host) = Host::new() else { return };
    let with = |precision: &str| {
        host.real(&[
            "--resume",
            "-q",
            "--set",
            &format!("device.precision={precision}"),
        ])
    };
    with("f16").ok();
    with("f16").ok();
    let host_file: Value = serde_json::from_str(&host.desk.read("out/t/host.json")).unwrap();
    assert_eq!(
        host_file["runs"].as_array().unwrap().len(),
        0,
        "what is finished is taken over: {host_file}"
    );
    assert!(
        host_file["device"].as_str().unwrap().ends_with(", f16"),
        "{host_file}"
    );
    with("bf16").failed(2, "was run with other settings");
}
