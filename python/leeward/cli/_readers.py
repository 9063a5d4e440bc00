"""Reads a table for `leeward fit`: CSV, Parquet or LIBSVM into columns, a target, groups and weights.

With pandas the features are a DataFrame, without it an object array with the same columns; LIBSVM files give a CSR matrix.
What cannot be used (a missing target, a column of free text) is an error that names the column.
"""

from __future__ import annotations

import csv
import gzip
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["Table", "read_table"]

_FORMATS = {
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".libsvm": "libsvm",
    ".svm": "libsvm",
    ".svmlight": "libsvm",
}
_MISSING = ("", "na", "nan", "n/a", "null", "none", "?")
_MOST_CATEGORIES = 200


@dataclass
class Table:
    """A read table: what the model sees and what it does not.

    `numeric` and `categorical` select columns of `X`, by name for a DataFrame and by position for an array; `labels` are their
    names. For a LIBSVM file both are empty and `X` is a CSR matrix.
    """

    X: Any
    y: Any
    groups: Any = None
    weight: Any = None
    numeric: list[Any] = field(default_factory=list)
    categorical: list[Any] = field(default_factory=list)
    missing: dict[str, int] = field(default_factory=dict)


def read_table(arguments: Any) -> Table:
    """The table of the command line's file and column options."""
    path = Path(arguments.data)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {str(path)!r}")
    kind = arguments.format or _kind_of(path)
    if kind == "libsvm":
        return _read_libsvm(path, arguments)
    if arguments.target is None:
        raise ValueError("--target COLUMN is needed: the column to predict")
    columns = _read_parquet(path) if kind == "parquet" else _read_csv(path)
    return _table(columns, arguments)


def _kind_of(path: Path) -> str:
    suffix = Path(path.stem).suffix if path.suffix == ".gz" else path.suffix
    if suffix.lower() not in _FORMATS:
        raise ValueError(f"cannot tell the format of {path.name!r} from its name; give --format csv, parquet or libsvm")
    return _FORMATS[suffix.lower()]


def _read_libsvm(path: Path, arguments: Any) -> Table:
    for option in ("target", "group", "weight", "drop"):
        if getattr(arguments, option):
            raise ValueError(f"--{option} needs named columns, which a LIBSVM file has not")
    from sklearn.datasets import load_svmlight_file

    try:
        X, y = load_svmlight_file(str(path))
    except ValueError as error:
        raise ValueError(f"{path.name} is not a LIBSVM file: {error}") from error
    return Table(X, y)


def _read_parquet(path: Path) -> Any:
    pd = _pandas()
    if pd is None:
        raise ImportError("reading Parquet needs pandas and pyarrow: pip install pandas pyarrow")
    return pd.read_parquet(path)


def _read_csv(path: Path) -> Any:
    delimiter = _delimiter(path)
    pd = _pandas()
    if pd is None:
        return _read_csv_plainly(path, delimiter)
    try:
        return pd.read_csv(path, sep=delimiter, na_values=["?"], skipinitialspace=True, low_memory=False)
    except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError) as error:
        raise ValueError(f"{path.name} is not a CSV table: {error}") from error


def _pandas() -> Any:
    try:
        import pandas
    except ImportError:
        return None
    return pandas


def _open(path: Path) -> Any:
    return gzip.open(path, "rt", newline="") if path.suffix == ".gz" else open(path, newline="", encoding="utf-8-sig")


def _delimiter(path: Path) -> str:
    """The separator that occurs most in the header line."""
    with _open(path) as file:
        try:
            header = file.readline()
        except UnicodeDecodeError as error:
            raise ValueError(f"{path.name} is not a text file in UTF-8: {error}") from error
    return max(",;\t|", key=header.count)


def _read_csv_plainly(path: Path, delimiter: str) -> dict[str, Any]:
    """Columns of float64 where every entry is a number or missing, else of strings with None for a missing one."""
    with _open(path) as file:
        rows = list(csv.reader(file, delimiter=delimiter, skipinitialspace=True))
    if not rows:
        raise ValueError(f"{path.name} is empty")
    header, body = rows[0], [row for row in rows[1:] if row]
    for number, row in enumerate(body, start=2):
        if len(row) != len(header):
            raise ValueError(f"{path.name}: row {number} has {len(row)} entries, the header has {len(header)}")
    return {name: _column([row[j] for row in body]) for j, name in enumerate(header)}


def _column(texts: list[str]) -> Any:
    gone = [text.strip().lower() in _MISSING for text in texts]
    try:
        return np.array([np.nan if none else float(text) for text, none in zip(texts, gone, strict=True)])
    except ValueError:
        return np.array([None if none else text for text, none in zip(texts, gone, strict=True)], dtype=object)


def _table(columns: Any, arguments: Any) -> Table:
    names = [str(name) for name in (columns.columns if hasattr(columns, "columns") else columns)]
    if hasattr(columns, "columns"):
        columns.columns = names
    apart = [name for name in (arguments.target, arguments.group, arguments.weight) if name is not None]
    for name in [*apart, *arguments.drop]:
        if name not in names:
            raise ValueError(f"there is no column {name!r}; the columns are {', '.join(names)}")
    if len(set(apart)) < len(apart):
        raise ValueError("--target, --group and --weight must be different columns")
    for name in apart:
        _refuse_missing(name, columns[name])
    features = [name for name in names if name not in {*apart, *arguments.drop}]
    if not features:
        raise ValueError("no column is left to predict from")
    if len(columns[arguments.target]) == 0:
        raise ValueError("the table has no rows")
    kinds = {name: _kind(name, columns[name]) for name in features}
    gaps = {name: int(_missing(columns[name]).sum()) for name in features}
    gaps = {name: count for name, count in gaps.items() if count}
    if gaps and not arguments.impute:
        name = next(iter(gaps))
        more = "" if len(gaps) == 1 else f" (and {len(gaps) - 1} more columns have some)"
        raise ValueError(
            f"column {name!r} has {gaps[name]} missing values{more}; fill them with --impute or leave it out with --drop {name}"
        )
    frame = hasattr(columns, "columns")
    X = _plain_frame(columns[features], kinds) if frame else np.array([columns[n] for n in features], dtype=object).T
    where = features if frame else list(range(len(features)))
    return Table(
        X=X,
        y=_values(columns[arguments.target]),
        groups=None if arguments.group is None else _values(columns[arguments.group]).astype(str),
        weight=None if arguments.weight is None else _weights(arguments.weight, columns[arguments.weight]),
        numeric=[w for w, name in zip(where, features, strict=True) if kinds[name] == "number"],
        categorical=[w for w, name in zip(where, features, strict=True) if kinds[name] == "category"],
        missing=gaps,
    )


def _missing(column: Any) -> Any:
    if hasattr(column, "isna"):
        return column.isna().to_numpy()
    return np.array([value is None or value != value for value in column])


def _values(column: Any) -> Any:
    return np.array(column.tolist()) if hasattr(column, "tolist") else np.array(column)


def _weights(name: str, column: Any) -> Any:
    try:
        return _values(column).astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"the weights in column {name!r} must be numbers: {error}") from error


def _refuse_missing(name: str, column: Any) -> None:
    gone = _missing(column)
    if gone.any():
        raise ValueError(
            f"column {name!r} has {int(gone.sum())} missing values, the first in data row {int(np.argmax(gone)) + 1}"
        )


def _kind(name: str, column: Any) -> str:
    """'number' or 'category', or an error for what is neither."""
    values = column.to_numpy() if hasattr(column, "to_numpy") else column
    letter = getattr(column.dtype, "kind", values.dtype.kind)
    if letter in "mM":
        raise ValueError(
            f"column {name!r} holds dates or times; turn it into numbers or leave it out with --drop {name}"
        )
    if letter in "biuf" and str(column.dtype) != "category":
        infinite = np.isinf(np.array(column[~_missing(column)], dtype=np.float64))
        if infinite.any():
            raise ValueError(
                f"column {name!r} has {int(infinite.sum())} infinite values; leave it out with --drop {name}"
            )
        return "number"
    distinct = len({value for value in values if value is not None and value == value})
    if distinct > _MOST_CATEGORIES and distinct > 0.05 * len(values):
        raise ValueError(
            f"column {name!r} has {distinct} different texts in {len(values)} rows, too many for categories; "
            f"leave it out with --drop {name}"
        )
    return "category"


def _plain_frame(frame: Any, kinds: dict[str, str]) -> Any:
    """Numbers as float64 and categories as objects, whatever extension types the file gave."""
    plain = {}
    for name in frame.columns:
        if kinds[name] == "number":
            plain[name] = frame[name].astype("float64")
        else:
            plain[name] = frame[name].astype(object).where(~frame[name].isna(), None)
    return type(frame)(plain)
