"""The commands fit, predict, map and assess as a user types them."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

typer = pytest.importorskip("typer", reason="the command line needs typer")
pytest.importorskip("skops", reason="models need skops")
pandas = pytest.importorskip("pandas", reason="tables need pandas")

from sklearn.datasets import load_iris  # noqa: E402
from typer.testing import CliRunner  # noqa: E402

from jplay.cli._app import app  # noqa: E402
from jplay.persistence import load_model  # noqa: E402
from raster_files import (  # noqa: E402
    make_image,
    write_cube,
    write_envi,
    write_labels,
    write_polygons,
)


def run(*args):
    return CliRunner().invoke(app, [str(arg) for arg in args], prog_name="jplay")


def answer(*args):
    result = run(*args, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def mistake(*args):
    """Run a command that should fail; return its one line."""
    result = run(*args)
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
    lines = [line for line in result.stderr.splitlines() if line.startswith("jplay:")]
    assert len(lines) == 1
    return lines[0]


@pytest.fixture(scope="module")
def iris(tmp_path_factory):
    """A folder with the same table in every format, and a model."""
    folder = tmp_path_factory.mktemp("iris")
    loaded = load_iris(as_frame=True)
    table = loaded.data.copy()
    table["species"] = loaded.target_names[loaded.target]
    table.to_csv(folder / "iris.csv", index=False)
    table.to_csv(folder / "iris.tsv", index=False, sep="\t")
    np.savez(folder / "iris.npz", X=loaded.data.to_numpy(), y=loaded.target.to_numpy())
    from scipy.io import savemat

    savemat(folder / "iris.mat", {"X": loaded.data.to_numpy(), "y": loaded.target.to_numpy()})
    sources = ("fit", folder / "iris.csv", "--target", "species", "--cv", 0)
    answer(*sources, "-o", folder / "model.skops")
    return folder


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scene")
    image = make_image()
    write_envi(folder, image)
    write_labels(folder / "labels.tif", image)
    answer(
        *("fit", folder / "scene.hdr", "--labels", folder / "labels.tif", "--max-per-class", 30),
        *("--class-names", "water,wood,field,town", "-o", folder / "model.skops", "--cv", 0),
    )
    return folder


def test_fit_and_predict_a_table(iris, tmp_path):
    summary = answer(
        *("predict", iris / "model.skops", iris / "iris.csv", "-o", tmp_path / "p.csv"),
        *("--target", "species", "--with-scores", "--with-features", "--with-probabilities"),
    )
    assert summary["n_samples"] == 150
    assert summary["accuracy"]["overall_accuracy"] > 0.9
    written = pandas.read_csv(tmp_path / "p.csv")
    truth = pandas.read_csv(iris / "iris.csv")["species"]
    right = (written["prediction"] == truth).mean()
    assert right == pytest.approx(summary["accuracy"]["overall_accuracy"])
    scores = written[[f"score_{name}" for name in ("setosa", "versicolor", "virginica")]]
    np.testing.assert_array_equal(
        scores.idxmax(axis=1).str.removeprefix("score_"), written["prediction"]
    )
    assert "feature_0" in written
    chances = written[[f"probability_{name}" for name in ("setosa", "versicolor", "virginica")]]
    np.testing.assert_allclose(chances.sum(axis=1), 1, atol=1e-6)


@pytest.mark.parametrize("suffix", ["csv", "tsv", "npz", "mat", "parquet"])
def test_every_table_format_gives_the_same_model(iris, tmp_path, suffix):
    if suffix == "parquet":
        pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
        pandas.read_csv(iris / "iris.csv").to_parquet(iris / "iris.parquet", index=False)
    target = "y" if suffix in ("npz", "mat") else "species"
    path = tmp_path / "model.skops"
    answer("fit", iris / f"iris.{suffix}", "--target", target, "-o", path, "--cv", 0)
    reference = load_model(iris / "model.skops")
    np.testing.assert_allclose(
        load_model(path).final_step.components_, reference.final_step.components_, atol=1e-9
    )
    output = tmp_path / ("p.npz" if suffix != "parquet" else "p.parquet")
    assert answer("predict", path, iris / f"iris.{suffix}", "-o", output)["n_samples"] == 150
    if suffix == "parquet":
        predicted = pandas.read_parquet(output)["prediction"].to_numpy()
    else:
        with np.load(output) as arrays:
            predicted = arrays["prediction"]
    loaded = load_iris()
    truth = loaded.target if target == "y" else loaded.target_names[loaded.target]
    assert (predicted == truth).mean() > 0.9


def test_columns_are_found_by_name_in_any_order(iris, tmp_path):
    table = pandas.read_csv(iris / "iris.csv")
    shuffled = table[table.columns[::-1]].assign(remark="x")
    shuffled.to_csv(tmp_path / "other.csv", index=False)
    for source, output in ((iris / "iris.csv", "a.csv"), (tmp_path / "other.csv", "b.csv")):
        answer("predict", iris / "model.skops", source, "-o", tmp_path / output)
    assert (tmp_path / "a.csv").read_text() == (tmp_path / "b.csv").read_text()


def test_several_targets_make_a_multi_label_model(iris, tmp_path):
    table = pandas.read_csv(iris / "iris.csv")
    table["small"] = (table.pop("species") == "setosa").astype(int)
    table["wide"] = (table["petal width (cm)"] > 1.3).astype(int)
    table.to_csv(tmp_path / "labels.csv", index=False)
    model = tmp_path / "model.skops"
    answer("fit", tmp_path / "labels.csv", "--target", "small", "--target", "wide", "-o", model)
    answer("predict", model, tmp_path / "labels.csv", "-o", tmp_path / "p.csv")
    written = pandas.read_csv(tmp_path / "p.csv")
    assert list(written) == ["small", "wide"]
    assert (written["small"] == table["small"]).mean() > 0.9
    new = ("predict", model, tmp_path / "labels.csv", "-o", tmp_path / "p.csv", "--force")
    summary = answer(*new, "--target", "small", "--target", "wide")
    right = (written[["small", "wide"]] == table[["small", "wide"]]).to_numpy().mean()
    assert summary["accuracy"]["overall_accuracy"] == pytest.approx(right)
    assert "--target should name as many columns" in mistake(*new, "--target", "wide")


def test_settings_scaling_folds_and_card(iris, tmp_path):
    summary = answer(
        *("fit", iris / "iris.csv", "--target", "species", "-o", tmp_path / "model.skops"),
        *("--n-components", 2, "--n-layers", 1, "--alpha", 10, "--scaling", "columns", "--cv", 3),
        *("--card", tmp_path / "card.md"),
    )
    assert summary["layer_sizes"] == [2]
    assert summary["accuracy"]["overall_accuracy"] > 0.8
    loaded = load_model(tmp_path / "model.skops")
    assert not hasattr(loaded.estimator, "steps")
    assert loaded.final_step.alpha == 10
    card = (tmp_path / "card.md").read_text()
    assert "3-fold cross-validation" in card
    assert "petal width (cm)" in card


def test_files_are_replaced_with_force_only_and_what_is_read_never(iris, tmp_path):
    model, table = tmp_path / "model.skops", tmp_path / "iris.csv"
    shutil.copy(iris / "model.skops", model)
    shutil.copy(iris / "iris.csv", table)
    content, rows = model.read_bytes(), table.read_bytes()
    target = (table, "--target", "species")
    for command, reason in (
        (("fit", *target, "-o", model), "--force"),
        (("tune", *target, "-o", model), "--force"),
        (("predict", model, table, "-o", table, "--force"), "read by this command"),
        (("predict", model, table, "-o", model, "--force"), "should end in .csv"),
        (("predict", table, model, "-o", tmp_path / "p.csv"), "is a model. Name the model first"),
        (("fit", *target, "-o", table, "--force"), "should end in .skops"),
        (("tune", *target, "-o", tmp_path / "model.pkl"), "should end in .skops"),
        (("fit", *target, "-o", tmp_path / "missing" / "model.skops"), "missing"),
        (("tune", *target, "-o", tmp_path / "missing" / "model.skops"), "missing"),
    ):
        assert re.search(reason, mistake(*command)), command
        assert (model.read_bytes(), table.read_bytes()) == (content, rows)


def test_output_for_people_names_the_files(iris, tmp_path):
    result = run("fit", iris / "iris.csv", "--target", "species", "-o", tmp_path / "model.skops")
    assert result.exit_code == 0
    assert "150 samples of 3 classes" in result.stdout.replace("\n", " ")
    assert "model.skops" in result.stdout
    result = run("predict", tmp_path / "model.skops", iris / "iris.csv", "-o", tmp_path / "p.csv")
    assert "150 predictions" in result.stdout


def test_mistakes_with_tables_are_one_line(iris, tmp_path):
    table = iris / "iris.csv"
    model = iris / "model.skops"
    assert "either --target" in mistake("fit", table)
    line = mistake("fit", table, "--target", "specie", "-o", tmp_path / "m.skops")
    assert "Did you mean 'species'?" in line
    line = mistake("fit", table, "--target", "petal width (cm)", "-o", tmp_path / "m.skops")
    assert "Column 'species'" in line
    assert "does not exist" in mistake("fit", tmp_path / "no.csv", "--target", "y")
    assert "no.skops" in mistake("predict", tmp_path / "no.skops", table)
    (tmp_path / "fake.skops").write_text("fake")
    assert "cannot be read as a model" in mistake("predict", tmp_path / "fake.skops", table)
    pandas.read_csv(table).drop(columns="petal width (cm)").to_csv(tmp_path / "less.csv")
    assert "petal width (cm)" in mistake("predict", model, tmp_path / "less.csv")
    np.savez(tmp_path / "less.npz", X=np.ones((3, 2)))
    assert "expects 4 features" in mistake("predict", model, tmp_path / "less.npz")
    holes = pandas.read_csv(table)
    holes.loc[3, "sepal width (cm)"] = None
    holes.to_csv(tmp_path / "holes.csv", index=False)
    assert "lacks 1 of 150 values" in mistake("predict", model, tmp_path / "holes.csv")
    assert "should end in" in mistake("predict", model, table, "-o", tmp_path / "p.doc")
    line = mistake("fit", table, "--target", "species", "--cv", 1, "-o", tmp_path / "m.skops")
    assert "--cv should be 0" in line
    missing = tmp_path / "missing" / "p.csv"
    assert "does not exist" in mistake("predict", model, table, "-o", missing)
    assert not list(tmp_path.glob("m.skops"))


def test_scene_to_map_to_assessment(scene, tmp_path):
    pytest.importorskip("rasterio", reason="maps need the extra raster")
    summary = answer(
        *("map", scene / "scene.hdr", "--model", scene / "model.skops", "-o", tmp_path / "map.tif"),
        *("--scores", tmp_path / "scores.tif", "--features", tmp_path / "features.tif"),
    )
    assert (summary["height"], summary["width"], summary["n_bands"]) == (48, 40, 40)
    named = ("--class-names", "water,wood,field,town")
    assess = ("assess", tmp_path / "map.tif", "--reference", scene / "labels.tif")
    report = answer(*assess, *named)
    assert report["overall_accuracy"] > 0.95
    assert report["class_names"] == ["water", "wood", "field", "town"]
    assert sum(map(sum, report["confusion"])) == report["n_compared"]
    assert "no labelled pixel" in mistake(*assess, *named, "--exclude", scene / "labels.tif")
    assert "has no class names" in mistake(*assess)
    result = run(*assess, "--by-code")
    assert "Overall accuracy" in result.stdout
    assert "water" in result.stdout


def test_polygons_on_the_command_line(scene, tmp_path):
    pytest.importorskip("geopandas", reason="polygons need the extra raster")
    polygons = write_polygons(tmp_path / "polygons.gpkg", make_image())
    summary = answer(
        *("fit", scene / "scene.hdr", "--labels", polygons, "--field", "class"),
        *("--max-per-class", 25, "-o", tmp_path / "model.skops"),
    )
    assert summary["classes"] == [f"class {code}" for code in (1, 2, 3, 4)]
    assert "class, remark" in mistake("fit", scene / "scene.hdr", "--labels", polygons)


def test_mistakes_with_scenes_are_one_line(scene, tmp_path):
    header, model = scene / "scene.hdr", scene / "model.skops"
    assert "does not exist" in mistake("map", tmp_path / "no.hdr", "--model", model)
    line = mistake("fit", header, "--labels", scene / "labels.tif", "--bad-bands", "1-x")
    assert "--bad-bands" in line
    other = write_cube(tmp_path / "other.tif", make_image(n_bands=30))
    line = mistake("map", other, "--model", model, "-o", tmp_path / "map.tif")
    assert "other wavelengths" in line
    assert "--resample" in line
    assert not (tmp_path / "map.tif").exists()
    answer("map", other, "--model", model, "-o", tmp_path / "map.tif", "--resample")
    assert "one band" in mistake("assess", other, "--reference", scene / "labels.tif")


def test_model_of_a_table_does_not_fit_a_scene(iris, scene, tmp_path):
    line = mistake("map", scene / "scene.hdr", "--model", iris / "model.skops")
    assert "expects 4 bands" in line


@pytest.mark.skipif(sys.platform == "win32", reason="sends a signal")
def test_ctrl_c_leaves_no_file(tmp_path):
    """A map that would take minutes, interrupted as soon as its temporary folder is there."""
    image = make_image(height=200, width=160)
    header = write_envi(tmp_path, image)
    write_labels(tmp_path / "labels.tif", image)
    model = tmp_path / "model.skops"
    answer(
        *(
            "fit",
            header,
            "--labels",
            tmp_path / "labels.tif",
            "--max-per-class",
            20,
            "-o",
            model,
            "--cv",
            0,
        )
    )
    before = sorted(tmp_path.iterdir())
    # A process started in the background ignores the signal unless it says otherwise.
    slow = (
        "import signal, time, jplay.raster._map as m\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "fast = m.BlockClassifier.__call__\n"
        "def slow(self, *a, **k):\n    time.sleep(50)\n    return fast(self, *a, **k)\n"
        "m.BlockClassifier.__call__ = slow\n"
        "from jplay.cli import main\nmain()\n"
    )
    process = subprocess.Popen(
        [
            *(sys.executable, "-c", slow, "map", str(header), "--model", str(model)),
            *("-o", str(tmp_path / "map.tif"), "--block-mb", "1"),
        ],
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ,
    )
    deadline = time.monotonic() + 60
    while len(list(tmp_path.iterdir())) == len(before) and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130, stderr
    assert "interrupted" in stderr
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("method", ["lifted", "committee"])
def test_every_method_of_the_family_fits_predicts_and_maps(iris, scene, tmp_path, method):
    told = answer(
        "fit",
        iris / "iris.csv",
        "--target",
        "species",
        "--method",
        method,
        "-o",
        tmp_path / "m",
        "--cv",
        0,
    )
    assert told["method"] == {"lifted": "LiftedJPlay", "committee": "JPlayCommittee"}[method]
    assert "layer_sizes" not in told
    predicted = answer("predict", tmp_path / "m", iris / "iris.csv", "-o", tmp_path / "p.csv")
    assert predicted["n_samples"] == 150
    labels = pandas.read_csv(tmp_path / "p.csv")
    truth = pandas.read_csv(iris / "iris.csv")["species"]
    assert np.mean(labels.iloc[:, 0] == truth) > 0.9
    pytest.importorskip("rasterio", reason="maps need the extra raster")
    sources = (scene / "scene.hdr", "--labels", scene / "labels.tif")
    answer("fit", *sources, "--method", method, "-o", tmp_path / "s", "--cv", 0)
    answer("map", scene / "scene.hdr", "--model", tmp_path / "s", "-o", tmp_path / "map.tif")
    report = answer("assess", tmp_path / "map.tif", "--reference", scene / "labels.tif")
    assert report["overall_accuracy"] > 0.95


def test_settings_that_a_method_lacks_are_refused(iris, tmp_path):
    line = mistake(
        *("fit", iris / "iris.csv", "--target", "species", "--method", "committee"),
        *("--n-layers", 2, "-o", tmp_path / "m"),
    )
    assert "--n-layers should be left out with --method committee" in line
