"""The laboratory for batching policies in DNN inference serving.

A scenario names a workload, arrivals, a device and policies. `sim` simulates it and returns its results as tables:

    import batchlab as bl

    run = bl.sim("quickstart", sweep={"device.workers": [1, 2]})
    run.summary()                        # one row for each policy and load
    run.requests("Padded batching", 8000, sweep={"device.workers": 2})      # one row for each request
    run.plot("latency-throughput")       # shows itself in a notebook

A policy of your own is a class with the methods of `Policy`; `check` tests it. `real` serves a scenario in real time,
on this machine's processor or with a function of yours; `profile` measures such a function as a cost table.

Tables give their columns to any library that reads Arrow (pandas, polars, pyarrow, DuckDB), without copies. Times are
whole nanoseconds unless a name says otherwise.
"""

import atexit

from . import _batchlab
from ._batchlab import (
    Dispatch,
    InputError,
    LawBroken,
    Request,
    RunError,
    ServedRequest,
    Task,
    __version__,
)
from ._check import check
from ._policy import Policy
from ._profile import Costs, profile
from ._run import Figure, Run, real, sim
from ._scenario import policies, scenario, scenarios, time_ns
from ._score import Score, score, suites
from ._search import compare, find_knee, find_workers, tune
from ._table import Table

atexit.register(_batchlab.finish_threads)

__all__ = [
    "Costs",
    "Dispatch",
    "Figure",
    "InputError",
    "LawBroken",
    "Policy",
    "Request",
    "Run",
    "RunError",
    "Score",
    "ServedRequest",
    "Table",
    "Task",
    "__version__",
    "check",
    "compare",
    "find_knee",
    "find_workers",
    "policies",
    "profile",
    "real",
    "scenario",
    "scenarios",
    "score",
    "sim",
    "suites",
    "time_ns",
    "tune",
]
