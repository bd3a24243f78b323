"""``jplay predict``: classes of new samples."""

from collections import Counter
from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer

from jplay.cli import _options as options
from jplay.cli._options import check_exists
from jplay.cli._output import (
    ForceFlag,
    JsonFlag,
    print_json,
    refuse_existing,
    results_console,
    status_console,
)
from jplay.cli._reports import PredictionTally, ReportFile, check_report


def predict(
    model: Annotated[Path, typer.Argument(help="Model file that jplay fit wrote.")],
    source: options.TableFile,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="Table to write (.csv, .tsv, .parquet, .xlsx, .npz)."),
    ] = Path("predictions.csv"),
    id: options.Id = None,
    target: Annotated[
        list[str] | None,
        typer.Option(
            help="Column (or array) with the true class, to report the accuracy; repeat it for "
            "several labels."
        ),
    ] = None,
    samples: options.SamplesArray = None,
    with_scores: Annotated[
        bool, typer.Option("--with-scores", help="Add a column with the score of each class.")
    ] = False,
    with_probabilities: Annotated[
        bool,
        typer.Option("--with-probabilities", help="Add a column with each class's probability."),
    ] = False,
    with_features: Annotated[
        bool, typer.Option("--with-features", help="Add the features of the last subspace.")
    ] = False,
    report: ReportFile = None,
    force: ForceFlag = False,
    json: JsonFlag = False,
):
    """Predict the classes of the samples in a table, however long.

    Columns are found by name, in any order; others are left alone.

    For example:

      jplay predict model.skops new.csv -o predictions.csv

      jplay predict model.skops new.parquet --id sample --with-probabilities -o found.parquet
    """
    from jplay.tables import check_table_path, check_written_path, iter_table, write_columns

    started = perf_counter()
    check_exists(model, "model")
    if source.suffix.lower() == ".skops":
        raise ValueError(f"'{source}' is a model. Name the model first, then the table.")
    check_table_path(source)
    check_written_path(output)
    refuse_existing(output, force, inputs=(model, source))
    check_report(report, force, inputs=(model, source))
    from jplay.persistence import load_model

    loaded = load_model(model)
    counts: Counter = Counter()
    tally = None if report is None else PredictionTally(loaded)
    encode, allow_missing = _preparation(loaded.estimator)
    tables = iter_table(
        source,
        target=target or (),
        feature_names=loaded.metadata.feature_names,
        samples=samples,
        ids=id or (),
        encode=encode,
        allow_missing=allow_missing,
    )
    console = status_console()

    def parts():
        for number, table in enumerate(tables):
            _check_width(loaded, table, source)
            for note in table.notes if number == 0 else ():
                console.print(note, highlight=False, markup=False, soft_wrap=True)
            named = hasattr(loaded.estimator, "feature_names_in_")
            X = table.X if named else _as_array(table.X)
            predicted = loaded.predict(X)
            if table.y is not None:
                counts.update(_pairs(table.y, predicted))
            if tally is not None:
                tally.add(X, predicted, table.y)
            columns = {**table.ids, **_prediction_columns(loaded, predicted)}
            if with_scores:
                columns |= _per_class(loaded, "score", loaded.decision_function(X))
            if with_probabilities:
                columns |= _per_class(loaded, "probability", _probabilities(loaded, X))
            if with_features:
                columns |= _feature_columns(loaded, X)
            yield columns

    n_samples = write_columns(output, parts())
    if tally is not None:
        tally.write_report(report, source)
    summary = {
        "model": str(model),
        "source": str(source),
        "predictions": str(output),
        "report": report and str(report),
        "n_samples": n_samples,
        "accuracy": _accuracy(counts) if target else None,
        "seconds": round(perf_counter() - started, 3),
    }
    if json:
        print_json(summary)
    else:
        _print_summary(summary)


def _preparation(estimator):
    """Return the columns that a model encodes, and whether it fills missing values."""
    first = estimator[0] if hasattr(estimator, "steps") else estimator
    kind = type(first).__name__
    if kind != "ColumnTransformer":
        return (), kind == "SimpleImputer"
    (_, _, encode), *_ = first.transformers
    return tuple(encode), type(first.remainder).__name__ == "SimpleImputer"


def _as_array(X):
    return X.to_numpy() if hasattr(X, "to_numpy") else X


def _check_width(loaded, table, source):
    from jplay.exceptions import ModelMismatchError

    if table.X.shape[1] != loaded.n_features:
        raise ModelMismatchError(
            f"The model expects {loaded.n_features} features, '{source}' has {table.X.shape[1]}. "
            "Use the columns it was fitted on."
        )


def _prediction_columns(loaded, predicted):
    if predicted.ndim == 1:
        return {"prediction": predicted}
    names = loaded.metadata.class_names
    return {name: predicted[:, column] for column, name in enumerate(names)}


def _per_class(loaded, prefix, values):
    names = loaded.metadata.class_names
    if values.ndim == 1:
        return {f"{prefix}_{names[1]}": values}
    return {f"{prefix}_{name}": values[:, column] for column, name in enumerate(names)}


def _probabilities(loaded, X):
    if not hasattr(loaded.estimator, "predict_proba"):
        raise ValueError("--with-probabilities needs a model that knows them; this one does not.")
    return _as_array(loaded.estimator.predict_proba(X))


def _feature_columns(loaded, X):
    Z = _as_array(loaded.transform(X))
    return {f"feature_{column}": Z[:, column] for column in range(Z.shape[1])}


def _pairs(y, predicted):
    """Count how often each true class got each predicted one."""
    import numpy as np

    if y.shape != predicted.shape:
        raise ValueError(
            f"--target should name as many columns as the model predicts, got {_width(y)} for "
            f"{_width(predicted)}."
        )
    # Each label of each sample is a decision. Text and numbers are compared as text.
    pairs = np.column_stack([y.ravel().astype(str), predicted.ravel().astype(str)])
    found, counts = np.unique(pairs, axis=0, return_counts=True)
    return dict(zip(map(tuple, found.tolist()), counts.tolist(), strict=True))


def _accuracy(counts):
    from jplay.numerics.metrics import AccuracyReport

    labels = sorted({label for pair in counts for label in pair})
    confusion = [[counts[true, found] for found in labels] for true in labels]
    report = AccuracyReport.from_confusion(confusion, labels=labels).to_dict()
    return {name: report[name] for name in ("overall_accuracy", "average_accuracy", "kappa")}


def _width(labels):
    return labels.shape[1] if labels.ndim == 2 else 1


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
        f"{summary['n_samples']} predictions in {summary['seconds']:.1f} s: "
        f"{summary['predictions']}",
        soft_wrap=True,
        highlight=False,
        markup=False,
    )
    if summary["report"]:
        console.print(f"Report: {summary['report']}", soft_wrap=True, highlight=False, markup=False)
