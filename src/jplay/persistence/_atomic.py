"""Files that appear under their name complete or not at all."""

import os
import tempfile
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def atomic_path(path):
    """Give a temporary path beside ``path`` and move it there when the block ends well.

    Whatever ends the block early (an error, a full disk, Ctrl-C) leaves ``path`` as it was. Files
    that a writer puts beside the temporary one under its name plus a suffix (``.aux.xml``) move
    with it.

    Parameters
    ----------
    path : str or path-like
        Where the finished file should be; its folder must exist.

    Yields
    ------
    pathlib.Path
        In the same folder, with the same suffix.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from jplay.persistence import atomic_path
    >>> target = Path(tempfile.mkdtemp()) / "result.txt"
    >>> with atomic_path(target) as temporary:
    ...     _ = temporary.write_text("complete")
    >>> target.read_text()
    'complete'
    """
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(
            f"'{path}' is a folder. Give the name of a file to write, for example "
            f"'{path / 'result'}'."
        )
    if not path.parent.is_dir():
        raise FileNotFoundError(
            f"The folder '{path.parent}' does not exist. Create it or write somewhere else."
        )
    with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as folder:
        temporary = Path(folder) / path.name
        yield temporary
        _flush_to_disk(temporary)
        for part in sorted(Path(folder).glob(f"{temporary.name}.*")):
            os.replace(part, path.parent / part.name)
        os.replace(temporary, path)


def _flush_to_disk(path):
    with path.open("rb") as file:
        os.fsync(file.fileno())
