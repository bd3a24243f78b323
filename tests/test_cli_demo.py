import json
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("typer", reason="the command line needs typer")
pytest.importorskip("matplotlib", reason="the demo draws a picture")
pytest.importorskip("jinja2", reason="the demo writes a report")

from matplotlib.image import imread
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import Normalizer
from typer.testing import CliRunner

from jplay.cli._app import app
from jplay.cli._demo import DemoData, load_problem
from jplay.report import Run

QUICK = ["--n-train", "20", "--n-layers", "2", "--n-components", "8", "--max-iter", "60"]


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
        ("PCA", "1-NN"),
        ("LDA", "1-NN"),
        ("LDA, shrinkage", "1-NN"),
        ("J-Play", "1-NN"),
        ("J-Play", "its own"),
    ]
    assert [score["n_features"] for score in digits_demo["scores"]] == [64, 8, 9, 9, 8, 8]
    for score in digits_demo["scores"]:
        assert 0.8 < score["overall_accuracy"] <= 1
        assert score["kappa"] < score["overall_accuracy"]


def test_digits_demo_uses_the_settings(digits_demo):
    assert digits_demo["n_train"] == 200
    assert digits_demo["n_test"] == 1597
    assert digits_demo["layer_sizes"][-1] == 8
    assert len(digits_demo["layer_sizes"]) == 2
    assert digits_demo["n_iter"] <= 60


def test_digits_demo_raw_accuracy_is_that_of_the_same_split(digits_demo):
    problem = load_problem(DemoData.DIGITS, 20, 3)
    knn = KNeighborsClassifier(1).fit(problem.X[problem.train], problem.y[problem.train])
    expected = knn.score(problem.X[problem.test], problem.y[problem.test])
    assert digits_demo["scores"][0]["overall_accuracy"] == pytest.approx(expected)


def test_digits_demo_writes_a_picture_with_colours(digits_demo):
    image = imread(digits_demo["picture"])
    assert image.shape[0] > 300
    assert np.unique(image.reshape(-1, image.shape[2]), axis=0).shape[0] > 10


def test_digits_demo_ends_with_a_report_that_the_command_writes_again(digits_demo):
    path = Path(digits_demo["report"])
    page = path.read_text()
    assert path.name == "report.html"
    assert "J-Play on handwritten digits" in page
    score = digits_demo["scores"][-1]["overall_accuracy"]
    assert f"{100 * score:.2f}" in page
    path.unlink()
    result = CliRunner().invoke(app, ["report", str(path.parent), "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout) == {"report": str(path), "bytes": path.stat().st_size}
    assert path.read_text() == page


def test_accuracy_by_depth_ends_with_the_model(digits_demo):
    run = Run.load(Path(digits_demo["report"]).parent)
    assert [point["n_layers"] for point in run.depth] == [0, 1, 2]
    scores = {(s["features"], s["classifier"]): s for s in digits_demo["scores"]}
    assert run.depth[0]["1-NN"] == scores["raw", "1-NN"]["overall_accuracy"]
    assert run.depth[0]["its own"] is None
    for classifier in ("1-NN", "its own"):
        assert run.depth[2][classifier] == scores["J-Play", classifier]["overall_accuracy"]


def test_report_of_a_folder_without_a_run_is_one_line(tmp_path):
    result = CliRunner().invoke(app, ["report", str(tmp_path)])
    assert result.exit_code == 2
    assert result.stderr.startswith("jplay: `folder` should hold run.json")
    assert len(result.stderr.splitlines()) == 1


def test_missing_jinja_is_said_before_the_fit(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    result = run_demo(tmp_path, "--data", "digits")
    assert result.exit_code == 2
    assert "pip install 'jplay[report]'" in result.stderr
    assert "JPlay:" not in result.stderr


def test_digits_demo_prints_a_table_and_needs_no_tensorly(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorly", None)
    result = run_demo(tmp_path / "new" / "folder", "--data", "digits", *QUICK)
    assert result.exit_code == 0, result.output
    for expected in ("OA %", "AA %", "kappa", "J-Play", "LDA", "PCA", "raw", "digits.png"):
        assert expected in result.stdout
    assert (tmp_path / "new" / "folder" / "digits.png").is_file()
    assert "JPlay: fine-tuning 60, training accuracy" in result.stderr


def test_indian_pines_without_tensorly_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setenv("JPLAY_DATA", str(tmp_path))
    monkeypatch.setitem(sys.modules, "tensorly", None)
    monkeypatch.setitem(sys.modules, "tensorly.datasets", None)
    result = run_demo(tmp_path)
    assert result.exit_code == 2
    assert "pip install 'jplay[data]'" in result.stderr
    assert result.stdout == ""


def test_missing_matplotlib_is_said_before_the_fit(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    result = run_demo(tmp_path, "--data", "digits")
    assert result.exit_code == 2
    assert "pip install 'jplay[plot]'" in result.stderr
    assert "JPlay:" not in result.stderr


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


def test_indian_pines_problem_draws_50_or_15_pixels_and_divides_by_the_maximum():
    pytest.importorskip("tensorly", reason="Indian Pines comes with tensorly")
    problem = load_problem(DemoData.INDIAN_PINES, 50, 0)
    sizes = np.bincount(problem.y)[1:]
    drawn = np.bincount(problem.y[problem.train])[1:]
    np.testing.assert_array_equal(drawn, np.where(sizes < 100, 15, 50))
    assert problem.train.size + problem.test.size == problem.y.size == 10249
    np.testing.assert_allclose(problem.X.max(axis=1), 1.0)
    np.testing.assert_allclose(
        problem.X, Normalizer(norm="max").fit_transform(problem.scene.data), atol=1e-12
    )


@pytest.mark.slow
def test_indian_pines_demo_beats_raw_pixels_and_draws_the_map(tmp_path):
    pytest.importorskip("tensorly", reason="Indian Pines comes with tensorly")
    result = run_demo(tmp_path, "--max-iter", "60", "--json")
    assert result.exit_code == 0, result.output
    summary = json.loads(result.stdout)
    assert (summary["n_train"], summary["n_test"]) == (660, 9589)
    accuracy = {(s["features"], s["classifier"]): s["overall_accuracy"] for s in summary["scores"]}
    assert accuracy["raw", "1-NN"] == pytest.approx(0.6084, abs=1e-3)
    assert accuracy["J-Play", "1-NN"] > accuracy["raw", "1-NN"] + 0.02
    assert imread(summary["picture"]).shape[1] > 1000
    run = Run.load(tmp_path)
    assert run.scene.spectra.shape == (145, 145, 200)
    assert run.reliance.shape == (16, 200)
    assert Path(summary["report"]).stat().st_size < 5_000_000
