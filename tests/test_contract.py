"""One contract for every estimator: each option counts on each container, or is refused by name.

First half: on every container of samples every option gives the fit of NumPy arrays in double
precision, over the same graph. Second half: every parameter, once changed, changes the fit.
"""

import inspect
import json
import os
import re
import subprocess
import sys
from dataclasses import fields, replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

from contract import (
    CASES,
    CHEAP,
    CLASSES,
    FAST,
    GRAPH,
    MATRIX,
    PAPER,
    RICH,
    SIZES,
    TARGETS,
    WEIGHT,
    X,
    reference_graph,
    values_of,
)
from jplay import (
    LPP,
    AutoRULe,
    CrossSensorJPlay,
    DomainJPlay,
    FastSolver,
    HeatGraph,
    JPlay,
    JPlayBandSelector,
    LabelPenalty,
    MultiTaskJPlay,
    PaperSolver,
    SoftLabelPropagation,
)
from jplay.blocks import blocked

BY_CASE = pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)


@pytest.fixture(autouse=True)
def _one_thread_of_dask():
    dask = pytest.importorskip("dask")
    with dask.config.set(scheduler="synchronous"):
        yield


def assert_refused(case, kind, caught):
    name = case.refused[kind]
    assert re.search(rf"[`']{name}[`']", str(caught)), str(caught)


def assert_agrees(values, expected, tolerance):
    assert values.keys() == expected.keys()
    for name, value in expected.items():
        atol = tolerance * np.max(np.abs(value), initial=1.0)
        np.testing.assert_allclose(values[name], value, rtol=0, atol=atol, err_msg=name)


@cache
def reference(position, sizes=None, bandwidth=None):
    """Fit of a case on NumPy arrays in double precision, over the graph of the container."""
    case = CASES[position]
    given = {}
    if sizes is not None and case.has_graph:
        given["graph"] = reference_graph(case, sizes, bandwidth)
    return values_of(case.fit(X, TARGETS[case.targets], WEIGHT, **given))


# Containers in memory


def as_float32(array):
    return array.astype(np.float32) if array.dtype.kind == "f" else array


def as_pandas(array):
    pandas = pytest.importorskip("pandas")
    if array.ndim == 1:
        return pandas.Series(array)
    return pandas.DataFrame(array, columns=[f"column {i}" for i in range(array.shape[1])])


@pytest.mark.parametrize(
    ("made", "tolerance"), [(np.asarray, 0), (as_pandas, 1e-9), (as_float32, 5e-4)]
)
@BY_CASE
def test_arrays_in_memory_give_one_fit(case, made, tolerance):
    inputs = made(X), made(TARGETS[case.targets]), made(WEIGHT)
    if "memory" in case.refused:
        with pytest.raises(ValueError, match="should be") as caught:
            case.fit(*inputs)
        assert_refused(case, "memory", caught.value)
        return
    model = case.fit(*inputs)
    if made is as_float32:
        assert model.transform(inputs[0]).dtype == np.float32
    assert_agrees(values_of(model, inputs[0]), reference(CASES.index(case)), tolerance)


# Other array libraries


@cache
def outcomes(library):
    """What every case gives on arrays of another library, in a process of its own."""
    pytest.importorskip(library)
    result = subprocess.run(
        [sys.executable, Path(__file__).parent / "contract.py", library],
        env=os.environ | {"SCIPY_ARRAY_API": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    return json.loads(result.stdout) if result.returncode == 0 else result.stderr[-3000:]


@pytest.mark.parametrize("library", ["array_api_strict", "torch"])
@BY_CASE
def test_other_array_libraries_give_the_same_fit(case, library):
    everything = outcomes(library)
    assert isinstance(everything, dict), everything
    outcome = everything[case.id]
    refused = case.refused | {"arrays": case.refused.get("arrays", case.refused.get("memory"))}
    if refused["arrays"] is not None:
        assert outcome.get("kind") == "ValueError", outcome
        assert_refused(replace(case, refused=refused), "arrays", outcome["error"])
        return
    assert "error" not in outcome, outcome
    assert outcome["library kept"]
    assert_agrees(outcome["values"], reference(CASES.index(case)), 1e-6)


# Containers of blocks


def memmap_in_blocks(array, folder):
    stored = np.memmap(folder / "samples", dtype=array.dtype, mode="w+", shape=array.shape)
    stored[:] = array
    return blocked(stored, rows=SIZES[0])


def zarr_array(array, folder):
    zarr = pytest.importorskip("zarr")
    stored = zarr.create_array(
        folder / "samples.zarr", shape=array.shape, chunks=(7, array.shape[1]), dtype=array.dtype
    )
    stored[:] = array
    return stored


def dask_array(array, folder):
    da = pytest.importorskip("dask.array")
    return da.from_array(array, chunks=(tuple(SIZES), *array.shape[1:]))


def xarray_over_dask(array, folder):
    xarray = pytest.importorskip("xarray")
    return xarray.DataArray(dask_array(array, folder), dims=("pixel", "band"))


@pytest.mark.parametrize(
    ("made", "sizes", "made_like"),
    [
        (memmap_in_blocks, SIZES, lambda array: array),
        (zarr_array, [len(X)], lambda array: array),
        (dask_array, SIZES, lambda array: dask_array(array, None)),
        (xarray_over_dask, SIZES, lambda array: dask_array(array, None)),
    ],
    ids=["memmap", "zarr", "dask", "xarray"],
)
@BY_CASE
def test_blocks_give_the_fit_of_their_graph(case, made, sizes, made_like, tmp_path):
    inputs = made(X, tmp_path), made_like(TARGETS[case.targets]), made_like(WEIGHT)
    if "blocks" in case.refused:
        with pytest.raises(ValueError, match="should be") as caught:
            case.fit(*inputs)
        assert_refused(case, "blocks", caught.value)
        return
    model = case.fit(*inputs)
    assert getattr(model, "affinity_", None) is None
    expected = reference(CASES.index(case), tuple(sizes), getattr(model, "bandwidth_", None))
    assert_agrees(values_of(model), expected, 1e-7)


# Every parameter counts

CHANGES = {
    "n_components": [2],
    "n_layers": [1, [5, 3]],
    "alpha": [10.0],
    "beta": [1.0],
    "gamma": [1.0, LabelPenalty(absolute=1.0)],
    "graph": [HeatGraph(3), MATRIX],
    "constraints": ["nonnegative", "unit_ball", None],
    "reconstruction": [False],
    "solver": ["fast", "paper"],
    "scaling": ["norm", None],
    "whiten": [False],
    "decision": ["projection"],
    "class_weight": ["balanced", {1: 3.0}],
    "unlabeled": [-1, "auto", SoftLabelPropagation()],
}
FAST_CHANGES = {
    "max_iter": 3,
    "tol": 1.0,
    "mu": 4.0,
    "growth": 1.5,
    "settled_growth": 5.0,
    "mu_max": 2.0,
    "damping": 1.0,
    "first_layer_iter": 3,
    "relaxation": 1.2,
}
PAPER_CHANGES = {
    "max_iter": 1,
    "tol": 10.0,
    "inner_max_iter": 5,
    "inner_tol": 1.0,
    "eta": 2.0,
    "pretraining": False,
    "mu": 0.1,
    "growth": 1.5,
    "mu_max": 1.0,
}
GRAPH_CHANGES = {"n_neighbors": 3, "bandwidth": 0.3, "method": "approximate", "overlap": 4}
PROPAGATION_CHANGES = {"weight": 0.2, "rounds": 1, "marker": -1}


def containers(folder):
    return {"memory": X, "blocks": dask_array(X, folder)}


def fingerprint(estimator, *fit_arguments):
    """All that a fit leaves behind and prediction or the user sees."""
    model = estimator.fit(*fit_arguments)
    return values_of(model) | {
        "bandwidth_": np.asarray(model.bandwidth_, dtype=float),
        "classes_": np.asarray(getattr(model, "classes_", 0)),
    }


def differs(found, base):
    return found.keys() != base.keys() or any(
        not np.array_equal(found[name], base[name], equal_nan=name == "bandwidth_") for name in base
    )


def assert_counts(name, base, changed, *fit_arguments):
    """The changed estimator fits otherwise, or refuses with the parameter's name."""
    before = fingerprint(base, *fit_arguments)
    assert_counts_after(name, before, lambda: fingerprint(changed, *fit_arguments))


def assert_counts_after(name, before, fit):
    try:
        after, message = fit(), None
    except ValueError as error:
        after, message = None, str(error)
    if message is not None:
        assert re.search(rf"[`']{name}[`']", message), message
    else:
        assert differs(after, before), f"`{name}` changes nothing"


def test_every_parameter_and_field_has_a_change():
    assert set(CHANGES) == set(inspect.signature(JPlay).parameters)
    for settings, changes in (
        (FastSolver, FAST_CHANGES),
        (PaperSolver, PAPER_CHANGES),
        (HeatGraph, GRAPH_CHANGES),
        (SoftLabelPropagation, PROPAGATION_CHANGES),
    ):
        assert set(changes) == {entry.name for entry in fields(settings)}, settings
    assert set(AUTORULE_CHANGES) == set(inspect.signature(AutoRULe).parameters)
    assert set(LPP_CHANGES) == set(inspect.signature(LPP).parameters)
    assert set(MULTITASK_CHANGES) == set(inspect.signature(MultiTaskJPlay).parameters)
    assert set(BAND_CHANGES) == set(inspect.signature(JPlayBandSelector).parameters)
    assert set(SENSOR_CHANGES) == set(inspect.signature(CrossSensorJPlay).parameters)
    assert set(DOMAIN_CHANGES) == set(inspect.signature(DomainJPlay).parameters)


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in CHANGES.items() for value in values]
)
@pytest.mark.parametrize("solver", [FAST, PAPER], ids=["fast", "paper"])
@pytest.mark.parametrize("kind", ["memory", "blocks"])
def test_every_parameter_of_jplay_counts(name, value, solver, kind, tmp_path):
    targets, base = CLASSES, {"n_components": 3, "n_layers": 2, "graph": GRAPH, "solver": solver}
    if name == "class_weight":
        targets = np.where(CLASSES == 2, 0, CLASSES)
    elif name == "unlabeled":
        targets, base = TARGETS["hidden classes"], base | {"unlabeled": None}
    elif name == "solver":
        value = PAPER if solver is FAST else FAST
    assert_counts(
        name, JPlay(**base), JPlay(**base | {name: value}), containers(tmp_path)[kind], targets
    )


@pytest.mark.parametrize("solver", [FAST, PAPER], ids=["fast", "paper"])
@pytest.mark.parametrize("kind", ["memory", "blocks"])
def test_nothing_changed_changes_nothing(solver, kind, tmp_path):
    """Else every change would seem to count."""
    model = JPlay(3, 2, graph=GRAPH, solver=solver)
    samples = containers(tmp_path)[kind]
    before = fingerprint(model, samples, CLASSES)
    assert not differs(fingerprint(model, samples, CLASSES), before)


@pytest.mark.parametrize("solver", [FAST, PAPER], ids=["fast", "paper"])
@pytest.mark.parametrize("kind", ["memory", "blocks"])
def test_sample_weight_counts(solver, kind, tmp_path):
    samples, model = containers(tmp_path)[kind], JPlay(3, 2, graph=GRAPH, solver=solver)
    before = fingerprint(model, samples, CLASSES)
    assert_counts_after(
        "sample_weight", before, lambda: fingerprint(model, samples, CLASSES, WEIGHT)
    )
    assert not differs(fingerprint(model, samples, CLASSES, np.ones(len(X))), before)


@pytest.mark.parametrize("name", FAST_CHANGES)
@pytest.mark.parametrize("kind", ["memory", "blocks"])
def test_every_field_of_the_fast_schedule_counts(name, kind, tmp_path):
    base, settings = FastSolver(), {"n_components": 3, "n_layers": 2, "graph": GRAPH}
    changed = replace(base, **{name: FAST_CHANGES[name]})
    samples = containers(tmp_path)[kind]
    assert_counts(
        name, JPlay(solver=base, **settings), JPlay(solver=changed, **settings), samples, CLASSES
    )


@pytest.mark.parametrize("name", PAPER_CHANGES)
@pytest.mark.parametrize("kind", ["memory", "blocks"])
def test_every_field_of_the_published_schedule_counts(name, kind, tmp_path):
    base = PaperSolver(max_iter=3, inner_max_iter=20)
    changed = replace(base, **{name: PAPER_CHANGES[name]})
    settings = {"n_components": 3, "n_layers": 2, "graph": GRAPH}
    samples = containers(tmp_path)[kind]
    assert_counts(
        name, JPlay(solver=base, **settings), JPlay(solver=changed, **settings), samples, CLASSES
    )


def _farthest(X, n_neighbors):
    """Neighbours that no search would find, in the place of approximate ones."""
    squared = ((X[:, None] - X[None]) ** 2).sum(axis=2)
    indices = np.argsort(-squared, axis=1)[:, :n_neighbors]
    return indices, np.take_along_axis(squared, indices, axis=1)


@pytest.mark.parametrize("name", GRAPH_CHANGES)
@pytest.mark.parametrize("kind", ["memory", "blocks"])
@pytest.mark.parametrize(
    "make", [lambda g: JPlay(3, 2, graph=g, solver=FAST), lambda g: LPP(graph=g)]
)
def test_every_field_of_the_graph_counts(name, kind, make, tmp_path, monkeypatch):
    monkeypatch.setattr("jplay.core.graph.search_approximately", _farthest)
    changed = replace(GRAPH, **{name: GRAPH_CHANGES[name]})
    assert_counts(name, make(GRAPH), make(changed), containers(tmp_path)[kind], CLASSES)


@pytest.mark.parametrize("name", PROPAGATION_CHANGES)
def test_every_field_of_the_propagation_counts(name):
    """On blocks and with the published solver the whole object is refused, see above."""
    base = SoftLabelPropagation()
    changed = replace(base, **{name: PROPAGATION_CHANGES[name]})
    # With "auto" signs are two classes; otherwise -1 is a missing label.
    targets = TARGETS["signs" if name == "marker" else "hidden classes"]
    settings = {"n_components": 3, "n_layers": 2, "graph": GRAPH, "solver": FAST}
    assert_counts(
        name, JPlay(unlabeled=base, **settings), JPlay(unlabeled=changed, **settings), X, targets
    )


AUTORULE_CHANGES = {
    "n_components": 2,
    "eta": 2.0,
    "graph": HeatGraph(3),
    "max_iter": 5,
    "tol": 1.0,
    "constraints": "unit_ball",
    "reconstruction": False,
}
LPP_CHANGES = {"n_components": 2, "graph": HeatGraph(3)}


@pytest.mark.parametrize(
    ("estimator", "name", "value"),
    [(AutoRULe, *change) for change in AUTORULE_CHANGES.items()]
    + [(LPP, *change) for change in LPP_CHANGES.items()],
)
@pytest.mark.parametrize("kind", ["memory", "blocks"])
def test_every_parameter_of_fits_without_labels_counts(estimator, name, value, kind, tmp_path):
    base = {"n_components": 3, "graph": GRAPH}
    assert_counts(
        name, estimator(**base), estimator(**base | {name: value}), containers(tmp_path)[kind]
    )


MULTITASK_CHANGES = {
    name: CHANGES[name][-1]
    for name in ("n_components", "n_layers", "beta", "gamma", "graph", "constraints", "scaling")
} | {
    "alpha": 1.0,
    "reconstruction": False,
    "solver": replace(FAST, max_iter=3),
    "tasks": "regression",
    "task_weight": "balanced",
    "linked": False,
}


@pytest.mark.parametrize("name", MULTITASK_CHANGES)
def test_every_parameter_of_several_tasks_counts(name):
    base = {"n_components": 3, "n_layers": 2, "graph": GRAPH, "solver": FAST}

    def fit(**changed):
        model = MultiTaskJPlay(**base | changed).fit(X, TARGETS["tasks"])
        seen = model.predict_proba(X)[0] if model.task_classes_ else model.predict(X)
        return values_of(model) | {"probabilities": seen}

    assert_counts_after(name, fit(), lambda: fit(**{name: MULTITASK_CHANGES[name]}))


BAND_CHANGES = {
    "n_features_to_select": 2,
    "min_distance": 4,
    "feature_groups": [0, 0, 0, 0, 0, 1],
    "feature_costs": [1, 2, 3, 4, 5, 6],
    "max_cost": 1.0,
    "refine": False,
    "n_resamples": 1,
    "n_components": 2,
    "alpha": 1.0,
    "beta": 10.0,
    "gamma": 1.0,
    "solver": replace(FAST, max_iter=3),
    "random_state": 1,
}


@pytest.mark.parametrize("name", BAND_CHANGES)
def test_every_parameter_of_the_choice_of_bands_counts(name):
    def fit(**changed):
        model = JPlayBandSelector(**{"solver": FAST} | changed).fit(X, CLASSES)
        found = values_of(model) | {"norms": model.path_.norms}
        return found if model.stability_ is None else found | {"stability_": model.stability_}

    assert_counts_after(name, fit(), lambda: fit(**{name: BAND_CHANGES[name]}))


SENSOR_CHANGES = {
    "estimator": clone(CHEAP).set_params(n_components=2),
    "teacher": clone(CHEAP).set_params(n_components=1),
    "n_taught": 2,
    "random_state": 1,
}


@pytest.mark.parametrize("name", SENSOR_CHANGES)
def test_every_parameter_of_two_sensors_counts(name):
    base = {"estimator": CHEAP, "teacher": CHEAP, "n_taught": 1}

    def fit(**changed):
        model = CrossSensorJPlay(**base | changed).fit(X, TARGETS["hidden classes"], RICH)
        return values_of(model) | {"teacher": model.teacher_.transform(RICH)}

    assert_counts_after(name, fit(), lambda: fit(**{name: SENSOR_CHANGES[name]}))


DOMAIN_CHANGES = {"estimator": CHEAP, "n_rounds": 0}


@pytest.mark.parametrize("name", DOMAIN_CHANGES)
def test_every_parameter_of_two_domains_counts(name):
    def fit(**changed):
        return values_of(DomainJPlay(**changed).fit(X, TARGETS["hidden classes"]))

    assert_counts_after(name, fit(), lambda: fit(**{name: DOMAIN_CHANGES[name]}))


# The interface


def test_jplay_has_fourteen_parameters_at_most():
    assert len(inspect.signature(JPlay).parameters) <= 14
