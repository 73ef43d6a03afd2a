"""The part of batchlab in Rust. What has no underscore in `batchlab` is documented there; here are its types."""

import os
from collections.abc import Callable, Sequence
from typing import Any

import pandas
import polars

__version__: str

class InputError(ValueError):
    """A mistake in a scenario, an argument or a file. The message names the key, the bad value and what is allowed."""

class RunError(RuntimeError):
    """A failure of the machine or of a run, such as a full disk."""

class LawBroken(RuntimeError):
    """A policy breaks a law that all policies keep. The message has the law and the smallest workload that shows it."""

class Request:
    """A request that has arrived. The object is also the handle by which it is submitted or rejected."""

    @property
    def id(self) -> int:
        """Its number, in the order of arrival."""
    @property
    def arrival(self) -> int:
        """The instant of its arrival, in nanoseconds since the start of the run."""
    @property
    def length(self) -> int:
        """Its length: steps, source steps, nodes or tokens."""
    @property
    def class_(self) -> str | None:
        """The name of its class; None without classes."""
    @property
    def priority(self) -> int:
        """The priority of its class; a higher one is more urgent. 0 without classes."""
    @property
    def deadline(self) -> int | None:
        """The instant by which it should be done, in nanoseconds; None without a deadline."""
    @property
    def shape(self) -> str:
        """Its shape, such as "chain:24" or "tree:3 3 0"."""
    @property
    def nodes(self) -> int:
        """The number of its nodes."""
    def cell(self, node: int) -> int:
        """The number of a node's cell; `Dispatch.cells` has the names. Raises IndexError for an unknown node."""
    def inputs(self, node: int) -> list[int]:
        """The nodes whose results a node needs. Raises IndexError for an unknown node."""
    def outputs(self, node: int) -> list[int]:
        """The nodes that need a node's result. Raises IndexError for an unknown node."""

class Task:
    """A task that ended."""

    @property
    def task(self) -> int:
        """Its number, in the order of submission."""
    @property
    def worker(self) -> int:
        """The worker that ran it."""
    @property
    def start(self) -> int:
        """The instant of its start, in nanoseconds."""
    @property
    def finish(self) -> int:
        """The instant of its end, in nanoseconds."""
    @property
    def members(self) -> list[Any]:
        """What was submitted: requests, or pairs of a request and the number of a node."""
    @property
    def requests(self) -> list[Request]:
        """The requests of the task, each once, in the order of the batch."""

class Dispatch:
    """The access to the workers during `Policy.schedule`. What is submitted starts when `schedule` has returned.

    It lasts for one call: one that is kept raises RuntimeError. A mistake raises ValueError at the line of the call,
        and
    ends the run even if the policy catches it.
    """

    @property
    def now(self) -> int:
        """The present instant, in nanoseconds since the start of the run."""
    @property
    def workers(self) -> int:
        """The number of workers, which are 0 and so on."""
    @property
    def cells(self) -> list[str]:
        """The names of the model's cells, by their numbers."""
    def idle(self) -> list[int]:
        """The workers without tasks, in the order of their numbers, without those that got one in this call."""
    def unfinished(self, worker: int) -> int:
        """The number of a worker's tasks that are not done. Raises ValueError for an unknown worker."""
    def submit(self, worker: int, requests: Sequence[Request]) -> None:
        """Submits a batch of whole requests, padded to the longest.

        worker: a worker. One that is busy runs the batch after its other tasks.
        requests: requests of `arrive` that are neither submitted nor rejected, one or more, at most max_batch.

        Raises ValueError for a request that is submitted, rejected, finished, of another run or no sequence, for an
        unknown worker, and for a batch that is empty or too large.
        """
    def submit_nodes(self, worker: int, cell: int | str, members: Sequence[tuple[Request, int]]) -> None:
        """Submits a batch of cells. States are gathered if the members are not those of the worker's task before.

        worker: a worker. One that is busy runs the batch after its other tasks.
        cell: the number or the name of the cell, which all nodes have.
        members: pairs of a request and the number of its node. The inputs of a node are done, or were submitted to the
            same worker before.

        Raises ValueError as `submit` does, and for a node that is unknown, of another cell, submitted, or whose inputs
        are not there.
        """
    def reject(self, request: Request, reason: str | None = None) -> None:
        """Makes a request leave unserved. It must not be submitted before or afterwards.

        reason: what results record.
        """

class ServedRequest:
    """A request as the function of `real(run=…)` sees it."""

    @property
    def id(self) -> int:
        """Its number, in the order of arrival."""
    @property
    def length(self) -> int:
        """Its length: steps, source steps, nodes or tokens."""
    @property
    def class_(self) -> str | None:
        """The name of its class; None without classes."""
    @property
    def payload(self) -> Any:
        """What `payload(id)` has returned; None without such a function."""

class Table:
    """A table of results, which any library that reads Arrow takes without copies. Times are whole nanoseconds."""

    @property
    def columns(self) -> list[str]:
        """The names of the columns, in order."""
    @property
    def types(self) -> dict[str, str]:
        """The type of each column: int, float, bool, str or category."""
    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and columns."""
    @property
    def notes(self) -> list[str]:
        """What a reader should know beside the numbers."""
    def __len__(self) -> int: ...
    def __contains__(self, name: str) -> bool: ...
    def __getitem__(self, name: str) -> list[Any]:
        """The values of a column; a missing one is None. Raises KeyError with the names of the columns."""
    def rows(self) -> list[dict[str, Any]]:
        """The rows as dicts."""
    def to_pandas(self) -> pandas.DataFrame:
        """The table as a DataFrame of pandas, which has to be installed. Whole numbers with missing values are of the
        type Int64, and names of classes, cells and outcomes are categories.
        """
    def to_polars(self) -> polars.DataFrame:
        """The table as a DataFrame of polars, which has to be installed, without copies."""
    def with_notes(self, notes: list[str]) -> Table:
        """The table with these notes."""
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    def _buffers(self, name: str) -> tuple[str, Any, bytes | None, list[str] | None]: ...
    def _repr_html_(self) -> str: ...

class PolicyClass:
    def __new__(cls, name: str, about: str, make: Callable[..., Any], source: str, defaults: str) -> PolicyClass: ...
    @property
    def name(self) -> str: ...

class MemoryFile:
    def __new__(cls, name: str, content: bytes) -> MemoryFile: ...
    @property
    def path(self) -> str: ...

class Study:
    def points(self) -> list[tuple[str, str, int, list[tuple[str, str]], str]]: ...
    def summary(self) -> Table: ...
    def requests(self, place: int) -> Table: ...
    def tasks(self, place: int) -> Table: ...
    def batches(self, place: int) -> Table: ...
    @property
    def logs(self) -> tuple[bool, bool]: ...
    @property
    def name(self) -> str: ...
    @property
    def notes(self) -> list[str]: ...
    @property
    def failed(self) -> int: ...
    @property
    def path(self) -> str: ...
    def write(
        self, out: str | os.PathLike[str], report: Callable[[int, int], None] | None = None
    ) -> str | os.PathLike[str]: ...

def finish_threads() -> None: ...
def main(args: Sequence[str]) -> int: ...
def command(
    args: Sequence[str], policies: Sequence[PolicyClass], report: Callable[[int, int], None] | None = None
) -> tuple[str, list[str]]: ...
def check(
    policy: PolicyClass | None,
    kind: str,
    parameters: str,
    *,
    max_batch: int | None,
    work_conserving: bool,
    pins: bool,
    bounded: bool,
    holds_back: bool,
    cases: int,
) -> int: ...
def profile(
    function: Callable[..., Any],
    *,
    cell: str,
    batches: Sequence[int],
    inputs: Sequence[int],
    largest: int,
    repeats: int,
    report: Callable[[int, int], None] | None = None,
) -> tuple[str, str, str]: ...
def run_scenario(
    scenario: str,
    *,
    overrides: Sequence[str],
    sweeps: Sequence[str],
    seed: int | None,
    backend: str,
    real: bool,
    verify: str,
    replications: int,
    resume: bool,
    threads: int | None,
    out: str | os.PathLike[str],
    in_memory: bool,
    policies: Sequence[PolicyClass],
    function: Callable[..., Any] | None = None,
    payload: Callable[[int], Any] | None = None,
    report: Callable[[int, int], None] | None = None,
) -> Study: ...
def resolved_scenario(
    path: str, overrides: Sequence[str], seed: int | None, policies: Sequence[PolicyClass]
) -> str: ...
def scenario_text(given: str) -> tuple[str, str]: ...
def scenarios() -> list[tuple[str, str]]: ...
def policies() -> list[tuple[str, str, str]]: ...
def sizes(
    path: str, overrides: Sequence[str], policies: Sequence[PolicyClass]
) -> tuple[list[tuple[str, bool, int]], int]: ...
def time_ns(text: str) -> int:
    """A time with its unit, such as "2ms", in nanoseconds. Raises ValueError for a text that is no time."""

def read_log(path: str | os.PathLike[str]) -> Table: ...
def read_csv(path: str | os.PathLike[str]) -> Table: ...
def table(columns: Sequence[tuple[str, Sequence[Any]]]) -> Table: ...
