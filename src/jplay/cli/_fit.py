"""``jplay fit``: a model from a table of samples or from the labelled pixels of an image."""

from enum import StrEnum
from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer

from jplay.cli._output import JsonFlag, print_json, results_console, status_console


class Scaling(StrEnum):
    """What each sample is divided by."""

    MAX = "max"
    L1 = "l1"
    L2 = "l2"
    NONE = "none"


def fit(
    source: Annotated[
        Path, typer.Argument(help="Table (CSV, Parquet, NPZ, MAT) or image (ENVI, GeoTIFF, ...).")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Model file to write.")] = Path(
        "model.skops"
    ),
    target: Annotated[
        list[str] | None,
        typer.Option(help="Column with the class; repeat it for 0/1 columns of several labels."),
    ] = None,
    features: Annotated[
        str, typer.Option(help="Array with the samples, in an NPZ or MAT file.")
    ] = "X",
    labels: Annotated[
        Path | None,
        typer.Option(help="For an image: labels as a raster, or polygons (GPKG, GeoJSON, SHP)."),
    ] = None,
    field: Annotated[
        str | None, typer.Option(help="Attribute of the polygons with the class.")
    ] = None,
    class_names: Annotated[
        str | None, typer.Option(help="Names of classes 1, 2, ... of an image, by commas.")
    ] = None,
    bad_bands: Annotated[
        str | None, typer.Option(help="Bands to leave out, from 0, as in 103-107,149-162.")
    ] = None,
    variable: Annotated[
        str | None, typer.Option(help="Image in a NetCDF, Zarr or MAT file with several.")
    ] = None,
    max_per_class: Annotated[
        int | None, typer.Option(min=1, help="Most training pixels of a class.")
    ] = None,
    n_components: Annotated[
        int | None, typer.Option(min=1, help="Dimension of the last subspace.")
    ] = None,
    n_layers: Annotated[int | None, typer.Option(min=1, help="Number of projections.")] = None,
    alpha: Annotated[float | None, typer.Option(help="Weight of the prediction loss.")] = None,
    beta: Annotated[float | None, typer.Option(help="Weight of the manifold term.")] = None,
    gamma: Annotated[float | None, typer.Option(help="Weight of the ridge.")] = None,
    max_iter: Annotated[int | None, typer.Option(min=1, help="Most iterations.")] = None,
    scale: Annotated[Scaling, typer.Option(help="Divide each sample by this norm.")] = Scaling.MAX,
    cv: Annotated[
        int | None, typer.Option(min=2, help="Estimate the accuracy by so many folds.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Draws pixels and folds.")] = 0,
    card: Annotated[
        Path | None, typer.Option(help="Write the model card (Markdown) here as well.")
    ] = None,
    json: JsonFlag = False,
):
    """Fit a model to a table or to the labelled pixels of an image, and save it.

    For example:

      jplay fit train.csv --target species -o model.skops

      jplay fit scene.hdr --labels polygons.gpkg --field class -o model.skops
    """
    from jplay._optional import import_optional
    from jplay.cli._progress import FitProgress, StepProgress
    from jplay.cli._tables import read_table
    from jplay.persistence import default_estimator, model_card, save_model
    from jplay.raster import fit_scene

    import_optional("skops.io", feature="Saving models", extra="persist")
    _check_sources(source, target, labels)
    started = perf_counter()
    weights = {"alpha": alpha, "beta": beta, "gamma": gamma}
    settings = {"n_components": n_components, "n_layers": n_layers, "max_iter": max_iter, **weights}
    estimator = default_estimator(
        norm=None if scale is Scaling.NONE else scale.value,
        **{name: value for name, value in settings.items() if value is not None},
    )
    console = status_console()
    last = estimator[-1] if hasattr(estimator, "steps") else estimator
    if cv is None:  # with folds, their bar shows how far the work is
        last.set_callbacks(FitProgress(console, disable=json))
    with (
        StepProgress("Reading spectra", console, disable=json) as pixels,
        StepProgress("Folds", console, disable=json) as folds,
    ):
        if labels is None:
            table = read_table(source, target=target, features=features)
            model = fit_table(
                table, source, target, estimator, cv=cv, random_state=seed, progress=folds
            )
        else:
            scene = _open(source, variable, bad_bands)
            model = fit_scene(
                scene,
                labels,
                estimator,
                field=field,
                class_names=_numbered(class_names),
                max_per_class=max_per_class,
                cv=cv,
                random_state=seed,
                progress=pixels,
                fold_progress=folds,
            )
    save_model(model, output)
    if card is not None:
        from jplay.persistence import atomic_path

        with atomic_path(card) as temporary:
            temporary.write_text(model_card(model), encoding="utf-8")
    summary = summarize_fit(model, source, output, perf_counter() - started)
    if json:
        print_json(summary)
    else:
        print_fit(summary)


def _check_sources(source, target, labels):
    if (labels is None) == (not target):
        raise ValueError(
            "Give either --target (the column of a table with the class) or --labels (labelled "
            f"pixels of an image) with '{source}'."
        )


def fit_table(table, source, target, estimator, **options):
    """Fit an estimator to a table and keep the names of its columns with the model."""
    from jplay.persistence import ModelMetadata, train_model

    metadata = ModelMetadata(
        feature_names=table.feature_names,
        class_names=None if len(target) == 1 else list(target),
    )
    return train_model(
        table.X, table.y, estimator, metadata=metadata, source=str(source), **options
    )


def _open(source, variable, bad_bands):
    from jplay.raster import open_scene

    return open_scene(source, variable=variable, bad_bands=parse_bands(bad_bands))


def _numbered(names):
    if names is None:
        return {}
    return {code: name.strip() for code, name in enumerate(names.split(","), start=1)}


def parse_bands(text):
    """Turn ``"103-107,149"`` into numbers, or None into None."""
    if text is None:
        return None
    bands = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdigit() or (dash and not last.isdigit()):
            raise ValueError(
                f"--bad-bands should be numbers and ranges such as 103-107,149, got {text!r}."
            )
        bands.extend(range(int(first), int(last if dash else first) + 1))
    return bands


def summarize_fit(model, source, output, seconds):
    """Return what is said about a fit as plain values."""
    last = model.final_step
    return {
        "source": str(source),
        "model": str(output),
        "n_samples": model.metadata.training["n_samples"],
        "n_features": model.n_features,
        "classes": model.metadata.class_names,
        "samples_per_class": model.metadata.training["samples_per_class"],
        "layer_sizes": [int(size) for size in last.layer_sizes_],
        "n_iter": int(last.n_iter_),
        "converged": bool(last.result_.status.converged),
        "accuracy": model.metadata.accuracy,
        "seconds": round(seconds, 3),
    }


def print_fit(summary):
    """Print the facts of :func:`summarize_fit`."""
    console = results_console()
    sizes = " → ".join(str(size) for size in [summary["n_features"], *summary["layer_sizes"]])
    ending = "converged" if summary["converged"] else "stopped"
    console.print(
        f"{summary['n_samples']} samples of {len(summary['classes'])} classes, features {sizes}; "
        f"{ending} after {summary['n_iter']} iterations, {summary['seconds']:.1f} s in all.",
        highlight=False,
    )
    accuracy = summary["accuracy"]
    if accuracy:
        console.print(
            f"{accuracy['method']}: overall accuracy {100 * accuracy['overall_accuracy']:.2f} %, "
            f"average accuracy {100 * accuracy['average_accuracy']:.2f} %",
            highlight=False,
        )
    console.print(f"Model: {summary['model']}", soft_wrap=True, highlight=False)
