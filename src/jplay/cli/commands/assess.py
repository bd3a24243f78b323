"""``jplay assess``: a class map against what is known."""

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
from jplay.cli._reports import ReportFile, check_report, write_assess_report


def assess(
    source: Annotated[Path, typer.Argument(help="Class map that jplay map wrote.")],
    reference: Annotated[
        Path,
        typer.Option("--reference", "-r", help="True classes: a raster, polygons, points or CSV."),
    ],
    field: Annotated[
        str | None, typer.Option(help="Attribute of the polygons with the class.")
    ] = None,
    exclude: Annotated[
        Path | None,
        typer.Option(help="Labels of pixels to leave out, such as the training pixels."),
    ] = None,
    class_names: Annotated[
        str | None,
        typer.Option(
            help="Names of the reference's classes 1, 2, ... by commas, or 3=wood,7=town."
        ),
    ] = None,
    map_names: Annotated[
        str | None, typer.Option(help="Names of the map's classes, if it has none.")
    ] = None,
    match: Annotated[
        list[str] | None,
        typer.Option(
            help="A class of the reference with another name on the map, as in maize=corn; "
            "'maize=' if the map does not have it."
        ),
    ] = None,
    by_code: Annotated[
        bool, typer.Option("--by-code", help="Codes mean the same in both files.")
    ] = False,
    areas: Annotated[
        bool,
        typer.Option(
            "--areas",
            help="Estimate areas and accuracies of the whole map: the reference pixels were drawn "
            "at random from each class of the map, as jplay sample does.",
        ),
    ] = False,
    confidence: Annotated[
        float, typer.Option(min=1, max=99.99, help="Level of the intervals in percent.")
    ] = 95.0,
    csv: Annotated[
        Path | None, typer.Option(help="Write the confusion matrix and accuracies here (CSV).")
    ] = None,
    report: ReportFile = None,
    force: ForceFlag = False,
    json: JsonFlag = False,
):
    """Compare a class map with reference labels: overall, average, kappa, and per class.

    Classes are matched by name. If a file has no names, give them, or say that codes agree.

    For example:

      jplay assess map.tif --reference test.gpkg --field crop

      jplay assess map.tif --reference sample.csv --areas --report accuracy.html
    """
    for path, what in ((source, "map"), (reference, "reference"), (exclude, "file to exclude")):
        if path is not None:
            check_exists(path, what)
    refuse_existing(csv, force, inputs=(source, reference, exclude))
    check_report(report, force, inputs=(source, reference, exclude))
    pairs = dict(_pair(text) for text in match or ())
    names, names_on_map = numbered_names(class_names), numbered_names(map_names)
    from jplay._files import atomic_path
    from jplay.cli._bars import StepBar
    from jplay.raster import assess_map, assessment_csv

    with StepBar("Comparing", status_console(), disable=json) as progress:
        assessment = assess_map(
            source,
            reference,
            field=field,
            exclude=exclude,
            class_names=names,
            map_names=names_on_map,
            match=pairs,
            by_code=by_code,
            areas=areas,
            confidence=confidence / 100,
            progress=progress,
        )
    title = f"{source.name} against {reference.name}"
    if csv is not None:
        with atomic_path(csv) as temporary:
            temporary.write_text(assessment_csv(assessment), encoding="utf-8")
    if report is not None:
        write_assess_report(report, assessment, title)
    written = {"csv": csv and str(csv), "report": report and str(report)}
    if json:
        print_json(
            {"map": str(source), "reference": str(reference), **assessment.to_dict(), **written}
        )
    else:
        _print_assessment(assessment)
        for name in filter(None, written.values()):
            results_console().print(f"Written: {name}", soft_wrap=True, highlight=False)


def numbered_names(text):
    """Turn ``"wood,town"`` or ``"3=wood,7=town"`` into names by code, or None into None."""
    if text is None:
        return None
    names = {}
    for number, part in enumerate(text.split(","), start=1):
        code, equals, name = part.rpartition("=")
        if equals and not code.strip().isdigit():
            raise ValueError(
                f"Names of classes should be given as wood,town or 3=wood,7=town, got {text!r}."
            )
        names[int(code) if equals else number] = name.strip()
    if not all(names.values()):
        raise ValueError(f"Every class should have a name, got {text!r}.")
    return names


def _pair(text):
    name, equals, other = text.partition("=")
    if not equals or not name.strip():
        raise ValueError(f"--match should be given as reference=map, got {text!r}.")
    return name.strip(), other.strip() or None


def _print_assessment(assessment):
    from rich.table import Table

    report, console = assessment.report, results_console()
    console.print(_confusion_table(assessment))
    table = Table(title=f"{assessment.n_compared} pixels compared, by {assessment.matched_by}")
    table.add_column("Class")
    level = f"{100 * assessment.confidence:g} %"
    for heading in ("Producer's %", level, "User's %", level):
        table.add_column(heading, justify="right")
    for name, cells in _accuracy_rows(assessment):
        table.add_row(name, *cells)
    console.print(table)
    if assessment.areas is not None:
        _print_areas(assessment.areas, console)
    low, high = assessment.intervals()["overall_accuracy"]
    console.print(
        f"Overall accuracy {100 * report.overall_accuracy:.2f} % ({level}: {100 * low:.1f} to "
        f"{100 * high:.1f}), average accuracy {100 * report.average_accuracy:.2f} %, kappa "
        f"{report.kappa:.4f}",
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


def _confusion_table(assessment):
    """The confusion matrix; columns are numbered, since names would not fit."""
    from rich.table import Table

    confusion = assessment.report.confusion
    table = Table(title="Confusion matrix: rows are true classes, columns mapped ones")
    table.add_column("Class")
    for number in range(1, len(confusion) + 1):
        table.add_column(str(number), justify="right")
    for number, (name, row) in enumerate(
        zip(assessment.class_names, confusion.tolist(), strict=True), start=1
    ):
        table.add_row(f"{number} {name}", *(str(count) if count else "·" for count in row))
    return table


def _accuracy_rows(assessment):
    report, intervals = assessment.report, assessment.intervals()
    for number, name in enumerate(assessment.class_names):
        cells = []
        for figure in ("producers_accuracy", "users_accuracy"):
            share = getattr(report, figure)[number]
            low, high = (end[number] for end in intervals[figure])
            undefined = share != share
            cells += ["–" if undefined else f"{100 * share:.2f}"]
            cells += ["–" if undefined else f"{100 * low:.1f} to {100 * high:.1f}"]
        yield name, cells


def _print_areas(areas, console):
    from rich.table import Table

    table = Table(title="Estimated for the whole map, from the sample")
    table.add_column("Class")
    for heading in (f"Mapped {areas.unit}", f"Area {areas.unit}", "±", "Producer's %", "User's %"):
        table.add_column(heading, justify="right")
    for number, name in enumerate(areas.classes):
        accuracies = (
            f"{100 * value[number]:.1f} ± {100 * half[number]:.1f}"
            if value[number] == value[number]
            else "–"
            for value, half in (
                (areas.producers_accuracy, areas.producers_accuracy_half_width),
                (areas.users_accuracy, areas.users_accuracy_half_width),
            )
        )
        sizes = (areas.mapped_area, areas.area, areas.area_half_width)
        table.add_row(str(name), *(f"{size[number]:,.1f}" for size in sizes), *accuracies)
    console.print(table)
    console.print(
        f"Estimated overall accuracy {100 * areas.overall_accuracy:.2f} ± "
        f"{100 * areas.overall_accuracy_half_width:.2f} %",
        highlight=False,
    )
