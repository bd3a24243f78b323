"""Features that outnumber samples: no estimator forms a matrix of features by features."""

import tracemalloc

import numpy as np
import pytest

import jplay

N_SAMPLES, N_FEATURES = 20, 30_000
QUICK = {"max_iter": 3, "n_restarts": 0}


@pytest.mark.parametrize(
    "estimator",
    [
        jplay.JPlay(),
        jplay.JPlay(n_layers=2),
        jplay.JPlay(2, solver="paper"),
        jplay.JPlayCommittee(15, random_state=0),
        jplay.JPlayRegressor(),
        jplay.LiftedJPlay(),
        jplay.MultiTaskJPlay(),
        jplay.AutoRULe(3),
        jplay.LPP(),
        jplay.NPE(2),
        jplay.LFDA(1),
        jplay.LSDR(1, **QUICK),
        jplay.LSQMID(1, **QUICK),
        jplay.CanonicalCorrelationForestClassifier(10),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_wide_samples_take_less_than_a_gibibyte(estimator):
    rng = np.random.default_rng(0)
    y = np.arange(N_SAMPLES) % 2
    X = rng.random((N_SAMPLES, N_FEATURES))
    X[:, :50] += y[:, None]
    tracemalloc.start()
    try:
        estimator.fit(X, y)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2**30  # one matrix of features by features takes 6.7
