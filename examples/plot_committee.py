"""
From a linear model to a committee
==================================

Two classes of two clouds each, crosswise: no linear map separates them. J-Play on similarities
does, and a committee of such models is less sure far from the training samples. Colours show the
probability of the second class, crosses and dots the training samples. The titles have the share of
new samples that are right.
"""

import matplotlib.pyplot as plt
import numpy as np

from jplay import JPlay, JPlayCommittee, LiftedJPlay

rng = np.random.default_rng(0)
centres = np.array([[-1.0, -1.0], [1.0, 1.0], [-1.0, 1.0], [1.0, -1.0]])


def make_classes(n_per_cloud):
    cloud = np.repeat(np.arange(4), n_per_cloud)
    return centres[cloud] + rng.normal(scale=0.55, size=(len(cloud), 2)), cloud // 2


X, y = make_classes(30)
X_test, y_test = make_classes(1000)

# %%
# All three are left at their defaults, but for the number of members.
models = {
    "J-Play": JPlay(n_components=2),
    "Lifted J-Play": LiftedJPlay(),
    "Committee": JPlayCommittee(30, random_state=0),
}
grid = np.stack(np.meshgrid(*[np.linspace(-3, 3, 80)] * 2), axis=-1)
figure, axes = plt.subplots(1, 3, figsize=(11, 4), sharey=True, layout="constrained")
for ax, (name, model) in zip(axes, models.items(), strict=True):
    accuracy = model.fit(X, y).score(X_test, y_test)
    proba = model.predict_proba(grid.reshape(-1, 2))[:, 1].reshape(80, 80)
    image = ax.imshow(
        proba, extent=(-3, 3, -3, 3), origin="lower", cmap="RdBu_r", vmin=0, vmax=1, alpha=0.8
    )
    for label, marker in enumerate("x."):
        ax.scatter(*X[y == label].T, marker=marker, color="black", s=20, linewidth=1)
    ax.set_title(f"{name}: {accuracy:.0%}")
    print(f"{name}: {accuracy:.3f}")
figure.colorbar(image, ax=axes, label="probability of the second class (dots)")
plt.show()

# %%
# What the committee has chosen: how much neighbours and label projections count, and its
# accuracy on training samples that members have not seen.
committee = models["Committee"]
neighbours, projections = committee.weights_.sum(axis=0)
print(f"neighbours {neighbours:.2f}, projections {projections:.2f}")
print(f"on left-out samples {committee.held_out_score_:.3f}")
