"""Several spatial views of the pixels of a scene, each from a small neighbourhood."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse
from scipy.ndimage import uniform_filter

from jplay.core.graph import weight_by_features
from jplay.numerics.spatial import opening_closing_profile, smoother, window_affinity

MEAN_SIDE = 5
N_PASSES = 4
"""Of the edge-aware average in the smoothest input."""
N_GUIDE_AXES = 10
"""Principal axes in which spectra are compared: the others hold noise."""
N_PROFILES = 3
"""Principal components whose openings and closings are inputs."""
_SAMPLE = 20_000
"""Pixels from which the constants of a scene are estimated, at most."""
_TILE = 256
"""Side in pixels of what is computed at once."""

Slices = tuple[slice, slice]


@dataclass(frozen=True, eq=False)
class SceneInputs:
    """Constants of a scene, with which the inputs of any part of it follow from the part.

    The inputs are spectra (divided by their maximum) averaged over 5 x 5 pixels; averaged over
    like pixels of a window once; and the same average twice and four times, each beside a
    morphological profile of the leading principal components.
    """

    radius: int
    profile_radii: tuple[int, ...]
    bandwidth: float
    """Distance of spectra at which pixels of a window count ``exp(-1/2)``."""
    guide_axes: np.ndarray
    """(n_bands, n_guide_axes)"""
    centre: np.ndarray
    axes: np.ndarray
    """Mean and principal axes of the scene as it is, (n_bands, n_profiles)."""
    limits: tuple[float, float]
    """Values of the first principal component that become 0 and 1."""
    profile_scale: float

    @property
    def margin(self) -> int:
        """Pixels around a part of the scene that its inputs depend on."""
        averaged = N_PASSES * self.radius + 1  # spectra are compared after a 3 x 3 mean
        return max(MEAN_SIDE // 2, averaged, 2 * max(self.profile_radii, default=0))

    def __call__(self, cube: np.ndarray) -> list[np.ndarray]:
        """Inputs of all pixels, each of shape (height, width, n_features), in single precision."""
        height, width, _ = cube.shape
        spectra = unit_maximum(cube)
        flat = spectra.reshape(height * width, -1)
        alike = smoother(self.affinity(cube)).astype(np.float32)
        once = alike @ flat
        twice = smooth = alike @ once
        for _ in range(N_PASSES - 2):
            smooth = alike @ smooth
        profile = self.profile(cube).reshape(height * width, -1)
        layers = [
            _mean(spectra, MEAN_SIDE),
            once,
            np.hstack([twice, profile]),
            np.hstack([smooth, profile]),
        ]
        return [layer.reshape(height, width, -1) for layer in layers]

    def affinity(self, cube: np.ndarray) -> scipy.sparse.csr_array:
        """Graph that joins the pixels of a window, weighed by how alike their spectra are."""
        height, width, _ = cube.shape
        guide = unit_maximum(_mean(cube, 3)).reshape(height * width, -1) @ self.guide_axes
        near = window_affinity((height, width), self.radius)
        return weight_by_features(near, guide, self.bandwidth)

    def guide(self, cube: np.ndarray) -> np.ndarray:
        """The first principal component, about between 0 and 1: (height, width)."""
        low, high = self.limits
        return ((cube - self.centre) @ self.axes[:, 0] - low) / (high - low)

    def profile(self, cube: np.ndarray) -> np.ndarray:
        """Openings and closings of the leading principal components, in single precision."""
        scores = (cube - self.centre) @ self.axes * self.profile_scale
        parts = [
            opening_closing_profile(scores[:, :, k], self.profile_radii)
            for k in range(scores.shape[2])
        ]
        return np.concatenate(parts, axis=2).astype(np.float32)


def scene_inputs(
    cube: np.ndarray,
    *,
    radius: int,
    edge_width: float,
    profile_radii: tuple[int, ...],
    rng: np.random.RandomState,
) -> SceneInputs:
    """Estimate the constants of a scene from some of its pixels.

    Parameters
    ----------
    cube : ndarray of shape (height, width, n_bands)
        May be a memory map.
    radius : int
    edge_width : float
        Bandwidth in medians of the distances between pixels of a window.
    profile_radii : tuple of int
    rng : RandomState
    """
    height, width, _ = cube.shape
    drawn = np.sort(rng.permutation(height * width)[:_SAMPLE])
    rows, columns = np.unravel_index(drawn, (height, width))
    pixels = np.asarray(cube[rows, columns], dtype=np.float64)
    centre, axes, variances = _principal_axes(pixels, N_PROFILES)
    spectra = unit_maximum(pixels)
    guide_axes = _principal_axes(spectra, N_GUIDE_AXES)[1]

    def guide_at(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        window = [
            cube[np.clip(rows + i, 0, height - 1), np.clip(columns + j, 0, width - 1)]
            for i in (-1, 0, 1)
            for j in (-1, 0, 1)
        ]
        return unit_maximum(np.asarray(np.mean(window, axis=0))) @ guide_axes

    few = slice(None, None, max(1, len(rows) // 5000))
    offsets = rng.randint(-radius, radius + 1, size=(2, len(rows[few])))
    others = (
        np.clip(rows[few] + offsets[0], 0, height - 1),
        np.clip(columns[few] + offsets[1], 0, width - 1),
    )
    apart = (others[0] != rows[few]) | (others[1] != columns[few])
    gaps = guide_at(rows[few], columns[few]) - guide_at(*others)
    squares = np.sum(gaps**2, axis=1)[apart]
    typical = (float(np.sqrt(np.median(squares))) if len(squares) else 0.0) or 1.0
    first = (pixels - centre) @ axes[:, 0]
    low, high = float(first.min()), float(first.max())
    # As much variance in the profile as in the spectra, so that neither drowns the other.
    n_layers = 1 + 2 * len(profile_radii)
    total = n_layers * variances.sum()
    scale = float(np.sqrt(spectra.var(axis=0).sum() / total)) if total > 0 else 1.0
    return SceneInputs(
        radius=radius,
        profile_radii=tuple(profile_radii),
        bandwidth=edge_width * typical,
        guide_axes=guide_axes,
        centre=centre,
        axes=axes,
        limits=(low, high if high > low else low + 1.0),
        profile_scale=scale,
    )


def unit_maximum(spectra: np.ndarray) -> np.ndarray:
    """Spectra divided by their largest magnitude, in single precision."""
    largest = np.abs(spectra).max(axis=-1, keepdims=True)
    return (spectra / np.where(largest > 0, largest, 1)).astype(np.float32)


def tiles(image_shape: tuple[int, int], margin: int) -> Iterator[tuple[Slices, Slices, Slices]]:
    """Parts that cover an image: where, with a margin around, and where the part is in that.

    Examples
    --------
    >>> [(where[1], around[1]) for where, around, _ in tiles((2, 300), 10)]
    [(slice(0, 256, None), slice(0, 266, None)), (slice(256, 300, None), slice(246, 300, None))]
    """
    for top in range(0, image_shape[0], _TILE):
        for left in range(0, image_shape[1], _TILE):
            where, around, inside = zip(
                *(
                    _interval(start, size, margin)
                    for start, size in zip((top, left), image_shape, strict=True)
                ),
                strict=True,
            )
            yield where, around, inside


def _interval(start: int, size: int, margin: int) -> tuple[slice, slice, slice]:
    stop = min(start + _TILE, size)
    outer = slice(max(0, start - margin), min(stop + margin, size))
    return slice(start, stop), outer, slice(start - outer.start, stop - outer.start)


def _mean(cube: np.ndarray, side: int) -> np.ndarray:
    return uniform_filter(cube, (side, side, 0), mode="nearest")


def _principal_axes(samples: np.ndarray, n_axes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean, leading principal axes as columns, and variances along them."""
    centre = samples.mean(axis=0, dtype=np.float64)
    centred = samples - centre
    values, vectors = np.linalg.eigh(centred.T @ centred / len(samples))
    axes = vectors[:, ::-1][:, :n_axes]
    # The sign of an axis is arbitrary; a profile of the negative swaps openings and closings.
    axes = axes * np.where(axes.sum(axis=0) < 0, -1.0, 1.0)
    return centre, axes, np.maximum(values[::-1][:n_axes], 0)
