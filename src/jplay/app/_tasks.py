"""What the worker processes do: fits, estimates of accuracy, files to export."""

import os
import warnings
from contextlib import contextmanager, suppress
from dataclasses import replace

import joblib
import numpy as np
from joblib._parallel_backends import ThreadingBackend
from sklearn.base import clone
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

from jplay.app._subspaces import SubspaceView
from jplay.inspection import estimate_accuracy, feature_relevance
from jplay.persistence import default_estimator, train_model

MODELS = {
    "jplay": "J-Play",
    "lifted": "Lifted J-Play",
    "committee": "Committee of J-Plays",
    "lda": "Linear discriminant (shrinkage)",
    "forest": "Random forest",
}


def make_estimator(model, *, norm="max"):
    """Return an estimator by its short name, behind a scaling of each sample."""
    if model in ("jplay", "lifted", "committee"):
        settings = {} if model == "jplay" else {"random_state": 0}
        return default_estimator(model, norm=norm, **settings)
    classifier = {
        "lda": LinearDiscriminantAnalysis(solver="eigen", shrinkage="auto"),
        "forest": RandomForestClassifier(200, random_state=0),
    }[model]
    return make_pipeline(Normalizer(norm=norm), classifier) if norm else classifier


class _CountingBackend(ThreadingBackend):
    """Threads of joblib that tell how many pieces of work are done."""

    report = None
    n_done = 0

    def submit(self, func, callback=None):
        def counted(result):
            type(self).n_done += 1
            type(self).report(type(self).n_done)
            callback(result)

        return super().submit(func, counted)


joblib.register_parallel_backend("jplay-counting", _CountingBackend)


class _Iterations:
    """A callback of scikit-learn that reports the iterations of a fit."""

    def __init__(self, report):
        self._report, self._count = report, 0

    def setup(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context, *, X=None, y=None, fitted_estimator=None):
        self._count += 1
        self._report(f"iteration {self._count}")

    def teardown(self, estimator, context):
        pass


@contextmanager
def _watched(estimator, model, report):
    """Report the progress of a fit by what the model offers."""
    last = estimator[-1] if hasattr(estimator, "steps") else estimator
    total = getattr(last, "n_estimators", None)
    label = f"Fitting: {MODELS[model]}"

    def pieces(done):
        with suppress(Exception):  # in a thread of the fit, which is ended from outside
            report(label, min(done, total), total)

    report(label)
    watchable = hasattr(last, "set_callbacks") and model == "jplay"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        if watchable:
            last.set_callbacks(_Iterations(lambda text: report(f"{label}, {text}")))
        if total is None:
            yield
        else:
            _CountingBackend.report, _CountingBackend.n_done = staticmethod(pieces), 0
            with joblib.parallel_config("jplay-counting", n_jobs=os.cpu_count()):
                yield
        if watchable:
            last.set_callbacks()


def fit(report, X, y, model, norm, metadata, source):
    """Fit a model, and compute what the page shows of it.

    Returns
    -------
    trained : TrainedModel
    view : SubspaceView
    relevance : ndarray of shape (n_classes, n_features), (1, n_features) or None
    """
    estimator = make_estimator(model, norm=norm)
    with _watched(estimator, model, report):
        trained = train_model(X, y, estimator, metadata=metadata, source=source)
    report("Preparing the views")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names", UserWarning)
        relevance = _relevance(estimator, np.asarray(X, dtype=np.float64), y)
    return trained, SubspaceView.of(estimator, X, y), relevance


def _relevance(estimator, X, y):
    """Shares of the features by class, by model as a whole, or None if it tells nothing."""
    steps = estimator.steps if hasattr(estimator, "steps") else [("model", estimator)]
    for _, step in steps[:-1]:
        X = step.transform(X)
    last = steps[-1][1]
    try:
        return feature_relevance(last, X, y).shares()
    except (ValueError, AttributeError):
        pass
    importances = getattr(last, "feature_importances_", None)
    return None if importances is None else np.asarray(importances)[np.newaxis]


def judge(report, X, y, groups, group_name, models, norm):
    """Estimate the accuracy of models by leaving whole groups out.

    Returns
    -------
    list of (str, AccuracyEstimate)
    """
    found = []
    for model in models:
        label = f"Leaving out parts: {MODELS[model]}"
        report(label)
        estimate = estimate_accuracy(
            clone(make_estimator(model, norm=norm)),
            X,
            y,
            groups=groups,
            group_name=group_name,
            peers=False,
            progress=lambda done, total, label=label: report(label, done, total),
        )
        named = [replace(row, name=MODELS[model]) for row in estimate.methods]
        found.append((model, replace(estimate, methods=named)))
    return found
