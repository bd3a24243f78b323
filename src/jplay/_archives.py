"""Sizes of compressed files, known before anything of them is unpacked.

A few kilobytes can unpack to gigabytes. An archive says how large its entries are, and an array's
header how much memory it takes, so that a file which would fill the memory is refused unread. All
readers have the limit of :func:`check_expansion`.
"""

import io
import math
import os
import zipfile
from collections.abc import Iterable
from typing import Any

import numpy as np

EXPANSION = 50
"""Times its size on disk that a file may take in memory. Dense numbers do not shrink to a fiftieth;
what does is all but empty and can be stored without compression."""
SMALL_FILE_BYTES = 256 * 2**20
"""Memory that a table or an image may take, whatever its size on disk."""
LIMIT_VARIABLE = "JPLAY_MAX_UNPACKED_MIB"
"""Environment variable that raises the limit of all files, in MiB."""


def check_expansion(path: Any, unpacked: int, stored: int, allowed: int) -> None:
    """Refuse a file that unpacks to far more than its size on disk.

    Parameters
    ----------
    path : path-like
        For the message.
    unpacked, stored : int
        Bytes in memory and on disk.
    allowed : int
        Bytes that any file may take.
    """
    raised = os.environ.get(LIMIT_VARIABLE, "0")
    if not raised.isdecimal():
        raise ValueError(f"`{LIMIT_VARIABLE}` should be a whole number of MiB, got {raised!r}.")
    limit = max(allowed, EXPANSION * stored, int(raised) * 2**20)
    if unpacked > limit:
        raise ValueError(
            f"'{path}' unpacks to {unpacked / 2**20:,.0f} MiB, more than the "
            f"{limit / 2**20:,.0f} MiB that a file of its size may take. It was not read; if it is "
            f"yours, store it without compression, or set the environment variable "
            f"{LIMIT_VARIABLE} to {math.ceil(unpacked / 2**20)}."
        )


def check_table(path: Any, unpacked: int) -> None:
    """Refuse a table or an image of which so many bytes would be in memory at a time."""
    check_expansion(path, unpacked, os.stat(path).st_size, SMALL_FILE_BYTES)


def check_archive(path: Any, archive: zipfile.ZipFile, stored: int, allowed: int) -> None:
    """Refuse a zip archive with entries, or arrays in them, that take too much memory.

    Arrays in an archive within the archive (``.npz``) count as well.

    Parameters
    ----------
    path : path-like
        For the message.
    archive : zipfile.ZipFile
    stored : int
        Size of the file on disk.
    allowed : int
        Bytes that any file may take.
    """
    check_expansion(path, _unpacked(archive), stored, allowed)
    inner = 0
    for entry in archive.infolist():
        if entry.filename.endswith(".npy"):
            with archive.open(entry) as file:
                _check_array(path, file, entry)
        elif entry.filename.endswith(".npz"):
            with zipfile.ZipFile(io.BytesIO(archive.read(entry))) as nested:
                inner += _unpacked(nested)
                check_expansion(path, inner, stored, allowed)
                for part in nested.infolist():
                    with nested.open(part) as file:
                        _check_array(path, file, part)


def _unpacked(archive: zipfile.ZipFile) -> int:
    return sum(entry.file_size for entry in archive.infolist())


def _check_array(path: Any, file: Any, entry: zipfile.ZipInfo) -> None:
    """Refuse an array whose header promises other than its entry holds."""
    readers = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    version = np.lib.format.read_magic(file)
    if version not in readers:
        return  # np.load says what is wrong with it
    shape, _, dtype = readers[version](file)
    needed = file.tell() + math.prod(shape) * dtype.itemsize
    if not dtype.hasobject and needed != entry.file_size:
        raise ValueError(
            f"'{path}' holds an array '{entry.filename}' of {entry.file_size} bytes whose header "
            f"promises {needed}. It was not read: the file is damaged."
        )


def check_shapes(path: Any, shapes: Iterable[tuple], stored: int, allowed: int) -> None:
    """Refuse a file of arrays that take too much memory, at eight bytes a number."""
    unpacked = sum(8 * math.prod(int(size) for size in shape) for shape in shapes)
    check_expansion(path, unpacked, stored, allowed)
