"""Scenes of the suite: pixels with their places, and classifiers that see the whole scene."""

import warnings
from pathlib import Path

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.neighbors import KNeighborsClassifier
from sklearn.utils import Bunch, check_random_state
from sklearn.utils.validation import check_is_fitted

from jplay._fitting import stores_at_end
from jplay.core.graph import build_graph
from jplay.datasets import fetch_indian_pines
from jplay.datasets.readers import read_arrays
from jplay.datasets.registry import benchmark_file
from jplay.estimators import JPlay, SpatialJPlay
from jplay.estimators.scene_inputs import scene_inputs, unit_maximum
from jplay.numerics.spatial import restricted, smoother, sum_of_graphs

DISJOINT_MASK = "indian_pines/indianpines_disjoint_dset.mat"
_OF_FIXED_MASKS = (0, 1, 2, 4, 5, 6, 7, 8, 9, 11, 14, 3, 15, 16, 10, 12, 13)
"""Class of the fixed masks by class of the disjoint mask."""


def load_pines_scene(split="fixed"):
    """Load Indian Pines with the labels of its fixed masks.

    ``split="disjoint"`` takes the training pixels of the public mask of disjoint fields instead;
    every other labelled pixel is for testing.
    """
    scene = fetch_indian_pines(split="fixed")
    train, test = scene.train_indices, scene.test_indices
    if split == "disjoint":
        (mask,) = read_arrays(benchmark_file(DISJOINT_MASK)).values()
        chosen = np.array(_OF_FIXED_MASKS)[mask].ravel()[scene.pixel_indices] > 0
        train, test = np.flatnonzero(chosen), np.flatnonzero(~chosen)
    return _with_places(scene.cube, scene.ground_truth, scene.target_names, train, test)


def load_scene_file(path):
    """Load a scene of the user's own: an array of three dimensions, and labels of two."""
    arrays = read_arrays(Path(path)).values()
    cubes = [array for array in arrays if array.ndim == 3]
    maps = [array for array in arrays if array.ndim == 2]
    if len(cubes) != 1 or len(maps) != 1 or cubes[0].shape[:2] != maps[0].shape:
        raise ValueError(
            f"'{path}' should hold one image of shape (height, width, n_bands) and one of labels "
            f"of shape (height, width), got {', '.join(str(a.shape) for a in arrays)}."
        )
    labels = maps[0].astype(np.int64)
    names = [f"class {k}" for k in range(1, labels.max() + 1)]
    return _with_places(cubes[0].astype(np.float64), labels, names)


def _with_places(cube, labels, names, train=None, test=None):
    """Samples whose first feature is the position of the pixel, then its spectrum."""
    places = np.flatnonzero(labels)
    return Bunch(
        data=np.column_stack([places, cube.reshape(-1, cube.shape[2])[places]]),
        target=labels.ravel()[places],
        target_names=np.asarray(names),
        cube=cube,
        ground_truth=labels,
        train_indices=train,
        test_indices=test,
        filenames=[],
    )


SINGLE_INPUTS = {
    "spectra": lambda inputs, cube: unit_maximum(cube),
    "profiles": lambda inputs, cube: inputs.profile(cube),
}
"""What the classifier of a row may see in place of the inputs of :class:`SpatialJPlay`."""


class SharedInputs(SpatialJPlay):
    """A spatial model that computes the inputs of a scene once for all fits in a process."""

    single_input = None
    """A name in ``SINGLE_INPUTS``, or None for all inputs of a spatial model."""
    _known: dict = {}

    def _tile_inputs(self, cube, around, kept=None):
        constants = (self.inputs_.margin, self.inputs_.bandwidth)
        key = (id(cube), str(around), self.single_input, *constants)
        if key not in self._known:
            self._known.clear()  # those of one scene are enough
            if self.single_input is None:
                self._known[key] = super()._tile_inputs(cube, around)
            else:
                compute = SINGLE_INPUTS[self.single_input]
                self._known[key] = [compute(self.inputs_, cube[around])]
        return self._known[key]


class SceneClassifier(ClassifierMixin, BaseEstimator):
    """A spatial model for samples whose first feature is their position in a scene.

    Parameters
    ----------
    head : classifier or None
        Sees the inputs that the committee sees.
    single_input : {"spectra", "profiles"} or None
        What it sees instead of those.
    options : dict or None
        Parameters of :class:`SpatialJPlay`.
    cube : ndarray of shape (height, width, n_bands) or None
    random_state : int or None
    """

    def __init__(self, head=None, options=None, cube=None, random_state=None, single_input=None):
        self.head = head
        self.options = options
        self.cube = cube
        self.random_state = random_state
        self.single_input = single_input

    @stores_at_end
    def fit(self, X, y):
        labels = np.zeros(self.cube.shape[:2], dtype=np.int64)
        labels.flat[_positions(X)] = y
        settings = self.options or {}
        model = SharedInputs(self.head, random_state=self.random_state, **settings)
        model.single_input = self.single_input
        with warnings.catch_warnings():  # calibration may leave one pixel of a class
            warnings.filterwarnings("ignore", "The least populated class in y")
            self.model_ = model.fit(self.cube, labels)
        self.classes_ = self.model_.classes_
        self._map = None
        return self

    def predict_proba(self, X):
        check_is_fitted(self)
        if self._map is None:
            probabilities = self.model_.predict_proba(self.cube)
            self._map = probabilities.reshape(-1, probabilities.shape[2])
        return self._map[_positions(X)]

    def predict(self, X):
        probabilities = self.predict_proba(X)
        return self.classes_[probabilities.argmax(axis=1)]


class EdgeAwareJPlay(ClassifierMixin, BaseEstimator):
    """One J-Play on edge-aware averages: what :class:`SpatialJPlay` was before the committee.

    Spectra are averaged over like pixels of a window. A J-Play of one layer learns from them and
    from pixels without label, with a graph that joins pixels alike in spectrum or in space. Its
    features are averaged likewise, and the nearest training pixel decides.

    Parameters
    ----------
    cube : ndarray of shape (height, width, n_bands) or None
    n_unlabeled : int
        Pixels without label that take part in the fit.
    random_state : int or None
    """

    def __init__(self, cube=None, n_unlabeled=1000, random_state=None):
        self.cube = cube
        self.n_unlabeled = n_unlabeled
        self.random_state = random_state

    @stores_at_end
    def fit(self, X, y):
        rng = check_random_state(self.random_state)
        inputs = scene_inputs(self.cube, radius=5, edge_width=1.0, profile_radii=(), rng=rng)
        affinity = inputs.affinity(self.cube)
        alike = smoother(affinity)
        pixels = alike @ unit_maximum(self.cube).reshape(-1, self.cube.shape[2])
        known = _positions(X)
        others = np.setdiff1d(np.arange(len(pixels)), known)
        drawn = np.sort(rng.permutation(others)[: self.n_unlabeled])
        chosen = np.concatenate([known, drawn])
        spectral, _ = build_graph(pixels[chosen], pixels[chosen], None)
        graph = sum_of_graphs(spectral, restricted(affinity, chosen))
        model = JPlay(n_layers=1, alpha=10.0, graph=graph, unlabeled=-1)
        model.fit(pixels[chosen], np.concatenate([y, np.full(len(drawn), -1)]))
        self._features = alike @ model.transform(pixels)
        self._nearest = KNeighborsClassifier(1, algorithm="brute").fit(self._features[known], y)
        self.classes_ = self._nearest.classes_
        return self

    def predict(self, X):
        check_is_fitted(self)
        return self._nearest.predict(self._features[_positions(X)])


def _positions(X):
    return X[:, 0].astype(np.int64)
