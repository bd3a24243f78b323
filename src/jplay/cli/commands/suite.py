"""``jplay suite``: many problems, and the methods a user would take instead."""

from pathlib import Path
from typing import Annotated

import typer

from jplay.cli import _comparison as comparison
from jplay.cli._output import JsonFlag, print_json, results_console, status_console


def suite(
    output_dir: comparison.OutputDir = Path("results/suite"),
    scenes: Annotated[
        bool,
        typer.Option(
            "--scenes", help="Compare on scenes, in space as well as spectrum; to results/scenes."
        ),
    ] = False,
    scene: Annotated[
        Path | None,
        typer.Option(
            exists=True, help="Add a scene: .npz or .mat with an image and its labels. [--scenes]"
        ),
    ] = None,
    problems: Annotated[
        list[str] | None,
        typer.Option("--problems", help="Run only these problems; wildcards, repeatable."),
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(help="Run only these rows; wildcards, repeatable.")
    ] = None,
    method: Annotated[
        list[str] | None,
        typer.Option(help="Add a method: package:Class or package:Class(name=value); repeatable."),
    ] = None,
    draws: Annotated[
        int | None,
        typer.Option(
            min=1, help="Draws of training samples, if they are random; 3, for places 10."
        ),
    ] = None,
    jobs: comparison.Jobs = 1,
    resume: comparison.Resume = False,
    rerun: Annotated[
        list[str] | None,
        typer.Option(help="Run these rows again, and no others; wildcards, repeatable."),
    ] = None,
    max_minutes: Annotated[
        float | None, typer.Option(min=0.001, help="Maximum time of one fit.")
    ] = None,
    tables_only: comparison.TablesOnly = False,
    page: Annotated[
        Path | None, typer.Option(help="Markdown page with marks between which the tables go.")
    ] = None,
    show_list: Annotated[
        bool, typer.Option("--list", help="List problems and methods, and what is missing.")
    ] = False,
    json: JsonFlag = False,
):
    """Compare J-Play with other classifiers on many problems.

    The records of a problem go to OUTPUT_DIR/<problem>/records.jsonl; the tables, which hold all
    rows with records, to suite.md, suite.json and .csv files in OUTPUT_DIR.

    For example:

      jplay suite --problems wine --only 'J-Play*'

      jplay suite --resume --method 'sklearn.svm:LinearSVC(C=10.0)'
    """
    import sys

    from jplay.experiments import Suite

    sys.path.insert(0, str(Path.cwd()))  # so that --method finds a module of the user's own
    if scene is not None and not scenes:
        raise ValueError("`--scene` should come with `--scenes`. Add it.")
    if scenes and output_dir == Path("results/suite"):
        output_dir = Path("results/scenes")
    name = "scenes" if scenes else "suite"
    whole = Suite.load(name, n_draws=draws, methods=method or (), scene=scene)
    if show_list:
        _list(whole, json=json)
        return
    part = whole.restricted(problems=problems, rows=rerun or only)
    missing: dict = {}
    if tables_only:
        if not any((output_dir / name / "records.jsonl").exists() for name in whole.problems):
            raise ValueError(
                f"`output_dir` should hold records, but '{output_dir}' has none. Run first."
            )
    else:
        comparison.check_new(part.problems, output_dir, resume=resume or bool(rerun))
        missing = _run(part, output_dir, jobs, rerun, max_minutes, quiet=json)
    _write(whole, output_dir, missing, page, json=json)


def _run(part, output_dir, jobs, rerun, max_minutes, *, quiet):
    """Run some of the suite and return the problems that are missing, and why."""
    from jplay.cli._bars import TaskBar

    with TaskBar(status_console(), disable=quiet) as progress:
        missing = part.run(
            output_dir,
            n_jobs=jobs,
            again=bool(rerun),
            max_seconds=None if max_minutes is None else 60 * max_minutes,
            progress=progress,
        )
    for name, why in missing.items():
        status_console().print(f"{name}: missing. {why}", markup=False, soft_wrap=True)
    return missing


def _write(whole, output_dir, missing, page, *, json):
    """Write and print the tables of all there are records of."""
    from jplay.experiments import write_suite

    table = whole.table(output_dir)
    packages = whole.missing_rows()
    silent = [name for name in whole.problems if name not in table.problems]
    if silent and not missing:
        missing = whole.restricted(problems=silent).missing_problems()
    known = {row.name for row in table.rows}
    absent = {name: missing.get(name, "no record") for name in silent}
    absent |= {n: packages.get(n, "no record") for n in whole.rows if n not in known}
    own = [
        n
        for n, m in whole.rows.items()
        if m.params.get("class", "").startswith("jplay:") or (m.kind == "scene" and not m.params)
    ]
    output_dir.mkdir(parents=True, exist_ok=True)
    written = write_suite(table, output_dir, references=own, missing=absent, page=page)
    if json:
        typer.echo((output_dir / "suite.json").read_text(encoding="utf-8"), nl=False)
        return
    console = results_console()
    text = (output_dir / "suite.md").read_text(encoding="utf-8")
    console.print(text, markup=False, soft_wrap=True)
    for path in written:
        console.print(str(path), markup=False, soft_wrap=True)


def _list(whole, *, json):
    found = {
        "problems": (whole.problems, whole.missing_problems()),
        "methods": (whole.rows, whole.missing_rows()),
    }
    if json:
        print_json({t: {n: absent.get(n) for n in names} for t, (names, absent) in found.items()})
        return
    console = results_console()
    for title, (names, absent) in found.items():
        console.print(title.capitalize(), style="bold")
        for name in names:
            remark = f" (missing: {absent[name]})" if name in absent else ""
            console.print(f"  {name}{remark}", markup=False, highlight=False, soft_wrap=True)
