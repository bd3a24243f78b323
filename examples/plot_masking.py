"""
A class between two others
==========================

Least squares on class indicators masks a class that lies between others: its output is never the
largest. The nearest class mean in the same subspace finds it. Both rules belong to the same fit.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.inspection import DecisionBoundaryDisplay

from jplay import JPlay

rng = np.random.default_rng(0)
y = np.repeat([0, 1, 2], 150)
centres = np.array([[1.0, 4.0], [2.5, 2.5], [4.0, 1.0]])
X = centres[y] + rng.normal(scale=0.35, size=(len(y), 2))

figure, axes = plt.subplots(1, 2, figsize=(8, 4), sharey=True, layout="constrained")
for ax, decision in zip(axes, ("projection", "centroid"), strict=True):
    model = JPlay(n_components=2, n_layers=1, decision=decision).fit(X, y)
    DecisionBoundaryDisplay.from_estimator(
        model,
        X,
        response_method="predict",
        plot_method="pcolormesh",
        multiclass_colors="viridis",
        alpha=0.35,
        ax=ax,
    )
    ax.scatter(*X.T, c=y, s=12, cmap="viridis", edgecolors="white", linewidths=0.3)
    found = (model.predict(X)[y == 1] == 1).mean()
    ax.set(title=f"{decision}: {found:.0%} of the middle class", xlabel="$x_1$")
axes[0].set_ylabel("$x_2$")
plt.show()
