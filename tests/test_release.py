"""What is released: the wheel holds what it must, installs into nothing, and works there."""

import json
import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("build", reason="distributions are made by build")
pytest.importorskip("hatchling", reason="the build backend is hatchling")

from jplay import __version__

ROOT = Path(__file__).parent.parent

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("release"),  # one environment for all
    pytest.mark.skipif(not (ROOT / "pyproject.toml").is_file(), reason="needs the repository"),
]

FIT_AND_PREDICT = """
import sys
import jplay
from sklearn.datasets import load_iris
X, y = load_iris(return_X_y=True)
model = jplay.JPlay(n_components=2, n_layers=2).fit(X, y)
assert model.score(X, y) > 0.9
assert model.transform(X).shape == (150, 2)
assert "site-packages" in jplay.__file__, jplay.__file__
absent = {"matplotlib", "typer", "jinja2", "pandas", "torch"} & set(sys.modules)
assert not absent, absent
"""


def run(*command, **kwargs):
    """Run a command without this process's Python path; fail with all it said."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, **kwargs
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def distributions(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT))
    (wheel,) = folder.glob("*.whl")
    (sdist,) = folder.glob("*.tar.gz")
    return wheel, sdist


@pytest.fixture(scope="module")
def empty_environment(distributions, tmp_path_factory):
    """A virtual environment with the wheel and what its core requires."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    run(str(python), "-m", "pip", "install", "--quiet", str(distributions[0]))
    return python


def test_wheel_holds_the_package_and_nothing_else(distributions):
    with zipfile.ZipFile(distributions[0]) as archive:
        names = archive.namelist()
    assert "jplay/py.typed" in names
    for page_part in ("report.html", "report.css", "report.js"):
        assert f"jplay/report/template/{page_part}" in names
    assert {name.split("/")[0] for name in names} == {"jplay", f"jplay-{__version__}.dist-info"}
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_source_distribution_can_be_tested(distributions):
    with tarfile.open(distributions[1]) as archive:
        names = [name.partition("/")[2] for name in archive.getnames()]
    for needed in ("pyproject.toml", "LICENSE", "README.md", "tests/conftest.py"):
        assert needed in names


def test_core_alone_fits_and_predicts(empty_environment, tmp_path):
    run(str(empty_environment), "-W", "error", "-c", FIT_AND_PREDICT, cwd=tmp_path)
    installed = json.loads(run(str(empty_environment), "-m", "pip", "list", "--format", "json"))
    names = {package["name"].lower() for package in installed}
    assert not {"matplotlib", "pandas", "typer", "torch"} & names


def test_command_without_its_extra_says_what_to_install(empty_environment, tmp_path):
    done = subprocess.run(
        [str(empty_environment.with_name("jplay")), "--help"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 2
    assert "pip install 'jplay[cli]'" in done.stderr


def test_extra_demo_runs_the_demo(distributions, empty_environment, tmp_path):
    run(str(empty_environment), "-m", "pip", "install", "--quiet", f"{distributions[0]}[demo]")
    command = str(empty_environment.with_name("jplay"))
    summary = json.loads(run(command, "demo", "--data", "digits", "--json", cwd=tmp_path))
    assert (tmp_path / summary["report"]).stat().st_size > 50_000
    assert summary["report"] == "jplay-demo/report.html"
