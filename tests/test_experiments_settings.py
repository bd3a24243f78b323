import pytest

from jplay import FastSolver, HeatGraph, JPlay, PaperSolver
from jplay.experiments import estimator_parameters, parse_recipe
from jplay.experiments._settings import open_tables
from jplay.experiments._steps import make_method
from tiny_recipes import tiny


def test_tables_are_opened_in_their_place():
    params = {"graph": {"n_neighbors": 5, "bandwidth": 0.1}, "alpha": 1.0}
    opened = open_tables("jplay", {**params, "solver": {"name": "paper", "eta": 0.2}})
    assert list(opened.items()) == [
        ("n_neighbors", 5),
        ("bandwidth", 0.1),
        ("alpha", 1.0),
        ("solver", "paper"),
        ("eta", 0.2),
    ]
    assert open_tables("lfda", {"n_neighbors": 5}) == {"n_neighbors": 5}


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"bandwidth": 0.1}, r"`bandwidth` of 'jplay' should be in the table `graph`"),
        ({"eta": 0.1}, r"should be in the table `solver`"),
        ({"graph": {"width": 1.0}}, r"`graph` of 'jplay' should hold only n_neighbors, bandwidth"),
    ],
)
def test_values_out_of_place_are_named(params, message):
    table = tiny()
    table["methods"][2]["params"] = params
    with pytest.raises(ValueError, match=message):
        parse_recipe(table)


def test_recipe_takes_tables_in_methods_depths_and_searches():
    table = tiny()
    table["methods"][2]["params"] = {"solver": "paper"}
    table["methods"][2]["per_depth"] = {"solver": {"eta": [0.1, 0.2]}}
    table["searches"]["weights"]["params"] = {"n_components": 8, "graph": {"bandwidth": 1.0}}
    table["searches"]["weights"]["grid"] = {"graph": {"bandwidth": [1.0, "median"]}}
    table["searches"]["next"] = {"start": "weights", "grid": {"solver": {"eta": [0.1]}}}
    recipe = parse_recipe(table)
    assert [m.params.get("eta") for m in recipe.methods] == [None, None, 0.1, 0.2]
    assert recipe.searches["weights"].grid == {"bandwidth": [1.0, "median"]}
    assert recipe.searches["next"].params == {"n_components": 8, "bandwidth": 1.0}
    assert recipe.searches["next"].grid == {"eta": [0.1]}


@pytest.mark.parametrize("constraints", ["both", "nonnegative", "unit_ball", "none"])
def test_constraints_are_those_of_the_estimator(constraints):
    model = JPlay(**estimator_parameters({"constraints": constraints}))
    assert model.constraints == (None if constraints == "none" else constraints)


def test_graph_and_schedule_become_objects():
    settings = {"bandwidth": 0.1, "solver": "paper", "eta": 0.2, "max_iter": 5}
    model = JPlay(**estimator_parameters(settings))
    assert model.graph == HeatGraph(bandwidth=0.1)
    assert model.solver == PaperSolver(eta=0.2, max_iter=5)
    assert JPlay(**estimator_parameters({"tol": 1e-2})).solver == FastSolver(tol=1e-2)


def test_what_a_recipe_leaves_out_is_as_published():
    model = make_method("jplay", {}, 0)
    assert (model.n_layers, model.beta, model.scaling, model.whiten) == (3, 0.1, None, False)


def test_sizes_of_layers_are_a_list_of_n_layers():
    assert JPlay(**estimator_parameters({"n_layers": (6, 3)})).n_layers == (6, 3)
    assert JPlay(**estimator_parameters({"n_layers": 2})).n_layers == 2
    with pytest.raises(ValueError, match="`constraints` should be one of both"):
        estimator_parameters({"constraints": "neither"})
