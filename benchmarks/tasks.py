"""Several tasks on one chain beside separate models.

Run ``python benchmarks/tasks.py [--draws 10] [--problem school]``. The data folder (``JPLAY_DATA``)
holds ``multitask/school.mat`` (exam scores of the pupils of 139 schools, a regression per school)
and Indian Pines.

- School: three quarters of every school's pupils are for training. Separate models see one school.
  The pooled ridge regression sees all and does not know the school; the one with offsets adds the
  mean residual of each school, shrunk as if there were five more pupils without any.
  ``MultiTaskLasso`` is no rival: it wants every target of every sample, and a pupil has one school.
- Pines, fine: five pixels of each of the 16 classes, and 800 pixels whose group alone is known
  (maize, soya, grass, woods, wheat, stone). The product of two shrinkage LDAs is told which class
  belongs to which group; the others are not.
- Pines, tillage: ten pixels of every tillage of maize and soya, and 800 pixels whose crop is known.
"""

import argparse
import warnings

import numpy as np
from scipy.io import loadmat
from scipy.stats import wilcoxon
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, normalize

from jplay import HeatGraph, JPlay, JPlayRegressor, MultiTaskJPlay
from jplay.datasets import fetch_indian_pines
from jplay.datasets.registry import benchmark_file

RIDGES = np.geomspace(1e-2, 1e4, 25)
GROUPS = {
    "Corn": "maize",
    "Soybean": "soya",
    "Grass": "grass",
    "Hay": "grass",
    "Alfalfa": "grass",
    "Woods": "woods",
    "Buildings": "woods",
    "Wheat": "wheat",
    "Oats": "wheat",
    "Stone": "stone",
}
TILLAGE = {"notill": "none", "mintill": "little", "clean": "clean", "Corn": "clean"}


def school(seed):
    """Share of the variance of held-out scores that each method explains, in percent."""
    arrays = loadmat(benchmark_file("multitask/school.mat"))
    pupils = [samples.astype(np.float64) for samples in arrays["X"].ravel()]
    scores = [targets.astype(np.float64).ravel() for targets in arrays["Y"].ravel()]
    X, y = np.concatenate(pupils), np.concatenate(scores)
    owner = np.repeat(np.arange(len(scores)), [len(targets) for targets in scores])
    rng = np.random.default_rng(seed)
    train = np.zeros(len(y), dtype=bool)
    for number in range(len(scores)):
        own = rng.permutation(np.flatnonzero(owner == number))
        train[own[: int(0.75 * len(own))]] = True
    held = ~train

    def explained(predicted):
        rest = np.sum((predicted - y)[held] ** 2)
        return 100 * (1 - rest / np.sum((y[held] - y[held].mean()) ** 2))

    def separate(made):
        predicted = np.zeros(len(y))
        for number in range(len(scores)):
            own = owner == number
            model = made(int((own & train).sum())).fit(X[own & train], y[own & train])
            predicted[own] = model.predict(X[own])
        return explained(predicted)

    def shared(**settings):
        targets = np.where(owner[:, None] == np.arange(len(scores)), y[:, None], np.nan)
        model = MultiTaskJPlay(tasks="regression", **settings).fit(X[train], targets[train])
        return explained(model.predict(X)[np.arange(len(y)), owner])

    pooled = make_pipeline(StandardScaler(), RidgeCV(RIDGES)).fit(X[train], y[train]).predict(X)
    residual = np.bincount(owner[train], (y - pooled)[train])
    offsets = residual / (np.bincount(owner[train]) + 5)
    return {
        "separate ridge": separate(lambda n: make_pipeline(StandardScaler(), RidgeCV(RIDGES))),
        "separate JPlayRegressor": separate(
            lambda n: JPlayRegressor(graph=HeatGraph(min(10, n - 1)))
        ),
        "pooled ridge": explained(pooled),
        "pooled ridge with offsets": explained(pooled + offsets[owner]),
        "MultiTaskJPlay, 20 components, not linked": shared(n_components=20, linked=False),
        "MultiTaskJPlay": shared(),
        "MultiTaskJPlay, 20 components": shared(n_components=20),
    }


def pines():
    scene = fetch_indian_pines(split="fixed")
    names = np.asarray(scene.target_names)[scene.target - 1]
    return normalize(scene.data.astype(np.float64), norm="max"), names


def lda():
    return LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")


def few_and_many(few, many, n_few, seed):
    """Training pixels, those with a fine label first, and the rest."""
    rng = np.random.default_rng(seed)
    labelled = np.concatenate(
        [rng.choice(np.flatnonzero(few == label), n_few, False) for label in np.unique(few)]
    )
    others = rng.choice(np.setdiff1d(np.arange(len(few)), labelled), 800, False)
    train = np.concatenate([labelled, others])
    return labelled, train, np.setdiff1d(np.arange(len(few)), train)


def few_labels(X, few, many, n_few, seed):
    """Accuracy on the task with few labels, in percent."""
    labelled, train, held = few_and_many(few, many, n_few, seed)
    hidden = np.where(np.arange(len(train)) < len(labelled), few[train], None)
    classes = np.unique(few)
    codes = np.searchsorted(classes, few)
    unlabeled = np.where(np.arange(len(train)) < len(labelled), codes[train], -1)

    def shared(**settings):
        model = MultiTaskJPlay(**settings).fit(X[train], {"few": hidden, "many": many[train]})
        return 100 * np.mean(model.predict(X[held])["few"] == few[held])

    alone = lda().fit(X[labelled], few[labelled])
    return {
        "separate shrinkage LDA": 100 * alone.score(X[held], few[held]),
        "separate JPlay": 100 * JPlay().fit(X[labelled], few[labelled]).score(X[held], few[held]),
        "separate JPlay, all pixels": 100
        * JPlay().fit(X[train], unlabeled).score(X[held], codes[held]),
        "product of two LDAs": 100
        * np.mean(
            product(alone, lda().fit(X[train], many[train]), few, many, X[held]) == few[held]
        ),
        "MultiTaskJPlay, not linked": shared(linked=False),
        "MultiTaskJPlay": shared(),
        "MultiTaskJPlay, 20 components": shared(n_components=20),
    }


def product(alone, groups, few, many, X):
    """Classes by the probability of their group times that within the group."""
    inside, outside = alone.predict_proba(X), groups.predict_proba(X)
    belongs = np.array(
        [[np.any((few == a) & (many == b)) for b in groups.classes_] for a in alone.classes_]
    )
    within = inside[:, :, None] * belongs
    within = within / (within.sum(axis=1, keepdims=True) + 1e-300)
    return alone.classes_[(within * outside[:, None, :]).sum(axis=2).argmax(axis=1)]


def fine(seed):
    X, names = pines()
    group = np.array([next(GROUPS[k] for k in GROUPS if name.startswith(k)) for name in names])
    return few_labels(X, names, group, 5, seed)


def tillage(seed):
    X, names = pines()
    crops = np.array([name.split("-")[0] in ("Corn", "Soybean") for name in names])
    X, names = X[crops], names[crops]
    tilled = np.array([TILLAGE[name.split("-")[-1]] for name in names])
    return few_labels(X, tilled, np.array([name.split("-")[0] for name in names]), 10, seed)


PROBLEMS = {"school": school, "fine": fine, "tillage": tillage}


def report(name, found):
    draws = len(found)
    table = {method: np.array([draw[method] for draw in found]) for method in found[0]}
    rival = max((m for m in table if m.startswith("separate")), key=lambda m: table[m].mean())
    print(f"\n{name}, {draws} draws; compared with {rival}\n")
    print("| method | mean | standard deviation | ahead | p |")
    print("|---|---|---|---|---|")
    for method, values in table.items():
        gain = values - table[rival]
        cells = [f"{values.mean():.1f}", f"{values.std(ddof=1):.1f}" if draws > 1 else ""]
        if method == rival:
            cells += ["", ""]
        else:
            p = wilcoxon(gain).pvalue if gain.any() else 1.0
            cells += [f"{(gain > 0).sum()} of {draws}", f"{p:.3f}"]
        print(f"| {method} | {' | '.join(cells)} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--problem", choices=PROBLEMS, action="append")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    for name in arguments.problem or PROBLEMS:
        report(name, [PROBLEMS[name](seed) for seed in range(arguments.draws)])


if __name__ == "__main__":
    main()
