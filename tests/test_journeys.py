"""Three users from a file to a result, each within ten commands, as they would type them."""

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("typer", reason="the command line needs typer")
pytest.importorskip("skops", reason="models need skops")
pandas = pytest.importorskip("pandas", reason="tables need pandas")

from typer.testing import CliRunner  # noqa: E402

from jplay.cli._app import app  # noqa: E402
from jplay.persistence import load_model, model_card  # noqa: E402
from raster_files import make_image, write_envi, write_polygons  # noqa: E402

MAX_COMMANDS = 10


class Shell:
    """Runs commands in a folder and counts them."""

    def __init__(self):
        self.n_commands = 0

    def __call__(self, line, *, fails=False):
        self.n_commands += 1
        assert self.n_commands <= MAX_COMMANDS
        program, *arguments = line.split()
        assert program == "jplay"
        result = CliRunner().invoke(app, arguments, prog_name="jplay")
        assert result.exit_code == (2 if fails else 0), result.output
        assert "Traceback" not in result.output
        return result

    def json(self, line):
        return json.loads(self(f"{line} --json").stdout)


@pytest.fixture
def shell(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return Shell()


def patients(seed, n_patients=48, n_each=5, n_columns=30):
    """Measurements in mixed units with an index column, ids, gaps, text and decimal commas."""
    rng = np.random.default_rng(seed)
    person = np.repeat(np.arange(n_patients), n_each)
    ill = (person % 2).astype(bool)
    X = rng.normal(size=(len(person), n_columns)) + 0.8 * rng.normal(size=(n_patients, 1))[person]
    X[:, :6] += 1.5 * ill[:, None]
    units = 10 ** np.random.default_rng(0).uniform(-3, 3, n_columns)
    frame = pandas.DataFrame(X * units + 5 * units, columns=[f"m{i}" for i in range(n_columns)])
    frame.loc[rng.choice(len(frame), 10, replace=False), "m3"] = np.nan
    frame["site"] = np.array(["north", "south"])[(person % 3 == 0).astype(int)]
    frame["sample"] = [f"s{seed}-{i}" for i in range(len(frame))]
    frame["patient"] = [f"p{k}" for k in person]
    frame["diagnosis"] = np.where(ill, "ill", "well")
    return frame


def test_table_with_index_ids_gaps_text_and_mixed_units(shell):
    patients(0).to_csv("train.csv", sep=";", decimal=",", encoding="utf-8-sig")
    patients(1).to_csv("new.csv", sep=";", decimal=",", encoding="utf-8-sig")
    told = shell("jplay fit train.csv --target diagnose", fails=True).stderr
    assert "Did you mean 'diagnosis'?" in told
    told = shell("jplay fit train.csv --target diagnosis --group patient --id sample", fails=True)
    assert "--encode 'site'" in told.stderr
    options = "--target diagnosis --group patient --id sample --encode site"
    told = shell(f"jplay fit train.csv {options}", fails=True).stderr
    assert "Column 'm3' of 'train.csv' lacks 10 of 240 values. Fit with --impute median" in told
    result = shell(f"jplay fit train.csv {options} --impute median")
    assert "taken for row numbers" in result.stderr
    assert "decimal commas" in result.stderr
    assert "Scaling: each column by itself" in result.stderr
    assert "leaving out whole groups, 95 % interval over 48 groups" in result.stdout
    assert "Shrinkage LDA" in result.stdout
    assert "Random forest" in result.stdout
    assert "raining accuracy" not in result.output
    figures = load_model("model.skops").metadata.accuracy
    assert f"{100 * figures['overall_accuracy']:.1f} %" in result.stdout
    assert f"{100 * figures['low']:.1f} %" in model_card(load_model("model.skops"))
    ours, discriminant, _ = figures["compared"]
    assert ours["overall_accuracy"] > discriminant["overall_accuracy"] - 0.02
    told = shell(f"jplay fit train.csv {options} --impute median", fails=True).stderr
    assert "'model.skops' exists" in told
    found = shell.json("jplay predict model.skops new.csv --id sample --target diagnosis")
    assert figures["low"] <= found["accuracy"]["overall_accuracy"] <= figures["high"]
    written = pandas.read_csv("predictions.csv")
    assert list(written) == ["sample", "prediction"]
    assert written["sample"].tolist() == patients(1)["sample"].tolist()
    before = Path("new.csv").read_bytes()
    told = shell("jplay predict model.skops new.csv -o new.csv --force", fails=True).stderr
    assert "is read by this command" in told
    assert Path("new.csv").read_bytes() == before


def test_scene_with_polygons(shell, tmp_path):
    pytest.importorskip("geopandas", reason="polygons need the extra raster")
    image = make_image(n_bands=20)
    write_envi(tmp_path, image)
    write_polygons(tmp_path / "fields.gpkg", image)
    scene = "scene.hdr --labels fields.gpkg --field class"
    told = shell("jplay fit scene.hdr --labels fields.gpkg", fails=True).stderr
    assert "class" in told
    result = shell(f"jplay fit {scene} --max-per-class 60")
    assert "leaving out" in result.stdout
    assert "Scaling: each sample divided by its maximum" in result.stderr
    tuned = shell.json(
        f"jplay tune {scene} --max-per-class 40 --grid alpha=0.1,1 --cv 2 -o tuned.skops"
    )
    assert len(tuned["settings"]) == 2
    assert "best of 2" in tuned["accuracy"]["notes"][-1]
    shell("jplay map scene.hdr --model model.skops -o map.tif")
    found = shell.json("jplay assess map.tif --reference fields.gpkg --field class")
    assert found["overall_accuracy"] > 0.9


OWN_METHOD = """
from sklearn.neighbors import KNeighborsClassifier


class Nearest(KNeighborsClassifier):
    pass
"""


def test_own_method_in_a_study(shell, tmp_path):
    pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    (tmp_path / "own_nearest.py").write_text(OWN_METHOD)
    patients(0).drop(columns=["site", "m3"]).to_parquet("train.parquet")
    line = "jplay study train.parquet --target diagnosis --group patient --id sample --splits 4"
    told = shell(f"{line} --method own_nearest:Farthest", fails=True).stderr
    assert "own_nearest has no 'Farthest'" in told
    line += " --method own_nearest:Nearest(n_neighbors=3) --classifier own --no-figures"
    result = shell(f"{line} --only Nearest* --only LDA*")
    page = (tmp_path / "study" / "train" / "table.md").read_text(encoding="utf-8")
    assert page.splitlines()[2] in result.stdout
    assert "Differences from Nearest(n_neighbors=3)" in page
    for part in ("Made with jplay", "scikit-learn", "Command: `jplay", "Data: "):
        assert part in page
