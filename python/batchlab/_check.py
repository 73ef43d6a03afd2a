"""The laws of every policy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import _batchlab, _options, _toml
from ._policy import RESERVED, Kinds


def check(
    policy: Any,
    max_batch: int | None = None,
    work_conserving: bool = True,
    pins: bool = True,
    bounded: bool = True,
    holds_back: bool = False,
    *,
    cases: int = 200,
) -> int:
    """Checks a policy on random workloads of every model that it serves, and returns the number of these workloads.

    Every policy keeps these laws: each request leaves once and each of its nodes runs once; no node starts before its
    inputs are done; no batch is larger than guaranteed; times are in order; tasks of a worker do not overlap; the same
    events give the same tasks.

    policy: a class, a factory, an object, or a table with the key "class" and keyword arguments.
    max_batch: the largest batch that is guaranteed; the policy's own attribute if it is left out.
    work_conserving: no worker idles while a request waits; False for policies that wait for more requests.
    pins: nodes of a subgraph with unfinished tasks go to the worker of those tasks.
    bounded: no request is faster than its critical path, and no set of workers faster than its capacity.
    holds_back: responses may wait for those of other requests.
    cases: the number of random workloads.

    Raises LawBroken with the law and the smallest workload that shows it; InputError for a wrong number; whatever the
    policy raises, with a note.
    """
    _options.require_whole("cases", cases)
    _options.require_whole("max_batch", max_batch)
    kinds = Kinds()
    table: Mapping[str, Any] = kinds.item(policy)
    parameters = {key: value for key, value in table.items() if key not in RESERVED}
    if max_batch is None:
        own = policy.get("class") if isinstance(policy, Mapping) else policy
        declared = getattr(own, "max_batch", None)
        max_batch = declared if isinstance(declared, int) else None
    return _batchlab.check(
        kinds.classes[0] if kinds.classes else None,
        str(table["kind"]),
        _toml.document(parameters),
        max_batch=max_batch,
        work_conserving=work_conserving,
        pins=pins,
        bounded=bounded,
        holds_back=holds_back,
        cases=cases,
    )
