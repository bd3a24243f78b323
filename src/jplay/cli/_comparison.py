"""What ``reproduce`` and ``study`` share: run recipes, write and print what they found."""

from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer

from jplay.cli._options import Jobs as Jobs
from jplay.cli._output import command_line, print_json, results_console, status_console

OutputDir = Annotated[
    Path, typer.Option("--output-dir", "-o", help="Folder of records, tables and figures.")
]
Resume = Annotated[
    bool, typer.Option("--resume", help="Continue a run from its records, computing none again.")
]
Only = Annotated[
    list[str] | None, typer.Option("--only", help="Run only these rows; wildcards, repeatable.")
]
Classifiers = Annotated[
    list[str] | None,
    typer.Option("--classifier", help="Run only these columns; wildcards, repeatable."),
]
Transductive = Annotated[
    bool,
    typer.Option("--transductive", help="Scale features over test samples too, as the paper does."),
]
Figures = Annotated[bool, typer.Option("--figures/--no-figures", help="Draw the figures.")]
KeepFits = Annotated[
    bool, typer.Option("--keep-fits", help="Keep fitted models, to add columns later.")
]
TablesOnly = Annotated[
    bool,
    typer.Option("--tables-only", help="Compute no cell: tables and figures of what there is."),
]


@dataclass(frozen=True)
class RunOptions:
    """What the user decides about a run."""

    output_dir: Path
    n_jobs: int
    resume: bool
    transductive: bool
    figures: bool
    keep_fits: bool
    tables_only: bool
    json: bool


def check_folders(names, options):
    """Refuse folders with records that would be added to unasked, or without any to show."""
    if not options.tables_only:
        check_new(names, options.output_dir, resume=options.resume)
        return
    for folder in (options.output_dir / name for name in names):
        if not (folder / "records.jsonl").exists():
            raise ValueError(
                f"`output_dir` should hold records, but '{folder}' has none. Run first."
            )


def check_new(names, output_dir, *, resume):
    """Refuse folders with records, unless a run is to continue from them."""
    for folder in (output_dir / name for name in names):
        if (folder / "records.jsonl").exists() and not resume:
            raise ValueError(
                f"`output_dir` should be new, but '{folder}' holds records. Add --resume to "
                "continue from them or choose another folder."
            )


def run_recipes(recipes, options):
    """Run recipes one after the other; write and print a table for each, and one of them all."""
    from jplay._optional import import_optional
    from jplay.experiments import SuiteTable

    check_folders([recipe.name for recipe in recipes], options)
    if options.figures:
        # Asked for now, so that a missing package is not found out after hours.
        import_optional("matplotlib.figure", feature="Drawing figures", extra="plot")
    tables, summaries = {}, []
    for recipe in recipes:
        tables[recipe.name], summary = _run_recipe(recipe, options)
        summaries.append(summary)
    if options.json:
        print_json(summaries)
    if recipes[0].suite is not None:
        overall = SuiteTable.of(tables).to_markdown()
        path = options.output_dir / f"{recipes[0].suite}.md"
        path.write_text(overall, encoding="utf-8")
        if not options.json:
            results_console().print(f"\n{overall}\n{path}", markup=False, soft_wrap=True)


def _run_recipe(recipe, options):
    from jplay.cli._bars import TaskBar
    from jplay.cli._row_report import report_on_best
    from jplay.experiments import Experiment, ResultTable, write_results

    folder = options.output_dir / recipe.name
    started = perf_counter()
    experiment = Experiment(
        recipe,
        folder,
        scaling="transductive" if options.transductive else "inductive",
        keep_fits=options.keep_fits,
    )
    if not options.tables_only:
        with TaskBar(status_console(), disable=options.json) as progress:
            experiment.run(n_jobs=options.n_jobs, progress=progress)
    table = ResultTable.of(experiment)
    written = write_results(
        experiment, table, folder, figures=options.figures, command=command_line()
    )
    report = report_on_best(experiment, table, folder, console=status_console())
    if report is not None:
        written.append(report)
    if not options.json:
        _print_table(experiment, table, written)
    return table, _summary(experiment, table, written, perf_counter() - started)


def _summary(experiment, table, written, seconds):
    return {
        "recipe": experiment.recipe.name,
        "fingerprint": experiment.divided.fingerprint,
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
