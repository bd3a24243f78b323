"""Forest of canonical correlation trees."""

import warnings
from math import ceil, log2, sqrt
from numbers import Integral, Real

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context
from sklearn.callback import CallbackSupportMixin
from sklearn.utils import check_random_state, gen_batches
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data
from threadpoolctl import threadpool_limits

from jplay._fitting import stores_at_end
from jplay.baselines.ccf._targets import ClassTargets, LabelTargets
from jplay.baselines.ccf._tree import TreeSettings, grow_tree

TREES_PER_TASK = 10
ROWS_PER_BLOCK = 2048


def _n_sampled_features(max_features, n_features):
    if max_features is None:
        return n_features
    if max_features == "log2":
        # All three of three features would turn every forest on them into bagged trees.
        return 2 if n_features == 3 else min(ceil(log2(n_features) + 1), n_features)
    if max_features == "sqrt":
        return max(1, int(sqrt(n_features)))
    if isinstance(max_features, Integral):
        if max_features > n_features:
            raise ValueError(
                f"`max_features` should be at most {n_features} (the number of features), "
                f"got {max_features}. Choose a smaller number, a fraction or 'log2'."
            )
        return int(max_features)
    return max(1, int(max_features * n_features))


def _standardization(X):
    """Mean and standard deviation of each column; 1 for the deviation of a constant column."""
    with np.errstate(over="ignore", invalid="ignore"):
        mean = X.mean(axis=0)
        scale = X.std(axis=0)
    if not np.isfinite(scale).all():
        column = int(np.flatnonzero(~np.isfinite(scale))[0])
        raise ValueError(
            f"`X` should have a finite variance in float64, but that of feature {column} "
            "overflows. Rescale the features."
        )
    # Rounding in the mean leaves a deviation of about this size on a constant column.
    scale[scale <= 10 * np.finfo(np.float64).eps * np.abs(mean)] = 1.0
    return mean, scale


def _grow_trees(Z, targets, settings, bagged, seeds):
    # The matrices of a node are far too small for several BLAS threads.
    with threadpool_limits(limits=1, user_api="blas"):
        return [grow_tree(Z, targets, settings, bagged=bagged, seed=seed) for seed in seeds]


def _predict_block(trees, block, mean, scale, finish):
    Z = (block - mean) / scale
    total = trees[0].predict(Z)
    for tree in trees[1:]:
        total += tree.predict(Z)
    total /= len(trees)
    return finish(total, block.dtype)


class CanonicalCorrelationForestClassifier(CallbackSupportMixin, ClassifierMixin, BaseEstimator):
    r"""Forest of trees that split along canonical correlation directions.

    Each node draws a few features and a bootstrap of its samples, and finds the directions
    :math:`a` of the canonical correlation analysis between these features and the labels,

    .. math:: \max_{a, b} \operatorname{corr}(X_S a, Y b), \quad S \text{ the drawn features}.

    All samples of the node are projected on every canonical direction, and the node splits at
    the midpoint with the largest information gain over all of them. The splits are oblique, so
    a forest follows boundaries that do not align with the features, and it does not depend on
    the scale of the features. There is nothing to tune in most problems.

    Parameters
    ----------
    n_estimators : int, default=300
        Number of trees.
    max_features : {"log2", "sqrt"}, int, float or None, default="log2"
        Number of features drawn at each node: ``ceil(log2(n_features) + 1)`` (2 of 3 features),
        the square root, a number, a fraction, or all.
    max_depth : int or None, default=None
        Largest number of splits above a leaf; unlimited by default.
    min_samples_leaf : int, default=1
        Smallest number of training samples in a leaf.
    bootstrap : {"auto", "projection", "tree"}, default="auto"
        What the bootstrap is for. With ``"projection"`` each tree grows on all samples and each
        node finds its directions on a bootstrap. With ``"tree"`` each tree grows on a bootstrap
        of the samples. ``"auto"`` is ``"tree"`` if each node draws all features and
        ``"projection"`` otherwise.
    n_jobs : int or None, default=None
        Number of processes that grow trees and of threads that predict. -1 means all cores.
        The result does not depend on it.
    random_state : int, RandomState instance or None, default=None
        Seed of all that is drawn.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,) or list of ndarray
        The classes. For an indicator matrix of labels, ``[0, 1]`` for each label.
    estimators_ : list of CanonicalCorrelationTree
        The trees. They act on standardized features, ``(X - mean_) / scale_``.
    mean_, scale_ : ndarray of shape (n_features,)
        Mean and standard deviation of the training samples.
    max_features_ : int
        Number of features drawn at each node.
    n_features_in_ : int
        Number of features seen in fit.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, where ``X`` had any.

    Notes
    -----
    Callbacks of scikit-learn (``set_callbacks``) see one task per ten trees, and may end the
    fit early.

    References
    ----------
    T. Rainforth and F. Wood, "Canonical correlation forests", arXiv:1507.05444, 2015.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from jplay import CanonicalCorrelationForestClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = CanonicalCorrelationForestClassifier(50, random_state=0).fit(X[::2], y[::2])
    >>> forest.score(X[1::2], y[1::2]) > 0.9
    True
    """

    _parameter_constraints: dict = {
        "n_estimators": [Interval(Integral, 1, None, closed="left")],
        "max_features": [
            StrOptions({"log2", "sqrt"}),
            Interval(Integral, 1, None, closed="left"),
            Interval(Real, 0, 1, closed="right"),
            None,
        ],
        "max_depth": [Interval(Integral, 1, None, closed="left"), None],
        "min_samples_leaf": [Interval(Integral, 1, None, closed="left")],
        "bootstrap": [StrOptions({"auto", "projection", "tree"})],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        n_estimators=300,
        *,
        max_features="log2",
        max_depth=None,
        min_samples_leaf=1,
        bootstrap="auto",
        n_jobs=None,
        random_state=None,
    ):
        self.n_estimators = n_estimators
        self.max_features = max_features
        self.max_depth = max_depth
        self.min_samples_leaf = min_samples_leaf
        self.bootstrap = bootstrap
        self.n_jobs = n_jobs
        self.random_state = random_state

    @stores_at_end
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y):
        """Grow the forest.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training samples.
        y : array-like of shape (n_samples,) or (n_samples, n_labels)
            The class of each sample, or an indicator matrix of its labels.

        Returns
        -------
        self : CanonicalCorrelationForestClassifier
            The fitted forest.
        """
        X, y = validate_data(self, X, y, dtype=[np.float64, np.float32], multi_output=True)
        check_classification_targets(y)
        self._multi_label = type_of_target(y, input_name="y") == "multilabel-indicator"
        if self._multi_label:
            self.classes_ = [np.array([0, 1])] * y.shape[1]
            return self._fit_trees(X, y, LabelTargets.of(y))
        if y.ndim == 2 and y.shape[1] > 1:
            raise ValueError(
                "`y` should hold one class per sample or a 0/1 indicator of labels, got "
                f"{y.shape[1]} columns with other values. Fit one forest per column."
            )
        y = column_or_1d(y, warn=True)
        self.classes_, codes = np.unique(y, return_inverse=True)
        return self._fit_trees(X, y, ClassTargets.of(codes, len(self.classes_)))

    def _fit_trees(self, X, y, targets):
        """Grow the trees on validated data and store them."""
        X = X.astype(np.float64, copy=False)
        self.mean_, self.scale_ = _standardization(X)
        self.max_features_ = _n_sampled_features(self.max_features, X.shape[1])
        bagged = self.bootstrap == "tree" or (
            self.bootstrap == "auto" and self.max_features_ == X.shape[1]
        )
        settings = TreeSettings(
            n_sampled_features=self.max_features_,
            max_depth=self.max_depth,
            min_samples_leaf=self.min_samples_leaf,
            projection_bootstrap=not bagged,
        )
        Z = (X - self.mean_) / self.scale_
        seeds = check_random_state(self.random_state).randint(
            np.iinfo(np.int32).max, size=self.n_estimators
        )
        batches = list(gen_batches(self.n_estimators, TREES_PER_TASK))
        fit_task = self._init_callback_context(max_subtasks=len(batches))
        fit_task.call_on_fit_task_begin(estimator=self, X=X, y=y)
        grown = Parallel(n_jobs=self.n_jobs, return_as="generator")(
            delayed(_grow_trees)(Z, targets, settings, bagged, seeds[batch]) for batch in batches
        )
        trees = []
        for _ in batches:
            task = fit_task.subcontext(task_name="trees")
            task.call_on_fit_task_begin(estimator=self, X=X, y=y)
            trees.extend(next(grown))
            if task.call_on_fit_task_end(
                estimator=self,
                X=X,
                y=y,
                reconstruction_attributes=lambda: {"estimators_": list(trees)},
            ):
                break
        with warnings.catch_warnings():
            # joblib warns of tasks that were begun in vain when a callback ends the fit.
            warnings.simplefilter("ignore", UserWarning)
            grown.close()
        self.estimators_ = trees
        fit_task.call_on_fit_task_end(estimator=self, X=X, y=y, reconstruction_attributes={})
        return self

    def _mean_of_trees(self, X, finish):
        """Mean leaf value of the rows, block by block, each passed through ``finish``."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=[np.float64, np.float32])
        blocks = Parallel(n_jobs=self.n_jobs, require="sharedmem")(
            delayed(_predict_block)(self.estimators_, X[rows], self.mean_, self.scale_, finish)
            for rows in gen_batches(len(X), ROWS_PER_BLOCK)
        )
        return np.concatenate(blocks)

    def predict_proba(self, X):
        """Mean over the trees of the class frequencies in the leaf of each sample.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples. They are classified in blocks, so their number is bounded by the memory
            that ``X`` and the result need.

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes) or list of such arrays
            Probability of each class, in the order of ``classes_``, of the precision of ``X``.
            For an indicator matrix of labels a list with an array of shape (n_samples, 2) for
            each label, as scikit-learn's forests return it.
        """
        mean = self._mean_of_trees(X, lambda mean, dtype: mean.astype(dtype, copy=False))
        if self._multi_label:
            return [np.column_stack([1 - label, label]) for label in mean.T]
        return mean

    def predict(self, X):
        """Most probable class, or labels with a probability above one half, of each sample.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        y : ndarray of shape (n_samples,) or (n_samples, n_labels)
            Classes, or the indicator matrix of the labels.
        """
        check_is_fitted(self)
        if self._multi_label:
            return self._mean_of_trees(X, lambda mean, dtype: (mean > 0.5).astype(np.int64))
        codes = self._mean_of_trees(X, lambda mean, dtype: mean.argmax(axis=1))
        return self.classes_[codes]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        tags.target_tags.multi_output = False
        return tags
