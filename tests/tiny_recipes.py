"""Recipes that run in seconds on data that come with scikit-learn, and runs that are cut short."""

import os
import subprocess
import sys
from copy import deepcopy
from pathlib import Path

import numpy as np
from sklearn.utils import Bunch

import jplay
from jplay.experiments._division import DividedData

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


def undivided(recipe, data):
    """Stand in for the data of a recipe: keys of its cells depend on the fingerprint alone."""
    n_splits = 1 if recipe.split.kind == "given" else recipe.split.n_splits
    bunch = Bunch(target=np.zeros(1))
    return DividedData(bunch, recipe.dataset.fingerprint, [None] * n_splits)


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


DYING = """
import os, sys
from jplay.experiments._journal import Journal
append, n_records = Journal.append, int(sys.argv.pop(1))
def append_or_die(self, record):
    if len(self.read()) == n_records:
        os._exit(137)
    append(self, record)
Journal.append = append_or_die
from jplay.cli import main
main()
"""


def run_and_die(n_records, *arguments):
    """Run jplay in a process that is gone, as if killed, when it comes to a record too many."""
    source = str(Path(jplay.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", DYING, str(n_records), *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": source},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 137, done.stderr
