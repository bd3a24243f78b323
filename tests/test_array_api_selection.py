import numpy as np
import pytest
from numpy.testing import assert_array_equal

from jplay._array_api import smallest_per_row


# One after the other, by chunks with columns left over, and by a partition.
@pytest.mark.parametrize(("count", "n_columns"), [(3, 50), (3, 3), (7, 3997), (7, 100)])
@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_smallest_entries_of_each_row(library, count, n_columns):
    xp = pytest.importorskip(library)
    matrix = np.random.default_rng(0).random((20, n_columns))
    given = xp.asarray(matrix.copy())
    indices, values = (np.asarray(found) for found in smallest_per_row(given, count))
    assert_array_equal(np.sort(values, axis=1), np.sort(matrix, axis=1)[:, :count])
    assert_array_equal(np.take_along_axis(matrix, indices, axis=1), values)
    assert_array_equal(np.asarray(given), matrix)
