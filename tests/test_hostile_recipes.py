"""Recipes that are damaged, or made to write somewhere else."""

import pytest

from jplay.experiments import load_recipes, parse_problems, parse_recipe
from tiny_recipes import tiny


@pytest.mark.parametrize(
    "name", ["/tmp/elsewhere", "../elsewhere", "..", ".", "", "a/b", "a\\b", "C:x", "a\0b", None, 3]
)
def test_recipe_name_is_never_a_path(name):
    with pytest.raises(ValueError, match=r"`(name|recipe)`"):
        parse_recipe(tiny(name=name))
    with pytest.raises(ValueError, match=r"`(name|recipe)`"):
        parse_problems(tiny(name=name, problems=[{"name": "a", "dataset": {"loader": "iris"}}]))
    with pytest.raises(ValueError, match=r"`(name|recipe)`"):
        parse_problems(tiny(problems=[{"name": name, "dataset": {"loader": "iris"}}]))


@pytest.mark.parametrize("name", ["tiny", "Wälder 2", "_x", "pines-10", "a.b+c (d)"])
def test_recipe_name_may_be_any_folder(name):
    assert parse_recipe(tiny(name=name)).name == name


@pytest.mark.parametrize(
    "text",
    [
        "",
        "name = 'x'",
        "methods = 3",
        "parts = 3",
        "parts = []",
        "parts = ['{path}']",
        "problems = []",
        "name = 'x'\nproblems = [3]",
        "name = 'x'\ndataset = 3\nmethods = [{{name = 'a', kind = 'pca'}}]\nclassifiers = [3]",
        "name = 'x'\ntitle = 'x'\ndataset = {{loader = 'iris'}}\nclassifiers = [{{kind = 'nn'}}]\n"
        "methods = [{{name = 'a', kind = 'pca'}}]",
        "name = [",
        "\x00",
    ],
)
def test_damaged_recipe_is_one_clear_error(text, tmp_path):
    path = tmp_path / "own.toml"
    path.write_text(text.format(path=path.as_posix()))
    with pytest.raises(ValueError, match=r"\w"):
        load_recipes(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"split": {"n_splits": "two"}}, "`split.n_splits` should be of type int"),
        ({"split": {"n_splits": True}}, "`split.n_splits` should be of type int"),
        ({"seed": [1]}, "`recipe.seed` should be of type int"),
        ({"dataset": {"loader": 3}}, "`dataset.loader` should be of type str"),
        ({"quick": "no"}, "`recipe.quick` should be of type dict"),
    ],
)
def test_entry_of_another_type_is_named(change, message):
    with pytest.raises(ValueError, match=message):
        parse_recipe(tiny(**change))
