"""What JPlay and AutoRULe share: an affine first layer, the row space, the chain of maps."""

import math
import warnings
from contextlib import contextmanager

from sklearn.exceptions import ConvergenceWarning

from jplay._array_api import namespace
from jplay.estimators._validation import build_affinity, check_scale
from jplay.exceptions import CollapsedSolutionError
from jplay.solvers.samples import ArraySamples
from jplay.solvers.threads import sample_threads


def needs_intercept(X, fit_intercept):
    """Whether the first layer is affine.

    A linear map cannot be non-negative on samples that lie on both sides of the origin, so
    ``"auto"`` asks whether some sample has a non-positive inner product with the mean.
    """
    if fit_intercept != "auto":
        return bool(fit_intercept)
    xp = namespace(X)
    return bool(xp.min(X @ xp.mean(X, axis=0)) <= 0)


class FirstLayer:
    """The way from the solver's first layer back to the user's features.

    Parameters
    ----------
    n_features : int
        Number of the user's features.
    constant : float, default=None
        Value of the further feature that makes the layer affine, if there is one.
    basis : array of shape (n_features, n_rows), default=None
        Orthonormal basis of the row space in whose coordinates the solver works.
    """

    def __init__(self, n_features, constant=None, basis=None):
        self.n_features = n_features
        self.constant = constant
        self.basis = basis

    def first_projection(self, theta):
        """Projection and intercept for the user's features from the solver's first layer."""
        xp = namespace(theta)
        if self.basis is not None:
            theta = theta @ xp.astype(self.basis, theta.dtype).mT
        if self.constant is None:
            return theta, xp.zeros_like(theta[:, 0])
        return theta[:, : self.n_features], theta[:, self.n_features] * self.constant


class FirstLayerInput(FirstLayer):
    """The samples as the solver sees them, and the way back to the user's features.

    A constant feature as large as the largest sample norm makes the first layer affine. Where
    features outnumber samples, coordinates in an orthonormal basis of the row space replace
    them: every iterate lies in it.
    """

    def __init__(self, X, fit_intercept):
        xp = namespace(X)
        super().__init__(X.shape[1])
        if needs_intercept(X, fit_intercept):
            self.constant = float(xp.max(xp.linalg.vector_norm(X, axis=1))) or 1.0
            X = xp.concat([X, self.constant * xp.ones_like(X[:, :1])], axis=1)
        if X.shape[1] > X.shape[0]:
            self.basis, coordinates = xp.linalg.qr(X.mT)
            X = xp.asarray(coordinates.mT, copy=True)
        self.X = X


@contextmanager
def prepared_samples(
    X, Y, *, affinity, n_neighbors, bandwidth, fit_intercept, n_components, label_weight=None
):
    """Graph, first-layer input and threads for a fit.

    Yields ``(samples, first_input, affinity, bandwidth)``.
    """
    check_scale(X, 1e-4, 1e6)
    work = X.shape[0] * X.shape[1] * (n_components or X.shape[1])
    with sample_threads(work) as pool:
        graph, width = build_affinity(X, affinity, n_neighbors, bandwidth)
        first_input = FirstLayerInput(X, fit_intercept)
        samples = ArraySamples(first_input.X, Y, graph, pool, label_weight)
        yield samples, first_input, graph, width


def raise_if_collapsed(X_root, components, n_samples, fit_intercept):
    """Refuse a solution whose training features are numerically zero.

    Features fill the unit ball, or reach the samples' own norms where these are smaller. Where
    only zero is feasible the solver approaches it without end, so a thousandth of that is zero.

    Parameters
    ----------
    X_root : array
        Rows with the second moments of the training samples.
    components : array of shape (n_components, n_features)
    n_samples : int
    fit_intercept : bool or "auto"
    """
    xp = namespace(X_root)
    size = float(xp.linalg.vector_norm(X_root @ components.mT)) / math.sqrt(n_samples)
    sample_size = float(xp.linalg.vector_norm(X_root)) / math.sqrt(n_samples)
    if not size > 1e-3 * min(1.0, sample_size):
        if sample_size < 0.1:
            remedy = "Scale the samples to norms near one."
        elif fit_intercept is not True:
            remedy = (
                "Set `fit_intercept=True`: centred samples cannot all be projected to "
                "non-negative features by a linear map."
            )
        else:
            remedy = "Lower `beta` and `eta`."
        raise CollapsedSolutionError(
            f"The constraints left only the zero projection (root mean square norm of the "
            f"training features {size:.1g}). {remedy}"
        )


def warn_if_not_converged(status, name):
    if not status.converged:
        warnings.warn(
            f"{name} did not converge: {status.message}.", ConvergenceWarning, stacklevel=3
        )
