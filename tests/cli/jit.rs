//! `batchlab jit` on the command line.

use std::path::PathBuf;

use crate::desk::Desk;

/// A leaf; a root over two; a chain of three; a root over a leaf and a chain of two.
const TREES: &str = "1\t0\n2\t3 3 0\n1\t2 3 0\n2\t4 3 4 0\n";

#[test]
fn a_file_of_trees_is_counted() {
    let desk = Desk::new();
    desk.write("trees.txt", TREES);
    let json = desk
        .run(&["jit", "count", "trees.txt", "--format", "json"])
        .ok()
        .json();
    assert_eq!(
        (&json["unbatched"], &json["batched"]),
        (&17.into(), &6.into())
    );
    assert_eq!(json["batches"].as_array().unwrap().len(), 1);
    desk.write("order.csv", "position,pair\n0,1\n1,0\n");
    let options = [
        "--pairs",
        "--order",
        "order.csv",
        "--batch",
        "1",
        "--orders",
        "5",
    ];
    let pairs = [&["jit", "count", "trees.txt"][..], &options].concat();
    let json = desk
        .run(&[&pairs[..], &["--format", "json"]].concat())
        .ok()
        .json();
    assert_eq!(
        (&json["unbatched"], &json["batched"]),
        (&19.into(), &10.into())
    );
    assert_eq!(json["batches"][0]["similarity_launches"], 1);
    assert_eq!(
        json["orders"]["min"], json["orders"]["max"],
        "one at a time the order plays no part"
    );
    let table = desk.run(&pairs).ok().stdout;
    assert!(
        table.contains("cells     19 without batching, 10 with: 2x"),
        "{table}"
    );
    assert!(table.contains("\nby type   "), "{table}");
    assert!(
        table.contains("only the order of magnitude compares"),
        "{table}"
    );
}

#[test]
fn traces_are_counted_as_files_of_trees_are() {
    let desk = Desk::new();
    desk.write(
        "plain.txt",
        TREES
            .lines()
            .map(|line| format!("{}\n", line.split_once('\t').unwrap().1))
            .collect::<String>(),
    );
    desk.run(&[
        "trace",
        "import",
        "plain.txt",
        "--format",
        "parents",
        "--process",
        "offline",
        "-o",
        "trace.csv",
    ])
    .ok();
    let count = |file| {
        desk.run(&["jit", "count", file, "--batch", "3"])
            .ok()
            .stdout
    };
    assert_eq!(count("plain.txt"), count("trace.csv"));
}

#[test]
fn mistakes_are_named() {
    let desk = Desk::new();
    desk.write("trees.txt", "0\n3 3\n");
    desk.write("odd.txt", "0\n");
    desk.write("order.csv", "position,tree\n0,7\n");
    for (words, message) in [
        (&["none.txt"][..], "none.txt: cannot be read"),
        (
            &["trees.txt"],
            "trees.txt: line 2: node 1 has parent 3, but the tree has 2 nodes",
        ),
        (
            &["odd.txt", "--pairs"],
            "odd.txt: holds 1 trees, an odd number",
        ),
        (
            &["odd.txt", "--order", "order.csv"],
            "order.csv: line 2: tree: \"7\" is not a whole number from 0 to 0",
        ),
    ] {
        let ran = desk.run(&[&["jit", "count"], words].concat());
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.stderr.contains(message), "{}", ran.stderr);
    }
}

/// The paper's Table 1, column "subgraph", on the trees that it used. They are not part of the repository; the variable names a
/// folder that holds them under `trees/` and the order and the counts of each batch under `jit/`.
#[test]
fn table_1_comes_out_exactly() {
    let Some(folder) = std::env::var_os("BATCHLAB_DATA").map(PathBuf::from) else {
        println!("skipped: BATCHLAB_DATA is not set");
        return;
    };
    let desk = Desk::new();
    let path = |name: &str| folder.join(name).display().to_string();
    let (trees, order) = (path("trees/sick_test.txt"), path("jit/sick_test_order.csv"));
    let words = [
        "jit", "count", &trees, "--pairs", "--order", &order, "--orders", "50", "--format", "json",
    ];
    let json = desk.run(&words).ok().json();
    assert_eq!(
        (&json["unbatched"], &json["batched"]),
        (&148_681.into(), &1_081.into())
    );
    const COLUMNS: [&str; 9] = [
        "samples",
        "cells",
        "leaves",
        "unbatched",
        "max_level",
        "begin_state_launches",
        "cell_launches",
        "similarity_launches",
        "batched",
    ];
    let counted = json["batches"]
        .as_array()
        .unwrap()
        .iter()
        .enumerate()
        .map(|(number, batch)| {
            COLUMNS.iter().fold(number.to_string(), |row, column| {
                format!("{row},{}", batch[column])
            })
        });
    let expected = std::fs::read_to_string(folder.join("jit/table1_expected.csv")).unwrap();
    let expected: Vec<&str> = expected
        .lines()
        .skip(1)
        .filter(|row| !row.starts_with("total"))
        .collect();
    assert_eq!(counted.collect::<Vec<_>>(), expected);
    let (least, most) = (
        json["orders"]["min"].as_u64().unwrap(),
        json["orders"]["max"].as_u64().unwrap(),
    );
    assert!(1_030 <= least && most <= 1_100, "{least} to {most}");
}
