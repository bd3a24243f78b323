"""Estimators by the name of their class: ``package:Class``, with arguments if they are plain."""

import ast
from importlib import import_module
from importlib.util import find_spec

from jplay.exceptions import MissingDependencyError


def parse_estimator(text):
    """Read ``package:Class`` or ``package:Class(name=value, ...)``.

    Parameters
    ----------
    text : str
        Values are Python literals.

    Returns
    -------
    dict
        ``class`` and, if there are any, ``options``.

    Examples
    --------
    >>> from jplay.experiments._named import parse_estimator
    >>> parse_estimator("sklearn.svm:SVC(C=10.0)")
    {'class': 'sklearn.svm:SVC', 'options': {'C': 10.0}}
    """
    name, bracket, _ = text.partition("(")
    if ":" not in name:
        raise _not_readable(text)
    if not bracket:
        return {"class": name.strip()}
    try:
        call = ast.parse(text.partition(":")[2].strip(), mode="eval").body
        if not isinstance(call, ast.Call) or call.args or None in [k.arg for k in call.keywords]:
            raise _not_readable(text)
        options = {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords}
    except (SyntaxError, ValueError):
        raise _not_readable(text) from None
    return {"class": name.strip(), "options": options}


def _not_readable(text):
    return ValueError(
        "`method` should be package:Class or package:Class(name=value, ...) with plain values, got "
        f"{text!r}."
    )


def find_class(name):
    """Import the class that ``package:Class`` names."""
    module, _, attribute = name.partition(":")
    package = module.partition(".")[0]
    if find_spec(package) is None:
        raise MissingDependencyError(f"the package '{package}' is not installed")
    found = getattr(import_module(module), attribute, None)
    if found is None:
        raise ValueError(
            f"`method` should name a class, but {module} has no {attribute!r}. Check the name."
        )
    return found


def make_named(params, seed):
    """Build the estimator; one that draws at random gets the seed unless its options have one."""
    model = find_class(params["class"])(**params.get("options", {}))
    settings = model.get_params() if hasattr(model, "get_params") else {}
    if "random_state" in settings and settings["random_state"] is None:
        model.set_params(random_state=seed)
    return model
