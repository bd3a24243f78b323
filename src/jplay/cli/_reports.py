"""The pages that ``--report`` asks for: a function for each command."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

MAX_PIXELS = 250_000
"""Of an image on a page; larger ones are thinned out."""
N_SETTINGS_DRAWN = 12
N_BINS = 20
SURE = 0.5
"""Predictions below this probability are counted as unsure."""

ReportFile = Annotated[
    Path | None,
    typer.Option("--report", help="Write a report here: one HTML file that loads nothing."),
]


def check_report(path, force, inputs=()):
    """Refuse a page that cannot be written, before any work."""
    from jplay._optional import import_optional
    from jplay.cli._output import refuse_existing

    if path is not None:
        refuse_existing(path, force, inputs=inputs)
        import_optional("jinja2", feature="--report", extra="report")


def write_fit_report(path, model, found, given):
    """Write what is known of a model that was just fitted.

    Parameters
    ----------
    path : Path
    model : TrainedModel
    found : Samples
        What it was fitted to.
    given : SampleOptions
        Where that is from.
    """
    return _fit_page(model, found, given).write(path)


def _fit_page(model, found, given):
    from jplay.report import compose, record_model

    name, what = given.source.name, type(model.final_step).__name__
    n_classes = len(model.metadata.class_names or ())
    run = record_model(
        model,
        found.X,
        found.y,
        title=f"{what} on {name}",
        facts={
            "Data": f"{name}, {len(found.y)} samples of {n_classes} classes",
            "Preparation": " ".join(found.notes),
        },
        scene=_fitted_view(model, given) if given.is_scene else None,
    )
    return compose(run)


def write_tune_report(path, model, found, given, *, rows, scoring, n_folds):
    """Write the settings that were tried, and what is known of the model with the best.

    Parameters
    ----------
    path, model, found, given
        As for :func:`write_fit_report`.
    rows : list of dict
        ``settings``, ``score`` and ``deviation`` over the folds, the best first.
    scoring : str
    n_folds : int
    """
    from jplay.report import Headline, IntervalChart, Section, Table

    names = list(rows[0]["settings"])
    tried = [row for row in rows if row["score"] is not None]
    shares = {_setting_text(row): _over_folds(row, n_folds) for row in tried[:N_SETTINGS_DRAWN]}
    best = next(iter(shares))
    table = Table(
        "Settings",
        [*names, f"{scoring} %"],
        [[*map(str, row["settings"].values()), _over_folds(row, n_folds)] for row in rows],
        note=f"Means over {n_folds} folds; intervals of 95 % are over the folds. A dash is a "
        "setting that could not be fitted.",
        best=0,
    )
    report = _fit_page(model, found, given)
    chart = IntervalChart("The best settings", shares, f"{scoring} (%), 95 % over folds", best)
    return replace(
        report,
        lead=f"{len(rows)} settings tried on {given.source.name} by {n_folds} folds.",
        headlines=[
            Headline(f"Best {scoring}", shares[best], best),
            Headline(
                "Last of the settings", _over_folds(tried[-1], n_folds), _setting_text(tried[-1])
            ),
            *report.headlines[:2],
        ],
        main=report.main if given.is_scene else chart,
        sections=[
            Section("Settings", [*([chart] if given.is_scene else []), table]),
            *report.sections,
        ],
    ).write(path)


def _setting_text(row):
    return ", ".join(f"{name} {value}" for name, value in row["settings"].items())


def _over_folds(row, n_folds):
    """Return a score with the interval of a mean over folds."""
    from scipy.stats import t as student

    from jplay.report import Share

    if row["score"] is None:
        return Share(None)
    # Deviations are those of the folds themselves, that is, with their number as the divisor.
    half = student.ppf(0.975, n_folds - 1) * row["deviation"] / (n_folds - 1) ** 0.5
    return Share(row["score"], max(row["score"] - half, 0.0), min(row["score"] + half, 1.0))


class PredictionTally:
    """What a report shows of predictions, gathered part by part.

    Parameters
    ----------
    model : TrainedModel
    """

    def __init__(self, model):
        import numpy as np

        self.model = model
        self.names = list(model.metadata.class_names or ())
        self.counts = np.zeros(len(self.names), dtype=np.int64)
        self.confusion = None
        self.histogram = np.zeros(N_BINS, dtype=np.int64)
        self.n_samples = 0

    def add(self, X, predicted, y=None):
        """Count a part.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        predicted : ndarray of shape (n_samples,) or (n_samples, n_labels)
        y : ndarray, optional
            True labels; those that the model does not know are left out.
        """
        import numpy as np

        from jplay.numerics.metrics import confusion_matrix

        self.n_samples += len(predicted)
        if predicted.ndim == 2:
            self.counts += predicted.sum(axis=0)
            return
        labels = self.model.classes.astype(str)
        found = predicted.astype(str)
        self.counts += (found[:, None] == labels).sum(axis=0)
        if y is not None:
            true = np.asarray(y).astype(str)
            known = np.isin(true, labels)
            part = confusion_matrix(true[known], found[known], labels=labels)
            self.confusion = part if self.confusion is None else self.confusion + part
        if hasattr(self.model.estimator, "predict_proba"):
            highest = np.asarray(self.model.estimator.predict_proba(X)).max(axis=1)
            self.histogram += np.histogram(highest, bins=N_BINS, range=(0, 1))[0]

    def write_report(self, path, source):
        """Write what was counted as a page.

        Parameters
        ----------
        path, source : Path
        """
        from jplay.report import Headline, Run, Section, compose

        run = Run(
            f"Predictions for {source.name}",
            {"Data": f"{source.name}, {self.n_samples} samples"},
            self.names,
            confusion=self.confusion,
            class_counts={"Predicted": self.counts.tolist()},
        )
        report = compose(run)
        classes = _share_section(self.names, self.counts, self.n_samples)
        headlines, sections = [], []
        if self.histogram.any():
            unsure = int(self.histogram[: round(N_BINS * SURE)].sum())
            headlines.append(Headline("Unsure", f"{unsure}", f"with less than {100 * SURE:.0f} %"))
            sections.append(Section("Confidence", [_confidence_chart(self.histogram)]))
        largest = int(self.counts.argmax())
        share = f"{100 * self.counts[largest] / max(self.n_samples, 1):.1f} %"
        headlines = [
            *report.headlines[:2],
            Headline("Samples", f"{self.n_samples:,}"),
            *headlines,
            Headline("Most frequent class", share, self.names[largest]),
        ]
        *parts, run_section = report.sections
        return replace(
            report,
            headlines=headlines[:4],
            main=report.main or classes.parts[0],
            sections=[*parts, *([classes] if report.main else []), *sections, run_section],
            warnings=[
                *report.warnings,
                *([] if self.confusion is not None else [_unchecked(self.model)]),
            ],
        ).write(path)


def _unchecked(model):
    accuracy = model.metadata.accuracy
    if not accuracy:
        return "The true classes are not known here, nor was the model's accuracy estimated."
    limits = f" (95 % interval {100 * accuracy['low']:.1f} to {100 * accuracy['high']:.1f})"
    return (
        "The true classes are not known here. The model's accuracy was estimated at its fit: "
        f"{100 * accuracy['overall_accuracy']:.1f} %{limits if 'low' in accuracy else ''}."
    )


def _share_section(names, counts, total, hectares=None, unit="Samples"):
    from jplay.report import Section, Share, Table

    rows = [
        [
            name,
            int(n),
            Share(n / max(total, 1)),
            *([] if hectares is None else [float(n * hectares)]),
        ]
        for name, n in zip(names, counts, strict=True)
    ]
    columns = ["Class", unit, "Share %", *([] if hectares is None else ["Hectares"])]
    note = (
        ""
        if hectares is None
        else (
            "Hectares are counted on the map. Errors make such areas wrong; jplay assess --areas "
            "estimates them from a sample."
        )
    )
    table = Table("Predicted classes", columns, rows, note=note, colored=True)
    return Section("Classes", [table])


def _confidence_chart(histogram):
    import numpy as np

    from jplay.report import LineChart

    return LineChart(
        "Probability of the predicted class",
        100 * (np.arange(N_BINS) + 0.5) / N_BINS,
        {"samples": histogram},
        x_label="Probability (%)",
        y_label="Samples",
        markers=True,
    )


def write_map_report(path, scene, model, map_path):
    """Write a class map as a page with the image, its spectra and its classes.

    Parameters
    ----------
    path : Path
    scene : Scene
    model : TrainedModel
    map_path : Path
        The map that was written.
    """
    import numpy as np

    from jplay.raster import open_labels, pixel_hectares
    from jplay.report import Headline, Run, Share, compose

    labels = open_labels(map_path, scene)
    # A map also has names for pixels without data and for those left unclassified.
    own = {code: name for code, name in labels.names.items() if name in model.metadata.class_names}
    names, codes = list(own.values()), list(own)
    counts = np.zeros(max(codes, default=0) + 1, dtype=np.int64)
    for block in scene.blocks():
        found = labels.read(block)
        counts += np.bincount(found[found < len(counts)].ravel(), minlength=len(counts))
    per_class = counts[codes]
    run = Run(
        f"Class map of {Path(scene.name).name}",
        {"Data": f"{scene.shape[0]} x {scene.shape[1]} pixels, {scene.n_bands} bands"},
        names,
        scene=thinned_view(scene, codes, lambda row, *_, step: labels.read(row)[0, ::step]),
    )
    report = compose(run)
    largest = int(per_class.argmax())
    mapped = int(per_class.sum())
    headlines = [
        Headline("Mapped pixels", f"{mapped:,}"),
        Headline(
            "Largest class", f"{100 * per_class[largest] / max(mapped, 1):.1f} %", names[largest]
        ),
    ]
    accuracy = model.metadata.accuracy
    if accuracy:
        share = Share(accuracy["overall_accuracy"], accuracy.get("low"), accuracy.get("high"))
        headlines.insert(
            0, Headline("Accuracy of the model", share, "estimated when it was fitted")
        )
    section = _share_section(names, per_class, mapped, pixel_hectares(scene), unit="Pixels")
    return replace(
        report,
        headlines=headlines,
        sections=[section, *report.sections],
        warnings=[*report.warnings, _unchecked(model), *(accuracy or {}).get("notes", ())],
    ).write(path)


def thinned_view(scene, codes, classify, *, truth=None):
    """View a scene and its class map in at most :data:`MAX_PIXELS` pixels.

    Parameters
    ----------
    scene : Scene
    codes : sequence
        The classes.
    classify : callable
        From a block of one row, its spectra and which of them are valid, to its classes.
    truth : Labels, optional
        Labels that the model was fitted to, in the same codes.
    """
    import numpy as np

    from jplay.raster import Block
    from jplay.report import scene_view

    height, width, _ = scene.shape
    step = int(np.ceil(np.sqrt(height * width / MAX_PIXELS)))
    cube, class_map, known = [], [], []
    for top in range(0, height, step):
        row = Block(top, top + 1, 0, width)
        spectra, valid = (values[::step] for values in scene.read(row))
        cube.append(np.where(valid[:, None], spectra, np.nan).astype(np.float32))
        class_map.append(classify(row, spectra, valid, step=step))
        if truth is not None:
            known.append(truth.read(row)[0, ::step])
    labelled = np.stack(known) if known else None
    return scene_view(
        np.stack(cube),
        np.stack(class_map),
        codes,
        truth=labelled,
        training=None if labelled is None else labelled > 0,
        wavelengths=None if scene.wavelengths is None else scene.wavelengths[scene.good_bands],
        step=step,
    )


def _fitted_view(model, given):
    """View the image that a model was fitted to, as the model classifies it."""
    import numpy as np

    from jplay.cli._options import parse_bands
    from jplay.raster import open_labels, open_scene

    def classify(row, spectra, valid, *, step):
        found = np.zeros(len(spectra), dtype=np.int64)
        if valid.any():
            found[valid] = model.predict(spectra[valid])
        return found

    bands = parse_bands(given.bad_bands)
    with open_scene(given.source, variable=given.variable, bad_bands=bands) as scene:
        truth = open_labels(given.labels, scene, field=given.field)
        return thinned_view(scene, model.classes, classify, truth=truth)


def write_assess_report(path, assessment, title):
    """Write how well a map agrees with what is known.

    Parameters
    ----------
    path : Path
    assessment : MapAssessment
    title : str
    """
    from jplay.report import Run, Section, compose

    counts = assessment.report.confusion
    facts = {
        "Data": f"{assessment.n_compared} reference pixels of {len(counts)} classes",
        "Left out": f"{assessment.n_excluded} on request, {assessment.n_unclassified} without a "
        "class on the map",
        "Classes matched by": assessment.matched_by,
    }
    run = Run(
        title,
        facts,
        list(assessment.class_names),
        confusion=counts,
        class_counts={"Test": counts.sum(axis=1).tolist(), "Mapped": counts.sum(axis=0).tolist()},
    )
    report = compose(run)
    sections = list(report.sections)
    if assessment.areas is not None:
        sections.insert(0, Section("Areas", [_area_table(assessment.areas)]))
    alike = (
        "Intervals take the reference pixels for independent draws. Pixels of one field are alike, "
        "so that the true intervals are wider."
    )
    return replace(report, sections=sections, warnings=[*report.warnings, alike]).write(path)


def _area_table(areas):
    from jplay.report import Share, Table

    rows = []
    for k, name in enumerate(areas.classes):
        sizes = (areas.mapped_area, areas.area, areas.area_half_width)
        rows.append(
            [
                str(name),
                *(float(size[k]) for size in sizes),
                _plus_minus(
                    Share, areas.producers_accuracy[k], areas.producers_accuracy_half_width[k]
                ),
                _plus_minus(Share, areas.users_accuracy[k], areas.users_accuracy_half_width[k]),
            ]
        )
    columns = ["Class", f"Mapped {areas.unit}", f"Area {areas.unit}", "±"]
    columns += ["Producer's %", "User's %"]
    return Table(
        "Estimated for the whole map",
        columns,
        rows,
        note="From a sample drawn at random within each class of the map (Olofsson et al. 2014).",
    )


def _plus_minus(share, value, half):
    if value != value:
        return share(None)
    return share(float(value), max(float(value - half), 0.0), min(float(value + half), 1.0))
