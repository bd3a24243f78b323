"""Recipes that are made, not read: a user's own data, the demo, the ablation."""

import tomllib
from pathlib import Path

import numpy as np

from jplay.experiments._division import load_file, load_scene
from jplay.experiments._named import find_class, parse_estimator
from jplay.experiments._protocol import WEIGHTS
from jplay.experiments._recipe import parse_recipe
from jplay.experiments._settings import PUBLISHED
from jplay.inspection import choose_scaling

SCALINGS = {"columns": "standard", "max": "sample-max", "l1": "unit-sum", "l2": "unit-length"}
"""Steps by the words of ``study``."""
SPLITS = {"random": "per-class", "groups": "groups", "blocks": "blocks"}
"""Kinds of splits by the words of ``study``."""

DEMO_DATA = {
    "indian-pines": {"loader": "indian-pines", "options": {"split": None}},
    "digits": {"loader": "digits"},
}
"""Data sets that need no file."""

NEAREST = {"name": "1-NN", "kind": "nn"}
SHRINKAGE = {"solver": "eigen", "shrinkage": "auto"}
SHORT_SCHEDULE = {"name": "paper", "max_iter": 20, "inner_max_iter": 200}


def study_recipe(
    path,
    *,
    columns=None,
    scene=None,
    methods=(),
    split=None,
    scale=None,
    impute=None,
    n_train=10,
    n_splits=3,
    n_components=20,
    max_layers=3,
    seed=0,
):
    """Return the recipe of a comparison on the samples of a file.

    Parameters
    ----------
    path : path-like
        A table, see :func:`jplay.tables.read_table`, or an image if ``scene`` is given.
    columns : dict, optional
        What the columns of the table are: ``target``, ``group``, ``ids``, ``drop``, ``samples``.
    scene : dict, optional
        ``labels`` of the image, and ``field``, ``max_per_class``, ``bad_bands``, ``variable``.
    methods : sequence of str
        More rows: ``package:Class``, ``package:Class(name=value)``, or a TOML file with tables
        ``[[methods]]`` of ``name``, ``class`` and ``options``.
    split : {"random", "groups", "blocks"}, optional
        Training samples drawn per class, whole groups or fields left out in turn, or half of the
        blocks of an image. By default groups, if there are any.
    scale : {"columns", "max", "l1", "l2"}, optional
        Each column by itself, or each sample divided by this norm. By default what
        :func:`jplay.inspection.choose_scaling` says.
    impute : {"median", "mean"}, optional
        What missing values are replaced by.
    n_train : int, default=10
        Training samples per class of random splits; a division in the file takes precedence.
    n_splits : int, default=3
        Number of divisions.
    n_components : int, default=20
        Dimension of the learned subspaces; fewer where the data allow fewer.
    max_layers : int, default=3
        J-Play is run with 1 to this many layers.
    seed : int, default=0

    Returns
    -------
    Recipe
    """
    if scene is None:
        options = {"path": str(path), "allow_missing": impute is not None, **(columns or {})}
        data = load_file(**options)
    else:
        options = {"path": str(path), "seed": seed, **scene}
        data = load_scene(**options)
    classes, counts = np.unique(data.target, return_counts=True)
    divided = data.get("train_indices") is not None
    split = split or ("random" if data.get("groups") is None else "groups")
    kind = "given" if divided else SPLITS[split]
    n_rows = n_train * classes.size if kind == "per-class" else len(data.target) // 2
    n_rows = data.train_indices.size if divided else n_rows
    reduced = min(n_components, data.data.shape[1], n_rows - 1)
    discriminant = min(reduced, classes.size - 1)
    folds = max(2, min(3, n_train if kind == "per-class" else int(counts.min())))
    weights = list(WEIGHTS)
    own = _own_methods(methods)
    scale = scale or choose_scaling(data.data).norm or "columns"
    return parse_recipe(
        {
            "name": Path(path).stem,
            "title": f"{Path(path).name}: {classes.size} classes",
            "preprocessing": [*([impute] if impute else []), SCALINGS[scale]],
            "seed": seed,
            "convergence": "J-Play_1",
            "reference": own[0]["name"] if own else "J-Play_1",
            "dataset": {"loader": "file" if scene is None else "scene", "options": options},
            "split": {"kind": kind, "n_train": n_train, "n_splits": n_splits, "seed": seed},
            "searches": {
                "weights": {
                    "kind": "jplay",
                    "params": {"n_layers": 1, "n_components": reduced, "alpha": 10.0, "beta": 0.1},
                    "n_folds": folds,
                    "grid": {"alpha": weights, "gamma": weights, "beta": weights},
                }
            },
            "classifiers": [
                {"name": "NN", "kind": "nn"},
                {"name": "KSVM", "kind": "ksvm", "features": ["unit-range"]},
                {"name": "CCF", "kind": "ccf"},
                _own("projection"),
                {"name": "own", "kind": "own", "methods": ["jplay", "lda", "estimator"]},
            ],
            "methods": [
                *own,
                {"name": "baseline", "kind": "identity"},
                {"name": "PCA", "kind": "pca", "params": {"n_components": reduced}},
                {"name": "LPP", "kind": "lpp", "params": {"n_components": reduced}},
                {"name": "LDA", "kind": "lda"},
                {"name": "LDA, shrinkage", "kind": "lda", "params": SHRINKAGE},
                {"name": "LFDA", "kind": "lfda", "params": {"n_components": discriminant}},
                {"name": "LSDR", "kind": "lsdr", "params": {"n_components": reduced}},
                {"name": "LSQMID", "kind": "lsqmid", "params": {"n_components": reduced}},
                {
                    "name": "J-Play_{depth}",
                    "kind": "jplay",
                    "depths": list(range(1, max_layers + 1)),
                    "params": {"n_components": reduced},
                    "search": "weights",
                },
            ],
        }
    )


def _own_methods(texts):
    """Return the entries of a user's own methods, with the columns that they can fill."""
    entries = []
    for text in texts:
        if text.endswith(".toml"):
            entries += tomllib.loads(Path(text).read_text(encoding="utf-8")).get("methods", [])
        else:
            entries.append({"name": text.partition(":")[2].strip(), **parse_estimator(text)})
    return [_own_method(**entry) for entry in entries]


def _own_method(name, *, options=None, preprocessing=(), **named):
    found = find_class(named["class"])
    columns = ["NN", "KSVM", "CCF"] if hasattr(found, "transform") else []
    columns += ["own"] if hasattr(found, "predict") else []
    if not columns:
        raise ValueError(
            f"`method` should have `predict` or `transform`, which {named['class']!r} has not."
        )
    return {
        "name": name,
        "kind": "estimator",
        "params": {"class": named["class"], "options": options or {}},
        "preprocessing": list(preprocessing),
        "classifiers": columns,
    }


def demo_recipe(
    data="indian-pines",
    *,
    n_train=50,
    seed=0,
    n_components=None,
    max_layers=3,
    max_iter=None,
    n_estimators=30,
):
    """Return the recipe of ``jplay demo``: J-Play beside the classifiers that users know.

    Parameters
    ----------
    data : {"indian-pines", "digits"}
    n_train : int, default=50
        Training samples per class; 15 of classes with fewer than 100.
    seed : int, default=0
    n_components : int, optional
        Dimension of the last subspace; by default that of :class:`jplay.JPlay`.
    max_layers : int, default=3
        The row ``"J-Play"`` has one layer, ``"J-Play_2"`` two, and so on to this many.
    max_iter : int, optional
    n_estimators : int, default=30
        Members of the committee.

    Returns
    -------
    Recipe
    """
    size: dict = {} if n_components is None else {"n_components": n_components}
    settings = {**_defaults(), **size}
    if max_iter is not None:
        settings["solver"] = {"max_iter": max_iter}
    members = {"n_estimators": n_estimators, "n_jobs": -1}
    return parse_recipe(
        {
            **_drawn(data, n_train=n_train, n_splits=1, seed=seed),
            "classifiers": [
                {**NEAREST, "methods": ["identity", "jplay"]},
                {"name": "RBF SVM", "kind": "ksvm", "methods": ["identity"]},
                {"name": "random forest", "kind": "forest", "methods": ["identity"]},
                # 300 trees, the usual number, take five times as long and gain half a point.
                {
                    "name": "CCF, 100 trees",
                    "kind": "ccf",
                    "params": {"n_estimators": 100},
                    "methods": ["identity"],
                },
                {**_own(), "methods": ["lda", "jplay", "estimator"]},
            ],
            "methods": [
                {"name": "raw", "kind": "identity"},
                {"name": "LDA, shrinkage", "kind": "lda", "params": SHRINKAGE},
                {
                    "name": "J-Play",
                    "kind": "jplay",
                    "depth": 1,
                    "family": "J-Play_m",
                    "params": {**settings, "n_layers": 1},
                },
                {
                    "name": "J-Play_{depth}",
                    "kind": "jplay",
                    "depths": list(range(2, max_layers + 1)),
                    "params": settings,
                },
                {
                    "name": "lifted J-Play",
                    "kind": "estimator",
                    "params": {"class": "jplay:LiftedJPlay", "options": size},
                },
                {
                    "name": "J-Play committee",
                    "kind": "estimator",
                    "params": {"class": "jplay:JPlayCommittee", "options": members},
                },
            ],
        }
    )


def ablation_recipe(
    data="indian-pines", *, n_train=50, n_splits=3, seed=0, n_components=None, n_layers=3
):
    """Return the recipe of ``jplay ablate``: J-Play without one part each, by 1-NN and by itself.

    Parameters
    ----------
    data : {"indian-pines", "digits"}
    n_train : int, default=50
        Training samples per class; 15 of classes with fewer than 100.
    n_splits : int, default=3
        Draws, with the seeds ``seed``, ``seed + 1``, ...
    seed : int, default=0
    n_components : int, optional
    n_layers : int, default=3
        Layers of the complete model.

    Returns
    -------
    Recipe
        Its reference is ``"complete model"``.
    """
    without = {
        "complete model": {},
        "no reconstruction term": {"reconstruction": False},
        "no manifold term (beta = 0)": {"beta": 0.0},
        "no ridge (gamma = 0)": {"gamma": 0.0},
        "hardly any prediction loss (alpha = 1e-6)": {"alpha": 1e-6},
        "no non-negativity": {"constraints": "unit_ball"},
        "no unit ball": {"constraints": "nonnegative"},
        "neither constraint": {"constraints": "none"},
        "one layer": {"n_layers": 1},
        "one layer, no reconstruction (joint learning)": {"n_layers": 1, "reconstruction": False},
        "published schedule, pre-training": {"solver": SHORT_SCHEDULE},
        "published schedule, no pre-training": {"solver": {**SHORT_SCHEDULE, "pretraining": False}},
    }
    complete = {"n_components": n_components, "n_layers": n_layers}
    return parse_recipe(
        {
            **_drawn(data, n_train=n_train, n_splits=n_splits, seed=seed),
            "reference": "complete model",
            "classifiers": [NEAREST, _own()],
            "methods": [
                {"name": name, "kind": "jplay", "params": {**complete, **changes}}
                for name, changes in without.items()
            ],
        }
    )


def _drawn(data, **draws):
    """Return the problem of the demo and the ablation."""
    return {
        "name": data,
        "title": data,
        "preprocessing": ["sample-max"],
        "dataset": DEMO_DATA[data],
        "split": {"kind": "per-class-seeds", "small": 15, **draws},
    }


def _defaults():
    """Return the defaults of J-Play where the rows of the paper have other values."""
    from jplay import JPlay

    params = JPlay().get_params()
    return {name: params[name] for name in PUBLISHED}


def _own(decision=None):
    """Return the column of J-Play's own classifier, by its default decision or another."""
    column = {"name": "built-in", "kind": "own", "methods": ["jplay"]}
    if decision is None:
        return column
    return {**column, "name": f"own, {decision}", "params": {"decision": decision}}
