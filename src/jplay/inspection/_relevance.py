"""Shares of the original features in what separates each class."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_array, check_is_fitted

from jplay.datasets import draw_per_class

_ROWS_AT_ONCE = 2000


@dataclass(frozen=True, eq=False)
class FeatureRelevance:
    """What each original feature adds to the separation of each class."""

    classes: Any
    overall: Any
    """(n_classes, n_features): rows sum to the mean score of the class on its own samples,
    above its mean over all; scores of classes are taken against the mean of all classes."""
    layers: list
    """One (n_classes, n_features) per layer: rows sum to the squared distance between class
    mean and overall mean in that subspace. Empty for a model without layers."""

    def shares(self, layer=None):
        """Relevance scaled to rows of absolute sum one.

        Parameters
        ----------
        layer : int, default=None
            Position of a layer, from 0; ``None`` for the overall relevance.
        """
        rows = self.overall if layer is None else self.layers[layer]
        totals = np.abs(rows).sum(axis=1, keepdims=True)
        return rows / np.where(totals > 0, totals, 1)


@dataclass(frozen=True, eq=False)
class RelevanceStability:
    """Overall shares of the features over refits on resampled training sets."""

    classes: Any
    mean: Any
    """(n_classes, n_features)"""
    spread: Any
    """(n_classes, n_features): standard deviation over the resamples."""
    correlation: Any
    """(n_classes,): mean correlation of the shares between two resamples."""
    sign_agreement: Any
    """(n_classes, n_features): share of the resamples with the sign of the mean."""


def feature_relevance(model, X, y):
    r"""Which original features each class relies on, overall and per layer.

    The scores of the model are :math:`W x + b`. Which class wins depends on their differences
    only, so :math:`\bar w_k` is row :math:`k` of :math:`W` minus the mean row. (Labels of
    multi-label targets are judged one by one, and their weights are not centred.) With
    :math:`\delta_k` the mean of class :math:`k` minus the mean of all samples, feature
    :math:`j` adds

    .. math::

        \bar w_{kj} \delta_{kj}, \qquad (T_l^T T_l \delta_k)_j \, \delta_{kj},

    the first to the score by which its samples lead, the second to the squared distance
    :math:`\|T_l \delta_k\|^2` by which layer :math:`l` sets the class apart, where
    :math:`T_l = \Theta_l \cdots \Theta_1`. Both are exact and add up. A feature counts if the
    model weighs it and the class differs in it; negative values mark features that pull a class
    towards the others.

    Parameters
    ----------
    model : fitted classifier with a linear ``decision_function``
        JPlay, or any other; the layers are those of ``projections_``, if the model has them.
    X : array-like of shape (n_samples, n_features)
    y : array-like of shape (n_samples,) or (n_samples, n_labels)
        Labels of these samples; samples of other labels than the model's count for the mean
        of all only.

    Returns
    -------
    FeatureRelevance

    Examples
    --------
    >>> from jplay import JPlay
    >>> from jplay.inspection import feature_relevance
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> relevance = feature_relevance(JPlay(n_components=3).fit(X, y), X, y)
    >>> relevance.overall.shape, len(relevance.layers)
    ((3, 4), 1)
    """
    check_is_fitted(model)
    X = check_array(X, dtype=np.float64)
    if X.shape[1] != model.n_features_in_:
        raise ValueError(
            f"`X` should have {model.n_features_in_} features (as in fit), got {X.shape[1]}. Pass "
            "samples like those the model was fitted to."
        )
    members = _members(model, y, len(X))
    deltas = np.stack(
        [X[rows].mean(axis=0) - X.mean(axis=0) if rows.any() else 0 * X[0] for rows in members]
    )
    layers, chain = [], np.eye(X.shape[1])
    for theta in getattr(model, "projections_", []):
        chain = theta @ chain
        layers.append((deltas @ chain.T @ chain) * deltas)
    with warnings.catch_warnings():
        # A model that was fitted to a frame is asked about unit vectors, which have no names.
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        weights = _compared_weights(model, X)
    return FeatureRelevance(model.classes_, weights * deltas, layers)


def _compared_weights(model, X):
    """Weights (n_classes, n_features) of each class's score against the mean of all classes."""
    weights = _score_weights(model, X)
    if len(weights) == 1:  # two classes: the score of the second minus that of the first
        return np.vstack([-weights, weights]) / 2
    if np.ndim(model.predict(X[:1])) == 2:
        return weights
    return weights - weights.mean(axis=0)


def _score_weights(model, X):
    """Weights of an affine map from its values at the origin and at the unit vectors."""

    def scores(rows):
        return np.asarray(model.decision_function(rows), dtype=float).reshape(len(rows), -1)

    n_features = X.shape[1]
    origin = scores(np.zeros((1, n_features)))
    columns = []
    for start in range(0, n_features, _ROWS_AT_ONCE):
        stop = min(start + _ROWS_AT_ONCE, n_features)
        columns.append(scores(np.eye(stop - start, n_features, k=start)) - origin)
    weights = np.concatenate(columns).T
    expected = scores(X[:5])
    size = np.abs(expected).max() + np.abs(origin).max()
    if not np.allclose(X[:5] @ weights.T + origin, expected, rtol=0, atol=1e-4 * size):
        raise ValueError(
            f"`model` should have scores that are linear in the features, got {model!r}. Pass the "
            "last step of a pipeline, with samples as that step sees them."
        )
    return weights


def _members(model, y, n_samples):
    """Which samples belong to each class, (n_classes, n_samples)."""
    y = y.toarray() if scipy.sparse.issparse(y) else np.asarray(y)
    if len(y) != n_samples:
        raise ValueError(
            f"`y` should have {n_samples} entries (one per sample of `X`), got {len(y)}. Pass the "
            "labels of these samples."
        )
    if y.ndim == 2:
        return (y == 1).T
    return y[None, :] == model.classes_[:, None]


def relevance_stability(estimator, X, y, *, n_resamples=20, fraction=0.5, random_state=None):
    """How the overall relevance of the features varies with the training samples.

    The estimator is fitted anew to random parts of the samples, drawn within each class.

    Parameters
    ----------
    estimator : classifier with a linear ``decision_function``
    X : array-like of shape (n_samples, n_features)
    y : array-like of shape (n_samples,) or (n_samples, n_labels)
    n_resamples : int, default=20
    fraction : float, default=0.5
        Share of the samples in every part.
    random_state : int, RandomState instance or None, default=None

    Returns
    -------
    RelevanceStability
    """
    if not 0 < fraction < 1:
        raise ValueError(
            f"`fraction` should be between 0 and 1, got {fraction}. Choose for example 0.5."
        )
    if n_resamples < 2:
        raise ValueError(
            f"`n_resamples` should be at least 2, got {n_resamples}. Parts are compared with each "
            "other."
        )
    X = check_array(X)
    y = y.toarray() if scipy.sparse.issparse(y) else np.asarray(y)
    rng = check_random_state(random_state)
    shares = []
    for _ in range(n_resamples):
        part = draw_per_class(y, fraction, random_state=rng)
        model = clone(estimator).fit(X[part], y[part])
        shares.append(feature_relevance(model, X[part], y[part]).shares())
    shares = np.stack(shares)
    mean = shares.mean(axis=0)
    return RelevanceStability(
        classes=model.classes_,
        mean=mean,
        spread=shares.std(axis=0, ddof=1),
        correlation=np.array([_mean_correlation(rows) for rows in shares.swapaxes(0, 1)]),
        sign_agreement=(np.sign(shares) == np.sign(mean)).mean(axis=0),
    )


def _mean_correlation(rows):
    """Mean correlation between two different rows."""
    centred = rows - rows.mean(axis=1, keepdims=True)
    norms = np.linalg.norm(centred, axis=1, keepdims=True)
    unit = centred / np.where(norms > 0, norms, 1)
    gram = unit @ unit.T
    n = len(rows)
    return (gram.sum() - np.trace(gram)) / (n * (n - 1))
