"""A policy whose source runs in a process of its own, as an object with the methods of `Policy`.

The simulation is here, and the process knows only what it is told at each instant. What it submits is checked by the
same `Dispatch` as that of any policy. `_judged.py` is the other end.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
import weakref
from typing import Any

from . import _batchlab


class Failure(Exception):
    """A judged policy has failed. `why` says in which way, and `trace` has the lines of its source."""

    def __init__(self, why: str, trace: str = "") -> None:
        super().__init__(why)
        self.why = why
        self.trace = trace


class Source:
    """A policy's source, and what its processes may use altogether."""

    def __init__(self, text: str, name: str | None, *, sees_lengths: bool, limit_s: float, memory: int) -> None:
        self.text = text
        self.name = name
        self.sees_lengths = sees_lengths
        self.limit_s = limit_s
        self.left_s = limit_s
        self.memory = memory
        self.failure: Failure | None = None

    def policy(self) -> JudgedPolicy:
        """A fresh policy, in a fresh process."""
        return JudgedPolicy(self)

    def fail(self, why: str, trace: str = "") -> Failure:
        """The first failure, which is the cause of all others."""
        self.failure = self.failure or Failure(why, trace)
        return self.failure


class JudgedPolicy:
    """A policy whose methods are those of another process."""

    def __init__(self, source: Source) -> None:
        if source.failure:
            raise source.failure
        self._source = source
        self._rest = b""
        self._used_s = 0.0
        self._process = subprocess.Popen(
            [sys.executable, "-S", "-s", "-P", os.path.join(os.path.dirname(__file__), "_judged.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"PYTHONHASHSEED": "0"},
            cwd="/",
        )
        assert self._process.stdin is not None
        os.set_blocking(self._process.stdin.fileno(), False)
        self._end = weakref.finalize(self, _end, self._process)
        self._known: dict[int, _batchlab.Request] = {}
        self._arrived: list[_batchlab.Request] = []
        self._ended: list[_batchlab.Task] = []
        self._wake: int | None = None
        seconds = int(source.limit_s) + 1
        self._write({"source": source.text, "name": source.name, "memory": source.memory, "seconds": seconds})
        # The first message comes before the source is executed, so that no policy writes it.
        limits = self._read()
        if "limited" not in limits:
            raise _batchlab.RunError(f"score: the policy's process can't be limited: {limits.get('unlimited')}")
        traits = self._read()
        self.max_batch = traits.get("max_batch")
        self.works_ahead = bool(traits.get("works_ahead"))
        self.models = traits.get("models") if source.sees_lengths else "chains"

    def arrive(self, requests: list[_batchlab.Request]) -> None:
        """Keeps the requests for `schedule`, which tells the process of all that happened."""
        self._known.update((request.id, request) for request in requests)
        self._arrived = requests

    def complete(self, tasks: list[_batchlab.Task]) -> None:
        """Keeps the tasks for `schedule`."""
        self._ended = tasks

    def wake_at(self) -> int | None:
        """The instant that the process has asked for."""
        return self._wake

    def schedule(self, dispatch: _batchlab.Dispatch) -> None:
        """Tells the process what happened, and carries out what it wants."""
        told = {
            "now": dispatch.now,
            "idle": dispatch.idle(),
            "unfinished": [dispatch.unfinished(worker) for worker in range(dispatch.workers)],
            "cells": dispatch.cells,
            "ended": [_task(task) for task in self._ended],
            "arrived": [_request(request, self._source.sees_lengths) for request in self._arrived],
        }
        self._arrived, self._ended = [], []
        self._write(told)
        while True:
            wanted = self._read()
            if "done" in wanted:
                self._wake = wanted["done"]
                return
            try:
                answer = {"value": self._carry_out(dispatch, wanted)}
            except (IndexError, RuntimeError, TypeError, ValueError, OverflowError) as mistake:
                answer = {"error": [type(mistake).__name__, str(mistake)]}
            self._write(answer)

    def _carry_out(self, dispatch: _batchlab.Dispatch, wanted: dict[str, Any]) -> Any:
        ((what, given),) = wanted.items()
        if what == "submit":
            worker, ids = given
            return dispatch.submit(worker, [self._request(id) for id in ids])
        if what == "reject":
            id, reason = given
            return dispatch.reject(self._request(id), reason)
        if not self._source.sees_lengths:
            raise ValueError("the suite hides lengths; submit whole requests")
        if what == "nodes":
            worker, cell, members = given
            return dispatch.submit_nodes(worker, cell, [(self._request(id), node) for id, node in members])
        if what == "graph":
            request = self._request(given)
            nodes = range(request.nodes)
            return [[part(node) for node in nodes] for part in (request.cell, request.inputs, request.outputs)]
        raise ValueError(f"unknown message {what!r}")

    def _request(self, id: Any) -> _batchlab.Request:
        known = self._known.get(id) if isinstance(id, int) else None
        if known is None:
            raise ValueError(f"request {id!r} has not arrived")
        return known

    def _write(self, message: Any) -> None:
        assert self._process.stdin is not None
        pipe = self._process.stdin.fileno()
        left = memoryview(json.dumps(message).encode() + b"\n")
        while left:
            self._wait([], [pipe])
            try:
                left = left[os.write(pipe, left) :]
            except BlockingIOError:
                pass
            except OSError:
                raise self._source.fail(self._ending()) from None

    def _wait(self, readable: list[int], writable: list[int]) -> None:
        """Waits for the process, whose time counts: that of the processor, so that other load does not matter."""
        began = time.monotonic()
        found = False
        while not found:
            # A short wait lets KeyboardInterrupt through.
            found = any(select.select(readable, writable, [], 0.1))
            self._count_time()
            source = self._source
            if source.left_s < 0 or time.monotonic() - began > source.limit_s:
                self._process.kill()
                raise source.fail(f"time: the policy took longer than {source.limit_s:g} s altogether")

    def _count_time(self) -> None:
        clock = (~self._process.pid << 3) | 2  # the processor time of a process, as clock_getcpuclockid(3) names it
        try:
            used = time.clock_gettime(clock)
        except OSError:
            return  # It has ended, which the pipe tells.
        self._source.left_s -= used - self._used_s
        self._used_s = used

    def _read(self) -> dict[str, Any]:
        source = self._source
        assert self._process.stdout is not None
        pipe = self._process.stdout.fileno()
        while b"\n" not in self._rest:
            self._wait([pipe], [])
            part = os.read(pipe, 1 << 16)
            if not part:
                raise source.fail(self._ending())
            self._rest += part
            if len(self._rest) > 1 << 26:
                raise source.fail("the policy's process writes without end")
        line, _, self._rest = self._rest.partition(b"\n")
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            message = None
        if not isinstance(message, dict) or not message:
            raise source.fail("the policy's process writes what is no message")
        if "raised" in message:
            trace = str(message["raised"])
            _, _, last = trace.strip().rpartition("\n")
            raise source.fail(f"raised: {last}", trace)
        return message

    def _ending(self) -> str:
        self._process.kill()
        code = self._process.wait()
        return f"the policy's process ended with exit code {code}; it may have used too much memory or time"


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            try:
                pipe.close()
            except OSError:
                pass
    process.wait()


def _request(request: _batchlab.Request, sees_lengths: bool) -> dict[str, Any]:
    told: dict[str, Any] = {
        "id": request.id,
        "arrival": request.arrival,
        "class_": request.class_,
        "priority": request.priority,
        "deadline": request.deadline,
    }
    if sees_lengths:
        told.update(length=request.length, shape=request.shape, nodes=request.nodes)
    return told


def _task(task: _batchlab.Task) -> dict[str, Any]:
    return {
        "task": task.task,
        "worker": task.worker,
        "start": task.start,
        "finish": task.finish,
        "members": [[one[0].id, one[1]] if isinstance(one, tuple) else one.id for one in task.members],
    }
