import subprocess
import sys

import pytest

import jplay

HEAVY = ["sklearn", "matplotlib", "torch", "dask", "pandas", "rasterio", "typer"]


def run_python(code):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()


def test_import_loads_nothing_heavy():
    code = f"import sys, jplay; print([name for name in {HEAVY} if name in sys.modules])"
    assert run_python(code) == "[]"


def test_solvers_do_not_load_scikit_learn():
    code = (
        "import sys, jplay.solvers.alternating, jplay.solvers.pretraining;"
        f"print([name for name in {HEAVY} if name in sys.modules])"
    )
    assert run_python(code) == "[]"


@pytest.mark.parametrize("name", ["JPlay", "AutoRULe", "LPP"])
def test_names_load_on_first_use(name):
    code = f"import jplay; before = '{name}' in vars(jplay); jplay.{name};" + (
        f"print(before, '{name}' in vars(jplay), jplay.{name}.__name__)"
    )
    assert run_python(code) == f"False True {name}"


def test_all_estimators_are_public_names():
    from jplay import estimators

    assert set(estimators.__all__) <= set(jplay.__all__)
    for name in estimators.__all__:
        assert getattr(jplay, name) is getattr(estimators, name)


def test_dir_lists_the_public_names():
    assert set(jplay.__all__) <= set(dir(jplay))


def test_unknown_names_raise():
    with pytest.raises(AttributeError, match="module 'jplay' has no attribute 'JPlai'"):
        jplay.JPlai  # noqa: B018


def test_version_is_a_release_number():
    assert jplay.__version__[0].isdigit()
