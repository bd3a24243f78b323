"""Cross-validated grid search that shares what the settings have in common."""

import time
from contextlib import ExitStack, contextmanager
from itertools import groupby
from numbers import Integral
from traceback import format_exception
from typing import Any, Literal, Self

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from sklearn.base import clone, is_classifier
from sklearn.model_selection import ParameterGrid, check_cv
from sklearn.model_selection._search import BaseSearchCV
from sklearn.model_selection._validation import _score, _warn_or_raise_about_fit_failures
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing, indexable
from sklearn.utils._param_validation import Interval, StrOptions

from jplay._array_api import arrays_on_host
from jplay._estimator_base import warn_if_not_converged
from jplay._fitting import stores_at_end
from jplay._optional import import_optional
from jplay.core.arrays import like, linalg_errors, multiply_chain
from jplay.core.checks import raise_if_collapsed
from jplay.core.grid import minimize_grid
from jplay.core.problem import prepare
from jplay.core.solver import FastSolver
from jplay.estimators._chain import choose_sizes
from jplay.estimators.jplay import JPlay
from jplay.estimators.label_penalty import LabelPenalty
from jplay.estimators.soft_labels import SoftLabelPropagation

# Settings that change nothing about the samples, the graph or the shape of the model.
_WEIGHTS = ("alpha", "beta", "gamma")


class JPlaySearchCV(BaseSearchCV):
    """Exhaustive search over J-Play's parameters with cross-validation, in a fraction of the time.

    Works as ``GridSearchCV`` over :class:`JPlay` and gives the same scores. Within a fold, all
    settings that differ in ``alpha``, ``beta`` and ``gamma`` share the graph and the moments of the
    samples, and all folds and settings are solved together as one stack of problems.

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
        A device of PyTorch, such as ``"cuda"``, on which folds and settings are solved in float64.
        ``None`` solves them on the CPU.
    n_jobs : int or None, default=None
        Folds and groups of settings that run at the same time on the CPU.
    verbose : int, default=0
    error_score : "raise" or float, default=nan
        Score of a setting whose fit fails, whatever the error; a warning tells it.
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

    _training_attributes = ("scorer_",)

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
        param_grid: dict | list,
        *,
        estimator: Any = None,
        scoring: Any = None,
        cv: Any = 10,
        refit: bool | str = True,
        device: str | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        error_score: float | Literal["raise"] = np.nan,
        return_train_score: bool = False,
    ) -> None:
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

    @stores_at_end
    def fit(self, X: Any, y: Any, *, progress: Any = None) -> Self:
        """Search, then fit the best setting on all samples.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_labels)
        progress : callable, default=None
            Called with how many groups of fits are done, and how many there are.

        Returns
        -------
        self
        """
        self._validate_params()
        base = JPlay() if self.estimator is None else self.estimator
        prefix = _final_prefix(base)
        scorers, refit_metric = self._scorers(base)
        X, y = indexable(X, y)
        cv = check_cv(self.cv, y, classifier=is_classifier(base))
        splits = list(cv.split(X, y))
        candidates = list(ParameterGrid(self.param_grid))
        tasks = _tasks(candidates, prefix)
        rows = _run(self, base, prefix, tasks, candidates, splits, X, y, scorers, progress)
        _warn_or_raise_about_fit_failures(rows, self.error_score)
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

    def __sklearn_tags__(self) -> Any:
        estimator, self.estimator = self.estimator, self.estimator or JPlay()
        try:
            return super().__sklearn_tags__()
        finally:
            self.estimator = estimator


def clone_values(params: Any) -> Any:
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
    """One fold of one group: its samples, earlier steps and candidates to fit."""

    def __init__(self, base, prefix, params, X, y, split):
        train, test = split
        self.estimator = clone(base).set_params(**clone_values(params[0]))
        self.params, self.prefix = params, prefix
        self.steps = self.estimator.steps[:-1] if prefix else []
        self.raw = [_safe_indexing(X, rows) for rows in (train, test)]
        self.y = [_safe_indexing(y, rows) for rows in (train, test)]
        self.X_train = self.raw[0]
        self._names = None

    @property
    def first(self):
        """Unfitted JPlay of the first setting."""
        return self.candidate(self.params[0])

    def prepare(self):
        """Fit the earlier steps and pass the training samples through them."""
        for _, step in self.steps:
            self.X_train = step.fit_transform(self.X_train, self.y[0])

    def candidate(self, params):
        """Unfitted JPlay of one setting."""
        estimator = clone(self.estimator.steps[-1][1] if self.prefix else self.estimator)
        own = {k.removeprefix(self.prefix): v for k, v in params.items()}
        return estimator.set_params(**{k: v for k, v in own.items() if k in _WEIGHTS})

    @contextmanager
    def open(self, params, reference):
        """The problem of this fold's training samples, on the device of ``reference`` if any."""
        first = self.candidate(params)
        X, y = first._check_inputs(self.X_train, self.y[0])
        targets = first._encode_targets(y, None)
        if reference is not None:
            X = like(X, reference)
        self._names = getattr(first, "feature_names_in_", None)
        with prepare(
            X,
            targets,
            graph=first.graph,
            scaling=first.scaling,
            n_components=first.n_components,
        ) as problem:
            yield problem

    def whole(self, fitted):
        """The estimator as the scorer sees it."""
        if self._names is not None:
            fitted.feature_names_in_ = self._names
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
        names = scorers if isinstance(scorers, dict) else getattr(scorers, "_scorers", None)
        scores = score if names is None else dict.fromkeys(names, score)
        row = {
            "test_scores": scores,
            "fit_time": 0.0,
            "score_time": 0.0,
            "n_test_samples": len(self.raw[1]),
            "fit_error": "".join(format_exception(error)),
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


def _run(search, base, prefix, tasks, candidates, splits, X, y, scorers, progress):
    """Rows of all candidates on all splits, group by group."""
    reference = None
    if search.device is not None:
        torch = import_optional("torch", feature="JPlaySearchCV(device=...)", extra="torch")
        reference = torch.zeros(1, dtype=torch.float64, device=search.device)
        for task in tasks:
            for number in task:
                _check_device(_Fold(base, prefix, [candidates[number]], X, y, splits[0]).first)
    together = [list(range(len(splits)))]
    if reference is None and effective_n_jobs(search.n_jobs) > 1:
        together = [[number] for number in together[0]]  # one job for each fold
    # Not every backend of joblib can return results one by one, so only where they are counted.
    return_as = "list" if progress is None else "generator_unordered"
    pieces = Parallel(n_jobs=search.n_jobs, verbose=search.verbose, return_as=return_as)(
        delayed(_fit_group)(
            search,
            [_Fold(base, prefix, [candidates[i] for i in task], X, y, splits[n]) for n in numbers],
            numbers,
            task,
            scorers,
            reference,
        )
        for task in tasks
        for numbers in together
    )
    rows = []
    for n_done, piece in enumerate(pieces, start=1):
        rows += piece
        if progress is not None:
            progress(n_done, len(tasks) * len(together))
    return _ordered(rows, len(candidates), len(splits))


def _check_device(model):
    """Refuse settings that cannot be fitted on a device."""
    if not isinstance(model._solver_options, FastSolver):
        raise ValueError(
            f"`solver` should be 'fast' for a search on a device, got {model.solver!r}. "
            "Leave `device` at None to search over the published solver."
        )
    if isinstance(model.gamma, LabelPenalty):
        raise ValueError(
            f"`gamma` should be a number for a search on a device, got {model.gamma!r}. Leave "
            "`device` at None to search over such penalties."
        )
    if isinstance(model.unlabeled, SoftLabelPropagation) or not _can_share(model):
        raise ValueError(
            "`device` should be None if labels are propagated or a size is 'auto', got a device. "
            "Such settings are fitted one by one on the CPU."
        )


def _can_share(model):
    """Whether settings can share one problem; a choice of sizes prepares parts of it."""
    return not any(isinstance(size, str) for size in (model.n_components, model.n_layers))


def _can_stack(model):
    """Whether settings can be solved as a stack."""
    return (
        _can_share(model)
        and isinstance(model._solver_options, FastSolver)
        and not isinstance(model.gamma, LabelPenalty)
        and not isinstance(model.unlabeled, SoftLabelPropagation)
    )


def _fit_group(search, folds, split_numbers, numbers, scorers, reference):
    """Fit and score the settings of one group on some folds, sharing all that they can."""
    errors = _find_invalid(folds[0])
    valid = [j for j in range(len(numbers)) if j not in errors]
    rows = {}
    with ExitStack() as stack:
        problems = {}
        for i, fold in enumerate(folds):
            try:
                fold.prepare()
                if valid and _can_share(fold.candidate(fold.params[valid[0]])):
                    problems[i] = stack.enter_context(fold.open(fold.params[valid[0]], reference))
            except Exception as error:  # as GridSearchCV: whatever a setting leads a fit to
                rows |= {(i, j): fold.failed(search, error, scorers) for j in range(len(numbers))}
        fitted = _solve_stacked(folds, problems, valid, reference)
        for i, fold in enumerate(folds):
            for j, setting in enumerate(fold.params):
                if (i, j) in rows:
                    continue
                if j in errors:
                    rows[i, j] = fold.failed(search, errors[j], scorers)
                elif (i, j) in fitted:
                    model, seconds = fitted[i, j]
                    rows[i, j] = fold.scored(search, model, scorers, seconds)
                else:
                    rows[i, j] = _fit_alone(search, fold, setting, problems.get(i), scorers)
    return [
        (number, split_numbers[i], rows[i, j])
        for i in range(len(folds))
        for j, number in enumerate(numbers)
    ]


def _find_invalid(fold):
    """Errors of the settings that are refused, by their position."""
    errors = {}
    for j, setting in enumerate(fold.params):
        try:
            fold.candidate(setting)._validate_params()
        except ValueError as error:
            errors[j] = error
    return errors


def _solve_stacked(folds, problems, settings, reference):
    """Fitted models of folds and settings that can be solved as a stack, with their time."""
    fitted: dict = {}
    settings = [j for j in settings if _can_stack(folds[0].candidate(folds[0].params[j]))]
    if not problems or not settings:
        return fitted
    models = {
        (i, j): fold.candidate(fold.params[j])
        for i, fold in enumerate(folds)
        if i in problems
        for j in settings
    }
    by_shape: dict = {}
    for i, problem in problems.items():
        model = models[i, settings[0]]
        try:
            sizes = choose_sizes(
                problem, model.n_components, model.n_layers, problem.targets.n_outputs
            )
        except ValueError:
            continue  # fitted alone, which says so
        shape = (problem.moments.gram.shape[0], problem.targets.n_outputs, tuple(sizes))
        by_shape.setdefault(shape, []).append(i)
    for (_, _, sizes), members in by_shape.items():
        start = time.perf_counter()
        objectives = [models[members[0], j]._objective for j in settings]
        options = models[members[0], settings[0]]._solver_options
        try:
            results = minimize_grid([problems[i] for i in members], objectives, sizes, options)
        except linalg_errors(problems[members[0]].moments.gram):
            continue
        seconds = (time.perf_counter() - start) / (len(members) * len(settings))
        for i, of_fold in zip(members, results, strict=True):
            for j, result in zip(settings, of_fold, strict=True):
                if result is None:
                    continue  # diverged
                model, moments = models[i, j], problems[i].moments
                try:
                    theta = multiply_chain(result.thetas)
                    raise_if_collapsed(moments.gram, theta, moments.n_samples)
                except ValueError:
                    continue
                attributes = model._describe(problems[i], result)
                if reference is not None:
                    graph = attributes.pop("affinity_")
                    attributes = arrays_on_host(attributes) | {"affinity_": graph.to_sparse()}
                vars(model).update(attributes)
                fitted[i, j] = model, seconds
    return fitted


def _fit_alone(search, fold, setting, problem, scorers):
    """Row of one setting; on the problem of its fold if that is prepared."""
    start = time.perf_counter()
    model = fold.candidate(setting)
    try:
        if problem is None or search.device is not None:
            model.fit(fold.X_train, fold.y[0])
        else:
            vars(model).update(model._solve(problem, model.n_components, model.n_layers))
            warn_if_not_converged(model.result_.status, "JPlay")
    except Exception as error:
        return fold.failed(search, error, scorers)
    return fold.scored(search, model, scorers, time.perf_counter() - start)
