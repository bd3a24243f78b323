"""``jplay assess``: a class map against what is known."""

from pathlib import Path
from typing import Annotated

import typer

from jplay.cli._output import JsonFlag, print_json, results_console, status_console


def assess(
    source: Annotated[Path, typer.Argument(help="Class map that jplay map wrote.")],
    reference: Annotated[
        Path, typer.Option("--reference", "-r", help="True classes: a raster or polygons.")
    ],
    field: Annotated[
        str | None, typer.Option(help="Attribute of the polygons with the class.")
    ] = None,
    exclude: Annotated[
        Path | None,
        typer.Option(help="Labels of pixels to leave out, such as the training pixels."),
    ] = None,
    json: JsonFlag = False,
):
    """Compare a class map with reference labels: overall, average, kappa, and per class.

    Example:

      jplay assess map.tif --reference test.tif
    """
    from jplay.cli._progress import StepProgress
    from jplay.raster import assess_map

    with StepProgress("Comparing", status_console(), disable=json) as report:
        assessment = assess_map(source, reference, field=field, exclude=exclude, progress=report)
    if json:
        print_json({"map": str(source), "reference": str(reference), **assessment.to_dict()})
    else:
        _print_assessment(assessment)


def _print_assessment(assessment):
    from rich.table import Table

    report = assessment.report
    table = Table(title=f"{assessment.n_compared} pixels compared")
    table.add_column("Class")
    for heading in ("Pixels", "Found %", "Right %"):
        table.add_column(heading, justify="right")
    rows = zip(
        assessment.class_names,
        report.confusion.sum(axis=1).tolist(),
        report.producers_accuracy.tolist(),
        report.users_accuracy.tolist(),
        strict=True,
    )
    for name, count, found, right in rows:
        table.add_row(name, str(count), _percent(found), _percent(right))
    console = results_console()
    console.print(table)
    console.print(
        f"Overall accuracy {100 * report.overall_accuracy:.2f} %, average accuracy "
        f"{100 * report.average_accuracy:.2f} %, kappa {report.kappa:.4f}",
        highlight=False,
    )
    if assessment.n_excluded:
        console.print(f"{assessment.n_excluded} reference pixels left out.", highlight=False)
    if assessment.n_unclassified:
        console.print(
            f"{assessment.n_unclassified} reference pixels have no class on the map; they are not "
            "counted.",
            highlight=False,
        )


def _percent(share):
    return "–" if share != share else f"{100 * share:.2f}"
