import json
import os
import sys
from importlib.metadata import version

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

pytest.importorskip("typer", reason="the command line needs typer")

from typer.testing import CliRunner

from jplay import __version__
from jplay._optional import install_command
from jplay.cli._app import app
from jplay.cli.commands.info import _version


def facts():
    result = CliRunner().invoke(app, ["info", "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_versions_are_those_installed():
    found = facts()
    assert found["jplay"] == __version__
    assert found["packages"]["numpy"] == version("numpy")
    assert found["optional_packages"]["typer"] == {"version": version("typer"), "extra": "cli"}


def test_threads_are_those_of_the_libraries():
    with threadpool_limits(1):
        threads = facts()["threads"]
        loaded = {pool["internal_api"] for pool in threadpool_info()}
    assert {pool["name"] for pool in threads["libraries"]} == loaded
    assert {pool["threads"] for pool in threads["libraries"]} == {1}
    assert 0 < threads["cpus"] <= os.cpu_count()


def test_package_under_another_distribution_name_is_found():
    # The package sklearn is distributed as scikit-learn.
    assert _version("sklearn") == version("scikit-learn")
    assert _version("no_such_package") is None


def test_data_sets_in_the_folder_are_found(tmp_path, monkeypatch):
    monkeypatch.setenv("JPLAY_DATA", str(tmp_path))
    (tmp_path / "ar").mkdir()
    (tmp_path / "ar" / "AR_DAT.mat").write_bytes(b"")
    data = facts()["data"]
    assert data["folder"] == str(tmp_path)
    assert data["exists"]
    assert data["sets"]["ar"] == f"1 file in {tmp_path / 'ar'}"
    assert data["sets"]["extended_yale_b"] is None
    assert data["sets"]["digits"] == "with scikit-learn"


def test_folder_that_is_absent_is_said(tmp_path, monkeypatch):
    monkeypatch.setenv("JPLAY_DATA", str(tmp_path / "nowhere"))
    assert not facts()["data"]["exists"]
    assert "not there" in CliRunner().invoke(app, ["info"]).stdout


def test_missing_pooch_is_a_remark_not_an_error(monkeypatch):
    monkeypatch.delenv("JPLAY_DATA", raising=False)
    monkeypatch.setitem(sys.modules, "pooch", None)
    data = facts()["data"]
    assert data["folder"] is None
    assert install_command("data") in data["remark"]


def test_text_names_every_optional_package():
    output = CliRunner().invoke(app, ["info"]).stdout
    for name in ("matplotlib", "tensorly", "torch", "dask", "Threads", "Data folder"):
        assert name in output
