"""``jplay predict``: classes of new samples."""

from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer

from jplay.cli._output import JsonFlag, print_json, results_console


def predict(
    model: Annotated[Path, typer.Argument(help="Model file that jplay fit wrote.")],
    source: Annotated[Path, typer.Argument(help="Table of samples (CSV, Parquet, NPZ, MAT).")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Table to write (.csv, .tsv, .parquet, .npz).")
    ] = Path("predictions.csv"),
    scores: Annotated[bool, typer.Option("--scores", help="Write the scores as well.")] = False,
    features: Annotated[
        bool, typer.Option("--features", help="Write the features of the last subspace as well.")
    ] = False,
    target: Annotated[
        str | None, typer.Option(help="Column with the true class, to report the accuracy.")
    ] = None,
    json: JsonFlag = False,
):
    """Predict the classes of the samples in a table.

    Columns are found by name, in any order; others are left alone.

    Example:

      jplay predict model.skops new.csv -o predictions.csv
    """
    from jplay.cli._tables import read_table, write_columns
    from jplay.persistence import load_model

    started = perf_counter()
    loaded = load_model(model)
    table = read_table(
        source, target=[target] if target else [], feature_names=loaded.metadata.feature_names
    )
    _check_width(loaded, table, source)
    X = table.X if hasattr(loaded.estimator, "feature_names_in_") else _as_array(table.X)
    predicted = loaded.predict(X)
    columns = _prediction_columns(loaded, predicted)
    if scores:
        columns |= _score_columns(loaded, X)
    if features:
        columns |= _feature_columns(loaded, X)
    write_columns(output, columns)
    summary = {
        "model": str(model),
        "source": str(source),
        "predictions": str(output),
        "n_samples": len(predicted),
        "accuracy": _accuracy(table.y, predicted),
        "seconds": round(perf_counter() - started, 3),
    }
    if json:
        print_json(summary)
    else:
        _print_summary(summary)


def _as_array(X):
    return X.to_numpy() if hasattr(X, "to_numpy") else X


def _check_width(loaded, table, source):
    from jplay.exceptions import ModelMismatchError

    if table.X.shape[1] != loaded.n_features:
        raise ModelMismatchError(
            f"The model wants {loaded.n_features} features, '{source}' has {table.X.shape[1]}. "
            "Use the columns it was fitted on."
        )


def _prediction_columns(loaded, predicted):
    if predicted.ndim == 1:
        return {"prediction": predicted}
    names = loaded.metadata.class_names
    return {name: predicted[:, column] for column, name in enumerate(names)}


def _score_columns(loaded, X):
    values = loaded.decision_function(X)
    names = loaded.metadata.class_names
    if values.ndim == 1:
        return {f"score_{names[1]}": values}
    return {f"score_{name}": values[:, column] for column, name in enumerate(names)}


def _feature_columns(loaded, X):
    Z = _as_array(loaded.transform(X))
    return {f"feature_{column}": Z[:, column] for column in range(Z.shape[1])}


def _accuracy(y, predicted):
    if y is None or predicted.ndim != 1:
        return None
    from jplay.numerics.metrics import AccuracyReport

    if y.dtype.kind != predicted.dtype.kind:
        y, predicted = y.astype(str), predicted.astype(str)
    report = AccuracyReport.from_labels(y, predicted).to_dict()
    return {name: report[name] for name in ("overall_accuracy", "average_accuracy", "kappa")}


def _print_summary(summary):
    console = results_console()
    accuracy = summary["accuracy"]
    if accuracy:
        console.print(
            f"Overall accuracy {100 * accuracy['overall_accuracy']:.2f} %, average accuracy "
            f"{100 * accuracy['average_accuracy']:.2f} %",
            highlight=False,
        )
    console.print(
        f"{summary['n_samples']} predictions: {summary['predictions']}",
        soft_wrap=True,
        highlight=False,
    )
