"""The command ``jplay``."""

import sys

from jplay._optional import import_optional
from jplay.exceptions import MissingDependencyError


def main(args=None):
    """Run the command line; ``args`` default to those of the process."""
    try:
        import_optional("typer", feature="The command jplay", extra="cli")
    except MissingDependencyError as error:
        print(f"jplay: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    from jplay.cli._app import app

    app(args, prog_name="jplay")
