"""
J-Play, layer by layer
======================

A simulated hyperspectral scene, from 100 bands to 8 features in three steps. The figures show
the scene, the same pixels in every subspace of the chain, how the fit converged, and which
wavelengths each class relies on.
"""

import matplotlib.pyplot as plt
from sklearn.preprocessing import normalize

from jplay import JPlay
from jplay.datasets import make_hyperspectral_scene
from jplay.plotting import (
    ConvergenceDisplay,
    RelevanceDisplay,
    SubspaceDisplay,
    false_color,
    plot_maps,
)

# %%
# Six materials that resemble each other. Each spectrum is divided by its maximum.
scene = make_hyperspectral_scene(64, 64, n_bands=100, n_classes=6, similarity=0.6, random_state=3)
X, y = normalize(scene.data, norm="max"), scene.target
train, test = scene.train_indices, scene.test_indices

model = JPlay(n_components=8, n_layers=3).fit(X[train], y[train])
print(
    f"subspaces {model.layer_sizes_}, {model.score(X[test], y[test]):.1%} of the test pixels right"
)

# %%
# The map of the whole scene costs one matrix product.
pixels = normalize(scene.cube.reshape(-1, 100), norm="max")
plot_maps(
    {
        "False colour": false_color(scene.cube, wavelengths=scene.wavelengths),
        "Ground truth": scene.ground_truth,
        "J-Play": model.predict(pixels).reshape(64, 64),
    },
    class_names=scene.target_names,
)
plt.show()

# %%
# The progression: every subspace through its two leading principal axes.
SubspaceDisplay.from_estimator(model, X[test], y[test], class_names=scene.target_names)
plt.show()

# %%
# The objective settles within some ten iterations; the constraints then close.
ConvergenceDisplay.from_estimator(model)
plt.show()

# %%
# What each class relies on: a band's weight, times how far the class differs in it.
RelevanceDisplay.from_estimator(
    model,
    X[train],
    y[train],
    wavelengths=scene.wavelengths,
    class_names=scene.target_names,
)
plt.show()
