"""The process in which a judged policy lives. `_judge.py` starts it as a script; it imports nothing of batchlab.

It reads a line of JSON for each instant, calls the policy's methods, and writes a line for each thing that they submit.
All that the policy could look for is in another process: requests that have not arrived, lengths that are hidden, the
seed, the record and the score. Before it reads the policy's source, the process gives up every call of the operating
system but those for its memory and for open files, of which it has its two pipes only.
"""

from __future__ import annotations

import ast
import ctypes
import fractions
import json
import linecache
import math
import os
import platform
import random
import resource
import sys
import traceback
import types
from typing import Any, NoReturn

# What a policy may import: these modules are loaded before files are out of reach.
MODULES = (
    "__future__ abc array bisect collections collections.abc copy dataclasses enum fractions functools heapq itertools "
    "math operator random statistics string typing"
).split()

SOURCE = "<policy>"

# The calls that are left, by the architecture as `uname` and as the kernel's audit names it: to read and write, for
# memory, for locks, for the clock where it is a call, and to end.
CALLS = {
    "x86_64": (0xC000003E, [0, 1, 9, 10, 11, 12, 13, 14, 15, 25, 28, 60, 202, 228, 231]),
    "aarch64": (0xC00000B7, [63, 64, 93, 94, 98, 113, 134, 135, 139, 214, 215, 216, 222, 226, 233]),
}


class NoFiles:
    """What imports modules once files are out of reach."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> NoReturn:
        raise ModuleNotFoundError(f"a judged policy has no module {name!r}; it has {', '.join(MODULES)} and batchlab")


class Pipe:
    """The lines of JSON between the policy and the judge."""

    def __init__(self) -> None:
        self.input = os.fdopen(os.dup(0), "rb")
        self.output = os.fdopen(os.dup(1), "wb")
        nowhere = os.open(os.devnull, os.O_RDWR)
        for standard in (0, 1, 2):
            os.dup2(nowhere, standard)

    def read(self) -> Any:
        line = self.input.readline()
        if not line:
            os._exit(0)
        return json.loads(line)

    def write(self, message: Any) -> None:
        self.output.write(json.dumps(message).encode() + b"\n")
        self.output.flush()

    def ask(self, message: Any) -> Any:
        """The judge's answer, or the exception that it gives."""
        self.write(message)
        answer = self.read()
        if "error" in answer:
            kind, why = answer["error"]
            raise {"IndexError": IndexError, "TypeError": TypeError}.get(kind, ValueError)(why)
        return answer["value"]


class Policy:
    """What policies inherit from."""

    max_batch: Any = None
    works_ahead = False
    models = "chains"


class Request:
    """A request that has arrived. One whose length is hidden has neither length, shape nor nodes."""

    id: int
    arrival: int
    class_: str | None
    priority: int
    deadline: int | None
    length: int
    shape: str
    nodes: int

    def __init__(self, pipe: Pipe, known: dict[str, Any]) -> None:
        self._pipe = pipe
        self._graph: Any = None
        self.__dict__.update(known)

    def __getattr__(self, name: str) -> NoReturn:
        hidden = name in ("length", "shape", "nodes")
        raise AttributeError("the suite hides lengths" if hidden else f"a request has no attribute {name!r}")

    def _parts(self, node: int) -> Any:
        if self._graph is None:
            self._graph = self._pipe.ask({"graph": self.id})
        if not 0 <= node < len(self._graph[0]):
            raise IndexError(f"request {self.id} has no node {node}")
        return self._graph

    def cell(self, node: int) -> int:
        return int(self._parts(node)[0][node])

    def inputs(self, node: int) -> list[int]:
        return list(self._parts(node)[1][node])

    def outputs(self, node: int) -> list[int]:
        return list(self._parts(node)[2][node])

    def __repr__(self) -> str:
        return f"Request(id={self.id}, arrival={self.arrival})"


class Task:
    """A task that ended."""

    def __init__(self, told: dict[str, Any], requests: dict[int, Request]) -> None:
        self.task = told["task"]
        self.worker = told["worker"]
        self.start = told["start"]
        self.finish = told["finish"]
        self.members = [
            requests[member] if isinstance(member, int) else (requests[member[0]], member[1])
            for member in told["members"]
        ]

    @property
    def requests(self) -> list[Request]:
        found = [member if isinstance(member, Request) else member[0] for member in self.members]
        return list(dict.fromkeys(found))


class Dispatch:
    """The access to the workers during `schedule`."""

    def __init__(self, pipe: Pipe, told: dict[str, Any]) -> None:
        self._pipe = pipe
        self._idle = told["idle"]
        self._unfinished = told["unfinished"]
        self.now = told["now"]
        self.workers = len(self._unfinished)
        self.cells = told["cells"]
        self._is_open = True

    def close(self) -> None:
        self._is_open = False

    def idle(self) -> list[int]:
        return list(self._idle)

    def unfinished(self, worker: int) -> int:
        return int(self._unfinished[worker])

    def submit(self, worker: int, requests: Any) -> None:
        self._ask(worker, {"submit": [worker, [request.id for request in requests]]})

    def submit_nodes(self, worker: int, cell: int | str, members: Any) -> None:
        self._ask(worker, {"nodes": [worker, cell, [[request.id, node] for request, node in members]]})

    def reject(self, request: Request, reason: str | None = None) -> None:
        self._send({"reject": [request.id, reason]})

    def _send(self, message: Any) -> None:
        if not self._is_open:
            raise RuntimeError("a dispatch lasts for one call of schedule; use the one that schedule is given")
        self._pipe.ask(message)

    def _ask(self, worker: int, message: Any) -> None:
        self._send(message)
        self._unfinished[worker] += 1
        self._idle = [idle for idle in self._idle if idle != worker]


# Nanoseconds of the units that scenarios know.
UNITS = {"ns": 1, "us": 1_000, "µs": 1_000, "ms": 1_000_000, "s": 1_000_000_000}


def time_ns(text: str) -> int:
    """A time with its unit, such as "2ms", in nanoseconds, as that of batchlab, which is not in this process."""
    number = text.strip().rstrip("nuµms")
    unit = text.strip()[len(number) :]
    if unit not in UNITS or not set(number) <= set("0123456789. "):
        raise ValueError(f"{text!r} is not a time with a unit; write it as 250us, 2ms or 1.5s")
    return math.floor(fractions.Fraction(number) * UNITS[unit] + fractions.Fraction(1, 2))


def limit(memory: int, seconds: int) -> None:
    """Gives up what a policy does not need: memory and time above a limit, files, processes, and the calls for them."""
    for kind, most in (
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_NOFILE, 0),
        (resource.RLIMIT_NPROC, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(kind, (most, most))
    architecture, calls = CALLS[platform.machine()]
    load = 0x20
    jump_if_equal = 0x15
    answer = 0x06
    refused = (answer, 0, 0, 0x00050001)
    allowed = (answer, 0, 0, 0x7FFF0000)
    steps = [(load, 0, 0, 4), (jump_if_equal, 1, 0, architecture), refused, (load, 0, 0, 0)]
    steps += [(jump_if_equal, len(calls) - place, 0, call) for place, call in enumerate(calls)]
    steps += [refused, allowed]

    class Step(ctypes.Structure):
        _fields_ = [
            ("code", ctypes.c_uint16),
            ("then", ctypes.c_uint8),
            ("other", ctypes.c_uint8),
            ("k", ctypes.c_uint32),
        ]

    class Filter(ctypes.Structure):
        _fields_ = [("count", ctypes.c_uint16), ("steps", ctypes.c_void_p)]

    program = (Step * len(steps))(*(Step(*step) for step in steps))
    kernel = ctypes.CDLL(None, use_errno=True).prctl
    own = Filter(len(steps), ctypes.addressof(program))
    number = ctypes.c_ulong
    no_new_privileges = (38, number(1), number(0), number(0), number(0))
    filter_calls = (22, number(2), ctypes.byref(own), number(0), number(0))
    for arguments in (no_new_privileges, filter_calls):
        if kernel(*arguments):
            raise OSError(
                ctypes.get_errno(), "the kernel has no filter for system calls, without which nothing is judged"
            )


def load_policy(source: str, name: str | None) -> Any:
    """The class, or the factory, that the source defines."""
    linecache.cache[SOURCE] = (len(source), None, source.splitlines(keepends=True), SOURCE)
    module = types.ModuleType("judged")
    sys.modules["judged"] = module
    own = types.ModuleType("batchlab")
    own.__dict__.update(Policy=Policy, Request=Request, Task=Task, Dispatch=Dispatch, time_ns=time_ns)
    sys.modules["batchlab"] = own
    module.__dict__.update(bl=own, batchlab=own)
    exec(compile(ast.parse(source, SOURCE), SOURCE, "exec"), module.__dict__)
    if name is not None:
        return module.__dict__[name]
    found = [
        one
        for one in module.__dict__.values()
        if isinstance(one, type) and one.__module__ == "judged" and callable(getattr(one, "schedule", None))
    ]
    last = [one for one in found if not any(other is not one and issubclass(other, one) for other in found)]
    if len(last) != 1:
        names = ", ".join(one.__name__ for one in last) or "none"
        raise TypeError(f"the source has to define one class with the method schedule; it defines {names}")
    return last[0]


def answer_instant(pipe: Pipe, policy: Any, told: dict[str, Any], requests: dict[int, Request]) -> int | None:
    """Calls the policy's methods for an instant."""
    if told["ended"] and hasattr(policy, "complete"):
        policy.complete([Task(task, requests) for task in told["ended"]])
    arrived = [Request(pipe, known) for known in told["arrived"]]
    requests.update((request.id, request) for request in arrived)
    if arrived and hasattr(policy, "arrive"):
        policy.arrive(arrived)
    dispatch = Dispatch(pipe, told)
    policy.schedule(dispatch)
    dispatch.close()
    wake: int | None = policy.wake_at() if hasattr(policy, "wake_at") else None
    return wake


def described(exception: BaseException) -> str:
    """The traceback, from the policy's first line on."""
    trace = exception.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != SOURCE:
        trace = trace.tb_next
    return "".join(traceback.format_exception(type(exception), exception, trace))[-8000:]


def main() -> NoReturn:
    """Serves the judge until it closes the pipe."""
    for module in MODULES:
        __import__(module)
    pipe = Pipe()
    job = pipe.read()
    try:
        limit(job["memory"], job["seconds"])
    except (OSError, KeyError, ValueError) as exception:
        pipe.write({"unlimited": str(exception)})
        os._exit(1)
    pipe.write({"limited": True})
    sys.meta_path[-1] = NoFiles  # in place of the one that reads files
    random.seed(0)
    requests: dict[int, Request] = {}
    try:
        policy = load_policy(job["source"], job["name"])()
        pipe.write(
            {
                "max_batch": getattr(policy, "max_batch", None),
                "works_ahead": bool(getattr(policy, "works_ahead", False)),
                "models": getattr(policy, "models", "chains"),
            }
        )
        while True:
            wake = answer_instant(pipe, policy, pipe.read(), requests)
            pipe.write({"done": wake})
    except BaseException as exception:  # Whatever a policy raises
        pipe.write({"raised": described(exception)})
    os._exit(0)


if __name__ == "__main__":
    main()
