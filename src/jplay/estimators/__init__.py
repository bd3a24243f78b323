"""Estimators with scikit-learn's interface."""

from jplay.estimators._autorule import AutoRULe
from jplay.estimators._jplay import JPlay
from jplay.estimators._lpp import LPP

__all__ = ["LPP", "AutoRULe", "JPlay"]
