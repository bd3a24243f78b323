"""The report at the end of ``jplay study`` and ``jplay reproduce``."""

import warnings

LONGEST_FIT = 120.0
"""Seconds; a fit that took longer is not repeated for the report."""


def report_on_run(experiment, table, folder, *, console):
    """Write the report of a run's best J-Play, and return its path.

    The run itself is done by then, so that whatever goes wrong here is told on ``console`` in one
    line and no file is written; None is returned.
    """
    from jplay.cli._errors import describe

    if _best_record(experiment) is None:
        return None  # no row of the table is J-Play's
    try:
        return write_run_report(experiment, table, folder)
    except Exception as error:  # a finished run does not fail for want of its report
        console.print(f"No report: {describe(error)}", markup=False, soft_wrap=True)
        return None


def write_run_report(experiment, table, folder):
    """Write ``report.html`` on the J-Play with the best figure on the first split."""
    from sklearn.exceptions import ConvergenceWarning

    from jplay.experiments.runner import inputs_of, own_model, take_up_or_fit
    from jplay.report import record_run, write_report

    best = _best_record(experiment)
    task = experiment.task_of(best["key"])
    _check_duration(experiment, task, best)
    problem, data = experiment.problem, experiment.problem.data
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the report says how the fit ended
        params = experiment.parameters(task.method, task.split)
        pipeline = take_up_or_fit(experiment, task, params, leave=False).pipeline
    model = own_model(pipeline)
    decision = best["classifier_parameters"].get("decision")
    if decision is not None:
        model.set_params(decision=decision)
    X = inputs_of(pipeline, model, problem.X)
    names, image_shape = data.get("target_names"), data.get("image_shape")
    is_image = image_shape is not None and image_shape[0] * image_shape[1] == X.shape[1]
    scene = data if data.get("cube") is not None else None
    train, test = problem.splits[0]
    run = record_run(
        model,
        X,
        problem.y,
        train=train,
        test=test,
        title=f"J-Play: {experiment.recipe.title}",
        facts=_facts(experiment, best),
        class_names=names if names is not None and len(names) == len(model.classes_) else None,
        scores=_scores(table),
        depth=_depth(table, best),
        scene=scene,
        class_map=None if scene is None else _class_map(scene.cube, pipeline, model),
        image_shape=image_shape if is_image else None,
    )
    run.save(folder)
    return write_report(run, folder / "report.html")


def _best_record(experiment):
    """Return the J-Play cell with the best figure on the first split, or None."""
    ours = {method.name for method in experiment.recipe.methods if method.kind == "jplay"}
    figure = "average_precision" if experiment.problem.multilabel else "overall_accuracy"
    cells = [
        record
        for record in experiment.cell_records()
        if record["method"] in ours and record["split"] == 0
    ]
    return max(cells, key=lambda record: record["result"][figure], default=None)


def _check_duration(experiment, task, best):
    from jplay.experiments.runner import fit_path

    seconds = best["fit"]["seconds"]
    if seconds > LONGEST_FIT and not fit_path(experiment, task).exists():
        raise ValueError(
            f"the fit of {best['method']} took {seconds:.0f} s and was not kept. Add --keep-fits "
            "to a run to have one."
        )


def _facts(experiment, best):
    problem = experiment.problem
    n_classes = problem.y.shape[1] if problem.multilabel else len(set(problem.y.tolist()))
    return {
        "Data": f"{experiment.recipe.title}, {len(problem.y)} samples, {n_classes} "
        f"{'labels' if problem.multilabel else 'classes'}",
        "Row": f"{best['method']}, which has the best figure ({best['classifier']}) of J-Play's "
        f"rows on the test samples of split 1 of {len(problem.splits)}",
        "Table": "means over the splits; the confusion matrix and the map are of the row's own "
        "classifier",
        "Time": f"{best['fit']['seconds']:.1f} s for the fit",
    }


def _scores(table):
    return [
        {
            "features": entry.method,
            "n_features": entry.n_features,
            "classifier": entry.classifier,
            "overall_accuracy": entry.mean / 100,
            "average_accuracy": entry.average_accuracy / 100,
            "kappa": entry.kappa,
        }
        for entry in table.entries.values()
        if None not in (entry.mean, entry.average_accuracy, entry.kappa)
    ]


def _depth(table, best):
    """Return the accuracy of the best row and of those that differ from it in depth alone."""
    family = table.entries[best["method"], best["classifier"]].family
    if family is None or table.multilabel:
        return []
    points = {}
    for entry in table.entries.values():
        if entry.family == family:
            point = points.setdefault(entry.depth, {"n_layers": entry.depth})
            point[entry.classifier] = None if entry.mean is None else entry.mean / 100
    return [points[depth] for depth in sorted(points)]


def _class_map(cube, pipeline, model):
    import numpy as np

    from jplay.experiments.runner import inputs_of

    pixels = cube.reshape(-1, cube.shape[2])
    parts = np.array_split(pixels, max(1, len(pixels) // 20_000))
    labels = [model.predict(inputs_of(pipeline, model, part)) for part in parts]
    return np.concatenate(labels).reshape(cube.shape[:2])
