"""The few features that tell classes apart."""

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator, _fit_context
from sklearn.feature_selection import SelectorMixin
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from jplay._estimator_base import (
    float_dtypes,
    prepare_problem,
    warn_if_not_converged,
)
from jplay._fitting import stores_at_end
from jplay._rowwise import by_rows
from jplay.core.blocked import check_rows, is_in_blocks
from jplay.core.objective import Objective, Ridge
from jplay.core.solver import FastSolver
from jplay.core.targets import encode_targets
from jplay.estimators.band_path import Selector
from jplay.numerics.feature_choice import ChoiceRules


class JPlayBandSelector(SelectorMixin, BaseEstimator):
    r"""Choose the few bands, or other features, that tell classes apart.

    To the objective of :class:`JPlay` with one layer a penalty on the columns of the projection
    is added,

    .. math:: f(\Theta, P) + \lambda \sum_j c_j \|\theta_j\|,

    with the cost :math:`c_j` of band :math:`j`. It makes whole columns zero. The larger
    :math:`\lambda`, the fewer bands the model uses; those that last longest are proposed. Among
    neighbouring bands, which are nearly copies, such a path does not choose well. So bands
    are then replaced one by one as long as left-out samples become more probable by more than
    the standard error. For that every class is a normal distribution over the chosen bands.
    Replacements also start from a set that grows band by band, and the better set is chosen.

    Parameters
    ----------
    n_features_to_select : int, float or None, default=None
        Number of bands, or their share if a float between 0 and 1. ``None`` means ten, or half
        of the features if that is less.
    min_distance : int, default=1
        Least difference of the numbers of two chosen bands. 1 allows neighbours.
    feature_groups : array-like of shape (n_features,), default=None
        Group of each band. At most one band of a group is chosen.
    feature_costs : array-like of shape (n_features,), default=None
        Positive cost of each band. The penalty is weighted by it, and bands are added by gain per
        cost.
    max_cost : float, default=None
        Maximum total cost of the chosen bands; fewer than ``n_features_to_select`` may be
        chosen then. ``None`` means that replacements do not raise the cost of the set that the path
        proposes.
    refine : bool, default=True
        Whether bands of the path are replaced. If not, those that last longest are chosen.
    n_resamples : int, default=0
        Number of random halves of the samples on which the choice is repeated for
        ``stability_``.
    n_components : int, default=None
        Dimension of the subspace. ``None`` means 30 or twice the number of classes, whichever is
        larger, or fewer if the samples' rank is smaller.
    alpha : float, default=10.0
        Weight of the prediction loss.
    beta : float, default=0.01
        Weight of the manifold term.
    gamma : float, default=0.1
        Weight of the ridge on the label projection.
    solver : {"fast"} or FastSolver, default="fast"
    random_state : int, RandomState instance or None, default=0
        For the folds in which samples are left out, and for the halves.

    Attributes
    ----------
    support_ : ndarray of bool of shape (n_features,)
        Which bands are chosen.
    path_ : FeaturePath
        ``path_.penalties`` and ``path_.norms``: the norm of every column at every penalty.
    loss_ : float
        Mean of minus the logarithm of the probability of left-out samples' classes, tempered.
        It chose the bands, so it is too small for new samples.
    importances_ : ndarray of shape (n_features,)
        By how much the loss grows without a band. Zero for bands that are not chosen.
    stability_ : ndarray of shape (n_features,) or None
        Share of the halves for which a band was chosen.
    classes_ : ndarray of shape (n_classes,)
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Defined if the features of ``X`` have names.

    See Also
    --------
    jplay.plotting.BandsDisplay : The chosen bands over the spectra of the classes.
    sklearn.feature_selection.SequentialFeatureSelector : Adds features by cross-validation.

    Examples
    --------
    >>> from jplay import JPlayBandSelector
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> selector = JPlayBandSelector(3).fit(X, y)
    >>> selector.transform(X).shape
    (178, 3)
    """

    _training_attributes = ("path_",)

    _parameter_constraints: dict = {
        "n_features_to_select": [
            Interval(Integral, 1, None, closed="left"),
            Interval(Real, 0, 1, closed="neither"),
            None,
        ],
        "min_distance": [Interval(Integral, 1, None, closed="left")],
        "feature_groups": ["array-like", None],
        "feature_costs": ["array-like", None],
        "max_cost": [Interval(Real, 0, None, closed="neither"), None],
        "refine": ["boolean"],
        "n_resamples": [Interval(Integral, 0, None, closed="left")],
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "alpha": [Interval(Real, 0, None, closed="neither")],
        "beta": [Interval(Real, 0, None, closed="left")],
        "gamma": [Interval(Real, 0, None, closed="neither")],
        "solver": [StrOptions({"fast"}), FastSolver],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        n_features_to_select: int | float | None = None,
        *,
        min_distance: int = 1,
        feature_groups: Sequence | None = None,
        feature_costs: Sequence[float] | None = None,
        max_cost: float | None = None,
        refine: bool = True,
        n_resamples: int = 0,
        n_components: int | None = None,
        alpha: float = 10.0,
        beta: float = 0.01,
        gamma: float = 0.1,
        solver: Literal["fast"] | FastSolver = "fast",
        random_state: Any = 0,
    ) -> None:
        self.n_features_to_select = n_features_to_select
        self.min_distance = min_distance
        self.feature_groups = feature_groups
        self.feature_costs = feature_costs
        self.max_cost = max_cost
        self.refine = refine
        self.n_resamples = n_resamples
        self.n_components = n_components
        self.alpha = alpha
        self.beta = beta
        self.gamma = gamma
        self.solver = solver
        self.random_state = random_state

    @stores_at_end
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> Self:
        """Choose bands.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples in blocks are taken as :meth:`JPlay.fit` takes them.
        y : array-like of shape (n_samples,)
            Classes; -1 or None for samples without one.

        Returns
        -------
        self
        """
        if not is_in_blocks(X):
            X, y = validate_data(self, X, y, dtype=float_dtypes(X), ensure_min_samples=2)
        n_features = X.shape[1]
        n_selected, rules = self._wanted(n_features), self._rules(n_features)
        if is_in_blocks(X):
            y = check_rows(y, X, "y")
        targets = encode_targets(y, unlabeled="auto")
        if targets.multilabel:
            raise ValueError(
                "`y` should hold one class per sample, got a matrix of labels. Choose bands "
                "for one label at a time."
            )
        selector = Selector(
            n_components=self.n_components,
            objective=Objective(self.alpha, self.beta, Ridge(self.gamma), reconstruction=False),
            solver=FastSolver() if self.solver == "fast" else self.solver,
            n_selected=n_selected,
            rules=rules,
            refine=self.refine,
            n_resamples=self.n_resamples,
            seed=int(check_random_state(self.random_state).randint(2**31 - 1)),
        )
        with prepare_problem(
            X, targets, scaling="standard", n_components=self.n_components, reduce_features=False
        ) as problem:
            attributes, status = selector.select(problem)
        self.__dict__.update(attributes, n_features_in_=n_features, classes_=targets.classes)
        warn_if_not_converged(status, type(self).__name__)
        return self

    def _wanted(self, n_features):
        """The number of bands asked for."""
        n = self.n_features_to_select
        if n is None:
            return max(1, min(10, n_features // 2))
        if not isinstance(n, Integral):
            return max(1, round(n * n_features))
        if n > n_features:
            raise ValueError(
                f"`n_features_to_select` should be at most {n_features} (the number of features), "
                f"got {n}. Choose fewer."
            )
        return int(n)

    def _rules(self, n_features):
        groups = _one_per_feature("feature_groups", self.feature_groups, n_features)
        costs = _one_per_feature("feature_costs", self.feature_costs, n_features)
        if costs is None and self.max_cost is not None:
            costs = np.ones(n_features)
        if costs is not None:
            costs = costs.astype(float)
            if not (np.isfinite(costs) & (costs > 0)).all():
                raise ValueError(
                    "`feature_costs` should be positive numbers, got "
                    f"{costs[~(np.isfinite(costs) & (costs > 0))][0]!r}. Give bands that cost "
                    "nothing a small cost."
                )
        max_cost = np.inf if self.max_cost is None else float(self.max_cost)
        if costs is not None and costs.min() > max_cost:
            raise ValueError(
                f"`max_cost` should be at least {costs.min():g} (the smallest cost of a feature), "
                f"got {max_cost:g}. Allow more."
            )
        return ChoiceRules(n_features, self.min_distance, groups, costs, max_cost)

    def _get_support_mask(self):
        check_is_fitted(self, "support_")
        return self.support_

    @by_rows
    def transform(self, X: Any) -> Any:
        """Keep the chosen bands.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        X_new : ndarray of shape (n_samples, n_chosen)
        """
        return super().transform(X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


def _one_per_feature(name, values, n_features):
    """Values as an array, one per feature, or ``None``."""
    if values is None:
        return None
    values = np.asarray(values)
    if values.shape != (n_features,):
        raise ValueError(
            f"`{name}` should have shape ({n_features},), one value per feature, got "
            f"{values.shape}."
        )
    return values
