"""Estimators with scikit-learn's interface."""

from jplay._documentation import link_documentation as _link
from jplay._rowwise import without_training
from jplay.estimators._bands import JPlayBandSelector
from jplay.estimators._committee import JPlayCommittee
from jplay.estimators._cross_sensor import CrossSensorJPlay
from jplay.estimators._domain import DomainJPlay
from jplay.estimators._lifted import LiftedJPlay
from jplay.estimators._multilabel import MultiLabelJPlay
from jplay.estimators._search import JPlaySearchCV
from jplay.estimators._spatial import SpatialJPlay
from jplay.estimators.jplay import JPlay
from jplay.estimators.multitask import MultiTaskJPlay
from jplay.estimators.regression import JPlayRegressor

__all__ = [
    "CrossSensorJPlay",
    "DomainJPlay",
    "JPlay",
    "JPlayBandSelector",
    "JPlayCommittee",
    "JPlayRegressor",
    "JPlaySearchCV",
    "LiftedJPlay",
    "MultiLabelJPlay",
    "MultiTaskJPlay",
    "SpatialJPlay",
    "without_training",
]

_link(*(value for value in map(globals().get, __all__) if isinstance(value, type)))
