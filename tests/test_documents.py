"""What the documents promise holds."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import jplay
from jplay import __version__
from jplay.exceptions import DatasetNotFoundError

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"

pytestmark = pytest.mark.skipif(not README.is_file(), reason="needs the repository's documents")


NOT_RUN = re.compile(r"<!-- not run: \S.* -->\n\Z")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)
BUILT = {"_build", "auto_examples", "generated"}


def pages():
    """Every document that people read; built ones are not."""
    docs = [p for p in sorted((ROOT / "docs").rglob("*.md")) if not BUILT & set(p.parts)]
    return [p for p in (README, ROOT / "CONTRIBUTING.md", *docs) if p.is_file()]


def blocks(page):
    """Language and text of the blocks of a page, less those marked ``<!-- not run: why -->``."""
    text = page.read_text(encoding="utf-8")
    # Empty lines before a block make errors name the line of the page.
    return [
        (found.group(1), "\n" * text.count("\n", 0, found.start(2)) + found.group(2))
        for found in BLOCK.finditer(text)
        if not NOT_RUN.search(text[: found.start()])
    ]


def commands(block):
    """The command lines of a shell block, continuations joined and comments left out."""
    lines = block.replace("\\\n", " ").splitlines()
    return [line for line in (re.sub(r"(^|\s)#.*", "", line).strip() for line in lines) if line]


PAGES_THAT_RUN = [
    page
    for page in pages()
    if {"python", "sh", "bash"} & {language for language, _ in blocks(page)}
]


@pytest.fixture
def workplace(tmp_path, monkeypatch):
    """An empty folder, with a program ``jplay`` on the path and figures that need no screen."""
    program = tmp_path / "bin" / "jplay"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m jplay.cli "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.mark.parametrize("page", PAGES_THAT_RUN, ids=lambda page: str(page.relative_to(ROOT)))
def test_examples_and_commands_of_the_page_run(page, workplace):
    if "matplotlib" in sys.modules:
        sys.modules["matplotlib"].use("agg", force=True)
    names = {}
    for language, block in blocks(page):
        if language == "python":
            try:
                exec(compile(block, str(page), "exec"), names)
            except (DatasetNotFoundError, ImportError) as error:
                pytest.skip(f"needs what is not here: {error}")
        elif language in ("sh", "bash"):
            for line in commands(block):
                check_command(line)


def check_command(line):
    """Run a command of this package; check that others name what exists."""
    words = line.split()
    if words[0] == "make":
        assert words[1] in makefile_targets(), line
    elif words[:2] == ["pip", "install"]:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        for extra in ",".join(re.findall(r"\[(.*?)\]", line)).split(","):
            assert not extra or extra in project["optional-dependencies"], line
    elif words[0] == "jplay":
        done = subprocess.run(line, shell=True, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
    else:
        pytest.fail(f"unknown command, to be run or marked as not run: {line}")


OWN_DATA = """
import numpy as np
import rasterio
from sklearn.datasets import load_iris
from jplay.datasets import make_hyperspectral_scene

iris = load_iris(as_frame=True)
table = iris.data.assign(species=iris.target_names[iris.target])
table.iloc[::2].to_csv("train.csv", index=False)
iris.data.iloc[1::2].to_csv("new.csv", index=False)
image = make_hyperspectral_scene(40, 30, n_bands=30, n_classes=3, random_state=0)
place = dict(height=40, width=30, crs="EPSG:32632",
             transform=rasterio.transform.from_origin(500_000, 5_400_000, 30, 30))
counts = (10_000 * image.cube).clip(1).astype("uint16")
with rasterio.open("scene.img", "w", driver="ENVI", count=30, dtype="uint16", **place) as file:
    file.write(counts.transpose(2, 0, 1))
with rasterio.open("labels.tif", "w", driver="GTiff", count=1, dtype="uint8", **place) as file:
    file.write(image.ground_truth.astype("uint8"), 1)
"""


def test_readme_commands_for_own_data_run(workplace):
    for package in ("rasterio", "skops", "pandas", "typer"):
        pytest.importorskip(package)
    (block,) = [
        found.group(2)
        for found in BLOCK.finditer(README.read_text(encoding="utf-8"))
        if "jplay map" in found.group(2)
    ]
    exec(OWN_DATA, {})
    for line in commands(block):
        check_command(line)
    assert len(Path("predictions.csv").read_text().splitlines()) == 76
    assert Path("map.tif").is_file()


def makefile_targets():
    return re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)


def test_example_of_the_readme_prints_what_it_says(capsys):
    (example,) = [block for language, block in blocks(README) if language == "python"][:1]
    exec(compile(example, str(README), "exec"), {})
    shape, score = capsys.readouterr().out.rsplit(" ", 1)
    assert shape == "(1297, 15)"
    assert float(score) > 0.9


def test_readme_opens_with_the_demo_and_the_tests():
    first = next(block for language, block in blocks(README) if language == "sh")
    assert [line.split()[:2] for line in commands(first)][:2] == [
        ["make", "demo"],
        ["make", "test"],
    ]


def test_a_block_that_is_not_run_needs_a_reason():
    for page in pages():
        for mark in re.findall(r"^<!-- not run.*", page.read_text("utf-8"), re.MULTILINE):
            assert re.fullmatch(r"<!-- not run: \S.* -->", mark), f"{page}: {mark}"


@pytest.mark.parametrize(
    "page", [*pages(), ROOT / "CHANGELOG.md"], ids=lambda page: str(page.relative_to(ROOT))
)
def test_links_lead_to_files(page):
    for target in re.findall(r"\]\((?!http)([^)#]+)", page.read_text(encoding="utf-8")):
        if "auto_examples" not in target:  # made when the documentation is built
            assert (page.parent / target).exists(), f"{page} links to {target}"


def test_reference_lists_every_public_name():
    reference = (ROOT / "docs" / "api" / "index.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^   (\w+)$", reference, flags=re.MULTILINE))
    assert set(jplay.__all__) - {"__version__"} <= listed


def test_changelog_has_an_entry_for_the_version():
    heading = "[Unreleased]" if "dev" in __version__ else f"[{__version__}]"
    assert f"## {heading}" in (ROOT / "CHANGELOG.md").read_text()
