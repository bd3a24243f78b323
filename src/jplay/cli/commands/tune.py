"""``jplay tune``: the best settings for samples by cross-validation, and the model of them."""

import warnings
from itertools import product
from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer

from jplay.cli import _options as options
from jplay.cli._output import (
    ForceFlag,
    JsonFlag,
    print_json,
    refuse_existing,
    results_console,
    status_console,
)
from jplay.cli._reports import ReportFile, check_report, write_tune_report
from jplay.cli._samples import SampleOptions, gather_samples
from jplay.cli.commands.fit import print_fit, summarize_fit

WEIGHTS = (0.1, 1.0, 10.0)
DEFAULT_GRID = {"alpha": WEIGHTS, "beta": WEIGHTS, "gamma": WEIGHTS, "n_layers": (1, 2)}
N_ROWS_SHOWN = 10
WORDS = {"none": None, "true": True, "false": False}


def tune(
    source: options.SamplesFile,
    output: options.ModelOutput = Path("model.skops"),
    target: options.Target = None,
    group: options.Group = None,
    drop: options.Drop = None,
    id: options.Id = None,
    encode: options.Encode = None,
    impute: options.ImputeOption = None,
    samples: options.SamplesArray = None,
    labels: options.LabelsFile = None,
    field: options.Field = None,
    class_names: options.ClassNames = None,
    bad_bands: options.BadBands = None,
    variable: options.Variable = None,
    max_per_class: options.MaxPerClass = None,
    scale: options.ScaleOption = options.Scale.AUTO,
    grid: Annotated[
        list[str] | None,
        typer.Option(
            help="Values to try, as in alpha=0.1,1,10; repeatable. By default alpha, beta and "
            "gamma of 0.1, 1, 10 with one and two layers."
        ),
    ] = None,
    cv: Annotated[int, typer.Option(min=2, help="Number of folds.")] = 5,
    jobs: options.Jobs = 1,
    device: Annotated[
        str | None, typer.Option(help="Device that solves folds and settings, such as cuda.")
    ] = None,
    scoring: Annotated[str, typer.Option(help="A score by scikit-learn's name.")] = "accuracy",
    seed: options.Seed = 0,
    report: ReportFile = None,
    force: ForceFlag = False,
    json: JsonFlag = False,
):
    """Try settings by cross-validation, and save the model with the best.

    Whole groups of a table and whole fields of an image are left out together.

    For example:

      jplay tune train.csv --target species -o model.skops

      jplay tune train.csv --target species --grid alpha=1,10 --grid n_layers=1,2,3 --cv 5

      jplay tune scene.hdr --labels polygons.gpkg --field class --max-per-class 100
    """
    started = perf_counter()
    given = SampleOptions(
        *(source, target, samples, group, drop, id, encode, impute, scale),
        *(labels, field, class_names, bad_bands, variable, max_per_class, seed),
    )
    given.check()
    refuse_existing(output, force, inputs=given.inputs)
    check_report(report, force, inputs=given.inputs)
    from sklearn.exceptions import FitFailedWarning
    from sklearn.metrics import get_scorer

    from jplay._optional import import_optional
    from jplay.cli._bars import StepBar
    from jplay.estimators import JPlaySearchCV
    from jplay.experiments import estimator_parameters
    from jplay.inspection import leave_out_folds
    from jplay.persistence import save_model, train_model

    import_optional("skops.io", feature="Saving models", extra="persist")
    get_scorer(scoring)
    values = parse_grid(grid)
    points = list_points(values)
    _check_points(points)
    if device is not None:
        _check_device(device)
    console = status_console()
    with (
        StepBar("Reading spectra", console, disable=json) as pixels,
        StepBar("Trying settings", console, disable=json) as progress,
        StepBar("Fitting", console, disable=json) as fits,
    ):
        found = gather_samples(given, pixels)
        estimator = found.estimator()
        prefix = f"{estimator.steps[-1][0]}__" if hasattr(estimator, "steps") else ""
        folds = leave_out_folds(found.y, found.groups, n_folds=cv, random_state=seed)
        candidates = [
            {f"{prefix}{name}": value for name, value in estimator_parameters(point).items()}
            for point in points
        ]
        for note in (*found.notes, _expected_time(estimator, candidates, found, folds, jobs)):
            console.print(note, highlight=False, markup=False, soft_wrap=True)
        progress(0, 1)
        search = JPlaySearchCV(
            [{name: [value] for name, value in candidate.items()} for candidate in candidates],
            estimator=estimator,
            scoring=scoring,
            cv=folds,
            refit=False,
            device=device,
            n_jobs=jobs,
        )
        with warnings.catch_warnings():
            # The table shows which settings failed.
            warnings.filterwarnings("ignore", "One or more of the test scores are non-finite")
            warnings.simplefilter("ignore", FitFailedWarning)
            try:
                search.fit(found.X, found.y, progress=progress)
            except ValueError as error:
                if "fits failed" not in str(error):
                    raise
                reason = str(error).strip().splitlines()[-1].partition(": ")[2]
                raise ValueError(
                    f"--grid should hold a setting that can be fitted, got {len(points)} that "
                    f"cannot. {reason}"
                ) from error
        rows = ranked_rows(search.cv_results_, points)
        model = train_model(
            found.X,
            found.y,
            estimator.set_params(**search.best_params_),
            metadata=found.metadata,
            source=found.origin,
            cv=cv,
            groups=found.groups,
            group_name=found.group_name,
            random_state=seed + 1,  # other folds than those that chose
            progress=fits,
        )
    assert model.metadata.accuracy is not None  # because of cv
    model.metadata.accuracy["notes"].append(
        f"The settings are the best of {len(rows)} on these samples, so this figure is a "
        "little too good. Measure on others as well."
    )
    save_model(model, output)
    if report is not None:
        write_tune_report(
            report, model, found, given, rows=rows, scoring=scoring, n_folds=len(folds)
        )
    fitted = summarize_fit(model, source, output, perf_counter() - started, report)
    summary = {
        **fitted,
        "scoring": scoring,
        "cv": len(folds),
        "best_score": rows[0]["score"],
        "best_settings": rows[0]["settings"],
        "settings": rows,
        "notes": found.notes,
    }
    if json:
        print_json(summary)
    else:
        _print_rows(summary, list(values))
        print_fit(fitted)


def _check_points(points):
    """Refuse settings that no samples could make valid."""
    from jplay.estimators import JPlay
    from jplay.experiments import estimator_parameters

    for point in points:
        try:
            JPlay(**estimator_parameters(point))._validate_params()
        except (ValueError, TypeError) as error:
            shown = ", ".join(f"{name}={value}" for name, value in point.items())
            raise ValueError(
                f"--grid holds a setting that is not valid, {shown}: {error}"
            ) from None


def _expected_time(estimator, candidates, found, folds, jobs):
    """Say how long the search will take, from one fit of the first and of the last setting."""
    from sklearn.base import clone

    from jplay.cli._bars import duration

    train = folds[0][0]
    X = found.X.iloc[train] if hasattr(found.X, "iloc") else found.X[train]
    started = perf_counter()
    tried = 0
    for candidate in (candidates[0], candidates[-1]):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                clone(estimator).set_params(**candidate).fit(X, found.y[train])
            tried += 1
        except (ValueError, ArithmeticError):
            continue  # the search ranks it last
    n_fits = len(candidates) * len(folds)
    told = f"{len(candidates)} settings, {len(folds)} folds: {n_fits} fits"
    if not tried:
        return f"{told}."
    seconds = (perf_counter() - started) / tried * n_fits / jobs
    return f"{told}, at most about {duration(seconds)}."


def parse_grid(texts):
    """Turn ``["alpha=0.1,1", "n_layers=1,2"]`` into values by name, or None into the default."""
    from jplay.estimators import JPlay
    from jplay.experiments import PLAIN_SETTINGS
    from jplay.tables import did_you_mean

    if not texts:
        return dict(DEFAULT_GRID)
    known = sorted({*JPlay().get_params(), *PLAIN_SETTINGS})
    grid = {}
    for text in texts:
        name, _, values = text.partition("=")
        name, parts = name.strip(), [part.strip() for part in values.split(",")]
        if not all(parts):
            raise ValueError(f"--grid should look like alpha=0.1,1,10, got {text!r}.")
        if name not in known:
            raise ValueError(
                f"--grid should name a setting of J-Play ({', '.join(known)}), got {name!r}."
                f"{did_you_mean(name, known)}"
            )
        grid[name] = [_value(part) for part in parts]
    return grid


def list_points(grid):
    """Return every combination of a grid's values, the last name varying first."""
    names = sorted(grid)
    return [
        dict(zip(names, values, strict=True)) for values in product(*(grid[name] for name in names))
    ]


def _value(text):
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return WORDS.get(text.lower(), text)


def _check_device(device):
    from jplay._optional import import_optional

    torch = import_optional("torch", feature="--device", extra="torch")
    try:
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ValueError(
            f"--device should be a device that PyTorch can use, got {device!r} ({error}). Leave "
            "it out to search on the CPU."
        ) from error


def ranked_rows(results, points):
    """Return the points of a search with their scores as plain values, the best first."""
    import numpy as np

    rows = []
    for index in np.argsort(results["rank_test_score"], kind="stable"):
        score = float(results["mean_test_score"][index])
        failed = bool(np.isnan(score))
        rows.append(
            {
                "settings": points[index],
                "score": None if failed else score,
                "deviation": None if failed else float(results["std_test_score"][index]),
            }
        )
    return rows


def _print_rows(summary, names):
    from rich.table import Table

    rows = summary["settings"]
    shown = rows[:N_ROWS_SHOWN]
    table = Table(title=f"{len(rows)} settings, {summary['cv']} folds; the best {len(shown)}")
    for heading in (*names, summary["scoring"], "±"):
        table.add_column(heading, justify="right")
    for position, row in enumerate(shown):
        figures = (row["score"], row["deviation"])
        table.add_row(
            *(str(row["settings"][name]) for name in names),
            *("failed" if figure is None else f"{figure:.4f}" for figure in figures),
            style=None if position else "bold",
        )
    console = results_console()
    console.print(table)
    best = ", ".join(f"{name} = {value}" for name, value in summary["best_settings"].items())
    console.print(
        f"Best: {best}; {summary['scoring']} {summary['best_score']:.4f}.",
        highlight=False,
        soft_wrap=True,
    )
