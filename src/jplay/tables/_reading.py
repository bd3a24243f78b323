"""Read samples and their targets from CSV, TSV, Parquet, Excel, NPZ and MAT files."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np

from jplay._archives import SMALL_FILE_BYTES, check_shapes, check_table
from jplay._optional import import_optional
from jplay._text import some_of
from jplay.tables._excel import check_workbook
from jplay.tables._text import check_distinct, check_width, text_format

TEXT_SUFFIXES = (".csv", ".tsv", ".txt")
PARQUET_SUFFIXES = (".parquet", ".pq")
EXCEL_SUFFIXES = (".xlsx", ".xlsm")
COLUMN_SUFFIXES = (*TEXT_SUFFIXES, *PARQUET_SUFFIXES, *EXCEL_SUFFIXES)
ARRAY_SUFFIXES = (".npz", ".mat")
MISSING_REMEDY = "Fit with --impute median to fill them, or drop those rows."
OTHER_SPREADSHEETS = (".xls", ".xlsb", ".ods")

SAMPLE_ARRAYS = ("X", "data", "fea")
TARGET_ARRAYS = ("y", "target", "labels", "gnd")
DIVIDED_ARRAYS = ("X_train", "y_train", "X_test", "y_test")

UNNAMED = "Unnamed: "
"""How pandas calls columns without a name: those that it wrote as index itself."""
NO_CLASSES = ("inf", "-inf", "+inf", "infinity", "-infinity", "nan")
ROWS_AT_ONCE = 100_000


@dataclass(frozen=True, eq=False)
class SampleTable:
    """Samples of a file.

    Attributes
    ----------
    X : DataFrame or ndarray of shape (n_samples, n_features)
        A frame of files with columns, an array of NPZ and MAT files.
    y : ndarray of shape (n_samples,) or (n_samples, n_labels), or None
    feature_names : list of str or None
        Unknown for arrays.
    n_train : int or None
        How many of the first samples are for training, if the file divides them.
    groups : ndarray of shape (n_samples,) or None
        Which samples belong together.
    ids : dict of str to ndarray of shape (n_samples,)
        Columns that name the samples.
    notes : list of str
        What was noticed in the file and should be told.
    """

    X: Any
    y: Any
    feature_names: list[str] | None = None
    n_train: int | None = None
    groups: Any = None
    ids: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Columns:
    """Which columns or arrays of a file are what; see :func:`read_table`."""

    target: Sequence[str] | None = None
    feature_names: Sequence[str] | None = None
    samples: str | None = None
    drop: Sequence[str] = ()
    ids: Sequence[str] = ()
    group: str | None = None
    encode: Sequence[str] = ()
    allow_missing: bool = False

    @property
    def named(self):
        """The columns that are named, and no features."""
        groups = () if self.group is None else (self.group,)
        return [*(self.target or ()), *self.drop, *self.ids, *groups]


def check_table_path(path):
    """Raise an error unless the file is there and its suffix is that of a table."""
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix in OTHER_SPREADSHEETS:
        raise ValueError(f"'{path}' should be saved as .xlsx, CSV or Parquet first.")
    if suffix not in COLUMN_SUFFIXES + ARRAY_SUFFIXES:
        raise ValueError(
            f"'{path}' should be a table ({', '.join(COLUMN_SUFFIXES + ARRAY_SUFFIXES)}). For an "
            "image, use jplay fit with --labels, and jplay map."
        )
    if not path.exists():
        raise FileNotFoundError(f"The table '{path}' does not exist. Check the name.")


def read_table(path, **columns):
    """Read samples from a file.

    Separators, decimal commas and byte order marks of text files are found out. A column without
    a name before the others, as pandas and R write the index, is left out.

    Parameters
    ----------
    path : path-like
        ``.csv``, ``.txt``, ``.tsv``, ``.parquet`` or ``.xlsx`` with named columns, one sample per
        row; ``.npz`` or ``.mat`` with arrays.
    target : str, sequence of str or None, default=None
        Columns or arrays with the target; several make a multi-label target, and an empty
        sequence reads none. ``None`` takes what is customary: the last column, or the array ``y``,
        ``target``, ``labels`` or ``gnd``, or a division into ``X_train``, ``y_train``, ``X_test``
        and ``y_test``.
    feature_names : list of str, optional
        Columns to take, in this order; by default all that are nothing else.
    samples : str, optional
        Array with the samples, for NPZ and MAT; by default ``X``, ``data`` or ``fea``, or the
        only table.
    drop : sequence of str, default=()
        Columns to leave out.
    ids : sequence of str, default=()
        Columns or arrays that name the samples.
    group : str, optional
        Column or array that tells which samples belong together.
    encode : sequence of str, default=()
        Features whose values are kept as text, for an encoder.
    allow_missing : bool, default=False
        Whether features may lack values.

    Returns
    -------
    SampleTable

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import mkdtemp
    >>> import numpy as np
    >>> from jplay.tables import read_table
    >>> path = Path(mkdtemp()) / "samples.npz"
    >>> np.savez(path, X=np.eye(3), y=[1, 2, 2])
    >>> table = read_table(path, target="y")
    >>> table.X.shape, table.y.tolist()
    ((3, 3), [1, 2, 2])
    """
    return next(_tables(Path(path), _columns(columns), None))


def iter_table(path, *, n_rows=ROWS_AT_ONCE, **columns) -> Iterator[SampleTable]:
    """Read samples from a file, so many rows at a time.

    Text and Parquet files are never in memory as a whole.

    Parameters
    ----------
    path : path-like
    n_rows : int, default=100_000
    **columns
        As for :func:`read_table`.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import mkdtemp
    >>> import numpy as np
    >>> from jplay.tables import iter_table
    >>> path = Path(mkdtemp()) / "samples.npz"
    >>> np.savez(path, X=np.ones((5, 3)))
    >>> [len(table.X) for table in iter_table(path, target=(), n_rows=2)]
    [2, 2, 1]
    """
    return _tables(Path(path), _columns(columns), n_rows)


def read_frame(path):
    r"""Read a file as a data frame with all its columns, whatever they hold.

    Parameters
    ----------
    path : path-like
        As for :func:`read_table`. The arrays of a ``.npz`` or ``.mat`` file become columns named
        by numbers, and ``target``.

    Returns
    -------
    pandas.DataFrame

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import mkdtemp
    >>> from jplay.tables import read_frame
    >>> path = Path(mkdtemp()) / "samples.csv"
    >>> _ = path.write_text("width;kind\n1,5;wood\n")
    >>> read_frame(path).to_dict("list")
    {'width': [1.5], 'kind': ['wood']}
    """
    path = Path(path)
    check_table_path(path)
    if path.suffix.lower() in ARRAY_SUFFIXES:
        pandas = import_optional("pandas", feature="Reading tables", extra="table")
        table = read_table(path)
        frame = pandas.DataFrame(np.asarray(table.X)).assign(target=table.y)
    else:
        frame, _ = next(_frames(path, Columns(), None))
    frame.columns = [str(name) for name in frame.columns]
    check_distinct(path, frame.columns)
    if not len(frame):
        raise ValueError(f"'{path}' has no rows.")
    return frame[_without_unnamed(frame, list(frame.columns), Columns(), [])]


def _columns(given):
    target = given.pop("target", None)
    return Columns(target=[target] if isinstance(target, str) else target, **given)


def _tables(path, columns, n_rows):
    check_table_path(path)
    if path.suffix.lower() in COLUMN_SUFFIXES:
        empty = True
        for frame, notes in _frames(path, columns, n_rows):
            if len(frame):
                yield _from_columns(path, frame, columns, notes)
                empty = False
        if empty:
            raise ValueError(f"'{path}' has no rows.")
        return
    table = _from_arrays(path, _read_arrays(path), columns)
    n_rows = n_rows or max(1, len(table.X))
    for start in range(0, max(1, len(table.X)), n_rows):
        yield _rows_of(table, slice(start, start + n_rows))


def _rows_of(table, rows):
    if len(table.X) <= rows.stop - rows.start:
        return table
    return SampleTable(
        table.X[rows],
        None if table.y is None else table.y[rows],
        groups=None if table.groups is None else table.groups[rows],
        ids={name: values[rows] for name, values in table.ids.items()},
    )


def _frames(path, columns, n_rows):
    """Yield frames with the columns of a file, and what to note about it."""
    pandas = import_optional("pandas", feature="Reading tables", extra="table")
    suffix = path.suffix.lower()
    try:
        if suffix in PARQUET_SUFFIXES:
            yield from _parquet_frames(path, pandas, n_rows)
        elif suffix in EXCEL_SUFFIXES:
            yield _excel_frame(path, pandas), []
        else:
            yield from _text_frames(path, pandas, columns, n_rows)
    except UnicodeDecodeError as error:
        raise ValueError(
            f"'{path}' is no text that can be read: {error.reason} at byte {error.start}. Save it "
            "as UTF-8."
        ) from error
    except (ImportError, ValueError, OSError) as error:
        if type(error).__module__ == "builtins":
            raise
        raise _unreadable(path, error) from error
    except GeneratorExit:
        raise
    except Exception as error:  # parsers raise whatever a damaged byte leads them to
        raise _unreadable(path, error) from error


def _unreadable(path, error):
    return ValueError(
        f"'{path}' cannot be read as a table ({str(error).strip()}). Every row needs as many "
        "fields as the first."
        if type(error).__name__ == "ParserError"
        else f"'{path}' cannot be read as a table ({error}). It is damaged or of another kind."
    )


def _parquet_frames(path, pandas, n_rows):
    parquet = import_optional("pyarrow.parquet", feature="Reading Parquet files", extra="table")
    facts = parquet.read_metadata(path)
    check_width(path, facts.num_columns)
    at_once = facts.num_rows if n_rows is None else min(n_rows, facts.num_rows)
    check_shapes(path, [(at_once, facts.num_columns)], path.stat().st_size, SMALL_FILE_BYTES)
    if n_rows is None:
        yield pandas.read_parquet(path), []
        return
    with parquet.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=n_rows):
            yield batch.to_pandas(), []


def _excel_frame(path, pandas):
    import_optional("openpyxl", feature="Reading Excel files", extra="table")
    check_workbook(path)
    cells = pandas.read_excel(path, header=None)
    if not len(cells):
        return cells
    names = ["" if name != name else str(name).strip() for name in cells.iloc[0]]
    check_distinct(path, names)
    frame = cells.iloc[1:].infer_objects().reset_index(drop=True)
    frame.columns = _numbered(names)
    return frame


def _text_frames(path, pandas, columns, n_rows):
    found = text_format(path)
    names = _numbered(found.header)
    reading = {
        "sep": found.separator,
        "decimal": found.decimal,
        "encoding": found.encoding,
        "names": names,
        "header": 0,
        "skipinitialspace": True,
        "index_col": False,
        "low_memory": False,
    }
    notes = [found.note] if found.note else []
    with path.open("rb") as file:
        n_lines = sum(
            piece.count(b"\n") + piece.count(b"\r") for piece in iter(lambda: file.read(2**20), b"")
        )
    # Short rows are filled up to the width of the header.
    check_table(path, 8 * len(names) * min(n_lines, n_rows or n_lines))
    if n_rows is None:
        yield pandas.read_csv(path, **reading), notes
        return
    wanted = None
    if columns.feature_names is not None:
        wanted = [*columns.feature_names, *columns.named]
        _check_names(path, wanted, names, "column")
    with pandas.read_csv(path, **reading, usecols=wanted, chunksize=n_rows) as frames:
        for frame in frames:
            yield frame, notes


def _numbered(names):
    """Name columns without a name as pandas does."""
    return [name or f"{UNNAMED}{position}" for position, name in enumerate(names)]


def _from_columns(path, frame, columns, notes):
    frame.columns = [str(name) for name in frame.columns]
    check_distinct(path, frame.columns)
    names, notes = list(frame.columns), list(notes)
    if columns.feature_names is None:
        names = _without_unnamed(frame, names, columns, notes)
    target = names[-1:] if columns.target is None else list(columns.target)
    no_features = {*columns.named, *target}
    _check_names(path, [*target, *columns.named, *columns.encode], list(frame.columns), "column")
    features = columns.feature_names
    if features is None:
        features = [name for name in names if name not in no_features]
        if not features:
            raise ValueError(f"'{path}' should have a column beside the target, found none.")
    _check_names(path, features, list(frame.columns), "column")
    X = _features(path, frame, list(features), columns)
    _check_complete(path, frame, target, "Drop those rows, or label them.")
    y = _joined(path, [frame[name].to_numpy() for name in target])
    groups = None
    if columns.group is not None:
        _check_complete(path, frame, [columns.group], "Give every sample a group.")
        groups = frame[columns.group].to_numpy()
    ids = {name: frame[name].to_numpy() for name in columns.ids}
    return SampleTable(X, y, list(features), groups=groups, ids=ids, notes=notes)


def _without_unnamed(frame, names, columns, notes):
    """Leave out an index that was written without a name, and columns without anything."""
    kept = []
    for position, name in enumerate(names):
        if not name.startswith(UNNAMED) or name in columns.named:
            kept.append(name)
        elif position == 0:
            notes.append("The first column has no name: taken for row numbers and left out.")
        elif not frame[name].isna().all():
            kept.append(name)
    for name in kept[:1]:
        if name not in columns.named and _counts_rows(frame[name]):
            notes.append(f"Column {name!r} numbers the rows: leave it out with --id or --drop?")
    return kept


def _counts_rows(column):
    if column.dtype.kind not in "iu" or len(column) < 3:
        return False
    return bool((np.diff(column.to_numpy()) == 1).all())


def _features(path, frame, names, columns):
    X = frame[names].copy()
    text = []
    for name in names:
        if name in columns.encode:
            known = X[name].notna()
            X[name] = X[name].astype(object).where(~known, X[name].astype(str))
        elif X[name].dtype.kind not in "biuf":
            numbers = _decimal_commas(X[name])
            if numbers is None:
                text.append(name)
            else:
                X[name] = numbers
    if text:
        found = next((v for v in X[text[0]].dropna() if not _is_number(v)), None)
        which = (
            f"Column '{text[0]}'"
            if len(text) == 1
            else f"{len(text)} columns ({some_of(map(repr, text))})"
        )
        raise ValueError(
            f"{which} of '{path}' should hold numbers, found {found!r}. Correct it, fit with "
            f"--encode {text[0]!r} to turn its values into 0/1 columns, or leave it out with "
            "--drop or --id."
        )
    plain = [name for name in names if name not in columns.encode]
    values = X[plain]
    for name in values.columns[np.isinf(values.to_numpy(dtype=np.float64)).any(axis=0)]:
        raise ValueError(
            f"Column '{name}' of '{path}' holds an infinite value. Correct or drop it."
        )
    if not columns.allow_missing:
        _check_complete(path, frame, names, MISSING_REMEDY)
    return X


def _is_number(value):
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def _decimal_commas(column):
    """Numbers of text such as '1,5', or None if the text is none."""
    known = column.dropna().astype(str)
    if not len(known) or not known.str.fullmatch(r"\s*[+-]?\d+(,\d+)?\s*").all():
        return None
    return column.astype(str).str.replace(",", ".").where(column.notna()).astype(np.float64)


def _check_complete(path, frame, names, remedy):
    missing = frame[list(names)].isna().sum()
    missing = missing[missing > 0]
    if len(missing):
        others = f", and {len(missing) - 1} other columns lack some" if len(missing) > 1 else ""
        raise ValueError(
            f"Column '{missing.index[0]}' of '{path}' lacks {missing.iloc[0]} of {len(frame)} "
            f"values{others}. {remedy}"
        )


def _check_names(path, wanted, known, what):
    """Refuse names that a file lacks: tell the nearest one, and some of those it has."""
    missing = list(dict.fromkeys(name for name in wanted if name not in known))
    if not missing:
        return
    lacks = f"no {what} {missing[0]!r}"
    if len(missing) > 1:
        lacks = f"no {what}s {some_of(map(repr, missing))}"
    raise ValueError(
        f"'{path}' has {lacks}.{did_you_mean(missing[0], known)} "
        f"It has {some_of(map(repr, known))}."
    )


def did_you_mean(name, known):
    """Return a sentence with the known name nearest to a wrong one, or nothing."""
    close = get_close_matches(name.lower(), [other.lower() for other in known], n=1)
    meant = [other for other in known if close and other.lower() == close[0]]
    return f" Did you mean {meant[0]!r}?" if meant else ""


def _joined(path, columns):
    """Return the target of one column, the 0/1 table of several, or None."""
    if not columns:
        return None
    if len(columns) == 1:
        return _labels(path, columns[0])
    values = np.column_stack(columns)
    if not np.isin(values, (0, 1)).all():
        raise ValueError(
            f"Several targets should hold 0 and 1 (a multi-label target), found others in '{path}'."
        )
    return values.astype(int)


def _labels(path, values):
    """Return whole numbers as integers, and what is no whole number as text."""
    if values.dtype.kind in "biu":
        return values
    if values.dtype.kind == "f":
        if np.isnan(values).any():
            raise ValueError(f"The target of '{path}' lacks some values. Drop those rows first.")
        if np.isfinite(values).all() and (values == np.floor(values)).all():
            return values.astype(int)
    texts = np.array([str(value) for value in values])
    for name in np.unique(texts).tolist():
        if name.strip().lower() in NO_CLASSES:
            raise ValueError(
                f"The target of '{path}' has a class {name!r}, which reads as a number that is "
                "none. Give the class another name."
            )
    return texts


def _read_arrays(path):
    from jplay.datasets.readers import read_arrays, read_npz

    if path.suffix.lower() == ".mat":
        return read_arrays(path)
    try:
        return read_npz(path)
    except Exception as error:  # whatever a damaged byte leads NumPy to
        raise ValueError(f"'{path}' cannot be read as NPZ ({error}).") from error


def _from_arrays(path, arrays, columns):
    target, samples = columns.target, columns.samples
    if columns.drop or columns.encode:
        raise ValueError(
            f"'{path}' holds arrays, whose columns have no names to drop or encode. Store a CSV "
            "or Parquet file."
        )
    if target is None and samples is None and set(DIVIDED_ARRAYS) <= set(arrays):
        X = [_numbers(path, arrays[name]) for name in ("X_train", "X_test")]
        y = [np.ravel(arrays[name]) for name in ("y_train", "y_test")]
        for part, labels in zip(X, y, strict=True):
            _check_lengths(path, part, labels, "targets")
        return SampleTable(np.concatenate(X), _labels(path, np.concatenate(y)), n_train=len(X[0]))
    if target is None:
        target = [name for name in TARGET_ARRAYS if name in arrays][:1] or list(TARGET_ARRAYS[:1])
    _check_names(path, [*target, *columns.named], list(arrays), "array")
    X = _numbers(path, _samples(path, arrays, [*target, *columns.named], samples))
    y = _joined(path, [_vector(arrays[name]) for name in target])
    groups = None if columns.group is None else _vector(arrays[columns.group])
    ids = {name: _vector(arrays[name]) for name in columns.ids}
    for values, what in ((y, "targets"), (groups, "groups"), *((v, "ids") for v in ids.values())):
        if values is not None:
            _check_lengths(path, X, values, what)
    if not columns.allow_missing and np.isnan(X).any():
        raise ValueError(
            f"The samples of '{path}' lack {int(np.isnan(X).sum())} values. {MISSING_REMEDY}"
        )
    return SampleTable(X, y, groups=groups, ids=ids)


def _vector(values):
    return np.atleast_1d(np.squeeze(values))


def _samples(path, arrays, others, samples):
    """Return the array with the samples: the one named, a customary one, or the only table."""
    if samples is not None:
        _check_names(path, [samples], list(arrays), "array")
        return arrays[samples]
    tables = {k: v for k, v in arrays.items() if v.ndim == 2 and k not in others}
    customary = [name for name in SAMPLE_ARRAYS if name in tables]
    wide = customary or [name for name, value in tables.items() if min(value.shape) > 1]
    if not customary and len(wide) != 1:
        raise ValueError(
            f"'{path}' should hold the samples in an array named {', '.join(SAMPLE_ARRAYS)}; its "
            f"tables are {some_of(map(repr, wide)) or 'none'}. Name one with --samples."
        )
    return tables[wide[0]]


def _numbers(path, X):
    if X.dtype.kind not in "biuf" or X.ndim != 2:
        raise ValueError(
            f"The samples of '{path}' should be a table of numbers, one sample per row; found "
            f"an array of {X.dtype} with shape {X.shape}."
        )
    return X if X.dtype.kind == "f" else X.astype(np.float64)


def _check_lengths(path, X, values, what):
    if len(values) != len(X):
        raise ValueError(
            f"'{path}' has {len(X)} samples and {len(values)} {what}. Store one sample per row."
        )
