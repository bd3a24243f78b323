"""Check and repair of the Indian Pines cube.

The cube inside the package ``tensorly`` (0.9.0 and 0.10.0) was converted as text: every byte 0x0D
is 0x0A. A value with high byte 0x0D, 3328 to 3583, is therefore 768 too low. Which values that are
was decided once, by ``benchmarks/pines_patch.py``, and is shipped with this package. Nothing is
estimated when the cube is loaded, so the result is the same on every machine. Values with low byte
0x0D are 3 too low and stay so.
"""

import hashlib
import zlib
from importlib.resources import files

import numpy as np

from jplay.datasets.line_ends import CARRIAGE_RETURN, LINE_FEED, as_line_ends
from jplay.datasets.registry import DATASETS
from jplay.exceptions import CorruptFileError

PATCH = "pines_patch.zlib"
LOST = (CARRIAGE_RETURN - LINE_FEED) << 8
"""What a value loses if its high byte 0x0D becomes 0x0A: 768."""


def sha256_of(values, dtype="<u2"):
    """Return the SHA-256 of an array in row-major order and the given type."""
    return hashlib.sha256(np.ascontiguousarray(values, dtype=dtype).tobytes()).hexdigest()


def intact_cube(cube, place):
    """Return the cube of 200 bands if it is intact, and repair it if it is the one of tensorly.

    An original is recognized exactly: converted as text it is the cube that tensorly ships.

    Parameters
    ----------
    cube : ndarray of shape (145, 145, 200)
    place : str
        File or package to name if the cube is neither.

    Returns
    -------
    ndarray of shape (145, 145, 200), uint16
    """
    with np.errstate(invalid="ignore"):  # values that are no 16-bit numbers are rejected below
        values = np.ascontiguousarray(cube).astype("<u2")
    known = DATASETS["indian_pines"].sha256
    found = sha256_of(values)
    if np.array_equal(values, cube):
        if found == known["cube of tensorly"]:
            return _repaired(values)
        if found == known["repaired cube"] or _is_original(values):
            return values
    raise CorruptFileError(
        f"The Indian Pines cube of {place} should be the original of 145 x 145 x 200 16-bit "
        "values, or the one that tensorly 0.9.0 and 0.10.0 ship, which is repaired. This one, "
        f"with SHA-256 {found[:12]}, is neither: it is damaged or was rescaled. Take "
        "Indian_pines_corrected.mat from "
        "https://www.ehu.eus/ccwintco/index.php/Hyperspectral_Remote_Sensing_Scenes, or remove "
        "the file to use the cube of tensorly."
    )


def _is_original(values):
    """Return whether the conversion as text turns the cube into the one that tensorly ships.

    Low bytes have to contain 0x0D: where they do not, the cube was converted, and repaired in
    another way than here.
    """
    shipped = DATASETS["indian_pines"].sha256["cube of tensorly"]
    has_low_bytes = CARRIAGE_RETURN in values & 0xFF
    return has_low_bytes and sha256_of(as_line_ends(values)) == shipped


def check_ground_truth(labels, place):
    """Raise if the label map is not the standard ground truth."""
    found = sha256_of(labels, "<u1")
    if found != DATASETS["indian_pines"].sha256["ground truth"]:
        raise CorruptFileError(
            f"The ground truth of Indian Pines of {place} should be the standard one with 10249 "
            f"labeled pixels, got another map (SHA-256 {found[:12]}). Replace it by "
            "Indian_pines_gt.mat from "
            "https://www.ehu.eus/ccwintco/index.php/Hyperspectral_Remote_Sensing_Scenes."
        )


def encode_patch(shipped, repaired):
    """Return the compressed patch: one bit for each value of the shipped cube with high byte 0x0A.

    Bits follow band after band, in which order they compress to a third.
    """
    bits = np.moveaxis(repaired != shipped, -1, 0)[_doubtful(shipped)]
    return zlib.compress(np.packbits(bits).tobytes(), 9)


def _doubtful(shipped):
    """Return where the high byte is 0x0A, bands first: these values may have lost 768."""
    return np.moveaxis(shipped >> 8 == LINE_FEED, -1, 0)


def _repaired(shipped):
    repaired = np.moveaxis(shipped.copy(), -1, 0)
    doubtful = _doubtful(shipped)
    try:
        packed = zlib.decompress(files("jplay.datasets").joinpath(PATCH).read_bytes())
        bits = np.unpackbits(np.frombuffer(packed, np.uint8), count=np.count_nonzero(doubtful))
        repaired[doubtful] += LOST * bits.astype("<u2")
    except (OSError, zlib.error, ValueError) as error:
        raise _broken_installation(str(error)) from error
    repaired = np.ascontiguousarray(np.moveaxis(repaired, 0, -1))
    found = sha256_of(repaired)
    if found != DATASETS["indian_pines"].sha256["repaired cube"]:
        raise _broken_installation(f"the result has SHA-256 {found[:12]}")
    return repaired


def _broken_installation(reason):
    return CorruptFileError(
        f"'{PATCH}' of the installed jplay should repair the Indian Pines cube of tensorly, but "
        f"it is damaged ({reason}). Install jplay again."
    )
