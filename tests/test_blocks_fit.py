"""Fits in blocks without a cluster equal the fit in memory."""

import subprocess
import sys

import numpy as np
import pytest

import core_oracle as oracle
from jplay import LPP, AutoRULe, FastSolver, HeatGraph, JPlay, PaperSolver, SoftLabelPropagation
from jplay.blocks import blocked, partition_affinity

da = pytest.importorskip("dask.array")

SIZES = [300, 200, 400]
WIDTH = 0.7
GRAPH = HeatGraph(bandwidth=WIDTH)
QUICK = {"solver": FastSolver(max_iter=25)}


@pytest.fixture(scope="module")
def samples():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 4, sum(SIZES))
    X = np.abs(rng.standard_normal((4, 15))[y] + 0.4 * rng.standard_normal((len(y), 15)))
    return X / X.max(axis=1, keepdims=True), y


def graph_of_blocks(X, sizes=SIZES, graph=GRAPH, scaling="standard"):
    """The graph over all samples that a fit in blocks has: one per block, of scaled samples."""
    return partition_affinity(oracle.scaled(X, scaling), sizes, graph)


def in_memory(X, y, overlap=0, **settings):
    graph = HeatGraph(bandwidth=WIDTH, overlap=overlap)
    graph = graph_of_blocks(X, graph=graph, scaling=settings.get("scaling", "standard"))
    return JPlay(3, 2, graph=graph, **QUICK, **settings).fit(X, y)


def in_blocks(X, y, graph=GRAPH, **settings):
    return JPlay(3, 2, graph=graph, **QUICK, **settings).fit(X, y)


def dask_array(X):
    return da.from_array(X, chunks=(tuple(SIZES), *X.shape[1:]))


def assert_same_fit(model, reference, atol=1e-9):
    assert model.n_iter_ == reference.n_iter_
    for name in ("components_", "intercept_", "coef_"):
        np.testing.assert_allclose(getattr(model, name), getattr(reference, name), atol=atol)


@pytest.mark.parametrize("scheduler", ["threads", "synchronous"])
def test_fit_on_a_dask_array_equals_the_fit_in_memory(samples, scheduler):
    import dask

    X, y = samples
    with dask.config.set(scheduler=scheduler):
        model = in_blocks(dask_array(X), dask_array(y))
    assert_same_fit(model, in_memory(X, y))
    assert model.affinity_ is None
    assert model.bandwidth_ == WIDTH


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"scaling": "norm"},
        {"scaling": None},
        {"scaling": None, "solver": PaperSolver(inner_max_iter=40, max_iter=3)},
        {"solver": PaperSolver(inner_max_iter=40, max_iter=3, mu=1.0)},
        {"constraints": "unit_ball"},
        {
            "constraints": "nonnegative",
            "solver": PaperSolver(inner_max_iter=20, max_iter=2, mu=1.0),
        },
        {"reconstruction": False},
    ],
)
def test_every_variant_of_the_model_fits_in_blocks(samples, settings):
    X, y = samples
    settings = {"solver": FastSolver(max_iter=15)} | settings
    graph = graph_of_blocks(X, scaling=settings.get("scaling", "standard"))
    reference = JPlay(3, 2, graph=graph, **settings).fit(X, y)
    model = JPlay(3, 2, **settings, graph=GRAPH).fit(dask_array(X), dask_array(y))
    assert_same_fit(model, reference, atol=1e-7)


def test_blocks_that_are_read_in_every_pass_give_the_same_fit(samples, monkeypatch):
    X, y = samples
    monkeypatch.setattr("jplay.core.blocked.fits_in", lambda n_bytes, memory: False)
    model = in_blocks(dask_array(X), y)
    assert_same_fit(model, in_memory(X, y))


def test_memory_map_and_zarr_equal_the_fit_in_memory(samples, tmp_path):
    zarr = pytest.importorskip("zarr")
    X, y = samples
    stored = np.memmap(tmp_path / "X", dtype=X.dtype, mode="w+", shape=X.shape)
    stored[:] = X
    sizes = [400, 400, 100]
    graph = graph_of_blocks(X, sizes)
    reference = JPlay(3, 2, graph=graph, solver=FastSolver(max_iter=25)).fit(X, y)
    assert_same_fit(in_blocks(blocked(stored, rows=400), y), reference)

    chunked = zarr.create_array(tmp_path / "X.zarr", shape=X.shape, chunks=(400, 15), dtype=X.dtype)
    chunked[:] = X
    from_zarr = in_blocks(blocked(chunked, rows=400, scratch=tmp_path), y)
    assert_same_fit(from_zarr, reference)
    np.testing.assert_array_equal(from_zarr.predict(chunked), reference.predict(X))
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("tmp")]


@pytest.mark.parametrize(
    "solver", [FastSolver(max_iter=20), PaperSolver(inner_max_iter=20, max_iter=2, mu=1.0)]
)
def test_blocks_of_another_array_library_stay_in_it(samples, solver):
    xp = pytest.importorskip("array_api_strict")
    X, y = samples
    settings = {"solver": solver}
    lazy = dask_array(X).map_blocks(xp.asarray, meta=X[:0])
    model = JPlay(3, 2, **settings, graph=GRAPH).fit(lazy, y)
    assert_same_fit(model, JPlay(3, 2, graph=graph_of_blocks(X), **settings).fit(X, y))


@pytest.mark.parametrize("library", ["array_api_strict", "torch"])
def test_blocks_of_another_array_library_are_predicted(samples, library):
    xp = pytest.importorskip(library)
    X, y = samples
    names = np.array(["corn", "oats", "rye", "wheat"])[y]
    lazy = dask_array(X).map_blocks(xp.asarray, meta=X[:0])
    model = JPlay(3, **QUICK).fit(lazy, names)
    labels = model.predict(lazy)
    assert labels.chunks == (tuple(SIZES),)
    np.testing.assert_array_equal(labels.compute(), model.predict(X))
    for method in (model.transform, model.predict_proba, model.decision_function):
        np.testing.assert_allclose(method(lazy).compute(), method(X), atol=1e-12)


def test_a_zarr_array_is_read_in_whole_chunks(tmp_path):
    zarr = pytest.importorskip("zarr")
    chunked = zarr.create_array(
        tmp_path / "X.zarr", shape=(10_000_000, 15), chunks=(7000, 15), dtype="f8"
    )
    first, second, *_ = blocked(chunked).edges
    assert second - first > 0
    assert (second - first) % 7000 == 0


def test_large_memory_map_is_read_in_blocks_and_small_is_not(samples, tmp_path, monkeypatch):
    X, y = samples
    stored = np.memmap(tmp_path / "X", dtype=X.dtype, mode="w+", shape=X.shape)
    stored[:] = X
    assert in_blocks(stored, y).affinity_ is not None
    monkeypatch.setattr("jplay.core.blocked.find_memory", lambda: X.nbytes)
    assert in_blocks(stored, y).affinity_ is None


@pytest.mark.parametrize("overlap", [0, 50])
def test_graph_of_blocks_is_that_of_partition_affinity(samples, overlap):
    X, y = samples
    graph = HeatGraph(bandwidth=WIDTH, overlap=overlap)
    model = in_blocks(dask_array(X), dask_array(y), graph=graph)
    assert_same_fit(model, in_memory(X, y, overlap=overlap))
    plain = in_blocks(dask_array(X), dask_array(y), graph=graph, scaling=None)
    assert_same_fit(plain, in_memory(X, y, overlap=overlap, scaling=None))


def test_units_of_features_do_not_matter_in_blocks(samples):
    X, y = samples
    units = 10.0 ** (np.arange(15) % 5 - 2)
    model, other = (in_blocks(dask_array(Z), y) for Z in (X, X * units + 3 * units))
    assert other.bandwidth_ == model.bandwidth_
    np.testing.assert_array_equal(other.predict(X * units + 3 * units), model.predict(X))
    np.testing.assert_allclose(
        other.predict_proba(X * units + 3 * units), model.predict_proba(X), atol=1e-8
    )


def test_whole_rule_in_blocks_is_that_in_memory(samples):
    X, y = samples
    model, reference = in_blocks(dask_array(X), dask_array(y)), in_memory(X, y)
    for method in ("transform", "decision_function", "predict_proba"):
        expected = getattr(reference, method)(X)
        np.testing.assert_allclose(getattr(model, method)(X), expected, atol=1e-6)


def test_median_bandwidth_is_that_of_all_blocks_together(samples):
    X, y = samples
    model = JPlay(3, 1, solver=FastSolver(max_iter=1)).fit(dask_array(X), dask_array(y))
    distances = []
    for rows in np.split(oracle.scaled(X), np.cumsum(SIZES)[:-1]):
        squared = ((rows[:, None] - rows[None]) ** 2).sum(axis=2)
        distances.extend(np.sqrt(np.sort(squared, axis=1)[:, 10]))
    assert model.bandwidth_ == pytest.approx(np.median(distances), rel=1e-3)


def test_single_precision_and_integers(samples):
    X, y = samples
    single = in_blocks(dask_array(X.astype(np.float32)), dask_array(y))
    assert single.components_.dtype == np.float32
    assert single.transform(dask_array(X.astype(np.float32))).dtype == np.float32
    counts = np.rint(20 * X).astype(int)
    np.testing.assert_allclose(
        in_blocks(dask_array(counts), dask_array(y)).components_,
        in_blocks(dask_array(counts.astype(float)), dask_array(y)).components_,
    )


def test_names_as_classes_and_multi_label_targets(samples):
    X, y = samples
    names = np.array(["ash", "birch", "cedar", "elm"])[y]
    model = in_blocks(dask_array(X), dask_array(names))
    np.testing.assert_array_equal(model.classes_, np.unique(names))
    labels = np.stack([y % 2, y // 2], axis=1)
    model = in_blocks(dask_array(X), dask_array(labels))
    assert_same_fit(model, in_memory(X, labels))
    assert model.predict(dask_array(X)).shape == labels.shape


@pytest.mark.parametrize(
    "method", ["transform", "predict", "decision_function", "transform_layers"]
)
def test_methods_stay_lazy_and_agree(samples, method):
    X, y = samples
    model = in_blocks(X, y)
    n_computed = []

    def watched(block):
        n_computed.append(len(block))
        return block

    lazy = getattr(model, method)(dask_array(X).map_blocks(watched, meta=X[:0]))
    parts = lazy if isinstance(lazy, list) else [lazy]
    assert not n_computed
    expected = getattr(model, method)(X)
    expected = expected if isinstance(expected, list) else [expected]
    for part, array in zip(parts, expected, strict=True):
        assert part.shape == array.shape
        assert part.dtype == array.dtype
        assert part.chunks[0] == tuple(SIZES)
        np.testing.assert_allclose(part.compute(), array, atol=1e-12)


def test_xarray_in_and_out(samples):
    xarray = pytest.importorskip("xarray")
    X, y = samples
    coords = {"pixel": np.arange(len(X)) * 10, "band": np.arange(15)}
    cube = xarray.DataArray(dask_array(X), dims=("pixel", "band"), coords=coords)
    model = in_blocks(cube, y)
    assert_same_fit(model, in_memory(X, y))
    predicted = model.predict(cube)
    assert predicted.dims == ("pixel",)
    assert predicted.chunks is not None
    np.testing.assert_array_equal(predicted.pixel, coords["pixel"])
    np.testing.assert_array_equal(predicted.values, model.predict(X))


def test_empty_chunks_and_chunks_along_features_do_not_matter(samples):
    X, y = samples
    array = da.concatenate([dask_array(X)[:0], dask_array(X)]).rechunk({1: 5})
    model = in_blocks(array, y)
    assert_same_fit(model, in_memory(X, y))
    assert model.predict(array).compute().shape == y.shape


def test_unknown_chunk_sizes_are_refused(samples):
    X, y = samples
    array = dask_array(X)
    with pytest.raises(ValueError, match=r"known chunk sizes.*X\.compute_chunk_sizes\(\)"):
        in_blocks(array[array[:, 0] > 0.1], y)


def test_chunks_of_y_do_not_matter(samples):
    X, y = samples
    model, other = (in_blocks(dask_array(X), da.from_array(y, chunks=n)) for n in (100, 900))
    np.testing.assert_array_equal(model.components_, other.components_)
    with pytest.raises(ValueError, match=r"`y` should have 900 rows"):
        in_blocks(dask_array(X), da.from_array(y[:500], chunks=100))


def test_block_with_nan_is_named(samples):
    X, y = samples
    X = X.copy()
    X[320, 3] = np.nan
    with pytest.raises(ValueError, match=r"NaN.*block 1 \(rows 300 to 499\)"):
        in_blocks(dask_array(X), y)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X, y: (X, 0 * y), "at least 2 classes"),
        (lambda X, y: (X, y + 0.5), "Unknown label type"),
        (lambda X, y: (X, np.stack([y, y], axis=1)), "indicator matrix"),
        (lambda X, y: (1e260 * X, y), "magnitude"),
        (lambda X, y: (X[:, :, None], y), "2 dimensions"),
    ],
)
def test_bad_input_is_refused(samples, change, message):
    X, y = change(*samples)
    with pytest.raises(ValueError, match=message):
        in_blocks(dask_array(X), dask_array(y))


def test_bad_graph_is_refused(samples):
    X, y = samples
    with pytest.raises(ValueError, match="does not fall into blocks"):
        in_blocks(dask_array(X), y, graph=np.eye(len(X)))
    with pytest.raises(ValueError, match="larger blocks"):
        in_blocks(da.from_array(X, chunks=(8, 15)), y)
    with pytest.raises(ValueError, match="all weights of the graph vanish"):
        in_blocks(dask_array(X), y, graph=HeatGraph(bandwidth=1e-9))
    with pytest.raises(ValueError, match="X has 14 features"):
        in_blocks(X, y).predict(dask_array(X[:, :14]))


def test_given_function_builds_the_graph_of_each_block(samples):
    X, y = samples
    model = in_blocks(dask_array(X), y, graph=GRAPH.__call__)
    graph = partition_affinity(X, SIZES, GRAPH)
    assert_same_fit(model, JPlay(3, 2, graph=graph, **QUICK).fit(X, y))
    assert model.bandwidth_ is None


def test_arrays_in_memory_load_no_dask():
    code = (
        "import sys, numpy as np; from jplay import JPlay;"
        "rng = np.random.default_rng(0); X = rng.random((40, 5)); y = np.arange(40) % 2;"
        "JPlay(2, 1).fit(X, y).predict(X);"
        "sys.exit(any(name.split('.')[0] in ('dask', 'distributed', 'xarray', 'zarr')"
        " for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=False).returncode == 0


WEIGHTS = np.random.default_rng(1).random(sum(SIZES)) + 0.2


@pytest.mark.parametrize(
    ("settings", "weighted", "hidden"),
    [
        ({"class_weight": "balanced"}, False, False),
        ({"class_weight": {1: 3.0}}, False, False),
        ({}, True, False),
        ({}, False, True),
        ({"class_weight": "balanced"}, True, True),
    ],
)
@pytest.mark.parametrize("multilabel", [False, True])
def test_weights_and_missing_labels_count_in_blocks(
    samples, settings, weighted, hidden, multilabel
):
    X, y = samples
    if multilabel:
        y = np.stack([y % 2, y // 2], axis=1)
    if hidden:
        y = y.copy()
        y[::3] = -1
    weight = WEIGHTS if weighted else None
    graph = graph_of_blocks(X)
    reference = JPlay(3, 2, graph=graph, **settings).fit(X, y, weight)
    plain = JPlay(3, 2, graph=graph).fit(X, np.where(y == -1, 0, y))
    model = JPlay(3, 2, graph=GRAPH, **settings).fit(
        dask_array(X), dask_array(y), None if weight is None else dask_array(weight)
    )
    assert_same_fit(model, reference, atol=1e-6)
    np.testing.assert_array_equal(model.classes_, reference.classes_)
    assert np.abs(plain.coef_ - model.coef_).max() > 1e-4


@pytest.mark.parametrize("make", [lambda g: LPP(3, graph=g), lambda g: AutoRULe(3, graph=g)])
def test_fits_without_labels_work_in_blocks(samples, make):
    X, _ = samples
    graph = GRAPH
    reference = make(partition_affinity(X, SIZES, graph)).fit(X)
    model = make(graph).fit(dask_array(X))
    np.testing.assert_allclose(model.components_, reference.components_, atol=1e-6)
    assert model.affinity_ is None
    lazy = model.transform(dask_array(X))
    np.testing.assert_allclose(lazy.compute(), reference.transform(X), atol=1e-6)


@pytest.mark.parametrize(
    ("make", "weight", "message"),
    [
        (lambda: JPlay("auto"), None, "`n_components` should be a number for samples in blocks"),
        (lambda: JPlay(3, "auto"), None, "`n_layers` should be a number for samples in blocks"),
        (lambda: JPlay(3, unlabeled=SoftLabelPropagation()), None, "`unlabeled` should be"),
        (lambda: JPlay(3), WEIGHTS[:5], "`sample_weight` should have 900 rows"),
        (lambda: JPlay(3), -WEIGHTS, "`sample_weight` should hold"),
        (lambda: JPlay(3, solver="paper"), WEIGHTS, "`solver` should be 'fast'"),
        (lambda: JPlay(3, class_weight={9: 1.0, 0: 2.0}), None, "class_weight"),
    ],
)
def test_what_blocks_cannot_do_is_refused_by_name(samples, make, weight, message):
    X, y = samples
    with pytest.raises(ValueError, match=message):
        make().fit(dask_array(X), dask_array(y), weight)
