"""
What the features of images look for
====================================

J-Play on handwritten digits. Each row of ``components_`` is an image: where it is bright, ink
raises the feature. Below are such images, the digits rebuilt from 20 features, and the pixels
that each class relies on.

Features live in the unit ball. Samples of unit length can be rebuilt from them; of longer ones
only a shrunken copy is left, and the reconstruction term has little to say.
"""

import matplotlib.pyplot as plt
from sklearn.preprocessing import normalize

from jplay import JPlay
from jplay.datasets import load_digits
from jplay.plotting import feature_reliance, plot_images

digits = load_digits()
X, y, shape = normalize(digits.data), digits.target, digits.image_shape
train, test = digits.train_indices, digits.test_indices
model = JPlay(n_components=20, n_layers=2, alpha=0.1).fit(X[train], y[train])
print(f"{model.score(X[test], y[test]):.1%} of the test images right")

# %%
# The first sixteen features.
plot_images(model.components_[:16], shape)
plt.show()

# %%
# Test images above, and the same rebuilt from the last subspace through the transposed chain.
shown = test[:8]
rebuilt = model.inverse_transform(model.transform(X[shown]))
figure, axes = plt.subplots(2, 8, figsize=(9, 2.6), layout="constrained")
plot_images(X[shown], shape, axes=axes[0])
plot_images(rebuilt, shape, axes=axes[1])
plt.show()

# %%
# Pixels that decide for or against each digit.
reliance = feature_reliance(model, X[train])
plot_images(reliance, shape, titles=[str(k) for k in range(10)], n_columns=5, cmap="magma_r")
plt.show()
