"""``jplay report``: write the page of a run again."""

from pathlib import Path
from typing import Annotated

import typer

from jplay.cli._options import check_exists
from jplay.cli._output import (
    ForceFlag,
    JsonFlag,
    print_json,
    refuse_existing,
    results_console,
)


def report(
    run: Annotated[Path, typer.Argument(help="Folder of the run: it holds run.json and run.npz.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The page; RUN/report.html by default.")
    ] = None,
    force: ForceFlag = False,
    json: JsonFlag = False,
):
    """Write the HTML report of a run: one file that loads nothing from anywhere.

    For example, after jplay demo --output-dir mine:

      jplay report mine
    """
    check_exists(run, "run")
    if output is not None:
        refuse_existing(output, force)
    from jplay.report import write_report

    path = write_report(run, run / "report.html" if output is None else output)
    if json:
        print_json({"report": str(path), "bytes": path.stat().st_size})
    else:
        results_console().print(f"Report: {path}", soft_wrap=True)
