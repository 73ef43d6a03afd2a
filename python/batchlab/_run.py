"""Runs of scenarios, and their results."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from . import _batchlab, _options, _progress
from ._batchlab import Table
from ._scenario import Prepared, ScenarioLike, prepare

__all__ = ["Explanation", "Figure", "Run", "real", "sim"]


class _Point(NamedTuple):
    """One policy under one load, in one replication."""

    policy: str
    load: str
    replication: int
    swept: list[tuple[str, str]]
    folder: str

    def __str__(self) -> str:
        keys = "".join(f", {key}={value}" for key, value in self.swept)
        return f"{self.policy!r}, {self.load}{keys}"

    def has(self, policy: str | None, load: float | str | None, sweep: Mapping[str, Any] | None) -> bool:
        """Whether it is the one that is meant; None means any."""
        return (
            (policy is None or self.policy == policy)
            and (load is None or _same(self.load, load))
            and all(_same(dict(self.swept).get(key), value) for key, value in (sweep or {}).items())
        )


class Run:
    """The results of `sim` or `real`: a summary, and a table of requests, tasks and batches for each point.

    A point is one policy under one load. Its load is named by its rate, or "trace", "offline", "clients-8" and so on.
    Tables of later replications, which files lack, come from running that replication again.
    """

    def __init__(self, study: _batchlab.Study, prepared: Prepared, in_memory: bool, real: bool = False) -> None:
        self._study = study
        self._prepared = prepared
        self._in_memory = in_memory
        self._real = real
        self._path = "" if in_memory else str(study.path)
        self._points = [_Point(*point) for point in study.points()]

    @property
    def name(self) -> str:
        """The name of the scenario."""
        return self._study.name

    @property
    def notes(self) -> list[str]:
        """What a reader should know beside the numbers, as the command prints it."""
        return self._study.notes

    @property
    def failed(self) -> int:
        """The number of requests that failed: an executor could not compute them, or the policy forgot them."""
        return self._study.failed

    @property
    def path(self) -> str:
        """The folder of the results. Without `out` it is a temporary one, which goes when the object does."""
        if not self._path:
            import tempfile

            folder = tempfile.mkdtemp(prefix="batchlab-")
            weakref.finalize(self, _remove, folder)
            with _progress.show(self.name) as report:
                self._path = str(self._study.write(folder, report))
        return self._path

    def summary(self) -> Table:
        """A row for each policy and load: throughput in requests per second, latencies in milliseconds, and so on.

        The columns are those of summary.csv; `policy`, `point` and the swept keys stand first.
        """
        return self._study.summary().with_notes(self.notes)

    def points(self) -> list[tuple[str, str, dict[str, str]]]:
        """The policy, the load and the swept keys of each point."""
        return [(one.policy, one.load, dict(one.swept)) for one in self._points if not one.replication]

    def requests(
        self,
        policy: str | None = None,
        point: float | str | None = None,
        *,
        replication: int = 0,
        sweep: Mapping[str, Any] | None = None,
    ) -> Table:
        """A row for each request of a point: its arrival, start and finish in nanoseconds, its class, length, whether
        it counts, and its outcome. The columns are those of requests.csv.

        policy: the label of the policy; may be left out if there is one only.
        point: the rate in requests per second, or the name of the load; may be left out if there is one only.
        replication: the number of the replication, from 0.
        sweep: values of swept keys, such as {"device.workers": 2}.

        Raises KeyError, with the list, if no point or several are meant, or if requests are not logged.
        """
        return self._log("requests", policy, point, replication, sweep)

    def tasks(
        self,
        policy: str | None = None,
        point: float | str | None = None,
        *,
        replication: int = 0,
        sweep: Mapping[str, Any] | None = None,
    ) -> Table:
        """A row for each task of a point: its worker, cells, batch, and times in nanoseconds. The columns are those of
        tasks.csv; the arguments are those of `requests`.
        """
        return self._log("tasks", policy, point, replication, sweep)

    def batches(
        self,
        policy: str | None = None,
        point: float | str | None = None,
        *,
        replication: int = 0,
        sweep: Mapping[str, Any] | None = None,
    ) -> Table:
        """The number of tasks of each cell and batch size of a point. The columns are those of batches.csv; the
        arguments are those of `requests`.
        """
        return self._log("batches", policy, point, replication, sweep)

    def plot(self, kind: str = "latency-throughput", **options: Any) -> Figure:
        """A figure, which shows itself in a notebook.

        kind: the kind of figure, such as "latency-throughput", "latency-cdf" or "gantt"; a wrong one gives the list.
        options: those of `batchlab plot`, such as point=8000, slo="50ms", x_scale="log", title="…".

        Raises InputError for an unknown kind or option.
        """
        return Figure(self, kind, options)

    def report(self, path: str | os.PathLike[str] = "report.html", **options: Any) -> str:
        """Writes a page with tables, figures and warnings as one HTML file, and returns its path.

        path: the file of the page.
        options: those of `batchlab report`, such as title="…".
        """
        file = os.fspath(path)
        arguments = ["report", self.path, f"--out={file}", *_options.arguments(options)]
        _batchlab.command(arguments, self._prepared.kinds.classes)
        return file

    def explain(
        self,
        policy: str | None = None,
        point: float | str | None = None,
        *,
        request: int | str | None = None,
        task: int | None = None,
        sweep: Mapping[str, Any] | None = None,
    ) -> Explanation:
        """Explains the life of a request, or the reasons of a task, by repeating the run.

        request, task: the number, as in the tables; one of both. A request may also be "worst", the slowest measured
            one, or "p50", "p90", "p95", "p99" or "p999", the one with this latency.
        The other arguments are those of `requests`.
        """
        if (request is None) == (task is None):
            raise TypeError("explain: give a request or a task")
        if not isinstance(request, str):
            _options.require_whole("request", request, 0, MOST_NUMBER)
        _options.require_whole("task", task, 0, MOST_NUMBER)
        folder = self._points[self._find(policy, point, 0, sweep)].folder
        subject = ["task", str(task)] if request is None else ["request", str(request)]
        arguments = ["explain", os.path.join(self.path, folder), *subject]
        printed, _ = _batchlab.command(arguments, self._prepared.kinds.classes)
        return Explanation(printed)

    def _log(
        self,
        name: str,
        policy: str | None,
        point: float | str | None,
        replication: int,
        sweep: Mapping[str, Any] | None,
    ) -> Table:
        place = self._find(policy, point, replication, sweep)
        requests, tasks = self._study.logs
        if (name == "requests" and not requests) or (name == "tasks" and not tasks):
            raise KeyError(f"the scenario logs no {name}; set output.{name} = true")
        folder = self._points[place].folder
        if not self._in_memory and (not replication or name == "batches"):
            number = f"-{replication + 1}" if replication else ""
            return _batchlab.read_log(os.path.join(self.path, folder, f"{name}{number}.csv"))
        if not self._in_memory and self._real:
            raise KeyError(
                f"files have the {name} of a real run's first repeat only; leave out `out` to have all in memory"
            )
        # Files lack the logs of later replications, which are run again.
        table: Table = getattr(self._study, name)(place)
        return table

    def _find(
        self, policy: str | None, point: float | str | None, replication: int, sweep: Mapping[str, Any] | None
    ) -> int:
        found = [
            place
            for place, one in enumerate(self._points)
            if one.replication == replication and one.has(policy, point, sweep)
        ]
        if len(found) == 1:
            return found[0]
        listed = found or [place for place, one in enumerate(self._points) if one.replication == replication]
        if not listed:
            last = max(one.replication for one in self._points)
            raise PointError(f"no replication {replication}; the replications are 0 to {last}")
        lines = [str(self._points[place]) for place in listed]
        problem = "several points are meant" if found else "no such point; the points are"
        raise PointError(problem + ":\n  " + "\n  ".join(lines))

    def __repr__(self) -> str:
        return f"Run({self.name!r}, {len(self._points)} runs)\n{self.summary()!r}"

    def _repr_html_(self) -> str:
        return self.summary()._repr_html_()


class PointError(KeyError):
    """A failure to find one point. The message is shown with its lines, which that of a KeyError is not."""

    def __str__(self) -> str:
        return str(self.args[0])


def _same(text: str | None, value: Any) -> bool:
    if text is None:
        return False
    if text == str(value):
        return True
    if isinstance(value, bool):
        return text == str(value).lower()
    try:
        return float(text) == float(value)
    except (TypeError, ValueError):
        return False


class Explanation(str):
    """A text that shows itself with its lines."""

    def __repr__(self) -> str:
        return str(self)


class Figure:
    """A figure of a run, which shows itself in a notebook. `save` writes it as SVG, PNG or PDF."""

    def __init__(self, run: Run, kind: str, options: Mapping[str, Any]) -> None:
        self._run = run
        self._arguments = ["plot", run.path, *_options.arguments({"kind": kind, **options})]
        self.notes: list[str] = []
        self.svg = self._draw()

    def _draw(self) -> str:
        import tempfile

        with tempfile.TemporaryDirectory(prefix="batchlab-") as folder:
            file = os.path.join(folder, "figure.svg")
            _, self.notes = self._command([*self._arguments, f"--out={file}"])
            with open(file, encoding="utf-8") as picture:
                return picture.read()

    def _command(self, arguments: Sequence[str]) -> tuple[str, list[str]]:
        return _batchlab.command(arguments, self._run._prepared.kinds.classes)

    def save(self, path: str | os.PathLike[str]) -> str:
        """Writes the figure to a file whose ending is .svg, .png or .pdf, and returns its path.

        Raises InputError for another ending.
        """
        file = os.fspath(path)
        if not file.endswith((".svg", ".png", ".pdf")):
            raise _batchlab.InputError(f"save: {file}: the ending has to be .svg, .png or .pdf")
        self._command([*self._arguments, f"--out={file}"])
        return file

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return f"Figure({' '.join(self._arguments[2:])})"


# The largest values of arguments that the command has, too.
MOST_REPLICATIONS = 10_000
MOST_THREADS = 1024

# The largest number of a request or a task.
MOST_NUMBER = (1 << 64) - 1


def _run(
    scenario: ScenarioLike,
    *,
    set: Mapping[str, Any] | None,
    sweep: Mapping[str, Any] | None,
    seed: int | None,
    replications: int,
    threads: int | None,
    out: str | os.PathLike[str] | None,
    policies: Any,
    resume: bool,
    backend: str,
    real: bool,
    verify: str = "none",
    function: Callable[..., Any] | None = None,
    payload: Callable[[int], Any] | None = None,
) -> Run:
    prepared = prepare(scenario, set=set, sweep=sweep, policies=policies, resume=resume)
    _options.require_whole("repeats" if real else "replications", replications, 1, MOST_REPLICATIONS)
    _options.require_whole("threads", threads, 1, MOST_THREADS)
    _options.require_seed(seed)
    with _progress.show(os.path.basename(prepared.path).partition("@")[0]) as report:
        study = _batchlab.run_scenario(
            prepared.path,
            overrides=prepared.overrides,
            sweeps=prepared.sweeps,
            seed=seed,
            backend=backend,
            real=real,
            verify=verify,
            replications=replications,
            resume=resume,
            threads=threads,
            out=os.fspath(out or ""),
            in_memory=out is None,
            policies=prepared.kinds.classes,
            function=function,
            payload=payload,
            report=report,
        )
    return Run(study, prepared, out is None, real)


def _remove(folder: str) -> None:
    """Removes a temporary folder."""
    import shutil

    shutil.rmtree(folder, ignore_errors=True)


def sim(
    scenario: ScenarioLike,
    *,
    set: Mapping[str, Any] | None = None,
    sweep: Mapping[str, Sequence[Any]] | None = None,
    seed: int | None = None,
    replications: int = 1,
    threads: int | None = None,
    out: str | os.PathLike[str] | None = None,
    policies: Any = None,
    resume: bool = False,
    backend: str = "sim",
) -> Run:
    """Simulates a scenario under each of its policies and loads, and returns the results.

    scenario: a name that `scenarios` lists, the path of a TOML file, or a dict with the keys of such a file.
    set: keys to change, such as {"workload.requests": 20_000, "policy.padded.max_batch": 64}. `device.costs` may be a
        `Table`, a DataFrame, a dict of the columns cell, batch and ns, or a function (cell, batch, length) -> ns, which
        is asked once for each size.
    sweep: keys with several values each, such as {"device.workers": [1, 2]}; all combinations are run.
    seed: the seed of every random choice, instead of the scenario's.
    replications: runs of each point with random sequences of their own; from 2 on, metrics have 95 % confidence
        intervals.
    threads: threads for simulations; results do not depend on it. Without it, one for each core.
    out: the folder within which the results are written, as the command does, with logs and figures. Without it, they
        stay in memory until `path`, `plot` or `report` needs files.
    policies: replace the scenario's policies: a dict by label of classes, factories or objects with the methods of
        `Policy`, of tables such as {"kind": "cellular", "max_batch": 64}, or of tables with a class and its keyword
        arguments, such as {"class": Edf, "slack": "2ms"}. `set` and `sweep` reach these arguments.
    resume: keep the points that an earlier call with the same `out` has finished; not with policies in Python.
    backend: the name of the simulated device.

    Raises InputError, a ValueError, for a mistake in the scenario or an argument, with the key; RunError for a failure
    of the machine; whatever a policy raises, as it is, with a note of the policy, the load, the instant and the
    request. Ctrl-C raises KeyboardInterrupt; with `out`, points that are finished stay.
    """
    return _run(
        scenario,
        set=set,
        sweep=sweep,
        seed=seed,
        replications=replications,
        threads=threads,
        out=out,
        policies=policies,
        resume=resume,
        backend=backend,
        real=False,
    )


# The widths of networks that a function stands for, so that no memory goes to weights that are never read.
SMALLEST = {"workload.hidden": 1, "workload.embedding": 1, "workload.vocabulary": 1}

# What computes if no function does.
BACKENDS = ("cpu", "cuda")


def real(
    scenario: ScenarioLike,
    *,
    backend: str = "cpu",
    run: Callable[[list[_batchlab.ServedRequest]], Any] | None = None,
    payload: Callable[[int], Any] | None = None,
    set: Mapping[str, Any] | None = None,
    sweep: Mapping[str, Sequence[Any]] | None = None,
    seed: int | None = None,
    repeats: int = 1,
    verify: str = "sample",
    threads: int | None = None,
    out: str | os.PathLike[str] | None = None,
    policies: Any = None,
    resume: bool = False,
) -> Run:
    """Serves a scenario in real time, on this machine's processor or GPUs, or with a function, and returns the results.

    The load is open: requests arrive when the scenario says, whatever the system does. The summary has the lateness of
    the generator, and whether a run is valid. The last of the notes says whether the runs can be used. Runs follow one
    another.

    backend: "cpu" or "cuda".
    run: a function that computes a batch, instead of the backend. It gets the list of the requests of a task, each with
        `id`, `length`, `class_` and `payload`, runs on a thread for each worker, and returns when the batch is done. If
        it raises, the requests of the batch have failed, with that reason.
    payload: a function from the number of a request to what `run` gets as its `payload`; its time is not measured.
    repeats: runs of each point, all with the same requests at the same times.
    verify: the requests whose results are compared with those of the CPU: "sample", "all" or "none".
    threads: threads for verifying.

    The other arguments, and what is raised, are those of `sim`.
    """
    for name, function in (("run", run), ("payload", payload)):
        if function is not None and not callable(function):
            raise TypeError(f"{name}: must be a function, not {function!r}")
    changed = dict(set or {})
    if run is None:
        if payload is not None:
            raise TypeError("payload: only a function gets payloads; give one as run=f")
        if backend not in BACKENDS:
            known = ", ".join(BACKENDS)
            raise _batchlab.InputError(f'backend: unknown backend "{backend}"; known: {known}')
    else:
        backend, verify = "python", "none"
        for key, width in SMALLEST.items():
            changed.setdefault(key, width)
    return _run(
        scenario,
        set=changed,
        sweep=sweep,
        seed=seed,
        replications=repeats,
        threads=threads,
        out=out,
        policies=policies,
        resume=resume,
        backend=backend,
        real=True,
        verify=verify,
        function=run,
        payload=payload,
    )
