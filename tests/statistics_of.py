"""Class statistics of samples as the decision estimates them."""

import numpy as np
import scipy.sparse

from jplay.core.decision import estimate_covariance
from jplay.core.problem import prepare
from jplay.core.targets import encode_targets


def shrunk_covariance_of(X, y, tune=True):
    """Shrunk covariance within classes, and the statistics it comes from."""
    n_samples, n_features = X.shape
    ones = np.ones(n_samples - 1)
    path = scipy.sparse.csr_array(scipy.sparse.diags_array([ones, ones], offsets=[-1, 1]))
    targets = encode_targets(y)
    with prepare(X, targets, graph=path, reduce_features=False) as problem:
        statistics = estimate_covariance(problem, targets, tune=tune)
    return statistics.covariance()[:n_features, :n_features], statistics
