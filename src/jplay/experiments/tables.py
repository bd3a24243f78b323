"""Tables of a recipe's cells beside the published figures."""

import csv
import io
from dataclasses import dataclass
from statistics import fmean, stdev

LABEL_METRICS = {
    "hamming_loss": "Hamming loss ↓",
    "micro_f1": "micro F1 ↑",
    "macro_f1": "macro F1 ↑",
    "ranking_loss": "ranking loss ↓",
    "average_precision": "average precision ↑",
}


@dataclass(frozen=True)
class Entry:
    """A cell over all its splits, accuracies in percent; what is not known is None."""

    method: str
    family: str | None
    depth: int | None
    classifier: str
    sizes: tuple
    """Dimensions of the features, of which splits may have different ones."""
    n_splits: int
    n_failed: int
    mean: float | None
    deviation: float | None
    average_accuracy: float | None
    kappa: float | None
    published: float | None
    fit_seconds: float | None
    seconds: float | None
    labels: dict

    @property
    def n_features(self):
        """Return the dimensions in words."""
        return ", ".join(map(str, self.sizes))

    @property
    def difference(self):
        if self.mean is None or self.published is None:
            return None
        return self.mean - self.published

    def text(self):
        """Return the figure as it is printed."""
        if self.mean is None:
            return "failed" if self.n_failed else "–"
        return f"{self.mean:.2f}" + (f" ± {self.deviation:.2f}" if self.deviation else "")


@dataclass(frozen=True)
class Table:
    """The figures of one recipe.

    Attributes
    ----------
    title : str
    methods, classifiers : list of str
        Rows and columns.
    entries : dict of (str, str) to Entry
    multilabel : bool
    """

    title: str
    methods: list
    classifiers: list
    entries: dict
    multilabel: bool = False

    @classmethod
    def of(cls, experiment):
        """Collect the finished cells of an experiment."""
        recipe = experiment.recipe
        records, failures = experiment.cell_records(), experiment.failures()
        entries = {
            (method.name, column.name): _entry(method, column, records, failures)
            for method in recipe.methods
            for column in recipe.classifiers
            if column.applies_to(method)
        }
        return cls(
            title=recipe.title,
            methods=list(dict.fromkeys(method.name for method in recipe.methods)),
            classifiers=[column.name for column in recipe.classifiers],
            entries=entries,
            multilabel=experiment.problem.multilabel,
        )

    def to_markdown(self):
        """Return the table in Markdown: for each classifier ours, published, difference."""
        if self.multilabel:
            return self._label_markdown()
        published = {c for (_, c), e in self.entries.items() if e.published is not None}
        headings = ["method", "dim.", "splits"]
        for name in self.classifiers:
            headings += [name, "published", "diff."] if name in published else [name]
        lines = [_line(headings), _line(["---"] * len(headings))]
        for method in self.methods:
            row = [entry for (m, _), entry in self.entries.items() if m == method]
            n_splits = max((entry.n_splits for entry in row), default=0)
            sizes = sorted({size for entry in row for size in entry.sizes})
            cells = [method, ", ".join(map(str, sizes)), str(n_splits)]
            for name in self.classifiers:
                entry = self.entries.get((method, name))
                cells.append("" if entry is None else entry.text())
                if name in published:
                    cells.append("" if entry is None else _text(entry.published))
                    cells.append("" if entry is None else _text(entry.difference, "+.2f"))
            lines.append(_line(cells))
        return "\n".join(lines) + "\n"

    def _label_markdown(self):
        headings = ["features", "classifier", *LABEL_METRICS.values(), "fit s"]
        lines = [_line(headings), _line(["---"] * len(headings))]
        for (method, classifier), entry in self.entries.items():
            figures = [_text(entry.labels.get(metric), ".4f") for metric in LABEL_METRICS]
            lines.append(_line([method, classifier, *figures, _text(entry.fit_seconds, ".1f")]))
        return "\n".join(lines) + "\n"

    def to_csv(self):
        """Return one line per cell, unrounded."""
        stream = io.StringIO()
        columns = [
            *("method", "depth", "classifier", "n_features", "n_splits", "n_failed"),
            *("mean", "deviation", "published", "difference", "average_accuracy", "kappa"),
            *("fit_seconds", "seconds", *LABEL_METRICS),
        ]
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(columns)
        for entry in self.entries.values():
            writer.writerow(
                entry.labels.get(c, "") if c in LABEL_METRICS else _csv(getattr(entry, c))
                for c in columns
            )
        return stream.getvalue()


def _entry(method, column, records, failures):
    own = [r for r in records if (r["method"], r["classifier"]) == (method.name, column.name)]
    failed = [r for r in failures if (r["method"], r["classifier"]) == (method.name, column.name)]
    accuracies = _figures(own, "overall_accuracy", 100)
    return Entry(
        method=method.name,
        family=method.family,
        depth=method.depth,
        classifier=column.name,
        sizes=tuple(sorted({r["fit"]["n_features"] for r in own})),
        n_splits=len(own),
        n_failed=len(failed),
        mean=_mean(accuracies),
        deviation=stdev(accuracies) if len(accuracies) > 1 else None,
        average_accuracy=_mean(_figures(own, "average_accuracy", 100)),
        kappa=_mean(_figures(own, "kappa")),
        published=method.published.get(column.name),
        fit_seconds=_mean([r["fit"]["seconds"] for r in own]),
        seconds=_mean([r["seconds"] for r in own]),
        labels={m: _mean(_figures(own, m)) for m in LABEL_METRICS if own and m in own[0]["result"]},
    )


def _figures(records, name, factor=1):
    values = [r["result"].get(name) for r in records]
    return [factor * value for value in values if value is not None]


def _mean(values):
    return fmean(values) if values else None


def _text(value, form=".2f"):
    return "" if value is None else format(value, form)


def _csv(value):
    return "" if value is None else value


def _line(cells):
    return "| " + " | ".join(cells) + " |"
