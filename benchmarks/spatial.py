"""Space as well as spectrum on Indian Pines, on the customary split and on disjoint places.

    python benchmarks/spatial.py > benchmarks/results/spatial.md

Needs the data folder (JPLAY_DATA) with the fixed split, and scikit-image.
"""

import platform
import sys
import warnings

import numpy as np
import skimage
import sklearn
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import normalize

import jplay
from jplay import JPlay, SpatialJPlay
from jplay.datasets import SpatialBlockSplit, fetch_indian_pines, split_per_class

ONE_LAYER = {"n_layers": 1, "alpha": 10.0}
VARIANTS = {
    "SpatialJPlay": {},
    "SpatialJPlay, head='model'": {"head": "model"},
    "SpatialJPlay, no unlabelled pixels": {"n_unlabelled": 0},
    "SpatialJPlay, learned features not averaged": {"smooth_features": False},
    "SpatialJPlay, radius 3": {"radius": 3},
    "SpatialJPlay, window cut by 500 superpixels": {"n_segments": 500},
}


def label_map(scene, rows):
    labels = np.zeros(scene.ground_truth.size, dtype=int)
    labels[scene.pixel_indices[rows]] = scene.target[rows]
    return labels.reshape(scene.ground_truth.shape)


def spectral_rows(scene, train, test):
    X, y = normalize(scene.data, norm="max"), scene.target
    yield "raw spectra, 1-NN", KNeighborsClassifier(1).fit(X[train], y[train]).predict(X[test])
    model = JPlay(**ONE_LAYER).fit(X[train], y[train])
    rule = KNeighborsClassifier(1).fit(model.transform(X[train]), y[train])
    yield "JPlay, spectral, 1-NN", rule.predict(model.transform(X[test]))


def spatial_rows(scene, train, test, seed):
    for name, settings in VARIANTS.items():
        model = SpatialJPlay(JPlay(**ONE_LAYER), random_state=seed, **settings)
        class_map = model.fit_predict(scene.cube, label_map(scene, train))
        yield name, class_map.ravel()[scene.pixel_indices[test]]


def splits_of(scene):
    """Customary: the fixed one. Disjoint: blocks of 24 pixels, belts wider than the window."""
    yield "fixed", 0, scene.train_indices, scene.test_indices
    blocks = SpatialBlockSplit(
        scene.ground_truth, n_splits=2, block_size=24, buffer=6, random_state=0
    )
    for fold, (train, test) in enumerate(blocks.split()):
        y = scene.target[train]
        enough = np.isin(y, np.flatnonzero(np.bincount(y) > 15))
        train = train[enough]
        drawn, _ = split_per_class(scene.target[train], 50, small=15, random_state=0)
        yield "disjoint", fold, train[drawn], test


def main():
    warnings.simplefilter("ignore")
    scene = fetch_indian_pines(split="fixed")
    print("# Space as well as spectrum: Indian Pines, 200 bands\n")
    print(
        f"`python benchmarks/spatial.py {' '.join(sys.argv[1:])}`, jplay {jplay.__version__}, "
        f"scikit-learn {sklearn.__version__}, scikit-image {skimage.__version__}, numpy "
        f"{np.__version__}, Python {platform.python_version()}\n"
    )
    accuracy, known_accuracy = {}, {}
    for split, _, train, test in splits_of(scene):
        y = scene.target
        known = np.isin(y[test], y[train])
        for rows in (spectral_rows(scene, train, test), spatial_rows(scene, train, test, 0)):
            for name, found in rows:
                hit = found == y[test]
                accuracy.setdefault(name, {}).setdefault(split, []).append(hit.mean())
                known_accuracy.setdefault(name, {}).setdefault(split, []).append(hit[known].mean())
    print("| method | fixed split | disjoint places | disjoint, known classes |")
    print("|---|---|---|---|")
    for name, by_split in accuracy.items():
        known = known_accuracy[name]["disjoint"]
        print(
            f"| {name} | {100 * by_split['fixed'][0]:.2f} | "
            f"{100 * np.mean(by_split['disjoint']):.2f} | {100 * np.mean(known):.2f} |"
        )
    print(
        "\nOverall accuracy in %. Fixed split: 695 training and 9671 test pixels, which are near "
        "each other: what is averaged around a test pixel often holds training pixels. Disjoint "
        "places: two folds of blocks of 24 x 24 pixels, no training pixel within 6 of a test "
        "pixel, 50 training pixels per class (15 of small ones); the mean of both folds. Classes "
        "that lie in few places are absent from some training side, which all methods pay for "
        "alike; the fourth column leaves them out. Radius and width of the window are the "
        "defaults; these were set with the figures of the fixed split in view."
    )


if __name__ == "__main__":
    main()
