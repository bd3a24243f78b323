"""What is released: the wheel works where nothing else is, the sources pass their tests."""

import json
import os
import re
import shutil
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
]
SCRIPTS, EXE = ("Scripts", ".exe") if os.name == "nt" else ("bin", "")

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
    inherited = {
        k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "PYTEST", "COV"))
    }
    environment = inherited | kwargs.pop("environment", {})
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
    python = folder / SCRIPTS / f"python{EXE}"
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


@pytest.fixture(scope="module")
def unpacked(distributions, tmp_path_factory):
    """The source distribution, unpacked where nothing else is."""
    folder = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(distributions[1]) as archive:
        # Python 3.11 has filters from 3.11.4 on, and newer ones warn if none is named.
        archive.extractall(
            folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {})
        )
    (root,) = folder.iterdir()
    return root


def files_under(root):
    return {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}


def test_source_distribution_is_the_repository_without_results(unpacked):
    if not (ROOT / ".git").exists() or not shutil.which("git"):
        pytest.skip("needs a clone, to know which files belong to it")
    tracked = set(run("git", "-c", "core.quotePath=false", "ls-files", cwd=ROOT).splitlines())
    expected = {name for name in tracked if not name.startswith("results/")}
    present = {name for name in expected if (ROOT / name).is_file()}
    found = files_under(unpacked) - {"PKG-INFO"}
    assert not present - found, "missing from the source distribution"
    assert not [name for name in found - tracked if is_ignored(name)], "build products"


def is_ignored(name):
    command = ["git", "check-ignore", "--quiet", name]
    return subprocess.run(command, cwd=ROOT, check=False).returncode == 0


LONG = (
    *("examples_and_commands", "own_data", "commands_survive", "right_or_refused", "of_the_gate"),
    *("counts", "arrays_in_memory", "blocks_give"),
)


def test_unpacked_source_distribution_passes_its_quick_tests(unpacked):
    """The tests that read files of the repository, and a few of the package."""
    reading = sorted(
        f"tests/{path.name}"
        for path in (unpacked / "tests").glob("test_*.py")
        if "Path(__file__)" in path.read_text(encoding="utf-8")
    )
    assert {"tests/test_documents.py", "tests/test_workshop.py"} <= set(reading)
    output = run(
        *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow"),
        *("-k", " and ".join(f"not {name}" for name in LONG)),  # run by every other test run
        *reading,
        *("tests/test_package.py", "tests/test_baselines_lpp.py"),
        cwd=unpacked,
        environment={"PYTHONPATH": str(unpacked / "src")},
    )
    assert int(re.search(r"(\d+) passed", output).group(1)) > 100
    assert "needs the repository" not in output


def test_pages_run_with_the_core_alone_or_name_what_they_miss(unpacked, empty_environment):
    run(str(empty_environment), "-m", "pip", "install", "--quiet", "pytest", "hypothesis")
    output = run(
        *(str(empty_environment), "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider"),
        *("-k", "examples_and_commands", "tests/test_documents.py"),
        cwd=unpacked,
    )
    assert " passed" in output
    reasons = re.findall(r"^SKIPPED .*?: (.*)$", output, flags=re.MULTILINE)
    assert reasons
    assert all(re.fullmatch(r"needs the package [\w-]+", reason) for reason in reasons), reasons


def test_core_alone_fits_and_predicts(empty_environment, tmp_path):
    run(str(empty_environment), "-W", "error", "-c", FIT_AND_PREDICT, cwd=tmp_path)
    installed = json.loads(run(str(empty_environment), "-m", "pip", "list", "--format", "json"))
    names = {package["name"].lower() for package in installed}
    assert not {"matplotlib", "pandas", "typer", "torch"} & names


def test_command_without_its_extra_says_what_to_install(empty_environment, tmp_path):
    done = subprocess.run(
        [str(empty_environment.with_name(f"jplay{EXE}")), "--help"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 2
    assert re.search(r"pip install '[^']+\[cli\]'", done.stderr)


def test_extra_demo_runs_the_demo(distributions, empty_environment, tmp_path):
    run(str(empty_environment), "-m", "pip", "install", "--quiet", f"{distributions[0]}[demo]")
    command = str(empty_environment.with_name(f"jplay{EXE}"))
    summary = json.loads(run(command, "demo", "--data", "digits", "--json", cwd=tmp_path))
    assert (tmp_path / summary["report"]).stat().st_size > 50_000
    assert summary["report"] == "jplay-demo/report.html"
