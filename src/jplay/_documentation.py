"""The link to the documentation that an estimator's HTML shows."""

import os
from importlib import metadata

VARIABLE = "JPLAY_DOCS"
"""Environment variable with the address of another copy of the documentation."""
PAGE = "/api/generated/jplay.{estimator_name}.html"


def address() -> str:
    """Return where the documentation is: as the variable or the package says; empty if neither."""
    if os.environ.get(VARIABLE):
        return os.environ[VARIABLE].rstrip("/")
    try:
        addresses = metadata.metadata("jplay").get_all("Project-URL") or []
    except metadata.PackageNotFoundError:
        return ""
    named = dict(entry.split(", ", 1) for entry in addresses)
    return named.get("Documentation", "").rstrip("/")


def link_documentation(*estimators: type) -> None:
    """Make scikit-learn's HTML of these classes link to their pages, if there is an address."""
    template = f"{address()}{PAGE}" if address() else ""
    for estimator in estimators:
        estimator._doc_link_module = "jplay"  # type: ignore[attr-defined]
        estimator._doc_link_template = template  # type: ignore[attr-defined]
