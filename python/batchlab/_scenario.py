"""Scenarios: those that come with batchlab, and those that Python makes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Union

from . import _batchlab, _options, _toml
from ._batchlab import Table, time_ns
from ._policy import Kinds

__all__ = ["Prepared", "ScenarioLike", "policies", "prepare", "scenario", "scenarios", "time_ns"]

# A name that `scenarios` lists, the path of a file, or a dict with the keys of the file.
ScenarioLike = Union[str, "os.PathLike[str]", Mapping[str, Any]]


class Prepared:
    """A scenario as the program reads it, and what has to live as long as its results."""

    def __init__(self) -> None:
        self.path = ""
        self.overrides: list[str] = []
        self.sweeps: list[str] = []
        self.kinds = Kinds()
        self.files: list[_batchlab.MemoryFile] = []

    def keep(self, name: str, text: str) -> str:
        """Keeps a file in memory and returns its path."""
        file = _batchlab.MemoryFile(name, text.encode())
        self.files.append(file)
        return str(file.path)

    def arguments(self) -> list[str]:
        """The arguments of a command that takes one scenario."""
        arguments = [self.path]
        for override in self.overrides:
            arguments.append(f"--set={override}")
        for sweep in self.sweeps:
            arguments.append(f"--sweep={sweep}")
        return arguments


def prepare(
    given: ScenarioLike,
    *,
    set: Mapping[str, Any] | None = None,
    sweep: Mapping[str, Any] | None = None,
    policies: Any = None,
    resume: bool = False,
) -> Prepared:
    """Turns a scenario and its changes into what the program reads.

    Raises InputError if a run with policies in Python is to be resumed.
    """
    prepared = Prepared()
    table: dict[str, Any] | None = None
    if isinstance(given, Mapping):
        name = "scenario"
        table = _copied(given)
    else:
        name = os.fspath(given)
        prepared.path = name
    if policies is not None:
        if table is None:
            import tomllib

            path, text = _batchlab.scenario_text(name)
            name = str(path)
            try:
                table = tomllib.loads(text)
            except tomllib.TOMLDecodeError:
                _batchlab.resolved_scenario(name, [], None, [])  # raises with the line
                raise
            _forget_policies(table)
        table["policy"] = policies
    costs: list[tuple[str, Any]] = []
    for key, changed in (set or {}).items():
        if key == "device.costs" and not isinstance(changed, (str, os.PathLike)):
            costs.append((key, changed))
        else:
            prepared.overrides.append(f"{key}={_toml.value(changed, key)}")
    for key, values in (sweep or {}).items():
        swept = _options.require_list(f"sweep: {key}", values)
        prepared.sweeps.append(f"{key}=" + ",".join(_toml.value(value, key) for value in swept))
    if table is not None:
        table["policy"] = prepared.kinds.tables(table.get("policy", []))
        if resume and prepared.kinds.classes:
            raise _batchlab.InputError("resume: runs with policies in Python can't be resumed; leave it out")
        device = table.get("device")
        own = device.get("costs") if isinstance(device, Mapping) else None
        if isinstance(device, Mapping) and own is not None and not isinstance(own, (str, os.PathLike)):
            costs.append(("device.costs", own))
            table["device"] = {key: value for key, value in device.items() if key != "costs"}
        for place, policy in enumerate(table["policy"]):
            own = policy.get("costs")
            if own is not None and not isinstance(own, (str, os.PathLike)):
                costs.append((f"policy.{place}.costs", own))
                del policy["costs"]
        prepared.path = prepared.keep(name, _toml.document(table))
    for key, own in costs:
        if isinstance(own, Mapping) or not callable(own):
            text = costs_text(key, own)
        else:
            text = asked_costs(key, own, prepared)
        path = prepared.keep("costs", text)
        prepared.overrides.append(f"{key}={_toml.value(path)}")
    return prepared


def _copied(given: Mapping[str, Any]) -> dict[str, Any]:
    return {str(key): value for key, value in given.items()}


def _forget_policies(table: dict[str, Any]) -> None:
    """Removes what names policies that are replaced."""
    figure = table.get("output", {}).get("figure", {})
    for key in ("order", "label"):
        figure.pop(key, None)
    sweep = table.get("sweep")
    if sweep is not None:
        table["sweep"] = {key: values for key, values in sweep.items() if key.split(".")[0] != "policy"}


def costs_text(key: str, given: Any) -> str:
    """A cost table as CSV: of a `Table`, a DataFrame, a dict of columns or a list of rows.

    Raises InputError with the key for a table that lacks a column or a value.
    """
    columns = _columns(key, given)
    needed = ["cell", "batch", "ns"]
    missing = [name for name in needed if name not in columns]
    if missing:
        raise _batchlab.InputError(
            f"{key}: has no column {missing[0]}; a cost table has cell, batch and ns, and input for cells whose time "
            "depends on it"
        )
    names = [name for name in ("cell", "input", "batch", "ns") if name in columns]
    if len({len(columns[name]) for name in names}) > 1:
        lengths = ", ".join(f"{name} has {len(columns[name])}" for name in names)
        raise _batchlab.InputError(f"{key}: the columns have different numbers of values: {lengths}")
    lines = [",".join(names)]
    for row in zip(*(columns[name] for name in names)):
        lines.append(",".join(_field(value) for value in row))
    return "\n".join(lines) + "\n"


def _field(value: Any) -> str:
    if value is None or value != value:
        return ""  # pandas has NaN where a value is missing
    if isinstance(value, str):
        return value
    return str(round(value))


def _columns(key: str, given: Any) -> dict[str, list[Any]]:
    if hasattr(given, "table") and isinstance(given.table, Table):
        given = given.table
    if isinstance(given, Table):
        return {name: given[name] for name in given.columns}
    if isinstance(given, Mapping):
        return {str(name): _options.require_list(f"{key}: {name}", values) for name, values in given.items()}
    if isinstance(given, (list, tuple)) and all(isinstance(row, Mapping) for row in given):
        names = list(given[0]) if given else []
        for place, row in enumerate(given):
            if row.keys() != given[0].keys():
                raise _batchlab.InputError(f"{key}: row {place} has the keys {list(row)}, but row 0 has {names}")
        return {str(name): [row[name] for row in given] for name in names}
    if hasattr(given, "columns") and hasattr(given, "__getitem__"):
        return {str(name): list(given[name]) for name in given.columns}
    raise TypeError(
        f"{key}: {type(given).__name__} is no cost table; give a Table, a DataFrame, a dict of columns, "
        "a list of dicts or a function (cell, batch, length) -> ns"
    )


# The most sizes that a cost function is asked for.
MOST_SIZES = 200_000


def asked_costs(key: str, function: Any, prepared: Prepared) -> str:
    """The cost table of a function, which is asked once for each size."""
    cells, longest = _batchlab.sizes(prepared.path, prepared.overrides, prepared.kinds.classes)
    sized = any(is_sized for _, is_sized, _ in cells)
    lines = ["cell,input,batch,ns" if sized else "cell,batch,ns"]
    for cell, is_sized, largest in cells:
        lengths = range(1, longest + 1) if is_sized else [0]
        if largest * len(lengths) > MOST_SIZES:
            raise _batchlab.InputError(
                f"{key}: the function would be asked for {largest * len(lengths)} sizes of {cell}; the most are "
                f"{MOST_SIZES}; give the policies a smaller max_batch, or a table"
            )
        for length in lengths:
            for batch in range(1, largest + 1):
                time = function(cell, batch, length)
                if not time >= 0:
                    raise _batchlab.InputError(
                        f"{key}: the function gives {time!r} for {cell}, {batch}, {length}; a time is a number of "
                        "nanoseconds of at least 0"
                    )
                size = f"{length}," if is_sized else "," if sized else ""
                lines.append(f"{cell},{size}{batch},{round(time)}")
    return "\n".join(lines) + "\n"


def scenario(
    scenario: ScenarioLike,
    *,
    set: Mapping[str, Any] | None = None,
    seed: int | None = None,
    policies: Any = None,
) -> dict[str, Any]:
    """The scenario as a dict, with every key and its effective value.

    scenario: a name that `scenarios` lists, the path of a file, or a dict.
    set: keys to change, such as {"device.workers": 2}.
    seed: the seed of every random choice, instead of the scenario's.
    policies: replace the scenario's policies; see `sim`.

    Raises InputError for a mistake in the scenario, with the key.
    """
    import json

    _options.require_seed(seed)
    prepared = prepare(scenario, set=set, policies=policies)
    text = _batchlab.resolved_scenario(prepared.path, prepared.overrides, seed, prepared.kinds.classes)
    resolved: dict[str, Any] = json.loads(text)
    return resolved


def scenarios() -> Table:
    """The scenarios that come with batchlab: their names, and a line about each."""
    rows = _batchlab.scenarios()
    return _batchlab.table([("name", [name for name, _ in rows]), ("about", [about for _, about in rows])])


def policies() -> Table:
    """The kinds of policies that come with batchlab: a line about each, and its keys with their defaults as JSON."""
    rows = _batchlab.policies()
    return _batchlab.table(
        [
            ("kind", [kind for kind, _, _ in rows]),
            ("about", [about for _, about, _ in rows]),
            ("keys", [keys for _, _, keys in rows]),
        ]
    )
