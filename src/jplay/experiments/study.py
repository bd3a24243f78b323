"""The paper's comparison on a user's own data."""

from pathlib import Path

import numpy as np

from jplay.experiments._problem import load_file
from jplay.experiments._recipe import parse_recipe
from jplay.experiments.protocol import WEIGHTS


def study_recipe(
    path, *, target=None, n_train=10, n_splits=3, n_components=20, max_layers=3, seed=0
):
    """Return the recipe of a comparison on the samples of a file.

    Parameters
    ----------
    path : path-like
        A ``.npz``, ``.csv`` or ``.mat`` file, see :func:`jplay.experiments.load_file`.
    target : str, optional
        Array or column of the labels.
    n_train : int, default=10
        Training samples per class; a division in the file takes precedence.
    n_splits : int, default=3
        Random divisions.
    n_components : int, default=20
        Dimension of the learned subspaces; fewer where the data allow fewer.
    max_layers : int, default=3
        J-Play is run with 1 to this many layers.
    seed : int, default=0

    Returns
    -------
    Recipe
    """
    data = load_file(path, target=target)
    classes, counts = np.unique(data.target, return_counts=True)
    divided = data.get("train_indices") is not None
    n_rows = data.train_indices.size if divided else n_train * classes.size
    reduced = min(n_components, data.data.shape[1], n_rows - 1)
    discriminant = min(reduced, classes.size - 1)
    folds = max(2, min(3, int(counts.min()) if divided else n_train))
    weights = list(WEIGHTS)
    shrinkage = {"solver": "eigen", "shrinkage": "auto"}
    return parse_recipe(
        {
            "name": Path(path).stem,
            "title": f"{Path(path).name}: {classes.size} classes",
            "preprocessing": ["standard"],
            "seed": seed,
            "convergence": "J-Play_1",
            "dataset": {"loader": "file", "options": {"path": str(path), "target": target}},
            "split": {"kind": "given"}
            if divided
            else {"kind": "per-class", "n_train": n_train, "n_splits": n_splits, "seed": seed},
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
                _own("centroid"),
            ],
            "methods": [
                {"name": "baseline", "kind": "identity"},
                {"name": "PCA", "kind": "pca", "params": {"n_components": reduced}},
                {"name": "LPP", "kind": "lpp", "params": {"n_components": reduced}},
                {"name": "LDA", "kind": "lda"},
                {"name": "LDA, shrinkage", "kind": "lda", "params": shrinkage},
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


def _own(decision):
    return {
        "name": f"own, {decision}",
        "kind": "own",
        "params": {"decision": decision},
        "methods": ["jplay"],
    }
