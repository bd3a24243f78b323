"""What a fitted model relies on: original features by class, and how stable that is."""

from jplay.inspection._relevance import (
    FeatureRelevance,
    RelevanceStability,
    feature_relevance,
    relevance_stability,
)

__all__ = ["FeatureRelevance", "RelevanceStability", "feature_relevance", "relevance_stability"]
