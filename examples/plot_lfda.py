"""
LFDA: classes made of several clusters
======================================

One class lies on both sides of the other, so that both have the same mean. LDA has
nothing to separate; local Fisher discriminant analysis keeps only *neighbouring*
samples of a class together and finds the axis.
"""

# %%
# Two features carry the clusters; two more are noise.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from jplay import LFDA

rng = np.random.default_rng(0)
centres = np.array([[-4.0, 0.0], [4.0, 0.0], [0.0, 0.0]])
clusters = np.repeat([0, 1, 2], [80, 80, 160])
y = (clusters == 2).astype(int)
useful = centres[clusters] + rng.normal(size=(320, 2)) * [0.8, 2.5]
X = np.column_stack([useful, 4 * rng.normal(size=(320, 2))])

# %%
# One dimension from each method, drawn as one histogram per class.
models = {"PCA": PCA(1), "LDA": LinearDiscriminantAnalysis(n_components=1), "LFDA": LFDA(1)}
figure, axes = plt.subplots(1, 4, figsize=(12, 3), layout="constrained")
for label in (0, 1):
    axes[0].scatter(*X[y == label, :2].T, s=8, label=f"class {label}")
axes[0].set(title="the first two features", xlabel="feature 0", ylabel="feature 1")
axes[0].legend()
for ax, (name, model) in zip(axes[1:], models.items(), strict=True):
    projected = model.fit(X, y).transform(X)[:, 0]
    for label in (0, 1):
        ax.hist(projected[y == label], bins=30, alpha=0.6)
    ax.set(title=name, xlabel="component 0", yticks=[])
plt.show()
