"""Every kind of bad input for every estimator: a clear error, or a documented success."""

import re
import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.exceptions import ConvergenceWarning

from jplay import LPP, AutoRULe, FastSolver, HeatGraph, JPlay, PaperSolver, SoftLabelPropagation
from jplay.exceptions import CollapsedSolutionError

ESTIMATORS = {
    "JPlay": JPlay(n_layers=2, graph=HeatGraph(n_neighbors=5)),
    "JPlay by the paper": JPlay(
        n_layers=2, graph=HeatGraph(n_neighbors=5), solver=PaperSolver(max_iter=3)
    ),
    "AutoRULe": AutoRULe(graph=HeatGraph(n_neighbors=5)),
    "LPP": LPP(graph=HeatGraph(n_neighbors=5)),
}
CONSTRAINED = ("JPlay", "JPlay by the paper", "AutoRULe")
EVERY = tuple(ESTIMATORS)

_RNG = np.random.default_rng(0)
X = _RNG.random((30, 6))
Y = np.arange(30) % 3
GRAPH = (X @ X.T > 2.0).astype(float)


def changed(value):
    """The samples with one entry replaced."""
    samples = X.copy()
    samples[3, 2] = value
    return samples


@dataclass(frozen=True)
class Bad:
    """One kind of input and the error it must raise."""

    name: str
    error: type
    message: str
    X: Any = field(default_factory=lambda: X)
    y: Any = field(default_factory=lambda: Y)
    parameters: dict = field(default_factory=dict)
    estimators: tuple = EVERY


ERRORS = [
    Bad("NaN", ValueError, r"Input X contains NaN", X=changed(np.nan)),
    Bad("infinity", ValueError, r"Input X contains infinity", X=changed(np.inf)),
    Bad(
        "equal samples",
        ValueError,
        r"`X` should hold samples that differ, got a constant `X`\. Check",
        X=np.tile(X[0], (30, 1)),
    ),
    Bad("all zero", ValueError, r"`X` should hold samples that differ", X=np.zeros((30, 6))),
    Bad(
        "overflowing values",
        ValueError,
        r"`X` should hold values of magnitude between .* got a largest .* of .*e\+259\. Scale",
        X=X * 1e260,
    ),
    Bad(
        "underflowing values",
        ValueError,
        r"`X` should hold values of magnitude between .* got .*e-261\. Scale",
        X=X * 1e-260,
    ),
    *(
        Bad(
            "values beyond the solver",
            ValueError,
            r"`X` should hold values of magnitude between 0\.0001 and 1e\+06, got .*e\+07\. Scale",
            X=X * 1e8,
            parameters=parameters,
            estimators=names,
        )
        for names, parameters in [
            (("AutoRULe", "LPP"), {}),
            (("JPlay", "JPlay by the paper"), {"scaling": None}),
        ]
    ),
    Bad("strings", ValueError, r"could not convert string to float", X=np.full((30, 6), "a")),
    Bad(
        "objects",
        ValueError,
        r"could not convert string to float",
        X=np.full((30, 6), "a", dtype=object),
    ),
    Bad("dictionaries", TypeError, r"must be a string or a (real )?number", X=[[{}] * 6] * 30),
    Bad("complex", ValueError, r"Complex data not supported", X=X + 1j),
    Bad("sparse", TypeError, r"Sparse data was passed for X.*toarray", X=scipy.sparse.csr_array(X)),
    Bad("no samples", ValueError, r"0 sample\(s\).*minimum of 2 is required", X=X[:0], y=Y[:0]),
    Bad("one sample", ValueError, r"1 sample\(s\).*minimum of 2 is required", X=X[:1], y=Y[:1]),
    Bad("no features", ValueError, r"0 feature\(s\).*minimum of 1 is required", X=X[:, :0]),
    Bad("one dimension", ValueError, r"Expected 2D array, got 1D array", X=X[:, 0]),
    Bad("three dimensions", ValueError, r"Found array with dim 3", X=X[None]),
    Bad("a scalar", ValueError, r"Expected 2D array, got scalar array", X=1.0),
    # Targets
    Bad("no target", ValueError, r"requires y to be passed", y=None, estimators=("JPlay",)),
    Bad(
        "other length",
        ValueError,
        r"inconsistent numbers of samples: \[30, 29\]",
        y=Y[:-1],
        estimators=("JPlay",),
    ),
    Bad(
        "one class",
        ValueError,
        r"`y` should contain at least 2 classes, got 1 class \(0\)\. Add samples of another class",
        y=np.zeros(30, dtype=int),
        estimators=("JPlay",),
    ),
    Bad(
        "NaN target",
        ValueError,
        r"Input y contains NaN",
        y=np.where(Y == 0, np.nan, Y),
        estimators=("JPlay",),
    ),
    Bad(
        "continuous target",
        ValueError,
        r"Unknown label type: continuous",
        y=X[:, 0],
        estimators=("JPlay",),
    ),
    Bad(
        "several labels per sample",
        ValueError,
        r"`y` should hold one class per sample or be a 0/1 indicator matrix.*Fit one estimator",
        y=np.column_stack([Y, Y]),
        estimators=("JPlay",),
    ),
    Bad(
        "mixed labels",
        ValueError,
        r"Unknown label type",
        y=np.array([1, "a", None] * 10, dtype=object),
        estimators=("JPlay",),
    ),
    # Components and layers
    *(
        Bad(
            f"n_components={value!r}",
            ValueError,
            rf"The 'n_components' parameter of \w+ must be .* Got {value!r} instead",
            parameters={"n_components": value},
        )
        for value in (0, -1, 2.5, "two")
    ),
    Bad(
        "more components than features",
        ValueError,
        r"`n_components` should be at most 6 \(the dimension that the samples span around "
        r"their mean\), got 7\. Choose a smaller number, or None\.",
        parameters={"n_components": 7},
    ),
    Bad(
        "more components than the rank",
        ValueError,
        r"`n_components` should be at most 2 .* got 3\. Choose a smaller number, or None\.",
        X=X[:, :2] @ _RNG.random((2, 6)),
        parameters={"n_components": 3},
    ),
    *(
        Bad(
            f"n_layers={sizes}",
            ValueError,
            r"`n_layers` should be a number or a non-empty sequence of positive integers, the size "
            r"of each layer, got " + re.escape(str(sizes)),
            parameters={"n_layers": sizes},
            estimators=("JPlay",),
        )
        for sizes in ([], [0], [4, -1], [2.5], [True], ["4"], [[4]])
    ),
    Bad(
        "a layer above the rank",
        ValueError,
        r"`n_layers` should list sizes of at most 6 .* got \[9, 3\]\. Choose smaller layers",
        parameters={"n_layers": [9, 3]},
        estimators=("JPlay",),
    ),
    Bad(
        "layers that contradict n_components",
        ValueError,
        r"`n_components` should equal the last size in `n_layers` \(3\), got 2\. Set only one",
        parameters={"n_layers": [4, 3], "n_components": 2},
        estimators=("JPlay",),
    ),
    # Weights and other numbers
    *(
        Bad(
            f"{name}={value!r}",
            ValueError,
            rf"The '{name}' parameter of \w+ must be .* Got {re.escape(repr(value))} instead",
            parameters={name: value},
            estimators=names,
        )
        for name, value, names in [
            ("alpha", -1.0, ("JPlay",)),
            ("alpha", 0.0, ("JPlay",)),
            ("alpha", np.nan, ("JPlay",)),
            ("beta", -0.1, ("JPlay",)),
            ("gamma", -0.1, ("JPlay",)),
            ("eta", -0.1, ("AutoRULe",)),
            ("n_layers", 0, ("JPlay",)),
            ("n_layers", 2.5, ("JPlay",)),
            ("n_layers", "even", ("JPlay",)),
            ("graph", "cosine", EVERY),
            ("graph", 10, EVERY),
            ("solver", "newton", ("JPlay",)),
            ("decision", "vote", ("JPlay",)),
            ("max_iter", 0, ("AutoRULe",)),
            ("tol", -1.0, ("AutoRULe",)),
            ("constraints", "none", CONSTRAINED),
            ("constraints", True, CONSTRAINED),
            ("reconstruction", "yes", CONSTRAINED),
            ("scaling", "minmax", ("JPlay",)),
            ("whiten", "no", ("JPlay",)),
            ("class_weight", "equal", ("JPlay",)),
            ("unlabeled", 0, ("JPlay",)),
            ("unlabeled", "none", ("JPlay",)),
        ]
    ),
    # Graphs
    Bad(
        "graph of another shape",
        ValueError,
        r"`graph` should have shape \(30, 30\), one row and column per sample, got \(5, 5\)",
        parameters={"graph": np.eye(5)},
    ),
    Bad(
        "rectangular graph",
        ValueError,
        r"`graph` should have shape \(30, 30\).* got \(30, 6\)",
        parameters={"graph": X},
    ),
    Bad(
        "asymmetric graph",
        ValueError,
        r"`graph` should be symmetric, got a largest difference of 1 .*\(W \+ W\.T\) / 2",
        parameters={"graph": np.triu(GRAPH, 1)},
    ),
    Bad(
        "negative graph",
        ValueError,
        r"`graph` should be non-negative, got a smallest weight of -1\. Pass similarities",
        parameters={"graph": scipy.sparse.csr_array(-GRAPH)},
    ),
    Bad(
        "graph with NaN",
        ValueError,
        r"Input graph contains NaN",
        parameters={"graph": np.where(np.eye(30) == 1, np.nan, GRAPH)},
    ),
    Bad(
        "graph of strings",
        ValueError,
        r"could not convert string to float",
        parameters={"graph": np.full((30, 30), "a")},
    ),
    Bad(
        "graph without edges",
        ValueError,
        r"`graph` should have an edge, got a graph whose weights are all zero\. Connect",
        parameters={"graph": scipy.sparse.csr_array((30, 30))},
    ),
    Bad(
        "vanishing bandwidth",
        ValueError,
        r"`bandwidth` should be near the distances between neighbors, got 0\.001, .* 'median'",
        parameters={"graph": HeatGraph(bandwidth=1e-3)},
    ),
    Bad(
        "function that returns a bad graph",
        ValueError,
        r"`graph` should have shape \(30, 30\)",
        parameters={"graph": lambda samples: samples},
    ),
    # Collapse
    Bad(
        "a manifold term that outweighs all others",
        CollapsedSolutionError,
        r"The constraints left only the zero projection .*Lower the weight of the manifold term",
        parameters={"beta": 1e6, "reconstruction": False},
        estimators=("JPlay",),
    ),
]


def cases(table):
    return [
        pytest.param(case, name, id=f"{case.name}-{name}")
        for case in table
        for name in case.estimators
    ]


def make_estimator(name, parameters):
    estimator = ESTIMATORS[name].__class__(**ESTIMATORS[name].get_params())
    return estimator.set_params(**parameters)


@pytest.mark.parametrize(("case", "name"), cases(ERRORS))
def test_bad_input_raises_a_clear_error(case, name):
    estimator = make_estimator(name, case.parameters)
    with pytest.raises(case.error, match=re.compile(case.message, re.DOTALL)) as caught:
        estimator.fit(case.X, case.y)
    assert isinstance(caught.value, (ValueError, TypeError))
    assert not hasattr(estimator, "components_")


@pytest.mark.parametrize(
    ("settings", "values", "expected"),
    [
        (HeatGraph, {"n_neighbors": 0}, "a whole number of at least 1, got 0"),
        (HeatGraph, {"n_neighbors": 2.5}, "a whole number of at least 1, got 2.5"),
        (HeatGraph, {"n_neighbors": True}, "a whole number of at least 1, got True"),
        (HeatGraph, {"overlap": -1}, "a whole number of at least 0, got -1"),
        (HeatGraph, {"bandwidth": 0.0}, "'median' or above 0, got 0.0"),
        (HeatGraph, {"bandwidth": -1.0}, "'median' or above 0, got -1.0"),
        (HeatGraph, {"bandwidth": np.inf}, "'median' or above 0, got inf"),
        (HeatGraph, {"bandwidth": "wide"}, "'median' or above 0, got 'wide'"),
        (HeatGraph, {"bandwidth": True}, "'median' or above 0, got True"),
        (HeatGraph, {"bandwidth": None}, "'median' or above 0, got None"),
        (HeatGraph, {"method": "cosine"}, "one of ('auto', 'exact', 'approximate'), got 'cosine'"),
        (SoftLabelPropagation, {"weight": 0.0}, "above 0, got 0.0"),
        (SoftLabelPropagation, {"weight": -1}, "above 0, got -1"),
        (SoftLabelPropagation, {"weight": np.nan}, "above 0, got nan"),
        (SoftLabelPropagation, {"weight": "half"}, "above 0, got 'half'"),
        (SoftLabelPropagation, {"rounds": 0}, "a whole number of at least 1, got 0"),
        (SoftLabelPropagation, {"rounds": 1.5}, "a whole number of at least 1, got 1.5"),
        (SoftLabelPropagation, {"marker": 0}, "'auto' or -1, got 0"),
        (SoftLabelPropagation, {"marker": None}, "'auto' or -1, got None"),
        (FastSolver, {"max_iter": 0}, "a positive integer, got 0"),
        (FastSolver, {"max_iter": 2.5}, "a positive integer, got 2.5"),
        (FastSolver, {"tol": -1.0}, "a non-negative number, got -1.0"),
        (FastSolver, {"damping": "much"}, "a positive number, got 'much'"),
        (FastSolver, {"growth": 0.5}, "a number of at least 1, got 0.5"),
        (PaperSolver, {"max_iter": 0}, "a positive integer, got 0"),
        (PaperSolver, {"tol": -1.0}, "a non-negative number, got -1.0"),
        (PaperSolver, {"inner_max_iter": 0}, "a positive integer, got 0"),
        (PaperSolver, {"inner_tol": -1.0}, "a non-negative number, got -1.0"),
        (PaperSolver, {"eta": -0.1}, "a non-negative number, got -0.1"),
        (PaperSolver, {"pretraining": "yes"}, "a bool, got 'yes'"),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_bad_settings_are_refused_when_they_are_made(settings, values, expected):
    [name] = values
    with pytest.raises(ValueError, match=re.escape(f"`{name}` should be {expected}")):
        settings(**values)


@dataclass(frozen=True)
class Good:
    """Unusual input that every estimator accepts, and the dimension of the subspace."""

    name: str
    X: Any
    n_components: int
    y: Any = field(default_factory=lambda: Y)
    parameters: dict = field(default_factory=dict)


SUCCESSES = [
    Good("constant columns", np.column_stack([X, np.ones(30), np.zeros(30)]), 6),
    Good("constant rows", np.repeat(X[:, :1], 6, axis=1), 1),
    Good("duplicated rows", np.repeat(X[:10], 3, axis=0), 6),
    Good("duplicated columns", np.hstack([X, X]), 6),
    Good("two distinct rows", np.repeat(X[:2], 15, axis=0), 1, y=np.repeat([0, 1], 15)),
    Good("some samples zero", np.where(np.arange(30)[:, None] < 5, 0, X), 6),
    Good("centred", X - X.mean(axis=0), 6),
    Good("negative", -X, 6),
    Good("one feature", X[:, :1], 1),
    Good("integers", (100 * X).astype(int), 6),
    Good("booleans", X > 0.5, 6),
    Good("half precision", X.astype(np.float16), 6),
    Good("extended precision", X.astype(np.longdouble), 6),
    Good("numbers as objects", X.astype(object), 6),
    Good("numbers as strings", X.astype(str), 6),
    Good("lists", X.tolist(), 6, y=Y.tolist()),
    Good("Fortran order", np.asfortranarray(X), 6),
    Good("strided view", np.repeat(X, 2, axis=1)[::-1, ::2], 6, y=Y[::-1]),
    Good("read-only memory", np.frombuffer(X.tobytes()).reshape(X.shape), 6),
    Good("fewer samples than features", X[:5], 4, parameters={"graph": HeatGraph(2)}, y=Y[:5]),
    Good("two samples", X[:2], 1, parameters={"graph": HeatGraph(1)}, y=Y[:2]),
    Good(
        "a graph with isolated samples",
        X,
        6,
        parameters={"graph": np.pad(GRAPH[:20, :20], (0, 10))},
    ),
    Good("a complete graph", X, 6, parameters={"graph": np.ones((30, 30)) - np.eye(30)}),
]


def assert_promises(estimator, X, n_components, tolerance=1e-6):
    Z = estimator.transform(X)
    n_samples = np.shape(X)[0]
    assert Z.shape == (n_samples, n_components)
    assert np.isfinite(Z).all()
    if not isinstance(estimator, LPP):
        constrained = estimator.transform_layers(X) if isinstance(estimator, JPlay) else [Z]
        for layer in constrained:
            assert layer.min() >= -tolerance
            assert np.linalg.norm(layer, axis=1).max() <= 1 + tolerance
        assert estimator.inverse_transform(Z).shape == (n_samples, estimator.n_features_in_)
    if isinstance(estimator, JPlay):
        np.testing.assert_allclose(estimator.predict_proba(X).sum(axis=1), 1, rtol=tolerance)
        predicted = estimator.predict(X)
        assert predicted.shape == (n_samples,)
        assert np.isin(predicted, estimator.classes_).all()
        assert np.isfinite(estimator.decision_function(X)).all()


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("case", SUCCESSES, ids=lambda case: case.name)
def test_unusual_input_works(case, name):
    estimator = make_estimator(name, case.parameters).fit(case.X, case.y)
    assert_promises(estimator, case.X, case.n_components)


@pytest.mark.parametrize("unit", [1e-200, 1e-8, 1e8, 1e200])
@pytest.mark.parametrize("scaling", ["standard", "norm"])
@pytest.mark.parametrize("name", ["JPlay", "JPlay by the paper"])
def test_scaled_samples_may_have_any_magnitude(name, scaling, unit):
    estimator = make_estimator(name, {"scaling": scaling}).fit(unit * X, Y)
    assert_promises(estimator, unit * X, 6)


@pytest.mark.parametrize("name", EVERY)
def test_more_neighbors_than_samples_warns_and_uses_all_others(name):
    estimator = make_estimator(name, {"graph": HeatGraph(n_neighbors=10)})
    message = (
        r"`n_neighbors` should be less than 8 \(the number of samples\), got 10\. "
        r"All 7 other samples are used; set a smaller `n_neighbors`\."
    )
    with pytest.warns(UserWarning, match=message):
        estimator.fit(X[:8], Y[:8])
    np.testing.assert_array_equal(estimator.affinity_.toarray() > 0, 1 - np.eye(8))


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize(
    ("bad", "error", "message"),
    [
        (X[:, :5], ValueError, r"X has 5 features, but \w+ is expecting 6 features"),
        (changed(np.nan), ValueError, r"Input X contains NaN"),
        (X[0], ValueError, r"Expected 2D array, got 1D array"),
        (X[:0], ValueError, r"0 sample\(s\)"),
        (scipy.sparse.csr_array(X), TypeError, r"Sparse data was passed for X"),
    ],
    ids=["other width", "NaN", "one dimension", "empty", "sparse"],
)
def test_fitted_methods_check_their_input(name, bad, error, message):
    estimator = make_estimator(name, {}).fit(X, Y)
    methods = ["transform"]
    if isinstance(estimator, JPlay):
        methods += ["predict", "decision_function", "transform_layers"]
    for method in methods:
        with pytest.raises(error, match=message):
            getattr(estimator, method)(bad)


@pytest.mark.parametrize("name", CONSTRAINED)
def test_inverse_transform_checks_its_input(name):
    estimator = make_estimator(name, {"n_components": 2}).fit(X, Y)
    with pytest.raises(ValueError, match=r"`X` should have 2 features .* got 6\. Pass the output"):
        estimator.inverse_transform(X)


def test_multilabel_targets_without_variety_work():
    constant = np.column_stack([Y == 0, np.zeros(30), np.ones(30)]).astype(int)
    model = make_estimator("JPlay", {}).fit(X, constant)
    predicted = model.predict(X)
    assert predicted.shape == (30, 3)
    np.testing.assert_array_equal(predicted[:, 1], 0)


DEFECTS = [
    "none",
    "noise",
    "low rank",
    "repeated rows",
    "repeated columns",
    "zero rows",
    "centred",
]


@st.composite
def fitting_problems(draw):
    """Samples of any small shape and dtype, degenerate in several ways, and their labels."""
    # Drawn in an order that makes large shapes as likely as small ones.
    n_samples = draw(st.sampled_from(range(25, 0, -1)))
    n_features = draw(st.sampled_from(range(12, 0, -1)))
    shape = (n_samples, n_features)
    dtype = draw(st.sampled_from([np.float64, np.float32, np.int64, np.uint8, np.bool_]))
    if dtype in (np.float64, np.float32):
        width = 64 if dtype == np.float64 else 32
        elements = draw(
            st.sampled_from(
                [
                    st.floats(-10, 10, width=width, allow_subnormal=False),
                    st.floats(0, 1, width=width, allow_subnormal=False),
                    st.integers(0, 3).map(float),
                ]
            )
        )
        samples = draw(arrays(dtype, shape, elements=elements))
    elif dtype == np.bool_:
        samples = draw(arrays(dtype, shape))
    else:
        samples = draw(arrays(dtype, shape, elements=st.integers(0, 100)))
    defect = draw(st.sampled_from(DEFECTS))
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    if defect == "noise":
        samples = rng.normal(size=shape)
    elif defect == "low rank":
        samples = rng.normal(size=(n_samples, 1)) @ rng.normal(size=(1, n_features))
    elif defect == "repeated rows":
        samples = samples[rng.integers(0, n_samples, n_samples)]
    elif defect == "repeated columns":
        samples = samples[:, rng.integers(0, n_features, n_features)]
    elif defect == "zero rows":
        samples = samples * (np.arange(n_samples) % 2)[:, None].astype(samples.dtype)
    elif defect == "centred":
        samples = samples - samples.mean(axis=0)
    labels = rng.permutation(np.arange(n_samples) % draw(st.sampled_from([2, 3, 10, 1])))
    parameters = {
        "n_components": draw(st.one_of(st.none(), st.integers(1, 12))),
        "graph": HeatGraph(draw(st.integers(1, 12)), draw(st.sampled_from(["median", 1.0]))),
    }
    if draw(st.booleans()):
        parameters |= {"scaling": draw(st.sampled_from(["norm", None])), "whiten": False}
    return samples, labels, parameters


USEFUL = re.compile(r"should (be|hold|contain)|minimum of 2 is required|left only the zero")


@pytest.mark.parametrize("name", EVERY)
def test_any_samples_raise_a_useful_error_or_keep_every_promise(name):
    outcomes = []

    @settings(
        max_examples=60,
        deadline=None,
        derandomize=True,
        suppress_health_check=[HealthCheck.too_slow],
    )
    @given(problem=fitting_problems())
    def check(problem):
        samples, labels, parameters = problem
        estimator = make_estimator(name, {})
        known = estimator.get_params().keys() & parameters.keys()
        estimator.set_params(**{parameter: parameters[parameter] for parameter in known})
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", category=ConvergenceWarning)
            warnings.filterwarnings("ignore", message="`n_neighbors` should be less")
            try:
                estimator.fit(samples, labels)
            except (ValueError, TypeError) as error:
                message = str(error)
            else:
                message = None
        outcomes.append("fit" if message is None else "error")
        if message is not None:
            assert USEFUL.search(message)
        else:
            assert_promises(estimator, samples, estimator.components_.shape[0])
            if parameters["n_components"] is not None:
                assert estimator.components_.shape[0] == parameters["n_components"]

    check()
    assert min(outcomes.count("error"), outcomes.count("fit")) >= 5
