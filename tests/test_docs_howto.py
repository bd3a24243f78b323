"""The how-to pages on scenes and models work as they are written."""

import contextlib
import io
import re
import shlex
from pathlib import Path

import pytest

pytest.importorskip("typer", reason="the pages use the command")
pytest.importorskip("skops", reason="the pages save models")
pytest.importorskip("pandas", reason="the pages use tables")

from typer.testing import CliRunner

from jplay.cli._app import app

PAGES = Path(__file__).parent.parent / "docs" / "howto"

pytestmark = pytest.mark.skipif(not PAGES.is_dir(), reason="needs the repository's documents")


def run_page(page, folder, monkeypatch):
    """Run every Python and shell block of a page in order, in an empty folder."""
    monkeypatch.chdir(folder)
    names = {}
    blocks = re.findall(r"```(python|sh)\n(.*?)```", (PAGES / page).read_text(), re.DOTALL)
    for language, text in blocks:
        if language == "python":
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile(text, page, "exec"), names)
            continue
        for line in text.splitlines():
            program, *arguments = shlex.split(line)
            if program == "jplay":
                result = CliRunner().invoke(app, arguments, prog_name="jplay")
                assert result.exit_code == 0, f"{line}\n{result.output}"
    return names


def test_scene_page(tmp_path, monkeypatch):
    rasterio = pytest.importorskip("rasterio", reason="the page maps a scene")
    image = run_page("scene.md", tmp_path, monkeypatch)["image"]
    with rasterio.open("map.tif") as result:
        known = image.ground_truth > 0
        assert (result.read(1) == image.ground_truth)[known].mean() > 0.9
        assert "water" in result.tags()["class_names"]
    assert {"scores.tif", "features.tif"} <= {path.name for path in tmp_path.iterdir()}


def test_models_page(tmp_path, monkeypatch):
    pytest.importorskip("onnxruntime", reason="the page checks an export")
    run_page("models.md", tmp_path, monkeypatch)
    assert len((tmp_path / "predictions.csv").read_text().splitlines()) == 76
    assert "species" not in (tmp_path / "predictions.csv").read_text()
    assert (tmp_path / "card.md").read_text().startswith("# Model card")
