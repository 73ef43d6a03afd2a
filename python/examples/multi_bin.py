"""Multi-bin batching (arXiv 2412.04504): k bins by length, each of which sends full batches, first come first served.

With service times uniform between l and u, batches of B and k bins, the throughput is, by the paper's Lemma on the mean
of the largest of B uniform times in a bin,

    B / E[longest of a batch],   E = (u + l) / 2 + (u - l) / (2 k) * (B - 1) / (B + 1),

which approaches the largest throughput, 2 B / (u + l), as k grows. Here a request of length n takes n microseconds,
whatever the batch, so that the longest member decides. A saturated worker serves one full batch after another.
"""

import pathlib
import tempfile
from collections import deque

import batchlab as bl

SHORTEST, LONGEST, BATCH = 1, 1000, 16


class MultiBin(bl.Policy):
    """Bins by length, which send full batches only; the rest goes when nothing more will arrive."""

    max_batch = BATCH

    def __init__(self, bins: int = 1, requests: int = 0) -> None:
        self.bins: list[deque[bl.Request]] = [deque() for _ in range(bins)]
        self.full: deque[list[bl.Request]] = deque()
        self.left = requests

    def arrive(self, requests: list[bl.Request]) -> None:
        for request in requests:
            place = (request.length - SHORTEST) * len(self.bins) // (LONGEST - SHORTEST + 1)
            own = self.bins[place]
            own.append(request)
            if len(own) == BATCH:
                self.full.append(list(own))
                own.clear()
        self.left -= len(requests)
        if self.left == 0:
            for own in self.bins:
                if own:
                    self.full.append(list(own))

    def schedule(self, dispatch: bl.Dispatch) -> None:
        for worker in dispatch.idle():
            if self.full:
                dispatch.submit(worker, self.full.popleft())


def expected(bins: int) -> float:
    """The closed form of the throughput, in requests per second."""
    longest = (LONGEST + SHORTEST) / 2 + (LONGEST - SHORTEST) / (2 * bins) * (BATCH - 1) / (BATCH + 1)
    return BATCH / (longest * 1e-6)


def measured(bins: int, requests: int = 20_000) -> float:
    """The simulated throughput of a worker that is never idle, in requests per second."""
    rows = "\n".join(f"{length},1" for length in range(SHORTEST, LONGEST + 1))
    with tempfile.TemporaryDirectory() as folder:
        lengths = pathlib.Path(folder) / "lengths.csv"
        lengths.write_text(f"length,count\n{rows}\n")
        return throughput(bins, requests, lengths)


def throughput(bins: int, requests: int, lengths: pathlib.Path) -> float:
    """The simulated throughput on lengths from a file."""
    scenario = {
        "name": "multi-bin",
        "workload": {"model": "lstm", "dataset": lengths, "requests": requests},
        "arrivals": {"process": "offline"},
        "device": {"costs": {"cell": ["lstm", "lstm"], "batch": [1, 2], "ns": [1000, 1000]}},
        "policy": {"multi-bin": {"class": MultiBin, "bins": bins, "requests": requests}},
    }
    tasks = bl.sim(scenario).tasks()
    full = [place for place, batch in enumerate(tasks["batch"]) if batch == BATCH]
    busy = sum(tasks["finish_ns"][place] - tasks["start_ns"][place] for place in full)
    return float(len(full) * BATCH / (busy * 1e-9))


if __name__ == "__main__":
    for bins in (1, 2, 4, 8):
        found, form = measured(bins), expected(bins)
        print(f"{bins} bins: {found:9.0f} requests/s, closed form {form:9.0f}")
        assert abs(found / form - 1) < 0.02
