"""A fitted row: its features, its predictions, and classifiers on top of it."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.metrics import (
    f1_score,
    hamming_loss,
    label_ranking_average_precision_score,
    label_ranking_loss,
)

from jplay.experiments._protocol import fit_scaler
from jplay.experiments._steps import OWN, label_scores, make_classifier

ROWS_AT_A_TIME = 20_000


@dataclass(frozen=True, eq=False)
class FittedRow:
    """A fitted pipeline, the features of its split, and the time the fit took."""

    pipeline: Any
    Z_train: np.ndarray
    Z_test: np.ndarray
    seconds: float
    transform_seconds: float = 0.0
    """Time that the features of the test samples took."""

    @property
    def model(self):
        """The method itself: the last step that is not mere scaling."""
        if not hasattr(self.pipeline.steps[-1][1], "transform"):
            return self.pipeline.steps[-1][1]  # a classifier
        for _, step in reversed(self.pipeline.steps):
            if hasattr(step, "components_") or hasattr(step, "scalings_"):
                return step
        return self.pipeline.steps[-1][1]

    def inputs(self, X):
        """Pass samples through the steps before the model."""
        model = self.model
        for _, step in self.pipeline.steps:
            if step is model:
                break
            X = step.transform(X)
        return X

    def own_labels(self, cube):
        """Classify every pixel of an image by the model itself."""
        return map_of_pixels(cube, lambda pixels: self.model.predict(self.inputs(pixels)))

    def summary(self):
        model = self.model
        summary = {"seconds": self.seconds, "n_features": int(self.Z_train.shape[1])}
        if hasattr(model, "result_"):
            summary |= {
                "layer_sizes": [int(size) for size in model.layer_sizes_],
                "n_iter": int(model.n_iter_),
                "objective": float(model.objective_history_[-1]),
                "converged": bool(model.result_.status.converged),
            }
        return summary


def map_of_pixels(cube, predict):
    """Return ``predict`` of every pixel of an image, asked for some thousands at a time."""
    pixels = cube.reshape(-1, cube.shape[2])
    parts = np.array_split(pixels, max(1, len(pixels) // ROWS_AT_A_TIME))
    return np.concatenate([predict(part) for part in parts]).reshape(cube.shape[:2])


@dataclass(frozen=True)
class FittedColumn:
    """A classifier on top of a fitted row: from samples and their features to labels.

    ``probabilities`` is None if the classifier has none.
    """

    labels: Callable
    probabilities: Callable | None
    asks_features: bool

    def __call__(self, X, Z):
        """Return labels (or scores of labels)."""
        return self.labels(X, Z)


def fit_classifier(fitted, classifier, y_train, *, scaling, seed):
    """Fit the classifier of a column to the features of a row.

    Returns
    -------
    FittedColumn
    """
    multilabel = y_train.ndim == 2
    if classifier.kind == OWN:
        decision = classifier.params.get("decision")

        def own(X, Z, *, ask="decision_function" if multilabel else "predict"):
            model = fitted.model
            if decision is not None:
                model.set_params(decision=decision)
            return getattr(model, ask)(fitted.inputs(X))

        known = hasattr(fitted.model, "predict_proba")
        return FittedColumn(own, partial(own, ask="predict_proba") if known else None, False)
    scaler = fit_scaler(classifier.features, fitted.Z_train, fitted.Z_test, scaling=scaling)
    model = make_classifier(classifier, seed)
    model.fit(scaler.transform(fitted.Z_train), y_train)
    ask = partial(label_scores, model) if multilabel else model.predict
    known = getattr(model, "predict_proba", None)
    return FittedColumn(
        lambda X, Z: ask(scaler.transform(Z)),
        (lambda X, Z: known(scaler.transform(Z))) if known is not None else None,
        True,
    )


def label_figures(Y, scores):
    """Return the five figures of a multi-label prediction."""
    predicted = (scores > 0.5).astype(int)
    return {
        "hamming_loss": float(hamming_loss(Y, predicted)),
        "micro_f1": float(f1_score(Y, predicted, average="micro", zero_division=0)),
        "macro_f1": float(f1_score(Y, predicted, average="macro", zero_division=0)),
        "ranking_loss": float(label_ranking_loss(Y, scores)),
        "average_precision": float(label_ranking_average_precision_score(Y, scores)),
    }
