"""
A report of your own parts
==========================

A report is made of parts: large numbers, figures, tables, warnings. ``jplay fit --report`` writes
one, and a few lines of Python make another.
"""

from tempfile import mkdtemp

import matplotlib.pyplot as plt
from sklearn.datasets import load_iris
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.metrics import confusion_matrix
from sklearn.model_selection import cross_val_predict

from jplay import JPlay
from jplay.report import Confusion, Headline, IntervalChart, Report, Section, Share, Table

iris = load_iris()
names = iris.target_names.tolist()
models = {"J-Play": JPlay(), "LDA": LinearDiscriminantAnalysis()}
found = {
    name: cross_val_predict(model, iris.data, iris.target, cv=5) for name, model in models.items()
}
shares = {
    name: Share.of_counts((predicted == iris.target).sum(), len(iris.target))
    for name, predicted in found.items()
}

# %%
# Every share has its interval: five of five samples right would be 56.6 to 100 percent.
counts = confusion_matrix(iris.target, found["J-Play"])
rows = [[name, Share.of_counts(counts[k, k], counts[k].sum())] for k, name in enumerate(names)]
report = Report(
    "Iris",
    lead="150 flowers of three species, five folds.",
    headlines=[Headline("Overall accuracy", shares["J-Play"], "J-Play")],
    main=IntervalChart("What was compared", shares, own="J-Play"),
    sections=[
        Section("Classes", [Table("Class by class", ["Species", "Recall %"], rows, colored=True)]),
        Section("Confusion", [Confusion(counts, names)]),
    ],
    warnings=["Folds are of single flowers."],
)
path = report.write(f"{mkdtemp()}/iris.html")
print(f"{path.stat().st_size // 1024} kB, one file")

# %%
# The figure of its first screen, drawn by matplotlib.
figure, ax = plt.subplots(figsize=(6, 2.2), layout="constrained")
for place, share in enumerate(shares.values()):
    ax.plot([100 * share.low, 100 * share.high], [place, place], linewidth=4)
    ax.plot(100 * share.value, place, "ko", markersize=9)
    ax.annotate(f"{share.text} % ({share.interval})", (100 * share.low, place - 0.25))
ax.set_yticks(range(2), shares)
ax.set(xlabel="Overall accuracy (%), 95 % interval", ylim=(1.6, -0.7))
plt.show()
