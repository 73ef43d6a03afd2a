"""Scores of policies that a program has written, for evolutionary searches."""

from __future__ import annotations

import os
from typing import Any, TypedDict

from . import _batchlab, _options
from ._run import Run, sim

# The seconds of the processor that a policy may take, for all of its runs together.
LIMIT_S = 120.0

# The bytes of memory that a policy's process may have.
MEMORY = 1 << 30

# What Python itself needs of it.
LEAST_MEMORY = 1 << 26

# The label of the judged policy among the others.
JUDGED = "judged"

# The runs of each load, each with requests of its own.
REPLICATIONS = 2

# The most characters of a text among the artifacts.
MOST = 6000


class Score(TypedDict):
    """What a search learns: one number to climb, the numbers behind it, and texts for the next attempt."""

    combined_score: float
    metrics: dict[str, float]
    artifacts: dict[str, str]


def suites() -> _batchlab.Table:
    """The suites of `score`, a row for each: its name and question, the model, the arrivals and the number of workers
    of its scenario, its loads in requests per second, the latency within which requests count, the built-in policies
    that a policy is compared with, whether lengths are seen, and the seconds that a policy may take.
    """
    from ._suites import SUITES

    suites = list(SUITES.values())
    scenarios = [suite.scenario for suite in suites]
    return _batchlab.table(
        [
            ("name", list(SUITES)),
            ("question", [suite.question for suite in suites]),
            ("model", [scenario["workload"]["model"] for scenario in scenarios]),
            ("arrivals", [scenario["arrivals"]["process"] for scenario in scenarios]),
            ("workers", [scenario["device"]["workers"] for scenario in scenarios]),
            ("rates", [", ".join(str(rate) for rate in suite.rates) for suite in suites]),
            ("slo", [_objectives(suite) for suite in suites]),
            ("against", [", ".join(suite.against) for suite in suites]),
            ("sees_lengths", [suite.sees_lengths for suite in suites]),
            ("limit_s", [LIMIT_S for _ in suites]),
        ]
    )


def _objectives(suite: Any) -> str:
    classes = suite.scenario.get("class")
    return ", ".join(f"{one['name']} {one['slo']}" for one in classes) if classes else str(suite.slo)


def score(
    policy: Any,
    suite: str = "lengths",
    seed: int | None = None,
    *,
    limit_s: float = LIMIT_S,
    memory: int = MEMORY,
) -> Score:
    """Judges a policy: by the laws, then on requests that it can't know, in processes of its own.

    policy: the path of a file or a text of several lines, which defines one class with the method `schedule`; or such a
        class, or a function that makes a policy, whose source stands alone but for the imports of its module.
    suite: the name of a suite; see `suites`.
    seed: the seed of the requests, with which a score repeats exactly. Without it one is drawn.
    limit_s: the seconds of the processor that the policy's processes may take together, the laws included; also those
        of the clock that one answer may take.
    memory: the bytes of memory that such a process may have.

    A load's goodput is the share of its requests that are served within the objective, times the rate. The combined
    score is the geometric mean, over the loads, of the goodput relative to that of the best built-in policy. It is 0
    for a policy that breaks a law, raises, or takes too long or too much memory. `metrics` has for each load the
    `goodput_rps`, `relative`, the part of the ceiling that no policy exceeds (`of_ceiling`) and the mean latency;
    `artifacts` says what failed, with the traceback, or explains the slowest request. docs/PYTHON.md says what a policy
    can do.

    Raises InputError for an unknown suite, or a policy without source.
    """
    import secrets

    from ._check import check
    from ._judge import Source
    from ._suites import SUITES

    chosen = SUITES.get(suite)
    if chosen is None:
        raise _batchlab.InputError(f"suite: unknown suite {suite!r}; the suites are {', '.join(SUITES)}")
    _options.require_seed(seed)
    if not (isinstance(limit_s, (int, float)) and 0 < limit_s < 1e6):
        raise _batchlab.InputError(f"limit_s: {limit_s!r} is not a number of seconds above 0 and below 1,000,000")
    if not (isinstance(memory, int) and LEAST_MEMORY <= memory < 1 << 62):
        raise _batchlab.InputError(f"memory: {memory!r} is not a number of bytes of at least {LEAST_MEMORY}")
    text, name = source_text(policy)
    drawn = secrets.randbits(63) if seed is None else seed
    source = Source(text, name, sees_lengths=chosen.sees_lengths, limit_s=limit_s, memory=memory)
    stage = "laws"
    try:
        check(source.policy, work_conserving=False, pins=False, bounded=False, cases=10)
        stage = "suite"
        run = sim(
            chosen.document(suite),
            seed=drawn,
            replications=REPLICATIONS,
            threads=1,
            policies={**chosen.against, JUDGED: source.policy},
        )
        result = _judge(run, chosen, drawn)
    except BaseException as exception:  # Whatever a policy raises
        failure = source.failure
        if failure is None and isinstance(exception, (KeyboardInterrupt, MemoryError, OSError, _batchlab.RunError)):
            raise
        cause = str(failure.why if failure else exception)
        notes = [note for note in getattr(exception, "__notes__", [])]
        artifacts = {"stage": stage, "failure": cause[:MOST], "seed": str(drawn), "where": "\n".join(notes)[:MOST]}
        if failure and failure.trace:
            artifacts["traceback"] = failure.trace[-MOST:]
        return {
            "combined_score": 0.0,
            "metrics": {},
            "artifacts": {key: text for key, text in artifacts.items() if text},
        }
    return result


def source_text(policy: Any) -> tuple[str, str | None]:
    """The source of a policy, and the name of what makes it if that is known."""
    import ast
    import inspect
    import textwrap

    from ._judged import MODULES

    if isinstance(policy, os.PathLike) or (isinstance(policy, str) and "\n" not in policy):
        try:
            with open(policy, encoding="utf-8") as file:
                return file.read(), None
        except (OSError, UnicodeDecodeError) as cause:
            why = cause.strerror if isinstance(cause, OSError) else cause
            raise _batchlab.InputError(
                f"policy: {os.fspath(policy)}: {why}; give the path of a source, "
                "or the source as a text of several lines"
            ) from None
    if isinstance(policy, str):
        return policy, None
    name = getattr(policy, "__name__", None)
    try:
        own = textwrap.dedent(inspect.getsource(policy))
        module = inspect.getsource(inspect.getmodule(policy) or policy)
    except (OSError, TypeError):
        own = module = ""
    if name is None or not own.startswith(("class ", "def ", "@")):
        raise _batchlab.InputError(
            f"policy: {policy!r} has no source; give a class, a function with a name, a path, or the source as a text"
        )
    # The imports of its module that a policy can have.
    imports = []
    for node in ast.parse(module).body:
        if isinstance(node, ast.ImportFrom) and not node.level:
            allowed = node.module in MODULES
        else:
            allowed = isinstance(node, ast.Import) and all(one.name in (*MODULES, "batchlab") for one in node.names)
        if allowed:
            imports.append(ast.unparse(node))
    return "\n".join([*imports, own]), name


def _judge(run: Run, suite: Any, seed: int) -> Score:
    import json
    import math

    with open(os.path.join(run.path, "bounds.json"), encoding="utf-8") as file:
        ceiling = float(json.load(file)["ceiling_rps"])
    metrics: dict[str, float] = {"ceiling_rps": ceiling, "failed": float(run.failed)}
    logarithms = []
    for rate in suite.rates:
        goodputs = {label: rate * _share_in_time(run, label, rate, suite) for label in (*suite.against, JUDGED)}
        own = goodputs.pop(JUDGED)
        best = max(goodputs.values())
        relative = own / best if best else float(own > 0)
        metrics[f"goodput_rps_{rate}"] = own
        metrics[f"best_built_in_rps_{rate}"] = best
        metrics[f"relative_{rate}"] = relative
        metrics[f"of_ceiling_{rate}"] = own / min(rate, ceiling)
        mean = _mean_latency_ms(run, rate)
        if mean is not None:
            metrics[f"mean_ms_{rate}"] = mean
        # A policy that serves nothing in time under one load still differs from one that does nowhere.
        logarithms.append(math.log(max(relative, 1e-6)))
    combined = math.exp(sum(logarithms) / len(logarithms))
    return {
        "combined_score": combined,
        "metrics": metrics,
        "artifacts": {"seed": str(seed), **_slowest(run, suite.rates[-1])},
    }


def _mean_latency_ms(run: Run, rate: int) -> float | None:
    latencies = []
    for replication in range(REPLICATIONS):
        requests = run.requests(JUDGED, rate, replication=replication)
        ends = zip(requests["arrival_ns"], requests["finish_ns"], requests["outcome"])
        latencies += [finish - arrival for arrival, finish, outcome in ends if outcome == "served"]
    return sum(latencies) / len(latencies) / 1e6 if latencies else None


def _share_in_time(run: Run, label: str, rate: int, suite: Any) -> float:
    """The share of all requests that were served within their objective. The summary's goodput leaves out a warm-up,
    whose end depends on the policy.
    """
    objectives = {one["name"]: _batchlab.time_ns(one["slo"]) for one in suite.scenario.get("class", [])}
    otherwise = _batchlab.time_ns(suite.slo)
    within = 0
    count = 0
    for replication in range(REPLICATIONS):
        requests = run.requests(label, rate, replication=replication)
        count += len(requests)
        columns = (requests[name] for name in ("arrival_ns", "finish_ns", "class", "outcome"))
        for arrival, finish, class_, outcome in zip(*columns):
            within += outcome == "served" and finish - arrival <= objectives.get(class_, otherwise)
    return within / count


def _slowest(run: Run, rate: int) -> dict[str, str]:
    """The five slowest requests under a load, and the life of the slowest."""
    requests = run.requests(JUDGED, rate)
    served = [row for row in requests.rows() if row["outcome"] == "served"]
    served.sort(key=_latency, reverse=True)
    lines = [
        f"request {row['id']}: {_latency(row) / 1e6:.3f} ms, "
        f"of which {(row['start_ns'] - row['arrival_ns']) / 1e6:.3f} ms in the queue; length {row['length']}"
        + (f", class {row['class']}" if row["class"] else "")
        for row in served[:5]
    ]
    lines.append(f"{len(requests) - len(served)} of {len(requests)} requests were rejected or never served")
    texts = {"slowest": f"under {rate} requests/s:\n" + "\n".join(lines)}
    if served:
        texts["explanation"] = str(run.explain(JUDGED, rate, request=served[0]["id"]))[:MOST]
    return texts


def _latency(row: dict[str, Any]) -> int:
    return int(row["finish_ns"] - row["arrival_ns"])
