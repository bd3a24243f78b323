"""Choice of the subspace's dimension and the chain's depth on training data."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold
from sklearn.utils import check_random_state

from jplay.estimators._targets import is_multilabel, labelled_samples
from jplay.numerics.stratification import iterative_folds

N_FOLDS = 5
LAYER_CHOICES = (1, 2, 3)


@dataclass(frozen=True)
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


def one_standard_error(scores):
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


def component_choices(n_features, n_samples, n_outputs):
    """Dimensions to try: doubling from 2, with the number of outputs, up to what there is."""
    most = max(1, min(n_features, n_samples // 2, 160))
    doubling = [2**k for k in range(1, 8)]
    return sorted({min(size, most) for size in (*doubling, n_outputs) if size >= 2} or {most})


def choose_architecture(estimator, X, y, sample_weight=None):
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
    labelled = np.flatnonzero(labelled_samples(y, estimator.unlabelled))
    others = np.setdiff1d(np.arange(len(y)), labelled)
    multilabel = is_multilabel(y)
    n_outputs = y.shape[1] if multilabel else len(np.unique(y[labelled]))
    sizes = (
        component_choices(X.shape[1], len(labelled), n_outputs)
        if estimator.n_components == "auto"
        else [estimator.n_components]
    )
    depths = LAYER_CHOICES if estimator.n_layers == "auto" else [estimator.n_layers]
    candidates = [(size, depth) for size in sizes for depth in depths]
    folds = _folds(estimator, y, labelled, multilabel)
    scores = np.full((len(candidates), len(folds)), -np.inf)
    for at, (size, depth) in enumerate(candidates):
        for fold, held in enumerate(folds):
            train = np.concatenate([np.setdiff1d(labelled, held), others])
            scores[at, fold] = _score(estimator, size, depth, X, y, train, held, sample_weight)
    if not np.isfinite(scores).all(axis=1).any():
        raise ValueError(
            "`n_components` and `n_layers` should be numbers for these samples, got 'auto', for "
            "which no candidate could be fitted in every fold. Give more labelled samples."
        )
    usable = np.isfinite(scores).all(axis=1)
    candidates = [pair for pair, keep in zip(candidates, usable, strict=True) if keep]
    scores = scores[usable]
    chosen, best = one_standard_error(scores)
    return Selection(candidates, scores, candidates[best], candidates[chosen])


def _folds(estimator, y, labelled, multilabel):
    """Positions of the held-out labelled samples of every fold."""
    rng = check_random_state(0 if estimator.random_state is None else estimator.random_state)
    if multilabel:
        Y = y.toarray() if hasattr(y, "toarray") else y
        n_splits = min(N_FOLDS, len(labelled) // 2)
        dealt = iterative_folds(Y[labelled], n_splits, rng)
        return [labelled[dealt == fold] for fold in range(n_splits)]
    smallest = np.unique(y[labelled].astype(str), return_counts=True)[1].min()
    if smallest < 2:
        raise ValueError(
            "`n_components` and `n_layers` should be numbers where a class has one labelled "
            "sample only, got 'auto', which needs two or more of each to cross-validate. Label "
            "more samples or set the numbers."
        )
    splitter = StratifiedKFold(min(N_FOLDS, int(smallest)), shuffle=True, random_state=rng)
    codes = y[labelled].astype(str)
    return [labelled[held] for _, held in splitter.split(codes, codes)]


def _score(estimator, size, depth, X, y, train, held, sample_weight):
    model = clone(estimator).set_params(n_components=size, n_layers=depth, verbose=0)
    if not isinstance(model.affinity, str) and not callable(model.affinity):
        model.set_params(affinity=model.affinity[train][:, train])
    weight = None if sample_weight is None else sample_weight[train]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", UserWarning)
        try:
            model.fit(X[train], y[train], sample_weight=weight)
        except ValueError as error:
            if "n_components" in str(error):  # more than the fold's samples span
                return -np.inf
            raise
    truth = y[held]
    if is_multilabel(y):
        found = model.decision_function(X[held])
        truth = truth.toarray() if hasattr(truth, "toarray") else truth
        return -float(np.mean((truth - found) ** 2))
    return float(np.mean(model.predict(X[held]) == truth))
