"""``jplay map``: the class map of an image."""

from pathlib import Path
from time import perf_counter
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
from jplay.cli._reports import ReportFile, check_report, write_map_report
from jplay.cli.commands.fit import parse_bands


def map_image(
    source: Annotated[Path, typer.Argument(help="Image (ENVI, GeoTIFF, NetCDF, Zarr, MAT).")],
    model: Annotated[Path, typer.Option("--model", "-m", help="Model that jplay fit wrote.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Map to write (GeoTIFF, .tif).")
    ] = Path("map.tif"),
    probabilities: Annotated[
        Path | None,
        typer.Option(help="Write the probability of every class here (COG, a band each)."),
    ] = None,
    confidence: Annotated[
        Path | None, typer.Option(help="Write the probability of the mapped class here (COG).")
    ] = None,
    second: Annotated[
        Path | None, typer.Option(help="Write a map of the most likely class but one here.")
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Leave pixels below this probability unclassified."),
    ] = None,
    mask: Annotated[
        Path | None, typer.Option(help="Where to map: a raster that is 0 elsewhere, or polygons.")
    ] = None,
    scores: Annotated[
        Path | None, typer.Option(help="Write the classes' scores here (COG, a band each).")
    ] = None,
    features: Annotated[
        Path | None, typer.Option(help="Write the features of the last subspace here (COG).")
    ] = None,
    resample: Annotated[
        bool, typer.Option("--resample", help="Interpolate spectra to the model's wavelengths.")
    ] = False,
    scale: Annotated[
        float | None,
        typer.Option(help="Factor from the image's values to the model's, if units differ."),
    ] = None,
    cog: Annotated[
        bool, typer.Option("--cog", help="Write the map as a cloud-optimised GeoTIFF, too.")
    ] = False,
    bad_bands: Annotated[
        str | None, typer.Option(help="Bands that are bad, from 0, as in 103-107,149-162.")
    ] = None,
    variable: Annotated[
        str | None, typer.Option(help="Image in a NetCDF, Zarr or MAT file with several.")
    ] = None,
    block_mb: Annotated[
        int, typer.Option(min=1, help="Megabytes of spectra in a block; two are in memory.")
    ] = 32,
    report: ReportFile = None,
    force: ForceFlag = False,
    json: JsonFlag = False,
):
    """Classify every pixel of an image, however large, and write a georeferenced map.

    The map has a colour table and class names, 0 where the image has no data, and a style for QGIS
    beside it (.qml).

    For example:

      jplay map scene.hdr --model model.skops -o map.tif

      jplay map scene.hdr --model model.skops --confidence sure.tif --threshold 0.6
    """
    check_exists(source, "image")
    check_exists(model, "model")
    if mask is not None:
        check_exists(mask, "mask")
    results = {
        "map": output,
        "probabilities": probabilities,
        "confidence": confidence,
        "second": second,
        "scores": scores,
        "features": features,
    }
    for name, path in results.items():
        refuse_existing(path, force, inputs=(source, model, mask))
        if path is not None and name not in ("scores", "features"):
            refuse_existing(path.with_suffix(".qml"), force)
    bands = parse_bands(bad_bands)
    check_report(report, force, inputs=(source, model, mask))
    from jplay.cli._bars import StepBar
    from jplay.persistence import load_model
    from jplay.raster import map_scene, open_scene

    loaded = load_model(model)
    scene = open_scene(source, variable=variable, bad_bands=bands)
    started = perf_counter()
    extras = {name: path for name, path in results.items() if name != "map"}
    with scene, StepBar("Mapping", status_console(), disable=json) as progress:
        map_scene(
            scene,
            loaded,
            output,
            **extras,
            threshold=threshold,
            mask=mask,
            resample=resample,
            scale=scale,
            cog=cog,
            block_bytes=block_mb * 2**20,
            progress=progress,
        )
        height, width, n_bands = scene.shape
        if report is not None:
            write_map_report(report, scene, loaded, output)
    seconds = perf_counter() - started
    summary = {
        "source": str(source),
        "model": str(model),
        **{name: path and str(path) for name, path in results.items()},
        "threshold": threshold,
        "report": report and str(report),
        "height": height,
        "width": width,
        "n_bands": n_bands,
        "classes": loaded.metadata.class_names,
        "megapixels_per_second": round(height * width / seconds / 1e6, 4),
        "seconds": round(seconds, 3),
    }
    if json:
        print_json(summary)
    else:
        _print_summary(summary, list(results))


def _print_summary(summary, kinds):
    console = results_console()
    console.print(
        f"{summary['height']} x {summary['width']} pixels in {summary['seconds']:.1f} s, "
        f"{summary['megapixels_per_second']:.2f} megapixels per second.",
        highlight=False,
    )
    for kind in (*kinds, "report"):
        if summary[kind]:
            console.print(f"{kind.capitalize()}: {summary[kind]}", soft_wrap=True, highlight=False)
