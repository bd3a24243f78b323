"""``jplay fit``: a model from a table of samples or from the labelled pixels of an image."""

from enum import StrEnum
from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer

from jplay.cli import _options as options
from jplay.cli._options import parse_bands
from jplay.cli._output import (
    ForceFlag,
    JsonFlag,
    print_detail,
    print_json,
    refuse_existing,
    results_console,
    status_console,
)
from jplay.cli._reports import ReportFile, check_report, write_fit_report
from jplay.cli._samples import SampleOptions, gather_samples

__all__ = ["fit", "parse_bands"]


class Method(StrEnum):
    """What is fitted."""

    JPLAY = "jplay"
    LIFTED = "lifted"
    COMMITTEE = "committee"


def fit(
    source: options.SamplesFile,
    output: options.ModelOutput = Path("model.skops"),
    target: options.Target = None,
    group: options.Group = None,
    drop: options.Drop = None,
    id: options.Id = None,
    encode: options.Encode = None,
    impute: options.ImputeOption = None,
    samples: options.SamplesArray = None,
    labels: options.LabelsFile = None,
    field: options.Field = None,
    class_names: options.ClassNames = None,
    bad_bands: options.BadBands = None,
    variable: options.Variable = None,
    max_per_class: options.MaxPerClass = None,
    scale: options.ScaleOption = options.Scale.AUTO,
    method: Annotated[
        Method,
        typer.Option(
            help="The linear model, the lifted one, or the committee: each more accurate and "
            "slower than the one before."
        ),
    ] = Method.JPLAY,
    n_components: Annotated[
        int | None, typer.Option(min=1, help="Dimension of the last subspace.")
    ] = None,
    n_layers: Annotated[int | None, typer.Option(min=1, help="Number of projections.")] = None,
    alpha: Annotated[float | None, typer.Option(help="Weight of the prediction loss.")] = None,
    beta: Annotated[float | None, typer.Option(help="Weight of the manifold term.")] = None,
    gamma: Annotated[float | None, typer.Option(help="Weight of the ridge.")] = None,
    max_iter: Annotated[
        int | None, typer.Option(min=1, help="Maximum number of iterations.")
    ] = None,
    cv: Annotated[
        int, typer.Option(min=0, help="Folds to estimate the accuracy by; 0 leaves it out.")
    ] = 5,
    peers: Annotated[
        bool,
        typer.Option(
            "--peers/--no-peers", help="Estimate shrinkage LDA and a random forest as well."
        ),
    ] = True,
    seed: options.Seed = 0,
    card: Annotated[
        Path | None, typer.Option(help="Write the model card (Markdown) here as well.")
    ] = None,
    report: ReportFile = None,
    force: ForceFlag = False,
    json: JsonFlag = False,
):
    """Fit a model to a table or to the labelled pixels of an image, and save it.

    It ends with the accuracy on samples left out of the fit: whole groups or fields if there are
    any, beside shrinkage LDA and a random forest.

    For example:

      jplay fit train.csv --target species -o model.skops

      jplay fit patients.xlsx --target diagnosis --group patient --id sample --impute median

      jplay fit scene.hdr --labels polygons.gpkg --field class --report model.html
    """
    started = perf_counter()
    given = SampleOptions(
        *(source, target, samples, group, drop, id, encode, impute, scale),
        *(labels, field, class_names, bad_bands, variable, max_per_class, seed),
    )
    given.check()
    if cv == 1:
        raise ValueError("--cv should be 0 (no estimate) or at least 2, got 1.")
    for path in (output, card):
        refuse_existing(path, force, inputs=given.inputs)
    check_report(report, force, inputs=given.inputs)
    weights = {"alpha": alpha, "beta": beta, "gamma": gamma}
    settings = {"n_components": n_components, "n_layers": n_layers, "max_iter": max_iter, **weights}
    settings = {name: value for name, value in settings.items() if value is not None}
    settings = _settings_of(method, settings, seed)
    from jplay._optional import import_optional
    from jplay.cli._bars import StepBar
    from jplay.experiments import estimator_parameters
    from jplay.persistence import model_card, save_model, train_model

    import_optional("skops.io", feature="Saving models", extra="persist")
    console = status_console()
    with (
        StepBar("Reading spectra", console, disable=json) as pixels,
        StepBar("Fitting", console, disable=json) as fits,
    ):
        found = gather_samples(given, pixels)
        for note in found.notes:
            console.print(note, highlight=False, markup=False, soft_wrap=True)
        model = train_model(
            found.X,
            found.y,
            found.estimator(method.value, **estimator_parameters(settings)),
            metadata=found.metadata,
            source=found.origin,
            cv=cv or None,
            groups=found.groups,
            group_name=found.group_name,
            peers=peers,
            random_state=seed,
            progress=fits,
        )
    for name, value in model.metadata.training.items():
        print_detail(f"{name}: {value}")
    print_detail(f"Fitted: {' '.join(str(model.estimator).split())}")
    save_model(model, output)
    if card is not None:
        from jplay._files import atomic_path

        with atomic_path(card) as temporary:
            temporary.write_text(model_card(model), encoding="utf-8")
    if report is not None:
        write_fit_report(report, model, found, given)
    summary = summarize_fit(model, source, output, perf_counter() - started, report)
    if json:
        print_json({**summary, "notes": found.notes})
    else:
        print_fit(summary)


def _settings_of(method, given, seed):
    """The settings of a method, or an error that names one it does not have."""
    allowed = {
        Method.JPLAY: set(given),
        Method.LIFTED: {"n_components", "alpha", "beta", "gamma"},
        Method.COMMITTEE: set(),
    }[method]
    others = [f"--{name.replace('_', '-')}" for name in given if name not in allowed]
    if others:
        raise ValueError(
            f"{others[0]} should be left out with --method {method.value}, which has no such "
            "setting."
        )
    return given if method is Method.JPLAY else {**given, "random_state": seed}


def summarize_fit(model, source, output, seconds, report=None):
    """Return what is said about a fit as plain values."""
    last = model.final_step
    return {
        "source": str(source),
        "model": str(output),
        "report": report and str(report),
        "n_samples": model.metadata.training["n_samples"],
        "n_features": model.n_features,
        "classes": model.metadata.class_names,
        "samples_per_class": model.metadata.training["samples_per_class"],
        **_solver_facts(last),
        "accuracy": model.metadata.accuracy,
        "seconds": round(seconds, 3),
    }


def _solver_facts(last):
    """What only the linear model has to tell."""
    if not hasattr(last, "layer_sizes_"):
        return {"method": type(last).__name__}
    return {
        "method": type(last).__name__,
        "layer_sizes": [int(size) for size in last.layer_sizes_],
        "n_iter": int(last.n_iter_),
        "converged": bool(last.result_.status.converged),
    }


def print_fit(summary):
    """Print the facts of :func:`summarize_fit`."""
    console = results_console()
    told = f"{summary['n_features']} features; {summary['method']}"
    if "layer_sizes" in summary:
        sizes = " → ".join(str(size) for size in [summary["n_features"], *summary["layer_sizes"]])
        ending = "converged" if summary["converged"] else "stopped"
        told = f"features {sizes}; {ending} after {summary['n_iter']} iterations"
    console.print(
        f"{summary['n_samples']} samples of {len(summary['classes'])} classes, {told}, "
        f"{summary['seconds']:.1f} s in all.",
        highlight=False,
        soft_wrap=True,
    )
    if summary["accuracy"]:
        print_accuracy(console, summary["accuracy"])
    for kind in ("model", "report"):
        if summary[kind]:
            told = f"{kind.capitalize()}: {summary[kind]}"
            console.print(told, soft_wrap=True, highlight=False, markup=False)


def print_accuracy(console, facts):
    """Print the figures of :func:`jplay.inspection.estimate_accuracy` as a table, and its notes."""
    from rich.table import Table

    table = Table("", "accuracy", "95 % interval", box=None, padding=(0, 2, 0, 0))
    for position, row in enumerate(facts["compared"]):
        table.add_row(
            row["name"],
            f"{100 * row['overall_accuracy']:.1f} %",
            f"{100 * row['low']:.1f} to {100 * row['high']:.1f} %",
            style=None if position else "bold",
        )
    console.print(f"Accuracy: {facts['method']}.", highlight=False, soft_wrap=True)
    console.print(table)
    for note in facts["notes"]:
        console.print(f"Note: {note}", highlight=False, markup=False, soft_wrap=True)
