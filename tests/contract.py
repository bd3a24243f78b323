"""The cases of ``test_contract.py``: options of every estimator, and containers of samples.

Run as a program, ``python contract.py torch`` fits every case on arrays of another library and
prints what came out as JSON. scikit-learn dispatches to other libraries only if SciPy was told to
before its import, so this takes a process of its own.
"""

import inspect
import json
import sys
import warnings
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import sklearn
from sklearn.exceptions import ConvergenceWarning

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
from jplay._array_api import to_numpy
from jplay.blocks import partition_affinity
from jplay.core.scaling import transform_inputs

SIZES = [28, 20]
N_SAMPLES, N_FEATURES = sum(SIZES), 6
_RNG = np.random.default_rng(3)
CLASSES = np.arange(N_SAMPLES) % 3
X = np.abs(
    _RNG.standard_normal((3, N_FEATURES))[CLASSES]
    + 0.4 * _RNG.standard_normal((N_SAMPLES, N_FEATURES))
)
X /= X.max(axis=1, keepdims=True)
RICH = np.hstack([X, X[:, ::2] ** 2])
"""What another sensor saw of the same samples."""
WEIGHT = 0.2 + _RNG.random(N_SAMPLES)
GRAPH = HeatGraph(n_neighbors=5, bandwidth=0.7)
MATRIX = GRAPH(X)
FAST = FastSolver(max_iter=8)
# The published first penalty, 0.001, magnifies rounding ten billion times if the samples lie around
# the origin, as standardised ones do: early steps hardly feel the constraints.
PAPER = PaperSolver(max_iter=2, inner_max_iter=8, mu=1.0)

HIDDEN = np.arange(N_SAMPLES) % 4 == 1
LABELS = np.stack([CLASSES % 2, CLASSES // 2, (X[:, 0] > 0.5).astype(int)], axis=1)
TARGETS = {
    "classes": CLASSES,
    "names": np.array(["ash", "birch", "cedar"])[CLASSES],
    "two classes": CLASSES % 2,
    "signs": np.where(CLASSES == 1, 1, -1),
    "hidden classes": np.where(HIDDEN, -1, CLASSES),
    "labels": LABELS,
    "hidden labels": np.where(HIDDEN[:, None], -1, LABELS),
    "tasks": np.stack(
        [np.where(HIDDEN, np.nan, CLASSES), CLASSES % 2, np.where(HIDDEN, X[:, 1] ** 2, np.nan)],
        axis=1,
    ),
}

ATTRIBUTES = (
    "components_",
    "intercept_",
    "mean_",
    "coef_",
    "class_means_",
    "decision_coef_",
    "decision_intercept_",
    "whitener_",
    "center_",
    "feature_scale_",
    "feature_mean_",
    "support_",
    "importances_",
    "taught_",
    "directions_",
)
"""What must agree between containers, as far as an estimator has it."""


def graph_of_blocks(samples):
    """A graph given as a function, on the host whatever the samples are."""
    return GRAPH(to_numpy(samples))


@dataclass(frozen=True)
class Case:
    """One option of one estimator, and where it is refused."""

    estimator: Any
    name: str
    parameters: dict = field(default_factory=dict)
    targets: str = "classes"
    weighted: bool = False
    refused: dict = field(default_factory=dict)
    """Name that the error must hold, by kind of container: memory, arrays, blocks."""

    @property
    def id(self):
        return f"{self.estimator.__name__}: {self.name}"

    def made(self, **parameters):
        given = {"graph": GRAPH} if self.has_graph else {}
        return self.estimator(**(given | self.parameters | parameters))

    @property
    def has_graph(self):
        return "graph" in inspect.signature(self.estimator).parameters

    def fit(self, samples, targets, weight, **parameters):
        """Fit on a container; ``targets`` and ``weight`` may be in one as well."""
        model = self.made(**parameters)
        if self.estimator in (LPP, AutoRULe):
            return model.fit(samples)
        if self.estimator is CrossSensorJPlay:
            return model.fit(samples, targets, RICH)
        return model.fit(samples, targets, *([weight] if self.weighted else []))


CHEAP = JPlay(3, graph=HeatGraph(5), solver=FAST)


def _jplay(name, /, targets="classes", weighted=False, refused=None, **parameters):
    parameters = {"n_components": 3, "n_layers": 2, "solver": FAST} | parameters
    return Case(JPlay, name, parameters, targets, weighted, refused or {})


CASES = [
    _jplay("as it comes"),
    _jplay("n_components=2", n_components=2),
    _jplay("n_components=None", n_components=None),
    _jplay(
        "n_components=auto",
        n_components="auto",
        n_layers=1,
        refused={"blocks": "n_components"},
    ),
    _jplay("n_layers=1", n_layers=1),
    _jplay("n_layers listed", n_layers=[5, 3]),
    _jplay("n_layers=auto", n_layers="auto", refused={"blocks": "n_layers"}),
    _jplay("alpha", alpha=10.0),
    _jplay("beta", beta=1.0),
    _jplay("gamma", gamma=1.0),
    _jplay("sparse label projection", gamma=LabelPenalty(0.1, 0.5)),
    _jplay("graph with three neighbours", graph=HeatGraph(3, 0.5)),
    _jplay("graph with the median distance", graph=HeatGraph(5)),
    _jplay("graph by exact search", graph=replace(GRAPH, method="exact")),
    _jplay(
        "graph by approximate search",
        graph=replace(GRAPH, method="approximate"),
        refused={"arrays": "method"},
    ),
    _jplay(
        "graph that overlaps",
        graph=replace(GRAPH, overlap=4),
        refused={"memory": "overlap", "arrays": "overlap"},
    ),
    _jplay("graph by a function", graph=graph_of_blocks, refused={"arrays": "graph"}),
    _jplay("graph as a matrix", graph=MATRIX, refused={"arrays": "graph", "blocks": "graph"}),
    *(_jplay(f"constraints={kind}", constraints=kind) for kind in ("nonnegative", "unit_ball")),
    _jplay("constraints=None", constraints=None),
    _jplay("reconstruction=False", reconstruction=False),
    _jplay("published solver", solver=PAPER),
    # With a constant feature and no constraint the start is a saddle point, left by rounding.
    _jplay("published solver, no constraints", solver=PAPER, constraints=None, scaling=None),
    _jplay("published solver without pre-training", solver=replace(PAPER, pretraining=False)),
    _jplay("published model", solver=replace(PAPER, mu=1e-3), scaling=None, whiten=False),
    _jplay("published solver for labels", "labels", solver=PAPER),
    _jplay("scaling=norm", scaling="norm"),
    _jplay("scaling=None", scaling=None),
    _jplay("whiten=False", whiten=False),
    _jplay("whiten=False for labels", "labels", whiten=False),
    _jplay("decision=centroid", decision="centroid"),
    _jplay("decision=projection", decision="projection"),
    _jplay("two classes", "two classes"),
    _jplay("signs as classes", "signs"),
    _jplay("class_weight=balanced", "two classes", class_weight="balanced"),
    _jplay("class_weight by class", class_weight={1: 3.0}),
    _jplay("class_weight by label", "labels", class_weight={1: 3.0}),
    _jplay("sample_weight", weighted=True),
    _jplay("sample_weight and class_weight", weighted=True, class_weight={0: 2.0}),
    _jplay("labels", "labels"),
    _jplay("labels with sample_weight", "labels", weighted=True),
    _jplay("hidden classes", "hidden classes"),
    _jplay("hidden classes with weights", "hidden classes", weighted=True, class_weight={0: 2.0}),
    _jplay("hidden labels", "hidden labels"),
    _jplay("unlabeled=None", "hidden classes", unlabeled=None),
    _jplay("unlabeled=-1", "hidden classes", unlabeled=-1),
    *(
        _jplay(
            f"SoftLabelPropagation of {targets}",
            targets,
            unlabeled=SoftLabelPropagation(0.5, 1),
            refused={"blocks": "unlabeled"},
        )
        for targets in ("hidden classes", "hidden labels")
    ),
    *(
        _jplay(f"published solver with {name}", refused=dict.fromkeys(kinds, blamed), **settings)
        for kinds in [("memory", "arrays", "blocks")]
        for name, blamed, settings in [
            ("sample_weight", "sample_weight", {"weighted": True, "solver": PAPER}),
            ("class_weight", "class_weight", {"class_weight": {1: 3.0}, "solver": PAPER}),
            ("hidden classes", "unlabeled", {"targets": "hidden classes", "solver": PAPER}),
        ]
    ),
    *(
        Case(
            MultiTaskJPlay,
            name,
            {"n_components": 3, "n_layers": 2, "solver": FAST} | parameters,
            targets,
            weighted,
            {"blocks": "X"},
        )
        for name, targets, weighted, parameters in [
            ("as it comes", "tasks", False, {}),
            ("one task", "hidden classes", False, {}),
            ("sample_weight", "tasks", True, {}),
            ("n_layers=1", "tasks", False, {"n_layers": 1}),
            ("tasks", "tasks", False, {"tasks": "regression"}),
            ("task_weight=balanced", "tasks", False, {"task_weight": "balanced"}),
            ("linked=False", "tasks", False, {"linked": False}),
            ("constraints=None", "tasks", False, {"constraints": None}),
        ]
    ),
    *(
        # The path starts from a graph, which cannot be given: choices agree, not paths.
        Case(JPlayBandSelector, name, {"beta": 0.0, "solver": FAST} | parameters, targets)
        for name, targets, parameters in [
            ("as it comes", "classes", {}),
            ("hidden classes", "hidden classes", {}),
            ("n_features_to_select", "classes", {"n_features_to_select": 2}),
            ("min_distance", "classes", {"min_distance": 3}),
            ("refine=False", "classes", {"refine": False}),
            ("feature_groups", "classes", {"feature_groups": [0, 0, 1, 1, 2, 2]}),
            ("feature_costs", "classes", {"feature_costs": [1, 2, 3, 1, 2, 3], "max_cost": 4.0}),
        ]
    ),
    *(
        Case(
            CrossSensorJPlay,
            name,
            {"estimator": CHEAP, "teacher": CHEAP} | parameters,
            targets,
            refused={"arrays": "X", "blocks": "X"},
        )
        for name, targets, parameters in [
            ("as it comes", "hidden classes", {}),
            ("nothing to teach", "classes", {}),
            ("n_taught", "hidden classes", {"n_taught": 1}),
        ]
    ),
    *(
        Case(DomainJPlay, name, parameters, targets, refused={"arrays": "X", "blocks": "X"})
        for name, targets, parameters in [
            ("as it comes", "hidden classes", {}),
            ("no target", "classes", {}),
            ("estimator", "hidden classes", {"estimator": CHEAP, "n_rounds": 2}),
        ]
    ),
    *(
        Case(AutoRULe, name, {"n_components": 3, "max_iter": 40} | parameters, refused=refused)
        for name, parameters, refused in [
            ("as it comes", {}, {}),
            ("n_components=None", {"n_components": None}, {}),
            ("eta", {"eta": 1.0}, {}),
            ("max_iter", {"max_iter": 5}, {}),
            ("tol", {"tol": 1e-2}, {}),
            ("constraints=unit_ball", {"constraints": "unit_ball"}, {}),
            ("constraints=nonnegative", {"constraints": "nonnegative"}, {}),
            ("reconstruction=False", {"reconstruction": False}, {}),
            ("graph that overlaps", {"graph": replace(GRAPH, overlap=4)}, {"memory": "overlap"}),
            ("graph as a matrix", {"graph": MATRIX}, {"arrays": "graph", "blocks": "graph"}),
        ]
    ),
    *(
        Case(LPP, name, {"n_components": 3} | parameters, refused=refused)
        for name, parameters, refused in [
            ("as it comes", {}, {}),
            ("n_components=None", {"n_components": None}, {}),
            ("graph with three neighbours", {"graph": HeatGraph(3, 0.5)}, {}),
            ("graph that overlaps", {"graph": replace(GRAPH, overlap=4)}, {"memory": "overlap"}),
            ("graph by a function", {"graph": graph_of_blocks}, {"arrays": "graph"}),
            ("graph as a matrix", {"graph": MATRIX}, {"arrays": "graph", "blocks": "graph"}),
        ]
    ),
]


def reference_graph(case, sizes, bandwidth):
    """The graph that ``case`` has over all samples if they come in blocks of these sizes."""
    model = case.made()
    if not isinstance(model.graph, HeatGraph):
        return partition_affinity(X, sizes, GRAPH)
    _, samples, _ = transform_inputs(X, getattr(model, "scaling", None))
    return partition_affinity(samples, sizes, replace(model.graph, bandwidth=bandwidth))


def values_of(model, samples=X):
    """Fitted values of a model, and the features of samples, as NumPy arrays."""
    found = {name: getattr(model, name) for name in ATTRIBUTES if hasattr(model, name)}
    if isinstance(model, MultiTaskJPlay):  # one array per task
        for name in ("coef_", "output_coef_", "output_intercept_"):
            found[name] = np.concatenate([to_numpy(part) for part in getattr(model, name)])
    if isinstance(model, JPlayBandSelector):
        found["loss_"] = np.asarray(model.loss_)
    found["transform"] = model.transform(samples)
    values = {name: to_numpy(value).astype(np.float64) for name, value in found.items()}
    return values | {"n_iter_": np.asarray(getattr(model, "n_iter_", 0))}


def _outcome(case, made):
    """Fitted values, or the error's message, on arrays made by ``made``."""
    targets, weight = TARGETS[case.targets], WEIGHT
    try:
        with sklearn.config_context(array_api_dispatch=True):
            model = case.fit(made(X), made(targets), made(weight))
            kept = type(model.transform(made(X))) is type(made(X))
            values = values_of(model, made(X))
    except Exception as error:  # which the test judges: one case must not end the others
        return {"error": str(error), "kind": type(error).__name__}
    values = {name: value.tolist() for name, value in values.items()}
    return {"values": values, "library kept": kept}


def main(library):
    """Print the outcome of every case on arrays of ``library``."""
    warnings.simplefilter("ignore", ConvergenceWarning)
    if library == "torch":
        import torch

        made = torch.from_numpy
    else:
        from array_api_strict import asarray as made
    json.dump({case.id: _outcome(case, made) for case in CASES}, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1])
