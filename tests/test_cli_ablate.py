import json

import numpy as np
import pytest

pytest.importorskip("typer", reason="the command line needs typer")

from sklearn.datasets import load_digits
from sklearn.preprocessing import normalize
from typer.testing import CliRunner

from jplay import JPlay, PaperSolver
from jplay.cli._app import app
from jplay.datasets import split_per_class
from jplay.experiments import ablation_recipe

QUICK = ["--data", "digits", "--n-layers", "2", "--n-train", "10", "--n-components", "8"]


@pytest.fixture(scope="module")
def study():
    result = CliRunner().invoke(app, ["ablate", *QUICK, "--repeats", "2", "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_every_part_is_taken_away_once(study):
    variants = [method.name for method in ablation_recipe("digits").methods]
    assert [row["variant"] for row in study["variants"]] == variants
    assert len(set(variants)) == 12
    assert study["n_train"] == 100
    for row in study["variants"]:
        assert 0.3 < row["neighbor_accuracy"] <= 1
        assert 0.3 < row["own_accuracy"] <= 1
        assert row["neighbor_spread"] >= 0


def test_labels_matter_most(study):
    rows = {row["variant"]: row["own_accuracy"] for row in study["variants"]}
    assert rows["hardly any prediction loss (alpha = 1e-6)"] < rows["complete model"] - 0.02


@pytest.mark.parametrize(
    ("variant", "settings"),
    [
        ("no reconstruction term", {"reconstruction": False}),
        ("no unit ball", {"constraints": "nonnegative"}),
        (
            "published schedule, no pre-training",
            {"solver": PaperSolver(max_iter=20, inner_max_iter=200, pretraining=False)},
        ),
    ],
)
def test_row_is_the_mean_accuracy_of_that_model_over_the_seeds(study, variant, settings):
    X, y = load_digits(return_X_y=True)
    X = normalize(X, norm="max")
    scores = []
    for seed in (0, 1):
        train, test = split_per_class(y, 10, small=15, random_state=seed)
        model = JPlay(8, 2, beta=0.1, scaling=None, whiten=False, **settings)
        scores.append(model.fit(X[train], y[train]).score(X[test], y[test]))
    (row,) = (row for row in study["variants"] if row["variant"] == variant)
    assert row["own_accuracy"] == pytest.approx(np.mean(scores))
    assert row["own_spread"] == pytest.approx(np.std(scores))


def test_table_for_people_shows_changes():
    result = CliRunner().invoke(app, ["ablate", *QUICK, "--repeats", "1"])
    assert result.exit_code == 0, result.output
    assert "complete model" in result.stdout
    assert "change" in result.stdout
    assert "+0.0" in result.stdout


def test_pretraining_can_be_left_out():
    X, y = load_digits(return_X_y=True)
    X, y = X[:120] / 16, y[:120]
    settings = {"n_components": 6, "n_layers": 2, "scaling": None}
    with_it = JPlay(**settings, solver=PaperSolver(max_iter=3)).fit(X, y)
    without = JPlay(**settings, solver=PaperSolver(max_iter=3, pretraining=False)).fit(X, y)
    assert len(with_it.result_.pretraining) == 2
    assert without.result_.pretraining == []
    assert not np.allclose(with_it.components_, without.components_)
    assert without.score(X, y) > 0.8
