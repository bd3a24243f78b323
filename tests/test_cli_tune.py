import json

import numpy as np
import pytest

pytest.importorskip("typer", reason="the command line needs typer")
pytest.importorskip("skops", reason="models are saved with skops")
pytest.importorskip("pandas", reason="tables are read with pandas")

import pandas
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from typer.testing import CliRunner

from jplay.cli._app import app
from jplay.cli.commands.tune import DEFAULT_GRID, parse_grid
from jplay.persistence import default_estimator, load_model

SMALL = ("--grid", "alpha=0.1,10", "--grid", "n_layers=1,2", "--cv", "3")


@pytest.fixture
def flowers(tmp_path):
    X, y = load_iris(return_X_y=True)
    frame = pandas.DataFrame(X, columns=["a", "b", "c", "d"])
    frame["species"] = np.array(["setosa", "versicolor", "virginica"])[y]
    frame.to_csv(tmp_path / "flowers.csv", index=False)
    return tmp_path / "flowers.csv"


def tune(*arguments):
    return CliRunner().invoke(app, ["tune", *map(str, arguments)])


def test_best_settings_are_those_of_a_grid_search_and_the_model_is_made_of_them(flowers, tmp_path):
    model_file = tmp_path / "model.skops"
    result = tune(flowers, "--target", "species", "-o", model_file, *SMALL, "--json")
    assert result.exit_code == 0, result.output
    summary = json.loads(result.stdout)
    frame = pandas.read_csv(flowers)
    X, y = frame[["a", "b", "c", "d"]], frame["species"].to_numpy()
    grid = {"alpha": [0.1, 10.0], "n_layers": [1, 2]}
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    search = GridSearchCV(default_estimator(), grid, cv=folds).fit(X, y)
    assert summary["best_score"] == pytest.approx(search.best_score_)
    assert len(summary["settings"]) == 4
    scores = [row["score"] for row in summary["settings"]]
    assert scores == sorted(scores, reverse=True)
    assert scores == pytest.approx(sorted(search.cv_results_["mean_test_score"], reverse=True))
    model = load_model(model_file)
    found = model.final_step.get_params()
    assert {name: found[name] for name in ("alpha", "n_layers")} == summary["best_settings"]
    assert (model.estimator.predict(X) == y).mean() > 0.85


def test_table_for_people_and_arrays_in_processes(tmp_path):
    X, y = load_iris(return_X_y=True)
    np.savez(tmp_path / "flowers.npz", X=X, y=y)
    output = tmp_path / "model.skops"
    result = tune(
        *(tmp_path / "flowers.npz", "--target", "y", "-o", output, "--jobs", 2),
        *("--grid", "gamma=0.1,1", "--scoring", "balanced_accuracy", "--cv", 2),
    )
    assert result.exit_code == 0, result.output
    assert "2 settings, 2 folds" in result.stdout
    assert "balanced_accuracy" in result.stdout
    assert "Best: gamma = " in result.stdout
    assert output.exists()


def test_setting_that_cannot_be_fitted_is_ranked_last(flowers, tmp_path):
    arguments = (flowers, "--target", "species", "-o", tmp_path / "m.skops", "--cv", 2, "--json")
    result = tune(*arguments, "--grid", "n_components=2,400")
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)["settings"]
    assert [row["settings"]["n_components"] for row in rows] == [2, 400]
    assert rows[1]["score"] is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--grid", "alpha"), "alpha=0.1,1,10"),
        (("--grid", "alfa=1"), "alpha"),
        (("--grid", "alpha=0,1"), "alpha=0: The 'alpha' parameter"),
        (("--grid", "solver=slow"), "solver=slow"),
        (("--scoring", "beauty", "--cv", "2"), "beauty"),
        (("--grid", "n_components=400", "--cv", "2"), "that can be fitted"),
    ],
)
def test_mistakes_are_told_in_a_line_and_leave_no_model(flowers, tmp_path, arguments, message):
    output = tmp_path / "model.skops"
    result = tune(flowers, "--target", "species", "-o", output, *arguments)
    assert result.exit_code == 2, result.output
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert not output.exists()


def test_device_that_is_not_there_is_told(flowers, tmp_path):
    pytest.importorskip("torch", reason="a device needs PyTorch")
    result = tune(flowers, "--target", "species", "--device", "cuda:99", "-o", tmp_path / "m.skops")
    assert result.exit_code == 2
    assert "--device should be" in result.stderr


def test_values_of_the_grid_are_numbers_words_and_names():
    assert parse_grid(None) == DEFAULT_GRID
    assert parse_grid(["alpha=1,0.5", "bandwidth=none", "solver=fast,paper"]) == {
        "alpha": [1, 0.5],
        "bandwidth": [None],
        "solver": ["fast", "paper"],
    }
