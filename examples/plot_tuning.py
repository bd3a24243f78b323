"""
Tuning: how much the weights matter
===================================

Every combination of two weights is tried by cross-validation. The defaults are usually on the
plateau; tuning helps most if classes overlap.
"""

import matplotlib.pyplot as plt
import numpy as np

from jplay import JPlay, JPlaySearchCV
from jplay.datasets import make_hyperspectral_scene

scene = make_hyperspectral_scene(48, 48, n_bands=60, n_classes=6, similarity=0.8, random_state=0)
X, y = scene.data[scene.train_indices], scene.target[scene.train_indices]
alphas, gammas = [0.03, 0.3, 3.0, 30.0, 300.0], [0.001, 0.01, 0.1, 1.0, 10.0]
search = JPlaySearchCV(
    {"alpha": alphas, "gamma": gammas}, estimator=JPlay(n_components=8), cv=3
).fit(X, y)
print("best:", search.best_params_)

# %%
# Mean accuracy over the folds; the ring is the best, the cross the default.
scores = 100 * search.cv_results_["mean_test_score"].reshape(5, 5)
figure, ax = plt.subplots(figsize=(6, 4.6), layout="constrained")
image = ax.imshow(scores, origin="lower", cmap="viridis")
for (row, column), score in np.ndenumerate(scores):
    color = "white" if score < (scores.min() + scores.max()) / 2 else "black"
    ax.text(column, row - 0.28, f"{score:.0f}", ha="center", va="center", color=color)
best, default = search.best_params_, JPlay().get_params()
for weights, color, marker, size in ((best, "none", "o", 16), (default, "red", "x", 11)):
    place = gammas.index(weights["gamma"]), alphas.index(weights["alpha"])
    ax.plot(*place, marker, ms=size, mfc=color, mec="red", mew=3)
ax.set_xticks(range(5), gammas)
ax.set_yticks(range(5), alphas)
ax.set(xlabel="gamma", ylabel="alpha", title="Accuracy in cross-validation")
figure.colorbar(image, label="Accuracy (%)")
plt.show()
