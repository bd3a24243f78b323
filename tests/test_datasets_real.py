"""Figures that are known of the real data sets; skipped where a file is absent."""

import subprocess
import sys

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import Normalizer, StandardScaler

from jplay.datasets import RepeatedPerClassSplit, fetch_multilabel
from jplay.exceptions import DatasetNotFoundError
from jplay.numerics.metrics import AccuracyReport


def nearest_neighbour(X, y, train, test):
    return KNeighborsClassifier(1).fit(X[train], y[train]).predict(X[test])


def test_indian_pines_fixed_split_gives_the_known_accuracy(indian_pines):
    scene = indian_pines
    train, test = scene.train_indices, scene.test_indices
    assert (train.size, test.size) == (695, 9671)
    X = Normalizer(norm="max").fit_transform(scene.data)
    predicted = nearest_neighbour(X, scene.target, train, test)
    report = AccuracyReport.from_labels(scene.target[test], predicted)
    assert round(100 * report.overall_accuracy, 2) == 60.95


def test_indian_pines_masks_agree_with_the_standard_ground_truth(indian_pines):
    masks, standard = indian_pines.ground_truth, indian_pines.standard_ground_truth
    both = (masks > 0) & (standard > 0)
    assert (masks[both] == standard[both]).all()
    assert np.count_nonzero((masks > 0) & ~both) == 256
    assert np.count_nonzero((standard > 0) & ~both) == 139
    assert np.bincount(indian_pines.target[indian_pines.train_indices])[[1, 7, 9, 16]].tolist() == [
        15, 15, 15, 50,
    ]  # fmt: skip


def test_ar_sessions_give_the_known_number_of_hits(ar_faces):
    train, test = ar_faces.train_indices, ar_faces.test_indices
    predicted = nearest_neighbour(ar_faces.data, ar_faces.target, train, test)
    assert np.count_nonzero(predicted == ar_faces.target[test]) == 502
    counts = np.bincount(ar_faces.target[test], minlength=101)[1:]
    assert np.flatnonzero(counts != 7).tolist() == [76]


def test_faces_are_upright(ar_faces, yale_faces):
    # A face is nearly symmetric left to right and not at all top to bottom.
    for faces in (ar_faces, yale_faces):
        mean = faces.images.mean(axis=0)
        left_right = np.abs(mean - mean[:, ::-1]).mean()
        top_bottom = np.abs(mean - mean[::-1]).mean()
        assert left_right < 0.6 * top_bottom


@pytest.mark.parametrize(("norm", "low", "high"), [(None, 0.43, 0.46), ("max", 0.445, 0.475)])
def test_yale_ten_per_subject_gives_the_known_accuracy(yale_faces, norm, low, high):
    X = yale_faces.data if norm is None else Normalizer(norm=norm).fit_transform(yale_faces.data)
    y = yale_faces.target
    cv = RepeatedPerClassSplit(10, n_repeats=5, random_state=0)
    scores = [np.mean(nearest_neighbour(X, y, a, b) == y[b]) for a, b in cv.split(X, y)]
    assert low < np.mean(scores) < high


def test_houston_has_its_labelled_pixels(houston):
    assert np.count_nonzero(houston.train_map) + np.count_nonzero(houston.test_map) > 2400
    assert set(houston.target[houston.train_indices]) == set(range(1, 16))
    assert houston.data.shape[1] == houston.wavelengths.size == 144
    X = Normalizer(norm="max").fit_transform(houston.data)
    train, test = houston.train_indices, houston.test_indices
    predicted = nearest_neighbour(X, houston.target, train, test)
    report = AccuracyReport.from_labels(houston.target[test], predicted)
    assert 0.65 < report.overall_accuracy < 0.85


@pytest.mark.parametrize(
    ("name", "scale", "hamming_loss"), [("yeast", False, 0.205), ("emotions", True, 0.208)]
)
def test_multilabel_gives_the_known_hamming_loss(data_home, name, scale, hamming_loss):
    try:
        bunch = fetch_multilabel(name, data_home=data_home)
    except DatasetNotFoundError as error:
        pytest.skip(f"real data: {error}")
    train, test = bunch.train_indices, bunch.test_indices
    X = StandardScaler().fit(bunch.data[train]).transform(bunch.data) if scale else bunch.data
    predicted = KNeighborsClassifier(10).fit(X[train], bunch.target[train]).predict(X[test])
    assert np.mean(predicted != bunch.target[test]) == pytest.approx(hamming_loss, abs=5e-4)


def test_bibtex_is_complete(data_home):
    try:
        bunch = fetch_multilabel("bibtex", data_home=data_home)
    except DatasetNotFoundError as error:
        pytest.skip(f"real data: {error}")
    assert bunch.data.shape == (7395, 1836)
    assert bunch.target.shape == (7395, 159)
    assert bunch.target.sum(axis=1).mean() == pytest.approx(2.402, abs=1e-3)


def test_datasets_are_reached_from_the_package_without_loading_them_first():
    code = (
        "import sys, jplay; assert 'numpy' not in sys.modules; "
        "jplay.datasets.load_digits; "
        "heavy = {'tensorly', 'h5py', 'tifffile', 'pooch', 'requests', 'matplotlib'}; "
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
