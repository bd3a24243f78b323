"""Axes to draw on, and the classes that are drawn."""

from dataclasses import dataclass

import numpy as np

from jplay._optional import import_optional
from jplay.palette import class_colors


def matplotlib_module(name="matplotlib"):
    return import_optional(name, feature="Plotting", extra="plot")


def one_axes(ax):
    """Return ``ax``, or new axes if it is None."""
    if ax is not None:
        return ax
    return matplotlib_module("matplotlib.pyplot").subplots(layout="constrained")[1]


def row_of_axes(axes, n_axes, *, size=(4.0, 4.0), n_columns=None):
    """Return ``n_axes`` axes as a flat array: those given, or new ones in a grid."""
    if axes is None:
        n_columns = min(n_columns or n_axes, n_axes)
        n_rows = -(-n_axes // n_columns)
        pyplot = matplotlib_module("matplotlib.pyplot")
        _, axes = pyplot.subplots(
            n_rows,
            n_columns,
            figsize=(size[0] * n_columns, size[1] * n_rows),
            layout="constrained",
            squeeze=False,
        )
        for spare in axes.ravel()[n_axes:]:
            spare.remove()
        return axes.ravel()[:n_axes]
    axes = np.atleast_1d(np.asarray(axes, dtype=object)).ravel()
    if axes.size != n_axes:
        raise ValueError(
            f"`axes` should hold {n_axes} axes (one per panel), got {axes.size}. Make them with "
            f"matplotlib.pyplot.subplots(1, {n_axes}) or leave `axes` out."
        )
    return axes


@dataclass(frozen=True, eq=False)
class ClassLegend:
    """The classes of a figure with their names and colours."""

    classes: np.ndarray
    names: list
    colors: np.ndarray

    @classmethod
    def of(cls, labels, *, class_names=None, colors=None, first=0):
        """List the classes ``first``, ``first + 1``, ... that have names, or those that occur."""
        present = np.unique(labels)
        if class_names is None:
            classes = present
            names = [str(label) for label in classes]
        else:
            names = [str(name) for name in class_names]
            classes = np.arange(first, first + len(names))
            unknown = np.setdiff1d(present, classes)
            if unknown.size:
                raise ValueError(
                    f"`class_names` should name every class, but {len(names)} names stand for the "
                    f"labels {first} to {classes[-1] if len(names) else first} and there is a "
                    f"label {unknown[0]!r}. Name all classes or leave `class_names` out."
                )
        if colors is None:
            colors = class_colors(max(len(names), 1)) / 255
        colors = np.asarray(colors, dtype=float)
        if colors.ndim != 2 or colors.shape[1] != 3 or len(colors) < len(names):
            raise ValueError(
                f"`colors` should have shape ({len(names)}, 3), one colour per class, got "
                f"{colors.shape}."
            )
        return cls(classes, names, colors[: len(names)])

    def __iter__(self):
        return iter(zip(self.classes, self.names, self.colors, strict=True))

    def legend_handles(self):
        patch = matplotlib_module("matplotlib.patches").Patch
        return [patch(facecolor=color, label=name) for _, name, color in self]
