"""The paper's AR and Extended Yale-B rows with a 1-NN classifier (its Table 2).

Run ``JPLAY_DATA=... python benchmarks/method_rows.py [--splits 10] [--markdown FILE]``. AR has one
split (session 1 against session 2); Extended Yale-B draws ten images per subject,
``--splits`` times. Images are reduced by PCA to 98 % of their variance first, as for Fisherfaces
(LPP: to 300 components, since it keeps more than the 98 % leave); the PCA row itself uses the
published number of components. Raw pixels, no scaling.
"""

import argparse
import os
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.io
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

import jplay
from jplay import estimators

ENERGY = 0.98


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


def read_ar(folder):
    arrays = scipy.io.loadmat(folder / "ar" / "AR_DAT.mat")
    return Split(
        arrays["NewTrain_DAT"].T.astype(np.float64),
        arrays["trainlabels"].ravel(),
        arrays["NewTest_DAT"].T.astype(np.float64),
        arrays["testlabels"].ravel(),
    )


def read_yale(folder, seed, per_subject=10):
    arrays = scipy.io.loadmat(folder / "extended_yale_b" / "YaleB_32x32.mat")
    X, y = arrays["fea"].astype(np.float64), arrays["gnd"].ravel()
    rng = np.random.default_rng(seed)
    subjects = [rng.permutation(np.flatnonzero(y == label)) for label in np.unique(y)]
    train = np.concatenate([images[:per_subject] for images in subjects])
    test = np.concatenate([images[per_subject:] for images in subjects])
    return Split(X[train], y[train], X[test], y[test])


def fisherfaces(model, kept=ENERGY):
    return make_pipeline(PCA(kept, svd_solver="full"), model)


def make_rows():
    rows = [
        Row("raw pixels", lambda r, s: "passthrough", (1024, 2580), (45.77, 71.71)),
        Row("PCA", lambda r, s: PCA(r, svd_solver="full"), (120, 80), (41.05, 68.43)),
    ]
    if hasattr(estimators, "LPP"):
        rows.append(
            Row("LPP", lambda r, s: fisherfaces(jplay.LPP(r), 300), (170, 70), (70.75, 70.86))
        )
    return [
        *rows,
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
    parser.add_argument("--markdown", type=Path)
    options = parser.parse_args()
    folder = Path(os.environ["JPLAY_DATA"])
    yale = [read_yale(folder, seed) for seed in range(options.splits)]
    ar = [read_ar(folder)]
    lines = [
        "| method | d (Yale-B) | Yale-B | published | diff. | s "
        "| d (AR) | AR | published | diff. | s |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    print("\n".join(lines), flush=True)
    for row in make_rows():
        line = f"| {row.name} |"
        for splits, dimension, published in zip(
            (yale, ar), row.dimensions, row.published, strict=True
        ):
            scores, seconds = measure(row, splits, dimension)
            line += f" {dimension} | {cell(scores, published)} | {seconds.mean():.1f} |"
        print(line, flush=True)
        lines.append(line)
    if options.markdown:
        options.markdown.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
