"""Estimators with scikit-learn's interface."""

from jplay.estimators._autorule import AutoRULe
from jplay.estimators._jplay import JPlay
from jplay.estimators._lfda import LFDA
from jplay.estimators._lpp import LPP
from jplay.estimators._lsdr import LSDR
from jplay.estimators._lsqmid import LSQMID
from jplay.estimators._npe import NPE
from jplay.estimators._search import JPlaySearchCV

__all__ = ["LFDA", "LPP", "LSDR", "LSQMID", "NPE", "AutoRULe", "JPlay", "JPlaySearchCV"]
