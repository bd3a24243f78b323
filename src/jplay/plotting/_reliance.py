"""What the scores of a linear model rest on."""

import numpy as np
from sklearn.utils.validation import check_array, check_is_fitted

from jplay.plotting._axes import one_axes

_ROWS_AT_ONCE = 2000


def feature_reliance(model, X):
    r"""Share of each class's score that rests on each feature of a linear model.

    The scores of such a model are :math:`W x + b`. What counts for a decision is a class's score
    against the mean of all, so with the centred weights :math:`\bar W = W - \frac1c 1 1^T W` and
    the standard deviation :math:`s_j` of feature :math:`j`, class :math:`k` relies on it by

    .. math:: r_{kj} = |\bar W_{kj}| s_j \Big/ \sum_i |\bar W_{ki}| s_i .

    Multi-label scores are judged each for itself, so that their weights are not centred.

    Parameters
    ----------
    model : fitted classifier with a linear ``decision_function``
        E.g. JPlay.
    X : array-like of shape (n_samples, n_features)
        Samples that tell how much each feature varies.

    Returns
    -------
    ndarray of shape (n_classes, n_features)
        Rows sum to one.

    Examples
    --------
    >>> from jplay import JPlay
    >>> from jplay.plotting import feature_reliance
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> feature_reliance(JPlay(n_components=3, n_layers=1).fit(X, y), X).shape
    (3, 4)
    """
    check_is_fitted(model)
    X = check_array(X, dtype=(np.float64, np.float32))
    weights = _score_weights(model, X)
    if len(weights) == 1:
        weights = np.vstack([-weights, weights])
    elif np.ndim(model.predict(X[:1])) == 1:
        weights = weights - weights.mean(axis=0)
    moved = np.abs(weights) * X.std(axis=0)
    total = moved.sum(axis=1, keepdims=True)
    return np.divide(moved, total, out=np.full_like(moved, 1 / X.shape[1]), where=total > 0)


def _score_weights(model, X):
    """Weights of an affine map from its values at the origin and at the unit vectors."""

    def scores(rows):
        return np.asarray(model.decision_function(rows), dtype=float).reshape(len(rows), -1)

    n_features = X.shape[1]
    origin = scores(np.zeros((1, n_features), dtype=X.dtype))
    columns = []
    for start in range(0, n_features, _ROWS_AT_ONCE):
        stop = min(start + _ROWS_AT_ONCE, n_features)
        unit = np.eye(stop - start, n_features, k=start, dtype=X.dtype)
        columns.append(scores(unit) - origin)
    weights = np.concatenate(columns).T
    expected = scores(X[:5])
    if not np.allclose(X[:5] @ weights.T + origin, expected, rtol=1e-2, atol=1e-2):
        raise ValueError(
            f"`model` should have scores that are linear in the features, got {model!r}. Pass the "
            "last step of a pipeline, with samples as that step sees them."
        )
    return weights


def plot_reliance(reliance, *, positions=None, class_names=None, x_label=None, ax=None):
    """Show what each class relies on as an image with a row per class.

    Parameters
    ----------
    reliance : array-like of shape (n_classes, n_features)
        As :func:`feature_reliance` returns it; every row is scaled to its maximum.
    positions : array-like of shape (n_features,), optional
        E.g. wavelengths, in ascending order; by default features are numbered.
    class_names : sequence of str, optional
    x_label : str, optional
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> from jplay.plotting import plot_reliance
    >>> ax = plot_reliance([[0.2, 0.8], [0.5, 0.5]], class_names=["wood", "water"])
    """
    reliance = np.asarray(reliance, dtype=float)
    n_classes, n_features = reliance.shape
    positions = np.arange(n_features) if positions is None else np.asarray(positions, dtype=float)
    if positions.shape != (n_features,):
        raise ValueError(
            f"`positions` should have shape ({n_features},), one per feature, got "
            f"{positions.shape}."
        )
    names = range(n_classes) if class_names is None else class_names
    ax = one_axes(ax)
    image = ax.imshow(
        reliance / np.maximum(reliance.max(axis=1, keepdims=True), np.finfo(float).tiny),
        aspect="auto",
        interpolation="nearest",
        cmap="magma_r",
        extent=(positions[0], positions[-1], n_classes - 0.5, -0.5),
    )
    ax.set_yticks(range(n_classes), [str(name) for name in names])
    ax.set_xlabel(x_label or "Feature")
    ax.figure.colorbar(image, ax=ax, label="Share, relative to the class's largest")
    return ax
