"""Searches and comparisons: tables with the columns of the command's CSV."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Union

from . import _batchlab, _options, _progress
from ._batchlab import Table
from ._run import Run
from ._scenario import Prepared, ScenarioLike, prepare

# The beginning of the note that names the file of a search's answers.
RESULTS = "results in "


def _search(
    command: str,
    prepared: Prepared,
    out: str | os.PathLike[str] | None,
    options: Mapping[str, Any],
) -> Table:
    import tempfile

    with tempfile.TemporaryDirectory(prefix="batchlab-") as folder:
        target = folder if out is None else os.fspath(out)
        arguments = [command, *prepared.arguments(), f"--out={target}", *_options.arguments(options)]
        with _progress.show(command) as report:
            _, notes = _batchlab.command(arguments, prepared.kinds.classes, report)
        files = [note[len(RESULTS) :] for note in notes if note.startswith(RESULTS)]
        table = _batchlab.read_csv(files[0])
    return table.with_notes([note for note in notes if not note.startswith(RESULTS)])


def find_knee(
    scenario: ScenarioLike,
    *,
    slo: str | None = None,
    tolerance: float | None = None,
    replications: int | None = None,
    max_requests: int | None = None,
    max_rejected: float | None = None,
    quantile: str | None = None,
    set: Mapping[str, Any] | None = None,
    sweep: Mapping[str, Sequence[Any]] | None = None,
    seed: int | None = None,
    threads: int | None = None,
    out: str | os.PathLike[str] | None = None,
    policies: Any = None,
    **options: Any,
) -> Table:
    """Finds the highest rate at which each policy meets a latency objective, and returns a row for each policy.

    slo: the objective of all requests with its unit, such as "50ms". If it is left out, each class has to meet its own
        slo, and the scenario's metrics.slo counts where there is none.
    tolerance: half the width of the confidence interval, as a fraction of the rate (0.005).
    replications: searches, each with random sequences of its own (10).
    max_requests: the longest run, in requests (2,000,000).
    max_rejected: the share of requests that may be rejected, from 0 to 1 (0).
    quantile: the quantile that must hold the objective, such as "p99".
    options: further options of `batchlab find-knee`, such as ttft="200ms".

    The other arguments, and what is raised, are those of `sim`. The columns are those of knee.csv: rates in requests
    per second, the objective in milliseconds. knee_rps is the highest rate. lowest_rps is the lowest one, for policies
    that miss the objective below it because they wait for requests. limiting_class is the class that misses its
    objective just above the highest rate. caveat says what limits the answer, or why there is none.
    """
    prepared = prepare(scenario, set=set, sweep=sweep, policies=policies)
    given = {
        "slo": slo,
        "tolerance": tolerance,
        "replications": replications,
        "max_requests": max_requests,
        "max_rejected": max_rejected,
        "quantile": quantile,
        "seed": seed,
        "threads": threads,
        **options,
    }
    return _search("find-knee", prepared, out, given)


def find_workers(
    scenario: ScenarioLike,
    *,
    rate: float,
    slo: str | None = None,
    max_workers: int | None = None,
    replications: int | None = None,
    max_requests: int | None = None,
    max_rejected: float | None = None,
    quantile: str | None = None,
    set: Mapping[str, Any] | None = None,
    sweep: Mapping[str, Sequence[Any]] | None = None,
    seed: int | None = None,
    threads: int | None = None,
    out: str | os.PathLike[str] | None = None,
    policies: Any = None,
    **options: Any,
) -> Table:
    """Finds the smallest number of workers with which each policy meets a latency objective at a rate.

    rate: requests per second.
    max_workers: the largest number of workers to try (1024).

    The other arguments are those of `find_knee`. The columns are those of workers.csv: latency_ms is the objective's
    quantile with this number of workers, fewer_latency_ms that with one worker less, and fewer_miss says why that is
    not enough.
    """
    prepared = prepare(scenario, set=set, sweep=sweep, policies=policies)
    given = {
        "rate": rate,
        "slo": slo,
        "max_workers": max_workers,
        "replications": replications,
        "max_requests": max_requests,
        "max_rejected": max_rejected,
        "quantile": quantile,
        "seed": seed,
        "threads": threads,
        **options,
    }
    return _search("find-workers", prepared, out, given)


def tune(
    scenario: ScenarioLike,
    *,
    policy: str,
    over: Mapping[str, Sequence[Any]] | None = None,
    slo: str | None = None,
    rate: float | None = None,
    tolerance: float | None = None,
    replications: int | None = None,
    max_requests: int | None = None,
    resume: bool = False,
    set: Mapping[str, Any] | None = None,
    seed: int | None = None,
    threads: int | None = None,
    out: str | os.PathLike[str] | None = None,
    policies: Any = None,
    **options: Any,
) -> Table:
    """Finds the settings with which a policy meets a latency objective at the highest rate. The chosen row stands
    first. Answers without a caveat come before those with one.

    policy: the label of the policy.
    over: values to try: keys of the policy or of the scenario, such as {"max_batch": [8, 64], "device.workers": [1,
        2]}. Without it, the keys for the size of batches, the delay and the instances.
    rate: look for the smallest number of workers at this rate instead, in requests per second.
    resume: keep what an interrupted search with these settings has left in `out`, and go on; not with policies in
        Python.

    The other arguments are those of `find_knee`. The columns are those of tune.csv: chosen marks the row whose settings
    are in tuned.toml, and round is the last round that searched with the settings.
    """
    prepared = prepare(scenario, set=set, policies=policies, resume=resume)
    tried = [
        f"{key}={_options.text(_options.require_list(f'over: {key}', values))}" for key, values in (over or {}).items()
    ]
    given = {
        "policy": policy,
        "over": tried,
        "slo": slo,
        "rate": rate,
        "tolerance": tolerance,
        "replications": replications,
        "max_requests": max_requests,
        "resume": resume,
        "seed": seed,
        "threads": threads,
        **options,
    }
    return _search("tune", prepared, out, given)


# A run, or the folder of its results.
RunLike = Union[Run, str, "os.PathLike[str]"]


def compare(a: RunLike, b: RunLike, *, out: str | os.PathLike[str] | None = None) -> Table:
    """Compares two runs of the same requests, such as a real one with a simulated one: a row for each metric of each
    common policy and load, with both values, the difference of b from a in percent, and whether that is within the
    spread of a's repeats. The columns are those of comparison.csv.

    a: the reference: a run, or the folder of its results.
    b: what is compared with it.
    out: a folder for comparison.csv and a figure for each load.

    The last of the table's notes says whether the comparison can be used, and if not, why.
    """
    import tempfile

    paths = [one.path if isinstance(one, Run) else os.fspath(one) for one in (a, b)]
    kinds = [kind for one in (a, b) if isinstance(one, Run) for kind in one._prepared.kinds.classes]
    with tempfile.TemporaryDirectory(prefix="batchlab-") as folder:
        target = folder if out is None else os.fspath(out)
        _, notes = _batchlab.command(["compare", *paths, f"--out={target}"], _distinct(kinds))
        table = _batchlab.read_csv(os.path.join(target, "comparison.csv"))
    return table.with_notes([note for note in notes if not note.startswith("comparison in ")])


def _distinct(kinds: list[_batchlab.PolicyClass]) -> list[_batchlab.PolicyClass]:
    """The kinds, each name once. Results are only read, so that equal names don't matter."""
    return list({kind.name: kind for kind in kinds}.values())
