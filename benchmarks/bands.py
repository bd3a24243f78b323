"""Few bands of two scenes, chosen by J-Play and by five rivals.

Run ``python benchmarks/bands.py [--draws 10] [--records bands.jsonl]``. Every draw trains on 50
pixels per class (15 of a class with fewer than 90) and tests on all others. Each method chooses 5,
10 and 20 bands of the standardised training pixels; shrinkage LDA and an RBF SVM, whose C and gamma
three folds choose, are then fitted to the chosen bands. What the file of records holds is not
computed again. Needs the data of Houston (docs/datasets.md); an absent scene is left out and named.
"""

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np
from scipy.stats import wilcoxon
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_selection import (
    RFE,
    SequentialFeatureSelector,
    f_classif,
    mutual_info_classif,
)
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import SVC, LinearSVC

from jplay import JPlayBandSelector
from jplay.datasets import fetch_houston2013, fetch_indian_pines

COUNTS = (5, 10, 20)
SCENES = {"Indian Pines": fetch_indian_pines, "Houston": fetch_houston2013}


def best_first(scores):
    order = np.argsort(-scores, kind="stable")
    return {k: order[:k] for k in COUNTS}


def f_test(X, y):
    return best_first(f_classif(X, y)[0])


def mutual_information(X, y):
    return best_first(mutual_info_classif(X, y, random_state=0))


def recursive_elimination(X, y):
    model = RFE(LinearSVC(dual=False, tol=1e-2), n_features_to_select=max(COUNTS), step=5)
    kept = np.flatnonzero(model.fit(X, y).support_)
    found = {max(COUNTS): kept}
    for k in sorted(COUNTS, reverse=True)[1:]:
        rest = RFE(LinearSVC(dual=False, tol=1e-2), n_features_to_select=k).fit(X[:, kept], y)
        kept = kept[rest.support_]
        found[k] = kept
    return found


def l1_logistic(X, y):
    """The bands with the largest coefficients at the first strength that keeps enough of them."""
    found = {}
    for C in np.geomspace(1e-3, 1, 16):
        model = LogisticRegression(l1_ratio=1, C=C, solver="liblinear")
        model = OneVsRestClassifier(model).fit(X, y)
        size = np.linalg.norm(np.vstack([one.coef_ for one in model.estimators_]), axis=0)
        for k in COUNTS:
            if k not in found and np.count_nonzero(size) >= k:
                found[k] = best_first(size)[k]
        if len(found) == len(COUNTS):
            break
    return found


def sequential_lda(X, y, n_folds=3):
    """What SequentialFeatureSelector(LDA(solver="lsqr", shrinkage="auto"), cv=3) chooses.

    It would take minutes. The covariances of all candidates follow from moments of the classes,
    which are computed once per fold. ``--check`` compares the choice with scikit-learn's.
    """
    folds = [
        _Fold(X[train], y[train], X[test], y[test])
        for train, test in StratifiedKFold(n_folds).split(X, y)
    ]
    chosen = []
    while len(chosen) < max(COUNTS):
        scores = np.mean([fold.accuracies(chosen) for fold in folds], axis=0)
        scores[chosen] = -1
        chosen.append(int(np.argmax(scores)))
    return {k: np.array(chosen[:k]) for k in COUNTS}


class _Fold:
    """Shrinkage LDA on a set of bands and one more, for every other band at once."""

    def __init__(self, X, y, X_test, y_test):
        self.labels = np.unique(y)
        self.priors = np.array([np.mean(y == label) for label in self.labels])
        self.means = np.array([X[y == label].mean(axis=0) for label in self.labels])
        self.X_test, self.y_test = X_test, y_test
        self.correlations, self.squares, self.scales, self.sizes = [], [], [], []
        for label, mean in zip(self.labels, self.means, strict=True):
            rows = X[y == label] - mean
            scale = rows.std(axis=0)
            scale[scale == 0] = 1
            rows = rows / scale
            self.scales.append(scale)
            self.sizes.append(len(rows))
            self.correlations.append(rows.T @ rows / len(rows))
            self.squares.append((rows**2).T @ rows**2)

    def covariance(self, sets):
        """Pooled covariances (n_sets, k, k) with the shrinkage of Ledoit and Wolf by class."""
        rows, columns = sets[:, :, None], sets[:, None, :]
        k = sets.shape[1]
        pooled = 0.0
        for prior, R, squares, scale, n in zip(
            self.priors, self.correlations, self.squares, self.scales, self.sizes, strict=True
        ):
            part = R[rows, columns]
            size = np.einsum("sij,sij->s", part, part)
            mu = np.einsum("sii->s", part) / k
            beta = (squares[rows, columns].sum(axis=(1, 2)) / n - size) / (k * n)
            delta = (size - mu**2 * k) / k
            beta = np.minimum(beta, delta)
            shrinkage = np.where(beta == 0, 0, beta / np.where(delta > 0, delta, 1))[:, None, None]
            shrunk = (1 - shrinkage) * part + shrinkage * mu[:, None, None] * np.eye(k)
            pooled = pooled + prior * shrunk * scale[rows] * scale[columns]
        return pooled

    def accuracies(self, chosen):
        candidates = np.arange(self.X_test.shape[1])
        sets = np.column_stack([np.tile(chosen, (len(candidates), 1)).astype(int), candidates])
        means = np.moveaxis(self.means[:, sets], 1, 0)  # (n_sets, n_classes, k)
        covariance = self.covariance(sets)
        covariance[chosen] = np.eye(sets.shape[1])
        coef = np.linalg.solve(covariance, np.swapaxes(means, 1, 2))
        intercept = np.log(self.priors) - 0.5 * np.einsum("sck,skc->sc", means, coef)
        scores = np.moveaxis(self.X_test[:, sets], 1, 0) @ coef + intercept[:, None, :]
        return np.mean(self.labels[scores.argmax(axis=2)] == self.y_test, axis=1)


def jplay_bands(X, y):
    return {k: JPlayBandSelector(k).fit(X, y).get_support(indices=True) for k in COUNTS}


def jplay_path(X, y):
    """What the penalty on columns proposes, without replacements."""
    order = JPlayBandSelector(min(COUNTS), refine=False).fit(X, y).path_.order
    return {k: order[:k] for k in COUNTS}


OWN = "J-Play"
METHODS = {
    "F test": f_test,
    "mutual information": mutual_information,
    "RFE, linear SVM": recursive_elimination,
    "l1 logistic": l1_logistic,
    "sequential, LDA": sequential_lda,
    "J-Play, path alone": jplay_path,
    OWN: jplay_bands,
}


def heads(X, y, X_test, y_test):
    """Accuracy in percent of both classifiers."""
    linear = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto").fit(X, y)
    grid = {"C": [1, 10, 100, 1000], "gamma": [0.01, 0.03, 0.1, 0.3]}
    support = GridSearchCV(SVC(), grid, cv=3).fit(X, y)
    return {
        "LDA": 100 * linear.score(X_test, y_test),
        "SVM": 100 * support.score(X_test, y_test),
    }


def draw(scene, seed):
    """Standardised training and test pixels, and their classes."""
    data = SCENES[scene](split="random", random_state=seed)
    train, test = data.train_indices, data.test_indices
    X = data.data[train]
    mean, scale = X.mean(axis=0), X.std(axis=0)
    X_test = (data.data[test] - mean) / scale
    return (X - mean) / scale, data.target[train], X_test, data.target[test]


def run(scenes, draws, path):
    records = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    known = {(r["scene"], r["draw"], r["method"]) for r in records}
    for seed in range(draws):
        for scene in scenes:
            wanted = [name for name in METHODS if (scene, seed, name) not in known]
            if not wanted:
                continue
            X, y, X_test, y_test = draw(scene, seed)
            for name in wanted:
                start = time.process_time()
                found = METHODS[name](X, y)
                seconds = time.process_time() - start
                scores = {k: heads(X[:, f], y, X_test[:, f], y_test) for k, f in found.items()}
                record = {
                    "scene": scene,
                    "draw": seed,
                    "method": name,
                    "seconds": round(seconds, 2),
                    "bands": {str(k): sorted(map(int, f)) for k, f in found.items()},
                    "scores": {str(k): score for k, score in scores.items()},
                }
                records.append(record)
                with path.open("a") as file:
                    file.write(json.dumps(record) + "\n")
    return records


def check_sequential():
    """Compare the sequential choice with scikit-learn's on every sixth band."""
    X, y, _, _ = draw("Indian Pines", 0)
    X = X[:, ::6]
    model = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")
    slow = SequentialFeatureSelector(model, n_features_to_select=5, cv=3).fit(X, y)
    same = np.array_equal(np.sort(sequential_lda(X, y)[5]), slow.get_support(indices=True))
    print("The same bands as scikit-learn." if same else "Other bands than scikit-learn.")


def _row(scores):
    """Accuracies of both heads and their mean for every number of bands."""
    pairs = [[scores[str(k)][head] for head in ("LDA", "SVM")] for k in COUNTS]
    return [value for pair in pairs for value in (*pair, np.mean(pair))]


def print_tables(records, draws):
    """One table per scene: accuracies, then the difference from the best rival and its p value."""
    columns = [(k, head) for k in COUNTS for head in ("LDA", "SVM", "mean")]
    names = " | ".join(f"{k} bands, {head}" for k, head in columns)
    for scene in dict.fromkeys(record["scene"] for record in records):
        print(f"\n{scene}\n\n| method | {names} | seconds |")
        print("|---" * (len(columns) + 2) + "|")
        scores, seconds = {}, {}
        for name in METHODS:
            own = [r for r in records if r["scene"] == scene and r["method"] == name]
            own = sorted((r for r in own if r["draw"] < draws), key=lambda r: r["draw"])
            if len(own) < draws:
                continue
            scores[name] = np.array([_row(record["scores"]) for record in own])
            seconds[name] = np.mean([r["seconds"] for r in own])
            cells = " | ".join(f"{value:.1f}" for value in scores[name].mean(axis=0))
            print(f"| {name} | {cells} | {seconds[name]:.1f} |")
        rivals = [name for name in scores if not name.startswith(OWN)]
        if OWN not in scores or not rivals:
            continue
        cells = []
        for number in range(len(columns)):
            best = max(rivals, key=lambda name: scores[name][:, number].mean())
            gain = scores[OWN][:, number] - scores[best][:, number]
            p = wilcoxon(gain).pvalue if gain.any() else 1.0
            cells.append(f"{gain.mean():+.1f} (p {p:.3f})")
        print(f"| J-Play less the best rival | {' | '.join(cells)} | |")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--records", type=Path, default=Path("bands.jsonl"))
    parser.add_argument("--check", action="store_true", help="compare with scikit-learn and end")
    given = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    if given.check:
        check_sequential()
        return
    present = []
    for scene in SCENES:
        try:
            draw(scene, 0)
            present.append(scene)
        except (FileNotFoundError, ImportError) as error:
            print(f"{scene} is left out: {error}")
    print_tables(run(present, given.draws, given.records), given.draws)


if __name__ == "__main__":
    main()
