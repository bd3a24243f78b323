"""Optional packages, imported where they are needed and with one message when absent."""

from importlib import import_module

from jplay.exceptions import MissingDependencyError


def import_optional(module, *, feature, extra):
    """Import ``module`` or explain which extra brings it.

    Parameters
    ----------
    module : str
        Dotted name of the module.
    feature : str
        What the user asked for, as the subject of the error message.
    extra : str
        Name of the extra of jplay that installs the package.
    """
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise MissingDependencyError(
            f"{feature} needs the package '{package}', which could not be imported ({error}). "
            f"Install it with: pip install 'jplay[{extra}]'"
        ) from error
