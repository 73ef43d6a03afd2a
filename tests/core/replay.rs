//! Decisions on a noisy machine are repeated from its logs, and changes of the logs are detected.

use std::fs;
use std::path::{Path, PathBuf};

use crate::recorded::{Quirks, RESTLESS, record, record_with};
use batchlab::cost::table::CostTable;
use batchlab::policy::registry::Registry;
use batchlab::run::inputs::RunInputs;
use batchlab::scenario::costs;
use batchlab::units::{CellId, RequestId};
use batchlab::validate::ledger::{self, Ledger, Term};
use batchlab::validate::replay::Replay;
use batchlab::validate::results::{RecordedPoint, Results};
use tempfile::TempDir;

const COSTS: &str = "cell,batch,ns\nlstm,1,1000000\nlstm,8,1500000\nencoder,1,900000\nencoder,8,1300000\n\
    decoder,1,1100000\ndecoder,8,1900000\nleaf,1,700000\nleaf,8,1000000\ninternal,1,900000\ninternal,8,1300000\n\
    task,1,40000\ngather,1,90000\n";

const CELLULAR: &str = "[[policy]]\nkind = 'cellular'\nmax_batch = 6\nmax_tasks = 3\n";
const MERGED: &str = "[[policy]]\nkind = 'merged'\nmax_batch = 6\n";
const IMMEDIATE: &str = "[[policy]]\nkind = 'immediate'\n";
const DYNET: &str = "[[policy]]\nkind = 'dynet'\nmax_batch = 6\n";
const BUCKETS: &str = "[[policy]]\nkind = 'padded'\nmax_batch = 6\nbucket_width = 2\n";
const WINDOW: &str = "[[policy]]\nkind = 'padded'\nlabel = 'window'\nmax_batch = 6\nbucket_width = 4\nwindow = '3ms'\n";

/// A folder with a scenario of these parts in it.
fn desk(workload: &str, arrivals: &str, workers: usize, policies: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("costs.csv"), COSTS).unwrap();
    fs::write(
        folder.path().join("lengths.csv"),
        "length,count\n2,1\n4,2\n9,1\n",
    )
    .unwrap();
    fs::write(
        folder.path().join("pairs.csv"),
        "src_len,tgt_len,count\n2,3,1\n4,2,2\n9,5,1\n",
    )
    .unwrap();
    let rows: String = (0..150)
        .map(|id| format!("{id},{},chain:{}\n", id * 900_000, 1 + id % 7))
        .collect();
    fs::write(
        folder.path().join("trace.csv"),
        format!("id,arrival_ns,shape\n{rows}"),
    )
    .unwrap();
    let text = format!(
        "name = 't'\nseed = 18446744073709551615\n[workload]\n{workload}\n{arrivals}\n[device]\nworkers = {workers}\n\
         costs = 'costs.csv'\n{policies}"
    );
    let scenario = folder.path().join("t.toml");
    fs::write(&scenario, text).unwrap();
    (folder, scenario)
}

/// Replays all points of a folder.
fn replayed(results: &Path) -> Vec<Replay> {
    let Results {
        scenarios, points, ..
    } = Results::open(results, &Registry::standard()).unwrap();
    let scenario = &scenarios[0];
    let inputs = RunInputs::new(scenario).unwrap();
    let one = |point: RecordedPoint| ledger::replay_with_ledger(&inputs, &point, None).unwrap().0;
    points.into_iter().map(one).collect()
}

#[track_caller]
fn all_equal(results: &Path, points: usize) {
    let replays = replayed(results);
    assert_eq!(replays.len(), points);
    for replay in replays {
        assert_eq!(replay.difference, None);
        assert!(replay.tasks > 20 && replay.finished, "{}", replay.tasks);
    }
}

const LSTM: &str = "model = 'lstm'\ndataset = 'lengths.csv'\nrequests = 400";
const POISSON: &str = "[arrivals]\nprocess = 'poisson'\nrates = [150, 600]";

#[test]
fn every_policy_decides_the_same_again() {
    for (workload, policies, kinds) in [
        (
            LSTM,
            [CELLULAR, BUCKETS, WINDOW, MERGED, IMMEDIATE].concat(),
            5,
        ),
        (
            "model = 'seq2seq'\ndataset = 'pairs.csv'\nrequests = 300",
            [CELLULAR, BUCKETS, WINDOW, MERGED, IMMEDIATE, DYNET].concat(),
            6,
        ),
        (
            "model = 'tree-lstm'\ndataset = 'complete-tree:6'\nrequests = 300",
            [CELLULAR, MERGED, IMMEDIATE].concat(),
            3,
        ),
    ] {
        for workers in [1, 3] {
            let (folder, scenario) = desk(workload, POISSON, workers, &policies);
            let bunched = std::cell::Cell::new(0);
            let results = record_with(
                &scenario,
                &folder.path().join("out"),
                RESTLESS,
                &|_, record| {
                    let several = record
                        .execution
                        .rounds
                        .iter()
                        .filter(|round| round.completions > 1 || round.arrivals > 1)
                        .count();
                    bunched.set(bunched.get() + several);
                },
            );
            assert!(
                bunched.get() > 100,
                "rounds hold {} times more than one event",
                bunched.get()
            );
            all_equal(&results, 2 * kinds);
        }
    }
}

#[test]
fn every_kind_of_load_is_replayed() {
    let trace = "model = 'lstm'\ntrace = 'trace.csv'\ntime_scale = 0.7";
    for (workload, arrivals) in [
        (trace, ""),
        (LSTM, "[arrivals]\nprocess = 'offline'"),
        (
            LSTM,
            "[arrivals]\nprocess = 'stepping'\nfrom = 100\nto = 700\nsteps = 4",
        ),
        (
            LSTM,
            "[arrivals]\nprocess = 'mmpp'\nratio = 5.5\nlow = '40ms'\nhigh = '20ms'\nrates = [300.5]",
        ),
        (
            LSTM,
            "[arrivals]\nprocess = 'closed'\nclients = [9]\nthink = '1.5ms'\nthink_dist = 'exponential'",
        ),
    ] {
        let (folder, scenario) = desk(workload, arrivals, 2, &[CELLULAR, BUCKETS, WINDOW].concat());
        all_equal(&record(&scenario, &folder.path().join("out"), RESTLESS), 3);
    }
}

#[test]
fn a_run_that_was_interrupted_is_replayed_as_far_as_it_goes() {
    for stop_after in [0, 1, 37, 500] {
        let (folder, scenario) = desk(LSTM, POISSON, 3, &[CELLULAR, BUCKETS, WINDOW].concat());
        let quirks = Quirks {
            stop_after: Some(stop_after),
            ..RESTLESS
        };
        for replay in replayed(&record(&scenario, &folder.path().join("out"), quirks)) {
            assert_eq!(
                (replay.difference, replay.finished),
                (None, false),
                "{stop_after}"
            );
            assert_eq!(replay.rounds.0, replay.rounds.1);
        }
    }
}

#[test]
fn a_request_that_failed_fails_again() {
    let (folder, scenario) = desk(LSTM, POISSON, 2, &[CELLULAR, BUCKETS, WINDOW].concat());
    let quirks = Quirks {
        failing: Some(RequestId(7)),
        ..RESTLESS
    };
    let results = record(&scenario, &folder.path().join("out"), quirks);
    for replay in replayed(&results) {
        assert_eq!(replay.difference, None);
        assert_eq!(replay.record.failures.len(), 1);
    }
    assert!(results.join("cellular/600/failures.csv").is_file());
}

/// What a replay says when line `line` of a log has been changed, or taken out.
fn tampered(log: &str, line: usize, change: impl Fn(&str) -> Option<String>) -> String {
    let (folder, scenario) = desk(
        LSTM,
        "[arrivals]\nprocess = 'poisson'\nrates = [600]",
        2,
        CELLULAR,
    );
    let results = record(&scenario, &folder.path().join("out"), RESTLESS);
    let file = results.join("cellular/600").join(log);
    let text = fs::read_to_string(&file).unwrap();
    let lines = text.lines().enumerate();
    let changed = lines.filter_map(|(at, text)| {
        if at == line {
            change(text)
        } else {
            Some(text.to_string())
        }
    });
    fs::write(&file, changed.map(|line| line + "\n").collect::<String>()).unwrap();
    replayed(&results)
        .remove(0)
        .difference
        .expect("it is found out")
}

/// The line with one of its fields replaced.
fn with_field(line: &str, field: usize, value: &str) -> Option<String> {
    let mut fields: Vec<&str> = line.split(',').collect();
    fields[field] = value;
    Some(fields.join(","))
}

#[test]
fn a_changed_batch_is_found_out_and_named() {
    let difference = tampered("tasks.csv", 101, |line| with_field(line, 4, "5555"));
    let lines: Vec<&str> = difference.lines().collect();
    assert!(
        lines[0].starts_with("round ") && lines[0].ends_with(", task 100"),
        "{difference}"
    );
    assert!(
        lines[1].starts_with("  recorded  lstm in a batch of 5555 on worker "),
        "{difference}"
    );
    assert!(
        lines[2].starts_with("  decided   lstm in a batch of ")
            && lines[2].contains(", of request"),
        "{difference}"
    );
}

#[test]
fn a_changed_worker_is_found_out() {
    let difference = tampered("tasks.csv", 101, |line| with_field(line, 1, "77"));
    assert!(
        difference.contains(", task 100\n") && difference.contains(" on worker 77, "),
        "{difference}"
    );
}

#[test]
fn a_round_that_is_missing_is_found_out() {
    // Whatever the round told: completions that are never told, or requests that no round counts.
    for line in [1, 2, 60, 61, 62, 63] {
        let difference = tampered("rounds.csv", line, |_| None);
        let named = [
            "no round of rounds.csv has it done",
            "requests arrived by rounds.csv",
            "round ",
        ];
        assert!(
            named.iter().any(|part| difference.contains(part)),
            "{difference}"
        );
    }
}

#[test]
fn a_task_that_was_done_twice_or_never_is_found_out() {
    let twice = tampered("rounds.csv", 80, |line| with_field(line, 1, "1;1"));
    assert!(
        twice.contains("rounds.csv has task 1 done twice, for the second time in round 79"),
        "{twice}"
    );
    let stranger = tampered("rounds.csv", 80, |line| with_field(line, 1, "999999"));
    assert!(
        stranger.contains("round 79 of rounds.csv has task 999999, which tasks.csv does not have"),
        "{stranger}"
    );
    let lost = tampered("tasks.csv", 51, |_| None);
    assert!(
        lost.contains("task 50, which tasks.csv does not have"),
        "{lost}"
    );
}

#[test]
fn requests_that_came_at_other_times_are_found_out() {
    let later = tampered("requests.csv", 6, |line| with_field(line, 1, "3"));
    assert!(
        later.starts_with("line 7 of requests.csv\n  recorded  5,3,"),
        "{later}"
    );
    let moved = tampered("rounds.csv", 40, |line| with_field(line, 2, "77"));
    assert!(
        moved.contains("requests arrived by rounds.csv, 400 by requests.csv"),
        "{moved}"
    );
}

#[test]
fn a_policy_of_other_settings_is_found_out() {
    let (folder, scenario) = desk(LSTM, POISSON, 2, CELLULAR);
    let results = record(&scenario, &folder.path().join("out"), RESTLESS);
    let file = results.join("run.json");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("\"max_tasks\": 3", "\"max_tasks\": 2")).unwrap();
    for replay in replayed(&results) {
        let difference = replay.difference.expect("fewer tasks are decided");
        assert!(difference.contains("\n  decided   "), "{difference}");
        assert!(replay.rounds.0 < replay.rounds.1);
    }
}

/// The ledgers of all points of a folder.
fn ledgers(results: &Path) -> Vec<Ledger> {
    let Results {
        scenarios, points, ..
    } = Results::open(results, &Registry::standard()).unwrap();
    let scenario = &scenarios[0];
    let inputs = RunInputs::new(scenario).unwrap();
    let one = |point: RecordedPoint| {
        let entry = &scenario.policies[point.run.policy];
        let table = CostTable::read(entry.costs.file().unwrap()).unwrap();
        let model =
            costs::costs_of_policy(&table, &scenario.workload, &*entry.settings, entry.overhead)
                .unwrap();
        ledger::replay_with_ledger(&inputs, &point, Some(&model))
            .unwrap()
            .1
            .expect("the replay equals the logs")
    };
    points.into_iter().map(one).collect()
}

/// The mean latencies of a ledger, for messages.
fn means(ledger: &Ledger) -> String {
    let times = [&ledger.real, &ledger.recorded]
        .into_iter()
        .chain(&ledger.replaced)
        .chain([&ledger.model]);
    times
        .map(|times| format!("{:.4} ", times.mean_ms.unwrap()))
        .collect()
}

/// How far a mean is from the real one, as a share of it.
fn off(ledger: &Ledger, times: &batchlab::summary::Times) -> f64 {
    times.mean_ms.unwrap() / ledger.real.mean_ms.unwrap() - 1.0
}

const LOW: &str = "[arrivals]\nprocess = 'poisson'\nrates = [100, 200]";
const PAIRS: &str = "model = 'seq2seq'\ndataset = 'pairs.csv'\nrequests = 600";

#[test]
fn the_ledger_names_the_term_that_was_changed() {
    let none = Quirks::default();
    for (quirks, owner) in [
        (
            Quirks {
                slow: Some(CellId(1)),
                ..none
            },
            Term::Durations,
        ),
        (
            Quirks {
                launch: 900_000,
                ..none
            },
            Term::Dispatch,
        ),
        (
            Quirks {
                notice: 1_500_000,
                ..none
            },
            Term::Dispatch,
        ),
        (
            Quirks {
                oversleep: 4_000_000,
                ..none
            },
            Term::Arrivals,
        ),
    ] {
        for workers in [1, 2] {
            // Late arrivals may fill the buckets, and so shorten latencies.
            let padded = if owner == Term::Arrivals { "" } else { BUCKETS };
            let policies = [CELLULAR, padded, MERGED].concat();
            let (folder, scenario) = desk(PAIRS, LOW, workers, &policies);
            for ledger in ledgers(&record(&scenario, &folder.path().join("out"), quirks)) {
                assert_eq!(ledger.owner(), Some(owner), "{quirks:?} {}", means(&ledger));
                assert!(
                    off(&ledger, &ledger.recorded).abs() < 0.03,
                    "{quirks:?} {}",
                    means(&ledger)
                );
                assert!(
                    off(&ledger, &ledger.model) < -0.01,
                    "{quirks:?} {}",
                    means(&ledger)
                );
            }
        }
    }
}

#[test]
fn a_machine_like_the_model_has_nothing_in_its_ledger() {
    for workers in [1, 3] {
        let (folder, scenario) = desk(
            PAIRS,
            LOW,
            workers,
            &[CELLULAR, BUCKETS, WINDOW, MERGED, IMMEDIATE].concat(),
        );
        for ledger in ledgers(&record(
            &scenario,
            &folder.path().join("out"),
            Quirks::default(),
        )) {
            assert_eq!(ledger.owner(), None);
            assert_eq!(
                (&ledger.real, &ledger.real),
                (&ledger.recorded, &ledger.model)
            );
        }
    }
}

#[test]
fn what_was_recorded_gives_the_run_again() {
    for workers in [1, 2] {
        let (folder, scenario) = desk(
            PAIRS,
            LOW,
            workers,
            &[CELLULAR, BUCKETS, MERGED, IMMEDIATE, DYNET].concat(),
        );
        for ledger in ledgers(&record(&scenario, &folder.path().join("out"), RESTLESS)) {
            assert_eq!(ledger.recorded, ledger.real, "to the nanosecond");
        }
    }
    // Nothing records when a window should have ended: that its end came late belongs to no term.
    let (folder, scenario) = desk(PAIRS, LOW, 2, WINDOW);
    for ledger in ledgers(&record(&scenario, &folder.path().join("out"), RESTLESS)) {
        assert!(
            off(&ledger, &ledger.recorded).abs() < 0.03,
            "{}",
            means(&ledger)
        );
    }
}
