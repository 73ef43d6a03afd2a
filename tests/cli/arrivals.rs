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
        ("{ process = 'mmpp', ratio = 4, low = '1s', high = '100ms', rates = [30] }", &["30"]),
        ("{ process = 'stepping', from = 20, to = 90, steps = 4 }", &["stepping"]),
        ("{ process = 'offline' }", &["offline"]),
        (
            "{ process = 'closed', clients = [1, 8], think = '5ms', think_dist = 'exponential' }",
            &["clients-1", "clients-8"],
        ),
    ] {
        desk.sim(&["--set", &format!("arrivals={arrivals}")]).ok();
        assert_eq!(desk.column("out/t/summary.csv", "point"), [points, points].concat(), "{arrivals}");
        assert!(desk.column("out/t/summary.csv", "completed").iter().all(|done| done != "0"));
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
    desk.sim(&["--set", "arrivals={ process = 'uniform', rates = [400] }"]).ok();
    assert_eq!(arrivals_of(&desk, "400"), (1..=200).map(|n| n * 2_500_000).collect::<Vec<u64>>());
    desk.sim(&["--set", "arrivals={ process = 'offline' }"]).ok();
    assert_eq!(arrivals_of(&desk, "offline"), [0; 200]);
}

#[test]
fn clients_wait_for_their_answers() {
    let desk = Desk::new();
    desk.sim(&["--set", "arrivals={ process = 'closed', clients = [1], think = '3ms' }"]).ok();
    let rows = desk.rows("out/t/A/clients-1/requests.csv");
    let time = |index: usize, key: &str| rows[index][key].parse::<u64>().unwrap();
    for next in 1..200 {
        assert_eq!(time(next, "arrival_ns"), time(next - 1, "finish_ns") + 3_000_000);
    }
}

#[test]
fn a_trace_is_replayed_in_its_own_time_or_a_scaled_one() {
    let desk = Desk::new();
    let (head, rest) = SCENARIO.split_once("dataset").unwrap();
    let device = &rest[rest.find("[device]").unwrap()..];
    desk.write("t.toml", format!("{head}trace = \"trace.csv\"\n{device}"));
    // Above 2^53 ns an f64 cannot represent every nanosecond.
    let late = (1u64 << 53) + 1;
    desk.write("trace.csv", format!("id,arrival_ns,shape\n0,7,chain:3\n1,7,tokens:2\n2,{late},chain:1\n"));
    desk.sim(&[]).ok();
    assert_eq!(arrivals_of(&desk, "trace"), [7, 7, late]);
    assert_eq!(desk.column("out/t/summary.csv", "point"), ["trace", "trace"]);
    desk.write("trace.csv", "id,arrival_ns,shape\n0,7,chain:3\n1,100,tokens:2\n");
    desk.sim(&["--set", "workload.time_scale=0.5"]).ok();
    assert_eq!(arrivals_of(&desk, "trace"), [4, 50]);
}
