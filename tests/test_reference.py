"""The reference lists what is public: all of it, nothing else, each name once and documented."""

import ast
import dataclasses
import inspect
import re
import sys
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

import jplay

DOCS = Path(__file__).parent.parent / "docs"
PAGE = DOCS / "api" / "index.md"
# Estimators are public in ``jplay``; the command documents itself by ``--help``.
ELSEWHERE = {"jplay.estimators", "jplay.cli"}

if not PAGE.is_file():
    pytest.skip("needs the repository's documents", allow_module_level=True)


def load_generator():
    spec = spec_from_file_location("reference", DOCS / "reference.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


reference = load_generator()
LISTED = re.findall(r"^   (jplay[.\w]*)$", PAGE.read_text("utf-8"), flags=re.MULTILINE)


def rendered(module):
    """Names on the page of a module: those it describes, and those it refers to."""
    jinja2 = pytest.importorskip("jinja2", reason="the pages are made from a template")
    environment = jinja2.Environment(autoescape=False)
    environment.filters |= {"escape": str, "underline": str}
    template = (DOCS / "_templates" / "autosummary" / "module.rst").read_text("utf-8")
    page = environment.from_string(template).render(
        fullname=module,
        listed_names=reference.listed_names,
        shared_names=reference.shared_names,
    )
    described = re.findall(r"^   (\w+)$", page, flags=re.MULTILINE)
    return described, re.findall(r":obj:`jplay\.(\w+)`", page)


def promised(module):
    """``__all__``, or the classes of a module that has none."""
    home = import_module(module)
    names = getattr(home, "__all__", None)
    if names is None:
        names = [name for name, value in vars(home).items() if inspect.isclass(value)]
    return {name for name in names if not name.startswith("__")}


def test_every_package_is_listed_or_named_as_one_without_a_promise():
    folder = Path(jplay.__file__).parent
    packages = {f"jplay.{path.parent.name}" for path in folder.glob("[a-z]*/__init__.py")}
    inner = set(re.findall(r"`(jplay\.\w+)`", PAGE.read_text("utf-8")))
    assert not inner & set(LISTED)
    assert packages | {"jplay", "jplay.exceptions"} == inner | set(LISTED) | ELSEWHERE
    assert len(LISTED) == len(set(LISTED))


def test_what_jplay_offers_as_attributes_is_listed():
    offered = {f"jplay.{name}" for name in jplay._SUBMODULES}
    assert offered <= set(LISTED) | ELSEWHERE


@pytest.mark.parametrize("module", LISTED)
def test_page_of_a_package_lists_its_public_names(module):
    described, referred = rendered(module)
    assert sorted(described + referred) == sorted(promised(module))


def test_no_name_is_described_twice():
    described = {module: set(rendered(module)[0]) for module in LISTED}
    for module in LISTED:
        others = set().union(*(described[other] for other in LISTED if other != module))
        assert not described[module] & others
        assert set(rendered(module)[1]) <= described["jplay"]


@pytest.mark.parametrize("module", LISTED)
def test_what_a_package_shows_is_in_its_all(module):
    shown = {
        name
        for name, value in vars(import_module(module)).items()
        if not name.startswith("_") and getattr(value, "__module__", "").startswith("jplay.")
    }
    assert shown <= promised(module)


def constant_is_explained(source, name):
    """Whether a string follows the assignment, or a comment ``#:`` stands above it."""
    body = ast.parse(source).body
    for at, statement in enumerate(body):
        targets = getattr(statement, "targets", [getattr(statement, "target", None)])
        if name in [getattr(target, "id", None) for target in targets]:
            after = body[at + 1] if at + 1 < len(body) else None
            above = source.splitlines()[statement.lineno - 2] if statement.lineno > 1 else ""
            text = getattr(getattr(after, "value", None), "value", None)
            return isinstance(text, str) or above.startswith("#:")
    return False


@pytest.mark.parametrize(
    ("source", "explained"),
    [("A = 1\n", False), ('A = 1\n"""One."""\n', True), ("#: One.\nA: int = 1\n", True)],
)
def test_constants_are_explained_as_sphinx_reads_them(source, explained):
    assert constant_is_explained(source, "A") is explained


@pytest.mark.parametrize(
    ("module", "name"), [(module, name) for module in LISTED for name in sorted(promised(module))]
)
def test_public_name_has_a_docstring(module, name):
    value = getattr(import_module(module), name)
    if not (inspect.isclass(value) or inspect.isroutine(value)):
        sources = Path(sys.modules[module].__file__).parent.glob("*.py")
        assert any(constant_is_explained(path.read_text("utf-8"), name) for path in sources)
        return
    text = vars(value).get("__doc__") if inspect.isclass(value) else value.__doc__
    assert text
    assert text.strip()
    if dataclasses.is_dataclass(value):
        assert not text.startswith(f"{name}("), "the docstring that dataclasses make"
