import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("typer", reason="the command line needs typer")

from typer.testing import CliRunner

import jplay
from jplay.cli._app import app
from jplay.experiments.records import RecordFile
from jplay.report import Run
from tiny_recipes import tiny, to_toml


@pytest.fixture
def recipe_file(tmp_path):
    path = tmp_path / "tiny.toml"
    path.write_text(to_toml(tiny()))
    return path


def reproduce(*arguments):
    return CliRunner().invoke(app, ["reproduce", *map(str, arguments)])


def accuracies(folder):
    with open(folder / "tiny" / "table.csv", newline="") as stream:
        rows = list(csv.DictReader(stream))
    return {(r["method"], r["classifier"]): (r["n_splits"], r["mean"]) for r in rows}


def test_killed_run_resumes_to_the_same_table_with_no_cell_twice(recipe_file, tmp_path):
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    records = RecordFile(killed / "tiny" / "records.jsonl")
    source = str(Path(jplay.__file__).parents[1])
    command = [sys.executable, "-m", "jplay.cli", "reproduce", str(recipe_file)]
    options = ["--no-figures", "--output-dir", str(killed)]
    process = subprocess.Popen(
        command + options,
        env={**os.environ, "PYTHONPATH": source},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 120
    while len(records.read()) < 9 and time.monotonic() < deadline:
        assert process.poll() is None, "the run ended before it could be killed"
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = records.read()
    assert 9 <= len(before) < 33
    result = reproduce(recipe_file, "--resume", "--no-figures", "-o", killed)
    assert result.exit_code == 0, result.output
    after = records.read()
    assert after[: len(before)] == before
    assert len(after) == 33, "three choices and thirty cells"
    assert set(records.times_done().values()) == {1}
    result = reproduce(recipe_file, "--no-figures", "-o", whole)
    assert result.exit_code == 0, result.output
    assert accuracies(killed) == accuracies(whole)
    assert {n for n, _ in accuracies(killed).values()} == {"3"}


def test_quick_prints_ours_published_and_difference(recipe_file, tmp_path):
    result = reproduce(recipe_file, "--quick", "--no-figures", "-o", tmp_path / "out")
    assert result.exit_code == 0, result.output
    header, _, row = (line for line in result.stdout.splitlines() if line.startswith("|"))
    assert "NN | published | diff." in header
    cells = [cell.strip() for cell in row.split("|")[1:-1]]
    assert cells[0] == "baseline"
    assert float(cells[5]) == pytest.approx(float(cells[3]) - 80.0)
    assert "table.md" in result.stdout


def test_records_are_not_overwritten_without_resume(recipe_file, tmp_path):
    arguments = [recipe_file, "--quick", "--no-figures", "-o", tmp_path / "out"]
    assert reproduce(*arguments).exit_code == 0
    second = reproduce(*arguments)
    assert second.exit_code == 2
    assert "Add --resume" in second.stderr


def test_tables_only_computes_nothing_and_shows_what_is_missing(recipe_file, tmp_path):
    arguments = [recipe_file, "--no-figures", "-o", tmp_path / "out"]
    empty = reproduce(*arguments, "--tables-only")
    assert empty.exit_code == 2
    assert "should hold records" in empty.stderr
    assert reproduce(*arguments, "--splits", 1, "--method", "PCA").exit_code == 0
    records = (tmp_path / "out" / "tiny" / "records.jsonl").read_bytes()
    result = reproduce(*arguments, "--tables-only")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "out" / "tiny" / "records.jsonl").read_bytes() == records
    rows = {line.split(" | ")[0]: line for line in result.stdout.splitlines()}
    assert "| – |" in rows["| J-Play_1"]
    assert "| – |" not in rows["| PCA"]


def test_json_holds_every_cell(recipe_file, tmp_path):
    result = reproduce(
        *(recipe_file, "--splits", 1, "--method", "J-Play_1", "--classifier", "own"),
        *("--no-figures", "--json", "-o", tmp_path / "out"),
    )
    assert result.exit_code == 0, result.output
    (summary,) = json.loads(result.stdout)
    (cell,) = summary["cells"]
    assert (cell["method"], cell["classifier"], cell["n_splits"]) == ("J-Play_1", "own", 1)
    assert cell["ours"] > 60
    assert summary["failed"] == 0


def test_unknown_recipe_and_row_name_the_choices(recipe_file, tmp_path):
    result = reproduce("table9", "-o", tmp_path / "out")
    assert result.exit_code == 2
    assert "table1, table2" in result.stderr
    result = reproduce(recipe_file, "--method", "SOM", "-o", tmp_path / "out")
    assert result.exit_code == 2
    assert "J-Play_2" in result.stderr


def study(tmp_path, *options):
    tmp_path.mkdir(exist_ok=True)
    rng = np.random.default_rng(0)
    y = np.repeat([1, 2, 3], 30)
    np.savez(tmp_path / "own.npz", X=rng.normal(size=(90, 8)) + 3 * np.eye(3, 8)[y - 1], y=y)
    return CliRunner().invoke(
        app,
        [
            *("study", "--data", str(tmp_path / "own.npz"), "--n-train", "10", "--splits", "1"),
            *("--n-components", "4", "--max-layers", "2", "--method", "baseline"),
            *("--method", "LDA", "--method", "J-Play*", "--classifier", "NN"),
            *("--classifier", "own*", "--no-figures", "--json"),
            *("--output-dir", str(tmp_path / "out"), *options),
        ],
    )


def test_study_runs_the_comparison_on_own_data(tmp_path):
    result = study(tmp_path)
    assert result.exit_code == 0, result.output
    (summary,) = json.loads(result.stdout)
    accuracy = {(c["method"], c["classifier"]): c["ours"] for c in summary["cells"]}
    assert len(accuracy) == 2 + 2 * 3
    assert min(accuracy.values()) > 70
    assert (tmp_path / "out" / "own" / "table.md").exists()


def test_study_ends_with_a_report_of_its_best_row(tmp_path):
    pytest.importorskip("jinja2", reason="the report needs jinja2")
    result = study(tmp_path)
    assert result.exit_code == 0, result.output
    (summary,) = json.loads(result.stdout)
    page = tmp_path / "out" / "own" / "report.html"
    assert str(page) in summary["files"]
    run = Run.load(page.parent)
    assert len(run.scores) == len(summary["cells"])
    ours = [cell for cell in summary["cells"] if cell["method"].startswith("J-Play")]
    highest = max(cell["ours"] for cell in ours)
    best = {cell["method"] for cell in ours if cell["ours"] == highest}
    assert run.facts["Row"].partition(",")[0] in best
    assert [point["n_layers"] for point in run.depth] == [1, 2]
    assert run.confusion.sum() == 60
    assert "own.npz" in page.read_text(encoding="utf-8")


def test_failing_report_does_not_fail_the_run(tmp_path, monkeypatch):
    def broken(*arguments):
        raise RuntimeError("no room\nleft")

    monkeypatch.setattr("jplay.cli._run_report.write_run_report", broken)
    result = study(tmp_path)
    assert result.exit_code == 0, result.output
    assert "No report: no room left" in result.stderr
    assert not (tmp_path / "out" / "own" / "report.html").exists()


def test_report_of_a_scene_has_its_map(tmp_path):
    pytest.importorskip("jinja2", reason="the report needs jinja2")
    size = {"height": 24, "width": 20, "n_bands": 12, "n_classes": 3}
    recipe = tiny(
        name="scene",
        dataset={"loader": "synthetic-scene", "options": size},
        split={"kind": "per-class", "n_train": 8, "n_splits": 1, "seed": 1},
    )
    (tmp_path / "scene.toml").write_text(to_toml(recipe))
    result = reproduce(
        *(tmp_path / "scene.toml", "--method", "J-Play_1", "--classifier", "own"),
        *("--no-figures", "-o", tmp_path / "out"),
    )
    assert result.exit_code == 0, result.output
    run = Run.load(tmp_path / "out" / "scene")
    assert run.scene is not None
    assert run.feature_axis == "Wavelength (nm)"
    assert "report.html" in result.stdout


def test_long_fit_is_not_repeated_for_the_report(tmp_path, monkeypatch):
    monkeypatch.setattr("jplay.cli._run_report.LONGEST_FIT", 0.0)
    result = study(tmp_path)
    assert result.exit_code == 0, result.output
    assert "Add --keep-fits" in " ".join(result.stderr.split())
    assert study(tmp_path / "kept", "--keep-fits").exit_code == 0
    assert (tmp_path / "kept" / "out" / "own" / "report.html").exists()
