"""Graphs over the pixels of an image, built from small parts that combine.

Pixels are numbered in row-major order. A builder returns a symmetric sparse matrix; products
keep the edges that all graphs have, sums those of any. With
:func:`jplay.numerics.graph.weighted_by_features` edges also depend on the distance of spectra::

    near = window_affinity(image_shape, radius=3)
    graph = weighted_by_features(near, X)
"""

from collections.abc import Sequence

import numpy as np
import scipy.sparse
from scipy.ndimage import grey_closing, grey_opening, uniform_filter


def window_affinity(image_shape: tuple[int, int], radius: int = 1) -> scipy.sparse.csr_array:
    """Graph that joins every pixel with those in the square window around it.

    Parameters
    ----------
    image_shape : pair of int
        ``(height, width)``.
    radius : int, default=1
        The window has ``2 radius + 1`` pixels a side.

    Returns
    -------
    csr_array of shape (n_pixels, n_pixels)

    Examples
    --------
    >>> window_affinity((1, 3)).toarray()
    array([[0., 1., 0.],
           [1., 0., 1.],
           [0., 1., 0.]])
    """
    height, width = image_shape
    pixels = np.arange(height * width).reshape(height, width)
    rows, columns = [], []
    for down in range(min(radius, height - 1) + 1):
        for right in range(-min(radius, width - 1), min(radius, width - 1) + 1):
            if (down, right) <= (0, 0):
                continue  # the other half of the window follows by symmetry
            here = pixels[: height - down, max(0, -right) : width - max(0, right)].ravel()
            there = pixels[down:, max(0, right) : width + min(0, right)].ravel()
            rows.append(here)
            columns.append(there)
    n_pixels = height * width
    if not rows:
        return scipy.sparse.csr_array((n_pixels, n_pixels))
    starts, ends = np.concatenate(rows), np.concatenate(columns)
    half = scipy.sparse.csr_array(
        (np.ones(starts.size), (starts, ends)), shape=(n_pixels, n_pixels)
    )
    return (half + half.T).tocsr()


def sum_of_graphs(*graphs: scipy.sparse.sparray) -> scipy.sparse.csr_array:
    """Sum the graphs, each scaled to a mean weight of one per edge.

    Parameters
    ----------
    *graphs : sparse arrays of shape (n_pixels, n_pixels)
    """
    total: scipy.sparse.sparray = scipy.sparse.csr_array(graphs[0].shape)
    for graph in graphs:
        mean = graph.data.mean() if graph.nnz else 1.0
        total = total + scipy.sparse.csr_array(graph) * (1.0 / mean)
    return scipy.sparse.csr_array(total)


def restricted(graph: scipy.sparse.sparray, pixels: np.ndarray) -> scipy.sparse.csr_array:
    """The graph among some of its pixels, in their order."""
    return scipy.sparse.csr_array(graph)[pixels][:, pixels]


def smoother(graph: scipy.sparse.sparray) -> scipy.sparse.csr_array:
    """Row-stochastic matrix that replaces every pixel by the mean of itself and its neighbours.

    Weights are those of the edges; the pixel itself weighs one.
    """
    n_pixels = graph.shape[0]
    with_self = scipy.sparse.csr_array(graph + scipy.sparse.eye_array(n_pixels))
    totals = np.asarray(with_self.sum(axis=1)).ravel()
    return scipy.sparse.csr_array(with_self * (1 / totals)[:, None])


def opening_closing_profile(image: np.ndarray, radii: Sequence[int]) -> np.ndarray:
    """The image, then its opening and closing by discs: what bright and dark spots it is made of.

    A disc of radius ``r`` sees pixels up to ``2 r`` away, so that a part of the image with such a
    margin gives the same as the whole.

    Parameters
    ----------
    image : ndarray of shape (height, width)
    radii : sequence of int

    Returns
    -------
    ndarray of shape (height, width, 1 + 2 * len(radii))
    """
    layers = [image]
    for radius in radii:
        offsets = np.arange(-radius, radius + 1)
        disc = offsets[:, None] ** 2 + offsets**2 <= radius**2
        layers += [grey_opening(image, footprint=disc), grey_closing(image, footprint=disc)]
    return np.stack(layers, axis=2)


def guided_filter(maps: np.ndarray, guide: np.ndarray, radius: int, ridge: float) -> np.ndarray:
    r"""Smooth maps such that they keep the edges of a guide.

    In every window a map is fitted by :math:`a g + b` with the guide :math:`g` and the penalty
    ``ridge`` on :math:`a`; a pixel gets the mean of the fits of the windows that hold it. Sees
    pixels up to ``2 radius`` away.

    Parameters
    ----------
    maps : ndarray of shape (height, width, n_maps)
    guide : ndarray of shape (height, width)
    radius : int
    ridge : float

    Returns
    -------
    ndarray of shape (height, width, n_maps)

    References
    ----------
    K. He, J. Sun, X. Tang. "Guided image filtering." TPAMI 35(6), 2013.
    X. Kang, S. Li, J. A. Benediktsson. "Spectral-spatial hyperspectral image classification with
    edge-preserving filtering." TGRS 52(5), 2014.
    """
    side = 2 * radius + 1

    def mean(image: np.ndarray) -> np.ndarray:
        return uniform_filter(image, (side, side, 0), mode="nearest")

    guide = guide[:, :, None]
    guide_mean, maps_mean = mean(guide), mean(maps)
    variance = mean(guide * guide) - guide_mean**2
    slope = (mean(guide * maps) - guide_mean * maps_mean) / (variance + ridge)
    return mean(slope) * guide + mean(maps_mean - slope * guide_mean)
