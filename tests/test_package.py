import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import jplay

OPTIONAL = ["matplotlib", "torch", "dask", "rasterio", "typer"]
HEAVY = ["sklearn", "pandas", *OPTIONAL]  # scikit-learn loads pandas if it is there


def run_python(code):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()


def test_import_loads_nothing_heavy():
    code = f"import sys, jplay; print([name for name in {HEAVY} if name in sys.modules])"
    assert run_python(code) == "[]"


def test_the_core_loads_nothing_heavy_but_scikit_learn():
    code = (
        "import sys, jplay.core.solver, jplay.core.paper;"
        f"print([name for name in {HEAVY} if name in sys.modules])"
    )
    assert set(ast.literal_eval(run_python(code))) <= {
        "sklearn",
        "pandas",
    }  # which scikit-learn loads


@pytest.mark.parametrize("name", ["JPlay", "AutoRULe", "LPP"])
def test_names_load_on_first_use(name):
    code = f"import jplay; before = '{name}' in vars(jplay); jplay.{name};" + (
        f"print(before, '{name}' in vars(jplay), jplay.{name}.__name__)"
    )
    assert run_python(code) == f"False True {name}"


@pytest.mark.parametrize("package", ["estimators", "baselines"])
def test_all_estimators_are_public_names(package):
    home = getattr(jplay, package)
    names = [name for name in home.__all__ if isinstance(getattr(home, name), type)]
    assert len(names) > 6
    assert set(names) <= set(jplay.__all__)
    for name in names:
        assert getattr(jplay, name) is getattr(home, name)


def test_no_estimator_is_in_two_packages():
    assert not set(jplay.estimators.__all__) & set(jplay.baselines.__all__)


FOLDER = Path(jplay.__file__).parent
INNER = {"core", "numerics", "palette"}
"""Modules that come without a promise."""
SUBPACKAGES = sorted(
    ({path.parent.name for path in FOLDER.glob("*/__init__.py")} - INNER)
    | ({path.stem for path in FOLDER.glob("[a-z]*.py")} - INNER)
)


@pytest.mark.parametrize("name", SUBPACKAGES)
def test_subpackages_are_attributes(name):
    assert run_python(f"import jplay; print(jplay.{name}.__name__)") == f"jplay.{name}"


def test_dir_lists_the_public_names():
    assert set(jplay.__all__) <= set(dir(jplay))
    assert set(SUBPACKAGES) <= set(dir(jplay))


def test_unknown_names_raise():
    with pytest.raises(AttributeError, match="module 'jplay' has no attribute 'JPlai'"):
        jplay.JPlai  # noqa: B018


def test_version_is_a_release_number():
    assert re.fullmatch(r"\d+\.\d+\.\d+((a|b|rc)\d+)?(\.dev\d+)?", jplay.__version__)


def test_conda_recipe_asks_for_what_the_package_asks_for():
    yaml = pytest.importorskip("yaml", reason="recipes are YAML")
    root = Path(__file__).parent.parent
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]

    def needed(requirements):
        for requirement in requirements:
            parts = re.fullmatch(r"jplay\[(.*)\]", requirement)
            if parts is None:
                yield requirement.replace(">=", " >=").replace("matplotlib ", "matplotlib-base ")
            else:
                for extra in parts.group(1).split(","):
                    yield from needed(extras[extra])

    recipe = yaml.safe_load((root / "conda" / "recipe.yaml").read_text(encoding="utf-8"))
    wanted = {*needed(project["dependencies"]), *needed(extras["all"])}
    asked = set(recipe["requirements"]["run"]) - {"python >=${{ python_min }}"}
    assert asked == wanted
    (entry_point,) = recipe["build"]["python"]["entry_points"]
    assert entry_point == f"jplay = {project['scripts']['jplay']}"
