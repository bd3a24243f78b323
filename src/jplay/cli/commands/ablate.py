"""``jplay ablate``: what each term and constraint of the model brings."""

from time import perf_counter
from typing import Annotated

import typer

from jplay.cli._output import JsonFlag, print_json, results_console, status_console
from jplay.cli.commands.demo import DemoData


def ablate(
    data: Annotated[DemoData, typer.Option(help="What to learn from.")] = DemoData.INDIAN_PINES,
    n_layers: Annotated[int, typer.Option(min=1, help="Layers of the complete model.")] = 3,
    n_components: Annotated[
        int | None, typer.Option(min=1, help="Dimension of the last subspace.")
    ] = None,
    n_train: Annotated[int, typer.Option(min=1, help="Training samples per class.")] = 50,
    repeats: Annotated[int, typer.Option(min=1, help="Draws of the training samples.")] = 3,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the first draw.")] = 0,
    json: JsonFlag = False,
):
    """Take J-Play apart: accuracy without each term, constraint, layer or pre-training.

    For example:

      jplay ablate --data digits
    """
    from jplay._files import scratch_folder
    from jplay.cli._bars import TaskBar
    from jplay.experiments import Experiment, ResultTable, ablation_recipe

    started = perf_counter()
    recipe = ablation_recipe(
        data.value,
        n_train=n_train,
        n_splits=repeats,
        seed=seed,
        n_components=n_components,
        n_layers=n_layers,
    )
    with scratch_folder("jplay") as folder:
        experiment = Experiment(recipe, folder)
        with TaskBar(status_console(), disable=json) as progress:
            experiment.run(progress=progress)
        experiment.raise_failures()
        table = ResultTable.of(experiment)
    outcomes = [outcome_of(table, method) for method in table.methods]
    train, test = experiment.divided.splits[0]
    summary = {
        "data": data.value,
        "n_layers": n_layers,
        "n_train": int(train.size),
        "n_test": int(test.size),
        "repeats": repeats,
        "seed": seed,
        "variants": outcomes,
        "seconds": round(perf_counter() - started, 3),
    }
    if json:
        print_json(summary)
    else:
        _print_table(summary, table.paired(recipe.reference))


def outcome_of(table, method):
    """Return the means and deviations of one variant over its draws, as fractions."""
    import numpy as np

    nearest, own = (table.entries[method, column] for column in table.classifiers)
    figures = {"neighbor": list(nearest.by_split.values()), "own": list(own.by_split.values())}
    outcome = {"variant": method}
    for name, values in figures.items():
        outcome |= {
            f"{name}_accuracy": float(np.mean(values)),
            f"{name}_spread": float(np.std(values)),
        }
    return outcome | {"seconds": round(nearest.fit_seconds + nearest.seconds + own.seconds, 3)}


def _print_table(summary, pairs):
    from rich.table import Table

    table = Table(
        title=f"{summary['data']}: {summary['n_train']} training and {summary['n_test']} test "
        f"samples, {summary['repeats']} draws, {summary['n_layers']} layers"
    )
    table.add_column("Variant")
    for heading in ("1-NN OA %", "change", "own OA %", "change", "s"):
        table.add_column(heading, justify="right")
    for position, outcome in enumerate(summary["variants"]):
        nearest, own = (
            pair.mean for (name, _), pair in pairs.items() if name == outcome["variant"]
        )
        table.add_row(
            outcome["variant"],
            f"{100 * outcome['neighbor_accuracy']:.1f} ± {100 * outcome['neighbor_spread']:.1f}",
            f"{nearest:+.1f}",
            f"{100 * outcome['own_accuracy']:.1f} ± {100 * outcome['own_spread']:.1f}",
            f"{own:+.1f}",
            f"{outcome['seconds']:.1f}",
            style=None if position else "bold",
        )
    console = results_console()
    console.print(table)
    console.print(f"Everything took {summary['seconds']:.0f} s.")
