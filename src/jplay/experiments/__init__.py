"""Comparisons: problems, methods and draws as recipes, run with records that survive a kill.

A recipe names a problem (its data and its rule of draws), the methods with their preprocessing and
tuning, and the classifiers. An :class:`Experiment` runs it, a :class:`ResultTable` collects what
it found. Names are loaded on first use, so that reading a recipe loads nothing heavy.
"""

from importlib import import_module

_HOME_OF = {
    "Experiment": "_runner",
    "PLAIN_SETTINGS": "_settings",
    "Recipe": "_recipe",
    "ResultTable": "_results",
    "Suite": "_suite",
    "SuiteTable": "_suite",
    "TaskProgress": "_runner",
    "ablation_recipe": "_comparisons",
    "available_recipes": "_recipe",
    "choose_parameters": "_protocol",
    "demo_recipe": "_comparisons",
    "estimator_parameters": "_settings",
    "load_recipes": "_recipe",
    "parse_problems": "_recipe",
    "parse_recipe": "_recipe",
    "study_recipe": "_comparisons",
    "write_results": "_writing",
    "write_suite": "_suite_writing",
}

__all__ = sorted(_HOME_OF)


def __getattr__(name):
    if name not in _HOME_OF:
        raise AttributeError(f"module 'jplay.experiments' has no attribute {name!r}")
    value = getattr(import_module(f"jplay.experiments.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__():
    return sorted({*globals(), *_HOME_OF})
