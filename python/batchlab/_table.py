"""Tables of results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._batchlab import Table as Native

if TYPE_CHECKING:
    import pandas
    import polars

__all__ = ["Table", "to_pandas", "to_polars"]


def to_polars(table: Native) -> polars.DataFrame:
    """The table as a DataFrame of polars, without copies."""
    import polars

    frame = polars.DataFrame(table)
    return frame


def to_pandas(table: Native) -> pandas.DataFrame:
    """The table as a DataFrame of pandas. Whole numbers with missing values are of the type Int64."""
    import numpy
    import pandas

    columns: dict[str, Any] = {}
    for name in table.columns:
        kind, values, missing, names = table._buffers(name)
        if kind == "str":
            columns[name] = values
            continue
        if kind == "category":
            codes = numpy.frombuffer(values, dtype="int32")
            if missing is not None:
                codes = numpy.where(numpy.frombuffer(missing, dtype=bool), -1, codes)
            columns[name] = pandas.Categorical.from_codes(codes, categories=names)
            continue
        array = numpy.frombuffer(values, dtype=kind)
        if missing is None:
            columns[name] = array
        elif kind == "int64":
            mask = numpy.frombuffer(missing, dtype=bool)
            columns[name] = pandas.arrays.IntegerArray(array.copy(), mask.copy())
        elif kind == "bool":
            mask = numpy.frombuffer(missing, dtype=bool)
            columns[name] = pandas.arrays.BooleanArray(array.copy(), mask.copy())
        else:
            columns[name] = numpy.where(numpy.frombuffer(missing, dtype=bool), numpy.nan, array)
    return pandas.DataFrame(columns)


Table = Native
