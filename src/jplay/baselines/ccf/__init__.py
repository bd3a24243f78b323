"""Canonical correlation forests (Rainforth and Wood, 2015)."""

from jplay.baselines.ccf._estimators import CanonicalCorrelationForestClassifier
from jplay.baselines.ccf._tree import CanonicalCorrelationTree

__all__ = [
    "CanonicalCorrelationForestClassifier",
    "CanonicalCorrelationTree",
]
