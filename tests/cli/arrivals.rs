//! Every arrival process runs and writes its results.

use crate::desk::{Desk, SCENARIO};

fn arrivals_of(desk: &Desk, point: &str) -> Vec<u64> {
    let column = desk.column(&format!("out/t/A/{point}/requests.csv"), "arrival_ns");
    column.iter().map(|time| time.parse().unwrap()).collect()
}

#[test]
fn every_process_writes_its_points() {
    let desk = Desk::new();
    for (arrivals, points) in [
        ("{ process = 'poisson', rates = [30] }", &["30"][..]),
        ("{ process = 'uniform', rates = [30, 60] }", &["30", "60"]),
        ("{ process = 'gamma', cv = 3, rates = [30] }", &["30"]),
        (
            "{ process = 'mmpp', ratio = 4, low = '1s', high = '100ms', rates = [30] }",
            &["30"],
        ),
        (
            "{ process = 'stepping', from = 20, to = 90, steps = 4 }",
            &["stepping"],
        ),
        ("{ process = 'offline' }", &["offline"]),
        (
            "{ process = 'closed', clients = [1, 8], think = '5ms', think_dist = 'exponential' }",
            &["clients-1", "clients-8"],
        ),
    ] {
        desk.sim(&["--set", &format!("arrivals={arrivals}")]).ok();
        assert_eq!(
            desk.column("out/t/summary.csv", "point"),
            [points, points].concat(),
            "{arrivals}"
        );
        assert!(
            desk.column("out/t/summary.csv", "completed")
                .iter()
                .all(|done| done != "0")
        );
        for point in points {
            let times = arrivals_of(&desk, point);
            assert_eq!(times.len(), 200, "{arrivals}");
            if !point.starts_with("clients") {
                assert!(times.is_sorted(), "{arrivals}");
            }
        }
    }
}

#[test]
fn uniform_arrivals_have_equal_gaps_and_offline_ones_none() {
    let desk = Desk::new();
    desk.sim(&["--set", "arrivals={ process = 'uniform', rates = [400] }"])
        .ok();
    assert_eq!(
        arrivals_of(&desk, "400"),
        (1..=200).map(|n| n * 2_500_000).collect::<Vec<u64>>()
    );
    desk.sim(&["--set", "arrivals={ process = 'offline' }"])
        .ok();
    assert_eq!(arrivals_of(&desk, "offline"), [0; 200]);
}

#[test]
fn clients_wait_for_their_answers() {
    let desk = Desk::new();
    desk.sim(&[
        "--set",
        "arrivals={ process = 'closed', clients = [1], think = '3ms' }",
    ])
    .ok();
    let rows = desk.rows("out/t/A/clients-1/requests.csv");
    let time = |index: usize, key: &str| rows[index][key].parse::<u64>().unwrap();
    for next in 1..200 {
        assert_eq!(
            time(next, "arrival_ns"),
            time(next - 1, "finish_ns") + 3_000_000
        );
    }
}

/// The notes of runs in which loads and policies do not go together.
#[test]
fn loads_that_mislead_get_notes() {
    let desk = Desk::new();
    desk.write("unit.csv", "cell,batch,ns\nx,1,1000000\nx,64,1000000\n");
    desk.write(
        "wait.toml",
        "name = \"wait\"\n[workload]\nmodel = \"dnn:x\"\ndataset = \"constant:1\"\nrequests = 10\n\
         [arrivals]\nprocess = \"uniform\"\nrates = [100]\n[device]\ncosts = \"unit.csv\"\n\
         [[policy]]\nkind = \"control-limit\"\nwait_for = 4\nwindow = \"1s\"\n[[policy]]\nkind = \"unbatched\"\n\
         [[policy]]\nkind = \"triton\"\nmax_batch = 4\nmax_queue_delay = \"1s\"\ninstances = 2\n",
    );
    let said = |requests: u32, arrivals: &str| {
        let requests = format!("workload.requests={requests}");
        let arrivals = format!("arrivals={arrivals}");
        let run = [
            "sim",
            "wait.toml",
            "--out",
            "out",
            "--set",
            &requests,
            "--set",
            &arrivals,
        ];
        desk.run(&run).ok().stderr
    };
    // Requests arrive from 10 to 100 ms, and the last two are served at 1,090 ms. Three batches take 3 ms.
    let uniform = said(10, "{ process = 'uniform', rates = [100] }");
    for policy in ["control-limit", "triton"] {
        let note = format!(
            "\"{policy}\" at 100: no task ran in 92 % of the run's time, while the last requests waited for their policy; \
             without it, busy is 3.3 %\n"
        );
        assert!(uniform.contains(&note), "{uniform}");
    }
    assert!(!uniform.contains("\"unbatched\" at 100: no task") && !uniform.contains("differ"));
    let closed = said(10, "{ process = 'closed', clients = [3, 4] }");
    assert!(
        closed.contains(
            "\"control-limit\" at clients-3: 4 requests fill a batch, and there are fewer clients, so each batch waits"
        ),
        "{closed}"
    );
    // All requests arrive in the first low state, at 1000 / 1.6 requests per second.
    let short = said(
        2000,
        "{ process = 'mmpp', rates = [1000], ratio = 4, low = '100s', high = '25s' }",
    );
    assert!(
        short.contains("arrivals differ from the rates asked for: 6")
            && short.contains(" instead of 1000 req/s; with more requests they come closer"),
        "{short}"
    );
}

#[test]
fn a_trace_is_replayed_in_its_own_time_or_a_scaled_one() {
    let desk = Desk::new();
    let (head, rest) = SCENARIO.split_once("dataset").unwrap();
    let device = &rest[rest.find("[device]").unwrap()..];
    desk.write("t.toml", format!("{head}trace = \"trace.csv\"\n{device}"));
    // Above 2^53 ns an f64 cannot represent every nanosecond.
    let late = (1u64 << 53) + 1;
    desk.write(
        "trace.csv",
        format!("id,arrival_ns,shape\n0,7,chain:3\n1,7,tokens:2\n2,{late},chain:1\n"),
    );
    desk.sim(&[]).ok();
    assert_eq!(arrivals_of(&desk, "trace"), [7, 7, late]);
    assert_eq!(
        desk.column("out/t/summary.csv", "point"),
        ["trace", "trace"]
    );
    desk.write(
        "trace.csv",
        "id,arrival_ns,shape\n0,7,chain:3\n1,100,tokens:2\n",
    );
    desk.sim(&["--set", "workload.time_scale=0.5"]).ok();
    assert_eq!(arrivals_of(&desk, "trace"), [4, 50]);
}

/// A desk whose scenario replays `trace.csv`.
fn tracing(trace: &str) -> Desk {
    let desk = Desk::new();
    let (head, rest) = SCENARIO.split_once("dataset").unwrap();
    let device = &rest[rest.find("[device]").unwrap()..];
    desk.write("t.toml", format!("{head}trace = \"trace.csv\"\n{device}"));
    desk.write("trace.csv", trace);
    desk
}

#[test]
fn a_trace_is_replayed_at_several_rates_or_scales() {
    let rows: String = (0..1200u64)
        .map(|id| format!("{id},{},chain:{}\n", 5 + id * id * 1000, 1 + id % 3))
        .collect();
    let desk = tracing(&format!("id,arrival_ns,shape\n{rows}"));
    desk.sim(&[
        "--set",
        "arrivals.rates=[100, 400]",
        "--set",
        "output.plots=['latency-throughput']",
    ])
    .ok();
    let rows = desk.rows("out/t/summary.csv");
    let of = |column: &str| {
        rows.iter()
            .map(|row| row[column].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(of("point"), ["100", "400", "100", "400"]);
    assert_eq!(
        of("offered_rps"),
        ["100.000", "400.000", "100.000", "400.000"]
    );
    assert_eq!(
        of("warmup"),
        ["0", "0", "0", "0"],
        "a trace has no steady state"
    );
    assert!(desk.path("out/t/latency-throughput.svg").exists());
    // 1199 gaps at 100/s last 11.99 s; each arrival is scaled exactly and rounded half up.
    let span = 1199 * 1199 * 1000;
    let scaled =
        |id: u64| (u128::from(5 + id * id * 1000) * 11_990_000_000 * 2 + span) / (2 * span);
    let times = arrivals_of(&desk, "100");
    assert!((0..1200).all(|id| u128::from(times[id as usize]) == scaled(id)));
    assert_eq!(times[1199] - times[0], 11_990_000_000);

    desk.sim(&["--set", "workload.time_scale=[2, 0.5]", "--resume"])
        .ok();
    assert_eq!(
        desk.column("out/t/summary.csv", "point"),
        ["trace-2", "trace-0.5", "trace-2", "trace-0.5"]
    );
    assert_eq!(arrivals_of(&desk, "trace-0.5")[1], 503);
    assert_eq!(arrivals_of(&desk, "trace-2")[1], 2010);
    desk.run(&["explain", "out/t/A/trace-0.5", "request", "7"])
        .ok();
}

#[test]
fn mistakes_about_loads_of_a_trace_are_named() {
    let desk = tracing("id,arrival_ns,shape\n0,7,chain:3\n1,7,chain:2\n");
    for (set, message) in [
        (
            "arrivals.rates=[5]",
            "t.toml: arrivals.rates: all requests arrive at once; no scale gives them a rate",
        ),
        (
            "arrivals.rates=[]",
            "arrivals.rates: empty; must be a list of requests per second, such as [1000, 2000]",
        ),
        (
            "arrivals.rates=[0]",
            "rates[0]: must be a number of requests per second from 1e-6 to 1e9, not 0",
        ),
        (
            "arrivals={ process = 'poisson', rates = [5] }",
            "remove [arrivals] but for rates, or workload.trace",
        ),
        (
            "workload.time_scale=[1, 0]",
            "workload.time_scale[1]: must be a number above 0, not 0",
        ),
        (
            "workload.time_scale=-1",
            "workload.time_scale: must be a number above 0, not -1",
        ),
        (
            "workload.time_scale=[2, 2]",
            "workload.time_scale[1]: 2 stands twice",
        ),
        (
            "workload.time_scale='x'",
            "workload.time_scale: must be a number above 0, or a list of such numbers, not \"x\"",
        ),
    ] {
        desk.refuses(&["--set", set], message);
    }
    desk.refuses(
        &[
            "--set",
            "arrivals.rates=[5]",
            "--set",
            "workload.time_scale=2",
        ],
        "arrivals.rates scale the trace too",
    );
    desk.write(
        "trace.csv",
        "id,arrival_ns,shape\n0,0,chain:3\n1,1,chain:3\n2,9223372036854775807,chain:2\n",
    );
    desk.refuses(
        &["--set", "arrivals.rates=[1e-10]"],
        "rates[0]: must be a number of requests per second from 1e-6",
    );
    desk.refuses(
        &["--set", "workload.time_scale=1.5"],
        "t.toml: workload.trace: trace.csv: the last of 3 requests arrives after",
    );
}
