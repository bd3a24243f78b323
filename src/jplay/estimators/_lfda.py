"""Local Fisher discriminant analysis."""

from numbers import Integral, Real
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator, _fit_context
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from jplay._array_api import like, namespace, to_numpy
from jplay._fitting import stores_at_end
from jplay.estimators._linear import (
    CenteredTransformer,
    check_n_components,
    check_squares,
    float_dtypes,
)
from jplay.solvers.spectral import solve_lfda


class LFDA(CenteredTransformer, BaseEstimator):
    r"""Local Fisher discriminant analysis.

    Finds directions that keep neighbouring samples of the same class together and
    samples of different classes apart; samples of one class that are far from each
    other, such as those of separate clusters, are left alone. It solves

    .. math:: S_{lb} a = \lambda S_{lw} a

    for the largest eigenvalues, with :math:`S = \frac12 \sum_{ij} w_{ij}
    (x_i - x_j)(x_i - x_j)^T` and weights :math:`A_{ij} / n_c` (within) and
    :math:`A_{ij} (1 / n - 1 / n_c)` (between) for two samples of class ``c``, 0 and
    :math:`1 / n` for two of different classes. :math:`A_{ij} = \exp(-|x_i - x_j|^2 /
    (s_i s_j))`, where :math:`s_i` is the distance to the ``n_neighbors``-th neighbour
    of the same class.

    Parameters
    ----------
    n_components : int, default=None
        Dimension of the subspace. ``None`` keeps as many as the rank of the local
        within-class scatter allows.
    n_neighbors : int, default=7
        Neighbour of the same class whose distance scales the affinity. Classes with
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
        self.classes_, codes = np.unique(to_numpy(y), return_inverse=True)
        if len(self.classes_) < 2:
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
        result = solve_lfda(
            xp.astype(X, xp.float64),
            [
                like(np.flatnonzero(codes == c), X, dtype=xp.int64)
                for c in range(len(self.classes_))
            ],
            self.n_components,
            n_neighbors=self.n_neighbors,
            embedding=self.embedding,
            reg=self.reg,
        )
        n_found = result.components.shape[0]
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
        self.components_ = xp.astype(result.components, X.dtype)
        self.eigenvalues_ = xp.astype(result.eigenvalues, X.dtype)
        self.mean_ = xp.astype(result.mean, X.dtype)
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags
