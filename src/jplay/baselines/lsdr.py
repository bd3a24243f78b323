"""Least-squares dimensionality reduction."""

from jplay.baselines._information import InformationSubspace
from jplay.core.information import SquaredLossCriterion


class LSDR(InformationSubspace):
    r"""Least-squares dimensionality reduction: the subspace with most squared-loss information.

    Finds orthonormal ``components_`` that maximise the squared-loss mutual information

    .. math:: \frac12 \iint \Bigl(\frac{p(z, y)}{p(z) p(y)} - 1\Bigr)^2 p(z) p(y) \, dz \, dy

    between the projected samples :math:`z = W x` and the target. The density ratio is
    fitted by least squares in the bases :math:`K_z(z, z_k) K_y(y, y_k)` at ``n_centers`` of the
    samples, and the estimate :math:`h^T a - \frac12 a^T H a` with
    :math:`a = (H + \lambda I)^{-1} h` is maximized by conjugate gradients along geodesics of the
    Grassmann manifold. Any kind of dependence on the target counts, not only that of means.

    Parameters
    ----------
    n_components : int, default=2
        Dimension of the subspace.
    widths : array-like of float, default=(0.25, 0.5, 0.75, 1.0, 1.5, 2.0)
        Candidate widths of the Gaussian kernels, as multiples of the median distance
        of the projected samples (and of real targets). Cross-validation chooses; one
        candidate is taken as it is.
    regs : array-like of float, default=(0.001, 0.01, 0.1, 1.0)
        Candidate ridges :math:`\lambda`, as multiples of the mean diagonal of ``H``.
    n_centers : int, default=200
        Kernel centers, drawn from the samples. Memory grows as ``n_samples * n_centers``.
    cv : int, default=5
        Folds of the cross-validation.
    init : {"auto", "pca", "gradient", "random"}, default="auto"
        Starts before the random ones: the principal axes, the directions along which kernel
        regressions of the target change most, both, or none.
    n_restarts : int, default=2
        Random starts. All starts are climbed for a few steps; the best goes on.
    max_iter : int, default=100
        Steps of one climb; the settings are chosen again after each.
    tol : float, default=1e-3
        A climb ends when a step gains less than this part of the climb so far.
    target_type : {"auto", "classes", "real"}, default="auto"
        ``"auto"`` takes integers and strings as classes, several columns of 0 and 1 as label
        indicators and everything else as real values.
    random_state : int, RandomState instance or None, default=None
        Draws centers, folds and random starts.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Orthonormal rows.
    mean_ : ndarray of shape (n_features,)
    width_ : float
        Chosen width of the kernel on projected samples.
    target_width_ : float or None
        Chosen width of the kernel on targets; ``None`` for classes, whose kernel is equality.
    reg_ : float
        Chosen ridge :math:`\lambda`.
    score_ : float
        Held-out estimate of the information (plus 1/2) at the solution.
    n_iter_ : int
        Steps of all climbs together.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Only when ``X`` has feature names that are all strings.

    References
    ----------
    T. Suzuki and M. Sugiyama, "Sufficient dimension reduction via squared-loss mutual
    information estimation", Neural Computation 25, 2013.

    Examples
    --------
    >>> import numpy as np
    >>> from jplay import LSDR
    >>> X = np.random.default_rng(0).normal(size=(300, 5))
    >>> y = X[:, 1] ** 2 > 0.5
    >>> lsdr = LSDR(n_components=1, random_state=0).fit(X, y)
    >>> bool(abs(lsdr.components_[0, 1]) > 0.98)
    True
    """

    def _criterion(self, samples, widths, regs):
        return SquaredLossCriterion(samples, widths, regs)

    def _ignores_target_width(self, samples):
        return samples.are_classes
