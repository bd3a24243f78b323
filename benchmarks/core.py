"""What a fit ends with, and what it takes: objective, iterations, time and accuracy.

    OMP_NUM_THREADS=1 python benchmarks/core.py [DATA ...]

Prints one row per data set (wine, digits, Indian Pines) and setting. Another state of the code is
compared by a second run, with ``PYTHONPATH`` set to its ``src``.
"""

import sys
import time
import warnings

import numpy as np
import sklearn.datasets
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

import jplay
from jplay import JPlay
from jplay.datasets import fetch_indian_pines


def load_scene():
    scene = fetch_indian_pines()
    parts = scene.train_indices, scene.test_indices
    return [array[part] for part in parts for array in (scene.data, scene.target)]


def load_table(load, n_train):
    X, y = load(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X, y, train_size=n_train, stratify=y, random_state=0)
    return X, y, X_test, y_test


DATA = {
    "wine": lambda: load_table(sklearn.datasets.load_wine, 90),
    "digits": lambda: load_table(sklearn.datasets.load_digits, 900),
    "pines": load_scene,
}
SETTINGS = {
    "1 layer": {"n_layers": 1},
    "2 layers": {"n_layers": 2},
    "3 layers": {"n_layers": 3},
    "no constraints": {"constraints": None},
    "3 layers, no constraints": {"n_layers": 3, "constraints": None},
    "balanced": {"class_weight": "balanced"},
    "weighted": {},
}


def measure(X, y, X_test, y_test, setting):
    """Return objective, iterations, seconds of the processor and accuracy of one fit."""
    weighted = setting == "weighted"
    weight = np.random.default_rng(0).uniform(0.2, 2.0, len(y)) if weighted else None
    start = time.process_time()
    model = JPlay(**SETTINGS[setting]).fit(X, y, sample_weight=weight)
    seconds = time.process_time() - start
    accuracy = 100 * np.mean(model.predict(X_test) == y_test)
    return model.objective_history_[-1], model.n_iter_, seconds, accuracy


def main(names):
    warnings.simplefilter("ignore")
    print(f"{jplay.__file__}\n{'':<34}{'objective':>13}{'iterations':>12}{'CPU s':>8}{'test %':>8}")
    with threadpool_limits(1):
        for name in names or DATA:
            data = DATA[name]()
            JPlay(max(1, len(set(data[1])) - 1)).fit(*data[:2])  # what is loaded at the first fit
            for setting in SETTINGS:
                objective, n_iter, seconds, accuracy = measure(*data, setting)
                label = f"{name}, {setting}"
                print(f"{label:<34}{objective:>13.6f}{n_iter:>12}{seconds:>8.2f}{accuracy:>8.2f}")


if __name__ == "__main__":
    main(sys.argv[1:])
