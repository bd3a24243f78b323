"""The paper's AR and Extended Yale-B rows with a 1-NN classifier (its Table 2).

Run ``JPLAY_DATA=... python benchmarks/method_rows.py [--splits 10] [--energy 0.98]``. AR has one
split (session 1 against session 2); Extended Yale-B is split at random, ten images per subject,
``--splits`` times. Images are reduced by PCA to a part of their variance first, as for Fisherfaces
(LPP: to 30 components more than it keeps); the PCA row itself uses the
published number of components. Raw pixels, no scaling.
"""

import argparse
import time
from dataclasses import dataclass

import numpy as np
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import jplay
from jplay.datasets import fetch_ar, fetch_extended_yale_b


@dataclass(frozen=True)
class Split:
    X_train: np.ndarray
    y_train: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


@dataclass(frozen=True)
class Row:
    """One method: how to make it and the published dimensions and accuracies (Yale-B, AR)."""

    name: str
    make: object
    dimensions: tuple
    published: tuple


def read_ar():
    faces = fetch_ar()
    X, y = faces.data.astype(np.float64), faces.target
    train, test = faces.train_indices, faces.test_indices
    return Split(X[train], y[train], X[test], y[test])


def read_yale(seed, per_subject=10):
    faces = fetch_extended_yale_b()
    X, y = faces.data.astype(np.float64), faces.target
    rng = np.random.default_rng(seed)
    subjects = [rng.permutation(np.flatnonzero(y == label)) for label in np.unique(y)]
    train = np.concatenate([images[:per_subject] for images in subjects])
    test = np.concatenate([images[per_subject:] for images in subjects])
    return Split(X[train], y[train], X[test], y[test])


def make_rows(energy):
    def fisherfaces(model, kept=energy):
        return make_pipeline(PCA(kept, svd_solver="full"), model)

    published = ((170, 70), (70.75, 70.86))
    return [
        Row("raw pixels", lambda r, s: "passthrough", (1024, 2580), (45.77, 71.71)),
        Row("PCA", lambda r, s: PCA(r, svd_solver="full"), (120, 80), (41.05, 68.43)),
        Row("LPP", lambda r, s: fisherfaces(jplay.LPP(r), r + 30), *published),
        Row(
            "LPP, unit variance",
            lambda r, s: make_pipeline(fisherfaces(jplay.LPP(r), r + 30), StandardScaler()),
            *published,
        ),
        Row("NPE", lambda r, s: fisherfaces(jplay.NPE(r)), (90, 70), (None, None)),
        Row(
            "LDA",
            lambda r, s: fisherfaces(LinearDiscriminantAnalysis()),
            (37, 99),
            (80.88, 81.43),
        ),
        Row(
            "LDA, shrinkage",
            lambda r, s: fisherfaces(LinearDiscriminantAnalysis(solver="eigen", shrinkage="auto")),
            (37, 99),
            (None, None),
        ),
        Row("LFDA, weighted", lambda r, s: fisherfaces(jplay.LFDA(r)), (37, 99), (81.02, 71.29)),
        Row(
            "LFDA, plain",
            lambda r, s: fisherfaces(jplay.LFDA(r, embedding="plain")),
            (37, 99),
            (81.02, 71.29),
        ),
        Row(
            "LFDA, orthonormalized",
            lambda r, s: fisherfaces(jplay.LFDA(r, embedding="orthonormalized")),
            (37, 99),
            (81.02, 71.29),
        ),
        Row(
            "LSDR",
            lambda r, s: fisherfaces(jplay.LSDR(r, random_state=s)),
            (60, 80),
            (71.29, 75.14),
        ),
        Row(
            "LSDR, PCA start, climbs of 5 steps",
            lambda r, s: fisherfaces(
                jplay.LSDR(r, init="pca", n_restarts=0, max_iter=5, random_state=s)
            ),
            (60, 80),
            (71.29, 75.14),
        ),
        Row(
            "LSDR, random starts only",
            lambda r, s: fisherfaces(jplay.LSDR(r, init="random", random_state=s)),
            (60, 80),
            (71.29, 75.14),
        ),
        Row(
            "LSQMID",
            lambda r, s: fisherfaces(jplay.LSQMID(r, random_state=s)),
            (60, 80),
            (71.48, 73.29),
        ),
        Row(
            "LSQMID, PCA start, climbs of 5 steps",
            lambda r, s: fisherfaces(
                jplay.LSQMID(r, init="pca", n_restarts=0, max_iter=5, random_state=s)
            ),
            (60, 80),
            (71.48, 73.29),
        ),
        Row(
            "LSQMID, random starts only",
            lambda r, s: fisherfaces(jplay.LSQMID(r, init="random", random_state=s)),
            (60, 80),
            (71.48, 73.29),
        ),
    ]


def accuracy_and_seconds(model, split):
    start = time.perf_counter()
    if model == "passthrough":
        train, test = split.X_train, split.X_test
    else:
        train = model.fit(split.X_train, split.y_train).transform(split.X_train)
        test = model.transform(split.X_test)
    seconds = time.perf_counter() - start
    score = KNeighborsClassifier(1).fit(train, split.y_train).score(test, split.y_test)
    return 100 * score, seconds


def measure(row, splits, dimension):
    results = [accuracy_and_seconds(row.make(dimension, i), s) for i, s in enumerate(splits)]
    return np.array(results).T


class AccuracyAlongClimb:
    """Callback that classifies the test images after every step of the search."""

    def __init__(self, split):
        self.split = split
        self.accuracies = []

    def setup(self, estimator, context):
        pass

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context, *, fitted_estimator):
        train = fitted_estimator.transform(self.split.X_train)
        test = fitted_estimator.transform(self.split.X_test)
        classifier = KNeighborsClassifier(1).fit(train, self.split.y_train)
        self.accuracies.append(100 * classifier.score(test, self.split.y_test))


def trace_climbs(split, energy):
    """Where the climb from the principal axes passes the published figures on Yale-B."""
    pca = PCA(energy, svd_solver="full").fit(split.X_train)
    reduced = Split(
        pca.transform(split.X_train), split.y_train, pca.transform(split.X_test), split.y_test
    )
    for model, published in ((jplay.LSDR, 71.29), (jplay.LSQMID, 71.48)):
        trace = AccuracyAlongClimb(reduced)
        search = model(60, init="pca", n_restarts=0, random_state=0).set_callbacks(trace)
        search.fit(reduced.X_train, reduced.y_train)
        reached = next(i for i, value in enumerate(trace.accuracies) if value >= published)
        shown = ", ".join(f"{value:.1f}" for value in trace.accuracies[:60:10])
        print(
            f"{model.__name__}: every tenth step {shown}; {published} passed at step {reached + 1} "
            f"of {search.n_iter_}, end {trace.accuracies[-1]:.1f}",
            flush=True,
        )


def cell(scores, published):
    text = f"{scores.mean():.2f}"
    if len(scores) > 1:
        text += f" ± {scores.std(ddof=1):.2f}"
    if published is None:
        return f"{text} | |"
    return f"{text} | {published:.2f} | {scores.mean() - published:+.2f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--energy", type=float, default=0.98, help="variance kept by PCA")
    parser.add_argument("--trace", action="store_true", help="accuracy along the climb")
    options = parser.parse_args()
    yale = [read_yale(seed) for seed in range(options.splits)]
    ar = [read_ar()]
    columns = ["method", "d (Yale-B)", "Yale-B", "published", "diff.", "s"]
    columns += ["d (AR)", "AR", "published", "diff.", "s"]
    print("| " + " | ".join(columns) + " |\n" + "|---" * len(columns) + "|", flush=True)
    for row in make_rows(options.energy):
        line = f"| {row.name} |"
        for splits, dimension, published in zip(
            (yale, ar), row.dimensions, row.published, strict=True
        ):
            try:
                scores, seconds = measure(row, splits, dimension)
            except ValueError:
                # PCA kept fewer dimensions than the row asks for.
                line += f" {dimension} | | | | |"
                continue
            line += f" {dimension} | {cell(scores, published)} | {seconds.mean():.1f} |"
        print(line, flush=True)
    if options.trace:
        trace_climbs(yale[0], options.energy)


if __name__ == "__main__":
    main()
