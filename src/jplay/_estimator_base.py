"""Common parts of estimators and baselines: checks, problems, transforms by one matrix product."""

import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._array_api import get_namespace, supported_float_dtypes
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from jplay._rowwise import by_rows
from jplay.core.arrays import is_numpy, like, namespace
from jplay.core.blocked import is_in_blocks, prepare_blocks
from jplay.core.checks import check_scale
from jplay.core.problem import Problem, prepare
from jplay.core.result import Status
from jplay.core.samples import split_rows
from jplay.core.targets import Targets

GRAPH_CONSTRAINTS = {"graph": [callable, "array-like", "sparse matrix", None]}
MODEL_CONSTRAINTS = {
    "constraints": [StrOptions({"both", "nonnegative", "unit_ball"}), None],
    "reconstruction": ["boolean"],
}

_CACHED_BYTES = 2**18  # size of a block of products that stays in cache until it is checked


def float_dtypes(X: Any) -> list:
    """Return single and double precision of the library of ``X``, for scikit-learn's validation.

    Half precision is converted to the first, since products of samples overflow it.
    """
    xp, _ = get_namespace(X)
    return [dtype for dtype in supported_float_dtypes(xp) if xp.finfo(dtype).bits >= 32]


def validated_samples(estimator: Any, X: Any) -> Any:
    """Validate the samples of a fit without labels; samples in blocks are validated when read."""
    if is_in_blocks(X):
        return X
    return validate_data(estimator, X, dtype=float_dtypes(X), ensure_min_samples=2)


def prepare_problem(
    X: Any, targets: Targets | None, **settings: Any
) -> AbstractContextManager[Problem]:
    """Prepare the problem of samples wherever they are, see :func:`jplay.core.problem.prepare`."""
    return (prepare_blocks if is_in_blocks(X) else prepare)(X, targets, **settings)


@contextmanager
def translate_linalg_errors() -> Iterator[None]:
    """Raise a ``ValueError`` with a remedy if equations cannot be solved."""
    try:
        yield
    except (np.linalg.LinAlgError, OverflowError) as error:
        raise ValueError(
            f"The equations of the fit could not be solved in double precision ({error}). Bring "
            "the weights (alpha, beta, gamma, eta) nearer to one, and scale the samples."
        ) from error


def warn_if_not_converged(status: Status, name: str) -> None:
    if not status.converged:
        warnings.warn(
            f"{name} did not converge: {status.message}.", ConvergenceWarning, stacklevel=3
        )


def check_squares(X: Any) -> None:
    """Raise a ``ValueError`` if squares of the samples leave the range of double precision."""
    xp = namespace(X)
    check_scale(xp.astype(X, xp.float64), "norm", power=0.4)


def check_n_components(n_components: int, upper: int, upper_name: str, remedy: str) -> None:
    """Raise a ``ValueError`` when ``n_components`` is larger than ``upper``."""
    if n_components > upper:
        raise ValueError(
            f"`n_components` should be at most {upper} ({upper_name}), got {n_components}. {remedy}"
        )


def _affine(X: Any, matrix: Any, offset: Any) -> tuple[Any, bool]:
    """Return ``X @ matrix.T + offset``, and whether all of it is finite."""
    xp = namespace(X)
    Z = X @ matrix.mT + offset
    return Z, bool(xp.all(xp.isfinite(Z)))


def _affine_in_cache(X: Any, matrix: Any, offset: Any) -> tuple[Any, bool]:
    """Return what ``_affine`` returns; sum and check find the product of NumPy arrays in cache."""
    matrix = np.ascontiguousarray(matrix.T)
    Z = np.empty((X.shape[0], matrix.shape[1]), dtype=X.dtype)
    size = min(X.shape[0], max(64, _CACHED_BYTES // offset.nbytes))
    offsets = np.tile(offset, (size, 1))  # a sum of short rows takes longer, row by row
    finite = True
    for rows in split_rows(X.shape[0], size):
        block = np.matmul(X[rows], matrix, out=Z[rows])
        block += offsets[: len(block)]
        finite = finite and bool(np.isfinite(block).all())
    return Z, finite


class AffineTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin):
    """Mixin of estimators with ``transform(X) = X @ matrix.T + offset``, given by ``_affine_map``.

    ``fit`` stores ``components_`` of shape (n_components, n_features), in the dtype of the
    training samples.
    """

    @by_rows
    def transform(self, X: Any) -> Any:
        """Project samples on the learned subspace with one matrix product.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        X_new : ndarray of shape (n_samples, n_components)
        """
        check_is_fitted(self, "components_")
        return self._product(X, *self._affine_map)

    def _product(self, X, matrix, offset):
        """``X @ matrix.T + offset`` of samples as they come, in one pass over them.

        A value that is not finite makes the result so, which is far smaller: only then are the
        samples looked through for it.
        """
        checks = {"dtype": float_dtypes(X), "reset": False}
        X = validate_data(self, X, ensure_all_finite=False, **checks)
        matrix, offset = like(matrix, X), like(offset, X)
        affine = _affine_in_cache if is_numpy(X) else _affine
        with np.errstate(invalid="ignore"):
            Z, finite = affine(X, matrix, offset)
        if not finite:
            validate_data(self, X, **checks)
        return Z

    @property
    def _n_features_out(self):
        return self.components_.shape[0]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.array_api_support = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class CenteredTransformer(AffineTransformer):
    """Mixin of estimators with ``transform(X) = (X - mean_) @ components_.T``."""

    @property
    def _affine_map(self):
        return self.components_, -self.components_ @ self.mean_


class ReconstructingTransformer(AffineTransformer):
    """Mixin of estimators with ``transform(X) = X @ components_.T + intercept_`` and an inverse."""

    @property
    def _affine_map(self):
        return self.components_, self.intercept_

    def inverse_transform(self, X: Any) -> Any:
        """Rebuild samples from their features, through the transposed map.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components)
            Features as :meth:`transform` gives them.

        Returns
        -------
        X_original : ndarray of shape (n_samples, n_features)
        """
        check_is_fitted(self, "components_")
        return self._rebuilt(self._checked_features(X))

    def _rebuilt(self, Z):
        return Z @ self.components_

    def _checked_features(self, X):
        """Features as ``transform`` gives them, validated."""
        X = check_array(X, dtype=float_dtypes(X))
        n_components = self.components_.shape[0]
        if X.shape[1] != n_components:
            raise ValueError(
                f"`X` should have {n_components} features (the dimension of the subspace), "
                f"got {X.shape[1]}. Pass the output of transform."
            )
        return X
