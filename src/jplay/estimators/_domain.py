"""Labels in one domain, samples in another."""

from numbers import Integral
from typing import Any, Self

import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    _fit_context,
    clone,
)
from sklearn.preprocessing import StandardScaler, normalize
from sklearn.utils import check_consistent_length, column_or_1d
from sklearn.utils._param_validation import HasMethods, Interval
from sklearn.utils.validation import check_is_fitted, validate_data

from jplay._fitting import stores_at_end
from jplay._rowwise import by_rows
from jplay.core.blocked import check_in_host_memory
from jplay.core.graph import HeatGraph
from jplay.core.targets import encode_targets
from jplay.estimators.jplay import JPlay
from jplay.numerics.kernels import squared_distances
from jplay.numerics.subsets import surest_share
from jplay.numerics.votes import softmax

SHARPNESS = 5.0
"""Of squared distances between vectors of unit length, before they become probabilities."""
N_COMPONENTS = 40
"""Of J-Play, or four times the number of classes: the best directions of the source alone leave
out some that the target needs."""
SOURCE, TARGET = 1, -2
"""Domains of samples with and without label, if none are given; as in skada."""


class DomainJPlay(
    ClassNamePrefixFeaturesOutMixin, ClassifierMixin, TransformerMixin, BaseEstimator
):
    r"""A classifier for a target domain without labels, learnt from a labelled source.

    Another camera, another place, another day: classes are the same, samples are not. Each
    domain is standardised by itself. J-Play learns a subspace from the source, in which target
    samples take the class of the nearest class mean. The surest of each class then join the
    training samples with this class, and the subspace is learnt again; more of them join in
    every round, in the last one all (selective pseudo-labelling, Wang and Breckon 2020). So the
    classes of both domains draw together. Features are seen in the span of the class means, with
    unit length if there are three classes or more.

    This estimator is experimental: its interface and results may change.

    Parameters
    ----------
    estimator : classifier with transform or None, default=None
        Learns the subspace, cloned; ``None`` for :class:`JPlay` with 40 components or four times
        the number of classes, if the samples span as many.
    n_rounds : int, default=5
        In which target samples join. 0 means that the target is standardised, no more.

    Attributes
    ----------
    model_ : classifier with transform
        Fitted to source and target.
    scaler_ : StandardScaler
        Of the target.
    directions_ : ndarray of shape (n_classes - 1, n_model_features)
        Orthonormal, span the class means.
    center_ : ndarray of shape (n_classes - 1,)
    class_means_ : ndarray of shape (n_classes, n_classes - 1)
    classes_ : ndarray of shape (n_classes,)
    n_features_in_ : int

    See Also
    --------
    CrossSensorJPlay : Two sensors that saw the same samples.

    Examples
    --------
    >>> import numpy as np
    >>> from jplay import DomainJPlay, JPlay
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> X[600:] = 4 + 0.5 * np.roll(X[600:], 1, axis=1)  # less contrast, a pixel to the right
    >>> sample_domain = np.where(np.arange(len(X)) < 600, 1, -2)
    >>> model = DomainJPlay().fit(X[:1200], y[:1200], sample_domain=sample_domain[:1200])
    >>> alone = JPlay().fit(X[:600], y[:600])
    >>> model.score(X[1200:], y[1200:]) > alone.score(X[1200:], y[1200:])
    True
    """

    _parameter_constraints: dict = {
        "estimator": [HasMethods(["fit", "transform"]), None],
        "n_rounds": [Interval(Integral, 0, None, closed="left")],
    }

    def __init__(self, estimator: Any = None, *, n_rounds: int = 5) -> None:
        self.estimator = estimator
        self.n_rounds = n_rounds

    @stores_at_end
    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any, sample_domain: Any = None) -> Self:
        """Learn from a labelled source and a target.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Of all domains, in memory.
        y : array-like of shape (n_samples,)
            Class labels, -1 for samples without one. Those of target samples do not count.
        sample_domain : array-like of int of shape (n_samples,), default=None
            Positive for a source, of which there may be several, negative for the target.
            ``None`` means that samples without label are the target; without any, the classifier
            is one for the source.

        Returns
        -------
        self
        """
        check_in_host_memory(X=X, y=y, sample_domain=sample_domain)
        X, y = validate_data(self, X, y, dtype=[np.float64, np.float32], ensure_min_samples=2)
        domain = _checked_domains(sample_domain, y)
        source = domain > 0
        labelled = source.copy()
        labelled[source] = encode_targets(y[source], unlabeled="auto").labeled
        scaled = np.empty_like(X)
        for name in np.unique(domain)[::-1]:  # the target is last, and its scaler stays
            self.scaler_ = StandardScaler().fit(X[domain == name])
            scaled[domain == name] = self.scaler_.transform(X[domain == name])
        self._learn(scaled[labelled], y[labelled], scaled[~source])
        return self

    def _learn(self, X, y, target):
        """Learn the subspace, label target samples by it, and learn it again with these."""
        self.classes_, codes = np.unique(y, return_inverse=True)
        seen, labels = X, codes
        n_rounds = self.n_rounds if len(target) else 0
        for number in range(n_rounds + 1):
            self._fit_subspace(seen, labels, target)
            if number < n_rounds:
                shares = self._shares(self._features(target))
                chosen = shares.argmax(axis=1)
                kept = surest_share(chosen, shares.max(axis=1), (number + 1) / n_rounds)
                seen = np.concatenate([X, target[kept]])
                labels = np.concatenate([codes, chosen[kept]])

    def _fit_subspace(self, seen, labels, target):
        n_classes = len(self.classes_)
        self.model_ = self._fresh(seen, n_classes).fit(seen, self.classes_[labels])
        features = np.asarray(self.model_.transform(seen))
        means = _means(features, labels, n_classes)
        spanned = np.linalg.svd(means - features.mean(axis=0), full_matrices=False)[2]
        self.directions_ = spanned[: n_classes - 1]
        others = np.asarray(self.model_.transform(target)) if len(target) else features[:0]
        self.center_ = (np.concatenate([features, others]) @ self.directions_.T).mean(axis=0)
        self.class_means_ = _means(self._features(seen), labels, n_classes)

    def _fresh(self, X, n_classes):
        if self.estimator is not None:
            return clone(self.estimator)
        wanted = max(N_COMPONENTS, 4 * n_classes)
        spanned = min(X.shape) > wanted and np.linalg.matrix_rank(X - X.mean(axis=0)) >= wanted
        graph = HeatGraph(max(1, min(HeatGraph.n_neighbors, len(X) - 1)))
        return JPlay(wanted if spanned else None, graph=graph)

    def _features(self, scaled):
        """Features of standardised samples in the span of the class means."""
        features = np.asarray(self.model_.transform(scaled)) @ self.directions_.T - self.center_
        return normalize(features) if len(self.classes_) > 2 else features

    def _shares(self, features):
        """Probability of each class by the distance to its mean."""
        return softmax(-squared_distances(features, self.class_means_), SHARPNESS)

    @by_rows
    def transform(self, X: Any) -> Any:
        """Features of target samples in the subspace.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Of the target domain.

        Returns
        -------
        X_new : ndarray of shape (n_samples, n_classes - 1)
        """
        check_is_fitted(self, "model_")
        X = validate_data(self, X, dtype=[np.float64, np.float32], reset=False)
        return self._features(self.scaler_.transform(X))

    @by_rows
    def predict_proba(self, X: Any) -> Any:
        """Probability of every class for target samples.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Of the target domain.

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
        """
        return self._shares(self.transform(X))

    @by_rows
    def predict(self, X: Any) -> Any:
        """Class labels of target samples.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Of the target domain.

        Returns
        -------
        y : ndarray of shape (n_samples,)
        """
        shares = self._shares(self.transform(X))
        return self.classes_[shares.argmax(axis=1)]

    @property
    def _n_features_out(self) -> int:
        return len(self.directions_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _means(features, labels, n_classes):
    return np.array([features[labels == label].mean(axis=0) for label in range(n_classes)])


def _checked_domains(sample_domain, y):
    """Domain of every sample: at least one source, and one target if domains are given."""
    if sample_domain is None:
        return np.where(encode_targets(y, unlabeled="auto").labeled, SOURCE, TARGET)
    domain = column_or_1d(sample_domain)
    check_consistent_length(y, domain)
    wrong = domain == 0 if domain.dtype.kind in "iu" else np.ones(len(domain), dtype=bool)
    if wrong.any():
        raise ValueError(
            "`sample_domain` should hold whole numbers, positive for source and negative for "
            f"target samples, got {domain[wrong][0]}."
        )
    if not (domain > 0).any():
        raise ValueError(
            "`sample_domain` should be positive for some samples, the source, got none. Add "
            "labelled samples."
        )
    targets = np.unique(domain[domain < 0])
    if len(targets) != 1:
        raise ValueError(
            "`sample_domain` should have one negative number, the target, got "
            f"{targets.tolist() or 'none'}. Fit a model for each target."
        )
    return domain
