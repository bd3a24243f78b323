"""What the documents promise holds."""

import re
from pathlib import Path

import pytest

from jplay import __version__

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"

pytestmark = pytest.mark.skipif(not README.is_file(), reason="needs the repository's documents")


def test_example_of_the_readme_runs(capsys):
    (example,) = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    exec(compile(example, str(README), "exec"), {})
    shape, score = capsys.readouterr().out.rsplit(" ", 1)
    assert shape == "(1297, 15)"
    assert float(score) > 0.9


def test_commands_of_the_readme_are_targets_of_the_makefile():
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    promised = re.findall(r"^make (\w+)", README.read_text(), flags=re.MULTILINE)
    assert promised[:2] == ["demo", "test"]
    assert set(promised) <= set(targets)


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_links_lead_to_files(name):
    for target in re.findall(r"\]\((?!http)([^)#]+)", (ROOT / name).read_text()):
        assert (ROOT / target).exists(), f"{name} links to {target}"


def test_changelog_has_an_entry_for_the_version():
    heading = "[Unreleased]" if "dev" in __version__ else f"[{__version__}]"
    assert f"## {heading}" in (ROOT / "CHANGELOG.md").read_text()
