//! Hosts that lack something, and faults during a run.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Host;

/// Asserts that a run names the missing library, the searched places and a way out, and writes nothing.
#[track_caller]
fn is_missing(host: &Host, messages: &[&str]) {
    let ran = host.real(&[]);
    for message in messages {
        ran.failed(1, message);
    }
    assert!(ran.stderr.contains("--backend cpu"), "{}", ran.stderr);
    assert!(!host.desk.path("out").exists(), "a folder was made");
    let listed = host.run(&["devices"]);
    assert_eq!(listed.code, Some(1), "{listed:?}");
    assert!(listed.stderr.contains(messages[0]), "{listed:?}");
}

#[test]
fn a_driver_that_is_missing_is_named() {
    let Some(host) = Host::new().map(|host| host.with_libraries(&[])) else {
        return;
    };
    // A host with its own driver shows that one.
    if host
        .run(&["devices"])
        .stderr
        .contains("no NVIDIA driver was found")
    {
        is_missing(
            &host,
            &["no NVIDIA driver was found: looked for libcuda.so.1"],
        );
    }
}

#[test]
fn a_driver_that_is_too_old_is_named() {
    let Some(host) = Host::new().map(|host| host.with("VERSION", "11040")) else {
        return;
    };
    is_missing(&host, &["the driver is too old", "serves CUDA up to 11.4"]);
}

#[test]
fn libraries_that_are_missing_are_named() {
    for (there, missing) in [("libcublas.so.12", "NVRTC"), ("libnvrtc.so.12", "cuBLAS")] {
        let Some(host) =
            Host::new().map(|host| host.with_libraries(&["libcuda.so", "libcuda.so.1", there]))
        else {
            return;
        };
        let message = format!("no {missing} was found: looked for");
        // A host with these libraries on its own path finds them there.
        if host.run(&["devices"]).stderr.contains(&message) {
            is_missing(&host, &[&message]);
        }
    }
}

const DRIVER: [&str; 2] = ["libcuda.so", "libcuda.so.1"];

/// A host of CUDA 13 whose GPUs have this compute capability, with these libraries and no others.
fn of_cuda_13(capability: &str, libraries: &[&str]) -> Option<Host> {
    let host = Host::new()?
        .with("VERSION", "13000")
        .with("CAPABILITY", capability);
    Some(host.with_libraries(&[&DRIVER[..], libraries].concat()))
}

#[test]
fn the_newest_libraries_that_serve_the_gpu_are_taken() {
    let all = [
        "libnvrtc.so.12",
        "libnvrtc.so.13",
        "libcublas.so.12",
        "libcublas.so.13",
    ];
    for (capability, libraries, nvrtc, cublas) in [
        ("70", &all[..], "12.99", "12.99.0"),
        ("80", &all[..], "13.99", "13.0.0"),
        // Those of one major version, or what there is.
        ("80", &all[1..3], "13.99", "12.99.0"),
        ("80", &[all[0], all[2], all[3]], "12.99", "12.99.0"),
    ] {
        let Some(host) = of_cuda_13(capability, libraries) else {
            return;
        };
        let found: Value = host.run(&["devices", "--format", "json"]).ok().json();
        let versions = ["nvrtc", "cublas"].map(|name| {
            found["libraries"][name]["version"]
                .as_str()
                .unwrap()
                .to_string()
        });
        assert_eq!(
            versions,
            [nvrtc, cublas],
            "compute capability {capability}, {libraries:?}"
        );
    }
    let Some(host) = of_cuda_13("70", &all) else {
        return;
    };
    host.verified(&[]);
}

#[test]
fn libraries_that_are_too_new_for_the_gpu_are_named() {
    for (old, new, version) in [
        ("libcublas.so.12", "libnvrtc.so.13", "NVRTC 13.99"),
        ("libnvrtc.so.12", "libcublas.so.13", "cuBLAS 13.0"),
    ] {
        let Some(host) = of_cuda_13("70", &[old, new]) else {
            return;
        };
        let refusal = "which does not serve compute capability 7.0; install version 12";
        is_missing(
            &host,
            &[&format!("libraries/{new}: is {version}, {refusal}")],
        );
    }
}

#[test]
fn a_gpu_that_is_too_old_is_named() {
    let Some(host) = Host::new().map(|host| host.with("CAPABILITY", "61")) else {
        return;
    };
    let ran = host.real(&[]);
    ran.failed(
        1,
        "GPU 0 (Host CUDA) has compute capability 6.1, and the kernels need 7.0 (Volta) or later",
    );
    assert!(ran.stderr.contains("--backend cpu"), "{}", ran.stderr);
    assert!(host.run(&["devices"]).ok().stdout.contains("6.1"));
}

#[test]
fn a_host_without_gpus_says_so() {
    let Some(host) = Host::new().map(|host| host.with("DEVICES", "0")) else {
        return;
    };
    is_missing(
        &host,
        &[
            "there is no GPU",
            "no CUDA-capable device is detected",
            "CUDA_VISIBLE_DEVICES",
        ],
    );
}

#[test]
fn memory_that_is_not_there_is_named() {
    let Some(host) = Host::new().map(|host| host.with("MEMORY", "4096")) else {
        return;
    };
    let ran = host.real(&["-q"]);
    ran.failed(1, "GPU 0 (Host CUDA) has no memory for ");
    assert!(ran.stderr.contains("KiB"), "{}", ran.stderr);
}

/// The numbers of a policy's finished and failed requests in its logs, and the reasons of failures.
#[track_caller]
fn outcome(host: &Host, policy: &str) -> (usize, usize, BTreeSet<String>) {
    let point = format!("out/t/{policy}/offline");
    let requests = host.desk.rows(&format!("{point}/requests.csv"));
    let unfinished: BTreeSet<&String> = requests
        .iter()
        .filter(|row| row["finish_ns"].is_empty())
        .map(|row| &row["id"])
        .collect();
    let failures = format!("{point}/failures.csv");
    let failures = if unfinished.is_empty() {
        Vec::new()
    } else {
        host.desk.rows(&failures)
    };
    assert_eq!(
        failures
            .iter()
            .map(|row| &row["id"])
            .collect::<BTreeSet<_>>(),
        unfinished
    );
    let reasons = failures.iter().map(|row| row["reason"].clone()).collect();
    (requests.len() - unfinished.len(), unfinished.len(), reasons)
}

/// Batches so small that several run one after the other.
const SMALL: [&str; 2] = ["--set", "policy.A.max_batch=4"];

#[test]
fn a_failed_launch_fails_only_its_requests() {
    // After those that graphs are captured from.
    let Some(host) = Host::new().map(|host| host.with("FAIL_LAUNCH", "40")) else {
        return;
    };
    let ran = host.real(&[&SMALL[..], &["--verify", "all"]].concat());
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let (completed, failed, reasons) = outcome(&host, "A");
    assert_eq!((completed, failed), (36, 4), "one batch: {reasons:?}");
    assert!(
        reasons
            .iter()
            .all(|reason| reason.contains("too many resources requested for launch")),
        "{reasons:?}"
    );
    assert_eq!(
        outcome(&host, "B").1,
        0,
        "the next run goes on as if nothing had been"
    );
    assert!(
        ran.stderr.contains("verified: 76 requests"),
        "{}",
        ran.stderr
    );
    assert!(
        ran.stderr
            .contains("4 requests failed; failures.csv beside the logs"),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_lost_gpu_keeps_finished_points() {
    for (code, says) in [
        ("719", "unspecified launch failure"),
        ("700", "an illegal memory access was encountered"),
    ] {
        let Some(host) = Host::new().map(|host| host.with("LOSE", "40").with("LOSE_CODE", code))
        else {
            return;
        };
        let ran = host.real(&SMALL);
        assert_eq!(ran.code, Some(1), "{ran:?}");
        let last = ran.stderr.lines().last().unwrap();
        assert!(
            last.starts_with("batchlab: ")
                && last.contains("GPU 0 (Host CUDA)")
                && last.contains(says),
            "{ran:?}"
        );
        let (completed, failed, reasons) = outcome(&host, "A");
        assert!(
            failed > 0 && completed > 0 && completed + failed == 40,
            "{completed} and {failed}"
        );
        assert!(
            reasons.iter().all(|reason| reason.contains(says)),
            "{reasons:?}"
        );
    }
}

#[test]
fn a_gpu_that_is_lost_leaves_the_others_their_requests() {
    let Some(host) = Host::new().map(|host| host.with("LOSE", "8").with("LOSE_DEVICE", "1")) else {
        return;
    };
    let ran = host.real(&[&SMALL[..], &["--set", "device.workers=2"]].concat());
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("GPU 1 (Host CUDA)"), "{}", ran.stderr);
    let (completed, failed, _) = outcome(&host, "A");
    assert!(
        failed > 0 && completed > 0 && completed + failed == 40,
        "{completed} and {failed}"
    );
    let workers = host.desk.column("out/t/A/offline/tasks.csv", "worker");
    assert!(
        workers.iter().any(|worker| worker == "0") && workers.iter().any(|worker| worker == "1")
    );
}
