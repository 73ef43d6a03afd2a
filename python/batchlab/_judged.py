"""The process that judges a policy for `score`. It reads a job from standard input and prints the score as its last line.

How a policy could cheat, and what stops it:

- It knows the requests: they are drawn from a seed that the policy is not told, and it can't read files or look for the
  seed, since its source may import a few modules only and names nothing that reaches the interpreter.
- It sees lengths that it should not: in a suite that hides them, requests have no length, no shape and no number of
  nodes, and the adaptor submits for the policy.
- It calls the simulator, to try what comes: that is refused within a policy, and of batchlab it has `Policy` only.
- It changes the simulator: what it decides passes through the adaptor in Rust, which checks each submission; times come
  from the record, which Python can't reach.
- It prints a score, or ends the process: what it prints goes nowhere, and the answer is written to a stream that is
  opened before its source is read. A process without an answer has score 0.
- It waits for ever, or is slow: the caller ends the process, with score 0.
- It rejects requests, or serves only the easy ones: the score is goodput, the rate of requests within the objective, of
  all that arrived.

This is a judge for programs that search, and no sandbox for code of an attacker.
"""

from __future__ import annotations

import ast
import io
import json
import math
import os
import sys
from typing import Any

MODULE = "batchlab_judged"


def judge(job: dict[str, Any]) -> dict[str, Any]:
    """Judges the policy of a job."""
    import batchlab as bl
    from batchlab._score import SUITES, _failed

    suite = SUITES[job["suite"]]
    try:
        policy = _load(job["source"], job["name"])
    except BaseException as exception:  # noqa: B902 - whatever the source raises
        return dict(_failed(f"the source can't be loaded: {exception!r}"))
    if not suite["reveal"]:
        policy = _blind(policy)
    try:
        bl.check(policy, work_conserving=False, pins=False, bounded=False, cases=25)
    except BaseException as exception:  # noqa: B902
        return dict(_failed(_described(exception)))
    knee = max(
        rate or 0.0
        for rate in bl.find_knee(
            suite["scenario"],
            policies=suite["against"],
            slo=suite["slo"],
            tolerance=0.05,
            replications=2,
            max_requests=20_000,
            seed=job["seed"],
        )["knee_rps"]
    )
    rates = [round(share * knee) for share in suite["shares"]]
    set = {"arrivals.rates": rates, "metrics.slo": suite["slo"], "output.plots": []}
    try:
        run = bl.sim(
            suite["scenario"], set=set, seed=job["seed"], replications=2, policies={**suite["against"], "judged": policy}
        )
    except BaseException as exception:  # noqa: B902
        return dict(_failed(_described(exception)))
    metrics: dict[str, float] = {"knee_rps": float(knee)}
    product = 0.0
    rows = run.summary().rows()
    for rate in rates:
        found = {row["policy"]: row["goodput_rps"] or 0.0 for row in rows if float(row["point"]) == rate}
        best = max(goodput for label, goodput in found.items() if label != "judged")
        relative = found["judged"] / best if best else 0.0
        metrics[f"goodput_rps_{rate}"] = found["judged"]
        metrics[f"relative_{rate}"] = relative
        metrics[f"of_ceiling_{rate}"] = found["judged"] / rate
        product += math.log(max(relative, 1e-9))
    score = math.exp(product / len(rates))
    notes = "\n".join(run.notes)
    return {"combined_score": score, "metrics": metrics, "artifacts": {"notes": notes, "seed": str(job["seed"])}}


def _described(exception: BaseException) -> str:
    import traceback

    return "".join(traceback.format_exception(exception))[-4000:]


# What a policy may import: nothing that reaches files, processes, clocks, other modules or the interpreter.
ALLOWED = (
    "__future__ bisect collections collections.abc dataclasses enum functools heapq itertools math operator random "
    "statistics typing"
).split()

# Names that reach what a policy must not see.
FORBIDDEN = (
    "breakpoint compile delattr eval exec exit getattr globals help input locals memoryview open print quit setattr vars"
).split()


def check_source(source: str) -> ast.Module:
    """Refuses a source that imports, names or opens what a policy must not reach; returns it without `import batchlab`."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if alias.name not in ALLOWED + ["batchlab"]]
        elif isinstance(node, ast.ImportFrom):
            names = [str(node.module)] if node.module not in ALLOWED or node.level else []
        elif isinstance(node, ast.Name) and (node.id in FORBIDDEN or node.id.startswith("__")):
            names = [node.id]
        elif isinstance(node, ast.Attribute) and node.attr.startswith("_") and not _is_own(node):
            names = [node.attr]
        if names:
            raise ValueError(f"line {getattr(node, 'lineno', 0)}: a policy must not use {names[0]}")
    tree.body = [node for node in tree.body if not _is_batchlab(node)]
    return tree


def _is_own(node: ast.Attribute) -> bool:
    """Whether an attribute with an underscore is one of the policy's own, such as self._waiting or super().__init__."""
    is_special = node.attr.startswith("__") and node.attr != "__init__"
    return not is_special and isinstance(node.value, (ast.Name, ast.Call))


def _is_batchlab(node: ast.stmt) -> bool:
    return isinstance(node, ast.Import) and any(alias.name == "batchlab" for alias in node.names)


def _load(source: str, name: str | None) -> type:
    import types

    import batchlab

    tree = check_source(source)
    module = types.ModuleType(MODULE)
    shown = types.SimpleNamespace(Policy=batchlab.Policy)
    module.__dict__.update(bl=shown, batchlab=shown)
    sys.modules[MODULE] = module
    exec(compile(tree, MODULE, "exec"), module.__dict__)
    found = [
        one
        for one in vars(module).values()
        if isinstance(one, type) and one.__module__ == MODULE and callable(getattr(one, "schedule", None))
    ]
    chosen = [one for one in found if name is None or one.__name__ == name]
    if len(chosen) != 1:
        raise ValueError(f"the source has to define one class with the method schedule; it defines {len(chosen)}")
    return chosen[0]


class Hidden:
    """A request whose length a policy can't see."""

    __slots__ = ("id", "arrival", "class_", "priority", "deadline")

    def __init__(self, request: Any) -> None:
        self.id = request.id
        self.arrival = request.arrival
        self.class_ = request.class_
        self.priority = request.priority
        self.deadline = request.deadline


def _blind(policy: type) -> type:
    """The policy, with requests that hide their lengths."""
    class Blind:
        max_batch = getattr(policy, "max_batch", None)
        works_ahead = getattr(policy, "works_ahead", False)

        def __init__(self) -> None:
            own = policy()
            known: dict[int, Any] = {}
            hidden: dict[int, Hidden] = {}

            def arrive(arrived: list[Any]) -> None:
                shown = []
                for request in arrived:
                    known[request.id] = request
                    hidden[request.id] = Hidden(request)
                    shown.append(hidden[request.id])
                own.arrive(shown)

            def schedule(dispatch: Any) -> None:
                own.schedule(_BlindDispatch(dispatch, known))

            def complete(tasks: list[Any]) -> None:
                own.complete([_BlindTask(task, hidden) for task in tasks])

            self.arrive = arrive
            self.schedule = schedule
            if hasattr(own, "complete"):
                self.complete = complete
            if hasattr(own, "wake_at"):
                self.wake_at = own.wake_at

    Blind.__name__ = policy.__name__
    return Blind


class _BlindDispatch:
    def __init__(self, dispatch: Any, known: dict[int, Any]) -> None:
        def submit(worker: int, batch: Any) -> None:
            dispatch.submit(worker, [known[request.id] for request in batch])

        def reject(request: Any, reason: str | None = None) -> None:
            dispatch.reject(known[request.id], reason)

        self.now, self.workers = dispatch.now, dispatch.workers
        self.idle, self.unfinished = dispatch.idle, dispatch.unfinished
        self.submit, self.reject = submit, reject


class _BlindTask:
    def __init__(self, task: Any, hidden: dict[int, Hidden]) -> None:
        self.task, self.worker, self.start, self.finish = task.task, task.worker, task.start, task.finish
        self.requests = [hidden[request.id] for request in task.requests]


def main() -> None:
    """Judges the job on standard input."""
    answer = os.fdopen(os.dup(1), "w")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    sys.stdout = io.StringIO()
    job = json.load(sys.stdin)
    result = judge(job)
    answer.write("\n" + json.dumps(result) + "\n")
    answer.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
