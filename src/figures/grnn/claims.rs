//! The claims of GRNN.

use super::super::findings::Findings;
use super::super::{Claim, Kind, Verdict};
use super::paper::{BATCHES, MAPPINGS, WIDTHS};
use super::tables::{DOUBLE, MODEL, SINGLE};
use crate::cost::grnn::{Rnn, Space};
use crate::error::{Error, Result};

/// The claims, in the paper's order.
pub const CLAIMS: &[Claim] = &[
    Claim {
        id: "grnn-space",
        kind: Kind::Exact,
        place: "7",
        what: "number of configurations of an LSTM of 256 with batch 20, with tiles up to 256 wide",
        paper: "over 100,000 configurations",
        exhibits: &["table2"],
        check: |_| {
            let size = Space { widest: 256, uneven: false }.size(Rnn::Lstm, 20);
            Ok(Verdict::above(size as f64, 100_000.0, "configurations"))
        },
        reason: "",
    },
    Claim {
        id: "grnn-table2",
        kind: Kind::Exact,
        place: "Table 2",
        what: "cost and rank of five mappings",
        paper: "449/17; 322/3; 252/1; 443/14; 561/35",
        exhibits: &["table2"],
        check: mappings,
        reason: "",
    },
    Claim {
        id: "grnn-top1",
        kind: Kind::Cuda,
        place: "8.3",
        what: "latency of the first configuration over the best of all",
        paper: "1.03",
        exhibits: &["fig14"],
        check: |_| Ok(Verdict::not_run(LATENCIES)),
        reason: LATENCIES,
    },
    Claim {
        id: "grnn-top5",
        kind: Kind::Cuda,
        place: "8.3",
        what: "latency of the best of the first five over the best of all",
        paper: "1.02",
        exhibits: &["fig14"],
        check: |_| Ok(Verdict::not_run(LATENCIES)),
        reason: LATENCIES,
    },
    Claim {
        id: "grnn-table1",
        kind: Kind::Cuda,
        place: "Table 1",
        what: "latency of LSTM and GRU at hidden 64, 256, 1024 and batch 1, 10, 20",
        paper: "0.18 to 8.01 ms",
        exhibits: &["table1"],
        check: |_| Ok(Verdict::not_run(FITTED)),
        reason: FITTED,
    },
    Claim {
        id: "grnn-cudnn-trad",
        kind: Kind::Cuda,
        place: "8.2",
        what: "cuDNN's traditional kernels over GRNN at hidden 64 and 256",
        paper: "6.67; 4.21",
        exhibits: &["fig11"],
        check: |_| Ok(Verdict::not_run(CUDNN)),
        reason: CUDNN,
    },
    Claim {
        id: "grnn-cudnn-pers",
        kind: Kind::Cuda,
        place: "8.2",
        what: "cuDNN's persistent kernels over GRNN at hidden 64 and batch 20",
        paper: "9.2",
        exhibits: &["fig11"],
        check: |_| Ok(Verdict::not_run(CUDNN)),
        reason: CUDNN,
    },
    Claim {
        id: "grnn-table3",
        kind: Kind::Cuda,
        place: "Table 3",
        what: "one synchronisation is faster at hidden 64 and 256 (1.15 to 1.5 times) and slower at 1024",
        paper: "order",
        exhibits: &["table3"],
        check: |_| Ok(Verdict::not_run(LATENCIES)),
        reason: LATENCIES,
    },
    Claim {
        id: "grnn-crossover",
        kind: Kind::Exact,
        place: "7.2, Table 3",
        what: "the model picks one synchronisation at hidden 64 and 256 and two at 1024, batch 1, 10, 20",
        paper: "order",
        exhibits: &["table3"],
        check: crossover,
        reason: "",
    },
];

const LATENCIES: &str =
    "a ratio of latencies that a GPU has to measure; the model has costs, which rank mappings and predict no time";
const FITTED: &str =
    "nothing was measured on a GPU, and the simulator's times are lines that were fitted to this very table";
const CUDNN: &str = "nothing was measured on a GPU, and the simulator has no model of cuDNN's kernels";

fn mappings(found: &Findings) -> Result<Verdict> {
    let study = found.studied("table2").ok_or_else(|| Error::failed("table2: no results"))?;
    let (mut ours, mut paper) = (Vec::new(), Vec::new());
    for (groups, size, _, cost, rank) in MAPPINGS {
        let value = |drawing: usize| study.value(drawing, "", &format!("{groups}×{size}"), MODEL);
        // The paper cuts the digits behind the point off.
        ours.extend([value(0)?.trunc(), value(1)?]);
        paper.extend([cost, rank]);
    }
    let exact = Verdict::exact(&ours, &paper, "");
    let pairs: Vec<String> = ours.chunks(2).map(|pair| format!("{}/{}", pair[0], pair[1])).collect();
    Ok(Verdict { ours: pairs.join("; "), ..exact })
}

fn crossover(found: &Findings) -> Result<Verdict> {
    let study = found.studied("table3").ok_or_else(|| Error::failed("table3: no results"))?;
    let mut holds = true;
    let mut words = Vec::new();
    for width in WIDTHS {
        let mut picked = Vec::new();
        for batch in BATCHES {
            let cost = |kernel| study.value(0, &format!("GRU of {width}"), &batch.to_string(), kernel);
            let single = cost(SINGLE)? < cost(DOUBLE)?;
            holds &= single == (width < 1024);
            picked.push(if single { "one" } else { "two" });
        }
        words.push(format!("{width}: {}", picked.join(" ")));
    }
    Ok(Verdict::order(holds, words.join("; ")))
}
