"""What tasks tell each other, against closed forms and brute force."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from closeness import assert_close
from jplay.estimators import ridge as read_out
from jplay.estimators.coupling import apply_composition, estimate_composition
from jplay.estimators.ridge import RegressionMoments, fit_coupled_ridges, fit_ridge


def distributions(n_rows, n_columns, seed=0):
    return np.random.default_rng(seed).dirichlet(np.ones(n_columns), n_rows)


def test_classes_within_a_group_get_the_group_s_probability():
    groups = np.eye(2)[[0, 0, 1]]
    probabilities, others = distributions(6, 3), distributions(6, 2, 1)
    found = apply_composition(probabilities, others, groups)
    assert_allclose(found @ groups, others, rtol=1e-12)
    assert_allclose(found[:, 0] / found[:, 1], probabilities[:, 0] / probabilities[:, 1])


def test_both_classes_together_have_the_known_probabilities():
    """Brute force: the joint probabilities, column by column scaled to the known sums."""
    probabilities, others, shares = (
        distributions(5, 4),
        distributions(5, 3, 1),
        distributions(4, 3, 2),
    )
    joint = probabilities[:, :, None] * shares
    joint *= (others / joint.sum(axis=1))[:, None, :]
    assert_allclose(apply_composition(probabilities, others, shares), joint.sum(axis=2), rtol=1e-10)


def test_a_task_that_has_nothing_to_do_with_another_changes_nothing():
    probabilities, others = distributions(5, 4), distributions(5, 3, 1)
    shares = np.tile([0.2, 0.3, 0.5], (4, 1))
    assert_allclose(apply_composition(probabilities, others, shares), probabilities, rtol=1e-12)


def test_smoothing_makes_left_out_samples_most_likely():
    rng = np.random.default_rng(0)
    own, other = rng.integers(0, 3, 60), rng.integers(0, 2, 60)
    other = np.where(rng.random(60) < 0.5, own % 2, other)
    counts = np.zeros((3, 2))
    np.add.at(counts, (own, other), 1)
    prior = np.array([0.4, 0.6])

    def likelihood(count):
        total = 0.0
        for f, g in zip(own, other, strict=True):
            rest = counts[f].copy()
            rest[g] -= 1
            total += np.log((rest[g] + count * prior[g]) / (rest.sum() + count))
        return total

    found = estimate_composition(counts, prior)
    # The mixture says by which count it was made.
    count = (counts[0, 0] - found[0, 0] * counts[0].sum()) / (found[0, 0] - prior[0])
    assert likelihood(count) >= max(likelihood(count * f) for f in (0.3, 3.0))


def test_independent_classes_have_the_overall_shares():
    rng = np.random.default_rng(1)
    counts = rng.multinomial(200, [0.3, 0.7], size=5).astype(float)
    prior = counts.sum(axis=0) / counts.sum()
    assert np.abs(estimate_composition(counts, prior) - prior).max() < 0.05
    observed = counts / counts.sum(axis=1, keepdims=True)
    assert (
        np.abs(estimate_composition(counts, prior) - prior).max() < np.abs(observed - prior).max()
    )


def regressions(slopes, noise=1.0, n_samples=25, seed=0):
    rng = np.random.default_rng(seed)
    problems = []
    for slope in slopes:
        Z = rng.standard_normal((n_samples, len(slope)))
        Z -= Z.mean(axis=0)
        y = Z @ slope[:, None] + noise * rng.standard_normal((n_samples, 1))
        y -= y.mean(axis=0)
        problems.append(RegressionMoments(Z.T @ Z, Z.T @ y, float((y**2).sum()), n_samples))
    return problems


def error(found, slopes):
    return np.mean([(read.coef[0] - slope) ** 2 for read, slope in zip(found, slopes, strict=True)])


def test_related_regressions_learn_from_each_other():
    rng = np.random.default_rng(0)
    slopes = rng.standard_normal(8) + 0.1 * rng.standard_normal((15, 8))
    problems = regressions(slopes, noise=2.0)
    alone = [fit_ridge(problem, np.eye(8), np.eye(8)) for problem in problems]
    together = fit_coupled_ridges(problems, np.eye(8), np.eye(8))
    assert error(together, slopes) < 0.5 * error(alone, slopes)
    assert len({read.ridge for read in together}) == 1  # tasks alike have one ridge


def test_regressions_of_different_size_keep_their_own_ridges():
    rng = np.random.default_rng(0)
    slopes = rng.standard_normal((2, 6))
    easy, hard = regressions(slopes[:1], noise=1e-4)[0], regressions(slopes[1:], noise=20.0)[0]
    found = fit_coupled_ridges([easy, hard], np.eye(6), np.eye(6))
    for read, problem in zip(found, (easy, hard), strict=True):
        assert_close(read.coef, fit_ridge(problem, np.eye(6), np.eye(6)).coef, 1e-8)


def test_one_regression_alone_is_itself():
    [problem] = regressions(np.ones((1, 4)))
    theta = np.random.default_rng(0).standard_normal((2, 4))
    [found] = fit_coupled_ridges([problem], np.eye(4), theta)
    assert_close(found.coef, fit_ridge(problem, np.eye(4), theta).coef, 1e-10)


def test_a_subspace_is_pulled_to_what_it_holds_of_the_mean():
    """Tasks with the same slope all get the prediction nearest to it."""
    slope = np.array([1.0, -2.0, 0.5, 3.0])
    theta = np.array([[0.5, -1.0, 0.3, 1.5], [1.0, 1.0, 1.0, 0.0]])
    problems = regressions(np.tile(slope, (30, 1)), noise=1.0, n_samples=12)
    gram = sum(problem.gram for problem in problems)
    found = np.concatenate([r.coef for r in fit_coupled_ridges(problems, np.eye(4), theta)])
    nearest = np.linalg.solve(theta @ gram @ theta.T, theta @ gram @ slope)
    assert np.abs(found.mean(axis=0) - nearest).max() < 0.1 * np.abs(nearest).max()
    assert found.std(axis=0).max() < 0.15 * np.abs(nearest).max()


def test_what_a_prediction_leaves():
    [problem] = regressions(np.ones((1, 3)))
    coef = np.array([[1.0, 0.5, -1.0]])
    rest = problem.subtract_prediction(coef)
    direct = np.linalg.solve(problem.gram, problem.cross).T
    assert_close(np.linalg.solve(rest.gram, rest.cross).T + coef, direct, 1e-8)
    assert rest.target_square == pytest.approx(
        problem.target_square
        - 2 * (coef @ problem.cross).item()
        + (coef @ problem.gram @ coef.T).item()
    )


def test_priors_leave_the_own_task_out():
    coefs, metric = np.random.default_rng(0).standard_normal((5, 3)), np.diag([1.0, 2.0, 3.0])
    means, metrics = read_out.compute_priors(coefs, metric)
    apart = coefs - coefs.mean(axis=0)
    unit = np.mean(np.einsum("ti,ij,tj->t", apart + 1e-3 * coefs, metric, apart + 1e-3 * coefs))
    for task in range(5):
        others = np.delete(coefs, task, axis=0)
        assert_allclose(means[task][0], others.mean(axis=0))
        scatter = (others - others.mean(axis=0)).T @ (others - others.mean(axis=0))
        expected = (scatter + unit * np.linalg.inv(metric)) / (4 + 3)
        assert_close(np.linalg.inv(metrics[task]), expected, 1e-8)
