"""Optional packages, imported where they are needed and with one message when absent."""

from importlib import import_module
from pathlib import Path

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
            f"Install it with: {install_command(extra)}, or all that commands need with: "
            f"{install_command('all')}"
        ) from error


def install_command(extra):
    """Return the command that adds an extra to this installation of jplay.

    It names the folder that jplay was installed from, or the package alone if it came from an
    index.
    """
    import json
    from importlib.metadata import PackageNotFoundError, distribution
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    try:
        text = distribution("jplay").read_text("direct_url.json")
    except PackageNotFoundError:
        text = None
    if text is None:  # from an index, or a folder of sources that is not installed
        folder = Path(__file__).parents[2]
        is_clone = (folder / "pyproject.toml").exists()
        return (
            f"pip install -e '{folder}[{extra}]'" if is_clone else f"pip install 'jplay[{extra}]'"
        )
    origin = json.loads(text)
    url = urlsplit(origin["url"])
    if url.scheme != "file":
        return f"pip install 'jplay[{extra}] @ {origin['url']}'"
    place = url2pathname(url.path)
    if place.endswith((".whl", ".tar.gz")) and not Path(place).exists():
        place = "jplay"
    option = "-e " if origin.get("dir_info", {}).get("editable") else ""
    return f"pip install {option}'{place}[{extra}]'"
