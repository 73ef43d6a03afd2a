"""Measured cost tables of functions."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from . import _batchlab, _options, _progress
from ._batchlab import Table

if TYPE_CHECKING:
    import pandas
    import polars


class Costs:
    """A measured cost table: a row for each size, with the median time and the deviation of single calls in
    nanoseconds.

    Give it to `sim` as `set={"device.costs": costs}`. `noise` says how the times of calls wandered. `notes` says
    whether the table can be used, and if not, why.
    """

    def __init__(self, table: Table, noise: Table, texts: tuple[str, str]) -> None:
        self.table = table
        self.noise = noise
        self._texts = texts

    def save(self, path: str | os.PathLike[str]) -> str:
        """Writes the table as CSV, with noise.csv beside it, and returns the path."""
        file = os.fspath(path)
        costs, noise = self._texts
        with open(file, "w", encoding="utf-8") as out:
            out.write(costs)
        with open(os.path.join(os.path.dirname(file), "noise.csv"), "w", encoding="utf-8") as out:
            out.write(noise)
        return file

    @property
    def notes(self) -> list[str]:
        """Whether the table can be used, and if not, why and what to do."""
        return self.table.notes

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return self.table.columns

    def __len__(self) -> int:
        return len(self.table)

    def __getitem__(self, name: str) -> list[Any]:
        return self.table[name]

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)

    def to_pandas(self) -> pandas.DataFrame:
        """The table as a DataFrame of pandas."""
        return self.table.to_pandas()

    def to_polars(self) -> polars.DataFrame:
        """The table as a DataFrame of polars."""
        return self.table.to_polars()

    def __repr__(self) -> str:
        return repr(self.table)

    def _repr_html_(self) -> str:
        return self.table._repr_html_()


def profile(
    function: Callable[..., Any],
    batches: Sequence[int] | None = None,
    lengths: Sequence[int] | None = None,
    repeats: int = 5,
    *,
    cell: str = "lstm",
    largest: int = 64,
) -> Costs:
    """Measures any function f(batch) or f(batch, length) as a cost table, such as a network of PyTorch or a client.

    The function returns when the batch is done: a GPU has to be waited for. Each repeat visits all sizes in a random
    order, in blocks of a few sizes; a fit separates the costs of sizes from what slows the machine for a while; sizes
    whose times are doubtful are visited again.

    batches: the batch sizes. Without them, powers of two up to `largest`, and the ends of stairs between them.
    lengths: the lengths, for a function of two arguments.
    repeats: visits of each size.
    cell: the name of the cell for which the times are, as the scenario's model has it.

    Raises what the function raises, with a note of the size; InputError for a wrong number.
    """
    sizes = _require_sizes("batches", batches)
    inputs = _require_sizes("lengths", lengths)
    _options.require_whole("repeats", repeats)
    _options.require_whole("largest", largest)
    with _progress.show("profile") as report:
        texts = _batchlab.profile(
            function,
            cell=cell,
            batches=sizes,
            inputs=inputs,
            largest=largest,
            repeats=repeats,
            report=report,
        )
    costs, noise, sentence = texts
    return Costs(_table(costs).with_notes([sentence]), _table(noise), (costs, noise))


def _require_sizes(name: str, given: Sequence[int] | None) -> list[int]:
    """The sizes in order, each once; none if none are given."""
    sizes = [] if given is None else _options.require_list(name, given)
    for size in sizes:
        _options.require_whole(name, size)
    return sorted(set(sizes))


def _table(text: str) -> Table:
    import csv

    header, *rows = csv.reader(line for line in text.splitlines() if not line.startswith("#"))
    columns = list(zip(*rows)) if rows else [() for _ in header]
    return _batchlab.table(
        [(name, [value if value else None for value in column]) for name, column in zip(header, columns)]
    )
