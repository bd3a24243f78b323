"""
LSDR: any dependence counts
===========================

The class depends on two directions out of twenty, through a parabola. PCA sees no
variance there and LDA only what shifts the mean. Least-squares dimensionality reduction
maximises an estimate of the mutual information, so that it finds both.
"""

# %%
# The useful plane is hidden by a random rotation.
import matplotlib.pyplot as plt
import numpy as np
from scipy.linalg import subspace_angles
from sklearn.decomposition import PCA

from jplay import LFDA, LSDR

rng = np.random.default_rng(0)
rotation = np.linalg.qr(rng.normal(size=(20, 20)))[0]
hidden = rng.normal(size=(600, 20))
y = (hidden[:, 0] ** 2 + hidden[:, 1] > 1).astype(int)
X = hidden @ rotation
plane = rotation[:2]

# %%
# The largest angle between the true plane and what each method finds tells
# how well it did: 0 degrees is perfect, 90 means that a direction is missing.
models = {"PCA": PCA(2), "LFDA": LFDA(2), "LSDR": LSDR(2, n_restarts=0, random_state=0)}
figure, axes = plt.subplots(1, 3, figsize=(11, 3.6), layout="constrained")
for ax, (name, model) in zip(axes, models.items(), strict=True):
    projected = model.fit(X, y).transform(X)
    angle = np.degrees(subspace_angles(model.components_.T, plane.T)).max()
    ax.scatter(*projected.T, c=y, cmap="coolwarm", s=8)
    ax.set(title=f"{name}: {angle:.0f} degrees off", xticks=[], yticks=[])
plt.show()
