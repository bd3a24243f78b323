"""
Features of images
==================

J-Play on handwritten digits. Each row of ``components_`` is an image: where it is bright, ink
raises the feature. Below are such images, the digits rebuilt from 20 features, and the pixels
that each class relies on.

Features live in the unit ball. With ``scaling="norm"`` samples have about that size and are not
centred, and without whitening they can be rebuilt from their features.
"""

import matplotlib.pyplot as plt

from jplay import JPlay
from jplay.datasets import load_digits
from jplay.plotting import RelevanceDisplay, plot_images

digits = load_digits()
X, y, shape = digits.data, digits.target, digits.image_shape
train, test = digits.train_indices, digits.test_indices
model = JPlay(n_components=20, n_layers=2, alpha=0.1, scaling="norm", whiten=False)
model.fit(X[train], y[train])
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
# What ink in each pixel adds to a digit: red speaks for it, blue against it.
RelevanceDisplay.from_estimator(model, X[train], y[train], image_shape=shape)
plt.show()
