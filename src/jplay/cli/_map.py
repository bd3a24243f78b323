"""``jplay map``: the class map of an image."""

from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer

from jplay.cli._output import JsonFlag, print_json, results_console, status_console


def map_image(
    source: Annotated[Path, typer.Argument(help="Image (ENVI, GeoTIFF, NetCDF, Zarr, MAT).")],
    model: Annotated[Path, typer.Option("--model", "-m", help="Model that jplay fit wrote.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Map to write (GeoTIFF).")] = Path(
        "map.tif"
    ),
    scores: Annotated[
        Path | None, typer.Option(help="Write the classes' scores here (COG, a band each).")
    ] = None,
    features: Annotated[
        Path | None, typer.Option(help="Write the features of the last subspace here (COG).")
    ] = None,
    resample: Annotated[
        bool, typer.Option("--resample", help="Interpolate spectra to the model's wavelengths.")
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
    json: JsonFlag = False,
):
    """Classify every pixel of an image, however large, and write a georeferenced map.

    The map has a colour table and class names, and 0 where the image has no data.

    Example:

      jplay map scene.hdr --model model.skops -o map.tif
    """
    from jplay.cli._fit import parse_bands
    from jplay.cli._progress import StepProgress
    from jplay.persistence import load_model
    from jplay.raster import map_scene, open_scene

    loaded = load_model(model)
    scene = open_scene(source, variable=variable, bad_bands=parse_bands(bad_bands))
    started = perf_counter()
    with scene, StepProgress("Mapping", status_console(), disable=json) as report:
        map_scene(
            scene,
            loaded,
            output,
            scores=scores,
            features=features,
            resample=resample,
            block_bytes=block_mb * 2**20,
            progress=report,
        )
        height, width, n_bands = scene.shape
    seconds = perf_counter() - started
    summary = {
        "source": str(source),
        "model": str(model),
        "map": str(output),
        "scores": scores and str(scores),
        "features": features and str(features),
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
        _print_summary(summary)


def _print_summary(summary):
    console = results_console()
    console.print(
        f"{summary['height']} x {summary['width']} pixels in {summary['seconds']:.1f} s, "
        f"{summary['megapixels_per_second']:.2f} megapixels per second.",
        highlight=False,
    )
    for kind in ("map", "scores", "features"):
        if summary[kind]:
            console.print(f"{kind.capitalize()}: {summary[kind]}", soft_wrap=True, highlight=False)
