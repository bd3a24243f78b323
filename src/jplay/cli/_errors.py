"""How the command line answers mistakes, warnings and interruptions, and shows its help."""

import inspect
import sys
import warnings
from contextlib import contextmanager

import typer
from typer.core import TyperCommand, TyperGroup

from jplay.cli import _output

EXIT_MISTAKE = 2
EXIT_INTERRUPTED = 130
USER_MISTAKES = (ValueError, OSError, ImportError)
UsageError = typer.BadParameter.__base__
"""Of click, or of the copy that typer carries."""


ANYWHERE = {
    "--debug": "debug",
    "--quiet": "quiet",
    "-q": "quiet",
    "--verbose": "verbose",
    "-v": "verbose",
}
"""Flags that count wherever they stand on the line, so that they can be appended to it."""


class _Readable:
    """Help in words of people: no type of flags, no Python lists; lines are filled."""

    def get_params(self, ctx):
        params = super().get_params(ctx)
        for param in params:
            if param.metavar is None and getattr(param, "is_flag", False):
                param.metavar = ""
            elif param.metavar is None and getattr(param, "multiple", False):
                param.metavar = "<value>"
        return params

    def format_help(self, ctx, formatter):
        self.help = _filled(self.help)
        super().format_help(ctx, formatter)


def _filled(text):
    """Join the lines of every paragraph that is not an example, which begins with a blank."""
    paragraphs = inspect.cleandoc(text or "").split("\n\n")
    return "\n\n".join(
        part if part.startswith(" ") else " ".join(part.split()) for part in paragraphs
    )


class Command(_Readable, TyperCommand):
    """A command with readable help."""


class Group(_Readable, TyperGroup):
    """Commands of one subject."""


class CommandGroup(Group):
    """Commands whose expected errors are one line on stderr and an exit status, not a traceback."""

    def parse_args(self, ctx, args):
        command_line = args[: args.index("--")] if "--" in args else args
        given = {ANYWHERE[arg] for arg in command_line if arg in ANYWHERE}
        ctx.meta["jplay.debug"] = "debug" in given
        _output.set_verbosity(quiet="quiet" in given, verbose="verbose" in given)
        kept = [arg for arg in command_line if arg not in ANYWHERE]
        return super().parse_args(ctx, kept + args[len(command_line) :])

    def invoke(self, ctx):
        if ctx.meta["jplay.debug"]:
            return super().invoke(ctx)
        try:
            with warnings_in_one_line():
                return super().invoke(ctx)
        except BrokenPipeError:
            raise
        except UsageError as error:
            message = error.format_message().replace("Value error, ", "")
            end = "" if message.endswith((".", "?")) else "."
            path = error.ctx.command_path if error.ctx else ctx.command_path
            typer.echo(f"jplay: {message}{end} See {path} --help.", err=True)
            raise typer.Exit(EXIT_MISTAKE) from None
        except USER_MISTAKES as error:
            typer.echo(f"jplay: {describe(error)}", err=True)
            raise typer.Exit(EXIT_MISTAKE) from None
        except KeyboardInterrupt:
            typer.echo("jplay: interrupted", err=True)
            raise typer.Exit(EXIT_INTERRUPTED) from None


def describe(error):
    """Return the message of an error on one line, with the file where the system names one."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    return " ".join(str(error).split()) or type(error).__name__


@contextmanager
def warnings_in_one_line():
    """Print warnings without the source line that raised them; not at all with ``--quiet``."""

    def show(message, category, filename, lineno, file=None, line=None):
        place = f" ({category.__name__}, {filename}:{lineno})" if _output.is_verbose() else ""
        if not _output.is_quiet():
            print(f"jplay: warning: {' '.join(str(message).split())}{place}", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield
