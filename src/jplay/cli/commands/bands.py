"""``jplay bands``: which few bands tell classes apart."""

from pathlib import Path
from typing import Annotated

import typer

from jplay.cli import _options as options
from jplay.cli._options import check_exists
from jplay.cli._output import (
    ForceFlag,
    JsonFlag,
    print_json,
    refuse_existing,
    results_console,
    status_console,
)
from jplay.cli._samples import SampleOptions, gather_samples

FIGURE_SUFFIXES = (".png", ".svg", ".pdf")


def bands(
    source: options.SamplesFile,
    number: Annotated[int, typer.Option("--number", "-n", min=1, help="Bands to choose.")] = 10,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Table of the chosen bands to write (.csv, ...)."),
    ] = None,
    figure: Annotated[
        Path | None,
        typer.Option(help="Figure of the bands over the spectra to write (.png, .svg, .pdf)."),
    ] = None,
    min_distance: Annotated[
        int, typer.Option(min=1, help="Least difference of the numbers of two chosen bands.")
    ] = 1,
    groups: Annotated[
        str | None,
        typer.Option(
            metavar="N|FILE",
            help="At most one band of a group is chosen: N groups of neighbouring bands, or a "
            "file with the group of each band, one per line.",
        ),
    ] = None,
    costs: Annotated[
        Path | None,
        typer.Option(help="File with the cost of each band, one number per line."),
    ] = None,
    max_cost: Annotated[
        float | None, typer.Option(help="Maximum total cost of the chosen bands.")
    ] = None,
    resamples: Annotated[
        int,
        typer.Option(min=0, help="Random halves of the samples that tell how stable bands are."),
    ] = 0,
    target: options.Target = None,
    drop: options.Drop = None,
    id: options.Id = None,
    samples: options.SamplesArray = None,
    labels: options.LabelsFile = None,
    field: options.Field = None,
    class_names: options.ClassNames = None,
    bad_bands: options.BadBands = None,
    variable: options.Variable = None,
    max_per_class: options.MaxPerClass = None,
    seed: options.Seed = 0,
    force: ForceFlag = False,
    json: JsonFlag = False,
):
    """Choose the few bands, or columns of a table, that tell the classes apart.

    "Loss" is by how much left-out samples become less probable without the band, and "Stability"
    in how many of the random halves it was chosen.

    For example:

      jplay bands train.csv --target species -n 10 -o bands.csv

      jplay bands scene.hdr --labels polygons.gpkg --field class -n 20 --figure bands.png

      jplay bands train.csv --target species --groups 20 --costs costs.txt --max-cost 30
    """
    given = SampleOptions(
        source,
        target,
        samples,
        drop=drop,
        id=id,
        labels=labels,
        field=field,
        class_names=class_names,
        bad_bands=bad_bands,
        variable=variable,
        max_per_class=max_per_class,
        seed=seed,
    )
    given.check()
    if target is not None and len(target) > 1:
        raise ValueError("--target should be one column, the class, to choose bands.")
    group_file = None if groups is None or groups.isdecimal() else Path(groups)
    for path in (costs, group_file):
        if path is not None:
            check_exists(path, "file")
    if max_cost is not None and not max_cost > 0:
        raise ValueError(f"--max-cost should be above 0, got {max_cost:g}.")
    for path in (output, figure):
        refuse_existing(path, force, inputs=[*given.inputs, costs, group_file])
    if figure is not None and figure.suffix.lower() not in FIGURE_SUFFIXES:
        raise ValueError(f"--figure '{figure}' should end in .png, .svg or .pdf.")
    from jplay.cli._bars import StepBar
    from jplay.estimators import JPlayBandSelector
    from jplay.tables import check_written_path, write_columns

    if output is not None:
        check_written_path(output)
    with StepBar("Reading spectra", status_console(), disable=json) as pixels:
        found = gather_samples(given, pixels)
    n_features = found.X.shape[1]
    if number > n_features:
        raise ValueError(
            f"--number should be at most {n_features} (the bands of '{source}'), got {number}. "
            "Choose fewer."
        )
    selector = JPlayBandSelector(
        number,
        min_distance=min_distance,
        feature_groups=_groups(groups, group_file, found),
        feature_costs=None if costs is None else _numbers(costs, found),
        max_cost=max_cost,
        n_resamples=resamples,
        random_state=seed,
    )
    with status_console().status("Choosing bands"):
        selector.fit(found.X, found.y)
    columns = _columns(selector, found.metadata)
    if output is not None:
        write_columns(output, columns)
    if figure is not None:
        _write_figure(figure, selector, found)
    written = [str(path) for path in (output, figure) if path is not None]
    if json:
        payload = {"source": str(source), "bands": columns, "loss": selector.loss_}
        print_json(payload | {"files": written})
        return
    _print_bands(columns, len(columns["band"]), number)
    for name in written:
        results_console().print(f"Written: {name}", highlight=False, markup=False, soft_wrap=True)


def _groups(text, path, found):
    """Group of every feature, or None: neighbours, or as a file says."""
    if text is None:
        return None
    if path is not None:
        return _one_per_band(path, "--groups", found)
    n_features, n_groups = found.X.shape[1], int(text)
    if not 1 <= n_groups <= n_features:
        raise ValueError(
            f"--groups should be between 1 and {n_features} (the number of bands), got {text}."
        )
    return [feature * n_groups // n_features for feature in range(n_features)]


def _numbers(path, found):
    """Cost of every feature, from a file."""
    costs = []
    for number, text in enumerate(_one_per_band(path, "--costs", found), start=1):
        try:
            costs.append(float(text))
        except ValueError:
            raise ValueError(
                f"--costs '{path}' should hold one number per line, got '{text}' for band {number}."
            ) from None
    return costs


def _one_per_band(path, option, found):
    """Lines of a file, one per feature; bands of an image that are not read are left out."""
    lines = [line.strip() for line in path.read_text(encoding="utf-8-sig").splitlines()]
    lines = [line for line in lines if line]
    n_features, metadata = found.X.shape[1], found.metadata
    if len(lines) == n_features:
        return lines
    if len(lines) == metadata.n_scene_bands:
        return [lines[band] for band in metadata.band_indices]
    raise ValueError(
        f"{option} '{path}' should have {n_features} lines, one per band, got {len(lines)}."
    )


def _columns(selector, metadata):
    """What is told of every chosen band, as columns of plain values."""
    chosen = selector.get_support(indices=True)
    numbers = metadata.band_indices
    columns = {"band": [int(band if numbers is None else numbers[band]) for band in chosen]}
    if metadata.feature_names is not None:
        columns["name"] = [str(metadata.feature_names[band]) for band in chosen]
    if metadata.wavelengths is not None:
        columns["wavelength_nm"] = [float(metadata.wavelengths[band]) for band in chosen]
    if selector.feature_costs is not None:
        columns["cost"] = [selector.feature_costs[band] for band in chosen]
    columns["loss"] = selector.importances_[chosen].tolist()
    if selector.stability_ is not None:
        columns["stability"] = selector.stability_[chosen].tolist()
    return columns


def _write_figure(path, selector, found):
    from jplay._files import atomic_path
    from jplay._optional import import_optional
    from jplay.plotting import BandsDisplay

    figures = import_optional("matplotlib.figure", feature="Figures", extra="plot")
    figure = figures.Figure(figsize=(9, 5), layout="constrained")
    BandsDisplay.from_estimator(
        selector, found.X, found.y, wavelengths=found.metadata.wavelengths, ax=figure.subplots()
    )
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format=path.suffix[1:].lower(), dpi=150)


def _print_bands(columns, n_chosen, number):
    from rich.table import Table

    headings = {
        "band": "Band",
        "name": "Name",
        "wavelength_nm": "nm",
        "cost": "Cost",
        "loss": "Loss",
        "stability": "Stability %",
    }
    forms = {"loss": "{:.3f}", "wavelength_nm": "{:g}", "cost": "{:g}"}
    table = Table(title=f"{n_chosen} bands")
    for name in columns:
        table.add_column(headings[name], justify="left" if name == "name" else "right")
    for values in zip(*columns.values(), strict=True):
        table.add_row(
            *(
                f"{100 * value:.0f}" if name == "stability" else forms.get(name, "{}").format(value)
                for name, value in zip(columns, values, strict=True)
            )
        )
    console = results_console()
    console.print(table)
    if n_chosen < number:
        console.print(
            f"No more than {n_chosen} bands keep to --min-distance, --groups and --max-cost.",
            highlight=False,
        )
