"""The application: one line per command, each of which lives in a module of its own."""

from typing import Annotated

import typer

from jplay import __version__
from jplay.cli._ablate import ablate
from jplay.cli._assess import assess
from jplay.cli._data import data
from jplay.cli._demo import demo
from jplay.cli._errors import CommandGroup
from jplay.cli._fit import fit
from jplay.cli._info import info
from jplay.cli._map import map_image
from jplay.cli._predict import predict
from jplay.cli._report import report
from jplay.cli._reproduce import reproduce, study
from jplay.cli._tune import tune

app = typer.Typer(
    cls=CommandGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool):
    if wanted:
        typer.echo(f"jplay {__version__}")
        raise typer.Exit()


@app.callback()
def jplay(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
    debug: Annotated[
        bool,
        typer.Option("--debug", help="Show the traceback of an error; works after a command too."),
    ] = False,
):
    """Joint and progressive subspace learning for high-dimensional labelled data."""


app.command()(ablate)
app.add_typer(data, name="data")
app.command()(demo)
app.command()(fit)
app.command()(predict)
app.command("map")(map_image)
app.command()(assess)
app.command()(info)
app.command()(report)
app.command()(reproduce)
app.command()(study)
app.command()(tune)
