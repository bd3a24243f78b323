"""Several labels per sample: the committee and linear J-Play beside customary classifiers.

    python benchmarks/multilabel.py [emotions yeast bibtex] > benchmarks/results/multilabel.md

Needs the data folder (JPLAY_DATA) with the data sets.
"""

import platform
import sys
import time
import warnings

import numpy as np
import sklearn
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, hamming_loss, label_ranking_loss
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import jplay
from jplay import JPlay, JPlayCommittee, MultiLabelJPlay
from jplay.datasets import IterativeStratifiedKFold, fetch_multilabel
from jplay.experiments._steps import MLkNNClassifier

METRICS = {"macro F1": "macro_f1", "micro F1": "micro_f1", "Hamming loss": 0.5, "ranking loss": 0.5}
"""Measures, and the thresholds that suit them."""
OURS = ("J-Play committee", "J-Play")


class MLkNN(MLkNNClassifier):
    """Multi-label k nearest neighbours; its scores are posterior probabilities."""

    predict_proba = MLkNNClassifier.decision_function

    def __sklearn_is_fitted__(self):
        return hasattr(self, "_posterior")


def measure(metric, Y, scores, thresholds):
    if metric == "ranking loss":
        return label_ranking_loss(Y, scores)
    found = (scores > thresholds).astype(int)
    if metric == "Hamming loss":
        return hamming_loss(Y, found)
    return f1_score(Y, found, average=metric.split()[0], zero_division=0)


def loss(metric, value):
    return -value if metric.endswith("F1") else value


def methods(name):
    """Settings of every method; more than one are compared on a fifth of the training samples."""
    if name == "bibtex":  # words that occur or not, few of them in a document
        before, costs = FunctionTransformer(csr_matrix, accept_sparse=True), (1.0,)
        logistic, leaves, neighbors = {"solver": "liblinear"}, (1,), (10,)
        n_trees = 60  # 300, with 159 outputs each, take 12 GB
    else:
        before, costs = StandardScaler(), (0.01, 0.1, 1.0)
        logistic, leaves, neighbors = {"max_iter": 500}, (1, 3), (10, 20)
        n_trees = 300
    return {
        "one-vs-rest logistic": [
            make_pipeline(clone(before), OneVsRestClassifier(LogisticRegression(C=C, **logistic)))
            for C in costs
        ],
        "random forest": [
            RandomForestClassifier(n_trees, min_samples_leaf=leaf, n_jobs=2, random_state=0)
            for leaf in leaves
        ],
        "ML-kNN": [make_pipeline(clone(before), MLkNN(k)) for k in neighbors],
        "J-Play": [JPlay()],
        "J-Play committee": [JPlayCommittee(n_jobs=2, random_state=0)],
    }


def evaluate(settings, X, Y, X_test, Y_test):
    """Test figures by metric: of the best setting for it, with thresholds chosen for it."""
    chosen = dict.fromkeys(METRICS, 0)
    if len(settings) > 1:
        fit, held = next(IterativeStratifiedKFold(5, random_state=0).split(X, Y))
        tried = [MultiLabelJPlay(setting).fit(X[fit], Y[fit]) for setting in settings]
        for metric in METRICS:
            losses = [loss_of(metric, model, X[held], Y[held]) for model in tried]
            chosen[metric] = int(np.argmin(losses))
    models = {at: MultiLabelJPlay(settings[at]).fit(X, Y) for at in set(chosen.values())}
    scores = {at: model.predict_proba(X_test) for at, model in models.items()}
    return {
        metric: measure(metric, Y_test, scores[at], thresholds(models[at], metric))
        for metric, at in chosen.items()
    }


def loss_of(metric, model, X, Y):
    return loss(metric, measure(metric, Y, model.predict_proba(X), thresholds(model, metric)))


def thresholds(model, metric):
    return model.choose_thresholds(METRICS[metric]).thresholds_


def main():
    warnings.simplefilter("ignore")
    names = sys.argv[1:] or ["emotions", "yeast"]
    print("# Multi-label data\n")
    print(
        f"`python benchmarks/multilabel.py {' '.join(names)}`, jplay {jplay.__version__}, "
        f"scikit-learn {sklearn.__version__}, numpy {np.__version__}, Python "
        f"{platform.python_version()}\n"
    )
    print(
        "Customary training and test samples. Thresholds are chosen alike for all methods, on "
        "probabilities of training samples that the classifier has not seen (five stratified "
        "folds; the committee has such probabilities after its fit): for macro F1 one per label, "
        "for micro F1 a common one. The Hamming loss has the threshold one half. J-Play and the "
        "committee have their defaults. The others have two or three settings (regularisation, "
        "samples in a leaf, neighbours), of which the best on a stratified fifth of the training "
        "samples is taken, for every measure separately; on bibtex they have one. Forests have 300 "
        "trees, on bibtex 60. Seconds are of "
        "everything: choice of settings, fits in folds, prediction.\n",
        flush=True,
    )
    table = {}
    print("| data | method | " + " | ".join(METRICS) + " | s |")
    print("|---" * (len(METRICS) + 3) + "|", flush=True)
    for name in names:
        data = fetch_multilabel(name)
        train, test = data.train_indices, data.test_indices
        for method, settings in methods(name).items():
            started = time.perf_counter()
            figures = evaluate(
                settings, data.data[train], data.target[train], data.data[test], data.target[test]
            )
            table[name, method] = figures
            cells = " | ".join(f"{value:.4f}" for value in figures.values())
            seconds = time.perf_counter() - started
            print(f"| {name} | {method} | {cells} | {seconds:.0f} |", flush=True)
    print_standing(table, names)


def print_standing(table, names):
    """Say in how many cells the committee is best or nearly so, and which method is elsewhere."""
    near, others = 0, []
    for name in names:
        for metric in METRICS:
            figures = {method: f[metric] for (data, method), f in table.items() if data == name}
            winner = min(figures, key=lambda method: loss(metric, figures[method]))
            if abs(figures[OURS[0]] / figures[winner] - 1) <= 0.01:
                near += 1
            else:
                others.append(f"{metric} of {name} ({winner})")
    n_cells = len(names) * len(METRICS)
    print(f"\nThe committee is best or within 1 % of it in {near} of {n_cells} cells.", end="")
    print(f" It is not in: {', '.join(others)}." if others else "")


if __name__ == "__main__":
    main()
