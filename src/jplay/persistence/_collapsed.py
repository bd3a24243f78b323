"""The whole model as a few matrices."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.preprocessing import Normalizer

from jplay.estimators import JPlay
from jplay.persistence._model import as_trained_model


@dataclass(frozen=True, eq=False)
class CollapsedModel:
    r"""A fitted J-Play as two affine maps, after an optional scaling of each sample.

    With :math:`s(x)` the norm of the sample (1 where it is zero, or where ``norm`` is None),

    .. math:: z = A x / s(x) + a, \qquad f = B z + b

    are the features and the scores; the class with the largest score is predicted, or every label
    with a score above one half.

    Attributes
    ----------
    norm : {"max", "l1", "l2"} or None
    components, intercept : ndarray of shape (n_components, n_features) and (n_components,)
        :math:`A` and :math:`a`.
    label_coef, label_intercept : ndarray of shape (n_outputs, n_components) and (n_outputs,)
        :math:`B` and :math:`b`.
    classes : ndarray of shape (n_outputs,)
    multilabel : bool
    """

    norm: str | None
    components: np.ndarray
    intercept: np.ndarray
    label_coef: np.ndarray
    label_intercept: np.ndarray
    classes: np.ndarray
    multilabel: bool

    def transform(self, X: Any) -> Any:
        """Features :math:`z` of samples, shape (n_samples, n_components)."""
        return _scaled(X, self.norm) @ self.components.T + self.intercept

    def scores(self, X: Any) -> Any:
        """Scores :math:`f` of samples, shape (n_samples, n_outputs)."""
        return self.transform(X) @ self.label_coef.T + self.label_intercept

    def predict(self, X: Any) -> Any:
        """Labels of samples, or an indicator matrix."""
        scores = self.scores(X)
        if self.multilabel:
            return (scores > 0.5).astype(int)
        return self.classes[np.argmax(scores, axis=1)]


def collapse_model(model: Any) -> CollapsedModel:
    """Reduce a J-Play, alone or behind a ``Normalizer``, to its matrices.

    Parameters
    ----------
    model : TrainedModel, JPlay or Pipeline of Normalizer and JPlay

    Returns
    -------
    CollapsedModel

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_iris
    >>> from jplay import JPlay
    >>> from jplay.persistence import collapse_model
    >>> X, y = load_iris(return_X_y=True)
    >>> model = JPlay(n_components=3).fit(X, y)
    >>> np.array_equal(collapse_model(model).predict(X), model.predict(X))
    True
    """
    norm, last = norm_and_classifier(as_trained_model(model).estimator, (JPlay,))
    dtype = last.components_.dtype
    whitener, center = np.eye(len(last.whitener_)), np.zeros(len(last.whitener_))
    if last.whiten:
        whitener, center = (np.astype(a, np.float64) for a in (last.whitener_, last.center_))
    label_coef = last.decision_coef_ @ np.linalg.inv(whitener)
    return CollapsedModel(
        norm=norm,
        components=(whitener @ last.components_).astype(dtype),
        intercept=(whitener @ (last.intercept_ - center)).astype(dtype),
        label_coef=label_coef.astype(dtype),
        label_intercept=(last.decision_intercept_ + last.decision_coef_ @ center).astype(dtype),
        classes=np.asarray(last.classes_),
        multilabel=bool(last.multilabel_),
    )


def norm_and_classifier(estimator: Any, allowed: tuple[type, ...]) -> tuple[str | None, Any]:
    """The norm by which samples are divided, if any, and the classifier of an ``allowed`` class."""
    steps = [estimator]
    if hasattr(estimator, "steps"):
        steps = [step for _, step in estimator.steps if step not in (None, "passthrough")]
    *before, last = steps
    normalized = len(before) == 1 and isinstance(before[0], Normalizer)
    if type(last) not in allowed or (before and not normalized):
        names = [kind.__name__ for kind in allowed]
        listed = " or ".join([", ".join(names[:-1])] * (len(names) > 1) + names[-1:])
        raise TypeError(
            f"`model` should be a {listed}, or a pipeline of one Normalizer and that, got "
            f"{' -> '.join(type(step).__name__ for step in steps)}. Save it with save_model "
            "instead, or export its last step alone."
        )
    return (before[0].norm if before else None), last


def _scaled(X, norm):
    X = np.asarray(X)
    if norm is None:
        return X
    order = {"max": np.inf, "l1": 1, "l2": 2}[norm]
    scale = np.linalg.norm(X, ord=order, axis=1, keepdims=True)
    return X / np.where(scale == 0.0, X.dtype.type(1), scale)
