"""Fits of every estimator, on samples from harmless to hostile, in every container."""

import warnings
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from fuzz.judging import check
from jplay import (
    LFDA,
    LPP,
    LSDR,
    LSQMID,
    NPE,
    AutoRULe,
    CanonicalCorrelationForestClassifier,
    CrossSensorJPlay,
    DomainJPlay,
    FastSolver,
    HeatGraph,
    JPlay,
    JPlayBandSelector,
    JPlayCommittee,
    JPlaySearchCV,
    LabelPenalty,
    LiftedJPlay,
    MultiLabelJPlay,
    MultiTaskJPlay,
    PaperSolver,
    SoftLabelPropagation,
    SpatialJPlay,
)
from jplay._array_api import to_numpy
from jplay.blocks import blocked

SEED = 7


def _jplay(rng):
    sizes = [None, None, None, 1, 1, 2, 2, 3, 50]
    schedules = [
        "fast",
        "fast",
        FastSolver(max_iter=int(rng.integers(1, 60)), tol=float(rng.choice([1e-8, 1e-4, 0.1]))),
        FastSolver(max_iter=1),
        PaperSolver(max_iter=2, inner_max_iter=10, mu=float(rng.choice([1e-3, 1.0]))),
    ]
    return JPlay(
        n_components=sizes[rng.integers(len(sizes))],
        n_layers=[1, 1, 2, 3, [3, 2], [0], "auto"][
            rng.choice(7, p=[0.3, 0.3, 0.2, 0.1, 0.06, 0.02, 0.02])
        ],
        alpha=_weight(rng),
        beta=_weight(rng),
        gamma=_one(rng, [_weight(rng)] * 4 + [LabelPenalty(_weight(rng), _weight(rng))]),
        graph=_graph(rng),
        constraints=_one(rng, ["both", "both", "both", "nonnegative", "unit_ball", None]),
        reconstruction=bool(rng.random() > 0.1),
        solver=schedules[rng.choice(5, p=[0.35, 0.25, 0.2, 0.1, 0.1])],
        decision=_one(rng, ["auto", "auto", "centroid", "projection"]),
        class_weight=_one(rng, [None] * 8 + ["balanced", "balanced", {0: 3.0}, {9: -1.0}]),
        unlabeled=_one(rng, ["auto"] * 6 + [-1, None, SoftLabelPropagation(0.5, 1)]),
        scaling=_one(rng, ["standard", "standard", "standard", "norm", None]),
        whiten=bool(rng.random() > 0.4),
    )


def _one(rng, values):
    return values[rng.integers(len(values))]


def _weight(rng):
    if rng.random() < 0.04:
        return _one(rng, [0, -1.0, np.nan, np.inf, 1e300, 1e-300, "one"])
    return float(10 ** rng.uniform(-4, 3))


def _graph(rng):
    if rng.random() < 0.5:
        return None
    return HeatGraph(
        int(rng.integers(1, 15)), _one(rng, ["median", "median", 0.5, 2.0, 1e3, 1e149, 1e-149])
    )


def _components(rng):
    return int(rng.choice([1, 1, 2, 2, 3, 40], p=[0.3, 0.2, 0.2, 0.15, 0.1, 0.05]))


ESTIMATORS = {
    "JPlay": (0.5, _jplay),
    "LPP": (0.08, lambda rng: LPP(_one(rng, [None, 1, 2, 40]), graph=_graph(rng))),
    "AutoRULe": (
        0.06,
        lambda rng: AutoRULe(
            _one(rng, [None, 1, 2]),
            eta=_weight(rng),
            graph=_graph(rng),
            max_iter=int(rng.integers(1, 60)),
            constraints=_one(rng, ["both", "both", "nonnegative", "unit_ball", None]),
        ),
    ),
    "NPE": (
        0.08,
        lambda rng: NPE(_components(rng), n_neighbors=int(rng.integers(1, 12)), reg=_weight(rng)),
    ),
    "LFDA": (
        0.08,
        lambda rng: LFDA(
            _one(rng, [None, 1, 2, 40]),
            n_neighbors=int(rng.integers(1, 12)),
            embedding=_one(rng, ["weighted", "orthonormalized", "plain"]),
            reg=_one(rng, [0.0, 1e-3, 1.0]),
        ),
    ),
    "LSDR": (0.03, lambda rng: _information(LSDR, rng)),
    "LSQMID": (0.03, lambda rng: _information(LSQMID, rng)),
    "LiftedJPlay": (
        0.03,
        lambda rng: LiftedJPlay(
            _one(rng, [None, 1, 2]),
            n_landmarks=int(rng.integers(2, 40)),
            n_coordinates=int(rng.integers(2, 30)),
            alpha=_weight(rng),
            beta=_weight(rng),
            gamma=_weight(rng),
            random_state=SEED,
        ),
    ),
    "JPlayCommittee": (
        0.01,
        lambda rng: JPlayCommittee(
            int(rng.integers(1, 3)), n_landmarks=20, n_coordinates=10, random_state=SEED
        ),
    ),
    "MultiLabelJPlay": (0.01, lambda rng: MultiLabelJPlay(JPlay(2), cv=2, random_state=SEED)),
    "MultiTaskJPlay": (
        0.02,
        lambda rng: MultiTaskJPlay(
            _one(rng, [None, 1, 2]),
            n_layers=_one(rng, [1, 1, 2]),
            task_weight=_one(rng, [None, "balanced", {0: 2.0}]),
            linked=bool(rng.random() > 0.3),
            alpha=_weight(rng),
            graph=_graph(rng),
            constraints=_one(rng, ["both", "nonnegative", None]),
        ),
    ),
    "JPlayBandSelector": (
        0.01,
        lambda rng: JPlayBandSelector(
            _one(rng, [None, 1, 2, 0.5, 40]),
            min_distance=int(rng.integers(1, 4)),
            max_cost=_one(rng, [None, 1.5]),
            refine=bool(rng.random() > 0.3),
            alpha=_weight(rng),
            beta=_weight(rng),
            solver=FastSolver(max_iter=20),
            random_state=SEED,
        ),
    ),
    "CrossSensorJPlay": (
        0.01,
        lambda rng: CrossSensorJPlay(
            JPlay(_one(rng, [None, 1]), graph=HeatGraph(2)),
            teacher=JPlay(graph=HeatGraph(2)),
            n_taught=int(rng.integers(1, 20)),
        ),
    ),
    "DomainJPlay": (
        0.02,
        lambda rng: DomainJPlay(
            _one(rng, [None, JPlay(2, graph=HeatGraph(2))]), n_rounds=int(rng.integers(0, 4))
        ),
    ),
    "CanonicalCorrelationForestClassifier": (
        0.04,
        lambda rng: CanonicalCorrelationForestClassifier(
            int(rng.integers(1, 4)), max_depth=_one(rng, [None, 1, 4]), random_state=SEED
        ),
    ),
    "JPlaySearchCV": (
        0.01,
        lambda rng: JPlaySearchCV(
            {"alpha": [_weight(rng), 1.0], "n_components": [1, 2]}, cv=2, estimator=JPlay()
        ),
    ),
    "SpatialJPlay": (
        0.03,
        lambda rng: SpatialJPlay(
            JPlay(2, graph=HeatGraph(2)),
            radius=int(rng.integers(1, 4)),
            edge_width=_one(rng, [0.1, 1.0, 10.0]),
            smooth_features=bool(rng.random() > 0.5),
            n_unlabeled=int(rng.integers(0, 20)),
            head=_one(rng, ["neighbors", "model"]),
            random_state=SEED,
        ),
    ),
}
"""Share of the cases and a maker of every estimator."""


def _information(kind, rng):
    return kind(
        _components(rng),
        n_centers=int(rng.integers(2, 20)),
        cv=2,
        n_restarts=0,
        max_iter=3,
        widths=(1.0,),
        regs=(0.1,),
        init=_one(rng, ["pca", "gradient", "auto"]),
        random_state=SEED,
    )


def _samples(rng):
    """Samples, their classes, and of what kind they are."""
    kind = rng.choice(
        [
            "clusters",
            "counts",
            "few",
            "wide",
            "twins",
            "collinear",
            "offset",
            "flat",
            "heavy",
            "odd",
        ],
        p=[0.34, 0.16, 0.08, 0.1, 0.06, 0.06, 0.06, 0.05, 0.05, 0.04],
    )
    n = int(rng.integers(24, 48))
    p = int(rng.integers(2, 9))
    if kind == "few":
        n = int(rng.integers(1, 8))
    if kind == "wide":
        p = int(rng.integers(n, 2 * n))
    n_classes = int(rng.integers(2, 5))
    y = rng.permutation(np.arange(n) % n_classes)
    X = 2.0 * rng.normal(size=(n_classes, p))[y] + rng.normal(size=(n, p))
    if kind == "counts":
        X = rng.poisson(np.exp(X / 2).clip(max=50)).astype(float)
    elif kind == "twins":
        X = X[rng.integers(0, max(1, n // 4), n)]
    elif kind == "collinear":
        X[:, -1] = X[:, 0] * 2 - X[:, min(1, p - 1)]
    elif kind == "offset":
        X += 10.0 ** rng.integers(2, 9)
    elif kind == "flat":
        X[:, rng.integers(p)] = 0.7
        if rng.random() < 0.4:
            X[:] = rng.choice([0.0, 0.7, 1 / 3, 1e5])
    elif kind == "heavy":
        X = np.sign(X) * np.exp(rng.standard_cauchy(X.shape).clip(-30, 30))
    elif kind == "odd":
        X[rng.integers(n), rng.integers(p)] = rng.choice([np.nan, np.inf, 1e300, -1e300, 1e-320])
    if rng.random() < 0.08:
        X = X * 10.0 ** rng.choice([-300, -200, -120, -30, -6, 6, 30, 120, 200, 300])
    return X, y, kind


def _targets(rng, y, name):
    if name == "MultiLabelJPlay" or (
        name in ("JPlay", "LiftedJPlay", "LSDR") and rng.random() < 0.15
    ):
        labels = np.stack([y % 2, (y > 0).astype(int), rng.integers(0, 2, len(y))], axis=1)
        return scipy.sparse.csr_array(labels) if rng.random() < 0.3 else labels
    if name.endswith("Regressor"):
        return y + rng.normal(size=len(y))
    if name == "MultiTaskJPlay" and rng.random() < 0.7:
        shares = np.where(rng.random(len(y)) < 0.5, np.nan, y + rng.normal(size=len(y)))
        return np.stack([np.where(rng.random(len(y)) < 0.3, np.nan, y), shares], axis=1)
    kind = rng.choice(
        ["whole", "text", "hidden", "signs", "one", "bool"], p=[0.5, 0.2, 0.1, 0.1, 0.03, 0.07]
    )
    if kind == "text":
        return np.array(["=ash", "birch <b>", "cedar", "Öl", "fir"])[y]
    if kind == "hidden":
        return np.where(rng.random(len(y)) < 0.3, -1, y)
    if kind == "signs":
        return np.where(y == 0, -1, 1)
    if kind == "one":
        return np.zeros(len(y), dtype=int)
    return y > 0 if kind == "bool" else y


def _contained(rng, X, y, name):
    """The same samples in another container, and its name."""
    kinds = ["array", "array", "fortran", "strided", "list", "frame", "float32", "memory map"]
    if name in ("JPlay", "LPP", "AutoRULe") and not scipy.sparse.issparse(y):
        kinds += ["blocked", "dask"]
    kind = kinds[rng.integers(len(kinds))]
    if kind == "fortran":
        X = np.asfortranarray(X)
    elif kind == "strided":
        X = np.repeat(X, 2, axis=0)[::2]
    elif kind == "list":
        X = X.tolist()
    elif kind == "frame":
        import pandas

        X = pandas.DataFrame(X, columns=[f"f{i}" for i in range(X.shape[1])])
    elif kind == "float32":
        with np.errstate(over="ignore", under="ignore"):
            X = X.astype(np.float32)
    elif kind == "blocked":
        X = blocked(X, int(rng.integers(5, 30)))
    elif kind == "dask":
        import dask.array

        X = dask.array.from_array(X, chunks=(int(rng.integers(5, 30)), X.shape[1]))
    return X, kind


def attack(rng: np.random.Generator) -> Any:
    """Fit one estimator and check everything that can be known of the result."""
    names = list(ESTIMATORS)
    shares = np.array([ESTIMATORS[name][0] for name in names])
    name = names[rng.choice(len(names), p=shares / shares.sum())]
    model = ESTIMATORS[name][1](rng)
    if name == "SpatialJPlay":
        return _attack_image(rng, model)
    X, y, kind = _samples(rng)
    y = _targets(rng, y, name)
    given, container = _contained(rng, X, y, name)
    before = _snapshot(given)
    warned = _fitted(model, given, y)
    check(np.array_equal(before, _snapshot(given), equal_nan=True), f"{name} changed its samples")
    values = _values(model, X)
    for what, value in values.items():
        check(np.isfinite(value).all(), f"{name}.{what} is not finite ({container})")
    _check_constraints(name, model, X, container, warned)
    again = clone(model)
    _fitted(again, given, y)
    for what, value in _values(again, X).items():
        check(np.array_equal(value, values[what]), f"{name}.{what} differs between two fits")
    if (
        kind in ("clusters", "counts", "wide")
        and container in ("array", "fortran", "strided", "list", "frame")
        and not warned
    ):
        _check_invariance(rng, name, model, X, y, ties=kind == "counts")
    return f"{name}, {container}"


def _snapshot(X):
    return np.array(X) if isinstance(X, (np.ndarray, list)) else np.zeros(0)


def _fitted(model, X, y):
    """Fit and return the warnings that say the result is not what was asked for."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y, *([X] if isinstance(model, CrossSensorJPlay) else []))
    return [str(w.message) for w in caught if issubclass(w.category, ConvergenceWarning)]


def _values(model, X):
    found = {}
    for name in ("transform", "predict_proba", "decision_function"):
        if hasattr(model, name):
            values = getattr(model, name)(X)
            if isinstance(values, list):  # one array per task
                values = np.concatenate(values, axis=1)
            found[name] = np.asarray(to_numpy(values), dtype=float)
    if "predict_proba" in found and np.ndim(found["predict_proba"]) == 2:
        shares = found["predict_proba"]
        check(shares.min() >= 0 and shares.max() <= 1 + 1e-9, "probabilities beyond 0 and 1")
    return found


def _check_constraints(name, model, X, container, warned):
    rounding = 2e-5 if container == "float32" else 1e-9
    if name == "JPlay" and not isinstance(model.solver, PaperSolver):
        if any("could not be made non-negative" in message for message in warned):
            return
        samples = X.astype(np.float32) if container == "float32" else X
        # Samples far from the origin cancel against the intercept, and leave their rounding.
        terms = np.abs(samples) @ np.abs(model.projections_[0]).T
        rounding = max(rounding, 100 * np.finfo(samples.dtype).eps * float(terms.max()))
        for layer, features in enumerate(model.transform_layers(samples)):
            if model.constraints in ("both", "nonnegative"):
                check(features.min() >= -rounding, f"layer {layer} reaches {features.min():.2g}")
            if model.constraints in ("both", "unit_ball"):
                norm = np.linalg.norm(features, axis=1).max()
                check(norm <= 1 + rounding, f"layer {layer} has norm {norm - 1:.2g} above one")
    elif name in ("LSDR", "LSQMID"):
        gram = model.components_ @ model.components_.T
        check(
            np.allclose(gram, np.eye(len(gram)), atol=1e-3 if container == "float32" else 1e-6),
            f"{name} is not orthonormal",
        )
    elif name == "LPP":
        lengths = np.linalg.norm(model.components_, axis=1)
        check(np.allclose(lengths, 1, atol=1e-4), "directions of LPP are not of unit length")


SEVERAL_FITS = ("CrossSensorJPlay", "DomainJPlay", "MultiTaskJPlay")
"""Rounding decides which samples join a later fit, or how far tasks draw together."""
INVARIANT_TO_UNITS = ("JPlay", "LiftedJPlay", "JPlayCommittee")


def _check_invariance(rng, name, model, X, y, ties):
    """Order of samples, unit and precision do not change what is predicted with a clear margin."""
    if not hasattr(model, "predict") or name in ("JPlaySearchCV", *SEVERAL_FITS):
        return
    if name == "JPlay" and (model.scaling is None or isinstance(model.solver, PaperSolver)):
        return
    if name == "JPlay" and model.constraints not in ("both", "nonnegative"):
        return  # the start may be a saddle point, which rounding leaves to one side or the other
    if name == "JPlay" and not _usual_weights(model):
        return  # several minima are nearly as low as each other: rounding may decide
    expected = np.asarray(model.predict(X))
    sure = _margin(model, X)
    trials = {}
    order = rng.permutation(len(X))
    if not (
        name.startswith("Canonical") or name in ("LiftedJPlay", "JPlayCommittee", "MultiLabelJPlay")
    ):
        trials["order"] = (X[order], y[order], X, 1e-4)  # others draw samples by their position
    if name in INVARIANT_TO_UNITS:
        trials["unit"] = (X * 1024.0, y, X * 1024.0, 1e-6)
        trials["decimal unit"] = (X * 1e-3, y, X * 1e-3, 1e-4)
    if name == "JPlay":
        single = X.astype(np.float32)
        trials["precision"] = (single, y, single, 0.05 * (1 + np.max(sure)))
        if "auto" in (model.n_components, model.n_layers):
            del trials["order"]  # the folds of the choice are of other samples
    if ties:  # rounding, or the order, decides which of equally near samples are neighbours
        trials = {what: trial for what, trial in trials.items() if what == "unit"}
    for what, (samples, target, asked, margin) in trials.items():
        other = clone(model)
        if _fitted(other, samples, target):
            continue
        changed = np.asarray(other.predict(asked)) != expected
        changed = changed.any(axis=1) if changed.ndim == 2 else changed
        n_wrong = int((changed & (sure > margin)).sum())
        check(n_wrong == 0, f"{name}: another {what} changes {n_wrong} of {len(X)} predictions")


def _usual_weights(model):
    """Whether every weight is within a factor of a hundred of its default."""
    if isinstance(model.gamma, LabelPenalty):
        return False
    usual = JPlay()
    shares = [getattr(model, w) / getattr(usual, w) for w in ("alpha", "beta", "gamma")]
    return all(0.01 <= share <= 100 for share in shares)


def _margin(model, X):
    """How far the score of the chosen class is above the next one's."""
    if hasattr(model, "decision_function"):
        scores = np.asarray(model.decision_function(X), dtype=float)
    else:
        scores = np.asarray(model.predict_proba(X), dtype=float)
    if getattr(model, "multilabel_", False) or scores.ndim == 1:
        middle = 0.5 if getattr(model, "multilabel_", False) else 0.0
        return np.abs(scores - middle).reshape(len(X), -1).min(axis=1)
    if scores.shape[1] == 1:
        return np.zeros(len(X))
    ordered = np.sort(scores, axis=1)
    return ordered[:, -1] - ordered[:, -2]


def _attack_image(rng, model):
    height, width, n_bands = (int(n) for n in rng.integers([1, 1, 1], [8, 8, 6]))
    labels = rng.integers(0, 3, (height, width))
    cube = rng.random((height, width, n_bands)) + labels[..., None]
    cube *= 10.0 ** rng.choice([0, 0, 0, 3, -3, 250, -250])
    found = model.fit_predict(cube, labels)
    check(found.shape == labels.shape, "a map of another shape")
    check(np.isin(found, labels[labels > 0]).all(), "a class that is not among the labels")
    check(np.array_equal(found, clone(model).fit_predict(cube, labels)), "two fits differ")
    return "SpatialJPlay"
