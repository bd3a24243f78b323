"""scikit-learn's contract for every estimator."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from jplay import LPP, AutoRULe, JPlay


@pytest.mark.filterwarnings("ignore:`n_neighbors` should be less:UserWarning")
@parametrize_with_checks([LPP(), AutoRULe(), JPlay(), JPlay(n_layers=1, decision="projection")])
def test_estimator_fulfils_sklearn_contract(estimator, check):
    check(estimator)
