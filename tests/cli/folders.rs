//! Locks, marks and unfinished files of an output folder.

use std::fs::{self, File};

use crate::desk::{Desk, same};

/// A log that is gone, or cut short by a power failure, makes its point unfinished.
#[test]
fn a_point_is_finished_only_with_all_its_files() {
    let desk = Desk::new();
    desk.sim(&["--replications", "2"]).ok();
    let whole = desk.files("out");
    fs::remove_file(desk.path("out/t/A/100/tasks.csv")).unwrap();
    fs::remove_file(desk.path("out/t/B/200/batches-2.csv")).unwrap();
    let cut = desk.read("out/t/B/100/requests.csv");
    desk.write("out/t/B/100/requests.csv", &cut[..cut.len() / 2]);
    let ran = desk
        .run(&[
            "sim",
            "t.toml",
            "--out",
            "out",
            "--replications",
            "2",
            "--resume",
        ])
        .ok();
    assert!(
        ran.stderr.contains("taken over from before: 5 of 8 runs"),
        "{ran:?}"
    );
    same(&whole, &desk.files("out"));
}

#[test]
fn a_folder_has_one_run_at_a_time() {
    let desk = Desk::new();
    desk.sim(&[]).ok();
    let before = desk.files("out");
    let lock = File::options()
        .write(true)
        .open(desk.path("out/t/.lock"))
        .unwrap();
    let refused = |lock: &File, more: &[&str]| {
        let message = "out/t: another run is writing to this folder; wait until it has ended, or give another --out";
        desk.sim(&[&["--seed", "2"], more].concat())
            .failed(2, message);
        same(&before, &desk.files("out"));
        lock.unlock().unwrap();
    };
    lock.lock().unwrap();
    refused(&lock, &[]);
    lock.lock_shared().unwrap();
    refused(&lock, &["--resume"]);
    desk.sim(&["--seed", "2"]).ok();
}

/// A link in place of the folder for unfinished files, which a stranger has put there, is not followed.
#[cfg(unix)]
#[test]
fn unfinished_files_are_never_written_through_links() {
    let desk = Desk::new();
    fs::create_dir_all(desk.path("elsewhere")).unwrap();
    fs::create_dir_all(desk.path("out/t")).unwrap();
    std::os::unix::fs::symlink("../../elsewhere", desk.path("out/t/.partial")).unwrap();
    desk.sim(&[]).ok();
    assert_eq!(fs::read_dir(desk.path("elsewhere")).unwrap().count(), 0);
}

#[test]
fn a_finished_sweep_leaves_no_unfinished_files() {
    let desk = Desk::new();
    desk.sim(&[]).ok();
    let whole = desk.files("out");
    fs::create_dir_all(desk.path("out/t/.partial/elsewhere-1-0")).unwrap();
    desk.write("out/t/.partial/elsewhere-1-0/requests.csv", "id,arr");
    desk.sim(&["--resume"]).ok();
    same(&whole, &desk.files("out"));
    assert!(!desk.path("out/t/.partial").exists());
}
