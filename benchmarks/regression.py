"""J-Play for real targets beside partial least squares and ridge regression.

Run ``python benchmarks/regression.py [--draws 10]``. Each draw trains on a random half and tests on
the other. Partial least squares chooses its number of components by five folds, ridge regression
its strength by leaving one out; J-Play has its defaults. Tecator (fat from 100 near-infrared
absorbances of 215 meat samples) is read from the package sktime, fermentation (glucose from 1047
Raman intensities of 21 samples) from chemotools; what is not installed is left out and named.
``alpha`` was chosen on Tecator with five folds before this table was made.
"""

import argparse
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from scipy.stats import wilcoxon
from sklearn.cross_decomposition import PLSRegression
from sklearn.datasets import load_diabetes, load_linnerud
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import jplay


def tecator():
    folder = _folder("sktime") / "datasets/data/Tecator"
    rows = []
    for part in ("TRAIN", "TEST"):
        text = (folder / f"Tecator_{part}.ts").read_text().split("@data")[1]
        for line in text.strip().splitlines():
            spectrum, fat = line.rsplit(":", 1)
            rows.append([*map(float, spectrum.split(",")), float(fat)])
    table = np.array(rows)
    return table[:, :-1], table[:, -1]


def fermentation():
    folder = _folder("chemotools") / "datasets/data"
    spectra = np.loadtxt(folder / "train_spectra.csv", delimiter=",", skiprows=1)
    glucose = np.genfromtxt(folder / "train_hplc.csv", delimiter=",", skip_header=1)
    return spectra, glucose.reshape(len(spectra), -1)[:, -1]


def _folder(package):
    found = find_spec(package)
    if found is None:
        raise LookupError(f"{package} is not installed")
    return Path(next(iter(found.submodule_search_locations)))


PROBLEMS = {
    "Tecator": tecator,
    "fermentation": fermentation,
    "diabetes": lambda: load_diabetes(return_X_y=True),
    "linnerud": lambda: load_linnerud(return_X_y=True),
}


def methods(n_train, n_features):
    largest = min(20, n_features, int(0.8 * n_train) - 1)
    return {
        "PLS": GridSearchCV(
            PLSRegression(),
            {"n_components": list(range(1, largest + 1))},
            scoring="neg_mean_squared_error",
        ),
        "ridge": make_pipeline(StandardScaler(), RidgeCV(np.geomspace(1e-6, 1e4, 41))),
        "JPlayRegressor": jplay.JPlayRegressor(graph=jplay.HeatGraph(min(10, n_train - 1))),
    }


def errors(X, y, seed):
    """Root mean square error of each method, in standard deviations of the targets."""
    order = np.random.default_rng(seed).permutation(len(X))
    train, test = np.array_split(order, 2)
    spread = y.std(axis=0)
    found = {}
    for name, model in methods(len(train), X.shape[1]).items():
        predicted = model.fit(X[train], y[train]).predict(X[test])
        found[name] = np.sqrt(np.mean(((predicted - y[test]) / spread) ** 2))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=10)
    draws = parser.parse_args().draws
    print("| problem | PLS | ridge | JPlayRegressor | better than PLS | p |")
    print("|---|---|---|---|---|---|")
    for name, read in PROBLEMS.items():
        try:
            X, y = read()
        except LookupError as error:
            print(f"| {name} | {error} | | | | |")
            continue
        found = [errors(X, y, seed) for seed in range(draws)]
        table = {method: np.array([draw[method] for draw in found]) for method in found[0]}
        gain = table["PLS"] - table["JPlayRegressor"]
        cells = [f"{values.mean():.3f}" for values in table.values()]
        cells += [f"{(gain > 0).sum()} of {draws}", f"{wilcoxon(gain).pvalue:.3f}"]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
