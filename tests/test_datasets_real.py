"""Figures that are known of the real data sets; skipped where a file is absent."""

import subprocess
import sys

import numpy as np
import pytest

from jplay.datasets import DATASETS, fetch_multilabel
from jplay.datasets.readers import read_arrays
from jplay.datasets.registry import BENCHMARK_FILES, benchmark_file
from jplay.exceptions import DatasetNotFoundError

BASELINES = [
    pytest.param(entry, baseline, id=f"{name}-{baseline.expected}")
    for name, entry in DATASETS.items()
    for baseline in entry.baselines
    if entry.folder
]


@pytest.mark.parametrize(("entry", "baseline"), BASELINES)
def test_nearest_neighbor_has_the_known_figure(entry, baseline, data_home):
    try:
        loaded = entry.load(data_home=data_home, **baseline.options)
    except DatasetNotFoundError as error:
        pytest.skip(f"real data: {error}")
    if len(loaded.data) == entry.n_samples and entry.name == "houston2013":
        pytest.skip("real data: the figure is that of the training spectra alone")
    assert baseline.measure(loaded) == pytest.approx(baseline.expected, abs=baseline.tolerance)


def test_indian_pines_has_the_spectra_that_its_authors_published(indian_pines, data_home):
    """Their file: pixels of the mask column after column, bands scaled to [0, 1] over the scene."""
    try:
        path = benchmark_file("indian_pines/authors_train_spectra.mat", data_home)
    except DatasetNotFoundError as error:
        pytest.skip(f"real data: {error}")
    theirs = read_arrays(path)["Train_X"]
    ours = np.moveaxis(indian_pines.cube, 0, 1)[indian_pines.train_map.T > 0]
    assert theirs.shape == ours.shape == (695, 200)
    lowest = min(np.corrcoef(theirs[:, band], ours[:, band])[0, 1] for band in range(200))
    assert lowest > 0.99


def test_indian_pines_explains_bands_that_others_simulated(indian_pines, data_home):
    try:
        path = benchmark_file("transfer/MSI_IndinePine.mat", data_home)
    except DatasetNotFoundError as error:
        pytest.skip(f"real data: {error}")
    simulated = read_arrays(path)["data_MS_HR"].reshape(-1, 10)
    X = np.column_stack([indian_pines.cube.reshape(-1, 200), np.ones(len(simulated))])
    residuals = simulated - X @ np.linalg.lstsq(X, simulated)[0]
    assert (residuals.var(axis=0) / simulated.var(axis=0)).max() < 1e-6


def test_files_of_benchmarks_are_those_of_the_registry(data_home):
    names = [name for group in BENCHMARK_FILES for name in group.sha256]
    present = [name for name in names if (data_home / name).is_file()]
    if not present:
        pytest.skip("real data: no file of the benchmarks in the data folder")
    for name in present:
        assert benchmark_file(name, data_home) == data_home / name


def test_indian_pines_masks_agree_with_the_standard_ground_truth(indian_pines):
    masks, standard = indian_pines.ground_truth, indian_pines.standard_ground_truth
    both = (masks > 0) & (standard > 0)
    assert (masks[both] == standard[both]).all()
    assert np.count_nonzero((masks > 0) & ~both) == 256
    assert np.count_nonzero((standard > 0) & ~both) == 139
    assert np.bincount(indian_pines.target[indian_pines.train_indices])[[1, 7, 9, 16]].tolist() == [
        15, 15, 15, 50,
    ]  # fmt: skip


def test_ar_subject_77_lacks_an_image_of_session_2(ar_faces):
    counts = np.bincount(ar_faces.target[ar_faces.test_indices], minlength=101)[1:]
    assert np.flatnonzero(counts != 7).tolist() == [76]


def test_faces_are_upright(ar_faces, yale_faces):
    # A face is nearly symmetric left to right and not at all top to bottom.
    for faces in (ar_faces, yale_faces):
        mean = faces.images.mean(axis=0)
        left_right = np.abs(mean - mean[:, ::-1]).mean()
        top_bottom = np.abs(mean - mean[::-1]).mean()
        assert left_right < 0.6 * top_bottom


def test_houston_has_its_labelled_pixels(houston):
    assert np.count_nonzero(houston.train_map) + np.count_nonzero(houston.test_map) > 2400
    assert set(houston.target[houston.train_indices]) == set(range(1, 16))
    assert houston.data.shape[1] == houston.wavelengths.size == 144


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
