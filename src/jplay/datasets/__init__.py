"""Data sets, splits and synthetic scenes.

Fetchers look in the data folder (argument ``data_home``, environment variable ``JPLAY_DATA``, else
a per-user cache) and return a :class:`sklearn.utils.Bunch`.
"""

from jplay.datasets._embedded import load_digits, load_wine
from jplay.datasets._faces import fetch_ar, fetch_extended_yale_b
from jplay.datasets._fingerprint import fingerprint
from jplay.datasets._folder import get_data_home
from jplay.datasets._multilabel import fetch_multilabel
from jplay.datasets._scenes import fetch_houston2013, fetch_indian_pines
from jplay.datasets._spatial_splits import SpatialBlockSplit, connected_fields
from jplay.datasets._synthetic import make_hyperspectral_scene
from jplay.datasets.registry import DATASETS, DatasetEntry
from jplay.datasets.splits import (
    IterativeStratifiedKFold,
    RepeatedPerClassSplit,
    draw_per_class,
    split_per_class,
    stratified_folds,
)

__all__ = [
    "DATASETS",
    "DatasetEntry",
    "IterativeStratifiedKFold",
    "RepeatedPerClassSplit",
    "SpatialBlockSplit",
    "connected_fields",
    "draw_per_class",
    "fetch_ar",
    "fetch_extended_yale_b",
    "fetch_houston2013",
    "fetch_indian_pines",
    "fetch_multilabel",
    "fingerprint",
    "get_data_home",
    "load_digits",
    "load_wine",
    "make_hyperspectral_scene",
    "split_per_class",
    "stratified_folds",
]
