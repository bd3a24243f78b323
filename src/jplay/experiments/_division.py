"""The data of a recipe: samples, targets, divisions, and what can be drawn of them."""

import warnings
from dataclasses import dataclass

import numpy as np
from sklearn.utils import Bunch

from jplay import datasets
from jplay.datasets import (
    RepeatedPerClassSplit,
    SpatialBlockSplit,
    draw_per_class,
    fingerprint,
    split_per_class,
)
from jplay.datasets.splits import fixed_halves
from jplay.experiments._suite_data import (
    load_coffee,
    load_embedded,
    load_materials,
    load_series,
)
from jplay.experiments._suite_scenes import load_pines_scene, load_scene_file
from jplay.inspection import leave_out_folds
from jplay.tables import read_table

LOADERS = {
    "indian-pines": datasets.fetch_indian_pines,
    "houston": datasets.fetch_houston2013,
    "ar": datasets.fetch_ar,
    "extended-yale-b": datasets.fetch_extended_yale_b,
    "multilabel": datasets.fetch_multilabel,
    "digits": datasets.load_digits,
    "wine": datasets.load_wine,
    "synthetic-scene": datasets.make_hyperspectral_scene,
    "embedded": load_embedded,
    "series": load_series,
    "coffee": load_coffee,
    "materials": load_materials,
    "pines-scene": load_pines_scene,
    "scene-file": load_scene_file,
}


@dataclass(frozen=True, eq=False)
class DividedData:
    """Samples and targets with every division of them, as index pairs."""

    data: Bunch
    fingerprint: str
    splits: list

    @property
    def X(self):
        return self.data.data

    @property
    def y(self):
        return self.data.target

    @property
    def multilabel(self):
        return self.y.ndim == 2


def load_divided(recipe, data=None):
    """Load a recipe's data, unless some are given in their place, and divide them."""
    if data is None:
        data = _load(recipe.dataset)
    found = fingerprint(data)
    expected = recipe.dataset.fingerprint
    if expected is not None and found != expected:
        warnings.warn(
            f"The data of recipe {recipe.name!r} are not those it was written for (fingerprint "
            f"{found[:12]}, expected {expected[:12]}): figures cannot be compared with its "
            "records. Check the files in the data folder.",
            stacklevel=2,
        )
    return DividedData(data, found, _divide(recipe.split, data))


def _load(dataset):
    if dataset.loader in OWN_FILES:
        return OWN_FILES[dataset.loader](**dataset.options)
    if dataset.loader not in LOADERS:
        known = ", ".join([*LOADERS, *OWN_FILES])
        raise ValueError(f"`loader` should be one of {known}, got {dataset.loader!r}.")
    return LOADERS[dataset.loader](**dataset.options)


def _divide(plan, data):
    if plan.kind == "given":
        if data.get("train_indices") is None:
            raise ValueError(
                'The split "given" needs data with a division of their own. Set `kind = '
                '"per-class"` and `n_train`.'
            )
        return [(data.train_indices, data.test_indices)]
    if plan.kind == "per-class":
        draws = RepeatedPerClassSplit(
            plan.n_train, n_repeats=plan.n_splits, small=plan.small, random_state=plan.seed
        )
        return list(draws.split(data.data, data.target))
    if plan.kind == "per-class-seeds":
        return [
            split_per_class(
                data.target, plan.n_train, small=plan.small, random_state=plan.seed + split
            )
            for split in range(plan.n_splits)
        ]
    if plan.kind == "groups":
        if data.get("groups") is None:
            raise ValueError('The split "groups" needs data with groups. Set `kind = "per-class"`.')
        return leave_out_folds(
            data.target, data.groups, n_folds=plan.n_splits, random_state=plan.seed
        )
    if plan.kind == "given-per-class":
        return [
            (_drawn(data, data.train_indices, plan, plan.seed + split), data.test_indices)
            for split in range(plan.n_splits)
        ]
    if plan.kind == "places":
        return [_places(data, plan, plan.seed + split) for split in range(plan.n_splits)]
    if plan.kind == "blocks":
        return [_halves(data, plan.seed + split) for split in range(plan.n_splits)]
    raise ValueError(
        '`kind` of the split should be "given", "given-per-class", "per-class", '
        f'"per-class-seeds", "groups", "places" or "blocks", got {plan.kind!r}.'
    )


def _halves(data, seed):
    """Divide a scene by location: half of its blocks for training, a belt of two pixels between."""
    if data.get("ground_truth") is None:
        raise ValueError('The split "blocks" needs a scene. Set `kind = "per-class"`.')
    return fixed_halves(data.ground_truth, random_state=seed)


def _places(data, plan, seed):
    """Divide a scene by location, and draw training pixels per class from one side.

    A class that lies in one place only may have no training pixel; its test pixels stay.
    """
    shift = (0, 0) if plan.shifted is False else None
    division = SpatialBlockSplit(
        data.ground_truth, 2, block_size=24, buffer=6, shift=shift, random_state=seed
    )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Classes are missing")
        train, test = next(division.split())
    return _drawn(data, train, plan, seed), test


def _drawn(data, rows, plan, seed):
    return rows[draw_per_class(data.target[rows], plan.n_train, random_state=seed)]


def load_scene(path, labels, *, field=None, max_per_class=None, seed=0, **opening):
    """Read the labelled pixels of a user's own image; see :func:`jplay.raster.scene_samples`."""
    from jplay.raster import open_scene, scene_samples

    found = scene_samples(
        open_scene(path, **opening),
        labels,
        field=field,
        max_per_class=max_per_class,
        random_state=seed,
    )
    order = np.lexsort(found.pixels.T[::-1])  # row by row, as spatial splits number samples
    rows, columns = (found.pixels - found.pixels.min(axis=0))[order].T
    codes = np.unique(found.y, return_inverse=True)[1][order] + 1
    ground_truth = np.zeros((rows.max() + 1, columns.max() + 1), dtype=np.int64)
    ground_truth[rows, columns] = codes
    return Bunch(
        data=found.X[order],
        target=codes,
        target_names=np.array(found.metadata.class_names),
        groups=found.fields[order],
        ground_truth=ground_truth,
        filenames=[str(path), str(labels)],
    )


def load_file(path, **columns):
    """Read labelled samples, and their division if there is one, from a file of the user's own.

    :func:`jplay.tables.read_table` says which files it takes and what ``columns`` names.
    """
    table = read_table(path, **columns)
    names, labels = np.unique(table.y, return_inverse=True)
    if table.y.ndim != 1:
        raise ValueError(f"'{path}' should hold one class per sample, found several labels each.")
    if names.size < 2:
        raise ValueError(f"'{path}' should hold at least two classes, found {names.size}.")
    data = Bunch(
        data=np.asarray(table.X, dtype=np.float64),
        target=labels + 1,
        target_names=names.astype(str),
        filenames=[str(path)],
        notes=table.notes,
    )
    if table.groups is not None:
        data.groups = table.groups
    if table.n_train is not None:
        rows = np.arange(len(labels))
        data.update(
            split="given", train_indices=rows[: table.n_train], test_indices=rows[table.n_train :]
        )
    return data


OWN_FILES = {"file": load_file, "scene": load_scene}
