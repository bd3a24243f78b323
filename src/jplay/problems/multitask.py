"""Targets of several tasks, each labelled on samples of its own."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse
from array_api_compat import is_array_api_obj
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_consistent_length

from jplay._array_api import to_numpy
from jplay.numerics.links import shares_given
from jplay.problems.problem import FitProblem, described, with_parts
from jplay.problems.targets import (
    RealCode,
    Targets,
    check_sample_weight,
    encode_real_targets,
    encode_targets,
)

KINDS = ("classification", "regression")


@dataclass(frozen=True, eq=False)
class TaskTargets:
    """One task: its kind, the samples that have a target, and these targets."""

    name: Any
    kind: str
    rows: Any
    """(n_labelled,) positions of the samples with a target."""
    y: Any
    """(n_labelled,) their targets."""


def is_named(y: Any) -> bool:
    """Whether targets come as a dictionary or a table with names."""
    return isinstance(y, Mapping) or hasattr(y, "columns")


def named_targets(y: Any) -> dict:
    """Targets of every task by name; those of a matrix are named by their column.

    Examples
    --------
    >>> named_targets([[0, 1.5], [1, 2.5]])
    {0: array([0., 1.]), 1: array([1.5, 2.5])}
    """
    if is_named(y):
        named = {name: _column(y[name], name) for name in getattr(y, "columns", y)}
        if not named:
            raise ValueError("`y` should hold at least one task, got none. Add targets.")
        return named
    if scipy.sparse.issparse(y):
        raise ValueError(
            "`y` should be dense for several tasks, since a missing entry is no zero, got a "
            "sparse matrix. Pass y.toarray()."
        )
    y = to_numpy(y) if is_array_api_obj(y) else np.asarray(y)
    if y.ndim not in (1, 2):
        raise ValueError(f"`y` should have one column per task, got shape {y.shape}.")
    columns = y.reshape(len(y), -1).T
    return {name: _column(column, name) for name, column in enumerate(columns)}


def _column(y: Any, name: Any) -> Any:
    y = to_numpy(y) if is_array_api_obj(y) else np.asarray(y)
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1:
        raise ValueError(
            f"`y[{name!r}]` should have one target per sample, got shape {y.shape}. Make each "
            "column a task of its own."
        )
    if y.dtype.kind == "c":
        raise ValueError(f"Complex data not supported: `y[{name!r}]` is complex.")
    return y


def task_targets(y: Any, kinds: Any, n_samples: int) -> list[TaskTargets]:
    """Every task with the samples that have a target for it.

    Parameters
    ----------
    y : dict, or array of shape (n_samples,) or (n_samples, n_tasks)
        NaN and None are missing targets; so is -1 in class labels, unless the others are 1.
    kinds : None, {"classification", "regression"} or dict
        What kind of task each is; ``None`` means as the targets look.
    n_samples : int
    """
    named = named_targets(y)
    given = dict.fromkeys(named, kinds) if isinstance(kinds, str) else dict(kinds or {})
    unknown = [name for name in given if name not in named]
    if unknown:
        raise ValueError(
            f"`tasks` should name tasks of `y` ({', '.join(map(repr, named))}), got "
            f"{', '.join(map(repr, unknown))}."
        )
    return [_task(name, column, given.get(name), n_samples) for name, column in named.items()]


def _task(name: Any, y: Any, kind: str | None, n_samples: int) -> TaskTargets:
    check_consistent_length(np.empty(n_samples), y)
    if kind not in (None, *KINDS):
        raise ValueError(f"`tasks` should hold 'classification' or 'regression', got {kind!r}.")
    missing = np.array([entry is None or entry != entry for entry in y.tolist()], dtype=bool)
    known = y[~missing]
    if known.dtype.kind == "O":
        known = np.array(known.tolist())
    if kind is None and len(known):
        looks = type_of_target(known, input_name=f"y[{name!r}]")
        kind = "regression" if looks == "continuous" else "classification"
    if kind == "regression":
        known = known.astype(np.float64)
    elif known.dtype.kind in "if":
        # As in one task: -1 and 1 alone are two classes.
        unlabelled = known == -1
        if unlabelled.all() or not np.isin(known, (-1, 1)).all():
            missing[np.flatnonzero(~missing)[unlabelled]] = True
            known = known[~unlabelled]
        if known.dtype.kind == "f" and missing.any() and np.all(known == np.rint(known)):
            known = known.astype(np.int64)  # whole numbers that were floats to hold NaN
    if not len(known):
        raise ValueError(
            f"`y[{name!r}]` should have a target for some samples, got none: every entry is "
            "missing. Leave the task out, or label samples for it."
        )
    return TaskTargets(name, str(kind), np.flatnonzero(~missing), known)


def task_links(tasks: list[TaskTargets]) -> dict:
    """For every task of classes, what those with more labels say of its classes.

    Returns
    -------
    links : dict of dicts of ndarrays of shape (n_classes, n_other_classes)
        Tasks with many labels first, so that each is informed before it informs.
    """
    of_classes = [task for task in tasks if task.kind == "classification"]
    ordered = sorted(of_classes, key=lambda task: -len(task.rows))
    links: dict = {}
    for number, task in enumerate(ordered):
        for other in ordered[:number]:
            _, own, theirs = np.intersect1d(task.rows, other.rows, return_indices=True)
            if len(other.rows) == len(task.rows) or not len(own):
                continue
            classes, codes = np.unique(task.y, return_inverse=True)
            values, other_codes = np.unique(other.y, return_inverse=True)
            counts = np.zeros((len(classes), len(values)))
            np.add.at(counts, (codes[own], other_codes[theirs]), 1)
            prior = np.bincount(other_codes) / len(other_codes)
            links.setdefault(task.name, {})[other.name] = shares_given(counts, prior)
    return links


def encoded_tasks(
    tasks: list[TaskTargets], n_samples: int, task_weight: Any, sample_weight: Any
) -> list[tuple[Any, Targets]]:
    """Encoded targets of every task, weighed against each other.

    Every label weighs the same, and all of them together as many samples as there are for each
    one with a label: ``alpha`` means what it means for one task. ``"balanced"`` gives all tasks
    the same total, a dictionary multiplies the weight of those it names.

    Returns
    -------
    parts : list of (rows, Targets)
    """
    weight = check_sample_weight(sample_weight, np.empty(n_samples))
    factors = np.ones(len(tasks))
    counts = np.array([len(task.rows) for task in tasks])
    if isinstance(task_weight, str):
        factors = counts.sum() / (len(tasks) * counts)
    elif task_weight is not None:
        factors = _factors(tasks, task_weight)
    factors = factors * n_samples / len(np.unique(np.concatenate([task.rows for task in tasks])))
    return [
        (task.rows, _encoded(task, float(factor), weight))
        for task, factor in zip(tasks, factors, strict=True)
    ]


def _factors(tasks: list[TaskTargets], task_weight: Mapping) -> Any:
    names = [task.name for task in tasks]
    unknown = [name for name in task_weight if name not in names]
    if unknown:
        raise ValueError(
            f"`task_weight` should name tasks of `y` ({', '.join(map(repr, names))}), got "
            f"{', '.join(map(repr, unknown))}."
        )
    factors = np.array([float(task_weight.get(name, 1.0)) for name in names])
    if not (np.isfinite(factors).all() and (factors > 0).all()):
        raise ValueError(f"`task_weight` should hold positive numbers, got {dict(task_weight)}.")
    return factors


def _encoded(task: TaskTargets, factor: float, sample_weight: Any) -> Targets:
    own = None if sample_weight is None else sample_weight[task.rows]
    try:
        if task.kind == "regression":
            targets = encode_real_targets(task.y, sample_weight=own)
        else:
            targets = encode_targets(task.y, sample_weight=own)
    except ValueError as error:
        raise ValueError(f"Task {task.name!r}: {error}") from error
    weight = np.ones(len(task.rows)) if targets.weight is None else targets.weight
    code = replace(targets.code, unit=factor * targets.code.unit)
    if isinstance(code, RealCode):
        code = replace(code, total_weight=factor * code.total_weight)
    return replace(targets, code=code, weight=factor * weight)


@contextmanager
def described_tasks(
    X: Any,
    tasks: list[TaskTargets],
    sample_weight: Any = None,
    *,
    task_weight: Any = None,
    **settings: Any,
) -> Iterator[FitProblem]:
    """Describe a fit of several tasks to samples in memory.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
    tasks : list of TaskTargets
    sample_weight : array-like of shape (n_samples,), default=None
    task_weight : None, "balanced" or dict, default=None
    **settings
        Of :func:`jplay.problems.described`.
    """
    parts = encoded_tasks(tasks, X.shape[0], task_weight, sample_weight)
    with described(X, **settings) as problem:
        yield with_parts(problem, parts)
