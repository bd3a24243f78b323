"""Shares of materials in mixed pixels: J-Play beside unmixing with known end members.

Run ``python benchmarks/unmixing.py [--draws 10]``. The data folder (``JPLAY_DATA``) holds Samson
and Jasper Ridge as ``mixed/Samson.mat``, ``mixed/EndSamson.mat`` and so on. Each draw has training
pixels with known shares; the error is that of all other pixels. Non-negative least squares, with
sums of one, is given the spectra of the pure materials as well. Those of Samson have lost their
size, each has a maximum of one: their sizes are taken from the training pixels. The published
shares of these scenes are themselves estimates.
"""

import argparse

import numpy as np
from scipy.optimize import nnls
from scipy.stats import wilcoxon
from sklearn.cross_decomposition import PLSRegression
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from jplay import JPlayRegressor
from jplay.datasets.readers import read_arrays
from jplay.datasets.registry import benchmark_file
from jplay.numerics.prox import project_simplex

SUM_WEIGHT = 1e3
"""Of the equation that shares sum to one, against those of the bands."""


def scene(name):
    paths = [benchmark_file(f"mixed/{prefix}{name}.mat") for prefix in ("End", "")]
    known, arrays = map(read_arrays, paths)
    # The unit in which the end members are given, if there is one.
    unit = float(arrays["maxValue"].item()) if "maxValue" in arrays else None
    spectra = arrays["Y"].T / (unit or 1.0)
    return spectra, known["A"].T.astype(np.float64), known["M"].astype(np.float64), unit is None


def sized(members, spectra, shares):
    """End members times the sizes that explain the training pixels best."""
    system = (shares.T @ shares) * (members.T @ members)
    return members * nnls(system, np.sum((spectra.T @ shares) * members, axis=0))[0]


def unmixed(spectra, members):
    """Shares by least squares with known end members, fully constrained."""
    size = members.max()
    system = np.vstack([members / size, SUM_WEIGHT * np.ones(members.shape[1])])
    ones = SUM_WEIGHT * np.ones((len(spectra), 1))
    return np.array([nnls(system, row)[0] for row in np.hstack([spectra / size, ones])])


def methods(n_train):
    ridge = make_pipeline(StandardScaler(), RidgeCV(np.geomspace(1e-6, 1e4, 41)))
    return {
        "ridge": (ridge, False),
        "ridge, nearest shares": (ridge, True),
        "PLS, nearest shares": (PLSRegression(min(10, n_train // 2)), True),
        "JPlayRegressor": (JPlayRegressor(), False),
        "JPlayRegressor(shares=True)": (JPlayRegressor(shares=True), False),
    }


def errors(spectra, shares, members, unsized, n_train, seed):
    """Root mean square error of the shares, in percent, by each method."""
    order = np.random.default_rng(seed).permutation(len(spectra))
    train, held = order[:n_train], order[n_train:]
    found = {}
    known = sized(members, spectra[train], shares[train]) if unsized else members
    found["known end members"] = _error(unmixed(spectra[held], known), shares[held])
    for name, (model, nearest) in methods(n_train).items():
        predicted = model.fit(spectra[train], shares[train]).predict(spectra[held])
        predicted = project_simplex(predicted) if nearest else predicted
        found[name] = _error(predicted, shares[held])
    return found


def _error(predicted, shares):
    return 100 * np.sqrt(np.mean((predicted - shares) ** 2))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=10)
    draws = parser.parse_args().draws
    print("| scene | pixels | method | error | better than ridge, nearest shares | p |")
    print("|---|---|---|---|---|---|")
    for name in ("Samson", "Jasper"):
        known = scene(name)
        for n_train in (20, 50, 200):
            found = [errors(*known, n_train, seed) for seed in range(draws)]
            table = {method: np.array([draw[method] for draw in found]) for method in found[0]}
            for method, values in table.items():
                gain = table["ridge, nearest shares"] - values
                cells = [f"{values.mean():.2f}", "", ""]
                if gain.any():
                    ahead = f"{(gain > 0).sum()} of {draws}"
                    cells[1:] = [ahead, f"{wilcoxon(gain).pvalue:.3f}"]
                print(f"| {name} | {n_train} | {method} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
