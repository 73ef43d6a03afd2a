#!/usr/bin/env python3
"""Checks and measures the CUDA backend; `scripts/gpu-check.sh` says how to call it."""

import argparse
import os
import pathlib
import sys
import time
from collections import namedtuple

import items_answers
import items_host
import items_networks
import items_persistent
import items_steps
import items_three
import items_validation
import items_workloads
from bench import MEASURED, SUMMARY, Bench
from scale import DEFAULT, FULL, TINY

# Its name, the seconds that it gets in a run of all parts, what it does, and its items.
Part = namedtuple("Part", "name seconds about run")

PARTS = [
    Part("answers", 90, "what is found; every cell under four policies against the CPU", items_answers.run),
    Part("steps", 80, "steps against floors, full batches, scheduling, PyTorch", items_steps.run),
    Part("fused", 35, "fused steps compared with cuBLAS", items_steps.fused_steps),
    Part("host", 20, "the host's time for a task", items_host.run),
    Part("workloads", 75, "LSTM, seq2seq and trees: three policies, peaks and latency at half load", items_workloads.run),
    Part("three-ways", 45, "cellular batching, graph batching and DVABatch at equal loads", items_three.run),
    Part("networks", 40, "listed networks in stages: every operator against the CPU, stages against the roofline", items_networks.run),
    Part("persistent", 30, "GRNN's kernels at the sizes of its Table 1, cuDNN beside them", items_persistent.sequences),
    Part("regret", 20, "the mappings that GRNN's model ranks first, among a sample of all", items_persistent.sampled),
    Part("grnn-figures", 15, "what else GRNN's tables and figures ask for, and all of them beside the paper's", items_persistent.figures),
    Part("validate", 110, "simulated against real: sentences and trees; with --full also translation, DVABatch and BERT", items_validation.run),
]
NAMES = [part.name for part in PARTS]

# A part at full size by itself.
FULL_SECONDS = 8.5 * 60


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help="only these parts, by name [default: all]")
    parser.add_argument("--out", type=pathlib.Path, help="folder for the results [default: $OUT, else results/gpu-check]")
    parser.add_argument("--program", type=pathlib.Path, default="target/release/batchlab", help="the built program")
    parser.add_argument("--tests", type=pathlib.Path, help="the built tests of the device, to run on the GPU: see gpu-check.sh")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--full", action="store_true", help="at full size, each part in under nine minutes")
    size.add_argument("--tiny", action="store_true", help="as small as parts run at all, to check the script itself")
    parser.add_argument("--list", action="store_true", help="name the parts, with the most seconds of each, and end")
    return parser.parse_args()


def main():
    asked = arguments()
    if asked.list:
        for part in PARTS:
            print(f"{part.name:13} {part.seconds:4} s  {part.about}")
        print(f"{'all':13} {sum(part.seconds for part in PARTS):4} s")
        return 0
    scale = TINY if asked.tiny else FULL if asked.full else DEFAULT
    if unknown := [name for name in asked.parts if name not in NAMES]:
        sys.exit(f"{unknown[0]}: no such part; there are {', '.join(NAMES)}")
    if not asked.program.is_file():
        sys.exit(f"{asked.program}: no such program; build it with cargo build --release, or name it with --program")
    if asked.tests and not asked.tests.is_file():
        sys.exit(f"{asked.tests}: no such program; build it with cargo test --release --test gpus --no-run, which names it")
    out = asked.out or pathlib.Path(os.environ.get("OUT") or "results/gpu-check")
    (out / SUMMARY).unlink(missing_ok=True)
    if not asked.parts:
        # Single parts add to what others have measured.
        (out / MEASURED).unlink(missing_ok=True)
    begin = time.monotonic()
    # Seconds from the beginning at which the parts so far come to their end; what one leaves, the next ones have.
    end = 0
    failed = 0
    for part in PARTS:
        if asked.parts and part.name not in asked.parts:
            continue
        end += part.seconds
        deadline = time.monotonic() + FULL_SECONDS if scale is FULL else None if scale is TINY else begin + end
        bench = Bench(asked.program, asked.tests, out, part.name, scale, deadline)
        print(f"{part.name}: {part.about}", flush=True)
        part.run(bench)
        failed += bench.close()
    print(f"{'PASS: nothing failed' if failed == 0 else f'FAIL: {failed} items'}, in {time.monotonic() - begin:.0f} s", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
