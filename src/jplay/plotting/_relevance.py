"""Which original features a model relies on, as spectra or as images."""

import numpy as np

from jplay.plotting._axes import row_of_axes


def plot_relevance(
    shares,
    *,
    class_names=None,
    wavelengths=None,
    image_shape=None,
    spread=None,
    n_columns=4,
    axes=None,
):
    """Show for each class what every feature adds to it: over wavelengths, or as an image.

    Parameters
    ----------
    shares : array-like of shape (n_classes, n_features)
        As ``feature_relevance(...).shares()`` gives them.
    class_names : sequence, optional
        One title per class.
    wavelengths : array-like of shape (n_features,), optional
        Of the bands; without them features are numbered.
    image_shape : pair of int, optional
        ``(height, width)`` where the features are pixels: one image per class.
    spread : array-like of shape (n_classes, n_features), optional
        Drawn as a band around the curve, e.g. that of ``relevance_stability``.
    n_columns : int, default=4
        Panels beside each other where new axes are made.
    axes : array-like of matplotlib.axes.Axes, optional
        One per class.

    Returns
    -------
    ndarray of matplotlib.axes.Axes of shape (n_classes,)

    Examples
    --------
    >>> from jplay import JPlay
    >>> from jplay.datasets import load_digits
    >>> from jplay.inspection import feature_relevance
    >>> from jplay.plotting import plot_relevance
    >>> digits = load_digits()
    >>> X, y = digits.data[:300] / 16, digits.target[:300]
    >>> relevance = feature_relevance(JPlay(n_layers=1).fit(X, y), X, y)
    >>> axes = plot_relevance(relevance.shares(), image_shape=(8, 8))
    """
    shares = np.atleast_2d(np.asarray(shares, dtype=float))
    n_classes, n_features = shares.shape
    names = np.arange(n_classes) if class_names is None else class_names
    if len(names) != n_classes:
        raise ValueError(
            f"`class_names` should hold {n_classes} names (one per class), got {len(names)}."
        )
    if image_shape is not None:
        _check_size("image_shape", int(np.prod(image_shape)), n_features)
    if wavelengths is not None:
        _check_size("wavelengths", len(wavelengths), n_features)
    size = (3.2, 2.2) if image_shape is None else (1.6, 1.7)
    axes = row_of_axes(axes, n_classes, size=size, n_columns=n_columns)
    limit = float(np.abs(shares).max()) or 1.0
    for k, (ax, name) in enumerate(zip(axes, names, strict=True)):
        if image_shape is not None:
            ax.imshow(shares[k].reshape(image_shape), cmap="RdBu_r", vmin=-limit, vmax=limit)
            ax.set_axis_off()
        else:
            around = None if spread is None else np.asarray(spread)[k]
            _plot_curve(ax, shares[k], around, wavelengths)
        ax.set_title(str(name), fontsize="small")
    return axes


def _plot_curve(ax, share, spread, wavelengths):
    places = np.arange(len(share)) if wavelengths is None else np.asarray(wavelengths)
    if spread is not None:
        ax.fill_between(places, share - spread, share + spread, alpha=0.3, linewidth=0)
    ax.plot(places, share, linewidth=1)
    ax.axhline(0, color="gray", linewidth=0.5)
    ax.set_xlabel("Feature" if wavelengths is None else "Wavelength (nm)")
    ax.set_ylabel("Share")


def _check_size(name, got, n_features):
    if got != n_features:
        raise ValueError(
            f"`{name}` should stand for {n_features} features (the columns of `shares`), got {got}."
        )
