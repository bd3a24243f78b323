"""Colours of classes, the same in figures, reports and maps.

The first k colours are far apart for everyone: the smallest CIEDE2000 difference under normal
vision, deuteranopia and protanopia is 18 among the first 8, 12 among the first 16 and 7 among all
32, and every colour stands out from white and from the dark background of class maps. The order
was found by ``benchmarks/palette.py``; only its first five colours, which differ by 26 and more,
were put into a more customary one.
"""

import numpy as np

BACKGROUND = (16, 18, 22)
"""Pixels without a class."""

_COLORS = """
0078f9 d29600 750f57 ffd2ff 3c3b00 7bffc3 0e8868 ffff1e
a5a5a5 0708f6 876996 ad5910 00b4ff ff186a 98373c b4d078
004b94 e078c5 6b8888 d3a694 e103c7 a8d4c2 efc800 904a6d
5e8446 f9ffa5 f4343d a1c2cb b8a45d 3e0093 13572b 9088a4
"""
PALETTE = tuple(tuple(bytes.fromhex(color)) for color in _COLORS.split())
"""Red, green and blue from 0 to 255, to be used in this order."""


def class_colors(n_classes: int) -> np.ndarray:
    """Return a colour for each class.

    Those of :data:`PALETTE` come first. Classes beyond them repeat it in lighter and darker
    shades, which differ but are hard to tell apart: name such classes, too.

    Parameters
    ----------
    n_classes : int

    Returns
    -------
    ndarray of shape (n_classes, 3), dtype uint8
        Red, green and blue.

    Examples
    --------
    >>> from jplay.palette import class_colors
    >>> class_colors(16).shape
    (16, 3)
    """
    if n_classes < 1:
        raise ValueError(f"`n_classes` should be at least 1, got {n_classes}.")
    rounds, place = np.divmod(np.arange(n_classes), len(PALETTE))
    towards = np.where(rounds % 2, 255, 0)[:, np.newaxis]
    kept = (0.6 ** ((rounds + 1) // 2))[:, np.newaxis]
    return np.round(kept * np.array(PALETTE)[place] + (1 - kept) * towards).astype(np.uint8)
