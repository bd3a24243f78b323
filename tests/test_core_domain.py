"""The subspace of a domain adapter: as many components as the samples span, and no more."""

import numpy as np
import pytest

from jplay import DomainJPlay


def domains(n_samples, n_features, rank, seed=0):
    """Samples of three classes, and of another camera, that span ``rank`` dimensions."""
    rng = np.random.default_rng(seed)
    basis = rng.normal(size=(rank, n_features))
    y = np.arange(n_samples) % 3
    X = (rng.normal(size=(n_samples, rank)) + 2 * rng.normal(size=(3, rank))[y]) @ basis
    return X, y


@pytest.mark.parametrize(
    ("n_features", "rank", "expected"),
    [
        (60, 60, 40),  # more than are wanted
        (60, 40, 40),  # just as many
        (60, 20, 20),  # fewer: all of them
        (60, 35, 30),  # fewer: as many as JPlay takes by itself
        (40, 40, 30),  # no more features than are wanted
        (8, 8, 8),
    ],
)
def test_components_are_forty_if_the_samples_span_them(n_features, rank, expected):
    X, y = domains(150, n_features, rank)
    model = DomainJPlay(n_rounds=0).fit(X, y)
    assert model.model_.components_.shape == (expected, n_features)
    assert model.score(X, y) > 0.9


def test_few_samples_bound_the_components():
    X, y = domains(36, 200, 200)
    model = DomainJPlay(n_rounds=0).fit(X, y)
    assert len(model.model_.components_) <= 35


def test_an_offset_of_the_domain_spans_nothing():
    X, y = domains(150, 60, 39)
    found = DomainJPlay(n_rounds=0).fit(X + 5.0, y)
    assert len(found.model_.components_) == 30
