"""Pictures of scenes, class maps, subspaces and fits.

Displays follow scikit-learn's: ``from_estimator`` computes and draws, ``plot`` draws again. Every
function draws on the axes it is given, or makes them with pyplot, and returns them. Needs
matplotlib (extra ``plot``).
"""

from jplay.plotting._axes import class_colors
from jplay.plotting._displays import ConvergenceDisplay, RelianceDisplay, SubspaceDisplay
from jplay.plotting._fits import leading_plane, plot_convergence, plot_subspaces
from jplay.plotting._images import plot_images
from jplay.plotting._relevance import plot_relevance
from jplay.plotting._reliance import feature_reliance, plot_reliance
from jplay.plotting._scenes import (
    false_color,
    plot_class_map,
    plot_false_color,
    plot_maps,
    plot_spectra,
)

__all__ = [
    "ConvergenceDisplay",
    "RelianceDisplay",
    "SubspaceDisplay",
    "class_colors",
    "false_color",
    "feature_reliance",
    "leading_plane",
    "plot_class_map",
    "plot_convergence",
    "plot_false_color",
    "plot_images",
    "plot_maps",
    "plot_relevance",
    "plot_reliance",
    "plot_spectra",
    "plot_subspaces",
]
