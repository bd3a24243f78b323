import json
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("typer", reason="the command line needs typer")
pytest.importorskip("matplotlib", reason="the demo draws a figure")
pytest.importorskip("jinja2", reason="the demo writes a report")

from matplotlib.image import imread
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import normalize
from typer.testing import CliRunner

from jplay._optional import install_command
from jplay.cli._app import app
from jplay.datasets import load_digits, split_per_class
from jplay.experiments import Experiment, demo_recipe
from jplay.report import Run

QUICK = ["--n-train", "20", "--max-layers", "2", "--n-components", "8", "--max-iter", "60"]
QUICK += ["--n-estimators", "9"]


def run_demo(output_dir, *arguments):
    return CliRunner().invoke(app, ["demo", "--output-dir", str(output_dir), *arguments])


@pytest.fixture(scope="module")
def digits_demo(tmp_path_factory):
    result = run_demo(
        tmp_path_factory.mktemp("demo"), "--data", "digits", "--seed", "3", *QUICK, "--json"
    )
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_digits_demo_reports_every_method(digits_demo):
    rows = [(score["features"], score["classifier"]) for score in digits_demo["scores"]]
    assert rows == [
        ("raw", "1-NN"),
        ("raw", "RBF SVM"),
        ("raw", "random forest"),
        ("raw", "CCF, 100 trees"),
        ("LDA, shrinkage", "built-in"),
        ("J-Play", "1-NN"),
        ("J-Play", "built-in"),
        ("lifted J-Play", "built-in"),
        ("J-Play committee", "built-in"),
    ]
    sizes = [score["n_features"] for score in digits_demo["scores"]]
    assert sizes == [64, 64, 64, 64, 9, 8, 8, 8, 64]
    for score in digits_demo["scores"]:
        assert 0.8 < score["overall_accuracy"] <= 1
        assert score["kappa"] < score["overall_accuracy"]
        assert score["seconds"] >= 0


def test_digits_demo_uses_the_settings(digits_demo):
    assert digits_demo["n_train"] == 200
    assert digits_demo["n_test"] == 1597
    assert digits_demo["layer_sizes"][-1] == 8
    assert len(digits_demo["layer_sizes"]) == 2
    assert digits_demo["n_iter"] <= 60


def test_digits_demo_raw_accuracy_is_that_of_the_same_split(digits_demo):
    digits = load_digits()
    X, y = normalize(digits.data, norm="max"), digits.target
    train, test = split_per_class(y, 20, small=15, random_state=3)
    expected = KNeighborsClassifier(1).fit(X[train], y[train]).score(X[test], y[test])
    assert digits_demo["scores"][0]["overall_accuracy"] == pytest.approx(expected)


def test_digits_demo_writes_a_figure_with_colours(digits_demo):
    image = imread(digits_demo["figure"])
    assert image.shape[0] > 300
    assert np.unique(image.reshape(-1, image.shape[2]), axis=0).shape[0] > 10


def test_digits_demo_ends_with_a_report_that_the_command_writes_again(digits_demo):
    path = Path(digits_demo["report"])
    page = path.read_text()
    assert path.name == "report.html"
    assert "J-Play on handwritten digits" in page
    score = digits_demo["scores"][-1]["overall_accuracy"]
    assert f'<span class="number">{100 * score:.1f} %</span>' in page
    path.unlink()
    result = CliRunner().invoke(app, ["report", str(path.parent), "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout) == {"report": str(path), "bytes": path.stat().st_size}
    assert path.read_text() == page


def test_report_shows_the_predictions_of_the_committee(digits_demo):
    run = Run.load(Path(digits_demo["report"]).parent)
    committee = next(s for s in digits_demo["scores"] if s["features"] == "J-Play committee")
    assert run.judged == digits_demo["map_of"] == "J-Play committee"
    share = np.trace(run.confusion) / run.confusion.sum()
    assert share == pytest.approx(committee["overall_accuracy"])


def test_accuracy_by_depth_starts_with_the_row_of_one_layer(digits_demo):
    run = Run.load(Path(digits_demo["report"]).parent)
    assert run.depth == digits_demo["depth"]
    assert [point["n_layers"] for point in run.depth] == [0, 1, 2]
    scores = {(s["features"], s["classifier"]): s for s in digits_demo["scores"]}
    assert run.depth[0]["1-NN"] == scores["raw", "1-NN"]["overall_accuracy"]
    assert run.depth[0]["built-in"] is None
    for classifier in ("1-NN", "built-in"):
        assert run.depth[1][classifier] == scores["J-Play", classifier]["overall_accuracy"]


def test_report_of_a_folder_without_a_run_is_one_line(tmp_path):
    result = CliRunner().invoke(app, ["report", str(tmp_path)])
    assert result.exit_code == 2
    assert result.stderr.startswith("jplay: `folder` should hold run.json")
    assert len(result.stderr.splitlines()) == 1


def test_missing_jinja_is_said_before_the_fit(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    result = run_demo(tmp_path, "--data", "digits")
    assert result.exit_code == 2
    assert install_command("report") in result.stderr
    assert "digits:" not in result.stderr


def test_digits_demo_prints_a_table_and_needs_no_tensorly(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorly", None)
    result = run_demo(tmp_path / "new" / "folder", "--data", "digits", *QUICK)
    assert result.exit_code == 0, result.output
    for expected in ("OA %", "AA %", "kappa", "committee", "LDA", "SVM", "raw", "digits.png"):
        assert expected in result.stdout
    assert (tmp_path / "new" / "folder" / "digits.png").is_file()
    assert "digits: J-Play committee" in result.stderr


def test_indian_pines_without_tensorly_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setenv("JPLAY_DATA", str(tmp_path))
    monkeypatch.setitem(sys.modules, "tensorly", None)
    monkeypatch.setitem(sys.modules, "tensorly.datasets", None)
    result = run_demo(tmp_path)
    assert result.exit_code == 2
    assert install_command("data") in result.stderr
    assert result.stdout == ""


def test_missing_matplotlib_is_said_before_the_fit(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    result = run_demo(tmp_path, "--data", "digits")
    assert result.exit_code == 2
    assert install_command("plot") in result.stderr
    assert "digits:" not in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--n-components", "500"], "n_components"),
        (["--n-train", "500"], "`n_train` should be smaller"),
    ],
)
def test_impossible_settings_are_one_line(tmp_path, arguments, message):
    result = run_demo(tmp_path, "--data", "digits", *arguments)
    assert result.exit_code == 2
    errors = [line for line in result.stderr.splitlines() if line.startswith("jplay: ")]
    assert len(errors) == 1
    assert message in errors[0]
    assert "Traceback" not in result.output


def test_output_dir_that_is_a_file_fails_before_the_fit(tmp_path):
    occupied = tmp_path / "file"
    occupied.write_text("")
    result = run_demo(occupied, "--data", "digits")
    assert result.exit_code == 2
    assert result.stderr == f"jplay: File exists: {occupied}\n"


def test_unknown_data_lists_the_choices(tmp_path):
    result = run_demo(tmp_path, "--data", "moon")
    assert result.exit_code == 2
    assert "indian-pines" in result.stderr


def test_indian_pines_recipe_draws_50_or_15_pixels_and_divides_by_the_maximum(tmp_path):
    pytest.importorskip("tensorly", reason="Indian Pines comes with tensorly")
    experiment = Experiment(demo_recipe("indian-pines"), tmp_path)
    y = experiment.divided.y
    train, test = experiment.divided.splits[0]
    sizes, drawn = np.bincount(y)[1:], np.bincount(y[train])[1:]
    np.testing.assert_array_equal(drawn, np.where(sizes < 100, 15, 50))
    assert train.size + test.size == y.size == 10249
    raw = experiment.first_task("raw")
    np.testing.assert_allclose(experiment.fitted(raw).Z_train.max(axis=1), 1.0)


@pytest.mark.slow
def test_indian_pines_demo_beats_raw_pixels_and_draws_the_map(tmp_path):
    pytest.importorskip("tensorly", reason="Indian Pines comes with tensorly")
    result = run_demo(tmp_path, "--max-iter", "60", "--n-estimators", "15", "--json")
    assert result.exit_code == 0, result.output
    summary = json.loads(result.stdout)
    assert (summary["n_train"], summary["n_test"]) == (660, 9589)
    accuracy = {(s["features"], s["classifier"]): s["overall_accuracy"] for s in summary["scores"]}
    assert accuracy["raw", "1-NN"] == pytest.approx(0.6665, abs=1e-3)
    assert accuracy["J-Play", "1-NN"] > accuracy["raw", "1-NN"] + 0.08
    assert accuracy["J-Play committee", "built-in"] > accuracy["raw", "1-NN"] + 0.12
    assert imread(summary["figure"]).shape[1] > 1000
    run = Run.load(tmp_path)
    scene = run.scene
    assert scene.spectra.shape == (145, 145, 200)
    tested = (scene.ground_truth > 0) & (scene.training == 0)
    right = np.mean(scene.prediction[tested] == scene.ground_truth[tested])
    assert right == pytest.approx(accuracy["J-Play committee", "built-in"], abs=1e-3)
    assert run.relevance.shape == (16, 200)
    assert Path(summary["report"]).stat().st_size < 5_000_000
