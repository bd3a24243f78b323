"""Methods that the paper compares J-Play with, and its unsupervised layer alone."""

from jplay._documentation import link_documentation as _link
from jplay.baselines.autorule import AutoRULe
from jplay.baselines.ccf import CanonicalCorrelationForestClassifier
from jplay.baselines.lfda import LFDA
from jplay.baselines.lpp import LPP
from jplay.baselines.lsdr import LSDR
from jplay.baselines.lsqmid import LSQMID
from jplay.baselines.npe import NPE

__all__ = [
    "LFDA",
    "LPP",
    "LSDR",
    "LSQMID",
    "NPE",
    "AutoRULe",
    "CanonicalCorrelationForestClassifier",
]

_link(*(globals()[name] for name in __all__))
