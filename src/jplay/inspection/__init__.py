"""What a fitted model relies on, how stable that is, and how accurate it is on new samples."""

from jplay.inspection._accuracy import (
    AccuracyEstimate,
    MethodAccuracy,
    estimate_accuracy,
    leave_out_folds,
)
from jplay.inspection._relevance import (
    FeatureRelevance,
    RelevanceStability,
    feature_relevance,
    relevance_stability,
)
from jplay.inspection._scaling import Scaling, choose_scaling

__all__ = [
    "AccuracyEstimate",
    "FeatureRelevance",
    "MethodAccuracy",
    "RelevanceStability",
    "Scaling",
    "choose_scaling",
    "estimate_accuracy",
    "feature_relevance",
    "leave_out_folds",
    "relevance_stability",
]
