"""``jplay ablate``: what each term and constraint of the model brings."""

from dataclasses import asdict, dataclass
from time import perf_counter
from typing import Annotated

import typer

from jplay.cli._demo import DemoData, load_problem
from jplay.cli._output import JsonFlag, print_json, results_console, status_console

PAPER = {"solver": "paper", "max_iter": 20, "inner_max_iter": 200}


@dataclass(frozen=True)
class Outcome:
    """One row of the table; accuracies are fractions, means over the draws."""

    variant: str
    neighbor_accuracy: float
    neighbor_spread: float
    own_accuracy: float
    own_spread: float
    seconds: float


def variants(n_layers):
    """What is taken away, and the settings of JPlay that do it; the complete model first."""
    full = {"n_layers": n_layers}
    return {
        "complete model": full,
        "no reconstruction term": full | {"reconstruction": False},
        "no manifold term (beta = 0)": full | {"beta": 0.0},
        "no ridge (gamma = 0)": full | {"gamma": 0.0},
        "hardly any prediction loss (alpha = 1e-6)": full | {"alpha": 1e-6},
        "no non-negativity": full | {"nonnegative": False},
        "no unit ball": full | {"unit_ball": False},
        "neither constraint": full | {"nonnegative": False, "unit_ball": False},
        "one layer": {"n_layers": 1},
        "one layer, no reconstruction (joint learning)": {"n_layers": 1, "reconstruction": False},
        "published schedule, pre-training": full | PAPER,
        "published schedule, no pre-training": full | PAPER | {"pretraining": False},
    }


def ablate(
    data: Annotated[DemoData, typer.Option(help="What to learn from.")] = DemoData.INDIAN_PINES,
    n_layers: Annotated[int, typer.Option(min=1, help="Layers of the complete model.")] = 3,
    n_components: Annotated[
        int | None, typer.Option(min=1, help="Dimension of the last subspace.")
    ] = None,
    n_train: Annotated[int, typer.Option(min=1, help="Training samples per class.")] = 50,
    repeats: Annotated[int, typer.Option(min=1, help="Draws of the training samples.")] = 3,
    seed: Annotated[int, typer.Option(min=0, help="Of the first draw.")] = 0,
    json: JsonFlag = False,
):
    """Take J-Play apart: accuracy without each term, constraint, layer or pre-training."""
    started = perf_counter()
    problems = [load_problem(data, n_train, seed + draw) for draw in range(repeats)]
    console = status_console()
    outcomes = []
    for name, settings in variants(n_layers).items():
        if not json:
            console.print(f"{name} ...")
        outcomes.append(try_variant(name, settings | {"n_components": n_components}, problems))
    summary = {
        "data": data.value,
        "n_layers": n_layers,
        "n_train": int(problems[0].train.size),
        "n_test": int(problems[0].test.size),
        "repeats": repeats,
        "seed": seed,
        "variants": [asdict(outcome) for outcome in outcomes],
        "seconds": round(perf_counter() - started, 3),
    }
    if json:
        print_json(summary)
    else:
        _print_table(summary, outcomes)


def try_variant(name, settings, problems):
    """Fit one variant to every draw and score it by 1-NN and by its own ``predict``."""
    import warnings

    import numpy as np
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neighbors import KNeighborsClassifier

    from jplay import JPlay

    started = perf_counter()
    scores = []
    for problem in problems:
        X, y, train, test = problem.X, problem.y, problem.train, problem.test
        with warnings.catch_warnings():
            # The published schedule is cut short on purpose: its last iterations change little.
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = JPlay(**settings).fit(X[train], y[train])
        rule = KNeighborsClassifier(1).fit(model.transform(X[train]), y[train])
        scores.append(
            (rule.score(model.transform(X[test]), y[test]), model.score(X[test], y[test]))
        )
    means, spreads = np.mean(scores, axis=0), np.std(scores, axis=0)
    return Outcome(
        variant=name,
        neighbor_accuracy=float(means[0]),
        neighbor_spread=float(spreads[0]),
        own_accuracy=float(means[1]),
        own_spread=float(spreads[1]),
        seconds=round((perf_counter() - started) / len(problems), 3),
    )


def _print_table(summary, outcomes):
    from rich.table import Table

    table = Table(
        title=f"{summary['data']}: {summary['n_train']} training and {summary['n_test']} test "
        f"samples, {summary['repeats']} draws, {summary['n_layers']} layers"
    )
    table.add_column("Variant")
    for heading in ("1-NN OA %", "change", "own OA %", "change", "s"):
        table.add_column(heading, justify="right")
    full = outcomes[0]
    for outcome in outcomes:
        table.add_row(
            outcome.variant,
            f"{100 * outcome.neighbor_accuracy:.1f} ± {100 * outcome.neighbor_spread:.1f}",
            f"{100 * (outcome.neighbor_accuracy - full.neighbor_accuracy):+.1f}",
            f"{100 * outcome.own_accuracy:.1f} ± {100 * outcome.own_spread:.1f}",
            f"{100 * (outcome.own_accuracy - full.own_accuracy):+.1f}",
            f"{outcome.seconds:.1f}",
            style="bold" if outcome is full else None,
        )
    console = results_console()
    console.print(table)
    console.print(f"Everything took {summary['seconds']:.0f} s.")
