//! Counts how often the 95 % intervals of the mean and of p99 from ten replications hold the exact value, over many
//! seeds. docs/METRICS.md has the rule and the table.
//!
//!     cargo run --release --example coverage -- 2000 > results/reference/coverage.csv

use std::ops::Range;
use std::process::ExitCode;

#[path = "../tests/core/coverage/mod.rs"]
mod coverage;
#[allow(dead_code, reason = "the tests need more of the theory")]
#[path = "../tests/core/exact/mod.rs"]
mod exact;

use coverage::Coverage;

const USAGE: &str =
    "usage: coverage SEEDS [FIRST], the number of seeds, at least 1, and the first one (1)";

fn main() -> ExitCode {
    let arguments: Result<Vec<u64>, _> =
        std::env::args().skip(1).map(|text| text.parse()).collect();
    let seeds = match arguments.as_deref() {
        Ok([seeds]) if *seeds > 0 => 1..1 + seeds,
        Ok([seeds, first]) if *seeds > 0 => *first..first + seeds,
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    println!(
        "system,load,requests,figure,exact_ms,seeds,refused,covered,below,above,coverage,half_width"
    );
    for requests in [20_000, 200_000] {
        count(requests, seeds.clone());
    }
    ExitCode::SUCCESS
}

/// Prints a line for each figure of each system and load.
fn count(requests: usize, seeds: Range<u64>) {
    let mut coverage = Coverage::new(requests);
    let number = seeds.end - seeds.start;
    for seed in seeds {
        coverage.add(seed);
    }
    for (system, load, exact, counts) in &coverage.cells {
        for (figure, (exact, count)) in ["mean", "p99"].iter().zip(exact.iter().zip(counts)) {
            let intervals = count.intervals();
            print!(
                "{system},{load},{requests},{figure},{exact:.6},{number},{},{},{},{},",
                count.refused, count.covered, count.below, count.above,
            );
            if intervals > 0 {
                let half_width = count.half_widths / f64::from(intervals);
                println!("{:.4},{half_width:.4}", count.coverage());
            } else {
                println!(",");
            }
        }
    }
}
