//! Tests of the figures of sweeps, searches and classes.

use super::*;
use crate::lab::plot::canvas::CanvasMark;

fn draw_kind_of(kind: FigureKind, path: &Path, options: &PlotOptions) -> Result<Canvas> {
    kind.draw(&PlotInputs::open(&[path])?, options)
        .map_err(|undrawn| undrawn.error(kind))
}

fn words(canvas: &Canvas) -> Vec<String> {
    let mut words = Vec::new();
    for mark in &canvas.marks {
        if let CanvasMark::Text(text) = mark {
            words.push(text.words.clone());
        }
    }
    words
}

/// The results of a sweep of one policy over two keys.
fn sweep() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut rows = vec![format!("{HEADER},policy.A.max_batch,device.workers")];
    for (batch, workers, p99) in [(64, 1, 80), (64, 2, 40), (512, 1, 20), (512, 2, 10)] {
        let saturated = p99 == 80;
        rows.push(format!(
            "A,sim,1000,1000,1000,2,2,3,{p99},1000,{saturated},1,{batch},{workers}"
        ));
    }
    fs::write(folder.path().join("summary.csv"), rows.join("\n")).unwrap();
    let run = "{\"scenario\": {\"policy\": [{\"label\": \"A\", \"kind\": \"cellular\", \"swept\": \
        [[\"policy.A.max_batch\", \"64\"], [\"device.workers\", \"1\"]]}]}}";
    fs::write(folder.path().join("run.json"), run).unwrap();
    folder
}

#[test]
fn a_heat_map_has_a_field_for_each_combination() {
    let folder = sweep();
    let canvas = draw_kind_of(FigureKind::HeatMap, folder.path(), &PlotOptions::default()).unwrap();
    let found = words(&canvas);
    for word in [
        "64",
        "512",
        "max_batch",
        "device.workers",
        "80.0",
        "40.0",
        "20.0",
        "10.0",
        "saturated",
        "A",
    ] {
        assert!(found.iter().any(|other| other == word), "{word}: {found:?}");
    }
    let field = |x: &str, series: &str| {
        canvas
            .data
            .iter()
            .find(|datum| datum.x == x && datum.series == series)
            .unwrap()
    };
    assert_eq!(
        (
            field("64", "device.workers=1").y,
            field("64", "device.workers=1").saturated
        ),
        (80.0, true)
    );
    assert_eq!(field("512", "device.workers=2").y, 10.0);
    let turned = PlotOptions {
        x: Some("device.workers".into()),
        metric: Some("p90".into()),
        ..PlotOptions::default()
    };
    let canvas = draw_kind_of(FigureKind::HeatMap, folder.path(), &turned).unwrap();
    assert!(
        canvas
            .data
            .iter()
            .all(|datum| datum.y == 3.0 && datum.series.starts_with("max_batch=")),
        "{:?}",
        canvas.data
    );
    for (options, message) in [
        (
            PlotOptions {
                x: Some("window".into()),
                ..PlotOptions::default()
            },
            "--x window: is not a swept key of these results; there are",
        ),
        (
            PlotOptions {
                metric: Some("p77".into()),
                ..PlotOptions::default()
            },
            "--metric: unknown metric \"p77\"; known: offered_rps",
        ),
    ] {
        let error = draw_kind_of(FigureKind::HeatMap, folder.path(), &options).unwrap_err();
        assert!(
            error.to_string().contains(message) && error.exit_code() == 2,
            "{error}"
        );
    }
    let error = draw_kind_of(
        FigureKind::HeatMap,
        results().path(),
        &PlotOptions::default(),
    )
    .unwrap_err()
    .to_string();
    assert!(error.contains("heat-map: needs two swept keys"), "{error}");
}

fn over(key: &str) -> PlotOptions {
    PlotOptions {
        x: Some(key.into()),
        ..PlotOptions::default()
    }
}

#[test]
fn what_searches_have_found_is_drawn_over_a_key_or_by_policy() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write(
        "knee.csv",
        "policy,slo_ms,quantile,knee_rps,knee_rps_ci,replications,requests,caveat,policy.A.max_batch\n\
         A,50,p99,1000,10,5,9,,64\nA,50,p99,1500,20,5,9,short,512\nB,50,p99,700,5,5,9,,\n",
    );
    write(
        "workers.csv",
        "policy,rate_rps,slo_ms,quantile,workers,latency_ms,requests,caveat\nA,900,50,p99,3,41,9,\nB,900,50,p99,4,45,9,\n",
    );
    write(
        "tune.csv",
        "policy,slo_ms,quantile,round,knee_rps,knee_rps_ci,caveat,policy.A.max_batch,policy.A.window\n\
         A,50,p99,3,1500,10,,512,0ms\nA,50,p99,1,900,90,,64,5ms\n",
    );
    let canvas = draw_kind_of(FigureKind::Knee, folder.path(), &over("max_batch")).unwrap();
    let found = words(&canvas);
    for word in [
        "max_batch",
        "Highest rate (requests/s)",
        "95 % interval of 5 replications",
        "limited (see caveat)",
    ] {
        assert!(found.iter().any(|other| other == word), "{word}: {found:?}");
    }
    assert_eq!(
        canvas.data.iter().map(|datum| datum.y).collect::<Vec<_>>(),
        [1000.0, 1500.0]
    );
    let canvas = draw_kind_of(FigureKind::Workers, folder.path(), &PlotOptions::default()).unwrap();
    assert_eq!(
        canvas
            .data
            .iter()
            .map(|datum| (datum.series.as_str(), datum.y))
            .collect::<Vec<_>>(),
        [("A", 3.0), ("B", 4.0)]
    );
    let canvas = draw_kind_of(FigureKind::Tune, folder.path(), &over("window")).unwrap();
    assert!(
        words(&canvas)
            .iter()
            .any(|word| word == "out in an earlier round")
    );
    let metric = Some("knee_rps".into());
    let error = draw_kind_of(FigureKind::Tune, folder.path(), &PlotOptions::default())
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("several keys were tried; choose one with --x: max_batch, window"),
        "{error}"
    );
    let error = draw_kind_of(FigureKind::Knee, folder.path(), &over("window"))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("--x window: is not a key of knee.csv; there are policy.A.max_batch"),
        "{error}"
    );
    let error = draw_kind_of(FigureKind::Goodput, folder.path(), &PlotOptions::default())
        .unwrap_err()
        .to_string();
    assert!(error.contains("has no summary.csv"), "{error}");
    fs::remove_file(folder.path().join("knee.csv")).unwrap();
    let error = draw_kind_of(FigureKind::Knee, folder.path(), &PlotOptions::default())
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("there is no knee.csv with an answer; find-knee writes it"),
        "{error}"
    );
    let canvas = draw_kind_of(
        FigureKind::HeatMap,
        folder.path(),
        &PlotOptions {
            metric,
            ..PlotOptions::default()
        },
    )
    .unwrap();
    assert_eq!(canvas.data.len(), 2);
}

#[test]
fn each_class_is_a_series() {
    let folder = results();
    let by_class = PlotOptions {
        by_class: true,
        ..PlotOptions::default()
    };
    let error = draw_kind_of(FigureKind::LatencyRate, folder.path(), &by_class)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("--by-class: has no classes.csv; a scenario with [[class]] gives one"),
        "{error}"
    );
    let mut rows = vec![
        "policy,backend,point,class,offered_rps,throughput_rps,mean_ms,p50_ms,p90_ms,p99_ms,warmup"
            .to_string(),
    ];
    for (policy, point) in [
        ("cellular", 1000),
        ("cellular", 2000),
        ("padded (bw=10)", 1000),
        ("padded (bw=10)", 2000),
    ] {
        for (class, p99) in [("short", 5), ("long", 50)] {
            rows.push(format!(
                "{policy},sim,{point},{class},{},{},2,2,3,{p99},0",
                point / 2,
                point / 2
            ));
        }
    }
    fs::write(folder.path().join("classes.csv"), rows.join("\n")).unwrap();
    let canvas = draw_kind_of(FigureKind::LatencyRate, folder.path(), &by_class).unwrap();
    let found = words(&canvas);
    for label in [
        "cellular, class=short",
        "cellular, class=long",
        "padded (bw=10), class=long",
    ] {
        assert!(found.iter().any(|word| word == label), "{label}: {found:?}");
    }
    let saturated = canvas.data.iter().filter(|datum| datum.saturated).count();
    assert_eq!(
        saturated, 2,
        "both classes of a run that is saturated as a whole"
    );
    for policy in ["cellular", "padded (bw=10)"] {
        let request = |i: u64| {
            format!(
                "{i},{0},{0},{1},{2},1\n",
                i * 1000,
                i * 1000 + 5_000_000,
                ["short", "long"][i as usize % 2]
            )
        };
        let requests: String = (0..8).map(request).collect();
        let log = folder.path().join(policy).join("1000/requests.csv");
        fs::write(
            log,
            format!("id,arrival_ns,start_ns,finish_ns,class,measured\n{requests}"),
        )
        .unwrap();
    }
    let canvas = draw_kind_of(
        FigureKind::LatencyCdf,
        folder.path(),
        &PlotOptions {
            point: Some("1000".into()),
            ..by_class
        },
    )
    .unwrap();
    assert_eq!(
        distinct(canvas.data.iter().map(|datum| &datum.series)).len(),
        4
    );
}
