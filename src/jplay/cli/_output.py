"""What commands share to write their results."""

import json
from typing import Annotated

import typer

JsonFlag = Annotated[bool, typer.Option("--json", help="Write one JSON document to stdout.")]


def print_json(payload):
    typer.echo(json.dumps(payload, indent=2, allow_nan=False))


def results_console():
    """Return the console for results: stdout."""
    from rich.console import Console

    return Console()


def status_console():
    """Return the console for progress and remarks: stderr, so that results can be piped."""
    from rich.console import Console

    return Console(stderr=True)
