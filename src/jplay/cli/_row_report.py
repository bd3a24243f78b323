"""The report on one row of a comparison: of the demo's J-Play, or of the best in a table."""

import warnings
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

MAX_FIT_SECONDS = 120.0
"""A fit that took longer is not repeated for the report."""


@dataclass(frozen=True, eq=False)
class Judged:
    """What a row predicts."""

    name: str
    predicted: Any
    """Labels of the test samples."""
    class_map: Any
    """Labels of every pixel of a scene, or None."""

    @classmethod
    def of(cls, fitted, divided, name):
        """Classify the test samples of the first split, and all pixels if there is a scene."""
        data, (_, test) = divided.data, divided.splits[0]
        cube = data.get("cube")
        if cube is None:
            return cls(name, fitted.model.predict(fitted.inputs(divided.X[test])), None)
        class_map = fitted.own_labels(cube)
        return cls(name, class_map.ravel()[data.pixel_indices[test]], class_map)


def write_row_report(
    experiment, fitted, folder, *, title, facts, scores, depth, decision=None, judged=None
):
    """Save a J-Play row's fit to the first split as a run, and write the page of it.

    Parameters
    ----------
    experiment : Experiment
    fitted : FittedRow
    folder : path-like
        Gets ``run.json``, ``run.npz`` and ``report.html``.
    title : str
    facts : dict of str to str
    scores, depth : list of dict
        Rows of the comparison, and accuracy by the number of layers.
    decision : str, optional
        How the model decides, if not as it was fitted.
    judged : Judged, optional
        The row whose predictions are shown, if they are not the model's.

    Returns
    -------
    Path
    """
    from jplay.report import record_run, write_report

    divided, data, model = experiment.divided, experiment.divided.data, fitted.model
    if decision is not None:
        model.set_params(decision=decision)
    X = fitted.inputs(divided.X)
    names, image_shape = data.get("target_names"), data.get("image_shape")
    is_image = image_shape is not None and image_shape[0] * image_shape[1] == X.shape[1]
    scene = data if data.get("cube") is not None else None
    judged = judged or Judged("", None, None if scene is None else fitted.own_labels(scene.cube))
    train, test = divided.splits[0]
    run = record_run(
        model,
        X,
        divided.y,
        train=train,
        test=test,
        title=title,
        facts=facts,
        class_names=names if names is not None and len(names) == len(model.classes_) else None,
        scores=scores,
        depth=depth,
        scene=scene,
        class_map=judged.class_map,
        judged=judged.name,
        predicted=judged.predicted,
        image_shape=image_shape if is_image else None,
    )
    run.save(folder)
    return write_report(run, folder / "report.html")


def report_on_best(experiment, table, folder, *, console):
    """Write the report of a comparison's best J-Play, and return its path.

    The comparison itself is done by then, so that whatever goes wrong here is told on ``console``
    in one line and no file is written; None is returned.
    """
    from jplay.cli._errors import describe

    best = _best_record(experiment)
    if best is None:
        return None  # no row of the table is J-Play's
    try:
        return write_best_report(experiment, table, folder, best)
    except Exception as error:  # a finished run does not fail for want of its report
        console.print(f"No report: {describe(error)}", markup=False, soft_wrap=True)
        return None


def write_best_report(experiment, table, folder, best):
    """Write ``report.html`` on the row of a record."""
    from sklearn.exceptions import ConvergenceWarning

    task = experiment.task_of(best["key"])
    seconds = best["fit"]["seconds"]
    if seconds > MAX_FIT_SECONDS and not experiment.fit_path(task).exists():
        raise ValueError(
            f"the fit of {best['method']} took {seconds:.0f} s and was not kept. Add --keep-fits "
            "to a run to have one."
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the report says how the fit ended
        fitted = experiment.fitted(task, leave=False)
    return write_row_report(
        experiment,
        fitted,
        folder,
        title=f"J-Play: {experiment.recipe.title}",
        facts=_facts(experiment, best),
        scores=score_rows(table),
        depth=[] if table.multilabel else depth_points(table, task.method.family),
        decision=best["classifier_parameters"].get("decision"),
    )


def _best_record(experiment):
    """Return the J-Play cell with the best figure on the first split, or None."""
    ours = {method.name for method in experiment.recipe.methods if method.kind == "jplay"}
    figure = "average_precision" if experiment.divided.multilabel else "overall_accuracy"
    cells = [
        record
        for record in experiment.cell_records()
        if record["method"] in ours and record["split"] == 0
    ]
    return max(cells, key=lambda record: record["result"][figure], default=None)


def _facts(experiment, best):
    divided = experiment.divided
    n_classes = divided.y.shape[1] if divided.multilabel else len(set(divided.y.tolist()))
    return {
        "Data": f"{experiment.recipe.title}, {len(divided.y)} samples, {n_classes} "
        f"{'labels' if divided.multilabel else 'classes'}",
        "Row": f"{best['method']}, which has the best figure ({best['classifier']}) of J-Play's "
        f"rows on the test samples of split 1 of {len(divided.splits)}",
        "Table": "means over the splits; the confusion matrix and the map are of the row's own "
        "classifier",
        "Time": f"{best['fit']['seconds']:.1f} s for the fit",
    }


def score_rows(table):
    """Return the rows of a table that have all three figures, as fractions."""
    return [
        {
            "features": entry.method,
            "n_features": entry.sizes[0] if len(entry.sizes) == 1 else entry.n_features,
            "classifier": entry.classifier,
            "overall_accuracy": entry.mean / 100,
            "average_accuracy": entry.average_accuracy / 100,
            "kappa": entry.kappa,
            "seconds": entry.training_seconds,
            **_limits(list(entry.by_split.values())),
        }
        for entry in table.entries.values()
        if None not in (entry.mean, entry.average_accuracy, entry.kappa)
    ]


def _limits(accuracies):
    """Return the 95 % limits of a mean over splits; nothing of a single one."""
    known = [value for value in accuracies if value is not None]
    if len(known) < 2:
        return {}
    from scipy.stats import t as student

    half = student.ppf(0.975, len(known) - 1) * stdev(known) / len(known) ** 0.5
    return {"low": max(fmean(known) - half, 0.0), "high": min(fmean(known) + half, 1.0)}


def depth_points(table, family):
    """Return the accuracies of the rows of one family by their number of layers."""
    points = {}
    for entry in table.entries.values():
        if family is not None and entry.family == family:
            point = points.setdefault(entry.depth, {"n_layers": entry.depth})
            point[entry.classifier] = None if entry.mean is None else entry.mean / 100
    return [points[depth] for depth in sorted(points)]
