"""``jplay sample``: which pixels of a map to check."""

from pathlib import Path
from typing import Annotated

import typer

from jplay.cli._options import check_exists
from jplay.cli._output import (
    ForceFlag,
    JsonFlag,
    print_json,
    refuse_existing,
    results_console,
    status_console,
)


def sample(
    source: Annotated[Path, typer.Argument(help="Class map that jplay map wrote.")],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="Pixels to write (.csv, .gpkg, .geojson)."),
    ] = Path("sample.csv"),
    precision: Annotated[
        float,
        typer.Option(
            min=0.01,
            max=50,
            help="Overall accuracy should be known to plus or minus so many percentage points.",
        ),
    ] = 2.0,
    expect: Annotated[
        list[str] | None,
        typer.Option(
            help="Expected user's accuracy in percent: 80, or wood=90 for one class; repeat it."
        ),
    ] = None,
    minimum: Annotated[int, typer.Option(min=2, help="Pixels of each class at least.")] = 50,
    per_class: Annotated[
        int | None, typer.Option(min=2, help="Pixels of each class, in place of a precision.")
    ] = None,
    exclude: Annotated[
        Path | None, typer.Option(help="Labels of pixels not to draw, as the training pixels.")
    ] = None,
    confidence: Annotated[
        float, typer.Option(min=1, max=99.99, help="Level of the intervals in percent.")
    ] = 95.0,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the draw.")] = 0,
    force: ForceFlag = False,
    json: JsonFlag = False,
):
    """Draw reference pixels at random from every class of a map, as many as a precision needs.

    Fill in the column "class" of the file by what you see there, then estimate accuracies and
    areas with jplay assess.

    For example:

      jplay sample map.tif -o sample.gpkg --precision 3

      jplay assess map.tif --reference sample.gpkg --areas
    """
    check_exists(source, "map")
    if exclude is not None:
        check_exists(exclude, "file to exclude")
    refuse_existing(output, force, inputs=(source, exclude))
    for_all, by_class = _expected(expect)
    from jplay.cli._bars import StepBar
    from jplay.raster import ReferenceSample, draw_sample

    ReferenceSample.checked_path(output)
    with StepBar("Counting and drawing", status_console(), disable=json) as report:
        drawn = draw_sample(
            source,
            half_width=precision / 100,
            users_accuracy=for_all,
            class_accuracy=by_class,
            minimum=minimum,
            n_pixels=per_class,
            exclude=exclude,
            confidence=confidence / 100,
            random_state=seed,
            progress=report,
        )
    drawn.save(output)
    if json:
        print_json({"map": str(source), "sample": str(output), **drawn.plan.to_dict()})
    else:
        _print_plan(drawn.plan, output)


def _expected(texts):
    """``["85", "wood=90"]`` as a share for all classes and shares of single ones."""
    for_all, by_class = 0.8, {}
    for text in texts or ():
        name, _, number = text.rpartition("=")
        try:
            share = float(number) / 100
        except ValueError:
            share = 0.0
        if not 0 < share < 1:
            raise ValueError(
                f"--expect should be a percentage between 0 and 100, or class=percentage, got "
                f"{text!r}."
            )
        if name:
            by_class[name.strip()] = share
        else:
            for_all = share
    return for_all, by_class


def _print_plan(plan, output):
    from rich.table import Table

    table = Table(title=f"{int(plan.n_pixels.sum())} reference pixels")
    table.add_column("Class")
    for heading in ("On the map", "To check", "Expected %", "±"):
        table.add_column(heading, justify="right")
    rows = zip(
        plan.classes,
        plan.mapped_pixels.tolist(),
        plan.n_pixels.tolist(),
        plan.users_accuracy.tolist(),
        plan.users_accuracy_half_width.tolist(),
        strict=True,
    )
    for name, mapped, n_pixels, share, half in rows:
        table.add_row(
            str(name), f"{mapped:,}", str(n_pixels), f"{100 * share:g}", f"{100 * half:.1f}"
        )
    console = results_console()
    console.print(table)
    console.print(
        f"If so, overall accuracy will be known to ± {100 * plan.overall_accuracy_half_width:.1f} "
        f"percentage points ({100 * plan.confidence:g} %).",
        highlight=False,
    )
    console.print(
        f'Fill in the column "class" of {output}, then: jplay assess --areas',
        soft_wrap=True,
        highlight=False,
    )
