"""Multi-label data sets against one-vs-rest, chains, ridge and a random forest, tuned alike.

    python benchmarks/multilabel.py [emotions yeast bibtex] > benchmarks/results/multilabel.md

Needs the data folder (JPLAY_DATA) with the three data sets.
"""

import platform
import sys
import time
import warnings

import numpy as np
import sklearn
from sklearn.base import clone
from sklearn.decomposition import TruncatedSVD
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import f1_score, hamming_loss, label_ranking_loss
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import ClassifierChain
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, Normalizer, StandardScaler

import jplay
from jplay import JPlay, MultiLabelJPlay
from jplay.datasets import IterativeStratifiedKFold, fetch_multilabel
from jplay.numerics.thresholds import best_f1_threshold

METRICS = ("macro F1", "micro F1", "Hamming loss", "ranking loss")
THRESHOLDS = dict(zip(METRICS, ("macro_f1", "micro_f1", 0.5, 0.5), strict=True))
LINEAR = ("one-vs-rest logistic", "classifier chain", "ridge")


def measure(metric, Y, scores, thresholds):
    if metric == "ranking loss":
        return label_ranking_loss(Y, scores)
    found = (scores > thresholds).astype(int)
    if metric == "Hamming loss":
        return hamming_loss(Y, found)
    return f1_score(Y, found, average=metric.split()[0], zero_division=0)


def is_better(metric, a, b):
    return a > b if metric.endswith("F1") else a < b


def score_labels(model, X):
    """Scores (n_samples, n_labels), whatever the model calls them."""
    if hasattr(model, "predict_proba"):
        scores = model.predict_proba(X)
        if isinstance(scores, list):  # a forest: one array per label
            scores = np.stack(
                [p[:, 1] if p.shape[1] > 1 else np.zeros(len(p)) for p in scores], axis=1
            )
        return scores
    if hasattr(model, "decision_function"):
        return model.decision_function(X)
    return model.predict(X)


def grids(name):
    """Each method's settings to choose from; features prepared as suits the data."""
    if name == "bibtex":  # words that occur or not
        plain, own = (
            FunctionTransformer(),
            make_pipeline(Normalizer(), TruncatedSVD(300, random_state=0)),
        )
        costs, n_components, logistic = (0.3, 1, 3), 150, {"solver": "liblinear"}
        ridges = (30, 100, 300)
    else:
        plain, own = StandardScaler(), MinMaxScaler(clip=True)
        costs, n_components, logistic = (0.01, 0.1, 1), 40, {"max_iter": 500}
        ridges = (10, 100, 1000)

    def peer(model):
        return make_pipeline(clone(plain), model)

    def subspace(**settings):
        return make_pipeline(clone(own), MultiLabelJPlay(JPlay(n_components, 1, **settings)))

    own_settings = [subspace(), subspace(alpha=10.0, gamma=1.0), subspace(alpha=10.0, gamma=10.0)]
    if name == "bibtex":  # a fit takes minutes: no choice
        own_settings = own_settings[1:2]
    return {
        "one-vs-rest logistic": [
            peer(OneVsRestClassifier(LogisticRegression(C=C, **logistic))) for C in costs
        ],
        "classifier chain": [
            peer(ClassifierChain(LogisticRegression(C=C, **logistic), order=None)) for C in costs
        ],
        "ridge": [peer(Ridge(alpha=alpha)) for alpha in ridges],
        "random forest": [
            peer(RandomForestClassifier(100, min_samples_leaf=leaf, random_state=0))
            for leaf in (1, 3)
        ],
        "J-Play": own_settings,
    }


def own_thresholds(metric, model, scores, Y):
    """Thresholds for a metric: J-Play has its own, others get theirs from held-out scores."""
    if isinstance(model[-1], MultiLabelJPlay):
        return model[-1].choose_thresholds(THRESHOLDS[metric]).thresholds_
    if metric == "macro F1":
        return np.array([best_f1_threshold(s, t) for s, t in zip(scores.T, Y.T, strict=True)])
    if metric == "micro F1":
        return np.full(Y.shape[1], best_f1_threshold(scores.ravel(), Y.ravel()))
    return np.full(Y.shape[1], 0.5)


def evaluate(models, X, Y, X_test, Y_test):
    """Test figures by metric: thresholds of one half, and chosen ones."""
    if len(models) == 1 and isinstance(models[0][-1], MultiLabelJPlay):
        return evaluate_one(clone(models[0]).fit(X, Y), X_test, Y_test)
    fit, held = next(IterativeStratifiedKFold(5, random_state=0).split(X, Y))
    tried = [clone(model).fit(X[fit], Y[fit]) for model in models]
    held_scores = [score_labels(model, X[held]) for model in tried]
    refitted = {}
    figures = {}
    for tuned in (False, True):
        for metric in METRICS:
            best = None
            for at, (model, scores) in enumerate(zip(tried, held_scores, strict=True)):
                cut = own_thresholds(metric, model, scores, Y[held]) if tuned else 0.5
                value = measure(metric, Y[held], scores, cut)
                if best is None or is_better(metric, value, best[0]):
                    best = value, at, cut
            _, at, cut = best
            if at not in refitted:
                refitted[at] = clone(models[at]).fit(X, Y)
            model = refitted[at]
            if tuned and isinstance(model[-1], MultiLabelJPlay):
                cut = own_thresholds(metric, model, None, None)
            figures[tuned, metric] = measure(metric, Y_test, score_labels(model, X_test), cut)
    return figures


def evaluate_one(model, X_test, Y_test):
    """The same for a J-Play without choice of settings: its thresholds are its own."""
    scores = score_labels(model, X_test)
    figures = {}
    for metric in METRICS:
        figures[False, metric] = measure(metric, Y_test, scores, 0.5)
        cut = own_thresholds(metric, model, None, None)
        figures[True, metric] = measure(metric, Y_test, scores, cut)
    return figures


def main():
    warnings.simplefilter("ignore")
    names = sys.argv[1:] or ["emotions", "yeast", "bibtex"]
    print("# Multi-label data\n")
    print(
        f"`python benchmarks/multilabel.py {' '.join(names)}`, jplay {jplay.__version__}, "
        f"scikit-learn {sklearn.__version__}, numpy {np.__version__}, Python "
        f"{platform.python_version()}\n"
    )
    print(
        "Customary training and test samples. For every metric the setting of each method (two or "
        "three to choose from; J-Play on bibtex has one) is the best on a stratified fifth of the "
        "training samples, then fitted to all of them. 'Thresholds': for macro F1 one per label, "
        "for micro F1 a common one, chosen on held-out training scores; otherwise labels are "
        "predicted above one half.\n"
    )
    table = {}
    print("| data | method | thresholds | " + " | ".join(METRICS) + " | s |")
    print("|---" * (len(METRICS) + 4) + "|")
    for name in names:
        data = fetch_multilabel(name)
        train, test = data.train_indices, data.test_indices
        for method, models in grids(name).items():
            started = time.perf_counter()
            figures = evaluate(
                models, data.data[train], data.target[train], data.data[test], data.target[test]
            )
            seconds = time.perf_counter() - started
            for tuned in (False, True):
                table[name, method, tuned] = [figures[tuned, metric] for metric in METRICS]
                cells = " | ".join(f"{value:.4f}" for value in table[name, method, tuned])
                print(
                    f"| {name} | {method} | {'chosen' if tuned else 'one half'} | {cells} | "
                    f"{seconds:.0f} |",
                    flush=True,
                )
    print_counts(table, names)


def print_counts(table, names):
    n_cells = len(names) * len(METRICS)
    for tuned, words in ((False, "one half"), (True, "chosen as well")):
        linear = forest = 0
        for name in names:
            own = table[name, "J-Play", True]
            for at, metric in enumerate(METRICS):
                rivals = [table[name, peer, tuned][at] for peer in LINEAR]
                linear += not any(is_better(metric, rival, own[at]) for rival in rivals)
                trees = table[name, "random forest", tuned][at]
                ratio = own[at] / trees if metric.endswith("F1") else trees / own[at]
                forest += ratio >= 0.97
        print(
            f"\nPeers' thresholds {words}: J-Play is at least as good as every linear peer in "
            f"{linear} of {n_cells} cells, and within 3 % of the random forest or better in "
            f"{forest} of {n_cells}."
        )


if __name__ == "__main__":
    main()
