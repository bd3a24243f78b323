import json
import sys

import pytest

pytest.importorskip("typer", reason="the command line needs typer")

from typer.testing import CliRunner

from jplay.cli._app import app
from jplay.experiments._journal import Journal
from tiny_recipes import run_and_die

PROBLEMS = ("--problems", "iris-10", "--problems", "wine-10")
ROWS = ("--only", "1-NN", "--only", "PLS-DA", "--only", "J-Play")


def suite(*arguments):
    return CliRunner().invoke(app, ["suite", *map(str, arguments)])


def journals(folder):
    return {name: Journal(folder / name / "records.jsonl") for name in ("iris-10", "wine-10")}


def accuracies(folder):
    cells = json.loads((folder / "suite.json").read_text())["cells"]
    return {(c["problem"], c["row"]): (c["n_draws"], c["accuracy"]) for c in cells}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("suite")
    result = suite(*PROBLEMS, *ROWS, "--draws", 2, "-o", folder)
    assert result.exit_code == 0, result.output
    return folder, result


def test_suite_runs_some_rows_on_some_problems_and_says_what_was_not_run(whole):
    folder, result = whole
    found = accuracies(folder)
    assert set(found) == {(p, r) for p in journals(folder) for r in ("1-NN", "PLS-DA", "J-Play")}
    assert {n_draws for n_draws, _ in found.values()} == {2}
    assert found["wine-10", "J-Play"][1] > 80
    for line in ("not run: digits-5: no record.", "not run: extra trees: no record."):
        assert line in result.stdout
    for name in ("suite.md", "suite.json", "methods.csv", "cells.csv", "pairs.csv"):
        assert (folder / name).exists()
        assert str(folder / name) in result.stdout
    pairs = json.loads((folder / "suite.json").read_text())["pairs"]
    assert "J-Play" in {pair["reference"] for pair in pairs}


def test_killed_suite_resumes_to_the_same_figures_with_no_cell_twice(whole, tmp_path):
    run_and_die(2, "suite", *PROBLEMS, *ROWS, "--draws", 2, "--output-dir", tmp_path)
    records = journals(tmp_path)
    before = records["iris-10"].read()
    assert len(before) == 2
    refused = suite(*PROBLEMS, *ROWS, "--draws", 2, "-o", tmp_path)
    assert refused.exit_code == 2
    assert "Add --resume" in refused.stderr
    result = suite(*PROBLEMS, *ROWS, "--draws", 2, "-o", tmp_path, "--resume")
    assert result.exit_code == 0, result.output
    assert records["iris-10"].read()[: len(before)] == before
    for journal in records.values():
        assert set(journal.times_done().values()) == {1}
        assert len(journal.done()) == 6
    assert accuracies(tmp_path) == accuracies(whole[0])


def test_rerun_computes_the_named_rows_again_and_keeps_the_others(tmp_path):
    arguments = (*PROBLEMS[:2], "--draws", 1, "-o", tmp_path)
    assert suite(*arguments, *ROWS).exit_code == 0
    before = Journal(tmp_path / "iris-10" / "records.jsonl").read()
    result = suite(*arguments, "--rerun", "PLS*", "--json")
    assert result.exit_code == 0, result.output
    added = Journal(tmp_path / "iris-10" / "records.jsonl").read()[len(before) :]
    assert [r["status"] for r in added] == ["dropped", "done"]
    assert added[1]["method"] == "PLS-DA"
    rows = {m["row"] for m in json.loads(result.stdout)["methods"]}
    assert rows == {"1-NN", "PLS-DA", "J-Play"}, "tables hold all rows there are records of"


def test_a_class_of_the_user_is_one_more_row(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(
        "from sklearn.neighbors import KNeighborsClassifier\n"
        "class Three(KNeighborsClassifier):\n"
        "    def __init__(self, n_neighbors=3):\n"
        "        super().__init__(n_neighbors)\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    method = "mine:Three(n_neighbors=1)"
    only = ("--only", "1-NN", "--only", "Three*")
    result = suite(*PROBLEMS[:2], *only, "--method", method, "--draws", 1, "--json", "-o", "out")
    assert result.exit_code == 0, result.output
    content = json.loads(result.stdout)
    first, second = (m["mean_accuracy"] for m in content["methods"])
    assert {m["row"] for m in content["methods"]} == {"1-NN", "Three(n_neighbors=1)"}
    assert first == second, "it is the same classifier"
    wrong = suite("--method", "mine.Three", "-o", "out")
    assert wrong.exit_code == 2
    assert "package:Class" in wrong.stderr


def test_tables_only_fills_a_page_from_the_records(whole, tmp_path):
    folder, _ = whole
    page = tmp_path / "page.md"
    page.write_text("<!-- suite: begin -->\n<!-- suite: end -->\n")
    result = suite("--tables-only", "--draws", 2, "--page", page, "-o", folder)
    assert result.exit_code == 0, result.output
    assert "| J-Play |" in page.read_text()
    empty = suite("--tables-only", "-o", tmp_path / "none")
    assert empty.exit_code == 2
    assert "should hold records" in empty.stderr


def test_list_names_problems_and_methods_and_what_is_missing(tmp_path, monkeypatch):
    monkeypatch.setenv("JPLAY_DATA", str(tmp_path))
    content = json.loads(suite("--list", "--json").stdout)
    assert content["problems"]["wine-10"] is None
    assert "AR_DAT.mat" in content["problems"]["ar"]
    assert content["methods"]["J-Play committee"] is None
    assert "  ar (missing: " in suite("--list").stdout


def test_unknown_names_are_refused_with_those_there_are(tmp_path):
    for arguments in (("--problems", "mnist"), ("--only", "SOM"), ("--rerun", "SOM")):
        result = suite(*arguments, "-o", tmp_path)
        assert result.exit_code == 2
        assert "should name some of" in result.stderr
