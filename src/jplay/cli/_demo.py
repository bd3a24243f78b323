"""``jplay demo``: fit J-Play to real data, compare it with other methods, write a report."""

from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import typer

from jplay.cli._output import JsonFlag, print_json, results_console, status_console


class DemoData(StrEnum):
    """The data sets that need no file."""

    INDIAN_PINES = "indian-pines"
    DIGITS = "digits"

    @property
    def full_name(self):
        return {"indian-pines": "Indian Pines", "digits": "handwritten digits"}[self.value]


@dataclass(frozen=True)
class Problem:
    """Labelled samples, each divided by its maximum, and which of them are for training."""

    X: Any
    y: Any
    class_names: Any
    train: Any
    test: Any
    scene: Any = None
    """The whole image, where the samples are its pixels."""
    image_shape: Any = None
    """Height and width, where each sample is an image."""


@dataclass(frozen=True)
class Score:
    """One row of the table; accuracies are fractions of the test samples."""

    features: str
    n_features: int
    classifier: str
    overall_accuracy: float
    average_accuracy: float
    kappa: float


def demo(
    data: Annotated[DemoData, typer.Option(help="What to learn from.")] = DemoData.INDIAN_PINES,
    output_dir: Annotated[
        Path, typer.Option("--output-dir", "-o", help="Folder of the picture and the report.")
    ] = Path("jplay-demo"),
    seed: Annotated[int, typer.Option(min=0, help="Draws the training samples.")] = 0,
    n_train: Annotated[int, typer.Option(min=1, help="Training samples per class.")] = 50,
    n_components: Annotated[
        int | None, typer.Option(min=1, help="Dimension of the last subspace.")
    ] = None,
    n_layers: Annotated[int | None, typer.Option(min=1, help="Number of projections.")] = None,
    max_iter: Annotated[
        int | None, typer.Option(min=1, help="Most outer iterations of the fit.")
    ] = None,
    json: JsonFlag = False,
):
    """Fit J-Play to a real scene, compare it with PCA and LDA, and write a report to look at.

    The folder then holds the class map as a picture, report.html, and the run itself, of which
    `jplay report` makes the page again. Settings that are not given are those of jplay.JPlay.
    """
    from jplay import JPlay
    from jplay._optional import import_optional
    from jplay.cli._progress import FitProgress

    started = perf_counter()
    # Asked for now, so that a missing package is not found out after the fit.
    figures = import_optional("matplotlib.figure", feature="The demo's picture", extra="plot")
    import_optional("jinja2", feature="The demo's report", extra="report")
    output_dir.mkdir(parents=True, exist_ok=True)
    problem = load_problem(data, n_train, seed)
    settings = {"n_components": n_components, "n_layers": n_layers, "max_iter": max_iter}
    model = JPlay(**{name: value for name, value in settings.items() if value is not None})
    model.set_callbacks(FitProgress(status_console(), disable=json))

    fit_started = perf_counter()
    model.fit(problem.X[problem.train], problem.y[problem.train])
    fit_seconds = perf_counter() - fit_started

    scores = compare(problem, model)
    class_map = None if problem.scene is None else _class_map(problem.scene.cube, model)
    picture = draw(problem, model, class_map, figures, output_dir / f"{data.value}.png")
    facts = {
        "Data": f"{data.full_name}, {len(problem.y)} samples of {len(problem.class_names)} "
        "classes, each divided by its maximum",
        "Split": f"{n_train} training samples per class, 15 of classes with fewer than 100, "
        f"seed {seed}",
        "Time": f"{fit_seconds:.1f} s for the fit",
    }
    report = report_on(problem, model, class_map, scores, facts, output_dir)
    summary = {
        "data": data.value,
        "seed": seed,
        "n_train": int(problem.train.size),
        "n_test": int(problem.test.size),
        "n_classes": len(problem.class_names),
        "layer_sizes": [int(size) for size in model.layer_sizes_],
        "solver": model.solver,
        "n_iter": int(model.n_iter_),
        "converged": bool(model.result_.status.converged),
        "fit_seconds": round(fit_seconds, 3),
        "scores": [asdict(score) for score in scores],
        "picture": str(picture),
        "report": str(report),
        "seconds": round(perf_counter() - started, 3),
    }
    if json:
        print_json(summary)
    else:
        _print_summary(summary, scores)


def load_problem(data, n_train, seed):
    """Load a data set and draw ``n_train`` samples per class, 15 where a class has under 100."""
    from sklearn.preprocessing import Normalizer

    from jplay.datasets import fetch_indian_pines, load_digits, split_per_class

    if data is DemoData.INDIAN_PINES:
        loaded = scene = fetch_indian_pines(split=None)
    else:
        loaded, scene = load_digits(), None
    train, test = split_per_class(loaded.target, n_train, small=15, random_state=seed)
    return Problem(
        X=Normalizer(norm="max").fit_transform(loaded.data),
        y=loaded.target,
        class_names=loaded.target_names,
        train=train,
        test=test,
        scene=scene,
        image_shape=loaded.get("image_shape"),
    )


def compare(problem, model):
    """Score raw samples, PCA, LDA and the fitted J-Play by 1-NN, and J-Play by ``predict``."""
    from sklearn.decomposition import PCA
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    X, y, train, test = problem.X, problem.y, problem.train, problem.test
    n_components = model.components_.shape[0]
    pca = PCA(n_components, random_state=0).fit(X[train])
    lda = LinearDiscriminantAnalysis().fit(X[train], y[train])
    shrunk_lda = LinearDiscriminantAnalysis(solver="eigen", shrinkage="auto").fit(
        X[train], y[train]
    )
    features = {
        "raw": X,
        "PCA": pca.transform(X),
        "LDA": lda.transform(X),
        "LDA, shrinkage": shrunk_lda.transform(X),
        "J-Play": model.transform(X),
    }
    scores = [
        _score(name, Z.shape[1], "1-NN", y[test], _nearest_neighbour(Z[train], y[train], Z[test]))
        for name, Z in features.items()
    ]
    own = _score("J-Play", n_components, "its own", y[test], model.predict(X[test]))
    return [*scores, own]


def _nearest_neighbour(Z_train, y_train, Z_test):
    from sklearn.neighbors import KNeighborsClassifier

    return KNeighborsClassifier(n_neighbors=1).fit(Z_train, y_train).predict(Z_test)


def _score(features, n_features, classifier, y_true, y_pred):
    from jplay.numerics.metrics import AccuracyReport

    report = AccuracyReport.from_labels(y_true, y_pred)
    return Score(
        features=features,
        n_features=int(n_features),
        classifier=classifier,
        overall_accuracy=report.overall_accuracy,
        average_accuracy=report.average_accuracy,
        kappa=report.kappa,
    )


def accuracy_by_depth(problem, model):
    """Fit chains of 1, 2, ... layers up to the model's and score each as ``compare`` does."""
    from sklearn.base import clone

    X, y, train, test = problem.X, problem.y, problem.train, problem.test
    points = []
    for n_layers in range(len(model.layer_sizes_) + 1):
        if n_layers == len(model.layer_sizes_):
            shorter = model
        elif n_layers:
            shorter = clone(model).set_params(n_layers=n_layers)
            shorter.set_callbacks().fit(X[train], y[train])
        Z = shorter.transform(X) if n_layers else X
        nearest = _nearest_neighbour(Z[train], y[train], Z[test])
        points.append(
            {
                "n_layers": n_layers,
                "1-NN": float((nearest == y[test]).mean()),
                "its own": float(shorter.score(X[test], y[test])) if n_layers else None,
            }
        )
    return points


def report_on(problem, model, class_map, scores, facts, folder):
    """Save the run to ``folder`` and write its report there."""
    from jplay.report import record_run, write_report

    run = record_run(
        model,
        problem.X,
        problem.y,
        train=problem.train,
        test=problem.test,
        title=f"J-Play on {facts['Data'].partition(',')[0]}",
        facts=facts,
        class_names=problem.class_names,
        scores=scores,
        depth=accuracy_by_depth(problem, model),
        scene=problem.scene,
        class_map=class_map,
        image_shape=problem.image_shape,
    )
    run.save(folder)
    return write_report(run, folder / "report.html")


def draw(problem, model, class_map, figures, path):
    """Save the class map beside image and ground truth, or the subspaces where there is no map."""
    from jplay import plotting

    n_panels = len(model.layer_sizes_) if problem.scene is None else 3
    figure = figures.Figure(figsize=(4.5 * n_panels, 5.5), layout="constrained")
    axes = figure.subplots(1, n_panels, squeeze=False)[0]
    if problem.scene is None:
        plotting.plot_subspaces(
            model.transform_layers(problem.X[problem.test]),
            problem.y[problem.test],
            class_names=problem.class_names,
            axes=axes,
        )
    else:
        scene = problem.scene
        plotting.plot_maps(
            {
                "False colour": plotting.false_color(scene.cube, wavelengths=scene.wavelengths),
                "Ground truth": scene.ground_truth,
                "J-Play, its own classifier": class_map,
            },
            class_names=problem.class_names,
            axes=axes,
        )
    figure.savefig(path, dpi=150)
    return path


def _class_map(cube, model):
    from sklearn.preprocessing import normalize

    pixels = normalize(cube.reshape(-1, cube.shape[2]), norm="max")
    return model.predict(pixels).reshape(cube.shape[:2])


def _print_summary(summary, scores):
    from rich.table import Table

    sizes = " → ".join(str(size) for size in summary["layer_sizes"])
    ending = "converged" if summary["converged"] else "stopped"
    table = Table(
        title=f"{summary['data']}: {summary['n_test']} test samples of {summary['n_classes']} "
        f"classes, {summary['n_train']} for training"
    )
    table.add_column("Features")
    table.add_column("Dim.", justify="right")
    table.add_column("Classifier")
    for heading in ("OA %", "AA %", "kappa"):
        table.add_column(heading, justify="right")
    for score in scores:
        table.add_row(
            score.features,
            str(score.n_features),
            score.classifier,
            f"{100 * score.overall_accuracy:.2f}",
            f"{100 * score.average_accuracy:.2f}",
            f"{score.kappa:.4f}",
            style="bold" if score.features == "J-Play" else None,
        )
    console = results_console()
    console.print(table)
    console.print(
        f"J-Play with subspaces {sizes} {ending} after {summary['n_iter']} iterations and "
        f"{summary['fit_seconds']:.1f} s; everything took {summary['seconds']:.1f} s."
    )
    console.print(f"Picture: {summary['picture']}", soft_wrap=True)
    console.print(f"Report:  {summary['report']}", soft_wrap=True)
