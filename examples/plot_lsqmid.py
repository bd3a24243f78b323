"""
LSQMID: a curve in noise, and its progress
==========================================

A real target depends on one direction out of twenty through a sine, and a few samples
are far outliers. LSQMID climbs quadratic mutual information, which outliers hardly
touch, with a direct estimate of its derivative. A callback records the climb.
"""

# %%
# Fifteen of 600 samples are outliers.
import matplotlib.pyplot as plt
import numpy as np

from jplay import LSQMID

rng = np.random.default_rng(0)
direction = np.linalg.qr(rng.normal(size=(20, 1)))[0].T
X = rng.normal(size=(600, 20))
y = np.sin(2 * X @ direction[0]) + 0.1 * rng.normal(size=600)
X[:15] += 20 * rng.normal(size=(15, 20))


# %%
# A callback in the manner of scikit-learn gets a fitted copy after every step.
class Progress:
    def __init__(self):
        self.angles = []

    def setup(self, estimator, context):
        pass

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context, *, fitted_estimator):
        cosine = abs(fitted_estimator.components_[0] @ direction[0])
        self.angles.append(np.degrees(np.arccos(min(1.0, cosine))))


# %%
# The climb from a random direction, and the curve that it brings out.
progress = Progress()
model = LSQMID(1, init="random", n_restarts=8, random_state=0)
model.set_callbacks(progress).fit(X, y)
figure, axes = plt.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
axes[0].plot(progress.angles)
axes[0].set(title="all starts in turn", xlabel="step", ylabel="degrees to the true direction")
axes[1].scatter(X[:, 0], y, s=8)
axes[1].set(title="one feature", xlabel="feature 0", ylabel="target", xlim=(-4, 4))
axes[2].scatter(model.transform(X)[:, 0], y, s=8)
axes[2].set(title="LSQMID", xlabel="component 0", xlim=(-4, 4))
plt.show()
