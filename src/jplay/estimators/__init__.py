"""Estimators in the manner of scikit-learn."""

from jplay.estimators._lfda import LFDA
from jplay.estimators._lsdr import LSDR
from jplay.estimators._lsqmid import LSQMID
from jplay.estimators._npe import NPE

__all__ = ["LFDA", "LSDR", "LSQMID", "NPE"]
