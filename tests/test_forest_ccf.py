from sklearn.utils.estimator_checks import parametrize_with_checks

from jplay.forest import (
    CanonicalCorrelationForestClassifier,
    CanonicalCorrelationForestRegressor,
)


@parametrize_with_checks(
    [
        CanonicalCorrelationForestClassifier(15, random_state=0),
        CanonicalCorrelationForestRegressor(15, random_state=0),
    ]
)
def test_forest_follows_scikit_learn(estimator, check):
    check(estimator)
