"""Cross-validated grid search that shares what the settings have in common."""

import time
from itertools import groupby
from numbers import Integral

import numpy as np
import scipy.sparse
from array_api_compat import is_array_api_obj
from joblib import Parallel, delayed
from sklearn.base import clone, is_classifier
from sklearn.model_selection import ParameterGrid, check_cv
from sklearn.model_selection._search import BaseSearchCV
from sklearn.model_selection._validation import _score
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing, indexable
from sklearn.utils._param_validation import Interval, StrOptions

from jplay._array_api import like, to_numpy
from jplay._optional import import_optional
from jplay.estimators._chain import prepared_samples
from jplay.estimators._jplay import JPlay
from jplay.estimators._targets import labelled_samples
from jplay.estimators._validation import encode_targets, resolve_layer_sizes
from jplay.solvers.batch import solve_joint_batch
from jplay.solvers.pretraining import locality_preserving_projections

# Settings that change nothing about the samples, the graph or the shape of the model.
_WEIGHTS = ("alpha", "beta", "gamma")


class JPlaySearchCV(BaseSearchCV):
    """Exhaustive search over J-Play's parameters with cross-validation, in a fraction of the time.

    Works as ``GridSearchCV`` over :class:`JPlay` and gives the same scores. Within a fold, all
    settings that differ in ``alpha``, ``beta`` and ``gamma`` share the graph and the statistics
    of the samples; on a CUDA device all folds and settings are solved as one batch.

    Parameters
    ----------
    param_grid : dict or list of dict
        Parameters of ``estimator`` with the values to try.
    estimator : JPlay or Pipeline that ends in one, default=None
        ``None`` means ``JPlay()``. Earlier steps of a pipeline are fitted inside the folds; their
        parameters may be searched too.
    scoring : str, callable, list or dict, default=None
        As for ``GridSearchCV``; ``None`` means the estimator's ``score``.
    cv : int, cross-validation generator or iterable, default=10
    refit : bool or str, default=True
        Whether to fit the best setting on all samples; the name of the deciding score where
        there are several.
    device : str or None, default=None
        A device of PyTorch, such as ``"cuda"``, on which folds and settings are solved as one
        batch in float64. ``None`` solves them on the CPU.
    n_jobs : int or None, default=None
        Folds and groups of settings that run at the same time on the CPU.
    verbose : int, default=0
    error_score : "raise" or float, default=nan
        Score of a setting whose fit fails.
    return_train_score : bool, default=False

    Attributes
    ----------
    cv_results_, best_estimator_, best_params_, best_score_, best_index_, scorer_, n_splits_ :
        As those of ``GridSearchCV``.

    Examples
    --------
    >>> from jplay import JPlaySearchCV
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> search = JPlaySearchCV({"alpha": [1.0, 10.0], "n_layers": [1, 2]}, cv=3).fit(X, y)
    >>> sorted(search.best_params_)
    ['alpha', 'n_layers']
    """

    _parameter_constraints: dict = {
        **BaseSearchCV._parameter_constraints,
        "estimator": [JPlay, Pipeline, None],
        "param_grid": [dict, list],
        "device": [str, None],
        "cv": [Interval(Integral, 2, None, closed="left"), "cv_object"],
        "error_score": [StrOptions({"raise"}), float, int],
    }

    def __init__(
        self,
        param_grid,
        *,
        estimator=None,
        scoring=None,
        cv=10,
        refit=True,
        device=None,
        n_jobs=None,
        verbose=0,
        error_score=np.nan,
        return_train_score=False,
    ):
        super().__init__(
            estimator=estimator,
            scoring=scoring,
            n_jobs=n_jobs,
            refit=refit,
            cv=cv,
            verbose=verbose,
            error_score=error_score,
            return_train_score=return_train_score,
        )
        self.param_grid = param_grid
        self.device = device

    def fit(self, X, y):
        """Search, then fit the best setting on all samples.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_labels)

        Returns
        -------
        self
        """
        return self._search(X, y)

    def _search(self, X, y, progress=None):
        """Fit, calling ``progress`` with how many groups of fits of how many are done."""
        self._validate_params()
        base = JPlay() if self.estimator is None else self.estimator
        prefix = _final_prefix(base)
        scorers, refit_metric = self._scorers(base)
        X, y = indexable(X, y)
        cv = check_cv(self.cv, y, classifier=is_classifier(base))
        splits = list(cv.split(X, y))
        candidates = list(ParameterGrid(self.param_grid))
        tasks = _tasks(candidates, prefix)
        run = _run_on_device if self.device is not None else _run_on_cpu
        rows = run(self, base, prefix, tasks, candidates, splits, X, y, scorers, progress)
        results = self._format_results(candidates, len(splits), rows)
        self.cv_results_ = results
        self.n_splits_ = len(splits)
        self.scorer_ = scorers
        self.multimetric_ = isinstance(scorers, dict) or hasattr(scorers, "_scorers")
        if self.refit or not self.multimetric_:
            self.best_index_ = self._select_best_index(self.refit, refit_metric, results)
            self.best_params_ = results["params"][self.best_index_]
            if not callable(self.refit):
                self.best_score_ = results[f"mean_test_{refit_metric}"][self.best_index_]
        if self.refit:
            start = time.perf_counter()
            self.best_estimator_ = clone(base).set_params(**clone_values(self.best_params_))
            self.best_estimator_.fit(X, y)
            self.refit_time_ = time.perf_counter() - start
            if hasattr(self.best_estimator_, "feature_names_in_"):
                self.feature_names_in_ = self.best_estimator_.feature_names_in_
        return self

    def _scorers(self, base):
        estimator, self.estimator = self.estimator, base
        try:
            return self._get_scorers()
        finally:
            self.estimator = estimator

    def __sklearn_tags__(self):
        estimator, self.estimator = self.estimator, self.estimator or JPlay()
        try:
            return super().__sklearn_tags__()
        finally:
            self.estimator = estimator


def clone_values(params):
    return {name: clone(value, safe=False) for name, value in params.items()}


def _final_prefix(base):
    """Prefix of JPlay's parameters within the estimator."""
    if isinstance(base, JPlay):
        return ""
    name, final = base.steps[-1]
    if not isinstance(final, JPlay):
        raise ValueError(
            f"`estimator` should be a JPlay or a Pipeline that ends in one, got a last step "
            f"{final!r}. Use sklearn.model_selection.GridSearchCV for other estimators."
        )
    return f"{name}__"


def _tasks(candidates, prefix):
    """Groups of candidates that differ in J-Play's weights only: lists of their numbers."""
    names = {prefix + weight for weight in _WEIGHTS}

    def rest(number):
        return repr(sorted((k, repr(v)) for k, v in candidates[number].items() if k not in names))

    numbers = sorted(range(len(candidates)), key=rest)
    return [list(group) for _, group in groupby(numbers, key=rest)]


class _Fold:
    """One fold of one group: earlier steps fitted, samples prepared, candidates to fit."""

    def __init__(self, base, prefix, params, X, y, split):
        train, test = split
        self.estimator = clone(base).set_params(**clone_values(params[0]))
        self.params, self.prefix = params, prefix
        self.steps = self.estimator.steps[:-1] if prefix else []
        self.raw = [_safe_indexing(X, rows) for rows in (train, test)]
        self.y = [_safe_indexing(y, rows) for rows in (train, test)]
        transformed = self.raw[0]
        for _, step in self.steps:
            transformed = step.fit_transform(transformed, self.y[0])
        self.X_train = transformed

    def candidate(self, params):
        """Unfitted JPlay of one setting."""
        estimator = clone(self.estimator.steps[-1][1] if self.prefix else self.estimator)
        own = {k.removeprefix(self.prefix): v for k, v in params.items()}
        return estimator.set_params(**{k: v for k, v in own.items() if k in _WEIGHTS})

    def whole(self, fitted):
        """The estimator as the scorer sees it."""
        if not self.prefix:
            return fitted
        name = self.estimator.steps[-1][0]
        return Pipeline([*self.steps, (name, fitted)])

    def scored(self, search, fitted, scorers, fit_time):
        """One row of results, as scikit-learn formats them."""
        start = time.perf_counter()
        estimator = self.whole(fitted)
        row = {
            "test_scores": _score(
                estimator, self.raw[1], self.y[1], scorers, {}, search.error_score
            ),
            "fit_time": fit_time,
            "score_time": time.perf_counter() - start,
            "n_test_samples": len(self.raw[1]),
            "fit_error": None,
        }
        if search.return_train_score:
            row["train_scores"] = _score(
                estimator, self.raw[0], self.y[0], scorers, {}, search.error_score
            )
        return row

    def failed(self, search, error, scorers):
        """The row of a setting whose fit failed."""
        if search.error_score == "raise":
            raise error
        score = search.error_score
        scores = dict.fromkeys(scorers, score) if isinstance(scorers, dict) else score
        row = {
            "test_scores": scores,
            "fit_time": 0.0,
            "score_time": 0.0,
            "n_test_samples": len(self.raw[1]),
            "fit_error": repr(error),
        }
        if search.return_train_score:
            row["train_scores"] = scores
        return row


def _ordered(pieces, n_candidates, n_splits):
    """Rows in scikit-learn's order: candidates outside, splits inside."""
    rows = [None] * (n_candidates * n_splits)
    for number, split, row in pieces:
        rows[number * n_splits + split] = row
    return rows


def _run_on_cpu(search, base, prefix, tasks, candidates, splits, X, y, scorers, progress):
    # Not every backend of joblib can return results one by one, so only where they are counted.
    return_as = "list" if progress is None else "generator_unordered"
    pieces = Parallel(n_jobs=search.n_jobs, verbose=search.verbose, return_as=return_as)(
        delayed(_fit_group)(
            search, base, prefix, [candidates[i] for i in task], task, X, y, split, i, scorers
        )
        for task in tasks
        for i, split in enumerate(splits)
    )
    rows = []
    for n_done, piece in enumerate(pieces, start=1):
        rows += piece
        if progress is not None:
            progress(n_done, len(tasks) * len(splits))
    return _ordered(rows, len(candidates), len(splits))


def _fit_group(search, base, prefix, params, numbers, X, y, split, split_number, scorers):
    """Fit and score the settings of one group on one fold, sharing graph and statistics."""
    fold = _Fold(base, prefix, params, X, y, split)
    rows = []
    first = fold.candidate(params[0])
    if first.solver != "fast" or not _targets_are_plain(first, fold.y[0]):
        for number, setting in zip(numbers, params, strict=True):
            rows.append((number, split_number, _fit_alone(search, fold, setting, scorers)))
        return rows
    try:
        samples_X, Y, classes, multilabel = _checked(first, fold.X_train, fold.y[0])
        with prepared_samples(samples_X, Y, **first._sample_settings()) as prepared:
            samples, first_input, affinity, bandwidth = prepared
            statistics = samples.statistics()
            for number, setting in zip(numbers, params, strict=True):
                start = time.perf_counter()
                model = fold.candidate(setting)
                model._remember_input(first, classes, multilabel, affinity, bandwidth)
                try:
                    result, fitted_map = model._solve(
                        samples_X, fold.y[0], samples, statistics, first_input
                    )
                    model._store(result, fitted_map, statistics, samples_X.shape[0])
                    row = fold.scored(search, model, scorers, time.perf_counter() - start)
                except ValueError as error:
                    row = fold.failed(search, error, scorers)
                rows.append((number, split_number, row))
    except ValueError as error:
        done = {number for number, _, _ in rows}
        for number in numbers:
            if number not in done:
                rows.append((number, split_number, fold.failed(search, error, scorers)))
    return rows


def _fit_alone(search, fold, setting, scorers):
    start = time.perf_counter()
    model = fold.candidate(setting)
    try:
        model.fit(fold.X_train, fold.y[0])
    except ValueError as error:
        return fold.failed(search, error, scorers)
    return fold.scored(search, model, scorers, time.perf_counter() - start)


def _targets_are_plain(model, y):
    """Whether settings can share one encoding: all labels known, of equal weight, sizes given."""
    if not scipy.sparse.issparse(y):
        y = to_numpy(y) if is_array_api_obj(y) else np.asarray(y)
    return (
        model.class_weight is None
        and "auto" not in (model.n_components, model.n_layers)
        and bool(labelled_samples(y, model.unlabelled).all())
    )


def _checked(model, X, y):
    """Samples and targets as JPlay's own fit would check them."""
    X, y = model._validated(X, y)
    if not _targets_are_plain(model, y):
        raise ValueError(
            "`device` should be None where samples lack a label, `class_weight` is set or a size "
            "is 'auto', got a device. Such settings are fitted one by one on the CPU."
        )
    Y, classes, multilabel = encode_targets(y, X)
    return X, Y, classes, multilabel


def _run_on_device(search, base, prefix, tasks, candidates, splits, X, y, scorers, progress):
    """Solve the folds and settings of each group as one batch on a device of PyTorch."""
    torch = import_optional("torch", feature="JPlaySearchCV(device=...)", extra="torch")
    pieces = []
    for n_done, task in enumerate(tasks, start=1):
        params = [candidates[i] for i in task]
        folds = [_Fold(base, prefix, params, X, y, split) for split in splits]
        first = folds[0].candidate(params[0])
        if first.solver != "fast":
            raise ValueError(
                f"`solver` should be 'fast' for a search on a device, got {first.solver!r}. "
                "Leave `device` at None to search over the published schedule."
            )
        pieces += _batch(search, folds, first, params, task, scorers, torch)
        if progress is not None:
            progress(n_done, len(tasks))
    return _ordered(pieces, len(candidates), len(splits))


def _batch(search, folds, first, params, numbers, scorers, torch):
    start = time.perf_counter()
    reference = torch.zeros(1, dtype=torch.float64, device=search.device)
    prepared, inputs = [], []
    for fold in folds:
        samples_X, Y, classes, multilabel = _checked(first, fold.X_train, fold.y[0])
        settings = first._sample_settings()
        with prepared_samples(like(samples_X, reference), like(Y, reference), **settings) as (
            samples,
            first_input,
            affinity,
            bandwidth,
        ):
            prepared.append((samples, samples.statistics()))
        inputs.append((samples_X, classes, multilabel, first_input, affinity, bandwidth))
    sizes = [
        resolve_layer_sizes(
            first.layer_sizes,
            first.n_layers,
            first.n_components,
            locality_preserving_projections(statistics).shape[0],
        )
        for _, statistics in prepared
    ]
    models = [[fold.candidate(setting) for setting in params] for fold in folds]
    pieces = []
    for layer_sizes in {tuple(size) for size in sizes}:
        chosen = [i for i, size in enumerate(sizes) if tuple(size) == layer_sizes]
        results = solve_joint_batch(
            [prepared[i] for i in chosen],
            list(layer_sizes),
            [model._model() for model in models[0]],
            first._schedule(),
        )
        fit_time = (time.perf_counter() - start) / (len(chosen) * len(params))
        for i, fold_results in zip(chosen, results, strict=True):
            samples_X, classes, multilabel, first_input, affinity, bandwidth = inputs[i]
            for number, model, result in zip(numbers, models[i], fold_results, strict=True):
                if result is None:
                    row = _fit_alone(search, folds[i], params[numbers.index(number)], scorers)
                    pieces.append((number, i, row))
                    continue
                model._remember_input(first, classes, multilabel, affinity, bandwidth)
                model.layer_sizes_ = list(layer_sizes)
                statistics = prepared[i][1]

                def fitted_map(
                    thetas, coef, model=model, statistics=statistics, first_input=first_input
                ):
                    dtype = statistics.X_root.dtype
                    fitted = model._fitted_map(dtype, statistics, first_input, thetas, coef)
                    return {name: _on_host(value) for name, value in fitted.items()}

                try:
                    model._store(result, fitted_map, statistics, samples_X.shape[0])
                    row = folds[i].scored(search, model, scorers, fit_time)
                except ValueError as error:
                    row = folds[i].failed(search, error, scorers)
                pieces.append((number, i, row))
    return pieces


def _on_host(value):
    if isinstance(value, list):
        return [_on_host(item) for item in value]
    return to_numpy(value) if hasattr(value, "device") else value
