"""Figures of scenes, class maps, subspaces and fits.

Displays follow scikit-learn's: ``from_estimator`` computes and draws, ``plot`` draws again. Every
function draws on the axes it is given, or makes them with pyplot, and returns them. Needs
matplotlib (extra ``plot``).
"""

from jplay.plotting._displays import (
    BandsDisplay,
    ConvergenceDisplay,
    RelevanceDisplay,
    SubspaceDisplay,
)
from jplay.plotting._fits import (
    align_planes,
    leading_plane,
    plot_convergence,
    plot_subspaces,
    within_rim,
)
from jplay.plotting._images import plot_images
from jplay.plotting._relevance import plot_relevance
from jplay.plotting._scenes import (
    false_color,
    plot_class_map,
    plot_maps,
    plot_spectra,
    plot_split,
)

__all__ = [
    "BandsDisplay",
    "ConvergenceDisplay",
    "RelevanceDisplay",
    "SubspaceDisplay",
    "align_planes",
    "false_color",
    "leading_plane",
    "plot_class_map",
    "plot_convergence",
    "plot_images",
    "plot_maps",
    "plot_relevance",
    "plot_spectra",
    "plot_split",
    "plot_subspaces",
    "within_rim",
]
