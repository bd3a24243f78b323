"""
Oblique boundaries with a canonical correlation forest
======================================================

A tree of a random forest splits one feature at a time and follows an oblique boundary in steps.
A canonical correlation tree splits along the direction of a few features that correlates most
with the labels. Here are three elongated classes side by side, not aligned with the axes.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.inspection import DecisionBoundaryDisplay

from jplay import CanonicalCorrelationForestClassifier

# %%
# Three classes that differ in one direction, :math:`x_1 - x_2`, and spread along the other.

rng = np.random.default_rng(0)


def make_classes(n_per_class):
    y = np.repeat([0, 1, 2], n_per_class)
    along = rng.uniform(-4, 4, len(y))
    across = 1.5 * (y - 1) + rng.normal(scale=0.4, size=len(y))
    return np.column_stack([along + across, along - across]) / np.sqrt(2), y


X, y = make_classes(60)
X_test, y_test = make_classes(2000)

# %%
# Both forests have 300 trees and are left at their defaults.

forests = {
    "Random forest": RandomForestClassifier(300, random_state=0),
    "Canonical correlation forest": CanonicalCorrelationForestClassifier(300, random_state=0),
}

fig, axes = plt.subplots(1, 2, figsize=(9, 4.4), sharex=True, sharey=True, layout="constrained")
for ax, (name, forest) in zip(axes, forests.items(), strict=True):
    forest.fit(X, y)
    accuracy = forest.score(X_test, y_test)
    DecisionBoundaryDisplay.from_estimator(
        forest,
        X,
        response_method="predict",
        plot_method="pcolormesh",
        grid_resolution=200,
        multiclass_colors="viridis",
        alpha=0.35,
        ax=ax,
    )
    ax.scatter(*X.T, c=y, s=14, cmap="viridis", edgecolors="white", linewidths=0.4)
    ax.set(title=f"{name}: {100 * accuracy:.1f} % right", xlabel="$x_1$", ylabel="$x_2$")
    print(f"{name}: {100 * accuracy:.1f} %")

plt.show()
