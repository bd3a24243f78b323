import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits, load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

from jplay import FastSolver, JPlayBandSelector
from jplay.datasets import make_hyperspectral_scene

CHEAP = FastSolver(max_iter=60)
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(scope="module")
def wine():
    return load_wine(return_X_y=True)


@pytest.fixture(scope="module")
def scene():
    found = make_hyperspectral_scene(n_bands=40, random_state=0)
    return found.data[::7], found.target[::7]


@pytest.fixture(scope="module")
def fitted(scene):
    return JPlayBandSelector(5, n_resamples=2).fit(*scene)


def test_interface_of_selectors(fitted, scene):
    X, _ = scene
    chosen = fitted.get_support(indices=True)
    assert len(chosen) == fitted.get_support().sum() == 5
    np.testing.assert_array_equal(fitted.transform(X), X[:, chosen])
    back = fitted.inverse_transform(fitted.transform(X))
    np.testing.assert_array_equal(back[:, chosen], X[:, chosen])
    assert not np.delete(back, chosen, axis=1).any()
    assert fitted.get_feature_names_out().tolist() == [f"x{band}" for band in chosen]


def test_path_goes_from_all_features_to_few(fitted):
    path = fitted.path_
    assert (np.diff(path.penalties) > 0).all()
    assert path.n_kept[0] > 5
    assert path.n_kept[-1] <= 2
    assert sorted(path.order) == list(range(path.norms.shape[1]))
    longest = path.norms[np.flatnonzero(path.n_kept)[-1]] > 0
    assert longest[path.order[0]]


def test_importances_and_stability_belong_to_bands(fitted):
    assert not fitted.importances_[~fitted.support_].any()
    assert (fitted.importances_[fitted.support_] > 0).any()
    assert fitted.stability_.shape == fitted.support_.shape
    assert fitted.stability_.sum() == pytest.approx(5)
    assert set(np.unique(fitted.stability_)) <= {0.0, 0.5, 1.0}


def test_chosen_bands_classify_better_than_most_sets(scene):
    X, y = scene
    rule = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")
    chosen = cross_val_score(make_pipeline(JPlayBandSelector(5), rule), X, y, cv=3).mean()
    rng = np.random.default_rng(0)
    at_random = [
        cross_val_score(rule, X[:, rng.choice(X.shape[1], 5, replace=False)], y, cv=3).mean()
        for _ in range(5)
    ]
    assert chosen >= np.median(at_random)


def test_refinement_lowers_the_loss(wine):
    proposed = JPlayBandSelector(3, refine=False).fit(*wine)
    refined = JPlayBandSelector(3).fit(*wine)
    assert refined.loss_ <= proposed.loss_
    assert proposed.support_[proposed.path_.order[:3]].all()


def test_scale_of_features_does_not_matter(wine):
    X, y = wine
    factors = np.geomspace(1e-3, 1e3, X.shape[1])
    plain = JPlayBandSelector(3).fit(X, y)
    scaled = JPlayBandSelector(3).fit(X * factors, y)
    np.testing.assert_array_equal(plain.support_, scaled.support_)


def test_bands_keep_their_distance(scene):
    chosen = JPlayBandSelector(4, min_distance=5).fit(*scene).get_support(indices=True)
    assert len(chosen) == 4
    assert np.diff(chosen).min() >= 5


def test_one_band_per_group(scene):
    groups = np.arange(scene[0].shape[1]) // 10
    chosen = JPlayBandSelector(4, feature_groups=groups).fit(*scene).get_support(indices=True)
    assert len(np.unique(groups[chosen])) == len(chosen) == 4


def test_costs_move_the_choice(wine):
    X, y = wine
    free = JPlayBandSelector(3).fit(X, y)
    costs = np.where(free.support_, 50.0, 1.0)
    costed = JPlayBandSelector(3, feature_costs=costs, max_cost=3.0).fit(X, y)
    assert not (costed.support_ & free.support_).any()
    assert costs[costed.support_].sum() <= 3.0
    unlimited = JPlayBandSelector(3, feature_costs=costs).fit(X, y)
    assert costs[unlimited.support_].sum() <= costs[free.support_].sum()


@pytest.mark.parametrize(("n", "expected"), [(None, 6), (0.25, 3), (1, 1), (13, 13)])
def test_number_of_bands(wine, n, expected):
    found = JPlayBandSelector(n, solver=CHEAP).fit(*wine)
    assert found.get_support().sum() == expected


def test_more_features_than_samples():
    X, y = load_digits(return_X_y=True)
    found = JPlayBandSelector(4, solver=FastSolver(max_iter=20)).fit(X[:40], y[:40])
    assert found.get_support().sum() == 4


def test_samples_without_class_are_left_out_of_the_judgement(wine):
    X, y = wine
    hidden = np.where(np.arange(len(y)) % 4 == 0, -1, y)
    assert JPlayBandSelector(3).fit(X, hidden).get_support().sum() == 3


def test_blocks_give_the_choice_of_memory(wine):
    dask_array = pytest.importorskip("dask.array")
    X, y = wine
    order = np.random.default_rng(0).permutation(len(y))
    X, y = X[order], y[order]
    blocks = dask_array.from_array(X, chunks=(90, -1))
    found = JPlayBandSelector(3).fit(blocks, dask_array.from_array(y, chunks=90))
    expected = JPlayBandSelector(3).fit(X, y)
    np.testing.assert_array_equal(found.support_, expected.support_)
    np.testing.assert_array_equal(found.transform(blocks).compute(), expected.transform(X))


@pytest.mark.parametrize(
    "parameters",
    [
        {"alpha": 100.0},
        {"beta": 1.0},
        {"gamma": 1.0},
        {"n_components": 2},
        {"solver": FastSolver(max_iter=5)},
        {"feature_costs": np.arange(1.0, 14.0)},
    ],
    ids=lambda parameters: next(iter(parameters)),
)
def test_every_parameter_of_the_model_counts(wine, parameters):
    plain = JPlayBandSelector(6, refine=False, solver=CHEAP).fit(*wine)
    changed = JPlayBandSelector(6, refine=False, **{"solver": CHEAP} | parameters).fit(*wine)
    assert not np.allclose(plain.path_.norms[3], changed.path_.norms[3], rtol=1e-3)


def test_same_seed_same_choice(wine):
    model = JPlayBandSelector(3, n_resamples=1, random_state=3, solver=CHEAP)
    first, second = (clone(model).fit(*wine) for _ in range(2))
    np.testing.assert_array_equal(first.support_, second.support_)
    np.testing.assert_array_equal(first.stability_, second.stability_)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_features_to_select": 14}, "`n_features_to_select` should be at most 13"),
        ({"feature_groups": [1, 2]}, r"`feature_groups` should have shape \(13,\)"),
        ({"feature_costs": np.ones(12)}, r"`feature_costs` should have shape \(13,\)"),
        ({"feature_costs": np.zeros(13)}, "`feature_costs` should be positive"),
        ({"feature_costs": np.full(13, 2.0), "max_cost": 1.0}, "`max_cost` should be at least 2"),
        ({"n_features_to_select": 1.5}, "n_features_to_select"),
    ],
)
def test_what_cannot_be_is_refused_by_name(wine, parameters, message):
    with pytest.raises(ValueError, match=message):
        JPlayBandSelector(**parameters).fit(*wine)


def test_one_class_and_labels_are_refused(wine):
    X, y = wine
    with pytest.raises(ValueError, match="at least 2 classes, got 1 class"):
        JPlayBandSelector(3).fit(X, np.zeros(len(y), dtype=int))
    with pytest.raises(ValueError, match="1d array"):
        JPlayBandSelector(3).fit(X, np.stack([y == 0, y > 0], axis=1).astype(int))
