"""``jplay tune``: the best settings for a table by cross-validation, and the model of them."""

import warnings
from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer

from jplay.cli._fit import Scaling, fit_table, print_fit, summarize_fit
from jplay.cli._output import JsonFlag, print_json, results_console, status_console

WEIGHTS = (0.1, 1.0, 10.0)
DEFAULT_GRID = {"alpha": WEIGHTS, "beta": WEIGHTS, "gamma": WEIGHTS, "n_layers": (1, 2)}
N_ROWS_SHOWN = 10
WORDS = {"none": None, "true": True, "false": False}


def tune(
    source: Annotated[Path, typer.Argument(help="Table (CSV, Parquet, NPZ, MAT).")],
    target: Annotated[
        list[str],
        typer.Option(help="Column with the class; repeat it for 0/1 columns of several labels."),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Model file to write.")] = Path(
        "model.skops"
    ),
    grid: Annotated[
        list[str] | None,
        typer.Option(
            help="Values to try, as in alpha=0.1,1,10; repeatable. By default alpha, beta and "
            "gamma of 0.1, 1, 10 with one and two layers."
        ),
    ] = None,
    features: Annotated[
        str, typer.Option(help="Array with the samples, in an NPZ or MAT file.")
    ] = "X",
    scale: Annotated[Scaling, typer.Option(help="Divide each sample by this norm.")] = Scaling.MAX,
    cv: Annotated[int, typer.Option(min=2, help="Number of folds.")] = 10,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="Processes.")] = 1,
    device: Annotated[
        str | None, typer.Option(help="Solve folds and settings as one batch, e.g. on cuda.")
    ] = None,
    scoring: Annotated[str, typer.Option(help="A score by scikit-learn's name.")] = "accuracy",
    seed: Annotated[int, typer.Option(min=0, help="Draws the folds.")] = 0,
    json: JsonFlag = False,
):
    """Try settings on a table by cross-validation, and save the model with the best.

    For example:

      jplay tune train.csv --target species -o model.skops

      jplay tune train.csv --target species --grid alpha=1,10 --grid n_layers=1,2,3 --cv 5
    """
    from jplay._optional import import_optional
    from jplay.cli._progress import StepProgress
    from jplay.cli._tables import read_table
    from jplay.estimators import JPlaySearchCV
    from jplay.persistence import default_estimator, save_model
    from jplay.persistence._train import stratified_folds

    import_optional("skops.io", feature="Saving models", extra="persist")
    started = perf_counter()
    values = parse_grid(grid)
    if device is not None:
        _check_device(device)
    table = read_table(source, target=target, features=features)
    estimator = default_estimator(norm=None if scale is Scaling.NONE else scale.value)
    prefix = f"{estimator.steps[-1][0]}__" if hasattr(estimator, "steps") else ""
    search = JPlaySearchCV(
        {prefix + name: list(tried) for name, tried in values.items()},
        estimator=estimator,
        scoring=scoring,
        cv=stratified_folds(table.y, cv, seed) if table.y.ndim == 1 else cv,
        refit=False,
        device=device,
        n_jobs=jobs,
    )
    with (
        StepProgress("Trying settings", status_console(), disable=json) as progress,
        warnings.catch_warnings(),
    ):
        # The table shows which settings failed.
        warnings.filterwarnings("ignore", "One or more of the test scores are non-finite")
        search._search(table.X, table.y, progress)
    rows = ranked_rows(search.cv_results_, prefix)
    if rows[0]["score"] is None:
        raise ValueError(
            f"--grid should hold a setting that can be fitted, got {len(rows)} that cannot. "
            "Run jplay fit with one of them to see why."
        )
    model = fit_table(table, source, target, estimator.set_params(**search.best_params_))
    save_model(model, output)
    fitted = summarize_fit(model, source, output, perf_counter() - started)
    summary = {
        **fitted,
        "scoring": scoring,
        "cv": cv,
        "best_score": rows[0]["score"],
        "best_settings": rows[0]["settings"],
        "settings": rows,
    }
    if json:
        print_json(summary)
    else:
        _print_rows(summary, list(values))
        print_fit(fitted)


def parse_grid(texts):
    """Turn ``["alpha=0.1,1", "n_layers=1,2"]`` into values by name, or None into the default."""
    from jplay.estimators import JPlay

    if not texts:
        return dict(DEFAULT_GRID)
    known = JPlay().get_params()
    grid = {}
    for text in texts:
        name, _, values = text.partition("=")
        name, parts = name.strip(), [part.strip() for part in values.split(",")]
        if not all(parts):
            raise ValueError(f"--grid should look like alpha=0.1,1,10, got {text!r}.")
        if name not in known:
            raise ValueError(
                f"--grid should name a setting of J-Play ({', '.join(known)}), got {name!r}."
            )
        grid[name] = [_value(part) for part in parts]
    return grid


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


def ranked_rows(results, prefix):
    """Return the settings of a search with their scores as plain values, the best first."""
    import numpy as np

    rows = []
    for index in np.argsort(results["rank_test_score"], kind="stable"):
        score = float(results["mean_test_score"][index])
        failed = bool(np.isnan(score))
        settings = results["params"][index]
        rows.append(
            {
                "settings": {k.removeprefix(prefix): v for k, v in settings.items()},
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
        f"Best: {best}; {summary['scoring']} {summary['best_score']:.4f}. It is the best of "
        f"{len(rows)}, so measure on samples of your own as well.",
        highlight=False,
        soft_wrap=True,
    )
