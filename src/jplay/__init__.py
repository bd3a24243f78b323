"""Joint and progressive subspace learning (J-Play) and its relatives.

Public names are loaded on first use, so ``import jplay`` costs next to nothing.
"""

from importlib import import_module

__version__ = "0.1.0.dev0"

_HOME_OF = {
    "AutoRULe": "jplay.baselines",
    "CanonicalCorrelationForestClassifier": "jplay.baselines",
    "CrossSensorJPlay": "jplay.estimators",
    "DomainJPlay": "jplay.estimators",
    "FastSolver": "jplay.core.solver",
    "HeatGraph": "jplay.blocks",
    "JPlay": "jplay.estimators",
    "JPlayBandSelector": "jplay.estimators",
    "JPlayCommittee": "jplay.estimators",
    "JPlayRegressor": "jplay.estimators",
    "JPlaySearchCV": "jplay.estimators",
    "LFDA": "jplay.baselines",
    "LabelPenalty": "jplay.estimators.label_penalty",
    "LiftedJPlay": "jplay.estimators",
    "LPP": "jplay.baselines",
    "LSDR": "jplay.baselines",
    "LSQMID": "jplay.baselines",
    "MultiLabelJPlay": "jplay.estimators",
    "MultiTaskJPlay": "jplay.estimators",
    "NPE": "jplay.baselines",
    "PaperSolver": "jplay.core.paper",
    "SoftLabelPropagation": "jplay.estimators.soft_labels",
    "SpatialJPlay": "jplay.estimators",
}

_SUBMODULES = (
    "app",
    "baselines",
    "blocks",
    "cli",
    "datasets",
    "estimators",
    "exceptions",
    "experiments",
    "inspection",
    "persistence",
    "plotting",
    "raster",
    "report",
    "tables",
)

__all__ = ["__version__", *sorted(_HOME_OF)]


def __getattr__(name):
    if name in _SUBMODULES:
        return import_module(f"jplay.{name}")
    if name not in _HOME_OF:
        raise AttributeError(f"module 'jplay' has no attribute {name!r}")
    value = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__():
    return sorted({*globals(), *_HOME_OF, *_SUBMODULES})
