"""Detection of binary data that were converted as text.

Programs that convert the line ends of text files replace every byte 0x0D (carriage return) by 0x0A
(line feed). In a binary file the values that contain such a byte become too low, and nothing else
shows it: size, type and header stay. The bytes around 0x0D then occur often, and 0x0D never.
"""

import warnings

import numpy as np

from jplay.exceptions import CorruptFileError

CARRIAGE_RETURN, LINE_FEED = 0x0D, 0x0A

# Both neighbors on either side are required: data whose values are all even, or multiples of four,
# contain 0x0C and 0x0E or one of them, and no 0x0D either.
_NEIGHBORS = [0x0B, 0x0C, 0x0E, 0x0F]

_LEAST_FREQUENT = 1000
"""Number of times that each neighboring byte must occur. A larger number misses small files."""

_LEAST_FREQUENT_KNOWN = 100
"""The same for known data sets, all of which pass: the AR faces have 438 bytes 0x0B."""

_EXAMINED_BYTES = 16 * 2**20
_N_PIECES = 16


def as_line_ends(values):
    """Return a copy of an array with every byte 0x0D replaced by 0x0A, as the conversion does."""
    converted = np.array(values, order="C")
    stored = converted.reshape(-1).view(np.uint8)
    stored[stored == CARRIAGE_RETURN] = LINE_FEED
    return converted


def count_bytes(values):
    """Count the byte values of an array, in 16 MB at most that are spread over all of it."""
    stored = np.ravel(values, order="K").view(np.uint8)
    if stored.size <= _EXAMINED_BYTES:
        return np.bincount(stored, minlength=256)
    length = _EXAMINED_BYTES // _N_PIECES
    starts = np.linspace(0, stored.size - length, _N_PIECES).astype(np.int64)
    return sum(np.bincount(stored[start : start + length], minlength=256) for start in starts)


def looks_converted(values, least=_LEAST_FREQUENT):
    """Return whether an array lacks the byte 0x0D although its neighbors are frequent."""
    counts = count_bytes(values)
    return bool(counts[CARRIAGE_RETURN] == 0 and counts[_NEIGHBORS].min() >= least)


def warn_if_converted(path, values, itemsize=None):
    """Warn if the numbers of a raw binary file look as if it had been converted as text.

    Parameters
    ----------
    path : path-like
        File to name.
    values : ndarray
        Content of the file; a memory map is read in 16 MB at most.
    itemsize : int, optional
        Bytes per number, by default those of ``values``. Numbers of 8 bits are not examined: a
        gray level may be absent.
    """
    if (itemsize or values.dtype.itemsize) > 1 and looks_converted(values):
        warnings.warn(
            f"'{path}' looks as if it had been converted as text: none of its bytes is 0x0D, "
            "although 0x0C and 0x0E are frequent. Numbers that contained 0x0D are then too low. "
            "Compare the file with its source, and obtain it again in binary mode.",
            stacklevel=3,
        )


def check_not_converted(path, values):
    """Raise if the array of a known data set looks as if it had been converted as text."""
    if looks_converted(values, _LEAST_FREQUENT_KNOWN):
        raise CorruptFileError(
            f"'{path}' should hold binary data with every byte value, found no byte 0x0D although "
            "0x0C and 0x0E are frequent. The data were converted as text, and numbers that "
            "contained 0x0D are too low: obtain the file again from its source."
        )
