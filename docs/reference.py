"""Public names, as the reference lists them: from ``__all__``, each in one place."""

import inspect
from importlib import import_module

TOP = "jplay"


def public_names(module: str) -> list[str]:
    """What a module promises: its ``__all__``, or the classes that it defines itself."""
    package = import_module(module)
    names = getattr(package, "__all__", None)
    if names is None:
        names = [name for name, _ in inspect.getmembers(package, inspect.isclass)]
    return sorted((name for name in names if not name.startswith("_")), key=str.lower)


def listed_names(module: str) -> list[str]:
    """Public names of a module, less those that are public in ``jplay`` already."""
    return [name for name in public_names(module) if not _is_elsewhere(module, name)]


def shared_names(module: str) -> list[str]:
    """Public names of a module that the page of ``jplay`` describes."""
    return [name for name in public_names(module) if _is_elsewhere(module, name)]


def _is_elsewhere(module: str, name: str) -> bool:
    return module != TOP and name in public_names(TOP)
