#!/usr/bin/env bash
# Shows that two builds of batchlab come to the same results: runs both through the same commands and compares what they print and write, byte for
# byte. For changes that should change nothing, such as an optimisation or a move of code.
#
#     scripts/same-results.sh OLD NEW                      # two built programs, such as a copy of target/release/batchlab made before the change
#     scripts/same-results.sh OLD NEW --quick              # fewer requests and figures
#     scripts/same-results.sh OLD NEW --out DIR --keep     # keeps all results in DIR; the next call there takes OLD's from it, if nothing changed
#
# Exit code: 0 if all is the same; 1 if not, with the files that differ and their first differing lines; 2 if it couldn't run.
# Runs all shipped scenarios on the simulator with fewer requests, and the commands for results, traces, networks, claims and figures; on the CPU
# backend tiny real runs, of which only what clocks don't change is compared. What differs from run to run is left out: host.json, the commit and the
# version in what is written, how long decisions took. Messages for mistakes and the help texts are shown where they differ, and count for nothing, as
# their wording may change on purpose; the exit codes count. It needs Python 3.11, and neither a GPU nor the network.
set -euo pipefail
exec python3 -B "$(dirname "$0")/same/check.py" "$@"
