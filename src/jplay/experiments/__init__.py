"""Experiments: recipes, the protocol, a runner whose records survive a kill, tables and figures."""

from jplay.experiments._recipe import (
    Recipe,
    available_recipes,
    load_recipes,
    parse_recipe,
)
from jplay.experiments.runner import Experiment
from jplay.experiments.study import study_recipe
from jplay.experiments.tables import Table
from jplay.experiments.writing import write_results

__all__ = [
    "Experiment",
    "Recipe",
    "Table",
    "available_recipes",
    "load_recipes",
    "parse_recipe",
    "study_recipe",
    "write_results",
]
