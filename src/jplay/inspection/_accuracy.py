"""How accurate a model is on samples that it has not seen, with an interval and two peers."""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
from scipy.stats import t as student
from sklearn.base import clone
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GroupKFold, StratifiedGroupKFold, StratifiedKFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline

from jplay._text import some_of
from jplay.datasets import stratified_folds
from jplay.numerics.metrics import AccuracyReport, confusion_matrix

CONFIDENCE = 0.95
FEW_UNITS = 10
"""A class with fewer samples, or a division with fewer groups, is noted."""
WIDEST_DISCRIMINANT = 5000
"""Features above which the covariance matrix of the linear discriminant is not computed."""
N_DEALS = 20
"""Divisions of groups among which one is sought that leaves no class untrained."""


@dataclass(frozen=True, eq=False)
class MethodAccuracy:
    """Accuracy of one method on samples left out of its fit."""

    name: str
    accuracy: float
    """Share of the tested samples that are right (of all labels, if each sample has several)."""
    low: float
    """Lower end of the 95 % interval."""
    high: float
    """Upper end of the 95 % interval."""
    average_accuracy: float | None
    """Mean over the classes; None if each sample has several labels."""
    kappa: float | None
    """Agreement beyond chance; None if each sample has several labels."""
    fold_accuracies: list[float]
    predicted: np.ndarray
    """Labels of the samples ``rows`` of the estimate, each by a fit that did not see its unit."""
    seconds: float
    """Time of the fits and predictions."""
    confusion: np.ndarray | None = None
    """Tested samples by true (rows) and predicted class, all classes of the model; None if each
    sample has several labels."""


@dataclass(frozen=True, eq=False)
class AccuracyEstimate:
    """Cross-validated accuracy of a model and its peers; see :func:`estimate_accuracy`."""

    methods: list[MethodAccuracy]
    """The given model first."""
    folds: str
    """What is left out together: ``"groups"`` or ``"random"`` samples."""
    n_folds: int
    n_units: int
    """Number of groups (of samples, if there are none) over which the interval is taken."""
    rows: np.ndarray
    """Positions of the samples that were tested."""
    notes: list[str]
    """What a reader should know before trusting the figures."""
    group_name: str = "group"
    """What a group is called."""

    @property
    def model(self) -> MethodAccuracy:
        """The given model's row."""
        return self.methods[0]

    @property
    def title(self) -> str:
        """How the figures were obtained, in words."""
        units = f"{self.group_name}s" if self.folds == "groups" else "samples"
        kind = "whole" if self.folds == "groups" else "random"
        return (
            f"{self.n_folds}-fold cross-validation leaving out {kind} {units}, 95 % interval over "
            f"{self.n_units} {units}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as a model file carries them."""
        own = self.model
        return {
            "method": self.title,
            "overall_accuracy": own.accuracy,
            "low": own.low,
            "high": own.high,
            "average_accuracy": own.average_accuracy,
            "kappa": own.kappa,
            "confusion": None if own.confusion is None else own.confusion.tolist(),
            "folds": self.folds,
            "n_folds": self.n_folds,
            "n_units": self.n_units,
            "compared": [
                {"name": row.name, "overall_accuracy": row.accuracy, "low": row.low}
                | {"high": row.high, "seconds": round(row.seconds, 3)}
                for row in self.methods
            ],
            "notes": list(self.notes),
        }


def estimate_accuracy(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    groups: Any = None,
    peers: bool = True,
    n_folds: int = 5,
    random_state: int = 0,
    progress: Callable[[int, int], Any] | None = None,
    class_names: dict | None = None,
    group_name: str = "group",
) -> AccuracyEstimate:
    r"""Cross-validate a model beside shrinkage LDA and a random forest.

    Samples that belong together (pixels of a field, measurements of a person) share a group, and
    a group is left out as a whole. Without groups, folds are of single samples, stratified by
    class. The interval is Wilson's for the share :math:`p` of right answers, with Student's
    quantile and the effective number of samples :math:`p (1 - p) / v`, where :math:`v` is the
    variance of :math:`p` between groups (or samples).

    Parameters
    ----------
    estimator : scikit-learn classifier
        Cloned for every fold. The peers get the steps before the last one of a pipeline too.
    X : array-like or DataFrame of shape (n_samples, n_features)
    y : array-like of shape (n_samples,) or (n_samples, n_labels)
    groups : array-like of shape (n_samples,), optional
        Which samples belong together.
    peers : bool, default=True
        Whether to compare with ``LinearDiscriminantAnalysis`` (shrinkage by Ledoit and Wolf) and
        ``RandomForestClassifier``.
    n_folds : int, default=5
        Maximum number of folds; fewer groups or samples give fewer.
    random_state : int, default=0
        Of the folds and the random forest.
    progress : callable, optional
        Called with the number of fits done and of all fits, first with none done. What it raises
        ends the estimate.
    class_names : dict, optional
        Name of each label, for the notes.
    group_name : str, default="group"
        What the notes call a group.

    Returns
    -------
    AccuracyEstimate

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from jplay import JPlay
    >>> from jplay.inspection import estimate_accuracy
    >>> X, y = load_iris(return_X_y=True)
    >>> found = estimate_accuracy(JPlay(), X, y, peers=False)
    >>> found.folds, found.model.low < found.model.accuracy < found.model.high
    ('random', True)
    """
    y = np.asarray(y)
    units, folds, notes = _usable_groups(y, groups, group_name)
    rows, untested = _testable(y, units)
    splits = _splits(y, units if folds == "groups" else None, rows, n_folds, random_state)
    candidates = [(_name(estimator), estimator)]
    if peers:
        candidates += _peers(estimator, X, y, random_state, notes)
    total, done = len(candidates) * len(splits), 0
    methods = []
    if progress is not None:
        progress(0, total)
    for name, candidate in candidates:
        predicted, fold_accuracies, started = np.empty_like(y), [], perf_counter()
        for train, test in splits:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                fitted = clone(candidate).fit(_take(X, train), y[train])
            predicted[test] = fitted.predict(_take(X, test))
            fold_accuracies.append(float(np.mean(predicted[test] == y[test])))
            done += 1
            if progress is not None:
                progress(done, total)
        seconds = perf_counter() - started
        methods.append(_judged(name, y, predicted, rows, units, fold_accuracies, seconds))
    unit = group_name if folds == "groups" else "sample"
    named = class_names or {}
    notes += _notes(y, units, unit, rows, untested, splits, lambda label: named.get(label, label))
    n_units = len(np.unique(units[rows]))
    return AccuracyEstimate(methods, folds, len(splits), n_units, rows, notes, group_name)


def leave_out_folds(
    y: Any, groups: Any = None, *, n_folds: int = 5, random_state: int = 0
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Divide samples as :func:`estimate_accuracy` does.

    Parameters
    ----------
    y : array-like of shape (n_samples,) or (n_samples, n_labels)
    groups : array-like of shape (n_samples,), optional
        Samples of one group are in the same fold.
    n_folds : int, default=5
    random_state : int, default=0

    Returns
    -------
    list of (train, test)
        Positions of samples. Those of a class with one group (or sample) only always train.

    Examples
    --------
    >>> from jplay.inspection import leave_out_folds
    >>> folds = leave_out_folds([1, 1, 1, 2, 2, 2], ["a", "a", "b", "c", "d", "d"], n_folds=2)
    >>> sorted(len(test) for _, test in folds)
    [3, 3]
    """
    y = np.asarray(y)
    units, folds, _ = _usable_groups(y, groups, "group")
    rows, _ = _testable(y, units)
    return _splits(y, units if folds == "groups" else None, rows, n_folds, random_state)


def _name(estimator):
    return type(estimator[-1] if hasattr(estimator, "steps") else estimator).__name__


def _take(X, rows):
    return X.iloc[rows] if hasattr(X, "iloc") else X[rows]


def _usable_groups(y, groups, group_name):
    """Number the groups, or the samples if there are none that could be left out."""
    notes = []
    if groups is not None:
        groups = np.asarray(groups)
        if groups.shape != y.shape[:1]:
            raise ValueError(
                f"`groups` should have one entry per sample ({len(y)}), got shape {groups.shape}."
            )
        units = np.unique(groups.astype(str), return_inverse=True)[1]
        if len(_testable(y, units)[0]):
            return units, "groups", notes
        notes.append(
            f"No class has two {group_name}s, so none can be tested on another {group_name}: "
            "single samples are left out instead."
        )
    return np.arange(len(y)), "random", notes


def _testable(y, units):
    """Return the samples of classes with two units or more, and the other classes."""
    if y.ndim == 2:
        return np.arange(len(y)), []
    pairs = np.unique(np.column_stack([np.unique(y, return_inverse=True)[1], units]), axis=0)
    classes, codes = np.unique(y, return_inverse=True)
    alone = np.bincount(pairs[:, 0], minlength=len(classes)) < 2
    return np.flatnonzero(~alone[codes]), classes[alone].tolist()


def _splits(y, units, rows, n_folds, random_state):
    """Return ``(train, test)`` of each fold; samples that cannot be tested always train."""
    if n_folds < 2:
        raise ValueError(f"`n_folds` should be at least 2, got {n_folds}.")
    if not len(rows):
        raise ValueError(
            "`y` should have a class with two samples or more, found none. Label more samples; if "
            "`y` holds measurements, JPlayRegressor predicts them."
        )
    inner = y[rows]
    if units is None:
        candidates = [_sample_folds(inner, n_folds, random_state)]
    else:
        candidates = _group_folds(inner, units[rows], n_folds, random_state)
    best, fewest = None, np.inf
    for tests in candidates:
        n_untrained = sum(len(_untrained(inner, test)) for test in tests)
        if n_untrained < fewest:
            best, fewest = tests, n_untrained
        if not fewest:
            break
    everything = np.arange(len(y))
    return [(np.setdiff1d(everything, rows[test]), rows[test]) for test in best]


def _sample_folds(y, n_folds, random_state):
    if y.ndim == 2:
        folds = stratified_folds(y, min(n_folds, len(y)), random_state=random_state)
        return [test for _, test in folds.split(y, y)]
    largest = int(np.unique(y, return_counts=True)[1].max())
    folds = StratifiedKFold(min(n_folds, largest), shuffle=True, random_state=random_state)
    return _tests(folds, y)


def _group_folds(y, units, n_folds, random_state) -> Iterator[list[np.ndarray]]:
    n_splits = min(n_folds, len(np.unique(units)))
    kind = StratifiedGroupKFold if y.ndim == 1 else GroupKFold
    for seed in range(random_state, random_state + N_DEALS):
        yield _tests(kind(n_splits, shuffle=True, random_state=seed), y, units)


def _tests(folds, y, groups=None):
    with warnings.catch_warnings():
        # A class with fewer samples than folds is in some of them; the notes say so.
        warnings.filterwarnings("ignore", "The least populated class", UserWarning)
        tests = [test for _, test in folds.split(np.zeros(len(y)), y, groups)]
    return [test for test in tests if len(test)]


def _untrained(y, test):
    """Return the classes of a fold of which no sample is left to train on."""
    if y.ndim == 2:
        return []
    return np.setdiff1d(y[test], np.delete(y, test)).tolist()


def _peers(estimator, X, y, random_state, notes):
    discriminant = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")
    if y.ndim == 2:
        discriminant = OneVsRestClassifier(discriminant)
    forest = RandomForestClassifier(200, random_state=random_state)
    chosen = [("Shrinkage LDA", discriminant), ("Random forest", forest)]
    if np.shape(X)[1] > WIDEST_DISCRIMINANT:
        notes.append(
            f"Shrinkage LDA is left out: it takes at most {WIDEST_DISCRIMINANT} features here."
        )
        chosen = chosen[1:]
    before = [step for _, step in estimator.steps[:-1]] if hasattr(estimator, "steps") else []
    return [(name, make_pipeline(*before, peer)) for name, peer in chosen]


def _judged(name, y, predicted, rows, units, fold_accuracies, seconds):
    classes = np.unique(y)
    y, predicted, units = y[rows], predicted[rows], units[rows]
    right = predicted == y
    if y.ndim == 2:
        average = kappa = confusion = None
        right = right.mean(axis=1)
    else:
        report = AccuracyReport.from_labels(y, predicted).to_dict()
        average, kappa = report["average_accuracy"], report["kappa"]
        confusion = confusion_matrix(y, predicted, labels=classes)
    accuracy = float(np.mean(right))
    low, high = accuracy_interval(right, units)
    return MethodAccuracy(
        name, accuracy, low, high, average, kappa, fold_accuracies, predicted, seconds, confusion
    )


def accuracy_interval(right, units):
    """Interval of a share of right answers that come in units.

    Parameters
    ----------
    right : array-like of shape (n_samples,)
        From 0 (wrong) to 1 (right).
    units : array-like of shape (n_samples,)
        Samples of one unit are right or wrong together; units are independent.

    Returns
    -------
    low, high : float
    """
    right = np.asarray(right, dtype=np.float64)
    codes = np.unique(units, return_inverse=True)[1]
    sizes = np.bincount(codes).astype(np.float64)
    n_units = len(sizes)
    if n_units < 2:
        return 0.0, 1.0
    share = right.mean()
    # The share is a ratio of sums over units; its variance by linearization (Cochran, 6.4).
    residuals = np.bincount(codes, weights=right) - share * sizes
    variance = (residuals**2).sum() * n_units / (n_units - 1) / sizes.sum() ** 2
    spread = share * (1 - share)
    effective = spread / variance if variance > 0 else n_units
    effective = min(effective, len(right))
    z = student.ppf((1 + CONFIDENCE) / 2, n_units - 1)
    centre = (share + z**2 / (2 * effective)) / (1 + z**2 / effective)
    half = z * np.sqrt(spread / effective + z**2 / (4 * effective**2)) / (1 + z**2 / effective)
    return float(max(0.0, centre - half)), float(min(1.0, centre + half))


def _notes(y, units, unit, rows, untested, splits, name):
    """What limits the figures; ``unit`` is what was left out, ``name`` the name of a class."""
    notes = []
    if untested:
        notes.append(
            f"One {unit} only: {some_of(map(name, untested))}. No figure holds for such a class, "
            "and its samples are not counted."
        )
    if unit == "sample":
        notes.append(
            "Folds are of single samples. If samples are alike because they are neighbours in "
            "place or time or come from one object, the figure is too good: give groups."
        )
    elif len(np.unique(units[rows])) < FEW_UNITS:
        notes.append(f"Fewer than {FEW_UNITS} {unit}s: the interval is rough.")
    if y.ndim == 2:
        return notes
    inner = y[rows]
    folds = [_untrained(inner, np.searchsorted(rows, test)) for _, test in splits]
    missing = np.unique(np.concatenate([np.asarray(found, dtype=y.dtype) for found in folds]))
    if len(missing):
        notes.append(
            f"In some fold no sample was left to train on: {some_of(map(name, missing.tolist()))}."
        )
    classes, counts = np.unique(inner, return_counts=True)
    few = zip(classes.tolist(), counts.tolist(), strict=True)
    few = [f"{name(label)} ({count})" for label, count in few if count < FEW_UNITS]
    if few:
        notes.append(f"Fewer than {FEW_UNITS} samples: {some_of(few)}.")
    return notes
