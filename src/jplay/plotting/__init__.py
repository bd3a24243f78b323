"""Pictures of scenes, class maps, subspaces and fits.

Every function draws on the axes it is given, or makes them with pyplot, and returns them. Needs
matplotlib (extra ``plot``).
"""

from jplay.plotting._axes import class_colors
from jplay.plotting._fits import plot_convergence, plot_subspaces
from jplay.plotting._images import plot_images
from jplay.plotting._relevance import plot_relevance
from jplay.plotting._scenes import (
    false_color,
    plot_class_map,
    plot_false_color,
    plot_maps,
    plot_spectra,
)

__all__ = [
    "class_colors",
    "false_color",
    "plot_class_map",
    "plot_convergence",
    "plot_false_color",
    "plot_images",
    "plot_maps",
    "plot_relevance",
    "plot_spectra",
    "plot_subspaces",
]
