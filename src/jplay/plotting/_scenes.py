"""Images of a scene: false colour, class maps, spectra."""

import numpy as np

from jplay.palette import class_colors
from jplay.plotting._axes import ClassLegend, matplotlib_module, one_axes, row_of_axes

COLOR_INFRARED = (860.0, 650.0, 550.0)
"""Wavelengths (nm) shown as red, green and blue: near infrared, red, green."""


def false_color(cube, *, bands=None, wavelengths=None, percentiles=(2, 98)):
    """Turn three bands of a cube into a colour image.

    Parameters
    ----------
    cube : array-like of shape (height, width, n_bands)
    bands : sequence of three int, optional
        Bands shown as red, green and blue. By default the ones nearest to 860, 650 and 550 nm
        where ``wavelengths`` are known (vegetation is red), else three spread over the spectrum,
        the last as red.
    wavelengths : array-like of shape (n_bands,), optional
        In nm.
    percentiles : pair of float, default=(2, 98)
        Values of each band that become 0 and 1; what lies outside is clipped.

    Returns
    -------
    ndarray of shape (height, width, 3)
        Between 0 and 1.

    Examples
    --------
    >>> import numpy as np
    >>> from jplay.plotting import false_color
    >>> false_color(np.random.default_rng(0).random((4, 5, 30))).shape
    (4, 5, 3)
    """
    cube = np.asarray(cube)
    if cube.ndim != 3:
        raise ValueError(
            f"`cube` should have shape (height, width, n_bands), got shape {cube.shape}."
        )
    bands = _shown_bands(cube.shape[2], bands, wavelengths)
    image = cube[:, :, bands].astype(float)
    low, high = np.nanpercentile(image, percentiles, axis=(0, 1))
    span = np.where(high > low, high - low, 1.0)
    return np.clip(np.nan_to_num((image - low) / span), 0.0, 1.0)


def _shown_bands(n_bands, bands, wavelengths):
    if bands is not None:
        bands = np.asarray(bands)
        if bands.shape != (3,) or bands.min() < -n_bands or bands.max() >= n_bands:
            raise ValueError(
                f"`bands` should be three numbers below {n_bands} (the number of bands), got "
                f"{bands.tolist()!r}."
            )
        return bands
    if wavelengths is None:
        return np.array([3 * n_bands // 4, n_bands // 2, n_bands // 4])
    wavelengths = np.asarray(wavelengths, dtype=float)
    if wavelengths.shape != (n_bands,):
        raise ValueError(
            f"`wavelengths` should have shape ({n_bands},), one per band, got {wavelengths.shape}."
        )
    return np.abs(wavelengths - np.array(COLOR_INFRARED)[:, None]).argmin(axis=1)


def plot_class_map(
    labels, *, class_names=None, colors=None, background="black", legend=True, ax=None
):
    """Show a map of classes with a colour for each and a legend.

    Parameters
    ----------
    labels : array-like of int of shape (height, width)
        0 is unknown and drawn in the background's colour.
    class_names : sequence of str, optional
        Names of the classes 1, 2, ...; by default the labels that occur.
    colors : array-like of shape (n_classes, 3), optional
        Red, green and blue between 0 and 1; by default those of :mod:`jplay.palette`.
    background : color, default="black"
    legend : bool, default=True
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> from jplay.plotting import plot_class_map
    >>> ax = plot_class_map([[0, 1], [2, 2]], class_names=["wood", "water"])
    """
    labels = _check_map(labels)
    table = ClassLegend.of(labels[labels != 0], class_names=class_names, colors=colors, first=1)
    ax = _show(_colored(labels, table, background), one_axes(ax))
    if legend:
        ax.legend(
            handles=table.legend_handles(),
            loc="center left",
            bbox_to_anchor=(1.02, 0.5),
            frameon=False,
            fontsize="small",
        )
    return ax


def plot_maps(maps, *, class_names=None, colors=None, background="black", axes=None):
    """Show images and class maps side by side, with one legend for all of them.

    Parameters
    ----------
    maps : dict of str to array-like
        By title: class maps of shape (height, width) and colour images of shape
        (height, width, 3).
    class_names, colors, background
        As for :func:`plot_class_map`.
    axes : array-like of matplotlib.axes.Axes, optional
        One per map.

    Returns
    -------
    ndarray of matplotlib.axes.Axes

    Examples
    --------
    >>> from jplay.plotting import plot_maps
    >>> axes = plot_maps({"truth": [[1, 2]], "predicted": [[1, 1]]}, class_names=["wood", "water"])
    """
    if not maps:
        raise ValueError("`maps` should hold at least one map, got none.")
    axes = row_of_axes(axes, len(maps), size=(4.0, 5.0))
    panels = [np.asarray(panel) for panel in maps.values()]
    label_maps = [_check_map(panel) for panel in panels if panel.ndim != 3]
    labels = np.concatenate([m[m != 0] for m in label_maps]) if label_maps else np.array([])
    table = ClassLegend.of(labels, class_names=class_names, colors=colors, first=1)
    for title, panel, ax in zip(maps, panels, axes, strict=True):
        _show(panel if panel.ndim == 3 else _colored(panel, table, background), ax)
        ax.set_title(title)
    if label_maps:
        axes[0].figure.legend(
            handles=table.legend_handles(),
            loc="outside lower center",
            ncols=min(len(table.names), 6),
            frameon=False,
            fontsize="small",
        )
    return axes


def plot_split(ground_truth, train, test, *, ax=None):
    """Show which labelled pixels are for training, which for testing, and which for neither.

    Parameters
    ----------
    ground_truth : array-like of int of shape (height, width)
        0 is unknown.
    train, test : array-like of int
        Rows among the labelled pixels in row-major order, as
        :meth:`jplay.datasets.SpatialBlockSplit.split` yields them.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import numpy as np
    >>> from jplay.datasets import SpatialBlockSplit
    >>> from jplay.plotting import plot_split
    >>> ground_truth = np.ones((20, 20), dtype=int)
    >>> division = SpatialBlockSplit(ground_truth, 2, block_size=5, buffer=1, random_state=0)
    >>> ax = plot_split(ground_truth, *next(division.split()))
    """
    labelled = np.flatnonzero(_check_map(ground_truth))
    sides = np.zeros(np.shape(ground_truth), dtype=np.int64)
    sides.flat[labelled] = 3
    sides.flat[labelled[train]] = 1
    sides.flat[labelled[test]] = 2
    names = ["training", "test"] + (["neither"] if (sides == 3).any() else [])
    colors = np.vstack([class_colors(2) / 255, [[0.4, 0.4, 0.4]]])
    return plot_class_map(sides, class_names=names, colors=colors[: len(names)], ax=ax)


def plot_spectra(X, y, *, wavelengths=None, class_names=None, colors=None, spread=True, ax=None):
    """Show the mean spectrum of each class, with a band of one standard deviation.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_bands)
    y : array-like of shape (n_samples,)
    wavelengths : array-like of shape (n_bands,), optional
        In nm; by default bands are numbered.
    class_names : sequence of str, optional
        In the order of the sorted labels of ``y``.
    colors : array-like of shape (n_classes, 3), optional
    spread : bool, default=True
        Whether to draw the standard deviation.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> from jplay.datasets import make_hyperspectral_scene
    >>> from jplay.plotting import plot_spectra
    >>> scene = make_hyperspectral_scene(random_state=0)
    >>> ax = plot_spectra(scene.data, scene.target, wavelengths=scene.wavelengths)
    """
    X, y = np.asarray(X, dtype=float), np.asarray(y)
    if X.ndim != 2 or y.shape != X.shape[:1]:
        raise ValueError(
            "`X` should have shape (n_samples, n_bands) and `y` (n_samples,), got shapes "
            f"{X.shape} and {y.shape}."
        )
    classes, positions = np.unique(y, return_inverse=True)
    names = classes if class_names is None else class_names
    table = ClassLegend.of(positions, class_names=names, colors=colors)
    places = np.arange(X.shape[1]) if wavelengths is None else np.asarray(wavelengths)
    ax = one_axes(ax)
    for k, name, color in table:
        members = X[positions == k]
        if not len(members):
            continue
        mean, deviation = members.mean(axis=0), members.std(axis=0)
        ax.plot(places, mean, color=color, label=name)
        if spread:
            ax.fill_between(
                places, mean - deviation, mean + deviation, color=color, alpha=0.15, linewidth=0
            )
    ax.set_xlabel("Band" if wavelengths is None else "Wavelength (nm)")
    ax.set_ylabel("Value")
    ax.legend(frameon=False, fontsize="small")
    return ax


def _check_map(labels):
    labels = np.asarray(labels)
    if labels.ndim != 2 or labels.dtype.kind not in "iu":
        raise ValueError(
            "a class map should be an array of integers of shape (height, width), got shape "
            f"{labels.shape} and dtype {labels.dtype}."
        )
    return labels


def _colored(labels, table, background):
    """Return the class map as an image of shape (height, width, 3)."""
    image = np.empty((*labels.shape, 3))
    image[:] = matplotlib_module("matplotlib.colors").to_rgb(background)
    for label, _, color in table:
        image[labels == label] = color
    return image


def _show(image, ax):
    ax.imshow(image, interpolation="nearest")
    ax.set_axis_off()
    return ax
