"""J-Play for images: space as well as spectrum."""

from numbers import Integral, Real

import numpy as np
from scipy.ndimage import uniform_filter
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context, clone
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import normalize
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from jplay.estimators._jplay import JPlay
from jplay.estimators._validation import check_n_neighbors
from jplay.numerics.graph import heat_affinity, weighted_by_features
from jplay.numerics.spatial import (
    product_of_graphs,
    restricted,
    smoother,
    sum_of_graphs,
    superpixel_affinity,
    superpixels,
    window_affinity,
)


class SpatialJPlay(ClassifierMixin, BaseEstimator):
    r"""J-Play on an image: pixels learn from their neighbours in space as well as spectrum.

    A graph joins pixels in a window, :math:`w_{ij} = \exp(-\|g_i - g_j\|^2 / 2t^2)` with
    lightly filtered spectra :math:`g`, so that it does not cross edges of the scene. It serves
    three times: spectra are averaged over it before the fit, it joins the spectral graph in
    the manifold term, and the learned features are averaged over it. Pixels without label
    take part in the fit as samples without label.

    Neighbouring pixels share what they are averaged from, so accuracy on randomly drawn test
    pixels says little about places far from the training pixels: evaluate with
    :class:`jplay.datasets.SpatialBlockSplit` as well.

    Parameters
    ----------
    estimator : JPlay, default=None
        The model; ``None`` for one layer with ``alpha=10``, ``gamma=0.1``. Its ``affinity`` is
        replaced by the spatial-spectral graph.
    radius : int, default=5
        Of the window, ``2 radius + 1`` pixels a side.
    edge_width : float, default=1.0
        Width ``t`` relative to the median distance of pixels in a window: the smaller, the
        less is averaged across edges.
    n_segments : int or None, default=None
        Where given, the window stops at the borders of about so many superpixels
        (scikit-image).
    smooth_features : bool, default=True
        Whether the learned features are averaged too.
    n_unlabelled : int, default=1000
        Pixels without label that take part in the fit, drawn at random; 0 for none.
    head : {"neighbors", "model"}, default="neighbors"
        Who decides on the averaged features: the nearest training pixel, or the model itself.
    random_state : int, RandomState instance or None, default=None
        Draws the unlabelled pixels.

    Attributes
    ----------
    model_ : JPlay
    graph_ : csr_array of shape (n_pixels, n_pixels)
        Of the image that was fitted.
    training_pixels_ : ndarray of int
        Positions of the labelled pixels in the flattened image.
    classes_ : ndarray of shape (n_classes,)

    Examples
    --------
    >>> from jplay import SpatialJPlay
    >>> from jplay.datasets import make_hyperspectral_scene
    >>> scene = make_hyperspectral_scene(random_state=0)
    >>> labels = scene.ground_truth.copy()
    >>> labels[:, ::2] = 0  # half of the columns are not known
    >>> class_map = SpatialJPlay(radius=2, n_unlabelled=200).fit_predict(scene.cube, labels)
    >>> class_map.shape == labels.shape
    True
    """

    _parameter_constraints: dict = {
        "estimator": [HasMethods(["fit", "transform", "predict"]), None],
        "radius": [Interval(Integral, 1, None, closed="left")],
        "edge_width": [Interval(Real, 0, None, closed="neither")],
        "n_segments": [Interval(Integral, 1, None, closed="left"), None],
        "smooth_features": ["boolean"],
        "n_unlabelled": [Interval(Integral, 0, None, closed="left")],
        "head": [StrOptions({"neighbors", "model"})],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        estimator=None,
        *,
        radius=5,
        edge_width=1.0,
        n_segments=None,
        smooth_features=True,
        n_unlabelled=1000,
        head="neighbors",
        random_state=None,
    ):
        self.estimator = estimator
        self.radius = radius
        self.edge_width = edge_width
        self.n_segments = n_segments
        self.smooth_features = smooth_features
        self.n_unlabelled = n_unlabelled
        self.head = head
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, cube, labels):
        """Learn from the labelled pixels of an image, with its other pixels.

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
        labels = _check_label_map(labels, cube.shape[:2]).ravel()
        rng = check_random_state(self.random_state)
        self.n_features_in_ = cube.shape[2]
        self.graph_ = self._graph(cube)
        X = self._smoothed(_pixels(cube), self.graph_)
        self.training_pixels_ = np.flatnonzero(labels)
        others = np.flatnonzero(labels == 0)
        drawn = rng.permutation(others)[: self.n_unlabelled]
        chosen = np.concatenate([self.training_pixels_, np.sort(drawn)])
        y = np.concatenate([labels[self.training_pixels_], np.full(len(drawn), -1)])
        model = JPlay(n_layers=1, alpha=10.0) if self.estimator is None else clone(self.estimator)
        model.set_params(affinity=self._affinity(X[chosen], restricted(self.graph_, chosen), model))
        self.model_ = model.set_params(unlabelled=-1).fit(X[chosen], y)
        self.classes_ = self.model_.classes_
        features = self._features(X, self.graph_)
        self._neighbor_rule = KNeighborsClassifier(n_neighbors=1).fit(
            features[self.training_pixels_], labels[self.training_pixels_]
        )
        return self

    def fit_predict(self, cube, labels):
        """Learn from an image and map its classes, in one call.

        Parameters
        ----------
        cube : array-like of shape (height, width, n_bands)
        labels : array-like of int of shape (height, width)

        Returns
        -------
        class_map : ndarray of shape (height, width)
        """
        self.fit(cube, labels)
        cube = _check_cube(cube)
        X = self._smoothed(_pixels(cube), self.graph_)
        return self._decided(X, self.graph_).reshape(cube.shape[:2])

    def transform(self, cube):
        """Features of every pixel.

        Parameters
        ----------
        cube : array-like of shape (height, width, n_bands)

        Returns
        -------
        features : ndarray of shape (height, width, n_components)
        """
        cube, X, graph = self._prepared(cube)
        return self._features(X, graph).reshape(*cube.shape[:2], -1)

    def predict(self, cube):
        """Class of every pixel.

        Parameters
        ----------
        cube : array-like of shape (height, width, n_bands)
            The image that was fitted, or another one with the same bands.

        Returns
        -------
        class_map : ndarray of shape (height, width)
        """
        cube, X, graph = self._prepared(cube)
        return self._decided(X, graph).reshape(cube.shape[:2])

    def score(self, cube, labels):
        """Share of the labelled pixels that are mapped to their class.

        Parameters
        ----------
        cube : array-like of shape (height, width, n_bands)
        labels : array-like of int of shape (height, width)
        """
        labels = _check_label_map(labels, np.shape(cube)[:2])
        return float(np.mean(self.predict(cube)[labels > 0] == labels[labels > 0]))

    def _prepared(self, cube):
        check_is_fitted(self, "model_")
        cube = _check_cube(cube)
        if cube.shape[2] != self.n_features_in_:
            raise ValueError(
                f"`cube` should have {self.n_features_in_} bands (as in fit), got "
                f"{cube.shape[2]}. Pass an image of the same sensor."
            )
        graph = self._graph(cube)
        return cube, self._smoothed(_pixels(cube), graph), graph

    def _graph(self, cube):
        """Window edges, weighed by how alike the lightly filtered spectra are."""
        guide = _pixels(uniform_filter(cube, (3, 3, 0), mode="nearest"))
        near = window_affinity(cube.shape[:2], self.radius)
        if self.n_segments is not None:
            regions = superpixels(_pixels(cube).reshape(cube.shape), self.n_segments)
            near = product_of_graphs(near, superpixel_affinity(regions, self.radius))
        alike = weighted_by_features(near, guide)
        alike.data **= 1 / self.edge_width**2
        return alike

    def _smoothed(self, X, graph):
        return smoother(graph).astype(X.dtype) @ X

    def _features(self, X, graph):
        features = self.model_.transform(X)
        return self._smoothed(features, graph) if self.smooth_features else features

    def _decided(self, X, graph):
        if self.head == "neighbors":
            return self._neighbor_rule.predict(self._features(X, graph))
        # The map is affine: averaging its input averages the features.
        return self.model_.predict(self._smoothed(X, graph) if self.smooth_features else X)

    def _affinity(self, X, spatial, model):
        n_neighbors = check_n_neighbors(model.n_neighbors, len(X))
        spectral, _ = heat_affinity(X, n_neighbors, model.bandwidth)
        return spectral if spatial.nnz == 0 else sum_of_graphs(spectral, spatial)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        return tags


def _pixels(cube):
    """Spectra (n_pixels, n_bands), each divided by its maximum."""
    return normalize(cube.reshape(-1, cube.shape[2]), norm="max")


def _check_cube(cube):
    cube = np.asarray(cube)
    if cube.ndim != 3:
        raise ValueError(
            f"`cube` should have shape (height, width, n_bands), got {cube.shape}. Reshape the "
            "samples to an image, or use JPlay for samples without place."
        )
    if cube.dtype not in (np.float32, np.float64):
        cube = cube.astype(np.float64)
    if not np.isfinite(cube).all():
        raise ValueError(
            "`cube` should hold finite values, got NaN or infinity. Replace missing values first."
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
