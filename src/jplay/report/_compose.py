"""From a run to the parts of its report."""

from pathlib import Path

import numpy as np
from scipy.ndimage import binary_dilation

from jplay._text import some_of
from jplay.report._content import Run
from jplay.report._page import SIGNED, gaps, shaded
from jplay.report._parts import (
    ClassMap,
    Confusion,
    Facts,
    Headline,
    IntervalChart,
    LineChart,
    Panels,
    Pictures,
    Report,
    Section,
    Share,
    Strips,
    Table,
    Text,
)

FEW_TEST_SAMPLES = 30
FEW_TRAINING_SAMPLES = 10
MANY_NEIGHBOURS = 0.05
"""Share of test pixels beside a training pixel from which on it is said."""
N_PAIRS = 10
MAX_CHART_ROWS = 30
OWN_CLASSIFIER = "J-Play with its built-in classifier"


def write_report(run: "Run | Report | str | Path", path: str | Path) -> Path:
    """Write a run as one HTML file that loads nothing from anywhere.

    Parameters
    ----------
    run : Run, Report, str or Path
        A run, the folder it was saved to, or a report.
    path : str or Path
        Where to write the page; its folder is made if it does not exist.

    Returns
    -------
    Path
        The file.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from jplay.report import Run, write_report
    >>> run = Run(title="Nothing yet", facts={"Data": "none"}, class_names=["a", "b"])
    >>> with TemporaryDirectory() as folder:
    ...     write_report(run, f"{folder}/report.html").stat().st_size > 1000
    True
    """
    if isinstance(run, Report):
        return run.write(path)
    if isinstance(run, Run):
        return compose(run).write(path)
    loaded = Run.load(run)
    try:
        report = compose(loaded)
        report.html()
    except Exception as error:  # whatever an edited file leads the page's parts to
        raise ValueError(
            f"{run} is not a run that can be shown: an entry of its files is missing or of "
            f"another kind than expected ({error}). Run it again."
        ) from error
    return report.write(path)


def compose(run: Run) -> Report:
    """Arrange the parts of a run as a report, to which sections can be added.

    Parameters
    ----------
    run : Run

    Returns
    -------
    Report

    Examples
    --------
    >>> from jplay.report import Run, compose
    >>> run = Run("Two classes", {}, ["a", "b"], confusion=[[8, 2], [1, 9]])
    >>> [headline.number for headline in compose(run).headlines]
    ['85.0 %', '85.0 %', '80.0 %']
    """
    comparison = _comparison_chart(run)
    class_map = None
    if run.scene is not None:
        title = f"Class map of the {run.judged}" if run.judged else "Class map"
        class_map = ClassMap(run.scene, run.class_names, title)
    accuracy = [
        comparison if class_map else None,
        _score_table(run),
        _class_table(run),
    ]
    sections = {
        "Accuracy": accuracy,
        "Confusion": _confusion_parts(run),
        "Depth": _depth_parts(run),
        "Subspaces": _subspace_parts(run),
        "Features": _relevance_parts(run),
        "Convergence": _convergence_charts(run),
        "Run": [Facts(run.facts), _parameters(run)],
    }
    listed = [
        Section(title, [part for part in parts if part is not None])
        for title, parts in sections.items()
    ]
    return Report(
        title=run.title,
        lead=_lead(run),
        headlines=_headlines(run),
        main=class_map or comparison or _class_chart(run),
        sections=[section for section in listed if section.parts],
        warnings=[*run.remarks, *_warnings(run)],
        provenance=run.provenance,
    )


def _parameters(run):
    return (
        Facts(run.parameters, "All parameters of the model", closed=True)
        if run.parameters
        else None
    )


def _n_test(run):
    return 0 if run.confusion is None else int(np.sum(run.confusion))


def _overall(run, score):
    """Return the accuracy of a row with its limits: its own, or those of independent samples."""
    value = score.get("overall_accuracy")
    if value is None or score.get("low") is not None or not _n_test(run):
        return Share(value, score.get("low"), score.get("high"))
    return Share.of_counts(round(value * _n_test(run)), _n_test(run))


def _row_name(score):
    classifier = score.get("classifier")
    return (
        f"{score['features']}, {classifier}"
        if classifier not in (None, "built-in")
        else score["features"]
    )


def _lead(run):
    told = []
    if run.facts.get("Data"):
        told.append(run.facts["Data"])
    if run.facts.get("Split"):
        told.append(run.facts["Split"])
    if run.facts.get("Accuracy"):
        told.append(run.facts["Accuracy"])
    elif _n_test(run):
        told.append(f"{_n_test(run)} test samples")
    if len(run.scores) > 1:
        told.append(f"{len(run.scores)} classifiers compared")
    return "; ".join(told) + "." if told else ""


def _headlines(run):
    found = []
    own = run.judged or (OWN_CLASSIFIER if run.scores else "")
    judged = next((score for score in run.scores if score["features"] == run.judged), None)
    if run.confusion is not None:
        counts = np.asarray(run.confusion)
        overall = Share.of_counts(np.trace(counts), counts.sum())
        if judged is not None and judged.get("low") is not None:
            overall = _overall(run, judged)
        found.append(Headline("Overall accuracy", overall, own))
        recalls = _recalls(counts)
        average = Share.mean_of(recalls)
        found.append(Headline("Average accuracy", average, "mean over the classes"))
    elif judged is not None:
        found.append(Headline("Right labels", _overall(run, judged), own))
    elif run.class_figures:
        name, figures = list(run.class_figures.items())[-1]
        known = [figure for figure in figures if figure is not None]
        if known:
            spread = f"from {100 * min(known):.1f} to {100 * max(known):.1f} %"
            found.append(
                Headline(f"Mean {name}", f"{100 * np.mean(known):.1f} %", "over the labels", spread)
            )
    others = [
        s
        for s in run.scores
        if s["features"] != run.judged and s.get("overall_accuracy") is not None
    ]
    if others:
        best = max(others, key=lambda score: score["overall_accuracy"])
        label = "Best other method" if run.judged else "Best row"
        found.append(Headline(label, _overall(run, best), _row_name(best)))
    if run.confusion is not None:
        known = [(share.value, k) for k, share in enumerate(recalls) if share.value is not None]
        if known:
            worst = min(known)[1]
            found.append(
                Headline("Hardest class", recalls[worst], f"of {run.class_names[worst]} found")
            )
    return found


def _recalls(counts):
    return [Share.of_counts(counts[k, k], counts[k].sum()) for k in range(len(counts))]


def _precisions(counts):
    return _recalls(np.transpose(counts))


def _comparison_chart(run):
    rows = {_row_name(score): _overall(run, score) for score in run.scores}
    rows = {name: share for name, share in rows.items() if share.value is not None}
    if len(rows) < 2:
        return None
    ordered = dict(sorted(rows.items(), key=lambda row: -row[1].value))
    return IntervalChart(
        "Methods compared", ordered, "Overall accuracy (%), 95 % interval", run.judged
    )


def _class_chart(run):
    if run.confusion is None or len(run.class_names) > MAX_CHART_ROWS:
        return None
    rows = dict(zip(run.class_names, _recalls(np.asarray(run.confusion)), strict=True))
    return IntervalChart(
        "Share of each class that was found", rows, "Producer's accuracy (%), 95 % interval"
    )


def _score_table(run):
    if not run.scores:
        return None
    shares = [_overall(run, score) for score in run.scores]
    rated = [share.value for share in shares if share.value is not None]
    optional = {
        "Dim.": "n_features", "AA %": "average_accuracy", "kappa": "kappa", "Fit, s": "seconds",
    }  # fmt: skip
    used = {
        heading: key
        for heading, key in optional.items()
        if any(score.get(key) is not None for score in run.scores)
    }
    built_in = all(score.get("classifier") in (None, "built-in") for score in run.scores)
    heading = ["Method"] if built_in else ["Features", "Classifier"]
    rows = []
    for score, share in zip(run.scores, shares, strict=True):
        cells = {heading: score.get(key) for heading, key in used.items()}
        if cells.get("AA %") is not None:
            cells["AA %"] = 100 * cells["AA %"]
        named = [score["features"], score.get("classifier") or "–"]
        rows.append([*named[: len(heading)], share, *cells.values()])
    return Table(
        "Comparison",
        [*heading, "OA %", *used],
        rows,
        note="OA is the share of all test samples that are right, AA the mean over the classes, "
        "kappa the agreement beyond chance. With 95 % intervals.",
        best=next((k for k, s in enumerate(shares) if rated and s.value == max(rated)), None),
        digits={"kappa": 4, "Fit, s": 1},
    )


def _class_table(run):
    if not (run.class_figures or run.confusion is not None):
        return None
    if run.confusion is not None:
        counts = np.asarray(run.confusion)
        figures = {"Producer's %": _recalls(counts), "User's %": _precisions(counts)}
        note = (
            "Producer's accuracy (recall) is the share of a class that was found. User's accuracy "
            "(precision) is the share of the samples assigned to a class that belong to it. "
            "95 % intervals (Wilson)."
        )
    else:
        figures = {
            f"{name} %": [Share(value) for value in values]
            for name, values in run.class_figures.items()
        }
        note = "In percent; a dash if there is nothing to divide by."
    columns = {**run.class_counts, **figures}
    rows = [
        [name, *(column[k] for column in columns.values())]
        for k, name in enumerate(run.class_names)
    ]
    own = f"{run.judged}. " if run.judged else ""
    return Table("Class by class", ["Class", *columns], rows, note=own + note, colored=True)


def _confusion_parts(run):
    if run.confusion is None:
        return []
    counts = np.asarray(run.confusion)
    wrong = counts - np.diag(np.diag(counts))
    order = np.argsort(-wrong, axis=None, kind="stable")[:N_PAIRS]
    pairs = [np.unravel_index(place, wrong.shape) for place in order]
    rows = [
        [
            run.class_names[i],
            run.class_names[j],
            int(wrong[i, j]),
            Share.of_counts(wrong[i, j], counts[i].sum()),
        ]
        for i, j in pairs
        if wrong[i, j]
    ]
    columns = ["True class", "Predicted as", "Samples", "% of the class"]
    return [
        Confusion(counts, run.class_names),
        Table("Most frequent confusions", columns, rows) if rows else None,
    ]


def _depth_parts(run):
    if not run.depth:
        return []
    names = [name for name in run.depth[0] if name != "n_layers"]
    depths = [point["n_layers"] for point in run.depth]
    series = {
        name: [np.nan if p[name] is None else 100 * p[name] for p in run.depth] for name in names
    }
    chart = LineChart(
        "Accuracy against the number of layers",
        depths,
        series,
        x_label="Layers (0: the samples themselves)" if 0 in depths else "Layers",
        y_label="Overall accuracy (%)",
        markers=True,
    )
    rows = [
        [depth, *(_overall(run, {"overall_accuracy": p[name]}) for name in names)]
        for depth, p in zip(depths, run.depth, strict=True)
    ]
    return [chart, Table("Accuracy by depth", ["Layers", *(f"{n}, OA %" for n in names)], rows)]


def _subspace_parts(run):
    if run.planes is None:
        return []
    notes = [
        "1-NN in this space: "
        f"{Share.of_counts(round(share * len(run.point_labels)), len(run.point_labels)).text} %"
        for share in run.layer_accuracy
    ]
    return [
        Text(
            "The same samples before the first projection and after each one, in the plane in "
            "which the class means differ most. Every panel is turned to agree with the one before "
            "it. Samples far from the middle are drawn closer (arsinh of their distance). Choose "
            "classes in the legend. The figure below a panel is the share of these samples that "
            "the nearest training sample classifies correctly, by distances in the layer as it is: "
            "accuracies elsewhere are of the whitened last layer."
        ),
        Panels(list(run.planes), run.point_labels, run.class_names, run.layer_names, notes),
    ]


def _relevance_parts(run):
    if run.relevance is None:
        return []
    shares = np.asarray(run.relevance)
    strength = shares / np.maximum(np.abs(shares).max(axis=1, keepdims=True), 1e-30)
    positions = np.asarray(run.feature_positions)
    text = Text(
        "What each class relies on: every feature adds its weight, against the mean of all classes,"
        " times the distance of the class mean from the mean of all training samples. Red features "
        "speak for the class, blue ones against it; the darkest is the strongest of the class."
    )
    colors = shaded((strength + 1) / 2, SIGNED)
    if run.image_shape is not None:
        images = {
            name: row.reshape(*run.image_shape, 3)
            for name, row in zip(run.class_names, colors, strict=True)
        }
        return [text, Pictures(images, "What every pixel adds", small=True)]
    axis = f"{run.feature_axis}, {positions[0]:.0f} to {positions[-1]:.0f}"
    if run.feature_names:
        axis = f"{len(positions)} features in their order"
    unit = " nm" if "nm" in run.feature_axis else ""
    names = run.feature_names or [f"{position:.0f}{unit}" for position in positions]
    remarks = [", ".join(names[k] for k in _strongest(row)) for row in shares]
    strips = [_spaced(row, positions)[np.newaxis] for row in colors]
    return [text, Strips(run.class_names, strips, axis, remarks)]


def _spaced(colors, positions):
    """Leave room between colours whose bands have others missing in between."""
    missing = gaps(positions)
    if not missing:
        return colors
    opaque = np.concatenate([colors, np.full((len(colors), 1), 255, np.uint8)], axis=1)
    step = np.median(np.diff(positions))
    pieces = np.split(opaque, missing)
    spaced = [pieces[0]]
    for start, piece in zip(missing, pieces[1:], strict=True):
        width = int(np.rint((positions[start] - positions[start - 1]) / step)) - 1
        spaced += [np.zeros((width, 4), np.uint8), piece]
    return np.concatenate(spaced)


def _strongest(shares):
    """Return the three features that add most and are not neighbours of one that adds more."""
    gap = len(shares) // 20
    found: list[int] = []
    for place in np.argsort(-shares, kind="stable"):
        if all(abs(place - other) > gap for other in found):
            found.append(int(place))
        if len(found) == 3:
            break
    return found


def _convergence_charts(run):
    charts = []
    if run.objective:
        total = np.sum([np.asarray(v) for v in run.objective.values()], axis=0)
        # The samples' own size is most of it: only a linear axis shows the descent.
        charts.append(_over_iterations("Objective", "Objective", {"objective": total}, log=False))
        charts.append(_over_iterations("Weighted terms of the objective", "Term", run.objective))
    if run.residuals is not None and len(run.residuals):
        series = {f"layer {k}": v for k, v in enumerate(np.asarray(run.residuals).T, 1)}
        charts.append(_over_iterations("Distance from the constraints", "Largest residual", series))
    return charts


def _over_iterations(title, y_label, series, *, log=True):
    iterations = np.arange(1, len(next(iter(series.values()))) + 1)
    return LineChart(title, iterations, series, x_label="Iteration", y_label=y_label, log=log)


def _warnings(run):
    found = []
    limits = {
        "Training": FEW_TRAINING_SAMPLES,
        "Test": FEW_TEST_SAMPLES,
    }
    for kind, limit in limits.items():
        counts = run.class_counts.get(kind, ())
        few = [f"{run.class_names[k]} ({n})" for k, n in enumerate(counts) if n < limit]
        if few:
            found.append(
                f"Fewer than {limit} {kind.lower()} samples: {some_of(few)}. Figures of these "
                "classes are uncertain."
            )
    touching = _touching_share(run.scene)
    if touching > MANY_NEIGHBOURS:
        found.append(
            f"{100 * touching:.0f} % of the test pixels touch a training pixel. Neighbours look "
            "alike, so these figures are too good: on other fields the accuracy is lower. The "
            "intervals count every pixel as independent, so they are too narrow."
        )
    return found


def _touching_share(scene):
    """Return the share of test pixels with a training pixel among their eight neighbours."""
    if scene is None or scene.pixel_step > 1 or not scene.training.any():
        return 0.0
    tested = (scene.ground_truth > 0) & (scene.training == 0)
    near = binary_dilation(scene.training > 0, np.ones((3, 3)))
    return float(near[tested].mean()) if tested.any() else 0.0
