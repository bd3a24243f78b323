"""What the estimators share whose transform is one matrix product."""

from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils._array_api import get_namespace, supported_float_dtypes
from sklearn.utils.validation import check_is_fitted, validate_data

from jplay._array_api import like
from jplay.estimators._large import by_rows


def float_dtypes(X):
    """Single and double precision of the library of ``X``, for scikit-learn's validation.

    Half precision is converted to the first, since products of samples overflow it.
    """
    xp, _ = get_namespace(X)
    return [dtype for dtype in supported_float_dtypes(xp) if xp.finfo(dtype).bits >= 32]


def check_n_components(n_components, upper, upper_name, remedy):
    """Raise a ``ValueError`` when ``n_components`` is larger than ``upper``."""
    if n_components > upper:
        raise ValueError(
            f"`n_components` should be at most {upper} ({upper_name}), got {n_components}. {remedy}"
        )


class LinearTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin):
    """Mixin of estimators with ``transform(X) = (X - mean_) @ components_.T``.

    ``fit`` stores ``components_`` of shape (n_components, n_features) and ``mean_`` of
    shape (n_features,), both in the dtype of the training samples.
    """

    @by_rows
    def transform(self, X):
        """Project samples on the learned subspace.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        X_new : ndarray of shape (n_samples, n_components)
        """
        check_is_fitted(self, "components_")
        X = validate_data(self, X, dtype=float_dtypes(X), reset=False)
        components, mean = like(self.components_, X), like(self.mean_, X)
        return X @ components.mT - components @ mean

    @property
    def _n_features_out(self):
        return self.components_.shape[0]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.array_api_support = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
