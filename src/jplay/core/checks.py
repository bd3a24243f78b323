"""Checks of samples, sizes and options; every message names the parameter and the remedy."""

import math
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np

from jplay.core.arrays import Array, largest_magnitude, namespace
from jplay.exceptions import CollapsedSolutionError

UNSCALED_MAGNITUDES = 1e-4, 1e6
"""Smallest and largest magnitude of samples that a solver accepts unscaled."""


def check_scale(X: Array, scaling: str | None, power: float = 0.8) -> None:
    """Raise a ``ValueError`` if the samples' magnitude is beyond what a solver can handle.

    Samples that will be scaled may have nearly any: the limits of their precision to a ``power``,
    which is below one half if squares of unscaled samples are computed.
    """
    magnitude = largest_magnitude(X)
    smallest, largest = UNSCALED_MAGNITUDES
    if scaling is not None:
        limits = namespace(X).finfo(X.dtype)
        smallest, largest = float(limits.smallest_normal) ** power, float(limits.max) ** power
    if magnitude > 0 and not smallest <= magnitude <= largest:
        raise ValueError(
            f"`X` should hold values of magnitude between {smallest:g} and {largest:g}, got a "
            f"largest magnitude of {magnitude:g}. Scale the samples, for example with "
            "sklearn.preprocessing.Normalizer(norm='max')."
        )


def check_rank(rank: int) -> None:
    """Raise a ``ValueError`` if the samples are all equal."""
    if rank == 0:
        raise ValueError(
            "`X` should hold samples that differ, got a constant `X`. Check that its rows are "
            "samples and that preprocessing left their differences."
        )


def choose_layer_sizes(n_layers: Any, n_components: int | None, rank: int) -> list[int]:
    """Return the output size of every layer.

    Parameters
    ----------
    n_layers : int or sequence of int
        A number of layers is spaced evenly between the rank and ``n_components``.
    n_components : int or None
        ``None`` means 20, or fewer if the rank is smaller.
    rank : int
        Dimension that the samples span around their mean.

    Examples
    --------
    >>> choose_layer_sizes(3, 4, 12)
    [9, 7, 4]
    >>> choose_layer_sizes([7, 3], None, 12)
    [7, 3]
    """
    check_rank(rank)
    if not isinstance(n_layers, Integral):
        return _check_sizes(n_layers, n_components, rank)
    if n_components is None:
        n_components = min(20, rank)
    elif n_components > rank:
        raise ValueError(
            f"`n_components` should be at most {rank} (the dimension that the samples span "
            f"around their mean), got {n_components}. Choose a smaller number, or None."
        )
    sizes = np.linspace(rank, n_components, int(n_layers) + 1)[1:]
    return [int(size) for size in np.rint(sizes)]


def _check_sizes(listed: Sequence[Any], n_components: int | None, rank: int) -> list[int]:
    """Return the listed sizes of the layers, or raise."""
    sizes = list(listed)
    if not sizes or not all(
        isinstance(size, Integral) and not isinstance(size, bool) and int(size) > 0
        for size in sizes
    ):
        raise ValueError(
            f"`n_layers` should be a number or a non-empty sequence of positive integers, the "
            f"size of each layer, got {sizes}."
        )
    if max(sizes) > rank:
        raise ValueError(
            f"`n_layers` should list sizes of at most {rank} (the dimension that the samples "
            f"span around their mean), got {sizes}. Choose smaller layers."
        )
    if n_components is not None and n_components != sizes[-1]:
        raise ValueError(
            f"`n_components` should equal the last size in `n_layers` ({sizes[-1]}), got "
            f"{n_components}. Set only one of the two."
        )
    return [int(size) for size in sizes]


def raise_if_collapsed(gram: Array, components: Array, n_samples: int) -> None:
    """Reject a solution whose training features are numerically zero.

    Features fill the unit ball, or reach the samples' own norms if these are smaller. If only
    zero is feasible the solver approaches it without end, so a thousandth of that is zero.

    Parameters
    ----------
    gram : array of shape (n_inputs, n_inputs)
        Second moments of the training samples.
    components : array of shape (n_components, n_inputs)
    n_samples : int
    """
    xp = namespace(gram)
    size = math.sqrt(max(0.0, float(xp.sum((components @ gram) * components))) / n_samples)
    sample_size = math.sqrt(max(0.0, float(xp.linalg.trace(gram))) / n_samples)
    if size > 1e-3 * min(1.0, sample_size):
        return
    if sample_size < 0.1:
        remedy = "Scale the samples to norms near one."
    else:
        remedy = "Lower the weight of the manifold term."
    raise CollapsedSolutionError(
        f"The constraints left only the zero projection (root mean square norm of the "
        f"training features {size:.1g}). {remedy}"
    )


def check_whole(name: str, value: Any, smallest: int) -> None:
    """Raise a ``ValueError`` unless ``value`` is a whole number of at least ``smallest``."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < smallest:
        raise ValueError(
            f"`{name}` should be a whole number of at least {smallest}, got {value!r}."
        )


def check_positive(name: str, value: Any, expected: str = "above 0") -> None:
    """Raise a ``ValueError`` unless ``value`` is a finite number above zero."""
    if not isinstance(value, Real) or isinstance(value, bool) or not 0 < float(value) < math.inf:
        raise ValueError(f"`{name}` should be {expected}, got {value!r}.")
