"""Policies in Python: what they inherit, and how a class, a factory or an object becomes a kind of policy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from . import _batchlab, _toml

if TYPE_CHECKING:
    import inspect

    from ._batchlab import Dispatch, Request, Task


class Policy:
    """A batching policy. Inherit from it, or give any object with the same methods.

    At each instant at which something happens, the simulator calls `complete` with the tasks that ended, `arrive` with
    the requests that arrived, then always `schedule`, then `wake_at`. A method that is not defined costs nothing. Times
    are whole nanoseconds since the start of the run.

    A request leaves by itself when its batch, or its last node, is done. It has to be submitted or rejected at some
    time; otherwise it counts as failed. A policy must not read a clock or draw unseeded numbers, so that the same
    events give the same tasks. Each point and replication has an object of its own.

        class FirstCome(bl.Policy):
            max_batch = 64

            def __init__(self):
                self.waiting = []

            def arrive(self, requests):
                self.waiting += requests

            def schedule(self, dispatch):
                for worker in dispatch.idle():
                    batch, self.waiting = self.waiting[: self.max_batch], self.waiting[self.max_batch :]
                    if batch:
                        dispatch.submit(worker, batch)

    Attributes, of the class or set in `__init__`:

    max_batch: the largest batch: whole requests or nodes of a cell, or a dict of nodes by cell. None means no bound;
        with a bound, devices prepare for it.
    works_ahead: whether `schedule` also submits to workers with unfinished tasks.
    models: "chains" for sequences only, or "all" for a policy that submits nodes of any graph. Language models are
        always refused.

    Methods:

    arrive(self, requests): learns of requests that have arrived, a list in the order of arrival.
    complete(self, tasks): learns of tasks that ended, a list of `Task`.
    schedule(self, dispatch): submits batches and rejects requests; see `Dispatch`.
    wake_at(self): returns the instant at which `schedule` has to be called even without events, or None.
    """

    # A number, a dict of numbers by cell, or None; a class that has a number computes with it.
    max_batch: Any = None
    works_ahead: bool = False
    models: Literal["chains", "all"] = "chains"

    if TYPE_CHECKING:

        def arrive(self, requests: list[Request]) -> None: ...

        def complete(self, tasks: list[Task]) -> None: ...

        def schedule(self, dispatch: Dispatch) -> None: ...

        def wake_at(self) -> int | None: ...


# What stands for a policy: a class or a function that makes one, an object, or a table with the key "class" or "kind".
PolicyLike = type | Callable[..., Any] | Policy | Mapping[str, Any] | object

# The keys of a policy's table that are no parameters of its class. `source` is where results have the hash.
RESERVED = ("class", "kind", "label", "costs", "overhead", "source")


class Kinds:
    """The kinds of policies of one call, each with a name of its own."""

    def __init__(self) -> None:
        self.classes: list[_batchlab.PolicyClass] = []
        self.names: list[str] = []

    def add(self, given: Any) -> str:
        """Adds a class, a factory or an object, and returns the name of its kind.

        Raises InputError for a class or a factory with a parameter that never gets a value.
        """
        import json

        owner = given if isinstance(given, type) or not hasattr(given, "schedule") else type(given)
        make = given if owner is given else _copies(given)
        if not callable(make):
            raise TypeError(f"{given!r} is no policy; give a class, a factory, or an object with the method schedule")
        own_name = getattr(owner, "__name__", type(owner).__name__)
        parameters = _parameters(given) if owner is given else []
        for one in parameters:
            if one.name in RESERVED:
                raise _batchlab.InputError(
                    f"{own_name}: its parameter {one.name!r} never gets a value, since that is a key of every policy's "
                    "table; rename it"
                )
        name = f"python:{own_name}"
        same = sum(known == name or known.startswith(name + "#") for known in self.names)
        if same:
            name = f"{name}#{same + 1}"
        about = (getattr(owner, "__doc__", None) or "a policy in Python").strip().splitlines()[0]
        defaults = {one.name: one.default for one in parameters if isinstance(one.default, (bool, int, float, str))}
        kind = _batchlab.PolicyClass(name, about, make, source_hash(owner), json.dumps(defaults))
        self.classes.append(kind)
        self.names.append(name)
        return name

    def table(self, label: str, given: Any) -> dict[str, Any]:
        """The `[[policy]]` table of a policy."""
        if isinstance(given, str):
            return {"label": label, "kind": given}
        if isinstance(given, Mapping):
            table = dict(given)
            table["label"] = label
            if "class" in table:
                if "kind" in table:
                    raise TypeError(f"{label}: has a class and a kind; give one of them")
                own = table.pop("class")
                for key, value in table.items():
                    if key not in RESERVED:
                        _check_parameter(label, key, value)
                table["kind"] = self.add(own)
            return table
        return {"label": label, "kind": self.add(given)}

    def tables(self, policies: Any) -> list[dict[str, Any]]:
        """The `[[policy]]` tables of the argument `policies`."""
        if isinstance(policies, Mapping):
            return [self.table(str(label), given) for label, given in policies.items()]
        if isinstance(policies, (list, tuple)):
            return [self.item(given) for given in policies]
        raise TypeError(f"policies: must be a dict of policies by label, not {type(policies).__name__}")

    def item(self, given: Any) -> dict[str, Any]:
        """The table of an item of a list, whose label is its own or that of its class or kind."""
        if isinstance(given, Mapping):
            own = given.get("class")
            label = given.get("label", given.get("kind", getattr(own, "__name__", None)))
            return self.table(str(label), given)
        owner = given if isinstance(given, (type, str)) or not hasattr(given, "schedule") else type(given)
        return self.table(owner if isinstance(owner, str) else getattr(owner, "__name__", "policy"), given)


def _copies(given: Any) -> Callable[[], Any]:
    import copy

    def copied() -> Any:
        return copy.deepcopy(given)

    return copied


def _check_parameter(label: str, key: str, value: Any) -> None:
    try:
        _toml.value(value, key)
    except TypeError as mistake:
        raise TypeError(
            f"{label}: {mistake}; results record parameters, so give others through a factory, such as "
            "lambda: Mine(network)"
        ) from None


def _parameters(make: Callable[..., Any]) -> list[inspect.Parameter]:
    """The parameters that have a name of their own; none if Python does not know them."""
    import inspect

    try:
        parameters = inspect.signature(make).parameters.values()
    except (TypeError, ValueError):
        return []
    return [one for one in parameters if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]


def source_hash(owner: Any) -> str:
    """A hash of a policy's source; of its compiled code if there is no source."""
    import hashlib
    import inspect

    try:
        text = inspect.getsource(owner)
    except (OSError, TypeError):
        parts: list[Any] = []
        for name in sorted(getattr(owner, "__dict__", {})):
            code = getattr(getattr(owner, name, None), "__code__", None)
            if code is not None:
                parts.append((name, code.co_code.hex(), repr(code.co_names)))
        code = getattr(owner, "__code__", None)
        if code is not None:
            parts.append((code.co_code.hex(), repr(code.co_names)))
        text = repr(parts)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
