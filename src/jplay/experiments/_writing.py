"""Write what a run found: tables, chosen parameters, figures."""

from jplay._files import atomic_path
from jplay._text import csv_text, markdown_text
from jplay.experiments._figures import draw_figures
from jplay.experiments._journal import environment
from jplay.experiments._results import line_of


def write_results(experiment, table, folder, *, figures=True, command=None):
    """Write ``table.md``, ``table.csv``, ``parameters.csv``, ``paired.csv`` and the figures.

    Parameters are written if some were chosen, pairs if the recipe names a reference.

    Parameters
    ----------
    experiment : Experiment
        After its run.
    table : ResultTable
    folder : path-like
    figures : bool, default=True
    command : str, optional
        What was run, for the page.

    Returns
    -------
    list of Path
    """
    pairs = _paired(experiment, table)
    files = {"table.md": _page(experiment, table, pairs, command), "table.csv": table.to_csv()}
    chosen = experiment.chosen()
    if chosen:
        files["parameters.csv"] = _parameters(chosen)
    if pairs:
        files["paired.csv"] = _pairs(pairs)
    written = []
    for name, text in files.items():
        path = folder / name
        with atomic_path(path) as temporary:
            temporary.write_text(text, encoding="utf-8")
        written.append(path)
    return written + (draw_figures(experiment, table, folder) if figures else [])


def _paired(experiment, table):
    """Differences from the reference row, if the recipe names one."""
    if experiment.recipe.reference is None:
        return {}
    train, test = experiment.divided.splits[0]
    return table.paired(experiment.recipe.reference, test_ratio=len(test) / len(train))


def _page(experiment, table, pairs, command):
    recipe = experiment.recipe
    records = [*experiment.cell_records(), *experiment.chosen().values()]
    seconds = sum(record["seconds"] for record in records)
    seconds += sum({r["fit"]["seconds"] for r in records if "fit" in r})
    seen = "training" if experiment.scaling == "inductive" else "training and test"
    lines = [f"# {markdown_text(table.title)}", "", table.to_markdown()]
    if not table.multilabel:
        lines += [
            "Overall accuracy in percent, mean and standard deviation over the splits where there "
            "are several."
        ]
    lines += [
        f"Features are scaled by {seen} samples. Fits, choices and classification took "
        f"{seconds / 60:.1f} minutes in all.",
        "",
        *_pair_lines(recipe.reference, pairs),
        *_origin(experiment, command),
        "",
    ]
    lines += [
        markdown_text(
            f"- failed: {f['method']}, {f['classifier']}, split {f['split'] + 1}: {f['error']}"
        )
        for f in experiment.failures()
    ]
    return "\n".join(lines).rstrip() + "\n"


def _pair_lines(reference, pairs):
    """The differences from the reference row that have a p-value, as a table."""
    tested = [
        pair for pair in pairs.values() if pair.p_value is not None and pair.method != reference
    ]
    if not tested:
        return
    yield f"Differences from {reference} on the same splits, in points, with the p-value of the "
    yield "corrected resampled t-test (Nadeau and Bengio 2003):"
    yield ""
    yield line_of(["method", "classifier", "difference", "p"])
    yield line_of(["---"] * 4)
    for pair in tested:
        yield line_of([pair.method, pair.classifier, f"{pair.mean:+.2f}", f"{pair.p_value:.3f}"])
    yield ""


def _origin(experiment, command):
    """What is needed to cite and to repeat the table."""
    known = environment()
    versions = [f"{name} {version}" for name, version in known["packages"].items() if version]
    commit = known["commit"]
    yield "Made with " + ", ".join([*versions, f"Python {known['python']}"]) + "."
    if commit:
        yield f"Commit {commit}."
    if command:
        yield f"Command: `{command}`."
    yield f"Data: {experiment.divided.fingerprint[:12]}, seed {experiment.recipe.seed}."


def _pairs(pairs):
    """One line per row and column: its mean difference from the reference, and every split's."""
    headings = ["method", "classifier", "mean", "better", "equal", "worse", "p_value"]
    rows = [[*headings, "differences"]]
    for pair in pairs.values():
        counts = (pair.n_better, pair.n_equal, pair.n_worse)
        gaps = " ".join(f"{gap:+.4f}" for gap in pair.differences)
        p_value = "" if pair.p_value is None else pair.p_value
        rows.append([pair.method, pair.classifier, pair.mean, *counts, p_value, gaps])
    return csv_text(rows)


def _parameters(chosen):
    """One line per choice: what was chosen on which split, its score, and what it cost."""
    names = sorted({name for record in chosen.values() for name in record["result"]["parameters"]})
    rows = [["search", "split", *names, "cv_score", "n_fits", "seconds"]]
    for (search, split), record in chosen.items():
        result = record["result"]
        values = [result["parameters"].get(name, "") for name in names]
        tail = [round(result["score"], 4), result["n_fits"], round(result["seconds"], 1)]
        rows.append([search, split + 1, *values, *tail])
    return csv_text(rows)
