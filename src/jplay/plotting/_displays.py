"""Displays in the style of scikit-learn: computed once, drawn as often as wanted.

After :meth:`plot` a display has ``axes_`` and ``figure_``.
"""

import numpy as np
from sklearn.utils.validation import check_is_fitted

from jplay.inspection import feature_relevance
from jplay.plotting._fits import plot_convergence, plot_subspaces
from jplay.plotting._relevance import plot_relevance
from jplay.plotting._scenes import plot_spectra


class ConvergenceDisplay:
    """Objective and residuals over the iterations of a fit.

    Parameters
    ----------
    result : SolverResult
        ``result_`` of a fitted JPlay.

    Attributes
    ----------
    axes_ : ndarray of two matplotlib.axes.Axes
    figure_ : matplotlib.figure.Figure

    Examples
    --------
    >>> from jplay import JPlay
    >>> from jplay.plotting import ConvergenceDisplay
    >>> from sklearn.datasets import load_iris
    >>> model = JPlay(n_components=3, n_layers=2).fit(*load_iris(return_X_y=True))
    >>> display = ConvergenceDisplay.from_estimator(model)
    """

    def __init__(self, *, result):
        self.result = result

    @classmethod
    def from_estimator(cls, estimator, *, axes=None):
        """Draw the history of a fitted model.

        Parameters
        ----------
        estimator : fitted JPlay
        axes : pair of matplotlib.axes.Axes, optional

        Returns
        -------
        ConvergenceDisplay
        """
        check_is_fitted(estimator)
        return cls(result=estimator.result_).plot(axes=axes)

    def plot(self, *, axes=None):
        """Draw on ``axes``, or on new ones.

        Returns
        -------
        ConvergenceDisplay
        """
        self.axes_ = plot_convergence(self.result, axes=axes)
        self.figure_ = self.axes_[0].figure
        return self


class SubspaceDisplay:
    """The subspaces of a model side by side, each turned to agree with the one before it.

    Parameters
    ----------
    layers : list of ndarray of shape (n_samples, n_components)
        One per subspace.
    y : ndarray of shape (n_samples,)
    class_names : sequence of str, optional
        In the order of the sorted labels.

    Attributes
    ----------
    axes_ : ndarray of matplotlib.axes.Axes
    figure_ : matplotlib.figure.Figure

    Examples
    --------
    >>> from jplay import JPlay
    >>> from jplay.plotting import SubspaceDisplay
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = JPlay(n_components=3, n_layers=2).fit(X, y)
    >>> display = SubspaceDisplay.from_estimator(model, X, y)
    """

    def __init__(self, *, layers, y, class_names=None):
        self.layers = layers
        self.y = y
        self.class_names = class_names

    @classmethod
    def from_estimator(cls, estimator, X, y, *, class_names=None, axes=None):
        """Draw the subspaces of a fitted model.

        Parameters
        ----------
        estimator : fitted transformer
            All subspaces of a JPlay; the one subspace of any other, as AutoRULe or LPP.
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        class_names : sequence of str, optional
        axes : array-like of matplotlib.axes.Axes, optional
            One per layer.

        Returns
        -------
        SubspaceDisplay
        """
        check_is_fitted(estimator)
        chain = getattr(estimator, "transform_layers", None)
        layers = [estimator.transform(X)] if chain is None else chain(X)
        return cls(layers=layers, y=np.asarray(y), class_names=class_names).plot(axes=axes)

    def plot(self, *, axes=None):
        """Draw on ``axes``, or on new ones.

        Returns
        -------
        SubspaceDisplay
        """
        self.axes_ = plot_subspaces(self.layers, self.y, class_names=self.class_names, axes=axes)
        self.figure_ = self.axes_[0].figure
        return self


class RelevanceDisplay:
    """What each original feature adds to each class, as curves over wavelengths or as images.

    Parameters
    ----------
    shares : ndarray of shape (n_classes, n_features)
        As :meth:`FeatureRelevance.shares <jplay.inspection.FeatureRelevance.shares>` gives them.
    class_names, wavelengths, image_shape, spread
        As for :func:`plot_relevance`.

    Attributes
    ----------
    axes_ : ndarray of matplotlib.axes.Axes of shape (n_classes,)
    figure_ : matplotlib.figure.Figure

    Examples
    --------
    >>> from jplay import JPlay
    >>> from jplay.plotting import RelevanceDisplay
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = JPlay(n_components=3, n_layers=2).fit(X, y)
    >>> display = RelevanceDisplay.from_estimator(model, X, y)
    """

    def __init__(
        self, *, shares, class_names=None, wavelengths=None, image_shape=None, spread=None
    ):
        self.shares = shares
        self.class_names = class_names
        self.wavelengths = wavelengths
        self.image_shape = image_shape
        self.spread = spread

    @classmethod
    def from_estimator(
        cls,
        estimator,
        X,
        y,
        *,
        layer=None,
        class_names=None,
        wavelengths=None,
        image_shape=None,
        axes=None,
    ):
        """Draw what the classes of a fitted linear model rely on.

        Parameters
        ----------
        estimator : fitted classifier with a linear ``decision_function``
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_labels)
        layer : int, optional
            Position of a layer, from 0; by default the relevance for the decision.
        class_names, wavelengths, image_shape, axes
            As for :func:`plot_relevance`; names are the estimator's classes by default.

        Returns
        -------
        RelevanceDisplay
        """
        display = cls(
            shares=feature_relevance(estimator, X, y).shares(layer),
            class_names=estimator.classes_ if class_names is None else class_names,
            wavelengths=wavelengths,
            image_shape=image_shape,
        )
        return display.plot(axes=axes)

    def plot(self, *, axes=None):
        """Draw on ``axes``, or on new ones.

        Returns
        -------
        RelevanceDisplay
        """
        self.axes_ = plot_relevance(
            self.shares,
            class_names=self.class_names,
            wavelengths=self.wavelengths,
            image_shape=self.image_shape,
            spread=self.spread,
            axes=axes,
        )
        self.figure_ = self.axes_[0].figure
        return self


class BandsDisplay:
    """Chosen bands as lines over the mean spectra of the classes.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_bands)
    y : ndarray of shape (n_samples,)
    support : ndarray of bool of shape (n_bands,)
        Which bands are chosen.
    stability : ndarray of shape (n_bands,), optional
        Share of resamples in which each band is chosen: the more, the darker its line; bands
        that are chosen in resamples only have a dashed line.
    wavelengths : array-like of shape (n_bands,), optional
        In nm; by default bands are numbered.
    class_names : sequence of str, optional
        In the order of the sorted labels.

    Attributes
    ----------
    ax_ : matplotlib.axes.Axes
    lines_ : list of matplotlib.lines.Line2D
        One per band that has a line.
    figure_ : matplotlib.figure.Figure

    Examples
    --------
    >>> from jplay import JPlayBandSelector
    >>> from jplay.datasets import make_hyperspectral_scene
    >>> from jplay.plotting import BandsDisplay
    >>> scene = make_hyperspectral_scene(random_state=0)
    >>> X, y = scene.data[::5], scene.target[::5]
    >>> selector = JPlayBandSelector(4, min_distance=3).fit(X, y)
    >>> display = BandsDisplay.from_estimator(selector, X, y, wavelengths=scene.wavelengths)
    """

    def __init__(self, *, X, y, support, stability=None, wavelengths=None, class_names=None):
        self.X = X
        self.y = y
        self.support = support
        self.stability = stability
        self.wavelengths = wavelengths
        self.class_names = class_names

    @classmethod
    def from_estimator(cls, estimator, X, y, *, wavelengths=None, class_names=None, ax=None):
        """Draw the bands that a fitted selector chose.

        Parameters
        ----------
        estimator : fitted selector
            :class:`jplay.JPlayBandSelector`, or any of scikit-learn's.
        X : array-like of shape (n_samples, n_bands)
        y : array-like of shape (n_samples,)
        wavelengths : array-like of shape (n_bands,), optional
        class_names : sequence of str, optional
        ax : matplotlib.axes.Axes, optional

        Returns
        -------
        BandsDisplay
        """
        display = cls(
            X=np.asarray(X),
            y=np.asarray(y),
            support=estimator.get_support(),
            stability=getattr(estimator, "stability_", None),
            wavelengths=wavelengths,
            class_names=class_names,
        )
        return display.plot(ax=ax)

    def plot(self, *, ax=None):
        """Draw on ``ax``, or on new axes.

        Returns
        -------
        BandsDisplay
        """
        self.ax_ = plot_spectra(
            self.X,
            self.y,
            wavelengths=self.wavelengths,
            class_names=self.class_names,
            spread=False,
            ax=ax,
        )
        n_bands = len(self.support)
        places = np.arange(n_bands) if self.wavelengths is None else np.asarray(self.wavelengths)
        share = np.ones(n_bands) if self.stability is None else np.asarray(self.stability)
        self.lines_ = [
            self.ax_.axvline(
                places[band],
                color="black",
                alpha=0.25 + 0.55 * share[band] if self.support[band] else 0.5 * share[band],
                linestyle="-" if self.support[band] else "--",
                linewidth=1,
                zorder=0.5,
            )
            for band in range(n_bands)
            if self.support[band] or (self.stability is not None and share[band] > 0)
        ]
        self.figure_ = self.ax_.figure
        return self
