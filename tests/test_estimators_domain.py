"""Labels in one domain, samples in another: what counts, what does not, what is refused."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.utils.estimator_checks import parametrize_with_checks

from closeness import assert_close
from jplay import DomainJPlay, JPlay
from jplay.blocks import blocked

N = 150
SEEN = slice(2 * N)


@pytest.fixture(scope="module")
def domains():
    """Five classes; the classes of the target, in other units, are displaced each by itself."""
    rng = np.random.default_rng(0)
    y = np.arange(3 * N) % 5
    means = 2.0 * rng.normal(size=(5, 12))
    X = means[y] + rng.normal(size=(3 * N, 12))
    domain = np.where(np.arange(3 * N) < N, 1, -2)
    moved = means + 1.3 * rng.normal(size=(5, 12))
    X[N:] = 30 + 7 * (moved[y[N:]] + rng.normal(size=(2 * N, 12)))
    return X, y, domain


def lda():
    return LinearDiscriminantAnalysis()


@parametrize_with_checks([DomainJPlay(), DomainJPlay(lda(), n_rounds=2)])
def test_domain_jplay_fulfils_sklearn_contract(estimator, check):
    check(estimator)


def test_the_target_draws_the_classes_to_itself(domains):
    X, y, domain = domains
    new = X[2 * N :], y[2 * N :]
    adapted = DomainJPlay(n_rounds=3).fit(X[SEEN], y[SEEN], sample_domain=domain[SEEN])
    standardised = DomainJPlay(n_rounds=0).fit(X[SEEN], y[SEEN], sample_domain=domain[SEEN])
    alone = JPlay().fit(X[:N], y[:N])
    assert alone.score(*new) < 0.5  # another unit
    assert adapted.score(*new) > standardised.score(*new) > alone.score(*new)


def test_labels_of_the_target_do_not_count(domains):
    X, y, domain = (part[SEEN] for part in domains)
    model = DomainJPlay(lda(), n_rounds=2)
    expected = model.fit(X, y, domain).predict_proba(X)
    hidden = np.where(domain < 0, -1, y)
    assert_array_equal(model.fit(X, hidden, domain).predict_proba(X), expected)
    assert_array_equal(model.fit(X, hidden).predict_proba(X), expected)
    shuffled = np.where(domain < 0, (y + 1) % 5, y)
    assert_array_equal(model.fit(X, shuffled, domain).predict_proba(X), expected)


def test_units_of_each_domain_do_not_count(domains):
    X, y, domain = (part[SEEN] for part in domains)
    model = DomainJPlay(lda(), n_rounds=2)
    expected = model.fit(X, y, domain).predict_proba(X[domain < 0])
    other = np.where(domain[:, None] < 0, 100 - 3 * -X, X)
    found = model.fit(other, y, domain).predict_proba(other[domain < 0])
    assert_close(found, expected, 1e-6)


def test_several_sources_are_standardised_each_by_itself(domains):
    X, y, domain = (part[SEEN] for part in domains)
    domain = domain.copy()
    domain[: N // 2] = 4
    moved = X.copy()
    moved[: N // 2] = 5 * moved[: N // 2] - 40
    model = DomainJPlay(lda(), n_rounds=1)
    expected = model.fit(X, y, domain).predict_proba(X)
    assert_close(model.fit(moved, y, domain).predict_proba(X), expected, 1e-6)


def test_nothing_joins_without_a_target(domains):
    X, y, _ = domains
    model = DomainJPlay(lda()).fit(X[:N], y[:N])
    assert model.score(X[:N], y[:N]) > 0.9


def test_samples_of_a_source_without_label_are_left_out(domains):
    X, y, domain = (part[SEEN] for part in domains)
    hidden = y.copy()
    hidden[:10] = -1
    model = DomainJPlay(lda(), n_rounds=0).fit(X, hidden, domain)
    scaled = (X[:N] - X[:N].mean(axis=0)) / X[:N].std(axis=0)
    expected = lda().fit(scaled[10:], y[10:N])
    assert_close(model.model_.coef_, expected.coef_, 1e-8)


def test_features_have_unit_length_in_the_span_of_the_means(domains):
    X, y, domain = (part[SEEN] for part in domains)
    model = DomainJPlay(n_rounds=1).fit(X, y, domain)
    features = model.transform(X[domain < 0])
    assert features.shape == (N, 4)
    assert_allclose(np.linalg.norm(features, axis=1), 1)
    assert_allclose(model.directions_ @ model.directions_.T, np.eye(4), atol=1e-10)
    nearest = np.linalg.norm(features[:, None] - model.class_means_, axis=2).argmin(axis=1)
    assert_array_equal(model.predict(X[domain < 0]), nearest)


def test_predictions_of_blocks_and_names_as_labels(domains):
    X, y, domain = (part[SEEN] for part in domains)
    names = np.array(["ash", "birch", "cedar", "elm", "fir"])
    model = DomainJPlay(lda(), n_rounds=1).fit(X, names[y], domain)
    assert_array_equal(model.predict(blocked(X, rows=40)), model.predict(X))
    numbers = DomainJPlay(lda(), n_rounds=1).fit(X, y, domain)
    assert_array_equal(model.predict(X), names[numbers.predict(X)])


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (lambda domain: np.abs(domain), r"should have one negative number.* got none"),
        (lambda domain: -np.abs(domain), "should be positive for some samples"),
        (lambda domain: domain - (domain < 0) * (np.arange(len(domain)) % 2), r"\[-3, -2\]"),
        (lambda domain: domain * 0, "positive for source and negative for target samples, got 0"),
        (lambda domain: domain / 2, "whole numbers.* got 0.5"),
        (lambda domain: domain[1:], "inconsistent numbers of samples"),
        (lambda domain: domain[:, None] * np.ones((1, 2), int), "1d array"),
    ],
)
def test_domains_that_cannot_be_are_refused(domains, changed, message):
    X, y, domain = (part[SEEN] for part in domains)
    with pytest.raises(ValueError, match=message):
        DomainJPlay(lda()).fit(X, y, changed(domain))


def test_other_bad_input_is_named(domains):
    X, y, domain = (part[SEEN] for part in domains)
    with pytest.raises(ValueError, match=r"`X` should be an array in memory.*blocks"):
        DomainJPlay(lda()).fit(blocked(X, rows=40), y, domain)
    with pytest.raises(ValueError, match="at least 2 classes"):
        DomainJPlay().fit(X, np.where(domain > 0, 1, y), domain)
    with pytest.raises(ValueError, match="n_rounds"):
        DomainJPlay(n_rounds=-1).fit(X, y, domain)
    model = DomainJPlay(lda(), n_rounds=0).fit(X, y, domain)
    with pytest.raises(ValueError, match=r"11 features.* expecting 12"):
        model.predict(X[:, 1:])
