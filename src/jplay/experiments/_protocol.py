"""The protocol: how parameters are chosen and features scaled without a look at test samples."""

from dataclasses import asdict, dataclass
from time import perf_counter

import numpy as np
from sklearn.metrics import label_ranking_average_precision_score
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.pipeline import make_pipeline

from jplay.experiments._steps import label_scores, make_classifier, make_method, make_steps

SCALINGS = ("inductive", "transductive")
WEIGHTS = (1e-2, 1e-1, 1e0, 1e1, 1e2)
"""The values of alpha, beta, gamma and eta among which the paper chooses."""


@dataclass(frozen=True)
class Choice:
    """Chosen parameters, their cross-validated score, and everything that was tried."""

    parameters: dict
    score: float
    trials: list
    n_fits: int
    seconds: float

    def to_dict(self):
        return asdict(self)


@dataclass(frozen=True, eq=False)
class Fold:
    """Preprocessed samples of one fold; the steps saw its training part alone."""

    X_train: np.ndarray
    y_train: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


def make_folds(X, y, preprocessing=(), *, n_folds=5, random_state=0):
    """Divide training samples into folds and preprocess each by its own training part.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
    y : ndarray of shape (n_samples,) or (n_samples, n_labels)
        Classes are spread evenly over the folds.
    preprocessing : sequence of str or dict
        Steps as recipes name them.
    n_folds : int, default=5
    random_state : int, default=0

    Returns
    -------
    list of Fold
    """
    kind = StratifiedKFold if y.ndim == 1 else KFold
    folds = []
    for train, test in kind(n_folds, shuffle=True, random_state=random_state).split(X, y):
        steps = make_pipeline("passthrough", *make_steps(preprocessing))
        X_train = steps.fit_transform(X[train], y[train])
        folds.append(Fold(X_train, y[train], steps.transform(X[test]), y[test]))
    return folds


def fold_score(model, fold, classifier, seed=0):
    """Fit a model to a fold and score it: a classifier's accuracy on its features, or for
    multi-label targets the ranking average precision of its own scores.
    """
    model.fit(fold.X_train, fold.y_train)
    if fold.y_train.ndim == 2:
        scores = label_scores(model, fold.X_test)
        return float(label_ranking_average_precision_score(fold.y_test, scores))
    column = make_pipeline(*make_steps(classifier.features), make_classifier(classifier, seed))
    column.fit(model.transform(fold.X_train), fold.y_train)
    return float(column.score(model.transform(fold.X_test), fold.y_test))


def coordinate_search(evaluate, grid, start, *, n_rounds=2):
    """Improve one parameter at a time over its grid until a round changes none.

    Parameters
    ----------
    evaluate : callable
        From a dict of parameters to a score; larger is better.
    grid : dict of str to sequence
    start : dict
        Value of every parameter of the grid to begin with.
    n_rounds : int, default=2
        Most rounds over all parameters.

    Returns
    -------
    best : dict
    trials : list of (dict, float)
        Every point that was evaluated, once each. Among equals the first tried wins.

    Examples
    --------
    >>> from jplay.experiments._protocol import coordinate_search
    >>> best, trials = coordinate_search(
    ...     lambda p: -abs(p["a"] - 3) - abs(p["b"] - 1), {"a": [1, 2, 3], "b": [0, 1]},
    ...     {"a": 1, "b": 0},
    ... )
    >>> best, len(trials)
    ({'a': 3, 'b': 1}, 6)
    """
    scores = {}

    def score(point):
        key = tuple(point[name] for name in grid)
        if key not in scores:
            scores[key] = evaluate(dict(point))
        return scores[key]

    best = {name: start[name] for name in grid}
    score(best)
    for _ in range(n_rounds):
        before = dict(best)
        for name, values in grid.items():
            for value in values:
                candidate = {**best, name: value}
                if score(candidate) > score(best):
                    best = candidate
        if best == before:
            break
    return best, [(dict(zip(grid, key, strict=True)), value) for key, value in scores.items()]


def choose_parameters(search, X, y, *, preprocessing=(), seed=0, start=None):
    """Choose a method's parameters by cross-validation on training samples.

    Parameters
    ----------
    search : Search
        The method, its grid and the number of folds. Values in ``search.params`` of the grid's
        parameters are where the search begins, else the middle of each list.
    X, y : ndarray
        Training samples and targets. Test samples have no way in.
    preprocessing : sequence
        Steps before those of the search itself; fitted in every fold anew.
    seed : int, default=0
    start : dict, optional
        Parameters that the search's ``start`` has chosen.

    Returns
    -------
    Choice
    """
    started = perf_counter()
    # Mistakes in the recipe come to light here, not as points that cannot be fitted.
    make_pipeline(*make_steps(search.classifier.features), make_classifier(search.classifier, seed))
    known = {**search.params, **(start or {})}
    folds = make_folds(
        X,
        y,
        (*preprocessing, *search.preprocessing),
        n_folds=search.n_folds,
        random_state=seed,
    )
    fixed = {name: value for name, value in known.items() if name not in search.grid}
    begin = {
        name: known.get(name, values[len(values) // 2]) for name, values in search.grid.items()
    }

    def evaluate(point):
        model_of_fold = (make_method(search.kind, {**fixed, **point}, seed) for _ in folds)
        pairs = zip(model_of_fold, folds, strict=True)
        try:
            scores = [fold_score(m, fold, search.classifier, seed) for m, fold in pairs]
            return float(np.mean(scores))
        except (np.linalg.LinAlgError, ValueError):
            # Weights with which the fit breaks down are no candidates.
            return -np.inf

    best, trials = coordinate_search(evaluate, search.grid, begin, n_rounds=search.n_rounds)
    if not any(np.isfinite(score) for _, score in trials):
        raise ValueError(
            f"the search {search.name!r} should hold at least one point that can be fitted, got "
            f"{len(trials)} that cannot. Widen its grid."
        )
    return Choice(
        parameters={**(start or {}), **best},
        score=max(score for _, score in trials),
        trials=[{**p, "score": s if np.isfinite(s) else None} for p, s in trials],
        n_fits=len(trials) * len(folds),
        seconds=perf_counter() - started,
    )


def fit_scaler(steps, Z_train, Z_test, *, scaling="inductive"):
    """Fit the scaling of features before a classifier.

    Parameters
    ----------
    steps : sequence
        As recipes name them.
    Z_train, Z_test : ndarray
        Features of training and test samples.
    scaling : {"inductive", "transductive"}, default="inductive"
        Whether the steps see training samples alone or, as in the paper, test samples too.

    Returns
    -------
    Pipeline
    """
    if scaling not in SCALINGS:
        raise ValueError(f"`scaling` should be one of {', '.join(SCALINGS)}, got {scaling!r}.")
    seen = Z_train if scaling == "inductive" else np.vstack([Z_train, Z_test])
    return make_pipeline("passthrough", *make_steps(steps)).fit(seen)
