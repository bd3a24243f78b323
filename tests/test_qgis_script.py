"""The script for QGIS Processing: its command line, its errors, and a run under QGIS."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

SCRIPT = Path(__file__).parents[1] / "extras" / "qgis" / "jplay_map.py"
SOURCES = Path(__file__).parents[1] / "src"


@pytest.fixture
def script(monkeypatch):
    """The script with a stand-in for QGIS, which tests need not have."""
    core = ModuleType("qgis.core")
    core.__getattr__ = lambda name: type(name, (Exception,), {})
    error = type("QgsProcessingException", (Exception,), {})
    core.QgsProcessingException = error
    monkeypatch.setitem(sys.modules, "qgis", ModuleType("qgis"))
    monkeypatch.setitem(sys.modules, "qgis.core", core)
    spec = importlib.util.spec_from_file_location("jplay_map", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_command_line_is_one_that_jplay_map_takes(script, tmp_path):
    """Parsed by the program itself: every option exists and gets its value."""
    typer = pytest.importorskip("typer", reason="the command line needs typer")

    from jplay.cli._app import app

    results = {option: str(tmp_path / f"{option}.tif") for option, _ in script.RESULTS.values()}
    command = script.command_line(
        "jplay", "a b.img", "m.skops", "map.tif", threshold=0.25, resample=True, results=results
    )
    assert command[:2] == ["jplay", "map"]
    parsed = typer.main.get_command(app).commands["map"].make_context("map", command[2:]).params
    assert (str(parsed["source"]), str(parsed["model"])) == ("a b.img", "m.skops")
    assert (parsed["threshold"], parsed["resample"], parsed["force"]) == (0.25, True, True)
    assert str(parsed["second"]) == results["--second"]
    plain = script.command_line("jplay", "a.img", "m.skops", "map.tif", threshold=0.0)
    assert "--threshold" not in plain


def test_errors_and_cancelling(script):
    feedback = SimpleNamespace(isCanceled=lambda: False)
    error = script.QgsProcessingException
    with pytest.raises(error, match="full path"):
        script.run(["/no/such/command"], feedback)
    told = [sys.executable, "-c", "import sys; sys.exit('jplay: no such model')"]
    with pytest.raises(error, match="jplay: no such model"):
        script.run(told, feedback)
    assert script.run([sys.executable, "-c", "print(1)"], feedback).strip() == "1"
    patient = [sys.executable, "-c", "import time; time.sleep(60)"]
    with pytest.raises(error, match="Cancelled"):
        script.run(patient, SimpleNamespace(isCanceled=lambda: True))


def test_variables_of_the_python_of_qgis_are_left_out(script, monkeypatch):
    monkeypatch.setenv("PYTHONHOME", "/opt/qgis")
    assert "PYTHONHOME" not in script.environment()
    assert script.environment()["PATH"] == os.environ["PATH"]


# Debian's wrapper passes an option that the program does not know.
QGIS_PROCESS = shutil.which("qgis_process.bin") or shutil.which("qgis_process")


@pytest.mark.slow
@pytest.mark.skipif(QGIS_PROCESS is None, reason="qgis_process is not installed")
def test_runs_under_qgis_process(tmp_path):
    rasterio = pytest.importorskip("rasterio", reason="maps need the extra raster")
    pytest.importorskip("spectral", reason="ENVI headers need the extra raster")
    pytest.importorskip("typer", reason="the command line needs typer")
    from jplay.persistence import save_model
    from jplay.raster import fit_scene
    from raster_files import make_image, write_envi

    image = make_image()
    scene = write_envi(tmp_path, image)
    save_model(fit_scene(scene, image.ground_truth, max_per_class=20), tmp_path / "model.skops")
    scripts = tmp_path / "profiles" / "default" / "processing" / "scripts"
    scripts.mkdir(parents=True)
    shutil.copy(SCRIPT, scripts)
    command = tmp_path / "jplay"
    command.write_text(f'#!/bin/sh\nPYTHONPATH="{SOURCES}" exec {sys.executable} -m jplay "$@"\n')
    command.chmod(0o755)
    values = {
        "INPUT": tmp_path / "scene.img",
        "MODEL": tmp_path / "model.skops",
        "THRESHOLD": 0.5,
        "EXECUTABLE": command,
        "OUTPUT": tmp_path / "map.tif",
        "CONFIDENCE": tmp_path / "sure.tif",
    }
    told = subprocess.run(
        [QGIS_PROCESS, "run", "script:jplaymap", "--", *(f"{k}={v}" for k, v in values.items())],
        capture_output=True,
        text=True,
        env={
            "PATH": "/usr/bin:/bin",
            "HOME": str(tmp_path),
            "QT_QPA_PLATFORM": "offscreen",
            "QGIS_CUSTOM_CONFIG_PATH": str(tmp_path),
        },
    )
    assert told.returncode == 0, told.stdout + told.stderr
    with rasterio.open(tmp_path / "map.tif") as dataset:
        assert "unclassified" in dataset.tags()["class_names"]
        assert (dataset.read(1) > 0).all()
    assert (tmp_path / "sure.tif").exists()
