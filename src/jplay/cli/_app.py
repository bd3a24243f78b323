"""The application: one line per command, each of which is a module of ``commands``."""

from typing import Annotated

import typer

from jplay import __version__
from jplay.cli._errors import Command, CommandGroup
from jplay.cli.commands.ablate import ablate
from jplay.cli.commands.app import app as app_command
from jplay.cli.commands.assess import assess
from jplay.cli.commands.bands import bands
from jplay.cli.commands.data import data
from jplay.cli.commands.demo import demo
from jplay.cli.commands.fit import fit
from jplay.cli.commands.info import info
from jplay.cli.commands.map import map_image
from jplay.cli.commands.predict import predict
from jplay.cli.commands.report import report
from jplay.cli.commands.reproduce import reproduce
from jplay.cli.commands.sample import sample
from jplay.cli.commands.study import study
from jplay.cli.commands.suite import suite
from jplay.cli.commands.tune import tune

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
            "--version",
            callback=_print_version,
            is_eager=True,
            help="Print the version.",
        ),
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Results and errors only.")] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Tell more about the work.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
):
    """Joint and progressive subspace learning for high-dimensional labelled data.

    --quiet, --verbose and --debug work after a command too.

    For example:

      jplay fit train.csv --target species -o model.skops

      jplay predict model.skops new.csv -o predictions.csv
    """


def _add(command, name=None):
    app.command(name, cls=Command)(command)


_add(fit)
_add(tune)
_add(bands)
_add(predict)
_add(map_image, "map")
_add(sample)
_add(assess)
_add(app_command, "app")
_add(study)
_add(report)
_add(demo)
app.add_typer(data, name="data")
_add(info)
_add(reproduce)
_add(suite)
_add(ablate)
