"""Shares of the original features in what separates each class."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_array, check_is_fitted


@dataclass(frozen=True)
class FeatureRelevance:
    """What each original feature adds to the separation of each class."""

    classes: Any
    overall: Any
    """(n_classes, n_features): rows sum to the mean score of the class on its own samples,
    above its mean over all."""
    layers: list
    """One (n_classes, n_features) per layer: rows sum to the squared distance between class
    mean and overall mean in that subspace."""

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

    def top_features(self, n=10, layer=None):
        """Positions of the ``n`` features that add most to each class, (n_classes, n)."""
        return np.argsort(-self.shares(layer), axis=1, kind="stable")[:, :n]


@dataclass(frozen=True)
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
    r"""Which original features each class relies on, per layer and overall.

    All maps of J-Play are linear, so the contributions are exact and add up. With
    :math:`\delta_k` the mean of class :math:`k` minus the mean of all samples, feature
    :math:`j` adds

    .. math::

        w_{kj} \delta_{kj}, \qquad (T_l^T T_l \delta_k)_j \, \delta_{kj},

    the first to the score of its class, :math:`w_k` being the weights of the model's decision
    on the original features; the second to the squared distance
    :math:`\|T_l \delta_k\|^2` by which layer :math:`l` sets the class apart, where
    :math:`T_l = \Theta_l \cdots \Theta_1`. Negative values mark features that pull a class
    towards the others.

    Parameters
    ----------
    model : fitted JPlay
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
    ((3, 4), 3)
    """
    check_is_fitted(model, "components_")
    X = check_array(X)
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
    for theta in model.projections_:
        chain = theta @ chain
        layers.append((deltas @ chain.T @ chain) * deltas)
    return FeatureRelevance(model.classes_, decision_weights(model) * deltas, layers)


def decision_weights(model):
    """Weights (n_classes, n_features) of the model's decision on the original features."""
    by_means = model.decision == "centroid" and hasattr(model, "class_means_")
    return (model._centroid_coef if by_means else model.coef_) @ model.components_


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
    estimator : JPlay
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
        part = _part_of_each_class(y, fraction, rng)
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


def _part_of_each_class(y, fraction, rng):
    if y.ndim == 2:
        return np.sort(rng.permutation(len(y))[: max(2, round(fraction * len(y)))])
    parts = []
    for label in np.unique(y):
        rows = rng.permutation(np.flatnonzero(y == label))
        parts.append(rows[: max(1, round(fraction * len(rows)))])
    return np.sort(np.concatenate(parts))


def _mean_correlation(rows):
    """Mean correlation between two different rows."""
    centred = rows - rows.mean(axis=1, keepdims=True)
    norms = np.linalg.norm(centred, axis=1, keepdims=True)
    unit = centred / np.where(norms > 0, norms, 1)
    gram = unit @ unit.T
    n = len(rows)
    return (gram.sum() - np.trace(gram)) / (n * (n - 1))
