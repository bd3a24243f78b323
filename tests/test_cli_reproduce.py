import csv
import json

import numpy as np
import pytest

pytest.importorskip("typer", reason="the command line needs typer")

from typer.testing import CliRunner

from jplay.cli._app import app
from jplay.experiments._journal import Journal
from jplay.report import Run
from tiny_recipes import run_and_die, tiny, to_toml


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
    records = Journal(killed / "tiny" / "records.jsonl")
    run_and_die(9, "reproduce", recipe_file, "--no-figures", "--output-dir", killed)
    before = records.read()
    assert len(before) == 9
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
    assert reproduce(*arguments, "--splits", 1, "--only", "PCA").exit_code == 0
    records = (tmp_path / "out" / "tiny" / "records.jsonl").read_bytes()
    result = reproduce(*arguments, "--tables-only")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "out" / "tiny" / "records.jsonl").read_bytes() == records
    rows = {line.split(" | ")[0]: line for line in result.stdout.splitlines()}
    assert "| – |" in rows["| J-Play_1"]
    assert "| – |" not in rows["| PCA"]


def test_json_holds_every_cell(recipe_file, tmp_path):
    result = reproduce(
        *(recipe_file, "--splits", 1, "--only", "J-Play_1", "--classifier", "own"),
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
    result = reproduce(recipe_file, "--only", "SOM", "-o", tmp_path / "out")
    assert result.exit_code == 2
    assert "J-Play_2" in result.stderr


def test_several_problems_end_with_a_table_of_all(tmp_path):
    table = tiny(name="both", quick={})
    table["methods"], table["searches"] = table["methods"][:2], {}
    del table["dataset"], table["split"], table["title"]
    split = {"kind": "per-class", "n_train": 5, "n_splits": 1}
    table["problems"] = [
        {"name": name, "dataset": {"loader": name}, "split": split} for name in ("digits", "wine")
    ]
    (tmp_path / "both.toml").write_text(to_toml(table))
    output = tmp_path / "out"
    result = reproduce(tmp_path / "both.toml", "--no-figures", "--classifier", "NN", "-o", output)
    assert result.exit_code == 0, result.output
    overall = (output / "both.md").read_text()
    assert overall in result.stdout
    assert overall.splitlines()[0] == "| method | classifier | digits | wine | mean | mean rank |"
    for problem in ("digits", "wine"):
        assert (output / problem / "table.csv").exists()
        with open(output / problem / "table.csv", newline="") as stream:
            means = {row["method"]: float(row["mean"]) for row in csv.DictReader(stream)}
        assert all(f" {mean:.2f} |" in overall for mean in means.values())


def study(tmp_path, *options):
    tmp_path.mkdir(exist_ok=True)
    rng = np.random.default_rng(0)
    y = np.repeat([1, 2, 3], 30)
    np.savez(tmp_path / "own.npz", X=rng.normal(size=(90, 8)) + 3 * np.eye(3, 8)[y - 1], y=y)
    return CliRunner().invoke(
        app,
        [
            *("study", str(tmp_path / "own.npz"), "--n-train", "10", "--splits", "1"),
            *("--n-components", "4", "--max-layers", "2", "--only", "baseline"),
            *("--only", "LDA", "--only", "J-Play*", "--classifier", "NN"),
            *("--classifier", "own*", "--no-figures", "--json"),
            *("--output-dir", str(tmp_path / "out"), *options),
        ],
    )


def test_study_runs_the_comparison_on_own_data(tmp_path):
    result = study(tmp_path)
    assert result.exit_code == 0, result.output
    (summary,) = json.loads(result.stdout)
    accuracy = {(c["method"], c["classifier"]): c["ours"] for c in summary["cells"]}
    assert len(accuracy) == 1 + 2 + 2 * 3
    assert ("LDA", "own") in accuracy
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

    monkeypatch.setattr("jplay.cli._row_report.write_best_report", broken)
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
        *(tmp_path / "scene.toml", "--only", "J-Play_1", "--classifier", "own"),
        *("--no-figures", "-o", tmp_path / "out"),
    )
    assert result.exit_code == 0, result.output
    run = Run.load(tmp_path / "out" / "scene")
    assert run.scene is not None
    assert run.feature_axis == "Wavelength (nm)"
    assert "report.html" in result.stdout


def test_long_fit_is_not_repeated_for_the_report(tmp_path, monkeypatch):
    monkeypatch.setattr("jplay.cli._row_report.MAX_FIT_SECONDS", 0.0)
    result = study(tmp_path)
    assert result.exit_code == 0, result.output
    assert "Add --keep-fits" in " ".join(result.stderr.split())
    assert study(tmp_path / "kept", "--keep-fits").exit_code == 0
    assert (tmp_path / "kept" / "out" / "own" / "report.html").exists()


OWN_METHOD = """
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin


class Nearest(ClassifierMixin, BaseEstimator):
    def __init__(self, power=2):
        self.power = power

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.means_ = np.array([X[y == label].mean(axis=0) for label in self.classes_])
        return self

    def predict(self, X):
        gaps = np.abs(X[:, None] - self.means_) ** self.power
        return self.classes_[gaps.sum(axis=2).argmin(axis=1)]
"""


def test_own_method_is_a_row_with_a_paired_test_and_an_origin(tmp_path, monkeypatch):
    pandas = pytest.importorskip("pandas", reason="tables with columns need pandas")
    pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "own_method.py").write_text(OWN_METHOD)
    (tmp_path / "mine.toml").write_text(
        '[[methods]]\nname = "mine, cubic"\nclass = "own_method:Nearest"\noptions = { power = 3 }\n'
    )
    rng = np.random.default_rng(0)
    y = np.repeat([1, 2, 3], 30)
    frame = pandas.DataFrame(rng.normal(size=(90, 8)) + 2 * np.eye(3, 8)[y - 1])
    frame.columns = [f"c{i}" for i in range(8)]
    frame.assign(kind=y).to_parquet("own.parquet", index=False)
    result = CliRunner().invoke(
        app,
        [
            *("study", "own.parquet", "--target", "kind", "--splits", "4", "--no-figures"),
            *("--method", "own_method:Nearest(power=2)", "--method", "mine.toml"),
            *("--only", "Nearest*", "--only", "mine*", "--only", "LDA", "--classifier", "own"),
        ],
    )
    assert result.exit_code == 0, result.output
    assert "Preparation: standard" in result.stderr
    page = (tmp_path / "study" / "own" / "table.md").read_text()
    assert "| Nearest(power=2) |" in page
    assert "Differences from Nearest(power=2)" in page
    assert "scikit-learn " in page
    assert "Command: `jplay" in page
    with open(tmp_path / "study" / "own" / "paired.csv", newline="") as stream:
        pairs = {row["method"]: row for row in csv.DictReader(stream)}
    assert set(pairs) == {"Nearest(power=2)", "mine, cubic", "LDA"}
    assert 0 < float(pairs["LDA"]["p_value"]) <= 1
    again = CliRunner().invoke(app, ["study", "own.parquet", "--method", "own_method:Farthest"])
    assert again.exit_code == 2


def test_study_leaves_groups_out_and_fills_missing_values(tmp_path):
    from jplay.experiments import Experiment, study_recipe

    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 6)), np.repeat([1, 2], 30)
    X[::9, 2] = np.nan
    person = np.repeat(np.arange(12), 5)
    np.savez(tmp_path / "own.npz", X=X, y=y, person=person)
    recipe = study_recipe(
        tmp_path / "own.npz", columns={"target": "y", "group": "person"}, impute="median"
    )
    assert recipe.preprocessing == ("median", "standard")
    experiment = Experiment(recipe, tmp_path / "out")
    assert len(experiment.divided.splits) == 3
    for train, test in experiment.divided.splits:
        assert not set(person[train]) & set(person[test])
    with pytest.raises(ValueError, match="Fit with --impute median"):
        study_recipe(tmp_path / "own.npz", columns={"target": "y"})


def test_study_of_a_scene_divides_it_by_place(tmp_path):
    pytest.importorskip("rasterio", reason="scenes need the extra raster")
    from jplay.experiments import Experiment, study_recipe
    from raster_files import make_image, write_envi, write_labels

    image = make_image()
    write_envi(tmp_path, image)
    write_labels(tmp_path / "labels.tif", image)
    scene = {"labels": str(tmp_path / "labels.tif")}
    recipe = study_recipe(tmp_path / "scene.hdr", scene=scene, split="blocks", n_splits=2)
    experiment = Experiment(recipe, tmp_path / "out")
    assert recipe.preprocessing == ("sample-max",)
    truth = experiment.divided.data.ground_truth
    np.testing.assert_array_equal(truth[truth > 0], experiment.divided.y)
    rows, columns = np.nonzero(truth)
    for train, test in experiment.divided.splits:
        gaps = np.maximum(
            abs(rows[train][:, None] - rows[test]), abs(columns[train][:, None] - columns[test])
        )
        assert gaps.min() > 2
    assert study_recipe(tmp_path / "scene.hdr", scene=scene).split.kind == "groups"


def test_corrected_t_test_is_the_plain_one_without_shared_samples():
    from scipy.stats import ttest_1samp

    from jplay.experiments._results import corrected_t_test

    gaps = [1.0, 0.5, -0.2, 2.0, 1.1]
    assert corrected_t_test(gaps, 0.0) == pytest.approx(ttest_1samp(gaps, 0).pvalue)
    assert corrected_t_test(gaps, 0.25) > corrected_t_test(gaps, 0.0)
    assert corrected_t_test([1.0], 0.5) is None
