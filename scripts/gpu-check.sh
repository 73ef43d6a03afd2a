#!/usr/bin/env bash
# Checks and measures the CUDA backend on a GPU host. Needs the built program and the files of this repository, Python 3
# (no packages) and what the backend needs (a driver, NVRTC, cuBLAS); neither a network nor Rust. Where Python has torch with
# CUDA, its times stand beside ours.
#
#     cargo build --release                        # elsewhere, if need be: one binary runs on every host of its architecture
#     cargo test --release --test gpus --no-run    # names the tests of the device, to bring along
#     scripts/gpu-check.sh                         # all parts, in under ten minutes; --list says how long each takes at most
#     scripts/gpu-check.sh host three-ways         # some of them, by name
#     scripts/gpu-check.sh --full steps            # one at full size, in under nine minutes
#     scripts/gpu-check.sh --tests PROGRAM …       # runs these tests on the GPU too
#     scripts/gpu-check.sh --out DIR …             # where tables, plots and logs go [default: $OUT, else results/gpu-check]
#
# Says PASS, FAIL or SKIP of each item, also in summary.txt, and exits with 1 if any failed. Each part says how long it took and
# leaves its files in one archive, NAME.tar.gz. The times of persistent kernels, and of cuDNN's, are gathered in measured.csv for
# `batchlab reproduce grnn … --measured`; single parts add to it, so that they should be of one GPU.
set -euo pipefail
cd "$(dirname "$0")/.."
exec python3 scripts/gpu/check.py "$@"
