"""Run a recipe: fit each subspace once, classify it every way, record each cell as it is done."""

import os
import traceback
import warnings
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from time import perf_counter

import joblib
import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import (
    f1_score,
    hamming_loss,
    label_ranking_average_precision_score,
    label_ranking_loss,
)
from sklearn.pipeline import make_pipeline
from threadpoolctl import threadpool_limits

from jplay.experiments._problem import load_problem
from jplay.experiments._steps import OWN, label_scores, make_classifier, make_method, make_steps
from jplay.experiments.protocol import choose_parameters, fit_scaler
from jplay.experiments.records import DONE, FAILED, RecordFile, content_key, exclusive
from jplay.numerics.metrics import AccuracyReport

MOST_CLASSES_OF_CONFUSION = 20
"""Above this a record holds no confusion matrix, only what follows from it."""


@dataclass(frozen=True)
class Cell:
    """One figure of a table: a split, a method and a classifier."""

    split: int
    method: object
    classifier: object
    key: str


@dataclass(frozen=True)
class FitTask:
    """A fit of one method to one split and the cells that share it."""

    split: int
    method: object
    cells: tuple
    key: str


@dataclass(frozen=True)
class ChoiceTask:
    """A choice of parameters on the training samples of one split."""

    split: int
    search: object
    key: str


@dataclass(frozen=True)
class Progress:
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
        See :func:`jplay.experiments.protocol.fit_scaler`.
    data : Bunch, optional
        Used instead of the recipe's data.
    keep_fits : bool, default=False
        Whether fits stay in the folder, so that columns can be added without fitting again.

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

    def __init__(self, recipe, folder, *, scaling="inductive", data=None, keep_fits=False):
        self.recipe = recipe
        self.folder = Path(folder)
        self.scaling = scaling
        self.keep_fits = keep_fits
        self.problem = load_problem(recipe, data)
        self.records = RecordFile(self.folder / "records.jsonl")
        self.choices = self._choice_tasks()
        self.tasks = self._fit_tasks()

    def run(self, *, n_jobs=1, progress=None):
        """Compute what the records do not hold yet; failed cells are tried again.

        Parameters
        ----------
        n_jobs : int, default=1
            Processes.
        progress : callable, optional
            Called with a :class:`Progress` before the first and after every task.
        """
        with exclusive(self.folder):
            for choices in self._waves():
                self._run_pending(choices, run_choice, n_jobs, progress)
            self._run_pending(self.tasks, run_fit, n_jobs, progress)

    def cell_records(self):
        """Return the finished records of the recipe's cells, in the order of its table."""
        done = self.records.done()
        keys = [cell.key for task in self.tasks for cell in task.cells]
        return [done[key] for key in keys if key in done]

    def failures(self):
        """Return the last failed records of cells that are still missing."""
        failed = self.records.failures()
        keys = [cell.key for task in self.tasks for cell in task.cells]
        return [failed[key] for key in keys if key in failed]

    def chosen(self):
        """Return the finished choices of parameters, by ``(search, split)``."""
        done = self.records.done()
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
            make_method(method.kind, params, self.recipe.seed),
            *make_steps(method.features),
        )

    def train_test(self, split):
        """Return the samples and targets of a split."""
        train, test = self.problem.splits[split]
        X, y = self.problem.X, self.problem.y
        return X[train], y[train], X[test], y[test]

    def task_of(self, key):
        """Return the fit to which the cell with a record's key belongs."""
        return next(task for task in self.tasks if any(cell.key == key for cell in task.cells))

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
        for split in range(len(self.problem.splits)):
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
        n_splits = len(self.problem.splits)
        return n_splits if method.n_splits is None else min(method.n_splits, n_splits)

    def _split_content(self, split):
        plan = {k: v for k, v in asdict(self.recipe.split).items() if k != "n_splits"}
        preprocessing = self.recipe.preprocessing
        return [self.problem.fingerprint, plan, split, preprocessing, self.recipe.seed]

    def _column_content(self, classifier):
        content = {k: v for k, v in asdict(classifier).items() if k in _WHAT_CLASSIFIES}
        return [content, self.scaling if classifier.features else None]

    def _run_pending(self, tasks, work, n_jobs, progress):
        done = self.records.done()
        pending = [task for task in tasks if not _finished(task, done)]
        started = perf_counter()
        n_done, n_failed = len(tasks) - len(pending), 0
        report = partial(self._report, progress, started, len(tasks))
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

    def _report(self, progress, started, n_total, label, n_done, n_failed):
        if progress is not None:
            seconds = perf_counter() - started
            progress(Progress(self.recipe.name, label, n_done, n_total, n_failed, seconds))


_WHAT_IS_FITTED = ("kind", "params", "preprocessing", "features")
_WHAT_CLASSIFIES = ("kind", "params", "features")


def _finished(task, done):
    keys = [task.key] if isinstance(task, ChoiceTask) else [cell.key for cell in task.cells]
    return all(key in done for key in keys)


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
            record |= _failure(error)
    _append(experiment, record, owner)
    return label, int(record["status"] == FAILED)


def run_fit(experiment, task, owner):
    """Fit one method to one split and record each of its cells that is not finished."""
    done = experiment.records.done()
    pending = [cell for cell in task.cells if cell.key not in done]
    params = experiment.parameters(task.method, task.split)
    base = {
        "kind": "cell",
        "recipe": experiment.recipe.name,
        "fingerprint": experiment.problem.fingerprint,
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
            fitted = take_up_or_fit(experiment, task, params)
        except Exception as error:
            for cell in pending:
                failed = {**base, **_cell_content(cell), **_failure(error)}
                _append(experiment, failed, owner)
            return label, len(pending)
        for cell in pending:
            record = {**base, **_cell_content(cell), "fit": fitted.summary()}
            started = perf_counter()
            try:
                record |= {"status": DONE, "result": classify(experiment, fitted, cell)}
            except Exception as error:
                record |= _failure(error)
                n_failed += 1
            record["seconds"] = perf_counter() - started
            _append(experiment, record, owner)
    if not n_failed and not experiment.keep_fits:
        fit_path(experiment, task).unlink(missing_ok=True)
    return label, n_failed


@dataclass(frozen=True)
class FittedRow:
    """A fitted pipeline, the features of its split, and the time the fit took."""

    pipeline: object
    Z_train: np.ndarray
    Z_test: np.ndarray
    seconds: float

    def summary(self):
        model = own_model(self.pipeline)
        summary = {"seconds": self.seconds, "n_features": int(self.Z_train.shape[1])}
        if hasattr(model, "result_"):
            summary |= {
                "layer_sizes": [int(size) for size in model.layer_sizes_],
                "n_iter": int(model.n_iter_),
                "objective": float(model.objective_history_[-1]),
                "converged": bool(model.result_.status.converged),
            }
        return summary


def own_model(pipeline):
    """Return the method inside a row's pipeline: the last step that is not mere scaling."""
    for _, step in reversed(pipeline.steps):
        if hasattr(step, "components_") or hasattr(step, "scalings_"):
            return step
    return pipeline.steps[-1][1]


def fit_row(experiment, method, params, split):
    """Fit one method to one split."""
    X_train, y_train, X_test, _ = experiment.train_test(split)
    started = perf_counter()
    pipeline = experiment.pipeline(method, params).fit(X_train, y_train)
    seconds = perf_counter() - started
    return FittedRow(pipeline, pipeline.transform(X_train), pipeline.transform(X_test), seconds)


def take_up_or_fit(experiment, task, params, *, leave=True):
    """Return the fit that an earlier run left, or make it and leave it for the next."""
    path = fit_path(experiment, task)
    if path.exists():
        return joblib.load(path)
    fitted = fit_row(experiment, task.method, params, task.split)
    if leave and (experiment.keep_fits or len(task.cells) > 1):
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(f".{os.getpid()}")
        joblib.dump(fitted, unfinished)
        unfinished.replace(path)
    return fitted


def fit_path(experiment, task):
    """Return the file of a task's fit, which is there while the fit is kept."""
    return experiment.folder / "fits" / f"{task.key}.joblib"


def classify(experiment, fitted, cell):
    """Classify a split's test samples from a fitted subspace and return the figures."""
    _, y_train, X_test, y_test = experiment.train_test(cell.split)
    predict = fit_classifier(experiment, fitted, cell.classifier, y_train)
    if experiment.problem.multilabel:
        return _label_figures(y_test, predict(X_test, fitted.Z_test))
    report = AccuracyReport.from_labels(y_test, predict(X_test, fitted.Z_test)).to_dict()
    if len(report["labels"]) > MOST_CLASSES_OF_CONFUSION:
        del report["confusion"]
    if cell.classifier.name == experiment.recipe.maps and cell.split == 0:
        _save_map(experiment, fitted, predict, cell)
    return report


def fit_classifier(experiment, fitted, classifier, y_train):
    """Return a function from samples and their features to labels (or scores of labels)."""
    multilabel = experiment.problem.multilabel
    if classifier.kind == OWN:
        decision = classifier.params.get("decision")

        def own(X, Z):
            model = own_model(fitted.pipeline)
            if decision is not None:
                model.set_params(decision=decision)
            ask = model.decision_function if multilabel else model.predict
            return ask(inputs_of(fitted.pipeline, model, X))

        return own
    scaler = fit_scaler(
        classifier.features, fitted.Z_train, fitted.Z_test, scaling=experiment.scaling
    )
    model = make_classifier(classifier, experiment.recipe.seed)
    model.fit(scaler.transform(fitted.Z_train), y_train)
    ask = partial(label_scores, model) if multilabel else model.predict
    return lambda X, Z: ask(scaler.transform(Z))


def inputs_of(pipeline, model, X):
    """Pass samples through the steps before the model."""
    for _, step in pipeline.steps:
        if step is model:
            break
        X = step.transform(X)
    return X


def _label_figures(Y, scores):
    predicted = (scores > 0.5).astype(int)
    return {
        "hamming_loss": float(hamming_loss(Y, predicted)),
        "micro_f1": float(f1_score(Y, predicted, average="micro", zero_division=0)),
        "macro_f1": float(f1_score(Y, predicted, average="macro", zero_division=0)),
        "ranking_loss": float(label_ranking_loss(Y, scores)),
        "average_precision": float(label_ranking_average_precision_score(Y, scores)),
    }


def _save_map(experiment, fitted, predict, cell):
    """Keep the classification of every pixel, so that figures need no second fit."""
    cube = experiment.problem.data.get("cube")
    if cube is None:
        return
    pixels = cube.reshape(-1, cube.shape[2])
    rows = np.array_split(pixels, max(1, len(pixels) // 20_000))
    labels = np.concatenate([predict(part, fitted.pipeline.transform(part)) for part in rows])
    path = map_path(experiment.folder, cell)
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(path, labels=labels.reshape(cube.shape[:2]).astype(np.uint8))


def map_path(folder, cell):
    """Return the file of a cell's class map."""
    return Path(folder) / "maps" / f"{cell.key}.npz"


def _cell_content(cell):
    return {
        "key": cell.key,
        "classifier": cell.classifier.name,
        "classifier_parameters": cell.classifier.params,
    }


def _failure(error):
    return {
        "status": FAILED,
        "error": f"{type(error).__name__}: {error}",
        "traceback": "".join(traceback.format_exception(error, limit=-5)),
    }


def _append(experiment, record, owner):
    """Write a record unless the run that ordered it was killed."""
    if owner not in (os.getpid(), os.getppid()):
        raise SystemExit(1)
    experiment.records.append(record)


class _quietly:
    """One BLAS thread, and no notice of fits that met their limit: records say so."""

    def __enter__(self):
        self._limits = threadpool_limits(1)
        self._warnings = warnings.catch_warnings()
        self._warnings.__enter__()
        warnings.simplefilter("ignore", ConvergenceWarning)

    def __exit__(self, *error):
        self._warnings.__exit__(*error)
        self._limits.restore_original_limits()
