"""Pictures of a fit: its convergence and its subspaces."""

import numpy as np

from jplay.plotting._axes import ClassTable, row_of_axes


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
    """Show the learned subspaces one by one, each through its two leading principal axes.

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
    table = ClassTable.of(positions, class_names=names, colors=colors)
    axes = row_of_axes(axes, len(layers))
    for number, (layer, ax) in enumerate(zip(layers, axes, strict=True), 1):
        layer = np.asarray(layer)
        if layer.ndim != 2 or len(layer) != len(y):
            raise ValueError(
                f"`layers[{number - 1}]` should have shape ({len(y)}, n_features), one row per "
                f"label of `y`, got {layer.shape}."
            )
        plane = leading_plane(layer)
        for k, name, color in table:
            members = plane[positions == k]
            ax.scatter(members[:, 0], members[:, 1], s=8, color=[color], label=name)
        ax.set_title(f"Layer {number}: {layer.shape[1]} dimensions")
        ax.set_xlabel("Principal axis 1")
    axes[0].set_ylabel("Principal axis 2")
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
