import inspect

import numpy as np
import pytest

from jplay import datasets
from jplay.datasets import DATASETS

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
