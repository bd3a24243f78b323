"""Samples or projections as images."""

import numpy as np

from jplay.plotting._axes import row_of_axes


def plot_images(rows, image_shape, *, titles=None, n_columns=8, cmap="gray", axes=None):
    """Show every row of a matrix as an image: faces, or the rows of a projection.

    Parameters
    ----------
    rows : array-like of shape (n_images, height * width)
        E.g. samples, or ``components_`` of a model of images.
    image_shape : pair of int
        ``(height, width)``.
    titles : sequence of str, optional
        One per image.
    n_columns : int, default=8
        Images beside each other where new axes are made.
    cmap : str or Colormap, default="gray"
    axes : array-like of matplotlib.axes.Axes, optional
        One per image.

    Returns
    -------
    ndarray of matplotlib.axes.Axes of shape (n_images,)

    Examples
    --------
    >>> from jplay.datasets import load_digits
    >>> from jplay.plotting import plot_images
    >>> axes = plot_images(load_digits().data[:10], (8, 8), n_columns=5)
    """
    rows = np.asarray(rows)
    height, width = image_shape
    if rows.ndim != 2 or rows.shape[1] != height * width or not len(rows):
        raise ValueError(
            f"`rows` should have shape (n_images, {height * width}), the product of "
            f"`image_shape`, got {rows.shape}."
        )
    if titles is not None and len(titles) != len(rows):
        raise ValueError(
            f"`titles` should hold {len(rows)} titles (one per image), got {len(titles)}."
        )
    axes = row_of_axes(axes, len(rows), size=(1.2, 1.2 * height / width), n_columns=n_columns)
    for index, (row, ax) in enumerate(zip(rows, axes, strict=True)):
        ax.imshow(row.reshape(height, width), cmap=cmap)
        ax.set_axis_off()
        if titles is not None:
            ax.set_title(titles[index], fontsize="small")
    return axes
