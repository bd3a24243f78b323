"""Read arrays from the file formats in which people keep these data sets."""

import re
import struct
import zipfile
import zlib
from pathlib import Path

import numpy as np

from jplay._archives import SMALL_FILE_BYTES, check_archive, check_shapes, check_table
from jplay._hdf5 import open_hdf5
from jplay._optional import import_optional
from jplay.datasets.line_ends import warn_if_converted
from jplay.exceptions import CorruptFileError, MissingDependencyError

_PIECE_BYTES = 2**20
_MAT_COMPRESSED = 15


def read_arrays(path, *, examine_bytes=True):
    """Return the numeric arrays of a file by name; a format without names uses the file's stem.

    Knows MATLAB files up to version 7 and of version 7.3 (HDF5), TIFF, ``.npy`` and ``.npz``.
    Unless ``examine_bytes`` is False, a warning says if a ``.npy`` file, the only one without
    checksums or compression, looks as if it had been converted as text.
    """
    path = Path(path)
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise CorruptFileError(
            f"'{path}' has a format that is not known here. Expected one of "
            f"{', '.join(sorted(_READERS))}."
        )
    try:
        arrays = reader(path)
    except (MissingDependencyError, MemoryError, PermissionError):
        raise
    except Exception as error:  # the libraries raise whatever a damaged byte leads them to
        raise CorruptFileError(
            f"'{path}' ({path.stat().st_size} bytes) cannot be read as {path.suffix} ({error}). It "
            "is truncated or of another format: delete it and obtain it again."
        ) from error
    arrays = {name: value for name, value in arrays.items() if _is_numeric(value)}
    if examine_bytes and path.suffix.lower() == ".npy":
        for value in arrays.values():
            warn_if_converted(path, value)
    return arrays


def read_arff(path):
    """Return the numeric table of a dense or sparse ARFF file, and whether its labels come first.

    The Mulan repository puts label columns last; MEKA announces leading ones by ``-C <number>`` in
    the name of the relation.
    """
    try:
        return _parse_arff(Path(path).read_text(encoding="utf-8", errors="replace"))
    except (ValueError, IndexError) as error:
        raise CorruptFileError(
            f"'{path}' cannot be read as a numeric ARFF file ({error}). It is truncated or of "
            "another format: delete it and obtain it again."
        ) from error


def pick_array(path, arrays, names, shape):
    """Return the array of this shape, by one of ``names`` or as the only one that fits.

    ``shape`` has an int for an exact size and None for any size.
    """
    fitting = {name: value for name, value in arrays.items() if _fits(value.shape, shape)}
    for name in names:
        if name in fitting:
            return fitting[name]
    if len(fitting) == 1:
        return next(iter(fitting.values()))
    wanted = " x ".join("any" if n is None else str(n) for n in shape)
    found = ", ".join(f"{name} {value.shape}" for name, value in arrays.items()) or "no array"
    raise CorruptFileError(
        f"'{path}' should hold an array of shape {wanted} named {' or '.join(names)}, found "
        f"{found}. It is another file, or a truncated one: replace it."
    )


def check_labels(path, labels, n_classes, counts):
    """Return labels as int64 after checking that they are 0 to ``n_classes``.

    ``counts`` is the number of entries that should carry a class, that is, not be 0.
    """
    if not np.isin(labels, np.arange(n_classes + 1)).all() or labels.max() != n_classes:
        raise CorruptFileError(
            f"'{path}' should hold class numbers up to {n_classes}, found values from "
            f"{labels.min()} to {labels.max()}. It is another file: replace it."
        )
    if np.count_nonzero(labels) != counts:
        raise CorruptFileError(
            f"'{path}' should label {counts} samples, found {np.count_nonzero(labels)}. It is "
            "another version of the file or a damaged one: replace it."
        )
    absent = np.setdiff1d(np.arange(1, n_classes + 1), labels)
    if absent.size:  # a conversion as text, for one, turns class 13 into class 10
        raise CorruptFileError(
            f"'{path}' should label samples of all {n_classes} classes, found none of class "
            f"{', '.join(map(str, absent[:5]))}. It is another file or a damaged one: replace it."
        )
    return labels.astype(np.int64)


def _fits(actual, wanted):
    return len(actual) == len(wanted) and all(
        size is None or size == have for have, size in zip(actual, wanted, strict=True)
    )


def _read_mat(path):
    if is_mat73(path):
        return _read_mat73(path)
    from scipy.io import loadmat, whosmat

    _check_compressed(path)
    shapes = [shape for _, shape, _ in whosmat(path)]
    check_shapes(path, shapes, path.stat().st_size, SMALL_FILE_BYTES)
    return loadmat(path)


def _check_compressed(path):
    """Refuse a MATLAB file of version 5 to 7 by what is compressed in it, shapes may lie."""
    size = path.stat().st_size
    with path.open("rb") as file:
        order = {b"IM": "<", b"MI": ">"}.get(file.read(128)[126:])
        if order is None:
            return  # of version 4, which compresses nothing
        total = 0
        while len(tag := file.read(8)) == 8:
            kind, length = struct.unpack(f"{order}II", tag)
            end = min(size, file.tell() + length)
            stream = zlib.decompressobj()
            while kind == _MAT_COMPRESSED and file.tell() < end and not stream.eof:
                piece = file.read(min(_PIECE_BYTES, end - file.tell()))
                while piece and not stream.eof:
                    total += len(stream.decompress(piece, _PIECE_BYTES))
                    piece = stream.unconsumed_tail
                    check_table(path, total)
            file.seek(end)


def is_mat73(path):
    """Whether a MATLAB file is of version 7.3, which is HDF5."""
    with path.open("rb") as file:
        return file.read(128).startswith((b"MATLAB 7.3", b"\x89HDF\r\n"))


def _read_mat73(path):
    with open_hdf5(path, extra="data") as file:
        arrays = {name: item for name, item in file.items() if _is_array(item)}
        needed = sum(item.size * item.dtype.itemsize for item in arrays.values())
        check_table(path, needed)
        # MATLAB stores columns first, so HDF5 shows every axis in reverse.
        return {name: np.asarray(item).T for name, item in arrays.items()}


def _is_array(item):
    return hasattr(item, "shape") and hasattr(item, "dtype")


def _read_tiff(path):
    tifffile = import_optional("tifffile", feature="Reading TIFF files", extra="data")
    with tifffile.TiffFile(path) as file:
        check_table(path, max(series.nbytes for series in file.series))
        return {path.stem: file.asarray()}


def _read_npy(path):
    return {path.stem: np.load(path, allow_pickle=False)}


def read_npz(path):
    """Return all arrays of an NPZ file by name, text too, unless they take too much memory."""
    # The file is opened here because np.load leaves it open when the archive is damaged.
    with path.open("rb") as file:
        with zipfile.ZipFile(file) as archive:
            check_archive(path, archive, path.stat().st_size, SMALL_FILE_BYTES)
        file.seek(0)
        with np.load(file, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}


def _parse_arff(text):
    header, found, body = text.partition(_find_data_line(text))
    if not found:
        raise ValueError("no @data section")
    declarations = [line.strip().lower() for line in header.splitlines()]
    n_columns = sum(line.startswith("@attribute") for line in declarations)
    relation = next((line for line in declarations if line.startswith("@relation")), "")
    rows = [line.strip() for line in body.splitlines() if line.strip() and line.strip()[0] != "%"]
    table = np.zeros((len(rows), n_columns))
    for values, row in zip(table, rows, strict=True):
        if row[0] == "{":
            for entry in filter(None, row.strip("{}").split(",")):
                column, value = entry.split()
                values[int(column)] = float(value)
        else:
            values[:] = _exactly([float(value) for value in row.split(",")], n_columns)
    return table, re.search(r"-c\s+\d", relation) is not None


def _find_data_line(text):
    match = re.search(r"^\s*@data\s*$", text, flags=re.IGNORECASE | re.MULTILINE)
    return match.group() if match else "@data"


def _exactly(values, length):
    if len(values) != length:
        raise ValueError(f"a row has {len(values)} of {length} values")
    return values


def _is_numeric(value):
    return isinstance(value, np.ndarray) and value.dtype.kind in "buif"


_READERS = {
    ".mat": _read_mat,
    ".tif": _read_tiff,
    ".tiff": _read_tiff,
    ".npy": _read_npy,
    ".npz": read_npz,
}
