//! `batchlab explain`: what it tells of requests and tasks, and what it refuses.

use crate::desk::{COSTS, Desk};
use crate::recorded::{RESTLESS, record};

/// Three requests: two of two steps that run together, one of a single step that comes while they do.
fn simulated(policy: &str) -> Desk {
    let desk = Desk::new();
    desk.write(
        "three.csv",
        "id,arrival_ns,shape\n0,0,chain:2\n1,0,chain:3\n2,500000,chain:1\n",
    );
    let scenario = format!(
        "name = \"t\"\n[workload]\nmodel = \"lstm\"\ntrace = \"three.csv\"\n[device]\ncosts = \"costs.csv\"\n[[policy]]\n{policy}\n"
    );
    desk.write("t.toml", scenario);
    desk.write("costs.csv", COSTS);
    desk.run(&["sim", "t.toml", "--out", "out"]).ok();
    desk
}

#[test]
fn a_request_of_a_padded_batch_pays_for_the_longest() {
    let desk = simulated("kind = \"padded\"\nlabel = \"P\"\npad_to = \"longest\"");
    let ran = desk.run(&["explain", "out/t/P/trace", "request", "0"]).ok();
    assert_eq!(
        ran.stdout,
        "request 0 (chain:2) under P at trace\n\
        \x20 arrived at 0.000 ms\n\
        \x20 left after 3.300 ms: waited 0.000 ms for its first task, was in tasks for 3.300 ms, stood between tasks for 0.000 ms\n\
        \x20 its own cells: 2, 2 of them in sequence\n\
        \x20 padding: 1 of the cells that its row ran are not its own\n\
        \n\
        task  cell  nodes  batch     with  worker      start      took    waited  for\n\
        0     lstm    0-1      2  1 other       0  +0.000 ms  3.300 ms  0.000 ms\n"
    );
    let ran = desk.run(&["explain", "out/t/P", "request", "2"]).ok();
    let waited = "1.000 ms  2.800 ms  since it arrived; behind task 0; submitted after 2.800 ms\n";
    assert!(ran.stdout.ends_with(waited), "{ran:?}");
}

#[test]
fn the_slowest_requests_are_explained_in_the_order_of_their_latency() {
    let policies = "kind = \"padded\"\nlabel = \"P\"\npad_to = \"longest\"\n[[policy]]\nkind = \"unbatched\"\nlabel = \"U\"";
    let desk = simulated(policies);
    // Under P two requests take 3.3 ms, and the third 3.8 ms. Without batches they take 2, 5 and 5.5 ms.
    let ran = desk.run(&["explain", "out/t", "--slowest", "3"]).ok();
    assert!(
        ran.stdout
            .starts_with("the 3 slowest of 6 measured requests: 2 points in out/t\n\nrequest 2 (chain:1) under U at trace\n"),
        "{ran:?}"
    );
    let heads = [
        "\n\nrequest 2 (chain:1) under U at",
        "\n\nrequest 1 (chain:3) under U at",
        "\n\nrequest 2 (chain:1) under P at",
    ];
    let places = heads.map(|head| ran.stdout.find(head));
    assert!(
        places.is_sorted() && places[0].is_some(),
        "{places:?} {ran:?}"
    );
    let one = desk.run(&["explain", "out/t/P", "request", "2"]).ok();
    let json = desk
        .run(&["explain", "out/t/P", "--slowest", "2", "--format", "json"])
        .ok()
        .results();
    let numbers = [0, 1].map(|place| json[place]["request"].as_u64());
    assert_eq!(numbers, [Some(2), Some(0)]);
    let slowest = desk.run(&["explain", "out/t/P", "--slowest", "1"]).ok();
    let head = "the slowest of 3 measured requests: out/t/P/trace\n\n";
    assert_eq!(slowest.stdout, head.to_string() + &one.stdout);
}

#[test]
fn what_names_no_request_is_refused() {
    let desk = simulated("kind = \"padded\"\nlabel = \"P\"");
    for (words, message) in [
        (&["task", "worst"][..], "N: a task has a number"),
        (&["request", "p98"], "\"p98\" is neither a number from 0 to"),
        (&["request", "0", "--slowest", "2"], "cannot be used with"),
        (&["--slowest", "0"], "0 is not in 1..=1000"),
        (&[], "required arguments were not provided"),
    ] {
        let ran = desk.run(&[&["explain", "out/t/P/trace"], words].concat());
        assert!(
            ran.code == Some(2) && ran.stderr.contains(message),
            "{ran:?}"
        );
    }
    std::fs::remove_file(desk.path("out/t/P/trace/requests.csv")).unwrap();
    desk.run(&["explain", "out/t/P/trace", "--slowest", "1"])
        .failed(2, "has no requests.csv to find slow requests in");
}

#[test]
fn a_task_of_a_padded_batch_has_its_reasons() {
    let desk = simulated("kind = \"padded\"\nlabel = \"P\"\npad_to = \"longest\"");
    let ran = desk.run(&["explain", "out/t/P/trace", "task", "0"]).ok();
    for line in [
        "task 0 under P at trace: lstm in a batch of 2 on worker 0, stream 0\n",
        "  why this: bucket 0 (lengths 1 to 3): of those that may send, the first from bucket 0 on, going round\n",
        "  why this size: all 2 that wait in the bucket\n",
        "  why then: worker 0 had nothing to do\n",
        "  cells: 6, 1 of them padding (16.7 %); 3 batches in sequence\n",
        "  requests: 0 1\n",
    ] {
        assert!(ran.stdout.contains(line), "{line}{ran:?}");
    }
    let json = desk
        .run(&["explain", "out/t/P", "task", "1", "--format", "json"])
        .ok()
        .json();
    assert_eq!(
        (&json["members"][0], &json["before"], &json["start_ns"]),
        (&"2".into(), &0.into(), &3_300_000.into())
    );
}

#[test]
fn a_request_of_cellular_batching_joins_and_leaves() {
    let desk = simulated("kind = \"cellular\"\nlabel = \"C\"\nmax_tasks = 1");
    let json = desk
        .run(&["explain", "out/t/C", "request", "2", "--format", "json"])
        .ok()
        .json();
    // It joins at the second step, when the first is done, and is alone in needing no more.
    assert_eq!(json["tasks"].as_array().map(Vec::len), Some(1));
    let task = &json["tasks"][0];
    assert_eq!(
        (&task["task"], &task["others"], &task["batch"]),
        (&1.into(), &2.into(), &3.into())
    );
    assert_eq!(
        (&task["ready_ns"], &task["start_ns"], &task["behind"][0]),
        (&500_000.into(), &1_100_000.into(), &0.into())
    );
    assert_eq!(
        (&json["before_first_task_ns"], &json["padding_cells"]),
        (&600_000.into(), &0.into())
    );
    let json = desk
        .run(&["explain", "out/t/C", "request", "1", "--format", "json"])
        .ok()
        .json();
    let needed: Vec<&serde_json::Value> = json["tasks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|t| &t["needed_task"])
        .collect();
    assert_eq!(needed, [&serde_json::Value::Null, &0.into(), &1.into()]);
}

/// The two requests that run together have five steps of 15 operators each, on three levels. Those that need no state, the words'
/// look-ups, run at once for all levels. Of the other 14 DyNet also runs together some that are
/// alike inside of a cell; JIT's key holds them apart, since they take different results.
#[test]
fn operators_are_named_and_are_no_padding() {
    for (policy, others, launches) in [
        ("kind = \"dynet\"", 9, 1 + 3 * 11),
        ("kind = \"jit\"\ngranularity = \"operator\"", 14, 1 + 3 * 14),
    ] {
        let desk = simulated(&format!("{policy}\nlabel = \"O\""));
        let text = desk
            .run(&["explain", "out/t/O", "request", "1"])
            .ok()
            .stdout;
        let name = format!("\n0     lstm.lookup and {others} more");
        assert!(
            text.contains("no padding\n") && text.contains(&name),
            "{text}"
        );
        let text = desk.run(&["explain", "out/t/O", "task", "0"]).ok().stdout;
        let cells =
            format!("  cells: 5, no padding; 75 operators in {launches} batches in sequence\n");
        assert!(text.contains(&cells), "{cells}{text}");
    }
}

/// Two queries of 10 and 20 tokens in stages, which are eight operators, of which one does not depend on them: the short one is padded to the long one.
#[test]
fn parts_of_requests_pay_for_padding() {
    let desk = Desk::new();
    desk.write(
        "two.csv",
        "id,arrival_ns,shape\n0,0,tokens:10\n1,0,tokens:20\n",
    );
    let network = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/scenarios/networks/example.csv"
    );
    let device = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/scenarios/devices/titan-rtx.toml"
    );
    desk.write(
        "t.toml",
        format!(
            "name = \"t\"\n[workload]\nmodel = \"dnn:{network}\"\ntrace = \"two.csv\"\n[device]\nroofline = \"{device}\"\n\
             [[policy]]\nkind = \"dvabatch\"\nstages = 2\nwindow = \"0ns\"\n"
        ),
    );
    desk.run(&["sim", "t.toml", "--out", "out"]).ok();
    let json = desk
        .run(&[
            "explain",
            "out/t/dvabatch",
            "request",
            "0",
            "--format",
            "json",
        ])
        .ok()
        .json();
    assert_eq!(json["padding_cells"], 7 * (20 - 10));
    let tasks = json["tasks"].as_array().expect("two stages");
    let nodes: Vec<u64> = tasks
        .iter()
        .flat_map(|task| task["nodes"].as_array().unwrap())
        .map(|n| n.as_u64().unwrap())
        .collect();
    assert_eq!((tasks.len(), nodes), (2, (0..8).collect()));
    let text = desk
        .run(&["explain", "out/t/dvabatch", "task", "1"])
        .ok()
        .stdout;
    assert!(
        text.contains("  why this: stage 1, from batch 0 of the table\n"),
        "{text}"
    );
    assert!(
        text.contains("  parts (request:first-last node): 0:"),
        "{text}"
    );
}

#[test]
fn a_recorded_run_is_explained_by_its_recording() {
    let desk = Desk::new();
    record(&desk.path("t.toml"), &desk.path("out"), RESTLESS);
    let tasks = desk.read("out/t/B/200/tasks.csv");
    let row: Vec<&str> = tasks
        .lines()
        .nth(8)
        .expect("many tasks")
        .split(',')
        .collect();
    let json = desk
        .run(&["explain", "out/t/B/200", "task", row[0], "--format", "json"])
        .ok()
        .json();
    assert_eq!(
        (json["start_ns"].to_string(), json["finish_ns"].to_string()),
        (row[6].into(), row[7].into())
    );
    assert_eq!(json["batch"].to_string(), row[4]);
    assert!(
        json["what"]
            .as_str()
            .is_some_and(|what| what.starts_with("bucket ")),
        "{json}"
    );
}

#[test]
fn what_can_not_be_explained_says_why() {
    let desk = Desk::new();
    let several = || desk.run(&["explain", "out/t", "task", "1"]);
    desk.run(&["sim", "t.toml", "--out", "out"]).ok();
    let ran = several();
    assert_eq!(ran.code, Some(2));
    assert!(
        ran.stderr.contains(
            "out/t: holds 4 points, and a number means another task in each; name one of\n"
        ),
        "{ran:?}"
    );
    let ran = desk.run(&["explain", "out/t/A/100", "request", "200"]);
    assert_eq!(
        (ran.code, ran.stderr.as_str()),
        (
            Some(2),
            "batchlab: out/t/A/100: has no request 200; its requests are 0 to 199\n"
        )
    );
    let ran = desk.run(&["explain", "out/t/A/100", "request", "99999999999"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    // Other costs than those of the run: what is explained would be another run.
    desk.write("costs.csv", COSTS.replace("1000000", "1000001"));
    let ran = desk.run(&["explain", "out/t/A/100", "request", "0"]);
    assert_eq!(ran.code, Some(2));
    assert!(
        ran.stderr
            .contains("requests.csv differs from the results of its scenario now"),
        "{ran:?}"
    );
    let ran = desk.run(&["explain", "nowhere", "task", "0"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
}
