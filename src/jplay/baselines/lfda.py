"""Local Fisher discriminant analysis."""

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator, _fit_context
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from jplay._estimator_base import (
    CenteredTransformer,
    check_n_components,
    check_squares,
    float_dtypes,
)
from jplay._fitting import stores_at_end
from jplay.baselines._linalg import fix_signs, reduce_to_row_space, solve_eigenproblem
from jplay.core.arrays import (
    Array,
    identity,
    is_numpy,
    like,
    namespace,
    to_numpy,
    zeros_like_shape,
)

BLOCK_ELEMENTS = 4_000_000
"""Maximum number of entries of the distances between samples of a class, which are made in blocks
of rows: 32 MB. Larger blocks take more memory. Chosen by hand."""


class LFDA(CenteredTransformer, BaseEstimator):
    r"""Local Fisher discriminant analysis.

    Finds directions that keep neighboring samples of the same class together and
    samples of different classes apart; samples of one class that are far from each
    other, such as those of separate clusters, are left alone. It solves

    .. math:: S_{lb} a = \lambda S_{lw} a

    for the largest eigenvalues, with :math:`S = \frac12 \sum_{ij} w_{ij}
    (x_i - x_j)(x_i - x_j)^T` and weights :math:`A_{ij} / n_c` (within) and
    :math:`A_{ij} (1 / n - 1 / n_c)` (between) for two samples of class ``c``, 0 and
    :math:`1 / n` for two of different classes. :math:`A_{ij} = \exp(-|x_i - x_j|^2 /
    (s_i s_j))`, where :math:`s_i` is the distance to the ``n_neighbors``-th neighbor
    of the same class.

    Parameters
    ----------
    n_components : int, default=None
        Dimension of the subspace. ``None`` keeps as many as the rank of the local
        within-class scatter allows.
    n_neighbors : int, default=7
        Neighbor of the same class whose distance scales the affinity. Classes with
        fewer samples use their farthest one.
    embedding : {"weighted", "orthonormalized", "plain"}, default="weighted"
        Scale of the directions: multiplied by the square root of their eigenvalue, made
        orthonormal, or as they are, which makes the within-class scatter the identity.
    reg : float, default=0.0
        Ridge added to the within-class scatter, as a fraction of its mean eigenvalue. With
        0, directions in which the scatter vanishes are left out; a positive value
        keeps them and steadies the estimate where samples are few.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The directions, largest eigenvalue first.
    eigenvalues_ : ndarray of shape (n_components,)
        Ratio of local between-class to within-class scatter of every direction.
    classes_ : ndarray of shape (n_classes,)
    mean_ : ndarray of shape (n_features,)
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Only when ``X`` has feature names that are all strings.

    References
    ----------
    M. Sugiyama, "Dimensionality reduction of multimodal labeled data by local Fisher
    discriminant analysis", Journal of Machine Learning Research 8, 2007.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from jplay import LFDA
    >>> X, y = load_wine(return_X_y=True)
    >>> LFDA(n_components=2).fit(X, y).transform(X).shape
    (178, 2)
    """

    _parameter_constraints = {
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "n_neighbors": [Interval(Integral, 1, None, closed="left")],
        "embedding": [StrOptions({"weighted", "orthonormalized", "plain"})],
        "reg": [Interval(Real, 0, 1e10, closed="both")],
    }

    def __init__(
        self,
        n_components: int | None = None,
        *,
        n_neighbors: int = 7,
        embedding: Literal["weighted", "orthonormalized", "plain"] = "weighted",
        reg: float = 0.0,
    ) -> None:
        self.n_components = n_components
        self.n_neighbors = n_neighbors
        self.embedding = embedding
        self.reg = reg

    @stores_at_end
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> Self:
        """Learn the subspace.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Class labels.

        Returns
        -------
        self : LFDA
        """
        X, y = validate_data(self, X, y, dtype=float_dtypes(X), ensure_min_samples=2)
        check_squares(X)
        check_classification_targets(y)
        classes, codes = np.unique(to_numpy(y), return_inverse=True)
        if len(classes) < 2:
            raise ValueError(
                "LFDA needs samples of at least 2 classes, got 1 class. "
                "Use an unsupervised method such as NPE or PCA."
            )
        if self.n_components is not None:
            check_n_components(
                self.n_components,
                X.shape[1],
                f"the number of features, n_features={X.shape[1]}",
                "Choose fewer components.",
            )
        xp = namespace(X)
        samples = xp.astype(X, xp.float64)
        members = [like(np.flatnonzero(codes == c), X, dtype=xp.int64) for c in range(len(classes))]
        mean = xp.mean(samples, axis=0)
        coordinates, basis = reduce_to_row_space(samples - mean)
        within, between = local_scatters(coordinates, members, self.n_neighbors)
        if self.reg > 0:
            ridge = self.reg * xp.linalg.trace(within) / X.shape[1]
            within = within + ridge * identity(within.shape[0], within)
        values, vectors = solve_eigenproblem(between, within, self.n_components)
        n_found = values.shape[0]
        if n_found == 0:
            raise ValueError(
                "The local within-class scatter is zero: no class has two different samples. "
                "LFDA needs some; use PCA, or give classes more samples."
            )
        check_n_components(
            self.n_components or n_found,
            n_found,
            "the rank of the local within-class scatter",
            "Choose fewer components, give more samples per class, or set `reg` above 0.",
        )
        vectors = vectors if basis is None else basis @ vectors
        if self.embedding == "weighted":
            vectors = vectors * xp.sqrt(xp.where(values > 0, values, xp.zeros_like(values)))
        elif self.embedding == "orthonormalized":
            vectors, _ = xp.linalg.qr(vectors)
        self.classes_ = classes
        self.components_ = xp.astype(fix_signs(vectors.mT), X.dtype)
        self.eigenvalues_ = xp.astype(values, X.dtype)
        self.mean_ = xp.astype(mean, X.dtype)
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


def local_scatters(
    X: Array, class_indices: Sequence[Array], n_neighbors: int = 7
) -> tuple[Array, Array]:
    """Return the local scatter matrices within and between classes.

    The pairwise definition is ``1/2 sum_ij w_ij (x_i - x_j)(x_i - x_j)^T`` with weights

    - within: ``A_ij / n_c`` for two samples of class ``c``, zero for different classes;
    - between: ``A_ij (1 / n - 1 / n_c)`` for the same class ``c``, ``1 / n`` for different ones.

    Both are summed per class here, in ``O(n_c^2 d + n d^2)``.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
    class_indices : list of integer arrays
        Indices of the samples of each class.
    n_neighbors : int, default=7

    Returns
    -------
    within, between : arrays of shape (n_features, n_features)
    """
    xp = namespace(X)
    n_samples, n_features = X.shape
    X = X - xp.mean(X, axis=0)
    within = zeros_like_shape((n_features, n_features), X)
    between = zeros_like_shape((n_features, n_features), X)
    for indices in class_indices:
        members = xp.take(X, indices, axis=0)
        n_members = members.shape[0]
        scatter = local_class_scatter(members, n_neighbors)
        total = xp.sum(members, axis=0)
        within = within + scatter / n_members
        between = between + (
            scatter / n_samples
            + (1 - n_members / n_samples) * (members.mT @ members)
            + total[:, None] * total[None, :] / n_samples
        )
    # The sum of all rows is zero after centering, so its outer product drops out.
    between = between - within
    return within, (between + between.mT) / 2


def local_class_scatter(X: Array, n_neighbors: int = 7) -> Array:
    """Return ``X^T (diag(A 1) - A) X`` of one class with local scaling.

    ``A_ij = exp(-|x_i - x_j|^2 / (s_i s_j))``, ``s_i`` the distance of sample ``i`` to its
    ``n_neighbors``-th nearest neighbor in ``X`` (to the farthest sample where there are
    fewer). ``A`` is made in blocks of rows.

    Parameters
    ----------
    X : array of shape (n_class_samples, n_features)
    n_neighbors : int, default=7

    Returns
    -------
    scatter : array of shape (n_features, n_features)
    """
    xp = namespace(X)
    n_samples, n_features = X.shape
    scatter = zeros_like_shape((n_features, n_features), X)
    if n_samples == 1:
        return scatter
    X = X - xp.mean(X, axis=0)
    norms = xp.sum(X * X, axis=1)
    height = max(1, BLOCK_ELEMENTS // n_samples)
    blocks = [slice(i, min(i + height, n_samples)) for i in range(0, n_samples, height)]
    neighbor = min(n_neighbors, n_samples - 1)
    widths = xp.concat(
        [
            xp.sqrt(select_kth(squared_distances(X[rows, :], X, norms[rows], norms), neighbor))
            for rows in blocks
        ]
    )
    for rows in blocks:
        distances = squared_distances(X[rows, :], X, norms[rows], norms)
        affinity = scale_affinity(distances, widths[rows], widths)
        degrees = xp.sum(affinity, axis=1)
        scatter = scatter + X[rows, :].mT @ (degrees[:, None] * X[rows, :] - affinity @ X)
    return (scatter + scatter.mT) / 2


def squared_distances(rows: Array, X: Array, row_norms: Array, norms: Array) -> Array:
    """Return squared distances, with zero for what rounding cannot distinguish from zero."""
    xp = namespace(rows, X)
    scale = row_norms[:, None] + norms[None, :]
    distances = scale - 2 * (rows @ X.mT)
    noise = 4 * X.shape[1] * float(xp.finfo(X.dtype).eps) * scale
    return xp.where(distances > noise, distances, xp.zeros_like(distances))


def select_kth(values: Array, k: int) -> Array:
    """Return the ``k``-th smallest entry (from zero) of every row."""
    if is_numpy(values):
        return np.partition(values, k, axis=1)[:, k]
    return namespace(values).sort(values, axis=1)[:, k]


def scale_affinity(distances: Array, row_widths: Array, widths: Array) -> Array:
    """Return ``exp(-d_ij / (s_i s_j))``; if a scale is zero, one for duplicates and zero else."""
    xp = namespace(distances)
    product = row_widths[:, None] * widths[None, :]
    positive = product > 0
    safe = xp.where(positive, product, xp.ones_like(product))
    duplicate = xp.astype(distances == 0, distances.dtype)
    return xp.where(positive, xp.exp(-distances / safe), duplicate)
