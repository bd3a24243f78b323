"""What the documents promise holds."""

import ast
import os
import re
import shlex
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

import pytest

from jplay import __version__

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"][
    "optional-dependencies"
]
OPTIONAL = {
    re.match(r"[\w-]+", requirement).group()
    for requirements in EXTRAS.values()
    for requirement in requirements
} - {"jplay"}

MARK = re.compile(r"<!-- (not run|needs): (\S.*?) -->\n\Z")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)
TOP_PAGES = ("CONTRIBUTING", "SECURITY", "CODE_OF_CONDUCT")
BUILT = {"_build", "auto_examples", "generated", "commands.md"}


def pages():
    """Every document that people read; built ones are not."""
    docs = [p for p in sorted((ROOT / "docs").rglob("*.md")) if not BUILT & set(p.parts)]
    return [README, *(ROOT / f"{name}.md" for name in TOP_PAGES), *docs]


class Block(NamedTuple):
    """A block of a page and the optional packages that ``<!-- needs: ... -->`` above it names."""

    language: str
    text: str
    needs: tuple


def blocks(page):
    """The blocks of a page, less those marked ``<!-- not run: why -->``."""
    text = page.read_text(encoding="utf-8")
    found = []
    for match in BLOCK.finditer(text):
        mark = MARK.search(text[: match.start()])
        kind, said = mark.groups() if mark else ("needs", "")
        if kind == "needs":
            # Empty lines before a block make errors name the line of the page.
            lines = "\n" * text.count("\n", 0, match.start(2)) + match.group(2)
            found.append(Block(match.group(1), lines, tuple(re.findall(r"[\w-]+", said))))
    return found


def commands(block):
    """The command lines of a shell block, continuations joined and comments left out."""
    lines = block.replace("\\\n", " ").splitlines()
    return [line for line in (re.sub(r"(^|\s)#.*", "", line).strip() for line in lines) if line]


PAGES_THAT_RUN = [
    page
    for page in pages()
    if {"python", "sh", "bash"} & {block.language for block in blocks(page)}
]


@pytest.fixture
def workplace(tmp_path, monkeypatch):
    """An empty folder, and figures that need no screen."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.chdir(tmp_path)
    if "matplotlib" in sys.modules:
        sys.modules["matplotlib"].use("agg", force=True)
    yield tmp_path
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


def skip_without(packages):
    """Skip where an optional package is not installed; that alone excuses a block."""
    for package in packages:
        try:
            metadata.version(package)
        except metadata.PackageNotFoundError:
            pytest.skip(f"needs the package {package}")


def run_page(page):
    """Run every Python and shell block of a page in order; return the names it defines."""
    names = {}
    for block in blocks(page):
        if block.language in ("python", "sh", "bash"):
            skip_without(block.needs)
        if block.language == "python":
            exec(compile(block.text, str(page), "exec"), names)
        elif block.language in ("sh", "bash"):
            for line in commands(block.text):
                check_command(line)
    return names


def check_scene(names):
    import rasterio

    with rasterio.open("map.tif") as result:
        truth = names["image"].ground_truth
        known = truth > 0
        assert (result.read(1) == truth)[known].mean() > 0.9
        assert "water" in result.tags()["class_names"]
    assert Path("scores.tif").is_file()
    assert Path("features.tif").is_file()


def check_models(names):
    predictions = Path("predictions.csv").read_text()
    assert len(predictions.splitlines()) == 76
    assert "species" not in predictions
    assert Path("card.md").read_text(encoding="utf-8").startswith("# Model card")


LEFT_BEHIND = {"docs/howto/scene.md": check_scene, "docs/howto/models.md": check_models}


@pytest.mark.parametrize("page", PAGES_THAT_RUN, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_examples_and_commands_of_the_page_run(page, workplace):
    names = run_page(page)
    check = LEFT_BEHIND.get(page.relative_to(ROOT).as_posix())
    if check:
        check(names)


def test_pages_with_a_check_exist():
    assert LEFT_BEHIND.keys() <= {page.relative_to(ROOT).as_posix() for page in PAGES_THAT_RUN}


def check_command(line):
    """Run a command of this package; check that others name what exists."""
    program, *arguments = shlex.split(line)
    if program == "make":
        assert arguments[0] in makefile_targets(), line
    elif [program, *arguments[:1]] == ["pip", "install"]:
        for extra in ",".join(re.findall(r"\[(.*?)\]", line)).split(","):
            assert not extra or extra in EXTRAS, line
    elif program == "jplay":
        done = subprocess.run(
            [sys.executable, "-m", "jplay", *arguments],
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=False,
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
    else:
        pytest.fail(f"unknown command, to be run or marked as not run: {line}")


@pytest.mark.parametrize("page", PAGES_THAT_RUN, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_page_declares_the_optional_packages_that_it_imports(page):
    owners = metadata.packages_distributions()
    declared = set()
    for block in blocks(page):
        declared |= set(block.needs)
        assert declared <= OPTIONAL, f"{page} declares what no extra installs"
        used = set()
        if block.language == "python":
            for node in ast.walk(ast.parse(block.text)):
                if isinstance(node, ast.Import):
                    used |= {alias.name.partition(".")[0] for alias in node.names}
                elif isinstance(node, ast.ImportFrom):
                    used.add(node.module.partition(".")[0])
        elif block.language in ("sh", "bash"):
            used = {"typer" for line in commands(block.text) if line.startswith("jplay ")}
        packages = {owner for module in used for owner in owners.get(module, ())}
        assert packages & OPTIONAL <= declared, f"{page}: put <!-- needs: ... --> above the block"


def write_page(folder, mark, code):
    page = folder / "page.md"
    page.write_text(f"{mark}```python\n{code}\n```\n")
    return page


def test_block_with_a_declared_package_that_is_absent_skips_with_its_name(tmp_path):
    page = write_page(tmp_path, "<!-- needs: no-such-package -->\n", "import no_such_package")
    with pytest.raises(pytest.skip.Exception, match="needs the package no-such-package"):
        run_page(page)


@pytest.mark.parametrize(
    ("mark", "code", "error"),
    [
        ("", "import no_such_package", ImportError),
        ("<!-- needs: pytest -->\n", "import no_such_package", ImportError),
        ("<!-- needs: pytest -->\n", "from jplay import NoSuchName", ImportError),
        ("", "raise FileNotFoundError('data')", FileNotFoundError),
    ],
)
def test_every_other_error_of_a_block_fails(mark, code, error, tmp_path):
    with pytest.raises(error):
        run_page(write_page(tmp_path, mark, code))


def test_block_that_is_not_run_is_left_out(tmp_path):
    page = write_page(tmp_path, "<!-- not run: needs a cluster -->\n", "raise ValueError")
    assert run_page(page) == {}


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
for name, rows in {"labels.tif": slice(0, 28), "other-fields.tif": slice(28, 40)}.items():
    labels = np.zeros((40, 30), dtype="uint8")
    labels[rows] = image.ground_truth[rows]
    with rasterio.open(name, "w", driver="GTiff", count=1, dtype="uint8", **place) as file:
        file.write(labels, 1)
"""


def test_readme_commands_for_own_data_run(workplace):
    skip_without(["pandas", "rasterio", "skops", "typer"])
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
    example = next(block.text for block in blocks(README) if block.language == "python")
    exec(compile(example, str(README), "exec"), {})
    shape, score = capsys.readouterr().out.rsplit(" ", 1)
    assert shape == "(1297, 10)"
    assert float(score) > 0.95


def test_readme_opens_with_the_demo_and_the_tests():
    first = next(block for block in blocks(README) if block.language == "sh")
    assert [line.split()[:2] for line in commands(first.text)][:2] == [
        ["make", "demo"],
        ["make", "test"],
    ]


def test_marks_of_blocks_are_complete_and_stand_above_a_block():
    for page in pages():
        text = page.read_text("utf-8")
        above = [text[: found.start()] for found in BLOCK.finditer(text)]
        marks = re.findall(r"^<!-- *(?:not run|needs).*", text, re.MULTILINE)
        assert len(marks) == sum(MARK.search(before) is not None for before in above), page


@pytest.mark.parametrize(
    "page", [*pages(), ROOT / "CHANGELOG.md"], ids=lambda page: str(page.relative_to(ROOT))
)
def test_links_lead_to_files(page):
    for target in re.findall(r"\]\((?!http)([^)#]+)", page.read_text(encoding="utf-8")):
        if "auto_examples" not in target:  # made when the documentation is built
            assert (page.parent / target).exists(), f"{page} links to {target}"


def test_changelog_has_an_entry_for_the_version():
    heading = "[Unreleased]" if "dev" in __version__ else f"[{__version__}]"
    assert f"## {heading}" in (ROOT / "CHANGELOG.md").read_text()


PINES = re.compile(r"Indian Pines|\bpines-|\| Pines|\| pines|of the eighteen")
FIGURE = re.compile(r"\d\d?\.\d|\d %")
WITHOUT_SUCH_FIGURES = {"docs/experiments.md", "docs/installation.md", "docs/tutorials/scene.md"}


def test_pages_with_figures_of_indian_pines_say_which_cube_they_were_made_on():
    """Figures from before the repair are marked, until they are made again."""
    folders = ("benchmarks/results", "results")
    records = [path for folder in folders for path in (ROOT / folder).rglob("*.md")]
    unmarked = []
    for page in (*pages(), *records):
        text = page.read_text(encoding="utf-8")
        if PINES.search(text) and FIGURE.search(text) and "corrupt cube" not in text.lower():
            unmarked.append(page.relative_to(ROOT).as_posix())
    assert set(unmarked) <= WITHOUT_SUCH_FIGURES
