"""What a comparison found: cells beside the published figures, and pairs of them."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, stdev

from jplay._text import csv_text, markdown_text
from jplay.experiments._journal import Journal
from jplay.experiments._limits import in_words

LABEL_METRICS = {
    "hamming_loss": "Hamming loss ↓",
    "micro_f1": "micro F1 ↑",
    "macro_f1": "macro F1 ↑",
    "ranking_loss": "ranking loss ↓",
    "average_precision": "average precision ↑",
}


@dataclass(frozen=True)
class Entry:
    """A cell of the table over all its splits, in percent; what is not known is None."""

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
    by_split: dict
    """Accuracy on each split, as a fraction."""
    calibration_error: float | None = None
    kept: dict = field(default_factory=dict)
    """By threshold of the probability, the share of samples above it and their accuracy."""
    training_seconds: float | None = None
    """Of the method and the classifier together."""
    predict_seconds: float | None = None
    limit: float | None = None
    """Seconds that were not enough."""

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
            return self.why_missing()
        return f"{self.mean:.2f}" + (f" ± {self.deviation:.2f}" if self.deviation else "")

    def why_missing(self):
        """Return what is printed in place of a figure."""
        if self.limit is not None:
            return f"over {in_words(self.limit)}"
        return "failed" if self.n_failed else "–"


@dataclass(frozen=True)
class PairedResult:
    """How a method differs from the reference in one column, split by split, in percent."""

    method: str
    classifier: str
    differences: tuple
    mean: float
    n_better: int
    n_equal: int
    n_worse: int
    p_value: float | None = None
    """Of the corrected resampled t-test, two-sided; None if it cannot be computed."""


@dataclass(frozen=True)
class ResultTable:
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
        multilabel = experiment.divided.multilabel
        return cls._from_records(
            experiment.recipe, experiment.cell_records(), experiment.failures(), multilabel
        )

    @classmethod
    def read(cls, recipe, folder):
        """Collect the finished cells of a recipe from the records of a folder, without its data.

        Records of other parameters than the recipe's, of splits beyond its own, and those made on
        data that were corrupt do not count; of several records of a cell the last does.

        Parameters
        ----------
        recipe : Recipe
        folder : path-like
            Holds ``records.jsonl``.
        """
        journal = Journal(Path(folder) / "records.jsonl")
        content = {(m.name, c.name): (m, c) for m in recipe.methods for c in recipe.classifiers}
        n_splits = 1 if recipe.split.kind == "given" else recipe.split.n_splits

        def counts(record):
            # Heavy: that there are records is checked first.
            from jplay.datasets.registry import CORRUPT_FINGERPRINTS

            method, column = content.get((record.get("method"), record.get("classifier")), (0, 0))
            return (
                method
                and record.get("fingerprint") not in CORRUPT_FINGERPRINTS
                and record["split"] < n_splits
                and (method.search is not None or _same(record["parameters"], method.params))
                and _same(record["classifier_parameters"], column.params)
            )

        def last(records):
            return {
                (r["method"], r["classifier"], r["split"]): r for r in records.values() if counts(r)
            }

        done, failed = last(journal.done()), last(journal.failures())
        failures = [record for cell, record in failed.items() if cell not in done]
        multilabel = any("hamming_loss" in record["result"] for record in done.values())
        return cls._from_records(recipe, list(done.values()), failures, multilabel)

    @classmethod
    def _from_records(cls, recipe, records, failures, multilabel):
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
            multilabel=multilabel,
        )

    def paired(self, reference, *, test_ratio=1.0):
        """Subtract a method's accuracies from every other one's on the same splits.

        Parameters
        ----------
        reference : str
            Name of the method.
        test_ratio : float, default=1.0
            Test samples per training sample.

        Returns
        -------
        dict of (str, str) to PairedResult
            By method and classifier; the reference has differences of zero.
        """
        pairs = {}
        for (method, column), entry in self.entries.items():
            against = self.entries.get((reference, column))
            shared = entry.by_split.keys() & against.by_split.keys() if against else ()
            gaps = [100 * (entry.by_split[s] - against.by_split[s]) for s in sorted(shared)]
            if gaps:
                pairs[method, column] = PairedResult(
                    method=method,
                    classifier=column,
                    differences=tuple(gaps),
                    mean=fmean(gaps),
                    n_better=sum(gap > 0 for gap in gaps),
                    n_equal=sum(gap == 0 for gap in gaps),
                    n_worse=sum(gap < 0 for gap in gaps),
                    p_value=corrected_t_test(gaps, test_ratio),
                )
        return pairs

    def to_markdown(self):
        """Return the table in Markdown: for each classifier ours, published, difference."""
        if self.multilabel:
            return self._label_markdown()
        published = {c for (_, c), e in self.entries.items() if e.published is not None}
        headings = ["method", "dim.", "splits"]
        for name in self.classifiers:
            headings += [name, "published", "diff."] if name in published else [name]
        lines = [line_of(headings), line_of(["---"] * len(headings))]
        for method in self.methods:
            row = [entry for (m, _), entry in self.entries.items() if m == method]
            n_splits = max((entry.n_splits for entry in row), default=0)
            sizes = sorted({size for entry in row for size in entry.sizes})
            cells = [method, ", ".join(map(str, sizes)), str(n_splits)]
            for name in self.classifiers:
                entry = self.entries.get((method, name))
                cells.append("" if entry is None else entry.text())
                if name in published:
                    cells.append("" if entry is None else text_of(entry.published))
                    cells.append("" if entry is None else text_of(entry.difference, "+.2f"))
            lines.append(line_of(cells))
        return "\n".join(lines) + "\n"

    def _label_markdown(self):
        headings = ["features", "classifier", *LABEL_METRICS.values(), "fit s"]
        lines = [line_of(headings), line_of(["---"] * len(headings))]
        for (method, classifier), entry in self.entries.items():
            figures = [text_of(entry.labels.get(metric), ".4f") for metric in LABEL_METRICS]
            lines.append(line_of([method, classifier, *figures, text_of(entry.fit_seconds, ".1f")]))
        return "\n".join(lines) + "\n"

    def to_csv(self):
        """Return one line per cell, unrounded."""
        columns = [
            *("method", "depth", "classifier", "n_features", "n_splits", "n_failed"),
            *("mean", "deviation", "published", "difference", "average_accuracy", "kappa"),
            *("fit_seconds", "seconds", *LABEL_METRICS),
        ]
        rows = [
            [
                entry.labels.get(c, "") if c in LABEL_METRICS else _csv(getattr(entry, c))
                for c in columns
            ]
            for entry in self.entries.values()
        ]
        return csv_text([columns, *rows])


def corrected_t_test(differences, test_ratio):
    """Two-sided p-value that a mean difference over resampled splits is zero.

    Splits share samples, so that their differences are not independent. Nadeau and Bengio (2003),
    "Inference for the generalization error", add the ratio of test to training samples to
    ``1 / n_splits`` in the variance of the mean. They had fewer test than training samples; more
    count as equally many here, which is conservative already.

    Parameters
    ----------
    differences : sequence of float
        One per split.
    test_ratio : float
        Test samples per training sample.

    Returns
    -------
    float or None
        None for a single split, or if all differences are the same.

    Examples
    --------
    >>> from jplay.experiments._results import corrected_t_test
    >>> round(corrected_t_test([1.0, 2.0, 3.0], 0.25), 3)
    0.12
    """
    from scipy.stats import t as student

    n_splits = len(differences)
    if n_splits < 2 or len(set(differences)) == 1:
        return None
    error = stdev(differences) * (1 / n_splits + min(test_ratio, 1.0)) ** 0.5
    return float(2 * student.sf(abs(fmean(differences)) / error, n_splits - 1))


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
        by_split={
            r["split"]: r["result"]["overall_accuracy"]
            for r in own
            if "overall_accuracy" in r["result"]
        },
        labels={m: _mean(_figures(own, m)) for m in LABEL_METRICS if own and m in own[0]["result"]},
        calibration_error=_mean(_figures(own, "calibration_error")),
        kept=_kept([r["result"].get("kept", {}) for r in own]),
        training_seconds=_mean(_figures(own, "fit_seconds")),
        predict_seconds=_mean(_figures(own, "predict_seconds")),
        limit=max((r["limit"] for r in failed if "limit" in r), default=None),
    )


def _same(recorded, params):
    return recorded == json.loads(json.dumps(params))


def _figures(records, name, factor=1):
    values = [r["result"].get(name) for r in records]
    return [factor * value for value in values if value is not None]


def _kept(splits):
    """Return share and accuracy by threshold over several splits, in percent."""
    kept = {}
    for threshold in dict.fromkeys(threshold for split in splits for threshold in split):
        own = [split[threshold] for split in splits if threshold in split]
        share = sum(one["share"] for one in own)
        right = sum(one["share"] * one["accuracy"] for one in own)
        kept[threshold] = (100 * share / len(splits), 100 * right / share)
    return kept


def _mean(values):
    return fmean(values) if values else None


def text_of(value, form=".2f"):
    return "" if value is None else format(value, form)


def _csv(value):
    return "" if value is None else value


def line_of(cells):
    return "| " + " | ".join(markdown_text(cell) for cell in cells) + " |"
