"""Choice of the subspace's dimension and the chain's depth on training data."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold

from jplay.core.arrays import rows_of, to_numpy
from jplay.core.graph import NeighborGraph, check_affinity
from jplay.core.problem import prepare
from jplay.core.targets import check_sample_weight, to_host
from jplay.numerics.stratification import iterative_folds

N_FOLDS = 5
LAYER_CHOICES = (1, 2, 3)


@dataclass(frozen=True, eq=False)
class Selection:
    """What was tried, and what was taken."""

    candidates: list
    """Pairs ``(n_components, n_layers)``, simplest first."""
    scores: Any
    """(n_candidates, n_folds)"""
    best: tuple
    """The candidate with the best mean score."""
    chosen: tuple
    """The simplest one within a standard error of it."""


def one_standard_error(scores: Any) -> tuple[int, int]:
    """Position of the first candidate as good as the best, within its standard error.

    Parameters
    ----------
    scores : array-like of shape (n_candidates, n_folds)
        Simplest candidate first.

    Returns
    -------
    chosen, best : int

    Examples
    --------
    >>> one_standard_error([[0.1, 0.2], [0.79, 0.81], [0.8, 0.84]])
    (1, 2)
    """
    scores = np.asarray(scores)
    means = scores.mean(axis=1)
    best = int(np.argmax(means))
    error = scores[best].std(ddof=1) / np.sqrt(scores.shape[1])
    return int(np.flatnonzero(means >= means[best] - error)[0]), best


def component_choices(n_features: int, n_samples: int, n_outputs: int) -> list[int]:
    """Dimensions to try: doubling from 2, with the number of outputs, up to what there is."""
    most = max(1, min(n_features, n_samples // 2, 160))
    doubling = [2**k for k in range(1, 8)]
    return sorted({min(size, most) for size in (*doubling, n_outputs) if size >= 2} or {most})


def choose_architecture(estimator: Any, X: Any, y: Any, sample_weight: Any = None) -> Selection:
    """Dimension and depth by cross-validated score and the one-standard-error rule.

    Parameters
    ----------
    estimator : JPlay
        With ``n_components="auto"``, ``n_layers="auto"`` or both.
    X : ndarray of shape (n_samples, n_features)
    y : ndarray of shape (n_samples,) or (n_samples, n_labels)
        Samples without label are in every training part and in no test part.
    sample_weight : ndarray of shape (n_samples,) or None

    Returns
    -------
    Selection
    """
    y = to_host(y)
    targets = estimator._encode_targets(y, None)
    labeled, unlabeled = np.flatnonzero(targets.labeled), np.flatnonzero(~targets.labeled)
    sizes = (
        component_choices(X.shape[1], len(labeled), targets.n_outputs)
        if estimator.n_components == "auto"
        else [estimator.n_components]
    )
    depths = LAYER_CHOICES if estimator.n_layers == "auto" else [estimator.n_layers]
    candidates = [(size, depth) for size in sizes for depth in depths]
    folds = _folds(targets, labeled)
    scores = np.full((len(candidates), len(folds)), -np.inf)
    for fold, held in enumerate(folds):
        train = np.concatenate([np.setdiff1d(labeled, held), unlabeled])
        scores[:, fold] = _scores(estimator, candidates, X, y, train, held, sample_weight, targets)
    usable = np.isfinite(scores).all(axis=1)
    if not usable.any():
        raise ValueError(
            "`n_components` and `n_layers` should be numbers for these samples, got 'auto', for "
            "which no candidate could be fitted in every fold. Give more labelled samples."
        )
    candidates = [pair for pair, keep in zip(candidates, usable, strict=True) if keep]
    scores = scores[usable]
    chosen, best = one_standard_error(scores)
    return Selection(candidates, scores, candidates[best], candidates[chosen])


def _folds(targets, labeled):
    """Positions of the held-out labeled samples of every fold; always the same folds."""
    if targets.multilabel:
        n_splits = min(N_FOLDS, len(labeled) // 2)
        folds = iterative_folds(targets.y[labeled], n_splits, np.random.RandomState(0))
        return [labeled[folds == fold] for fold in range(n_splits)]
    codes = targets.y[labeled]
    smallest = int(np.bincount(codes).min())
    if smallest < 2:
        raise ValueError(
            "`n_components` and `n_layers` should be numbers if a class has one labeled "
            "sample only, got 'auto', which needs two or more of each to cross-validate. Label "
            "more samples or set the numbers."
        )
    splitter = StratifiedKFold(min(N_FOLDS, smallest), shuffle=True, random_state=0)
    return [labeled[held] for _, held in splitter.split(codes, codes)]


def _scores(estimator, candidates, X, y, train, held, sample_weight, targets):
    """Score of every candidate on one fold, which is prepared once."""
    graph = estimator.graph
    if isinstance(graph, NeighborGraph):
        raise ValueError(
            "`graph` should be a HeatGraph or a function if `n_components` or `n_layers` is "
            "'auto', got a NeighborGraph, which has no part for a fold. Set the numbers."
        )
    if graph is not None and not callable(graph):
        graph = check_affinity(graph, X.shape[0])[train][:, train]
    weight = check_sample_weight(sample_weight, y)
    weight = None if weight is None else weight[train]
    X_train, X_held = rows_of(X, train), rows_of(X, held)
    scores = np.full(len(candidates), -np.inf)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", UserWarning)
        fold_targets = estimator._encode_targets(y[train], weight)
        with prepare(X_train, fold_targets, graph=graph, scaling=estimator.scaling) as problem:
            for candidate, (n_components, n_layers) in enumerate(candidates):
                if n_components is not None and n_components > problem.rank:
                    continue
                model = clone(estimator)
                vars(model).update(model._solve(problem, n_components, n_layers))
                scores[candidate] = _score(model, X_held, targets.take(held), y[held])
    return scores


def _score(model, X, targets, y):
    if targets.multilabel:
        return -float(np.mean((targets.y - to_numpy(model.decision_function(X))) ** 2))
    return float(np.mean(to_host(model.predict(X)) == y))
