"""What commands share to write their results."""

import json
from pathlib import Path
from typing import Annotated

import typer

JsonFlag = Annotated[bool, typer.Option("--json", help="Write one JSON document to stdout.")]
ForceFlag = Annotated[bool, typer.Option("--force", help="Replace files that exist.")]


_verbosity = {"quiet": False, "verbose": False}


def set_verbosity(*, quiet, verbose):
    """Say how much the commands of this process tell beside their results."""
    _verbosity.update(quiet=quiet, verbose=verbose)


def is_quiet():
    return _verbosity["quiet"]


def is_verbose():
    return _verbosity["verbose"]


def refuse_existing(path, force, *, inputs=()):
    """Refuse an output that would replace a file, or whose folder is missing; before any work.

    Parameters
    ----------
    path : path-like or None
        The output; None is not written.
    force : bool
        Whether the user allows that a file is replaced.
    inputs : sequence of path-like or None
        What the command reads, which is not replaced even then.
    """
    if path is None:
        return
    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(
            f"The folder '{path.parent}' does not exist. Create it or write somewhere else."
        )
    if path.is_dir():
        raise IsADirectoryError(
            f"'{path}' is a folder. Give the name of a file to write, for example "
            f"'{path / 'result'}'."
        )
    if not path.exists():
        return
    if any(source is not None and _same_file(path, Path(source)) for source in inputs):
        raise ValueError(f"'{path}' is read by this command. Choose another name for the output.")
    if not force:
        raise FileExistsError(
            f"'{path}' exists. Choose another name, or add --force to replace it."
        )


def _same_file(path, other):
    return other.exists() and path.samefile(other)


def command_line():
    """Return what the user typed, ready to be typed again."""
    import shlex
    import sys

    return shlex.join(["jplay", *sys.argv[1:]])


def print_json(payload):
    typer.echo(json.dumps(payload, indent=2, allow_nan=False))


def results_console():
    """Return the console for results: stdout."""
    from rich.console import Console

    return Console()


def status_console():
    """Return the console for progress and remarks: stderr, so that results can be piped."""
    from rich.console import Console

    return Console(stderr=True, quiet=is_quiet())


def print_detail(text):
    """Print what only ``--verbose`` asks for, to stderr."""
    if is_verbose():
        status_console().print(text, style="dim", highlight=False, markup=False, soft_wrap=True)
