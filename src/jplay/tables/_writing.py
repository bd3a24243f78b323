"""Write named columns to a file."""

from pathlib import Path

import numpy as np

from jplay._files import atomic_path
from jplay._optional import import_optional
from jplay._text import spreadsheet_text
from jplay.tables._reading import EXCEL_SUFFIXES, PARQUET_SUFFIXES, TEXT_SUFFIXES

WRITTEN_SUFFIXES = (*TEXT_SUFFIXES, *PARQUET_SUFFIXES, *EXCEL_SUFFIXES, ".npz")


def check_written_path(path):
    """Raise an error unless a file's suffix is one that can be written."""
    if Path(path).suffix.lower() not in WRITTEN_SUFFIXES:
        raise ValueError(f"'{path}' should end in .csv, .tsv, .parquet, .xlsx or .npz.")


def write_columns(path, parts):
    """Write named columns as CSV, TSV, Parquet, Excel or NPZ, complete or not at all.

    Text in CSV and TSV that a spreadsheet would take for a formula gets an apostrophe before it.

    Parameters
    ----------
    path : path-like
        Its suffix tells the format.
    parts : dict of str to array-like of shape (n_samples,), or an iterable of such
        Several are written one below the other; CSV, TSV and Parquet as they come.

    Returns
    -------
    int
        Number of rows.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import mkdtemp
    >>> from jplay.tables import write_columns
    >>> path = Path(mkdtemp()) / "found.npz"
    >>> write_columns(path, {"prediction": [1, 2]})
    2
    """
    path = Path(path)
    check_written_path(path)
    suffix = path.suffix.lower()
    parts = [parts] if isinstance(parts, dict) else parts
    with atomic_path(path) as temporary:
        if suffix == ".npz":
            columns = _joined(parts)
            with temporary.open("wb") as file:
                np.savez_compressed(file, **columns)
            return len(next(iter(columns.values())))
        pandas = import_optional("pandas", feature="Writing tables", extra="table")
        if suffix in EXCEL_SUFFIXES:
            import_optional("openpyxl", feature="Writing Excel files", extra="table")
            frame = _as_text(pandas.DataFrame(_joined(parts)))
            frame.to_excel(temporary, index=False)
            return len(frame)
        write = _write_parquet if suffix in PARQUET_SUFFIXES else _write_text
        return write(temporary, (pandas.DataFrame(part) for part in parts))


def _joined(parts):
    parts = [{name: np.asarray(values) for name, values in part.items()} for part in parts]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _as_text(frame):
    """Return a frame with nothing in it that a spreadsheet would run."""
    for name in frame:
        if frame[name].dtype.kind not in "biuf":
            texts = {value: spreadsheet_text(value) for value in frame[name].unique()}
            frame[name] = frame[name].map(texts)
    return frame.rename(columns=spreadsheet_text)


def _write_text(path, frames):
    separator, n_rows = "\t" if path.suffix.lower() == ".tsv" else ",", 0
    with path.open("w", encoding="utf-8", newline="") as file:
        for frame in frames:
            _as_text(frame).to_csv(file, index=False, sep=separator, header=not n_rows)
            n_rows += len(frame)
    return n_rows


def _write_parquet(path, frames):
    pyarrow = import_optional("pyarrow", feature="Writing Parquet files", extra="table")
    from pyarrow.parquet import ParquetWriter

    writer, n_rows = None, 0
    try:
        for frame in frames:
            table = pyarrow.Table.from_pandas(frame, preserve_index=False)
            if writer is None:
                writer = ParquetWriter(path, table.schema)
            writer.write_table(table.cast(writer.schema))
            n_rows += len(frame)
    finally:
        if writer is not None:
            writer.close()
    return n_rows
