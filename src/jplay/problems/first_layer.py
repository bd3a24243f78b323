"""The way from the user's features to the solver's first layer, and back."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from jplay._array_api import (
    Array,
    is_numpy,
    largest_magnitude,
    like,
    namespace,
    zeros_like_shape,
)
from jplay.numerics.rows import AS_THEY_ARE, FormedRows, RowForm, formed, row_blocks

SAMPLE_NORM = 1.0
"""Root mean square norm of scaled samples. Features live in the unit ball: with samples of about
that size the terms of the objective are of one magnitude. Norms from 1 to 8 gave the same accuracy
over 27 problems within 0.2 points."""
REACH = 2.0
"""Standard deviations from its mean that a scaled feature reaches at most. A pixel that is dark in
nearly all images has a small deviation and few, large values, which would count for too much. From
1 to 3 the mean accuracy over 27 problems was the same; without a limit digits lost 4.6 points."""

_BLOCK_ELEMENTS = 2**20  # of samples that are looked at at a time; 8 MB in double precision
_COPIED_ELEMENTS = 2**24  # of samples that are formed once, for all iterations: 128 MB


@dataclass(frozen=True, eq=False)
class FirstLayer:
    """How the solver's input is made from the user's features.

    Features are shifted and scaled. A constant feature makes the first layer affine. If features
    outnumber samples, coordinates in an orthonormal basis of the row space replace them: every
    iterate lies in it.
    """

    n_features: int
    """Number of the user's features."""
    constant: float | None = None
    """Value of the further feature that makes the layer affine, if there is one."""
    basis: Any = None
    """(n_features or one more, n_rows) orthonormal basis in whose coordinates the solver works."""
    scale: Any = None
    """What each feature is multiplied by, (n_features,); ``None`` for one."""
    shift: Any = None
    """What is subtracted from each feature before, (n_features,); ``None`` for nothing."""

    def scaling(self, reference: Array) -> tuple[Array, Array]:
        """What each feature is multiplied by, and its mean if it is centred, else zero."""
        xp = namespace(reference)
        zeros = zeros_like_shape((self.n_features,), reference, dtype=xp.float64)
        scale = zeros + 1 if self.scale is None else like(self.scale, zeros)
        return scale, zeros if self.shift is None else like(self.shift, zeros)

    def in_features(self, theta: Array) -> Array:
        """The solver's first layer for scaled features, the constant one last if there is one."""
        return theta if self.basis is None else theta @ like(self.basis, theta).mT

    def of_scaled_features(self, theta: Array) -> Array:
        """The same without the constant feature."""
        return self.in_features(theta)[:, : self.n_features]

    def first_projection(self, theta: Array) -> tuple[Array, Array]:
        """Projection and intercept for the user's features from the solver's first layer."""
        xp = namespace(theta)
        theta = self.in_features(theta)
        projection = theta[:, : self.n_features]
        if self.scale is not None:
            projection = projection * like(self.scale, theta)
        intercept = xp.zeros_like(theta[:, 0])
        if self.constant is not None:
            intercept = theta[:, self.n_features] * self.constant
        if self.shift is not None:
            intercept = intercept - projection @ like(self.shift, theta)
        return projection, intercept

    def constant_direction(self, reference: Array) -> Array | None:
        """``c`` with ``x c = 1`` for every sample ``x`` in the solver's coordinates, if known."""
        if self.constant is None:
            return None
        xp = namespace(reference)
        unit = zeros_like_shape((self.n_features + 1,), reference, dtype=xp.float64)
        unit[self.n_features] = 1 / self.constant
        return unit if self.basis is None else like(self.basis, reference).mT @ unit


def feature_scales(
    scaling: str | None,
    mean: Array,
    deviation: Array,
    lowest: Array,
    highest: Array,
    rms_norm: float,
) -> tuple[Array | None, Array | None]:
    """Scale and shift of every feature, from statistics of the samples.

    Parameters
    ----------
    scaling : {"standard", "norm"} or None
    mean, deviation, lowest, highest : arrays of shape (n_features,)
        Mean, standard deviation and extremes of each feature.
    rms_norm : float
        Root mean square norm of the samples.
    """
    if scaling is None:
        return None, None
    xp = namespace(mean)
    if scaling == "norm":
        return SAMPLE_NORM / (rms_norm or 1.0) * xp.ones_like(mean), None
    # What does not vary beyond rounding carries nothing but that. The deviation of a constant
    # has the rounding of a sum over all samples, which grows with their number.
    largest = xp.maximum(xp.abs(lowest), xp.abs(highest))
    varies = deviation > 100 * float(xp.finfo(xp.float64).eps) * largest
    varies = varies & (highest > lowest)
    spread = xp.maximum(deviation, xp.maximum(highest - mean, mean - lowest) / REACH)
    scale = 1 / xp.where(varies, spread, xp.ones_like(spread))
    scale = xp.where(varies, scale, xp.zeros_like(scale))
    norm = float(xp.linalg.vector_norm(deviation * scale)) or 1.0
    return SAMPLE_NORM / norm * scale, mean


def scaling_form(X: Array, scaling: str | None) -> RowForm:
    """Shift and scale of every feature of samples in memory, from two looks at them."""
    if scaling is None:
        return AS_THEY_ARE
    xp = namespace(X)
    n_samples = X.shape[0]
    # Relative to the largest entry, so that squares of very large or small ones stay in range.
    unit = largest_magnitude(X) or 1.0
    mean: Array = 0
    squares: Array = 0
    extremes = []
    for block in _relative_blocks(X, unit):
        mean = mean + xp.sum(block, axis=0) / n_samples
        squares = squares + xp.sum(block * block, axis=0)
        extremes.append((xp.min(block, axis=0), xp.max(block, axis=0)))
    lowest, highest = (xp.stack(list(parts)) for parts in zip(*extremes, strict=True))
    norm = math.sqrt(float(xp.sum(squares)) / n_samples)
    if scaling == "standard":
        squares = 0
        for block in _relative_blocks(X, unit):
            block -= mean
            squares = squares + xp.sum(block * block, axis=0)
    deviation = xp.sqrt(squares / n_samples)
    if xp.finfo(X.dtype).bits < 64:  # rounding of the samples themselves
        deviation = xp.where(
            deviation > 4 * float(xp.finfo(X.dtype).eps) * xp.abs(mean), deviation, 0 * deviation
        )
    scale, shift = feature_scales(
        scaling, mean, deviation, xp.min(lowest, axis=0), xp.max(highest, axis=0), norm
    )
    return RowForm(scale, shift, unit=unit)


def _relative_blocks(X: Array, unit: float) -> Iterator[Array]:
    """Some rows at a time in double precision, divided by ``unit``."""
    xp = namespace(X)
    for block in _blocks(X):
        yield xp.astype(block, xp.float64) / unit


def _blocks(X: Array, form: RowForm = AS_THEY_ARE) -> Iterator[Array]:
    """Some rows at a time, in a form."""
    for _, block in row_blocks(X, max(1, _BLOCK_ELEMENTS // X.shape[1])):
        yield formed(block, form)


def _with_constant(X: Array, form: RowForm) -> RowForm:
    """The form with a constant feature, if a linear first layer cannot do.

    A linear map cannot be non-negative on samples that lie on both sides of the origin, as those
    that are centred do.
    """
    xp = namespace(X)
    if form.shift is None:
        total = sum(xp.sum(block, axis=0) for block in _blocks(X, form))
        if all(bool(xp.min(block @ total) > 0) for block in _blocks(X, form)):
            return form
    # As large as the largest sample, so that the intercept costs no more than a feature.
    norms = (xp.max(xp.linalg.vector_norm(block, axis=1)) for block in _blocks(X, form))
    return replace(form, constant=max(map(float, norms)) or 1.0)


def first_layer_of(
    X: Array, scaling: str | None, reduced: bool = True
) -> tuple[FirstLayer, Array, Array]:
    """The first layer for samples in memory.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
    scaling : {"standard", "norm"} or None
    reduced : bool, default=True
        Whether features that outnumber samples are replaced by coordinates in their row space.

    Returns
    -------
    first_layer : FirstLayer
    scaled : array or FormedRows of shape (n_samples, n_features)
        The samples, shifted and scaled.
    solver_X : array or FormedRows of shape (n_samples, n_coordinates)
        The same as the solver sees them. Many samples are not copied: their rows are formed
        whenever they are asked for.
    """
    xp = namespace(X)
    n_samples, n_features = X.shape
    on_demand = is_numpy(X) and X.size > _COPIED_ELEMENTS and n_samples > n_features
    form = scaling_form(X, scaling)
    if on_demand:
        # In every iteration: samples in single precision should not wait for double.
        form = form.rounded(X.dtype)
    form = _with_constant(X, form)
    plain = form.rounded(xp.float64)
    layer = FirstLayer(n_features, form.constant, None, plain.scale, plain.shift)
    if on_demand and not form.is_plain:
        return layer, FormedRows(X, form.without_constant), FormedRows(X, form)
    solver_X = formed(X, form)
    scaled = solver_X[:, :n_features]
    if reduced and solver_X.shape[1] > n_samples:
        basis, coordinates = xp.linalg.qr(solver_X.mT)
        layer = replace(layer, basis=basis)
        solver_X = xp.asarray(coordinates.mT, copy=True)
    return layer, scaled, solver_X
