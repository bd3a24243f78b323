"""What the import contracts cannot say: a package shows what others may use."""

import ast
import dataclasses
import importlib
import typing
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from pathlib import Path
from types import NoneType

import numpy as np
import pytest

import jplay
from jplay.core.samples import Moments

PACKAGE = Path(jplay.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))

# Imports that are still to be mended; nothing may be added.
PENDING: set = set()

# Loads names on first use, so it must name modules by strings.
LAZY_LOADERS = {"jplay", "jplay.experiments"}


def module_name(path):
    parts = ["jplay", *path.relative_to(PACKAGE).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_names(tree, importer):
    """Dotted names of everything a module imports, at its head or inside a function."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            home = node.module or ""
            if node.level:
                home = ".".join([*importer.split(".")[: -node.level], *filter(None, [home])])
            yield from (f"{home}.{alias.name}" for alias in node.names)


def private_imports(source, importer):
    """Private modules and names of another package of jplay that a source imports.

    Packages are the folders of ``jplay``; the modules beside them (``jplay._files``) are for all.
    """
    for name in imported_names(ast.parse(source), importer):
        parts = name.split(".")
        if parts[0] != "jplay" or parts[:2] == importer.split(".")[:2]:
            continue
        private = [place for place, part in enumerate(parts) if place > 1 and _is_private(part)]
        if private:
            yield ".".join(parts[: private[0] + 1])


def _is_private(name):
    return name.startswith("_") and not name.startswith("__")


def test_no_package_imports_what_is_private_to_another():
    found = {
        (module_name(path), name)
        for path in MODULES
        for name in private_imports(path.read_text("utf-8"), module_name(path))
    }
    assert found == PENDING


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("from jplay.datasets._folder import get_data_home", ["jplay.datasets._folder"]),
        ("from jplay.datasets import _folder", ["jplay.datasets._folder"]),
        ("import jplay.datasets._folder as folder", ["jplay.datasets._folder"]),
        ("def f():\n    from jplay.datasets.splits import _draw", ["jplay.datasets.splits._draw"]),
        ("from ..datasets._folder import get_data_home", ["jplay.datasets._folder"]),
        ("from jplay.raster._open import open_scene", []),
        ("from ._open import open_scene", []),
        ("from jplay._optional import import_optional", []),
        ("from jplay import __version__", []),
        ("from sklearn.utils._param_validation import Interval", []),
    ],
)
def test_private_imports_are_recognised(source, expected):
    assert list(private_imports(source, "jplay.raster._map")) == expected


@pytest.mark.parametrize(
    "package", sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py"))
)
def test_public_names_are_listed_once_and_are_there(package):
    module = __import__(f"jplay.{package}", fromlist=["__all__"])
    listed = getattr(module, "__all__", [])
    assert len(set(listed)) == len(listed)
    assert all(hasattr(module, name) and not name.startswith("_") for name in listed)


def loads_itself(source):
    """Whether a source loads a module of jplay by a string instead of an import."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        function = getattr(node.func, "attr", None) or getattr(node.func, "id", None)
        if function not in ("import_module", "__import__", "import_optional"):
            continue
        target = node.args[0]
        if isinstance(target, ast.JoinedStr) and target.values:
            target = target.values[0]
        if isinstance(target, ast.Constant) and str(target.value).split(".")[0] == "jplay":
            return True
    return False


def test_no_module_loads_the_package_by_a_string():
    found = {module_name(path) for path in MODULES if loads_itself(path.read_text("utf-8"))}
    assert found == LAZY_LOADERS


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import importlib\nimportlib.import_module('jplay.blocks')", True),
        ("def f(name):\n    return import_module(f'jplay.{name}')", True),
        ("__import__('jplay.blocks')", True),
        ("import_optional('jplay.blocks', feature='a', extra='b')", True),
        ("import_optional('dask', feature='a', extra='b')", False),
        ("import_module('jplayer')", False),
        ("import_module(module)", False),
        ("import jplay.blocks", False),
    ],
)
def test_loading_by_a_string_is_recognised(source, expected):
    assert loads_itself(source) is expected


# What can be compared with ``==`` and answers with one truth value.
PLAIN_TYPES = {int, float, bool, str, bytes, NoneType, Path, Callable, tuple, list, dict, Mapping}
PLAIN_TYPES |= {Sequence, Ellipsis}

# Their fields of any type hold what a TOML or JSON document can hold.
WITH_PLAIN_VALUES = {"DatasetEntry", "ModelMetadata"}


def dataclasses_of_the_package():
    """All dataclasses whose modules can be imported with the packages installed here."""
    found = set()
    for path in MODULES:
        if path.name == "__main__.py":
            continue
        try:
            module = importlib.import_module(module_name(path))
        except ImportError:  # the command and the app need extras
            continue
        found |= {
            value
            for value in vars(module).values()
            if isinstance(value, type)
            and dataclasses.is_dataclass(value)
            and value.__module__.split(".")[0] == "jplay"
        }
    return sorted(found, key=lambda cls: (cls.__module__, cls.__name__))


def fields_with_arrays(cls):
    """Names of the fields of a dataclass whose type allows an array, at any depth."""
    hints = typing.get_type_hints(cls)
    return [field.name for field in dataclasses.fields(cls) if allows_arrays(hints[field.name])]


def allows_arrays(hint):
    origin = typing.get_origin(hint)
    if origin in (typing.Literal, Callable) or hint in PLAIN_TYPES:
        return False
    if origin:
        return any(allows_arrays(part) for part in typing.get_args(hint))
    if dataclasses.is_dataclass(hint):
        return hint.__name__ not in WITH_PLAIN_VALUES and (
            not hint.__dataclass_params__.eq or bool(fields_with_arrays(hint))
        )
    return not (isinstance(hint, type) and issubclass(hint, Enum))


def has_generated_equality(cls):
    code = getattr(cls.__eq__, "__code__", None)
    return code is not None and code.co_filename == "<string>"


def test_dataclasses_that_hold_arrays_have_no_generated_equality():
    """Arrays cannot be compared with ``==``: write ``eq=False``, or an ``__eq__`` with a test."""
    found = {
        f"{cls.__module__}.{cls.__name__}": fields
        for cls in dataclasses_of_the_package()
        if has_generated_equality(cls)
        and cls.__name__ not in WITH_PLAIN_VALUES
        and (fields := fields_with_arrays(cls))
    }
    assert not found


@pytest.mark.parametrize(
    ("hint", "expected"),
    [
        (int | None, False),
        (dict[str, tuple[float, ...]], False),
        (Callable[[np.ndarray], float], False),
        (typing.Literal["auto", -1], False),
        (jplay.FastSolver, False),
        (np.ndarray, True),
        (list[np.ndarray] | None, True),
        (dict[str, typing.Any], True),
        (Moments, True),
        (tuple[Moments, ...], True),
    ],
)
def test_types_that_allow_arrays_are_recognised(hint, expected):
    assert allows_arrays(hint) is expected


def test_generated_equality_is_recognised():
    generated = dataclasses.make_dataclass("Generated", ["values"])
    without = dataclasses.make_dataclass("Without", ["values"], eq=False)
    own = dataclasses.make_dataclass("Own", ["x"], namespace={"__eq__": lambda a, b: a is b})
    inherited = dataclasses.make_dataclass("Inherited", [], bases=(generated,), eq=False)
    assert [has_generated_equality(c) for c in (generated, without, own, inherited)] == [
        *(True, False, False, True)
    ]
