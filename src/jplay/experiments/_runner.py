"""Run a recipe: fit each subspace once, classify it every way, record each cell as it is done."""

import os
import traceback
import warnings
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import perf_counter

import joblib
import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline
from threadpoolctl import threadpool_limits

from jplay._files import atomic_path
from jplay.experiments._division import load_divided
from jplay.experiments._fitted import (
    FittedRow,
    fit_classifier,
    label_figures,
    map_of_pixels,
)
from jplay.experiments._journal import DONE, FAILED, Journal, content_key, exclusive
from jplay.experiments._limits import OverTime, in_words, time_limit
from jplay.experiments._protocol import choose_parameters
from jplay.experiments._recipe import Classifier, Method, Search
from jplay.experiments._steps import make_method, make_steps
from jplay.numerics.metrics import AccuracyReport
from jplay.numerics.votes import expected_calibration_error

CALIBRATION_BINS = 15
THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.9)
"""Probabilities below which a prediction may be left open."""

MAX_CONFUSION_CLASSES = 20
"""With more classes a record holds no confusion matrix, only what follows from it."""


@dataclass(frozen=True)
class Cell:
    """One figure of a table: a split, a method and a classifier."""

    split: int
    method: Method
    classifier: Classifier
    key: str


@dataclass(frozen=True)
class FitTask:
    """A fit of one method to one split and the cells that share it."""

    split: int
    method: Method
    cells: tuple[Cell, ...]
    key: str


@dataclass(frozen=True)
class ChoiceTask:
    """A choice of parameters on the training samples of one split."""

    split: int
    search: Search
    key: str


@dataclass(frozen=True)
class TaskProgress:
    """What a run tells its observer after every task."""

    recipe: str
    label: str
    n_done: int
    n_total: int
    n_failed: int
    seconds: float


class Experiment:
    """A recipe with its data and its records in a folder.

    Parameters
    ----------
    recipe : Recipe
    folder : path-like
        Holds ``records.jsonl``, class maps and, while a run lasts, fits to take up again.
    scaling : {"inductive", "transductive"}, default="inductive"
        Whether features are scaled by training samples alone or, as in the paper, by test samples
        too.
    data : Bunch, optional
        Used instead of the recipe's data.
    keep_fits : bool, default=False
        Whether fits stay in the folder, so that columns can be added without fitting again.
    watchers : dict of str to callback, optional
        Follow the fits of a row, by its name; see scikit-learn's callbacks. One process only.
    max_seconds : float, optional
        Time that a fit may take, and each of its cells. What takes longer is recorded as failed;
        neither the row's other splits nor a later run with no more time try it again.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> from jplay.experiments import Experiment, parse_recipe
    >>> recipe = parse_recipe({
    ...     "name": "wine", "title": "Wine", "dataset": {"loader": "wine"},
    ...     "methods": [{"name": "LDA", "kind": "lda"}],
    ...     "classifiers": [{"name": "NN", "kind": "nn"}],
    ... })
    >>> experiment = Experiment(recipe, mkdtemp())
    >>> experiment.run()
    >>> [record["result"]["overall_accuracy"] > 0.9 for record in experiment.cell_records()]
    [True]
    """

    def __init__(
        self,
        recipe,
        folder,
        *,
        scaling="inductive",
        data=None,
        keep_fits=False,
        watchers=None,
        max_seconds=None,
    ):
        self.recipe = recipe
        self.folder = Path(folder)
        self.scaling = scaling
        self.keep_fits = keep_fits
        self.watchers = dict(watchers or {})
        self.max_seconds = max_seconds
        self.divided = load_divided(recipe, data)
        self.journal = Journal(self.folder / "records.jsonl")
        self.choices = self._choice_tasks()
        self.tasks = self._fit_tasks()

    def run(self, *, n_jobs=1, progress=None):
        """Compute what the records do not hold yet; failed cells are tried again.

        Parameters
        ----------
        n_jobs : int, default=1
            Processes.
        progress : callable, optional
            Called with a :class:`TaskProgress` before the first and after every task.
        """
        with exclusive(self.folder):
            for choices in self._waves():
                self._run_pending(choices, run_choice, n_jobs, progress)
            self._run_pending(self.tasks, run_fit, n_jobs, progress)

    def drop(self):
        """Let the records of the recipe's cells no longer count: the next run computes them."""
        for task in self.tasks:
            self.journal.drop([cell.key for cell in task.cells])
            self.fit_path(task).unlink(missing_ok=True)

    def cell_records(self):
        """Return the finished records of the recipe's cells, in the order of its table."""
        done = self.journal.done()
        keys = [cell.key for task in self.tasks for cell in task.cells]
        return [done[key] for key in keys if key in done]

    def failures(self):
        """Return the last failed records of cells that are still missing."""
        failed = self.journal.failures()
        keys = [cell.key for task in self.tasks for cell in task.cells]
        return [failed[key] for key in keys if key in failed]

    def chosen(self):
        """Return the finished choices of parameters, by ``(search, split)``."""
        done = self.journal.done()
        return {(t.search.name, t.split): done[t.key] for t in self.choices if t.key in done}

    def parameters(self, method, split):
        """Return a method's parameters with those chosen for it, or None where not chosen yet."""
        if method.search is None:
            return dict(method.params)
        chosen = self.choice(method.search, split)
        if chosen is None:
            return None
        return {**method.params, **{k: v for k, v in chosen.items() if k != "n_layers"}}

    def choice(self, search, split):
        """Return the parameters that a search chose on a split, or None where it has not yet."""
        record = self.chosen().get((search, split))
        return None if record is None else record["result"]["parameters"]

    def pipeline(self, method, params):
        """Return the unfitted preprocessing, estimator and feature steps of a row."""
        return make_pipeline(
            *make_steps((*self.recipe.preprocessing, *method.preprocessing)),
            make_method(method.kind, params, self.recipe.seed, self.divided.data.get("cube")),
            *make_steps(method.features),
        )

    def train_test(self, split):
        """Return the samples and targets of a split."""
        train, test = self.divided.splits[split]
        X, y = self.divided.X, self.divided.y
        return X[train], y[train], X[test], y[test]

    def task_of(self, key):
        """Return the fit to which the cell with a record's key belongs."""
        return next(task for task in self.tasks if any(cell.key == key for cell in task.cells))

    def first_task(self, name):
        """Return the fit of a row to the first split, or None if the recipe has no such row."""
        return next((t for t in self.tasks if t.method.name == name and t.split == 0), None)

    def fitted(self, task, params=None, *, leave=True):
        """Return the fit of a task that a run has left, or fit it.

        Parameters
        ----------
        task : FitTask
        params : dict, optional
            Parameters of the method; by default its own with those chosen for it.
        leave : bool, default=True
            Whether a new fit is left for the next run, if that can use it.

        Returns
        -------
        FittedRow
            Or None if its parameters have not been chosen yet.
        """
        path = self.fit_path(task)
        if path.exists():
            return joblib.load(path)
        params = self.parameters(task.method, task.split) if params is None else params
        if params is None:
            return None
        fitted = fit_row(self, task.method, params, task.split)
        if leave and (self.keep_fits or len(task.cells) > 1):
            path.parent.mkdir(parents=True, exist_ok=True)
            with atomic_path(path) as temporary:
                joblib.dump(fitted, temporary)
        return fitted

    def fit_path(self, task):
        """Return the file of a task's fit, which is there while the fit is kept."""
        return self.folder / "fits" / f"{task.key}.joblib"

    def map_path(self, cell):
        """Return the file of a cell's class map."""
        return self.folder / "maps" / f"{cell.key}.npz"

    def raise_failures(self):
        """Raise an error with the message of the first failed cell, if there is one."""
        for failure in self.failures():
            raise ValueError(failure["error"].removeprefix("ValueError: "))

    def _choice_tasks(self):
        n_splits = {}
        for method in self.recipe.methods:
            if not self._columns(method):
                continue
            for search in self.recipe.chain(method.search):
                known = n_splits.get(search.name, 0)
                n_splits[search.name] = max(known, self._n_splits(method))
        tasks = []
        for name, search in self.recipe.searches.items():
            chain = [asdict(link) for link in self.recipe.chain(name)]
            for split in range(n_splits.get(name, 0)):
                key = content_key([*self._split_content(split), "choice", chain])
                tasks.append(ChoiceTask(split, search, key))
        return tasks

    def _waves(self):
        """Choices in groups, each of which builds only on those before it."""
        waves = {}
        for task in self.choices:
            waves.setdefault(len(self.recipe.chain(task.search.name)), []).append(task)
        return [waves[length] for length in sorted(waves)]

    def _fit_tasks(self):
        choice_key = {(task.search.name, task.split): task.key for task in self.choices}
        tasks = {}
        for split in range(len(self.divided.splits)):
            for method in self.recipe.methods:
                if split >= self._n_splits(method):
                    continue
                content = [
                    *self._split_content(split),
                    {k: v for k, v in asdict(method).items() if k in _WHAT_IS_FITTED},
                    choice_key.get((method.search, split)),
                ]
                cells = tuple(
                    Cell(split, method, c, content_key([*content, self._column_content(c)]))
                    for c in self._columns(method)
                )
                key = content_key(content)
                # Entries of one row that do not differ in what is fitted share the fit.
                known = tasks.get((method.name, key))
                if known is not None:
                    tasks[method.name, key] = replace(known, cells=known.cells + cells)
                elif cells:
                    tasks[method.name, key] = FitTask(split, method, cells, key)
        return list(tasks.values())

    def _columns(self, method):
        return [column for column in self.recipe.classifiers if column.applies_to(method)]

    def _n_splits(self, method):
        n_splits = len(self.divided.splits)
        return n_splits if method.n_splits is None else min(method.n_splits, n_splits)

    def _split_content(self, split):
        # More splits are more cells, not others; what is not set does not count either, so that
        # a new option leaves the keys of old records as they are.
        plan = {
            name: value
            for name, value in asdict(self.recipe.split).items()
            if name != "n_splits" and value is not None
        }
        preprocessing = self.recipe.preprocessing
        return [self.divided.fingerprint, plan, split, preprocessing, self.recipe.seed]

    def _column_content(self, classifier):
        content = {k: v for k, v in asdict(classifier).items() if k in _WHAT_CLASSIFIES}
        return [content, self.scaling if classifier.features else None]

    def _over_time(self):
        """Return the failures, by key, of cells that took longer than they may take now."""
        limit = np.inf if self.max_seconds is None else self.max_seconds
        failures = self.journal.failures()
        return {key: r for key, r in failures.items() if r.get("limit", 0.0) >= limit}

    def over_time(self, method):
        """Return the time limit that a row has exceeded on some split, or None."""
        limits = [r["limit"] for r in self._over_time().values() if r["method"] == method.name]
        return max(limits, default=None)

    def _run_pending(self, tasks, work, n_jobs, progress):
        settled = {*self.journal.done(), *self._over_time()}
        pending = [task for task in tasks if not _finished(task, settled)]
        started = perf_counter()
        n_done, n_failed = len(tasks) - len(pending), 0

        def report(label, n_done, n_failed):
            if progress is not None:
                seconds = perf_counter() - started
                progress(
                    TaskProgress(self.recipe.name, label, n_done, len(tasks), n_failed, seconds)
                )

        report("starting", n_done, n_failed)
        owner = os.getpid()
        if n_jobs == 1:
            outcomes = (work(self, task, owner) for task in pending)
        else:
            outcomes = joblib.Parallel(n_jobs=n_jobs, return_as="generator_unordered")(
                joblib.delayed(work)(self, task, owner) for task in pending
            )
        for label, failed in outcomes:
            n_done, n_failed = n_done + 1, n_failed + failed
            report(label, n_done, n_failed)


_WHAT_IS_FITTED = ("kind", "params", "preprocessing", "features")
_WHAT_CLASSIFIES = ("kind", "params", "features")


def _finished(task, settled):
    keys = [task.key] if isinstance(task, ChoiceTask) else [cell.key for cell in task.cells]
    return all(key in settled for key in keys)


def run_choice(experiment, task, owner):
    """Choose parameters on one split's training samples and record the choice."""
    label = f"choice {task.search.name}, split {task.split + 1}"
    record = {
        "key": task.key,
        "kind": "choice",
        "recipe": experiment.recipe.name,
        "split": task.split,
        "search": asdict(task.search),
    }
    with _quietly():
        try:
            X, y, _, _ = experiment.train_test(task.split)
            start = None
            if task.search.start is not None:
                start = experiment.choice(task.search.start, task.split)
                if start is None:
                    raise ValueError(f"the choice {task.search.start!r} before it failed")
            choice = choose_parameters(
                task.search,
                X,
                y,
                preprocessing=experiment.recipe.preprocessing,
                seed=experiment.recipe.seed,
                start=start,
            )
            record |= {"status": DONE, "result": choice.to_dict(), "seconds": choice.seconds}
        except Exception as error:
            record |= _failure(error, experiment)
    _append(experiment, record, owner)
    return label, int(record["status"] == FAILED)


def run_fit(experiment, task, owner):
    """Fit one method to one split and record each of its cells that is not finished."""
    done = experiment.journal.done()
    pending = [cell for cell in task.cells if cell.key not in done]
    params = experiment.parameters(task.method, task.split)
    base = {
        "kind": "cell",
        "recipe": experiment.recipe.name,
        "fingerprint": experiment.divided.fingerprint,
        "split": task.split,
        "method": task.method.name,
        "depth": task.method.depth,
        "parameters": params,
    }
    label = f"{task.method.name}, split {task.split + 1}"
    n_failed = 0
    with _quietly():
        try:
            if params is None:
                raise ValueError(f"the choice {task.method.search!r} of its parameters failed")
            exceeded = experiment.over_time(task.method)
            if exceeded is not None:
                raise OverTime(f"over {in_words(exceeded)} on another split")
            with time_limit(experiment.max_seconds):
                fitted = experiment.fitted(task, params)
        except (Exception, OverTime) as error:
            for cell in pending:
                failed = {**base, **_cell_content(cell), **_failure(error, experiment)}
                _append(experiment, failed, owner)
            return label, len(pending)
        for cell in pending:
            record = {**base, **_cell_content(cell), "fit": fitted.summary()}
            started = perf_counter()
            try:
                with time_limit(experiment.max_seconds):
                    record |= {"status": DONE, "result": classify(experiment, fitted, cell)}
            except (Exception, OverTime) as error:
                record |= _failure(error, experiment)
                n_failed += 1
            record["seconds"] = perf_counter() - started
            _append(experiment, record, owner)
    if not n_failed and not experiment.keep_fits:
        experiment.fit_path(task).unlink(missing_ok=True)
    return label, n_failed


def fit_row(experiment, method, params, split):
    """Fit one method to one split."""
    X_train, y_train, X_test, _ = experiment.train_test(split)
    pipeline = experiment.pipeline(method, params)
    watcher = experiment.watchers.get(method.name)
    watched = [s for s in pipeline if hasattr(s, "set_callbacks")] if watcher is not None else []
    started = perf_counter()
    for step in watched:
        step.set_callbacks(watcher)
    pipeline.fit(X_train, y_train)
    seconds = perf_counter() - started
    for step in watched:
        step.set_callbacks()  # a fit that is kept holds no progress bar
    if hasattr(pipeline[-1], "transform"):
        features = pipeline.transform
    else:  # a classifier has no features but those it was given
        features = make_pipeline("passthrough", *(s for _, s in pipeline.steps[:-1])).transform
    Z_train = features(X_train)
    started = perf_counter()
    Z_test = features(X_test)
    return FittedRow(pipeline, Z_train, Z_test, seconds, perf_counter() - started)


def classify(experiment, fitted, cell):
    """Classify a split's test samples from a fitted subspace and return the figures."""
    _, y_train, X_test, y_test = experiment.train_test(cell.split)
    started = perf_counter()
    predict = fit_classifier(
        fitted, cell.classifier, y_train, scaling=experiment.scaling, seed=experiment.recipe.seed
    )
    fit_seconds = fitted.seconds + perf_counter() - started
    if experiment.divided.multilabel:
        return label_figures(y_test, predict(X_test, fitted.Z_test))
    started = perf_counter()
    labels = predict(X_test, fitted.Z_test)
    predict_seconds = perf_counter() - started
    report = AccuracyReport.from_labels(y_test, labels).to_dict()
    report |= {
        **_confidence(predict, X_test, fitted.Z_test, labels == y_test),
        "fit_seconds": fit_seconds,
        "predict_seconds": predict_seconds
        + (fitted.transform_seconds if predict.asks_features else 0.0),
    }
    if len(report["labels"]) > MAX_CONFUSION_CLASSES:
        del report["confusion"]
    if cell.classifier.name == experiment.recipe.maps and cell.split == 0:
        _save_map(experiment, fitted, predict, cell)
    return report


def _confidence(predict, X, Z, correct):
    """Return the calibration error, and share and accuracy of what is sure enough, by threshold.

    None, and no threshold, if the classifier has no probabilities.
    """
    nothing = {"calibration_error": None, "kept": {}}
    if predict.probabilities is None:
        return nothing
    confidence = np.max(predict.probabilities(X, Z), axis=1)
    if not np.isfinite(confidence).all():
        return nothing
    # Whether a prediction is right matters, not of which class it is: two columns are enough.
    columns = np.column_stack([confidence, np.zeros_like(confidence)])
    kept = {str(threshold): confidence >= threshold for threshold in THRESHOLDS}
    return {
        "calibration_error": expected_calibration_error(
            columns, np.where(correct, 0, 1), CALIBRATION_BINS
        ),
        "kept": {
            threshold: {"share": float(np.mean(sure)), "accuracy": float(np.mean(correct[sure]))}
            for threshold, sure in kept.items()
            if sure.any()
        },
    }


def _save_map(experiment, fitted, predict, cell):
    """Keep the classification of every pixel, so that figures need no second fit."""
    cube = experiment.divided.data.get("cube")
    if cube is None:
        return
    labels = map_of_pixels(cube, lambda pixels: predict(pixels, fitted.pipeline.transform(pixels)))
    path = experiment.map_path(cell)
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_path(path) as temporary:
        np.savez_compressed(temporary, labels=labels.astype(np.uint8))


def _cell_content(cell):
    return {
        "key": cell.key,
        "classifier": cell.classifier.name,
        "classifier_parameters": cell.classifier.params,
    }


def _failure(error, experiment):
    if isinstance(error, OverTime):
        return {"status": FAILED, "error": str(error), "limit": experiment.max_seconds}
    return {
        "status": FAILED,
        "error": f"{type(error).__name__}: {error}",
        "traceback": "".join(traceback.format_exception(error, limit=-5)),
    }


def _append(experiment, record, owner):
    """Write a record unless the run that ordered it was killed."""
    if owner not in (os.getpid(), os.getppid()):
        raise SystemExit(1)
    experiment.journal.append(record)


@contextmanager
def _quietly():
    """One BLAS thread, and no notice of fits that met their limit: records say so."""
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield
