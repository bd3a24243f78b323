"""``jplay demo``: J-Play and other classifiers on real data, and a report."""

from enum import StrEnum
from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer

from jplay.cli._output import JsonFlag, print_json, results_console, status_console

CHAIN = "J-Play"
"""Row of one layer; those with more are ``J-Play_2`` and so on."""
SHOWN = "J-Play committee"
"""Row whose class map is drawn."""


class DemoData(StrEnum):
    """The data sets that need no file."""

    INDIAN_PINES = "indian-pines"
    DIGITS = "digits"

    @property
    def full_name(self):
        return {"indian-pines": "Indian Pines", "digits": "handwritten digits"}[self.value]


def demo(
    data: Annotated[DemoData, typer.Option(help="What to learn from.")] = DemoData.INDIAN_PINES,
    output_dir: Annotated[
        Path, typer.Option("--output-dir", "-o", help="Folder of the figure and the report.")
    ] = Path("jplay-demo"),
    seed: Annotated[int, typer.Option(min=0, help="Seed of the draw.")] = 0,
    n_train: Annotated[int, typer.Option(min=1, help="Training samples per class.")] = 50,
    n_components: Annotated[
        int | None, typer.Option(min=1, help="Dimension of the last subspace.")
    ] = None,
    max_layers: Annotated[
        int, typer.Option(min=1, help="Compare J-Play with one layer to this many.")
    ] = 3,
    max_iter: Annotated[
        int | None, typer.Option(min=1, help="Maximum number of iterations of a J-Play fit.")
    ] = None,
    n_estimators: Annotated[int, typer.Option(min=1, help="Members of the committee.")] = 30,
    json: JsonFlag = False,
):
    """Classify a real scene with J-Play and with other classifiers, and write a report.

    The folder then holds the committee's class map as a figure, report.html, and the run itself,
    of which `jplay report` makes the page again. Settings that are not given are the defaults.

    For example:

      jplay demo

      jplay demo --data digits -o digits-demo
    """
    from jplay._optional import import_optional

    started = perf_counter()
    # Asked for now, so that a missing package is not found out after the fit.
    figures = import_optional("matplotlib.figure", feature="The demo's figure", extra="plot")
    import_optional("jinja2", feature="The demo's report", extra="report")
    output_dir.mkdir(parents=True, exist_ok=True)
    from jplay._files import scratch_folder
    from jplay.cli._bars import TaskBar
    from jplay.cli._row_report import Judged, depth_points, score_rows, write_row_report
    from jplay.experiments import Experiment, ResultTable, demo_recipe

    recipe = demo_recipe(
        data.value,
        n_train=n_train,
        seed=seed,
        n_components=n_components,
        max_layers=max_layers,
        max_iter=max_iter,
        n_estimators=n_estimators,
    )
    deepest = CHAIN if max_layers == 1 else f"{CHAIN}_{max_layers}"
    with scratch_folder("jplay") as folder:
        experiment = Experiment(recipe, folder, keep_fits=True)
        with TaskBar(status_console(), disable=json) as bar:

            def progress(state):
                bar(state)
                experiment.raise_failures()  # a wrong setting ends the demo at once

            experiment.run(progress=progress)
        table = ResultTable.of(experiment)
        chain = experiment.fitted(experiment.first_task(deepest))
        committee = experiment.fitted(experiment.first_task(SHOWN))
    fit = chain.summary()
    scores = [row for row in score_rows(table) if not row["features"].startswith(f"{CHAIN}_")]
    samples = experiment.divided
    judged = Judged.of(committee, samples, SHOWN)
    train, test = samples.splits[0]
    figure = draw(samples, chain, judged, figures, output_dir / f"{data.value}.png")
    raw = {"n_layers": 0, "1-NN": scores[0]["overall_accuracy"], "built-in": None}
    depth = [raw, *depth_points(table, f"{CHAIN}_m")]
    report = write_row_report(
        experiment,
        chain,
        output_dir,
        title=f"J-Play on {data.full_name}",
        facts={
            "Data": f"{data.full_name}, {len(samples.y)} samples of "
            f"{len(samples.data.target_names)} classes, each divided by its maximum",
            "Split": f"{n_train} training samples per class, 15 of classes with fewer than 100, "
            f"seed {seed}",
            "Settings": "defaults, but the SVM, whose C and gamma are chosen by cross-validation, "
            "and the canonical correlation forest (CCF), which has 100 trees",
            "Inspected": f"subspaces, features and convergence are of J-Play with {max_layers} "
            f"{'layer' if max_layers == 1 else 'layers'}, fitted in {fit['seconds']:.1f} s",
        },
        scores=scores,
        depth=depth,
        judged=judged,
    )
    summary = {
        "data": data.value,
        "seed": seed,
        "n_train": int(train.size),
        "n_test": int(test.size),
        "n_classes": len(samples.data.target_names),
        "layer_sizes": fit["layer_sizes"],
        "solver": "fast",
        "n_iter": fit["n_iter"],
        "converged": fit["converged"],
        "fit_seconds": round(fit["seconds"], 3),
        "scores": scores,
        "depth": depth,
        "map_of": SHOWN,
        "figure": str(figure),
        "report": str(report),
        "seconds": round(perf_counter() - started, 3),
    }
    if json:
        print_json(summary)
    else:
        _print_summary(summary)


def draw(samples, chain, judged, figures, path):
    """Save the class map beside image and ground truth, or the subspaces if there is no map."""
    from jplay import plotting

    data, model, class_map = samples.data, chain.model, judged.class_map
    n_panels = len(model.layer_sizes_) if class_map is None else 3
    figure = figures.Figure(figsize=(4.5 * n_panels, 5.5), layout="constrained")
    axes = figure.subplots(1, n_panels, squeeze=False)[0]
    if class_map is None:
        _, test = samples.splits[0]
        plotting.plot_subspaces(
            model.transform_layers(chain.inputs(samples.X[test])),
            samples.y[test],
            class_names=data.target_names,
            axes=axes,
        )
    else:
        plotting.plot_maps(
            {
                "False colour": plotting.false_color(data.cube, wavelengths=data.wavelengths),
                "Ground truth": data.ground_truth,
                judged.name: class_map,
            },
            class_names=data.target_names,
            axes=axes,
        )
    figure.savefig(path, dpi=150)
    return path


def _print_summary(summary):
    from rich.table import Table

    table = Table(
        title=f"{summary['data']}: {summary['n_test']} test samples of {summary['n_classes']} "
        f"classes, {summary['n_train']} for training"
    )
    table.add_column("Features")
    table.add_column("Dim.", justify="right")
    table.add_column("Classifier")
    for heading in ("OA %", "AA %", "kappa", "fit, s"):
        table.add_column(heading, justify="right")
    best = max(score["overall_accuracy"] for score in summary["scores"])
    for score in summary["scores"]:
        table.add_row(
            score["features"],
            str(score["n_features"]),
            score["classifier"],
            f"{100 * score['overall_accuracy']:.2f}",
            f"{100 * score['average_accuracy']:.2f}",
            f"{score['kappa']:.4f}",
            f"{score['seconds']:.1f}",
            style="bold" if score["overall_accuracy"] == best else None,
        )
    layers = Table(title="J-Play by depth: OA %")
    for heading in ("Layers", "1-NN", "built-in"):
        layers.add_column(heading, justify="right")
    for point in summary["depth"][1:]:
        figures = [f"{100 * point[name]:.2f}" for name in ("1-NN", "built-in")]
        layers.add_row(str(point["n_layers"]), *figures)
    console = results_console()
    console.print(table)
    console.print(layers)
    console.print(f"Everything took {summary['seconds']:.1f} s.")
    console.print(f"Figure: {summary['figure']}", soft_wrap=True)
    console.print(f"Report: {summary['report']}", soft_wrap=True)
