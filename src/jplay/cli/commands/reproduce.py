"""``jplay reproduce``: repeat a table of the paper, or run a recipe of one's own."""

from pathlib import Path
from typing import Annotated

import typer

from jplay.cli import _comparison as comparison
from jplay.cli._output import JsonFlag


def reproduce(
    recipe: Annotated[
        str, typer.Argument(help="table1, table2, a data set of them, or a .toml file.")
    ],
    output_dir: comparison.OutputDir = Path("results"),
    quick: Annotated[
        bool, typer.Option("--quick", help="A part that takes under five minutes.")
    ] = False,
    jobs: comparison.Jobs = 1,
    resume: comparison.Resume = False,
    splits: Annotated[int | None, typer.Option(min=1, help="Maximum number of splits.")] = None,
    only: comparison.Only = None,
    classifier: comparison.Classifiers = None,
    transductive: comparison.Transductive = False,
    figures: comparison.Figures = True,
    keep_fits: comparison.KeepFits = False,
    tables_only: comparison.TablesOnly = False,
    json: JsonFlag = False,
):
    """Repeat a table of the paper and print ours, the published figures and the difference.

    Each data set's records go to OUTPUT_DIR/<data set>/records.jsonl, and the report on its best
    J-Play to report.html beside them.

    For example:

      jplay reproduce table2 --quick

      jplay reproduce own.toml --only 'J-Play*' --jobs 4
    """
    from jplay.experiments import load_recipes

    recipes = [
        (r.quickened() if quick else r).restricted(
            n_splits=splits, methods=only, classifiers=classifier
        )
        for r in load_recipes(recipe)
    ]
    options = comparison.RunOptions(
        output_dir, jobs, resume, transductive, figures, keep_fits, tables_only, json
    )
    comparison.run_recipes(recipes, options)
