"""Graphs over the pixels of an image, built from small parts that combine.

Pixels are numbered in row-major order. A builder returns a symmetric sparse matrix; products
keep the edges that all graphs have, sums those of any. With
:func:`jplay.numerics.graph.weighted_by_features` an edge also tells how alike two spectra are::

    near = window_affinity(image_shape, radius=3)
    same_region = superpixel_affinity(superpixels(cube, 500), radius=3)
    graph = sum_of_graphs(weighted_by_features(near, X), same_region, weights=(1.0, 0.5))
"""

import numpy as np
import scipy.sparse

from jplay._optional import import_optional


def window_affinity(image_shape, radius=1, *, decay=None):
    """Graph that joins every pixel with those in the square window around it.

    Parameters
    ----------
    image_shape : pair of int
        ``(height, width)``.
    radius : int, default=1
        The window has ``2 radius + 1`` pixels a side.
    decay : float, default=None
        Weights ``exp(-s^2 / (2 decay^2))`` for pixels at distance ``s``; ``None`` for ones.

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
    rows, columns, weights = [], [], []
    for down in range(min(radius, height - 1) + 1):
        for right in range(-min(radius, width - 1), min(radius, width - 1) + 1):
            if (down, right) <= (0, 0):
                continue  # the other half of the window follows by symmetry
            here = pixels[: height - down, max(0, -right) : width - max(0, right)].ravel()
            there = pixels[down:, max(0, right) : width + min(0, right)].ravel()
            squared = down**2 + right**2
            weight = 1.0 if decay is None else np.exp(-squared / (2 * decay**2))
            rows.append(here)
            columns.append(there)
            weights.append(np.full(here.size, weight))
    n_pixels = height * width
    if not rows:
        return scipy.sparse.csr_array((n_pixels, n_pixels))
    half = scipy.sparse.csr_array(
        (np.concatenate(weights), (np.concatenate(rows), np.concatenate(columns))),
        shape=(n_pixels, n_pixels),
    )
    return (half + half.T).tocsr()


def leading_channels(cube, n_channels=3):
    """Scores of the pixels on the leading principal axes, all scaled alike into [0, 1]."""
    height, width, n_bands = cube.shape
    pixels = cube.reshape(-1, n_bands).astype(np.float64)
    pixels -= pixels.mean(axis=0)
    _, axes = np.linalg.eigh(pixels.T @ pixels)
    scores = pixels @ axes[:, ::-1][:, :n_channels]
    scores -= scores.min(axis=0)
    return (scores / (scores.max() or 1.0)).reshape(height, width, -1)


def superpixels(cube, n_segments=300, *, compactness=0.1, smoothing=1.0):
    """Regions of like pixels, by SLIC on the leading principal components (scikit-image).

    Parameters
    ----------
    cube : ndarray of shape (height, width, n_bands)
    n_segments : int, default=300
        Approximate number of regions.
    compactness : float, default=0.1
        The larger, the squarer the regions.
    smoothing : float, default=1.0
        Width in pixels of a Gaussian filter before; without it noise breaks regions up.

    Returns
    -------
    labels : ndarray of int of shape (height, width)
        Region of each pixel, from 0.
    """
    segmentation = import_optional("skimage.segmentation", feature="Superpixels", extra="spatial")
    return segmentation.slic(
        leading_channels(cube),
        n_segments=n_segments,
        compactness=compactness,
        sigma=smoothing,
        start_label=0,
        channel_axis=2,
        convert2lab=False,  # principal components are no colours
    )


def superpixel_affinity(labels, radius=3):
    """Graph that joins pixels of the same region which lie within a window.

    Parameters
    ----------
    labels : ndarray of int of shape (height, width)
    radius : int, default=3

    Returns
    -------
    csr_array of shape (n_pixels, n_pixels)
    """
    edges = window_affinity(labels.shape, radius).tocoo()
    rows, columns = edges.coords
    flat = labels.ravel()
    same = flat[rows] == flat[columns]
    return scipy.sparse.csr_array(
        (edges.data[same], (rows[same], columns[same])), shape=edges.shape
    )


def product_of_graphs(*graphs):
    """Edges that all graphs have, weights multiplied."""
    product = graphs[0]
    for graph in graphs[1:]:
        product = product * graph
    return scipy.sparse.csr_array(product)


def sum_of_graphs(*graphs, weights=None):
    """Edges of all graphs, each graph scaled to a mean weight of one per edge, then weighted.

    Parameters
    ----------
    *graphs : sparse arrays of shape (n_pixels, n_pixels)
    weights : sequence of float, default=None
        ``None`` for ones.
    """
    weights = np.ones(len(graphs)) if weights is None else weights
    total = 0
    for graph, weight in zip(graphs, weights, strict=True):
        mean = graph.data.mean() if graph.nnz else 1.0
        total = total + scipy.sparse.csr_array(graph) * (weight / mean)
    return scipy.sparse.csr_array(total)


def restricted(graph, pixels):
    """The graph among some of its pixels, in their order."""
    return scipy.sparse.csr_array(graph)[pixels][:, pixels]


def smoother(graph):
    """Row-stochastic matrix that replaces every pixel by the mean of itself and its neighbours.

    Weights are those of the edges; the pixel itself weighs one.
    """
    n_pixels = graph.shape[0]
    with_self = scipy.sparse.csr_array(graph + scipy.sparse.eye_array(n_pixels))
    totals = np.asarray(with_self.sum(axis=1)).ravel()
    return scipy.sparse.csr_array(with_self * (1 / totals)[:, None])
