"""Canonical correlation forests (Rainforth and Wood, 2015)."""

from jplay._documentation import link_documentation as _link
from jplay.forest._estimators import CanonicalCorrelationForestClassifier
from jplay.forest._tree import CanonicalCorrelationTree

__all__ = [
    "CanonicalCorrelationForestClassifier",
    "CanonicalCorrelationTree",
]

_link(CanonicalCorrelationForestClassifier)
