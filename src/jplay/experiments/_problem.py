"""The data of a recipe: samples, targets, divisions, and what can be drawn of them."""

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from jplay import datasets
from jplay.datasets import fingerprint, repeated_per_class_splits

LOADERS = {
    "indian-pines": datasets.fetch_indian_pines,
    "houston": datasets.fetch_houston2013,
    "ar": datasets.fetch_ar,
    "extended-yale-b": datasets.fetch_extended_yale_b,
    "multilabel": datasets.fetch_multilabel,
    "digits": datasets.load_digits,
    "wine": datasets.load_wine,
    "synthetic-scene": datasets.make_hyperspectral_scene,
}


@dataclass(frozen=True)
class Problem:
    """Samples and targets with every division of them, as index pairs."""

    data: Bunch
    fingerprint: str
    splits: list
    expected_data: bool

    @property
    def X(self):
        return self.data.data

    @property
    def y(self):
        return self.data.target

    @property
    def multilabel(self):
        return self.y.ndim == 2


def load_problem(recipe, data=None):
    """Load a recipe's data and divide it.

    Parameters
    ----------
    recipe : Recipe
    data : Bunch, optional
        Used instead of what the recipe's loader returns.

    Returns
    -------
    Problem
    """
    if data is None:
        data = _load(recipe.dataset)
    found = fingerprint(data)
    expected = recipe.dataset.fingerprint
    if expected is not None and found != expected:
        warnings.warn(
            f"The data of recipe {recipe.name!r} are not those it was written for (fingerprint "
            f"{found[:12]}, expected {expected[:12]}): figures cannot be compared with its "
            "records. Check the files in the data folder.",
            stacklevel=2,
        )
    return Problem(data, found, _divide(recipe.split, data), expected in (None, found))


def _load(dataset):
    if dataset.loader == "file":
        return load_file(**dataset.options)
    if dataset.loader not in LOADERS:
        raise ValueError(
            f"`loader` should be one of {', '.join([*LOADERS, 'file'])}, got {dataset.loader!r}."
        )
    return LOADERS[dataset.loader](**dataset.options)


def _divide(plan, data):
    if plan.kind == "given":
        if data.get("train_indices") is None:
            raise ValueError(
                'The split "given" needs data with a division of their own. Set `kind = '
                '"per-class"` and `n_train`.'
            )
        return [(data.train_indices, data.test_indices)]
    if plan.kind == "per-class":
        draws = repeated_per_class_splits(
            plan.n_train, n_repeats=plan.n_splits, random_state=plan.seed
        )
        return list(draws.split(data.data, data.target))
    raise ValueError(f'`kind` of the split should be "given" or "per-class", got {plan.kind!r}.')


def load_file(path, *, target=None):
    """Read samples and labels from a file of the user's own.

    Parameters
    ----------
    path : path-like
        ``.npz`` or ``.mat`` with arrays ``X`` (or ``data``, ``fea``) and ``y`` (``target``,
        ``labels``, ``gnd``), or ``X_train``, ``y_train``, ``X_test``, ``y_test``; or ``.csv`` with
        a header, one sample per line, labels in the column ``target`` (by default the last).
    target : str, optional
        Name of the array or column of labels.

    Returns
    -------
    Bunch
        ``data``, ``target``, ``target_names``, and a division where the file holds one.
    """
    path = Path(path)
    if path.suffix == ".csv":
        X, labels = _read_csv(path, target)
        return _own_bunch(path, X, labels)
    if path.suffix not in (".npz", ".mat"):
        raise ValueError(f"`data` should be a .npz, .csv or .mat file, got '{path}'.")
    arrays = _read_arrays(path)
    if {"X_train", "y_train", "X_test", "y_test"} <= set(arrays):
        n_train = len(arrays["X_train"])
        X = np.concatenate([arrays["X_train"], arrays["X_test"]])
        labels = np.concatenate([np.ravel(arrays["y_train"]), np.ravel(arrays["y_test"])])
        division = (np.arange(n_train), np.arange(n_train, len(X)))
        return _own_bunch(path, X, labels, division)
    X = _pick(path, arrays, ("X", "data", "fea"))
    labels = _pick(path, arrays, (target,) if target else ("y", "target", "labels", "gnd"))
    return _own_bunch(path, X, np.ravel(labels))


def _read_arrays(path) -> dict[str, Any]:
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as archive:
            return dict(archive)
    from jplay.datasets._readers import read_arrays

    return read_arrays(path)


def _read_csv(path, target):
    table = np.genfromtxt(path, delimiter=",", names=True, dtype=None, encoding="utf-8")
    names = table.dtype.names
    if names is None or len(names) < 2:
        raise ValueError(f"'{path}' should have a header and at least two columns.")
    target = names[-1] if target is None else target
    if target not in names:
        raise ValueError(
            f"`target` should be one of the columns {', '.join(names)}, got {target!r}."
        )
    features = [name for name in names if name != target]
    not_numbers = [name for name in features if table.dtype[name].kind not in "iufb"]
    if not_numbers:
        raise ValueError(
            f"'{path}' should hold numbers in every column but the labels, which column "
            f"{not_numbers[0]!r} does not. Encode or remove it."
        )
    return np.column_stack([table[name] for name in features]), table[target]


def _pick(path, arrays, names):
    for name in names:
        if name in arrays:
            return arrays[name]
    raise ValueError(
        f"'{path}' should hold an array named {' or '.join(names)}, found {', '.join(arrays)}."
    )


def _own_bunch(path, X, labels, division=None):
    X = np.asarray(X, dtype=np.float64)
    if X.ndim != 2 or len(X) != len(labels):
        raise ValueError(
            f"'{path}' should hold samples of shape (n_samples, n_features) and one label each, "
            f"found {X.shape} and {len(labels)} labels."
        )
    names, target = np.unique(labels, return_inverse=True)
    if names.size < 2:
        raise ValueError(f"'{path}' should hold at least two classes, found {names.size}.")
    bunch = Bunch(data=X, target=target + 1, target_names=names.astype(str), filenames=[str(path)])
    if division is not None:
        bunch.update(split="given", train_indices=division[0], test_indices=division[1])
    return bunch
