"""
Shares of materials in mixed pixels
===================================

A pixel of thirty metres seldom holds one material alone. Whoever has the spectra of the pure
materials can take a pixel apart by non-negative least squares. Whoever has pixels whose shares were
measured on the ground can learn them: ``JPlayRegressor(shares=True)`` predicts numbers that are not
negative and sum to one.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import nnls

from jplay import JPlayRegressor
from jplay.datasets import make_hyperspectral_scene

scene = make_hyperspectral_scene(
    60, 60, n_bands=80, n_classes=4, mixing=0.4, blur=2.0, label_purity=0.3, random_state=2
)
pixels = scene.cube.reshape(-1, scene.cube.shape[2])
shares = scene.abundances.reshape(len(pixels), -1)

# %%
# A hundred pixels have known shares. A laboratory measures the pure spectra without the water
# vapour of the air, which must be corrected for; and no correction knows how much light fell on a
# pixel.


def taken_apart(members):
    """Shares by least squares, not negative and with sums of one."""
    system = np.vstack([members.T, 100 * np.ones(len(members))])
    return np.array([nnls(system, np.append(pixel, 100))[0] for pixel in pixels])


train = np.random.default_rng(0).choice(len(pixels), 100, replace=False)
learned = JPlayRegressor(shares=True).fit(pixels[train], shares[train]).predict(pixels)

# %%
# What was learned needs no correction.
found = {
    "truth": shares,
    "pure spectra": taken_apart(scene.endmembers),
    "pure spectra,\ncorrected": taken_apart(scene.endmembers * scene.transmission),
    "learned": learned,
}
figure, axes = plt.subplots(
    len(found), shares.shape[1], figsize=(8, 8), sharex=True, sharey=True, layout="constrained"
)
for row, (name, values) in zip(axes, found.items(), strict=True):
    error = 100 * np.sqrt(np.mean((values - shares) ** 2))
    row[0].set_ylabel(name if name == "truth" else f"{name}\nerror {error:.1f} %")
    for number, ax in enumerate(row):
        shown = ax.imshow(values[:, number].reshape(scene.cube.shape[:2]), vmin=0, vmax=1)
        ax.set(xticks=[], yticks=[])
for number, ax in enumerate(axes[0]):
    ax.set_title(f"material {number + 1}")
figure.colorbar(shown, ax=axes, label="share", shrink=0.6)
plt.show()
