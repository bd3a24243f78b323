"""What unlabeled samples bring: Indian Pines by depth, and curves over labels per class.

    python benchmarks/semi_supervised.py > benchmarks/results/semi_supervised.md

Needs the data folder (JPLAY_DATA) with the fixed split of Indian Pines and Extended Yale-B.
"""

import argparse
import platform
import sys
import time
import warnings

import numpy as np
import sklearn
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import normalize
from sklearn.semi_supervised import LabelSpreading, SelfTrainingClassifier
from sklearn.svm import SVC

import jplay
from jplay import JPlay, SoftLabelPropagation
from jplay.datasets import (
    fetch_extended_yale_b,
    fetch_indian_pines,
    load_digits,
    split_per_class,
)

N_UNLABELLED = 2000


def nearest_neighbour(model, X_train, y_train, X_test, y_test):
    rule = KNeighborsClassifier(1).fit(model.transform(X_train), y_train)
    return rule.score(model.transform(X_test), y_test)


def indian_pines_by_depth(n_seeds):
    scene = fetch_indian_pines(split="fixed")
    pixels = normalize(scene.cube.reshape(-1, scene.cube.shape[2]), norm="max")
    X, y = normalize(scene.data, norm="max"), scene.target
    train, test = scene.train_indices, scene.test_indices
    sets = (X[train], y[train], X[test], y[test])
    print("## Indian Pines, fixed split (695 / 9671), 200 bands, spectral only\n")
    print(
        f"{N_UNLABELLED} unlabeled pixels chosen from the whole scene; default weights; 1-NN "
        f"overall accuracy in %, mean ± standard deviation over {n_seeds} seeds.\n"
    )
    print("| depth | supervised | semi-supervised | worst seed | seeds better | s (sup / semi) |")
    print("|---|---|---|---|---|---|")
    for depth in (1, 2, 3, 4):
        started = time.perf_counter()
        supervised = nearest_neighbour(JPlay(n_layers=depth).fit(X[train], y[train]), *sets)
        supervised_s = time.perf_counter() - started
        scores = []
        started = time.perf_counter()
        for seed in range(n_seeds):
            chosen = np.random.default_rng(seed).choice(len(pixels), N_UNLABELLED, replace=False)
            model = JPlay(n_layers=depth).fit(
                np.concatenate([X[train], pixels[chosen]]),
                np.concatenate([y[train], np.full(N_UNLABELLED, -1)]),
            )
            scores.append(nearest_neighbour(model, *sets))
        semi_s = (time.perf_counter() - started) / n_seeds
        scores = np.array(scores)
        print(
            f"| {depth} | {100 * supervised:.2f} | {100 * scores.mean():.2f} ± "
            f"{100 * scores.std(ddof=1):.2f} | {100 * scores.min():.2f} | "
            f"{(scores > supervised).sum()} of {n_seeds} | {supervised_s:.1f} / {semi_s:.1f} |",
            flush=True,
        )


def problems(names):
    """Name, samples, labels, settings of J-Play."""
    loaders = {"Indian Pines": _pines, "Extended Yale-B": _faces, "digits": _digits}
    return [(name, *loaders[name]()) for name in names]


def _pines():
    scene = fetch_indian_pines(split=None)
    # Labels for 20 per class would exhaust the two smallest classes.
    large = np.isin(scene.target, np.flatnonzero(np.bincount(scene.target) > 40))
    return normalize(scene.data, norm="max")[large], scene.target[large], {}


def _faces():
    faces = fetch_extended_yale_b()
    X = normalize(faces.data, norm="max")
    basis = np.linalg.svd(X, full_matrices=False)[2][:300]  # uncentred, of all samples
    return X @ basis.T, faces.target, {"n_components": 100}


def _digits():
    digits = load_digits()
    return normalize(digits.data, norm="max"), digits.target, {}


def methods(settings):
    # SVC's probabilities leave the decision alone; sigmoids fitted to few samples change it.
    svm = SVC(C=100, probability=True, random_state=0)
    lda = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")
    one = {"n_layers": 1, **settings}
    return {
        "J-Play supervised": JPlay(**one),
        "J-Play semi-supervised": JPlay(**one),
        "J-Play propagation 1": JPlay(unlabeled=SoftLabelPropagation(1.0), **one),
        "LabelSpreading": LabelSpreading(kernel="knn", n_neighbors=10),
        "SelfTraining(LDA)": SelfTrainingClassifier(lda, threshold=0.9, max_iter=5),
        "SelfTraining(SVM)": SelfTrainingClassifier(svm, threshold=0.9, max_iter=5),
    }


def curves(n_seeds, names, wanted):
    print("\n## Labels per class\n")
    print(
        "Accuracy in % of each method's `predict` on all samples without label (J-Play also "
        f"by 1-NN in its subspace, in brackets), mean ± standard deviation over {n_seeds} seeds; "
        f"the labelled samples and at most {N_UNLABELLED} others are seen in training. One "
        "layer, default weights; shrinkage LDA; RBF SVM with C = 100. Indian Pines without its "
        "two classes of 28 and 20 pixels.\n"
    )
    print("| data | method | 5 | 10 | 20 |\n|---|---|---|---|---|")
    for name, X, y, settings in problems(names):
        for method, model in methods(settings).items():
            if wanted and method not in wanted:
                continue
            cells = []
            for n_labels in (5, 10, 20):
                scores = [one_score(method, model, X, y, n_labels, seed) for seed in range(n_seeds)]
                mean, spread = 100 * np.mean(scores, axis=0), 100 * np.std(scores, axis=0, ddof=1)
                neighbour = f" [{mean[1]:.1f}]" if np.isfinite(mean[1]) else ""
                cells.append(f"{mean[0]:.1f} ± {spread[0]:.1f}{neighbour}")
            print(f"| {name} | {method} | {' | '.join(cells)} |", flush=True)


def one_score(method, model, X, y, n_labels, seed):
    labelled, hidden = split_per_class(y, n_labels, small=None, random_state=seed)
    if method == "J-Play supervised":
        model = model.fit(X[labelled], y[labelled])
    else:
        seen = np.random.default_rng(seed).permutation(hidden)[:N_UNLABELLED]
        partial = np.concatenate([y[labelled], np.full(len(seen), -1)])
        model = model.fit(np.concatenate([X[labelled], X[seen]]), partial)
    neighbour = np.nan
    if isinstance(model, JPlay):
        neighbour = nearest_neighbour(model, X[labelled], y[labelled], X[hidden], y[hidden])
    return model.score(X[hidden], y[hidden]), neighbour


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--curve-seeds", type=int, default=5)
    parser.add_argument("--data", nargs="*", default=["Indian Pines", "Extended Yale-B", "digits"])
    parser.add_argument("--methods", nargs="*", help="rows of the curves; all of them by default")
    parser.add_argument("--curves-only", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    warnings.simplefilter("ignore", UserWarning)
    warnings.simplefilter("ignore", FutureWarning)  # of SVC(probability=True)
    warnings.simplefilter("ignore", RuntimeWarning)  # label spreading of unreached samples
    print("# What unlabeled samples bring\n")
    print(
        f"`python benchmarks/semi_supervised.py {' '.join(sys.argv[1:])}`, jplay "
        f"{jplay.__version__}, scikit-learn {sklearn.__version__}, numpy {np.__version__}, "
        f"Python {platform.python_version()}\n"
    )
    if not options.curves_only:
        indian_pines_by_depth(options.seeds)
    curves(options.curve_seeds, options.data, options.methods)


if __name__ == "__main__":
    main()
