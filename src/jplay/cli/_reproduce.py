"""``jplay reproduce`` and ``jplay study``: run a comparison, write its tables and a report."""

from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer

from jplay.cli._output import JsonFlag, print_json, results_console, status_console

OutputDir = Annotated[
    Path, typer.Option("--output-dir", "-o", help="Folder of records, tables and figures.")
]
Jobs = Annotated[int, typer.Option("--jobs", "-j", min=1, help="Processes.")]
Resume = Annotated[
    bool, typer.Option("--resume", help="Continue a run from its records, computing none again.")
]
Quick = Annotated[bool, typer.Option("--quick", help="A part that takes under five minutes.")]
Splits = Annotated[int | None, typer.Option(min=1, help="Most splits.")]
Methods = Annotated[
    list[str] | None, typer.Option("--method", help="Only these rows; wildcards, repeatable.")
]
Classifiers = Annotated[
    list[str] | None, typer.Option("--classifier", help="Only these columns; repeatable.")
]
Transductive = Annotated[
    bool,
    typer.Option("--transductive", help="Scale features over test samples too, as the paper does."),
]
Figures = Annotated[bool, typer.Option("--figures/--no-figures", help="Draw the figures.")]

TablesOnly = Annotated[
    bool,
    typer.Option("--tables-only", help="Compute no cell: tables and figures of what there is."),
]
KeepFits = Annotated[
    bool, typer.Option("--keep-fits", help="Keep fitted models, to add columns later.")
]


def reproduce(
    recipe: Annotated[
        str, typer.Argument(help="table1, table2, a data set of them, or a .toml file.")
    ],
    output_dir: OutputDir = Path("results"),
    quick: Quick = False,
    jobs: Jobs = 1,
    resume: Resume = False,
    splits: Splits = None,
    method: Methods = None,
    classifier: Classifiers = None,
    transductive: Transductive = False,
    figures: Figures = True,
    keep_fits: KeepFits = False,
    tables_only: TablesOnly = False,
    json: JsonFlag = False,
):
    """Repeat a table of the paper and print ours, the published figures and the difference.

    Each data set's records go to OUTPUT_DIR/<data set>/records.jsonl, and the report on its best
    J-Play to report.html beside them.
    """
    from jplay.experiments import load_recipes

    recipes = [
        (r.quickened() if quick else r).restricted(
            n_splits=splits, methods=method, classifiers=classifier
        )
        for r in load_recipes(recipe)
    ]
    options = RunOptions(
        output_dir, jobs, resume, transductive, figures, keep_fits, tables_only, json
    )
    _run_all(recipes, options)


def study(
    data: Annotated[Path, typer.Option(help="A .npz, .csv or .mat file; see the manual.")],
    target: Annotated[
        str | None, typer.Option(help="Array or column of the labels; by default y or the last.")
    ] = None,
    n_train: Annotated[
        int, typer.Option(min=1, help="Training samples per class, unless the file divides them.")
    ] = 10,
    splits: Annotated[int, typer.Option(min=1, help="Random divisions.")] = 3,
    n_components: Annotated[
        int, typer.Option(min=1, help="Dimension of the learned subspaces.")
    ] = 20,
    max_layers: Annotated[int, typer.Option(min=1, help="Largest number of layers.")] = 3,
    seed: Annotated[int, typer.Option(min=0, help="Draws the training samples.")] = 0,
    output_dir: OutputDir = Path("study"),
    jobs: Jobs = 1,
    resume: Resume = False,
    method: Methods = None,
    classifier: Classifiers = None,
    transductive: Transductive = False,
    figures: Figures = True,
    keep_fits: KeepFits = False,
    tables_only: TablesOnly = False,
    json: JsonFlag = False,
):
    """Run the paper's comparison on your own data.

    Tables, figures and report.html, a page on the best J-Play, go to OUTPUT_DIR/<data>.
    """
    from jplay.experiments import study_recipe

    recipe = study_recipe(
        data,
        target=target,
        n_train=n_train,
        n_splits=splits,
        n_components=n_components,
        max_layers=max_layers,
        seed=seed,
    ).restricted(methods=method, classifiers=classifier)
    options = RunOptions(
        output_dir, jobs, resume, transductive, figures, keep_fits, tables_only, json
    )
    _run_all([recipe], options)


@dataclass(frozen=True)
class RunOptions:
    """What both commands let the user decide about a run."""

    output_dir: Path
    n_jobs: int
    resume: bool
    transductive: bool
    figures: bool
    keep_fits: bool
    tables_only: bool
    json: bool


def _run_all(recipes, options):
    """Run recipes one after the other; write and print a table for each."""
    from jplay._optional import import_optional
    from jplay.cli._run_report import report_on_run
    from jplay.experiments import Experiment, Table, write_results

    if options.figures:
        # Asked for now, so that a missing package is not found out after hours.
        import_optional("matplotlib.figure", feature="Drawing figures", extra="plot")
    summaries = []
    for recipe in recipes:
        folder = options.output_dir / recipe.name
        _check_folder(folder, options)
        started = perf_counter()
        experiment = Experiment(
            recipe,
            folder,
            scaling="transductive" if options.transductive else "inductive",
            keep_fits=options.keep_fits,
        )
        if not options.tables_only:
            with RunProgress(status_console(), disable=options.json) as progress:
                experiment.run(n_jobs=options.n_jobs, progress=progress)
        table = Table.of(experiment)
        written = write_results(experiment, table, folder, figures=options.figures)
        report = report_on_run(experiment, table, folder, console=status_console())
        if report is not None:
            written.append(report)
        summaries.append(_summary(experiment, table, written, perf_counter() - started))
        if not options.json:
            _print_table(experiment, table, written)
    if options.json:
        print_json(summaries)


def _check_folder(folder, options):
    has_records = (folder / "records.jsonl").exists()
    if options.tables_only and not has_records:
        raise ValueError(f"`output_dir` should hold records, but '{folder}' has none. Run first.")
    if has_records and not options.resume and not options.tables_only:
        raise ValueError(
            f"`output_dir` should be new, but '{folder}' holds records. Add --resume to "
            "continue from them or choose another folder."
        )


class RunProgress:
    """A bar per stage with the last finished row and an estimate of the time left."""

    def __init__(self, console, *, disable=False):
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
        )

        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
            console=console,
            disable=disable,
        )
        self._task = None

    def __enter__(self):
        self._bar.start()
        return self

    def __exit__(self, *error):
        self._bar.stop()

    def __call__(self, progress):
        if progress.label == "starting":
            self._first = progress.n_done
            self._task = self._bar.add_task(progress.recipe, total=progress.n_total, left="")
        computed = progress.n_done - self._first
        left = ""
        if computed:
            remaining = (progress.n_total - progress.n_done) * progress.seconds / computed
            left = f"about {_duration(remaining)} left"
        failed = f", {progress.n_failed} failed" if progress.n_failed else ""
        self._bar.update(
            self._task,
            completed=progress.n_done,
            description=f"{progress.recipe}: {progress.label}{failed}",
            left=left,
        )


def _duration(seconds):
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _summary(experiment, table, written, seconds):
    return {
        "recipe": experiment.recipe.name,
        "fingerprint": experiment.problem.fingerprint,
        "seconds": round(seconds, 3),
        "failed": len(experiment.failures()),
        "files": [str(path) for path in written],
        "cells": [
            {
                "method": entry.method,
                "classifier": entry.classifier,
                "n_splits": entry.n_splits,
                "ours": entry.mean,
                "published": entry.published,
                "difference": entry.difference,
                **entry.labels,
            }
            for entry in table.entries.values()
        ],
    }


def _print_table(experiment, table, written):
    console = results_console()
    console.print(f"\n{table.title}", style="bold")
    console.print(table.to_markdown(), markup=False, soft_wrap=True)
    for failure in experiment.failures():
        console.print(
            f"failed: {failure['method']}, {failure['classifier']}, split "
            f"{failure['split'] + 1}: {failure['error']}",
            markup=False,
            soft_wrap=True,
        )
    for path in written:
        console.print(str(path), markup=False, soft_wrap=True)
