#!/usr/bin/env python3
"""Checks and measures the CUDA backend; `scripts/gpu-check.sh` says how to call it."""

import argparse
import os
import pathlib
import sys
import time

import items_answers
import items_networks
import items_persistent
import items_steps
import items_validation
import items_workloads
from bench import MEASURED, SUMMARY, Bench
from scale import FULL, QUICK, TINY

# Name, what it does, and its items. A part at full size ends within nine minutes.
PARTS = [
    ("answers", "what is found; every cell, format and policy against the CPU", items_answers.run),
    ("steps", "steps against floors, signals, graphs, full batches, scheduling, PyTorch", items_steps.run),
    ("workloads", "LSTM, seq2seq and trees: three policies, peaks and latency at half load", items_workloads.run),
    ("networks", "listed networks in stages: every operator against the CPU, stages against the roofline", items_networks.run),
    ("persistent", "GRNN's kernels at the sizes of its Table 1, cuDNN beside them", items_persistent.sequences),
    ("regret", "the mappings that GRNN's model ranks first, among a sample of all", items_persistent.sampled),
    ("grnn-figures", "what else GRNN's tables and figures ask for, and all of them beside the paper's", items_persistent.figures),
    ("validate-chains", "simulated against real: sentences", items_validation.of("chains")),
    ("validate-seq2seq", "simulated against real: translation", items_validation.of("seq2seq")),
    ("validate-trees", "simulated against real: trees", items_validation.of("trees")),
]

# What is left of the time when a part of the full form is told to come to its end.
PART_SECONDS = 8.5 * 60
QUICK_SECONDS = 3.7 * 60


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=pathlib.Path, help="folder for the results [default: $OUT, else results/gpu-check]")
    parser.add_argument("--program", type=pathlib.Path, default="target/release/batchlab", help="the built program")
    parser.add_argument("--tests", type=pathlib.Path, help="the built tests of the device, to run on the GPU: see gpu-check.sh")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="all parts at small sizes, in under four minutes")
    size.add_argument("--tiny", action="store_true", help="all parts as small as they run at all, to check the script itself")
    parser.add_argument("--part", type=int, action="append", metavar="N", help="only this part (repeatable)")
    parser.add_argument("--list", action="store_true", help="name the parts and end")
    return parser.parse_args()


def main():
    asked = arguments()
    if asked.list:
        for number, (name, about, _) in enumerate(PARTS, 1):
            print(f"{number}  {name:17} {about}")
        return 0
    scale = TINY if asked.tiny else QUICK if asked.quick else FULL
    numbers = asked.part or range(1, len(PARTS) + 1)
    if not asked.program.is_file():
        sys.exit(f"{asked.program}: no such program; build it with cargo build --release, or name it with --program")
    if asked.tests and not asked.tests.is_file():
        sys.exit(f"{asked.tests}: no such program; build it with cargo test --release --test gpus --no-run, which names it")
    if any(not 1 <= number <= len(PARTS) for number in numbers):
        sys.exit(f"--part: from 1 to {len(PARTS)}")
    out = asked.out or pathlib.Path(os.environ.get("OUT") or "results/gpu-check")
    (out / SUMMARY).unlink(missing_ok=True)
    if not asked.part:
        # Single parts add to what others have measured.
        (out / MEASURED).unlink(missing_ok=True)
    begin = time.monotonic()
    failed = 0
    for number in numbers:
        name, about, run = PARTS[number - 1]
        now = time.monotonic()
        # The small forms share their time; a full part has its own.
        deadline = now + PART_SECONDS if scale is FULL else begin + QUICK_SECONDS if scale is QUICK else None
        bench = Bench(asked.program, asked.tests, out, name, scale, deadline)
        print(f"part {number}, {name}: {about}", flush=True)
        run(bench)
        failed += bench.close()
    print("PASS: nothing failed" if failed == 0 else f"FAIL: {failed} items", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
