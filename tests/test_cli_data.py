import json

import numpy as np
import pytest

pytest.importorskip("typer", reason="the command line needs typer")

from typer.testing import CliRunner

from jplay.cli._app import app
from jplay.datasets import DATASETS


def data(*arguments):
    return CliRunner().invoke(app, ["data", *arguments])


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("JPLAY_DATA", str(tmp_path))
    monkeypatch.delenv("JPLAY_MIRROR", raising=False)
    return tmp_path


def listed():
    result = data("list", "--json")
    assert result.exit_code == 0, result.output
    return {entry["name"]: entry for entry in json.loads(result.stdout)["sets"]}


def test_plain_list_names_the_folder_the_missing_file_and_the_licence(home):
    result = data()
    assert result.exit_code == 0, result.output
    assert f"Data folder: {home}" in result.stdout
    assert f"Missing: {home / 'ar' / 'AR_DAT.mat'}" in result.stdout
    assert "Research use only" in result.stdout
    assert json.loads(data("--json").stdout) == json.loads(data("list", "--json").stdout)


def test_files_are_found_in_any_accepted_layout(home):
    assert {name for name, entry in listed().items() if not entry["found"]} >= {"ar", "yeast"}
    (home / "ar").mkdir()
    (home / "ar" / "AR_DAT.npz").touch()
    (home / "multilabel").mkdir()
    (home / "multilabel" / "yeast-train.arff").touch()
    sets = listed()
    assert sets["ar"]["files"] == [str(home / "ar" / "AR_DAT.npz")]
    assert not sets["yeast"]["found"], "one part of two"
    (home / "multilabel" / "yeast-test.arff").touch()
    assert listed()["yeast"]["found"]
    assert listed()["digits"]["found"]


def test_missing_file_that_is_listed_is_the_one_the_loader_asks_for():
    absent = {name: entry for name, entry in listed().items() if not entry["found"]}
    assert {"houston2013", "ar", "extended_yale_b", "yeast", "emotions", "bibtex"} <= absent.keys()
    for name, entry in absent.items():
        result = data("check", name)
        assert result.exit_code == 2
        assert any(text in result.stderr for text in (*entry["missing"], "-train.arff")), name
        assert entry["licence"] in " ".join(result.stderr.split())


def test_where_prints_the_folder_alone(home):
    assert data("where").stdout.strip() == str(home)
    assert json.loads(data("where", "--json").stdout) == {"folder": str(home), "exists": True}


def test_check_reads_the_data(home):
    result = data("check", "digits", "--json")
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout)
    assert (facts["n_samples"], facts["n_features"], facts["n_classes"]) == (1797, 64, 10)
    said = data("check", "digits").stdout
    assert "1797 samples, 64 features, 10 classes" in said
    assert f"Checked: {DATASETS['digits'].checked}" in said


def test_check_refuses_a_file_of_the_right_name_and_wrong_content(home):
    (home / "extended_yale_b").mkdir()
    path = home / "extended_yale_b" / "YaleB_32x32.npz"
    np.savez(path, fea=np.zeros((5, 4)), gnd=np.ones(5))
    result = data("check", "extended-yale-b")
    assert result.exit_code == 2
    assert str(path) in "".join(result.stderr.splitlines())
    assert "2414" in result.stderr


def test_unknown_name_lists_the_choices():
    result = data("check", "mnist")
    assert result.exit_code == 2
    assert all(name in result.stderr for name in DATASETS)
