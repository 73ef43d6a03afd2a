"""What all peers share: the number of threads, traces, times and tables."""

import csv
import os
import statistics
import time
from dataclasses import dataclass
from pathlib import Path

# The libraries read these when they are loaded, so this module has to be imported before them.
THREADS = int(os.environ.setdefault("PEERS_THREADS", "1"))
for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[variable] = str(THREADS)

# As many words as batchlab's networks know by default.
VOCABULARY = 30_000
SEED = 1


@dataclass
class Trace:
    """The requests of a trace in the order of their arrival."""

    arrivals: list  # seconds
    shapes: list  # the length of a chain, or the parent of each node of a tree (0-based, -1 for the root)

    @property
    def rate(self):
        """The mean rate at which the trace's requests arrive, in requests per second."""
        return len(self.arrivals) / self.arrivals[-1] if self.arrivals[-1] > 0 else float("inf")


def read_trace(path):
    """Reads `id,arrival_ns,shape` with shapes `chain:N` or `tree:P P P …`."""
    arrivals, shapes = [], []
    with open(path, newline="") as file:
        for row in csv.DictReader(file):
            kind, _, size = row["shape"].partition(":")
            if kind == "chain":
                shape = int(size)
            elif kind == "tree":
                shape = [int(parent) - 1 for parent in size.split()]
            else:
                raise SystemExit(f"{path}: request {row['id']}: the peers run chain and tree, not {kind}")
            arrivals.append(int(row["arrival_ns"]) / 1e9)
            shapes.append(shape)
    if not shapes:
        raise SystemExit(f"{path}: the trace has no requests")
    return Trace(arrivals, shapes)


def seconds(function):
    """The time of one call."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def interleaved(calls, rounds=5, budget=0.4):
    """Times each of several calls: a dictionary from its name to (median, min) in seconds.

    The calls take turns for `rounds` rounds, each for `budget` seconds a round, so that a spell in which the machine is
    busy with something else does not fall on one of them alone.
    """
    times = {name: [] for name in calls}
    for call in calls.values():
        call()
        call()
    for _ in range(rounds):
        for name, call in calls.items():
            end = time.perf_counter() + budget
            while True:
                times[name].append(seconds(call))
                if time.perf_counter() >= end:
                    break
    return {name: (statistics.median(all_), min(all_)) for name, all_ in times.items()}


def percentile(values, share):
    """The smallest value that is not exceeded by this share of them (nearest rank)."""
    ordered = sorted(values)
    return ordered[max(0, -int(-share * len(ordered) // 1) - 1)]


def write_csv(path, header, rows):
    """Writes a table, and its folder if need be."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def read_csv(path):
    """The rows of a table as dictionaries; none if there is no such file."""
    if not Path(path).exists():
        return []
    with open(path, newline="") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))
