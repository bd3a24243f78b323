"""Accuracy and speed of the canonical correlation forest beside a random forest.

Prints Markdown tables. The data sets that scikit-learn does not bundle are read from the folder
named by the environment variable JPLAY_DATA (default: the user's cache); a section whose files
are absent says so and is left out.

    python benchmarks/forest_accuracy.py [--only bundled ar yale scene] [--jobs 2]
"""

import argparse
from time import perf_counter

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import RepeatedStratifiedKFold, cross_val_score

from jplay.baselines import CanonicalCorrelationForestClassifier
from jplay.datasets import fetch_ar, fetch_extended_yale_b, fetch_indian_pines

BUNDLED = {
    "iris": load_iris,
    "wine": load_wine,
    "breast_cancer": load_breast_cancer,
    "digits": load_digits,
}


def forests(jobs, seed=0):
    return {
        "canonical correlation forest": CanonicalCorrelationForestClassifier(
            300, n_jobs=jobs, random_state=seed
        ),
        "random forest": RandomForestClassifier(300, n_jobs=jobs, random_state=seed),
    }


def print_table(header, rows):
    print("| " + " | ".join(header) + " |")
    print("|" + "---|" * len(header))
    for row in rows:
        print("| " + " | ".join(row) + " |", flush=True)
    print()


def percent(scores):
    return f"{100 * np.mean(scores):.2f} ± {100 * np.std(scores):.2f}"


def bundled(jobs, n_repeats=2):
    means = []
    rows = []
    for name, load in BUNDLED.items():
        X, y = load(return_X_y=True)
        folds = RepeatedStratifiedKFold(n_splits=5, n_repeats=n_repeats, random_state=0)
        scores = [cross_val_score(f, X, y, cv=folds) for f in forests(jobs).values()]
        means.append([score.mean() for score in scores])
        rows.append([name, *map(percent, scores)])
    rows.append(["mean", *(f"{100 * mean:.2f}" for mean in np.mean(means, axis=0))])
    print(f"Accuracy in %, 5-fold cross-validation repeated {n_repeats} times, 300 trees\n")
    print_table(["data set", *forests(jobs)], rows)


def ar(jobs, n_seeds=5):
    faces = fetch_ar()
    X, y = faces.data.astype(float), faces.target
    X_train, y_train = X[faces.train_indices], y[faces.train_indices]
    X_test, y_test = X[faces.test_indices], y[faces.test_indices]
    scores = np.array(
        [
            [f.fit(X_train, y_train).score(X_test, y_test) for f in forests(jobs, seed).values()]
            for seed in range(n_seeds)
        ]
    )
    print(f"AR faces, raw pixels, fixed split, {n_seeds} seeds; paper: 80.29 %\n")
    print_table(list(forests(jobs)), [[percent(column) for column in scores.T]])


def yale(jobs, n_splits=10, n_per_subject=10):
    faces = fetch_extended_yale_b()
    X, y = faces.data.astype(float), faces.target
    scores = []
    for seed in range(n_splits):
        rng = np.random.default_rng(seed)
        train = np.concatenate(
            [
                rng.choice(np.flatnonzero(y == subject), n_per_subject, replace=False)
                for subject in np.unique(y)
            ]
        )
        test = np.setdiff1d(np.arange(len(y)), train)
        scores.append(
            [
                f.fit(X[train], y[train]).score(X[test], y[test])
                for f in forests(jobs, seed).values()
            ]
        )
    print(f"Extended Yale-B, raw pixels, {n_splits} splits of 10 per subject; paper: 76.99 %\n")
    print_table(list(forests(jobs)), [[percent(column) for column in np.transpose(scores)]])


def scene(jobs):
    bunch = fetch_indian_pines(split="fixed")
    X, y = bunch.data.astype(float), bunch.target
    train, test = bunch.train_indices, bunch.test_indices
    pixels = bunch.cube.reshape(-1, bunch.cube.shape[2]).astype(float)
    rows = []
    for name, forest in forests(jobs).items():
        start = perf_counter()
        forest.fit(X[train], y[train])
        grown = perf_counter()
        forest.predict(pixels)
        done = perf_counter()
        accuracy = 100 * forest.score(X[test], y[test])
        rows.append([name, f"{grown - start:.1f}", f"{done - grown:.1f}", f"{accuracy:.2f}"])
    print(
        f"Indian Pines, {len(train)} training pixels, 200 bands, 16 classes, "
        f"300 trees, n_jobs={jobs}\n"
    )
    print_table(["forest", "fit, s", f"classify {len(pixels)} pixels, s", "accuracy, %"], rows)


SECTIONS = {"bundled": bundled, "ar": ar, "yale": yale, "scene": scene}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=list(SECTIONS))
    parser.add_argument("--jobs", type=int, default=None)
    arguments = parser.parse_args()
    for name in arguments.only:
        try:
            SECTIONS[name](arguments.jobs)
        except FileNotFoundError as error:
            print(f"Section '{name}' left out: {error}. Set JPLAY_DATA to the data folder.\n")


if __name__ == "__main__":
    main()
