"""Small ranks, repair, ill-conditioned data, wide data, and how a fit ends."""

import tracemalloc
import warnings

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning

import core_oracle as oracle
from jplay import LPP, FastSolver, HeatGraph, JPlay, PaperSolver

GRAPH = HeatGraph(5)
SIZES = [[1], [5], [6, 1], [6, 4, 3], [6, 6, 5, 5, 4, 2]]


def make_samples(kind, n_samples=60, seed=0):
    """Samples on which some map is non-negative, for different reasons."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_samples, 6))
    if kind == "positive":
        X = np.abs(X)
    elif kind == "with zero samples":
        X = np.abs(X) * (np.arange(n_samples) % 7 > 0)[:, None]
    elif kind == "sparse":
        X = np.where(rng.random(X.shape) < 0.3, np.abs(X), 0.0)
    return X, np.arange(n_samples) % 3


def assert_feasible(layers, constraints="both", atol=1e-9):
    for Z in layers:
        if constraints in ("both", "nonnegative"):
            assert Z.min() >= -atol * max(1.0, np.abs(Z).max())
        if constraints in ("both", "unit_ball"):
            assert np.linalg.norm(Z, axis=1).max() <= 1 + atol


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("max_iter", [1, 2, 5])
@pytest.mark.parametrize("kind", ["positive", "with zero samples", "sparse", "centered"])
@pytest.mark.parametrize("scaling", [None, "standard"])
def test_a_fit_cut_short_ends_feasible(scaling, kind, max_iter, sizes):
    """However far the iterations came, and not at zero, which would be feasible too."""
    X, y = make_samples(kind)
    model = JPlay(
        n_layers=sizes, graph=GRAPH, scaling=scaling, solver=FastSolver(max_iter=max_iter)
    )
    with pytest.warns(ConvergenceWarning, match=f"within max_iter={max_iter} "):
        model.fit(X, y)
    layers = model.transform_layers(X)
    assert_feasible(layers)
    assert np.abs(layers[-1]).max() > 1e-3
    assert model.n_iter_ == max_iter


@pytest.mark.parametrize("constraints", ["nonnegative", "unit_ball", None])
@pytest.mark.parametrize("max_iter", [2, 300])
def test_only_the_constraints_of_the_model_are_met(constraints, max_iter):
    X, y = make_samples("centered")
    model = JPlay(
        n_layers=[5, 3],
        alpha=300.0,
        graph=GRAPH,
        constraints=constraints,
        solver=FastSolver(max_iter=max_iter),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        layers = model.fit(X, y).transform_layers(X)
    assert_feasible(layers, constraints)
    assert constraints == "nonnegative" or min(Z.min() for Z in layers) < -0.02


@pytest.mark.parametrize("tol", [1e-2, 1e-4, 1e-6])
def test_repair_moves_features_as_little_as_they_miss(tol):
    """The repaired end is not far above the objective that the iterations came to."""
    X, y = make_samples("sparse")
    model = JPlay(n_layers=[5, 3], graph=GRAPH, solver=FastSolver(max_iter=3000, tol=tol))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    history = model.objective_history_
    assert history[-1] <= history[-2] * (1 + 1e-3 + 10 * tol)
    assert_feasible(model.transform_layers(X))


def test_feasible_chains_of_single_precision_are_feasible_to_its_rounding():
    X, y = oracle.make_classes(90, 8)
    layers = (
        JPlay(n_layers=[5, 3], graph=GRAPH)
        .fit(X.astype(np.float32), y)
        .transform_layers(X.astype(np.float32))
    )
    assert layers[0].dtype == np.float32
    assert_feasible(layers, atol=1e-5)


def test_a_linear_map_is_kept_where_it_suffices_and_becomes_affine_elsewhere():
    X, y = make_samples("positive")
    assert not JPlay(3, graph=GRAPH, scaling=None).fit(X, y).first_intercept_.any()
    centered = JPlay(3, graph=GRAPH, scaling=None).fit(X - X.mean(axis=0), y)
    assert np.abs(centered.first_intercept_).max() > 0.01


# Ranks.


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_rank_bounds_the_components_and_the_chain_stays_finite(rank):
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    X = (rng.random((60, rank)) + y[:, None] * rng.random(rank)) @ rng.random((rank, 7))
    model = JPlay(graph=GRAPH).fit(X, y)
    assert len(model.components_) <= rank
    assert np.isfinite(model.transform(X)).all()
    deep = JPlay(rank, 3, graph=GRAPH).fit(X, y)
    assert_feasible(deep.transform_layers(X))
    with pytest.raises(ValueError, match="`n_components` should be at most"):
        JPlay(7, graph=GRAPH).fit(X, y)


def test_copied_and_constant_features_change_the_features_of_no_sample():
    X, y = oracle.make_classes(60, 4)
    settings = {"graph": GRAPH, "solver": FastSolver(max_iter=3000, tol=1e-6)}
    plain = JPlay(3, **settings).fit(X, y)
    wide = np.column_stack([X, X, np.full((60, 2), 3.0)])
    copied = JPlay(3, **settings).fit(wide, y)
    ends = [model.objective_history_[-1] for model in (plain, copied)]
    assert ends[1] == pytest.approx(ends[0], rel=1e-3)
    assert not copied.components_[:, 8:].any()


@pytest.mark.parametrize("n_layers", [1, 3])
def test_ill_conditioned_samples_keep_the_objective_exact(n_layers):
    """Second moments with a condition of 1e12, in directions that no feature follows."""
    rng = np.random.default_rng(0)
    y = np.arange(90) % 2
    axes = np.linalg.qr(rng.normal(size=(6, 6)))[0]
    X = (rng.normal(size=(90, 6)) + y[:, None]) * np.geomspace(1, 1e-6, 6) @ axes
    model = JPlay(3, n_layers, graph=GRAPH, scaling="norm").fit(X, y)
    found = oracle.objective(model, X, y)
    assert model.objective_history_[-1] == pytest.approx(found, rel=1e-6)
    assert_feasible(model.transform_layers(X))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n_layers", [1, 3])
def test_features_of_very_different_strength_end_where_they_do_in_double(dtype, n_layers):
    X, y = oracle.make_classes(60, 9)
    X = X @ (np.geomspace(1, 1e-3, 9)[:, None] * np.linalg.qr(np.vander(np.arange(9.0) / 9))[0])
    settings = {"graph": GRAPH, "scaling": "norm", "solver": FastSolver(max_iter=500)}
    exact = JPlay(3, n_layers, **settings).fit(X, y)
    model = JPlay(3, n_layers, **settings).fit(X.astype(dtype), y)
    assert model.objective_history_[-1] == pytest.approx(exact.objective_history_[-1], rel=2e-3)


@pytest.mark.parametrize("scale", [1e-60, 1e-8, 1e8, 1e60])
def test_unit_of_the_samples_does_not_matter(scale):
    X, y = oracle.make_classes(60)
    for scaling in ("standard", "norm"):
        settings = {"graph": GRAPH, "scaling": scaling}
        expected = JPlay(3, **settings).fit(X, y).transform(X)
        found = JPlay(3, **settings).fit(scale * X, y).transform(scale * X)
        assert_allclose(found, expected, atol=1e-4 * np.abs(expected).max())


# Scaling.


@pytest.mark.parametrize("n_samples", [60, 3500])
def test_standard_scaling_is_that_of_each_feature_by_itself(n_samples):
    """Also of more numbers than are looked at at a time; rare values reach two scales at most."""
    rng = np.random.default_rng(0)
    n_features = 8 if n_samples == 60 else 320
    X = rng.normal(size=(n_samples, n_features)) * np.linspace(1, 5, n_features)
    X += 10 * np.arange(n_features)
    X[:, ::3] = 10 * (rng.random((n_samples, len(X[0, ::3]))) < 0.05)
    X[:, 4] = 2.5
    y = np.arange(n_samples) % 2
    ring = np.arange(n_samples), np.roll(np.arange(n_samples), 1)
    W = scipy.sparse.coo_array((np.ones(n_samples), ring)).tocsr()
    model = JPlay(2, graph=W + W.T, solver=FastSolver(max_iter=1))
    with pytest.warns(ConvergenceWarning):
        model.fit(X, y)
    S = oracle.scaled(X)
    assert_allclose(model.feature_mean_, X.mean(axis=0), rtol=1e-9, atol=1e-9)
    found = (X - model.feature_mean_) * model.feature_scale_
    assert_allclose(found, S, atol=1e-9)
    assert np.sum(S.var(axis=0)) == pytest.approx(1.0)
    assert model.feature_scale_[4] == 0


def test_small_spread_around_a_large_mean_survives_single_precision():
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    exact = 1e6 + 0.5 * np.rint(4 * rng.normal(size=(60, 3)) + 6 * y[:, None])
    single = exact.astype(np.float32)
    assert_array_equal(single, exact)
    expected, found = (JPlay(2, graph=GRAPH).fit(X, y) for X in (exact, single))
    assert found.objective_history_[-1] == pytest.approx(expected.objective_history_[-1], rel=1e-3)
    assert_allclose(found.feature_mean_, expected.feature_mean_, rtol=1e-6)
    assert_allclose(found.feature_scale_, expected.feature_scale_, rtol=1e-5)


# More features than samples.


@pytest.mark.parametrize("n_layers", [1, 2])
def test_wide_samples_are_solved_as_their_rotation_into_few_coordinates(n_layers):
    X, y = oracle.make_classes(24, 90)
    basis, coordinates = np.linalg.qr(X.T)
    settings = {"graph": HeatGraph(4)(X), "scaling": None}
    wide = JPlay(3, n_layers, **settings).fit(X, y)
    few = JPlay(3, n_layers, **settings, constraints="both").fit(coordinates.T, y)
    assert wide.objective_history_[-1] == pytest.approx(few.objective_history_[-1], rel=1e-4)
    inside = wide.components_ @ basis @ basis.T
    assert_allclose(inside, wide.components_, atol=1e-8 * np.abs(wide.components_).max())


@pytest.mark.parametrize(
    "make",
    [
        lambda: JPlay(3, graph=HeatGraph(3)),
        lambda: JPlay(3, 2, graph=HeatGraph(3)),
        lambda: JPlay(
            3, graph=HeatGraph(3), scaling=None, solver=PaperSolver(max_iter=2, inner_max_iter=20)
        ),
        lambda: LPP(3, graph=HeatGraph(3)),
    ],
    ids=["one layer", "two layers", "published", "embedding"],
)
def test_memory_does_not_grow_with_the_square_of_the_features(make):
    """20 samples of 10,000 features: their square would take 800 MB."""
    rng = np.random.default_rng(0)
    X, y = rng.random((20, 10_000)), np.arange(20) % 2
    tracemalloc.start()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = make().fit(X, y)
            model.transform(X)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 60 * X.nbytes


def test_many_samples_are_not_copied():
    """Scaled rows are formed when they are needed: a fit takes less than its samples do."""
    n_samples, n_features = 180_000, 100
    X = np.random.default_rng(0).random((n_samples, n_features))
    y = np.arange(n_samples) % 2
    path = scipy.sparse.diags_array(
        [np.ones(n_samples - 1)] * 2, offsets=[-1, 1], shape=(n_samples, n_samples)
    ).tocsr()
    model = JPlay(2, graph=path, decision="projection", solver=FastSolver(max_iter=1))
    tracemalloc.start()
    try:
        with pytest.warns(ConvergenceWarning):
            model.fit(X, y)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 0.9 * X.nbytes


# How a fit ends.


def test_threads_of_blas_are_restored_after_a_fit():
    threadpoolctl = pytest.importorskip("threadpoolctl")

    def threads():
        found = threadpoolctl.ThreadpoolController().select(user_api="blas").info()
        return [library["num_threads"] for library in found]

    X, y = oracle.make_classes(60)
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        before = threads()
        JPlay(2, graph=GRAPH).fit(X, y)
        assert threads() == before


@pytest.mark.parametrize("solver", [FastSolver(tol=1e-9), PaperSolver(tol=1e-12, max_iter=4)])
def test_status_says_why_and_what_to_change(solver):
    X, y = oracle.make_classes(60)
    if isinstance(solver, FastSolver):
        solver = FastSolver(max_iter=4, tol=1e-9)
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        model = JPlay(2, 2, graph=GRAPH, scaling=None, solver=solver).fit(X, y)
    assert not model.result_.status.converged
    assert model.n_iter_ == len(model.objective_history_) == 4


@pytest.mark.parametrize("sizes", [[3], [4, 2]], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_two_fits_are_bit_identical(sizes, dtype):
    X, y = oracle.make_classes(60)
    first, second = (JPlay(n_layers=sizes, graph=GRAPH).fit(X.astype(dtype), y) for _ in range(2))
    assert_array_equal(first.components_, second.components_)
    assert_array_equal(first.coef_, second.coef_)


@pytest.mark.parametrize(
    ("field", "value", "domain"),
    [
        ("max_iter", 0, "a positive integer"),
        ("max_iter", 1.5, "a positive integer"),
        ("max_iter", True, "a positive integer"),
        ("tol", -1e-9, "a non-negative number"),
        ("tol", float("nan"), "a non-negative number"),
        ("mu", 0, "a positive number"),
        ("mu", float("inf"), "a positive number"),
        ("growth", 0.99, "a number of at least 1"),
    ],
)
@pytest.mark.parametrize("schedule", [FastSolver, PaperSolver])
def test_solver_options_out_of_their_domain_are_refused_by_name(schedule, field, value, domain):
    with pytest.raises(ValueError, match=rf"^`{field}` should be {domain}, got ") as error:
        schedule(**{field: value})
    assert repr(value) in str(error.value)
    with pytest.raises(ValueError, match=r"`mu_max` should be at least `mu` \(3\.0\), got 2\.0"):
        schedule(mu=3.0, mu_max=2.0)
