"""Comparison of arrays that two computations agree on up to rounding."""

import numpy as np


def assert_close(found, expected, tolerance):
    """Fail if an entry differs by more than ``tolerance`` times the largest expected entry.

    Rounding in a product or in an iteration is relative to the size of the array, not to that of
    each entry: where terms cancel, a small entry has few correct digits, and how many depends on
    the processor.
    """
    size = np.nanmax(np.abs(expected))
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * size)
