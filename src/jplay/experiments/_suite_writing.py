"""Write what a suite found: CSV, Markdown and JSON."""

import json
from dataclasses import asdict
from pathlib import Path
from statistics import fmean, stdev

from jplay._files import atomic_path
from jplay._text import csv_text, markdown_text
from jplay.experiments._results import line_of, text_of

BEGIN, END = "<!-- suite: begin -->", "<!-- suite: end -->"
"""Marks of a page between which the tables stand."""
FEWEST_DRAWS = 4
"""Of a problem, from which on its draws are compared one by one."""


def write_suite(table, folder, *, references=(), missing=None, page=None):
    """Write ``suite.md``, ``suite.json``, ``methods.csv``, ``cells.csv`` and ``pairs.csv``.

    Parameters
    ----------
    table : SuiteTable
    folder : path-like
    references : sequence of str
        Rows with which the others are compared, beside the best one.
    missing : dict of str to str, optional
        Why problems or rows were not run, by name.
    page : path-like, optional
        A Markdown page with the marks ``<!-- suite: begin -->`` and ``<!-- suite: end -->``; what
        is between them is replaced by the tables.

    Returns
    -------
    list of Path
    """
    names = [row.name for row in table.rows]
    kept = dict.fromkeys([*names[:1], *(name for name in references if name in names)])
    duels = {name: table.against(name) for name in kept}
    missing = missing or {}
    text = suite_markdown(table, duels, missing)
    files = {
        "suite.md": f"# Suite\n\n{text}",
        "suite.json": json.dumps(suite_document(table, duels, missing), indent=1) + "\n",
        "methods.csv": _csv(_method_lines(table)),
        "cells.csv": _csv(_cell_lines(table)),
        "pairs.csv": _csv(
            [asdict(duel) for against in duels.values() for duel in against.values()]
        ),
    }
    contents = {Path(folder) / name: content for name, content in files.items()}
    if page is not None:
        contents[Path(page)] = _filled(Path(page), text)
    for path, content in contents.items():
        with atomic_path(path) as temporary:
            temporary.write_text(content, encoding="utf-8")
    return list(contents)


def suite_document(table, duels, missing):
    """Return everything as plain values."""
    return {
        "problems": table.problems,
        "methods": _method_lines(table),
        "cells": _cell_lines(table),
        "pairs": [asdict(duel) for against in duels.values() for duel in against.values()],
        "missing": missing,
    }


def suite_markdown(table, duels, missing):
    """Return the tables in Markdown: over all problems, by problem, against the references."""
    return "\n".join(
        [
            f"{len(table.rows)} methods, {len(table.problems)} problems.",
            "",
            *_overview(table),
            "",
            "### Accuracy by problem",
            "",
            *_by_problem(table),
            "",
            "### Row against row",
            "",
            *_pairs(table, duels),
            "",
            *_partitions(table),
            *_thresholds(table, duels),
            *_remarks(table, missing),
        ]
    )


def _overview(table):
    yield from _head(
        ["method", "mean accuracy", "mean rank", "problems", "best on"],
        ["mean ECE", "fit, s", "predict, s"],
    )
    for row in table.rows:
        complete = len(row.accuracies) == len(table.problems)
        yield line_of(
            [
                row.name,
                f"{row.mean:.2f}" + ("" if complete else " *"),
                f"{row.mean_rank:.2f}",
                str(len(row.accuracies)),
                str(row.n_best),
                text_of(row.average("calibration_error"), ".3f"),
                text_of(row.average("training_seconds")),
                text_of(row.average("predict_seconds")),
            ]
        )


def _by_problem(table):
    best = {p: max(row.accuracies.get(p, 0.0) for row in table.rows) for p in table.problems}
    yield from _head(["method"], table.problems)
    for row in table.rows:
        cells = []
        for problem in table.problems:
            value = row.accuracies.get(problem)
            if value is None:
                entry = row.entries.get(problem)
                cells.append("–" if entry is None else entry.why_missing())
            else:
                cells.append(f"**{value:.1f}**" if value == best[problem] else f"{value:.1f}")
        yield line_of([row.name, *cells])


def _pairs(table, duels):
    yield from _head(["method"], [f"against {name}" for name in duels])
    for row in table.rows:
        yield line_of([row.name, *(_duel(against.get(row.name)) for against in duels.values())])


def _partitions(table):
    """Problems of at least four draws: mean and deviation, and differences draw by draw."""
    best = table.rows[0] if table.rows else None
    drawn = [
        problem
        for problem in table.problems
        if max(len(row.entries[problem].by_split) for row in table.rows if problem in row.entries)
        >= FEWEST_DRAWS
    ]
    if not drawn:
        return
    yield f"### Draw by draw, and how much less than {best.name}"
    yield ""
    yield from _head(["method"], drawn)
    for row in table.rows:
        yield line_of([row.name, *(_spread(row, best, problem) for problem in drawn)])
    yield ""


def _thresholds(table, duels):
    """What the first of the references keeps if it leaves doubtful samples open, and how right."""
    rows = {row.name: row for row in table.rows}
    name = next((n for n in duels if any(e.kept for e in rows[n].entries.values())), None)
    if name is None:
        return
    entries = {p: e for p, e in rows[name].entries.items() if p in table.problems and e.kept}
    yield f"### {name} at a threshold of the probability: share kept, its accuracy"
    yield ""
    yield from _head(["threshold"], list(entries))
    for threshold in dict.fromkeys(t for entry in entries.values() for t in entry.kept):
        kept = [entry.kept.get(threshold) for entry in entries.values()]
        yield line_of(
            [threshold, *("–" if k is None else f"{k[0]:.0f} %: {k[1]:.1f}" for k in kept)]
        )
    yield ""


def _spread(row, best, problem):
    entry, reference = row.entries.get(problem), best.entries.get(problem)
    if entry is None or entry.mean is None:
        return "–"
    text = f"{entry.text()} ({len(entry.by_split)})"
    shared = sorted(entry.by_split.keys() & reference.by_split.keys()) if reference else []
    gaps = [100 * (reference.by_split[s] - entry.by_split[s]) for s in shared]
    if row is best or len(gaps) < 2:
        return text
    lost = sum(gap > 0 for gap in gaps)
    return f"{text}; {fmean(gaps):.2f} ± {stdev(gaps):.2f}, {lost} of {len(gaps)}"


def _duel(duel):
    if duel is None:
        return ""
    text = f"{duel.n_better}–{duel.n_equal}–{duel.n_worse}, {duel.mean_difference:+.2f}"
    if duel.p_value is None:
        return text
    return f"{text}, p {duel.p_value:.3f}" if duel.p_value >= 0.0005 else f"{text}, p < 0.001"


def _remarks(table, missing):
    if any(len(row.accuracies) < len(table.problems) for row in table.rows):
        yield "\\* over fewer problems than the other rows; last place where there is no figure."
        yield ""
    for row in table.rows:
        absent = {
            problem: entry.why_missing()
            for problem, entry in row.entries.items()
            if problem in table.problems and entry.mean is None
        }
        if absent:
            reasons = ", ".join(
                f"{problem} ({'no record' if why == '–' else why})"
                for problem, why in absent.items()
            )
            yield f"- not run: {markdown_text(row.name)} on {markdown_text(reasons)}."
    for name, why in missing.items():
        yield f"- not run: {markdown_text(name)}: {markdown_text(why).rstrip('.')}."
    yield ""


def _head(left, right):
    yield line_of([*left, *right])
    yield line_of(["---"] + ["---:"] * (len(left) + len(right) - 1))


def _method_lines(table):
    return [
        {
            "row": row.name,
            "mean_accuracy": row.mean,
            "mean_rank": row.mean_rank,
            "n_problems": len(row.accuracies),
            "n_best": row.n_best,
            "calibration_error": row.average("calibration_error"),
            "fit_seconds": row.average("training_seconds"),
            "predict_seconds": row.average("predict_seconds"),
        }
        for row in table.rows
    ]


def _cell_lines(table):
    return [
        {
            "problem": problem,
            "row": row.name,
            "n_draws": entry.n_splits,
            "accuracy": entry.mean,
            "deviation": entry.deviation,
            "calibration_error": entry.calibration_error,
            "fit_seconds": entry.training_seconds,
            "predict_seconds": entry.predict_seconds,
            "not_run": None if entry.mean is not None else entry.why_missing(),
        }
        for row in table.rows
        for problem, entry in row.entries.items()
        if problem in table.problems
    ]


def _csv(lines):
    return csv_text([list(lines[0]), *(line.values() for line in lines)]) if lines else ""


def _filled(page, text):
    content = page.read_text(encoding="utf-8")
    before, begin, rest = content.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"`page` should hold the marks {BEGIN} and {END}, '{page}' does not.")
    return f"{before}{begin}\n\n{text.strip()}\n\n{end}{after}"
