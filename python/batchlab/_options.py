"""Keyword arguments as the options of a command."""

from __future__ import annotations

import operator
import os
from collections.abc import Mapping
from typing import Any

from . import _batchlab, _toml


def arguments(options: Mapping[str, Any]) -> list[str]:
    """The options of a command: `x_scale="log"` is `--x-scale=log`; True is a flag, a list repeats the option,
    a dict gives KEY=VALUE, and a tuple is one value with parts, such as `x_range=(0, 10)`.
    """
    given = []
    for name, value in options.items():
        option = "--" + name.rstrip("_").replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            given.append(option)
            continue
        if isinstance(value, Mapping):
            value = [f"{key}={text(part)}" for key, part in value.items()]
        if isinstance(value, tuple):
            between = ".." if name.endswith("range") else ","
            value = between.join(text(part) for part in value)
        for part in value if isinstance(value, list) else [value]:
            given.append(f"{option}={text(part)}")
    return given


def text(value: Any) -> str:
    """A value as the command line has it."""
    if isinstance(value, str):
        return value
    if isinstance(value, os.PathLike):
        return str(os.fspath(value))
    if isinstance(value, (list, tuple, range)):
        return ",".join(text(part) for part in value)
    return _toml.value(value)


# The largest size or count: these have 32 bits.
MOST = (1 << 32) - 1


def require_whole(name: str, value: Any, least: int = 1, most: int = MOST) -> None:
    """Refuses an argument that is no whole number within its bounds, and not None either.

    Raises InputError with the name of the argument.
    """
    if value is None:
        return
    try:
        whole = operator.index(value)
    except TypeError:
        whole = None
    if whole is None or isinstance(value, bool) or not least <= whole <= most:
        raise _batchlab.InputError(f"{name}: {value!r} is not a whole number from {least} to {most}")


def require_list(name: str, values: Any) -> list[Any]:
    """The values of a list, an array and so on.

    Raises TypeError with the name of the argument for a single value, which a text or a dict is, too.
    """
    if isinstance(values, (str, bytes, Mapping)) or not hasattr(values, "__iter__"):
        raise TypeError(f"{name}: must be a list of values, such as [1, 2, 4], not {values!r}")
    return list(values)


def require_seed(seed: Any) -> None:
    """Refuses what is no seed."""
    require_whole("seed", seed, 0, (1 << 64) - 1)
