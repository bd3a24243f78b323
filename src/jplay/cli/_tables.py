"""Tables of samples in files: CSV, Parquet, NPZ, MAT."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from jplay._optional import import_optional

TABLE_SUFFIXES = (".csv", ".tsv", ".txt", ".parquet", ".pq")
ARRAY_SUFFIXES = (".npz", ".mat")


@dataclass(frozen=True, eq=False)
class Table:
    """Samples, their targets where asked for, and the names of their features where known."""

    X: Any
    y: Any
    feature_names: list[str] | None


def read_table(path, *, target=(), feature_names=None, features="X"):
    """Read samples from a file.

    Parameters
    ----------
    path : Path
    target : sequence of str
        Columns, or for NPZ and MAT arrays, with the target; several make a multi-label target.
    feature_names : list of str, optional
        Columns to take, in this order; all but the target by default.
    features : str
        Array with the samples, for NPZ and MAT.
    """
    if not path.exists():
        raise FileNotFoundError(f"The table '{path}' does not exist. Check the name.")
    suffix = path.suffix.lower()
    if suffix in TABLE_SUFFIXES:
        return _from_frame(path, _read_frame(path), list(target), feature_names)
    if suffix in ARRAY_SUFFIXES:
        return _from_arrays(path, list(target), features)
    raise ValueError(
        f"'{path}' should be a table ({', '.join(TABLE_SUFFIXES + ARRAY_SUFFIXES)}). For an image, "
        "use jplay fit with --labels, and jplay map."
    )


def _read_frame(path):
    pandas = import_optional("pandas", feature="Reading tables", extra="table")
    try:
        if path.suffix.lower() in (".parquet", ".pq"):
            return pandas.read_parquet(path)
        separator = "\t" if path.suffix.lower() == ".tsv" else ","
        return pandas.read_csv(path, sep=separator)
    except ImportError:
        raise
    except Exception as error:  # parsers raise whatever a damaged byte leads them to
        raise ValueError(f"'{path}' cannot be read as a table ({error}).") from error


def _from_frame(path, frame, target, feature_names):
    frame.columns = [str(name) for name in frame.columns]
    _check_columns(path, frame, target, "--target")
    if feature_names is None:
        feature_names = [name for name in frame.columns if name not in target]
    else:
        _check_columns(path, frame, feature_names, "the model's features")
    X = frame[feature_names]
    for name in feature_names:
        if X[name].dtype.kind not in "biuf":
            raise ValueError(
                f"Column '{name}' of '{path}' should hold numbers, found e.g. "
                f"{X[name].iloc[0] if len(X) else None!r}. Drop it, encode it, or is it the "
                "--target?"
            )
        missing = int(X[name].isna().sum())
        if missing:
            raise ValueError(
                f"Column '{name}' of '{path}' lacks {missing} of {len(X)} values. Fill or drop "
                "those rows first."
            )
    if not len(X):
        raise ValueError(f"'{path}' has no rows.")
    return Table(X=X, y=_target(path, frame, target), feature_names=list(feature_names))


def _check_columns(path, frame, wanted, what):
    missing = [name for name in wanted if name not in frame.columns]
    if missing:
        shown = ", ".join(map(repr, missing[:8]))
        have = ", ".join(map(repr, frame.columns[:8]))
        raise ValueError(
            f"'{path}' lacks {len(missing)} of {what}: {shown}"
            f"{' ...' if len(missing) > 8 else ''}. Its columns are {have}"
            f"{' ...' if len(frame.columns) > 8 else ''}."
        )


def _target(path, frame, target):
    if not target:
        return None
    for name in target:
        if frame[name].isna().any():
            raise ValueError(
                f"Column '{name}' of '{path}' lacks {int(frame[name].isna().sum())} labels. Drop "
                "those rows first."
            )
    values = frame[target].to_numpy()
    if len(target) > 1:
        if not np.isin(values, (0, 1)).all():
            raise ValueError(
                f"Several --target columns should hold 0 and 1 (a multi-label target); found "
                f"others in '{path}'."
            )
        return values.astype(int)
    column = frame[target[0]].to_numpy()
    if column.dtype.kind in "biu":
        return column
    if column.dtype.kind == "f" and (column == column.astype(int)).all():
        return column.astype(int)
    return np.array([str(value) for value in column])


def _from_arrays(path, target, features):
    from jplay.datasets._readers import read_arrays

    arrays = read_arrays(path) if path.suffix.lower() == ".mat" else _read_npz(path)
    tables = {
        name: value
        for name, value in arrays.items()
        if value.ndim == 2 and min(value.shape) > 1 and name not in target
    }
    if features in tables:
        X = tables[features]
    elif len(tables) == 1:
        X = next(iter(tables.values()))
    else:
        raise ValueError(
            f"'{path}' should hold the samples in an array named {features!r}; its tables are "
            f"{', '.join(tables) or 'none'}. Name one with --features."
        )
    if X.dtype.kind not in "biuf":
        raise ValueError(f"The samples of '{path}' should be numbers, got {X.dtype}.")
    X = X if X.dtype.kind == "f" else X.astype(np.float64)
    y = None
    if target:
        missing = [name for name in target if name not in arrays]
        if missing:
            raise ValueError(
                f"'{path}' has no array {missing[0]!r}; it has {', '.join(arrays) or 'none'}."
            )
        columns = [np.squeeze(arrays[name]) for name in target]
        y = columns[0] if len(columns) == 1 else np.column_stack(columns)
        if len(y) != len(X):
            raise ValueError(
                f"'{path}' has {len(X)} samples and {len(y)} targets. Store one sample per row."
            )
        y = y.astype(int) if y.dtype.kind == "f" and (y == y.astype(int)).all() else y
    return Table(X=X, y=y, feature_names=None)


def _read_npz(path):
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except Exception as error:
        raise ValueError(f"'{path}' cannot be read as NPZ ({error}).") from error


def write_columns(path, columns):
    """Write named columns as CSV, Parquet or NPZ by the name's suffix, complete or not at all."""
    from jplay.persistence import atomic_path

    suffix = Path(path).suffix.lower()
    if suffix not in (*TABLE_SUFFIXES, ".npz"):
        raise ValueError(f"'{path}' should end in .csv, .tsv, .parquet or .npz.")
    with atomic_path(path) as temporary:
        if suffix == ".npz":
            with temporary.open("wb") as file:
                np.savez_compressed(file, **columns)
            return
        pandas = import_optional("pandas", feature="Writing tables", extra="table")
        frame = pandas.DataFrame(columns)
        if suffix in (".parquet", ".pq"):
            frame.to_parquet(temporary, index=False)
        else:
            frame.to_csv(temporary, index=False, sep="\t" if suffix == ".tsv" else ",")
