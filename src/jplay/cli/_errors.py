"""How the command line answers mistakes, warnings and interruptions."""

import sys
import warnings
from contextlib import contextmanager

import typer
from typer.core import TyperGroup

EXIT_MISTAKE = 2
EXIT_INTERRUPTED = 130
USER_MISTAKES = (ValueError, OSError, ImportError)


class CommandGroup(TyperGroup):
    """Commands whose expected errors are one line on stderr and an exit status, not a traceback.

    ``--debug`` counts anywhere on the line, so that it can be appended to a command that failed.
    """

    def parse_args(self, ctx, args):
        command_line = args[: args.index("--")] if "--" in args else args
        ctx.meta["jplay.debug"] = "--debug" in command_line
        kept = [arg for arg in command_line if arg != "--debug"]
        return super().parse_args(ctx, kept + args[len(command_line) :])

    def invoke(self, ctx):
        if ctx.meta["jplay.debug"]:
            return super().invoke(ctx)
        try:
            with warnings_in_one_line():
                return super().invoke(ctx)
        except BrokenPipeError:
            raise
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
    """Print warnings without the source line that raised them."""

    def show(message, category, filename, lineno, file=None, line=None):
        print(f"jplay: warning: {' '.join(str(message).split())}", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield
