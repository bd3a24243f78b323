"""
A table: how accurate, beside which others
==========================================

178 wines, 13 measurements in different units. The accuracy is estimated on samples that were left
out of the fit, with an interval, beside shrinkage LDA and a random forest.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine

from jplay import JPlay
from jplay.inspection import estimate_accuracy, feature_relevance

wine = load_wine()
X, y = wine.data, np.array(["Barolo", "Grignolino", "Barbera"])[wine.target]
estimate = estimate_accuracy(JPlay(), X, y)

# %%
# Intervals that overlap say that the methods are level here.
figure, ax = plt.subplots(figsize=(7, 2.6), layout="constrained")
for place, row in enumerate(estimate.methods):
    ax.plot([100 * row.low, 100 * row.high], [place, place], linewidth=4, solid_capstyle="round")
    ax.plot(100 * row.accuracy, place, "ko", markersize=9)
ax.set_yticks(range(len(estimate.methods)), [row.name for row in estimate.methods])
ax.set(xlabel="Accuracy (%), 95 % interval", title=f"{estimate.n_folds}-fold cross-validation")
ax.invert_yaxis()
plt.show()

# %%
# What each class relies on. Units make no difference, since features are standardised.
shares = feature_relevance(JPlay().fit(X, y), X, y).shares()
figure, ax = plt.subplots(figsize=(8, 3.5), layout="constrained")
limit = np.abs(shares).max()
image = ax.imshow(shares, cmap="RdBu_r", vmin=-limit, vmax=limit, aspect="auto")
ax.set_xticks(range(X.shape[1]), wine.feature_names, rotation=45, ha="right", fontsize=8)
ax.set_yticks(range(3), sorted(set(y)))
figure.colorbar(image, label="Share of what sets the class apart")
plt.show()
