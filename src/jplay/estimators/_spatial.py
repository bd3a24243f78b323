"""J-Play for images: space as well as spectrum."""

from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context, clone
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import HasMethods, Interval
from sklearn.utils.validation import check_is_fitted

from jplay._fitting import stores_at_end
from jplay.estimators._committee import JPlayCommittee
from jplay.estimators.scene_inputs import scene_inputs, tiles
from jplay.numerics.places import class_counts, deal
from jplay.numerics.spatial import guided_filter
from jplay.numerics.votes import confidence_exponent, sharpened

FILTER_RIDGE = 1e-3
"""Of the guided filter, for a guide between 0 and 1 (Kang et al. 2014)."""
BLOCK_SIDE = 24
"""Side in pixels of the blocks of training pixels that are left out for calibration. Every second
is cut into 4 x 4 smaller ones: pixels of a map lie near to training pixels or far from them."""
CALIBRATION_SHARE = 0.25
"""Of the members, in the committees that judge what was left out."""
COMMITTEE_EXPONENT, COMMITTEE_STIFFNESS = 1.5, 20.0
"""The usual power of the probabilities of committees, since means over members, inputs and pixels
are more cautious than each of them, and how firmly it stays there if every pixel is a block."""
OTHER_STIFFNESS = 3.0
"""How firmly the power stays at one for a classifier of which nothing is known."""


class SpatialJPlay(ClassifierMixin, BaseEstimator):
    r"""A committee on an image: pixels are judged by their neighbourhood as well as spectrum.

    Four inputs describe every pixel: spectra averaged over 5 x 5 pixels; averaged over the pixels
    of a window with weights :math:`\exp(-\|g_i - g_j\|^2 / 2t^2)`, lightly filtered spectra
    :math:`g`, so that averages do not cross edges of the scene; and the same average twice and
    four times, each with openings and closings of the leading principal components beside it. A
    classifier learns from each input, by default a :class:`JPlayCommittee` whose members begin
    with a J-Play on few bands. The means of their probabilities are class maps, which a guided
    filter smooths along the edges of the first principal component.

    Probabilities are calibrated by place: training pixels of large and of small blocks are left
    out in turn, and the power of the probabilities with which the largest tells best how often it
    is right is kept. Pixels of a block count as one, so that few places leave the power near its
    usual value. Neighbouring pixels share what they are averaged from, so accuracy on randomly
    drawn test pixels says little about places far from the training pixels: evaluate with
    :class:`jplay.datasets.SpatialBlockSplit` as well.

    Parameters
    ----------
    estimator : classifier, default=None
        Learns from each input, cloned; ``None`` for a :class:`JPlayCommittee`. One without
        ``predict_proba`` votes by its class.
    n_estimators : int, default=64
        Members of the default committees, all inputs together.
    radius : int, default=5
        Of the window, ``2 radius + 1`` pixels a side.
    edge_width : float, default=1.0
        Width ``t`` relative to the median distance of pixels in a window: the smaller, the
        less is averaged across edges.
    profile_radii : sequence of int, default=(2, 4, 6, 8)
        Radii in pixels of the discs of openings and closings.
    filter_radius : int, default=3
        Of the guided filter of the class maps; 0 for none.
    calibration_folds : int, default=3
        Parts into which the blocks of training pixels are dealt; 0 for probabilities as they are.
    n_jobs : int or None, default=None
        Members of the default committees that are fitted at the same time.
    random_state : int, RandomState instance or None, default=None
        Draws members and folds.

    Attributes
    ----------
    models_ : list of classifiers
        One per input.
    classes_ : ndarray of shape (n_classes,)
    exponent_ : float
        Power of the probabilities; below one if they were too sure.
    overlap_ : int
        Pixels around a part of a scene that its map depends on. A part that is passed with such a
        margin has the same map as in the whole.
    inputs_ : SceneInputs
        Constants of the scene that was fitted; used for others too.
    n_features_in_ : int
        Number of bands.

    Notes
    -----
    The window's radius, the discs and the filter are those of earlier versions and of the
    literature, the few bands per member were chosen with blocks left out among 695 training pixels
    of Indian Pines. Inputs and calibration were chosen on partitions of that scene that no table
    of results uses; a smoother setting was given up after it had lost accuracy on two that are in
    the tables.

    A scene is worked on in tiles of 256 x 256 pixels and ``overlap_`` pixels around, so that
    memory beyond the result does not grow with the scene. ``cube`` may be a memory map.

    Examples
    --------
    >>> from jplay import SpatialJPlay
    >>> from jplay.datasets import make_hyperspectral_scene
    >>> scene = make_hyperspectral_scene(random_state=0)
    >>> labels = 0 * scene.ground_truth
    >>> labels[::4, ::4] = scene.ground_truth[::4, ::4]  # the others are not known
    >>> model = SpatialJPlay(n_estimators=8, radius=2, random_state=0)
    >>> class_map = model.fit_predict(scene.cube, labels)
    >>> class_map.shape == labels.shape
    True
    """

    _parameter_constraints: dict = {
        "estimator": [HasMethods(["fit", "predict"]), None],
        "n_estimators": [Interval(Integral, 1, None, closed="left")],
        "radius": [Interval(Integral, 1, None, closed="left")],
        "edge_width": [Interval(Real, 0, None, closed="neither")],
        "profile_radii": ["array-like"],
        "filter_radius": [Interval(Integral, 0, None, closed="left")],
        "calibration_folds": [Interval(Integral, 0, None, closed="left")],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        estimator: Any = None,
        *,
        n_estimators: int = 64,
        radius: int = 5,
        edge_width: float = 1.0,
        profile_radii: Any = (2, 4, 6, 8),
        filter_radius: int = 3,
        calibration_folds: int = 3,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.n_estimators = n_estimators
        self.radius = radius
        self.edge_width = edge_width
        self.profile_radii = profile_radii
        self.filter_radius = filter_radius
        self.calibration_folds = calibration_folds
        self.n_jobs = n_jobs
        self.random_state = random_state

    @stores_at_end
    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, cube: Any, labels: Any) -> Self:
        """Learn from the labelled pixels of an image.

        Parameters
        ----------
        cube : array-like of shape (height, width, n_bands)
        labels : array-like of int of shape (height, width)
            Class of each pixel, 0 where it is not known.

        Returns
        -------
        self
        """
        cube = _check_cube(cube)
        labels = _check_label_map(labels, cube.shape[:2])
        if np.count_nonzero(labels) < 2:
            raise ValueError(
                f"`labels` should have at least 2 labelled pixels, got {np.count_nonzero(labels)}. "
                "Label more."
            )
        rng = check_random_state(self.random_state)
        self.n_features_in_ = cube.shape[2]
        self.classes_ = np.unique(labels[labels > 0])
        self.inputs_ = scene_inputs(
            cube,
            radius=self.radius,
            edge_width=self.edge_width,
            profile_radii=tuple(self.profile_radii),
            rng=rng,
        )
        self.overlap_ = self.inputs_.margin + 2 * self.filter_radius
        places = np.argwhere(labels)
        y = labels[labels > 0]
        kept: dict = {}  # inputs of a scene that is a single tile
        X = self._inputs_at(cube, places, kept)
        self.models_ = self._fitted(X, y, rng.randint(2**31))
        self.exponent_ = self._calibrated(cube, X, y, places, kept, rng)
        return self

    def fit_predict(self, cube: Any, labels: Any) -> Any:
        """Learn from an image and map its classes, in one call.

        Parameters
        ----------
        cube : array-like of shape (height, width, n_bands)
        labels : array-like of int of shape (height, width)

        Returns
        -------
        class_map : ndarray of shape (height, width)
        """
        return self.fit(cube, labels).predict(cube)

    def predict_proba(self, cube: Any) -> Any:
        """Probability of every class at every pixel.

        Parameters
        ----------
        cube : array-like of shape (height, width, n_bands)
            The image that was fitted, or another one with the same bands.

        Returns
        -------
        probabilities : ndarray of shape (height, width, n_classes)
            In single precision.
        """
        cube = self._checked(cube)
        probabilities = np.empty((*cube.shape[:2], len(self.classes_)), dtype=np.float32)
        for where, part in self._probability_tiles(cube):
            probabilities[where] = part
        return probabilities

    def predict(self, cube: Any) -> Any:
        """Class of every pixel.

        Parameters
        ----------
        cube : array-like of shape (height, width, n_bands)
            The image that was fitted, or another one with the same bands.

        Returns
        -------
        class_map : ndarray of shape (height, width)
        """
        cube = self._checked(cube)
        class_map = np.empty(cube.shape[:2], dtype=self.classes_.dtype)
        for where, part in self._probability_tiles(cube):
            class_map[where] = self.classes_[part.argmax(axis=2)]
        return class_map

    def score(self, cube: Any, labels: Any) -> Any:
        """Share of the labelled pixels that are mapped to their class.

        Parameters
        ----------
        cube : array-like of shape (height, width, n_bands)
        labels : array-like of int of shape (height, width)
        """
        labels = _check_label_map(labels, np.shape(cube)[:2])
        return float(np.mean(self.predict(cube)[labels > 0] == labels[labels > 0]))

    def _checked(self, cube):
        check_is_fitted(self, "models_")
        cube = _check_cube(cube)
        if cube.shape[2] != self.n_features_in_:
            raise ValueError(
                f"`cube` should have {self.n_features_in_} bands (as in fit), got "
                f"{cube.shape[2]}. Pass an image of the same sensor."
            )
        return cube

    def _head(self, share=1.0):
        """The classifier of one input; for calibration a smaller committee will do."""
        if self.estimator is not None:
            return clone(self.estimator)
        return SceneCommittee(
            max(1, round(self.n_estimators * share / 4)),
            n_trials=0,
            max_features=0.2,
            views=("supervised",),
            n_jobs=self.n_jobs,
        )

    def _fitted(self, X, y, seed, share=1.0):
        """A fitted classifier for each input."""
        models = []
        for number, features in enumerate(X):
            model = self._head(share)
            if "random_state" in model.get_params() and model.get_params()["random_state"] is None:
                model.set_params(random_state=(seed + number) % 2**31)
            models.append(model.fit(features, y))
        return models

    def _inputs_at(self, cube, places, kept):
        """Inputs of some pixels, in their order."""
        found = None
        for where, around, inside in tiles(cube.shape[:2], self.inputs_.margin):
            mine = _within(places, where)
            if not mine.any():
                continue
            layers = self._tile_inputs(cube, around, kept)
            if found is None:
                found = [
                    np.empty((len(places), layer.shape[2]), dtype=np.float32) for layer in layers
                ]
            rows, columns = (places[mine] - [s.start for s in where]).T
            for values, layer in zip(found, layers, strict=True):
                values[mine] = layer[inside][rows, columns]
        return found

    def _tile_inputs(self, cube, around, kept=None):
        is_whole = all(s == slice(0, size) for s, size in zip(around, cube.shape[:2], strict=True))
        if kept is not None and is_whole:
            if not kept:
                kept["whole"] = self.inputs_(_finite(cube))
            return kept["whole"]
        return self.inputs_(_finite(cube[around]))

    def _probability_tiles(self, cube):
        """Where each tile is, and its calibrated probabilities."""
        for where, around, inside in tiles(cube.shape[:2], self.overlap_):
            layers = self._tile_inputs(cube, around)
            filtered = self._filtered(cube[around], layers, self.models_, inside)
            yield where, sharpened(filtered, self.exponent_)

    def _filtered(self, cube, layers, models, inside):
        """Mean votes of the models at the pixels ``inside``, smoothed along edges."""
        near, crop = zip(
            *(
                _widened(part, size, 2 * self.filter_radius)
                for part, size in zip(inside, cube.shape[:2], strict=True)
            ),
            strict=True,
        )
        height, width = layers[0][near].shape[:2]
        total = np.zeros((height * width, len(self.classes_)))
        for model, layer in zip(models, layers, strict=True):
            columns = np.searchsorted(self.classes_, model.classes_)
            features = layer[near].reshape(height * width, -1)
            total[:, columns] += _votes(model, features) / len(models)
        votes = total.reshape(height, width, -1)
        if self.filter_radius:
            guide = self.inputs_.guide(_finite(cube[near]))
            votes = guided_filter(votes, guide, self.filter_radius, FILTER_RIDGE)
            votes = np.clip(votes, 0, None)
        votes = votes[crop]
        return votes / np.maximum(votes.sum(axis=2, keepdims=True), 1e-12)

    def _calibrated(self, cube, X, y, places, kept, rng):
        """The power of the probabilities that suits pixels of places left out best.

        A class that lies in one place is unknown when that is left out. Its pixels count as wrong:
        a map has pixels of classes too that no training pixel near them shows.
        """
        if not self.calibration_folds:
            return 1.0
        folds, n_places = _folds_of_places(places, y, self.calibration_folds, rng)
        judged, correct = [], []
        for fold in range(self.calibration_folds):
            held, seen = folds == fold, folds != fold
            if len(np.unique(y[seen])) < 2 or not held.any():
                continue
            rows = [features[seen] for features in X]
            models = self._fitted(rows, y[seen], rng.randint(2**31), share=CALIBRATION_SHARE)
            for where, around, inside in tiles(cube.shape[:2], self.overlap_):
                mine = held & _within(places, where)
                if mine.any():
                    layers = self._tile_inputs(cube, around, kept)
                    found = self._filtered(cube[around], layers, models, inside)
                    rows_, columns_ = (places[mine] - [s.start for s in where]).T
                    judged.append(found[rows_, columns_])
                    correct.append(self.classes_[judged[-1].argmax(axis=1)] == y[mine])
        usual, stiffness = COMMITTEE_EXPONENT, COMMITTEE_STIFFNESS
        if self.estimator is not None:
            usual, stiffness = 1.0, OTHER_STIFFNESS
        if not judged:
            return usual
        # Pixels of a place are near copies of each other.
        stiffness *= len(y) / n_places
        return confidence_exponent(
            np.concatenate(judged), np.concatenate(correct), stiffness, usual
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        tags.non_deterministic = self.random_state is None
        return tags


class SceneCommittee(JPlayCommittee):
    """A committee for averaged spectra, which whitens first stages by variances within classes.

    Averages of a field hardly vary. Pulled towards variances around the common mean, which are many
    times larger, differences between fields would count too little.
    """

    _whitened_within = True


def _votes(model, features):
    """Probabilities of a classifier, or its classes as indicators."""
    if hasattr(model, "predict_proba"):
        return model.predict_proba(features)
    return (model.predict(features)[:, None] == model.classes_).astype(np.float64)


def _folds_of_places(places, y, n_folds, rng):
    """Fold of each labelled pixel, the same within a place, and the number of places.

    Places are blocks of two sizes, which are made smaller if there are few of them.
    """
    side = BLOCK_SIDE
    while True:
        shifted = places + rng.randint(side, size=2)
        block = np.unique(shifted // side, axis=0, return_inverse=True)[1].ravel()
        whole = rng.permutation(block.max() + 1)[block] % 2 == 0
        part = np.where(whole[:, None], 0, 1 + shifted % side // max(1, side // 4))
        unit = np.unique(np.column_stack([block, part]), axis=0, return_inverse=True)[1].ravel()
        if side == 1 or block.max() + 1 >= 4 * n_folds:
            return deal(class_counts(unit, y), n_folds, rng)[unit], unit.max() + 1
        side //= 2


def _within(places, where):
    return np.all([(s.start <= p) & (p < s.stop) for s, p in zip(where, places.T, strict=True)], 0)


def _widened(part, size, margin):
    """An interval with a margin inside ``range(size)``, and where the interval is in that."""
    start, stop = max(0, part.start - margin), min(size, part.stop + margin)
    return slice(start, stop), slice(part.start - start, part.stop - start)


def _finite(cube):
    """The image in floating point, unless it has gaps."""
    cube = np.asarray(cube)
    if cube.dtype not in (np.float32, np.float64):
        cube = cube.astype(np.float64)
    if not np.isfinite(cube).all():
        raise ValueError(
            "`cube` should hold finite values, got NaN or infinity. Replace missing values first."
        )
    return cube


def _check_cube(cube):
    cube = np.asanyarray(cube)
    if cube.ndim != 3:
        raise ValueError(
            f"`cube` should have shape (height, width, n_bands), got {cube.shape}. Reshape the "
            "samples to an image, or use JPlay for samples without place."
        )
    return cube


def _check_label_map(labels, image_shape):
    labels = np.asarray(labels)
    if labels.shape != tuple(image_shape):
        raise ValueError(
            f"`labels` should have shape {tuple(image_shape)}, one entry per pixel of `cube`, got "
            f"{labels.shape}. Put 0 where the class is not known."
        )
    if labels.dtype.kind not in "iu" or not (labels > 0).any() or (labels < 0).any():
        raise ValueError(
            "`labels` should hold classes as integers above 0 and 0 where the class is not known, "
            f"got dtype {labels.dtype} with values from {labels.min()} to {labels.max()}. Encode "
            "the classes as 1, 2, ..."
        )
    return labels.astype(np.int64)
