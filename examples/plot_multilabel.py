"""
Several labels per sample
=========================

Labels share one subspace. Here is how well each is found as the subspace grows, beside a ridge
regression on all features with the same cut at one half.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import make_multilabel_classification
from sklearn.linear_model import Ridge
from sklearn.metrics import f1_score
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import normalize

from jplay import JPlay

X, Y = make_multilabel_classification(1000, 60, n_classes=8, n_labels=3, random_state=1)
X = normalize(X, norm="max")
X_train, X_test, Y_train, Y_test = train_test_split(X, Y, test_size=0.5, random_state=0)

# %%
# F1 of every label, and their mean.
dimensions = [2, 4, 6, 8, 12, 16, 24]
per_label = []
for n_components in dimensions:
    model = JPlay(n_components=n_components, n_layers=1).fit(X_train, Y_train)
    per_label.append(f1_score(Y_test, model.predict(X_test), average=None, zero_division=0))
ridge = Ridge(1.0).fit(X_train, Y_train).predict(X_test) > 0.5

figure, ax = plt.subplots(layout="constrained")
ax.plot(dimensions, per_label, color="0.75", linewidth=1)
means = [label_scores.mean() for label_scores in per_label]
ax.plot(dimensions, means, color="C0", linewidth=2, marker="o", label="J-Play, mean of the labels")
ridge_mean = f1_score(Y_test, ridge, average="macro", zero_division=0)
ax.axhline(ridge_mean, color="C1", linestyle="--", label="ridge, all 60 features")
ax.set(xlabel="dimensions of the subspace", ylabel="F1", title="One grey line per label")
ax.legend()
plt.show()
