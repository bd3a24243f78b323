"""Base class of LSDR and LSQMID: parameters, targets, callbacks and the fit."""

import warnings
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator, _fit_context
from sklearn.callback import CallbackSupportMixin, with_callbacks
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import validate_data

from jplay._estimator_base import (
    CenteredTransformer,
    check_n_components,
    check_squares,
)
from jplay._fitting import stores_at_end
from jplay.baselines._linalg import centering_noise
from jplay.core.information import SearchStatus, draw_samples, search_subspace


def _encode_targets(y, target_type):
    """Return targets as columns of floats, and whether they are one-hot classes."""
    if target_type == "auto":
        target_type = type_of_target(y, input_name="y")
    if target_type in ("binary", "multiclass", "classes"):
        if y.ndim == 2 and y.shape[1] > 1:
            raise ValueError(
                f"With `target_type='classes'`, `y` should have one column, got {y.shape[1]}. "
                "Use `target_type='auto'` for label indicators."
            )
        labels, codes = np.unique(y, return_inverse=True)
        return np.eye(len(labels))[codes.ravel()], True
    try:
        return y.reshape(len(y), -1).astype(np.float64), False
    except ValueError as error:
        raise ValueError(
            "`y` should hold numbers unless it holds one class per sample. "
            "Encode its columns as label indicators."
        ) from error


def _principal_coordinates(X):
    """Return mean, coordinates (n, rank) and axes (rank, n_features) of the centered samples."""
    mean = X.mean(axis=0)
    left, scales, axes = np.linalg.svd(X - mean, full_matrices=False)
    # Centering samples with a large offset leaves rounding, not variance.
    rank = int(np.sum(scales > max(centering_noise(X), 1e-12 * scales[0])))
    return mean, left[:, :rank] * scales[:rank], axes[:rank]


class InformationSubspace(CallbackSupportMixin, CenteredTransformer, BaseEstimator):
    """Base of estimators that search the subspace with most information on the target."""

    _parameter_constraints = {
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "widths": ["array-like"],
        "regs": ["array-like"],
        "n_centers": [Interval(Integral, 1, None, closed="left")],
        "cv": [Interval(Integral, 2, None, closed="left")],
        "init": [StrOptions({"auto", "pca", "gradient", "random"})],
        "n_restarts": [Interval(Integral, 0, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "target_type": [StrOptions({"auto", "classes", "real"})],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        n_components: int = 2,
        *,
        widths: Sequence[float] = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0),
        regs: Sequence[float] = (0.001, 0.01, 0.1, 1.0),
        n_centers: int = 200,
        cv: Any = 5,
        init: Literal["auto", "pca", "gradient", "random"] = "auto",
        n_restarts: int = 2,
        max_iter: int = 100,
        tol: float = 0.001,
        target_type: Literal["auto", "classes", "real"] = "auto",
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.widths = widths
        self.regs = regs
        self.n_centers = n_centers
        self.cv = cv
        self.init = init
        self.n_restarts = n_restarts
        self.max_iter = max_iter
        self.tol = tol
        self.target_type = target_type
        self.random_state = random_state

    def _positive_candidates(self, name):
        candidates = np.atleast_1d(np.asarray(getattr(self, name), dtype=np.float64))
        if candidates.size == 0 or not np.all(candidates > 0):
            raise ValueError(
                f"`{name}` should be one or more positive numbers, got {getattr(self, name)!r}. "
                "Leave it out to choose among the default candidates."
            )
        return tuple(candidates.tolist())

    @stores_at_end
    @with_callbacks
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> Self:
        """Learn the subspace.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Class labels, label indicators, or real values; see ``target_type``.

        Returns
        -------
        self : object
        """
        X, y = validate_data(
            self, X, y, dtype=[np.float64, np.float32], multi_output=True, ensure_min_samples=2
        )
        check_squares(X)
        widths, regs = self._positive_candidates("widths"), self._positive_candidates("regs")
        check_n_components(
            self.n_components,
            X.shape[1],
            f"the number of features, n_features={X.shape[1]}",
            "Choose fewer components.",
        )
        targets, are_classes = _encode_targets(y, self.target_type)
        if np.all(targets == targets[0]):
            raise ValueError(
                f"{type(self).__name__} needs a target with at least 2 classes or values, "
                "got 1 class or a constant. Check `y`."
            )
        mean, coordinates, axes = _principal_coordinates(X.astype(np.float64, copy=False))
        check_n_components(
            self.n_components,
            len(axes),
            f"the rank of the {X.shape[0]} centered samples",
            "Choose fewer components, or give more distinct samples.",
        )
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31 - 1))
        samples = draw_samples(
            coordinates, targets, are_classes, n_centers=self.n_centers, n_folds=self.cv, rng=rng
        )
        context = self._init_callback_context(max_subtasks=None)
        context.call_on_fit_task_begin(estimator=self, X=X, y=y)

        def fitted(frame):
            return {
                "components_": (frame @ axes).astype(X.dtype, copy=False),
                "mean_": mean.astype(X.dtype, copy=False),
            }

        def on_step(step):
            task = context.subcontext(task_name="step")
            task.call_on_fit_task_begin(estimator=self, X=X, y=y)
            return task.call_on_fit_task_end(
                estimator=self, X=X, y=y, reconstruction_attributes=lambda: fitted(step.frame)
            )

        result = search_subspace(
            self._criterion(samples, widths, regs),
            self.n_components,
            init=self.init,
            n_restarts=self.n_restarts,
            max_iter=self.max_iter,
            tol=self.tol,
            rng=rng,
            on_step=on_step if hasattr(self, "_skl_callbacks") else None,
        )
        for name, value in fitted(result.frame).items():
            setattr(self, name, value)
        (self.width_, target_width, self.reg_), self.score_ = result.choice
        self.target_width_ = None if self._ignores_target_width(samples) else target_width
        self.n_iter_ = result.n_iter
        context.call_on_fit_task_end(
            estimator=self, X=X, y=y, reconstruction_attributes=lambda: fitted(result.frame)
        )
        if result.status is SearchStatus.MAX_ITER:
            warnings.warn(
                f"{type(self).__name__} did not converge to tol={self.tol} after {self.n_iter_} "
                f"steps in all: {result.status.value}.",
                ConvergenceWarning,
                stacklevel=5,
            )
        return self

    def _ignores_target_width(self, samples):
        return False

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.two_d_labels = True
        tags.target_tags.multi_output = True
        return tags
