"""Figures of a fit: its convergence and its subspaces."""

import numpy as np
from scipy.linalg import orthogonal_procrustes

from jplay.plotting._axes import ClassLegend, row_of_axes


def plot_convergence(fit, *, axes=None):
    """Show the objective and the constraints' residuals over the iterations of a fit.

    Parameters
    ----------
    fit : fitted JPlay or SolverResult
    axes : pair of matplotlib.axes.Axes, optional

    Returns
    -------
    ndarray of two matplotlib.axes.Axes
        The objective with its four terms, and for each layer the largest of the residuals with
        which its last problem ended.

    Examples
    --------
    >>> from jplay import JPlay
    >>> from jplay.plotting import plot_convergence
    >>> from sklearn.datasets import load_iris
    >>> model = JPlay(n_components=3, n_layers=2).fit(*load_iris(return_X_y=True))
    >>> axes = plot_convergence(model)
    """
    result = getattr(fit, "result_", fit)
    if not getattr(result, "objective_terms", None):
        raise ValueError(
            f"`fit` should be a fitted JPlay or its `result_` with a history, got {fit!r}. Call "
            "fit first."
        )
    axes = row_of_axes(axes, 2, size=(5.0, 4.0))
    iterations = np.arange(1, result.n_iter + 1)
    _plot_objective(axes[0], iterations, result)
    _plot_residuals(axes[1], iterations, result)
    for ax in axes:
        ax.set_xlabel("Iteration")
    return axes


def _plot_objective(ax, iterations, result):
    ax.plot(iterations, result.objective, color="black", linewidth=2, label="objective")
    for term in ("reconstruction", "prediction", "manifold", "ridge"):
        values = [float(getattr(terms, term)) for terms in result.objective_terms]
        ax.plot(iterations, values, label=term)
    ax.set_yscale("log")
    ax.set_title("Objective and its terms")
    ax.legend(frameon=False, fontsize="small")


def _plot_residuals(ax, iterations, result):
    per_layer = zip(*result.residuals, strict=True)
    for layer, history in enumerate(per_layer, 1):
        largest = [float(np.max(np.atleast_2d(np.asarray(r))[-1])) for r in history]
        ax.plot(iterations, largest, marker=".", label=f"layer {layer}")
    ax.set_title("Largest residual of each layer")
    if ax.lines:
        ax.set_yscale("log")
        ax.legend(frameon=False, fontsize="small")


def plot_subspaces(layers, y, *, class_names=None, colors=None, axes=None):
    """Show the learned subspaces one by one, each in its leading plane.

    A plane is that of the two leading principal axes, turned to agree with the layer before it
    (:func:`align_planes`). Samples far from the middle are drawn closer (:func:`within_rim`).

    Parameters
    ----------
    layers : list of array-like of shape (n_samples, n_features)
        As ``JPlay.transform_layers`` returns them.
    y : array-like of shape (n_samples,)
        Labels, shown as colours.
    class_names : sequence of str, optional
        In the order of the sorted labels of ``y``.
    colors : array-like of shape (n_classes, 3), optional
    axes : array-like of matplotlib.axes.Axes, optional
        One per layer.

    Returns
    -------
    ndarray of matplotlib.axes.Axes

    Examples
    --------
    >>> from jplay import JPlay
    >>> from jplay.plotting import plot_subspaces
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = JPlay(n_components=3, n_layers=2).fit(X, y)
    >>> axes = plot_subspaces(model.transform_layers(X), y)
    """
    y = np.asarray(y)
    classes, positions = np.unique(y, return_inverse=True)
    names = classes if class_names is None else class_names
    legend = ClassLegend.of(positions, class_names=names, colors=colors)
    axes = row_of_axes(axes, len(layers))
    layers = [np.asarray(layer) for layer in layers]
    for number, layer in enumerate(layers):
        if layer.ndim != 2 or len(layer) != len(y):
            raise ValueError(
                f"`layers[{number}]` should have shape ({len(y)}, n_features), one row per "
                f"label of `y`, got {layer.shape}."
            )
    planes = align_planes([leading_plane(layer) for layer in layers])
    for number, (layer, plane, ax) in enumerate(zip(layers, planes, axes, strict=True), 1):
        shown = within_rim(plane)
        for k, name, color in legend:
            members = shown[positions == k]
            ax.scatter(members[:, 0], members[:, 1], s=8, color=[color], label=name)
        ax.set_title(f"Layer {number}: {layer.shape[1]} dimensions")
        ax.set(xlim=(-1.05, 1.05), ylim=(-1.05, 1.05), aspect="equal", xticks=[], yticks=[])
        ax.set_xlabel("Leading plane, first axis")
    axes[0].set_ylabel("Second axis")
    axes[-1].legend(loc="center left", bbox_to_anchor=(1.02, 0.5), frameon=False, fontsize="small")
    return axes


def leading_plane(Z):
    """Return the samples' coordinates on their two leading principal axes.

    Parameters
    ----------
    Z : array-like of shape (n_samples, n_features)

    Returns
    -------
    ndarray of shape (n_samples, 2)
        The second column is zero where there is one feature only.

    Examples
    --------
    >>> from jplay.plotting import leading_plane
    >>> abs(leading_plane([[0.0], [2.0]])).round(3).tolist()
    [[1.0, 0.0], [1.0, 0.0]]
    """
    Z = np.asarray(Z, dtype=float)
    centred = Z - Z.mean(axis=0)
    left, singular, _ = np.linalg.svd(centred, full_matrices=False)
    scores = (left * singular)[:, :2]
    return np.pad(scores, ((0, 0), (0, 2 - scores.shape[1])))


def align_planes(planes):
    """Scale planes to unit spread and turn each to agree with the one before it.

    Axes of a subspace have arbitrary signs and order, so that without this a class would jump from
    panel to panel. The turn is the solution of the orthogonal Procrustes problem.

    Parameters
    ----------
    planes : sequence of array-like of shape (n_samples, 2)
        The same samples in every plane.

    Returns
    -------
    list of ndarray of shape (n_samples, 2)

    Examples
    --------
    >>> import numpy as np
    >>> from jplay.plotting import align_planes
    >>> plane = np.array([[1.0, 0.0], [0.0, 2.0], [-1.0, -2.0]])
    >>> first, second = align_planes([plane, -3 * plane[:, ::-1]])
    >>> np.allclose(first, second)
    True
    """
    turned = []
    for plane in planes:
        plane = np.asarray(plane, dtype=float)
        plane = plane / (np.sqrt(np.mean(plane**2)) or 1.0)
        if turned:
            plane = plane @ orthogonal_procrustes(plane, turned[-1])[0]
        turned.append(plane)
    return turned


def within_rim(points, *, share=0.97):
    """Place points in the square from -1 to 1 so that a few far ones leave room for the others.

    Distances from the median become their inverse hyperbolic sine, in units of the median distance:
    near points keep their places, far ones move closer. Both axes have the same unit. The few
    points that are still outside are drawn at the rim.

    Parameters
    ----------
    points : array-like of shape (n_points, 2)
    share : float, default=0.97
        Share of the points that lie inside along each axis.

    Returns
    -------
    ndarray of shape (n_points, 2)

    Examples
    --------
    >>> from jplay.plotting import within_rim
    >>> bool(abs(within_rim([[0.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [9e9, 0.0]])).max() <= 1)
    True
    """
    points = np.asarray(points, dtype=float)
    centred = points - np.median(points, axis=0)
    distance = np.linalg.norm(centred, axis=1, keepdims=True)
    unit = np.median(distance) or distance.max() or 1.0
    closer = centred * (np.arcsinh(distance / unit) / np.where(distance > 0, distance, 1.0))
    low, high = np.quantile(closer, [(1 - share) / 2, (1 + share) / 2], axis=0)
    scaled = (closer - (low + high) / 2) / (np.max(high - low) / 2 or 1.0)
    return scaled / np.maximum(np.abs(scaled).max(axis=1, keepdims=True), 1.0)
