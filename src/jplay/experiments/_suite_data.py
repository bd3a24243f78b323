"""Data of the suite that the package has no data set of: they come with others, or as files."""

import csv
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from sklearn.utils import Bunch

from jplay._optional import install_command
from jplay.datasets.readers import read_arrays
from jplay.datasets.registry import benchmark_file
from jplay.exceptions import DatasetNotFoundError, MissingDependencyError


def load_embedded(name):
    """Load a small table that comes with scikit-learn: ``"iris"`` or ``"breast_cancer"``."""
    from sklearn import datasets

    loaded = getattr(datasets, f"load_{name}")()
    return _labelled(loaded.data, loaded.target_names[loaded.target])


def load_series(name):
    """Load time series of equal length that come with the package aeon, with their division."""
    folder = _package_folder("aeon", f"The series {name}") / "datasets" / "data" / name
    parts = [_read_series(folder / f"{name}_{part}.ts") for part in ("TRAIN", "TEST")]
    data = _labelled(
        np.vstack([values for values, _ in parts]), np.concatenate([names for _, names in parts])
    )
    rows, n_train = np.arange(len(data.target)), len(parts[0][1])
    data.update(train_indices=rows[:n_train], test_indices=rows[n_train:])
    return data


def _read_series(path):
    """Read the lines ``value,value,...:class`` after the mark ``@data``."""
    if not path.is_file():
        raise DatasetNotFoundError(f"the installed aeon has no file '{path.name}'")
    lines = path.read_text(encoding="utf-8").splitlines()
    begin = next(i for i, line in enumerate(lines) if line.strip().lower() == "@data") + 1
    pairs = [line.rsplit(":", 1) for line in lines[begin:] if line.strip()]
    values = np.array([[float(value) for value in series.split(",")] for series, _ in pairs])
    return values, np.array([name.strip() for _, name in pairs])


def load_coffee():
    """Load infrared spectra of coffee from three countries, with the package chemotools."""
    folder = _package_folder("chemotools", "The coffee spectra") / "datasets" / "data"
    spectra = np.loadtxt(folder / "coffee_spectra.csv", delimiter=",", skiprows=1)
    with open(folder / "coffee_labels.csv", newline="", encoding="utf-8") as stream:
        names = [row["labels"] for row in csv.DictReader(stream)]
    return _labelled(spectra, np.array(names))


def load_materials(name):
    """Load the pixels of an unmixing scene; the class is the material with the largest share.

    ``mixed/<name>.mat`` in the data folder holds the spectra ``Y`` (bands, pixels) and
    ``mixed/End<name>.mat`` the shares ``A`` (materials, pixels).
    """
    paths = [benchmark_file(f"mixed/{prefix}{name}.mat") for prefix in ("", "End")]
    spectra, shares = (read_arrays(path)[key] for path, key in zip(paths, ("Y", "A"), strict=True))
    materials = np.array([f"material {k}" for k in range(1, len(shares) + 1)])
    return _labelled(spectra.T, materials[shares.argmax(axis=0)])


def _package_folder(package, what):
    """Return the folder of an installed package, which need not be imported for its files."""
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise MissingDependencyError(
            f"{what} come with the package '{package}', which is not installed. Install it with: "
            f"{install_command('suite')}"
        )
    return Path(next(iter(spec.submodule_search_locations)))


def _labelled(samples, names):
    target_names, target = np.unique(names, return_inverse=True)
    return Bunch(
        data=np.asarray(samples, dtype=np.float64),
        target=target + 1,
        target_names=target_names.astype(str),
        filenames=[],
    )
