"""A refit that fails or is interrupted leaves an estimator that is not fitted and says so."""

import copy
import inspect
import pickle
import sys
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.svm import SVC

import jplay
from jplay.experiments import _rivals, _steps, _suite_scenes

ANSWERS = ("predict", "predict_proba", "transform", "decision_function", "get_support")
N_INTERRUPTIONS = 3

RNG = np.random.default_rng(0)
CODES = np.arange(36) % 3
X = np.abs(RNG.standard_normal((3, 6))[CODES] + 0.3 * RNG.standard_normal((36, 6)))
NAMES, OTHER_NAMES = (
    np.array(names)[CODES] for names in (["ash", "birch", "cedar"], ["wheat", "maize", "rye"])
)
PIXELS = np.where(np.arange(144) % 3 == 0, 1 + np.arange(144) % 2, 0).reshape(12, 12)
CUBE = np.abs(RNG.standard_normal((3, 6))[PIXELS] + 0.3 * RNG.standard_normal((12, 12, 6)))
KNOWN = np.flatnonzero(PIXELS)


@dataclass(frozen=True)
class Case:
    """An estimator and two sets of training samples."""

    estimator: Any
    first: tuple = (X, NAMES)
    second: tuple = (X[:, ::-1], OTHER_NAMES)
    broken: tuple = (X[:-5], OTHER_NAMES)
    """Samples with which a fit fails."""
    failing: dict = field(default_factory=dict)
    """Parameters with which it fails."""
    asked: Any = None
    """Samples to ask about; ``None`` for ``X``."""

    @property
    def samples(self):
        return X if self.asked is None else self.asked

    @property
    def name(self):
        return type(self.estimator).__name__

    def fitted(self):
        model = clone(self.estimator).fit(*self.first)
        assert answering(model, self.samples)
        return model


FEW = jplay.FastSolver(max_iter=5)
SMALL = jplay.JPlayCommittee(2, n_trials=10, n_jobs=1, random_state=0)
TOO_MANY = {"n_components": 7}
ALONE = {"first": (X,), "second": (X[:, ::-1],), "broken": (np.full((36, 6), np.nan),)}
REAL = {
    "first": (X, X[:, 0] + X[:, 1]),
    "second": (X[:, ::-1], X[:, 2] ** 2),
    "broken": (X, X[:-1, 0]),
}
LABELS = {
    "first": (X, np.stack([CODES == 0, CODES < 2], axis=1).astype(int)),
    "second": (X[:, ::-1], np.stack([CODES > 1, CODES > 0, CODES == 1], axis=1).astype(int)),
    "broken": (X, np.ones((35, 2), int)),
}
SCENE = {
    "first": (CUBE, PIXELS),
    "second": (CUBE[:, :, ::-1], np.where(PIXELS, 5 - PIXELS, 0)),
    "broken": (CUBE[:5], PIXELS),
    "asked": CUBE,
}
POSITIONS = {
    "first": (KNOWN[:, None], PIXELS.flat[KNOWN]),
    "second": (KNOWN[::-1, None], 5 - PIXELS.flat[KNOWN]),
    "broken": (KNOWN[:, None] + 9999, PIXELS.flat[KNOWN]),
    "asked": KNOWN[:, None],
}
CASES = [
    Case(jplay.JPlay(2, solver=FEW), failing=TOO_MANY),
    Case(jplay.JPlayRegressor(2, solver=FEW), **REAL, failing=TOO_MANY),
    Case(jplay.MultiTaskJPlay(2, solver=FEW), failing=TOO_MANY),
    Case(jplay.LiftedJPlay(3, n_landmarks=9, n_coordinates=5), failing={"widths": [-1.0]}),
    Case(SMALL, failing={"views": ["nothing"]}),
    Case(jplay.MultiLabelJPlay(SMALL), **LABELS, failing={"estimator": SVC()}),
    Case(jplay.CrossSensorJPlay(jplay.JPlay(2, solver=FEW))),
    Case(jplay.DomainJPlay(jplay.JPlay(2, solver=FEW), n_rounds=1)),
    Case(jplay.SpatialJPlay(n_estimators=4, radius=1, n_jobs=1, random_state=0), **SCENE),
    Case(jplay.JPlayBandSelector(2, solver=FEW), failing={"n_features_to_select": 7}),
    Case(
        jplay.JPlaySearchCV({"alpha": [1.0, 3.0]}, estimator=jplay.JPlay(2, solver=FEW), cv=2),
        failing={"estimator": jplay.JPlay(7), "error_score": "raise"},
    ),
    Case(jplay.AutoRULe(2, max_iter=5), **ALONE, failing=TOO_MANY),
    Case(jplay.LPP(2), **ALONE, failing=TOO_MANY),
    Case(jplay.NPE(2), **ALONE, failing=TOO_MANY),
    Case(jplay.LFDA(2), failing=TOO_MANY),
    Case(jplay.LSDR(2, max_iter=3, n_restarts=0, cv=2, random_state=0), failing=TOO_MANY),
    Case(jplay.LSQMID(2, max_iter=3, n_restarts=0, cv=2, random_state=0), failing=TOO_MANY),
    Case(
        jplay.CanonicalCorrelationForestClassifier(5, random_state=0), failing={"max_features": 7}
    ),
    Case(
        _rivals.ShrinkageLDAClassifier(n_folds=2, random_state=0), failing={"shrinkages": ["none"]}
    ),
    Case(_rivals.PLSDAClassifier(n_folds=2, random_state=0), failing={"n_components": (0,)}),
    Case(
        _rivals.TunedLogisticClassifier((0.1, 1.0), n_folds=2, random_state=0),
        failing={"C_grid": (-1.0,)},
    ),
    Case(
        _steps.RBFSVMClassifier((1.0,), (0.1, 1.0), n_folds=2, random_state=0),
        failing={"C_grid": (-1.0,)},
    ),
    Case(_steps.UncentredSVD(2), **ALONE, failing={"n_components": "two"}),
    Case(_steps.MLkNNClassifier(3), **LABELS, failing={"n_neighbors": 99}),
    Case(_suite_scenes.SceneClassifier(SVC(), {"radius": 1}, CUBE, 0), **POSITIONS),
    Case(_suite_scenes.EdgeAwareJPlay(CUBE, 10, 0), **POSITIONS, failing={"cube": None}),
]
BY_NAME = {case.name: case for case in CASES}
every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::RuntimeWarning")


def answering(model, samples):
    """Names of the methods that answer; each of the others must say that there is no fit."""
    found = []
    for name in ANSWERS:
        if not hasattr(model, name):
            continue
        try:
            getattr(model, name)(*([] if name == "get_support" else [samples]))
        except NotFittedError:
            continue
        found.append(name)
    return found


def _is_inside(frame):
    file = Path(frame.f_code.co_filename)
    return file.is_relative_to(Path(jplay.__file__).parent) and file.name != "_fitting.py"


class Interruption:
    """Raise ``KeyboardInterrupt`` at the n-th call that the package makes, or count the calls."""

    def __init__(self, at=None):
        self.at, self.n_calls = at, 0
        self._known = {}

    def __call__(self, frame, event, argument):
        if event not in ("call", "c_call"):
            return
        code = frame.f_code
        if code not in self._known:
            self._known[code] = _is_inside(frame)
        self.n_calls += self._known[code]
        if self._known[code] and self.n_calls == self.at:
            raise KeyboardInterrupt

    def __enter__(self):
        sys.setprofile(self)
        return self

    def __exit__(self, *error):
        sys.setprofile(None)


def test_every_estimator_is_here():
    public = {
        name
        for name in jplay.__all__
        if inspect.isclass(getattr(jplay, name)) and hasattr(getattr(jplay, name), "fit")
    }
    private = {
        name
        for module in (_rivals, _steps, _suite_scenes)
        for name, value in vars(module).items()
        if inspect.isclass(value) and value.__module__ == module.__name__ and "fit" in vars(value)
    }
    assert public | private == set(BY_NAME)


@every_case
def test_interrupted_refit_leaves_no_fit(case):
    model = case.fitted().fit(*case.second)  # what is made once is made
    with Interruption() as counted:
        model.fit(*case.second)
    assert counted.n_calls >= 3
    draws = np.random.default_rng(len(case.name)).integers(1, counted.n_calls, N_INTERRUPTIONS)
    for at in (1, *draws.tolist(), counted.n_calls - 1):
        model = case.fitted()
        with pytest.raises(KeyboardInterrupt), Interruption(at):
            model.fit(*case.second)
        assert not answering(model, case.samples), f"interrupted at call {at} of {counted.n_calls}"
        model.fit(*case.second)
        assert answering(model, case.samples)


@every_case
def test_failed_refit_leaves_no_fit(case):
    model = case.fitted()
    with pytest.raises((ValueError, IndexError)):
        model.fit(*case.broken)
    assert not answering(model, case.samples)
    if case.failing:
        model = case.fitted().set_params(**case.failing)
        with pytest.raises((ValueError, TypeError, AttributeError, IndexError)):
            model.fit(*case.second)
        assert not answering(model, case.samples)


def test_constant_samples_leave_no_fit():
    for name in ("JPlay", "LPP", "AutoRULe", "NPE", "LFDA", "LSDR", "LSQMID"):
        case = BY_NAME[name]
        model = case.fitted()
        with pytest.raises(ValueError):
            model.fit(np.ones_like(X), *case.second[1:])
        assert not answering(model, X), name


@every_case
def test_refit_answers_as_a_first_fit_does(case):
    model = case.fitted()
    first = clone(case.estimator).fit(*case.second)
    model.fit(*case.second)
    assert vars(model).keys() == vars(first).keys()
    for name in answering(first, case.samples):
        arguments = [] if name == "get_support" else [case.samples]
        expected, found = getattr(first, name)(*arguments), getattr(model, name)(*arguments)
        np.testing.assert_array_equal(np.asarray(found), np.asarray(expected))


def test_names_of_an_earlier_fit_are_gone():
    """Attributes that only some fits store do not outlive theirs."""
    pandas = pytest.importorskip("pandas", reason="names features")
    model = BY_NAME["JPlay"].fitted().set_params(n_components="auto")
    model.fit(pandas.DataFrame(X, columns=list("abcdef")), NAMES)
    assert hasattr(model, "selection_")
    model.set_params(n_components=2).fit(X, NAMES)
    assert not hasattr(model, "selection_")
    assert not hasattr(model, "feature_names_in_")


class Standardized(jplay.JPlay):
    """A derived estimator that stores before and after the fit of its base class."""

    def fit(self, X, y):
        self.scale_ = X.std(axis=0)
        super().fit(X / self.scale_, y)
        self.n_seen_ = len(X)
        return self

    def predict(self, X):
        return super().predict(X / self.scale_)


def test_derived_estimators_keep_what_they_store():
    model = Standardized(2, solver=FEW)
    for samples, y in ((X, NAMES), (X[:, ::-1], OTHER_NAMES)):
        model.fit(samples, y)
        assert model.n_seen_ == len(X)
        assert set(model.predict(samples)) <= set(y)
    with pytest.raises(ValueError, match="n_components"):
        model.set_params(n_components=7).fit(X, NAMES)
    with pytest.raises(NotFittedError):
        model.predict(X)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_copies_forget_too(copied):
    model = copied(BY_NAME["JPlay"].fitted())
    with pytest.raises(ValueError, match="n_components"):
        model.set_params(n_components=7).fit(X, OTHER_NAMES)
    assert not answering(model, X)


def test_attributes_that_no_fit_stored_stay():
    model = BY_NAME["JPlay"].fitted()
    model.remark = "of the owner"
    with pytest.raises(ValueError, match="n_components"):
        model.set_params(n_components=7).fit(X, OTHER_NAMES)
    assert model.remark == "of the owner"


def test_signature_and_convergence_warnings_are_those_of_the_fit():
    assert list(inspect.signature(jplay.JPlay.fit).parameters) == [
        "self",
        "X",
        "y",
        "sample_weight",
    ]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        BY_NAME["LSDR"].fitted()
    assert [one.filename for one in caught if "did not converge" in str(one.message)] == [__file__]
