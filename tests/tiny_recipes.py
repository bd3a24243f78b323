"""Recipes that run in seconds on data that come with scikit-learn."""

from copy import deepcopy

TINY = {
    "name": "tiny",
    "title": "Tiny",
    "preprocessing": ["sample-max"],
    "dataset": {"loader": "digits"},
    "split": {"kind": "per-class", "n_train": 8, "n_splits": 3, "seed": 1},
    "searches": {
        "weights": {
            "kind": "jplay",
            "params": {"n_layers": 1, "n_components": 8, "beta": 0.1},
            "grid": {"alpha": [1.0, 10.0], "gamma": [0.1, 1.0]},
            "n_folds": 2,
            "n_rounds": 1,
        }
    },
    "classifiers": [
        {"name": "NN", "kind": "nn"},
        {"name": "CCF", "kind": "ccf", "params": {"n_estimators": 10}},
        {
            "name": "own",
            "kind": "own",
            "params": {"decision": "centroid"},
            "methods": ["jplay"],
        },
    ],
    "methods": [
        {"name": "baseline", "kind": "identity", "published": {"NN": 80.0}},
        {"name": "PCA", "kind": "pca", "params": {"n_components": 8}},
        {
            "name": "J-Play_{depth}",
            "kind": "jplay",
            "depths": [1, 2],
            "params": {"n_components": 8},
            "search": "weights",
            "published": {"NN": [85.0, 86.0]},
        },
    ],
    "quick": {"n_splits": 1, "methods": ["baseline"], "params": {"CCF": {"n_estimators": 2}}},
}


def tiny(**changes):
    """Return a copy of the tiny recipe's table with some entries replaced."""
    return {**deepcopy(TINY), **changes}


def to_toml(table):
    """Write the few kinds of value that recipes hold as TOML."""
    lines = [f"{k} = {_value(v)}" for k, v in table.items() if not isinstance(v, dict)]
    lines += [f"{k} = {_value(v)}" for k, v in table.items() if isinstance(v, dict)]
    return "\n".join(lines) + "\n"


def _value(value):
    if isinstance(value, dict):
        return "{ " + ", ".join(f'"{k}" = {_value(v)}' for k, v in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(_value(v) for v in value) + "]"
    return f'"{value}"' if isinstance(value, str) else repr(value)
