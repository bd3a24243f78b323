import json

import numpy as np
import pytest

pytest.importorskip("typer", reason="the command line needs typer")

from sklearn.datasets import load_digits
from typer.testing import CliRunner

from jplay import JPlay
from jplay.cli._ablate import try_variant, variants
from jplay.cli._app import app
from jplay.cli._demo import DemoData, load_problem

QUICK = ["--data", "digits", "--n-layers", "2", "--n-train", "10", "--n-components", "8"]


@pytest.fixture(scope="module")
def study():
    result = CliRunner().invoke(app, ["ablate", *QUICK, "--repeats", "2", "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_every_part_is_taken_away_once(study):
    assert [row["variant"] for row in study["variants"]] == list(variants(2))
    assert study["n_train"] == 100
    for row in study["variants"]:
        assert 0.3 < row["neighbor_accuracy"] <= 1
        assert 0.3 < row["own_accuracy"] <= 1
        assert row["neighbor_spread"] >= 0


def test_labels_matter_most(study):
    rows = {row["variant"]: row["own_accuracy"] for row in study["variants"]}
    assert rows["hardly any prediction loss (alpha = 1e-6)"] < rows["complete model"] - 0.02


def test_row_is_the_accuracy_of_that_model(study):
    problem = load_problem(DemoData.DIGITS, 10, 1)
    X, y, train, test = problem.X, problem.y, problem.train, problem.test
    model = JPlay(8, 2, reconstruction=False).fit(X[train], y[train])
    outcome = try_variant(
        "x", {"n_components": 8, "n_layers": 2, "reconstruction": False}, [problem]
    )
    assert outcome.own_accuracy == model.score(X[test], y[test])


def test_table_for_people_shows_changes():
    result = CliRunner().invoke(app, ["ablate", *QUICK, "--repeats", "1"])
    assert result.exit_code == 0, result.output
    assert "complete model" in result.stdout
    assert "change" in result.stdout
    assert "+0.0" in result.stdout


def test_pretraining_can_be_left_out():
    X, y = load_digits(return_X_y=True)
    X, y = X[:120] / 16, y[:120]
    settings = {"solver": "paper", "n_components": 6, "n_layers": 2, "max_iter": 3}
    with_it = JPlay(**settings).fit(X, y)
    without = JPlay(**settings, pretraining=False).fit(X, y)
    assert len(with_it.result_.pretraining) == 2
    assert without.result_.pretraining == []
    assert not np.allclose(with_it.components_, without.components_)
    assert without.score(X, y) > 0.8
