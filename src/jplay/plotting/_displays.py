"""Displays in the style of scikit-learn: computed once, drawn as often as wanted.

After :meth:`plot` a display has ``axes_`` and ``figure_``.
"""

import numpy as np
from sklearn.utils.validation import check_is_fitted

from jplay.plotting._fits import plot_convergence, plot_subspaces
from jplay.plotting._reliance import feature_reliance, plot_reliance


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
    """The subspaces of a chain side by side, each along its two leading principal axes.

    Parameters
    ----------
    layers : list of ndarray of shape (n_samples, layer_sizes_[l])
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
        estimator : fitted estimator with ``transform_layers``
            JPlay or AutoRULe.
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
        layers = estimator.transform_layers(X)
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


class RelianceDisplay:
    """What each class relies on, as an image of classes by features.

    Parameters
    ----------
    reliance : ndarray of shape (n_classes, n_features)
        As :func:`feature_reliance` returns it.
    positions : array-like of shape (n_features,), optional
        E.g. wavelengths.
    class_names : sequence of str, optional
    x_label : str, optional

    Attributes
    ----------
    ax_ : matplotlib.axes.Axes
    figure_ : matplotlib.figure.Figure

    Examples
    --------
    >>> from jplay import JPlay
    >>> from jplay.plotting import RelianceDisplay
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = JPlay(n_components=3, n_layers=2).fit(X, y)
    >>> display = RelianceDisplay.from_estimator(model, X)
    """

    def __init__(self, *, reliance, positions=None, class_names=None, x_label=None):
        self.reliance = reliance
        self.positions = positions
        self.class_names = class_names
        self.x_label = x_label

    @classmethod
    def from_estimator(
        cls, estimator, X, *, positions=None, class_names=None, x_label=None, ax=None
    ):
        """Draw what the classes of a fitted linear model rely on.

        Parameters
        ----------
        estimator : fitted classifier with a linear ``decision_function``
        X : array-like of shape (n_samples, n_features)
            Samples that tell how much each feature varies.
        positions, class_names, x_label, ax
            As for :func:`plot_reliance`; names are the estimator's classes by default.

        Returns
        -------
        RelianceDisplay
        """
        display = cls(
            reliance=feature_reliance(estimator, X),
            positions=positions,
            class_names=estimator.classes_ if class_names is None else class_names,
            x_label=x_label,
        )
        return display.plot(ax=ax)

    def plot(self, *, ax=None):
        """Draw on ``ax``, or on new axes.

        Returns
        -------
        RelianceDisplay
        """
        self.ax_ = plot_reliance(
            self.reliance,
            positions=self.positions,
            class_names=self.class_names,
            x_label=self.x_label,
            ax=ax,
        )
        self.figure_ = self.ax_.figure
        return self
