"""
NPE: a neighbourhood-preserving map for new samples
===================================================

Neighbourhood preserving embedding is locally linear embedding restricted to linear maps.
It loses curvature, and gains a ``transform`` for samples that were not there during the fit.
"""

# %%
# Handwritten digits: learn the map on half of them, project the other half.
import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

from jplay import NPE

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=0)

# %%
# The first two components, and how well one neighbour classifies in ten.
figure, axes = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
for ax, (name, make) in zip(axes, {"PCA": PCA, "NPE": NPE}.items(), strict=True):
    projected = make(n_components=2).fit(X_train).transform(X_test)
    ax.scatter(*projected.T, c=y_test, cmap="tab10", s=8)
    classifier = make_pipeline(make(n_components=10), KNeighborsClassifier(1))
    score = classifier.fit(X_train, y_train).score(X_test, y_test)
    ax.set(title=f"{name}: 1-NN accuracy with 10 components {score:.3f}", xticks=[], yticks=[])
plt.show()
