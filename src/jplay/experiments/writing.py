"""Write what a run found: tables, chosen parameters, figures."""

import csv
import io

from jplay.experiments.figures import draw_figures


def write_results(experiment, table, folder, *, figures=True):
    """Write ``table.md``, ``table.csv``, ``parameters.csv`` and the figures.

    Parameters
    ----------
    experiment : Experiment
        After its run.
    table : Table
    folder : path-like
    figures : bool, default=True

    Returns
    -------
    list of Path
    """
    files = {"table.md": _page(experiment, table), "table.csv": table.to_csv()}
    chosen = experiment.chosen()
    if chosen:
        files["parameters.csv"] = _parameters(chosen)
    written = []
    for name, text in files.items():
        path = folder / name
        path.write_text(text, encoding="utf-8")
        written.append(path)
    return written + (draw_figures(experiment, table, folder) if figures else [])


def _page(experiment, table):
    recipe = experiment.recipe
    records = [*experiment.cell_records(), *experiment.chosen().values()]
    seconds = sum(record["seconds"] for record in records)
    seconds += sum({r["fit"]["seconds"] for r in records if "fit" in r})
    seen = "training" if experiment.scaling == "inductive" else "training and test"
    lines = [f"# {table.title}", "", table.to_markdown()]
    if not table.multilabel:
        lines += [
            "Overall accuracy in percent, mean and standard deviation over the splits where there "
            "are several."
        ]
    lines += [
        f"Features are scaled by {seen} samples. Fits, choices and classification took "
        f"{seconds / 60:.1f} minutes in all, by `jplay reproduce {recipe.name}`.",
        "",
    ]
    lines += [
        f"- failed: {f['method']}, {f['classifier']}, split {f['split'] + 1}: {f['error']}"
        for f in experiment.failures()
    ]
    return "\n".join(lines).rstrip() + "\n"


def _parameters(chosen):
    """One line per choice: what was chosen on which split, its score, and what it cost."""
    names = sorted({name for record in chosen.values() for name in record["result"]["parameters"]})
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["search", "split", *names, "cv_score", "n_fits", "seconds"])
    for (search, split), record in chosen.items():
        result = record["result"]
        values = [result["parameters"].get(name, "") for name in names]
        tail = [round(result["score"], 4), result["n_fits"], round(result["seconds"], 1)]
        writer.writerow([search, split + 1, *values, *tail])
    return stream.getvalue()
