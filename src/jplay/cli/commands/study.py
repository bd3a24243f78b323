"""``jplay study``: a comparison of methods on a user's own data."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from jplay.cli import _comparison as comparison
from jplay.cli import _options as options
from jplay.cli._options import Scale, parse_bands
from jplay.cli._output import JsonFlag
from jplay.cli._samples import SampleOptions


class Split(StrEnum):
    """How samples are divided."""

    AUTO = "auto"
    RANDOM = "random"
    GROUPS = "groups"
    BLOCKS = "blocks"


def study(
    source: options.SamplesFile,
    target: Annotated[
        str | None,
        typer.Option(
            help="Column (or array) with the class; the last column or y by default.",
            rich_help_panel=options.TABLE_PANEL,
        ),
    ] = None,
    group: options.Group = None,
    drop: options.Drop = None,
    id: options.Id = None,
    impute: options.ImputeOption = None,
    samples: options.SamplesArray = None,
    labels: options.LabelsFile = None,
    field: options.Field = None,
    bad_bands: options.BadBands = None,
    variable: options.Variable = None,
    max_per_class: options.MaxPerClass = None,
    scale: options.ScaleOption = Scale.AUTO,
    method: Annotated[
        list[str] | None,
        typer.Option(
            help="Add a method: package:Class, package:Class(name=value) or a .toml file with "
            "[[methods]] of name, class and options; repeatable. The first is the reference."
        ),
    ] = None,
    split: Annotated[
        Split,
        typer.Option(
            help="Training samples drawn per class, whole groups or fields left out, or half of "
            "the blocks of an image; auto takes groups if there are any."
        ),
    ] = Split.AUTO,
    n_train: Annotated[
        int, typer.Option(min=1, help="Training samples per class of random divisions.")
    ] = 10,
    splits: Annotated[int, typer.Option(min=1, help="Number of divisions.")] = 3,
    n_components: Annotated[
        int, typer.Option(min=1, help="Dimension of the learned subspaces.")
    ] = 20,
    max_layers: Annotated[int, typer.Option(min=1, help="Largest number of layers.")] = 3,
    seed: options.Seed = 0,
    output_dir: comparison.OutputDir = Path("study"),
    jobs: comparison.Jobs = 1,
    resume: comparison.Resume = False,
    only: comparison.Only = None,
    classifier: comparison.Classifiers = None,
    transductive: comparison.Transductive = False,
    figures: comparison.Figures = True,
    keep_fits: comparison.KeepFits = False,
    tables_only: comparison.TablesOnly = False,
    json: JsonFlag = False,
):
    """Compare J-Play, other subspaces and your own method on your own data.

    Tables (with a paired test, versions and the command, ready to cite), figures and report.html
    go to OUTPUT_DIR/<source>.

    For example:

      jplay study spectra.npz --n-train 20 --splits 10

      jplay study spectra.parquet --target kind --method 'mypackage:MyClassifier(depth=3)'

      jplay study scene.hdr --labels polygons.gpkg --field class --split blocks
    """
    run = comparison.RunOptions(
        output_dir, jobs, resume, transductive, figures, keep_fits, tables_only, json
    )
    given = SampleOptions(
        *(source, [target] if target else None, samples, group, drop, id, None, impute),
        *(scale, labels, field, None, bad_bands, variable, max_per_class, seed),
    )
    given.check(target_needed=False)
    if split is Split.BLOCKS and labels is None:
        raise ValueError("--split blocks needs an image with --labels.")
    comparison.check_folders([source.stem], run)
    import sys

    from jplay.cli._output import status_console
    from jplay.experiments import study_recipe

    sys.path.insert(0, str(Path.cwd()))  # so that --method finds a module of the user's own
    columns = scene = None
    if labels is None:
        columns = {
            "target": target,
            "group": group,
            "drop": drop or [],
            "ids": id or [],
            "samples": samples,
        }
    else:
        scene = {
            "labels": str(labels),
            "field": field,
            "max_per_class": max_per_class,
            "bad_bands": parse_bands(bad_bands),
            "variable": variable,
        }
    recipe = study_recipe(
        source,
        columns=columns,
        scene=scene,
        methods=method or (),
        split=None if split is Split.AUTO else split.value,
        scale=None if scale is Scale.AUTO else scale.value,
        impute=None if impute is None else impute.value,
        n_train=n_train,
        n_splits=splits,
        n_components=n_components,
        max_layers=max_layers,
        seed=seed,
    )
    steps = ", ".join(recipe.preprocessing)
    status_console().print(
        f"Preparation: {steps}; --scaling overrides. Splits: {recipe.split.kind}.", highlight=False
    )
    comparison.run_recipes([recipe.restricted(methods=only, classifiers=classifier)], run)
