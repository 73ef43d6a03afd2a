"""Scores of policies that a program has written, for evolutionary searches."""

from __future__ import annotations

from typing import Any, TypedDict

from . import _batchlab

# The seconds that a score may take, imports included.
LIMIT_S = 120.0


class Score(TypedDict):
    """What a search learns: one number to climb, the numbers behind it, and texts for the next attempt."""

    combined_score: float
    metrics: dict[str, float]
    artifacts: dict[str, str]


# The suites: whether a policy sees lengths, the scenario, the loads as shares of what the best built-in policy carries,
# and the built-in policies that it is measured against.
SUITES: dict[str, dict[str, Any]] = {
    "lengths": {
        "about": "chains whose lengths a policy sees when they arrive; whole requests or cells",
        "reveal": True,
        "scenario": "quickstart",
        "shares": [0.5, 0.8],
        "against": {"cellular": {"kind": "cellular", "max_batch": 512}, "padded": {"kind": "padded", "bucket_width": 10}},
        "slo": "100ms",
    },
    "blind": {
        "about": "the same chains, whose lengths a policy can't see; nodes come out one by one",
        "reveal": False,
        "scenario": "quickstart",
        "shares": [0.5, 0.8],
        "against": {"padded": {"kind": "padded", "bucket_width": 1000}},
        "slo": "100ms",
    },
}


def suites() -> _batchlab.Table:
    """The suites of `score`: their names, and a line about each."""
    return _batchlab.table(
        [("name", list(SUITES)), ("about", [suite["about"] for suite in SUITES.values()])]
    )


def score(policy: Any, suite: str = "lengths", seed: int | None = None, *, limit_s: float = LIMIT_S) -> Score:
    """Judges a policy: on held-out requests, by the laws, within a limit of time, in a process of its own.

    policy: the source as a text that defines one class with the method `schedule`, or a class whose source stands alone:
        what it imports, it imports within its methods.
    suite: the name of a suite; see `suites`.
    seed: the seed of the held-out requests. Without it, one is drawn, so that a policy can't know them.
    limit_s: the seconds that all of it may take.

    The combined score is the geometric mean, over the loads, of the goodput relative to the best built-in policy of the
    suite; 0 for a policy that breaks a law, raises, or takes too long. `metrics` has the parts, among them the share of
    the ceiling that no policy exceeds; `artifacts` says why a score is 0.
    """
    import inspect
    import json
    import os
    import secrets
    import subprocess
    import sys

    if suite not in SUITES:
        raise _batchlab.InputError(f"suite: unknown suite {suite!r}; known: {', '.join(SUITES)}")
    source = policy if isinstance(policy, str) else inspect.getsource(policy)
    name = None if isinstance(policy, str) else policy.__name__
    drawn = secrets.randbits(32) if seed is None else seed
    job = json.dumps({"source": source, "name": name, "suite": suite, "seed": drawn})
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    environment["PYTHONPATH"] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    try:
        done = subprocess.run(
            [sys.executable, "-m", "batchlab._judge"],
            input=job,
            capture_output=True,
            text=True,
            timeout=limit_s,
            env=environment,
        )
    except subprocess.TimeoutExpired:
        return _failed(f"took longer than {limit_s:.0f} s")
    # What the policy prints goes nowhere, so that the last line is the judge's answer.
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        return _failed(done.stderr.strip()[-4000:] or f"the process ended with {done.returncode}")
    answer: Score = json.loads(lines[-1])
    return answer


def _failed(why: str) -> Score:
    return {"combined_score": 0.0, "metrics": {}, "artifacts": {"failure": why}}
