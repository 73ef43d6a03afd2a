//! `batchlab swarm`.

use crate::desk::Desk;

#[test]
fn random_scenarios_repeat_and_a_scenario_is_checked() {
    let desk = Desk::new();
    let search = || {
        desk.run(&["swarm", "--seed", "7", "--runs", "3"])
            .ok()
            .stdout
    };
    let told = search();
    assert!(
        told.starts_with("3 cases, ") && told.ends_with(" runs: 0 break a law\n"),
        "{told}"
    );
    assert_eq!(told, search());
    let checked = desk
        .run(&[
            "swarm",
            "--case",
            "t.toml",
            "--faults",
            "lost,late",
            "--out",
            "checked",
        ])
        .ok();
    assert_eq!(checked.stdout, "4 runs keep the laws\n");
    desk.run(&["swarm", "--case", "costs.csv"])
        .failed(2, "not valid TOML");
}
