"""From nothing to a result: the documents' install line, then every command and snippet of them."""

import os
import re
import shlex
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = sorted((ROOT / "src").rglob("*.py"))
PYTHON = Path("Scripts/python.exe" if os.name == "nt" else "bin/python")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("installation"),  # one after the other
]


def run(*command, cwd, check=True):
    """Run a command that sees nothing of this process's packages."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "PYTEST", "COV", "VIRTUAL_ENV"))
    }
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert not check or done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done


@pytest.fixture(scope="module")
def make_environment(tmp_path_factory):
    """A function that returns the interpreter of an empty environment."""

    def make(name):
        folder = tmp_path_factory.mktemp(name)
        venv.create(folder, with_pip=True)
        python = folder / PYTHON
        reached = run(
            *(python, "-m", "pip", "download", "--no-deps", "--quiet", "threadpoolctl"),
            cwd=folder,
            check=False,
        )
        if reached.returncode != 0:
            pytest.skip("no package index can be reached")
        return python

    return make


def install(python, line):
    """Run a line that begins with pip install, in the clone."""
    program, *arguments = shlex.split(line, comments=True)
    assert program == "pip"
    run(python, "-m", "pip", *arguments, "--quiet", cwd=ROOT)


def install_lines(page):
    """The lines of a page that install from the clone; the last one is for all commands."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(r"^pip install \S+", text, re.MULTILINE)


def test_documents_run_after_their_install_line(make_environment, tmp_path):
    python = make_environment("documents")
    lines = install_lines("README.md")
    assert lines == install_lines("docs/start.md")
    assert "[all]" in lines[-1]
    install(python, lines[-1])
    run(python, "-m", "pip", "install", "--quiet", "hypothesis", "pytest", cwd=tmp_path)
    chosen = "README or readme or start"
    done = run(
        *(python, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "-k", chosen),
        ROOT / "tests" / "test_documents.py",
        cwd=ROOT,
    )
    assert "passed" in done.stdout
    assert "SKIPPED" not in done.stdout, done.stdout


def test_hints_of_missing_packages_work_from_the_clone(make_environment, tmp_path):
    python = make_environment("hints")
    install(python, "pip install '.[cli]'")
    (tmp_path / "own.csv").write_text("a,b,kind\n" + "1,2,x\n2,3,y\n" * 20)
    command = (python, "-m", "jplay", "fit", "own.csv", "--target", "kind", "--cv", "2")
    failed = run(*command, cwd=tmp_path, check=False)
    assert failed.returncode == 2
    everything = re.findall(r"(pip install .*?')(?=,|$)", failed.stderr.strip())[-1]
    assert str(ROOT) in everything
    install(python, everything)
    run(*command, cwd=tmp_path)
    assert (tmp_path / "model.skops").exists()


def extras_named_by_hints():
    text = "".join(path.read_text(encoding="utf-8") for path in SOURCES)
    named = re.findall(r"extra=\"(\w+)\"|install_command\([\"'](\w+)[\"']\)", text)
    return sorted({first or second for first, second in named})


def test_every_hint_can_be_resolved(make_environment, tmp_path):
    python = make_environment("resolved")
    install(python, "pip install .")
    extras = extras_named_by_hints()
    assert {"table", "raster", "persist", "all"} <= set(extras)
    code = "import sys; from jplay._optional import install_command as c; print(c(sys.argv[1]))"
    lines = {extra: run(python, "-c", code, extra, cwd=tmp_path).stdout.strip() for extra in extras}
    # The lines differ in the extra alone, so that one of them can ask for all.
    common = {line.replace(f"[{extra}]", "[*]") for extra, line in lines.items()}
    assert len(common) == 1
    program, *arguments = shlex.split(common.pop().replace("[*]", f"[{','.join(extras)}]"))
    assert program == "pip"
    run(python, "-m", "pip", *arguments, "--dry-run", "--quiet", cwd=tmp_path)


def test_test_environment_is_not_seen(make_environment, tmp_path):
    python = make_environment("empty")
    done = run(python, "-c", "import numpy", cwd=tmp_path, check=False)
    assert "No module named 'numpy'" in done.stderr
    assert Path(sys.executable).resolve() != python
