"""The whole model as a few matrices."""

from dataclasses import dataclass

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

    def transform(self, X):
        """Features :math:`z` of samples, shape (n_samples, n_components)."""
        return _scaled(X, self.norm) @ self.components.T + self.intercept

    def scores(self, X):
        """Scores :math:`f` of samples, shape (n_samples, n_outputs)."""
        return self.transform(X) @ self.label_coef.T + self.label_intercept

    def predict(self, X):
        """Labels of samples, or an indicator matrix."""
        scores = self.scores(X)
        if self.multilabel:
            return (scores > 0.5).astype(int)
        return self.classes[np.argmax(scores, axis=1)]


def collapse_model(model):
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
    model = as_trained_model(model)
    steps = _steps(model.estimator)
    *before, last = steps
    if not isinstance(last, JPlay) or len(before) > 1 or not _are_normalizers(before):
        raise TypeError(
            "`model` should be a JPlay, or a pipeline of one Normalizer and a JPlay, got "
            f"{' -> '.join(type(step).__name__ for step in steps)}. Save it with save_model "
            "instead, or export its last step alone."
        )
    if last._multilabel or last.decision == "projection":
        label_coef = last.coef_
        label_intercept = np.zeros(len(last.coef_), dtype=last.coef_.dtype)
    else:
        label_coef, label_intercept = last._centroid_coef, last._centroid_intercept
    return CollapsedModel(
        norm=before[0].norm if before else None,
        components=np.asarray(last.components_),
        intercept=np.asarray(last.intercept_),
        label_coef=np.asarray(label_coef),
        label_intercept=np.asarray(label_intercept),
        classes=np.asarray(last.classes_),
        multilabel=bool(last._multilabel),
    )


def _steps(estimator):
    if not hasattr(estimator, "steps"):
        return [estimator]
    return [step for _, step in estimator.steps if step not in (None, "passthrough")]


def _are_normalizers(steps):
    return all(isinstance(step, Normalizer) for step in steps)


def _scaled(X, norm):
    X = np.asarray(X)
    if norm is None:
        return X
    order = {"max": np.inf, "l1": 1, "l2": 2}[norm]
    scale = np.linalg.norm(X, ord=order, axis=1, keepdims=True)
    return X / np.where(scale == 0.0, X.dtype.type(1), scale)
