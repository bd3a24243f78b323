"""
Several labels per sample
=========================

Some labels are rare, and a probability of one half is seldom reached for them. The figure shows the
F1 score of each label with a threshold of one half, and with thresholds that were chosen on
probabilities of training samples that the members of the committee have not seen.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_multilabel_classification
from sklearn.metrics import f1_score
from sklearn.model_selection import train_test_split

from jplay import JPlayCommittee, MultiLabelJPlay

X, Y = make_multilabel_classification(600, 30, n_classes=8, n_labels=2, random_state=7)
X_train, X_test, Y_train, Y_test = train_test_split(X, Y, test_size=0.5, random_state=0)

# %%
# Thirty members are enough here. The thresholds can be chosen anew without another fit.
model = MultiLabelJPlay(JPlayCommittee(12, random_state=0)).fit(X_train, Y_train)
scores = {}
for name, thresholds in {"one half": 0.5, "chosen for F1": "macro_f1"}.items():
    predicted = model.choose_thresholds(thresholds).predict(X_test)
    scores[name] = f1_score(Y_test, predicted, average=None, zero_division=0)
    print(f"{name}: mean F1 {scores[name].mean():.3f}")

# %%
# Labels from rare to frequent. The thresholds stand above the bars.
order = np.argsort(Y_train.mean(axis=0))
places = np.arange(len(order))
figure, ax = plt.subplots(layout="constrained")
for offset, (name, values) in zip((-0.2, 0.2), scores.items(), strict=True):
    ax.bar(places + offset, values[order], 0.4, label=f"{name}, mean {values.mean():.2f}")
for place, label in zip(places, order, strict=True):
    height = max(values[label] for values in scores.values())
    ax.text(place, height + 0.01, f"{model.thresholds_[label]:.2f}", ha="center", fontsize=8)
ax.set_xticks(places, [f"{share:.0%}" for share in Y_train.mean(axis=0)[order]])
ax.set(xlabel="share of the samples that have the label", ylabel="F1", ylim=(0, 1.1))
ax.legend(title="threshold", loc="lower right")
plt.show()
