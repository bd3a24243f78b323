import inspect
from pathlib import Path

import numpy as np
import pytest

from jplay import datasets
from jplay.datasets import DATASETS
from jplay.datasets.registry import BENCHMARK_FILES, benchmark_file
from jplay.exceptions import CorruptFileError, DatasetNotFoundError

PAGE = Path(__file__).parents[1] / "docs" / "datasets.md"

EMBEDDED = [name for name, entry in DATASETS.items() if entry.package == "sklearn"]


def test_every_entry_has_a_loader_that_takes_its_options():
    for name, entry in DATASETS.items():
        assert entry.name == name
        assert entry.loader in datasets.__all__
        parameters = inspect.signature(getattr(datasets, entry.loader)).parameters
        assert set(entry.options) <= set(parameters)


def test_every_entry_can_be_obtained():
    for entry in DATASETS.values():
        assert entry.layouts or entry.package
        assert all(role in entry.files for layout in entry.layouts for role in layout)
        assert all((entry.title, entry.source, entry.licence, entry.request))
        assert bool(entry.folder) == bool(entry.files)


def test_files_of_a_folder_have_names_of_their_own():
    names = [
        (entry.folder, stem, suffix)
        for entry in DATASETS.values()
        for file in entry.files.values()
        for stem in file.stems
        for suffix in file.suffixes
    ]
    assert len(set(names)) == len(names)


def check_sizes(entry, loaded):
    assert loaded.data.shape == (entry.n_samples, entry.n_features)
    assert len(loaded.target_names) == entry.n_classes
    if entry.class_names:
        np.testing.assert_array_equal(loaded.target_names, entry.class_names)


@pytest.mark.parametrize("name", EMBEDDED)
def test_sizes_are_those_of_what_is_loaded(name):
    check_sizes(DATASETS[name], DATASETS[name].load())


@pytest.mark.parametrize("name", sorted(set(DATASETS) - set(EMBEDDED) - {"houston2013"}))
def test_sizes_are_those_of_the_real_files(name, data_home):
    entry = DATASETS[name]
    if entry.found_files(data_home) is None and not entry.is_packaged:
        pytest.skip(f"real data: no files of {name} in the data folder")
    loaded = entry.load(data_home=data_home)
    check_sizes(entry, loaded)
    if entry.n_train is not None:
        assert len(loaded.train_indices) == entry.n_train
        assert len(loaded.test_indices) == entry.n_test


def test_options_override_those_of_the_entry():
    assert len(DATASETS["wine"].load(return_X_y=True)) == 2


def test_every_entry_says_how_it_was_checked():
    for entry in DATASETS.values():
        assert entry.baselines, entry.name
        assert entry.checked, entry.name
    assert all(group.checked for group in BENCHMARK_FILES)


def test_page_states_the_figures_and_fingerprints_of_the_registry():
    page = PAGE.read_text(encoding="utf-8")
    for entry in DATASETS.values():
        for baseline in entry.baselines:
            assert f"{baseline.expected:.2f}" in page, entry.name
            assert baseline.published is None or f"{baseline.published:.2f}" in page, entry.name
        assert all(value[:12] in page for value in entry.sha256.values()), entry.name
    assert all(group.title in page for group in BENCHMARK_FILES)


@pytest.mark.parametrize("name", EMBEDDED)
def test_nearest_neighbor_has_the_known_figure(name):
    entry = DATASETS[name]
    (baseline,) = entry.baselines
    found = baseline.measure(entry.load())
    assert found == pytest.approx(baseline.expected, abs=baseline.tolerance)


@pytest.mark.parametrize("name", EMBEDDED)
def test_other_content_of_an_installed_package_is_refused(name, monkeypatch):
    from sklearn import datasets as installed

    load = getattr(installed, DATASETS[name].loader)
    changed = load()
    changed.data[5, 3] += 1
    monkeypatch.setattr(installed, DATASETS[name].loader, lambda: changed)
    with pytest.raises(CorruptFileError, match=f"'{name}' of the installed scikit-learn"):
        DATASETS[name].load()


def test_file_of_a_benchmark_is_compared_when_it_is_read(tmp_path):
    with pytest.raises(DatasetNotFoundError, match=r"Samson.*no file.*Source: Zhu"):
        benchmark_file("mixed/Samson.mat", tmp_path)
    (tmp_path / "mixed").mkdir()
    (tmp_path / "mixed" / "Samson.mat").write_bytes(b"other")
    with pytest.raises(CorruptFileError, match=r"Samson\.mat' should have the SHA-256 4ce4b63"):
        benchmark_file("mixed/Samson.mat", tmp_path)
    with pytest.raises(ValueError, match=r"`name` should be one of mixed/Samson\.mat"):
        benchmark_file("mixed/Urban.mat", tmp_path)
