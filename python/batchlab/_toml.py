"""Values of Python as TOML."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any


def value(given: Any, key: str = "") -> str:
    """A value as TOML, on one line.

    Raises TypeError for a value that TOML does not have, with the key.
    """
    if hasattr(given, "tolist"):
        given = given.tolist()  # a number or an array of NumPy
    if isinstance(given, bool):
        return "true" if given else "false"
    if isinstance(given, int):
        return str(given)
    if isinstance(given, float):
        if math.isnan(given):
            return "nan"
        if math.isinf(given):
            return "inf" if given > 0 else "-inf"
        return repr(given)
    if isinstance(given, str):
        return text(given)
    if isinstance(given, Mapping):
        entries = []
        for name, below in given.items():
            if below is not None:
                entries.append(f"{quoted(str(name))} = {value(below, f'{key}.{name}' if key else str(name))}")
        return "{ " + ", ".join(entries) + " }" if entries else "{}"
    if isinstance(given, (list, tuple, range)):
        return "[" + ", ".join(value(item, key) for item in given) + "]"
    if hasattr(given, "__fspath__"):
        return text(str(given.__fspath__()))
    raise TypeError(f"{key}: {type(given).__name__} is no value of a scenario; numbers, texts, lists and dicts are")


def text(given: str) -> str:
    """A text of TOML; the escapes are those of JSON."""
    import json

    return json.dumps(given, ensure_ascii=False)


def quoted(key: str) -> str:
    """A key of TOML."""
    if key and all(letter.isascii() and (letter.isalnum() or letter in "-_") for letter in key):
        return key
    return text(key)


def document(table: Mapping[str, Any]) -> str:
    """A table as a document of TOML, a line for each key; nested tables are inline."""
    lines = []
    for name, below in table.items():
        if below is not None:
            lines.append(f"{quoted(str(name))} = {value(below, str(name))}")
    return "\n".join(lines) + "\n"
