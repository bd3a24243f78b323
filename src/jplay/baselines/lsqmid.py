"""Least-squares quadratic mutual information derivative."""

from jplay.baselines._information import InformationSubspace
from jplay.core.information import QuadraticCriterion


class LSQMID(InformationSubspace):
    r"""Supervised subspace from a direct estimate of the derivative of quadratic information.

    Finds orthonormal ``components_`` that maximise the quadratic mutual information

    .. math:: \mathrm{QMI} = \frac12 \iint f(z, y)^2 \, dz \, dy, \qquad f = p(z, y) - p(z) p(y)

    between the projected samples :math:`z = W x` and the target. Only the derivative of
    :math:`f` is estimated: :math:`\partial f / \partial z_l = \theta_l^T \phi` with Gaussian bases
    :math:`\phi`, :math:`\theta_l = -(H + \lambda I)^{-1} h_l`, ``H`` the Gram matrix of the
    bases and :math:`h_l` the mean of their derivatives under ``f``. The climb uses

    .. math:: \frac{\partial \mathrm{QMI}}{\partial W_{ll'}} =
        \frac1n \sum_i g_l(z_i, y_i) x_{il'} - \frac1{n^2} \sum_{ij} g_l(z_j, y_i) x_{jl'}

    along geodesics of the Grassmann manifold. Classes enter as one-hot vectors.

    Parameters
    ----------
    n_components : int, default=2
        Dimension of the subspace.
    widths : array-like of float, default=(0.25, 0.5, 0.75, 1.0, 1.5, 2.0)
        Candidate widths of the Gaussian bases, as multiples of the median distance of
        the projected samples and of the targets. Cross-validation chooses; one
        candidate is taken as it is.
    regs : array-like of float, default=(0.001, 0.01, 0.1, 1.0)
        Candidate ridges :math:`\lambda`, as multiples of the diagonal of ``H``.
    n_centers : int, default=200
        Centers of the bases, drawn from the samples. Memory grows as
        ``n_samples * n_centers``.
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
        Chosen width of the bases in the subspace.
    target_width_ : float
        Chosen width of the bases in the target.
    reg_ : float
        Chosen ridge, as a multiple of the diagonal of ``H``.
    score_ : float
        Logarithm of twice the held-out estimate of the information at the solution.
    n_iter_ : int
        Steps of all climbs together.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Only when ``X`` has feature names that are all strings.

    References
    ----------
    V. Tangkaratt, H. Sasaki and M. Sugiyama, "Direct estimation of the derivative of
    quadratic mutual information with application in supervised dimension reduction",
    Neural Computation 29, 2017.

    Examples
    --------
    >>> import numpy as np
    >>> from jplay import LSQMID
    >>> X = np.random.default_rng(0).normal(size=(300, 5))
    >>> y = np.sin(2 * X[:, 3])
    >>> lsqmid = LSQMID(n_components=1, random_state=0).fit(X, y)
    >>> bool(abs(lsqmid.components_[0, 3]) > 0.98)
    True
    """

    def _criterion(self, samples, widths, regs):
        return QuadraticCriterion(samples, widths, regs)
